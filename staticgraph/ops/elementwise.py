"""Elementwise arithmetic and mathematical functions: a record each.

Conventions at kinks, ties and NaN stand in ``docs/conventions.md``. Comparisons, logic, bits and casts are in
``ops/logic.py``; activations in ``ops/activations.py``.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..ir.opdef import Decompose, NotDifferentiable
from .helpers import NUMBERS, Sample, elementwise


def quiet(f: Any) -> Any:
    """``f`` without NumPy's floating-point warnings; its signature is kept."""
    import functools

    @functools.wraps(f)
    def wrapped(*args: Any, **kw: Any) -> Any:
        with np.errstate(all="ignore"):
            return f(*args, **kw)
    wrapped.inner = f                        # type: ignore[attr-defined]    # for a caller that has the warnings off already
    return wrapped


def same(f: Any) -> Any:
    """``f``'s result in the first operand's dtype (NumPy computes some integer and float32 functions wider)."""
    return lambda *xs: f(*xs).astype(np.asarray(xs[0]).dtype)


_EXACT = ("exact",)
_MANY = ("exact", "commutative")

add = elementwise("add", lambda x, y: np.add(x, y), lambda b, z, x, y: [1, 1], lambda e, x, y: e.add(x, y),
                  kinds=NUMBERS, traits=(*_MANY, "linear"), doc="x + y; integers wrap.")
sub = elementwise("sub", lambda x, y: np.subtract(x, y), lambda b, z, x, y: [1, -1], lambda e, x, y: e.sub(x, y),
                  kinds=NUMBERS, traits=(*_EXACT, "linear"), doc="x - y; integers wrap.")
mul = elementwise("mul", lambda x, y: np.multiply(x, y), lambda b, z, x, y: [y, x], lambda e, x, y: e.mul(x, y),
                  kinds=NUMBERS, traits=_MANY, doc="x * y; integers wrap.")
div = elementwise("div", lambda x, y: np.divide(x, y),
                  lambda b, z, x, y: [b.div(b.like(y, 1), y), b.neg(b.div(z, y))], lambda e, x, y: e.div(x, y),
                  0.5, 3, traits=_EXACT, doc="x / y for floats, IEEE.",
                  more=lambda rng: [Sample((np.array([1, -1, 0], "f8"), np.array([0.0, -0.0, 0.0], "f8")), grad=False)])
neg = elementwise("neg", lambda x: np.negative(x), lambda b, y, x: [-1], lambda e, x: e.neg(x), kinds="fi",
                  traits=(*_EXACT, "linear"), doc="-x; the most negative integer stays itself.")
abs_ = elementwise("abs", lambda x: np.abs(x), lambda b, y, x: [b.sign(x)], lambda e, x: e.abs(x), 0.2, 3, kinds="fi",
                   traits=_EXACT, doc="|x|; the derivative at 0 is 0.")
sign = elementwise("sign", lambda x: np.sign(x), lambda b, y, x: [0], lambda e, x: e.select(
    e.cmp("gt", x, 0), e.const(x.dtype, 1, x.lanes), e.select(e.cmp("lt", x, 0), e.const(x.dtype, -1, x.lanes),
                                                              e.select(e.cmp("eq", x, 0), e.const(x.dtype, 0, x.lanes), x))),
    0.2, 3, kinds="fi", traits=_EXACT, doc="-1, 0 or 1; NaN of NaN; 0 of -0.0.")
square = elementwise("square", lambda x: np.square(x), lambda b, y, x: [b.add(x, x)], lambda e, x: e.mul(x, x), kinds=NUMBERS,
                     traits=_EXACT, doc="x * x")
sqrt = elementwise("sqrt", quiet(lambda x: np.sqrt(x)), lambda b, y, x: [b.div(b.like(y, 0.5), y)], lambda e, x: e.sqrt(x), 0.1, 4,
                   traits=_EXACT, doc="Correctly rounded; NaN below zero; the derivative at 0 is inf.")
rsqrt = elementwise("rsqrt", quiet(same(lambda x: 1 / np.sqrt(x))),
                    lambda b, y, x: [b.mul(b.like(x, -0.5), b.div(y, x))], lambda e, x: e.div(1, e.sqrt(x)), 0.1, 4,
                    doc="1 / sqrt(x)")
cbrt = elementwise("cbrt", lambda x: np.cbrt(x), lambda b, y, x: [b.div(b.like(y, 1 / 3), b.square(y))], lambda e, x: e.cbrt(x), 0.2, 4,
                   doc="The real cube root, of negative numbers too; the derivative at 0 is inf.")
reciprocal = elementwise("reciprocal", quiet(same(lambda x: 1 / x)), lambda b, y, x: [b.neg(b.square(y))], lambda e, x: e.div(1, x),
                         0.5, 3, traits=_EXACT, doc="1 / x")
squared_difference = elementwise(
    "squared_difference", lambda x, y: np.square(x - y), lambda b, z, x, y: _twice_difference(b, x, y),
    lambda e, x, y: (lambda d: e.mul(d, d))(e.sub(x, y)), kinds=NUMBERS, traits=("exact", "commutative"), doc="(x - y)**2")


def _twice_difference(b: Any, x: Any, y: Any) -> list[Any]:
    d = b.sub(x, y)
    twice = b.add(d, d)
    return [twice, b.neg(twice)]


def _mulz(a: Any, d: Any) -> Any:
    product = np.asarray(a * d)
    np.copyto(product, 0, where=np.equal(a, 0))          # a third of the time of np.where
    return product


mulz = elementwise(
    "mulz", quiet(_mulz),
    lambda b, z, a, d: [d, a], lambda e, a, d: e.select(e.cmp("eq", a, 0), e.const(a.dtype, 0, a.lanes), e.mul(a, d)),
    traits=_EXACT, doc="a * d with a strong zero: 0 where a == 0, whatever d is. Both partials are plain: the rules are linear in "
                       "a, so second derivatives stay right where a is zero.")


def _pow_partials(b: Any, z: Any, x: Any, y: Any) -> list[Any]:
    # x: y * x**(y-1), with a strong zero for y == 0 (x**0 is constant); y: z * log(x), 0 where x <= 0 makes log undefined
    by_x = b.mulz(y, b.pow(x, b.sub(y, b.like(y, 1))))
    positive = b.greater(x, b.like(x, 0))
    safe = b.where(positive, x, b.like(x, 1))
    at_zero = b.where(b.equal(x, b.like(x, 0)), b.like(x, 0), b.like(x, np.nan))
    log = b.where(positive, b.log(safe), at_zero)
    return [by_x, b.mul(z, log)]


def _int_pow(x: Any, y: Any) -> Any:
    x, y = np.broadcast_arrays(x, y)
    if x.dtype.kind == "f":
        return np.power(x, y)
    out = np.ones_like(x)
    base, left = x.copy(), np.where(y < 0, 0, y)
    with np.errstate(over="ignore"):
        while (left > 0).any():
            out = np.where(left & 1, out * base, out)
            base, left = base * base, left >> 1
    return out


def _lower_pow(e: Any, x: Any, y: Any) -> Any:
    if x.dtype.kind == "f":
        return e.pow(x, y)
    lanes = max(x.lanes, y.lanes)
    one = e.const(x.dtype, 1, lanes)
    start = [one, e.splat(x, lanes), e.splat(e.maximum(y, 0), lanes)]

    def body(v: Any) -> Any:
        odd = e.cmp("ne", e.and_(v[2], one), 0)
        return [e.select(odd, e.mul(v[0], v[1]), v[0]), e.mul(v[1], v[1]), e.shr(v[2], one)]
    return e.while_(start, lambda v: e.any(e.cmp("gt", v[2], 0)), body)[0]


pow_ = elementwise("pow", quiet(_int_pow), _pow_partials, _lower_pow, 0.3, 2.5, kinds="fi",
                   doc="x ** y. Floats follow C99's pow; integers wrap and a negative exponent is taken as 0. "
                       "The partial by y is 0 at x == 0 and NaN below.",
                   more=lambda rng: [Sample((np.array([-2, -2], "f8"), np.array([3, 2], "f8")), grad=False),
                                     Sample((np.array([-3, 2, 7], "i4"), np.array([3, 31, 0], "i4")), grad=False)])


def _tie_partials(pick: str) -> Any:
    def partials(b: Any, z: Any, x: Any, y: Any) -> list[Any]:
        first = getattr(b, pick)(x, y)
        mask = b.cast(first, dtype=x.aval.dtype)
        return [mask, b.sub(b.like(x, 1), mask)]
    return partials


maximum = elementwise("maximum", lambda x, y: np.maximum(x, y), _tie_partials("greater_equal"), lambda e, x, y: e.maximum(x, y),
                      kinds=NUMBERS, doc="The larger; NaN if either is; at ties the derivative goes to x.")
minimum = elementwise("minimum", lambda x, y: np.minimum(x, y), _tie_partials("less_equal"), lambda e, x, y: e.minimum(x, y),
                      kinds=NUMBERS, doc="The smaller; NaN if either is; at ties the derivative goes to x.")

# ---- exponentials and logarithms -------------------------------------------------------------------------------------------

exp = elementwise("exp", quiet(lambda x: np.exp(x)), lambda b, y, x: [y], lambda e, x: e.exp(x), doc="e**x")
expm1 = elementwise("expm1", quiet(lambda x: np.expm1(x)), lambda b, y, x: [b.add(y, b.like(y, 1))], lambda e, x: e.expm1(x),
                    doc="e**x - 1, accurate near 0")
log = elementwise("log", quiet(lambda x: np.log(x)), lambda b, y, x: [b.reciprocal(x)], lambda e, x: e.log(x), 0.1, 4,
                  doc="Natural logarithm: -inf at 0, NaN below.")
log1p = elementwise("log1p", quiet(lambda x: np.log1p(x)), lambda b, y, x: [b.reciprocal(b.add(x, b.like(x, 1)))],
                    lambda e, x: e.log1p(x), -0.7, 3, doc="log(1 + x), accurate near 0")

exp2 = elementwise("exp2", quiet(lambda x: np.exp2(x)), lambda b, y, x: [b.mul(y, b.like(y, math.log(2)))], lambda e, x: e.exp2(x), doc="2**x")
log2 = elementwise("log2", quiet(lambda x: np.log2(x)), lambda b, y, x: [b.reciprocal(b.mul(x, b.like(x, math.log(2))))], lambda e, x: e.log2(x),
                   0.1, 4, doc="Logarithm to base 2, exact for powers of 2: -inf at 0, NaN below.")
log10 = elementwise("log10", quiet(lambda x: np.log10(x)), lambda b, y, x: [b.reciprocal(b.mul(x, b.like(x, math.log(10))))], lambda e, x: e.log10(x),
                    0.1, 4, doc="Logarithm to base 10: -inf at 0, NaN below.")

# ---- trigonometric and hyperbolic --------------------------------------------------------------------------------------------

sin = elementwise("sin", quiet(lambda x: np.sin(x)), lambda b, y, x: [b.cos(x)], lambda e, x: e.sin(x), doc="Sine of radians.")
cos = elementwise("cos", quiet(lambda x: np.cos(x)), lambda b, y, x: [b.neg(b.sin(x))], lambda e, x: e.cos(x), doc="Cosine of radians.")
tan = elementwise("tan", quiet(lambda x: np.tan(x)), lambda b, y, x: [b.add(b.square(y), b.like(y, 1))], lambda e, x: e.tan(x), -1, 1,
                  doc="Tangent of radians.")
asin = elementwise("asin", quiet(lambda x: np.arcsin(x)), lambda b, y, x: [b.rsqrt(_one_minus_square(b, x))],
                   lambda e, x: e.asin(x), -0.9, 0.9, doc="Inverse sine; NaN outside [-1, 1].")
acos = elementwise("acos", quiet(lambda x: np.arccos(x)), lambda b, y, x: [b.neg(b.rsqrt(_one_minus_square(b, x)))],
                   lambda e, x: e.acos(x), -0.9, 0.9, doc="Inverse cosine; NaN outside [-1, 1].")
atan = elementwise("atan", quiet(lambda x: np.arctan(x)), lambda b, y, x: [b.reciprocal(b.add(b.square(x), b.like(x, 1)))],
                   lambda e, x: e.atan(x), doc="Inverse tangent.")
atan2 = elementwise("atan2", quiet(lambda y, x: np.arctan2(y, x)), lambda b, z, y, x: _atan2_partials(b, y, x),
                    lambda e, y, x: e.atan2(y, x), 0.2, 2, doc="Angle of the point (x, y), with C99's zeros and infinities.")
sinh = elementwise("sinh", quiet(lambda x: np.sinh(x)), lambda b, y, x: [b.cosh(x)], lambda e, x: e.sinh(x), doc="Hyperbolic sine.")
cosh = elementwise("cosh", quiet(lambda x: np.cosh(x)), lambda b, y, x: [b.sinh(x)], lambda e, x: e.cosh(x), doc="Hyperbolic cosine.")
tanh = elementwise("tanh", quiet(lambda x: np.tanh(x)), lambda b, y, x: [_one_minus_square(b, y)], lambda e, x: e.tanh(x),
                   doc="Hyperbolic tangent.")
asinh = elementwise("asinh", quiet(lambda x: np.arcsinh(x)), lambda b, y, x: [b.rsqrt(b.add(b.square(x), b.like(x, 1)))],
                    lambda e, x: e.asinh(x), doc="Inverse hyperbolic sine.")
acosh = elementwise("acosh", quiet(lambda x: np.arccosh(x)),
                    lambda b, y, x: [b.rsqrt(b.mul(b.sub(x, b.like(x, 1)), b.add(x, b.like(x, 1))))],
                    lambda e, x: e.acosh(x), 1.2, 4, doc="Inverse hyperbolic cosine; NaN below 1.")
atanh = elementwise("atanh", quiet(lambda x: np.arctanh(x)), lambda b, y, x: [b.reciprocal(_one_minus_square(b, x))],
                    lambda e, x: e.atanh(x), -0.8, 0.8, doc="Inverse hyperbolic tangent.")


def _one_minus_square(b: Any, x: Any) -> Any:
    return b.sub(b.like(x, 1), b.square(x))


def _atan2_partials(b: Any, y: Any, x: Any) -> list[Any]:
    r = b.add(b.square(x), b.square(y))
    return [b.div(x, r), b.neg(b.div(y, r))]


_TWO_OVER_ROOT_PI = 1.1283791670955126


def _ref_erf(x: Any) -> Any:
    from ..numerics import erf as accurate
    return accurate(np.asarray(x))


def _ref_erfc(x: Any) -> Any:
    from ..numerics import erfc as accurate
    return accurate(np.asarray(x))


def _gaussian(b: Any, x: Any, factor: float) -> Any:
    return b.mul(b.like(x, factor), b.exp(b.neg(b.square(x))))


erf = elementwise("erf", quiet(_ref_erf), lambda b, y, x: [_gaussian(b, x, _TWO_OVER_ROOT_PI)], lambda e, x: e.erf(x),
                  doc="Gauss error function.")
erfc = elementwise("erfc", quiet(_ref_erfc), lambda b, y, x: [_gaussian(b, x, -_TWO_OVER_ROOT_PI)], lambda e, x: e.erfc(x),
                   doc="1 - erf(x), accurate for large x.")

# ---- rounding (piecewise constant) -------------------------------------------------------------------------------------------

_FLAT = NotDifferentiable("piecewise constant")
floor = elementwise("floor", lambda x: np.floor(x), _FLAT, lambda e, x: e.floor(x), traits=_EXACT, doc="Down to an integer.")
ceil = elementwise("ceil", lambda x: np.ceil(x), _FLAT, lambda e, x: e.ceil(x), traits=_EXACT, doc="Up to an integer.")
trunc = elementwise("trunc", lambda x: np.trunc(x), _FLAT, lambda e, x: e.trunc(x), traits=_EXACT, doc="Toward zero to an integer.")
rint = elementwise("rint", lambda x: np.rint(x), _FLAT, lambda e, x: e.rint(x), kinks=(0.5, 1.5, 2.5, -0.5), traits=_EXACT,
                   doc="To the nearest integer, halves to even.")

# ---- division with integer quotient --------------------------------------------------------------------------------------------


def _guarded(total: str, partials: Any, ref: Any, name: str, doc: str) -> Any:
    def build(b: Any, x: Any, y: Any) -> Any:
        if y.aval.dtype.kind != "f":
            y = b.guard(y, b.not_equal(y, b.like(y, 0)), message="Integer division by zero", limit=0, fill=1)
        return getattr(b, total)(x, y)

    def checked(x: Any, y: Any) -> Any:
        if np.asarray(y).dtype.kind != "f" and (np.asarray(y) == 0).any() and np.broadcast(x, y).size:
            from ..errors import InvalidArgumentError
            raise InvalidArgumentError(None, None, "Integer division by zero")
        return ref(x, y)
    elementwise(total, quiet(ref), partials, _lower_division(total), 0.6, 3, kinds=NUMBERS, doc=f"{name} for a divisor known not to be 0.",
                traits=_EXACT, infer=None, more=lambda rng: [Sample((np.array([7, -7, 7, -7, -2**31], "i4"), np.array([2, 2, -2, -2, -1], "i4")))],
                )
    return elementwise(name, quiet(checked), partials, _lower_division(total), 0.6, 3, kinds=NUMBERS, decompose=Decompose(build), doc=doc, traits=_EXACT,
                       more=lambda rng: [Sample((np.array([7, -7, 7, -7, -2**31], "i4"), np.array([2, 2, -2, -2, -1], "i4")), grad=False),
                                         Sample((np.array([7, -7, 7.5, -7.5, np.inf, 3], "f8"), np.array([2, 2, -2, -2, 3, np.inf], "f8")), grad=False)])


def _lower_division(total: str) -> Any:
    def lower(e: Any, x: Any, y: Any) -> Any:
        if total == "floordiv_total":
            return e.floordiv(x, y)
        if total == "floormod_total":
            return e.floormod(x, y)
        if x.dtype.kind == "f":
            q = e.trunc(e.div(x, y)) if total == "truncdiv_total" else e.fmod(x, y)
            return q
        return e.idiv(x, y) if total == "truncdiv_total" else e.irem(x, y)
    return lower


def _trunc_div(x: Any, y: Any) -> Any:
    if np.asarray(x).dtype.kind == "f":
        return np.trunc(x / y)
    q = np.floor_divide(x, y)
    exact = q * y == x
    return (q + ((~exact) & ((np.asarray(x) < 0) != (np.asarray(y) < 0)))).astype(np.asarray(x).dtype)


floordiv = _guarded("floordiv_total", _FLAT, lambda x, y: np.floor_divide(x, y), "floordiv",
                    "Floor of x / y (Python's //); an integer divisor of 0 fails the run; INT_MIN // -1 wraps.")
floormod = _guarded("floormod_total", lambda b, z, x, y: [1, b.neg(b.floor(b.div(x, y)))], lambda x, y: np.mod(x, y), "floormod",
                    "x - floor(x / y) * y (Python's %): the sign of y.")
truncdiv = _guarded("truncdiv_total", _FLAT, _trunc_div, "truncdiv", "C's integer division: toward zero.")
truncmod = _guarded("truncmod_total", lambda b, z, x, y: [1, b.neg(b.trunc(b.div(x, y)))], lambda x, y: np.fmod(x, y), "truncmod",
                    "C's remainder: the sign of x.")

