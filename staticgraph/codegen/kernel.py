"""What every kernel generator shares: operands, sizes as constants or run-time values, index arithmetic, guards.

A generator asks for operands (buffers, sizes, scalar constants); the kernel's text reads them from ``%a`` by position, so equal
computations on other buffers, sizes or constants give equal text.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Union

import numpy as np

from ..dtypes import DType, int64
from ..ir.aval import Dim, Size
from .emitter import Emitter
from .target import Target
from .values import Val

Index = Union[int, Val]


@dataclass(frozen=True)
class BufferAt:
    """Operand: the address of element ``offset`` of a value's buffer."""

    value: Any
    offset: Size = 0


@dataclass(frozen=True)
class SizeOf:
    """Operand: a size, known to the run."""

    size: Size


@dataclass(frozen=True)
class Imm:
    """Operand: the bits of a scalar constant."""

    bits: int


@dataclass(frozen=True)
class CheckId:
    """Operand: the number of a guard in the executable's table (``node`` and the item's shape tell what failed)."""

    node: Any


Operand = Union[BufferAt, SizeOf, Imm, CheckId]


@dataclass
class Kernel:
    """One kernel: its text, its operands in order and its number of tasks. ``work`` is a rough cost (elements times
    operations) that decides whether its tasks are worth sharing between threads."""

    text: str
    operands: list[Operand]
    tasks: Size
    work: Size
    reads: list[Any] = field(default_factory=list)       # values read
    writes: list[Any] = field(default_factory=list)      # values written
    title: str = ""
    scratch: list[Any] = field(default_factory=list)     # values that live during this kernel only
    items: list[Any] = field(default_factory=list)
    guarded: bool = False


class KernelEmitter(Emitter):
    """An emitter with operands by request. All operands are read at the top of the function."""

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self.operands: list[Operand] = []
        self._places: dict[Any, int] = {}
        self._sizes: dict[Size, Val] = {}
        self.guarded = False
        self.mask_now: Val | None = None     # lanes that count, while a masked vector is computed

    def place(self, operand: Operand) -> int:
        """The position of an operand; equal operands share one."""
        key = operand if not isinstance(operand, BufferAt) else ("buf", id(operand.value), operand.offset)
        at = self._places.get(key)
        if at is None:
            at = self._places[key] = len(self.operands)
            self.operands.append(operand)
        return at

    def size(self, size: Size) -> Index:
        """A size: an int, or an i64 read from the operands."""
        if not isinstance(size, Dim):
            return size
        return self.arg(self.place(SizeOf(size)))

    def pointer(self, value: Any, offset: Size = 0) -> str:
        """The address of a value's element ``offset``."""
        return self.arg_ptr(self.place(BufferAt(value, offset)))

    def scalar(self, value: Any, dtype: DType) -> Val:
        """A constant as an operand, so that the text does not hold it."""
        raw = np.asarray(value).astype(dtype.np).tobytes()
        return self.arg_scalar(self.place(Imm(int.from_bytes(raw[:8], "little"))), dtype)

    # ---- index arithmetic: ints fold -----------------------------------------------------------------------------------------

    def _index_op(self, fold: Callable[[int, int], int], op: str, a: Index, b: Index) -> Index:
        if not isinstance(a, Val) and not isinstance(b, Val):
            return fold(a, b)
        return self._value(f"{op} i64 {self.index(a).text}, {self.index(b).text}", int64, 1)

    def index(self, a: Index) -> Val:
        """An index as an i64 value."""
        return a if isinstance(a, Val) else self.const(int64, a)

    def iadd(self, a: Index, b: Index) -> Index:
        """a + b on indices."""
        if not isinstance(b, Val) and b == 0:
            return a
        if not isinstance(a, Val) and a == 0:
            return b
        if isinstance(a, Val) or isinstance(b, Val):
            return self.add(a, b)
        return a + b

    def isub(self, a: Index, b: Index) -> Index:
        """a - b on indices."""
        return a if not isinstance(b, Val) and b == 0 else self._index_op(lambda x, y: x - y, "sub", a, b)

    def imul(self, a: Index, b: Index) -> Index:
        """a * b on indices."""
        for x, y in ((a, b), (b, a)):
            if not isinstance(x, Val):
                if x == 0:
                    return 0
                if x == 1:
                    return y
        return self._index_op(lambda x, y: x * y, "mul", a, b)

    def idivide(self, a: Index, b: Index) -> Index:
        """a / b on non-negative indices."""
        return a if not isinstance(b, Val) and b == 1 else self._index_op(lambda x, y: x // y, "udiv", a, b)

    def imod(self, a: Index, b: Index) -> Index:
        """a % b on non-negative indices."""
        return 0 if not isinstance(b, Val) and b == 1 else self._index_op(lambda x, y: x % y, "urem", a, b)

    def imin(self, a: Index, b: Index) -> Index:
        """The smaller index."""
        if not isinstance(a, Val) and not isinstance(b, Val):
            return min(a, b)
        return self._value(f"call i64 @llvm.smin.i64(i64 {self.index(a).text}, i64 {self.index(b).text})", int64, 1)

    def split(self, index: Index, sizes: list[Index]) -> list[Index]:
        """The row-major coordinates of a linear index."""
        out: list[Index] = []
        for s in reversed(sizes[1:]):
            out.append(self.imod(index, s))
            index = self.idivide(index, s)
        return [*([index] if sizes else []), *reversed(out)]

    def dot(self, coordinates: list[Index], strides: list[Index]) -> Index:
        """sum(coordinate * stride)"""
        total: Index = 0
        for c, s in zip(coordinates, strides):
            total = self.iadd(total, self.imul(c, s))
        return total

    # ---- dead lanes ----------------------------------------------------------------------------------------------------------------

    def idiv(self, x: Any, y: Any) -> Val:
        """Truncating quotient; lanes that do not count divide by 1 (a masked load gave them 0, which would trap)."""
        return super().idiv(x, self._live(y))

    def irem(self, x: Any, y: Any) -> Val:
        """Remainder of ``idiv``."""
        return super().irem(x, self._live(y))

    def _live(self, y: Any) -> Any:
        if self.mask_now is None or not isinstance(y, Val) or y.lanes == 1 or y.lanes != self.mask_now.lanes:
            return y
        return self.select(self.mask_now, y, self.const(y.dtype, 1, y.lanes))

    # ---- guards ----------------------------------------------------------------------------------------------------------------

    def report(self, node: Any, element: Index, a: Index, b: Index = 0) -> None:
        """Report a failed check of ``node``."""
        self.guarded = True
        self._text.externs.setdefault("sg_report", "declare void @sg_report(ptr, i64, i64, i64, i64)")
        check = self.arg(self.place(CheckId(node)))
        record, where = self._name(), self._name()
        self._line(f"{where} = getelementptr i8, ptr %run, i64 40")
        self._line(f"{record} = load ptr, ptr {where}")
        args = [self.index(v) for v in (element, a, b)]
        self._line(f"call void @sg_report(ptr {record}, {check.typed}, {', '.join(v.typed for v in args)})")

    def report_lanes(self, node: Any, bad: Val, element: Index, value: Val, bound: Index) -> None:
        """Report the first lane where ``bad`` holds; ``element`` is lane 0's number."""
        def found() -> list[Val]:
            lane: Index = 0
            if bad.lanes > 1:
                bits, wide = self._name(), self._name()
                self._line(f"{bits} = bitcast {bad.typed} to i{bad.lanes}")
                self._line(f"{wide} = zext i{bad.lanes} {bits} to i64")
                lane = self._value(f"call i64 @llvm.cttz.i64(i64 {wide}, i1 false)", int64, 1)
            picked = self.lane(value, lane)
            if picked.dtype.kind in "iub":
                shown = self.cast(picked, int64) if picked.dtype != int64 else picked
            else:
                from ..dtypes import float64
                as64 = picked if picked.dtype == float64 else self.cast(picked, float64)
                shown = self.bitcast(as64, int64)
            self.report(node, self.iadd(element, lane), shown, bound)
            return []
        self.if_(self.any(bad), found)
