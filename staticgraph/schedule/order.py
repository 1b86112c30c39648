"""The order of groups: data first, then what must not be overwritten too early, then memory.

A *target* is a buffer that already holds a value (a variable, a loop's carried value) and that a group is to overwrite in place.
That is allowed if every other reader of the old value comes before, and if nothing that can fail comes after (for variables). Where
the wishes contradict each other (a swap), the writer gets a buffer of its own and a copy at the end.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from ..ir.aval import measured_in
from .fuse import Group
from .items import Value, named_sizes
from .steps import Buffer


class Targets:
    """Which group overwrites which buffer in place."""

    def __init__(self) -> None:
        self.writer: dict[Buffer, Group] = {}
        self.value: dict[Buffer, Value] = {}
        self.along: dict[Buffer, list[Value]] = {}           # values before it that the same buffer holds: each is overwritten by the next

    def add(self, buffer: Buffer, group: Group, value: Value) -> None:
        """Plan to overwrite ``buffer`` by ``value`` of ``group``."""
        self.writer[buffer] = group
        self.value[buffer] = value

    def drop(self, buffer: Buffer) -> None:
        """Give the writer a buffer of its own instead."""
        value = self.value.pop(buffer)
        del self.writer[buffer]
        value.buffer = Buffer("ws", buffer.bytes, name=buffer.name)
        for v in self.along.pop(buffer, ()):
            v.buffer = value.buffer

    def writers(self, buffer: Buffer) -> list[Group]:
        """All groups that write it, the last one included."""
        return [self.writer[buffer], *(v.item.group for v in self.along.get(buffer, ()))]


def order(groups: Sequence[Group], targets: Targets, readers: dict[Buffer, list[Group]], failing: set[Group]) -> list[Group]:
    """Groups in execution order; drops targets that cannot be overwritten in place.

    Where data leave a choice, the program's order holds: a group stands where its last item was written. A gradient's program writes a
    checkpoint's second forward pass just before the adjoints that read it, so those values live only then.
    """
    groups = sorted(groups, key=lambda g: max(i.node.id for i in g.items))
    while True:
        done = _sort(groups, targets, readers, failing)
        if len(done) == len(groups):
            return done
        stuck = set(groups) - set(done)
        victim = next(b for b, g in targets.writer.items() if g in stuck)
        targets.drop(victim)


def sources(groups: Sequence[Group]) -> dict[Group, dict[Group, None]]:
    """The groups that must run before each group: those that give its values, and those that measure its sizes."""
    before: dict[Group, dict[Group, None]] = {g: {} for g in groups}
    measures = {s: g for g in groups for item in g.items if "measure" in item.node.op.traits for s in measured_in(item.node.attr("size"))}
    for g in groups:
        for item in g.items:
            named_here = sorted(named_sizes(item)) if measures else ()
            for source in (*(measures.get(s) for s in named_here), *(v.base.item.group for v in item.operands)):
                if source is not None and source is not g:
                    before[g][source] = None
    return before


def _sort(groups: Sequence[Group], targets: Targets, readers: dict[Buffer, list[Group]], failing: set[Group]) -> list[Group]:
    position = {g: k for k, g in enumerate(groups)}
    before = {g: set(needs) for g, needs in sources(groups).items()}
    state_writers = {g for b, g in targets.writer.items() if b.space == "state"}
    for buffer in targets.writer:
        for writer in targets.writers(buffer):
            before[writer] |= {r for r in readers.get(buffer, ()) if r is not writer}
    for writer in state_writers:
        before[writer] |= failing - {writer}
    after: dict[Group, list[Group]] = {g: [] for g in groups}
    count = {}
    for g, needs in before.items():
        count[g] = len(needs)
        for n in needs:
            after[n].append(g)
    heap = [(g not in state_writers, position[g]) for g in groups if count[g] == 0]
    heapq.heapify(heap)
    out: list[Group] = []
    while heap:
        _, k = heapq.heappop(heap)
        g = groups[k]
        out.append(g)
        for u in after[g]:
            count[u] -= 1
            if count[u] == 0:
                heapq.heappush(heap, (u not in state_writers, position[u]))
    return out
