"""Arithmetic, comparison, selection, bits, rounding and casts of the emitter, by dtype."""

from __future__ import annotations

from ..dtypes import DType, bool_, float16, float32, float64, int8, int16, int32, int64, uint32, uint64
from .core import Operand
from .flow import Flow
from .values import Val, register_type

_SIGNED = {8: int8, 16: int16, 32: int32, 64: int64}
_FLOAT_CMP = {"lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge", "eq": "oeq", "ne": "une"}
_FLOAT_BITS = {32: (8, 23), 64: (11, 52)}                      # exponent bits, mantissa bits
_FOLD = {"add": "add", "mul": "mul", "min": "minimum", "max": "maximum", "fmin": "fmin", "fmax": "fmax",
         "and": "and_", "or": "or_", "xor": "xor"}


class Arithmetic(Flow):
    """Elementwise operations. Operands may be Python numbers (they adopt the other's dtype) and scalars (they are spread)."""

    def _op(self, op: str, x: Val, y: Val) -> Val:
        return self._value(f"{op} {x.type} {x.text}, {y.text}", x.dtype, x.lanes)

    def _binary(self, integer: str, x: Operand, y: Operand) -> Val:
        a, b = self._same(x, y)
        if a.dtype.kind == "b":
            raise TypeError(f"{integer} is not defined for bool.")
        result = self._op("f" + integer if a.dtype.kind == "f" else integer, a, b)
        return result

    def add(self, x: Operand, y: Operand) -> Val:
        """x + y; integers wrap."""
        result = self._binary("add", x, y)
        if result.dtype is int64 and result.lanes == 1 and isinstance(x, Val):
            offset = self._constant_of(y)
            if offset is not None:
                base, before = self._affine.get(x.text, (x, 0))
                self._affine[result.text] = base, before + int(offset)
        return result

    def sub(self, x: Operand, y: Operand) -> Val:
        """x - y; integers wrap."""
        return self._binary("sub", x, y)

    def mul(self, x: Operand, y: Operand) -> Val:
        """x * y; integers wrap."""
        return self._binary("mul", x, y)

    def div(self, x: Operand, y: Operand) -> Val:
        """x / y of floats, IEEE."""
        a, b = self._same(x, y)
        if a.dtype.kind != "f":
            raise TypeError(f"div takes floats, not {a.dtype.name}; see idiv and floordiv.")
        return self._op("fdiv", a, b)

    def neg(self, x: Val) -> Val:
        """-x; integers wrap, floats flip the sign bit."""
        if x.dtype.kind == "f":
            return self._value(f"fneg {x.typed}", x.dtype, x.lanes)
        return self.sub(self.const(x.dtype, 0, x.lanes), x)

    def abs(self, x: Val) -> Val:
        """|x|; the most negative integer stays itself."""
        if x.dtype.kind == "f":
            return self._intrinsic("fabs", x)
        return x if x.dtype.kind == "u" else self.select(self.cmp("lt", x, 0), self.neg(x), x)

    def fma(self, x: Operand, y: Operand, z: Operand) -> Val:
        """x * y + z: rounded once where the target has the instruction, else twice; integers wrap."""
        a, b, c = self._same(x, y, z)
        if a.dtype.kind == "f" and self.target.fma:
            return self._intrinsic("fma", a, b, c)
        return self.add(self.mul(a, b), c)

    def sqrt(self, x: Val) -> Val:
        """Square root, correctly rounded; NaN below zero."""
        return self._intrinsic("sqrt", x)

    def copysign(self, x: Operand, y: Operand) -> Val:
        """|x| with y's sign bit."""
        return self._intrinsic("copysign", *self._same(x, y))

    # ---- comparison and choice ---------------------------------------------------------------------------------------------

    def cmp(self, how: str, x: Operand, y: Operand) -> Val:
        """``how``: lt le gt ge eq ne. False where a float is NaN, except ne."""
        a, b = self._same(x, y)
        if a.dtype.kind == "f":
            return self._value(f"fcmp {_FLOAT_CMP[how]} {a.type} {a.text}, {b.text}", bool_, a.lanes)
        sign = "" if how in ("eq", "ne") else "s" if a.dtype.kind == "i" else "u"
        return self._value(f"icmp {sign}{how} {a.type} {a.text}, {b.text}", bool_, a.lanes)

    def isnan(self, x: Val) -> Val:
        """True for NaN; false for integers and bools."""
        if x.dtype.kind != "f":
            return self.const(bool_, False, x.lanes)
        return self._value(f"fcmp uno {x.type} {x.text}, {x.text}", bool_, x.lanes)

    def select(self, c: Val, x: Operand, y: Operand) -> Val:
        """x where ``c``, else y. ``c`` may be a scalar for vectors."""
        a, b = self._same(x, y)
        if c.lanes > a.lanes:
            a, b = self.splat(a, c.lanes), self.splat(b, c.lanes)
        return self._value(f"select {c.typed}, {a.typed}, {b.typed}", a.dtype, a.lanes)

    def minimum(self, x: Operand, y: Operand) -> Val:
        """The smaller; NaN if either is; -0.0 counts as smaller than +0.0."""
        return self._extremum("minimum", "lt", x, y)

    def maximum(self, x: Operand, y: Operand) -> Val:
        """The larger; NaN if either is; -0.0 counts as smaller than +0.0."""
        return self._extremum("maximum", "gt", x, y)

    def _extremum(self, name: str, better: str, x: Operand, y: Operand) -> Val:
        a, b = self._same(x, y)
        if a.dtype.kind == "b":
            return self.or_(a, b) if name == "maximum" else self.and_(a, b)
        if a.dtype.kind != "f":
            return self._intrinsic(("s" if a.dtype.kind == "i" else "u") + name[:3], a, b)
        for number, other in ((self._constant_of(a), b), (self._constant_of(b), a)):
            if number is not None and number == number and number != 0:      # no tie of zeros and one NaN: compare and select
                limit = self._as(float(number), other.dtype, other.lanes)
                return self.select(self.cmp(better, limit, other), limit, other)
        return self._intrinsic(name, a, b)

    def fmin(self, x: Operand, y: Operand) -> Val:
        """The smaller; a NaN is ignored if the other is a number."""
        return self._ignoring_nan(self.minimum, x, y)

    def fmax(self, x: Operand, y: Operand) -> Val:
        """The larger; a NaN is ignored if the other is a number."""
        return self._ignoring_nan(self.maximum, x, y)

    def _ignoring_nan(self, pick: object, x: Operand, y: Operand) -> Val:
        a, b = self._same(x, y)
        if a.dtype.kind != "f":
            return pick(a, b)                                              # type: ignore[operator,no-any-return]
        return self.select(self.isnan(a), b, self.select(self.isnan(b), a, pick(a, b)))       # type: ignore[operator]

    # ---- bits --------------------------------------------------------------------------------------------------------------

    def and_(self, x: Operand, y: Operand) -> Val:
        """Bitwise and, of integers or bools."""
        return self._op("and", *self._same(x, y))

    def or_(self, x: Operand, y: Operand) -> Val:
        """Bitwise or, of integers or bools."""
        return self._op("or", *self._same(x, y))

    def xor(self, x: Operand, y: Operand) -> Val:
        """Bitwise exclusive or, of integers or bools."""
        return self._op("xor", *self._same(x, y))

    def not_(self, x: Val) -> Val:
        """Every bit flipped."""
        return self._op("xor", x, self.const(x.dtype, True if x.dtype.kind == "b" else -1 if x.dtype.kind == "i"
                                             else 2 ** x.dtype.bits - 1, x.lanes))

    def shl(self, x: Operand, y: Operand) -> Val:
        """x << y; 0 where y is negative or at least the width."""
        return self._shift("shl", x, y)

    def shr(self, x: Operand, y: Operand) -> Val:
        """x >> y, filling with the sign (0 for unsigned); all sign where y is negative or at least the width."""
        return self._shift("shr", x, y)

    def _shift(self, how: str, x: Operand, y: Operand) -> Val:
        count = self._constant_of(y)
        if count is not None and isinstance(x, Val):
            a, b = x, None
        else:
            a, b = self._same(x, y)
        bits, zero = a.dtype.bits, self.const(a.dtype, 0, a.lanes)
        op = "shl" if how == "shl" else "ashr" if a.dtype.kind == "i" else "lshr"
        if b is None:
            if not 0 <= count < bits:
                if op != "ashr":
                    return zero
                count = bits - 1
            return self._op(op, a, self.const(a.dtype, int(count), a.lanes))
        inside = self._value(f"icmp ult {b.type} {b.text}, {self.const(a.dtype, bits, a.lanes).text}", bool_, a.lanes)
        if op == "ashr":
            return self._op(op, a, self.select(inside, b, bits - 1))
        return self.select(inside, self._op(op, a, self.select(inside, b, 0)), zero)

    def bitcast(self, x: Val, dtype: DType) -> Val:
        """The same bits as another dtype of the same width."""
        if x.type == register_type(dtype, x.lanes):
            return Val(x.text, dtype, x.lanes)
        return self._value(f"bitcast {x.typed} to {register_type(dtype, x.lanes)}", dtype, x.lanes)

    def bits_of(self, x: Val) -> Val:
        """A float's bits as the signed integer of its width."""
        return self.bitcast(x, _SIGNED[x.dtype.bits])

    # ---- whole vectors -----------------------------------------------------------------------------------------------------

    def any(self, c: Val) -> Val:
        """Whether some lane is true, as a bool scalar."""
        return c if c.lanes == 1 else self._value(f"call i1 @llvm.vector.reduce.or.v{c.lanes}i1({c.typed})", bool_, 1)

    def all(self, c: Val) -> Val:
        """Whether every lane is true, as a bool scalar."""
        return c if c.lanes == 1 else self._value(f"call i1 @llvm.vector.reduce.and.v{c.lanes}i1({c.typed})", bool_, 1)

    def reduce(self, how: str, x: Val) -> Val:
        """Fold the lanes by the fixed halving tree x[0:W/2] op x[W/2:W]. ``how``: add mul min max fmin fmax and or xor."""
        op = getattr(self, _FOLD[how])
        while x.lanes > 1:
            half, odd = divmod(x.lanes, 2)
            if odd:
                raise TypeError(f"reduce takes a power of two of lanes, not {x.lanes}.")
            x = op(self.shuffle(x, None, range(half)), self.shuffle(x, None, range(half, 2 * half)))
        return x

    # ---- rounding to integers ----------------------------------------------------------------------------------------------

    def rint(self, x: Val) -> Val:
        """The nearest integer, ties to even; the sign of zero is kept."""
        if x.dtype.kind != "f":
            return x
        return self._intrinsic("roundeven", x) if self.target.rounds else self._rint_by_addition(x)

    def _rint_by_addition(self, x: Val) -> Val:
        # adding 2**mantissa bits leaves no room for a fraction: the addition rounds to an integer, ties to even
        big = float(2 ** _FLOAT_BITS[x.dtype.bits][1])
        shift = self.copysign(big, x)
        near = self.copysign(self.sub(self.add(x, shift), shift), x)
        return self.select(self.cmp("lt", self.abs(x), big), near, x)

    def floor(self, x: Val) -> Val:
        """The largest integer not above x."""
        return self._directed("floor", "gt", "sub", x)

    def ceil(self, x: Val) -> Val:
        """The smallest integer not below x."""
        return self._directed("ceil", "lt", "add", x)

    def _directed(self, name: str, beyond: str, step: str, x: Val) -> Val:
        if x.dtype.kind != "f":
            return x
        if self.target.rounds:
            return self._intrinsic(name, x)
        near = self._rint_by_addition(x)
        one = self.select(self.cmp(beyond, near, x), self.const(x.dtype, 1, x.lanes), self.const(x.dtype, 0, x.lanes))
        return self.copysign(getattr(self, step)(near, one), x)

    def trunc(self, x: Val) -> Val:
        """x without its fraction."""
        if x.dtype.kind != "f":
            return x
        return self._intrinsic("trunc", x) if self.target.rounds else self.copysign(self.floor(self.abs(x)), x)

    # ---- casts -------------------------------------------------------------------------------------------------------------

    def cast(self, x: Val, dtype: DType) -> Val:
        """Float to integer truncates, saturates and takes NaN as 0; integer to integer wraps; to bool is != 0.

        float16 is float32 in registers: a cast to it rounds to float16's values and gives a float32 handle.
        """
        have = x.dtype
        if dtype is float16:
            return self._round_half(x)
        if have.name == dtype.name:
            return x
        if dtype.kind == "b":
            return self.cmp("ne", x, 0)
        if dtype.kind == "f":
            if have.kind == "f":
                op = "fptrunc" if have.bits > dtype.bits else "fpext"
            else:
                op = "sitofp" if have.kind == "i" else "uitofp"
            return self._convert(op, x, dtype)
        if have.kind == "f":
            return self._float_to_int(x, dtype)
        wide = 1 if have.kind == "b" else have.bits
        if wide == dtype.bits:
            return Val(x.text, dtype, x.lanes)
        return self._convert("trunc" if wide > dtype.bits else "sext" if have.kind == "i" else "zext", x, dtype)

    def _convert(self, op: str, x: Val, dtype: DType) -> Val:
        if x.literal:
            known = self._known.get((x.text, x.dtype.name))
            if known is not None and op in ("sitofp", "uitofp", "fptrunc", "fpext") and not isinstance(known, (list, tuple)):
                return self.const(dtype, known, x.lanes)
        return self._value(f"{op} {x.typed} to {register_type(dtype, x.lanes)}", dtype, x.lanes)

    def _float_to_int(self, x: Val, dtype: DType) -> Val:
        # both limits are powers of two (or 0), exact in every float; the conversion sees only values inside them
        low, high = (0, 2 ** dtype.bits) if dtype.kind == "u" else (-2 ** (dtype.bits - 1), 2 ** (dtype.bits - 1))
        above, below = self.cmp("ge", x, float(high)), self.cmp("lt", x, float(low))
        inside = self.and_(self.cmp("ge", x, float(low)), self.cmp("lt", x, float(high)))
        safe = self.select(inside, x, 0.0)
        if dtype.bits < 32:
            whole = self.cast(self._convert("fptosi", safe, int32), dtype)
        else:
            whole = self._convert("fptoui" if dtype.kind == "u" else "fptosi", safe, dtype)
        return self.select(above, self.const(dtype, high - 1, x.lanes), self.select(below, self.const(dtype, low, x.lanes), whole))

    # ---- float16 in memory ---------------------------------------------------------------------------------------------------

    def _round_half(self, x: Val) -> Val:
        return self._from_half(self._to_half(x))

    def _to_half(self, x: Val) -> Val:
        """float16 bits (as an i16 value typed int16) of ``x``, rounded once from whatever dtype x has."""
        if x.dtype is float64:
            x = self._round_to_odd(x)
        elif x.dtype.kind != "f":
            x = self._round_to_odd(self.cast(x, float64)) if x.dtype.bits >= 32 else self.cast(x, float32)
        if self.target.half:
            one = "half" if x.lanes == 1 else f"<{x.lanes} x half>"
            cut = self._value(f"fptrunc {x.typed} to {one}", float16, x.lanes)
            return self._value(f"bitcast {one} {cut.text} to {register_type(int16, x.lanes)}", int16, x.lanes)
        bits = self.bitcast(x, uint32)
        sign = self.and_(self.shr(bits, 16), 0x8000)
        size = self.and_(bits, 0x7FFFFFFF)
        # normal results: round the mantissa at bit 13 to even; a carry moves on into the exponent as it should
        normal = self.shr(self.add(self.sub(size, 0x38000000), self.add(self.and_(self.shr(size, 13), 1), 0xFFF)), 13)
        # subnormal results are multiples of 2**-24: adding 0.5 puts that unit at the last bit of a float32
        small = self.sub(self.bitcast(self.add(self.bitcast(size, float32), 0.5), uint32), 0x3F000000)
        out = self.select(self.cmp("lt", size, 0x38800000), small, normal)
        out = self.select(self.cmp("ge", size, 0x477FF000), self.const(uint32, 0x7C00, x.lanes), out)
        nan = self.or_(self.and_(self.shr(size, 13), 0x3FF), 0x7E00)
        out = self.select(self.cmp("gt", size, 0x7F800000), nan, out)
        return Val(self.cast(self.or_(out, sign), int16).text, int16, x.lanes)

    def _round_to_odd(self, x: Val) -> Val:
        """float64 to float32 by rounding to odd, after which a second rounding to a much narrower type is as if it were the only one."""
        near = self.cast(x, float32)
        back = self.cast(near, float64)
        bits = self.bitcast(near, uint32)
        over = self.cmp("gt", self.abs(back), self.abs(x))
        cut = self.select(over, self.sub(bits, 1), bits)                    # toward zero
        inexact = self.and_(self.cmp("ne", back, x), self.not_(self.isnan(x)))
        odd = self.select(inexact, self.or_(cut, 1), bits)
        return self.bitcast(odd, float32)

    def _from_half(self, x: Val) -> Val:
        """float32 values of float16 bits held as int16."""
        if self.target.half:
            one = "half" if x.lanes == 1 else f"<{x.lanes} x half>"
            bits = self._value(f"bitcast {x.typed} to {one}", float16, x.lanes)
            return self._value(f"fpext {one} {bits.text} to {register_type(float32, x.lanes)}", float32, x.lanes)
        wide = self.cast(x, uint32)
        sign = self.shl(self.and_(wide, 0x8000), 16)
        size = self.shl(self.and_(wide, 0x7FFF), 13)
        # scaling by 2**112 moves the exponent's bias and makes subnormals right at the same time
        scaled = self.bitcast(self.mul(self.bitcast(size, float32), 2.0 ** 112), uint32)
        special = self.or_(size, 0x7F800000)
        out = self.select(self.cmp("ge", size, 0x0F800000), special, scaled)
        return self.bitcast(self.or_(out, sign), float32)


def unsigned(dtype: DType) -> DType:
    """The unsigned integer of a dtype's width."""
    return {32: uint32, 64: uint64}[dtype.bits]
