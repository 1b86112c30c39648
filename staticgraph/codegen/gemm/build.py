"""The kernels of a product, by its plan: the nest of tasks, chunks of k, panels and row tiles around the register tile."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from ..emitter import Emitter
from ..target import Target
from ..values import Val
from .frame import Frame, Segment, Sizes
from .index import Index
from .pack import copy_panels, pack_kernel, pack_rows
from .plan import Plan, make_plan
from .spec import Gemm, GemmKernel, GemmSpec
from .tile import Broadcast, Vectors, multiply, transpose

X_AHEAD = 1024       # bytes by which a packed x is prefetched: one quick stream, which the processor's own prefetching does not keep up with
Sink = Callable[..., None]


def gemm(target: Target, spec: GemmSpec, sink: Sink | None = None, emitter: Callable[[], Any] | None = None,
         plan: Plan | None = None) -> Gemm:
    """The kernels of ``spec`` for ``target``.

    ``sink(e, acc, row, col, lanes, mask, batch=b)`` is called where the finished elements C[b, row, col .. col + lanes) would be stored
    (mask None: all lanes live) and stores what it likes; the default stores to C. ``e`` comes from ``emitter()`` (default: a plain
    ``Emitter``), whose operands 0 .. len(spec.operands) - 1 are the product's. ``plan`` replaces the shape policy.
    """
    given = spec
    spec = spec.settled()
    if 0 in (spec.m, spec.n, spec.batch):
        return Gemm(given, [], lambda m, n, k, batch: 0, sink is not None, None)
    if sink is None and not spec.ta and spec.batch not in (1, None) and spec.sb == 0 and None not in (spec.m, spec.lda, spec.ldc):
        assert spec.m is not None and spec.batch is not None and spec.lda is not None and spec.ldc is not None
        if spec.sa == spec.m * spec.lda and spec.sc == spec.m * spec.ldc:
            spec = replace(spec, m=spec.m * spec.batch, batch=1)       # one matrix of all rows
            given_m = given.m
            assert given_m is not None
    chosen = plan or make_plan(spec, target, sink is not None)
    folded = spec.batch == 1 and given.batch not in (1, None)
    sizes = Sizes(spec, chosen, folded)
    kernels = []
    if chosen.y == "packed":
        kernels.append(pack_kernel(target, given.operands, spec, chosen, sizes))
    if chosen.pack_x:
        kernels.append(pack_rows(target, given.operands, spec, chosen, sizes))
    e = emitter() if emitter else Emitter(target)
    Product(e, given.operands, spec, chosen, sizes, sink).emit()
    kernels.append(GemmKernel(e.text(), sizes.tasks, "gemm", e))
    return Gemm(given, kernels, sizes.workspace, sink is None or spec.accumulate, chosen)


class Product(Frame):
    """The multiplying kernel."""

    def __init__(self, e: Any, operands: tuple[str, ...], spec: GemmSpec, plan: Plan, sizes: Sizes, sink: Sink | None) -> None:
        super().__init__(e, operands, spec, plan, sizes)
        self.sink = sink
        self.k0: Index = 0                                  # the current chunk of k: start, length, and whether it is
        self.kc: Index = self.k                             # the first and the last one
        self.first: bool | Val = True
        self.final: bool | Val = True
        self.in_c = sink is None and not plan.swap          # partial sums of k lie in C itself

    def emit(self) -> None:
        """Write the whole kernel."""
        b, plan = self.b, self.plan
        row_segments, col_segments = self.row_segments(), self.column_segments()
        row_tiles, panels = self.count(row_segments), self.count(col_segments)
        row_tasks = self.sizes.row_tasks(self.rows, self.ceil)
        col_tasks = self.sizes.col_tasks(self.cols, self.ceil)

        # few rows of y from far away: the tasks of one call read whole rows of it together
        merged = plan.y == "direct" and plan.chunk_outer and row_tasks == 1 and self.spec.batch == 1

        def task(t: Index, _: list[Val]) -> list[Val]:
            tc, rest = b.mod(t, col_tasks), b.div(t, col_tasks)
            tr, item = b.mod(rest, row_tasks), b.div(rest, row_tasks)
            if self.spec.batch == 1:
                item = 0
            row_parts = list(self.share(row_segments, row_tiles, tr, row_tasks))
            col_parts = list(self.share(col_segments, panels, *((b.lo, col_tasks, b.sub(b.hi, b.lo)) if merged else (tc, col_tasks))))
            self.item = item
            self.stage = b.at(self.ws, b.add(self.stage_at, b.mul(t, self.sizes.stage_per_task())), self.dtype)
            if plan.pack_x:
                at = b.add(self.rows_at, 0 if self.sizes.shared_x else b.mul(item, self.rows_each))
                self.x_item = b.at(self.ws, at, self.dtype)
            else:
                self.x_item = b.at(self.x, b.mul(item, self.sx), self.dtype)
            if plan.y == "packed":
                self.y_item = b.at(self.ws, 0 if self.sizes.shared_y else b.mul(item, self.packed_each), self.dtype)
            else:
                self.y_item = b.at(self.y, b.mul(item, self.sy), self.dtype)
            if plan.y == "staged":
                self.chunks(lambda: self.staged(col_parts, row_parts))
            elif plan.chunk_outer:
                self.chunks(lambda: self.panels(col_parts, lambda s, v0: self.tiles(row_parts, s, v0)))
            else:
                self.panels(col_parts, lambda s, v0: self.chunks(lambda: self.tiles(row_parts, s, v0)))
            return []
        b.loop(0 if merged else b.lo, 1 if merged else b.hi, 1, [], task)

    # ---- the nest ------------------------------------------------------------------------------------------------------------

    def chunks(self, inside: Callable[[], None]) -> None:
        """Blocks of k, in order."""
        b, kc = self.b, self.plan.kc
        if kc is None:
            self.k0, self.kc, self.first, self.final = 0, self.k, True, True
            inside()
            return
        assert isinstance(self.k, int)

        def chunk(k0: Index, _: list[Val]) -> list[Val]:
            assert isinstance(self.k, int) and kc is not None
            self.k0 = k0
            self.kc = b.min(kc, b.sub(self.k, k0)) if self.k % kc else kc
            self.first = b.less(k0, 1)
            self.final = b.less(self.k - kc - 1, k0)
            inside()
            return []
        b.loop(0, self.k, kc, [], chunk)

    def panels(self, parts: list[tuple[Segment, Index, Index]], inside: Callable[[Segment, Index], None]) -> None:
        """Panels of columns; ``inside`` gets the segment and the first vector's number."""
        b = self.b
        for s, lo, hi in parts:
            def panel(p: Index, _: list[Val], s: Segment = s) -> list[Val]:
                inside(s, b.add(s.start, b.mul(b.sub(p, s.lo), s.size)))
                return []
            b.loop(lo, hi, 1, [], panel)

    def staged(self, col_parts: list[tuple[Segment, Index, Index]], row_parts: list[tuple[Segment, Index, Index]]) -> None:
        """Panels of one chunk, a few copied at a time: a row of y is read from far away in pieces that are worth it."""
        b, plan = self.b, self.plan
        for s, lo, hi in col_parts:
            width = s.size * plan.lanes
            group = 1 if s.mask is not None or s.narrow is not None else plan.group

            def together(p: Index, _: list[Val], s: Segment = s, hi: Index = hi, width: int = width, group: int = group) -> list[Val]:
                v0 = b.add(s.start, b.mul(b.sub(p, s.lo), s.size))
                count = b.min(group, b.sub(hi, p)) if group > 1 else 1
                source = b.at(self.y_item, b.add(b.mul(self.k0, self.ldy), b.mul(v0, plan.lanes)), self.dtype)
                copy_panels(self, source, self.stage, self.kc, s, count, plan.ahead)

                def panel(i: Index, _: list[Val]) -> list[Val]:
                    copy = b.at(self.stage, b.mul(i, b.mul(self.kc, width)), self.dtype)
                    self.tiles(row_parts, s, b.add(v0, b.mul(i, s.size)), copy)
                    return []
                b.loop(0, count, 1, [], panel)
                return []
            b.loop(lo, hi, group, [], together)

    def tiles(self, parts: list[tuple[Segment, Index, Index]], col: Segment, v0: Index, copy: Val | None = None) -> None:
        """Row tiles of one panel, which may have been copied, in one chunk."""
        b, plan = self.b, self.plan
        w = plan.lanes
        column = b.mul(v0, w)
        if copy is not None:
            y = Vectors(copy, col.size * w)
        elif plan.y == "packed":
            step = col.size * w
            y = Vectors(b.at(self.y_item, b.add(b.mul(column, self.k_up), b.mul(self.k0, step)), self.dtype), step)
        else:
            start = b.add(b.mul(self.k0, self.ldy), column) if plan.y == "direct" else b.mul(column, self.ldy)
            y = Vectors(b.at(self.y_item, start, self.dtype), self.ldy)
        for s, lo, hi in parts:
            def tile(t: Index, _: list[Val], s: Segment = s) -> list[Val]:
                row = b.add(s.start, b.mul(b.sub(t, s.lo), s.size))
                self.one_tile(row, s.size, column, col, y)
                return []
            b.loop(lo, hi, 1, [], tile)

    def one_tile(self, row: Index, mr: int, column: Index, col: Segment, y: Vectors) -> None:
        """Start, k loop and end of one register tile."""
        b, plan = self.b, self.plan
        copied = plan.y in ("packed", "staged")
        mask = None if copied else col.mask
        tile = self.start_tile(row, mr, column, col)
        if plan.ask:
            self.ask_for(b.add(row, mr), mr, column, col)
        if plan.y == "turned":
            from .turned import multiply_turned
            x = Broadcast(b.at(self.x_item, b.mul(row, self.x_row), self.dtype), self.x_row, self.x_step)
            last = b.add(column, (col.size - 1) * plan.lanes)
            lanes = self.cols % plan.lanes if col.mask is not None and not isinstance(self.cols, Val) else b.min(
                plan.lanes, b.sub(self.cols, last)) if col.mask is not None else plan.lanes
            tile = multiply_turned(b, self.dtype, x, y, self.k, tile, lanes)
        else:
            tile = multiply(b, self.dtype, self.x_tile(row, mr), y, self.kc, tile, mask, plan.unroll, 0 if copied else plan.ahead,
                            X_AHEAD // (mr * self.dtype.size) if plan.pack_x else 0)
        self.end_tile(tile, row, column, col)

    def x_tile(self, row: Index, mr: int) -> Broadcast:
        """Where the rows of a tile lie: in place, or packed."""
        b = self.b
        if self.plan.pack_x:
            at = b.add(b.mul(row, self.k), b.mul(self.k0, mr))
            return Broadcast(b.at(self.x_item, at, self.dtype), 1, mr)
        at = b.add(b.mul(row, self.x_row), b.mul(self.k0, self.x_step))
        return Broadcast(b.at(self.x_item, at, self.dtype), self.x_row, self.x_step)

    # ---- start and end of a tile ---------------------------------------------------------------------------------------------

    def _c(self, row: Index, column: Index) -> Val:
        b = self.b
        return b.at(self.c, b.add(b.mul(self.item, self.sc), b.add(b.mul(row, self.ldc), column)), self.dtype)

    def _partial(self, row: Index, column: Index) -> tuple[Val, Index]:
        """Address and row distance of the partial sums."""
        b = self.b
        if self.in_c:
            return self._c(row, column), self.ldc
        line = b.add(b.mul(self.item, self.rows), row)
        return b.at(self.ws, b.add(self.partial_at, b.add(b.mul(line, self.cols_up), column)), self.dtype), self.cols_up

    def _read_tile(self, p: Val, ld: Index, mr: int, col: Segment, masked: bool) -> list[Val]:
        b = self.b
        out = []
        for i in range(mr):
            row = b.at(p, b.mul(i, ld), self.dtype)
            out += [b.load(b.at(row, at, self.dtype), self.dtype, lanes, m if masked else None)
                    for at, lanes, m in col.vectors(self.plan.lanes)]
        return out

    def _write_tile(self, tile: list[list[Val]], p: Val, ld: Index, col: Segment, masked: bool) -> None:
        b = self.b
        for i, regs in enumerate(tile):
            line = b.at(p, b.mul(i, ld), self.dtype)
            for x, (at, _, m) in zip(regs, col.vectors(self.plan.lanes)):
                b.store(b.at(line, at, self.dtype), x, m if masked else None)

    def ask_for(self, row: Index, mr: int, column: Index, col: Segment) -> None:
        """Prefetch what the tile at ``row`` will read or write of C, or of partial sums."""
        b, dtype = self.b, self.dtype
        p, ld = self._partial(row, column)
        for i in range(mr):
            line = b.at(p, b.mul(i, ld), dtype)
            for v in range(0, col.size * self.plan.lanes * dtype.size, 64):
                b.prefetch(b.at(line, v // dtype.size, dtype), write=True)

    def start_tile(self, row: Index, mr: int, column: Index, col: Segment) -> list[list[Val]]:
        """Zeros, C, or the partial sums of the chunks before."""
        b = self.b

        def begin() -> list[Val]:
            if self.spec.accumulate:
                return self._read_tile(self._c(row, column), self.ldc, mr, col, True)
            return [b.zero(self.dtype, lanes) for _, lanes, _ in col.vectors(self.plan.lanes)] * mr

        def go_on() -> list[Val]:
            p, ld = self._partial(row, column)
            return self._read_tile(p, ld, mr, col, self.in_c)
        flat = begin() if self.plan.free else b.branch(self.first, begin, go_on)
        return [flat[i * col.size:(i + 1) * col.size] for i in range(mr)]

    def end_tile(self, tile: list[list[Val]], row: Index, column: Index, col: Segment) -> None:
        """Store partial sums, or hand the finished tile over."""
        b = self.b

        if self.plan.free and self.first is not True:
            flat = [x for regs in tile for x in regs]

            def add_up() -> list[Val]:
                p, ld = self._partial(row, column)
                before = self._read_tile(p, ld, len(tile), col, self.in_c)
                return [self.e.add(x, y) for x, y in zip(before, flat)]
            flat = b.branch(self.first, lambda: flat, add_up)
            tile = [flat[i * col.size:(i + 1) * col.size] for i in range(len(tile))]

        def keep() -> list[Val]:
            p, ld = self._partial(row, column)
            self._write_tile(tile, p, ld, col, self.in_c)
            return []

        def finish() -> list[Val]:
            if self.plan.swap:
                self.finish_swapped(tile, row, column, col)
            elif self.in_c:
                self._write_tile(tile, self._c(row, column), self.ldc, col, True)
            else:
                for i, regs in enumerate(tile):
                    for x, (at, _, mask) in zip(regs, col.vectors(self.plan.lanes)):
                        self.out(x, b.add(row, i), b.add(column, at), mask)
            return []
        if self.in_c and self.first is not True:
            keep()
            return
        b.branch(self.final, finish, keep)

    def out(self, x: Val, row: Index, column: Index, mask: Val | None) -> None:
        """One vector of C is finished."""
        if self.sink is not None:
            self.sink(self.e, x, row, column, x.lanes, mask, batch=self.item)
        elif mask is not None and x.lanes == 1:
            self.b.when(mask, lambda: self.b.store(self._c(row, column), x))
        else:
            self.b.store(self._c(row, column), x, mask)

    def finish_swapped(self, tile: list[list[Val]], row: Index, column: Index, col: Segment) -> None:
        """The tile holds C^T: row = column of C, vectors run down C's rows."""
        b, e, w = self.b, self.e, self.plan.lanes
        mr = len(tile)
        if mr == 1 and self.sink is None and self.ldc == 1:
            for v, x in enumerate(tile[0]):
                b.store(self._c(b.add(column, v * w), row), x, col.mask if v == col.size - 1 else None)
            return
        power = 1 << (mr - 1).bit_length()
        mask = None if power == mr else e.mask(mr, power)
        for v in range(col.size):
            regs = [tile[i][v] if i < mr else b.zero(self.dtype, w) for i in range(power)]
            live = b.min(w, b.sub(self.cols, b.add(column, v * w))) if col.mask is not None and v == col.size - 1 else w
            turned = transpose(b, regs) if w > 1 else regs
            for j, vector in enumerate(turned):
                at = b.add(b.add(column, v * w), j)
                if isinstance(live, Val):
                    b.when(b.less(j, live), partial(self.out, vector, at, row, mask))
                elif j < live:
                    self.out(vector, at, row, mask)


