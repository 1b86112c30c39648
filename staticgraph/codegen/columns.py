"""Loop groups that reduce axes other than the last: vectors of columns, four chains down the run.

Narrow arrays keep the chains of two vectors of columns in registers and walk down the rows. Of wide arrays that would read 128 bytes
of each row, a page apart where rows are long, which neither prefetchers nor address translation like: there a task's chains are a
small array on the stack, and each visit takes sixteen rows of a panel of columns. The chains and their order are the same, so the bits are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..ir.aval import Size, product
from ..schedule.items import COLUMN_BLOCK, Item
from ..schedule.views import collapse
from .kernel import Index
from .loops import Access, Group_
from .values import Val

CHAINS = 4                                   # element r of the run goes to chain r mod 4
VECTORS = 2                                  # vectors of columns per task, where chains are in registers
PANEL = 1024                                 # bytes of a row per task, where they are in memory
VISIT = 16                                   # rows per visit of a panel

Column = tuple[Index, Any]                   # a vector of columns: where it starts in the strip, and its mask


def columns(e: Group_) -> Size:
    """Emit the kernel's loop over tasks; returns the number of tasks."""
    return _Columns(e).emit()


class _Columns:
    def __init__(self, e: Group_) -> None:
        self.e = e
        self.reduces = [i for i in e.group.items if i.kind == "reduce"]
        self.items = [i for i in e.group.items if i.kind == "scalar"]
        self.stores = [(i, e.stores[i.value]) for i in self.items if i.value in e.stores]
        self.heavy = any(not i.node.op.is_exact for i in self.items)

    def emit(self) -> Size:
        e, g = self.e, self.e.group
        first, last = e.row_axes[0], e.row_axes[-1] + 1
        all_ = e.all_accesses()
        pre, pre_strides = collapse(g.domain[:first], [a.strides[:first] for a in all_])
        run, run_strides = collapse(g.domain[first:last], [a.strides[first:last] for a in all_])
        post, post_strides = collapse(g.domain[last:], [a.strides[last:] for a in all_])
        assert len(run) == 1 and post, (run, post)
        for a, p, r, q in zip(all_, pre_strides, run_strides, post_strides):
            a.outer, a.run, a.inner = (*p, *q[:-1]), r[0], q[-1]
        blocked = any(i.blocked for i in self.reduces)
        length, width = run[0], post[-1]
        blocks: Size = (length + (COLUMN_BLOCK - 1)) // COLUMN_BLOCK if blocked else 1
        e.narrow(width)
        w = e.width
        panel = max(2, PANEL * 8 // max(i.value.aval.dtype.bits for i in self.reduces) // w) * w
        wide = not self.heavy and isinstance(width, int) and width >= panel // 2 and all(a.inner in (0, 1) for a in all_)
        span = panel if wide else w if isinstance(width, int) and width <= w else VECTORS * w
        strips: Size = (width + (span - 1)) // span

        e.open_pointers()
        partial = {i: e.pointer(i.value) for i in self.reduces if i.blocked}
        outer_sizes = [e.size(s) for s in (*pre, *post[:-1])]
        n, self.width, pieces, across = e.size(length), e.size(width), e.size(blocks), e.size(strips)
        even = isinstance(width, int) and width % span == 0
        if wide:
            self._chains_in_memory(span)

        def task(t: Val, _: Any) -> list[Val]:
            rest, strip = (t, 0) if across == 1 else (e.idivide(t, across), e.imod(t, across))
            outer, piece = (rest, 0) if pieces == 1 else (e.idivide(rest, pieces), e.imod(rest, pieces))
            self.at, self.top = e.imul(strip, span), e.imul(piece, COLUMN_BLOCK)
            rows = e.imin(e.isub(n, self.top), COLUMN_BLOCK) if blocked else n
            self._enter(all_, e.split(outer, outer_sizes))

            def finish(column: Column, acc: list[Val]) -> None:
                for k, i in enumerate(self.reduces):
                    a, b, c, d = (acc[q * len(self.reduces) + k] for q in range(CHAINS))
                    total = e.combine(i, e.combine(i, a, c), e.combine(i, b, d))
                    if i.blocked:
                        _store_partial(e, i, partial[i], total, outer, piece, self.at, column[0], (pre, post), pieces, self.width,
                                       outer_sizes, column[1])
                    elif i.value in e.stores:
                        e.write(e.stores[i.value], total, column[0], w, column[1])
            if wide:
                self._panel(rows, span if even else e.imin(e.isub(self.width, self.at), span), finish)
            else:
                strip_columns: list[Column] = [(v * w, None if even else e.mask(e.isub(self.width, e.iadd(self.at, v * w)), w))
                                               for v in range(span // w)]
                self._registers(rows, strip_columns, finish)
            return []
        e.loop(e.lo, e.hi, 1, [], task)
        return product((*pre, *post[:-1])) * blocks * strips

    def _enter(self, all_: Sequence[Access], coordinates: list[Index]) -> None:
        """Set every access's pointer to the task's first row and column."""
        e = self.e
        results = {i.value for i in self.reduces}
        for a in all_:
            index = e.iadd(e.dot(coordinates, [e.size(s) for s in a.outer]), e.imul(self.at, e.size(a.inner)))
            if a.value not in results:
                index = e.iadd(index, e.imul(self.top, e.size(a.run)))
            if a.is_index:
                a.base = e.iadd(index, e.size(a.offset))
            else:
                a.pointer = e.advance(e.pointers[a], a.value.aval.dtype, index)

    def _step(self, r: Index, columns: Sequence[Column], chains: list[Val], copies: int) -> list[Val]:
        """Rows r .. r+copies-1 into the first ``copies`` chains; chains are ordered [chain][column][reduce]."""
        e, w = self.e, self.e.width
        out = list(chains)
        envs: list[tuple[int, Column, dict[Any, Val]]] = []
        for c in range(copies):
            for column in columns:
                envs.append((c, column, {a: _read(e, a, e.iadd(r, c), column[0], w, column[1]) for a in e.accesses.values()}))
        for item in self.items:
            for c, (at, mask), env in envs:
                e.mask_now = mask
                e.element = lambda c=c, at=at: e.iadd(                            # type: ignore[misc]
                    e.imul(e.iadd(self.top, e.iadd(r, c)), self.width), e.iadd(self.at, at))
                env[item.value] = e.compute(item, env)
        for slot, (c, (at, mask), env) in enumerate(envs):
            for item, a in self.stores:
                _write(e, a, env[item.value], e.iadd(r, c), at, w, mask)
            for k, i in enumerate(self.reduces):
                place = slot * len(self.reduces) + k
                out[place] = e.combine(i, out[place], e.splat(env[e.sources[i, 0]], w))
        return out

    # ---- chains in registers -----------------------------------------------------------------------------------------------------

    def _registers(self, rows: Index, columns: Sequence[Column], finish: Callable[[Column, list[Val]], None]) -> None:
        e = self.e
        per_chain = len(columns) * len(self.reduces)
        acc = [e.identity(i, e.width) for _ in range(CHAINS) for _ in columns for i in self.reduces]
        single = self.heavy or len(self.items) > 8
        main = e.imul(e.idivide(rows, CHAINS), CHAINS) if not single else 0
        if not single:
            acc = e.loop(0, main, CHAINS, acc, lambda r, c: self._step(r, columns, c, CHAINS))
        if single or isinstance(rows, Val) or rows % CHAINS:
            # one row at a time, the chains turning: the pairing at the end is the same from wherever it starts
            acc = e.loop(main, rows, 1, acc, lambda r, c: (lambda d: [*d[per_chain:], *d[:per_chain]])(self._step(r, columns, c, 1)))
        for v, column in enumerate(columns):
            each = len(self.reduces)
            finish(column, [x for q in range(CHAINS) for x in acc[q * per_chain + v * each:q * per_chain + (v + 1) * each]])

    # ---- chains in memory --------------------------------------------------------------------------------------------------------

    def _chains_in_memory(self, span: int) -> None:
        self.memory: list[str] = []
        self.span = span
        for i in self.reduces:
            name = self.e._name()
            self.e._line(f"{name} = alloca [{CHAINS * span} x {i.value.aval.dtype.llvm}], align 64")
            self.memory.append(name)

    def _panel(self, rows: Index, count: Index, finish: Callable[[Column, list[Val]], None]) -> None:
        e, w = self.e, self.e.width
        whole = e.imul(e.idivide(count, w), w)

        def each(body: Callable[[Column], None]) -> None:
            """Every vector of columns: whole ones, then the rest."""
            e.loop(0, whole, w, [], lambda j, _: (body((j, None)), [])[1])
            if isinstance(count, Val) or count % w:
                rest = e.mask(e.isub(count, whole), w)
                e.loop(whole, count, w, [], lambda j, _: (body((j, rest)), [])[1])

        def visit(r: Index, column: Column) -> None:
            acc = self._get(column, range(CHAINS))
            for q in range(0, VISIT, CHAINS):
                acc = self._step(e.iadd(r, q), [column], acc, CHAINS)
            self._put(column, range(CHAINS), acc)

        def single(r: Index, column: Column) -> None:
            chain = [e.imod(r, CHAINS)]
            self._put(column, chain, self._step(r, [column], self._get(column, chain), 1))
        each(lambda column: self._put(column, range(CHAINS), [e.identity(i, w) for _ in range(CHAINS) for i in self.reduces]))
        main = e.imul(e.idivide(rows, VISIT), VISIT)
        e.loop(0, main, VISIT, [], lambda r, _: (each(lambda column: visit(r, column)), [])[1])
        if isinstance(rows, Val) or rows % VISIT:
            e.loop(main, rows, 1, [], lambda r, _: (each(lambda column: single(r, column)), [])[1])
        each(lambda column: finish(column, self._get(column, range(CHAINS))))

    def _get(self, column: Column, chains: Sequence[Index]) -> list[Val]:
        e = self.e
        return [e.load(p, i.value.aval.dtype, e.iadd(e.imul(c, self.span), column[0]), lanes=e.width)
                for c in chains for p, i in zip(self.memory, self.reduces)]

    def _put(self, column: Column, chains: Sequence[Index], acc: Sequence[Val]) -> None:
        e = self.e
        values = iter(acc)
        for c in chains:
            for p, i in zip(self.memory, self.reduces):
                e.store(p, next(values), e.iadd(e.imul(c, self.span), column[0]), dtype=i.value.aval.dtype)


def _read(e: Group_, a: Any, r: Index, at: Index, w: int, mask: Val | None) -> Val:
    moved = e.imul(r, e.size(a.run))
    if a.is_index:
        saved = a.base
        a.base = e.iadd(a.base, moved)
        x = e.read(a, at, w, mask)
        a.base = saved
        return x
    saved_pointer = a.pointer
    a.pointer = e.advance(a.pointer, a.value.aval.dtype, moved)
    x = e.read(a, at, w, mask)
    a.pointer = saved_pointer
    return x


def _write(e: Group_, a: Any, value: Val, r: Index, at: Index, w: int, mask: Val | None) -> None:
    saved = a.pointer
    a.pointer = e.advance(a.pointer, a.value.aval.dtype, e.imul(r, e.size(a.run)))
    e.write(a, value, at, w, mask)
    a.pointer = saved


def _store_partial(e: Group_, item: Item, pointer: str, total: Val, outer: Index, piece: Index, at: Index, v: Index, dims: Any,
                   pieces: Index, count: Index, outer_sizes: list[Index], mask: Val | None) -> None:
    """Block results are stored as [pre, block, post]."""
    pre, _post = dims
    coordinates = e.split(outer, outer_sizes)
    row: Index = 0
    for c, s in zip(coordinates[:len(pre)], outer_sizes[:len(pre)]):
        row = e.iadd(e.imul(row, s), c)
    row = e.iadd(e.imul(row, pieces), piece)
    for c, s in zip(coordinates[len(pre):], outer_sizes[len(pre):]):
        row = e.iadd(e.imul(row, s), c)
    e.store(pointer, total, e.iadd(e.imul(row, count), e.iadd(at, v)), mask=mask, dtype=item.value.aval.dtype)


