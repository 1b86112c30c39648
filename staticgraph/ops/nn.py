"""Softmax, log_softmax and dropout, composed of reductions and elementwise ops so that a row stays in one kernel."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..dtypes import float32, float64, int64
from ..errors import DTypeError, ShapeError
from ..ir.aval import Aval, Size
from .composed import composed
from .elementwise import quiet
from .helpers import Sample, check_kind, f64, i32, may_equal, move_axis, normalize_axis, shape_text

# ---- softmax -----------------------------------------------------------------------------------------------------------------


def _softmax_infer(x: Aval, *, axis: int = -1) -> Aval:
    check_kind(x, "f")
    normalize_axis(axis, x.ndim)
    return x


def _axes(x: Any, axis: int) -> tuple[int, ...]:
    return (normalize_axis(axis, len(x.aval.shape)),)


def _top(b: Any, x: Any, axes: tuple[int, ...]) -> Any:
    """The row's maximum, for a shift; without a gradient, and 0 for an empty row."""
    if any(x.aval.shape[k] == 0 for k in axes):
        return b.zeros(x.aval.with_shape(tuple(1 if k in axes else d for k, d in enumerate(x.aval.shape))))
    return b.stop_gradient(b.max(x, axis=axes, keepdims=True))


def _softmax_build(b: Any, x: Any, *, axis: int = -1) -> Any:
    axes = _axes(x, axis)
    z = b.exp(b.sub(x, _top(b, x, axes)))
    return b.div(z, b.sum(z, axis=axes, keepdims=True))


def _softmax_ref(x: Any, *, axis: int = -1) -> Any:
    x = np.asarray(x)
    z = np.exp(x - np.max(x, axis=axis, keepdims=True, initial=-np.inf))
    return z / z.sum(axis=axis, keepdims=True)


def _softmax_vjp(b: Any, ct: Any, y: Any, x: Any, *, axis: int = -1) -> list[Any]:
    # y * (ct - sum(ct * y)); strong zeros, so that a row not used cannot spoil it
    axes = _axes(y, axis)
    weighted = b.mulz(ct, y)
    return [b.sub(weighted, b.mulz(b.sum(weighted, axis=axes, keepdims=True), y))]


def _softmax_jvp(b: Any, ts: Any, y: Any, x: Any, *, axis: int = -1) -> Any:
    return None if ts[0] is None else _softmax_vjp(b, ts[0], y, x, axis=axis)[0]


def _softmax_vmap(name: str) -> Any:
    def rule(b: Any, size: Any, ins: Any, dims: Any, *, axis: int = -1) -> Any:
        x = move_axis(b, ins[0], dims[0], 0)
        return getattr(b, name)(x, axis=normalize_axis(axis, len(x.aval.shape) - 1) + 1), 0
    return rule


def _rows(rng: np.random.Generator) -> list[Sample]:
    special = np.array([[-np.inf, 0, 0], [1e6, -1e6, 3], [5, 5, 5], [-np.inf, -np.inf, 1]])
    return [Sample((rng.normal(size=(3, 4)),), {"axis": -1}), Sample((rng.normal(size=(3, 4)),), {"axis": 0}),
            Sample((rng.normal(size=(2, 3, 4)),), {"axis": 1}), Sample((rng.normal(size=(5,)).astype("f4"),), {"axis": 0}),
            Sample((rng.normal(size=(4, 17)).astype("f4"),), {"axis": -1}, grad=False),
            Sample((rng.normal(size=(3, 300)).astype("f4"),), {"axis": -1}, grad=False),
            Sample((special,), {"axis": -1}, grad=False), Sample((np.zeros((0, 3)),), {"axis": -1}, grad=False),
            Sample((np.zeros((3, 0)),), {"axis": -1}, grad=False),
            Sample((np.array([[-np.inf, -np.inf], [np.nan, 1], [np.inf, 1], [3e38, -3e38]], "f4"),), {"axis": -1}, grad=False)]


_AXIS_ERROR = (((f64(3),), {"axis": 1}, "axis 1 of a 1-dimensional"), ((i32(3),), {"axis": 0}, "not in list of allowed values"))
softmax = composed("softmax", _softmax_infer, quiet(_softmax_ref), _softmax_build, _rows, _AXIS_ERROR,
                   "exp(x) / sum(exp(x)) along an axis, shifted by the maximum; a row of -inf gives NaN.",
                   vjp=_softmax_vjp, jvp=_softmax_jvp, vmap=_softmax_vmap("softmax"))


def _log_softmax_build(b: Any, x: Any, *, axis: int = -1) -> Any:
    axes = _axes(x, axis)
    shifted = b.sub(x, _top(b, x, axes))
    return b.sub(shifted, b.log(b.sum(b.exp(shifted), axis=axes, keepdims=True)))


def log_softmax_ref(x: Any, *, axis: int = -1) -> Any:
    x = np.asarray(x)
    shifted = x - np.max(x, axis=axis, keepdims=True, initial=-np.inf)
    return shifted - np.log(np.exp(shifted).sum(axis=axis, keepdims=True))


def _log_softmax_vjp(b: Any, ct: Any, y: Any, x: Any, *, axis: int = -1) -> list[Any]:
    return [b.sub(ct, b.mulz(b.sum(ct, axis=_axes(y, axis), keepdims=True), b.exp(y)))]


def _log_softmax_jvp(b: Any, ts: Any, y: Any, x: Any, *, axis: int = -1) -> Any:
    t = ts[0]
    return None if t is None else b.sub(t, b.sum(b.mulz(t, b.exp(y)), axis=_axes(y, axis), keepdims=True))


log_softmax = composed("log_softmax", _softmax_infer, quiet(log_softmax_ref), _log_softmax_build, _rows, _AXIS_ERROR,
                       "x - logsumexp(x) along an axis; a row of -inf gives NaN.", vjp=_log_softmax_vjp, jvp=_log_softmax_jvp, vmap=_softmax_vmap("log_softmax"))


# ---- dropout -----------------------------------------------------------------------------------------------------------------


def _noise(x: Any, shape: tuple[Size, ...] | None) -> tuple[Size, ...]:
    return tuple(x.shape) if shape is None else shape


def _dropout_infer(x: Aval, key: Aval, rate: Aval, *, shape: tuple[Size, ...] | None = None) -> Aval:
    check_kind(x, "f")
    if key.dtype != int64 or key.shape != (3,):
        raise ShapeError(f"a key must be i64[3], got {key}")
    if rate.dtype != float64 or rate.shape != ():
        raise DTypeError(f"the rate must be a scalar of float64, got {rate}")
    noise = _noise(x, shape)
    if len(noise) > x.ndim or any(s != 1 and not may_equal(s, t) for s, t in zip(noise[::-1], x.shape[::-1])):
        raise ShapeError(f"noise of shape {shape_text(noise)} does not broadcast to {x}")
    return x


def _dropout_build(b: Any, x: Any, key: Any, rate: Any, *, shape: tuple[Size, ...] | None = None) -> Any:
    kind = x.aval.dtype
    draw = b.random_uniform(key, shape=_noise(x.aval, shape), dtype=float64 if kind.bits == 64 else float32)
    kept = b.greater_equal(draw, b.cast(rate, dtype=draw.aval.dtype))
    scale = b.cast(b.reciprocal(b.sub(b.like(rate, 1), rate)), dtype=kind)
    return b.where(b.broadcast(kept, x.aval.shape), b.mul(x, scale), b.zeros(x.aval))


def _dropout_ref(x: Any, key: Any, rate: Any, *, shape: tuple[int, ...] | None = None) -> Any:
    from .random import uniform_ref
    x = np.asarray(x)
    draw = uniform_ref(key, shape=_noise(x, shape), dtype=float64 if x.dtype.itemsize == 8 else float32)
    scale = np.asarray(1 / (1 - np.asarray(rate))).astype(x.dtype)
    return np.where(draw >= np.asarray(rate).astype(draw.dtype), x * scale, np.zeros_like(x))


def _dropout_samples(rng: np.random.Generator) -> list[Sample]:
    key = np.array([7, 8, 9])
    return [Sample((rng.normal(size=(3, 5)), key, np.float64(0.4))), Sample((rng.normal(size=(3, 5)), key, np.float64(0.4)), {"shape": (3, 1)}),
            Sample((rng.normal(size=(70,)).astype("f4"), key, np.float64(0.3)), grad=False), Sample((np.zeros((0, 2)), key, np.float64(0.5)), grad=False),
            Sample((np.array([np.nan, np.inf, -np.inf] * 8), key, np.float64(0.5)), grad=False), Sample((np.float64(3), key, np.float64(0.0)), grad=False)]


dropout = composed(
    "dropout", _dropout_infer, quiet(_dropout_ref), _dropout_build, _dropout_samples,
    (((f64(3), f64(3), f64()), {}, "a key must be i64[3]"), ((f64(3), Aval((3,), int64), f64(2)), {}, "the rate must be a scalar"),
     ((f64(3), Aval((3,), int64), f64()), {"shape": (2, 3)}, "does not broadcast")),
    "x / (1 - rate) where a uniform number drawn from the key is at least ``rate`` (TF 1.15's rule, so the same elements), else 0: also for NaN "
    "and infinities. ``shape`` is the noise's, of which axes of size 1 are shared.")
