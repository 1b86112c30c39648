"""exp and what is made of it: exp2, expm1, tanh, sinh, cosh, sigmoid.

exp(x) = 2**n e**r with n = rint(x / ln 2) and |r| <= ln(2)/2; ln 2 is subtracted in two pieces, the first short enough for
an exact product. The last scaling rounds once, so results below the normal numbers are right too.
"""

from __future__ import annotations

import math

from ..values import Val
from .base import Emitter, Precision, fast_two_sum, odd, poly, power_of_two, precision, scale, scale_exactly

LOG2E = 1 / math.log(2)


def split(e: Emitter, x: Val, P: Precision, halves: bool = False) -> tuple[Val, Val]:
    """n and r with x = n ln 2 + r, n integral; with ``halves`` x = n ln(2)/2 + r."""
    unit = 0.5 if halves else 1.0
    high, low = P.parts("LN2")
    n = e.sub(e.fma(x, LOG2E / unit, P.magic), P.magic)
    minus = e.neg(n)
    return n, e.fma(minus, unit * low, e.fma(minus, unit * high, x))


def residual(e: Emitter, r: Val, P: Precision) -> Val:
    """e**r - 1 for |r| <= ln(2)/2."""
    return e.fma(e.mul(r, r), poly(e, r, P.poly("EXP")), r)


def exponential(e: Emitter, r: Val, P: Precision) -> Val:
    """e**r for |r| <= ln(2)/2, rounded once but for the last place of a small summand."""
    return e.fma(r, e.fma(r, poly(e, r, P.poly("EXP")), 1.0), 1.0)


def unscaled(e: Emitter, x: Val, P: Precision) -> tuple[Val, Val]:
    """p and n with exp(x) = p 2**n. Huge x are clamped to where the result is 0 or inf; NaN stays."""
    low, high = P.exp_range
    n, r = split(e, e.minimum(e.maximum(x, low), high), P)
    return exponential(e, r, P), n


def exp_in(e: Emitter, x: Val, P: Precision) -> Val:
    """exp in a given precision."""
    return scale(e, *unscaled(e, x, P), P)


def exp(e: Emitter, x: Val) -> Val:
    """e**x."""
    return exp_in(e, x, precision(x))


def exp2(e: Emitter, x: Val) -> Val:
    """2**x: n = rint(x) leaves r = (x - n) ln 2."""
    P = precision(x)
    limit = float(P.bias + P.mantissa + 2)
    clamped = e.minimum(e.maximum(x, -limit), limit)
    n = e.sub(e.add(clamped, P.magic), P.magic)
    f = e.sub(clamped, n)
    high, low = P.parts("LN2")
    r = e.fma(f, high, e.mul(f, low))
    return scale(e, exponential(e, r, P), n, P)


def expm1(e: Emitter, x: Val) -> Val:
    """e**x - 1 = 2 (h q + (h - 1/2)) with q = e**r - 1 and h = 2**(n-1), which does not overflow before the result does."""
    P = precision(x)
    low = -(P.mantissa + 3) * math.log(2)               # the result is -1 from there on
    high = 89.0 if P.mantissa == 23 else 710.0          # the result is inf from there on, and 2**(n-1) still a number
    n, r = split(e, e.minimum(e.maximum(x, low), high), P)
    h = power_of_two(e, e.sub(n, 1.0), P)
    # what r + r*r*p rounds away is put back: the sum with h - 1/2 may cancel
    q, lost = fast_two_sum(e, r, e.mul(e.mul(r, r), poly(e, r, P.poly("EXP"))))
    y = e.add(e.fma(h, q, e.sub(h, 0.5)), e.mul(h, lost))
    tiny = e.cmp("lt", e.abs(x), 2.0 ** (-P.mantissa - 2))
    return e.select(tiny, x, e.add(y, y))


def tanh(e: Emitter, x: Val) -> Val:
    """An odd polynomial below 0.6, 1 - 2 / (exp(2|x|) + 1) above."""
    P = precision(x)
    a = e.minimum(e.abs(x), 9.1 if P.mantissa == 23 else 19.1)           # 1 from there on
    n, r = split(e, a, P, halves=True)
    terms = [2.0 ** (k + 2) * c for k, c in enumerate(P.poly("EXP"))]    # of exp(2 r)
    power = scale_exactly(e, e.fma(r, e.fma(r, poly(e, r, terms), 2.0), 1.0), n, P)
    far = e.sub(1.0, e.div(e.const(x.dtype, 2.0, x.lanes), e.add(power, 1.0)))
    return e.copysign(e.select(e.cmp("lt", a, 0.6), odd(e, a, "TANH", P), far), x)


def half_exp(e: Emitter, a: Val, P: Precision) -> Val:
    """exp(a) / 2 without overflow before its own."""
    p, n = unscaled(e, a, P)
    return scale(e, p, e.sub(n, 1.0), P)


def sinh(e: Emitter, x: Val) -> Val:
    """An odd polynomial below 1, h - 1 / (4 h) with h = exp(|x|) / 2 above."""
    P = precision(x)
    a = e.abs(x)
    h = half_exp(e, a, P)
    near = odd(e, e.minimum(a, 1.0), "SINH", P)
    far = e.sub(h, e.div(e.const(x.dtype, 0.25, x.lanes), h))
    return e.copysign(e.select(e.cmp("lt", a, 1.0), near, far), x)


def cosh(e: Emitter, x: Val) -> Val:
    """h + 1 / (4 h) with h = exp(|x|) / 2."""
    P = precision(x)
    h = half_exp(e, e.abs(x), P)
    return e.add(h, e.div(e.const(x.dtype, 0.25, x.lanes), h))


def sigmoid(e: Emitter, x: Val) -> Val:
    """1 / (1 + exp(-x)) as exp(min(x, 0)) / (1 + exp(-|x|)): nothing overflows, and small results keep their digits."""
    P = precision(x)
    n, r = split(e, e.maximum(e.neg(e.abs(x)), P.exp_range[0]), P)
    t, one = scale(e, exponential(e, r, P), n, P), e.const(x.dtype, 1.0, x.lanes)
    whole, lost = fast_two_sum(e, one, t)
    y = e.div(e.select(e.cmp("lt", x, 0.0), t, one), whole)
    # what the sum rounded away: y (1 - lost / whole), where a rough 1 / whole will do
    return e.fma(e.mul(y, lost), e.fma(t, 0.5, -1.0), y)
