"""Integer division and exact remainders, without library calls."""

from __future__ import annotations

from ..dtypes import float32, float64, int32, int64
from .arith import Arithmetic
from .core import Operand
from .values import Val


class Division(Arithmetic):
    """Quotients and remainders: truncating, and Python's."""

    def idiv(self, x: Operand, y: Operand) -> Val:
        """The quotient toward zero; INT_MIN / -1 wraps. No lane of y may be 0: the caller sees to it."""
        a, b = self._same(x, y)
        if a.dtype.kind not in "iu":
            raise TypeError(f"idiv takes integers, not {a.dtype.name}.")
        signed, divisor = a.dtype.kind == "i", self._constant_of(b)
        if divisor is None and a.lanes > 1 and a.dtype.bits <= 32:
            # no processor divides integer vectors: a float quotient with twice the bits truncates to the exact one
            wide = float64 if a.dtype.bits == 32 else float32
            q = self.div(self.cast(a, wide), self.cast(b, wide))
            if a.dtype.bits == 32 and signed:
                # the one quotient that overflows, 2**31, is taken through 64 bits or by hand: it wraps to INT_MIN
                whole = self._convert("fptosi", self.select(self.cmp("lt", q, 2.0 ** 31), q, -(2.0 ** 31)), int32)
                return Val(whole.text, a.dtype, a.lanes)
            if a.dtype.bits == 32:
                return self._convert("fptoui", q, a.dtype)
            return self.cast(self._convert("fptosi", q, int32), a.dtype)
        if not signed:
            return self._op("udiv", a, b)
        if divisor is not None and divisor != -1:
            return self._op("sdiv", a, b)
        flip = self.cmp("eq", b, -1)
        return self.select(flip, self.neg(a), self._op("sdiv", a, self.select(flip, self.const(b.dtype, 1, b.lanes), b)))

    def irem(self, x: Operand, y: Operand) -> Val:
        """The remainder of ``idiv``, with x's sign."""
        a, b = self._same(x, y)
        return self.sub(a, self.mul(self.idiv(a, b), b))

    def floordiv(self, x: Operand, y: Operand) -> Val:
        """floor(x / y): Python's ``//`` for integers (y not 0: the caller sees to it), NumPy's floor_divide for floats."""
        a, b = self._same(x, y)
        return self._float_divmod(a, b)[0] if a.dtype.kind == "f" else self._int_divmod(a, b)[0]

    def floormod(self, x: Operand, y: Operand) -> Val:
        """x - floor(x / y) * y, with y's sign: Python's ``%`` for integers, NumPy's remainder for floats (exact)."""
        a, b = self._same(x, y)
        return self._float_divmod(a, b)[1] if a.dtype.kind == "f" else self._int_divmod(a, b)[1]

    def _int_divmod(self, a: Val, b: Val) -> tuple[Val, Val]:
        q = self.idiv(a, b)
        r = self.sub(a, self.mul(q, b))
        if a.dtype.kind == "u":
            return q, r
        wrong = self.and_(self.cmp("ne", r, 0), self.cmp("lt", self.xor(r, b), 0))
        return self.sub(q, self.cast(wrong, a.dtype)), self.select(wrong, self.add(r, b), r)

    def _float_divmod(self, a: Val, b: Val) -> tuple[Val, Val]:
        zero = self.const(a.dtype, 0.0, a.lanes)
        mod = self.fmod(a, b)
        div = self.div(self.sub(a, mod), b)
        some = self.cmp("ne", mod, zero)
        wrong = self.and_(some, self.xor(self.cmp("lt", b, zero), self.cmp("lt", mod, zero)))
        remainder = self.select(some, self.select(wrong, self.add(mod, b), mod), self.copysign(zero, b))
        div = self.select(wrong, self.sub(div, 1.0), div)
        whole = self.floor(div)
        whole = self.select(self.cmp("gt", self.sub(div, whole), 0.5), self.add(whole, 1.0), whole)
        ratio = self.div(a, b)
        quotient = self.select(self.cmp("ne", div, zero), whole, self.copysign(zero, ratio))
        by_zero = self.cmp("eq", b, zero)
        return self.select(by_zero, ratio, quotient), self.select(by_zero, mod, remainder)

    def fmod(self, x: Operand, y: Operand) -> Val:
        """The exact remainder of the quotient toward zero, with x's sign (C's fmod); NaN for y = 0 or infinite x."""
        a, b = self._same(x, y)
        if a.dtype.kind != "f":
            return self.irem(a, b)
        if a.dtype.bits < 64:
            wide = self._fmod64(self.cast(a, float64), self.cast(b, float64))
            return self.cast(wide, a.dtype)                                # a float32's remainder is a float32: exact
        return self._fmod64(a, b)

    def _fmod64(self, x: Val, y: Val) -> Val:
        """Long division with 26-bit digits.

        The digit n is the quotient with all but 26 bits cut off, so n * y splits into two exact products; r - n*y is a
        multiple of n's last place times y's and less than y times n's last place, hence a float64: each step is exact. A
        quotient rounded up across a digit makes r negative by less than y, which a last addition repairs, exactly too.
        """
        big = float("inf")
        whole, d = self.abs(x), self.abs(y)
        bad = self.or_(self.not_(self.cmp("lt", whole, big)), self.not_(self.cmp("gt", d, 0.0)))      # also NaN
        far = self.and_(self.cmp("eq", d, big), self.cmp("lt", whole, big))       # a finite x by infinity: x itself
        none = self.or_(bad, far)
        r = self.select(none, self.const(float64, 0.0, x.lanes), whole)
        d = self.select(none, self.const(float64, 1.0, x.lanes), d)

        def scaled(size: Val) -> Val:                                      # y times a power of two, so that no quotient overflows
            s = d
            for _ in range(2):
                more = self.mul(s, 2.0 ** 600)
                s = self.select(self.cmp("ge", size, more), more, s)
            return s

        def step(v: list[Val]) -> list[Val]:
            size = self.abs(v[0])
            s = scaled(size)
            q = self.div(size, s)
            whole_digit = self.trunc(q)                                    # 2**52 and above is whole already
            n = self._keep(whole_digit, 27)
            n = self.copysign(self.select(self.cmp("ge", size, d), n, 0.0), v[0])
            high = self._keep(s, 27)
            low = self.sub(s, high)
            return [self.sub(self.sub(v[0], self.mul(n, high)), self.mul(n, low))]

        # the first digit is in line; more are rare
        first = step([r])
        last = self.while_(first, lambda v: self.any(self.cmp("ge", self.abs(v[0]), d)), step)[0]
        last = self.select(self.cmp("lt", last, 0.0), self.add(last, d), last)
        last = self.select(self.cmp("lt", self.abs(last), d), last, 0.0)
        result = self.copysign(last, x)
        return self.select(far, x, self.select(bad, self.const(float64, float("nan"), x.lanes), result))

    def _keep(self, x: Val, cut: int) -> Val:
        """``x`` with its last ``cut`` bits cleared."""
        return self.bitcast(self.and_(self.bitcast(x, int64), -(2 ** cut)), float64)
