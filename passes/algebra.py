"""Algebraic rules that keep every bit, NaN, infinities and signed zeros included; those that do not are marked ``fast_math``."""

from __future__ import annotations

from typing import Any

import numpy as np

from staticgraph.ir.graph import Graph, Node
from staticgraph.ir.rewrite import Rule, rewrite, rule
from staticgraph.ops import elementwise as ew
from staticgraph.ops import logic, reduce, shape, state

from .base import PassContext, graph_pass


def constant(n: Node) -> Any:
    """The one value of a constant (also broadcast or reshaped), or None."""
    while n.op in (shape.broadcast_to, shape.reshape):
        n = n.inputs[0]
    if n.op is not state.const:
        return None
    a = n.attr("value").array
    return a.reshape(-1)[0] if a.size == 1 else None


def _is(n: Node, value: float) -> bool:
    c = constant(n)
    return c is not None and c == value and not (value == 0 and np.signbit(c))


def _is_minus_zero(n: Node) -> bool:
    c = constant(n)
    return c is not None and c == 0 and bool(np.signbit(c))


def _as(b: Any, x: Node, node: Node) -> Node:
    return b.broadcast(x, node.shape)


# ---- arithmetic --------------------------------------------------------------------------------------------------------------


@rule(ew.mul)
def times_one(b: Any, n: Node) -> Node | None:
    """x * 1 is x, whatever x is; x * -1 is -x."""
    x, y = n.inputs
    if _is(y, 1):
        return _as(b, x, n)
    if _is(x, 1):
        return _as(b, y, n)
    return b.neg(_as(b, x, n)) if _is(y, -1) and n.dtype.kind != "u" else None


@rule(ew.div)
def over_one(b: Any, n: Node) -> Node | None:
    """x / 1 is x; x / 2**k is x * 2**-k, exactly (where 2**-k is a normal number)."""
    x, y = n.inputs
    if _is(y, 1):
        return _as(b, x, n)
    c = constant(y)
    if c is None or not np.isfinite(c) or c == 0:
        return None
    mantissa, exponent = np.frexp(c)
    if abs(mantissa) == 0.5 and abs(int(exponent)) < 100:
        return b.mul(x, b.broadcast(b.const(np.asarray(1 / c, n.dtype.np), n.dtype), y.shape))
    return None


@rule(ew.mulz)
def mulz_of_finite(b: Any, n: Node) -> Node | None:
    """A strong zero beside a constant finite partial: 1 and -1 cost a sign at most; others are a plain product
    (a zero times a finite number is a zero)."""
    a, d = n.inputs
    c = constant(d)
    if c is None or not np.isfinite(c):
        return None
    if c == 1:
        return _as(b, a, n)
    # mulz(-0.0, d) is +0.0 where mul gives a signed zero: only the sign of a zero differs, and only for a zero cotangent
    return None


@rule(ew.mulz)
def mulz_by_one(b: Any, n: Node) -> Node | None:
    """mulz(1, d) is d: a seed cotangent passes the partial through."""
    a, d = n.inputs
    return _as(b, d, n) if _is(a, 1) else None


@rule(ew.neg)
def double_negation(b: Any, n: Node) -> Node | None:
    """-(-x) is x."""
    x = n.inputs[0]
    return x.inputs[0] if x.op is ew.neg else None


@rule(ew.add)
def add_negated(b: Any, n: Node) -> Node | None:
    """x + (-y) is x - y, bit for bit; x + -0.0 is x; integers drop + 0."""
    x, y = n.inputs
    if _is_minus_zero(y) or (n.dtype.kind in "iu" and _is(y, 0)):
        return _as(b, x, n)
    if y.op is ew.neg:
        return b.sub(x, y.inputs[0])
    return b.sub(y, x.inputs[0]) if x.op is ew.neg else None


@rule(ew.sub)
def sub_negated(b: Any, n: Node) -> Node | None:
    """x - (-y) is x + y; x - 0.0 is x (0.0 - 0.0 is 0.0, and -0.0 - 0.0 is -0.0)."""
    x, y = n.inputs
    if _is(y, 0):
        return _as(b, x, n)
    return b.add(x, y.inputs[0]) if y.op is ew.neg else None


@rule(logic.where)
def constant_where(b: Any, n: Node) -> Node | None:
    """where with a constant condition, or with equal branches, is one of them."""
    c, x, y = n.inputs
    if x is y:
        return _as(b, x, n)
    value = constant(c)
    return None if value is None else _as(b, x if value else y, n)


@rule(logic.logical_not)
def double_not(b: Any, n: Node) -> Node | None:
    """not not x is x."""
    x = n.inputs[0]
    return x.inputs[0] if x.op is logic.logical_not else None


@rule(reduce.sum_, reduce.prod, reduce.max_, reduce.min_, reduce.any_, reduce.all_)
def reduce_nothing(b: Any, n: Node) -> Node | None:
    """A reduction over axes of size 1 only changes the shape (sum turns -0.0 to 0.0: it keeps to ints and to max, min ...)."""
    from staticgraph.ops.helpers import normalize_axes
    x = n.inputs[0]
    axes = normalize_axes(n.attr("axis"), len(x.shape))
    if all(x.shape[k] == 1 for k in axes) and (n.op is not reduce.sum_ or n.dtype.kind != "f"):
        return b.reshape(x, shape=n.shape) if x.shape != n.shape else x
    return None


# ---- allowed only with fast_math ------------------------------------------------------------------------------------------------


@rule(ew.log, fast_math=True)
def log_of_exp(b: Any, n: Node) -> Node | None:
    """log(exp(x)) is x, overflow aside."""
    x = n.inputs[0]
    return x.inputs[0] if x.op is ew.exp else None


@rule(ew.mul, fast_math=True)
def times_zero(b: Any, n: Node) -> Node | None:
    """x * 0 is 0, NaN and infinities aside."""
    x, y = n.inputs
    return b.zeros(n.aval) if _is(x, 0) or _is(y, 0) else None


@rule(ew.sub, fast_math=True)
def minus_itself(b: Any, n: Node) -> Node | None:
    """x - x is 0, NaN and infinities aside."""
    return b.zeros(n.aval) if n.inputs[0] is n.inputs[1] else None


@rule(ew.add, fast_math=True)
def plus_zero(b: Any, n: Node) -> Node | None:
    """x + 0.0 is x, the sign of a zero aside."""
    x, y = n.inputs
    return _as(b, x, n) if _is(y, 0) else _as(b, y, n) if _is(x, 0) else None


RULES: tuple[Rule, ...] = tuple(v for v in list(globals().values()) if isinstance(v, Rule))


@graph_pass(needs={"pure"}, gives={"simplified"})
def algebra(g: Graph, context: PassContext) -> Graph:
    """Simplify by the rules of this file.

        %0: f32[3] = input(aval=aval('f32[3]'), index=0)  ->  %0: f32[3] = input(aval=aval('f32[3]'), index=0)
        %1: f32[3] = neg(%0)                               |  %1: f32[3] = sub(%0, %0)
        %2: f32[3] = add(%0, %1)                           |  return %1
        return %2                                          |
    """
    from .dce import dce
    return dce(rewrite(g, RULES, fast_math=context.fast_math, log=context.log), context)
