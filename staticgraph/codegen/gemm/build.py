"""The kernels of a product, by its plan: the nest of tasks, chunks of k, panels and row tiles around the register tile."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from ...ir.aval import Size
from ..emitter import Emitter
from ..target import Target
from ..values import Val
from .index import POINTER, Builder, Index
from .plan import Plan, make_plan
from .spec import Gemm, GemmKernel, GemmSpec
from .tile import Broadcast, Vectors, multiply, transpose

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
        from .pack import pack_kernel
        kernels.append(pack_kernel(target, given.operands, spec, chosen, sizes))
    e = emitter() if emitter else Emitter(target)
    Product(e, given.operands, spec, chosen, sizes, sink).emit()
    kernels.append(GemmKernel(e.text(), sizes.tasks, "gemm", e))
    return Gemm(given, kernels, sizes.workspace, sink is None or spec.accumulate, chosen)


class Sizes:
    """Formulas of task counts and workspace, for constants and for size expressions alike."""

    def __init__(self, spec: GemmSpec, plan: Plan, folded: bool) -> None:
        self.spec, self.plan, self.folded = spec, plan, folded
        y_stride = spec.sa if plan.swap else spec.sb
        self.shared_y = y_stride == 0 or spec.batch == 1
        self.partials = plan.kc is not None and (spec.k is None or plan.kc < spec.k)

    def _roles(self, m: Size, n: Size, batch: Size) -> tuple[Size, Size, Size]:
        if self.folded:
            m, batch = self.spec.m or 0, 1
        return (n, m, batch) if self.plan.swap else (m, n, batch)

    def fixed(self) -> tuple[int | None, int | None]:
        """Rows and columns where constant."""
        s = self.spec
        return (s.n, s.m) if self.plan.swap else (s.m, s.n)

    def row_tasks(self, rows: Any, ceil: Callable[[Any, int], Any]) -> Any:
        """Tasks along the rows."""
        return self.plan.row_tasks if self.fixed()[0] is not None else ceil(rows, self.plan.mr * self.plan.row_block)

    def col_tasks(self, cols: Any, ceil: Callable[[Any, int], Any]) -> Any:
        """Tasks along the columns."""
        p = self.plan
        return p.col_tasks if self.fixed()[1] is not None else ceil(cols, p.nv * p.lanes * p.col_block)

    def tasks(self, m: Size, n: Size, k: Size, batch: Size) -> Size:
        """Tasks of the product."""
        rows, cols, items = self._roles(m, n, batch)
        return items * self.row_tasks(rows, _ceil) * self.col_tasks(cols, _ceil)

    def pack_tasks(self, m: Size, n: Size, k: Size, batch: Size) -> Size:
        """Tasks of the packing kernel: panels."""
        _, cols, items = self._roles(m, n, batch)
        return (1 if self.shared_y else items) * _ceil(cols, self.plan.nv * self.plan.lanes)

    # elements of the regions of the workspace, in order: packed y, partial sums, copies of x
    def packed(self, cols: Any, k: Any, items: Any, up: Callable[[Any, int], Any], mul: Callable[[Any, Any], Any]) -> Any:
        """Packed panels of y."""
        if self.plan.y != "packed":
            return 0
        one = mul(up(cols, self.plan.lanes), up(k, self.plan.lanes))
        return one if self.shared_y else mul(one, items)

    def rows_of_task(self) -> int:
        """The most rows one task has."""
        fixed = self.fixed()[0]
        p = self.plan
        tiles = p.row_block if fixed is None else -(-(-(-fixed // p.mr)) // p.row_tasks)
        return tiles * p.mr

    def copy_per_task(self) -> int:
        """Elements of one task's copy of x."""
        p = self.plan
        if not p.copy_x or p.kc is None:
            return 0
        return self.rows_of_task() * (p.kc + p.lanes) + 2 * p.lanes

    def workspace(self, m: Size, n: Size, k: Size, batch: Size) -> Size:
        """Bytes of workspace."""
        rows, cols, items = self._roles(m, n, batch)
        total: Size = self.packed(cols, k, items, _up, lambda a, b: a * b)
        if self.partials:
            total = total + rows * _up(cols, self.plan.lanes) * items
        copies = self.copy_per_task()
        if copies:
            total = total + self.tasks(m, n, k, batch) * copies
        return total * self.spec.dtype.size


def _ceil(x: Any, by: int) -> Any:
    return (x + (by - 1)) // by


def _up(x: Any, to: int) -> Any:
    return _ceil(x, to) * to


class Segment:
    """A run of equal tiles along one side: tiles ``lo`` .. ``hi`` - 1 of ``size`` units, the first at unit ``start``."""

    def __init__(self, size: int, lo: Index, hi: Index, start: Index, mask: Val | None = None) -> None:
        self.size, self.lo, self.hi, self.start, self.mask = size, lo, hi, start, mask


class Frame:
    """Sizes, strides and addresses of a product in the roles of its plan, as seen by one kernel."""

    def __init__(self, e: Any, operands: tuple[str, ...], spec: GemmSpec, plan: Plan, sizes: Sizes) -> None:
        self.e, self.spec, self.plan, self.sizes = e, spec, plan, sizes
        b = self.b = Builder(e)
        self.dtype = spec.dtype

        def read(name: str) -> Index:
            fixed = getattr(spec, name)
            return fixed if fixed is not None else e.arg(operands.index(name))

        self.m, self.n, self.k, self.batch = (read(s) for s in ("m", "n", "k", "batch"))

        def stride(name: str, *factors: Index) -> Index:
            fixed = getattr(spec, name)
            if fixed != -1:
                return read(name)
            out: Index = 1
            for f in factors:
                out = b.mul(out, f)
            return out

        lda, ldb = stride("lda", self.m if spec.ta else self.k), stride("ldb", self.k if spec.tb else self.n)
        self.ldc = stride("ldc", self.n)
        sa, sb = stride("sa", self.m, self.k), stride("sb", self.k, self.n)
        self.sc = stride("sc", self.m, self.n)
        a, bb = (Val(e.arg_ptr(operands.index(s)), POINTER, 1) for s in ("a", "b"))
        self.c = Val(e.arg_ptr(operands.index("c")), POINTER, 1)
        self.ws = Val(e.arg_ptr(operands.index("workspace")), POINTER, 1)
        if plan.swap:
            self.rows, self.cols = self.n, self.m
            self.x, self.sx, self.y, self.sy = bb, sb, a, sa
            self.x_row, self.x_step = (ldb, 1) if spec.tb else (1, ldb)
            self.y_turned, self.ldy = not spec.ta, lda
        else:
            self.rows, self.cols = self.m, self.n
            self.x, self.sx, self.y, self.sy = a, sa, bb, sb
            self.x_row, self.x_step = (1, lda) if spec.ta else (lda, 1)
            self.y_turned, self.ldy = spec.tb, ldb

        self.k_up = self.up(self.k, plan.lanes)
        self.cols_up = self.up(self.cols, plan.lanes)
        self.packed_each = b.mul(self.k_up, self.cols_up)

    def up(self, x: Index, to: int) -> Index:
        """x rounded up to a multiple."""
        b = self.b
        return b.mul(b.div(b.add(x, to - 1), to), to)

    def ceil(self, x: Index, by: int) -> Index:
        """x / by, rounded up."""
        return self.b.div(self.b.add(x, by - 1), by)

    def column_segments(self) -> list[Segment]:
        """The panels: units are vectors."""
        b, plan = self.b, self.plan
        w, nv = plan.lanes, plan.nv
        if isinstance(self.cols, Val):
            vectors, whole = self.ceil(self.cols, w), b.div(self.cols, w * nv)
            single = b.div(self.cols, w)
            rest = b.mod(self.cols, w)
            mask = self.e.mask(rest, w)
            full = Segment(nv, 0, whole, 0)
            # the last panel's vectors one by one: "tiles" of one vector, counted on from the last whole panel
            ones = Segment(1, whole, b.add(whole, b.sub(single, b.mul(whole, nv))), b.mul(whole, nv))
            last = Segment(1, ones.hi, b.add(ones.hi, b.sub(vectors, single)), single, mask)
            return [full, *([ones] if nv > 1 else []), last]
        vectors, rest = -(-self.cols // w), self.cols % w
        panels = -(-vectors // nv)
        size, more = divmod(vectors, panels)
        out = []
        if more:
            out.append(Segment(size + 1, 0, more, 0))
        out.append(Segment(size, more, panels, more * (size + 1)))
        if rest:
            tail = out[-1]
            tail.hi = panels - 1
            if not tail.lo < tail.hi:                                              # type: ignore[operator]
                out.pop()
            out.append(Segment(tail.size, panels - 1, panels, vectors - tail.size, self.e.mask(rest, w)))
        return out

    def row_segments(self) -> list[Segment]:
        """The row tiles; a run-time remainder is cut into powers of two."""
        b, mr = self.b, self.plan.mr
        if isinstance(self.rows, Val):
            whole = b.div(self.rows, mr)
            out = [Segment(mr, 0, whole, 0)]
            left, start, tile = b.mod(self.rows, mr), b.mul(whole, mr), whole
            size = 1 << (max(mr - 1, 1).bit_length() - 1)
            while size and mr > 1:
                count = b.div(b.mod(left, 2 * size), size)
                out.append(Segment(size, tile, b.add(tile, count), start))
                tile, start, size = b.add(tile, count), b.add(start, b.mul(count, size)), size // 2
            return out
        if self.plan.swap or self.plan.y == "turned":
            whole, rest = divmod(self.rows, mr)
            return [Segment(mr, 0, whole, 0)] * bool(whole) + [Segment(rest, whole, whole + 1, whole * mr)] * bool(rest)
        tiles = -(-self.rows // mr)
        size, more = divmod(self.rows, tiles)
        return [s for s in (Segment(size + 1, 0, more, 0), Segment(size, more, tiles, more * (size + 1)))
                if s.lo < s.hi]                                                    # type: ignore[operator]

    def share(self, segments: list[Segment], tiles: Index, t: Index, tasks: Index) -> Iterator[tuple[Segment, Index, Index]]:
        """Each segment with the part of it that falls to task ``t`` of ``tasks``. The last task also has the tiles past ``tiles``."""
        b = self.b
        first = b.div(b.mul(tiles, t), tasks)
        end = b.div(b.mul(tiles, b.add(t, 1)), tasks)
        if isinstance(segments[-1].hi, Val):
            is_last = b.less(b.add(t, 1), tasks)
            if isinstance(is_last, Val):
                end = b.value(f"select {is_last.typed}, i64 {end.text if isinstance(end, Val) else end}, i64 {segments[-1].hi.text}",
                              segments[-1].hi.dtype)
            else:
                end = segments[-1].hi
        for s in segments:
            yield s, b.max(s.lo, first), b.min(s.hi, end)


class Product(Frame):
    """The multiplying kernel."""

    def __init__(self, e: Any, operands: tuple[str, ...], spec: GemmSpec, plan: Plan, sizes: Sizes, sink: Sink | None) -> None:
        super().__init__(e, operands, spec, plan, sizes)
        self.sink = sink
        b = self.b
        self.in_c = sink is None and not plan.swap          # partial sums of k lie in C itself
        at: Index = sizes.packed(self.cols, self.k, self.batch, self.up, b.mul)
        self.partial_at = at
        if sizes.partials:
            at = b.add(at, b.mul(b.mul(self.rows, self.cols_up), self.batch))
        self.copy_at = at

    def emit(self) -> None:
        """Write the whole kernel."""
        b, plan = self.b, self.plan
        row_segments, col_segments = self.row_segments(), self.column_segments()
        row_tiles, panels = self._count(row_segments), self._count(col_segments)
        row_tasks = self.sizes.row_tasks(self.rows, self.ceil)
        col_tasks = self.sizes.col_tasks(self.cols, self.ceil)

        def task(t: Index, _: list[Val]) -> list[Val]:
            tc, rest = b.mod(t, col_tasks), b.div(t, col_tasks)
            tr, item = b.mod(rest, row_tasks), b.div(rest, row_tasks)
            if self.spec.batch == 1:
                item = 0
            row_parts = list(self.share(row_segments, row_tiles, tr, row_tasks))
            col_parts = list(self.share(col_segments, panels, tc, col_tasks))
            self.item = item
            self.x_item = b.at(self.x, b.mul(item, self.sx), self.dtype)
            if plan.y == "packed":
                self.y_item = b.at(self.ws, 0 if self.sizes.shared_y else b.mul(item, self.packed_each), self.dtype)
            else:
                self.y_item = b.at(self.y, b.mul(item, self.sy), self.dtype)
            if plan.chunk_outer:
                self.chunks(lambda: self.panels(col_parts, lambda s, v0: self.tiles(row_parts, s, v0)), t, row_parts)
            else:
                self.panels(col_parts, lambda s, v0: self.chunks(lambda: self.tiles(row_parts, s, v0), t, row_parts))
            return []
        b.loop(b.lo, b.hi, 1, [], task)

    def _count(self, segments: list[Segment]) -> Index:
        """Tiles of a side that tasks share: the whole ones where the size is an operand (its rest goes to the last task)."""
        return segments[0].hi if isinstance(segments[-1].hi, Val) else segments[-1].hi

    # ---- the nest ------------------------------------------------------------------------------------------------------------

    def chunks(self, inside: Callable[[], None], t: Index, row_parts: list[tuple[Segment, Index, Index]]) -> None:
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
            if self.plan.copy_x:
                self.copy_rows(t, row_parts)
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

    def tiles(self, parts: list[tuple[Segment, Index, Index]], col: Segment, v0: Index) -> None:
        """Row tiles of one panel in one chunk."""
        b, plan = self.b, self.plan
        w = plan.lanes
        column = b.mul(v0, w)
        if plan.y == "packed":
            step: Index = col.size * w
            start = b.add(b.mul(column, self.k_up), b.mul(self.k0, step))
        else:
            step = self.ldy
            start = b.add(b.mul(self.k0, step), column) if plan.y == "direct" else b.mul(column, step)
        y = Vectors(b.at(self.y_item, start, self.dtype), step)
        for s, lo, hi in parts:
            def tile(t: Index, _: list[Val], s: Segment = s) -> list[Val]:
                row = b.add(s.start, b.mul(b.sub(t, s.lo), s.size))
                self.one_tile(row, s.size, column, col, y)
                return []
            b.loop(lo, hi, 1, [], tile)

    def one_tile(self, row: Index, mr: int, column: Index, col: Segment, y: Vectors) -> None:
        """Start, k loop and end of one register tile."""
        b, plan = self.b, self.plan
        mask = None if plan.y == "packed" else col.mask
        tile = self.start_tile(row, mr, column, col)
        if plan.y == "turned":
            from .turned import multiply_turned
            x = Broadcast(b.at(self.x_item, b.mul(row, self.x_row), self.dtype), self.x_row, self.x_step)
            last = b.add(column, (col.size - 1) * plan.lanes)
            lanes = self.cols % plan.lanes if col.mask is not None and not isinstance(self.cols, Val) else b.min(
                plan.lanes, b.sub(self.cols, last)) if col.mask is not None else plan.lanes
            tile = multiply_turned(b, self.dtype, x, y, self.k, tile, lanes)
        else:
            tile = multiply(b, self.dtype, self.x_tile(row, mr), y, self.kc, tile, mask, plan.unroll, plan.ahead)
        self.end_tile(tile, row, column, col)

    def x_tile(self, row: Index, mr: int) -> Broadcast:
        """Where the rows of a tile lie: in place, or in the task's copy."""
        b, plan = self.b, self.plan
        if not plan.copy_x:
            at = b.add(b.mul(row, self.x_row), b.mul(self.k0, self.x_step))
            return Broadcast(b.at(self.x_item, at, self.dtype), self.x_row, self.x_step)
        assert plan.kc is not None
        ld = plan.kc + plan.lanes
        at = b.mul(b.sub(row, self.first_row), ld)
        if self.x_step == 1:
            return Broadcast(b.at(self.copy, at, self.dtype), ld, 1)
        return Broadcast(b.at(self.copy, at, self.dtype), 1, mr)

    def copy_rows(self, t: Index, parts: list[tuple[Segment, Index, Index]]) -> None:
        """Copy this chunk of the task's rows of x close together: no cache sets or pages are hit too often."""
        b, plan, dtype, w = self.b, self.plan, self.dtype, self.plan.lanes
        assert plan.kc is not None
        self.copy = b.at(self.ws, b.add(self.copy_at, b.mul(t, self.sizes.copy_per_task())), dtype)
        first: Index | None = None
        for s, lo, _ in parts:
            row = b.add(s.start, b.mul(b.sub(lo, s.lo), s.size))
            first = row if first is None else b.min(first, row)
        assert first is not None
        self.first_row = first
        if self.x_step == 1:
            last = first
            for s, _, hi in parts:
                last = b.max(last, b.add(s.start, b.mul(b.sub(b.min(hi, s.hi), s.lo), s.size)))
            self._copy_lines(first, last, plan.kc + w)
            return
        for s, lo, hi in parts:
            def tile(i: Index, _: list[Val], s: Segment = s) -> list[Val]:
                row = b.add(s.start, b.mul(b.sub(i, s.lo), s.size))
                src = b.at(self.x_item, b.add(b.mul(row, self.x_row), b.mul(self.k0, self.x_step)), dtype)
                dst = b.at(self.copy, b.mul(b.sub(row, first), plan.kc + w), dtype)

                def line(k: Index, vals: list[Val]) -> list[Val]:
                    b.store(vals[1], b.load(vals[0], dtype, s.size))
                    return [b.at(vals[0], self.x_step, dtype), b.at(vals[1], s.size, dtype)]
                b.loop(0, self.kc, 1, [src, dst], line)
                return []
            b.loop(lo, hi, 1, [], tile)

    def _copy_lines(self, first: Index, last: Index, ld: int) -> None:
        """Rows ``first`` .. ``last`` - 1 of x, each with k contiguous."""
        b, dtype, w = self.b, self.dtype, self.plan.lanes
        whole = b.sub(self.kc, b.mod(self.kc, w))

        def line(row: Index, _: list[Val]) -> list[Val]:
            p = b.at(self.x_item, b.add(b.mul(row, self.x_row), self.k0), dtype)
            q = b.at(self.copy, b.mul(b.sub(row, first), ld), dtype)

            def move(lanes: int):                                                  # type: ignore[no-untyped-def]
                def run(k: Index, _: list[Val]) -> list[Val]:
                    b.store(b.at(q, k, dtype), b.load(b.at(p, k, dtype), dtype, lanes))
                    return []
                return run
            b.loop(0, whole, w, [], move(w))
            b.loop(whole, self.kc, 1, [], move(1))
            return []
        b.loop(first, last, 1, [], line)

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

    def _read_tile(self, p: Val, ld: Index, mr: int, col: Segment, mask: Val | None) -> list[Val]:
        b, w = self.b, self.plan.lanes
        out = []
        for i in range(mr):
            row = b.at(p, b.mul(i, ld), self.dtype)
            out += [b.load(b.at(row, v * w, self.dtype), self.dtype, w, mask if v == col.size - 1 else None) for v in range(col.size)]
        return out

    def _write_tile(self, tile: list[list[Val]], p: Val, ld: Index, col: Segment, mask: Val | None) -> None:
        b, w = self.b, self.plan.lanes
        for i, regs in enumerate(tile):
            line = b.at(p, b.mul(i, ld), self.dtype)
            for v, x in enumerate(regs):
                b.store(b.at(line, v * w, self.dtype), x, mask if v == col.size - 1 else None)

    def start_tile(self, row: Index, mr: int, column: Index, col: Segment) -> list[list[Val]]:
        """Zeros, C, or the partial sums of the chunks before."""
        b, w = self.b, self.plan.lanes

        def begin() -> list[Val]:
            if self.spec.accumulate:
                return self._read_tile(self._c(row, column), self.ldc, mr, col, col.mask)
            return [b.zero(self.dtype, w)] * (mr * col.size)

        def go_on() -> list[Val]:
            p, ld = self._partial(row, column)
            return self._read_tile(p, ld, mr, col, col.mask if self.in_c else None)
        flat = begin() if self.plan.free else b.branch(self.first, begin, go_on)
        return [flat[i * col.size:(i + 1) * col.size] for i in range(mr)]

    def end_tile(self, tile: list[list[Val]], row: Index, column: Index, col: Segment) -> None:
        """Store partial sums, or hand the finished tile over."""
        b, w = self.b, self.plan.lanes

        if self.plan.free and self.first is not True:
            flat = [x for regs in tile for x in regs]

            def add_up() -> list[Val]:
                p, ld = self._partial(row, column)
                before = self._read_tile(p, ld, len(tile), col, col.mask if self.in_c else None)
                return [self.e.add(x, y) for x, y in zip(before, flat)]
            flat = b.branch(self.first, lambda: flat, add_up)
            tile = [flat[i * col.size:(i + 1) * col.size] for i in range(len(tile))]

        def keep() -> list[Val]:
            p, ld = self._partial(row, column)
            self._write_tile(tile, p, ld, col, col.mask if self.in_c else None)
            return []

        def finish() -> list[Val]:
            if self.plan.swap:
                self.finish_swapped(tile, row, column, col)
            elif self.in_c:
                self._write_tile(tile, self._c(row, column), self.ldc, col, col.mask)
            else:
                for i, regs in enumerate(tile):
                    for v, x in enumerate(regs):
                        self.out(x, b.add(row, i), b.add(column, v * w), col.mask if v == col.size - 1 else None)
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
            self.b.branch(mask, lambda: self.b.store(self._c(row, column), x) or [])
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
                    b.branch(b.less(j, live), lambda vector=vector, at=at: self.out(vector, at, row, mask) or [])   # type: ignore[misc]
                elif j < live:
                    self.out(vector, at, row, mask)


