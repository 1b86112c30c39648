"""erf and erfc."""

from __future__ import annotations

from ...dtypes import float32, float64
from ..values import Val
from . import coefficients
from .base import F32, F64, WIDE, Emitter, Precision, horner, poly, two_product
from .exponential import exp_in


def _erfc_positive(e: Emitter, x: Val, P: Precision) -> Val:
    """erfc of a float64 x >= 0: exp(-x*x) p(t) / (1 + 2x), t = (x - 4) / (x + 4)."""
    x = e.minimum(x, 30.0)
    t = e.div(e.sub(x, 4.0), e.add(x, 4.0))
    square, rest = two_product(e, x, x)
    gauss = exp_in(e, e.neg(square), P)
    gauss = e.fma(gauss, e.neg(rest), gauss)
    terms = coefficients.ERFCX_F64 if P is F64 else coefficients.ERFCX_WIDE
    return e.div(e.mul(gauss, horner(e, t, terms)), e.fma(x, 2.0, 1.0))


def _near(e: Emitter, x: Val, P: Precision) -> Val:
    """erf for |x| <= 1."""
    return e.fma(x, poly(e, e.mul(x, x), P.poly("ERF")), x)


def erf(e: Emitter, x: Val) -> Val:
    """The Gauss error function."""
    a = e.abs(x)
    if x.dtype.bits == 64:
        far = e.sub(1.0, _erfc_positive(e, e.maximum(a, 1.0), F64))
        y = e.select(e.cmp("le", a, 1.0), _near(e, e.minimum(a, 1.0), F64), far)
    else:
        tail = horner(e, e.sub(e.minimum(a, 4.0), 2.5), coefficients.ERF_F32_FAR)
        y = e.select(e.cmp("le", a, 1.0), _near(e, e.minimum(a, 1.0), F32), e.minimum(e.sub(1.0, tail), 1.0))
        y = e.select(e.cmp("ge", a, 4.0), e.const(float32, 1.0, x.lanes), y)
    return e.select(e.isnan(x), x, e.copysign(y, x))


def erfc(e: Emitter, x: Val) -> Val:
    """1 - erf(x), accurate where that is small."""
    if x.dtype.bits == 32:
        return e.cast(_erfc(e, e.cast(x, float64), WIDE), float32)
    return _erfc(e, x, F64)


def _erfc(e: Emitter, x: Val, P: Precision) -> Val:
    a = e.abs(x)
    inner = e.sub(1.0, _near(e, e.maximum(e.minimum(x, 1.0), -1.0), P))
    tail = _erfc_positive(e, a, P)
    y = e.select(e.cmp("lt", x, -1.0), e.sub(2.0, tail), e.select(e.cmp("lt", x, 0.45), inner, tail))
    return e.select(e.isnan(x), x, y)
