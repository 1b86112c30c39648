"""State and effects inside of regions: cond and while carry the variables they use as operands, and those they assign as results.

Within a region, a read sees the latest assign made before it; effects keep their order by control inputs. Regions in regions are lowered alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from staticgraph.dtypes import bool_
from staticgraph.errors import GraphError
from staticgraph.ir import walk
from staticgraph.ir.graph import Graph, Node, Region
from staticgraph.ir.opdef import OPS
from staticgraph.ir.rewrite import RewriteBuilder
from staticgraph.ops import control, state
from staticgraph.ops.arrays import run_state

Key = tuple[str, Any]


def needs_lowering(region: Region) -> bool:
    """Whether it holds anything that this pass replaces: variables, streams, groups, control inputs, or effects to be ordered."""
    return any(key_of(n) or n.op is state.group or n.control or n.has_effect or ("draw" in n.op.traits and not n.inputs)
               or any(map(needs_lowering, n.regions)) for n in region.nodes)


def key_of(n: Node) -> Key | None:
    """What a leaf refers to: a variable of the session, or a state of the run; None for other nodes."""
    return (n.op.name, n.attr("uid")) if n.op is state.variable or n.op is run_state else None


def step(b: Any, n: Node, current: Any, operands: Sequence[Node]) -> tuple[Any, Any]:
    """An effect on a variable: its node's value, and the variable's next one."""
    assert n.op.step is not None
    got = n.op.step(b, current, *operands, **n.kw)
    return got if "result" in n.op.traits else (got, got)


@dataclass
class Use:
    """Variables that regions touch: avals of all, those assigned, and those whose value at entry is needed."""

    avals: dict[Key, Any] = field(default_factory=dict)
    assigned: dict[Key, None] = field(default_factory=dict)
    needed: dict[Key, None] = field(default_factory=dict)


def use_of(n: Node, regions: Sequence[Region]) -> Use:
    """Of a control-flow node: what one region alone assigns, or a loop of perhaps no trip, must be there before."""
    parts = [_use_of_region(r) for r in regions]
    out = Use()
    for p in parts:
        out.avals.update(p.avals)
        out.assigned.update(p.assigned)
        out.needed.update(p.needed)
    always = [k for k in out.assigned if n.op is control.cond and all(k in p.assigned for p in parts)]
    out.needed.update((k, None) for k in out.assigned if k not in always)
    return out


def _use_of_region(region: Region) -> Use:
    """Only what the results need counts: an unattached assign does not run."""
    out = Use()

    def used(n: Node) -> None:
        if (key := key_of(n)) and key not in out.assigned:
            out.needed[key] = None
    for n in walk.ancestors(region.results):
        if key := key_of(n):
            out.avals[key] = n.aval
        elif "assign" in n.op.traits:
            for i in n.inputs[1 if n.op is state.assign else 0:]:
                used(i)
            assigned = key_of(n.inputs[0])
            assert assigned is not None
            out.assigned[assigned] = None
        elif n.op is not state.is_initialized:
            for i in n.inputs:
                used(i)
        if n.regions:
            inner = use_of(n, n.regions)
            out.avals.update(inner.avals)
            out.needed.update((k, None) for k in inner.needed if k not in out.assigned)
            out.assigned.update(inner.assigned)
    for r in region.results:
        used(r)
    return out


def known_branch(n: Node, made: Mapping[Node, Any]) -> Region | None:
    """The branch of a cond that runs, where its predicate is a constant (such as whether a variable has a value)."""
    pred = made[n.inputs[0]] if n.op is control.cond else None
    if not isinstance(pred, Node) or pred.op is not state.const:
        return None
    found: Region = n.attr("true" if pred.attr("value").array else "false")
    return found


def lower_control(s: Any, n: Node, made: dict[Node, Any], before: dict[Key, int]) -> dict[Key, int]:
    """Replace a node with regions that need it; ``made[n]`` becomes the new node, or the list of its values. Returns the versions after it."""
    known = known_branch(n, made)
    regions = n.regions if known is None else (known,)
    use = use_of(n, regions)
    for key, aval in use.avals.items():
        s.know(key, *key, aval)
    operands = [made[i] if isinstance(made[i], Node) else s.version(made[i], s.latest(made[i]), n) for i in n.inputs]
    now = {}
    for key in use.needed:
        index = s.latest(key) if key in use.assigned else before.get(key, 0)
        if index == 0 and key[1] in s.uninitialized:
            index = s.latest(key)
        now[key] = s.version(key, index, n)
    unset = frozenset(k[1] for k in use.avals if k[1] in s.uninitialized and s.latest(k) == 0)
    s.b.site, s.b.role = n.site, n.role
    if known is not None:                    # inlined: the other branch may need what is not there
        keys = list(use.needed)
        region = _lowered(regions[0], [*range(len(operands) - 1), *keys], use, list(use.assigned), unset)
        got = s.inline(region, [*operands[1:], *(now[k] for k in keys)])
        made[n] = got[:len(n.aval.elements)]
        values = dict(zip(use.assigned, got[len(n.aval.elements):]))
    else:
        made[n], values = _rebuilt(s.b, n, regions, operands, use, now, unset, s.effect_before(n))
        s.effect_after(made[n])
    after = dict(before)
    for key, value in values.items():
        after[key] = s.push(key, value)
    return after


def _rebuilt(b: Any, n: Node, regions: Sequence[Region], operands: Sequence[Node], use: Use, now: Mapping[Key, Node], unset: frozenset[Any],
             order: tuple[Node, ...]) -> tuple[Node, dict[Key, Node]]:
    """The node with regions that carry variables, and the new values of those it assigns."""
    writes = list(use.assigned)
    count = len(n.aval.elements)
    if n.op is control.cond:
        keys = list(use.needed)
        attrs: dict[str, Any] = {k: _lowered(r, [*range(len(r.params)), *keys], use, writes, unset) for (k, _), r in zip(n.attrs, regions)}
        inputs = [*operands, *(now[k] for k in keys)]
    elif n.op is control.while_loop:
        reads = [k for k in use.needed if k not in use.assigned]
        order_of = [*range(count), *writes, *range(count, len(operands)), *reads]
        attrs = {"cond": _lowered(n.attr("cond"), order_of, use, [], unset), "body": _lowered(n.attr("body"), order_of, use, writes, unset), "limit": n.attr("limit")}
        inputs = [*operands[:count], *(now[k] for k in writes), *operands[count:], *(now[k] for k in reads)]
    else:
        raise GraphError(f"{n.op.name}: variables cannot be used inside of this operation's function")
    node = b.node(n.op, tuple(inputs), attrs, order)
    return node, {k: b.node(OPS["get"], (node,), {"index": count + j}) for j, k in enumerate(writes)}


def _lowered(region: Region, order: Sequence[Any], use: Use, writes: Sequence[Key], unset: frozenset[Any]) -> Region:
    """The region with parameters in ``order`` (own ones by number, variables by key) and a result more per written key."""
    g = Graph(intern=True)
    b = RewriteBuilder(g, {})
    made: dict[Node, Any] = {}
    latest: dict[Key, Node] = {}
    params = []
    for count, item in enumerate(order):
        own = region.params[item] if isinstance(item, int) else None
        aval = use.avals[item] if own is None else own.aval
        p = g.add(OPS["param"], (), (("aval", aval), ("index", count)), aval)
        params.append(p)
        if own is None:
            latest[item] = p
        else:
            made[own] = p
    last: tuple[Node, ...] = ()

    def value(i: Node) -> Node:
        found = made[i]
        return found if isinstance(found, Node) else latest[found]
    for n in walk.ancestors(region.results):
        if n in made:
            continue
        b.site, b.role = n.site, n.role
        if key := key_of(n):
            made[n] = key
        elif n.op is state.read:
            made[n] = latest[made[n.inputs[0]]]
        elif n.op is state.is_initialized:
            key = made[n.inputs[0]]
            made[n] = b.const(np.array(key in latest or key[1] not in unset), bool_)
        elif "assign" in n.op.traits:
            key = made[n.inputs[0]]
            made[n], latest[key] = step(b, n, None if n.op is state.assign else latest[key], [value(i) for i in n.inputs[1:]])
        elif n.op is state.group:
            made[n] = b.const(np.array(True), bool_)
        else:
            effect = last if n.has_effect else ()
            if any(map(needs_lowering, n.regions)):
                inner = use_of(n, n.regions)
                made[n], values = _rebuilt(b, n, n.regions, [value(i) for i in n.inputs], inner, latest, unset, effect)
                latest.update(values)
            else:
                made[n] = b.node(n.op, tuple(value(i) for i in n.inputs), n.kw, effect)
            if made[n].has_effect:
                last = (made[n],)
    results = [value(r) for r in region.results]
    return Region(params, g.nodes, [*results, *(latest[k] for k in writes)])
