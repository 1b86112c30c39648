"""Activation functions. Derivatives at kinks follow TF1's kernels: relu'(0) = 0, relu6' = 0 at 0 and 6, elu'(0) = 1,
selu'(0) = its scale, leaky_relu'(0) = alpha. Where the result tells on which side of the kink the operand was, rules read the result:
it is kept for the next operation anyway, and the operand need not be."""

from __future__ import annotations

from typing import Any

import numpy as np

from .elementwise import quiet, same
from .helpers import Sample, elementwise

_FINE = np.array([-1e4, -90.0, -20.0, -1e-3, 0.0, -0.0, 1e-3, 20.0, 90.0, 1e4, np.inf, -np.inf, np.nan])


def _more(rng: Any) -> list[Sample]:
    return [Sample((_FINE,), grad=False), Sample((_FINE.astype("f4"),), grad=False)]


def _sigmoid(x: Any) -> Any:
    z = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + z), np.where(np.isnan(x), x, z / (1 + z)))


def _softplus(x: Any) -> Any:
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def _mask(b: Any, condition: Any, x: Any) -> Any:
    return b.cast(condition, dtype=x.aval.dtype)


sigmoid = elementwise("sigmoid", quiet(same(_sigmoid)), lambda b, y, x: [b.mul(y, b.sub(b.like(y, 1), y))],
                      lambda e, x: e.sigmoid(x), more=_more, doc="1 / (1 + exp(-x)), without overflow.")
softplus = elementwise("softplus", quiet(same(_softplus)), lambda b, y, x: [b.sigmoid(x)], lambda e, x: e.softplus(x), more=_more,
                       doc="log(1 + exp(x)), without overflow.")
log_sigmoid = elementwise("log_sigmoid", quiet(same(lambda x: -_softplus(-x))), lambda b, y, x: [b.sigmoid(b.neg(x))],
                          lambda e, x: e.neg(e.softplus(e.neg(x))), more=_more, doc="log(sigmoid(x)), without overflow.")
relu = elementwise("relu", lambda x: np.maximum(x, np.zeros_like(x)), lambda b, y, x: [_mask(b, b.greater(y, b.like(y, 0)), y)],
                   lambda e, x: e.maximum(x, 0), 0.1, 2, kinds="fi", kinks=(0.0,), more=_more, traits=("exact",),
                   doc="max(x, 0); NaN stays NaN; the derivative at 0 is 0.")
relu6 = elementwise("relu6", lambda x: np.minimum(np.maximum(x, np.zeros_like(x)), x.dtype.type(6)),
                    lambda b, y, x: [_mask(b, b.logical_and(b.greater(y, b.like(y, 0)), b.less(y, b.like(y, 6))), y)],
                    lambda e, x: e.minimum(e.maximum(x, 0), 6), 0.1, 2, kinks=(6.0, 7.0), more=_more, traits=("exact",),
                    doc="min(max(x, 0), 6); the derivative is 0 at 0 and at 6.")
elu = elementwise("elu", quiet(same(lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))))),
                  lambda b, y, x: [b.where(b.greater(y, b.like(y, 0)), b.full(y.aval, 1), b.add(y, b.like(y, 1)))],
                  lambda e, x: e.select(e.cmp("gt", x, 0), x, e.expm1(e.minimum(x, 0))), more=_more,
                  doc="x above 0, exp(x) - 1 below; the derivative at 0 is 1.")
_SCALE, _ALPHA = 1.0507009873554804934193349852946, 1.6732632423543772848170429916717
selu = elementwise("selu", quiet(same(lambda x: np.where(x > 0, _SCALE * x, _SCALE * _ALPHA * np.expm1(np.minimum(x, 0))))),
                   lambda b, y, x: [b.where(b.less(y, b.like(y, 0)), b.add(y, b.like(y, _SCALE * _ALPHA)), b.full(y.aval, _SCALE))],
                   lambda e, x: e.select(e.cmp("gt", x, 0), e.mul(x, _SCALE), e.mul(e.expm1(e.minimum(x, 0)), _SCALE * _ALPHA)),
                   0.1, 2, more=lambda rng: [*_more(rng), Sample((-0.1 - 2 * rng.random((3, 4)),))],
                   doc="Self-normalising elu (Klambauer et al., 2017); the derivative at 0 is its scale, 1.0507.")
leaky_relu = elementwise(
    "leaky_relu", lambda x, *, alpha=0.2: np.where(x > 0, x, x * x.dtype.type(alpha)),
    lambda b, y, x, *, alpha=0.2: [b.where(b.greater(_side(y, x, alpha), b.like(x, 0)), b.full(x.aval, 1), b.full(x.aval, alpha))],
    lambda e, x, *, alpha=0.2: e.select(e.cmp("gt", x, 0), x, e.mul(x, alpha)), 0.1, 2, infer=lambda x, *, alpha=0.2: _float(x),
    more=_more, doc="x above 0, alpha * x below; the derivative at 0 is alpha.")


def _side(y: Any, x: Any, alpha: float) -> Any:
    return y if alpha >= 0 else x            # a negative slope folds both sides onto one


def _float(x: Any) -> Any:
    from .helpers import check_kind
    check_kind(x, "f")
    return x


softsign = elementwise("softsign", quiet(same(lambda x: x / (1 + np.abs(x)))),
                       lambda b, y, x: [b.reciprocal(b.square(b.add(b.abs(x), b.like(x, 1))))],
                       lambda e, x: e.div(x, e.add(e.abs(x), 1)), more=_more, doc="x / (1 + |x|); NaN at infinities.")


def _silu_partials(b: Any, y: Any, x: Any) -> list[Any]:
    s = b.sigmoid(x)
    return [b.add(s, b.mul(y, b.sub(b.like(s, 1), s)))]


silu = elementwise("silu", quiet(same(lambda x: x * _sigmoid(x))), _silu_partials, lambda e, x: e.mul(x, e.sigmoid(x)), more=_more,
                   doc="x * sigmoid(x) (swish); NaN at -inf.")

_ROOT_HALF, _INV_ROOT_2PI = 0.70710678118654752, 0.39894228040143267
_ROOT_2_PI, _CUBIC = 0.79788456080286535, 0.044715


def _ref_gelu(x: Any, *, approximate: bool = True) -> Any:
    from ..numerics import erf
    x = np.asarray(x)
    if approximate:
        return (x * _sigmoid(2 * _ROOT_2_PI * (x + _CUBIC * x * x * x))).astype(x.dtype)
    return (0.5 * x * (1 + erf(x * _ROOT_HALF))).astype(x.dtype)


def _gelu_partials(b: Any, y: Any, x: Any, *, approximate: bool = True) -> list[Any]:
    # far out the second term is a strong zero: powers of x may overflow beside it
    x2 = b.square(x)
    if approximate:
        s = b.sigmoid(b.mul(b.like(x, 2 * _ROOT_2_PI), b.add(x, b.mul(b.like(x, _CUBIC), b.mul(x, x2)))))
        du = b.mul(b.like(x, 2 * _ROOT_2_PI), b.add(b.mul(b.like(x, 3 * _CUBIC), x2), b.like(x, 1)))
        return [b.add(s, b.mulz(b.mul(s, b.sub(b.like(s, 1), s)), b.mul(x, du)))]
    cdf = b.mul(b.like(x, 0.5), b.add(b.erf(b.mul(x, b.like(x, _ROOT_HALF))), b.like(x, 1)))
    pdf = b.mul(b.like(x, _INV_ROOT_2PI), b.exp(b.mul(b.like(x, -0.5), x2)))
    return [b.add(cdf, b.mulz(pdf, x))]


def _lower_gelu(e: Any, x: Any, *, approximate: bool = True) -> Any:
    if approximate:
        return e.mul(x, e.sigmoid(e.mul(e.add(x, e.mul(e.mul(e.mul(x, x), x), _CUBIC)), 2 * _ROOT_2_PI)))
    return e.mul(e.mul(x, 0.5), e.add(e.erf(e.mul(x, _ROOT_HALF)), 1))


def _gelu_samples(rng: Any) -> list[Sample]:
    big = np.array([*_FINE, 1e20, -1e20, 3e38, 12.0, -12.0])
    return [Sample((rng.normal(size=(3, 4)).astype(d),), {"approximate": a}) for d in ("f8", "f4") for a in (True, False)] + [
        Sample((rng.normal(size=(n,)),), {"approximate": True}, grad=False) for n in (0, 17)] + [
        Sample((big.astype(d),), {"approximate": a}, grad=False) for d in ("f8", "f4") for a in (True, False)]


gelu = elementwise("gelu", quiet(_ref_gelu), _gelu_partials, _lower_gelu, infer=lambda x, *, approximate=True: _float(x),
                   samples=_gelu_samples, doc="x * Phi(x); ``approximate`` uses the tanh form, x * sigmoid(2 u), as 1 + tanh(u) = 2 sigmoid(2 u) "
                                               "(Hendrycks and Gimpel, 2016); NaN at -inf.")
