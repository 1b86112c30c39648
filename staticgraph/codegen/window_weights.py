"""The weights' cotangent of a correlation: for each tap and input channel, a sum over all pixels of image elements times cotangents.

The image is not copied: the rows of the register tile are neighbouring (tap column, channel) elements of a window, or those of several tap
rows where these are few; its columns are output channels. Pixels are taken in order, a block of image rows at a time for all tiles of a
task, so an element is one chain of fused multiply-adds over (batch, height, width).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..ir.aval import Size, product
from ..schedule.fuse import Group
from ..schedule.items import Value
from .gemm.frame import Frame, Segment, Sizes
from .gemm.index import Index
from .gemm.plan import Plan
from .gemm.spec import GemmSpec
from .kernel import BufferAt, Imm, Kernel, SizeOf
from .matmul import EpilogueEmitter
from .target import Target
from .values import Val
from .windows import Geometry, narrow_lanes, tile

PIXELS = 256             # pixels of a block: their cotangents stay in the first- or second-level cache
TASK = 1 << 22           # multiply-adds that a task should have
UNROLL = 2


def weight_kernels(group: Group, target: Target) -> list[Kernel]:
    """The kernel of a group around a ``correlate_weights`` item."""
    core = group.items[0]
    x, ct = core.operands
    node = core.node
    kh, kw, ci, co = core.shape
    g = Geometry(x.shape, ct.shape, (kh, kw), node.attr("strides"), node.attr("dilations"))
    taps, run = g.taps()
    dtype = core.value.aval.dtype
    lanes = narrow_lanes(co, target.lanes(dtype))
    vectors = -(-(co if isinstance(co, int) else 64) // lanes)
    mr, nv = tile(run if isinstance(run, int) else 64, vectors, target)
    together = len(taps) == 1 and isinstance(run, int) and isinstance(kh, int) and isinstance(g.line, int) and 2 * run * nv <= 26 and mr == run
    rows: Size = run
    if together:                             # several tap rows make one tile
        assert isinstance(run, int)
        mr, rows = min(kh, 26 // (run * nv)), kh
    pixels = product(ct.shape[:3])
    sizes: dict[str, Size] = {"m": rows, "n": co, "k": pixels, "batch": 1, "lda": 1, "ldb": co, "ldc": co, "sa": 0, "sb": 0, "sc": 0}
    spec = GemmSpec(dtype, **{s: v if isinstance(v, int) else None for s, v in sizes.items()})
    plan = Plan(lanes, False, "direct", False, mr, nv, None, False, 1, 1, 1, 1, UNROLL)
    plain = len(group.items) == 1
    c = core.value if core.value.buffer is not None else Value(core, -2, core.value.aval)
    fixed: dict[str, Any] = {"a": BufferAt(x.base, x.offset), "b": BufferAt(ct.base, ct.offset), "c": BufferAt(c), "workspace": Imm(0)}
    operands: list[Any] = [fixed[o] if o in fixed else SizeOf(sizes[o]) for o in spec.operands]
    e = EpilogueEmitter(target, group, operands, spec)
    work = product((pixels, kh, kw, ci, co))
    tasks = max(1, min(8, work // TASK)) if isinstance(work, int) else 4
    WeightGradient(e, spec, plan, g, together, tasks, plain).emit()
    reads = list({v.base for i in group.items for v in i.operands if v.base.item.group is not group})
    writes = [i.value for i in group.items if i.value.buffer is not None]
    return [Kernel(e.text(), e.operands, tasks, work * 2, reads, writes, "correlate_weights: " + "+".join(i.node.op.name for i in group.items),
                   [] if c is core.value else [c], list(group.items), e.guarded)]


class WeightGradient(Frame):
    """The kernel: a task has a share of the tiles."""

    def __init__(self, e: EpilogueEmitter, spec: GemmSpec, plan: Plan, g: Geometry, together: bool, tasks: int, plain: bool) -> None:
        super().__init__(e, spec.operands, spec, plan, Sizes(spec, plan, False))
        self.g, self.together, self.tasks, self.plain = g, together, tasks, plain
        taps, run = g.taps()
        self.taps = [(e.size(count), e.size(distance)) for count, distance in taps]
        self.run = e.size(run)

    def emit(self) -> None:
        """Write the whole kernel."""
        b, e, g = self.b, self.e, self.g
        images, oh, ow = (e.size(s) for s in g.out[:3])
        wide = g.out[2] if isinstance(g.out[2], int) else 16
        many = max(1, PIXELS // max(wide, 1))
        blocks = b.div(b.add(oh, many - 1), many)
        line, image_size = e.size(g.line * g.strides[0]), e.size(g.image[1] * g.line)
        step = e.size(g.image[3] * g.strides[1])
        columns = self.column_segments()

        def task(t: Index, _: list[Val]) -> list[Val]:
            self.each_tile(columns, t, self.clear)

            def block(q: Index, _: list[Val]) -> list[Val]:
                image, top = b.div(q, blocks), b.mul(b.mod(q, blocks), many)
                bottom = b.min(oh, b.add(top, many))
                first = b.mul(b.add(b.mul(image, oh), top), ow)
                x = b.at(self.x, b.add(b.mul(image, image_size), b.mul(top, line)), self.dtype)
                y = b.at(self.y, b.mul(first, self.ldy), self.dtype)
                count = b.sub(bottom, top)
                self.each_tile(columns, t, lambda *a: self.accumulate(x, y, (count, line), (ow, step), *a))
                return []
            b.loop(0, b.mul(images, blocks), 1, [], block)
            if not self.plain:
                self.each_tile(columns, t, self.finish)
            return []
        b.loop(b.lo, b.hi, 1, [], task)

    def each_tile(self, columns: list[Segment], t: Index, do: Callable[..., None]) -> None:
        """``do(offset in a window, offsets of the tile's rows, first row, column, segment)`` for each tile of task ``t``."""
        b, w = self.b, self.plan.lanes
        for s in self.row_segments():
            count = b.sub(s.hi, s.lo)
            total = count if self.together else self._times(count)
            lo, hi = b.div(b.mul(total, t), self.tasks), b.div(b.mul(total, b.add(t, 1)), self.tasks)

            def one(q: Index, _: list[Val], s: Segment = s, count: Index = count) -> list[Val]:
                if self.together:
                    assert isinstance(self.run, int) and isinstance(self.taps[0][1], int)
                    tap = b.add(s.start, b.mul(q, s.size))
                    at, row = b.mul(tap, self.taps[0][1]), b.mul(tap, self.run)
                    offsets = [a * self.taps[0][1] + i for a in range(s.size) for i in range(self.run)]
                else:
                    tap, inside = b.div(q, count), b.add(s.start, b.mul(b.mod(q, count), s.size))
                    row = b.add(b.mul(tap, self.run), inside)
                    at = inside
                    for n, distance in reversed(self.taps):
                        at = b.add(at, b.mul(b.mod(tap, n), distance))
                        tap = b.div(tap, n)
                    offsets = list(range(s.size))
                for c in columns:
                    def panel(p: Index, _: list[Val], c: Segment = c) -> list[Val]:
                        do(at, offsets, row, b.mul(b.add(c.start, b.mul(b.sub(p, c.lo), c.size)), w), c)
                        return []
                    b.loop(c.lo, c.hi, 1, [], panel)
                return []
            b.loop(lo, hi, 1, [], one)

    def _times(self, count: Index) -> Index:
        for n, _ in self.taps:
            count = self.b.mul(count, n)
        return count

    def _line(self, row: Index, column: Index) -> Val:
        return self.b.at(self.c, self.b.add(self.b.mul(row, self.ldc), column), self.dtype)

    def _read(self, rows: int, row: Index, column: Index, c: Segment) -> list[Val]:
        b = self.b
        lines = [b.at(self._line(row, column), b.mul(i, self.ldc), self.dtype) for i in range(rows)]
        return [b.load(b.at(p, at, self.dtype), self.dtype, lanes, mask) for p in lines for at, lanes, mask in c.vectors(self.plan.lanes)]

    def _write(self, values: list[Val], rows: int, row: Index, column: Index, c: Segment) -> None:
        b, left = self.b, iter(values)
        for i in range(rows):
            p = b.at(self._line(row, column), b.mul(i, self.ldc), self.dtype)
            for at, _, mask in c.vectors(self.plan.lanes):
                b.store(b.at(p, at, self.dtype), next(left), mask)

    def clear(self, _: Index, offsets: list[int], row: Index, column: Index, c: Segment) -> None:
        """Start a tile from 0."""
        zeros = [self.b.zero(self.dtype, lanes) for _, lanes, _ in c.vectors(self.plan.lanes)] * len(offsets)
        self._write(zeros, len(offsets), row, column, c)

    def accumulate(self, x: Val, y: Val, lines: tuple[Index, Index], pixels: tuple[Index, Index], at: Index, offsets: list[int], row: Index,
                   column: Index, c: Segment) -> None:
        """Add a block of pixels to a tile."""
        b, dtype, nv = self.b, self.dtype, c.size
        places = c.vectors(self.plan.lanes)

        def steps(count: int, xp: Val, yp: Val, acc: list[Val]) -> list[Val]:
            acc = list(acc)
            for u in range(count):
                cts = b.at(yp, b.mul(u, self.ldy), dtype)
                ys = [b.load(b.at(cts, v, dtype), dtype, lanes, mask) for v, lanes, mask in places]
                window = b.at(xp, b.mul(u, pixels[1]), dtype)
                for i, offset in enumerate(offsets):
                    one = b.load(b.at(window, offset, dtype), dtype)
                    for v, z in enumerate(ys):
                        acc[i * nv + v] = b.fma(b.e.splat(one, z.lanes), z, acc[i * nv + v])
            return acc

        def pixel(count: int) -> Any:
            def body(_: Index, vals: list[Val]) -> list[Val]:
                xp, yp, *acc = vals
                new = steps(count, xp, yp, acc)
                return [b.at(xp, b.mul(count, pixels[1]), dtype), b.at(yp, b.mul(count, self.ldy), dtype), *new]
            return body

        def line(_: Index, vals: list[Val]) -> list[Val]:
            xp, *rest = vals
            unroll = UNROLL if len(offsets) * nv <= 12 else 1
            whole = b.sub(pixels[0], b.mod(pixels[0], unroll))
            state = b.loop(0, whole, unroll, [xp, *rest], pixel(unroll))
            state = b.loop(whole, pixels[0], 1, state, pixel(1))
            return [b.at(xp, lines[1], dtype), *state[1:]]
        start = [b.at(x, at, dtype), b.at(y, column, dtype), *self._read(len(offsets), row, column, c)]
        done = b.loop(0, lines[0], 1, start, line)
        self._write(done[2:], len(offsets), row, column, c)

    def finish(self, _: Index, offsets: list[int], row: Index, column: Index, c: Segment) -> None:
        """Hand a finished tile to the epilogue."""
        b, e = self.b, self.e
        kh, kw, ci, _co = (e.size(s) for s in (*self.g.ksize, self.g.image[3], self.g.out[3]))
        del kh
        left = iter(self._read(len(offsets), row, column, c))
        for i in range(len(offsets)):
            flat = b.add(row, i)
            tap = b.div(flat, ci)
            for at, lanes, mask in c.vectors(self.plan.lanes):
                e.finish(next(left), [b.div(tap, kw), b.mod(tap, kw), b.mod(flat, ci), b.add(column, at)], lanes, mask)
