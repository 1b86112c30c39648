"""Iterative walks over nodes: no recursion, so depth is never limited."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from .graph import Node


def ancestors(roots: Iterable[Node], stop: Iterable[Node] = (), control: bool = True) -> list[Node]:
    """The roots and everything they depend on, in id order (inputs first). Nodes in ``stop`` are included, not passed."""
    blocked = set(stop)
    seen: set[Node] = set()
    stack = list(roots)
    while stack:
        n = stack.pop()
        if n in seen:
            continue
        seen.add(n)
        if n in blocked:
            continue
        stack.extend(n.inputs)
        if control:
            stack.extend(n.control)
    return sorted(seen, key=lambda n: n.id)


def users(nodes: Iterable[Node]) -> dict[Node, list[Node]]:
    """For each node, its users among ``nodes`` in order (a user appears once per operand)."""
    out: dict[Node, list[Node]] = {}
    for n in nodes:
        out.setdefault(n, [])
        for i in n.inputs:
            out.setdefault(i, []).append(n)
    return out


def reaches(nodes: Iterable[Node], sources: Iterable[Node], through: Callable[[Node], bool] = lambda n: True) -> set[Node]:
    """Nodes (of an ordered list) that depend on a source by data, sources included; ``through(n)`` False cuts at n."""
    hit = set(sources)
    for n in nodes:
        if n not in hit and through(n) and any(i in hit for i in n.inputs):
            hit.add(n)
    return hit


def path(start: Node, end: Node) -> list[Node]:
    """A shortest data path from ``start`` (an ancestor) to ``end``, both included; empty if there is none."""
    parent: dict[Node, Node | None] = {end: None}
    queue = [end]
    for n in queue:
        if n is start:
            out: list[Node] = []
            step: Node | None = n
            while step is not None:
                out.append(step)
                step = parent[step]
            return out
        for i in (*n.inputs, *n.control):
            if i not in parent and i.id >= start.id:
                parent[i] = n
                queue.append(i)
    return []


def depth(nodes: Iterable[Node]) -> int:
    """Length of the longest data path, counted in nodes."""
    level: dict[Node, int] = {}
    for n in nodes:
        level[n] = 1 + max((level.get(i, 0) for i in n.inputs), default=0)
    return max(level.values(), default=0)


def rename(nodes: Iterable[Node], made: Mapping[Node, Node]) -> tuple[Node, ...]:
    """The images of ``nodes`` under a mapping."""
    return tuple(made[n] for n in nodes)
