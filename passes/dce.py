"""Drop what nothing needs."""

from __future__ import annotations

from staticgraph.ir import walk
from staticgraph.ir.graph import Graph
from staticgraph.ir.rewrite import rewrite

from .base import PassContext, graph_pass


@graph_pass(gives={"live"})
def dce(g: Graph, context: PassContext) -> Graph:
    """Keep the nodes that an output or an effect needs. (Gradient rules make adjoints of inputs nobody asked for.)

        %0: f32[3] = input(aval=aval('f32[3]'), index=0)  ->  %0: f32[3] = input(aval=aval('f32[3]'), index=0)
        %1: f32[3] = exp(%0)                               |  %1: f32[3] = sin(%0)
        %2: f32[3] = sin(%0)                               |  return %1
        return %2                                          |
    """
    roots = [*g.outputs, *(n for n in g.nodes if n.has_effect)]
    return rewrite(g, keep=walk.ancestors(roots))
