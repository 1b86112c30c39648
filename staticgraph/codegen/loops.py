"""Kernels of loop groups: elementwise work over one domain, with reductions over its rows, blocks or columns.

Bits: a row reduction has 2,048 bits of logical lanes (64 for float32): element r goes to lane r mod 64, lanes are folded by
halving, and rows longer than a block are cut into blocks of 4,096 by the scheduler. A column reduction has four chains
(element r to chain r mod 4) over blocks of 1,024. Neither depends on the register width, the thread count or on
whether a size is a constant, so results are equal on all targets.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..dtypes import DType, bool_, float16, float32, int32, int64
from ..ir.aval import Size, product
from ..schedule.fuse import Group, domain_of, walked
from ..schedule.items import Item, Value
from ..schedule.views import View, collapse, contiguous
from .kernel import Index, Kernel, KernelEmitter
from .target import Target
from .values import Val

SHORT = 512                                  # elements of a row that is not worth a task of its own
CHUNK = 16384                                # elements of one task of an elementwise kernel
LANE_BITS = 2048                             # logical lanes of a row reduction
AHEAD = 1024                                 # bytes between a store and the line prefetched for a later one
SCRATCH = 1 << 18                            # bytes of row scratch on the stack, at most

COMBINE: dict[str, tuple[str, Callable[[DType], Any]]] = {
    "add": ("add", lambda d: 0),
    "mul": ("mul", lambda d: 1),
    "maximum": ("maximum", lambda d: -float("inf") if d.kind == "f" else d.min),
    "minimum": ("minimum", lambda d: float("inf") if d.kind == "f" else d.max),
    "and": ("and_", lambda d: True),
    "or": ("or_", lambda d: False),
}


class Access:
    """One memory operand: a value read or written with strides over the group's domain."""

    def __init__(self, value: Value, strides: tuple[Size, ...], offset: Size) -> None:
        self.value, self.strides, self.offset = value, strides, offset
        self.outer: tuple[Size, ...] = ()    # strides over the collapsed outer axes
        self.run: Size = 0                   # stride along the reduced run (column kernels)
        self.inner: Size = 0                 # stride along the vectorised axis
        self.pointer = ""                    # address of the current row
        self.base: Index = 0                 # current row's index (of an index operand)

    @property
    def is_index(self) -> bool:
        """Not memory: the position along an axis."""
        return self.value.item.kind == "index"


class Group_(KernelEmitter):
    """The emitter of one loop group."""

    def __init__(self, target: Target, group: Group) -> None:
        super().__init__(target)
        self.group = group
        axes = group.axes or ()
        self.row_axes = axes
        rank = len(group.domain)
        self.trailing = bool(axes) and axes == tuple(range(rank - len(axes), rank))
        self.full: dict[Item, bool] = {i: i.kind == "reduce" or domain_of(i.shape) == group.domain for i in group.items}
        self.accesses: dict[Any, Access] = {}
        self.sources: dict[tuple[Item, int], Access | Value] = {}
        self.stores: dict[Value, Access] = {}
        self.current: Item | None = None
        self.element: Callable[[], Index] = lambda: 0
        self._collect()
        bits = [a.value.aval.dtype.bits for a in self.accesses.values()] + [
            v.aval.dtype.bits for i in group.items for v in i.values if v.aval.dtype != bool_]
        self.width = 1 if not group.domain else max(1, target.vector_bits // max(bits, default=32))

    def narrow(self, length: Size) -> None:
        """A short axis needs no wide vectors."""
        if isinstance(length, int):
            while self.width > 1 and self.width >= 2 * length:
                self.width //= 2

    def _collect(self) -> None:
        g = self.group
        inside = set(g.items)
        for item in g.items:
            for k, v in enumerate(item.operands):
                if v.base.item in inside:
                    self.sources[item, k] = v.base
                    continue
                strides = self._spread(walked(v), domain_of(v.shape))
                key = (v.base, strides, v.offset)
                if key not in self.accesses:
                    self.accesses[key] = Access(v.base, strides, v.offset)
                self.sources[item, k] = self.accesses[key]
        for item in g.items:
            for value in item.values:
                if value.buffer is not None:
                    walk = contiguous(domain_of(value.aval.shape))
                    if item.kind == "reduce":
                        if not item.blocked:
                            self.stores[value] = Access(value, self._spread(walk, g.row_domain), 0)
                    else:
                        self.stores[value] = Access(value, self._spread(walk, domain_of(value.aval.shape)), 0)

    def _spread(self, strides: tuple[Size, ...], domain: tuple[Size, ...]) -> tuple[Size, ...]:
        """Strides over the row domain as strides over the whole domain: 0 along the reduced axes."""
        if domain == self.group.domain:
            return strides
        rest = iter(strides)
        return tuple(0 if k in self.row_axes else next(rest) for k in range(len(self.group.domain)))

    # ---- values ------------------------------------------------------------------------------------------------------------

    def guard(self, value: Val, ok: Val, *, message: str, limit: Size, fill: int) -> Val:
        """The elementwise guard: report lanes that are not ok, and go on with ``fill`` there."""
        bad = self.not_(ok)
        if self.mask_now is not None:
            bad = self.and_(bad, self.mask_now)
        assert self.current is not None
        lanes = max(value.lanes, bad.lanes)
        value, bad = self.splat(value, lanes), self.splat(bad, lanes)
        self.report_lanes(self.current.node, bad, self.element(), value, self.size(limit))
        return self.select(self.splat(ok, lanes), value, self.const(value.dtype, fill, lanes))

    def compute(self, item: Item, env: dict[Any, Val]) -> Val:
        """The item's value from ``env`` (values of items, and loaded accesses)."""
        self.current = item
        result: Val = item.emit(self, *[env[self.sources[item, k]] for k in range(len(item.operands))])
        return result

    def read(self, a: Access, at: Index, lanes: int, mask: Val | None) -> Val:
        """The access at inner position ``at``: a vector, or one scalar where its inner stride is 0."""
        along = self.size(a.inner)
        if a.is_index:
            first = self.iadd(a.base, self.imul(at, along))
            dtype = a.value.aval.dtype
            start = self.const(dtype, first) if not isinstance(first, Val) else (
                first if dtype == int64 else self._value(f"trunc {first.typed} to i32", int32, 1))
            if lanes == 1 or a.inner == 0:
                return start
            step = self.iota(dtype, lanes) if along == 1 else self.mul(
                self.iota(dtype, lanes), along if not isinstance(along, Val) else self.cast(along, dtype))
            return self.add(self.splat(start, lanes), step)
        if a.inner == 0:
            return self.load(a.pointer, a.value.aval.dtype)
        index = self.imul(at, along)
        return self.load(a.pointer, a.value.aval.dtype, index, lanes=lanes, mask=mask, **({} if along == 1 else {"stride": along}))

    def write(self, a: Access, value: Val, at: Index, lanes: int, mask: Val | None) -> None:
        """Store a vector of the current row."""
        self.store(a.pointer, self.splat(value, lanes), self.imul(at, self.size(a.inner)), mask=mask, dtype=a.value.aval.dtype)

    def enter(self, accesses: Sequence[Access], coordinates: list[Index], start: Index = 0) -> None:
        """Set every access's pointer to the row at ``coordinates`` (plus ``start`` along the inner axis)."""
        for a in accesses:
            index = self.dot(coordinates, [self.size(s) for s in a.outer])
            index = self.iadd(index, self.imul(start, self.size(a.inner)))
            if a.is_index:
                a.base = self.iadd(index, self.size(a.offset))
            else:
                a.pointer = self.advance(self.pointers[a], a.value.aval.dtype, index)

    def advance(self, pointer: str, dtype: DType, index: Index) -> str:
        """``pointer`` moved by ``index`` elements."""
        if not isinstance(index, Val) and index == 0:
            return pointer
        name = self._name()
        self._line(f"{name} = getelementptr {dtype.llvm}, ptr {pointer}, {self.index(index).typed}")
        return name

    def open_pointers(self) -> None:
        """Read all addresses and sizes once, at the top of the function."""
        self.pointers = {a: self.pointer(a.value, a.offset) for a in self.all_accesses() if not a.is_index}

    def all_accesses(self) -> list[Access]:
        """Reads, then writes."""
        return [*self.accesses.values(), *self.stores.values()]

    # ---- plain elementwise -----------------------------------------------------------------------------------------------------

    def elementwise(self) -> Size:
        """Tasks are chunks of the innermost axis of each row."""
        all_ = self.all_accesses()
        sizes, strides = collapse(self.group.domain, [a.strides for a in all_])
        for a, s in zip(all_, strides):
            a.outer, a.inner = s[:-1], (s[-1] if s else 0)
        inner: Size = sizes[-1] if sizes else 1
        outer = sizes[:-1]
        self.narrow(inner)
        chunk = CHUNK
        chunks: Size = (inner + (chunk - 1)) // chunk
        self.open_pointers()
        # short rows: one task walks a whole line of them, so that coordinates are taken apart once per line
        line: Size = 1
        if outer and isinstance(inner, int) and inner <= SHORT:
            line, outer = outer[-1], outer[:-1]
        outer_sizes = [self.size(s) for s in outer]
        length, pieces, rows = self.size(inner), self.size(chunks), self.size(line)

        def task(t: Val, _: Any) -> list[Val]:
            row, piece = (t, 0) if pieces == 1 else (self.idivide(t, pieces), self.imod(t, pieces))
            coordinates = self.split(row, outer_sizes)
            start = self.imul(piece, chunk)
            count = length if pieces == 1 else self.imin(self.isub(length, start), chunk)

            def one(j: Index, where: list[Index]) -> None:
                self.enter(all_, where, start)
                at = self.iadd(self.imul(row, rows), j) if line != 1 else row
                self.first = self.iadd(self.imul(at, length) if outer or line != 1 else 0, start)
                self.sweep(count, self.hoist(), self.group.items, list(self.stores.items()))
            if line == 1:
                one(0, coordinates)
            else:
                self.loop(0, rows, 1, [], lambda j, _: (one(j, [*coordinates, j]), [])[1])
            return []
        self.loop(self.lo, self.hi, 1, [], task)
        return product(outer) * chunks

    def hoist(self) -> dict[Any, Val]:
        """Values that are the same along the inner axis, once per row."""
        env: dict[Any, Val] = {a: self.read(a, 0, 1, None) for a in self.accesses.values() if a.inner == 0}
        for item in self.group.items:
            if item.kind == "scalar" and self.full[item] and item.operands and item.node.op is not self._guard \
                    and all(self.sources[item, k] in env for k in range(len(item.operands))):
                env[item.value] = self.compute(item, env)
        return env

    @property
    def _guard(self) -> Any:
        from ..ops.state import guard
        return guard

    def sweep(self, count: Index, known: dict[Any, Val], items: Sequence[Item], stores: Sequence[tuple[Value, Access]]) -> None:
        """Walk ``count`` elements of the current row: load, compute ``items``, store."""
        todo = [i for i in items if i.value not in known]
        heavy = sum(not i.node.op.is_exact for i in todo)
        w = self.width
        unroll = 1 if heavy or len(todo) > 12 or w == 1 else 4 if len(todo) <= 6 else 2

        def vectors(at: Index, copies: int, mask: Val | None) -> None:
            places = [self.iadd(at, k * w) for k in range(copies)]
            envs = [dict(known) for _ in places]
            for a in self.accesses.values():
                if a not in known and self._used(a, todo):
                    for env, p in zip(envs, places):
                        env[a] = self.read(a, p, w, mask)
            for item in todo:
                for env, p in zip(envs, places):
                    self.mask_now = mask
                    self.element = lambda p=p: self.iadd(self.first, p)      # type: ignore[misc]
                    env[item.value] = self.compute(item, env)
            for value, a in stores:
                for env, p in zip(envs, places):
                    if copies > 1:
                        self.prefetch(a, p)
                    self.write(a, env[value], p, w, mask)

        self.strip(count, w, unroll, vectors, heavy > 0, next((a for _, a in stores if a.inner == 1 and _is_callers(a)), None))

    def prefetch(self, a: Access, at: Index) -> None:
        """Ask for the cache line that is written some iterations later: it is read before it is written."""
        if a.inner == 1:
            place = self.offset(a.pointer, a.value.aval.dtype, self.iadd(at, AHEAD // a.value.aval.dtype.size))
            self._line(f"call void @llvm.prefetch.p0(ptr {place}, i32 1, i32 3, i32 1)")

    def strip(self, count: Index, w: int, unroll: int, vectors: Callable[[Index, int, Val | None], None], heavy: bool,
              align: Access | None = None) -> None:
        """Call ``vectors(position, copies, mask)`` over ``count`` elements: whole vectors first, then a masked one.

        With ``align`` a masked vector comes first, so that the long loop writes whole cache lines of that access.
        """
        if w == 1:
            self.loop(0, count, 1, [], lambda i, _: (vectors(i, 1, None), [])[1])
            return
        if not isinstance(count, Val):
            if count <= unroll * w:
                whole, rest = divmod(count, w)
                if whole:
                    vectors(0, whole, None)
                if rest:
                    vectors(whole * w, 1, self.mask(rest, w))
                return
            unroll = 1 if count < 2 * unroll * w else unroll
        if heavy and self.target.masked and not (not isinstance(count, Val) and count % w == 0):
            self.twice(count, w, vectors)
            return
        step = unroll * w
        first: Index = 0
        if align is not None and w * align.value.aval.dtype.size >= 16 and (isinstance(count, Val) or count >= 4 * step):
            first = self.imin(self.to_line(align, w), count)
            self.if_(self.cmp("gt", first, 0), lambda: vectors(0, 1, self.mask(first, w)))
        main = self.iadd(first, self.imul(self.idivide(self.isub(count, first), step), step))
        self.loop(first, main, step, [], lambda i, _: (vectors(i, unroll, None), [])[1])
        if isinstance(main, Val) or count % step:
            self.loop(main, count, w, [], lambda i, _: (vectors(i, 1, self.mask(self.isub(count, i), w)), [])[1])

    def twice(self, count: Index, w: int, vectors: Callable[[Index, int, Val | None], None]) -> None:
        """One loop for whole vectors and for the tail: its mask is a constant of each of two rounds, and long code is there once."""
        whole = self.imul(self.idivide(count, w), w)
        tail = self.isub(count, whole)

        def round_(k: Val, _: Any) -> list[Val]:
            last = self.cmp("ne", k, 0)
            low, high, live = (self.select(last, self.index(b), self.index(a)) for a, b in ((0, whole), (whole, count), (w, tail)))
            mask = self.mask(live, w)
            self.loop(low, high, w, [], lambda i, _: (vectors(i, 1, mask), [])[1])
            return []
        self.loop(0, 2, 1, [], round_)

    def to_line(self, a: Access, w: int) -> Val:
        """Elements up to the next multiple of ``w`` elements in memory."""
        size = a.value.aval.dtype.size
        address = self._value(f"ptrtoint ptr {a.pointer} to i64", int64, 1)
        gone = self._value(f"lshr i64 {address.text}, {size.bit_length() - 1}", int64, 1)
        return self.and_(self.sub(0, gone), w - 1)

    def _used(self, a: Access, items: Sequence[Item]) -> bool:
        return any(self.sources[i, k] is a for i in items for k in range(len(i.operands)))

    # ---- reductions --------------------------------------------------------------------------------------------------------------

    def identity(self, item: Item, lanes: int) -> Val:
        """The neutral element of a reduction."""
        dtype = float32 if item.value.aval.dtype is float16 else item.value.aval.dtype       # as in registers
        return self.const(dtype, COMBINE[item.combine][1](dtype), lanes)

    def combine(self, item: Item, x: Val, y: Val) -> Val:
        """One step of a reduction."""
        result: Val = getattr(self, COMBINE[item.combine][0])(x, y)
        return result

    def fold(self, item: Item, registers: list[Val]) -> Val:
        """Registers of logical lanes to one scalar, by halving."""
        while len(registers) > 1:
            half = len(registers) // 2
            registers = [self.combine(item, a, c) for a, c in zip(registers[:half], registers[half:])]
        x = registers[0]
        while x.lanes > 1:
            half = x.lanes // 2
            low = self.shuffle(x, None, list(range(half)))
            high = self.shuffle(x, None, list(range(half, x.lanes)))
            x = self.combine(item, low, high)
        return x


def _is_callers(a: Access) -> bool:
    """The access is to an array of the caller's, which is aligned to its dtype only."""
    return a.value.buffer is not None and a.value.buffer.space == "out"


def loop_kernel(group: Group, target: Target) -> Kernel:
    """The kernel of a loop group."""
    from .columns import columns
    from .rows import rows
    e = Group_(target, group)
    if group.axes is None or not group.axes:
        tasks = e.elementwise() if group.axes is None else rows(e)
    else:
        tasks = rows(e) if e.trailing else columns(e)
    reads = list(dict.fromkeys(a.value for a in e.accesses.values() if not a.is_index))
    writes = [v for i in group.items for v in i.values if v.buffer is not None]
    names = [i.node.op.name for i in group.items]
    title = "+".join(names[:6]) + (f"+{len(names) - 6} more" if len(names) > 6 else "")
    return Kernel(e.text(), e.operands, tasks, product(group.domain) * max(1, len(group.items)), reads, writes, title,
                  items=list(group.items), guarded=e.guarded)


__all__ = ["CHUNK", "COMBINE", "Access", "Group_", "View", "loop_kernel"]
