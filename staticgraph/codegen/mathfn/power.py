"""pow, rsqrt and cbrt."""

from __future__ import annotations

from ...dtypes import float32, float64
from ..values import Val
from . import coefficients
from .base import F64, WIDE, Emitter, Precision, fast_two_sum, head, poly, power_of_two, two_product, widened
from .exponential import exp_in, residual, scale
from .exponential import split as exp_split
from .logarithm import log_in, split


def _log_pair(e: Emitter, x: Val) -> tuple[Val, Val]:
    """log of a finite float64 x > 0 as high + low, to about 2**-66."""
    k, m = split(e, x, F64)
    f = e.sub(m, 1.0)
    top, gone = fast_two_sum(e, e.const(float64, 2.0, x.lanes), f)       # 2 + f
    s = e.div(f, top)
    p, q = two_product(e, s, top)
    tail = e.div(e.sub(e.sub(e.sub(f, p), q), e.mul(s, gone)), top)
    z, z_low = two_product(e, s, s)
    z_low = e.fma(e.mul(s, 2.0), tail, z_low)
    # s**3 * 2/3 in two pieces, the rest in one
    c, c_low = two_product(e, s, z)
    c_low = e.fma(tail, z, e.fma(s, z_low, c_low))
    third, third_low = coefficients.TWO_THIRDS
    t, t_low = two_product(e, c, e.const(float64, third, x.lanes))
    t_low = e.fma(c_low, third, e.fma(c, third_low, t_low))
    series = e.mul(e.mul(c, z), poly(e, z, coefficients.LOG_TAIL))
    high, low = fast_two_sum(e, e.mul(s, 2.0), t)
    low = e.add(low, e.add(e.fma(tail, 2.0, t_low), series))
    a, b = F64.parts("LN2")
    base, base_low = two_product(e, k, e.const(float64, a, x.lanes))
    base_low = e.fma(k, b, base_low)
    sum_, sum_low = fast_two_sum(e, base, high)
    near = e.cmp("eq", k, 0.0)
    sum_, sum_low = e.select(near, high, sum_), e.select(near, e.const(float64, 0.0, x.lanes), sum_low)
    return fast_two_sum(e, sum_, e.add(sum_low, e.add(low, base_low)))


def _magnitude64(e: Emitter, a: Val, y: Val) -> Val:
    """a**y for finite a > 0."""
    high, low = _log_pair(e, a)
    y = e.maximum(e.minimum(y, 1e300), -1e300)
    p, q = two_product(e, high, y)
    q = e.fma(low, y, q)
    big = e.cmp("gt", e.abs(p), 760.0)
    limit = e.copysign(e.const(float64, 760.0, a.lanes), p)
    p, q = e.select(big, limit, p), e.select(big, e.const(float64, 0.0, a.lanes), q)
    n, r = exp_split(e, p, F64)
    return scale(e, e.add(residual(e, e.add(r, q), F64), 1.0), n, F64)


def _magnitude32(e: Emitter, a: Val, y: Val) -> Val:
    """a**y of float32 operands, computed wide."""
    wide = e.mul(log_in(e, e.cast(a, float64), WIDE), e.cast(y, float64))
    return e.cast(exp_in(e, wide, WIDE), float32)


def pow(e: Emitter, x: Val, y: Val) -> Val:
    """x ** y with C99's special cases: 1 for y = 0 or x = 1, NaN for a negative base and a broken exponent."""
    inf, one = float("inf"), e.const(x.dtype, 1.0, x.lanes)
    nan, zero = e.const(x.dtype, float("nan"), x.lanes), e.const(x.dtype, 0.0, x.lanes)
    a = e.abs(x)
    usual = e.and_(e.cmp("gt", a, 0.0), e.cmp("lt", a, inf))
    base = e.select(usual, a, one)
    size = _magnitude64(e, base, y) if x.dtype.bits == 64 else _magnitude32(e, base, y)
    whole = e.cmp("eq", e.trunc(y), y)
    half = e.mul(y, 0.5)
    odd = e.and_(whole, e.and_(e.cmp("ne", e.trunc(half), half), e.cmp("lt", e.abs(y), 2.0 ** 53)))
    up, down = e.cmp("gt", y, 0.0), e.cmp("lt", y, 0.0)
    infinite = e.const(x.dtype, inf, x.lanes)
    size = e.select(e.cmp("eq", a, 0.0), e.select(up, zero, infinite), size)
    size = e.select(e.cmp("eq", a, inf), e.select(up, infinite, zero), size)
    endless = e.cmp("eq", e.abs(y), inf)
    grows = e.or_(e.and_(up, e.cmp("gt", a, 1.0)), e.and_(down, e.cmp("lt", a, 1.0)))
    size = e.select(endless, e.select(e.cmp("eq", a, 1.0), one, e.select(grows, infinite, zero)), size)
    negative = e.cmp("lt", e.copysign(one, x), 0.0)
    size = e.select(e.and_(negative, odd), e.neg(size), size)
    broken = e.and_(e.and_(negative, e.not_(whole)), usual)
    size = e.select(broken, nan, size)
    size = e.select(e.or_(e.isnan(x), e.isnan(y)), nan, size)
    return e.select(e.or_(e.cmp("eq", y, 0.0), e.cmp("eq", x, 1.0)), one, size)


def rsqrt(e: Emitter, x: Val) -> Val:
    """1 / sqrt(x)."""
    return e.div(e.const(x.dtype, 1.0, x.lanes), e.sqrt(x))


def _cbrt(e: Emitter, x: Val, P: Precision) -> Val:
    # |x| = 8**q m with 1/4 < m < 4: a polynomial to nine bits, then Halley's step, which triples the digits
    a = e.abs(x)
    k, m = split(e, a, P)
    q = e.rint(e.mul(k, 1 / 3))
    m = e.mul(m, power_of_two(e, e.fma(q, -3.0, k), P))
    t = poly(e, m, coefficients.CBRT_START)
    for precise in (False, True) if P is F64 else (False,):
        t = head(e, t) if precise else t                # its square is exact
        r = e.div(m, e.mul(t, t))
        t = e.fma(t, e.div(e.sub(r, t), e.add(e.add(t, t), r)), t)
    usual = e.and_(e.cmp("gt", a, 0.0), e.cmp("lt", a, float("inf")))
    return e.select(usual, e.copysign(e.mul(t, power_of_two(e, q, P)), x), e.add(x, x))


def cbrt(e: Emitter, x: Val) -> Val:
    """The real cube root, of negative numbers too."""
    return widened(e, _cbrt, x)
