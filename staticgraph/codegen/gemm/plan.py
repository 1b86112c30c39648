"""The shape policy: roles of the operands, packing, tile, blocks of k and tasks. No choice here changes a bit of the result.

One operand is read an element at a time and broadcast (*x*, rows R of the tile), the other in vectors (*y*, columns V). In the usual
form x is A and y is B; *swapped*, the kernel computes C^T = B^T A^T and transposes each finished tile in registers. y is read where it
lies (``direct``), in panels that a kernel packs before (``packed``), in panels that each task copies when it comes to them (``staged``), or
through a transposition in registers (``turned``: it is stored with k contiguous and there are few rows).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..target import Target
from .spec import GemmSpec

L1 = 32 << 10            # bytes of y that stay in the first-level cache
NEAR = 48 << 10          # bytes of y that many rows read in place
L2 = 320 << 10           # bytes that stay in the second-level cache
PANEL = 128 << 10        # bytes of an unpacked panel of y that several row tiles read
STREAM = 2 << 20         # bytes of y that certainly come from further away: asked for ahead of time
BLOCK = 8 << 20          # bytes of x that the panels of y pass over one after the other
NARROW = 512 << 10       # bytes of x that a task with narrow tiles reads again and again
RUN = 256                # bytes of a row of y that are worth going there for
PACKED_TILES = 16        # row tiles that one task packs
COMPILING = 0.001        # relative price of a register of a tile's code
TYPICAL = 64             # what a run-time size is taken for


@dataclass(frozen=True)
class Plan:
    """A choice for one product; ``kc`` None: k is not cut. ``row_block``/``col_block``: tiles of one task where that size is an
    operand, else ``row_tasks``/``col_tasks`` share the tiles evenly."""

    lanes: int
    swap: bool
    y: str                        # "direct", "packed", "staged", "turned"
    pack_x: bool
    mr: int
    nv: int
    kc: int | None
    chunk_outer: bool
    row_tasks: int
    col_tasks: int
    row_block: int
    col_block: int
    unroll: int
    ahead: int = 0                # steps of k by which y is prefetched
    ask: bool = False             # the next tile's part of C is prefetched
    group: int = 1                # panels that are staged together
    free: bool = False            # only for measuring: chunks of k start from 0 and are added up, so that bits depend on ``kc``


def registers(target: Target) -> int:
    """Vector registers of the processor."""
    return 32 if target.vector_bits == 512 or not target.triple.startswith("x86_64") else 16


def make_plan(spec: GemmSpec, target: Target, sink: bool) -> Plan:
    """The policy for ``spec`` (settled) on ``target``; ``sink``: the caller stores the results itself."""
    dtype = spec.dtype
    lanes = target.lanes(dtype)
    if dtype.kind != "f":
        lanes = min(lanes, 8)
    m, n, k = (TYPICAL if s is None else s for s in (spec.m, spec.n, spec.k))
    few = 12 if registers(target) == 32 else 6
    swap, y = _roles(spec, m, n, k, lanes, few if lanes > 1 else 0)
    rows, cols = (n, m) if swap else (m, n)
    fixed_rows = spec.n if swap else spec.m
    size_y = cols * k * dtype.size
    if y == "direct" and fixed_rows is not None and spec.k is not None:
        # in place, panels would be lines far apart: on pages of their own, and in few sets of a cache where a power of two lies between them
        shared = ((spec.lda if swap else spec.ldb) or 0) * dtype.size % 2048 == 0
        if rows >= 24 and size_y > (NEAR if rows >= 48 else L2 if shared else 2 * STREAM):
            y = "staged"
    elif y == "direct" and rows >= 48 and size_y > (L2 if fixed_rows is not None else 3 * L2):
        y = "packed"              # where the number of rows is an operand it may be small, so that packing must be worth more
    y = "packed" if y == "pack" else y
    big = y == "staged" or (y == "packed" and size_y > L2)
    if y == "turned":
        most = min(few, lanes) if swap else few
        mr = -(-rows // -(-rows // most)) if fixed_rows is not None else most
        # one row is one chain of latencies per vector, so it takes two, unless so many streams from far away would share few sets of a cache
        near = (spec.lda if swap else spec.ldb) or 1
        nv = 2 if mr == 1 and cols > lanes and (near * dtype.size % 1024 or size_y <= STREAM) else 1
    else:
        mr, nv = _tile(rows, -(-cols // lanes), lanes, swap, target, fixed_rows, 8 if big else 14)
    # few rows of a matrix that comes from far away: whole rows of y, in the order of memory
    by_rows = y == "direct" and fixed_rows is not None and rows <= 3 and spec.k is not None and size_y > STREAM // 2
    if by_rows:
        nv = min(nv, 4)
    row_tiles, panels = -(-rows // mr), -(-(-(-cols // lanes)) // nv)
    per_step = nv * lanes * dtype.size
    group = max(1, RUN // per_step) if y == "staged" else 1
    # a narrow tile reads x so often that its rows must come from the second-level cache
    most_rows = math.isqrt(NARROW // dtype.size) if big and not swap and nv <= 2 and panels >= 4 else rows
    kc: int | None = None
    if spec.k is not None and y != "turned":
        if big:
            # a panel that stays in the first-level cache, or is about as large as the part of C that every chunk reads again
            kc = _chunk(spec.k, min(max(L1 // (group * per_step), min(rows, most_rows)), 1024))
        elif by_rows:
            kc = _chunk(spec.k, 8 if ((spec.lda if swap else spec.ldb) or 0) * dtype.size % 2048 == 0 else 16)
        elif row_tiles > 1:
            kc = _chunk(spec.k, max(128, PANEL // per_step))
    # a tile of an x that is not contiguous along k would touch as many lines and pages as it has steps
    pack_x = big and (not spec.tb if swap else spec.ta) and rows * k * dtype.size > L2
    wanted = max(1, min(16, rows * cols * max(k, 1) >> 16))
    col_tasks = min(-(-panels // group), 2 if by_rows else wanted)
    row_tasks = min(row_tiles, -(-wanted // col_tasks), 8)
    if y == "staged":             # every task along the rows copies its panels again
        row_tasks = min(row_tasks, -(-4 // col_tasks), max(1, rows // 96))
    if big:
        row_tasks = min(row_tiles, max(row_tasks, -(-rows * (kc or k) * dtype.size // BLOCK), -(-rows // most_rows)))
    tight = mr * nv * 32 // registers(target)          # unrolled, a large tile spills: loads of the next step move up
    unroll = 4 if tight <= 6 else 2 if tight <= 12 or (registers(target) == 32 and mr * nv + nv <= 28) else 1
    return Plan(lanes, swap, y, pack_x, mr, nv, kc, big or by_rows, row_tasks, col_tasks, max(1, 32 // mr), 4, unroll,
                8 if y in ("direct", "staged") and rows > 4 and size_y > STREAM else 0, big and y != "turned", group)


def _roles(spec: GemmSpec, m: int, n: int, k: int, lanes: int, few: int) -> tuple[bool, str]:
    """Whether to compute C^T, and how y is read."""
    if spec.accumulate or lanes == 1:
        return False, "pack" if spec.tb else "direct"
    if not spec.ta and spec.tb:                     # k is contiguous in both: one of them must be turned
        if spec.m is not None and m <= few + few // 3:
            return False, "turned"
        if spec.n is not None and n <= few:
            return True, "turned"
        return (True, "pack") if m * k + m * n < 0.7 * n * k else (False, "pack")
    if spec.ta and spec.tb:
        return True, "direct"
    if spec.ta:
        return (True, "direct") if spec.n is not None and _waste(n, lanes) > 1.3 * _waste(m, lanes) else (False, "direct")
    if spec.n is not None and n <= few and _waste(n, lanes) > 1.3 * _waste(m, lanes):
        return True, "turned"
    return False, "direct"


def _waste(size: int, lanes: int) -> float:
    """Lanes computed for one used, when vectors run along a side of this size."""
    return -(-size // lanes) * lanes / max(size, 1)


def _tile(rows: int, vectors: int, lanes: int, swap: bool, target: Target, fixed_rows: int | None,
          tallest: int) -> tuple[int, int]:
    """Rows and vectors of the register tile: the cheapest cover of the matrix by tiles that do not spill.

    Each row is a stream of its own for the processor's prefetcher, so that large operands want few (``tallest``).
    """
    available = registers(target)
    most = (26 if available == 32 else 12) if target.fma else 8
    best, cost = (1, 1), float("inf")
    for nv in range(1, 9 if rows < 5 else 5):
        heights = range(1, min(tallest, rows if fixed_rows is not None else tallest) + 1) if not swap else (min(rows, lanes) if fixed_rows is not None else lanes,)
        for mr in heights:
            if mr * nv > most or mr * nv + nv + 1 >= available:
                continue
            if (fixed_rows is None and not swap and mr != (8 if nv <= 3 else 6 if nv == 4 else 4)) and mr < most // nv:
                continue
            tiles, panels = -(-rows // mr), -(-vectors // nv)
            # a tile's step: its products, or its loads, or the latency of its chains; then the price of a tile
            total, code = 0.0, 0
            for count, r in _shares(rows, tiles):
                for number, v in _shares(vectors, panels):
                    total += count * number * max(r * v + 0.5 * r + 0.75 * v, 8)
                    code += r * v
            total *= 1 + COMPILING * code
            if total < cost - 1e-9 or (total < cost + 1e-9 and mr * nv > best[0] * best[1]):
                best, cost = (mr, nv), total
    return best


def _shares(total: int, parts: int) -> list[tuple[int, int]]:
    """How ``total`` falls into even parts: (number of parts, size)."""
    if parts <= 0:
        return []
    size, more = divmod(total, parts)
    return [(c, s) for c, s in ((more, size + 1), (parts - more, size)) if c]


def _chunk(k: int, limit: int) -> int | None:
    """The length of even chunks of k of about ``limit``, a multiple of 4; None: one chunk."""
    if k <= limit * 3 // 2:
        return None
    parts = -(-k // limit)
    return -(-(-(-k // parts)) // 4) * 4
