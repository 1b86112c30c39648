"""Comparisons, logic, bits, selection and casts."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..dtypes import DType, as_dtype, bool_, int32
from ..errors import DTypeError
from ..ir.aval import Aval
from ..ir.opdef import NotDifferentiable
from .elementwise import quiet
from .helpers import ANY, INTS, NUMBERS, Sample, b1, broadcast_shapes, elementwise, f64, i32, same_dtype, shape_text

_FLAT = NotDifferentiable("piecewise constant")
_EXACT = ("exact",)


def _comparison(name: str, predicate: str, ref: Any, kinds: str, doc: str, traits: Any = ()) -> Any:
    return elementwise(name, ref, _FLAT, lambda e, x, y: e.cmp(predicate, x, y), kinds=kinds, result=bool_,
                       traits=("exact", *traits), doc=doc,
                       more=lambda rng: [Sample((np.array([0.0, np.nan, 1], "f8"), np.array([-0.0, np.nan, 1], "f8")), grad=False)])


equal = _comparison("equal", "eq", lambda x, y: np.equal(x, y), "fiub", "x == y; NaN equals nothing.", ("commutative",))
not_equal = _comparison("not_equal", "ne", lambda x, y: np.not_equal(x, y), "fiub", "x != y; True for NaN.", ("commutative",))
less = _comparison("less", "lt", lambda x, y: np.less(x, y), NUMBERS, "x < y; False for NaN.")
less_equal = _comparison("less_equal", "le", lambda x, y: np.less_equal(x, y), NUMBERS, "x <= y; False for NaN.")
greater = _comparison("greater", "gt", lambda x, y: np.greater(x, y), NUMBERS, "x > y; False for NaN.")
greater_equal = _comparison("greater_equal", "ge", lambda x, y: np.greater_equal(x, y), NUMBERS, "x >= y; False for NaN.")


def _test(name: str, ref: Any, lower: Any, doc: str) -> Any:
    return elementwise(name, ref, _FLAT, lower, result=bool_, traits=_EXACT, doc=doc)


is_nan = _test("is_nan", lambda x: np.isnan(x), lambda e, x: e.isnan(x), "Is not a number.")
is_inf = _test("is_inf", lambda x: np.isinf(x), lambda e, x: e.cmp("eq", e.abs(x), float("inf")), "Is +inf or -inf.")
is_finite = _test("is_finite", lambda x: np.isfinite(x), lambda e, x: e.cmp("lt", e.abs(x), float("inf")),
                  "Is neither NaN nor infinite.")


def _logic(name: str, ref: Any, lower: Any, doc: str) -> Any:
    return elementwise(name, ref, _FLAT, lower, kinds="b", traits=_EXACT, doc=doc)


logical_and = _logic("logical_and", lambda x, y: np.logical_and(x, y), lambda e, x, y: e.and_(x, y), "x and y")
logical_or = _logic("logical_or", lambda x, y: np.logical_or(x, y), lambda e, x, y: e.or_(x, y), "x or y")
logical_xor = _logic("logical_xor", lambda x, y: np.logical_xor(x, y), lambda e, x, y: e.xor(x, y), "x or y, not both")
logical_not = _logic("logical_not", lambda x: np.logical_not(x), lambda e, x: e.not_(x), "not x")


def _bits(name: str, ref: Any, lower: Any, doc: str, more: Any = None) -> Any:
    return elementwise(name, ref, _FLAT, lower, 0, 8, kinds=INTS, traits=_EXACT, doc=doc, more=more)


bitwise_and = _bits("bitwise_and", lambda x, y: np.bitwise_and(x, y), lambda e, x, y: e.and_(x, y), "Bits set in both.")
bitwise_or = _bits("bitwise_or", lambda x, y: np.bitwise_or(x, y), lambda e, x, y: e.or_(x, y), "Bits set in either.")
bitwise_xor = _bits("bitwise_xor", lambda x, y: np.bitwise_xor(x, y), lambda e, x, y: e.xor(x, y), "Bits set in one.")
invert = _bits("invert", lambda x: np.invert(x), lambda e, x: e.not_(x), "All bits flipped.")


def _ref_shift(left: bool) -> Any:
    def ref(x: Any, y: Any) -> Any:
        x, y = np.asarray(x), np.asarray(y)
        bits = x.dtype.itemsize * 8
        inside = (y >= 0) & (y < bits)
        safe = np.where(inside, y, 0).astype(x.dtype)
        if left:
            return np.where(inside, np.left_shift(x, safe), 0).astype(x.dtype)
        return np.where(inside, np.right_shift(x, safe), np.where(x < 0, -1, 0)).astype(x.dtype)
    return ref


def _shift_samples(rng: Any) -> list[Sample]:
    return [Sample((np.array([1, -1, 5, -8, 7, -7], "i4"), np.array([31, 32, -1, 1, 40, 40], "i4")), grad=False),
            Sample((np.array([1, -1, 5], "i8"), np.array([63, 64, 100], "i8")), grad=False),
            Sample((np.array([1, 255, 129], "u1"), np.array([7, 8, 1], "u1")), grad=False)]


left_shift = _bits("left_shift", lambda x, y: _ref_shift(True)(x, y), lambda e, x, y: e.shl(x, y),
                   "x * 2**y; 0 for shifts by the width or more, or by a negative count.", _shift_samples)
right_shift = _bits("right_shift", lambda x, y: _ref_shift(False)(x, y), lambda e, x, y: e.shr(x, y),
                    "floor(x / 2**y); the sign's fill for shifts by the width or more, or by a negative count.", _shift_samples)


# ---- selection -------------------------------------------------------------------------------------------------------------


def _where_infer(c: Aval, x: Aval, y: Aval) -> Aval:
    if c.dtype != bool_:
        raise DTypeError(f"the condition must be bool{shape_text(c.shape)}, got {c}")
    dtype = same_dtype(x, y)
    return Aval(broadcast_shapes(c.shape, x.shape, y.shape), dtype)


# Both rules select: a product with the mask would make NaN of an infinite cotangent or tangent on the branch not chosen.


def _where_vjp(b: Any, ct: Any, z: Any, c: Any, x: Any, y: Any) -> list[Any]:
    zero = b.like(ct, 0)
    return [None, b.where(c, ct, zero), b.where(c, zero, ct)]


def _where_jvp(b: Any, ts: Any, z: Any, c: Any, x: Any, y: Any) -> Any:
    _, tx, ty = ts
    if tx is None and ty is None:
        return None
    return b.where(c, b.like(z, 0) if tx is None else tx, b.like(z, 0) if ty is None else ty)


def _where_samples(rng: Any) -> list[Sample]:
    c = rng.random((3, 4)) < 0.5
    x, y = rng.normal(size=(3, 4)), rng.normal(size=(3, 4))
    return [Sample((c, x, y)), Sample((c, x.astype("f4"), y.astype("f4"))), Sample((c[0], x, y[:, :1])),
            Sample((np.array(True), x, y)), Sample((c, np.int32(3) * np.ones((3, 4), "i4"), np.zeros((3, 4), "i4")), grad=False),
            Sample((c, c, ~c), grad=False), Sample((np.zeros((0,), bool), np.zeros(0), np.zeros(0)), grad=False),
            Sample((np.array([True, False, True] * 11), np.full(33, np.nan), np.arange(33.0)), grad=False),
            Sample((np.arange(17) % 3 == 0, np.arange(17, dtype="f4"), -np.arange(17, dtype="f4")), grad=False)]


where = elementwise("where", lambda c, x, y: np.where(c, x, y), _FLAT, lambda e, c, x, y: e.select(c, x, y), kinds=ANY,
                    infer=_where_infer, traits=_EXACT, samples=_where_samples, rules=(_where_vjp, _where_jvp),
                    errors=(((f64(3), f64(3), f64(3)), {}, "the condition must be bool"),
                            ((b1(3), f64(3), i32(3)), {}, "different dtypes"),
                            ((b1(3), f64(4), f64(4)), {}, "Incompatible shapes")),
                    doc="x where c holds, else y. The branch not chosen gets a strong zero cotangent.")


# ---- casts -----------------------------------------------------------------------------------------------------------------


def cast_array(x: Any, dtype: DType) -> Any:
    """The meaning of ``cast``: float to integer truncates and saturates, NaN gives 0; integer to integer wraps; to bool is x != 0."""
    x = np.asarray(x)
    if x.dtype.kind == "f" and dtype.kind in "iu":
        info = np.iinfo(dtype.np)
        wide = np.trunc(np.where(np.isnan(x), 0, x).astype(np.float64))
        low, high = float(info.min), float(info.max)
        inside = np.where((wide > low) & (wide < high), wide, 0)
        out = inside.astype(dtype.np)
        out = np.where(wide >= high, info.max, out)
        return np.where(wide <= low, info.min, out).astype(dtype.np)
    if dtype == bool_:
        return x != 0
    return x.astype(dtype.np)


def _cast_infer(x: Aval, *, dtype: DType) -> Aval:
    if x.dtype.kind == "s" or as_dtype(dtype).kind == "s":
        raise DTypeError(f"cast between {x.dtype.name} and {dtype.name} is not possible")
    return Aval(x.shape, dtype)


def _cast_samples(rng: Any) -> list[Sample]:
    out: list[Sample] = []
    values = np.array([0, -0.0, 1.7, -1.7, 2.5, 300, -300, 3e9, -3e9, 1e19, -1e19, np.inf, -np.inf, np.nan, 1e-40, 0.5, 65504, 127, 128])
    for source in ("float32", "float64", "int32", "int64", "uint8", "bool"):
        for target in ("float32", "float64", "int32", "int64", "uint8", "int8", "bool"):
            x = cast_array(values, as_dtype(source))
            out.append(Sample((x,), {"dtype": as_dtype(target)}, grad=False))
    out.append(Sample((rng.normal(size=(3, 4)),), {"dtype": as_dtype("float32")}))
    out.append(Sample((rng.normal(size=(3, 4)).astype("f4"),), {"dtype": as_dtype("float64")}))
    return out


def _cast_vjp(b: Any, ct: Any, y: Any, x: Any, *, dtype: DType) -> list[Any]:
    both = dtype.is_floating and x.aval.dtype.is_floating
    return [b.cast(ct, dtype=x.aval.dtype) if both else None]


def _cast_jvp(b: Any, ts: Any, y: Any, x: Any, *, dtype: DType) -> Any:
    both = dtype.is_floating and x.aval.dtype.is_floating
    return b.cast(ts[0], dtype=dtype) if both and ts[0] is not None else None


cast = elementwise("cast", quiet(lambda x, *, dtype: cast_array(x, dtype)), NotDifferentiable("see rules"),
                   lambda e, x, *, dtype: e.cast(x, dtype), kinds="fiub", infer=_cast_infer, traits=_EXACT, samples=_cast_samples,
                   rules=(_cast_vjp, _cast_jvp), errors=(((Aval((2,), as_dtype("string")),), {"dtype": int32}, "is not possible"),),
                   doc="To another dtype: float to integer truncates and saturates (NaN gives 0), integers wrap, to bool is x != 0.")
