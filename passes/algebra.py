"""Algebraic rules that keep every bit, NaN, infinities and signed zeros included; those that do not are marked ``fast_math``."""

from __future__ import annotations

from typing import Any

import numpy as np

from staticgraph.ir.graph import Graph, Node
from staticgraph.ir.rewrite import Rule, rewrite, rule
from staticgraph.ops import elementwise as ew
from staticgraph.ops import linalg, logic, reduce, shape, state

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


# ---- moves -----------------------------------------------------------------------------------------------------------------


@rule(state.identity, state.stop_gradient)
def drop_identity(b: Any, n: Node) -> Node | None:
    """identity(x) is x once gradients are taken."""
    return n.inputs[0]


@rule(shape.reshape)
def reshape_of_reshape(b: Any, n: Node) -> Node | None:
    """Only the last shape counts; the same shape is no move at all."""
    x = n.inputs[0]
    if x.shape == n.shape:
        return x
    return b.reshape(x.inputs[0], shape=n.shape) if x.op is shape.reshape else None


@rule(shape.transpose)
def transpose_of_transpose(b: Any, n: Node) -> Node | None:
    """Permutations compose; the identity permutation is no move."""
    perm, x = n.attr("perm"), n.inputs[0]
    if perm == tuple(range(len(perm))):
        return x
    if x.op is shape.transpose:
        inner = x.attr("perm")
        return b.transpose(x.inputs[0], perm=tuple(inner[p] for p in perm))
    return None


@rule(shape.broadcast_to)
def broadcast_of_broadcast(b: Any, n: Node) -> Node | None:
    """Only the last shape counts; the same shape is no move."""
    x = n.inputs[0]
    if x.shape == n.shape:
        return x
    return b.broadcast_to(x.inputs[0], shape=n.shape) if x.op is shape.broadcast_to else None


@rule(shape.slice_)
def full_slice(b: Any, n: Node) -> Node | None:
    """A slice of everything is no move."""
    x = n.inputs[0]
    whole = n.shape == x.shape and all(a == 0 for a in n.attr("starts")) and all(s == 1 for s in n.attr("steps"))
    return x if whole else None


@rule(shape.concat)
def concat_of_one(b: Any, n: Node) -> Node | None:
    """concat of one value is that value."""
    return n.inputs[0] if len(n.inputs) == 1 else None


@rule(shape.pad)
def empty_pad(b: Any, n: Node) -> Node | None:
    """A pad by nothing is no move."""
    return n.inputs[0] if n.shape == n.inputs[0].shape and all(g == 0 for g in n.attr("between")) else None


@rule(shape.reverse)
def reverse_of_reverse(b: Any, n: Node) -> Node | None:
    """Reversing the same axes twice is no move."""
    x = n.inputs[0]
    return x.inputs[0] if x.op is shape.reverse and x.attrs == n.attrs else None


# ---- arithmetic --------------------------------------------------------------------------------------------------------------


@rule(ew.add, ew.mul, ew.maximum, ew.minimum, logic.equal, logic.not_equal)
def constant_right(b: Any, n: Node) -> Node | None:
    """Canonical order of commutative ops: the constant on the right. (maximum keeps NaN either way.)"""
    x, y = n.inputs
    if x.op is state.const and y.op is not state.const:
        return b.call(n.op, y, x)
    return None


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


@rule(logic.cast)
def drop_cast(b: Any, n: Node) -> Node | None:
    """A cast to the same dtype is no cast."""
    return n.inputs[0] if n.inputs[0].dtype == n.dtype else None


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


@rule(linalg.matmul)
def absorb_transpose(b: Any, n: Node) -> Node | None:
    """A transpose of the last two axes becomes the product's flag."""
    for side, flag in ((0, "transpose_a"), (1, "transpose_b")):
        x = n.inputs[side]
        if x.op is not shape.transpose:
            continue
        perm = x.attr("perm")
        rank = len(perm)
        if rank >= 2 and perm == (*range(rank - 2), rank - 1, rank - 2):
            ins = list(n.inputs)
            ins[side] = x.inputs[0]
            return b.matmul(*ins, **{**n.kw, flag: not n.attr(flag)})
    return None


@rule(linalg.matmul)
def merge_batch(b: Any, n: Node) -> Node | None:
    """A batch of rows against one matrix is one taller product (bits of a product do not depend on its height)."""
    x, y = n.inputs
    if n.attr("transpose_a") or len(x.shape) < 3 or len(y.shape) != 2:
        return None
    rows = b.reshape(x, shape=(_product(x.shape[:-1]), x.shape[-1]))
    return b.reshape(b.matmul(rows, y, transpose_a=False, transpose_b=n.attr("transpose_b")), shape=n.shape)


def _product(sizes: Any) -> Any:
    from staticgraph.ir.aval import product
    return product(sizes)


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
