"""State becomes dataflow: variables enter as inputs, an assign yields the next version, a read names its version.

A read sees the latest assign that happens before it (by data or control edges); unordered reads see the value at the run's entry, except that
a variable without a value at entry is read after the latest assign made before the read. Assigns of one variable follow
their order of creation. Random streams are versions too: each use takes the offset the one before it left.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from staticgraph.dtypes import bool_, int64
from staticgraph.ir import walk
from staticgraph.ir.aval import Aval, symbols_of
from staticgraph.ir.graph import Graph, Node
from staticgraph.ir.opdef import Control
from staticgraph.ir.rewrite import RewriteBuilder
from staticgraph.ops import state

from .lower_regions import key_of, known_branch, lower_control, needs_lowering, step

Key = tuple[str, Any]                        # ("variable", uid), ("stream", uid) or, gone when the run ends, ("run_state", uid)


@dataclass
class Lowered:
    """A pure graph: ``inputs`` are (kind, key, node) in the order of their index, with kind feed, variable or stream; outputs are
    the fetches, then the last ``versions`` as (kind, uid, output index). ``missing`` are uids read without a value.
    """

    graph: Graph
    inputs: list[tuple[str, Any, Node]]
    versions: list[tuple[str, Any, int]]
    missing: list[Any] = field(default_factory=list)


class _State:
    """Versions under construction."""

    def __init__(self, uninitialized: frozenset[Any]) -> None:
        self.graph = Graph(intern=True)
        self.b = RewriteBuilder(self.graph, {})
        self.inputs: list[tuple[str, Any, Node]] = []
        self.history: dict[Key, list[Node | None]] = {}      # version 0 is the value at entry, made when it is needed
        self.entry: dict[Key, tuple[str, Any, Any]] = {}
        self.uninitialized = uninitialized
        self.missing: dict[Any, None] = {}
        self.last_effect: tuple[Node, ...] = ()              # what the next effect comes after

    def input(self, kind: str, key: Any, aval: Any, like: Node) -> Node:
        """A new input of the graph."""
        self.b.site, self.b.role = like.site, like.role
        node: Node = self.b.input(aval=aval, index=len(self.inputs))
        self.inputs.append((kind, key, node))
        return node

    def effect_before(self, n: Node) -> tuple[Node, ...]:
        """Control inputs of a new node: effects keep their order."""
        return self.last_effect if n.has_effect else ()

    def effect_after(self, made: Node) -> None:
        """A node was made: the next effect comes after it, if it is one."""
        if made.has_effect:
            self.last_effect = (made,)

    def inline(self, region: Any, args: Sequence[Node]) -> list[Node]:
        """A region's nodes with ``args`` for its parameters; its effects come after those so far."""
        made = dict(zip(region.params, args))
        for n in region.nodes:
            if n not in made:
                self.b.site, self.b.role = n.site, n.role
                made[n] = self.b.node(n.op, tuple(made[i] for i in n.inputs), n.kw, self.effect_before(n))
                self.effect_after(made[n])
        return [made[r] for r in region.results]

    def know(self, key: Key, kind: str, detail: Any, aval: Any) -> None:
        """Introduce a variable or stream."""
        if key not in self.history:
            self.history[key] = [None]
            self.entry[key] = (kind, detail, aval)

    def version(self, key: Key, index: int, like: Node) -> Node:
        """A version's node; version 0 becomes an input here."""
        found = self.history[key][index]
        if found is None:
            kind, detail, aval = self.entry[key]
            if kind == "variable" and detail in self.uninitialized:
                self.missing[detail] = None
            found = self.history[key][0] = self.b.zeros(aval) if kind == "run_state" else self.input(kind, detail, aval, like)
        return found

    def latest(self, key: Key) -> int:
        """The number of the newest version."""
        return len(self.history[key]) - 1

    def push(self, key: Key, value: Node) -> int:
        """A new version; returns its number."""
        self.history[key].append(value)
        return self.latest(key)


def lower_state(fetches: Sequence[Node], feeds: Iterable[Node], uninitialized: frozenset[Any] = frozenset()) -> Lowered:
    """The pure graph that gives ``fetches`` when ``feeds`` are fed (nothing above a fed node runs)."""
    feeds = list(feeds)
    fed = set(feeds)
    order = walk.ancestors(fetches, stop=fed)
    s = _State(uninitialized)
    made: dict[Node, Any] = {}
    seen_by: dict[Node, dict[Key, int]] = {}             # per node: versions that happen before its users
    for n in order:
        if n in fed:
            made[n] = s.input("feed", n, n.aval, n)
            seen_by[n] = {}
            continue
        before = _merged([seen_by[i] for i in (*n.inputs, *n.control)])
        s.b.site, s.b.role = n.site, n.role
        if key := key_of(n):
            made[n] = key
            s.know(key, *key, n.aval)
        elif n.op is state.read:
            key = made[n.inputs[0]]
            made[n] = key if isinstance(key, Node) else _read(s, key, before.get(key, 0), n)
        elif "assign" in n.op.traits:
            before = _assign(s, n, made, before)
        elif n.op is state.is_initialized:
            key = made[n.inputs[0]]
            made[n] = s.b.const(np.array(key[1] not in uninitialized or s.latest(key) > 0), bool_)
        elif "draw" in n.op.traits and not n.inputs:
            made[n] = _draw(s, n)
        elif n.op is state.group:
            made[n] = s.b.const(np.array(True), bool_)
        elif isinstance(n.op.lower, Control) and n.op.lower.kind == "get" and isinstance(made[n.inputs[0]], list):
            made[n] = made[n.inputs[0]][n.attr("index")]
        elif any(map(needs_lowering, n.regions)) or (uninitialized and known_branch(n, made) is not None):
            before = lower_control(s, n, made, before)
        else:
            made[n] = s.graph.add(n.op, [_value(s, made[i], n) for i in n.inputs], n.attrs, n.aval, control=s.effect_before(n), site=n.site, role=n.role)
            s.effect_after(made[n])
        seen_by[n] = before
    for n in feeds:                          # only its sizes are used
        if n not in made and isinstance(n.aval, Aval) and any(symbols_of(d) for d in n.aval.shape):
            made[n] = s.input("feed", n, n.aval, n)
    outputs = [_value(s, made[f], f) for f in fetches]
    versions = []
    for key, history in s.history.items():
        if len(history) > 1 and key[0] != "run_state":
            versions.append((key[0], key[1], len(outputs)))
            last = history[-1]
            assert last is not None
            outputs.append(last)
    s.graph.outputs = tuple(outputs)
    needed = set(walk.ancestors([*outputs, *(n for n in s.graph.nodes if n.has_effect)])) if s.missing else set()
    return Lowered(s.graph, s.inputs, versions, [key for kind, key, n in s.inputs if kind == "variable" and key in s.missing and n in needed])


def _value(s: _State, made: Any, user: Node) -> Node:
    """A node's value; a variable used directly is read as it is now."""
    return made if isinstance(made, Node) else s.version(made, s.latest(made), user)


def _read(s: _State, key: Key, index: int, n: Node) -> Node:
    if index == 0 and key[1] in s.uninitialized:
        index = s.latest(key)
    return s.version(key, index, n)


def _assign(s: _State, n: Node, made: dict[Node, Any], before: dict[Key, int]) -> dict[Key, int]:
    key = made[n.inputs[0]]
    if isinstance(key, Node):
        from staticgraph.errors import InvalidArgumentError
        from staticgraph.source import raise_at
        raise_at(n.site, InvalidArgumentError(None, n, "a variable that is fed in this run cannot be assigned"))
    operands = [_value(s, made[i], n) for i in n.inputs[1:]]
    # plain assign needs no current value, and must not ask for one
    current = None if n.op is state.assign else s.version(key, s.latest(key), n)
    s.b.site, s.b.role = n.site, n.role
    made[n], value = step(s.b, n, current, operands)
    return {**before, key: s.push(key, value)}


def _draw(s: _State, n: Node) -> Node:
    uid = n.attr("uid")
    key: Key = ("stream", uid)
    s.know(key, "stream", (uid, n.attr("seed"), n.attr("seed2")), n.aval)
    now = s.version(key, s.latest(key), n)
    s.b.site, s.b.role = n.site, n.role
    s.push(key, s.b.add(now, _offset(s.b, n.attr("advance"))))
    return now


def _offset(b: Any, advance: Any) -> Node:
    if isinstance(advance, int):
        return b.const(np.array([0, 0, advance], np.int64), int64)
    return b.sizes(sizes=(0, 0, advance), dtype=int64)


def _merged(maps: Sequence[dict[Key, int]]) -> dict[Key, int]:
    """The later version of each variable; maps are shared, not copied, where one holds all (so large graphs stay linear)."""
    best: dict[Key, int] = {}
    for m in maps:
        if not m or m is best:
            continue
        if not best:
            best = m
        elif any(best.get(k, -1) < v for k, v in m.items()):
            best = {**best, **{k: max(v, best.get(k, 0)) for k, v in m.items()}}
    return best
