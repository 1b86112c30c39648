"""Running sums and products, first-order recurrences, sorting and top_k, along the last axis inside."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..dtypes import float32, float64, int32, int64
from ..errors import ShapeError
from ..ir.aval import Aval, Size, TupleAval, product
from ..ir.opdef import Loops, NotDifferentiable, OpDef, define
from .composed import composed
from .helpers import NUMBERS, Sample, batched, check_kind, f64, move_axis, normalize_axis, same_dtype

# float32 is accumulated in float64: a running sum of 100,000 terms stays accurate to the last bit or two


def _wide(dtype: Any) -> Any:
    return float64 if dtype == float32 else dtype


def _emit_scan(multiply: bool) -> Any:
    def emit(k: Any, out: Any, x: Any) -> None:
        e, n, kind = k.e, k.size(x.shape[-1]), _wide(x.dtype)

        def row(t: Any) -> None:
            start = k.mul(t, n)

            def step(i: Any, total: Any) -> Any:
                v = x.load(k.add(start, i))
                v = v if v.dtype == kind else e.cast(v, kind)
                new = e.mul(total[0], v) if multiply else e.add(total[0], v)
                out.store(new if kind == out.dtype else e.cast(new, out.dtype), k.add(start, i))
                return [new]
            e.loop(0, n, 1, [e.const(kind, 1 if multiply else 0)], step)
        k.tasks(row)
    return emit


def _ref_scan(f: Any) -> Any:
    def ref(x: Any) -> Any:
        x = np.asarray(x)
        return f(x, axis=-1, dtype=np.float64 if x.dtype == np.float32 else x.dtype).astype(x.dtype)
    return ref


def _last(x: Aval) -> Aval:
    check_kind(x, NUMBERS)
    if x.ndim < 1:
        raise ShapeError("a scan needs at least one axis")
    return x


def _scan_samples(rng: np.random.Generator) -> list[Sample]:
    return [Sample((rng.normal(size=(3, 4)),)), Sample((np.array([[2.0, 0, 3, 0, 1], [1, 2, 0, 3, 4]]),)), Sample((rng.normal(size=(70,)).astype("f4"),), grad=False),
            Sample((rng.integers(-3, 4, (2, 5)).astype("i4"),), grad=False), Sample((np.zeros((2, 0)),), grad=False), Sample((np.zeros((0, 3)),), grad=False)]


def _rows(out: Aval, *_: Aval) -> Size:
    return product(out.shape[:-1])


def _front(name: str) -> Any:
    return lambda b, size, ins, dims: (getattr(b, name)(*[batched(b, x, d, size) for x, d in zip(ins, dims)]), 0)


_ERROR: Any = (((f64(),), {}, "at least one axis"),)
scan_add = define(OpDef("scan_add", _last, _ref_scan(np.cumsum), lambda b, ct, y, x: [_reversed(b, ct, b.scan_add)],
                        lambda b, ts, y, x: None if ts[0] is None else b.scan_add(ts[0]), _front("scan_add"),
                        Loops(_emit_scan(False), tasks=_rows), _scan_samples, _ERROR, frozenset({"linear"}), doc="Running sums along the last axis."))


def _reversed(b: Any, x: Any, f: Any) -> Any:
    last = (len(x.aval.shape) - 1,)
    return b.reverse(f(b.reverse(x, axis=last)), axis=last)


def _shift(b: Any, x: Any, fill: float) -> Any:
    """Elements moved one place on along the last axis, ``fill`` first."""
    shape = x.aval.shape
    rank = len(shape)
    if shape[-1] == 0:
        return x
    kept = b.slice(x, starts=(0,) * rank, sizes=(*shape[:-1], shape[-1] - 1), steps=(1,) * rank)
    zeros = (0,) * rank
    return b.pad(kept, before=(*zeros[1:], 1), after=zeros, between=zeros, value=fill)


def _product_vjp(b: Any, ct: Any, y: Any, x: Any) -> list[Any]:
    # d/dx_k = (product before k) * s_k with s_k = ct_k + x_{k+1} s_{k+1}: no division, so zeros are exact
    before = b.scan_mul(_shift(b, x, 1.0))
    last = (len(x.aval.shape) - 1,)
    back = b.recurrence(_shift(b, b.reverse(x, axis=last), 0.0), b.reverse(ct, axis=last))
    return [b.mul(before, b.reverse(back, axis=last))]


def _product_jvp(b: Any, ts: Any, y: Any, x: Any) -> Any:
    # y_k' = x_k y_{k-1}' + x_k' y_{k-1}
    return None if ts[0] is None else b.recurrence(x, b.mul(ts[0], _shift(b, y, 1.0)))


scan_mul = define(OpDef("scan_mul", _last, _ref_scan(np.cumprod), _product_vjp, _product_jvp, _front("scan_mul"), Loops(_emit_scan(True), tasks=_rows),
                        _scan_samples, _ERROR, doc="Running products along the last axis; the gradient is exact where entries are zero."))


def _emit_recurrence(k: Any, out: Any, a: Any, c: Any) -> None:
    e, n = k.e, k.size(a.shape[-1])

    def row(t: Any) -> None:
        start = k.mul(t, n)

        def step(i: Any, y: Any) -> Any:
            at = k.add(start, i)
            new = e.add(e.mul(a.load(at), y[0]), c.load(at))
            out.store(new, at)
            return [new]
        e.loop(0, n, 1, [e.const(out.dtype, 0)], step)
    k.tasks(row)


def _ref_recurrence(a: Any, c: Any) -> Any:
    a, c = np.asarray(a), np.asarray(c)
    out = np.zeros_like(c)
    y = np.zeros(c.shape[:-1], c.dtype)
    for k in range(c.shape[-1]):
        y = a[..., k] * y + c[..., k]
        out[..., k] = y
    return out


def _recurrence_vjp(b: Any, ct: Any, y: Any, a: Any, c: Any) -> list[Any]:
    last = (len(a.aval.shape) - 1,)
    back = b.reverse(b.recurrence(_shift(b, b.reverse(a, axis=last), 0.0), b.reverse(ct, axis=last)), axis=last)
    return [b.mul(back, _shift(b, y, 0.0)), back]


def _recurrence_jvp(b: Any, ts: Any, y: Any, a: Any, c: Any) -> Any:
    parts = [b.mul(ts[0], _shift(b, y, 0.0)) if ts[0] is not None else None, ts[1]]
    total = b.add_n(parts)
    return None if total is None else b.recurrence(a, total)


def _recurrence_infer(a: Aval, c: Aval) -> Aval:
    same_dtype(a, c)
    check_kind(a, "f")
    if a.shape != c.shape or a.ndim < 1:
        raise ShapeError(f"recurrence needs two values of one shape, got {a} and {c}")
    return a


recurrence = define(OpDef("recurrence", _recurrence_infer, _ref_recurrence, _recurrence_vjp, _recurrence_jvp, _front("recurrence"),
                          Loops(_emit_recurrence, tasks=_rows), lambda rng: [Sample((rng.normal(size=(3, 5)), rng.normal(size=(3, 5))))],
                          (((f64(3), f64(4)), {}, "two values of one shape"),), doc="y_k = a_k y_{k-1} + c_k along the last axis, y_{-1} = 0."))


def _cumulative(name: str, total: str, fill: float, np_f: Any, doc: str) -> OpDef:
    def infer(x: Aval, *, axis: int = 0, exclusive: bool = False, reverse: bool = False) -> Aval:
        check_kind(x, NUMBERS)
        normalize_axis(axis, x.ndim)
        return x

    def build(b: Any, x: Any, *, axis: int = 0, exclusive: bool = False, reverse: bool = False) -> Any:
        rank = len(x.aval.shape)
        k = normalize_axis(axis, rank)
        y = move_axis(b, x, k, rank - 1)
        if reverse:
            y = b.reverse(y, axis=(rank - 1,))
        y = getattr(b, total)(_shift(b, y, fill) if exclusive else y)
        if reverse:
            y = b.reverse(y, axis=(rank - 1,))
        return move_axis(b, y, rank - 1, k)

    def ref(x: Any, *, axis: int = 0, exclusive: bool = False, reverse: bool = False) -> Any:
        y = np.moveaxis(np.asarray(x), axis, -1)
        y = y[..., ::-1] if reverse else y
        if exclusive and y.shape[-1]:
            y = np.concatenate([np.full_like(y[..., :1], fill), y[..., :-1]], -1)
        y = _ref_scan(np_f)(y)
        return np.ascontiguousarray(np.moveaxis(y[..., ::-1] if reverse else y, -1, axis))

    def samples(rng: np.random.Generator) -> list[Sample]:
        return [Sample((rng.normal(size=(3, 4)),), {"axis": a, "exclusive": x, "reverse": r}) for a in (0, 1) for x in (False, True) for r in (False, True)]
    return composed(name, infer, ref, build, samples, (((f64(3),), {"axis": 1}, "axis 1 of a 1-dimensional"),), doc)


cumsum = _cumulative("cumsum", "scan_add", 0, np.cumsum, "Running sums along an axis; ``exclusive`` leaves the element itself out, ``reverse`` runs from the end.")
cumprod = _cumulative("cumprod", "scan_mul", 1, np.cumprod, "Running products along an axis; gradients are exact where entries are zero.")


# ---- sorting -------------------------------------------------------------------------------------------------------------------


def _emit_argsort(k: Any, out: Any, x: Any, *, descending: bool = False) -> None:
    """A stable merge sort of indices, one row per task; a NaN is larger than everything."""
    e, n = k.e, k.size(x.shape[-1])
    room = k.scratch[0]

    def later(a: Any, c: Any) -> Any:
        """The value of index ``c`` must come before that of ``a``."""
        lo, hi = (a, c) if descending else (c, a)
        less = e.cmp("lt", lo, hi)
        return e.or_(less, e.and_(e.isnan(hi), e.not_(e.isnan(lo)))) if x.dtype.kind == "f" else less

    def row(t: Any) -> None:
        start, base = k.mul(t, n), k.mul(t, k.mul(n, 2))
        k.range(n, lambda i: room.store(i, k.add(base, i)))

        def level(v: Any) -> Any:
            width, source = v
            target = e.sub(k.index(n), source)

            def block(m: Any) -> None:
                lo = e.mul(m, e.mul(width, 2))
                mid, hi = k.min(e.add(lo, width), n), k.min(e.add(lo, e.mul(width, 2)), n)

                def place(j: Any, ab: Any) -> Any:
                    a, c = ab
                    a_left, c_left = e.cmp("lt", a, k.index(mid)), e.cmp("lt", c, k.index(hi))
                    ia = room.load(k.add(base, k.add(source, e.select(a_left, a, lo))))
                    ic = room.load(k.add(base, k.add(source, e.select(c_left, c, lo))))
                    take_c = e.and_(c_left, e.or_(e.not_(a_left), later(x.load(k.add(start, ia)), x.load(k.add(start, ic)))))
                    room.store(e.select(take_c, ic, ia), k.add(base, k.add(target, j)))
                    one = e.const(int64, 1)
                    return [e.select(take_c, a, e.add(a, one)), e.select(take_c, e.add(c, one), c)]
                e.loop(lo, hi, 1, [lo, k.index(mid)], place)
            blocks = k.div(e.add(e.add(e.mul(width, 2), k.index(n)), -1), e.mul(width, 2))
            k.range(blocks, block)
            return [e.mul(width, 2), target]
        final = e.while_([e.const(int64, 1), e.const(int64, 0)], lambda v: e.cmp("lt", v[0], k.index(n)), level)
        k.range(n, lambda i: out.store(e.cast(room.load(k.add(base, k.add(final[1], i))), out.dtype), k.add(start, i)))
    k.tasks(row)


def _ref_argsort(x: Any, *, descending: bool = False) -> Any:
    x = np.asarray(x)
    if not descending:
        return np.argsort(x, -1, kind="stable").astype(np.int32)
    return (x.shape[-1] - 1 - np.argsort(x[..., ::-1], -1, kind="stable")[..., ::-1]).astype(np.int32)


_ORDER = NotDifferentiable("an order is piecewise constant")
argsort = define(OpDef(
    "argsort", lambda x, *, descending=False: _last(x).with_dtype(int32), _ref_argsort, _ORDER, _ORDER,
    lambda b, size, ins, dims, *, descending=False: (b.argsort(move_axis(b, ins[0], dims[0], 0), descending=descending), 0),
    Loops(_emit_argsort, tasks=lambda out, x, **kw: _rows(out), scratch=lambda out, x, **kw: [Aval((_rows(out), out.shape[-1] * 2), int64)]),
    lambda rng: [Sample((rng.normal(size=(3, 7)),), {"descending": d}, grad=False) for d in (False, True)] + [
        Sample((np.array([[1.0, np.nan, 3, 1, -np.inf, np.nan, 3]]),), {"descending": d}, grad=False) for d in (False, True)] + [
        Sample((rng.integers(0, 3, (50,)).astype("i4"),), {"descending": d}, grad=False) for d in (False, True)] + [
        Sample((rng.normal(size=(2, 0)),), {"descending": False}, grad=False), Sample((rng.normal(size=(1,)),), {"descending": False}, grad=False)],
    (((f64(),), {}, "at least one axis"),), frozenset({"exact"}), doc="Indices that sort the last axis (stable; NaN counts as largest)."))

sort = composed("sort", lambda x, *, descending=False: _last(x),
                lambda x, *, descending=False: np.take_along_axis(np.asarray(x), _ref_argsort(x, descending=descending).astype(np.int64), -1),
                lambda b, x, *, descending=False: b.take_along(x, b.argsort(x, descending=descending)),
                lambda rng: [Sample((rng.normal(size=(3, 7)),), {"descending": d}) for d in (False, True)], _ERROR, "The last axis in order.")


def _top_infer(x: Aval, *, k: int) -> TupleAval:
    _last(x)
    if isinstance(x.shape[-1], int) and k > x.shape[-1]:
        raise ShapeError(f"input must have at least k columns. Had {x.shape[-1]}, needed {k}")
    shape = (*x.shape[:-1], k)
    return TupleAval((Aval(shape, x.dtype), Aval(shape, int32)))


def _top_build(b: Any, x: Any, *, k: int) -> Any:
    rank = len(x.aval.shape)
    order = b.argsort(x, descending=True)
    first = b.slice(order, starts=(0,) * rank, sizes=(*x.aval.shape[:-1], k), steps=(1,) * rank)
    return b.take_along(x, first), first


def _top_ref(x: Any, *, k: int) -> Any:
    i = _ref_argsort(x, descending=True)[..., :k]
    return np.take_along_axis(np.asarray(x), i.astype(np.int64), -1), i


def _top_vjp(b: Any, cts: Any, outs: Any, x: Any, *, k: int) -> list[Any]:
    return [None if cts[0] is None else b.along_add(b.zeros(x.aval), outs[1], cts[0])]


def _top_jvp(b: Any, ts: Any, outs: Any, x: Any, *, k: int) -> Any:
    return (None if ts[0] is None else b.take_along(ts[0], outs[1]), None)


def _top_vmap(b: Any, size: Size, ins: Any, dims: Any, *, k: int) -> Any:
    return b.top_k(move_axis(b, ins[0], dims[0], 0), k=k), (0, 0)


top_k = composed("top_k", _top_infer, _top_ref, _top_build, lambda rng: [Sample((rng.normal(size=(3, 7)),), {"k": 3}), Sample((np.array([1.0, 3, 3, 2]),), {"k": 2}, grad=False)],
                 (((f64(3),), {"k": 4}, "input must have at least k columns"),), "The k largest of the last axis in order, and their indices (the lower first at ties).",
                 vjp=_top_vjp, jvp=_top_jvp, vmap=_top_vmap)
