"""Register tiles: the loop over k of one tile of C, and transposition of registers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...dtypes import DType
from ..values import Val
from .index import Builder, Index

GROUP = 3            # rows addressed from one pointer where their distance is not a constant: x, x + s, x + 2 s


@dataclass(frozen=True)
class Broadcast:
    """The operand read one element at a time: element (row i, step k) is ``pointer[i * row + k * step]``."""

    pointer: Val
    row: Index
    step: Index


@dataclass(frozen=True)
class Vectors:
    """The operand read in vectors along the columns: step k starts at ``pointer[k * step]``."""

    pointer: Val
    step: Index


def multiply(b: Builder, dtype: DType, x: Broadcast, y: Vectors, kc: Index, tile: list[list[Val]], last: Val | None,
             unroll: int, ahead: int = 0, x_ahead: int = 0) -> list[list[Val]]:
    """``tile[i][v] += x[i, k] * y[k, v]`` for k in order, one fused multiply-add each; ``last`` masks the last vector,
    which may be narrower than the others.

    ``ahead`` > 0 prefetches y that many steps ahead, ``x_ahead`` > 0 the rows of a packed x.
    """
    mr, nv, lanes = len(tile), len(tile[0]), tile[0][0].lanes
    split = isinstance(x.row, Val)
    groups = -(-mr // GROUP) if split else 1

    def steps(count: int, bases: list[Val], yp: Val, acc: list[Val]) -> list[Val]:
        acc = list(acc)
        for u in range(count):
            row = b.at(yp, b.mul(u, y.step), dtype)
            ys = [b.load(b.at(row, v * lanes, dtype), dtype, z.lanes, last if v == nv - 1 else None) for v, z in enumerate(tile[0])]
            if ahead:
                far = b.at(row, b.mul(ahead, y.step), dtype)
                for v in range(0, nv * lanes * dtype.size, 64):
                    b.prefetch(b.at(far, v // dtype.size, dtype))
            column = None if split else b.at(bases[0], b.mul(u, x.step), dtype)
            if x_ahead and column is not None:
                b.prefetch(b.at(column, b.mul(x_ahead, x.step), dtype))
            for i in range(mr):
                if column is None:
                    where = b.at(b.at(bases[i // GROUP], b.mul(i % GROUP, x.row), dtype), b.mul(u, x.step), dtype)
                else:
                    where = b.at(column, b.mul(i, x.row), dtype)
                one = b.load(where, dtype)
                xs = {lanes: b.e.splat(one, lanes)}
                for z in tile[0][1:]:               # a narrower last vector takes the low lanes of the same register
                    if z.lanes not in xs:
                        xs[z.lanes] = b.e.shuffle(xs[lanes], None, range(z.lanes)) if z.lanes > 1 else one
                for v in range(nv):
                    acc[i * nv + v] = b.fma(xs[ys[v].lanes], ys[v], acc[i * nv + v])
        return acc

    def advance(count: int, bases: list[Val], yp: Val) -> list[Val]:
        return [*(b.at(p, b.mul(count, x.step), dtype) for p in bases), b.at(yp, b.mul(count, y.step), dtype)]

    def body(count: int):                                                          # type: ignore[no-untyped-def]
        def run(_: Index, vals: list[Val]) -> list[Val]:
            bases, yp, acc = vals[:groups], vals[groups], vals[groups + 1:]
            out = steps(count, bases, yp, acc)
            return [*advance(count, bases, yp), *out]
        return run

    bases = [b.at(x.pointer, b.mul(g * GROUP, x.row), dtype) for g in range(groups)]
    acc = [v for row in tile for v in row]
    state = [*bases, y.pointer, *acc]
    if not isinstance(kc, Val) and (kc <= unroll or kc * mr * nv <= 64):
        acc = steps(kc, bases, y.pointer, acc)
    else:
        whole = b.sub(kc, b.mod(kc, unroll))
        state = b.loop(0, whole, unroll, state, body(unroll))
        state = b.loop(whole, kc, 1, state, body(1))
        acc = state[groups + 1:]
    return [acc[i * nv:(i + 1) * nv] for i in range(mr)]


def transpose(b: Builder, rows: Sequence[Val]) -> list[Val]:
    """The transpose of R registers of L lanes (powers of two, R <= L): L vectors of R lanes.

    Inside 128 bits by unpacking, between them by shuffles of whole 128-bit groups: one instruction each on x86.
    """
    x = list(rows)
    dtype, lanes, count = x[0].dtype, x[0].lanes, len(x)
    if count == 1:
        return [b.e.lane(x[0], i) for i in range(lanes)]
    group = group_of(dtype, lanes)
    done = 1
    if count >= group > 1:
        x = unpack(b, x, group)
        done = group
    if done == group and lanes == 4 * group and count == lanes:
        return _quarters(b, x, group)
    while done < count:                           # exchange one bit of the register number with one of the lane number
        for i in range(count):
            if i & done:
                continue
            one, two = x[i], x[i + done]
            low = [k if not k & done else lanes + k - done for k in range(lanes)]
            high = [k + done if not k & done else lanes + k for k in range(lanes)]
            x[i], x[i + done] = b.e.shuffle(one, two, low), b.e.shuffle(one, two, high)
        done *= 2
    if count == lanes:
        return x
    return [b.e.shuffle(x[c % count], None, [c // count * count + t for t in range(count)]) for c in range(lanes)]


def group_of(dtype: DType, lanes: int) -> int:
    """Elements of 128 bits, inside which a register is cheap to transpose."""
    return min(max(1, 16 // dtype.size), lanes)


def unpack(b: Builder, rows: Sequence[Val], group: int) -> list[Val]:
    """Transpose each ``group`` by ``group`` block: registers i .. i + group - 1 with the lanes of each 128 bits."""
    x, lanes, unit = list(rows), rows[0].lanes, 1
    while unit < group:                           # unpack low and high units of each 128 bits
        out = list(x)
        for i in range(0, len(x), group):
            for j in range(group // 2):
                p, q = _pair(j, unit)
                for half in (0, 1):
                    picks = []
                    for g in range(0, lanes, group):
                        for s in range(0, group // 2, unit):
                            at = g + half * (group // 2) + s
                            picks += [at + t for t in range(unit)] + [lanes + at + t for t in range(unit)]
                    out[i + _place(p, q, half, unit)] = b.e.shuffle(x[i + p], x[i + q], picks)
        x, unit = out, unit * 2
    return x


def columns(b: Builder, dtype: DType, p: Val, ld: Index, lanes: int, live: Index, mask: Val | None) -> list[Val]:
    """A few columns of the matrix whose row ``lane`` starts at ``p[lane * ld]``: as many as 128 bits hold.

    Register r is put together from 128 bits of each of the rows r, r + group, ..., so that unpacking is all that is left to do.
    Rows from ``live`` on are not there: zeros, or where ``live`` is a run-time value the last row again. ``mask``: the columns there are.
    """
    group = group_of(dtype, lanes)

    def piece(row: int) -> Val:
        if not isinstance(live, Val) and row >= live:
            return b.e.const(dtype, 0, group)
        at: Index = b.min(row, b.sub(live, 1)) if isinstance(live, Val) else row
        return b.load(b.at(p, b.mul(at, ld), dtype), dtype, group, mask)
    rows = []
    for r in range(group):
        parts = [piece(row) for row in range(r, lanes, group)]
        while len(parts) > 1:
            width = parts[0].lanes
            parts = [b.e.shuffle(x, y, range(2 * width)) for x, y in zip(parts[::2], parts[1::2])]
        rows += parts
    return unpack(b, rows, group)


def _pair(j: int, unit: int) -> tuple[int, int]:
    """The registers unpacked together: neighbours first (unit 1), then those two apart (unit 2)."""
    return (2 * j, 2 * j + 1) if unit == 1 else (j, j + 2)


def _place(p: int, q: int, half: int, unit: int) -> int:
    """Where an unpacked half goes, so that registers end in the order of their lanes."""
    return (p, q)[half] if unit == 1 else 2 * p + half


def _quarters(b: Builder, x: list[Val], group: int) -> list[Val]:
    """Exchange register and 128-bit group for registers of four groups: 4x4 transposes made of shuffles of groups."""
    lanes = 4 * group

    def pick(one: Val, two: Val, first: int) -> Val:
        return b.e.shuffle(one, two, [base + g * group + t for base in (0, lanes) for g in (first, first + 2) for t in range(group)])

    out = list(x)
    for r in range(group):
        a, c, d, f = (x[r + i * group] for i in range(4))
        even, odd = (pick(a, c, 0), pick(d, f, 0)), (pick(a, c, 1), pick(d, f, 1))
        for i, (one, two) in enumerate((even, odd)):
            out[r + i * group] = pick(one, two, 0)
            out[r + (i + 2) * group] = pick(one, two, 1)
    return out
