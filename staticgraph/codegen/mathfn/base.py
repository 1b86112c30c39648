"""Tools of the function writers: precisions, polynomials, scaling by powers of two, pairs of floats."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...dtypes import DType, float32, float64, uint32, uint64
from ..values import Val
from . import coefficients

Emitter = Any                                           # the whole emitter: its class stands on this folder


@dataclass(frozen=True)
class Precision:
    """A float format with the coefficients fitted for it. WIDE is float64 with enough accuracy for a float32 result."""

    name: str
    dtype: DType
    bits: DType                                         # the unsigned integer of the same width
    mantissa: int
    bias: int
    exp_range: tuple[float, float]                      # outside of it exp(x) and exp(x)/2 are 0 or inf

    def poly(self, name: str) -> tuple[float, ...]:
        """The coefficients of a fit."""
        return tuple(getattr(coefficients, f"{name}_{self.name}"))

    def parts(self, name: str) -> tuple[float, ...]:
        """A constant in pieces."""
        return tuple(getattr(coefficients, f"{name}_F{self.dtype.bits}"))

    @property
    def magic(self) -> float:
        """Added to a number it leaves the nearest integer in the low mantissa bits (ties to even)."""
        return 1.5 * 2.0 ** self.mantissa

    @property
    def one(self) -> int:
        """The bits of 1.0."""
        return self.bias << self.mantissa

    @property
    def tiny(self) -> float:
        """The smallest normal number."""
        return 2.0 ** (1 - self.bias)


F32 = Precision("F32", float32, uint32, 23, 127, (-105.0, 90.0))
F64 = Precision("F64", float64, uint64, 52, 1023, (-747.0, 711.0))
WIDE = Precision("WIDE", float64, uint64, 52, 1023, (-747.0, 711.0))


def precision(x: Val) -> Precision:
    """The native precision of ``x``; TypeError unless it is a float."""
    if x.dtype.kind != "f":
        raise TypeError(f"Mathematical functions take floats, not {x.dtype.name}.")
    return F64 if x.dtype.bits == 64 else F32


def poly(e: Emitter, x: Val, coefficients: Sequence[float]) -> Val:
    """sum c[i] x**i: Horner, with even and odd powers apart where that shortens the chain."""
    if len(coefficients) > 5:
        square = e.mul(x, x)
        return e.fma(horner(e, square, coefficients[1::2]), x, horner(e, square, coefficients[0::2]))
    return horner(e, x, coefficients)


def horner(e: Emitter, x: Val, coefficients: Sequence[float]) -> Val:
    """sum c[i] x**i, one multiply-add after the other."""
    total = e.const(x.dtype, coefficients[-1], x.lanes)
    for c in reversed(coefficients[:-1]):
        total = e.fma(total, x, c)
    return total


def power_of_two(e: Emitter, n: Val, P: Precision) -> Val:
    """2**n for an integral float n within the normal exponents."""
    at = e.bitcast(e.add(n, P.magic), P.bits)
    return e.bitcast(e.add(e.shl(at, P.mantissa), P.one), P.dtype)


def scale(e: Emitter, x: Val, n: Val, P: Precision) -> Val:
    """x * 2**n, rounded once, for a normal x near 1 and an integral float n within twice the exponents."""
    if _has_vector_instruction(e, x):
        return _by_parts(e, _scalef, x, n)              # the same rounding in one instruction
    half = e.sub(e.fma(n, 0.5, P.magic), P.magic)
    return e.mul(e.mul(x, power_of_two(e, half, P)), power_of_two(e, e.sub(n, half), P))


def scale_exactly(e: Emitter, x: Val, n: Val, P: Precision) -> Val:
    """x * 2**n where 2**n and the result are normal numbers."""
    return _by_parts(e, _scalef, x, n) if _has_vector_instruction(e, x) else e.mul(x, power_of_two(e, n, P))


def exponent_and_mantissa(e: Emitter, x: Val) -> tuple[Val, Val] | None:
    """floor(log2 x) and x / 2**that, in [1, 2), of finite x > 0 by the instructions that give them; None without them."""
    if not _has_vector_instruction(e, x):
        return None
    return _by_parts(e, _getexp, x), _by_parts(e, _getmant, x)


def _has_vector_instruction(e: Emitter, x: Val) -> bool:
    """AVX-512 has instructions for exponents; on other targets integer arithmetic gives the same bits."""
    return e.target.has("avx512f") and e.target.has("avx512vl") and x.lanes * x.dtype.bits in (128, 256, 512, 1024)


def _by_parts(e: Emitter, instruction: Any, *xs: Val) -> Val:
    """The instruction on vectors of at most one register."""
    lanes = xs[0].lanes
    if lanes * xs[0].dtype.bits <= 512:
        return instruction(e, *xs)
    halves = [instruction(e, *[e.shuffle(x, None, h) for x in xs]) for h in (range(lanes // 2), range(lanes // 2, lanes))]
    return e.shuffle(halves[0], halves[1], range(lanes))


def _masked(e: Emitter, name: str, x: Val, *operands: str) -> Val:
    """An AVX-512 intrinsic with all lanes live and the current rounding."""
    width = x.lanes * x.dtype.bits
    kind = "ps" if x.dtype.bits == 32 else "pd"
    rest = [x.typed, f"i{max(8, x.lanes)} -1", *(["i32 4"] if width == 512 else [])]
    call = f"@llvm.x86.avx512.mask.{name}.{kind}.{width}({', '.join([x.typed, *operands, *rest])})"
    return e._value(f"call {x.type} {call}", x.dtype, x.lanes)


def _scalef(e: Emitter, x: Val, n: Val) -> Val:
    return _masked(e, "scalef", x, n.typed)


def _getexp(e: Emitter, x: Val) -> Val:
    return _masked(e, "getexp", x)


def _getmant(e: Emitter, x: Val) -> Val:
    return _masked(e, "getmant", x, "i32 0")            # mantissas in [1, 2), with x's sign


def fast_two_sum(e: Emitter, a: Val, b: Val) -> tuple[Val, Val]:
    """(s, t) with s = round(a + b) and s + t = a + b, for |a| >= |b| or a = 0 (Dekker)."""
    s = e.add(a, b)
    return s, e.sub(b, e.sub(s, a))


def two_product(e: Emitter, a: Val, b: Val) -> tuple[Val, Val]:
    """(p, q) with p = round(a * b) and p + q = a * b, to a few units of q's last place without fma (Dekker)."""
    p = e.mul(a, b)
    if e.target.fma:
        return p, e.fma(a, b, e.neg(p))
    ah, bh = head(e, a), head(e, b)
    al, bl = e.sub(a, ah), e.sub(b, bh)
    q = e.add(e.add(e.add(e.sub(e.mul(ah, bh), p), e.mul(ah, bl)), e.mul(al, bh)), e.mul(al, bl))
    return p, q


def head(e: Emitter, x: Val) -> Val:
    """``x`` with the lower half of its mantissa cleared, so that products of heads are exact."""
    P = precision(x)
    cut = (P.mantissa + 2) // 2
    return e.bitcast(e.and_(e.bitcast(x, P.bits), 2 ** P.dtype.bits - 2 ** cut), P.dtype)


def odd(e: Emitter, x: Val, name: str, P: Precision) -> Val:
    """x + x**3 p(x*x)."""
    z = e.mul(x, x)
    return e.fma(e.mul(x, z), poly(e, z, P.poly(name)), x)


def widened(e: Emitter, core: Any, *xs: Val) -> Val:
    """``core(e, *xs, precision)`` in float64: as it is, or for float32 operands with fewer terms and one last rounding."""
    if xs[0].dtype.bits == 64:
        return core(e, *xs, F64)
    return e.cast(core(e, *[e.cast(x, float64) for x in xs], WIDE), float32)
