"""Loop groups that reduce axes other than the last: vectors of columns, four chains down the run."""

from __future__ import annotations

from typing import Any

from ..ir.aval import Size, product
from ..schedule.items import COLUMN_BLOCK
from ..schedule.views import collapse
from .kernel import Index
from .loops import Group_
from .values import Val

CHAINS = 4                                   # element r of the run goes to chain r mod 4
VECTORS = 2                                  # vectors of columns per task


def columns(e: Group_) -> Size:
    """Emit the kernel's loop over tasks; returns the number of tasks."""
    g = e.group
    first, last = e.row_axes[0], e.row_axes[-1] + 1
    all_ = e.all_accesses()
    pre, pre_strides = collapse(g.domain[:first], [a.strides[:first] for a in all_])
    run, run_strides = collapse(g.domain[first:last], [a.strides[first:last] for a in all_])
    post, post_strides = collapse(g.domain[last:], [a.strides[last:] for a in all_])
    assert len(run) == 1 and post, (run, post)
    for a, p, r, q in zip(all_, pre_strides, run_strides, post_strides):
        a.outer, a.run, a.inner = (*p, *q[:-1]), r[0], q[-1]
    reduces = [i for i in g.items if i.kind == "reduce"]
    items = [i for i in g.items if i.kind == "scalar"]
    blocked = any(i.blocked for i in reduces)
    length, width = run[0], post[-1]
    blocks: Size = (length + (COLUMN_BLOCK - 1)) // COLUMN_BLOCK if blocked else 1
    e.narrow(width)
    w = e.width
    vectors = 1 if isinstance(width, int) and width <= w else VECTORS
    span = vectors * w
    strips: Size = (width + (span - 1)) // span
    stores = [(i, e.stores[i.value]) for i in items if i.value in e.stores]
    heavy = any(not i.node.op.is_exact for i in items)

    e.open_pointers()
    partial = {i: e.pointer(i.value) for i in reduces if i.blocked}
    outer_sizes = [e.size(s) for s in (*pre, *post[:-1])]
    n, count, pieces, across = e.size(length), e.size(width), e.size(blocks), e.size(strips)
    even = isinstance(width, int) and width % span == 0

    def task(t: Val, _: Any) -> list[Val]:
        rest, strip = (t, 0) if across == 1 else (e.idivide(t, across), e.imod(t, across))
        outer, piece = (rest, 0) if pieces == 1 else (e.idivide(rest, pieces), e.imod(rest, pieces))
        at = e.imul(strip, span)
        top = e.imul(piece, COLUMN_BLOCK)
        rows = e.imin(e.isub(n, top), COLUMN_BLOCK) if blocked else n
        coordinates = e.split(outer, outer_sizes)
        for a in all_:
            index = e.iadd(e.dot(coordinates, [e.size(s) for s in a.outer]), e.imul(at, e.size(a.inner)))
            if a.value not in {i.value for i in reduces}:
                index = e.iadd(index, e.imul(top, e.size(a.run)))
            if a.is_index:
                a.base = e.iadd(index, e.size(a.offset))
            else:
                a.pointer = e.advance(e.pointers[a], a.value.aval.dtype, index)
        masks = [None if even else e.mask(e.isub(count, e.iadd(at, v * w)), w) for v in range(vectors)]

        def step(r: Index, chains: list[Val], copies: int) -> list[Val]:
            """Rows r .. r+copies-1 into the first ``copies`` chains; chains are ordered [chain][vector][reduce]."""
            out = list(chains)
            envs: list[tuple[int, int, dict[Any, Val]]] = []
            for c in range(copies):
                for v in range(vectors):
                    envs.append((c, v, {a: _read(e, a, e.iadd(r, c), v * w, w, masks[v]) for a in e.accesses.values()}))
            for item in items:
                for c, v, env in envs:
                    e.mask_now = masks[v]
                    e.element = lambda c=c, v=v: e.iadd(e.imul(e.iadd(top, e.iadd(r, c)), count), e.iadd(at, v * w))  # type: ignore[misc]
                    env[item.value] = e.compute(item, env)
            for c, v, env in envs:
                for item, a in stores:
                    _write(e, a, env[item.value], e.iadd(r, c), v * w, w, masks[v])
                for k, i in enumerate(reduces):
                    slot = (c * vectors + v) * len(reduces) + k
                    out[slot] = e.combine(i, out[slot], e.splat(env[e.sources[i, 0]], w))
            return out

        per_chain = vectors * len(reduces)
        acc = [e.identity(i, w) for _ in range(CHAINS) for _ in range(vectors) for i in reduces]
        single = heavy or len(items) > 8
        main = e.imul(e.idivide(rows, CHAINS), CHAINS) if not single else 0
        if not single:
            acc = e.loop(0, main, CHAINS, acc, lambda r, c: step(r, c, CHAINS))
        if single or isinstance(rows, Val) or rows % CHAINS:
            # one row at a time, the chains turning: the pairing below is the same from wherever it starts
            acc = e.loop(main, rows, 1, acc, lambda r, c: (lambda d: [*d[per_chain:], *d[:per_chain]])(step(r, c, 1)))
        for v in range(vectors):
            for k, i in enumerate(reduces):
                a, b, c, d = (acc[(q * vectors + v) * len(reduces) + k] for q in range(CHAINS))
                total = e.combine(i, e.combine(i, a, c), e.combine(i, b, d))
                if i.blocked:
                    _store_partial(e, i, partial[i], total, outer, piece, at, v * w, (pre, post), pieces, count, outer_sizes, masks[v])
                elif i.value in e.stores:
                    e.write(e.stores[i.value], total, v * w, w, masks[v])
        return []
    e.loop(e.lo, e.hi, 1, [], task)
    return product((*pre, *post[:-1])) * blocks * strips


def _read(e: Group_, a: Any, r: Index, at: int, w: int, mask: Val | None) -> Val:
    moved = e.imul(r, e.size(a.run))
    if a.is_index:
        saved = a.base
        a.base = e.iadd(a.base, moved)
        x = e.read(a, at, w, mask)
        a.base = saved
        return x
    saved_pointer = a.pointer
    a.pointer = e.advance(a.pointer, a.value.aval.dtype, moved)
    x = e.read(a, at, w, mask)
    a.pointer = saved_pointer
    return x


def _write(e: Group_, a: Any, value: Val, r: Index, at: int, w: int, mask: Val | None) -> None:
    saved = a.pointer
    a.pointer = e.advance(a.pointer, a.value.aval.dtype, e.imul(r, e.size(a.run)))
    e.write(a, value, at, w, mask)
    a.pointer = saved


def _store_partial(e: Group_, item: Any, pointer: str, total: Val, outer: Index, piece: Index, at: Index, v: int, dims: Any,
                   pieces: Index, count: Index, outer_sizes: list[Index], mask: Val | None) -> None:
    """Block results are stored as [pre, block, post]."""
    pre, _post = dims
    coordinates = e.split(outer, outer_sizes)
    row: Index = 0
    for c, s in zip(coordinates[:len(pre)], outer_sizes[:len(pre)]):
        row = e.iadd(e.imul(row, s), c)
    row = e.iadd(e.imul(row, pieces), piece)
    for c, s in zip(coordinates[len(pre):], outer_sizes[len(pre):]):
        row = e.iadd(e.imul(row, s), c)
    e.store(pointer, total, e.iadd(e.imul(row, count), e.iadd(at, v)), mask=mask, dtype=item.value.aval.dtype)


