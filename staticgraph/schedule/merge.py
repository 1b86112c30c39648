"""A second look at loop groups: pairs become one kernel where that saves a pass over memory.

``fuse`` places each item once, by what is known when it comes. Here whole groups are joined: a producer with its consumer (what lies
between them need not be stored, or need not be read again), and siblings that read the same. Two groups may be joined where no third
one stands between them. Values that are still stored for a neighbour are computed again there where that reads no more than it saves.
"""

from __future__ import annotations

import heapq
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import replace

from ..ir.aval import Size, product
from .fuse import MAX_OPS, MAX_VALUES, Group, domain_of, fits, is_direct, joins_reduce, open_group, runs
from .items import Item, Value
from .order import sources
from .views import View

WINDOW = 2048                                # groups looked at together: what is reachable is kept as bits
MAX_SIBLINGS = 16                            # readers of one value that are tried
MAX_AGAIN = 6                                # items computed again in place of one value


def merge_groups(groups: Sequence[Group], items: Sequence[Item], fixed: Container[Group], wanted: Container[Value]) -> list[Group]:
    """The groups, joined where that pays. ``fixed`` ones stay as they are (they overwrite something, or can fail); ``wanted`` are stored anyway."""
    place = {item: k for k, item in enumerate(items)}
    current = list(groups)
    # producers first: a sibling that joined a reduction of its own would stand between them
    for siblings in (False, True):
        current = _sorted(current, place)
        # in order, a path between two groups of a window never leaves it
        windows = [_Window(current[k:k + WINDOW], place, fixed) for k in range(0, len(current), WINDOW)]
        current = [g for w in windows for g in w.run(siblings)]
        _compute_again(current, place, fixed, wanted)
        current = [g for g in current if g.items]            # all of a group may have been computed elsewhere
    return _sorted(current, place)


def _sorted(groups: Sequence[Group], place: dict[Item, int]) -> list[Group]:
    """Producers before consumers, else by age."""
    before = sources(groups)
    users: dict[Group, list[Group]] = {g: [] for g in groups}
    for g, needs in before.items():
        for s in needs:
            users[s].append(g)
    left = {g: len(needs) for g, needs in before.items()}
    age = {g: place[g.items[-1]] for g in groups}
    heap = [(age[g], k) for k, g in enumerate(groups) if not left[g]]
    number = {g: k for k, g in enumerate(groups)}
    heapq.heapify(heap)
    out: list[Group] = []
    while heap:
        g = groups[heapq.heappop(heap)[1]]
        out.append(g)
        for u in users[g]:
            left[u] -= 1
            if not left[u]:
                heapq.heappush(heap, (age[u], number[u]))
    return out


class _Window:
    def __init__(self, groups: Sequence[Group], place: dict[Item, int], fixed: Container[Group]) -> None:
        self.place, self.fixed = place, fixed
        self.groups: dict[Group, int] = {g: k for k, g in enumerate(groups)}
        self.before = {g: {s: None for s in needs if s in self.groups} for g, needs in sources(groups).items()}
        self.after: dict[Group, dict[Group, None]] = {g: {} for g in groups}
        self.readers: dict[tuple[Value, tuple[Size, ...], Size], dict[Group, None]] = {}
        for g in groups:
            for v in _reads(g):
                self.readers.setdefault((v.base, v.strides, v.offset), {})[g] = None
            for s in self.before[g]:
                self.after[s][g] = None
        self.below = dict.fromkeys(groups, 0)    # the groups that need this one, as bits
        for g in reversed(groups):
            for u in self.after[g]:
                self.below[g] |= self.below[u] | 1 << self.groups[u]

    def run(self, siblings: bool) -> list[Group]:
        """Join until nothing more can be joined."""
        todo = [g for g in self.groups if g.kind == "loop" and g not in self.fixed]
        for g in todo:
            current = g
            while current in self.groups:
                partners = (*self.before[current], *(self.siblings(current) if siblings else ()))
                joined = next((m for other in partners if (m := self.joined(other, current)) is not None), None)
                if joined is None:
                    break
                current = joined
        return list(self.groups)

    def siblings(self, g: Group) -> Iterator[Group]:
        """Groups that read some of what ``g`` reads, and nothing else that is large."""
        mine = {(v.base, v.strides, v.offset): v for v in _reads(g)}
        seen = {g, *self.before[g]}
        for key in [k for k, v in mine.items() if not _is_small(v, g)]:
            for other in list(self.readers.get(key, ()))[-MAX_SIBLINGS:]:
                if other not in seen and other in self.groups and other.domain == g.domain:
                    seen.add(other)
                    # a sibling waits for the later one: only what the later one reads anyway may live longer for that
                    if all(_is_small(v, other) or (v.base, v.strides, v.offset) in mine for v in _reads(other)):
                        yield other

    def joined(self, a: Group, b: Group) -> Group | None:
        """Both groups as one, or None where they do not fit or something stands between them."""
        if a.kind != "loop" or a.domain != b.domain or not a.domain or a in self.fixed or a not in self.groups:
            return None
        if a.axes is not None and b.axes is not None and a.axes != b.axes:
            return None
        if len(a.items) + len(b.items) > MAX_OPS or sum(leaf[0].item.group not in (a, b) for leaf in a.leaves | b.leaves) > MAX_VALUES:
            return None
        if self.way_round(a, b) or self.way_round(b, a):
            return None
        both = _combined(sorted([*a.items, *b.items], key=self.place.__getitem__), max(a.level, b.level))
        if both is not None:
            self.replace(a, b, both)
        return both

    def way_round(self, a: Group, b: Group) -> bool:
        """Whether a path leads from ``a`` to ``b`` through another group."""
        bit = 1 << self.groups[b]
        return any(u is not b and self.below[u] & bit for u in self.after[a])

    def replace(self, a: Group, b: Group, both: Group) -> None:
        """Put ``both`` in the place of ``a`` and ``b``."""
        number = self.groups[a]
        gone = 1 << number | 1 << self.groups[b]
        self.below[both] = (self.below.pop(a) | self.below.pop(b)) & ~gone
        for table, back in ((self.before, self.after), (self.after, self.before)):
            table[both] = {n: None for g in (a, b) for n in table.pop(g) if n is not a and n is not b}
            for n in table[both]:
                back[n] = {both if m is a or m is b else m: None for m in back[n]}
        del self.groups[a], self.groups[b]
        self.groups[both] = number
        for g, bits in self.below.items():
            if bits & gone:
                self.below[g] = bits & ~gone | self.below[both] | 1 << number
        for v in _reads(both):
            self.readers.setdefault((v.base, v.strides, v.offset), {})[both] = None


def _reads(g: Group) -> Iterator[View]:
    """What the group reads from memory."""
    return (v for i in g.items for v in i.operands if v.base.item.group is not g)


def _is_small(view: View, g: Group) -> bool:
    """The value is far smaller than what the group walks (one number per row, a constant)."""
    size, whole = view.base.aval.size, product(g.domain)
    return isinstance(size, int) and isinstance(whole, int) and 16 * size <= whole


def _combined(items: Sequence[Item], level: int) -> Group | None:
    """A loop group of ``items``, or None where they do not fit; their ``group`` is set only on success."""
    old = [i.group for i in items]
    g = open_group(items[0], level)
    for k, item in enumerate(items):
        if k and not (fits(item, g) or joins_reduce(item, g)):
            for i, group in zip(items, old):
                i.group = group
            return None
        g.items.append(item)
        item.group = g
        g.leaves |= {(v.base, v.strides, v.offset) for v in item.operands if v.base.item.group is not g}
    return g


# ---- values computed again ----------------------------------------------------------------------------------------------------------


def _compute_again(groups: Sequence[Group], place: dict[Item, int], fixed: Container[Group], wanted: Container[Value]) -> None:
    """Compute a stored elementwise value again in each group that reads it, where the reads this costs are no more than those it saves."""
    users: dict[Value, dict[Group, None]] = {}
    for g in groups:
        for v in _reads(g):
            users.setdefault(v.base, {})[g] = None
    for g in groups:
        if g.kind != "loop" or g in fixed:
            continue
        for item in reversed(g.items):
            readers = users.get(item.value, {}) if item.kind == "scalar" and domain_of(item.shape) == g.domain else {}
            if not readers or any(u in fixed for u in readers):
                continue
            chain = _chain(item, g)
            if chain and _pays(chain, g, readers, 0 if item.value in wanted else 1):
                for u in readers:
                    for v in _copy_into(u, chain, place):
                        users.setdefault(v.base, {})[u] = None
                del users[item.value]
                _drop_unused(g, chain, users, wanted)


def _drop_unused(g: Group, chain: Sequence[Item], users: dict[Value, dict[Group, None]], wanted: Container[Value]) -> None:
    """Leave out items whose values nobody reads any more."""
    gone: set[Value] = set()
    for i in reversed(chain):
        if i.value not in wanted and not users.get(i.value) and not any(v.base is i.value for u in g.items for v in u.operands):
            g.items.remove(i)
            gone |= {v.base for v in i.operands}
    for value in gone - {v.base for v in _reads(g)}:
        users.get(value, {}).pop(g, None)
    g.leaves = {(v.base, v.strides, v.offset) for v in _reads(g)}


def _chain(item: Item, g: Group) -> list[Item]:
    """The cheap items of the group that give ``item`` from what is in memory or small; empty if there are others, or too many."""
    out: set[Item] = set()
    todo = [item]
    while todo:
        i = todo.pop()
        if i in out:
            continue
        if i.kind != "scalar" or not i.node.op.is_exact or "guard" in i.node.op.traits or len(out) == MAX_AGAIN:
            return []
        out.add(i)
        todo += [v.base.item for v in i.operands if v.base.item.group is g and not _is_small(v, g)]
    return [i for i in g.items if i in out]


def _needs(chain: Sequence[Item]) -> list[View]:
    """What a chain reads that it does not compute."""
    inside = set(chain)
    return [v for i in chain for v in i.operands if v.base.item not in inside]


def _pays(chain: Sequence[Item], g: Group, readers: Iterable[Group], extra: int) -> bool:
    """Whether every reader can have the chain and reads at most ``extra`` more large values for it, in place of the chain's value."""
    value, needs = chain[-1].value, _needs(chain)
    # a variable may be overwritten in the meantime
    if any(v.base.item.kind == "leaf" and v.base.buffer is not None and v.base.buffer.space == "state" for v in needs):
        return False
    big = {(v.base, v.strides, v.offset) for v in needs if not _is_small(v, g) and v.base.item.kind != "index"}
    for u in readers:
        if u.kind != "loop" or u.domain != g.domain or not all(is_direct(v, g.domain) for v in _reads(u) if v.base is value):
            return False
        have = {(v.base, v.strides, v.offset) for v in _reads(u)}
        if len(big - have) > extra or len(have | {(v.base, v.strides, v.offset) for v in needs}) > MAX_VALUES:
            return False
        if not all(runs(i, u) for i in chain):
            return False
    return True


def _copy_into(u: Group, chain: Sequence[Item], place: dict[Item, int]) -> list[View]:
    """Put copies of ``chain`` before the first reader in ``u``, which reads them in place of the stored value; what they read."""
    copies: dict[Value, Value] = {}

    def moved(v: View) -> View:
        return replace(v, base=copies[v.base]) if v.base in copies else v
    for i in chain:
        new = Item(i.kind, i.node, [moved(v) for v in i.operands], emit=i.emit, group=u)
        new.values = [Value(new, x.index, x.aval) for x in i.values]
        copies[i.value] = new.value
        place[new] = place[i]
    made = [v.item for v in copies.values()]
    old = chain[-1].value
    copies = {old: copies[old]}
    first = next(k for k, i in enumerate(u.items) if any(v.base is old for v in i.operands))
    for i in u.items[first:]:
        i.operands = [moved(v) for v in i.operands]
    u.items[first:first] = made
    u.leaves = {(v.base, v.strides, v.offset) for v in _reads(u)}
    needs = _needs(made)
    for v in needs:
        v.base.users += 1
    return needs
