"""log, log1p, log2, log10, softplus, and the inverse hyperbolic functions.

x = 2**k m with sqrt(1/2) <= m < sqrt(2); with f = m - 1 and s = f / (2 + f), log m = 2 atanh(s) = f - h + s (h + R(s*s)) where
h = f*f/2 (FreeBSD's arrangement, which keeps the leading term f exact).
"""

from __future__ import annotations

import numpy as np

from ..values import Val
from .base import F32, Emitter, Precision, exponent_and_mantissa, head, poly, precision, widened
from .coefficients import LOG_F32_PLAIN
from .exponential import exp_in


def split(e: Emitter, x: Val, P: Precision, subnormal: bool = True) -> tuple[Val, Val]:
    """k (an integral float) and m with x = 2**k m, for finite x > 0."""
    root_half = 0x3F3504F3 if P.mantissa == 23 else 0x3FE6A09E667F3BCD
    ready = exponent_and_mantissa(e, x)
    if ready:
        k, m = ready
        upper = e.cmp("ge", m, 2 * float(np.array(root_half, P.bits.np).view(P.dtype.np)))
        return e.select(upper, e.add(k, 1.0), k), e.select(upper, e.mul(m, 0.5), m)
    shift: Val | float = 2.0 ** P.mantissa + P.bias
    if subnormal:
        small = e.cmp("lt", x, P.tiny)
        x = e.select(small, e.mul(x, 2.0 ** P.mantissa), x)
        shift = e.select(small, e.const(x.dtype, shift + P.mantissa, x.lanes), shift)
    moved = e.add(e.bitcast(x, P.bits), P.one - root_half)
    exponent = e.shr(moved, P.mantissa)
    whole = e.bitcast(e.or_(exponent, (P.bias + P.mantissa) << P.mantissa), P.dtype)      # 2**mantissa + exponent
    m = e.bitcast(e.add(e.and_(moved, 2 ** P.mantissa - 1), root_half), P.dtype)
    return e.sub(whole, shift), m


def pieces(e: Emitter, f: Val, P: Precision) -> tuple[Val, Val]:
    """h = f*f/2 and s (h + R), so that log(1 + f) = f - h + s (h + R)."""
    s = e.div(f, e.add(f, 2.0))
    z = e.mul(s, s)
    h = e.mul(e.mul(f, f), 0.5)
    return h, e.mul(s, e.fma(z, poly(e, z, P.poly("LOG")), h))


def natural(e: Emitter, k: Val, f: Val, P: Precision) -> Val:
    """k ln 2 + log(1 + f)."""
    high, low = P.parts("LN2")
    if P is F32:                                        # the division costs more than a longer polynomial
        z = e.mul(f, f)
        y = e.fma(k, low, e.mul(e.mul(f, z), poly(e, f, LOG_F32_PLAIN)))
        return e.fma(k, high, e.add(f, e.fma(z, -0.5, y)))
    h, rest = pieces(e, f, P)
    return e.fma(k, high, e.sub(f, e.sub(h, e.fma(k, low, rest))))


def limits(e: Emitter, x: Val, y: Val) -> Val:
    """``y`` with a logarithm's values where x is not finite and positive."""
    inf = float("inf")
    y = e.select(e.cmp("lt", x, inf), y, x)                              # inf and NaN stay themselves
    y = e.select(e.cmp("lt", x, 0.0), float("nan"), y)
    return e.select(e.cmp("eq", x, 0.0), -inf, y)


def log_in(e: Emitter, x: Val, P: Precision) -> Val:
    """log of a finite x > 0 in a given precision."""
    k, m = split(e, x, P)
    return natural(e, k, e.sub(m, 1.0), P)


def log(e: Emitter, x: Val) -> Val:
    """The natural logarithm; -inf at 0, NaN below."""
    return limits(e, x, log_in(e, x, precision(x)))


def log1p_in(e: Emitter, x: Val, P: Precision) -> Val:
    """log(1 + x) for finite x > -1: what the sum 1 + x loses is put back into f."""
    u = e.add(x, 1.0)
    back = e.sub(u, 1.0)
    lost = e.add(e.sub(1.0, e.sub(u, back)), e.sub(x, back))
    k, m = split(e, u, P, subnormal=False)
    # 2**-k; where that is no normal number, what was lost does not count any more
    small = e.minimum(k, float(P.bias - 1))
    down = e.bitcast(e.sub(2 * P.one, e.shl(e.bitcast(e.add(small, P.magic + P.bias), P.bits), P.mantissa)), P.dtype)
    return natural(e, k, e.fma(lost, down, e.sub(m, 1.0)), P)


def log1p(e: Emitter, x: Val) -> Val:
    """log(1 + x), accurate near 0; -inf at -1, NaN below."""
    inf = float("inf")
    y = log1p_in(e, x, precision(x))
    y = e.select(e.cmp("lt", x, inf), y, x)
    y = e.select(e.cmp("lt", x, -1.0), float("nan"), y)
    y = e.select(e.cmp("eq", x, -1.0), -inf, y)
    return e.select(e.cmp("eq", x, 0.0), x, y)


def _other_base(e: Emitter, x: Val, factor: str, unit: tuple[float, float] | None) -> Val:
    """log(x) times a constant: the head of log(1 + f) meets the constant's head in an exact product."""
    P = precision(x)
    k, m = split(e, x, P)
    f = e.sub(m, 1.0)
    h, rest = pieces(e, f, P)
    top = head(e, e.sub(f, h))
    low = e.add(e.sub(e.sub(f, top), h), rest)
    ch, cl = P.parts(factor)
    first = e.mul(top, ch)
    second = e.fma(e.add(low, top), cl, e.mul(low, ch))
    whole = k
    if unit:
        whole = e.mul(k, unit[0])
        second = e.fma(k, unit[1], second)
    total = e.add(whole, first)
    return limits(e, x, e.add(total, e.add(second, e.add(e.sub(whole, total), first))))


def log2(e: Emitter, x: Val) -> Val:
    """The logarithm to base 2; exact at powers of two."""
    return _other_base(e, x, "LOG2E", None)


def log10(e: Emitter, x: Val) -> Val:
    """The logarithm to base 10."""
    high, low = precision(x).parts("LOG10_2")
    return _other_base(e, x, "LOG10E", (high, low))


def softplus(e: Emitter, x: Val) -> Val:
    """log(1 + exp(x)) = max(x, 0) + log1p(exp(-|x|))."""
    P = precision(x)
    tail = log1p_in(e, exp_in(e, e.neg(e.abs(x)), P), P)
    return e.add(e.maximum(x, 0.0), tail)


def log_sigmoid(e: Emitter, x: Val) -> Val:
    """log(sigmoid(x)) = -softplus(-x)."""
    return e.neg(softplus(e, e.neg(x)))


def _asinh(e: Emitter, x: Val, P: Precision) -> Val:
    # asinh a = log1p(a + a*a / (1 + sqrt(a*a + 1))); log(2a) where a*a would overflow or the 1 no longer counts
    a = e.abs(x)
    big = e.cmp("gt", a, 2.0 ** 28)
    b = e.select(big, e.const(a.dtype, 1.0, a.lanes), a)
    square = e.mul(b, b)
    near = e.add(b, e.div(square, e.add(e.sqrt(e.add(square, 1.0)), 1.0)))
    return e.copysign(_log1p_or_log_double(e, big, near, a, P), x)


def _log1p_or_log_double(e: Emitter, big: Val, near: Val, a: Val, P: Precision) -> Val:
    """log1p(near), or log(2 a) where ``big``: one logarithm serves both."""
    infinite = e.not_(e.cmp("lt", a, float("inf")))
    u = e.select(big, a, e.add(near, 1.0))
    back = e.sub(u, 1.0)
    lost = e.select(big, 0.0, e.add(e.sub(1.0, e.sub(u, back)), e.sub(near, back)))
    k, m = split(e, u, P, subnormal=False)
    down = e.bitcast(e.sub(2 * P.one, e.shl(e.bitcast(e.add(k, P.magic + P.bias), P.bits), P.mantissa)), P.dtype)
    down = e.select(big, 1.0, down)                 # 2**-k of the largest numbers is no number, and lost is 0 there
    k = e.select(big, e.add(k, 1.0), k)
    return e.select(infinite, a, natural(e, k, e.fma(lost, down, e.sub(m, 1.0)), P))


def asinh(e: Emitter, x: Val) -> Val:
    """The inverse hyperbolic sine."""
    y = widened(e, _asinh, x)
    return e.select(e.cmp("lt", e.abs(x), 2.0 ** -30), x, y)


def _acosh(e: Emitter, x: Val, P: Precision) -> Val:
    # acosh x = log1p(t + sqrt(2t + t*t)) with t = x - 1
    big = e.cmp("gt", x, 2.0 ** 28)
    t = e.sub(e.select(big, e.const(x.dtype, 2.0, x.lanes), x), 1.0)
    near = e.add(t, e.sqrt(e.fma(t, t, e.add(t, t))))
    return _log1p_or_log_double(e, big, near, x, P)


def acosh(e: Emitter, x: Val) -> Val:
    """The inverse hyperbolic cosine; NaN below 1."""
    y = widened(e, _acosh, x)
    return e.select(e.cmp("lt", x, 1.0), float("nan"), y)


def _atanh(e: Emitter, x: Val, P: Precision) -> Val:
    a = e.abs(x)
    half = log1p_in(e, e.div(e.add(a, a), e.sub(1.0, a)), P)
    return e.copysign(e.mul(half, 0.5), x)


def atanh(e: Emitter, x: Val) -> Val:
    """log((1 + x) / (1 - x)) / 2; +-inf at +-1, NaN beyond."""
    a = e.abs(x)
    y = widened(e, _atanh, x)
    y = e.select(e.cmp("lt", a, 2.0 ** -30), x, y)
    y = e.select(e.cmp("eq", a, 1.0), e.copysign(float("inf"), x), y)
    return e.select(e.cmp("gt", a, 1.0), float("nan"), y)


