"""State inside of regions: cond and while carry the variables they use as operands, and those they assign as results."""

from __future__ import annotations

from typing import Any

import numpy as np

from staticgraph.dtypes import bool_
from staticgraph.errors import GraphError
from staticgraph.ir import walk
from staticgraph.ir.graph import Graph, Node, Region
from staticgraph.ir.opdef import OPS
from staticgraph.ir.rewrite import RewriteBuilder
from staticgraph.ops import control, state

Key = tuple[str, Any]


class _Use:
    """Variables that a region touches: avals of all, and which ones it assigns."""

    def __init__(self) -> None:
        self.avals: dict[Key, Any] = {}
        self.assigned: dict[Key, None] = {}

    def look(self, region: Region) -> None:
        """Only what the results need counts: an unattached assign does not run."""
        for n in walk.ancestors(region.results):
            if n.op is state.variable:
                self.avals[("variable", n.attr("uid"))] = n.aval
            elif "assign" in n.op.traits:
                self.assigned[("variable", n.inputs[0].attr("uid"))] = None
            for r in n.regions:
                self.look(r)


def lower_control(s: Any, n: Node, made: dict[Node, Any], before: dict[Key, int]) -> dict[Key, int]:
    """Replace a cond or while that touches variables; ``made[n]`` becomes the new node. Returns the versions after it."""
    use = _Use()
    for r in n.regions:
        use.look(r)
    for key, aval in use.avals.items():
        s.know(key, "variable", key[1], aval)
    operands = [made[i] if isinstance(made[i], Node) else s.version(made[i], s.latest(made[i]), n) for i in n.inputs]
    writes = list(use.assigned)
    reads = [k for k in use.avals if k not in use.assigned]
    now = {}
    for key in use.avals:
        index = s.latest(key) if key in use.assigned else before.get(key, 0)
        if index == 0 and key[1] in s.uninitialized:
            index = s.latest(key)
        now[key] = s.version(key, index, n)
    s.b.site, s.b.role = n.site, n.role
    if n.op is control.cond:
        regions = {k: _lowered(v, use.avals, [*writes, *reads], writes) for k, v in n.attrs}
        node = s.b.node(n.op, (*operands, *(now[k] for k in (*writes, *reads))), regions)
        first = len(n.aval.elements)
    elif n.op is control.while_loop:
        carried = len(n.aval.elements)
        kw = n.kw
        new = [*operands[:carried], *(now[k] for k in writes), *operands[carried:], *(now[k] for k in reads)]
        cond = _lowered(kw["cond"], use.avals, [*writes, *reads], [], carried, len(writes))
        body = _lowered(kw["body"], use.avals, [*writes, *reads], writes, carried, len(writes))
        node = s.b.node(n.op, tuple(new), {"cond": cond, "body": body, "limit": kw["limit"]})
        first = carried
    else:
        raise GraphError(f"{n.op.name}: variables cannot be used inside of this operation's function")
    made[n] = node
    after = dict(before)
    for k, key in enumerate(writes):
        value = s.b.node(OPS["get"], (node,), {"index": first + k})
        after[key] = s.push(key, value)
    return after


def _lowered(region: Region, avals: dict[Key, Any], keys: list[Key], writes: list[Key], carried: int | None = None, n_writes: int = 0) -> Region:
    """The region with a parameter per key (after the own ones; in a loop, written ones follow the carried) and a result per written key."""
    g = Graph(intern=True)
    b = RewriteBuilder(g, {})
    own = len(region.params)
    at = own if carried is None else carried
    places: dict[int, Node] = {}
    latest: dict[Key, Node] = {}
    order = [*range(at), *(("key", k) for k in keys[:n_writes]), *range(at, own), *(("key", k) for k in keys[n_writes:])]
    params = []
    for count, item in enumerate(order):
        aval = region.params[item].aval if isinstance(item, int) else avals[item[1]]
        p = g.add(OPS["param"], (), (("aval", aval), ("index", count)), aval)
        params.append(p)
        if isinstance(item, int):
            places[item] = p
        else:
            latest[item[1]] = p
    made: dict[Node, Any] = {p: places[k] for k, p in enumerate(region.params)}
    for n in walk.ancestors(region.results):
        if n in made:
            continue
        b.site, b.role = n.site, n.role
        if n.op is state.variable:
            made[n] = ("variable", n.attr("uid"))
        elif n.op is state.read:
            made[n] = latest[made[n.inputs[0]]]
        elif "assign" in n.op.traits:
            key = made[n.inputs[0]]
            assert n.op.step is not None
            made[n] = latest[key] = n.op.step(b, latest[key], *[_value(made[i], latest) for i in n.inputs[1:]], **n.kw)
        elif n.op is state.group:
            made[n] = b.const(np.array(True), bool_)
        else:
            if any(_touches(r) for r in n.regions):
                raise GraphError(f"{n.op.name}: variables inside of nested branches and loops are not supported yet")
            made[n] = b.node(n.op, tuple(_value(made[i], latest) for i in n.inputs), n.kw)
    results = [_value(made[r], latest) for r in region.results]
    return Region(params, g.nodes, [*results, *(latest[k] for k in writes)])


def _touches(region: Region) -> bool:
    use = _Use()
    use.look(region)
    return bool(use.avals)


def _value(made: Any, latest: dict[Key, Node]) -> Node:
    return made if isinstance(made, Node) else latest[made]
