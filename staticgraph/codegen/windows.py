"""Correlations: sums of products over the strided windows of an image, without a copy of the windows.

For a fixed row of taps the (column, channel) elements of a window are contiguous in a row of the image, so that an output row is a matrix
product whose k runs over a few contiguous segments. The register tile, the panels of weights and the epilogue are those of ``gemm``;
an element is one chain of fused multiply-adds over (tap row, tap column, channel), so its bits depend on that number alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..ir.aval import Size, product
from ..schedule.fuse import Group
from ..schedule.items import Value
from .gemm.build import Product
from .gemm.frame import Segment, Sizes
from .gemm.index import Index
from .gemm.pack import pack_kernel
from .gemm.plan import Plan, registers
from .gemm.spec import GemmSpec
from .gemm.tile import Broadcast, Vectors, multiply
from .kernel import BufferAt, Imm, Kernel, SizeOf
from .matmul import EpilogueEmitter
from .target import Target
from .values import Val

STREAM = 256 << 10       # weights larger than this stay in the second-level cache a panel at a time, for a whole image
TASK = 1 << 20           # multiply-adds that a task should have


@dataclass(frozen=True)
class Geometry:
    """Where the windows of an image [n, height, width, channels] lie."""

    image: tuple[Size, ...]
    out: tuple[Size, ...]                    # [n, height, width, channels] of the result
    ksize: tuple[Size, Size]
    strides: tuple[int, int]
    dilations: tuple[int, int]

    @property
    def line(self) -> Size:
        """Elements of a row of the image."""
        return self.image[2] * self.image[3]

    def taps(self) -> tuple[list[tuple[Size, Size]], Size]:
        """Loops over taps, (count, distance) from the outside in, and the length of the contiguous run inside."""
        rows = (self.ksize[0], self.line * self.dilations[0])
        if self.dilations[1] == 1:
            return [rows], self.ksize[1] * self.image[3]
        return [rows, (self.ksize[1], self.image[3] * self.dilations[1])], self.image[3]


def correlation_kernels(group: Group, target: Target) -> list[Kernel]:
    """The kernels of a group around a ``correlate`` item."""
    core = group.items[0]
    if core.node.op.lower.weights:
        from .window_weights import weight_kernels
        return weight_kernels(group, target)
    x, w = core.operands
    node = core.node
    g = Geometry(x.shape, core.shape, (w.shape[0], w.shape[1]), node.attr("strides"), node.attr("dilations"))
    n, oh, ow, co = core.shape
    k = product(w.shape[:3])
    sizes: dict[str, Size] = {"m": ow, "n": co, "k": k, "batch": n * oh, "lda": g.strides[1] * x.shape[3], "ldb": co, "ldc": co,
                              "sa": 0, "sb": 0, "sc": ow * co}
    dtype = core.value.aval.dtype
    spec = GemmSpec(dtype, **{s: v if isinstance(v, int) else None for s, v in sizes.items()})
    plan = _plan(spec, target)
    formulas = Sizes(spec, plan, False)
    workspace = Value(core, -1, core.value.aval)
    need = formulas.workspace(ow, co, k, n * oh)
    plain = len(group.items) == 1
    fixed = {"a": BufferAt(x.base, x.offset), "b": BufferAt(w.base, w.offset), "c": BufferAt(core.value) if core.value.buffer is not None else Imm(0),
             "workspace": BufferAt(workspace) if need != 0 else Imm(0)}
    operands: list[Any] = [fixed[o] if o in fixed else SizeOf(sizes[o]) for o in spec.operands]
    rows = _task_rows(g, k, plan.y == "direct" and _small(k * co * dtype.size if isinstance(k * co, int) else None))
    out: list[Kernel] = []
    scratch = []
    if need != 0:
        from ..dtypes import uint8
        workspace.aval = core.value.aval.with_shape((need,)).with_dtype(uint8)
        scratch.append(workspace)
    work = product((n, oh, ow, co, k)) * 2
    reads = list({v.base for i in group.items for v in i.operands if v.base.item.group is not group})
    writes = [i.value for i in group.items if i.value.buffer is not None]
    if plan.y == "packed":
        packing = pack_kernel(target, spec.operands, spec, plan, formulas)
        out.append(Kernel(packing.text, operands, packing.tasks(ow, co, k, n * oh), k * co, [w.base], [], "pack of weights", scratch, [core]))
    e = EpilogueEmitter(target, group, operands, spec)
    Correlation(e, spec, plan, formulas, g, rows, plain).emit()
    out.append(Kernel(e.text(), e.operands, n * _ceil(oh, rows) * plan.col_tasks, work, reads, writes,
                      "correlate: " + "+".join(i.node.op.name for i in group.items), scratch, list(group.items), e.guarded))
    return out


def _ceil(a: Size, b: Size) -> Size:
    return (a + (b - 1)) // b if isinstance(b, int) else 1


def _small(size: int | None) -> bool:
    return size is not None and size <= STREAM


def _plan(spec: GemmSpec, target: Target) -> Plan:
    """Tile, packing and tasks along the channels."""
    lanes = narrow_lanes(spec.n, target.lanes(spec.dtype))
    m, n = (64 if s is None else s for s in (spec.m, spec.n))
    mr, nv = tile(m, -(-n // lanes), target)
    panels = -(-(-(-n // lanes)) // nv)
    packed = panels > 1 and (spec.n is None or spec.n * spec.dtype.size >= 1024)
    tight = mr * nv * 32 // registers(target)
    unroll = 4 if tight <= 6 else 2 if tight <= 12 else 1
    streamed = not _small(spec.k * spec.n * spec.dtype.size if spec.k is not None and spec.n is not None else None)
    col_tasks = min(panels, 4) if streamed and spec.n is not None else 1
    return Plan(lanes, False, "packed" if packed else "direct", False, mr, nv, None, False, 1, col_tasks, 32, 4, unroll)


def narrow_lanes(channels: Size | None, lanes: int) -> int:
    """The vector length for so many channels: few waste less of narrower registers."""
    while isinstance(channels, int) and lanes > 4 and channels <= lanes // 2:
        lanes //= 2
    return lanes


def tile(rows: int, vectors: int, target: Target) -> tuple[int, int]:
    """Rows and vectors of the register tile that covers ``rows`` by ``vectors`` in the fewest steps without spilling."""
    most = 26 if registers(target) == 32 else 12
    best, cost = (1, 1), float("inf")
    for nv in range(1, min(vectors, 4) + 1):
        for mr in range(1, min(rows, 14, most // nv) + 1):
            # a step is bound by its products, its loads, or the latency of its chains
            steps = sum(count * number * (max(r * v, 0.75 * (r + v), 8) + 1)
                        for count, r in _shares(rows, -(-rows // mr)) for number, v in _shares(vectors, -(-vectors // nv)))
            if steps < cost - 1e-9:
                best, cost = (mr, nv), steps
    return best


def _shares(total: int, parts: int) -> list[tuple[int, int]]:
    """How ``total`` falls into even parts: (number of parts, size)."""
    size, more = divmod(total, parts)
    return [(c, s) for c, s in ((more, size + 1), (parts - more, size)) if c]


def _task_rows(g: Geometry, k: Size, small: bool) -> Size:
    """Output rows of one task: a whole image where the weights are large, else a few rows."""
    _n, oh, ow, co = g.out
    if not small or not isinstance(oh, int):
        return oh if isinstance(oh, int) else 8
    each = product((ow, co, k))
    return oh if not isinstance(each, int) else max(1, min(oh, -(-TASK // max(each, 1))))


class Correlation(Product):
    """The multiplying kernel: a task has some output rows of an image, and all of its panels (or a share of them)."""

    def __init__(self, e: EpilogueEmitter, spec: GemmSpec, plan: Plan, sizes: Sizes, g: Geometry, rows: Size, plain: bool) -> None:
        super().__init__(e, spec.operands, spec, plan, sizes, None if plain else _sink)
        self.g, self.task_rows = g, rows
        taps, run = g.taps()
        self.taps = [(e.size(count), e.size(distance)) for count, distance in taps]
        self.run = e.size(run)
        self.first = self.final = True
        self.k0 = 0

    def emit(self) -> None:
        """Write the whole kernel."""
        b, e, g = self.b, self.e, self.g
        row_parts = [(s, s.lo, s.hi) for s in self.row_segments()]
        col_segments = self.column_segments()
        panels, col_tasks = self.count(col_segments), self.plan.col_tasks
        oh, blocks, many = e.size(g.out[1]), e.size(_ceil(g.out[1], self.task_rows)), e.size(self.task_rows)
        line, image_size = e.size(g.line * g.strides[0]), e.size(g.image[1] * g.line)
        self.y_item = self.ws if self.plan.y == "packed" else self.y

        def task(t: Index, _: list[Val]) -> list[Val]:
            tc, rest = b.mod(t, col_tasks), b.div(t, col_tasks)
            block, image = b.mod(rest, blocks), b.div(rest, blocks)
            top = b.mul(block, many)
            bottom = b.min(oh, b.add(top, many))
            source = b.at(self.x, b.mul(image, image_size), self.dtype)

            def panel(s: Segment, v0: Index) -> None:
                def row(y: Index, _: list[Val]) -> list[Val]:
                    self.where = [image, y]
                    self.x_item = b.at(source, b.mul(y, line), self.dtype)
                    self.c_line = b.at(self.c, b.mul(b.add(b.mul(image, oh), y), self.sc), self.dtype)
                    self.tiles(row_parts, s, v0)
                    return []
                b.loop(top, bottom, 1, [], row)
            self.panels(list(self.share(col_segments, panels, tc, col_tasks)), panel)
            return []
        b.loop(b.lo, b.hi, 1, [], task)

    def one_tile(self, row: Index, mr: int, column: Index, col: Segment, y: Vectors) -> None:
        """One tile: the taps' segments one after the other."""
        b = self.b
        mask = None if self.plan.y == "packed" else col.mask
        size = col.size

        def level(depth: int, pointer: Val, yp: Val, acc: list[Val]) -> tuple[Val, list[Val]]:
            if depth == len(self.taps):
                tile = [acc[i * size:(i + 1) * size] for i in range(mr)]
                done = multiply(b, self.dtype, Broadcast(pointer, self.x_row, 1), Vectors(yp, y.step), self.run, tile, mask, self.plan.unroll)
                return b.at(yp, b.mul(self.run, y.step), self.dtype), [v for r in done for v in r]
            count, distance = self.taps[depth]

            def tap(_: Index, vals: list[Val]) -> list[Val]:
                after, new = level(depth + 1, vals[0], vals[1], vals[2:])
                return [b.at(vals[0], distance, self.dtype), after, *new]
            out = b.loop(0, count, 1, [pointer, yp, *acc], tap)
            return out[1], out[2:]
        start = self.start_tile(row, mr, column, col)
        _, acc = level(0, b.at(self.x_item, b.mul(row, self.x_row), self.dtype), y.pointer, [v for r in start for v in r])
        self.end_tile([acc[i * size:(i + 1) * size] for i in range(mr)], row, column, col)

    def _c(self, row: Index, column: Index) -> Val:
        return self.b.at(self.c_line, self.b.add(self.b.mul(row, self.ldc), column), self.dtype)

    def out(self, x: Val, row: Index, column: Index, mask: Val | None) -> None:
        """One vector of the result is finished."""
        if self.sink is not None:
            self.e.finish(x, [*self.where, row, column], x.lanes, mask)
        else:
            super().out(x, row, column, mask)


def _sink(*_: Any) -> None:
    """Finished vectors go to the epilogue through ``Correlation.out``."""
