"""Forward mode: push tangents through nodes in order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..errors import NotDifferentiableError
from ..ir import walk
from ..ir.aval import TupleAval
from ..ir.builder import TOOLS, GraphBuilder
from ..ir.graph import Graph, Node, Region
from ..ir.opdef import NoRule, NotDifferentiable
from ..ops.state import get as get_op


def jvp(b: GraphBuilder, ys: Sequence[Node], tangents: dict[Node, Any]) -> list[Any]:
    """Tangents of ``ys`` where ``tangents`` gives those of some nodes (not passed through); None where a y does not depend on them."""
    found: dict[Node, Any] = dict(tangents)
    for n in walk.ancestors(ys, stop=tangents, control=False):
        if n in found or not any(found.get(i) is not None for i in n.inputs):
            continue
        with b.at(n.site, f"tangent of %{n.id}"):
            found[n] = _tangent(b, n, found)
    return [found.get(y) for y in ys]


def _tangent(b: GraphBuilder, n: Node, found: dict[Node, Any]) -> Any:
    if n.op is get_op:
        return found[n.inputs[0]][n.attr("index")]
    rule = n.op.jvp
    if isinstance(rule, NotDifferentiable):
        return None
    if isinstance(rule, NoRule):
        raise NotDifferentiableError(f"No forward derivative defined for operation {n.op.name!r}: {rule.why}")
    out: Any = n
    if isinstance(n.aval, TupleAval):
        out = tuple(b.node(get_op, (n,), {"index": k}) for k in range(len(n.aval.elements)))
    return rule(b, [found.get(i) for i in n.inputs], out, *n.inputs, **n.kw)


def jvp_region(region: Region, with_tangent: Sequence[bool]) -> tuple[Region, list[bool]]:
    """The region (params..., tangents of the marked params...) -> (results..., tangents of the connected results...)."""
    g = Graph(intern=False)
    b = GraphBuilder(g, site=region.nodes[0].site if region.nodes else None)
    params = [b.param(aval=p.aval, index=k) for k, p in enumerate(region.params)]
    marked = [p for p, w in zip(params, with_tangent) if w]
    tangents = [b.param(aval=p.aval, index=len(params) + k) for k, p in enumerate(marked)]
    results = b.inline(region.without_effects(), params)
    out = jvp(b, results, dict(zip(marked, tangents)))
    connected = [t is not None for t in out]
    return Region([*params, *tangents], g.nodes, [*results, *(t for t in out if t is not None)]), connected


def jvp_of(b: Any, build: Any, xs: Sequence[Any], ts: Sequence[Any]) -> Any:
    """Tangent of ``build(b, *xs)`` for any builder; None where it does not depend on the inputs with a tangent."""
    inner = Graph(intern=False)
    t = GraphBuilder(inner, site=getattr(b, "site", None))
    params = [t.param(aval=x.aval, index=k) for k, x in enumerate(xs)]
    result = build(t, *params)
    single = not isinstance(result, tuple)
    region = Region(params, inner.nodes, (result,) if single else result)
    pushed, connected = jvp_region(region, [x is not None for x in ts])
    values = b.inline(pushed, [*xs, *(x for x in ts if x is not None)])[len(connected):]
    rest = iter(values)
    out = tuple(next(rest) if c else None for c in connected)
    return out[0] if single else out


TOOLS["jvp_of"] = jvp_of
TOOLS["jvp_region"] = jvp_region
