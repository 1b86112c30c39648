"""Batching: rewrite a graph so that some values carry a batch axis. Every op's ``vmap`` rule does one node, once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..errors import GraphError
from ..ir.aval import Size, TupleAval
from ..ir.builder import TOOLS, GraphBuilder
from ..ir.graph import Graph, Node, Region
from ..ir.opdef import NoRule
from ..ops.helpers import batched
from ..ops.state import get as get_op

Batched = tuple[Any, Any]                    # (value, batch axis or None)


def vmap_nodes(b: GraphBuilder, nodes: Sequence[Node], made: dict[Node, Batched], size: Size) -> dict[Node, Batched]:
    """Copy ``nodes`` (ordered) through ``b``, batched where an input is; ``made`` gives the parameters and is extended."""
    for n in nodes:
        if n in made:
            continue
        saved = b.site, b.role
        b.site, b.role = n.site, n.role
        made[n] = _one(b, n, made, size)
        b.site, b.role = saved
    return made


def _one(b: GraphBuilder, n: Node, made: dict[Node, Batched], size: Size) -> Batched:
    ins = [made[i][0] for i in n.inputs]
    dims = [made[i][1] for i in n.inputs]
    if n.op is get_op:
        value, dim = made[n.inputs[0]]
        k = n.attr("index")
        return value[k], dim[k]
    if all(d is None for d in dims) and "draw" not in n.op.traits:
        out = b.apply(n.op, tuple(ins), n.kw)
        return (out, (None,) * len(out)) if isinstance(n.aval, TupleAval) else (out, None)
    rule = n.op.vmap
    if isinstance(rule, NoRule):
        raise GraphError(f"vmap: operation {n.op.name!r} cannot be batched: {rule.why}")
    result: Batched = rule(b, size, ins, dims, **n.kw)
    return result


def vmap_region(b: GraphBuilder, region: Region, size: Size, dims: Sequence[int | None], out_front: Sequence[bool] | None = None,
                ) -> tuple[Region, list[int | None]]:
    """The region with batched parameters where ``dims`` gives an axis, and the batch axis (0 or None) of each result.

    ``out_front`` forces a result to be batched (a loop's carried values must keep one form).
    """
    from ..ops.helpers import move_axis
    g = Graph(intern=b.graph.intern)
    inner = b.sub_builder(g)
    made: dict[Node, Batched] = {}
    params = []
    for k, (p, d) in enumerate(zip(region.params, dims)):
        shape = p.aval.shape if d is None else (*p.aval.shape[:d], size, *p.aval.shape[d:])
        new = inner.param(aval=p.aval.with_shape(shape), index=k)
        params.append(new)
        made[p] = (new, d)
    vmap_nodes(inner, region.nodes, made, size)
    results: list[Any] = []
    axes: list[int | None] = []
    for k, r in enumerate(region.results):
        value, dim = made[r]
        if dim is not None:
            value, dim = move_axis(inner, value, dim, 0), 0
        elif out_front is not None and out_front[k]:
            value, dim = batched(inner, value, None, size), 0
        results.append(value)
        axes.append(dim)
    return Region(params, g.nodes, results), axes


def vmap_of(b: Any, build: Any, size: Size, ins: Sequence[Any], dims: Sequence[Any]) -> Any:
    """``build(b, *ins)`` batched, for any builder: (value, axis), or tuples of them."""
    inner = Graph(intern=False)
    t = GraphBuilder(inner, site=getattr(b, "site", None))
    params = []
    for k, (x, d) in enumerate(zip(ins, dims)):
        shape = tuple(s for j, s in enumerate(x.aval.shape) if j != d)
        params.append(t.param(aval=x.aval.with_shape(shape), index=k))
    result = build(t, *params)
    single = not isinstance(result, tuple)
    region = Region(params, inner.nodes, (result,) if single else result)
    out, axes = vmap_region(t, region, size, dims)
    values = b.inline(out, list(ins))
    return (values[0], axes[0]) if single else (values, tuple(axes))


TOOLS["vmap_of"] = vmap_of
TOOLS["vmap_region"] = vmap_region
