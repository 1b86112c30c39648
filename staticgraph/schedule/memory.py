"""One arena from lifetimes: static sizes by best fit, run-time sizes by shared slots.

With constant sizes a buffer gets the tightest hole that no overlapping lifetime holds. With run-time sizes buffers share a slot when one
dies before the next is born and both have the same size expression; offsets are then sums of slot sizes, computed by the run.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from ..ir.aval import Dim, Size
from .steps import Buffer

ALIGN = 64


@dataclass
class Arena:
    """The layout: total bytes, and each buffer's offset (in ``Buffer.offset``)."""

    bytes: Size = 0
    buffers: list[Buffer] = field(default_factory=list)

    def chart(self, width: int = 72) -> str:
        """Lifetimes as text: one line per buffer, steps from left to right."""
        steps = max((b.last for b in self.buffers), default=0) + 1
        rows = []
        for b in sorted(self.buffers, key=lambda b: (b.first, str(b.offset))):
            start, stop = b.first * width // steps, max(b.first * width // steps + 1, (b.last + 1) * width // steps)
            rows.append(f"{b.offset!s:>12} {b.bytes!s:>12}  " + " " * start + "#" * (stop - start) + " " * (width - stop) + f"  {b.name}")
        return "\n".join(rows)


def rounded(size: Size) -> Size:
    """Up to a whole number of cache lines."""
    return (size + (ALIGN - 1)) // ALIGN * ALIGN


def plan(buffers: Iterable[Buffer]) -> Arena:
    """Lay out arena buffers whose lifetimes are known."""
    live = [b for b in buffers if b.space == "ws" and b.first >= 0]
    static = [b for b in live if not isinstance(b.bytes, Dim)]
    dynamic = [b for b in live if isinstance(b.bytes, Dim)]
    top = _best_fit(static)
    total: Size = top
    slots: dict[Size, list[tuple[int, Size]]] = {}
    for b in sorted(dynamic, key=lambda b: b.first):
        size = rounded(b.bytes)
        free = slots.setdefault(size, [])
        for k, (last, offset) in enumerate(free):
            if last < b.first:
                b.offset = offset
                free[k] = (b.last, offset)
                break
        else:
            b.offset = total
            free.append((b.last, total))
            total = total + size
    return Arena(total, live)


def _best_fit(buffers: list[Buffer]) -> int:
    top = 0
    order = sorted(buffers, key=lambda b: (-int(b.bytes), b.first))          # type: ignore[arg-type]   # the largest first
    if len(order) > 3000:
        order = sorted(buffers, key=lambda b: b.first)
        return _first_fit_in_time(order)
    # of the buffers placed so far: offset, end, first and last step
    placed = np.empty((4, len(order)), np.int64)
    for n, b in enumerate(order):
        size = int(rounded(b.bytes))                                         # type: ignore[arg-type]
        offsets, ends, first, last = placed[:, :n]
        at = np.flatnonzero((first <= b.last) & (last >= b.first))
        at = at[np.argsort(offsets[at], kind="stable")]
        free = np.maximum.accumulate(np.concatenate([[0], ends[at]]))        # where each hole starts; the last one is endless
        holes = offsets[at] - free[:-1]
        fits = np.flatnonzero(holes >= size)
        b.offset = int(free[fits[holes[fits].argmin()]] if len(fits) else free[-1])
        placed[:, n] = b.offset, b.offset + size, b.first, b.last
        top = max(top, b.offset + size)
    return top


def _first_fit_in_time(order: list[Buffer]) -> int:
    """Linear-ish layout for very large graphs: free lists by size, walked in time."""
    free: dict[int, list[int]] = {}
    ends: list[tuple[int, int, int]] = []
    import heapq
    top = 0
    for b in order:
        while ends and ends[0][0] < b.first:
            _, offset, size = heapq.heappop(ends)
            free.setdefault(size, []).append(offset)
        size = int(rounded(b.bytes))                                         # type: ignore[arg-type]
        if free.get(size):
            b.offset = free[size].pop()
        else:
            b.offset = top
            top += size
        heapq.heappush(ends, (b.last, b.offset, size))
    return top
