"""Composed ops become what they are made of."""

from __future__ import annotations

from typing import Any

from staticgraph.ir.aval import TupleAval
from staticgraph.ir.graph import Graph, Node
from staticgraph.ir.opdef import OPS, Decompose
from staticgraph.ir.rewrite import Rule, rewrite
from staticgraph.ops import state

from .base import PassContext, graph_pass


def _expand(b: Any, node: Node) -> Node | None:
    lower = node.op.lower
    assert isinstance(lower, Decompose)
    if isinstance(node.aval, TupleAval):
        return None                          # its outputs are taken apart by ``get``, see below
    result: Node = lower.build(b, *node.inputs, **node.kw)
    return result


def _expand_output(b: Any, node: Node) -> Node | None:
    """An output of a composed op with several: built once for all of them."""
    source = node.inputs[0]
    lower = source.op.lower
    if not isinstance(lower, Decompose):
        return None
    if source not in b.memo:
        b.memo[source] = lower.build(b, *source.inputs, **source.kw)
    result: Node = b.memo[source][node.attr("index")]
    return result


def expand_rules() -> list[Rule]:
    """The rules for all composed ops."""
    return [Rule("expand", tuple(op for op in OPS.values() if isinstance(op.lower, Decompose)), _expand), Rule("expand", (state.get,), _expand_output)]


@graph_pass(needs={"pure"}, gives={"expanded"})
def expand(g: Graph, context: PassContext) -> Graph:
    """Replace composed ops by their composition; gradients have been taken by then, so their own rules were used.

        %0: f32[3] = input(aval=aval('f32[3]'), index=0)  ->  %0: f32[3] = input(aval=aval('f32[3]'), index=0)
        %1: f32[1,3] = expand_dims(%0, axis=0)             |  %1: f32[1,3] = reshape(%0, shape=(1, 3))
        return %1                                          |  return %1
    """
    return rewrite(g, expand_rules())
