"""Evaluate what is constant."""

from __future__ import annotations

from typing import Any

import numpy as np

from staticgraph.errors import GraphError, OpError
from staticgraph.ir.aval import TupleAval
from staticgraph.ir.graph import Graph, Node
from staticgraph.ir.opdef import OPS
from staticgraph.ir.rewrite import Rule, rewrite
from staticgraph.ops import state

from .base import PassContext, graph_pass

LIMIT = 1 << 16                              # bytes: a larger result is not folded, unless it is no larger than its operands


def _fold(b: Any, n: Node) -> Node | None:
    if not n.inputs and n.op is not state.sizes:
        return None
    if any(i.op is not state.const for i in n.inputs) or isinstance(n.aval, TupleAval) or not n.aval.is_static:
        return None
    if any(not isinstance(s, int) for s in n.attr("sizes", ())):
        return None
    count = 1
    for d in n.aval.shape:
        count *= d
    operands = sum(i.attr("value").array.nbytes for i in n.inputs)
    if count * n.dtype.size > max(LIMIT, operands):
        return None
    if count > 1 and n.op.lower is not None and "move" not in n.op.traits and not n.op.is_elementwise and operands < count * n.dtype.size:
        return None                          # a broadcast constant stays a scalar and a stride
    try:
        with np.errstate(all="ignore"):
            value = n.op.ref(*[i.attr("value").array for i in n.inputs], **n.kw)
    except (OpError, GraphError):
        return None                          # a guard that fails must fail at the run, at the user's line
    return b.const(np.asarray(value).astype(n.dtype.np, copy=False), n.dtype)


def fold_rule() -> Rule:
    """One rule for all ops whose reference gives the bits of our kernels."""
    return Rule("fold", tuple(op for op in OPS.values() if op.is_exact and op is not state.const), _fold)


@graph_pass(needs={"pure"}, gives={"folded"})
def fold(g: Graph, context: PassContext) -> Graph:
    """Evaluate exact ops (moves, integers, comparisons, + - * / sqrt, casts) of constants, up to a size; never a draw or an effect.

        %0: f64[] = const(value=array(f64, (), [2.0]))  ->  %0: f64[] = const(value=array(f64, (), [6.0]))
        %1: f64[] = const(value=array(f64, (), [3.0]))   |  return %0
        %2: f64[] = mul(%0, %1)                          |
        return %2                                        |
    """
    from .dce import dce
    return dce(rewrite(g, [fold_rule()], log=context.log), context)
