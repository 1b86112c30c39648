"""sin, cos, tan and the inverse functions.

The argument is taken to r in [-pi/4, pi/4] and a quadrant in float64 (``single.py`` serves float32): by three pieces of pi/2 up to a
limit, and by the bits of 2/pi that matter (Payne and Hanek, 1983) above it, in a rare function that vectors enter only when a lane
needs it.
"""

from __future__ import annotations

from ...dtypes import float32, float64, int64, uint64
from ..values import Val
from . import coefficients, single
from .base import F64, WIDE, Emitter, Precision, fast_two_sum, odd, poly, two_product, widened

LIMIT = 8.0e5                                # beyond it n * pi/2 in three pieces is not accurate enough
TWO_OVER_PI = 0.6366197723675814


def _reduced(e: Emitter, x: Val) -> tuple[Val, Val, Val]:
    """(r, what r rounds away, quadrant) of a float64 x; NaN for NaN and infinities."""
    n = e.rint(e.mul(x, TWO_OVER_PI))
    parts = coefficients.HALF_PI_F64 if e.target.fma else coefficients.HALF_PI_SHORT
    minus = e.neg(n)
    first = e.fma(minus, parts[0], x)
    r = e.fma(minus, parts[1], first)
    low = e.fma(minus, parts[2], e.fma(minus, parts[1], e.sub(first, r)))
    quadrant = e.and_(e.cast(n, int64), 3)
    size = e.abs(x)
    large = e.and_(e.cmp("gt", size, LIMIT), e.cmp("lt", size, float("inf")))

    def far() -> list[Val]:
        slow = e.function(f"reduce{x.lanes}", [x], _far_lanes, rare=True)
        return [e.select(large, s, v) for s, v in zip(slow, (r, low, quadrant))]
    r, low, quadrant = e.if_(e.any(large), far, lambda: [r, low, quadrant])
    return e.select(e.cmp("lt", size, float("inf")), r, e.sub(x, x)), low, quadrant


def _far_lanes(e: Emitter, x: Val) -> list[Val]:
    """Payne and Hanek's reduction, lane by lane."""
    if x.lanes == 1:
        return list(_far(e, x))
    start = [e.const(float64, 0.0, x.lanes), e.const(float64, 0.0, x.lanes), e.const(int64, 0, x.lanes)]

    def step(i: Val, v: list[Val]) -> list[Val]:
        return [e.insert(have, i, new) for have, new in zip(v, _far(e, e.lane(x, i)))]
    return e.loop(0, x.lanes, 1, start, step)


def _product(e: Emitter, a: Val, b: Val) -> tuple[Val, Val]:
    """(high, low) 64 bits of a product of 64-bit integers, by halves."""
    low = 0xFFFFFFFF
    a0, a1, b0, b1 = e.and_(a, low), e.shr(a, 32), e.and_(b, low), e.shr(b, 32)
    p00, p01, p10, p11 = e.mul(a0, b0), e.mul(a0, b1), e.mul(a1, b0), e.mul(a1, b1)
    middle = e.add(e.add(e.shr(p00, 32), e.and_(p01, low)), e.and_(p10, low))
    high = e.add(e.add(e.add(p11, e.shr(p01, 32)), e.shr(p10, 32)), e.shr(middle, 32))
    return high, e.or_(e.shl(middle, 32), e.and_(p00, low))


def _far(e: Emitter, x: Val) -> tuple[Val, Val, Val]:
    """x = m 2**k; the 192 bits of 2/pi from bit k - 2 on give m 2**k 2/pi modulo 4 to more than 64 places."""
    bits = e.bitcast(x, uint64)
    exponent = e.cast(e.and_(e.shr(bits, 52), 0x7FF), int64)
    m = e.or_(e.and_(bits, (1 << 52) - 1), 1 << 52)
    place = e.add(exponent, 64 - 2 - 1075)   # bit 0 of 2/pi is at 64: a zero word stands in front
    pointer = e.table("two_over_pi", uint64, (0, *coefficients.TWO_OVER_PI, 0, 0))
    word, shift = e.shr(place, 6), e.bitcast(e.and_(place, 63), uint64)
    back = e.sub(e.const(uint64, 64), shift)
    w = [e.load(pointer, uint64, e.add(word, j)) for j in range(4)]
    a, b, c = (e.or_(e.shl(w[j], shift), e.shr(w[j + 1], back)) for j in range(3))
    # (m * (a, b, c)) modulo 2**192
    h0, l0 = _product(e, m, c)
    h1, l1 = _product(e, m, b)
    p1 = e.add(h0, l1)
    carry = e.cast(e.cmp("lt", p1, l1), uint64)
    p2 = e.add(e.add(h1, carry), e.mul(m, a))
    del l0
    quadrant = e.shr(e.add(p2, 1 << 61), 62)
    top = e.bitcast(e.or_(e.shl(p2, 2), e.shr(p1, 62)), int64)
    rest = e.shl(p1, 2)
    f = e.cast(top, float64)
    # what the conversion rounds away, and the bits below
    below = e.add(e.mul(e.cast(e.sub(top, e.cast(f, int64)), float64), 2.0 ** -64), e.mul(e.cast(rest, float64), 2.0 ** -128))
    f = e.mul(f, 2.0 ** -64)
    half_pi = e.const(float64, 1.5707963267948966)
    r, low = two_product(e, f, half_pi)
    low = e.fma(below, half_pi, e.fma(f, 6.123233995736766e-17, low))
    r, low = fast_two_sum(e, r, low)
    negative = e.cmp("ne", e.shr(bits, 63), 0)
    q = e.and_(e.bitcast(quadrant, int64), 3)
    return e.select(negative, e.neg(r), r), e.select(negative, e.neg(low), low), e.select(negative, e.and_(e.neg(q), 3), q)


def _sine(e: Emitter, r: Val, low: Val, P: Precision) -> Val:
    if P is not F64:
        return odd(e, r, "SIN", P)
    # sin(r + low) = sin r + low cos r, and cos r is near 1 - r*r/2
    z = e.mul(r, r)
    tail = e.fma(e.mul(z, -0.5), low, low)
    return e.add(r, e.fma(e.mul(r, z), poly(e, z, P.poly("SIN")), tail))


def _cosine(e: Emitter, r: Val, low: Val, P: Precision) -> Val:
    z = e.mul(r, r)
    h = e.mul(z, 0.5)
    w = e.sub(1.0, h)
    # what 1 - z/2 rounds away is put back
    lost = e.sub(e.sub(1.0, w), h)
    if P is F64:
        lost = e.fma(e.neg(r), low, lost)
    return e.add(w, e.fma(e.mul(z, z), poly(e, z, P.poly("COS")), lost))


def _turn(e: Emitter, x: Val, shift: int) -> Val:
    """The sine of a float64 x plus ``shift`` quarter turns."""
    r, low, q = _reduced(e, x)
    q = e.and_(e.add(q, shift), 3) if shift else q
    y = e.select(e.cmp("ne", e.and_(q, 1), 0), _cosine(e, r, low, F64), _sine(e, r, low, F64))
    y = e.select(e.cmp("ge", q, 2), e.neg(y), y)
    return y if shift else e.select(e.cmp("eq", x, 0.0), x, y)           # the sign of zero


def sin(e: Emitter, x: Val) -> Val:
    """The sine of radians; NaN at infinity."""
    return single.sin(e, x) if x.dtype.bits == 32 else _turn(e, x, 0)


def cos(e: Emitter, x: Val) -> Val:
    """The cosine of radians; NaN at infinity."""
    return single.cos(e, x) if x.dtype.bits == 32 else _turn(e, x, 1)


def tan(e: Emitter, x: Val) -> Val:
    """The tangent of radians: sine over cosine of the reduced argument."""
    P = F64 if x.dtype.bits == 64 else WIDE
    wide = x if x.dtype.bits == 64 else e.cast(x, float64)
    r, low, q = _reduced(e, wide)
    s, c = _sine(e, r, low, P), _cosine(e, r, low, P)
    turned = e.cmp("ne", e.and_(q, 1), 0)
    y = e.div(e.select(turned, e.neg(c), s), e.select(turned, s, c))
    y = e.select(e.cmp("eq", wide, 0.0), wide, y)
    return y if x.dtype.bits == 64 else e.cast(y, float32)


# ---- inverse functions --------------------------------------------------------------------------------------------------------

_PIO2, _PIO2_LOW = 1.5707963267948966, 6.123233995736766e-17
_PI, _PI_LOW = 3.141592653589793, 1.2246467991473532e-16


def _outer(e: Emitter, a: Val, P: Precision) -> tuple[Val, Val]:
    """(s, t) with asin(sqrt((1 - a) / 2)) = s + t for 1/2 <= a <= 1."""
    z = e.mul(e.sub(1.0, a), 0.5)
    s = e.sqrt(e.maximum(z, 0.0))
    rest = e.fma(e.neg(s), s, z)
    fix = e.select(e.cmp("gt", s, 0.0), e.div(rest, e.add(s, s)), e.const(float64, 0.0, s.lanes))
    return s, e.fma(e.mul(s, z), poly(e, z, P.poly("ASIN")), fix)


def _asin(e: Emitter, x: Val, P: Precision) -> Val:
    a = e.abs(x)
    near = odd(e, e.minimum(a, 0.5), "ASIN", P)
    s, t = _outer(e, e.maximum(a, 0.5), P)
    # pi/2 - 2 (s + t)
    high = e.sub(_PIO2, e.add(s, s))
    lost = e.sub(e.sub(e.const(float64, _PIO2, x.lanes), high), e.add(s, s))
    far = e.add(high, e.add(lost, e.fma(t, -2.0, _PIO2_LOW)))
    y = e.copysign(e.select(e.cmp("le", a, 0.5), near, far), x)
    return e.select(e.cmp("le", a, 1.0), y, e.const(float64, float("nan"), x.lanes))


def asin(e: Emitter, x: Val) -> Val:
    """The inverse sine; NaN outside [-1, 1]."""
    return single.asin(e, x) if x.dtype.bits == 32 else _asin(e, x, F64)


def _acos(e: Emitter, x: Val, P: Precision) -> Val:
    a = e.abs(x)
    small = e.copysign(odd(e, e.minimum(a, 0.5), "ASIN", P), x)
    high = e.sub(_PIO2, small)
    lost = e.sub(e.sub(e.const(float64, _PIO2, x.lanes), high), small)
    near = e.add(high, e.add(lost, _PIO2_LOW))
    s, t = _outer(e, e.maximum(a, 0.5), P)
    twice = e.add(s, s)
    right = e.add(twice, e.add(t, t))
    top = e.sub(_PI, twice)
    gone = e.sub(e.sub(e.const(float64, _PI, x.lanes), top), twice)
    left = e.add(top, e.add(gone, e.fma(t, -2.0, _PI_LOW)))
    y = e.select(e.cmp("le", a, 0.5), near, e.select(e.cmp("gt", x, 0.0), right, left))
    return e.select(e.cmp("le", a, 1.0), y, e.const(float64, float("nan"), x.lanes))


def acos(e: Emitter, x: Val) -> Val:
    """The inverse cosine; NaN outside [-1, 1]."""
    return single.acos(e, x) if x.dtype.bits == 32 else _acos(e, x, F64)


def _angle(e: Emitter, num: Val, den: Val, P: Precision) -> Val:
    """atan(num / den) for num, den >= 0, not both 0 or infinite: the quotient is taken after the reduction to |t| <= tan(pi/8)."""
    steep = e.cmp("gt", num, e.mul(den, 2.414213562373095))
    middle = e.and_(e.not_(steep), e.cmp("gt", num, e.mul(den, 0.41421356237309503)))
    zero = e.const(float64, 0.0, num.lanes)
    top = e.select(steep, e.neg(den), e.select(middle, e.sub(num, den), num))
    bottom = e.select(steep, num, e.select(middle, e.add(num, den), den))
    t = e.div(top, bottom)
    base = e.select(steep, e.const(float64, _PIO2, num.lanes), e.select(middle, e.const(float64, _PIO2 / 2, num.lanes), zero))
    low = e.select(steep, e.const(float64, _PIO2_LOW, num.lanes), e.select(middle, e.const(float64, _PIO2_LOW / 2, num.lanes), zero))
    z = e.mul(t, t)
    return e.add(base, e.add(e.fma(e.mul(t, z), poly(e, z, P.poly("ATAN")), low), t))


def _atan(e: Emitter, x: Val, P: Precision) -> Val:
    a = e.abs(x)
    far = e.cmp("gt", a, 1e17)
    one = e.const(float64, 1.0, x.lanes)
    y = e.select(far, e.const(float64, _PIO2, x.lanes), _angle(e, e.select(far, one, a), one, P))
    return e.select(e.isnan(x), x, e.copysign(e.select(e.cmp("lt", a, 1e-9), a, y), x))


def atan(e: Emitter, x: Val) -> Val:
    """The inverse tangent."""
    return single.atan(e, x) if x.dtype.bits == 32 else _atan(e, x, F64)


def _atan2(e: Emitter, y: Val, x: Val, P: Precision) -> Val:
    a, b = e.abs(y), e.abs(x)
    inf = float("inf")
    one, zero = e.const(float64, 1.0, x.lanes), e.const(float64, 0.0, x.lanes)
    both_inf = e.and_(e.cmp("eq", a, inf), e.cmp("eq", b, inf))
    both_zero = e.and_(e.cmp("eq", a, 0.0), e.cmp("eq", b, 0.0))
    num = e.select(both_inf, one, e.select(both_zero, zero, a))
    den = e.select(e.or_(both_inf, both_zero), one, b)
    # scale so that sums and products of the two neither overflow nor vanish
    huge = e.or_(e.cmp("gt", num, 1e150), e.cmp("gt", den, 1e150))
    tiny = e.and_(e.cmp("lt", num, 1e-150), e.cmp("lt", den, 1e-150))
    factor = e.select(huge, e.const(float64, 2.0 ** -600, x.lanes), e.select(tiny, e.const(float64, 2.0 ** 600, x.lanes), one))
    num, den = e.mul(num, factor), e.mul(den, factor)
    upright = e.cmp("eq", a, inf)
    r = _angle(e, e.select(e.and_(upright, e.not_(both_inf)), one, num), e.select(e.and_(upright, e.not_(both_inf)), zero, den), P)
    flat = e.and_(e.cmp("eq", b, inf), e.not_(both_inf))
    r = e.select(flat, zero, r)
    back = e.cmp("ne", e.shr(e.bitcast(x, uint64), 63), 0)
    r = e.select(back, e.add(e.sub(_PI, r), _PI_LOW), r)
    # a quotient below the normal numbers is itself the angle
    slim = e.and_(e.not_(back), e.cmp("lt", a, e.mul(b, 1e-9)))
    r = e.select(e.and_(slim, e.not_(e.or_(both_zero, flat))), e.div(a, e.select(both_zero, one, b)), r)
    r = e.copysign(r, y)
    return e.select(e.or_(e.isnan(x), e.isnan(y)), e.add(x, y), r)


def atan2(e: Emitter, y: Val, x: Val) -> Val:
    """The angle of (x, y), with C99's zeros and infinities."""
    return widened(e, _atan2, y, x)
