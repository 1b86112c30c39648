"""Sorting and selection along the last axis. A NaN counts as larger than everything; equal values keep their order."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..dtypes import int32, int64
from ..errors import ShapeError
from ..ir.aval import Aval, Size, TupleAval, assume_at_most
from ..ir.opdef import Loops, NotDifferentiable, OpDef, define
from .composed import composed
from .helpers import Sample, f64, move_axis
from .scans import AXIS_ERROR, last_axis, rows_of


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


FEW = 32                                     # largest k of the one-pass selection
_ORDER = NotDifferentiable("an order is piecewise constant")
argsort = define(OpDef(
    "argsort", lambda x, *, descending=False: last_axis(x).with_dtype(int32), _ref_argsort, _ORDER, _ORDER,
    lambda b, size, ins, dims, *, descending=False: (b.argsort(move_axis(b, ins[0], dims[0], 0), descending=descending), 0),
    Loops(_emit_argsort, tasks=lambda out, x, **kw: rows_of(out), scratch=lambda out, x, **kw: [Aval((rows_of(out), out.shape[-1] * 2), int64)]),
    lambda rng: [Sample((rng.normal(size=(3, 7)),), {"descending": d}, grad=False) for d in (False, True)] + [
        Sample((np.array([[1.0, np.nan, 3, 1, -np.inf, np.nan, 3]]),), {"descending": d}, grad=False) for d in (False, True)] + [
        Sample((rng.integers(0, 3, (50,)).astype("i4"),), {"descending": d}, grad=False) for d in (False, True)] + [
        Sample((rng.normal(size=(2, 0)),), {"descending": False}, grad=False), Sample((rng.normal(size=(1,)),), {"descending": False}, grad=False)],
    (((f64(),), {}, "at least one axis"),), frozenset({"exact"}), doc="Indices that sort the last axis (stable; NaN counts as largest)."))

sort = composed("sort", lambda x, *, descending=False: last_axis(x),
                lambda x, *, descending=False: np.take_along_axis(np.asarray(x), _ref_argsort(x, descending=descending).astype(np.int64), -1),
                lambda b, x, *, descending=False: b.take_along(x, b.argsort(x, descending=descending)),
                lambda rng: [Sample((rng.normal(size=(3, 7)),), {"descending": d}) for d in (False, True)], AXIS_ERROR, "The last axis in order.")


def _emit_select(kernel: Any, outs: Any, x: Any, *, k: int) -> None:
    """One row per task: the best so far in order; whole vectors that hold nothing better than the last of them are passed over."""
    values, order = outs
    e, n = kernel.e, kernel.size(x.shape[-1])
    w = kernel.lanes(x.dtype)

    def beats(a: Any, c: Any) -> Any:
        more = e.cmp("gt", a, c)
        return e.or_(more, e.and_(e.isnan(a), e.not_(e.isnan(c)))) if x.dtype.kind == "f" else more

    def insert(base: Any, start: Any, j: Any, last: Any) -> list[Any]:
        """Element ``j`` of the row that starts at ``start`` goes where it belongs among the places up to ``last``."""
        v = x.load(kernel.add(start, j))

        def before(p: Any) -> Any:
            return kernel.add(base, e.select(e.cmp("gt", p, 0), e.sub(p, 1), p))

        def move(state: Any) -> Any:
            p = state[0]
            values.store(values.load(before(p)), kernel.add(base, p))
            order.store(order.load(before(p)), kernel.add(base, p))
            return [e.sub(p, 1)]
        place = e.while_([kernel.index(last)], lambda s: e.and_(e.cmp("gt", s[0], 0), beats(v, values.load(before(s[0])))), move)[0]
        values.store(v, kernel.add(base, place))
        order.store(e.cast(kernel.index(j), int32), kernel.add(base, place))
        return []

    def row(t: Any) -> None:
        start, base = kernel.mul(t, n), kernel.mul(t, k)
        kernel.range(k, lambda j: insert(base, start, j, j))

        def better(j: Any) -> list[Any]:
            found = beats(x.load(kernel.add(start, j)), values.load(kernel.add(base, k - 1)))
            e.if_(found, lambda: insert(base, start, j, k - 1))
            return []

        def vector(j: Any, _: Any) -> Any:
            worst = e.splat(values.load(kernel.add(base, k - 1)), w)
            hit = e.any(beats(x.load(kernel.add(start, j), w), worst))
            e.if_(hit, lambda: (kernel.range(w, lambda i: better(kernel.add(j, i))), [])[1])
            return []
        main = kernel.add(k, kernel.mul(kernel.div(kernel.sub(n, k), w), w))
        e.loop(k, main, w, [], vector)
        e.loop(main, n, 1, [], lambda j, _: better(j))
    kernel.tasks(row)


def _top_infer(x: Aval, *, k: int) -> TupleAval:
    last_axis(x)
    assume_at_most(k, x.shape[-1])
    if isinstance(x.shape[-1], int) and k > x.shape[-1]:
        raise ShapeError(f"input must have at least k columns. Had {x.shape[-1]}, needed {k}")
    shape = (*x.shape[:-1], k)
    return TupleAval((Aval(shape, x.dtype), Aval(shape, int32)))


def _top_build(b: Any, x: Any, *, k: int) -> Any:
    rank, n = len(x.aval.shape), x.aval.shape[-1]
    if 0 < k <= FEW and isinstance(n, int) and n >= 4 * k:
        return b.select_top(x, k=k)
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


def _top_samples(rng: np.random.Generator) -> list[Sample]:
    out = [Sample((rng.normal(size=(3, 7)),), {"k": 3}), Sample((rng.normal(size=(2, 3, 41)),), {"k": 5}),
           Sample((np.array([1.0, 3, 3, 2]),), {"k": 2}, grad=False), Sample((np.array([[np.nan, 1, np.inf, np.nan, -np.inf, 1]]),), {"k": 5}, grad=False)]
    return out + [Sample((rng.integers(-2, 3, (2, 37)).astype(d),), {"k": k}, grad=False) for d in ("i4", "i8", "f4", "u1") for k in (1, 4)]


_TOP_ERRORS: Any = (((f64(3),), {"k": 4}, "input must have at least k columns"), ((f64(),), {"k": 1}, "at least one axis"))
select_top = define(OpDef("select_top", _top_infer, _top_ref, _top_vjp, _top_jvp, _top_vmap, Loops(_emit_select, tasks=lambda outs, x, **kw: rows_of(outs[0])),
                          lambda rng: [s for s in _top_samples(rng) if s.attrs["k"]], _TOP_ERRORS, frozenset({"exact"}),
                          doc="top_k for small k: one pass over each row."))
top_k = composed("top_k", _top_infer, _top_ref, _top_build, _top_samples, _TOP_ERRORS,
                 "The k largest of the last axis in order, and their indices (the lower first at ties).", vjp=_top_vjp, jvp=_top_jvp, vmap=_top_vmap)
