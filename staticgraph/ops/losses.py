"""Losses on logits, none of which forms a probability before its logarithm. Weights that are 0 are strong zeros: a class that does not
count cannot make NaN of the loss or its gradient, even where its logit is infinite."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..dtypes import int32, int64
from ..errors import DTypeError, InvalidArgumentError, ShapeError
from ..ir.aval import Aval
from .composed import composed
from .elementwise import quiet
from .helpers import Sample, broadcast_shapes, check_kind, f64, i32, may_equal, same_dtype, shape_text
from .nn import log_softmax_ref

# ---- softmax cross-entropy with a distribution per row -------------------------------------------------------------------------


def _xent_infer(labels: Aval, logits: Aval) -> Aval:
    check_kind(logits, "f")
    same_dtype(labels, logits)
    if logits.ndim < 1 or labels.ndim < 1:
        raise ShapeError(f"labels and logits must have a class axis, got {labels} and {logits}")
    shape = broadcast_shapes(labels.shape, logits.shape)
    if not may_equal(labels.shape[-1], logits.shape[-1]):
        raise ShapeError(f"Incompatible shapes: labels {shape_text(labels.shape)} and logits {shape_text(logits.shape)} differ in the number of classes")
    return Aval(shape[:-1], logits.dtype)


def _xent_build(b: Any, labels: Any, logits: Any) -> Any:
    return b.neg(b.sum(b.mulz(labels, b.log_softmax(logits, axis=-1)), axis=(-1,)))


def _xent_ref(labels: Any, logits: Any) -> Any:
    y = log_softmax_ref(logits)
    return -np.where(labels == 0, 0, labels * y).sum(axis=-1).astype(np.asarray(logits).dtype)


def _xent_slopes(b: Any, labels: Any, logits: Any) -> tuple[Any, Any]:
    """d loss / d labels and d loss / d logits, per class."""
    total = b.sum(labels, axis=(-1,), keepdims=True)
    return b.neg(b.log_softmax(logits, axis=-1)), b.sub(b.mulz(total, b.softmax(logits, axis=-1)), labels)


def _xent_vjp(b: Any, ct: Any, loss: Any, labels: Any, logits: Any) -> list[Any]:
    full = broadcast_shapes(labels.aval.shape, logits.aval.shape)
    wide = b.broadcast(b.expand_dims(ct, axis=len(full) - 1), full)
    return [b.mulz(wide, slope) for slope in _xent_slopes(b, labels, logits)]


def _xent_jvp(b: Any, ts: Any, loss: Any, labels: Any, logits: Any) -> Any:
    full = broadcast_shapes(labels.aval.shape, logits.aval.shape)
    parts = [b.sum(b.broadcast(b.mulz(t, slope), full), axis=(-1,)) for t, slope in zip(ts, _xent_slopes(b, labels, logits)) if t is not None]
    return b.add_n(parts)


def _xent_samples(rng: np.random.Generator) -> list[Sample]:
    p = rng.random((3, 5))
    p /= p.sum(-1, keepdims=True)
    return [Sample((p, rng.normal(size=(3, 5)))), Sample((p[0], rng.normal(size=(5,)))), Sample((rng.random((2, 4)), rng.normal(size=(2, 4)))),
            Sample((p[0], rng.normal(size=(3, 5)))), Sample((p, rng.normal(size=(1, 5)))),
            Sample((np.eye(4), rng.normal(size=(4, 4)) * 50), grad=False), Sample((np.zeros((0, 3)), np.zeros((0, 3))), grad=False),
            Sample((np.zeros((3, 0)), np.zeros((3, 0))), grad=False),
            Sample((np.array([[0, 1.0, 0], [1.0, 0, 0]]), np.array([[-np.inf, 0, 0], [-np.inf, 0, 0]])), grad=False),
            Sample((np.array([[0, 1.0]]), np.array([[-3e11, -4.5e11]])), grad=False),
            Sample((p.astype("f4"), rng.normal(size=(3, 5)).astype("f4")), grad=False)]


softmax_cross_entropy_with_logits = composed(
    "softmax_cross_entropy_with_logits", _xent_infer, quiet(_xent_ref), _xent_build, _xent_samples,
    (((f64(3, 4), f64(3, 5)), {}, "Incompatible shapes"), ((i32(3, 4), f64(3, 4)), {}, "different dtypes"),
     ((f64(3, 1), f64(3, 4)), {}, "differ in the number of classes"), ((f64(), f64()), {}, "must have a class axis")),
    "-sum(labels * log_softmax(logits)) over the last axis; both get gradients. A class of weight 0 counts nothing, even where its logit is -inf.",
    vjp=_xent_vjp, jvp=_xent_jvp)


# ---- softmax cross-entropy with a class per row ----------------------------------------------------------------------------------


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
    """The labels, guarded, in a signed type that holds any number of classes (a narrow one would wrap beside it)."""
    classes, kind = logits.aval.shape[-1], labels.aval.dtype
    if kind not in (int32, int64):
        labels = b.cast(labels, dtype=int32 if kind.bits < 32 else int64)
    kind = labels.aval.dtype
    bound = b.like(labels, classes) if isinstance(classes, int) else b.cast(b.reshape(b.sizes(sizes=(classes,), dtype=int64), shape=()), dtype=kind)
    ok = b.logical_and(b.less(labels, bound), b.greater_equal(labels, b.like(labels, 0)))
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
    labels, logits = np.asarray(labels), np.asarray(logits)
    bad = (labels < 0) | (labels >= logits.shape[-1])
    if bad.any():
        raise InvalidArgumentError(None, None, f"Received a label value of {labels[bad].ravel()[0]} which is outside the valid "
                                               f"range of [0, {logits.shape[-1]}).")
    return -np.take_along_axis(log_softmax_ref(logits), labels[..., None].astype(np.int64), -1)[..., 0]


def _sparse_slope(b: Any, labels: Any, logits: Any) -> Any:
    """softmax(logits), less 1 at the label."""
    hot = b.cast(_picked(b, _checked(b, labels, logits), logits), dtype=logits.aval.dtype)
    return b.sub(b.softmax(logits, axis=-1), hot)


def _sparse_vjp(b: Any, ct: Any, loss: Any, labels: Any, logits: Any) -> list[Any]:
    wide = b.broadcast(b.expand_dims(ct, axis=len(logits.aval.shape) - 1), logits.aval.shape)
    return [None, b.mulz(wide, _sparse_slope(b, labels, logits))]


def _sparse_jvp(b: Any, ts: Any, loss: Any, labels: Any, logits: Any) -> Any:
    return None if ts[1] is None else b.sum(b.mulz(ts[1], _sparse_slope(b, labels, logits)), axis=(-1,))


def _sparse_samples(rng: np.random.Generator) -> list[Sample]:
    return [Sample((np.array([1, 4, 0], np.int32), rng.normal(size=(3, 5)))), Sample((np.array(2, np.int64), rng.normal(size=(5,)))),
            Sample((rng.integers(0, 5, (2, 3)), rng.normal(size=(2, 3, 5)))), Sample((np.zeros((0,), np.int32), np.zeros((0, 3))), grad=False),
            Sample((np.array([3, 255, 0], np.uint8), rng.normal(size=(3, 600))), grad=False),
            Sample((np.array([1, 0]), np.array([[-np.inf, 0, 1], [1e4, -1e4, 0]])), grad=False),
            Sample((np.array([0, 2], np.int32), rng.normal(size=(2, 100)).astype("f4")), grad=False)]


sparse_softmax_cross_entropy_with_logits = composed(
    "sparse_softmax_cross_entropy_with_logits", _sparse_infer, quiet(_sparse_ref), _sparse_build, _sparse_samples,
    (((i32(2, 3), f64(2, 3)), {}, "Rank mismatch: Rank of labels (received 2) should equal rank of logits minus 1 (received 2)."),
     ((f64(2), f64(2, 3)), {}, "labels must be integers"), ((i32(4), f64(2, 3)), {}, "Incompatible shapes")),
    "-log_softmax(logits)[label] per row; a label out of range fails the run.", vjp=_sparse_vjp, jvp=_sparse_jvp)


# ---- sigmoid cross-entropy, L2 ---------------------------------------------------------------------------------------------------


def _sigmoid_build(b: Any, labels: Any, logits: Any) -> Any:
    # max(x, 0) - x y, without the difference of two large numbers
    rest = b.sub(b.like(labels, 1), labels)
    linear = b.where(b.greater(logits, b.like(logits, 0)), b.mulz(rest, logits), b.neg(b.mulz(labels, logits)))
    return b.add(linear, b.log1p(b.exp(b.neg(b.abs(logits)))))


def _sigmoid_ref(labels: Any, logits: Any) -> Any:
    rest = 1 - labels
    linear = np.where(logits > 0, np.where(rest == 0, 0, rest * logits), np.where(labels == 0, 0, -labels * logits))
    return (linear + np.log1p(np.exp(-np.abs(logits)))).astype(np.asarray(logits).dtype)


def _sigmoid_vjp(b: Any, ct: Any, loss: Any, labels: Any, logits: Any) -> list[Any]:
    return [b.neg(b.mulz(ct, logits)), b.mulz(ct, b.sub(b.sigmoid(logits), labels))]


def _sigmoid_jvp(b: Any, ts: Any, loss: Any, labels: Any, logits: Any) -> Any:
    by_labels = None if ts[0] is None else b.neg(b.mulz(ts[0], logits))
    by_logits = None if ts[1] is None else b.mulz(ts[1], b.sub(b.sigmoid(logits), labels))
    return b.add_n([by_labels, by_logits])


def _sigmoid_infer(labels: Aval, logits: Aval) -> Aval:
    check_kind(logits, "f")
    same_dtype(labels, logits)
    if len(labels.shape) != len(logits.shape) or not all(map(may_equal, labels.shape, logits.shape)):
        raise ShapeError(f"logits and labels must have the same shape ({shape_text(logits.shape)} vs {shape_text(labels.shape)})")
    return logits


def _sigmoid_samples(rng: np.random.Generator) -> list[Sample]:
    far = np.array([-np.inf, -800.0, -40.0, -0.0, 0.0, 40.0, 800.0, np.inf, np.nan])
    return [Sample((rng.random((3, 4)), rng.normal(size=(3, 4)))), Sample((rng.random((3, 4)).astype("f4"), rng.normal(size=(3, 4)).astype("f4"))),
            *(Sample((np.full(far.shape, y, d), far.astype(d)), grad=False) for y in (0.0, 0.25, 1.0) for d in ("f8", "f4")),
            Sample((np.zeros((0, 3)), np.zeros((0, 3))), grad=False), Sample((np.float64(1), np.float64(-2)))]


sigmoid_cross_entropy_with_logits = composed(
    "sigmoid_cross_entropy_with_logits", _sigmoid_infer, quiet(_sigmoid_ref), _sigmoid_build, _sigmoid_samples,
    (((f64(3), f64(4)), {}, "must have the same shape"),),
    "Logistic loss per element, log(1 + exp(x)) - x * label, without overflow; 0 where an infinite logit agrees with its label.",
    vjp=_sigmoid_vjp, jvp=_sigmoid_jvp)


def _scalar_of(x: Aval) -> Aval:
    check_kind(x, "f")
    return x.with_shape(())


l2_loss = composed(
    "l2_loss", _scalar_of, lambda x: np.asarray(np.sum(np.square(x)) / 2, np.asarray(x).dtype),
    lambda b, x: b.mul(b.sum(b.square(x), axis=None), b.like(x, 0.5)),
    lambda rng: [Sample((rng.normal(size=(3, 4)),)), Sample((rng.normal(size=(5,)).astype("f4"),)), Sample((np.float64(-3),)),
                 Sample((np.zeros((0, 2)),), grad=False)],
    (((i32(3),), {}, "not in list of allowed values"),), "sum(x**2) / 2", vjp=lambda b, ct, y, x: [b.mulz(ct, x)],
    jvp=lambda b, ts, y, x: None if ts[0] is None else b.sum(b.mulz(ts[0], x), axis=None))
