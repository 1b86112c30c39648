"""Reading and writing by index: iota, gather, scatter, one_hot, take_along.

The total ops (``take``, ``rows_add``, ``rows_set``) take indices that are known to be inside; the public ones guard them first, so an index out
of range fails the run before anything is read. Negative indices count from the end (``negative="wrap"``, NumPy's meaning) or are
refused (``"refuse"``, TF1's).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..dtypes import DType, int32, int64
from ..errors import DTypeError, ShapeError
from ..ir.aval import Aval, Size, product
from ..ir.opdef import Loops, NotDifferentiable, OpDef, Scalar, define
from .composed import composed
from .helpers import Sample, batched, f64, i32, may_equal, move_axis, normalize_axis, same_dtype, shape_text
from .state import effect_on_variable

_WHOLE = NotDifferentiable("integers have no derivative")

iota = define(OpDef(
    "iota", lambda *, shape, axis, dtype: Aval(tuple(shape), dtype),
    lambda *, shape, axis, dtype: np.broadcast_to(np.arange(shape[axis]).reshape([-1 if k == axis else 1 for k in range(len(shape))]), shape).astype(dtype.np),
    _WHOLE, _WHOLE, lambda b, size, ins, dims, **kw: (b.iota(**kw), None), Scalar(lambda e, i, *, shape, axis, dtype: e.cast(i, dtype)),
    lambda rng: [Sample((), {"shape": s, "axis": a, "dtype": d}, grad=False) for s, a, d in (((5,), 0, int32), ((3, 4), 1, int64), ((3, 20), 0, int32))],
    traits=frozenset({"exact", "index"}), doc="The position along an axis."))


def _check_indices(i: Aval) -> None:
    if i.dtype.kind not in "iu":
        raise DTypeError(f"indices must be integers, got {i}")


def inside(b: Any, indices: Any, limit: Size, negative: str = "wrap") -> Any:
    """Indices checked against ``limit`` (a failing one stops the run) and made non-negative."""
    kind = indices.aval.dtype
    bound = b.like(indices, limit) if isinstance(limit, int) and limit <= np.iinfo(kind.np).max else _as_scalar(b, limit, kind)
    zero = b.like(indices, 0)
    if kind.kind == "u":
        ok = b.less(indices, bound)
    elif negative == "wrap":
        ok = b.logical_and(b.less(indices, bound), b.greater_equal(indices, b.neg(bound)))
    else:
        ok = b.logical_and(b.less(indices, bound), b.greater_equal(indices, zero))
    safe = b.guard(indices, ok, message="indices[{i}] = {a} is not in [0, {limit})", limit=limit, fill=0)
    return b.where(b.less(safe, zero), b.add(safe, bound), safe) if negative == "wrap" and kind.kind == "i" else safe


def _as_scalar(b: Any, size: Size, dtype: DType) -> Any:
    return b.reshape(b.sizes(sizes=(size,), dtype=dtype), shape=())


def _ref_inside(indices: Any, limit: int, negative: str) -> Any:
    from ..errors import InvalidArgumentError
    indices = np.asarray(indices)
    low = -limit if negative == "wrap" else 0
    bad = (indices < low) | (indices >= limit)
    if bad.any():
        at = np.argwhere(bad)[0]
        raise InvalidArgumentError(None, None, f"indices[{','.join(map(str, at))}] = {indices[tuple(at)]} is not in [0, {limit})")
    return np.where(indices < 0, indices + limit, indices).astype(np.int64)


# ---- gather -----------------------------------------------------------------------------------------------------------------


def _take_infer(x: Aval, i: Aval, *, axis: int = 0) -> Aval:
    _check_indices(i)
    k = normalize_axis(axis, x.ndim)
    return Aval((*x.shape[:k], *i.shape, *x.shape[k + 1:]), x.dtype)


def _emit_take(k: Any, out: Any, x: Any, i: Any, *, axis: int = 0) -> None:
    axis %= len(x.shape)
    n, count = k.size(x.shape[axis]), k.size(product(i.shape))
    row = k.size(product(x.shape[axis + 1:]))

    def task(t: Any) -> None:
        outer, j = k.div(t, count), k.mod(t, count)
        at = k.e.cast(i.load(j), int64)
        start = k.mul(k.add(k.mul(outer, n), at), row)
        if row == 1:
            out.store(x.load(start), t)
        else:
            k.copy(out, k.mul(t, row), x, start, row)
    k.tasks(task)


def _take_vjp(b: Any, ct: Any, y: Any, x: Any, i: Any, *, axis: int = 0) -> list[Any]:
    rank, m = len(x.aval.shape), len(i.aval.shape)
    k = normalize_axis(axis, rank)
    if k:                                    # the picked axes to the front
        ct = b.transpose(ct, perm=(*range(k, k + m), *range(k), *range(k + m, len(ct.aval.shape))))
    rest = (*x.aval.shape[:k], *x.aval.shape[k + 1:])
    count = product(i.aval.shape)
    rows = b.slices(b.reshape(i, shape=(count,)), b.reshape(ct, shape=(count, *rest)), (x.aval.shape[k], *rest))
    return [rows if k == 0 else b.transpose(rows.dense(b), perm=(*range(1, k + 1), 0, *range(k + 1, rank))), None]


def _take_vmap(b: Any, size: Size, ins: Any, dims: Any, *, axis: int = 0) -> Any:
    (x, i), (dx, di) = ins, dims
    rank = len(x.aval.shape) - (dx is not None)
    k = normalize_axis(axis, rank)
    if di is None:
        return b.take(move_axis(b, x, dx, 0), i, axis=k + 1), 0
    i = move_axis(b, i, di, 0)
    if dx is None:
        return b.take(x, i, axis=k), k
    x = move_axis(b, move_axis(b, x, dx, 0), k + 1, 1)
    n, rest = x.aval.shape[1], x.aval.shape[2:]
    y = b.take(b.reshape(x, shape=(size * n, *rest)), _shifted(b, i, size, n), axis=0)
    m = len(i.aval.shape) - 1
    perm = (0, *range(m + 1, m + 1 + k), *range(1, m + 1), *range(m + 1 + k, len(y.aval.shape)))
    return b.transpose(y, perm=perm), 0


def _shifted(b: Any, i: Any, size: Size, n: Size) -> Any:
    """Indices of batch item q moved to rows q*n .. of a flattened batch."""
    shape = (size, *(1,) * (len(i.aval.shape) - 1))
    return b.add(b.cast(i, dtype=int64), b.mul(b.iota(shape=shape, axis=0, dtype=int64), _as_scalar(b, n, int64)))


def _take_samples(rng: np.random.Generator) -> list[Sample]:
    x = rng.normal(size=(4, 3))
    return [Sample((x, np.array([0, 3, 3, 1])), {"axis": 0}), Sample((x, np.array([[2, 0], [1, 1]], np.int32)), {"axis": 1}),
            Sample((x, np.array(2)), {"axis": 0}), Sample((rng.normal(size=(5, 33)).astype("f4"), np.array([4, 0, 4])), {"axis": 0}, grad=False),
            Sample((rng.normal(size=(7,)), np.array([6, 6, 0])), {"axis": 0}), Sample((x, np.zeros((0,), np.int32)), {"axis": 0}, grad=False)]


take = define(OpDef(
    "take", _take_infer, lambda x, i, *, axis=0: np.take(x, i, axis=axis), _take_vjp,
    lambda b, ts, y, x, i, *, axis=0: None if ts[0] is None else b.take(ts[0], i, axis=axis), _take_vmap,
    Loops(_emit_take, tasks=lambda out, x, i, *, axis=0: product(x.shape[:axis % max(1, x.ndim)]) * product(i.shape)), _take_samples,
    (((f64(3), f64(2)), {}, "indices must be integers"), ((f64(3), i32(2)), {"axis": 1}, "axis 1 of a 1-dimensional")), frozenset({"exact"}),
    doc="x at indices along an axis; indices are known to be inside."))


def _gather_ref(x: Any, indices: Any, *, axis: int = 0, negative: str = "wrap") -> Any:
    return np.take(x, _ref_inside(indices, np.shape(x)[axis], negative), axis=axis)


def _gather_build(b: Any, x: Any, i: Any, *, axis: int = 0, negative: str = "wrap") -> Any:
    k = normalize_axis(axis, len(x.aval.shape))
    return b.take(x, inside(b, i, x.aval.shape[k], negative), axis=k)


def _gather_vjp(b: Any, ct: Any, y: Any, x: Any, i: Any, *, axis: int = 0, negative: str = "wrap") -> list[Any]:
    k = normalize_axis(axis, len(x.aval.shape))
    return _take_vjp(b, ct, y, x, inside(b, i, x.aval.shape[k], negative), axis=k)


def _gather_vmap(b: Any, size: Size, ins: Any, dims: Any, *, axis: int = 0, negative: str = "wrap") -> Any:
    (x, i), (dx, _di) = ins, dims
    k = normalize_axis(axis, len(x.aval.shape) - (dx is not None))
    limit = [s for j, s in enumerate(x.aval.shape) if j != dx][k]
    return _take_vmap(b, size, (x, inside(b, i, limit, negative)), dims, axis=k)


gather = composed(
    "gather", lambda x, indices, *, axis=0, negative="wrap": _take_infer(x, indices, axis=axis), _gather_ref, _gather_build,
    lambda rng: [*(Sample(s.arrays, {**s.attrs, "negative": "wrap"}, s.grad) for s in _take_samples(rng)),
                 Sample((rng.normal(size=(5,)), np.array([-1, 0, -5])), {"axis": 0, "negative": "wrap"})],
    (((f64(3), f64(2)), {}, "indices must be integers"),), "x at indices along an axis; an index out of range fails the run.",
    vjp=_gather_vjp, vmap=_gather_vmap,
    jvp=lambda b, ts, y, x, i, **kw: None if ts[0] is None else b.gather(ts[0], i, **kw))


# ---- scatter ------------------------------------------------------------------------------------------------------------------


def _scatter_infer(x: Aval, i: Aval, u: Aval) -> Aval:
    _check_indices(i)
    same_dtype(x, u)
    want = (*i.shape, *x.shape[1:])
    if x.ndim < 1 or len(want) != u.ndim or not all(map(may_equal, want, u.shape)):
        raise ShapeError(f"updates must have shape {shape_text(want)} (indices, then a row of {x}), got {u}")
    return x


COLUMNS = 64                                 # elements of a row that one task of a scatter owns


def _emit_rows(add: bool) -> Any:
    def emit(k: Any, out: Any, x: Any, i: Any, u: Any) -> None:
        # a task owns some columns of every row and takes the updates in order: the same sums at any thread count
        row, count = k.size(product(x.shape[1:])), k.size(product(i.shape))
        e = k.e

        def task(t: Any) -> None:
            first = k.mul(t, COLUMNS)
            width = k.min(k.sub(row, first), COLUMNS)

            def update(j: Any) -> None:
                at = k.add(k.mul(e.cast(i.load(j), int64), row), first)
                source = k.add(k.mul(j, row), first)
                if not add:
                    k.copy(out, at, u, source, width)
                    return
                w = k.lanes(out.dtype)
                main = k.mul(k.div(width, w), w)

                def step(lanes: int) -> Any:
                    return lambda c, _: (out.store(e.add(out.load(k.add(at, c), lanes), u.load(k.add(source, c), lanes)), k.add(at, c)), [])[1]
                e.loop(0, main, w, [], step(w))
                e.loop(main, width, 1, [], step(1))
            k.range(count, update)
        k.tasks(task)
    return emit


def _row_tasks(out: Aval, x: Aval, i: Aval, u: Aval) -> Size:
    return (product(x.shape[1:]) + (COLUMNS - 1)) // COLUMNS


def _rows_vmap(name: str) -> Any:
    def rule(b: Any, size: Size, ins: Any, dims: Any) -> Any:
        x, i, u = (batched(b, v, d, size) for v, d in zip(ins, dims))
        n, rest = x.aval.shape[1], x.aval.shape[2:]
        y = getattr(b, name)(b.reshape(x, shape=(size * n, *rest)), _shifted(b, i, size, n), u)
        return b.reshape(y, shape=x.aval.shape), 0
    return rule


def _ref_rows(add: bool) -> Any:
    def ref(x: Any, i: Any, u: Any) -> Any:
        out = np.array(x)
        i, u = np.asarray(i), np.asarray(u)
        flat, rows = i.reshape(-1), u.reshape(i.size, *out.shape[1:])
        if add:
            np.add.at(out, flat, rows)
        else:
            for j, r in zip(flat, rows):
                out[j] = r
        return out
    return ref


def _rows_jvp(name: str) -> Any:
    def jvp(b: Any, ts: Any, y: Any, x: Any, i: Any, u: Any) -> Any:
        if ts[0] is None and ts[2] is None:
            return None
        return getattr(b, name)(b.zeros(x.aval) if ts[0] is None else ts[0], i, b.zeros(u.aval) if ts[2] is None else ts[2])
    return jvp


def _set_vjp(b: Any, ct: Any, y: Any, x: Any, i: Any, u: Any) -> list[Any]:
    if not i.aval.shape:
        return [b.rows_set(ct, i, b.zeros(u.aval)), None, b.take(ct, i, axis=0)]
    # of several updates of one row the last wins: only it gets the row's cotangent
    count = product(i.aval.shape)
    flat = b.reshape(i, shape=(count,))
    order = b.iota(shape=(count,), axis=0, dtype=int64)
    winner = b.take(b.rows_set(b.full(Aval(x.aval.shape[:1], int64), -1), flat, order), flat, axis=0)
    won = b.reshape(b.equal(winner, order), shape=(*i.aval.shape, *(1,) * (len(x.aval.shape) - 1)))
    rows = b.take(ct, i, axis=0)
    return [b.rows_set(ct, i, b.zeros(u.aval)), None, b.mulz(b.broadcast(b.cast(won, dtype=ct.aval.dtype), rows.aval.shape), rows)]


def _row_samples(rng: np.random.Generator) -> list[Sample]:
    return [Sample((rng.normal(size=(4, 3)), np.array([0, 3, 0]), rng.normal(size=(3, 3)))),
            Sample((rng.normal(size=(5,)), np.array([[1, 1], [4, 0]], np.int32), rng.normal(size=(2, 2)))),
            Sample((rng.normal(size=(4, 70)).astype("f4"), np.array([1, 2, 1]), rng.normal(size=(3, 70)).astype("f4")), grad=False),
            Sample((rng.normal(size=(3, 2)), np.array(1), rng.normal(size=(2,)))), Sample((np.ones((3, 2)), np.zeros((0,), np.int64), np.ones((0, 2))), grad=False),
            Sample((np.ones((3, 0)), np.array([2, 0]), np.ones((2, 0))), grad=False)]


_ROW_ERRORS: Any = (((f64(3, 2), i32(2), f64(2, 3)), {}, "updates must have shape [2,2]"), ((f64(3), f64(2), f64(2)), {}, "indices must be integers"))
rows_add = define(OpDef("rows_add", _scatter_infer, _ref_rows(True), lambda b, ct, y, x, i, u: [ct, None, b.take(ct, i, axis=0)],
                        _rows_jvp("rows_add"), _rows_vmap("rows_add"), Loops(_emit_rows(True), tasks=_row_tasks, alias=0), _row_samples, _ROW_ERRORS,
                        doc="x with updates added to rows, in order; indices are known to be inside."))
rows_set = define(OpDef("rows_set", _scatter_infer, _ref_rows(False), _set_vjp, _rows_jvp("rows_set"), _rows_vmap("rows_set"),
                        Loops(_emit_rows(False), tasks=_row_tasks, alias=0), _row_samples, _ROW_ERRORS, frozenset({"exact"}),
                        doc="x with rows replaced, the last update winning; indices are known to be inside."))


def _guarded_rows(name: str, total: str, add: bool, doc: str) -> OpDef:
    def build(b: Any, x: Any, i: Any, u: Any) -> Any:
        return getattr(b, total)(x, inside(b, i, x.aval.shape[0]), u)

    def vjp(b: Any, ct: Any, y: Any, x: Any, i: Any, u: Any) -> list[Any]:
        safe = inside(b, i, x.aval.shape[0])
        return [ct, None, b.take(ct, safe, axis=0)] if add else _set_vjp(b, ct, y, x, safe, u)

    def ref(x: Any, indices: Any, updates: Any) -> Any:
        return _ref_rows(add)(x, _ref_inside(indices, np.shape(x)[0], "wrap"), updates)
    return composed(name, _scatter_infer, ref, build, _row_samples, _ROW_ERRORS, doc, vjp=vjp)


scatter_add = _guarded_rows("scatter_add", "rows_add", True, "x with updates added to rows; repeated rows add up; an index out of range fails the run.")
scatter_update = _guarded_rows("scatter_update", "rows_set", False, "x with rows replaced; an index out of range fails the run.")


# variables take no negative indices, as in TF1
def _variable_rows(name: str, tf_name: str, total: str, add: bool, given: Callable[..., Any], doc: str) -> OpDef:
    return effect_on_variable(name, tf_name, lambda b, v, i, u: getattr(b, total)(v, inside(b, i, v.aval.shape[0], "refuse"), given(b, u)), lambda v, i, u: _ref_rows(add)(
        v, _ref_inside(i, np.shape(v)[0], "refuse"), given(np, u)), infer=_scatter_infer, doc=doc)


_variable_rows("variable_scatter_add", "ScatterAdd", "rows_add", True, lambda b, u: u, "Adds rows to a variable; gives the whole new value.")
_variable_rows("variable_scatter_sub", "ScatterSub", "rows_add", True, lambda b, u: b.negative(u) if b is np else b.neg(u),
               "Subtracts rows from a variable; gives the whole new value.")
_variable_rows("variable_scatter_update", "ScatterUpdate", "rows_set", False, lambda b, u: u, "Replaces rows of a variable; gives the whole new value.")


# ---- one_hot, take_along -----------------------------------------------------------------------------------------------------


def _one_hot_infer(i: Aval, *, depth: int, on: float = 1, off: float = 0, axis: int = -1, dtype: DType) -> Aval:
    _check_indices(i)
    k = normalize_axis(axis, i.ndim + 1)
    return Aval((*i.shape[:k], depth, *i.shape[k:]), dtype)


def _one_hot_build(b: Any, i: Any, *, depth: int, on: float = 1, off: float = 0, axis: int = -1, dtype: DType) -> Any:
    k = normalize_axis(axis, len(i.aval.shape) + 1)
    shape = (*i.aval.shape[:k], depth, *i.aval.shape[k:])
    hit = b.equal(b.iota(shape=shape, axis=k, dtype=i.aval.dtype), b.broadcast(b.expand_dims(i, axis=k), shape))
    out = Aval(shape, dtype)
    return hit if dtype.is_bool and on and not off else b.where(hit, b.full(out, on), b.full(out, off))


def _one_hot_ref(i: Any, *, depth: int, on: float = 1, off: float = 0, axis: int = -1, dtype: DType) -> Any:
    i = np.asarray(i)
    k = axis % (i.ndim + 1)
    place = np.arange(depth).reshape([-1 if j == k else 1 for j in range(i.ndim + 1)])
    return np.where(np.expand_dims(i, k) == place, on, off).astype(dtype.np)


def _flat_rule(why: str) -> NotDifferentiable:
    return NotDifferentiable(why)


one_hot = composed("one_hot", _one_hot_infer, _one_hot_ref, _one_hot_build, lambda rng: [
    Sample((np.array([0, 2, -1, 5]),), {"depth": 3, "on": 1.0, "off": 0.0, "axis": a, "dtype": f64().dtype}, grad=False) for a in (-1, 0)],
    (((f64(3),), {"depth": 3, "dtype": f64().dtype}, "indices must be integers"),), "``on`` at each index, ``off`` elsewhere; an index outside gives a row of ``off``.",
    vjp=_flat_rule("the indices are integers"), jvp=_flat_rule("the indices are integers"))


def _along_infer(x: Aval, i: Aval) -> Aval:
    _check_indices(i)
    if x.ndim != i.ndim or x.ndim < 1 or not all(map(may_equal, x.shape[:-1], i.shape[:-1])):
        raise ShapeError(f"indices {i} must have the leading axes of {x}")
    return Aval(i.shape, x.dtype)


def _emit_along(k: Any, out: Any, x: Any, i: Any) -> None:
    n, m = k.size(x.shape[-1]), k.size(i.shape[-1])
    k.tasks(lambda t: k.range(m, lambda j: out.store(
        x.load(k.add(k.mul(t, n), k.e.cast(i.load(k.add(k.mul(t, m), j)), int64))), k.add(k.mul(t, m), j))))


def _emit_along_add(k: Any, out: Any, x: Any, i: Any, u: Any) -> None:
    n, m = k.size(x.shape[-1]), k.size(i.shape[-1])

    def update(t: Any, j: Any) -> None:
        from_ = k.add(k.mul(t, m), j)
        at = k.add(k.mul(t, n), k.e.cast(i.load(from_), int64))
        out.store(k.e.add(out.load(at), u.load(from_)), at)
    k.tasks(lambda t: k.range(m, lambda j: update(t, j)))


def _leading(b: Any, size: Size, ins: Any, dims: Any) -> list[Any]:
    return [batched(b, x, d, size) for x, d in zip(ins, dims)]


def _along_samples(rng: np.random.Generator) -> list[Sample]:
    return [Sample((rng.normal(size=(2, 4)), np.array([[0, 3, 3], [1, 0, 2]]))), Sample((rng.normal(size=(5,)), np.array([4, 4], np.int32))),
            *(Sample((np.ones(x), np.zeros(i, np.int64)), grad=False) for x, i in (((2, 0), (2, 0)), ((0, 4), (0, 2)), ((2, 4), (2, 0))))]


take_along = define(OpDef(
    "take_along", _along_infer, lambda x, i: np.take_along_axis(x, np.asarray(i).astype(np.int64), -1),
    lambda b, ct, y, x, i: [b.along_add(b.zeros(x.aval), i, ct), None], lambda b, ts, y, x, i: None if ts[0] is None else b.take_along(ts[0], i),
    lambda b, size, ins, dims: (b.take_along(*_leading(b, size, ins, dims)), 0),
    Loops(_emit_along, tasks=lambda out, x, i: product(x.shape[:-1])), _along_samples, (((f64(3), f64(3)), {}, "indices must be integers"),),
    frozenset({"exact"}), doc="x at indices along the last axis, row by row; indices are known to be inside."))


def _ref_along_add(x: Any, i: Any, u: Any) -> Any:
    out, i, u = np.array(x), np.asarray(i), np.asarray(u)
    for row in np.ndindex(out.shape[:-1]):
        np.add.at(out[row], i[row], u[row])
    return out


along_add = define(OpDef(
    "along_add", lambda x, i, u: (_along_infer(x, i), x)[1], _ref_along_add, lambda b, ct, y, x, i, u: [ct, None, b.take_along(ct, i)],
    _rows_jvp("along_add"), lambda b, size, ins, dims: (b.along_add(*_leading(b, size, ins, dims)), 0),
    Loops(_emit_along_add, tasks=lambda out, x, i, u: product(x.shape[:-1]), alias=0),
    lambda rng: [Sample((*s.arrays, rng.normal(size=np.shape(s.arrays[1])))) for s in _along_samples(rng)],
    (((f64(3), f64(3), f64(3)), {}, "indices must be integers"),), doc="x with updates added at indices along the last axis."))

