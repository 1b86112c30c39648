"""Running sums and products and first-order recurrences, along the last axis inside."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..dtypes import as_dtype, float16, float32, float64
from ..errors import ShapeError
from ..ir.aval import Aval, Dim, Size, product
from ..ir.opdef import Loops, OpDef, define
from .composed import composed
from .helpers import NUMBERS, Sample, batched, check_kind, f64, move_axis, normalize_axis, same_dtype

# float32 is accumulated in float64: a running sum of 100,000 terms stays accurate to the last bit or two
_WIDE = {float16: float32, float32: float64}


def _emit_scan(multiply: bool) -> Any:
    def emit(k: Any, out: Any, x: Any) -> None:
        e, n, kind = k.e, k.size(x.shape[-1]), _WIDE.get(x.dtype, x.dtype)

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
        kind = as_dtype(x.dtype)
        return f(x, axis=-1, dtype=_WIDE.get(kind, kind).np).astype(x.dtype)
    return ref


def last_axis(x: Aval) -> Aval:
    check_kind(x, NUMBERS)
    if x.ndim < 1:
        raise ShapeError("a scan needs at least one axis")
    return x


def _scan_samples(rng: np.random.Generator) -> list[Sample]:
    return [Sample((rng.normal(size=(3, 4)),)), Sample((np.array([[2.0, 0, 3, 0, 1], [1, 2, 0, 3, 4]]),)), Sample((rng.normal(size=(70,)).astype("f4"),), grad=False),
            Sample((rng.integers(-3, 4, (2, 5)).astype("i4"),), grad=False), Sample((np.zeros((2, 0)),), grad=False), Sample((np.zeros((0, 3)),), grad=False)]


def rows_of(out: Aval, *_: Aval) -> Size:
    return product(out.shape[:-1])


def _front(name: str) -> Any:
    return lambda b, size, ins, dims: (getattr(b, name)(*[batched(b, x, d, size) for x, d in zip(ins, dims)]), 0)


AXIS_ERROR: Any = (((f64(),), {}, "at least one axis"),)
scan_add = define(OpDef("scan_add", last_axis, _ref_scan(np.cumsum), lambda b, ct, y, x: [_reversed(b, ct, b.scan_add)],
                        lambda b, ts, y, x: None if ts[0] is None else b.scan_add(ts[0]), _front("scan_add"),
                        Loops(_emit_scan(False), tasks=rows_of), _scan_samples, AXIS_ERROR, frozenset({"linear"}), doc="Running sums along the last axis."))


def _reversed(b: Any, x: Any, f: Any) -> Any:
    last = (len(x.aval.shape) - 1,)
    return b.reverse(f(b.reverse(x, axis=last)), axis=last)


def _shift(b: Any, x: Any, fill: float) -> Any:
    """Elements moved one place on along the last axis, ``fill`` first."""
    shape = x.aval.shape
    rank = len(shape)
    if shape[-1] == 0:
        return x
    zeros, ones = (0,) * rank, (1,) * rank
    pads = {"before": (*zeros[1:], 1), "after": zeros, "between": zeros, "value": fill}
    if isinstance(shape[-1], Dim):           # which may be 0: there is no last element to leave out first
        return b.slice(b.pad(x, **pads), starts=zeros, sizes=shape, steps=ones)
    return b.pad(b.slice(x, starts=zeros, sizes=(*shape[:-1], shape[-1] - 1), steps=ones), **pads)


def _product_vjp(b: Any, ct: Any, y: Any, x: Any) -> list[Any]:
    # d/dx_k = (product before k) * s_k with s_k = ct_k + x_{k+1} s_{k+1}: no division, so zeros are exact
    before = b.scan_mul(_shift(b, x, 1.0))
    last = (len(x.aval.shape) - 1,)
    back = b.recurrence(_shift(b, b.reverse(x, axis=last), 0.0), b.reverse(ct, axis=last))
    return [b.mul(before, b.reverse(back, axis=last))]


def _product_jvp(b: Any, ts: Any, y: Any, x: Any) -> Any:
    # y_k' = x_k y_{k-1}' + x_k' y_{k-1}
    return None if ts[0] is None else b.recurrence(x, b.mul(ts[0], _shift(b, y, 1.0)))


scan_mul = define(OpDef("scan_mul", last_axis, _ref_scan(np.cumprod), _product_vjp, _product_jvp, _front("scan_mul"), Loops(_emit_scan(True), tasks=rows_of),
                        _scan_samples, AXIS_ERROR, doc="Running products along the last axis; the gradient is exact where entries are zero."))


def _emit_recurrence(k: Any, out: Any, a: Any, c: Any) -> None:
    e, n = k.e, k.size(a.shape[-1])

    def row(t: Any) -> None:
        start = k.mul(t, n)

        def step(i: Any, y: Any) -> Any:
            at = k.add(start, i)
            new = e.add(e.mul(a.load(at), y[0]), c.load(at))
            out.store(new, at)
            return [new]
        e.loop(0, n, 1, [e.const(float32 if out.dtype is float16 else out.dtype, 0)], step)
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
                          Loops(_emit_recurrence, tasks=rows_of), lambda rng: [Sample((rng.normal(size=(3, 5)), rng.normal(size=(3, 5))))],
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
