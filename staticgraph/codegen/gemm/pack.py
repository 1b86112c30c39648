"""The packing kernels: y into panels and x into row tiles, each contiguous in the order in which the multiplying kernel reads it.

The panel that starts at vector v lies at element v * lanes * k_up and has a row of all its vectors for every k. Dead lanes of the last
vector are zero, so that whole vectors can be read. The row tile that starts at row i lies at element i * k and has its rows of every k
next to each other; only an x whose rows are contiguous along the tile, not along k, is packed.
"""

from __future__ import annotations

from ..emitter import Emitter
from ..target import Target
from ..values import Val
from .frame import Frame, Segment, Sizes
from .index import Index
from .plan import PACKED_TILES, Plan
from .spec import GemmKernel, GemmSpec
from .tile import columns, group_of


def pack_kernel(target: Target, operands: tuple[str, ...], spec: GemmSpec, plan: Plan, sizes: Sizes) -> GemmKernel:
    """The kernel that packs y; its tasks are the panels."""
    e = Emitter(target)
    f = Frame(e, operands, spec, plan, sizes)
    b, w, dtype = f.b, plan.lanes, spec.dtype
    segments = f.column_segments()
    panels: Index = f.ceil(f.cols, plan.nv * w)

    def task(t: Index, _: list[Val]) -> list[Val]:
        p, item = (t, 0) if sizes.shared_y else (b.mod(t, panels), b.div(t, panels))
        source = b.at(f.y, b.mul(item, f.sy), dtype)
        target_ = b.at(f.ws, b.mul(item, f.packed_each), dtype)
        for s in segments:
            lo, hi = s.lo, s.hi
            if s is segments[0] or not isinstance(f.cols, Val):
                lo, hi = b.max(lo, p), b.min(hi, b.add(p, 1))
            else:                       # the last panel's vectors, one by one, are its task's
                whole = b.less(p, segments[0].hi)
                assert isinstance(whole, Val) and isinstance(lo, Val) and isinstance(hi, Val)
                hi = b.value(f"select {whole.typed}, {lo.typed}, {hi.typed}", hi.dtype)

            def panel(i: Index, _: list[Val], s: Segment = s) -> list[Val]:
                vector = b.add(s.start, b.mul(b.sub(i, s.lo), s.size))
                column = b.mul(vector, w)
                out = b.at(target_, b.mul(column, f.k_up), dtype)
                if f.y_turned:
                    _turn(f, source, out, column, s)
                else:
                    copy_panels(f, b.at(source, column, dtype), out, f.k, s)
                return []
            b.loop(lo, hi, 1, [], panel)
        return []
    b.loop(b.lo, b.hi, 1, [], task)
    return GemmKernel(e.text(), sizes.pack_tasks, "pack")


def pack_rows(target: Target, operands: tuple[str, ...], spec: GemmSpec, plan: Plan, sizes: Sizes) -> GemmKernel:
    """The kernel that packs x; its tasks are groups of row tiles, read in the order of memory a few k at a time."""
    e = Emitter(target)
    f = Frame(e, operands, spec, plan, sizes)
    b, dtype = f.b, spec.dtype
    assert f.x_row == 1, "rows that are contiguous along k are read in place"
    segments = f.row_segments()
    tiles = f.count(segments)
    groups: Index = f.ceil(f.rows, plan.mr * PACKED_TILES)

    def task(t: Index, _: list[Val]) -> list[Val]:
        group, item = (t, 0) if sizes.shared_x else (b.mod(t, groups), b.div(t, groups))
        source = b.at(f.x, b.mul(item, f.sx), dtype)
        target_ = b.at(f.ws, b.add(f.rows_at, b.mul(item, f.rows_each)), dtype)
        for s, lo, hi in f.share(segments, tiles, group, groups):
            row = b.add(s.start, b.mul(b.sub(lo, s.lo), s.size))
            ends = b.at(source, row, dtype), b.at(target_, b.mul(row, f.k), dtype)

            def steps(count: int, s: Segment = s, lo: Index = lo, hi: Index = hi):  # type: ignore[no-untyped-def]
                def tile(_: Index, vals: list[Val]) -> list[Val]:
                    for u in range(count):
                        x = b.load(b.at(vals[0], b.mul(u, f.x_step), dtype), dtype, s.size)
                        b.store(b.at(vals[1], u * s.size, dtype), x)
                    return [b.at(vals[0], s.size, dtype), b.at(vals[1], b.mul(s.size, f.k), dtype)]

                def run(_: Index, vals: list[Val]) -> list[Val]:
                    b.loop(lo, hi, 1, vals, tile)
                    return [b.at(vals[0], b.mul(count, f.x_step), dtype), b.at(vals[1], count * s.size, dtype)]
                return run
            whole = b.sub(f.k, b.mod(f.k, 8))
            state = b.loop(0, whole, 8, ends, steps(8))
            b.loop(whole, f.k, 1, state, steps(1))
        return []
    b.loop(b.lo, b.hi, 1, [], task)
    return GemmKernel(e.text(), sizes.pack_rows_tasks, "pack")


def copy_panels(f: Frame, source: Val, out: Val, k: Index, s: Segment, count: Index = 1, ahead: int = 0) -> None:
    """Copy ``count`` panels side by side, whose rows start at ``source``, ``source + ldy`` and so on, each to a place of its own.

    A few rows of all panels are read one after the other. ``ahead``: as in ``multiply``.
    """
    b, w, dtype = f.b, f.plan.lanes, f.dtype
    width, one = s.size * w, not isinstance(count, Val) and count == 1

    def lines(rows: int):                                                          # type: ignore[no-untyped-def]
        def panel(_: Index, vals: list[Val]) -> list[Val]:
            p, q = vals
            for u in range(rows):
                row = b.at(p, b.mul(u, f.ldy), dtype)
                if ahead:
                    far = b.at(row, b.mul(ahead, f.ldy), dtype)
                    for v in range(0, width * dtype.size, 64):
                        b.prefetch(b.at(far, v // dtype.size, dtype))
                for at, lanes, mask in s.vectors(w):
                    b.store(b.at(q, u * width + at, dtype), b.load(b.at(row, at, dtype), dtype, lanes, mask))
            return [b.at(p, width, dtype), b.at(q, b.mul(k, width), dtype)]

        def run(_: Index, vals: list[Val]) -> list[Val]:
            b.loop(0, count, 1, vals, panel)
            return [b.at(vals[0], b.mul(rows, f.ldy), dtype), b.at(vals[1], rows * width, dtype)]
        return run
    unroll = 4 if one else 8
    whole = b.sub(k, b.mod(k, unroll))
    state = b.loop(0, whole, unroll, [source, out], lines(unroll))
    b.loop(whole, k, 1, state, lines(1))


def _turn(f, source: Val, out: Val, column: Index, s) -> None:                     # type: ignore[no-untyped-def]
    b, w, dtype = f.b, f.plan.lanes, f.dtype
    group = group_of(dtype, w)
    whole = b.sub(f.k, b.mod(f.k, group))

    def vectors(live: Index):                                                      # type: ignore[no-untyped-def]
        def one(v: Index, _: list[Val]) -> list[Val]:
            start = b.at(source, b.mul(b.add(column, b.mul(v, w)), f.ldy), dtype)
            lane = b.at(out, b.mul(v, w), dtype)

            def block(mask: Val | None):                                           # type: ignore[no-untyped-def]
                def run(k: Index, _: list[Val]) -> list[Val]:
                    at = b.at(lane, b.mul(k, s.size * w), dtype)
                    for q, x in enumerate(columns(b, dtype, b.at(start, k, dtype), f.ldy, w, live, mask)):
                        b.store(b.at(at, q * s.size * w, dtype), x)
                    return []
                return run
            b.loop(0, whole, group, [], block(None))
            if f.k != whole:
                b.loop(whole, f.k, group, [], block(f.e.mask(b.sub(f.k, whole), group)))
            return []
        return one
    partial = s.mask is not None or s.narrow is not None
    b.loop(0, s.size - partial, 1, [], vectors(w))
    if partial:
        vectors(f.cols % w if not isinstance(f.cols, Val) else b.mod(f.cols, w))(s.size - 1, [])
