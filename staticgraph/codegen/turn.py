"""Copies that turn an axis: the source is contiguous along another axis than the result. Square blocks are transposed in registers, so that
every cache line is read and written once."""

from __future__ import annotations

from ..ir.aval import Size, product
from ..schedule.items import Item, turned_axes
from .gemm.index import POINTER, Builder, Index
from .gemm.tile import transpose
from .kernel import Kernel, KernelEmitter
from .target import Target
from .values import Val

BLOCKS = 4               # blocks along the source's contiguous axis that a task has


def turn_kernel(item: Item, target: Target) -> Kernel:
    """The kernel of a "turn" item: its operand's view, made contiguous."""
    (view,) = item.operands
    found = turned_axes(view)
    assert found is not None
    sizes, source, dest, across = found
    dtype = view.base.aval.dtype
    n, m = sizes[across], sizes[-1]          # the axes contiguous in the source and in the result
    assert isinstance(n, int) and isinstance(m, int)
    lanes = min(target.lanes(dtype), 1 << (n - 1).bit_length())
    rows = min(lanes, 1 << (m - 1).bit_length())
    outer = [k for k in range(len(sizes) - 1) if k != across]
    pieces = -(-n // (lanes * BLOCKS))
    e = KernelEmitter(target)
    b = Builder(e)
    x, y = Val(e.pointer(view.base, view.offset), POINTER, 1), Val(e.pointer(item.value), POINTER, 1)
    row_distance, line = e.size(source[-1]), e.size(dest[across])
    counts = [e.size(sizes[k]) for k in outer]
    from_, to = [e.size(source[k]) for k in outer], [e.size(dest[k]) for k in outer]
    rest_n, rest_m = n % lanes, m % rows
    mask_n = e.mask(rest_n, lanes) if rest_n else None
    mask_m = e.mask(rest_m, rows) if rest_m else None

    def block(p: Val, q: Val, wide: int, high: int) -> None:
        """``high`` elements of the result's axis, ``wide`` of the source's."""
        zero = b.zero(dtype, lanes)
        regs = [b.load(b.at(p, b.mul(i, row_distance), dtype), dtype, lanes, mask_n if wide < lanes else None) if i < high else zero for i in range(rows)]
        for j, column in enumerate(transpose(b, regs)[:wide]):
            at = b.at(q, b.mul(j, line), dtype)
            if rows == 1 or high == rows:
                b.store(at, column)
            else:
                b.store(at, column, mask_m)

    def strip(p: Val, q: Val, wide: int) -> None:
        """All of the result's axis."""
        def step(i: Index, _: list[Val]) -> list[Val]:
            block(b.at(p, b.mul(i, row_distance), dtype), b.at(q, i, dtype), wide, rows)
            return []
        whole = m - rest_m
        b.loop(0, whole, rows, [], step)
        if rest_m:
            block(b.at(p, b.mul(whole, row_distance), dtype), b.at(q, whole, dtype), wide, rest_m)

    def task(t: Index, _: list[Val]) -> list[Val]:
        piece, place = b.mod(t, pieces), e.split(b.div(t, pieces), counts)
        p, q = b.at(x, e.dot(place, from_), dtype), b.at(y, e.dot(place, to), dtype)
        first = b.mul(piece, lanes * BLOCKS)
        last = b.min(n, b.add(first, lanes * BLOCKS))

        def step(j: Index, _: list[Val]) -> list[Val]:
            strip(b.at(p, j, dtype), b.at(q, b.mul(j, line), dtype), lanes)
            return []
        whole = b.min(last, n - rest_n)
        b.loop(first, whole, lanes, [], step)
        if rest_n:
            def tail() -> list[Val]:
                strip(b.at(p, n - rest_n, dtype), b.at(q, b.mul(n - rest_n, line), dtype), rest_n)
                return []
            b.branch(b.less(n - 1, b.add(first, lanes * BLOCKS)), tail)
        return []
    b.loop(b.lo, b.hi, 1, [], task)
    tasks: Size = product(sizes[k] for k in outer) * pieces
    return Kernel(e.text(), e.operands, tasks, product(sizes) * 4, [view.base], [item.value], "turn", [], [item])
