"""The walk backwards: users before operands, cotangents that meet are added.

Operations are visited in the reverse of their recorded order, from a heap, so depth costs no recursion. Without ``create_graph``
cotangents are plain arrays. Leaves receive theirs when the walk has ended: a backward that fails leaves every ``grad`` as it was.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..transforms.gradient import Slices
from .modes import GradMode
from .tape import AutogradError, Edge, GradFn


def walk_back(b: Any, roots: Sequence[tuple[Edge, Any]], retain: bool, create: bool, wanted: Sequence[Edge] | None = None) -> dict[Any, Any]:
    """Cotangents from ``roots`` (edges and tensors) back to the leaves, or to the ``wanted`` edges; by edge. Arrays, or tensors where ``create``.

    With ``wanted`` only operations on a path to one of them are run (and freed).
    """
    useful = None if wanted is None else leading_to([e[0] for e, _ in roots if e is not None], {e[0] for e in wanted if e is not None})
    targets: dict[GradFn, list[int]] = {}
    for e in wanted or ():
        if e is not None:
            targets.setdefault(e[0], []).append(e[1])
    with GradMode(create), np.errstate(all="ignore"):
        return _walk(b, roots, retain, create, useful, targets, wanted is None)


def _walk(b: Any, roots: Any, retain: bool, create: bool, useful: set[GradFn] | None, targets: dict[GradFn, list[int]], everything: bool) -> dict[Any, Any]:
    pending: dict[GradFn, list[Any]] = {}
    leaves: dict[GradFn, Any] = {}
    found: dict[Any, Any] = {}
    heap: list[tuple[int, GradFn]] = []
    push, pop = heapq.heappush, heapq.heappop

    def give(edge: Edge, ct: Any) -> None:
        fn, k = edge
        if fn.order == 0:
            leaves[fn] = _first(ct) if fn not in leaves else _add(b, leaves[fn], ct, create)
            return
        totals = pending.get(fn)
        if totals is None:
            totals = pending[fn] = [None] * len(fn.outs)
            push(heap, (fn.order, fn))
        totals[k] = _first(ct) if totals[k] is None else _add(b, totals[k], ct, create)

    for edge, ct in roots:
        if edge is not None:
            give(edge, ct if create else ct._array)
    while heap:
        fn = pop(heap)[1]
        totals = pending.pop(fn)
        for k, t in enumerate(totals):
            if t.__class__ is Rows:
                totals[k] = t.dense()
        if fn.hooks or fn.retained:
            tensor_hooks(b, fn, totals, create)
        if fn in targets:
            for k in targets[fn]:
                if totals[k] is not None:
                    found[fn, k] = totals[k]
            if not everything and useful is not None and not any(e is not None and e[0] in useful for e in fn.edges):
                continue
        if fn.node_prehooks:
            totals = _node_hooks(b, fn.node_prehooks, (totals,), 0, create)
        result = fn.pull(b, totals, create)
        if fn.node_hooks:
            result = _node_hooks(b, fn.node_hooks, (list(result), totals), 0, create)
        if not retain:
            fn.free()
        for edge, ct in zip(fn.edges, result):
            if ct is not None and edge is not None and (useful is None or edge[0] in useful):
                give(edge, ct)
    for fn, ct in leaves.items():
        if everything or fn in targets:
            found[fn, 0] = dense(ct)
    return found


def _add(b: Any, total: Any, ct: Any, create: bool) -> Any:
    """The sum of two contributions, in the order the static driver adds them."""
    if create:
        return b.add(total, ct)
    if total.__class__ is Rows:
        return total.plus(ct)
    return Rows(total, []).plus(ct) if ct.__class__ is Slices else np.add(total, ct)


def _first(ct: Any) -> Any:
    return Rows(None, [ct]) if ct.__class__ is Slices else ct


class Rows:
    """A sum with row-sparse parts: they are added when all are there, after the full ones."""

    __slots__ = ("full", "parts")

    def __init__(self, full: Any, parts: list[Slices]) -> None:
        self.full, self.parts = full, parts

    def plus(self, ct: Any) -> Rows:
        """With one more contribution."""
        if ct.__class__ is Slices:
            return Rows(self.full, [*self.parts, ct])
        return Rows(ct if self.full is None else np.add(self.full, ct), self.parts)

    def dense(self) -> Any:
        """The whole."""
        if self.full is None:
            first = self.parts[0]
            values = first.values if len(self.parts) == 1 else np.concatenate([p.values for p in self.parts])
            total = np.zeros(first.shape, values.dtype)
            np.add.at(total, np.concatenate([p.indices for p in self.parts]), values)
            return total
        total = np.array(self.full)
        for p in self.parts:
            np.add.at(total, p.indices, p.values)
        return total


def dense(ct: Any) -> Any:
    """A cotangent in full."""
    return Rows(None, [ct]).dense() if ct.__class__ is Slices else ct.dense() if ct.__class__ is Rows else ct


def leading_to(starts: Sequence[GradFn], ends: set[Any]) -> set[Any]:
    """What lies on a path from ``starts`` to ``ends``, ends included."""
    order: list[GradFn] = []
    seen: set[GradFn] = set()
    stack = list(starts)
    while stack:
        fn = stack.pop()
        if fn in seen:
            continue
        seen.add(fn)
        order.append(fn)
        stack.extend(e[0] for e in fn.edges if e is not None)
    useful = set(ends)
    for fn in sorted(order, key=lambda f: -f.order):     # operands (older: a larger order) before users
        if any(e is not None and e[0] in useful for e in fn.edges):
            useful.add(fn)
    return useful


def tensor_hooks(b: Any, fn: GradFn, totals: list[Any], create: bool) -> None:
    """Run the hooks of an operation's results; the one that keeps ``grad`` comes last and sees what they made of it."""
    for k, hooks in (fn.hooks or {}).items():
        if totals[k] is not None:
            t = totals[k] if create else b.tensor_type._wrap(totals[k])
            for (hook,) in tuple(hooks):
                changed = hook(t)
                t = t if changed is None else check_hook(b, changed, t)
            totals[k] = t if create else t._array
    for k, kept in (fn.retained or {}).items():
        if totals[k] is not None:
            kept._add_grad(totals[k] if create else b.tensor_type._wrap(totals[k]), create)


def check_hook(b: Any, changed: Any, ct: Any) -> Any:
    """What a hook gave in place of a gradient, as a tensor of the gradient's shape."""
    t = changed if isinstance(changed, b.tensor_type) else b.const(changed, ct.dtype)
    if t.shape != ct.shape or t.dtype != ct.dtype:
        raise AutogradError(f"a hook has changed the gradient {ct.aval} to {t.aval}: shape and dtype must stay")
    return t


def _node_hooks(b: Any, hooks: Any, given: tuple[Any, ...], which: int, create: bool) -> list[Any]:
    def wrap(values: Any) -> tuple[Any, ...]:
        return tuple(None if v is None else v if create else b.tensor_type._wrap(dense(v)) for v in values)
    args = [wrap(g) for g in given]
    for (hook,) in tuple(hooks):
        changed = hook(*args)
        if changed is not None:
            args[which] = tuple(changed) if isinstance(changed, (tuple, list)) else (changed,)
    return [None if t is None else t if create else t._array for t in args[which]]
