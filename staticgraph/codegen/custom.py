"""Kernels that ops write themselves (``lower=Loops(...)``): the builder ``k`` of ``docs/internals.md`` section 6."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..dtypes import DType, int64
from ..ir.aval import Aval, Size, product
from ..ir.opdef import Loops
from ..schedule.items import Item, Value
from .kernel import Index, Kernel, KernelEmitter
from .target import Target
from .values import Val


class Buf:
    """A contiguous, row-major buffer of a kernel."""

    def __init__(self, e: KernelEmitter, value: Value) -> None:
        self.e, self.value = e, value
        self.aval: Aval = value.aval
        self.dtype: DType = value.aval.dtype
        self.shape: tuple[Size, ...] = value.aval.shape
        self.ptr = e.pointer(value)

    def load(self, index: Index, lanes: int = 1, mask: Val | None = None) -> Val:
        """Element(s) at a flat index."""
        return self.e.load(self.ptr, self.dtype, index, lanes=lanes, mask=mask)

    def store(self, value: Val, index: Index, mask: Val | None = None) -> None:
        """Store at a flat index."""
        self.e.store(self.ptr, value, index, mask=mask, dtype=self.dtype)


class LoopKernel:
    """The tool ``k`` of hand-written kernels."""

    def __init__(self, target: Target, item: Item) -> None:
        self.e = KernelEmitter(target)
        self.item = item
        self.target = target
        self.lo, self.hi = self.e.lo, self.e.hi
        self.n_tasks: Size = 1
        self.scratch: list[Buf] = []

    # sizes and constants
    def size(self, size: Size) -> Index:
        """A size: an int, or an i64 read from the operands."""
        return self.e.size(size)

    def scalar(self, value: Any, dtype: DType) -> Val:
        """A constant as an operand."""
        return self.e.scalar(value, dtype)

    def lanes(self, dtype: DType) -> int:
        """The target's vector length."""
        return self.target.lanes(dtype)

    # indices
    def add(self, a: Index, b: Index) -> Index:
        """a + b"""
        return self.e.iadd(a, b)

    def sub(self, a: Index, b: Index) -> Index:
        """a - b"""
        return self.e.isub(a, b)

    def mul(self, a: Index, b: Index) -> Index:
        """a * b"""
        return self.e.imul(a, b)

    def div(self, a: Index, b: Index) -> Index:
        """a / b, unsigned"""
        return self.e.idivide(a, b)

    def mod(self, a: Index, b: Index) -> Index:
        """a % b, unsigned"""
        return self.e.imod(a, b)

    def min(self, a: Index, b: Index) -> Index:
        """The smaller of two indices."""
        return self.e.imin(a, b)

    def index(self, a: Index) -> Val:
        """An index as an i64 value."""
        return self.e.index(a)

    def tasks(self, body: Callable[[Val], Any]) -> None:
        """``body(t)`` for each task of this call."""
        self.e.loop(self.lo, self.hi, 1, [], lambda t, _: (body(t), [])[1])

    def range(self, count: Index, body: Callable[[Val], Any]) -> None:
        """``body(i)`` for i < count."""
        self.e.loop(0, count, 1, [], lambda i, _: (body(i), [])[1])

    def report(self, element: Index, a: Index, b: Index = 0) -> None:
        """Report a failed check of this op."""
        self.e.report(self.item.node, element, a, b)

    # ---- shared loop nests --------------------------------------------------------------------------------------------------

    def copy(self, out: Buf, at: Index, source: Buf, start: Index, count: Index) -> None:
        """Copy ``count`` contiguous elements."""
        w = self.lanes(out.dtype)
        e = self.e
        main = self.mul(self.div(count, w), w)
        e.loop(0, main, w, [], lambda i, _: (out.store(source.load(self.add(start, i), w), self.add(at, i)), [])[1])
        e.loop(main, count, 1, [], lambda i, _: (out.store(source.load(self.add(start, i)), self.add(at, i)), [])[1])

    def fill(self, out: Buf, at: Index, value: Val, count: Index) -> None:
        """Set ``count`` contiguous elements to a scalar."""
        w = self.lanes(out.dtype)
        e = self.e
        main = self.mul(self.div(count, w), w)
        wide = e.splat(value, w)
        e.loop(0, main, w, [], lambda i, _: (out.store(wide, self.add(at, i)), [])[1])
        e.loop(main, count, 1, [], lambda i, _: (out.store(value, self.add(at, i)), [])[1])

    def pad(self, out: Buf, x: Buf, before: Sequence[Size], between: Sequence[int], value: Any) -> None:
        """One task per row of the output: the fill, and the row of ``x`` that falls there."""
        e = self.e
        fill = self.scalar(value, out.dtype)
        if not out.shape:
            self.tasks(lambda t: out.store(x.load(0), 0))
            return
        rank = len(out.shape)
        outer = [self.size(s) for s in out.shape[:-1]]
        n, count = self.size(out.shape[-1]), self.size(x.shape[-1])

        def row(t: Val) -> None:
            self.fill(out, self.mul(t, n), fill, n)
            inside: Any = None
            at: Index = 0
            for k, c in enumerate(e.split(t, outer)):
                moved = self.sub(c, self.size(before[k]))
                step = between[k] + 1
                line = self.div(moved, step)
                ok = e.and_(e.cmp("ge", self.index(moved), 0), e.cmp("lt", self.index(line), self.index(self.size(x.shape[k]))))
                if step > 1:
                    ok = e.and_(ok, e.cmp("eq", self.index(self.mod(moved, step)), 0))
                inside = ok if inside is None else e.and_(inside, ok)
                at = self.add(self.mul(at, self.size(x.shape[k])), line)

            def place() -> list[Val]:
                start = self.add(self.mul(t, n), self.size(before[-1]))
                if between[-1] == 0:
                    self.copy(out, start, x, self.mul(at, count), count)
                else:
                    self.range(count, lambda i: out.store(x.load(self.add(self.mul(at, count), i)),
                                                          self.add(start, self.mul(i, between[-1] + 1))))
                return []
            place() if inside is None else e.if_(inside, place)
        self.n_tasks = product(out.shape[:-1])
        del rank
        self.tasks(row)

    def concat(self, out: Buf, xs: Sequence[Buf], axis: int) -> None:
        """One task per index of the leading axes: the parts one after the other."""
        axis %= len(out.shape)
        self.n_tasks = product(out.shape[:axis])
        row = self.size(product(out.shape[axis:]))

        def task(t: Val) -> None:
            at = self.mul(t, row)
            for x in xs:
                count = self.size(product(x.shape[axis:]))
                self.copy(out, at, x, self.mul(t, count), count)
                at = self.add(at, count)
        self.tasks(task)

    def arg_extreme(self, out: Buf, x: Buf, axis: int, largest: bool) -> None:
        """One task per result: the first largest (or smallest) along the axis; a NaN counts as the extreme."""
        e = self.e
        axis %= len(x.shape)
        n = self.size(x.shape[axis])
        inner = self.size(product(x.shape[axis + 1:]))

        def task(t: Val) -> None:
            start = self.add(self.mul(self.mul(self.div(t, inner), inner), n), self.mod(t, inner))

            def step(i: Val, best: list[Val]) -> list[Val]:
                v = x.load(self.add(start, self.mul(i, inner)))
                if x.dtype.kind == "b":
                    beats = e.and_(v, e.not_(best[1])) if largest else e.and_(best[1], e.not_(v))
                else:
                    beats = e.cmp("gt" if largest else "lt", v, best[1])
                if x.dtype.kind == "f":
                    beats = e.and_(e.or_(beats, e.isnan(v)), e.not_(e.isnan(best[1])))
                return [e.select(beats, i, best[0]), e.select(beats, v, best[1])]
            found = e.loop(1, n, 1, [e.const(int64, 0), x.load(self.index(start))], step)
            out.store(found[0] if out.dtype == int64 else e.cast(found[0], out.dtype), t)
        self.tasks(task)


def custom_kernel(item: Item, target: Target) -> Kernel:
    """The kernel of an op with ``Loops`` lowering; scratch buffers are its ``scratch`` values."""
    lower = item.node.op.lower
    assert isinstance(lower, Loops)
    k = LoopKernel(target, item)
    attrs = item.node.kw
    out_avals = [v.aval for v in item.values]
    in_avals = [v.base.aval.with_shape(v.shape) for v in item.operands]
    out_aval = out_avals[0] if len(out_avals) == 1 else tuple(out_avals)
    if lower.tasks is not None:
        k.n_tasks = lower.tasks(out_aval, *in_avals, **attrs)
    outs = [Buf(k.e, v) for v in item.values]
    ins = []
    for view, aval in zip(item.operands, in_avals):
        buf = Buf(k.e, view.base)
        buf.aval, buf.shape = aval, aval.shape           # a contiguous reshape keeps the bytes
        ins.append(buf)
    scratch = [Value(item, -1 - j, a) for j, a in enumerate(lower.scratch(out_aval, *in_avals, **attrs))] if lower.scratch else []
    k.scratch = [Buf(k.e, v) for v in scratch]
    lower.emit(k, outs[0] if len(outs) == 1 else tuple(outs), *ins, **attrs)
    work: Size = 0
    for a in (*out_avals, *in_avals):
        work = work + a.size
    return Kernel(k.e.text(), k.e.operands, k.n_tasks, work * 4, [v.base for v in item.operands], list(item.values),
                  item.node.op.name, scratch, [item], k.e.guarded)


def sizes_kernel(item: Item, target: Target) -> Kernel:
    """Writes dimensions to memory."""
    e = KernelEmitter(target)
    out = e.pointer(item.value)
    dtype = item.value.aval.dtype
    for k, s in enumerate(item.node.attr("sizes")):
        v = e.size(s)
        value = e.cast(v, dtype) if isinstance(v, Val) else e.const(dtype, v)
        e.store(out, value, k)
    return Kernel(e.text(), e.operands, 1, 1, [], [item.value], "sizes", [], [item])
