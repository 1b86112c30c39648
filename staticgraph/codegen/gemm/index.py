"""Index arithmetic, addresses and loops of GEMM kernels: ints fold, everything else is emitted as text.

The loops carry pointers and accumulators as phis of their own, and every address of an unrolled body is a constant away from one
pointer of the loop, which is what instruction selection folds into the memory operands without any middle-end pass.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Union

from ...dtypes import DType, bool_, int64
from ..values import Val, suffix

Index = Union[int, Val]
POINTER = DType("pointer", "ptr", "p", 64, "ptr", 0)


class Builder:
    """Writes into an emitter ``e``: what GEMM kernels need beside its vocabulary."""

    def __init__(self, e: Any) -> None:
        self.e = e
        self.lo, self.hi = Val("%lo", int64, 1), Val("%hi", int64, 1)

    # ---- index arithmetic ----------------------------------------------------------------------------------------------------

    def _op(self, fold: Callable[[int, int], int], op: str, a: Index, b: Index) -> Index:
        if not isinstance(a, Val) and not isinstance(b, Val):
            return fold(a, b)
        x, y = (v.text if isinstance(v, Val) else str(v) for v in (a, b))
        return self.value(f"{op} i64 {x}, {y}", int64)

    def value(self, text: str, dtype: DType, lanes: int = 1) -> Val:
        """Append ``%new = text``."""
        result: Val = self.e._value(text, dtype, lanes)
        return result

    def add(self, a: Index, b: Index) -> Index:
        """a + b"""
        if not isinstance(b, Val) and b == 0:
            return a
        if not isinstance(a, Val) and a == 0:
            return b
        return self._op(lambda x, y: x + y, "add", a, b)

    def sub(self, a: Index, b: Index) -> Index:
        """a - b"""
        return a if not isinstance(b, Val) and b == 0 else self._op(lambda x, y: x - y, "sub", a, b)

    def mul(self, a: Index, b: Index) -> Index:
        """a * b"""
        for x, y in ((a, b), (b, a)):
            if not isinstance(x, Val) and x in (0, 1):
                return 0 if x == 0 else y
        return self._op(lambda x, y: x * y, "mul", a, b)

    def div(self, a: Index, b: Index) -> Index:
        """a // b of non-negative indices"""
        return a if not isinstance(b, Val) and b == 1 else self._op(lambda x, y: x // y, "udiv", a, b)

    def mod(self, a: Index, b: Index) -> Index:
        """a % b of non-negative indices"""
        return 0 if not isinstance(b, Val) and b == 1 else self._op(lambda x, y: x % y, "urem", a, b)

    def _extreme(self, which: str, fold: Callable[[int, int], int], a: Index, b: Index) -> Index:
        if not isinstance(a, Val) and not isinstance(b, Val):
            return fold(a, b)
        x, y = (v.text if isinstance(v, Val) else str(v) for v in (a, b))
        return self.value(f"call i64 @llvm.{which}.i64(i64 {x}, i64 {y})", int64)

    def min(self, a: Index, b: Index) -> Index:
        """The smaller one."""
        return self._extreme("smin", min, a, b)

    def max(self, a: Index, b: Index) -> Index:
        """The larger one."""
        return self._extreme("smax", max, a, b)

    def less(self, a: Index, b: Index) -> bool | Val:
        """a < b"""
        if not isinstance(a, Val) and not isinstance(b, Val):
            return a < b
        x, y = (v.text if isinstance(v, Val) else str(v) for v in (a, b))
        return self.value(f"icmp slt i64 {x}, {y}", bool_)

    # ---- addresses -----------------------------------------------------------------------------------------------------------

    def at(self, pointer: Val, index: Index, dtype: DType) -> Val:
        """The address ``index`` elements after ``pointer``."""
        if not isinstance(index, Val):
            if index == 0:
                return pointer
            return self.value(f"getelementptr {dtype.llvm}, ptr {pointer.text}, i64 {index}", POINTER)
        return self.value(f"getelementptr {dtype.llvm}, ptr {pointer.text}, i64 {index.text}", POINTER)

    def load(self, pointer: Val, dtype: DType, lanes: int = 1, mask: Val | None = None) -> Val:
        """Elements at ``pointer``, aligned to the dtype only; dead lanes read as 0."""
        one = Val("", dtype, lanes)
        if mask is None:
            return self.value(f"load {one.type}, ptr {pointer.text}, align {dtype.size}", dtype, lanes)
        name = f"@llvm.masked.load.{suffix(dtype, lanes)}.p0"
        return self.value(f"call {one.type} {name}(ptr {pointer.text}, i32 {dtype.size}, {mask.typed}, "
                          f"{one.type} zeroinitializer)", dtype, lanes)

    def store(self, pointer: Val, x: Val, mask: Val | None = None) -> None:
        """Store ``x`` at ``pointer``, aligned to the dtype only."""
        if mask is None:
            self.e._line(f"store {x.typed}, ptr {pointer.text}, align {x.dtype.size}")
            return
        name = f"@llvm.masked.store.{suffix(x.dtype, x.lanes)}.p0"
        self.e._line(f"call void {name}({x.typed}, ptr {pointer.text}, i32 {x.dtype.size}, {mask.typed})")

    def zero(self, dtype: DType, lanes: int) -> Val:
        """Zeros."""
        return Val("zeroinitializer" if lanes > 1 else ("0" if dtype.kind != "f" else "0.0"), dtype, lanes)

    def prefetch(self, pointer: Val, write: bool = False) -> None:
        """Ask for a cache line that will be needed soon."""
        self.e._line(f"call void @llvm.prefetch.p0(ptr {pointer.text}, i32 {int(write)}, i32 3, i32 1)")

    def fma(self, x: Val, y: Val, z: Val) -> Val:
        """x * y + z: fused for floats where the target can, else product and sum."""
        kind = z.type
        if z.dtype.kind == "f":
            if self.e.target.fma:
                return self.value(f"call {kind} @llvm.fma.{suffix(z.dtype, z.lanes)}({x.typed}, {y.typed}, {z.typed})", z.dtype, z.lanes)
            product = self.value(f"fmul {kind} {x.text}, {y.text}", z.dtype, z.lanes)
            return self.value(f"fadd {kind} {product.text}, {z.text}", z.dtype, z.lanes)
        product = self.value(f"mul {kind} {x.text}, {y.text}", z.dtype, z.lanes)
        return self.value(f"add {kind} {product.text}, {z.text}", z.dtype, z.lanes)

    # ---- control -------------------------------------------------------------------------------------------------------------

    def loop(self, lo: Index, hi: Index, step: int, carried: Sequence[Val],
             body: Callable[[Index, list[Val]], Sequence[Val]]) -> list[Val]:
        """``for i in range(lo, hi, step)`` with any values carried; a constant range of one step is written without a loop."""
        e = self.e
        known = not isinstance(lo, Val) and not isinstance(hi, Val)
        if known and lo >= hi:                                                     # type: ignore[operator]
            return list(carried)
        if known and lo + step >= hi:                                              # type: ignore[operator]
            return list(body(lo, list(carried)))
        before, head, done = e._label, e._new_label(), e._new_label()
        if known:
            e._line(f"br label %{head}")
        else:
            enter = self.less(lo, hi)
            assert isinstance(enter, Val)
            e._line(f"br i1 {enter.text}, label %{head}, label %{done}")
        e._start(head)
        hole = len(e._lines)
        i = Val(e._name(), int64, 1)
        phis = [Val(e._name(), c.dtype, c.lanes) for c in carried]
        e._lines.extend([""] * (1 + len(phis)))
        after = list(body(i, phis))
        following = e._name()
        e._line(f"{following} = add i64 {i.text}, {step}")
        bound = hi.text if isinstance(hi, Val) else str(hi)
        more = e._name()
        e._line(f"{more} = icmp slt i64 {following}, {bound}")
        back = e._label
        e._line(f"br i1 {more}, label %{head}, label %{done}")
        start = lo.text if isinstance(lo, Val) else str(lo)
        e._lines[hole] = f"{i.text} = phi i64 [ {start}, %{before} ], [ {following}, %{back} ]"
        for at, (phi, first, last) in enumerate(zip(phis, carried, after)):
            e._lines[hole + 1 + at] = f"{phi.text} = phi {phi.type} [ {first.text}, %{before} ], [ {last.text}, %{back} ]"
        e._start(done)
        if known:
            return after
        out = []
        for first, last in zip(carried, after):
            out.append(self.value(f"phi {last.type} [ {first.text}, %{before} ], [ {last.text}, %{back} ]", last.dtype, last.lanes))
        return out

    def branch(self, c: bool | Val, then: Callable[[], Sequence[Val]],
               orelse: Callable[[], Sequence[Val]] = list) -> list[Val]:
        """The values of one of two arms."""
        e = self.e
        if not isinstance(c, Val):
            return list(then() if c else orelse())
        yes, no, done = e._new_label(), e._new_label(), e._new_label()
        e._line(f"br i1 {c.text}, label %{yes}, label %{no}")
        e._start(yes)
        one = list(then())
        from_yes = e._label
        e._line(f"br label %{done}")
        e._start(no)
        two = list(orelse())
        from_no = e._label
        e._line(f"br label %{done}")
        e._start(done)
        return [self.value(f"phi {a.type} [ {a.text}, %{from_yes} ], [ {b.text}, %{from_no} ]", a.dtype, a.lanes)
                for a, b in zip(one, two)]

    def when(self, c: bool | Val, then: Callable[[], None]) -> None:
        """Do something only where ``c`` holds."""
        def run() -> Sequence[Val]:
            then()
            return []
        self.branch(c, run)
