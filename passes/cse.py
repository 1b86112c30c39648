"""Merge equal nodes."""

from __future__ import annotations

from staticgraph.ir.graph import Graph
from staticgraph.ir.rewrite import rewrite

from .base import PassContext, graph_pass


@graph_pass(gives={"merged"})
def cse(g: Graph, context: PassContext) -> Graph:
    """Nodes of one op, the same inputs and the same attributes are one (it keeps both lines). Draws of different streams,
    variables and effects are never merged.

        %0: f32[3] = input(aval=aval('f32[3]'), index=0)  ->  %0: f32[3] = input(aval=aval('f32[3]'), index=0)
        %1: f32[3] = sin(%0)                               |  %1: f32[3] = sin(%0)
        %2: f32[3] = sin(%0)                               |  %2: f32[3] = mul(%1, %1)
        %3: f32[3] = mul(%1, %2)                           |  return %2
        return %3                                          |
    """
    return rewrite(g)
