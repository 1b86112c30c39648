"""Softmax, losses and normalisations, composed of reductions and elementwise ops so that a row stays in one kernel."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import DTypeError, ShapeError
from ..ir.aval import Aval
from .composed import composed
from .elementwise import quiet
from .helpers import Sample, broadcast_shapes, check_kind, f64, i32, may_equal, normalize_axis, same_dtype, shape_text
from .reduce import restore

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
    return [b.sub(weighted, b.mul(y, b.sum(weighted, axis=axes, keepdims=True)))]


def _softmax_jvp(b: Any, ts: Any, y: Any, x: Any, *, axis: int = -1) -> Any:
    return None if ts[0] is None else _softmax_vjp(b, ts[0], y, x, axis=axis)[0]


def _softmax_vmap(name: str) -> Any:
    def rule(b: Any, size: Any, ins: Any, dims: Any, *, axis: int = -1) -> Any:
        from .helpers import move_axis
        x = move_axis(b, ins[0], dims[0], 0)
        return getattr(b, name)(x, axis=normalize_axis(axis, len(x.aval.shape) - 1) + 1), 0
    return rule


def _rows(rng: np.random.Generator) -> list[Sample]:
    special = np.array([[-np.inf, 0, 0], [1e6, -1e6, 3], [5, 5, 5], [-np.inf, -np.inf, 1]])
    return [Sample((rng.normal(size=(3, 4)),), {"axis": -1}), Sample((rng.normal(size=(3, 4)),), {"axis": 0}),
            Sample((rng.normal(size=(2, 3, 4)),), {"axis": 1}), Sample((rng.normal(size=(5,)).astype("f4"),), {"axis": 0}),
            Sample((rng.normal(size=(4, 17)).astype("f4"),), {"axis": -1}, grad=False),
            Sample((rng.normal(size=(3, 300)).astype("f4"),), {"axis": -1}, grad=False),
            Sample((special,), {"axis": -1}, grad=False), Sample((np.zeros((0, 3)),), {"axis": -1}, grad=False)]


_AXIS_ERROR = (((f64(3),), {"axis": 1}, "axis 1 of a 1-dimensional"), ((i32(3),), {"axis": 0}, "not in list of allowed values"))
softmax = composed("softmax", _softmax_infer, quiet(_softmax_ref), _softmax_build, _rows, _AXIS_ERROR,
                   "exp(x) / sum(exp(x)) along an axis, shifted by the maximum; a row of -inf gives NaN.",
                   vjp=_softmax_vjp, jvp=_softmax_jvp, vmap=_softmax_vmap("softmax"))


def _log_softmax_build(b: Any, x: Any, *, axis: int = -1) -> Any:
    axes = _axes(x, axis)
    shifted = b.sub(x, _top(b, x, axes))
    return b.sub(shifted, b.log(b.sum(b.exp(shifted), axis=axes, keepdims=True)))


def _log_softmax_ref(x: Any, *, axis: int = -1) -> Any:
    x = np.asarray(x)
    shifted = x - np.max(x, axis=axis, keepdims=True, initial=-np.inf)
    return shifted - np.log(np.exp(shifted).sum(axis=axis, keepdims=True))


def _log_softmax_vjp(b: Any, ct: Any, y: Any, x: Any, *, axis: int = -1) -> list[Any]:
    return [b.sub(ct, b.mul(b.exp(y), b.sum(ct, axis=_axes(y, axis), keepdims=True)))]


def _log_softmax_jvp(b: Any, ts: Any, y: Any, x: Any, *, axis: int = -1) -> Any:
    t = ts[0]
    return None if t is None else b.sub(t, b.sum(b.mulz(t, b.exp(y)), axis=_axes(y, axis), keepdims=True))


log_softmax = composed("log_softmax", _softmax_infer, quiet(_log_softmax_ref), _log_softmax_build, _rows, _AXIS_ERROR,
                       "x - logsumexp(x) along an axis.", vjp=_log_softmax_vjp, jvp=_log_softmax_jvp, vmap=_softmax_vmap("log_softmax"))


# ---- losses --------------------------------------------------------------------------------------------------------------------


def _xent_infer(labels: Aval, logits: Aval) -> Aval:
    check_kind(logits, "f")
    same_dtype(labels, logits)
    if logits.ndim < 1:
        raise ShapeError(f"logits must have a class axis, got {logits}")
    shape = broadcast_shapes(labels.shape, logits.shape)
    return Aval(shape[:-1], logits.dtype)


def _xent_build(b: Any, labels: Any, logits: Any) -> Any:
    # a class of weight 0 counts nothing, even where its logit is -inf
    return b.neg(b.sum(b.mulz(labels, b.log_softmax(logits, axis=-1)), axis=(-1,)))


def _xent_ref(labels: Any, logits: Any) -> Any:
    y = _log_softmax_ref(logits)
    return -np.where(labels == 0, 0, labels * y).sum(axis=-1).astype(np.asarray(logits).dtype)


def _xent_vjp(b: Any, ct: Any, loss: Any, labels: Any, logits: Any) -> list[Any]:
    rank = len(logits.aval.shape)
    wide = b.expand_dims(ct, axis=rank - 1)
    total = b.sum(labels, axis=(-1,), keepdims=True)
    by_logits = b.sub(b.mul(b.softmax(logits, axis=-1), total), labels)
    return [b.neg(b.mulz(b.broadcast(wide, logits.aval.shape), b.log_softmax(logits, axis=-1))), b.mulz(b.broadcast(wide, logits.aval.shape), by_logits)]


def _xent_samples(rng: np.random.Generator) -> list[Sample]:
    p = rng.random((3, 5))
    p /= p.sum(-1, keepdims=True)
    return [Sample((p, rng.normal(size=(3, 5)))), Sample((p[0], rng.normal(size=(5,)))),
            Sample((np.eye(4), rng.normal(size=(4, 4)) * 50), grad=False), Sample((np.zeros((0, 3)), np.zeros((0, 3))), grad=False),
            Sample((np.array([[0, 1.0, 0]]), np.array([[-np.inf, 0, 0]])), grad=False),
            Sample((p.astype("f4"), rng.normal(size=(3, 5)).astype("f4")), grad=False)]


softmax_cross_entropy_with_logits = composed(
    "softmax_cross_entropy_with_logits", _xent_infer, quiet(_xent_ref), _xent_build, _xent_samples,
    (((f64(3, 4), f64(3, 5)), {}, "Incompatible shapes"), ((i32(3, 4), f64(3, 4)), {}, "different dtypes")),
    "-sum(labels * log_softmax(logits)) over the last axis; both get gradients.", vjp=_xent_vjp)


def _sparse_infer(labels: Aval, logits: Aval) -> Aval:
    check_kind(logits, "f")
    if labels.dtype.kind not in "iu":
        raise DTypeError(f"labels must be integers, got {labels}")
    if logits.ndim != labels.ndim + 1:
        raise ShapeError(f"Rank mismatch: Rank of labels (received {labels.ndim}) should equal rank of logits minus 1 (received {logits.ndim}).")
    if not all(map(may_equal, labels.shape, logits.shape)):
        raise ShapeError(f"Incompatible shapes: labels {shape_text(labels.shape)} vs. logits {shape_text(logits.shape)}")
    return Aval(logits.shape[:-1], logits.dtype)


def _checked(b: Any, labels: Any, logits: Any) -> Any:
    classes = logits.aval.shape[-1]
    kind = labels.aval.dtype
    bound = b.like(labels, classes) if isinstance(classes, int) else b.cast(b.reshape(b.sizes(sizes=(classes,), dtype=kind), shape=()), dtype=kind)
    ok = b.less(labels, bound)
    if kind.kind == "i":
        ok = b.logical_and(ok, b.greater_equal(labels, b.like(labels, 0)))
    return b.guard(labels, ok, message="Received a label value of {a} which is outside the valid range of [0, {limit}).", limit=classes, fill=0)


def _picked(b: Any, labels: Any, like: Any) -> Any:
    """True at each row's label."""
    rank = len(like.aval.shape)
    place = b.iota(shape=like.aval.shape, axis=rank - 1, dtype=labels.aval.dtype)
    return b.equal(place, b.broadcast(b.expand_dims(labels, axis=rank - 1), like.aval.shape))


def _sparse_build(b: Any, labels: Any, logits: Any) -> Any:
    safe = _checked(b, labels, logits)
    y = b.log_softmax(logits, axis=-1)
    return b.neg(b.sum(b.where(_picked(b, safe, logits), y, b.zeros(y.aval)), axis=(-1,)))


def _sparse_ref(labels: Any, logits: Any) -> Any:
    from ..errors import InvalidArgumentError
    labels, logits = np.asarray(labels), np.asarray(logits)
    bad = (labels < 0) | (labels >= logits.shape[-1])
    if bad.any():
        raise InvalidArgumentError(None, None, f"Received a label value of {labels[bad].ravel()[0]} which is outside the valid "
                                               f"range of [0, {logits.shape[-1]}).")
    return -np.take_along_axis(_log_softmax_ref(logits), labels[..., None].astype(np.int64), -1)[..., 0]


def _sparse_vjp(b: Any, ct: Any, loss: Any, labels: Any, logits: Any) -> list[Any]:
    rank = len(logits.aval.shape)
    safe = _checked(b, labels, logits)
    hot = b.cast(_picked(b, safe, logits), dtype=logits.aval.dtype)
    wide = b.broadcast(b.expand_dims(ct, axis=rank - 1), logits.aval.shape)
    return [None, b.mulz(wide, b.sub(b.softmax(logits, axis=-1), hot))]


def _sparse_samples(rng: np.random.Generator) -> list[Sample]:
    return [Sample((np.array([1, 4, 0], np.int32), rng.normal(size=(3, 5)))), Sample((np.array(2, np.int64), rng.normal(size=(5,)))),
            Sample((rng.integers(0, 5, (2, 3)), rng.normal(size=(2, 3, 5)))), Sample((np.zeros((0,), np.int32), np.zeros((0, 3))), grad=False),
            Sample((np.array([0, 2], np.int32), rng.normal(size=(2, 100)).astype("f4")), grad=False)]


sparse_softmax_cross_entropy_with_logits = composed(
    "sparse_softmax_cross_entropy_with_logits", _sparse_infer, quiet(_sparse_ref), _sparse_build, _sparse_samples,
    (((i32(2, 3), f64(2, 3)), {}, "Rank mismatch: Rank of labels (received 2) should equal rank of logits minus 1 (received 2)."),
     ((f64(2), f64(2, 3)), {}, "labels must be integers")),
    "-log_softmax(logits)[label] per row; a label out of range fails the run.", vjp=_sparse_vjp)


def _sig_xent_build(b: Any, labels: Any, logits: Any) -> Any:
    return b.add(b.sub(b.relu(logits), b.mul(logits, labels)), b.log1p(b.exp(b.neg(b.abs(logits)))))


def _sig_xent_vjp(b: Any, ct: Any, loss: Any, labels: Any, logits: Any) -> list[Any]:
    return [b.neg(b.mulz(ct, logits)), b.mulz(ct, b.sub(b.sigmoid(logits), labels))]


def _sig_infer(labels: Aval, logits: Aval) -> Aval:
    check_kind(logits, "f")
    same_dtype(labels, logits)
    if len(labels.shape) != len(logits.shape) or not all(map(may_equal, labels.shape, logits.shape)):
        raise ShapeError(f"logits and labels must have the same shape ({shape_text(logits.shape)} vs {shape_text(labels.shape)})")
    return logits


sigmoid_cross_entropy_with_logits = composed(
    "sigmoid_cross_entropy_with_logits", _sig_infer,
    quiet(lambda labels, logits: np.maximum(logits, 0) - logits * labels + np.log1p(np.exp(-np.abs(logits)))),
    _sig_xent_build, lambda rng: [Sample((rng.random((3, 4)), rng.normal(size=(3, 4)))), Sample((np.ones(3), np.array([-800.0, 0, 800])), grad=False)],
    (((f64(3), f64(4)), {}, "must have the same shape"),), "Logistic loss per element, without overflow.", vjp=_sig_xent_vjp)


def _scalar_of(x: Aval) -> Aval:
    check_kind(x, "f")
    return x.with_shape(())


l2_loss = composed("l2_loss", _scalar_of, lambda x: np.asarray(np.sum(np.square(x)) / 2, np.asarray(x).dtype),
                   lambda b, x: b.mul(b.sum(b.square(x), axis=None), b.like(x, 0.5)), lambda rng: [Sample((rng.normal(size=(3, 4)),))],
                   doc="sum(x**2) / 2", vjp=lambda b, ct, y, x: [b.mul(x, ct)])


# ---- norms -----------------------------------------------------------------------------------------------------------------------


def _norm_infer(x: Aval, *, axis: Any = None, keepdims: bool = False) -> Aval:
    from .reduce import reduced_shape
    check_kind(x, "f")
    return Aval(reduced_shape(x.shape, axis, keepdims), x.dtype)


def _norm_build(b: Any, x: Any, *, axis: Any = None, keepdims: bool = False) -> Any:
    return b.sqrt(b.sum(b.square(x), axis=axis, keepdims=keepdims))


def _norm_vjp(b: Any, ct: Any, y: Any, x: Any, *, axis: Any = None, keepdims: bool = False) -> list[Any]:
    return [b.mulz(restore(b, ct, x, axis), _unit(b, y, x, axis))]


def _norm_jvp(b: Any, ts: Any, y: Any, x: Any, *, axis: Any = None, keepdims: bool = False) -> Any:
    return None if ts[0] is None else b.sum(b.mulz(ts[0], _unit(b, y, x, axis)), axis=axis, keepdims=keepdims)


def _unit(b: Any, y: Any, x: Any, axis: Any) -> Any:
    # x / |x|, and 0 where the length is 0
    length = restore(b, y, x, axis)
    zero = b.equal(length, b.like(length, 0))
    return b.where(zero, b.like(x, 0), b.div(x, b.where(zero, b.like(length, 1), length)))


norm = composed("norm", _norm_infer, lambda x, *, axis=None, keepdims=False: np.sqrt(np.sum(np.square(x), axis=axis, keepdims=keepdims)),
                _norm_build, lambda rng: [Sample((rng.normal(size=(3, 4)),), {"axis": a, "keepdims": k}) for a, k in ((None, False), ((1,), True))] + [
                    Sample((np.zeros(3),), {"axis": None, "keepdims": False}, grad=False)],
                (((f64(3),), {"axis": (1,)}, "axis 1 of a 1-dimensional"),), "Euclidean norm over axes, sqrt(sum(x**2)): squares may underflow; the gradient is 0 where the norm is.",
                vjp=_norm_vjp, jvp=_norm_jvp)


def _layer_infer(x: Aval, gamma: Aval, beta: Aval, *, epsilon: float = 1e-5) -> Aval:
    check_kind(x, "f")
    same_dtype(x, gamma, beta)
    if x.ndim < 1 or gamma.shape != x.shape[-1:] or beta.shape != x.shape[-1:]:
        raise ShapeError(f"layer_norm of {x} needs gamma and beta of shape {shape_text(x.shape[-1:])}, got {gamma} and {beta}")
    return x


def _standard(b: Any, x: Any, epsilon: float) -> tuple[Any, Any]:
    mean = b.mean(x, axis=(-1,), keepdims=True)
    d = b.sub(x, mean)
    inv = b.rsqrt(b.add(b.mean(b.square(d), axis=(-1,), keepdims=True), b.like(x, epsilon)))
    return b.mul(d, inv), inv


def _layer_build(b: Any, x: Any, gamma: Any, beta: Any, *, epsilon: float = 1e-5) -> Any:
    return b.add(b.mul(_standard(b, x, epsilon)[0], gamma), beta)


def _layer_vjp(b: Any, ct: Any, y: Any, x: Any, gamma: Any, beta: Any, *, epsilon: float = 1e-5) -> list[Any]:
    xh, inv = _standard(b, x, epsilon)
    g = b.mul(ct, gamma)
    inner = b.sub(b.sub(g, b.mean(g, axis=(-1,), keepdims=True)), b.mul(xh, b.mean(b.mul(g, xh), axis=(-1,), keepdims=True)))
    return [b.mul(inv, inner), b.sum_to(b.mul(ct, xh), gamma.aval.shape), b.sum_to(ct, beta.aval.shape)]


def _layer_ref(x: Any, gamma: Any, beta: Any, *, epsilon: float = 1e-5) -> Any:
    d = x - x.mean(-1, keepdims=True)
    return (d / np.sqrt((d * d).mean(-1, keepdims=True) + x.dtype.type(epsilon)) * gamma + beta).astype(x.dtype)


layer_norm = composed(
    "layer_norm", _layer_infer, quiet(_layer_ref), _layer_build,
    lambda rng: [Sample((rng.normal(size=(3, 5)), rng.normal(size=5), rng.normal(size=5)), {"epsilon": 1e-5}),
                 Sample((rng.normal(size=(2, 3, 40)).astype("f4"), rng.normal(size=40).astype("f4"), rng.normal(size=40).astype("f4")), {"epsilon": 1e-5}, grad=False)],
    (((f64(3, 4), f64(3), f64(4)), {}, "layer_norm of"),), "(x - mean) / sqrt(var + epsilon) * gamma + beta over the last axis (Ba et al., 2016).",
    vjp=_layer_vjp)


def _clip_infer(x: Aval, lo: Aval, hi: Aval) -> Aval:
    dtype = same_dtype(x, lo, hi)
    return Aval(broadcast_shapes(x.shape, lo.shape, hi.shape), dtype)


def _clip_vjp(b: Any, ct: Any, y: Any, x: Any, lo: Any, hi: Any) -> list[Any]:
    inside = b.logical_and(b.greater_equal(x, lo), b.less_equal(x, hi))
    kind = x.aval.dtype
    pick = [inside, b.logical_and(b.less(x, lo), b.less_equal(lo, hi)), b.logical_and(b.logical_not(inside), b.logical_not(b.logical_and(b.less(x, lo), b.less_equal(lo, hi))))]
    return [b.mulz(ct, b.cast(p, dtype=kind)) for p in pick]


clip = composed("clip", _clip_infer, lambda x, lo, hi: np.minimum(np.maximum(x, lo), hi), lambda b, x, lo, hi: b.minimum(b.maximum(x, lo), hi),
                lambda rng: [Sample((rng.normal(size=(3, 4)), np.float64(-0.7), np.float64(0.6))),
                             Sample((np.array([-1.0, 1, 0.25, 3, -3]), np.float64(-1), np.float64(1)), grad=False)],
                (((f64(3), f64(2), f64()), {}, "Incompatible shapes"),), "min(max(x, lo), hi); the gradient goes to x at both bounds.", vjp=_clip_vjp)


def _same_shape(p: Aval, q: Aval) -> None:
    if p.ndim != q.ndim or not all(map(may_equal, p.shape, q.shape)):
        raise ShapeError(f"Shapes must be equal rank and size: {shape_text(p.shape)} and {shape_text(q.shape)}")


def _all_alike(*xs: Aval) -> Aval:
    same_dtype(*xs)
    for x in xs:
        _same_shape(xs[0], x)
    return xs[0]


add_n = composed("add_n", _all_alike, lambda *xs: np.asarray(sum(xs[1:], xs[0])),
                 lambda b, *xs: b.identity(xs[0]) if len(xs) == 1 else _chain(b, xs),
                 lambda rng: [Sample(tuple(rng.normal(size=(3,)) for _ in range(k))) for k in (1, 2, 4)],
                 (((f64(2), f64(3)), {}, "Shapes must be equal"),), "The sum of several values of one shape, left to right.",
                 vjp=lambda b, ct, y, *xs: [ct] * len(xs))


def _chain(b: Any, xs: Any) -> Any:
    total = xs[0]
    for x in xs[1:]:
        total = b.add(total, x)
    return total
