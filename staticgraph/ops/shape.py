"""Ops that only move elements: reshape, transpose, broadcast, slice, reverse, pad, concat, tile and kin.

Views (reshape, transpose, broadcast, slice, reverse) cost no copy where their user reads through strides.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import ShapeError
from ..ir.aval import Aval, Dim, Size, assume_at_most, assume_equal, product
from ..ir.opdef import Loops, OpDef, View, define
from .helpers import Sample, batched, f64, linear_jvp, may_equal, move_axis, normalize_axes, normalize_axis, same_dtype, shape_text

_MOVES = frozenset({"exact", "linear"})


# ---- reshape ---------------------------------------------------------------------------------------------------------------


def _reshape_infer(x: Aval, *, shape: tuple[Size, ...]) -> Aval:
    known = [s for s in shape if s != -1]
    if len(shape) - len(known) > 1:
        raise ShapeError(f"Cannot reshape {x} to {shape_text(shape)}: more than one -1")
    if len(known) < len(shape):
        raise ShapeError("reshape needs every size; resolve -1 with ops.shape.resolve_shape")
    total, want = x.size, product(shape)
    assume_equal(total, want)
    if isinstance(total, int) and isinstance(want, int) and total != want:
        raise ShapeError(f"Cannot reshape a tensor with {total} elements to shape {shape_text(shape)} ({want} elements)")
    return Aval(tuple(shape), x.dtype)


def resolve_shape(x: Aval, shape: Sequence[Size]) -> tuple[Size, ...]:
    """``shape`` with its -1 replaced by the size that keeps the number of elements. ShapeError where there is none."""
    shape = tuple(shape)
    if -1 not in shape:
        return shape
    rest = product(s for s in shape if s != -1)
    total = x.size
    if rest == 0:
        if total == 0:
            return tuple(0 if s == -1 else s for s in shape)
        raise ShapeError(f"Cannot reshape {x} to {shape_text(shape)}")
    if isinstance(total, int) and isinstance(rest, int) and total % rest:
        raise ShapeError(f"Cannot reshape a tensor with {total} elements to shape {shape_text(shape)}: "
                         f"{total} is not a multiple of {rest}")
    return tuple(total // rest if s == -1 else s for s in shape)


reshape: OpDef = define(OpDef(
    "reshape", _reshape_infer, lambda x, *, shape: np.reshape(x, shape),
    lambda b, ct, y, x, *, shape: [b.reshape(ct, shape=x.aval.shape)], linear_jvp(lambda: reshape),
    lambda b, size, ins, dims, *, shape: (b.reshape(move_axis(b, ins[0], dims[0], 0), shape=(size, *shape)), 0),
    View(lambda v, out, *, shape: v.reshape(shape)),
    lambda rng: [Sample((rng.normal(size=(3, 4)),), {"shape": (2, 6)}), Sample((rng.normal(size=(6,)),), {"shape": (2, 1, 3)}),
                 Sample((rng.normal(size=(1,)),), {"shape": ()}), Sample((np.zeros((0, 3)),), {"shape": (3, 0, 2)}, grad=False)],
    (((f64(4),), {"shape": (3,)}, "Cannot reshape a tensor with 4 elements to shape [3] (3 elements)"),), _MOVES,
    doc="The same elements in row-major order under another shape."))


# ---- transpose -------------------------------------------------------------------------------------------------------------


def _transpose_infer(x: Aval, *, perm: tuple[int, ...]) -> Aval:
    if sorted(perm) != list(range(x.ndim)):
        raise ShapeError(f"perm {perm} is not a permutation of the axes of {x}")
    return Aval(tuple(x.shape[p] for p in perm), x.dtype)


def inverse(perm: Sequence[int]) -> tuple[int, ...]:
    """The inverse permutation."""
    out = [0] * len(perm)
    for k, p in enumerate(perm):
        out[p] = k
    return tuple(out)


transpose: OpDef = define(OpDef(
    "transpose", _transpose_infer, lambda x, *, perm: np.transpose(x, perm),
    lambda b, ct, y, x, *, perm: [b.transpose(ct, perm=inverse(perm))], linear_jvp(lambda: transpose),
    lambda b, size, ins, dims, *, perm: (b.transpose(ins[0], perm=(dims[0], *(p + (p >= dims[0]) for p in perm))), 0),
    View(lambda v, out, *, perm: v.permute(perm)),
    lambda rng: [Sample((rng.normal(size=(3, 4)),), {"perm": (1, 0)}), Sample((rng.normal(size=(2, 3, 4)),), {"perm": (2, 0, 1)}),
                 Sample((rng.normal(size=(33, 17)).astype("f4"),), {"perm": (1, 0)}, grad=False),
                 Sample((np.float64(2.0),), {"perm": ()})],
    (((f64(3, 4),), {"perm": (0, 0)}, "is not a permutation"),), _MOVES, doc="Axes in another order."))


# ---- broadcast_to ----------------------------------------------------------------------------------------------------------


def _broadcast_infer(x: Aval, *, shape: tuple[Size, ...]) -> Aval:
    lead = len(shape) - x.ndim
    if lead < 0 or any(s != 1 and not may_equal(s, t) for s, t in zip(x.shape, shape[lead:])):
        raise ShapeError(f"Incompatible shapes: {shape_text(x.shape)} does not broadcast to {shape_text(shape)}")
    return Aval(tuple(shape), x.dtype)


def _broadcast_vmap(b: Any, size: Size, ins: Any, dims: Any, *, shape: tuple[Size, ...]) -> Any:
    x = move_axis(b, ins[0], dims[0], 0)
    old = x.aval.shape
    x = b.reshape(x, shape=(size, *(1,) * (len(shape) - len(old) + 1), *old[1:]))
    return b.broadcast_to(x, shape=(size, *shape)), 0


broadcast_to: OpDef = define(OpDef(
    "broadcast_to", _broadcast_infer, lambda x, *, shape: np.array(np.broadcast_to(x, shape)),
    lambda b, ct, y, x, *, shape: [b.sum_to(ct, x.aval.shape)], linear_jvp(lambda: broadcast_to), _broadcast_vmap,
    View(lambda v, out, *, shape: v.broadcast(shape)),
    lambda rng: [Sample((rng.normal(size=(4,)),), {"shape": (3, 4)}), Sample((rng.normal(size=(3, 1)),), {"shape": (2, 3, 4)}),
                 Sample((np.float64(1.5),), {"shape": (2, 2)}), Sample((np.zeros((1,)),), {"shape": (0,)}, grad=False)],
    (((f64(3),), {"shape": (4,)}, "does not broadcast to"),), _MOVES, doc="NumPy's broadcasting to a given shape."))


# ---- slice -----------------------------------------------------------------------------------------------------------------


def slice_count(start: int, stop: int, step: int) -> int:
    """Elements of ``range(start, stop, step)``."""
    return len(range(start, stop, step))


def _slice_infer(x: Aval, *, starts: tuple[Size, ...], sizes: tuple[Size, ...], steps: tuple[int, ...]) -> Aval:
    if not len(starts) == len(sizes) == len(steps) == x.ndim:
        raise ShapeError(f"slice of {x} needs {x.ndim} starts, sizes and steps, got {starts}, {sizes}, {steps}")
    bounds: Any = zip(x.shape, starts, sizes, steps)
    for axis, (d, a, n, s) in enumerate(bounds):
        if s == 0:
            raise ShapeError(f"slice of {x}: the step of axis {axis} is 0")
        if n != 0:
            assume_at_most(0, a if s > 0 else a + (n - 1) * s)
            assume_at_most(a + (n - 1) * s + 1 if s > 0 else a + 1, d)
        if all(isinstance(v, int) for v in (d, a, n)) and n != 0:
            last = a + (n - 1) * s
            if not (0 <= a < d and 0 <= last < d) or n < 0:
                raise ShapeError(f"slice index {a if not 0 <= a < d else last} of dimension {axis} out of bounds of {x}")
    return Aval(tuple(sizes), x.dtype)


def _slice_ref(x: Any, *, starts: Any, sizes: Any, steps: Any) -> Any:
    # a view: the define-by-run mode writes through it
    ends = [a + n * s for a, n, s in zip(starts, sizes, steps)]
    return np.asarray(x)[tuple(slice(a, e if e >= 0 else None, s) if n else slice(0, 0) for a, e, n, s in zip(starts, ends, sizes, steps))]


def _slice_vjp(b: Any, ct: Any, y: Any, x: Any, *, starts: Any, sizes: Any, steps: Any) -> list[Any]:
    reverse = tuple(k for k, s in enumerate(steps) if s < 0)
    if reverse:
        ct = b.reverse(ct, axis=reverse)
    before, after, between = [], [], []
    for k, (d, a, n, s) in enumerate(zip(x.aval.shape, starts, sizes, steps)):
        a = 0 if isinstance(n, int) and n == 0 else a + (n - 1) * s if s < 0 else a
        gap = abs(s) - 1
        if gap and isinstance(n, Dim):       # which may be 0: there is no last element to end at
            ct, a, n, gap = _spaced(b, ct, k, a, n, gap, d), 0, d, 0
        before.append(a)
        after.append(d - a - (n + (n - 1) * gap if gap and n != 0 else n))
        between.append(gap)
    return [b.pad(ct, before=tuple(before), after=tuple(after), between=tuple(between), value=0.0)]


def _spaced(b: Any, ct: Any, k: int, start: Size, n: Size, gap: int, length: Size) -> Any:
    """``length`` places along axis k: the elements of ``ct`` from ``start`` on with ``gap`` zeros after each, as far as they go."""
    shape = ct.aval.shape
    zeros = [0] * len(shape)
    rows = b.pad(b.expand_dims(ct, axis=k + 1), before=(0, *zeros), after=(*zeros[:k + 1], gap, *zeros[k + 1:]), between=(0, *zeros), value=0.0)
    line = b.reshape(rows, shape=(*shape[:k], n * (gap + 1), *shape[k + 1:]))
    wide = b.pad(line, before=(*zeros[:k], start, *zeros[k + 1:]), after=(*zeros[:k], length, *zeros[k + 1:]), between=tuple(zeros), value=0.0)
    return b.slice(wide, starts=tuple(zeros), sizes=(*shape[:k], length, *shape[k + 1:]), steps=(1,) * len(shape))


def _slice_vmap(b: Any, size: Size, ins: Any, dims: Any, *, starts: Any, sizes: Any, steps: Any) -> Any:
    x = move_axis(b, ins[0], dims[0], 0)
    return b.slice(x, starts=(0, *starts), sizes=(size, *sizes), steps=(1, *steps)), 0


slice_: OpDef = define(OpDef(
    "slice", _slice_infer, _slice_ref, _slice_vjp, linear_jvp(lambda: slice_), _slice_vmap,
    View(lambda v, out, *, starts, sizes, steps: v.slice(starts, sizes, steps)),
    lambda rng: [Sample((rng.normal(size=(5, 4)),), {"starts": (1, 0), "sizes": (2, 4), "steps": (2, 1)}),
                 Sample((rng.normal(size=(5,)),), {"starts": (4,), "sizes": (3,), "steps": (-2,)}),
                 Sample((rng.normal(size=(40,)).astype("f4"),), {"starts": (1,), "sizes": (19,), "steps": (2,)}, grad=False),
                 Sample((rng.normal(size=(3, 4)),), {"starts": (0, 0), "sizes": (0, 4), "steps": (1, 1)}, grad=False),
                 Sample((np.zeros((0, 2)),), {"starts": (-1, 1), "sizes": (0, 2), "steps": (-1, -1)}),
                 Sample((rng.normal(size=(3,)),), {"starts": (7,), "sizes": (0,), "steps": (2,)})],
    (((f64(3),), {"starts": (2,), "sizes": (2,), "steps": (1,)}, "slice index 3 of dimension 0 out of bounds"),
     ((f64(3),), {"starts": (0,), "sizes": (2,), "steps": (0,)}, "the step of axis 0 is 0")), _MOVES,
    doc="Elements start + k * step, k < size, per axis; steps may be negative."))


def _reverse_infer(x: Aval, *, axis: tuple[int, ...]) -> Aval:
    normalize_axes(axis, x.ndim)
    return x


reverse: OpDef = define(OpDef(
    "reverse", _reverse_infer, lambda x, *, axis: np.flip(x, axis),
    lambda b, ct, y, x, *, axis: [b.reverse(ct, axis=axis)], linear_jvp(lambda: reverse),
    lambda b, size, ins, dims, *, axis: (b.reverse(move_axis(b, ins[0], dims[0], 0),
                                                   axis=tuple(a + 1 for a in normalize_axes(axis, len(ins[0].aval.shape) - 1))), 0),
    View(lambda v, out, *, axis: v.reverse(normalize_axes(axis, len(v.shape)))),
    lambda rng: [Sample((rng.normal(size=(3, 4)),), {"axis": (1,)}), Sample((rng.normal(size=(3, 20)),), {"axis": (0, 1)}, grad=False)],
    (((f64(3),), {"axis": (1,)}, "axis 1 of a 1-dimensional"),), _MOVES, doc="Reversed along axes."))


# ---- pad -------------------------------------------------------------------------------------------------------------------


def _pad_infer(x: Aval, *, before: tuple[Size, ...], after: tuple[Size, ...], between: tuple[int, ...], value: Any) -> Aval:
    if not len(before) == len(after) == len(between) == x.ndim:
        raise ShapeError(f"pad of {x} needs {x.ndim} amounts, got {before}, {after}, {between}")
    shape = []
    for d, p, q, g in zip(x.shape, before, after, between):
        assume_at_most(0, p)
        assume_at_most(0, q)
        if any(isinstance(v, int) and v < 0 for v in (p, q, g)):
            raise ShapeError(f"pad of {x}: negative amounts {before}, {after}, {between}")
        shape.append((d + (d - 1) * g if g and d != 0 else d) + p + q)
    return Aval(tuple(shape), x.dtype)


def _pad_ref(x: Any, *, before: Any, after: Any, between: Any, value: Any) -> Any:
    x = np.asarray(x)
    spread = [d + (d - 1) * g if g and d else d for d, g in zip(x.shape, between)]
    out = np.full([p + s + q for p, s, q in zip(before, spread, after)], value, x.dtype)
    out[tuple(slice(p, p + s, g + 1) for p, s, g in zip(before, spread, between))] = x
    return out


def _pad_vjp(b: Any, ct: Any, y: Any, x: Any, *, before: Any, after: Any, between: Any, value: Any) -> list[Any]:
    return [b.slice(ct, starts=tuple(before), sizes=x.aval.shape, steps=tuple(g + 1 for g in between))]


def _pad_jvp(b: Any, ts: Any, y: Any, x: Any, **attrs: Any) -> Any:
    return b.pad(ts[0], **{**attrs, "value": 0.0})


pad = define(OpDef(
    "pad", _pad_infer, _pad_ref, _pad_vjp, _pad_jvp,
    lambda b, size, ins, dims, *, before, after, between, value: (b.pad(
        move_axis(b, ins[0], dims[0], 0), before=(0, *before), after=(0, *after), between=(0, *between), value=value), 0),
    Loops(lambda k, out, x, *, before, after, between, value: k.pad(out, x, before, between, value)),
    lambda rng: [Sample((rng.normal(size=(3, 4)),), {"before": (1, 0), "after": (0, 2), "between": (0, 0), "value": 0.0}),
                 Sample((rng.normal(size=(3,)),), {"before": (1,), "after": (2,), "between": (2,), "value": 1.5}),
                 Sample((np.array([1, 2], "i4"),), {"before": (1,), "after": (1,), "between": (0,), "value": 7}, grad=False),
                 Sample((np.zeros((0, 2)),), {"before": (2, 0), "after": (0, 0), "between": (0, 0), "value": 3.0}, grad=False)],
    (((f64(3),), {"before": (-1,), "after": (0,), "between": (0,), "value": 0.0}, "negative amounts"),), frozenset({"exact"}),
    doc="``value`` around (before, after) and between the elements of each axis."))


# ---- concat ----------------------------------------------------------------------------------------------------------------


def _concat_infer(*xs: Aval, axis: int) -> Aval:
    if not xs:
        raise ShapeError("concat of nothing")
    dtype = same_dtype(*xs)
    k = normalize_axis(axis, xs[0].ndim)
    total: Size = 0
    for x in xs:
        if x.ndim != xs[0].ndim or any(i != k and not may_equal(p, q) for i, (p, q) in enumerate(zip(x.shape, xs[0].shape))):
            raise ShapeError(f"Dimensions of inputs should match: shape[0] = {shape_text(xs[0].shape)} vs. {shape_text(x.shape)} "
                             f"(axis {axis})")
        total = total + x.shape[k]
    return Aval((*xs[0].shape[:k], total, *xs[0].shape[k + 1:]), dtype)


def _concat_vjp(b: Any, ct: Any, y: Any, *xs: Any, axis: int) -> list[Any]:
    k = normalize_axis(axis, len(y.aval.shape))
    out, at = [], 0
    for x in xs:
        out.append(b.slice(ct, starts=tuple(at if i == k else 0 for i in range(len(x.aval.shape))), sizes=x.aval.shape,
                           steps=(1,) * len(x.aval.shape)))
        at = at + x.aval.shape[k]
    return out


def _concat_vmap(b: Any, size: Size, ins: Any, dims: Any, *, axis: int) -> Any:
    rank = max(len(x.aval.shape) - (d is not None) for x, d in zip(ins, dims))
    return b.concat(*[batched(b, x, d, size) for x, d in zip(ins, dims)], axis=normalize_axis(axis, rank) + 1), 0


concat: OpDef = define(OpDef(
    "concat", _concat_infer, lambda *xs, axis: np.concatenate(xs, axis), _concat_vjp, linear_jvp(lambda: concat), _concat_vmap,
    Loops(lambda k, out, *xs, axis: k.concat(out, xs, axis)),
    lambda rng: [Sample((rng.normal(size=(2, 3)), rng.normal(size=(2, 4))), {"axis": 1}),
                 Sample((rng.normal(size=(2, 3)), rng.normal(size=(1, 3)), rng.normal(size=(2, 3))), {"axis": -2}),
                 Sample((np.array([1, 2], "f8"),), {"axis": 0}),
                 Sample((np.zeros((2, 0)), np.ones((2, 3))), {"axis": 1}, grad=False)],
    (((f64(2, 3), f64(3, 3)), {"axis": 1}, "Dimensions of inputs should match"),
     ((f64(2), f64(2)), {"axis": 1}, "axis 1 of a 1-dimensional")), _MOVES, doc="Joined along an axis."))


# ---- composed --------------------------------------------------------------------------------------------------------------


def _composed(name: str, infer: Any, ref: Any, build: Any, samples: Any, errors: Any, doc: str) -> OpDef:
    """A move made of others: its rules are those of what it is built from (linear in its inputs together)."""
    from .composed import composed
    return composed(name, infer, ref, build, samples, errors, doc, traits=_MOVES)


def _expand_infer(x: Aval, *, axis: int) -> Aval:
    k = normalize_axis(axis, x.ndim + 1)
    return Aval((*x.shape[:k], 1, *x.shape[k:]), x.dtype)


expand_dims = _composed(
    "expand_dims", _expand_infer, lambda x, *, axis: np.expand_dims(x, axis),
    lambda b, x, *, axis: b.reshape(x, shape=_expand_infer(x.aval, axis=axis).shape),
    lambda rng: [Sample((rng.normal(size=(3, 4)),), {"axis": 1}), Sample((rng.normal(size=(3,)),), {"axis": -1})],
    (((f64(3),), {"axis": 3}, "axis 3 of a 2-dimensional"),), "A new axis of size 1.")


def _squeeze_infer(x: Aval, *, axis: tuple[int, ...] | None = None) -> Aval:
    axes = normalize_axes(axis, x.ndim) if axis is not None and axis != () else tuple(k for k, d in enumerate(x.shape) if d == 1)
    for k in axes:
        if x.shape[k] != 1:
            raise ShapeError(f"Can not squeeze dim[{k}], expected a dimension of 1, got {x.shape[k]}")
    return Aval(tuple(d for k, d in enumerate(x.shape) if k not in axes), x.dtype)


squeeze = _composed(
    "squeeze", _squeeze_infer, lambda x, *, axis=None: np.squeeze(x, axis or None),
    lambda b, x, *, axis=None: b.reshape(x, shape=_squeeze_infer(x.aval, axis=axis).shape),
    lambda rng: [Sample((rng.normal(size=(3, 1, 4, 1)),), {"axis": None}), Sample((rng.normal(size=(1, 3, 1)),), {"axis": (2,)})],
    (((f64(2, 3),), {"axis": (0,)}, "Can not squeeze dim[0], expected a dimension of 1, got 2"),), "Axes of size 1 removed.")


def _aval(x: Any) -> Aval:
    from ..dtypes import as_dtype
    return Aval(np.shape(x), as_dtype(np.asarray(x).dtype))


def _stack_infer(*xs: Aval, axis: int) -> Aval:
    if not xs:
        raise ShapeError("stack of nothing")
    for x in xs:
        if x.ndim != xs[0].ndim or not all(may_equal(p, q) for p, q in zip(x.shape, xs[0].shape)):
            raise ShapeError(f"Dimensions of inputs should match: {shape_text(xs[0].shape)} vs. {shape_text(x.shape)}")
    k = normalize_axis(axis, xs[0].ndim + 1)
    return Aval((*xs[0].shape[:k], len(xs), *xs[0].shape[k:]), same_dtype(*xs))


stack = _composed(
    "stack", _stack_infer, lambda *xs, axis: np.stack(xs, axis),
    lambda b, *xs, axis: b.concat(*[b.expand_dims(x, axis=normalize_axis(axis, len(x.aval.shape) + 1)) for x in xs],
                                  axis=normalize_axis(axis, len(xs[0].aval.shape) + 1)),
    lambda rng: [Sample((rng.normal(size=(3,)), rng.normal(size=(3,))), {"axis": 0}),
                 Sample((rng.normal(size=(2, 3)), rng.normal(size=(2, 3))), {"axis": -1})],
    (((f64(2), f64(3)), {"axis": 0}, "Dimensions of inputs should match"),), "Joined along a new axis.")


def _tile_infer(x: Aval, *, multiples: tuple[Size, ...]) -> Aval:
    if len(multiples) != x.ndim:
        raise ShapeError(f"tile of {x} needs {x.ndim} multiples, got {multiples}")
    return Aval(tuple(d * m for d, m in zip(x.shape, multiples)), x.dtype)


def _tile_build(b: Any, x: Any, *, multiples: tuple[Size, ...]) -> Any:
    shape = x.aval.shape
    apart = tuple(v for d in shape for v in (1, d))
    spread = tuple(v for d, m in zip(shape, multiples) for v in (m, d))
    y = b.broadcast_to(b.reshape(x, shape=apart), shape=spread)
    return b.reshape(y, shape=tuple(d * m for d, m in zip(shape, multiples)))


tile = _composed(
    "tile", _tile_infer, lambda x, *, multiples: np.tile(x, multiples), _tile_build,
    lambda rng: [Sample((rng.normal(size=(2, 3)),), {"multiples": (2, 1)}), Sample((rng.normal(size=(3,)),), {"multiples": (3,)}),
                 Sample((rng.normal(size=(3,)),), {"multiples": (0,)}, grad=False)],
    (((f64(2),), {"multiples": (1, 2)}, "needs 1 multiples"),), "Repeated along each axis.")

