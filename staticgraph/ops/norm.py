"""Norms, moments and normalisations, and the small ops on whole tensors that optimisers use (clip, add_n).

Cotangents multiply first and by ``mulz``: a row whose cotangent is 0 gets 0, whatever it holds.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..dtypes import float16, float32, uint32, uint64
from ..errors import ShapeError
from ..ir.aval import Aval, TupleAval
from .composed import composed
from .elementwise import quiet
from .helpers import Sample, broadcast_shapes, check_kind, f64, i32, may_equal, normalize_axes, normalize_axis, same_dtype, shape_text, summed_wide
from .reduce import count, reduced_shape, restore

# ---- the Euclidean norm ----------------------------------------------------------------------------------------------------------


def _norm_infer(x: Aval, *, axis: Any = None, keepdims: bool = False) -> Aval:
    check_kind(x, "f")
    return Aval(reduced_shape(x.shape, axis, keepdims), x.dtype)


def _binade(b: Any, x: Any, axes: tuple[int, ...]) -> Any:
    """The power of two just below the largest magnitude along axes: its exponent bits. 1 where that is infinite or NaN."""
    bits, mask = (uint64, 0x7FF << 52) if x.aval.dtype.bits == 64 else (uint32, 0xFF << 23)
    top = b.bitcast(b.max(b.abs(x), axis=axes, keepdims=True), dtype=bits)
    power = b.bitcast(b.bitwise_and(top, b.like(top, mask)), dtype=x.aval.dtype)
    least = b.like(x, np.finfo(x.aval.dtype.np).tiny)
    return b.where(b.less(power, b.like(x, np.inf)), b.maximum(power, least), b.like(x, 1))


def _norm_build(b: Any, x: Any, *, axis: Any = None, keepdims: bool = False) -> Any:
    axes = normalize_axes(axis, len(x.aval.shape))
    if x.aval.dtype is float16:              # its squares are ordinary numbers of float32
        return b.cast(b.sqrt(b.sum(b.square(b.cast(x, dtype=float32)), axis=axes, keepdims=keepdims)), dtype=float16)
    if any(x.aval.shape[k] == 0 for k in axes):
        return b.sqrt(b.sum(b.square(x), axis=axes, keepdims=keepdims))
    # scaled by a power of two, which is exact, squares neither overflow nor vanish
    unit = _binade(b, x, axes)
    length = b.mul(b.sqrt(b.sum(b.square(b.mul(x, b.reciprocal(unit))), axis=axes, keepdims=True)), unit)
    return b.reshape(length, shape=reduced_shape(x.aval.shape, axes, keepdims))


@summed_wide
def _norm_ref(x: Any, *, axis: Any = None, keepdims: bool = False) -> Any:
    x = np.asarray(x)
    axes = normalize_axes(axis, x.ndim)
    top = np.max(np.abs(x), axis=axes, keepdims=True, initial=0)
    unit = np.exp2(np.floor(np.log2(np.where((top > 0) & np.isfinite(top), top, 1).astype(x.dtype)))).astype(x.dtype)
    unit = np.maximum(unit, np.finfo(x.dtype).tiny)
    length = np.sqrt(np.sum(np.square(x / unit), axis=axes, keepdims=True)) * unit
    return length.reshape(reduced_shape(x.shape, axes, keepdims)).astype(x.dtype)


def _direction(b: Any, y: Any, x: Any, axis: Any) -> Any:
    """x / |x|, and 0 where the length is 0."""
    length = restore(b, y, x, axis)
    zero = b.equal(length, b.like(length, 0))
    return b.where(zero, b.like(x, 0), b.div(x, b.where(zero, b.like(length, 1), length)))


def _norm_vjp(b: Any, ct: Any, y: Any, x: Any, *, axis: Any = None, keepdims: bool = False) -> list[Any]:
    return [b.mulz(restore(b, ct, x, axis), _direction(b, y, x, axis))]


def _norm_jvp(b: Any, ts: Any, y: Any, x: Any, *, axis: Any = None, keepdims: bool = False) -> Any:
    return None if ts[0] is None else b.sum(b.mulz(ts[0], _direction(b, y, x, axis)), axis=axis, keepdims=keepdims)


def _norm_samples(rng: np.random.Generator) -> list[Sample]:
    out = [Sample((rng.normal(size=(3, 4)),), {"axis": a, "keepdims": k}) for a, k in ((None, False), ((1,), True), ((0,), False))]
    out += [Sample((rng.normal(size=(2, 3, 4)),), {"axis": (0, 2), "keepdims": False}), Sample((np.float64(-3),), {"axis": None, "keepdims": False})]
    rows = np.array([[0, 0], [3e-30, 4e-30], [3e37, 4e37], [np.inf, 1], [np.nan, 1], [-0.0, 0], [3e-42, 4e-42], [1, -1]])
    for d, far in (("f4", rows), ("f8", np.where(np.abs(rows) < 1, rows * 1e-200, rows * 1e200)), ("f8", rows)):
        out += [Sample((far.astype(d),), {"axis": (1,), "keepdims": False}, grad=False)]
    return [*out, Sample((rng.normal(size=(1000,)).astype("f4"),), {"axis": None, "keepdims": False}, grad=False),
            Sample((np.zeros((0, 3)),), {"axis": (0,), "keepdims": False}, grad=False), Sample((np.zeros((0, 3)),), {"axis": (1,), "keepdims": True}, grad=False)]


norm = composed("norm", _norm_infer, quiet(_norm_ref), _norm_build, _norm_samples,
                (((f64(3),), {"axis": (1,)}, "axis 1 of a 1-dimensional"), ((i32(3),), {}, "not in list of allowed values")),
                "Euclidean norm over axes (None: all); the squares neither overflow nor underflow. The gradient is x / |x|, and 0 where the norm is.",
                vjp=_norm_vjp, jvp=_norm_jvp)


# ---- x / |x| ---------------------------------------------------------------------------------------------------------------------


def _l2_infer(x: Aval, *, axis: Any = None, epsilon: float = 1e-12) -> Aval:
    check_kind(x, "f")
    normalize_axes(axis, x.ndim)
    return x


def _inverse_length(b: Any, x: Any, axis: Any, epsilon: float) -> tuple[Any, Any]:
    """1 / sqrt(max(sum(x**2), epsilon)), and whether the sum is at least epsilon."""
    total = b.sum(b.square(x), axis=axis, keepdims=True)
    return b.rsqrt(b.maximum(total, b.like(x, epsilon))), b.greater_equal(total, b.like(x, epsilon))


def _l2_map(b: Any, v: Any, y: Any, x: Any, axis: Any, epsilon: float) -> Any:
    # the Jacobian (1 - y y') / |x| is symmetric: one rule for both directions; below epsilon the length is constant
    inverse, moves = _inverse_length(b, x, axis, epsilon)
    along = b.where(moves, b.sum(b.mulz(v, y), axis=axis, keepdims=True), b.like(x, 0))
    return b.mulz(b.sub(v, b.mulz(along, y)), inverse)


l2_normalize = composed(
    "l2_normalize", _l2_infer,
    quiet(lambda x, *, axis=None, epsilon=1e-12: (x / np.sqrt(np.maximum(np.sum(np.square(x), axis=axis, keepdims=True), np.asarray(x).dtype.type(epsilon)))).astype(
        np.asarray(x).dtype)),
    lambda b, x, *, axis=None, epsilon=1e-12: b.mul(x, _inverse_length(b, x, axis, epsilon)[0]),
    lambda rng: [Sample((rng.normal(size=(3, 4)),), {"axis": a, "epsilon": e}) for a, e in ((None, 1e-12), ((1,), 1e-12), ((0,), 1e3))] + [
        Sample((np.zeros((2, 3), "f4"),), {"axis": (1,), "epsilon": 1e-12}, grad=False), Sample((np.zeros((0, 3)),), {"axis": (0,)}, grad=False),
        Sample((rng.normal(size=(2, 40)).astype("f4"),), {"axis": (1,), "epsilon": 1e-12}, grad=False)],
    (((f64(3),), {"axis": (1,)}, "axis 1 of a 1-dimensional"),), "x / sqrt(max(sum(x**2), epsilon)) over axes (None: all).",
    vjp=lambda b, ct, y, x, *, axis=None, epsilon=1e-12: [_l2_map(b, ct, y, x, axis, epsilon)],
    jvp=lambda b, ts, y, x, *, axis=None, epsilon=1e-12: None if ts[0] is None else _l2_map(b, ts[0], y, x, axis, epsilon))


# ---- mean and variance -----------------------------------------------------------------------------------------------------------


def _moments_infer(x: Aval, *, axis: Any = None, keepdims: bool = False) -> TupleAval:
    one = _norm_infer(x, axis=axis, keepdims=keepdims)
    return TupleAval((one, one))


def _centred(b: Any, x: Any, axes: tuple[int, ...]) -> tuple[Any, Any, Any]:
    """The mean and the variance of two passes, both with axes kept, and x less the mean."""
    mean = b.mean(x, axis=axes, keepdims=True)
    d = b.sub(x, mean)
    return mean, b.mean(b.square(d), axis=axes, keepdims=True), d


def _moments_build(b: Any, x: Any, *, axis: Any = None, keepdims: bool = False) -> Any:
    mean, variance, _ = _centred(b, x, normalize_axes(axis, len(x.aval.shape)))
    shape = reduced_shape(x.aval.shape, axis, keepdims)
    return b.reshape(mean, shape=shape), b.reshape(variance, shape=shape)


def _moments_vjp(b: Any, cts: Any, outs: Any, x: Any, *, axis: Any = None, keepdims: bool = False) -> list[Any]:
    n = count(b, x, axis)
    by_mean, by_variance = (None if ct is None else restore(b, b.div(ct, n), x, axis) for ct in cts)
    if by_variance is None:
        return [by_mean]
    d = b.sub(x, restore(b, outs[0], x, axis))
    return [b.add_n([by_mean, b.mulz(by_variance, b.add(d, d))])]


def _moments_jvp(b: Any, ts: Any, outs: Any, x: Any, *, axis: Any = None, keepdims: bool = False) -> Any:
    if ts[0] is None:
        return None, None
    d = b.sub(x, restore(b, outs[0], x, axis))
    return b.mean(ts[0], axis=axis, keepdims=keepdims), b.mean(b.mulz(ts[0], b.add(d, d)), axis=axis, keepdims=keepdims)


def _mean_and_variance(x: Any, axes: Any) -> tuple[Any, Any]:
    x = np.asarray(x)
    n = x.dtype.type(np.prod([x.shape[k] for k in axes]))
    mean = np.sum(x, axis=axes, keepdims=True) / n
    return mean, np.sum(np.square(x - mean), axis=axes, keepdims=True) / n


def _moments_ref(x: Any, *, axis: Any = None, keepdims: bool = False) -> Any:
    x = np.asarray(x)
    shape = reduced_shape(x.shape, axis, keepdims)
    mean, variance = _mean_and_variance(x, normalize_axes(axis, x.ndim))
    return mean.reshape(shape).astype(x.dtype), variance.reshape(shape).astype(x.dtype)


moments = composed(
    "moments", _moments_infer, quiet(_moments_ref), _moments_build,
    lambda rng: [Sample((rng.normal(size=(3, 4)),), {"axis": a, "keepdims": k}) for a, k in ((None, False), ((1,), True), ((0,), False))] + [
        Sample((rng.normal(size=(2, 3, 4)),), {"axis": (0, 1), "keepdims": False}), Sample((1e6 + rng.normal(size=(2, 300)),), {"axis": (1,)}, grad=False),
        Sample((rng.normal(size=(70, 3)).astype("f4"),), {"axis": (0,)}, grad=False), Sample((np.zeros((0, 3)),), {"axis": (0,)}, grad=False)],
    (((f64(3),), {"axis": (1,)}, "axis 1 of a 1-dimensional"), ((i32(3),), {}, "not in list of allowed values")),
    "Mean and population variance over axes (None: all), in two passes; NaN for none.", vjp=_moments_vjp, jvp=_moments_jvp)


# ---- layer and batch normalisation -----------------------------------------------------------------------------------------------


def _layer_infer(x: Aval, gamma: Aval, beta: Aval, *, axis: int = -1, epsilon: float = 1e-5) -> Aval:
    check_kind(x, "f")
    same_dtype(x, gamma, beta)
    shape = x.shape[normalize_axis(axis, x.ndim):]
    if not (_alike(gamma.shape, shape) and _alike(beta.shape, shape)):
        raise ShapeError(f"layer_norm of {x} from axis {axis} on needs gamma and beta of shape {shape_text(shape)}, got {gamma} and {beta}")
    return x


def _alike(p: Any, q: Any) -> bool:
    return len(p) == len(q) and all(map(may_equal, p, q))


def _standard(b: Any, x: Any, axes: tuple[int, ...], epsilon: float) -> tuple[Any, Any, Any, Any]:
    """(x - mean) / sqrt(variance + epsilon), the factor, the mean and the variance."""
    mean, variance, d = _centred(b, x, axes)
    inverse = b.rsqrt(b.add(variance, b.like(x, epsilon)))
    return b.mul(d, inverse), inverse, mean, variance


def _standard_map(b: Any, v: Any, standard: Any, inverse: Any, axes: tuple[int, ...]) -> Any:
    """The Jacobian of ``_standard`` applied to v; it is symmetric, so this is the forward and the reverse rule."""
    along = b.mean(b.mulz(v, standard), axis=axes, keepdims=True)
    return b.mulz(b.sub(b.sub(v, b.mean(v, axis=axes, keepdims=True)), b.mulz(along, standard)), inverse)


def _from(x: Any, axis: int) -> tuple[int, ...]:
    rank = len(x.aval.shape)
    return tuple(range(normalize_axis(axis, rank), rank))


def _layer_build(b: Any, x: Any, gamma: Any, beta: Any, *, axis: int = -1, epsilon: float = 1e-5) -> Any:
    return b.add(b.mul(_standard(b, x, _from(x, axis), epsilon)[0], gamma), beta)


def _layer_vjp(b: Any, ct: Any, y: Any, x: Any, gamma: Any, beta: Any, *, axis: int = -1, epsilon: float = 1e-5) -> list[Any]:
    axes = _from(x, axis)
    standard, inverse, *_ = _standard(b, x, axes, epsilon)
    return [_standard_map(b, b.mulz(ct, gamma), standard, inverse, axes), b.mulz(ct, standard), ct]


def _layer_jvp(b: Any, ts: Any, y: Any, x: Any, gamma: Any, beta: Any, *, axis: int = -1, epsilon: float = 1e-5) -> Any:
    axes = _from(x, axis)
    standard, inverse, *_ = _standard(b, x, axes, epsilon)
    parts = [None if ts[0] is None else b.mulz(_standard_map(b, ts[0], standard, inverse, axes), gamma),
             None if ts[1] is None else b.mulz(ts[1], standard), ts[2]]
    total = b.add_n(parts)
    return None if total is None else b.broadcast(total, x.aval.shape)


def _layer_ref(x: Any, gamma: Any, beta: Any, *, axis: int = -1, epsilon: float = 1e-5) -> Any:
    x = np.asarray(x)
    mean, variance = _mean_and_variance(x, tuple(range(axis % x.ndim, x.ndim)))
    return ((x - mean) / np.sqrt(variance + x.dtype.type(epsilon)) * gamma + beta).astype(x.dtype)


def _layer_samples(rng: np.random.Generator) -> list[Sample]:
    def one(shape: Any, axis: int, dtype: str, scale: float = 1, **kw: Any) -> Sample:
        more = shape[axis:]
        return Sample(tuple((scale * rng.normal(size=s)).astype(dtype) for s in (shape, more, more)), {"axis": axis, "epsilon": 1e-5}, **kw)
    flat = (np.full((2, 3), 5.0), np.ones(3), np.arange(3.0))
    return [one((3, 5), -1, "f8"), one((2, 3, 4), -2, "f8"), one((4,), 0, "f8"), one((2, 3, 40), -1, "f4", grad=False),
            one((2, 700), -1, "f4", 100, grad=False), one((0, 3), -1, "f8", grad=False), one((2, 0), -1, "f8", grad=False), Sample(flat, grad=False)]


layer_norm = composed(
    "layer_norm", _layer_infer, quiet(_layer_ref), _layer_build, _layer_samples,
    (((f64(3, 4), f64(3), f64(4)), {}, "layer_norm of"), ((f64(3, 4), f64(4), f64(4)), {"axis": 0}, "from axis 0 on needs gamma and beta of shape [3,4]")),
    "(x - mean) / sqrt(variance + epsilon) * gamma + beta over the axes from ``axis`` on (Ba et al., 2016).", vjp=_layer_vjp, jvp=_layer_jvp)


def _channels(x: Any, axis: int) -> tuple[int, tuple[int, ...]]:
    """The channel axis, and the axes that are averaged over."""
    rank = len(x.aval.shape)
    k = normalize_axis(axis, rank)
    return k, tuple(a for a in range(rank) if a != k)


def _along(b: Any, v: Any, x: Any, k: int) -> Any:
    """A value per channel, shaped to broadcast against x."""
    return b.reshape(v, shape=tuple(d if a == k else 1 for a, d in enumerate(x.aval.shape)))


def _batch_check(x: Aval, *per_channel: Aval, axis: int) -> Aval:
    check_kind(x, "f")
    same_dtype(x, *per_channel)
    channels = x.shape[normalize_axis(axis, x.ndim)]
    if any(not _alike(p.shape, (channels,)) for p in per_channel):
        raise ShapeError(f"batch normalisation of {x} along axis {axis} needs values of shape {shape_text((channels,))}, got {', '.join(map(str, per_channel))}")
    return Aval((channels,), x.dtype)


def _batch_infer(x: Aval, gamma: Aval, beta: Aval, *, axis: int = -1, epsilon: float = 1e-3) -> TupleAval:
    each = _batch_check(x, gamma, beta, axis=axis)
    return TupleAval((x, each, each))


def _batch_build(b: Any, x: Any, gamma: Any, beta: Any, *, axis: int = -1, epsilon: float = 1e-3) -> Any:
    k, axes = _channels(x, axis)
    standard, _, mean, variance = _standard(b, x, axes, epsilon)
    y = b.add(b.mul(standard, _along(b, gamma, x, k)), _along(b, beta, x, k))
    return y, b.reshape(mean, shape=gamma.aval.shape), b.reshape(variance, shape=gamma.aval.shape)


def _batch_vjp(b: Any, cts: Any, outs: Any, x: Any, gamma: Any, beta: Any, *, axis: int = -1, epsilon: float = 1e-3) -> list[Any]:
    k, axes = _channels(x, axis)
    by_x, by_gamma, by_beta = _moments_vjp(b, cts[1:], outs[1:], x, axis=axes)[0], None, None
    if cts[0] is not None:
        standard, inverse, *_ = _standard(b, x, axes, epsilon)
        by_x = b.add_n([_standard_map(b, b.mulz(cts[0], _along(b, gamma, x, k)), standard, inverse, axes), by_x])
        by_gamma, by_beta = b.sum(b.mulz(cts[0], standard), axis=axes), b.sum(cts[0], axis=axes)
    return [by_x, by_gamma, by_beta]


def _batch_jvp(b: Any, ts: Any, outs: Any, x: Any, gamma: Any, beta: Any, *, axis: int = -1, epsilon: float = 1e-3) -> Any:
    k, axes = _channels(x, axis)
    standard, inverse, *_ = _standard(b, x, axes, epsilon)
    parts = [None if ts[0] is None else b.mulz(_standard_map(b, ts[0], standard, inverse, axes), _along(b, gamma, x, k)),
             None if ts[1] is None else b.mulz(_along(b, ts[1], x, k), standard), None if ts[2] is None else _along(b, ts[2], x, k)]
    total = b.add_n(parts)
    return (None if total is None else b.broadcast(total, x.aval.shape), *_moments_jvp(b, ts, outs[1:], x, axis=axes))


def _batch_ref(x: Any, gamma: Any, beta: Any, *, axis: int = -1, epsilon: float = 1e-3) -> Any:
    x = np.asarray(x)
    k = axis % x.ndim
    mean, variance = _mean_and_variance(x, tuple(a for a in range(x.ndim) if a != k))
    wide = [-1 if a == k else 1 for a in range(x.ndim)]
    y = (x - mean) / np.sqrt(variance + x.dtype.type(epsilon)) * gamma.reshape(wide) + beta.reshape(wide)
    return y.astype(x.dtype), mean.reshape(-1).astype(x.dtype), variance.reshape(-1).astype(x.dtype)


def _batch_samples(per_channel: int) -> Any:
    def samples(rng: np.random.Generator) -> list[Sample]:
        def one(shape: Any, axis: int, dtype: str, **kw: Any) -> Sample:
            more = [np.abs(rng.normal(size=shape[axis])).astype(dtype) + np.dtype(dtype).type(1) for _ in range(per_channel)]
            return Sample((rng.normal(size=shape).astype(dtype), *more), {"axis": axis, "epsilon": 1e-3}, **kw)
        return [one((5, 3), -1, "f8"), one((2, 3, 4), 1, "f8"), one((4,), 0, "f8"), one((2, 5, 5, 8), -1, "f4", grad=False),
                one((2, 8, 5, 5), 1, "f4", grad=False), one((0, 3), 1, "f8", grad=False)]
    return samples


_BATCH_ERROR = "needs values of shape [4]"
batch_norm = composed(
    "batch_norm", _batch_infer, quiet(_batch_ref), _batch_build, _batch_samples(2), (((f64(3, 4), f64(3), f64(4)), {}, _BATCH_ERROR),),
    "Training form: x standardised per channel (``axis``) by the batch's own mean and population variance, times gamma, plus beta "
    "(Ioffe and Szegedy, 2015); gives that mean and variance too.", vjp=_batch_vjp, jvp=_batch_jvp)


def _inference_build(b: Any, x: Any, mean: Any, variance: Any, gamma: Any, beta: Any, *, axis: int = -1, epsilon: float = 1e-3) -> Any:
    k, _ = _channels(x, axis)
    factor = b.mul(b.rsqrt(b.add(variance, b.like(x, epsilon))), gamma)
    return b.add(b.mul(b.sub(x, _along(b, mean, x, k)), _along(b, factor, x, k)), _along(b, beta, x, k))


def _inference_ref(x: Any, mean: Any, variance: Any, gamma: Any, beta: Any, *, axis: int = -1, epsilon: float = 1e-3) -> Any:
    x = np.asarray(x)
    wide = [-1 if a == axis % x.ndim else 1 for a in range(x.ndim)]
    factor = gamma / np.sqrt(variance + x.dtype.type(epsilon))
    return ((x - mean.reshape(wide)) * factor.reshape(wide) + beta.reshape(wide)).astype(x.dtype)


def _inference_infer(x: Aval, mean: Aval, variance: Aval, gamma: Aval, beta: Aval, *, axis: int = -1, epsilon: float = 1e-3) -> Aval:
    _batch_check(x, mean, variance, gamma, beta, axis=axis)
    return x


batch_norm_inference = composed(
    "batch_norm_inference", _inference_infer, quiet(_inference_ref), _inference_build, _batch_samples(4),
    (((f64(3, 4), f64(4), f64(4), f64(3), f64(4)), {}, _BATCH_ERROR),),
    "Inference form: (x - mean) * gamma / sqrt(variance + epsilon) + beta per channel, with given mean and variance.")


# ---- clip, add_n -----------------------------------------------------------------------------------------------------------------


def _clip_infer(x: Aval, lo: Aval, hi: Aval) -> Aval:
    dtype = same_dtype(x, lo, hi)
    return Aval(broadcast_shapes(x.shape, lo.shape, hi.shape), dtype)


def _clip_vjp(b: Any, ct: Any, y: Any, x: Any, lo: Any, hi: Any) -> list[Any]:
    return [b.mulz(ct, p) for p in _clip_picks(b, x, lo, hi)]


def _clip_picks(b: Any, x: Any, lo: Any, hi: Any) -> list[Any]:
    """1 for the operand that the result is: x at both bounds, hi where the bounds cross."""
    inside = b.logical_and(b.greater_equal(x, lo), b.less_equal(x, hi))
    below = b.logical_and(b.less(x, lo), b.less_equal(lo, hi))
    rest = b.logical_not(b.logical_or(inside, below))
    return [b.cast(p, dtype=x.aval.dtype) for p in (inside, below, rest)]


def _clip_jvp(b: Any, ts: Any, y: Any, x: Any, lo: Any, hi: Any) -> Any:
    parts = [b.mulz(t, p) for t, p in zip(ts, _clip_picks(b, x, lo, hi)) if t is not None]
    return b.add_n(parts)


clip = composed("clip", _clip_infer, lambda x, lo, hi: np.minimum(np.maximum(x, lo), hi), lambda b, x, lo, hi: b.minimum(b.maximum(x, lo), hi),
                lambda rng: [Sample((rng.normal(size=(3, 4)), np.float64(-0.7), np.float64(0.6))), Sample((rng.normal(size=(3, 4)), rng.normal(size=4), np.float64(0.6))),
                             Sample((np.array([-1.0, 1, 0.25, 3, -3, np.nan, np.inf, -np.inf]), np.float64(-1), np.float64(1)), grad=False),
                             Sample((np.array([-5, 0, 300], "i4"), np.int32(-1), np.int32(255)), grad=False), Sample((np.zeros((0, 2)), np.float64(0), np.float64(1)), grad=False)],
                (((f64(3), f64(2), f64()), {}, "Incompatible shapes"), ((f64(3), i32(), f64()), {}, "different dtypes")),
                "min(max(x, lo), hi); the gradient goes to x at both bounds; NaN stays NaN.", vjp=_clip_vjp, jvp=_clip_jvp)


def _all_alike(*xs: Aval) -> Aval:
    if not xs:
        raise ShapeError("add_n needs at least one value")
    same_dtype(*xs)
    for x in xs:
        if not _alike(xs[0].shape, x.shape):
            raise ShapeError(f"Shapes must be equal rank and size: {shape_text(xs[0].shape)} and {shape_text(x.shape)}")
    return xs[0]


def _add_n_build(b: Any, *xs: Any) -> Any:
    total = xs[0] if len(xs) > 1 else b.identity(xs[0])
    for x in xs[1:]:
        total = b.add(total, x)
    return total


add_n = composed("add_n", _all_alike, lambda *xs: np.asarray(sum(xs[1:], xs[0])), _add_n_build,
                 lambda rng: [Sample(tuple(rng.normal(size=(3,)) for _ in range(k))) for k in (1, 2, 4)] + [
                     Sample((np.array([2**31 - 1], "i4"), np.array([1], "i4")), grad=False), Sample((np.zeros((0, 2)), np.zeros((0, 2))), grad=False)],
                 (((f64(2), f64(3)), {}, "Shapes must be equal"), ((f64(2), i32(2)), {}, "different dtypes")),
                 "The sum of several values of one shape, left to right.", vjp=lambda b, ct, y, *xs: [ct] * len(xs), jvp=lambda b, ts, y, *xs: b.add_n(ts))
