"""Fusion: items into groups, one kernel each.

Every group has a *level*; an item may join a group of the highest level among its inputs' groups if all its other inputs come from
lower levels. Levels only grow along data edges, so no cycle can arise and one pass over the items is enough.

A ``loop`` group walks one domain (the shape of its elements without axes of size 1). It may hold reductions over one set of axes. Where
those axes are the last ones and short, it is a *row* group: values of a row's reduction are used again in later stages of
the same kernel (softmax, layer norm). A ``gemm`` group is a matrix product with elementwise items as its epilogue.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..ir.aval import Size, measured_in
from .items import ROW_BLOCK, Item, Value, named_sizes
from .views import View, contiguous

MAX_OPS = 400                                # items of one group
MAX_EPILOGUE = 48
MAX_VALUES = 28                              # memory operands of one kernel


@dataclass(eq=False)
class Group:
    """One kernel to be. ``axes`` are the reduced positions in ``domain`` (None: nothing is reduced yet)."""

    kind: str                                # loop, gemm, single
    level: int
    domain: tuple[Size, ...] = ()
    axes: tuple[int, ...] | None = None
    rows: bool = False                       # results of reductions are used inside
    items: list[Item] = field(default_factory=list)
    leaves: set[tuple[Any, ...]] = field(default_factory=set)

    @property
    def row_domain(self) -> tuple[Size, ...]:
        """The domain without the reduced axes."""
        return tuple(d for k, d in enumerate(self.domain) if k not in (self.axes or ()))

    @property
    def outputs(self) -> list[Value]:
        """Values that live in memory."""
        return [v for i in self.items for v in i.values if v.buffer is not None]


def domain_of(shape: Iterable[Size]) -> tuple[Size, ...]:
    """Axes that are walked: those not of size 1."""
    return tuple(d for d in shape if d != 1)


def walked(view: View) -> tuple[Size, ...]:
    """The view's strides over its walked axes."""
    return tuple(s for d, s in zip(view.shape, view.strides) if d != 1)


def is_direct(view: View, domain: tuple[Size, ...]) -> bool:
    """The view gives element i of its base at element i of the domain."""
    return view.offset == 0 and domain_of(view.shape) == domain and walked(view) == contiguous(domain) \
        and domain_of(view.base.aval.shape) == domain


def is_row(view: View, group: Group) -> bool:
    """The view gives element r of its base (a value per row) at every element of row r."""
    axes = group.axes or ()
    outer = tuple(k for k in range(len(group.domain)) if k not in axes)
    strides = walked(view)
    if view.offset != 0 or domain_of(view.base.aval.shape) != group.row_domain:
        return False
    want = contiguous(group.row_domain)
    if domain_of(view.shape) == group.domain:
        return all(strides[k] == 0 for k in axes) and tuple(strides[k] for k in outer) == want
    return domain_of(view.shape) == group.row_domain and strides == want


def group_items(items: Sequence[Item], fuse: bool = True) -> list[Group]:
    """Groups in a valid order (by level, then age)."""
    return _Grouper(fuse).run(items)


class _Grouper:
    """One pass over the items. A cheap elementwise item with one user *floats*: it is placed with that user, so that it need not be stored."""

    def __init__(self, fuse: bool) -> None:
        self.fuse = fuse
        self.groups: list[Group] = []
        self.latest: dict[tuple[Any, ...], Group] = {}   # newest loop group of a level and domain, for siblings
        self.floating: dict[Item, None] = {}
        self.measures: dict[str, Group] = {}             # what finds the measured sizes: no operand says that their users come after it

    def run(self, items: Sequence[Item]) -> list[Group]:
        """Place every item."""
        for item in items:
            if item.kind in ("leaf", "index"):
                continue
            if self.fuse and item.kind == "scalar" and item.value.users == 1 and item.node.op.is_exact and item.operands:
                self.floating[item] = None
            else:
                self.place(item)
        for item in list(self.floating):
            if item in self.floating:
                self.place(item)
        return sorted(self.groups, key=lambda g: g.level)

    def place(self, item: Item) -> None:
        """Put an item, and what floats above it, into groups."""
        self.floating.pop(item, None)
        chain = self._chain(item)
        if chain and not self._together([*chain, item]):
            for c in chain:
                self.floating.pop(c, None)
                self._alone(c)
            chain = []
        if item.group is None:
            self._alone(item)

    def _chain(self, item: Item) -> list[Item]:
        """Floating items that the item needs, inputs first."""
        out: dict[Item, None] = {}
        stack = [(item, False)]
        while stack:
            i, ready = stack.pop()
            if ready:
                out[i] = None
                continue
            if i is not item:
                stack.append((i, True))
            stack.extend((v.base.item, False) for v in i.operands if v.base.item in self.floating and v.base.item not in out)
        return list(out)

    def _together(self, items: list[Item]) -> bool:
        """Try to put a chain and its user into one group."""
        if items[-1].kind not in ("scalar", "reduce"):
            return False
        inside = set(items)
        sources = [g for i in items for g in self._before(i, inside)]
        level = max((g.level for g in sources), default=0)
        tops = {g for g in sources if g.level == level}
        candidates = list(tops) if len(tops) == 1 else []
        for group in [*candidates, None]:
            fresh = group is None
            g = group if group is not None else open_group(items[0], level + 1)
            saved = (len(g.items), set(g.leaves), g.axes, g.rows)
            for i in items:
                if (i is items[0] and fresh) or fits(i, g):
                    self._add(i, g)
                    continue
                for done in g.items[saved[0]:]:
                    done.group = None
                del g.items[saved[0]:]
                g.leaves, g.axes, g.rows = saved[1:]
                break
            else:
                if fresh:
                    self.groups.append(g)
                for i in items:
                    self.floating.pop(i, None)
                self._remember(g)
                return True
        return False

    def _alone(self, item: Item) -> None:
        level = max((g.level for g in self._before(item)), default=0)
        group = _join(item, level, self.latest) if self.fuse else None
        if group is None:
            group = open_group(item, level + 1)
            self.groups.append(group)
        self._add(item, group)
        self._remember(group)

    def _before(self, item: Item, inside: Collection[Item] = ()) -> list[Group]:
        """Groups that come before an item: those of its operands and of the measured sizes it reads."""
        groups = [v.base.item.group for v in item.operands if v.base.item not in inside and v.base.item.group is not None]
        return groups + [self.measures[s] for s in named_sizes(item) if s in self.measures] if self.measures else groups

    def _add(self, item: Item, group: Group) -> None:
        group.items.append(item)
        item.group = group
        if "measure" in item.node.op.traits:
            self.measures.update(dict.fromkeys(measured_in(item.node.attr("size")), group))
        for v in item.operands:
            if v.base.item.group is not group:
                group.leaves.add((v.base, v.strides, v.offset))

    def _remember(self, group: Group) -> None:
        if group.kind == "loop":
            self.latest[(group.level, group.domain, group.axes)] = group


def open_group(item: Item, level: int) -> Group:
    """A group, still empty, for an item to begin."""
    if item.kind == "scalar":
        return Group("loop", level, domain_of(item.shape))
    if item.kind == "reduce":
        source = item.operands[0].shape
        return Group("loop", level, domain_of(source), reduce_axes(item))
    if item.kind == "matmul":
        return Group("gemm", level, domain_of(item.shape))
    return Group("single", level)


def reduce_axes(item: Item) -> tuple[int, ...]:
    """Reduced positions in the domain of the operand."""
    walked_axes = [k for k, d in enumerate(item.operands[0].shape) if d != 1]
    return tuple(walked_axes.index(k) for k in item.axis)


def _join(item: Item, level: int, latest: dict[tuple[Any, ...], Group]) -> Group | None:
    if item.kind not in ("scalar", "reduce"):
        return None
    at_top = {v.base.item.group for v in item.operands if v.base.item.group is not None and v.base.item.group.level == level}
    if len(at_top) == 1:
        group = next(iter(at_top))
        if fits(item, group):
            return group
    if len(at_top) <= 1 or level > 0:
        # a sibling one level up, of the same domain
        domain = domain_of(item.shape if item.kind == "scalar" else item.operands[0].shape)
        axes = None if item.kind == "scalar" else reduce_axes(item)
        for a in ((axes,) if axes is not None else (None,)):
            group = latest.get((level + 1, domain, a))
            # a group remembered before it took a reduction has axes by now
            if group is not None and _room(item, group) and _same_inputs(item, group) and runs(item, group):
                return group
    return None


def _same_inputs(item: Item, group: Group) -> bool:
    # siblings merge only where they read something in common: unrelated work in one kernel saves no memory traffic
    if group.domain == ():
        return True
    mine = {(v.base, v.strides, v.offset) for v in item.operands}
    return bool(mine & group.leaves)


def _room(item: Item, group: Group) -> bool:
    if len(group.items) >= (MAX_EPILOGUE if group.kind == "gemm" else MAX_OPS):
        return False
    new = {(v.base, v.strides, v.offset) for v in item.operands if v.base.item.group is not group}
    return len(group.leaves | new) <= MAX_VALUES


def fits(item: Item, group: Group) -> bool:
    """Whether the group can take the item; a reduction of what the group computes gives it its axes."""
    if group.kind == "single" or not _room(item, group):
        return False
    if group.kind == "gemm":
        return _fits_epilogue(item, group)
    if item.kind == "reduce":
        source = item.operands[0]
        axes = reduce_axes(item)
        if group.axes is not None and group.axes != axes:
            return False
        if source.base.item.group is not group or not is_direct(source, group.domain) or _row_valued(source.base, group):
            return False
        if group.axes is None:
            if not all(_run_collapses(domain_strides(v, group), group.domain, axes) for i in group.items for v in i.operands):
                return False
            group.axes = axes
        return True
    return runs(item, group) and _fits_loop(item, group)


def joins_reduce(item: Item, group: Group) -> bool:
    """Whether the group can take a reduction of something in memory; gives the group its axes."""
    if item.kind != "reduce" or group.kind != "loop" or not _room(item, group):
        return False
    source, axes = item.operands[0], reduce_axes(item)
    if source.base.item.group is group or domain_of(source.shape) != group.domain or group.axes not in (None, axes):
        return False
    views = [source] if group.axes is not None else [source, *(v for i in group.items for v in i.operands)]
    if not all(_run_collapses(domain_strides(v, group), group.domain, axes) for v in views):
        return False
    group.axes = axes
    return True


def runs(item: Item, group: Group) -> bool:
    """The axes that the group reduces are one run for every operand of the item."""
    return not group.axes or all(_run_collapses(domain_strides(v, group), group.domain, group.axes) for v in item.operands)


def domain_strides(view: View, group: Group) -> tuple[Size, ...] | None:
    """Strides over the group's domain, or None for a view of one element per row."""
    return walked(view) if domain_of(view.shape) == group.domain else None


def _run_collapses(strides: tuple[Size, ...] | None, domain: tuple[Size, ...], axes: tuple[int, ...]) -> bool:
    # the order in which elements are reduced is their row-major order: the run must be one axis for every operand
    from .views import collapse
    return strides is None or len(collapse([domain[k] for k in axes], [[strides[k] for k in axes]])[0]) <= 1


def _row_valued(value: Value, group: Group) -> bool:
    """Whether a value computed inside the group has one element per row."""
    item = value.item
    return group.axes is not None and (item.kind == "reduce" or domain_of(item.shape) != group.domain)


def _fits_loop(item: Item, group: Group) -> bool:
    domain = domain_of(item.shape)
    full = domain == group.domain
    uses_rows = False
    for v in item.operands:
        if v.base.item.group is not group:
            continue
        if _row_valued(v.base, group):
            if not is_row(v, group):
                return False
            uses_rows = True
        elif not (full and is_direct(v, group.domain)):
            return False
    if not full and not (group.axes is not None and domain == group.row_domain and uses_rows):
        return False
    if uses_rows:
        if not rows_possible(group):
            return False
        group.rows = True
    return True


def rows_possible(group: Group) -> bool:
    """Reduced axes are the last ones, and a row is known to be short."""
    if not group.axes:
        return False
    rank = len(group.domain)
    if group.axes != tuple(range(rank - len(group.axes), rank)):
        return False
    length: Size = 1
    for k in group.axes:
        length = length * group.domain[k]
    return isinstance(length, int) and length <= ROW_BLOCK


def _fits_epilogue(item: Item, group: Group) -> bool:
    if item.kind != "scalar" or item.shape != group.items[0].shape:
        return False
    for v in item.operands:
        if v.base.item.group is group:
            if v.strides != contiguous(item.shape) or v.offset != 0 or v.base.aval.shape != item.shape:
                return False
        elif not (v.strides[-1] in (0, 1) or v.shape[-1] == 1):
            return False
    return True
