"""Sizes, strides, addresses and tiles of a product in the roles of its plan."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ...ir.aval import Size
from ..values import Val
from .index import POINTER, Builder, Index
from .plan import PACKED_TILES, Plan
from .spec import CONTIGUOUS, GemmSpec


class Sizes:
    """Formulas of task counts and workspace, for constants and for size expressions alike."""

    def __init__(self, spec: GemmSpec, plan: Plan, folded: bool) -> None:
        self.spec, self.plan, self.folded = spec, plan, folded
        y_stride = spec.sa if plan.swap else spec.sb
        self.shared_y = y_stride == 0 or spec.batch == 1
        self.shared_x = (spec.sb if plan.swap else spec.sa) == 0 or spec.batch == 1
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

    def pack_rows_tasks(self, m: Size, n: Size, k: Size, batch: Size) -> Size:
        """Tasks of the kernel that packs x: groups of row tiles."""
        rows, _, items = self._roles(m, n, batch)
        return (1 if self.shared_x else items) * _ceil(rows, self.plan.mr * PACKED_TILES)

    def stage_per_task(self) -> int:
        """Elements of the panels of y that a task copies close together."""
        p = self.plan
        return p.group * p.nv * p.lanes * (p.kc or self.spec.k or 0) if p.y == "staged" else 0

    # elements of the regions of the workspace, in order: packed y, partial sums, packed x, panels of tasks
    def packed(self, cols: Any, k: Any, items: Any, up: Callable[[Any, int], Any], mul: Callable[[Any, Any], Any]) -> Any:
        """Packed panels of y."""
        if self.plan.y != "packed":
            return 0
        one = mul(up(cols, self.plan.lanes), up(k, self.plan.lanes))
        return one if self.shared_y else mul(one, items)

    def workspace(self, m: Size, n: Size, k: Size, batch: Size) -> Size:
        """Bytes of workspace."""
        rows, cols, items = self._roles(m, n, batch)
        total: Size = self.packed(cols, k, items, _up, lambda a, b: a * b)
        if self.partials:
            total = total + rows * _up(cols, self.plan.lanes) * items
        if self.plan.pack_x:
            total = total + rows * k * (1 if self.shared_x else items)
        if self.plan.y == "staged":
            total = _up(total, self.plan.lanes) + self.tasks(m, n, k, batch) * self.stage_per_task()
        return total * self.spec.dtype.size


def _ceil(x: Any, by: int) -> Any:
    return (x + (by - 1)) // by


def _up(x: Any, to: int) -> Any:
    return _ceil(x, to) * to


class Segment:
    """A run of equal tiles along one side: tiles ``lo`` .. ``hi`` - 1 of ``size`` units, the first at unit ``start``.

    Along the columns units are vectors; the last of a tile may be masked, and narrower than the others.
    """

    def __init__(self, size: int, lo: Index, hi: Index, start: Index, mask: Val | None = None, narrow: int | None = None) -> None:
        self.size, self.lo, self.hi, self.start, self.mask, self.narrow = size, lo, hi, start, mask, narrow

    def vectors(self, lanes: int) -> list[tuple[int, int, Val | None]]:
        """(first lane, lanes, mask) of the vectors of a tile."""
        last = self.size - 1
        return [(v * lanes, (self.narrow or lanes) if v == last else lanes, self.mask if v == last else None)
                for v in range(self.size)]


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
            if fixed != CONTIGUOUS:
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
        self.x_row: Index
        self.x_step: Index
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
        self.rows_each = b.mul(self.rows, self.k)
        at: Index = sizes.packed(self.cols, self.k, self.batch, self.up, b.mul)
        self.partial_at = at
        if sizes.partials:
            at = b.add(at, b.mul(b.mul(self.rows, self.cols_up), self.batch))
        self.rows_at = at
        if plan.pack_x:
            at = b.add(at, b.mul(self.rows_each, 1 if sizes.shared_x else self.batch))
        self.stage_at = self.up(at, plan.lanes)

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
            narrow = w
            while narrow >= 2 * rest and narrow * self.dtype.size > 16 and not plan.swap and plan.y != "turned":
                narrow //= 2
            mask = self.e.mask(rest, narrow) if rest < narrow else None
            out.append(Segment(tail.size, panels - 1, panels, vectors - tail.size, mask, narrow))
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

    def count(self, segments: list[Segment]) -> Index:
        """Tiles of a side that tasks share: the whole ones where the size is an operand (its rest goes to the last task)."""
        return segments[0].hi if isinstance(segments[-1].hi, Val) else segments[-1].hi

    def share(self, segments: list[Segment], tiles: Index, t: Index, tasks: Index, count: Index = 1) -> Iterator[tuple[Segment, Index, Index]]:
        """Each segment with the part of it that falls to ``count`` tasks of ``tasks`` from ``t`` on. The last task also has the tiles past ``tiles``."""
        b = self.b
        first = b.div(b.mul(tiles, t), tasks)
        end = b.div(b.mul(tiles, b.add(t, count)), tasks)
        if isinstance(segments[-1].hi, Val):
            is_last = b.less(b.add(t, count), tasks)
            if isinstance(is_last, Val):
                end = b.value(f"select {is_last.typed}, i64 {end.text if isinstance(end, Val) else end}, i64 {segments[-1].hi.text}",
                              segments[-1].hi.dtype)
            else:
                end = segments[-1].hi
        for s in segments:
            yield s, b.max(s.lo, first), b.min(s.hi, end)
