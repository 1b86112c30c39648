"""The register tile of few rows whose vector operand is stored with k contiguous: it is transposed in registers, a few steps at a time."""

from __future__ import annotations

from ...dtypes import DType
from ..values import Val
from .index import Builder, Index
from .tile import Broadcast, Vectors, columns, group_of


def multiply_turned(b: Builder, dtype: DType, x: Broadcast, y: Vectors, k: Index, tile: list[list[Val]], live: Index) -> list[list[Val]]:
    """``tile[i][v] += x[i, k] * y[v * lanes + lane, k]`` for k in order, where row r of y starts at ``y.pointer[r * y.step]``.

    The last vector's lanes from ``live`` on have no row; what they hold is not used.
    """
    mr, nv, w = len(tile), len(tile[0]), tile[0][0].lanes
    group = group_of(dtype, w)
    every = range(nv)

    def steps(k0: Index, acc: list[Val], count: Index, mask: Val | None, vectors: range) -> list[Val]:
        acc = list(acc)
        at = b.at(y.pointer, k0, dtype)
        ys = {v: columns(b, dtype, b.at(at, b.mul(v * w, y.step), dtype), y.step, w, live if v == nv - 1 else w, mask) for v in vectors}
        for q in range(group if isinstance(count, Val) else count):
            inside = b.less(q, count)
            step: Index = q if not isinstance(count, Val) else b.min(q, b.sub(count, 1))
            column = b.at(x.pointer, b.mul(b.add(k0, step), x.step), dtype)
            for i in range(mr):
                xs = b.e.splat(b.load(b.at(column, b.mul(i, x.row), dtype), dtype), w)
                for v in vectors:
                    old = acc[i * nv + v]
                    new = b.fma(xs, ys[v][q], old)
                    if isinstance(inside, Val):            # adding a product of zeros would turn -0.0 into 0.0
                        new = b.value(f"select {inside.typed}, {new.typed}, {old.typed}", dtype, w)
                    acc[i * nv + v] = new
        return acc

    acc = [v for row in tile for v in row]
    done: Index = 0
    if not isinstance(y.step, Val) and y.step * dtype.size % 1024 == 0:
        # rows at such a distance share few cache sets: take whole cache lines at once, of one vector's rows after the other's
        line = 64 // dtype.size

        def lines(k0: Index, vals: list[Val]) -> list[Val]:
            for v in every:
                for at in range(0, line, group):
                    vals = steps(b.add(k0, at), vals, group, None, range(v, v + 1))
            return vals
        done = b.sub(k, b.mod(k, line))
        acc = b.loop(0, done, line, acc, lines)
    whole = b.sub(k, b.mod(k, group))
    acc = b.loop(done, whole, group, acc, lambda i, vals: steps(i, vals, group, None, every))
    if k != whole:
        rest = b.sub(k, whole)
        acc = b.loop(whole, k, group, acc, lambda i, vals: steps(i, vals, rest, b.e.mask(rest, group), every))
    return [acc[i * nv:(i + 1) * nv] for i in range(mr)]
