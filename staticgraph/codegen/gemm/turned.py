"""The register tile of few rows whose vector operand is stored with k contiguous: it is transposed in registers, block by block."""

from __future__ import annotations

from ...dtypes import DType
from ..values import Val
from .index import Builder, Index
from .pack import read_block
from .tile import Broadcast, Vectors, transpose


def multiply_turned(b: Builder, dtype: DType, x: Broadcast, y: Vectors, k: Index, tile: list[list[Val]], live: Index) -> list[list[Val]]:
    """``tile[i][0] += x[i, k] * y[lane, k]`` for k in order, where row ``lane`` of y starts at ``y.pointer[lane * y.step]``.

    Lanes from ``live`` on have no row; what they hold is not used.
    """
    w, mr = tile[0][0].lanes, len(tile)
    acc = [r[0] for r in tile]

    def steps(k0: Index, acc: list[Val], count: Index, mask: Val | None) -> list[Val]:
        acc = list(acc)
        columns = transpose(b, read_block(b, dtype, b.at(y.pointer, k0, dtype), y.step, w, live, mask))
        for q in range(w if isinstance(count, Val) else count):
            inside = b.less(q, count)
            at: Index = q if not isinstance(count, Val) else b.min(q, b.sub(count, 1))
            column = b.at(x.pointer, b.mul(b.add(k0, at), x.step), dtype)
            for i in range(mr):
                xs = b.e.splat(b.load(b.at(column, b.mul(i, x.row), dtype), dtype), w)
                new = b.fma(xs, columns[q], acc[i])
                if isinstance(inside, Val):                # adding a product of zeros would turn -0.0 into 0.0
                    new = b.value(f"select {inside.typed}, {new.typed}, {acc[i].typed}", dtype, w)
                acc[i] = new
        return acc

    whole = b.sub(k, b.mod(k, w))
    acc = b.loop(0, whole, w, acc, lambda i, vals: steps(i, vals, w, None))
    if k != whole:
        rest = b.sub(k, whole)
        acc = b.loop(whole, k, w, acc, lambda i, vals: steps(i, vals, rest, b.e.mask(rest, w)))
    return [[a] for a in acc]
