"""sin, cos, asin, acos, atan of float32 in float32: up to three times as fast as by way of float64, to 2 units of the last place.

|x| = n pi/2 + r by three pieces of pi/2, each n times piece exact under fma (Cody and Waite). Beyond 30,000 a branch that is hardly
ever taken multiplies the mantissa by the bits of 2/pi that matter, in integers (Payne and Hanek, 1983).
"""

from __future__ import annotations

import math

from ...dtypes import float32, float64, int64, uint32, uint64
from ..values import Val
from .base import F32, Emitter, odd, poly
from .coefficients import HALF_PI_F32, HALF_PI_SHORT, TWO_OVER_PI

_LIMIT = 3.0e4
_SIGN = 0x80000000


def _reduced(e: Emitter, a: Val) -> tuple[Val, Val]:
    """r and n modulo 4 (in the low bits) of a = |x|; r is NaN for infinity."""
    if e.target.fma:
        x, bits, magic, pieces = a, uint32, 1.5 * 2.0 ** 23, HALF_PI_F32
    else:                                               # exact products need the room of float64
        x, bits, magic, pieces = e.cast(a, float64), uint64, 1.5 * 2.0 ** 52, HALF_PI_SHORT
    shifted = e.fma(x, 2 / math.pi, magic)
    n = e.neg(e.sub(shifted, magic))
    r = x
    for piece in pieces:
        r = e.fma(n, piece, r)
    r, q = e.cast(r, float32), e.cast(e.bitcast(shifted, bits), uint32)
    large = e.cmp("gt", a, _LIMIT)

    def slow() -> list[Val]:
        far = e.function(f"reduce_single{a.lanes}", [a], _far, rare=True)
        return [e.select(large, f, v) for f, v in zip(far, (r, q))]
    r, q = e.if_(e.any(large), slow, lambda: [r, q])
    return r, q


def _far(e: Emitter, a: Val) -> list[Val]:
    """r and n modulo 4 of a >= 30,000.

    a = m 2**s; the bits of 2/pi whose product with 2**s is a multiple of 4 are left out. The next 96 give the quadrant and 62 bits
    of the fraction.
    """
    words = [0] + [w >> shift & 0xFFFFFFFF for w in TWO_OVER_PI[:4] for shift in (32, 0)]
    table = e.table("two_over_pi_single", uint32, words)
    bits = e.cast(e.bitcast(a, uint32), uint64)
    m = e.or_(e.and_(bits, 0x7FFFFF), 0x800000)
    # the position s - 2, after 32 zeros; what is no number stays inside the table
    place = e.minimum(e.maximum(e.sub(e.bitcast(e.shr(bits, 23), int64), 150 + 2 - 32), 0), 32 + 104 - 2)
    word, shift = e.shr(place, 5), e.bitcast(e.and_(place, 31), uint64)
    w = [e.cast(e.load(table, uint32, e.add(word, j), lanes=a.lanes), uint64) for j in range(4)]
    low = 0xFFFFFFFF
    b = [e.and_(e.shr(e.or_(e.shl(w[j], 32), w[j + 1]), e.sub(32, shift)), low) for j in range(3)]
    product = e.add(e.add(e.shl(e.mul(m, b[0]), 32), e.mul(m, b[1])), e.shr(e.mul(m, b[2]), 32))
    quadrant = e.shr(e.add(product, 2 ** 61), 62)
    fraction = e.cast(e.bitcast(e.sub(product, e.shl(quadrant, 62)), int64), float64)
    r = e.cast(e.mul(fraction, math.pi / 2 * 2.0 ** -62), float32)
    return [e.select(e.cmp("lt", a, float("inf")), r, float("nan")), e.cast(quadrant, uint32)]


def _both(e: Emitter, r: Val) -> tuple[Val, Val]:
    """sin r and cos r for |r| <= pi/4."""
    z = e.mul(r, r)
    sine = e.fma(e.mul(r, z), poly(e, z, F32.poly("SIN")), r)
    return sine, e.fma(z, e.fma(z, poly(e, z, F32.poly("COS")), -0.5), 1.0)


def sin(e: Emitter, x: Val) -> Val:
    """The sine: of |x|, with the sign of x and of the half turns."""
    r, q = _reduced(e, e.abs(x))
    s, c = _both(e, r)
    y = e.select(e.cmp("ne", e.and_(q, 1), 0), c, s)
    sign = e.and_(e.xor(e.bitcast(x, uint32), e.shl(q, 30)), _SIGN)
    return e.bitcast(e.xor(e.bitcast(y, uint32), sign), float32)


def cos(e: Emitter, x: Val) -> Val:
    """The cosine."""
    r, q = _reduced(e, e.abs(x))
    s, c = _both(e, r)
    y = e.select(e.cmp("ne", e.and_(q, 1), 0), s, c)
    return e.bitcast(e.xor(e.bitcast(y, uint32), e.and_(e.shl(e.add(q, 1), 30), _SIGN)), float32)


def _near_or_far(e: Emitter, x: Val) -> tuple[Val, Val]:
    """Whether |x| <= 0.55, and asin of |x| there, else of sqrt((1 - |x|) / 2), which is acos(|x|) / 2 and below 1/2: its last
    place is then worth half of the result's."""
    a = e.abs(x)
    near = e.cmp("le", a, 0.55)
    return near, odd(e, e.select(near, a, e.sqrt(e.fma(a, -0.5, 0.5))), "ASIN", F32)


def asin(e: Emitter, x: Val) -> Val:
    """The inverse sine."""
    near, y = _near_or_far(e, x)
    high, low = HALF_PI_F32[:2]
    return e.copysign(e.select(near, y, e.sub(high, e.sub(e.add(y, y), low))), x)


def acos(e: Emitter, x: Val) -> Val:
    """The inverse cosine."""
    near, y = _near_or_far(e, x)
    high, low = HALF_PI_F32[:2]
    twice = e.add(y, y)
    outer = e.select(e.cmp("lt", x, 0.0), e.sub(2 * high, e.sub(twice, 2 * low)), twice)
    return e.select(near, e.sub(high, e.sub(e.copysign(y, x), low)), outer)


def atan(e: Emitter, x: Val) -> Val:
    """The inverse tangent: of |x| or 1 / |x|, less pi/4 above 1/2, with one division."""
    a = e.minimum(e.abs(x), 2.0 ** 120)                 # pi/2 from there on, and sums stay finite
    one = e.const(float32, 1.0, x.lanes)
    steep = e.cmp("gt", a, 1.0)
    top, bottom = e.select(steep, one, a), e.select(steep, a, one)
    turn = e.cmp("gt", top, e.mul(bottom, 0.5))
    t = e.div(e.select(turn, e.sub(top, bottom), top), e.select(turn, e.add(top, bottom), bottom))
    y = odd(e, t, "ATAN", F32)
    high, low = HALF_PI_F32[:2]
    y = e.select(turn, e.add(e.add(y, low / 2), high / 2), y)
    return e.copysign(e.select(steep, e.sub(high, e.sub(y, low)), y), x)
