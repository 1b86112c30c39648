"""Kernels of equal groups are written once: what determines a kernel's text is the key, and the operands are put in anew.

An unrolled loop, or a network of equal layers, has the same few groups many times; writing a kernel costs milliseconds, looking it up microseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..schedule.fuse import Group
from ..schedule.items import PLAIN, Item, Value
from .kernel import BufferAt, CheckId, Kernel, Operand


@dataclass
class _Made:
    items: Sequence[Item]
    outside: Sequence[Value]
    kernels: Sequence[Kernel]


@dataclass
class Kernels:
    """The kernels of one program so far."""

    made: dict[Hashable, _Made] = field(default_factory=dict)

    def of(self, group: Group, make: Callable[[], list[Kernel]]) -> list[Kernel]:
        """The group's kernels: by ``make``, or those of an equal group with this group's operands."""
        key, outside = _key(group)
        found = self.made.get(key)
        if found is None:
            kernels = make()
            self.made[key] = _Made(list(group.items), outside, kernels)
            return kernels
        return _moved(found, group, outside)


def _key(group: Group) -> tuple[Hashable, list[Value]]:
    """All that a generator looks at, values by their place; and the values from outside in the order of these places."""
    inside = {v: (k, j) for k, i in enumerate(group.items) for j, v in enumerate(i.values)}
    outside: dict[Value, int] = {}
    parts: list[Hashable] = []
    for i in group.items:
        operands = tuple((inside.get(v.base) or outside.setdefault(v.base, len(outside)), v.shape, v.strides, v.offset) for v in i.operands)
        stored = tuple((v.aval, v.buffer is not None and v.buffer.space == "out", v.buffer is not None) for v in i.values)
        emit = i.emit if i.emit in PLAIN else None          # every other is that of the op with the node's attributes
        parts.append((i.kind, i.node.op, i.node.attrs, emit, i.axis, i.combine, i.blocked, operands, stored))
    # an index has the dtype of its values, and nothing else
    given = tuple((v.aval, v.item.kind == "index") for v in outside)
    return (group.kind, group.domain, group.axes, tuple(parts), given), list(outside)


def _moved(found: _Made, group: Group, outside: Sequence[Value]) -> list[Kernel]:
    values: dict[Value, Value] = dict(zip(found.outside, outside))
    nodes: dict[Any, Any] = {}
    for old, new in zip(found.items, group.items):
        values.update(zip(old.values, new.values))
        nodes[old.node] = new.node
    own = dict(zip(found.items, group.items))

    def value(v: Value) -> Value:
        new = values.get(v)
        if new is None:                                     # memory for this kernel only
            new = values[v] = Value(own[v.item], v.index, v.aval)
        return new

    def operand(o: Operand) -> Operand:
        if isinstance(o, BufferAt):
            return replace(o, value=value(o.value))
        return CheckId(nodes[o.node]) if isinstance(o, CheckId) else o
    return [replace(k, operands=[operand(o) for o in k.operands], reads=[value(v) for v in k.reads], writes=[value(v) for v in k.writes],
                    scratch=[value(v) for v in k.scratch], items=[own[i] for i in k.items]) for k in found.kernels]
