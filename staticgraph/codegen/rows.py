"""Loop groups that reduce their last axes: a row (or one block of it) per task, in stages.

Stage s reduces what stage s needs; values per row (results of a reduction and what is computed from them) are scalars between the stages. An
elementwise value of an earlier stage that a later one needs is loaded again where it is stored anyway, kept in a row of scratch on
the stack where it is expensive, and computed again where it is cheap. Rows that fit one register stay in it.
"""

from __future__ import annotations

from typing import Any

from ..ir.aval import Size, product
from ..schedule.items import ROW_BLOCK, Item, Value
from ..schedule.views import collapse
from .kernel import Index
from .loops import LANE_BITS, SCRATCH, Access, Group_
from .values import Val


def rows(e: Group_) -> Size:
    """Emit the kernel's loop over tasks; returns the number of tasks."""
    return _Rows(e).emit()


class _Rows:
    def __init__(self, e: Group_) -> None:
        self.e = e
        g = e.group
        self.reduces = [i for i in g.items if i.kind == "reduce"]
        self.blocked = any(i.blocked for i in self.reduces)
        self.stage: dict[Item, int] = {}
        available: dict[Value, int] = {}
        for item in g.items:
            sources = [e.sources[item, k] for k in range(len(item.operands))]
            s = max((available[v] for v in sources if isinstance(v, Value)), default=0)
            self.stage[item] = s
            for v in item.values:
                available[v] = s + 1 if item.kind == "reduce" else s
        self.stages = 1 + max(self.stage.values())
        self.row_level = {i for i in g.items if i.kind == "scalar" and not e.full[i]}
        self.scratch: dict[Value, Access] = {}

    def emit(self) -> Size:
        e, g = self.e, self.e.group
        rank = len(g.domain)
        cut = rank - len(e.row_axes)
        all_ = e.all_accesses()
        outer, outer_strides = collapse(g.domain[:cut], [a.strides[:cut] for a in all_])
        inner, inner_strides = collapse(g.domain[cut:], [a.strides[cut:] for a in all_])
        length: Size = product(g.domain[cut:])
        for a, o, i in zip(all_, outer_strides, inner_strides):
            a.outer, a.inner = o, (i[-1] if i else 0)
        assert len(inner) <= 1, inner
        if not self.blocked:
            e.narrow(length)
        blocks: Size = (length + (ROW_BLOCK - 1)) // ROW_BLOCK if self.blocked else 1
        e.open_pointers()
        partial = {i: e.pointer(i.value) for i in self.reduces if i.blocked}
        outer_sizes = [e.size(s) for s in outer]
        n, pieces = e.size(length), e.size(blocks)
        self._plan_scratch(length if not self.blocked else ROW_BLOCK)

        def task(t: Val, _: Any) -> list[Val]:
            row, piece = (t, 0) if pieces == 1 else (e.idivide(t, pieces), e.imod(t, pieces))
            start = e.imul(piece, ROW_BLOCK)
            count = n if not self.blocked else e.imin(e.isub(n, start), ROW_BLOCK)
            e.enter(all_, e.split(row, outer_sizes), start)
            e.first = e.iadd(e.imul(row, n), start)
            results = self._row(count)
            for item, pointer in partial.items():
                e.store(pointer, results[item.value], t, dtype=item.value.aval.dtype)
            return []
        e.loop(e.lo, e.hi, 1, [], task)
        return product(outer) * blocks

    def _plan_scratch(self, length: Size) -> None:
        """Rows on the stack for expensive values that are read again after their stage, or by a reduction."""
        e = self.e
        if not isinstance(length, int) or length <= e.width:
            return
        budget = SCRATCH
        for item in e.group.items:
            if item.kind != "scalar" or not e.full[item] or item.node.op.is_exact or item.value in e.stores:
                continue
            users = [u for u in e.group.items for k in range(len(u.operands)) if e.sources[u, k] is item.value]
            if not any(u.kind == "reduce" or self.stage[u] > self.stage[item] for u in users) and not self._reaches_reduce(item):
                continue
            size = (length + e.width) * item.value.aval.dtype.size
            if size > budget:
                continue
            budget -= size
            name = e._name()
            e._line(f"{name} = alloca [{length + e.width} x {item.value.aval.dtype.llvm}], align 64")
            a = Access(item.value, (), 0)
            a.inner, a.pointer = 1, name
            self.scratch[item.value] = a

    def _reaches_reduce(self, item: Item) -> bool:
        # an expensive value inside a reduction's expression would be copied once per register of logical lanes
        hit = {item.value}
        for u in self.e.group.items:
            if any(self.e.sources[u, k] in hit for k in range(len(u.operands))):
                if u.kind == "reduce":
                    return True
                hit |= set(u.values)
        return False

    # ---- one row -------------------------------------------------------------------------------------------------------------

    def _row(self, count: Index) -> dict[Any, Val]:
        e = self.e
        known: dict[Any, Val] = {a: e.read(a, 0, 1, None) for a in e.accesses.values() if a.inner == 0}
        if not isinstance(count, Val) and count <= e.width and not self.blocked:
            return self._register_row(count, known)
        done: set[Value] = set()             # values of earlier stages that can be loaded again
        for s in range(self.stages):
            self._row_values(s, known)
            self._stage(s, count, known, done)
        return known

    def _row_values(self, s: int, known: dict[Any, Val]) -> None:
        """Scalars of this row that stage ``s`` starts from."""
        e = self.e
        for item in e.group.items:
            if item in self.row_level and self.stage[item] == s and item.value not in known:
                e.mask_now, e.element = None, lambda: e.idivide(e.first, e.size(product(e.group.domain[-len(e.row_axes):])))
                known[item.value] = e.compute(item, known)
                self._store_row(item.value, known)

    def _store_row(self, value: Value, known: dict[Any, Val]) -> None:
        a = self.e.stores.get(value)
        if a is not None:
            self.e.store(a.pointer, known[value], 0, dtype=value.aval.dtype)

    def _register_row(self, count: int, known: dict[Any, Val]) -> dict[Any, Val]:
        """The whole row in one register: every value is computed once."""
        e = self.e
        w = e.width
        mask = e.mask(count, w) if count < w else None
        env = dict(known)
        for a in e.accesses.values():
            if a not in env:
                env[a] = e.read(a, 0, w, mask)
        for item in e.group.items:
            if item in self.row_level:
                e.mask_now, e.element = None, lambda: e.idivide(e.first, count)
                env[item.value] = e.compute(item, env)
                self._store_row(item.value, env)
            elif item.kind == "reduce":
                x = e.splat(env[e.sources[item, 0]], w)
                start = e.combine(item, self.e.identity(item, w), x)
                if mask is not None:
                    start = e.select(mask, start, e.identity(item, w))
                env[item.value] = e.fold(item, [start])
                self._store_row(item.value, env)
            else:
                e.mask_now, e.element = mask, lambda: e.first
                env[item.value] = e.compute(item, env)
                if item.value in e.stores:
                    e.write(e.stores[item.value], env[item.value], 0, w, mask)
        return env

    def _needed(self, targets: list[Item], known: dict[Any, Val], loadable: set[Value]) -> list[Item]:
        """Elementwise items that must be computed for ``targets``, in order."""
        e = self.e
        want: set[Any] = set()
        for t in targets:
            want |= {e.sources[t, k] for k in range(len(t.operands))} if t.kind == "reduce" else {t.value}
        out: list[Item] = []
        for item in reversed(e.group.items):
            if item.kind == "scalar" and e.full[item] and item.value in want and item.value not in known and item.value not in loadable:
                out.append(item)
                want |= {e.sources[item, k] for k in range(len(item.operands))}
        return out[::-1]

    def _stage(self, s: int, count: Index, known: dict[Any, Val], done: set[Value]) -> None:
        e = self.e
        reduces = [i for i in self.reduces if self.stage[i] == s]
        kept = [i for i in e.group.items if i.kind == "scalar" and e.full[i] and self.stage[i] == s
                and (i.value in e.stores or i.value in self.scratch)]
        heavy = any(not i.node.op.is_exact for i in self._needed(reduces, known, done))
        if kept and (heavy or not reduces or any(i.value in self.scratch for i in kept)):
            self._sweep(count, kept, known, done)
            done |= {i.value for i in kept}
            kept = []
        if reduces:
            self._reduce(count, reduces, kept, known, done)
            done |= {i.value for i in kept}

    def _again(self, value: Value) -> Access:
        return self.scratch.get(value) or self.e.stores[value]

    def _vectors(self, items: list[Item], targets: list[Item], known: dict[Any, Val], loadable: set[Value],
                 places: list[Index], w: int, mask: Val | None) -> list[dict[Any, Val]]:
        """Compute ``items`` at each place; values of earlier stages are loaded."""
        e = self.e
        envs = [dict(known) for _ in places]
        sources = {e.sources[i, k] for i in (*items, *targets) for k in range(len(i.operands))} | {t.value for t in targets}
        for src in [*e.accesses.values(), *(v for v in self.stage_values() if v in loadable)]:
            if src in sources and src not in known:
                a = src if isinstance(src, Access) else self._again(src)
                for env, p in zip(envs, places):
                    env[src] = e.read(a, p, w, mask)
        for item in items:
            for env, p in zip(envs, places):
                e.mask_now = mask
                e.element = lambda p=p: e.iadd(e.first, p)                   # type: ignore[misc]
                env[item.value] = e.compute(item, env)
        return envs

    def stage_values(self) -> list[Value]:
        """Values of elementwise items, in order."""
        return [i.value for i in self.e.group.items if i.kind == "scalar"]

    def _sweep(self, count: Index, kept: list[Item], known: dict[Any, Val], loadable: set[Value]) -> None:
        """Compute and store elementwise values over the row."""
        e = self.e
        items = self._needed(kept, known, loadable)
        heavy = sum(not i.node.op.is_exact for i in items)
        unroll = 1 if heavy or len(items) > 12 or e.width == 1 else 4 if len(items) <= 6 else 2

        def vectors(at: Index, copies: int, mask: Val | None) -> None:
            places = [e.iadd(at, k * e.width) for k in range(copies)]
            envs = self._vectors(items, kept, known, loadable, places, e.width, mask)
            for item in kept:
                for env, p in zip(envs, places):
                    for a in (self.scratch.get(item.value), e.stores.get(item.value)):
                        if a is not None:
                            e.write(a, env[item.value], p, e.width, mask)
        e.strip(count, e.width, unroll, vectors, heavy > 0)

    def _reduce(self, count: Index, reduces: list[Item], kept: list[Item], known: dict[Any, Val], loadable: set[Value]) -> None:
        """Accumulate the reductions of a stage over the row (storing ``kept`` on the way)."""
        e = self.e
        w = e.width
        items = self._needed([*reduces, *kept], known, loadable)
        registers = {i: max(1, LANE_BITS // i.value.aval.dtype.bits // w) for i in reduces}
        most = max(registers.values())
        span = most * w
        starts = [e.identity(i, w) for i in reduces for _ in range(registers[i])]

        def accumulate(at: Index, copies: int, masks: list[Val | None], acc: list[Val]) -> list[Val]:
            out = list(acc)
            places = [e.iadd(at, k * w) for k in range(copies)]
            groups = [(places, None)] if all(m is None for m in masks) else [([p], m) for p, m in zip(places, masks)]
            k = 0
            for part, mask in groups:
                for env, p in zip(self._vectors(items, [*reduces, *kept], known, loadable, part, w, mask), part):
                    base = 0
                    for i in reduces:
                        r = base + k % registers[i]
                        x = e.splat(env[e.sources[i, 0]], w)
                        new = e.combine(i, out[r], x)
                        out[r] = new if mask is None else e.select(mask, new, out[r])
                        base += registers[i]
                    for item in kept:
                        e.write(e.stores[item.value], env[item.value], p, w, mask)
                    k += 1
            return out

        acc = starts
        if not isinstance(count, Val):
            whole = count // span * span
            if whole == span:
                acc = accumulate(0, most, [None] * most, acc)
            elif whole:
                acc = e.loop(0, whole, span, acc, lambda i, v: accumulate(i, most, [None] * most, v))
            rest = count - whole
            if rest:
                copies = -(-rest // w)
                masks = [None if (k + 1) * w <= rest else e.mask(rest - k * w, w) for k in range(copies)]
                acc = accumulate(whole, copies, masks, acc)
        else:
            main = e.imul(e.idivide(count, span), span)
            acc = e.loop(0, main, span, acc, lambda i, v: accumulate(i, most, [None] * most, v))
            left = e.isub(count, main)
            assert isinstance(left, Val)
            before = acc
            acc = e.if_(e.cmp("gt", left, 0), lambda: accumulate(
                main, most, [e.mask(e.isub(left, k * w), w) for k in range(most)], before), lambda: before)
        base = 0
        for i in reduces:
            known[i.value] = e.fold(i, acc[base:base + registers[i]])
            base += registers[i]
            if not i.blocked:
                self._store_row(i.value, known)


