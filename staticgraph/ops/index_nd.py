"""Indexing by tuples, by batches and by run-time starts, and matrices made of positions: all are rows of a flattened value.

Each op computes the numbers of the rows it touches (guarded component by component) and hands them to ``take``, ``rows_add`` or ``rows_set``,
whose rules it inherits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..dtypes import DType, int64
from ..errors import InvalidArgumentError, ShapeError
from ..ir.aval import Aval, Size, assume_at_most, product
from ..ir.opdef import OPS
from .composed import composed
from .helpers import Sample, f64, i32, may_equal, normalize_axis, same_dtype, shape_text, static_size
from .index import _as_scalar, _check_indices, _ref_inside, inside
from .state import effect_on_variable

# ---- gather with batch axes -----------------------------------------------------------------------------------------------------


def _batch_infer(x: Aval, i: Aval, *, axis: int = -1, batch_dims: int = 1, negative: str = "wrap") -> Aval:
    _check_indices(i)
    k = normalize_axis(axis, x.ndim)
    if not 0 <= batch_dims <= min(k, i.ndim):
        raise ShapeError(f"batch_dims = {batch_dims} must lie between 0 and min(axis = {k}, rank of indices = {i.ndim})")
    if not all(map(may_equal, x.shape[:batch_dims], i.shape[:batch_dims])):
        raise ShapeError(f"the first {batch_dims} axes of {x} and {i} must be equal")
    return Aval((*x.shape[:k], *i.shape[batch_dims:], *x.shape[k + 1:]), x.dtype)


def _batch_build(b: Any, x: Any, i: Any, *, axis: int = -1, batch_dims: int = 1, negative: str = "wrap") -> Any:
    rank = len(x.aval.shape)
    k = normalize_axis(axis, rank)
    batch, n = x.aval.shape[:batch_dims], x.aval.shape[k]
    safe = b.cast(inside(b, i, n, negative), dtype=int64)
    # the axis right after the batch, so that (batch, axis) is one run of rows
    perm = (*range(batch_dims), k, *range(batch_dims, k), *range(k + 1, rank))
    rows = b.reshape(b.transpose(x, perm=perm), shape=(product(batch) * n, *(x.aval.shape[p] for p in perm[batch_dims + 1:])))
    offset = b.mul(b.reshape(b.iota(shape=(product(batch),), axis=0, dtype=int64), shape=(*batch, *(1,) * (len(i.aval.shape) - batch_dims))),
                   _as_scalar(b, n, int64))
    y = b.take(rows, b.add(safe, offset), axis=0)
    m, between = len(i.aval.shape), k - batch_dims
    return b.transpose(y, perm=(*range(batch_dims), *range(m, m + between), *range(batch_dims, m), *range(m + between, len(y.aval.shape))))


def _batch_ref(x: Any, indices: Any, *, axis: int = -1, batch_dims: int = 1, negative: str = "wrap") -> Any:
    x, indices = np.asarray(x), np.asarray(indices)
    k = axis % x.ndim
    safe = _ref_inside(indices, x.shape[k], negative)
    out = np.empty((*x.shape[:k], *safe.shape[batch_dims:], *x.shape[k + 1:]), x.dtype)
    for at in np.ndindex(x.shape[:batch_dims]):
        out[at] = np.take(x[at], safe[at], axis=k - batch_dims)
    return out


gather_batch = composed(
    "gather_batch", _batch_infer, _batch_ref, _batch_build, lambda rng: [
        Sample((rng.normal(size=(2, 4)), np.array([[0, 3, 3], [1, -4, 2]])), {"axis": 1, "batch_dims": 1}),
        Sample((rng.normal(size=(2, 3, 5, 2)), rng.integers(0, 5, (2, 4)).astype("i4")), {"axis": 2, "batch_dims": 1}),
        Sample((rng.normal(size=(2, 3, 4)), rng.integers(0, 4, (2, 3))), {"axis": 2, "batch_dims": 2}),
        Sample((rng.normal(size=(2, 3, 4)), rng.integers(0, 3, (2, 2, 2))), {"axis": 1, "batch_dims": 1}),
        Sample((rng.normal(size=(3, 2)), np.array([2, 0])), {"axis": 0, "batch_dims": 0}),
        Sample((rng.normal(size=(0, 3)), np.zeros((0, 2), np.int64)), {"axis": 1, "batch_dims": 1}, grad=False)],
    (((f64(2, 3), i32(2, 2)), {"axis": 0, "batch_dims": 1}, "batch_dims = 1 must lie between"), ((f64(2, 3), i32(3, 2)), {"axis": 1, "batch_dims": 1}, "must be equal"),
     ((f64(2, 3), f64(2, 2)), {}, "indices must be integers")),
    "x at indices along an axis, batch by batch: the first ``batch_dims`` axes of x and indices go together.")


# ---- indices that are tuples ----------------------------------------------------------------------------------------------------


def _flat_rows(b: Any, shape: Sequence[Size], i: Any, negative: str) -> Any:
    """Row numbers of index tuples (the last axis of ``i``) into the leading axes of ``shape``."""
    depth = static_size(i.aval.shape[-1], "the length of an index tuple")
    lead = i.aval.shape[:-1]
    total = None
    for k in range(depth):
        starts, sizes = (*(0 for _ in lead), k), (*lead, 1)
        part = b.reshape(b.slice(i, starts=starts, sizes=sizes, steps=(1,) * len(sizes)), shape=lead)
        part = b.cast(inside(b, part, shape[k], negative), dtype=int64)
        total = part if total is None else b.add(b.mul(total, _as_scalar(b, shape[k], int64)), part)
    return b.full(Aval(lead, int64), 0) if total is None else total


def _ref_flat_rows(shape: Sequence[int], i: Any, negative: str) -> Any:
    i = np.asarray(i)
    total = np.zeros(i.shape[:-1], np.int64)
    for k in range(i.shape[-1]):
        total = total * shape[k] + _ref_inside(i[..., k], shape[k], negative)
    return total


def _check_tuples(x: Aval, i: Aval) -> int:
    _check_indices(i)
    if i.ndim < 1:
        raise ShapeError(f"indices must hold index tuples along their last axis, got {i}")
    depth = static_size(i.shape[-1], "the length of an index tuple")
    if depth > x.ndim:
        raise ShapeError(f"index tuples of length {depth} are longer than the rank of {x}")
    return depth


def _nd_infer(x: Aval, i: Aval, *, negative: str = "wrap") -> Aval:
    depth = _check_tuples(x, i)
    return Aval((*i.shape[:-1], *x.shape[depth:]), x.dtype)


def _nd_build(b: Any, x: Any, i: Any, *, negative: str = "wrap") -> Any:
    shape = x.aval.shape
    depth = static_size(i.aval.shape[-1], "the length of an index tuple")
    return b.take(b.reshape(x, shape=(product(shape[:depth]), *shape[depth:])), _flat_rows(b, shape, i, negative), axis=0)


def _nd_ref(x: Any, indices: Any, *, negative: str = "wrap") -> Any:
    x, depth = np.asarray(x), np.shape(indices)[-1]
    return np.take(x.reshape(int(np.prod(x.shape[:depth])), *x.shape[depth:]), _ref_flat_rows(x.shape, indices, negative), axis=0)


gather_nd = composed(
    "gather_nd", _nd_infer, _nd_ref, _nd_build, lambda rng: [
        Sample((rng.normal(size=(3, 4)), np.array([[0, 3], [2, -1], [0, 3]])), {}), Sample((rng.normal(size=(3, 4)), np.array([[[0], [-3]]], np.int32)), {}),
        Sample((rng.normal(size=(2, 3, 4)), np.array([1, 2])), {}), Sample((rng.normal(size=(2, 3)), np.zeros((2, 0), np.int64)), {}),
        Sample((rng.normal(size=(2, 3)), np.zeros((0, 2), np.int64)), {}, grad=False)],
    (((f64(3), i32(2, 2)), {}, "longer than the rank"), ((f64(3), i32()), {}, "along their last axis"), ((f64(3), f64(2, 1)), {}, "indices must be integers")),
    "Elements (or slices) of x at index tuples along the last axis of indices.")


def _check_updates(x: Aval, i: Aval, u: Aval) -> Aval:
    depth = _check_tuples(x, i)
    same_dtype(x, u)
    want = (*i.shape[:-1], *x.shape[depth:])
    if len(want) != u.ndim or not all(map(may_equal, want, u.shape)):
        raise ShapeError(f"updates must have shape {shape_text(want)}, got {u}")
    return x


def _write_nd(name: str, rows: str, doc: str) -> None:
    add = rows == "rows_add"

    def build(b: Any, x: Any, i: Any, u: Any, *, negative: str = "wrap") -> Any:
        shape = x.aval.shape
        depth = static_size(i.aval.shape[-1], "the length of an index tuple")
        flat = b.reshape(x, shape=(product(shape[:depth]), *shape[depth:]))
        return b.reshape(getattr(b, rows)(flat, _flat_rows(b, shape, i, negative), u), shape=shape)

    def ref(x: Any, indices: Any, updates: Any, *, negative: str = "wrap") -> Any:
        out, depth = np.array(x), np.shape(indices)[-1]
        flat = out.reshape(int(np.prod(out.shape[:depth])), *out.shape[depth:])
        at = _ref_flat_rows(out.shape, indices, negative).reshape(-1)
        values = np.asarray(updates).reshape(at.size, *out.shape[depth:])
        for row, value in zip(at, values):
            flat[row] = flat[row] + value if add else value
        return out
    composed(name, lambda x, indices, updates, *, negative="wrap": _check_updates(x, indices, updates), ref, build, lambda rng: [
        Sample((rng.normal(size=(3, 4)), np.array([[0, 3], [2, 1], [0, 3]]), rng.normal(size=(3,))), {}),
        Sample((rng.normal(size=(3, 4)), np.array([[[0], [-1]]], np.int32), rng.normal(size=(1, 2, 4))), {}),
        Sample((rng.normal(size=(2, 3)), np.zeros((0, 1), np.int64), np.zeros((0, 3))), {}, grad=False)],
        (((f64(3, 4), i32(2, 1), f64(2, 3)), {}, "updates must have shape [2,4]"), ((f64(3), i32(2, 2), f64(2)), {}, "longer than the rank")), doc)


_write_nd("scatter_nd_add", "rows_add", "x with updates added at index tuples, in order; an index out of range fails the run.")
_write_nd("scatter_nd_update", "rows_set", "x with elements (or slices) replaced at index tuples, the last update winning.")


def _variable_nd(name: str, tf_name: str, step: Any, doc: str) -> None:
    effect_on_variable(name, tf_name, step, lambda v, i, u: OPS["scatter_nd_update" if name.endswith("update") else "scatter_nd_add"].ref(
        v, i, -u if name.endswith("sub") else u), infer=lambda v, i, u: _check_updates(v, i, u), doc=doc)


_variable_nd("variable_scatter_nd_add", "ScatterNdAdd", lambda b, v, i, u: b.scatter_nd_add(v, i, u, negative="refuse"), "Adds at index tuples of a variable; gives the whole new value.")
_variable_nd("variable_scatter_nd_sub", "ScatterNdSub", lambda b, v, i, u: b.scatter_nd_add(v, i, b.neg(u), negative="refuse"),
             "Subtracts at index tuples of a variable; gives the whole new value.")
_variable_nd("variable_scatter_nd_update", "ScatterNdUpdate", lambda b, v, i, u: b.scatter_nd_update(v, i, u, negative="refuse"),
             "Replaces at index tuples of a variable; gives the whole new value.")


# ---- slices with run-time starts --------------------------------------------------------------------------------------------------


def _start_rows(b: Any, shape: Sequence[Size], starts: Any, sizes: Sequence[Size]) -> tuple[Any, int]:
    """Numbers of the touched rows, and how many leading axes the rows leave out: up to the last axis that is not taken whole."""
    cut = 1 + max((k for k, (n, m) in enumerate(zip(shape, sizes)) if n != m), default=0)
    total = None
    for k in range(len(shape)):
        one = b.reshape(b.slice(starts, starts=(k,), sizes=(1,), steps=(1,)), shape=())
        room = _as_scalar(b, shape[k] - sizes[k], one.aval.dtype)
        ok = b.logical_and(b.greater_equal(one, b.like(one, 0)), b.less_equal(one, room))
        safe = b.guard(one, ok, message=f"starts[{k}] = {{a}} is not in [0, {{limit}}]", limit=shape[k] - sizes[k], fill=0)
        if k >= cut:                         # the start can only be 0: adding it keeps the guard
            total = b.add(total, b.cast(safe, dtype=int64))
            continue
        line = (*(1,) * k, sizes[k], *(1,) * (cut - k - 1))
        place = b.add(b.iota(shape=line, axis=k, dtype=int64), b.cast(safe, dtype=int64))
        total = place if total is None else b.add(b.mul(total, _as_scalar(b, shape[k], int64)), place)
    return total, cut


def _check_starts(x: Aval, starts: Aval, sizes: Sequence[Size]) -> None:
    if starts.dtype.kind not in "iu" or starts.ndim != 1 or not may_equal(starts.shape[0], x.ndim):
        raise ShapeError(f"starts must be {x.ndim} integers, got {starts}")
    for n, m in zip(x.shape, sizes):
        assume_at_most(m, n)
    if len(sizes) != x.ndim or any(isinstance(n, int) and isinstance(m, int) and not 0 <= m <= n for n, m in zip(x.shape, sizes)):
        raise ShapeError(f"a slice of shape {shape_text(sizes)} does not fit into {x}")


def _dynamic_infer(x: Aval, starts: Aval, *, sizes: tuple[Size, ...]) -> Aval:
    _check_starts(x, starts, sizes)
    return Aval(tuple(sizes), x.dtype)


def _dynamic_build(b: Any, x: Any, starts: Any, *, sizes: tuple[Size, ...]) -> Any:
    shape = x.aval.shape
    if not shape:
        return b.identity(x)
    rows, cut = _start_rows(b, shape, starts, sizes)
    return b.take(b.reshape(x, shape=(product(shape[:cut]), *shape[cut:])), rows, axis=0)


def _ref_window(x: Any, starts: Any, sizes: Any) -> tuple[slice, ...]:
    for k, (s, n, m) in enumerate(zip(starts, np.shape(x), sizes)):
        if not 0 <= s <= n - m:
            raise InvalidArgumentError(None, None, f"starts[{k}] = {s} is not in [0, {n - m}]")
    return tuple(slice(int(s), int(s) + m) for s, m in zip(starts, sizes))


dynamic_slice = composed(
    "dynamic_slice", _dynamic_infer, lambda x, starts, *, sizes: np.array(np.asarray(x)[_ref_window(x, starts, sizes)]), _dynamic_build, lambda rng: [
        Sample((rng.normal(size=(4, 5)), np.array(s, np.int32)), {"sizes": z}) for s, z in (([1, 2], (2, 3)), ([3, 0], (1, 5)), ([0, 4], (4, 1)), ([0, 0], (4, 5)))] + [
        Sample((rng.normal(size=(3, 2, 4)), np.array([1, 0, 1])), {"sizes": (2, 2, 2)}), Sample((rng.normal(size=(3,)), np.array([3])), {"sizes": (0,)}, grad=False)],
    (((f64(3), i32(2)), {"sizes": (1,)}, "starts must be 1 integers"), ((f64(3), i32(1)), {"sizes": (4,)}, "does not fit into")),
    "The slice of constant ``sizes`` that begins at the tensor ``starts``; a start out of range fails the run.")


def _update_build(b: Any, x: Any, u: Any, starts: Any) -> Any:
    shape = x.aval.shape
    if not shape:
        return b.identity(u)
    rows, cut = _start_rows(b, shape, starts, u.aval.shape)
    return b.reshape(b.rows_set(b.reshape(x, shape=(product(shape[:cut]), *shape[cut:])), rows, u), shape=shape)


def _update_ref(x: Any, update: Any, starts: Any) -> Any:
    out = np.array(x)
    out[_ref_window(out, starts, np.shape(update))] = update
    return out


def _update_infer(x: Aval, update: Aval, starts: Aval) -> Aval:
    same_dtype(x, update)
    _check_starts(x, starts, update.shape)
    return x


dynamic_update_slice = composed(
    "dynamic_update_slice", _update_infer, _update_ref, _update_build, lambda rng: [
        Sample((rng.normal(size=(4, 5)), rng.normal(size=z), np.array(s, np.int32))) for s, z in (([1, 2], (2, 3)), ([3, 0], (1, 5)), ([0, 0], (4, 5)))] + [
        Sample((rng.normal(size=(3,)), np.zeros((0,)), np.array([1])), grad=False)],
    (((f64(3), f64(4), i32(1)), {}, "does not fit into"), ((f64(3), f64(1), i32(2)), {}, "starts must be 1 integers")),
    "x with the slice that begins at the tensor ``starts`` replaced; a start out of range fails the run.")


# ---- matrices by position -----------------------------------------------------------------------------------------------------------


def _positions(b: Any, shape: tuple[Size, ...]) -> tuple[Any, Any]:
    rank = len(shape)
    row = b.iota(shape=(*(1,) * (rank - 2), shape[-2], 1), axis=rank - 2, dtype=int64)
    return row, b.iota(shape=(*(1,) * (rank - 1), shape[-1]), axis=rank - 1, dtype=int64)


def _matrix(x: Aval) -> Aval:
    if x.ndim < 2:
        raise ShapeError(f"a matrix needs two axes, got {x}")
    return x


def _band_build(b: Any, x: Any, *, lower: int, upper: int) -> Any:
    row, col = _positions(b, x.aval.shape)
    below, above = b.sub(row, col), b.sub(col, row)
    keep = b.logical_and(b.less_equal(below, lower) if lower >= 0 else b.equal(below, below), b.less_equal(above, upper) if upper >= 0 else b.equal(above, above))
    return b.where(b.broadcast(keep, x.aval.shape), x, b.zeros(x.aval))


def _band_ref(x: Any, *, lower: int, upper: int) -> Any:
    x = np.asarray(x)
    i, j = np.ogrid[:x.shape[-2], :x.shape[-1]]
    return np.where(((i - j <= lower) | (lower < 0)) & ((j - i <= upper) | (upper < 0)), x, np.zeros((), x.dtype))


band_part = composed(
    "band_part", lambda x, *, lower, upper: _matrix(x), _band_ref, _band_build, lambda rng: [
        Sample((rng.normal(size=(2, 4, 5)),), {"lower": lo, "upper": up}) for lo, up in ((-1, 0), (0, -1), (0, 0), (1, 2), (-1, -1))] + [
        Sample((np.array([[1.0, np.nan], [np.inf, 2]]),), {"lower": 0, "upper": 0}, grad=False)],
    (((f64(3),), {"lower": 0, "upper": 0}, "needs two axes"),), "Zeros outside a band of ``lower`` and ``upper`` diagonals (-1: all of that side).")

eye = composed(
    "eye", lambda *, rows, columns, dtype: Aval((rows, columns), dtype), lambda *, rows, columns, dtype: np.eye(rows, columns).astype(dtype.np),
    lambda b, *, rows, columns, dtype: b.cast(b.equal(*_positions(b, (rows, columns))), dtype=dtype),
    lambda rng: [Sample((), {"rows": n, "columns": m, "dtype": d}, grad=False) for n, m, d in ((3, 3, f64().dtype), (2, 5, i32().dtype), (0, 2, f64().dtype))],
    doc="Ones on the diagonal.")


def _diag_build(b: Any, x: Any) -> Any:
    n = x.aval.shape[-1]
    out = Aval((*x.aval.shape, n), x.aval.dtype)
    on = b.equal(*_positions(b, out.shape))
    return b.where(b.broadcast(on, out.shape), b.broadcast(b.expand_dims(x, axis=-1), out.shape), b.zeros(out))


def _vector(x: Aval) -> Aval:
    if x.ndim < 1:
        raise ShapeError(f"a diagonal needs an axis, got {x}")
    return Aval((*x.shape, x.shape[-1]), x.dtype)


def _diag_ref(x: Any) -> Any:
    x = np.asarray(x)
    out = np.zeros((*x.shape, x.shape[-1]), x.dtype)
    k = np.arange(x.shape[-1])
    out[..., k, k] = x
    return out


diag = composed("diag", _vector, _diag_ref, _diag_build, lambda rng: [Sample((rng.normal(size=(3,)),)), Sample((rng.normal(size=(2, 3)),)), Sample((np.zeros((0,)),), grad=False)],
                (((f64(),), {}, "needs an axis"),), "Matrices with the last axis on their diagonals.")


def _part_infer(x: Aval) -> Aval:
    n, m = (static_size(s, "the size of a matrix whose diagonal is taken") for s in _matrix(x).shape[-2:])
    return Aval((*x.shape[:-2], min(n, m)), x.dtype)


def _part_build(b: Any, x: Any) -> Any:
    n, m = x.aval.shape[-2:]
    count, lead = min(n, m), x.aval.shape[:-2]
    rank = len(lead)
    if count == 0:
        return b.zeros(Aval((*lead, 0), x.aval.dtype))
    flat = b.reshape(x, shape=(*lead, n * m))
    return b.slice(flat, starts=(0,) * (rank + 1), sizes=(*lead, count), steps=(*(1,) * rank, m + 1))


diag_part = composed("diag_part", _part_infer, lambda x: np.array(np.diagonal(x, axis1=-2, axis2=-1)), _part_build,
                     lambda rng: [Sample((rng.normal(size=s),)) for s in ((3, 3), (2, 3, 5), (4, 2))] + [Sample((np.zeros((2, 0)),), grad=False)],
                     (((f64(3),), {}, "needs two axes"),), "The diagonals of the last two axes.")


def _linspace_ref(start: Any, stop: Any, *, num: int) -> Any:
    start, stop = np.asarray(start), np.asarray(stop)
    t = np.arange(num).astype(start.dtype) / start.dtype.type(max(num - 1, 1))
    y = start + (stop - start) * t
    return np.where(np.arange(num) == num - 1, stop, y) if num > 1 else y


def _linspace_build(b: Any, start: Any, stop: Any, *, num: int) -> Any:
    kind: DType = start.aval.dtype
    k = b.iota(shape=(num,), axis=0, dtype=kind)
    y = b.add(b.mul(b.sub(stop, start), b.div(k, b.like(start, max(num - 1, 1)))), start)
    if num < 2:
        return y
    place = b.iota(shape=(num,), axis=0, dtype=int64)
    return b.where(b.equal(place, num - 1), b.broadcast(stop, (num,)), y)


def _linspace_infer(start: Aval, stop: Aval, *, num: int) -> Aval:
    if start.shape or stop.shape or same_dtype(start, stop).kind != "f" or num < 1:
        raise ShapeError(f"linspace needs two floating scalars and num >= 1, got {start}, {stop} and {num}")
    return Aval((num,), start.dtype)


linspace = composed("linspace", _linspace_infer, _linspace_ref, _linspace_build,
                    lambda rng: [Sample((np.array(-1.5), np.array(2.0)), {"num": n}) for n in (1, 2, 7)] + [
                        Sample((np.array(0.1, "f4"), np.array(0.9, "f4")), {"num": 50}, grad=False)],
                    (((f64(2), f64()), {"num": 3}, "two floating scalars"), ((f64(), f64()), {"num": 0}, "num >= 1")),
                    "``num`` values from start to stop, evenly spaced; the last is stop itself.")
