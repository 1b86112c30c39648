"""Reverse mode: append adjoint nodes to a graph, users before inputs.

A node's adjoint is complete when all its users have been visited; contributions that meet are added, and summed down
to the node's shape, here and nowhere else. Linear in nodes: each node is visited once whatever the number of paths.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Union

from ..errors import DTypeError, NotDifferentiableError, ShapeError
from ..ir import walk
from ..ir.aval import TupleAval
from ..ir.builder import TOOLS, GraphBuilder
from ..ir.graph import Graph, Node, Region
from ..ir.opdef import NoRule, NotDifferentiable
from ..ops.shape import pad as pad_op
from ..ops.state import get as get_op


@dataclass(frozen=True)
class Slices:
    """A cotangent that is nonzero in some rows only: ``values[k]`` belongs to row ``indices[k]``; repeated rows add up."""

    indices: Any                 # int[k]
    values: Any                  # [k, *shape[1:]]
    shape: tuple[Any, ...]

    def dense(self, b: Any) -> Any:
        """The full array: zeros with the rows added."""
        zeros = b.zeros(self.values.aval.with_shape(self.shape))
        return b.scatter_add(zeros, self.indices, self.values)


Cotangent = Union[None, Any, Slices]


def gradients(b: GraphBuilder, ys: Sequence[Node], xs: Sequence[Node], cts: Sequence[Cotangent] | None = None,
              stop: Iterable[Node] = (), keep_slices: bool = False) -> list[Cotangent]:
    """Cotangents of ``xs`` for cotangents ``cts`` of ``ys`` (default: ones), appended through ``b``.

    None where no differentiable path leads from an x to a y. ``stop`` are nodes taken as constants. With
    ``keep_slices`` row-sparse cotangents stay ``Slices``.
    """
    adjoint: dict[Node, list[Cotangent]] = {}
    for k, y in enumerate(ys):
        ct = cts[k] if cts is not None else None
        if ct is None:
            if not y.dtype.is_floating:
                continue
            with b.at(y.site, f"adjoint of %{y.id}"):
                ct = b.full(y.aval, 1)
        elif not isinstance(ct, Slices) and ct.aval.dtype != y.dtype:
            raise DTypeError(f"the cotangent of {y.aval} has dtype {ct.aval.dtype.name}")
        adjoint.setdefault(y, []).append(ct)
    targets, blocked = set(xs), set(stop)
    order = walk.ancestors(ys, stop=blocked | targets, control=False) if blocked or targets else []
    # an x may itself lie below another x: go on through it where an ancestor of it is asked for
    if any(x.inputs for x in targets):
        order = walk.ancestors(ys, stop=blocked, control=False)
    useful = walk.reaches(order, targets, through=lambda n: n not in blocked)
    for n in reversed(order):
        if n not in adjoint or n not in useful or n in blocked or not n.inputs:
            continue
        if not any(i in useful for i in n.inputs):
            continue
        _visit(b, n, adjoint, useful)
    out: list[Cotangent] = []
    for x in xs:
        parts = adjoint.get(x)
        with b.at(x.site, f"adjoint of %{x.id}"):
            ct = _total(b, x, parts) if parts else None
            out.append(ct.dense(b) if isinstance(ct, Slices) and not keep_slices else ct)
    return out


def _visit(b: GraphBuilder, n: Node, adjoint: dict[Node, list[Cotangent]], useful: set[Node]) -> None:
    with b.at(n.site, f"adjoint of %{n.id}"):
        if n.op is get_op:
            source = n.inputs[0]
            parts: Any = adjoint.setdefault(source, [[None] * len(source.aval.elements), [None] * len(source.aval.elements)])
            parts[0][n.attr("index")] = _densed(b, n, adjoint[n])
            parts[1][n.attr("index")] = n
            return
        rule = n.op.vjp
        if isinstance(rule, NotDifferentiable):
            return
        if isinstance(rule, NoRule):
            raise NotDifferentiableError(f"No gradient defined for operation {n.op.name!r}: {rule.why}")
        if isinstance(n.aval, TupleAval):
            cts, outs = adjoint[n]                                           # type: ignore[misc]
            outs = tuple(o if o is not None else b.node(get_op, (n,), {"index": k}) for k, o in enumerate(outs))
            result = rule(b, tuple(cts), outs, *n.inputs, **n.kw)
        else:
            ct = _total(b, n, adjoint[n])
            if isinstance(ct, Slices) and "rows" not in n.op.traits:
                ct = ct.dense(b)
            adjoint[n] = [ct]
            result = rule(b, ct, n, *n.inputs, **n.kw)
        for i, ct in zip(n.inputs, result):
            if ct is not None and i in useful:
                if not isinstance(ct, Slices):
                    ct = b.sum_to(ct, i.aval.shape) if not isinstance(i.aval, TupleAval) else ct
                    if ct.aval.shape != i.aval.shape:
                        raise ShapeError(f"vjp of {n.op.name} gave {ct.aval} for an operand {i.aval}")
                adjoint.setdefault(i, []).append(ct)


def _densed(b: GraphBuilder, n: Node, parts: list[Cotangent]) -> Any:
    ct = _total(b, n, parts)
    return ct.dense(b) if isinstance(ct, Slices) else ct


def _total(b: GraphBuilder, n: Node, parts: list[Cotangent]) -> Cotangent:
    """The sum of the contributions; Slices are concatenated while they meet only Slices."""
    if len(parts) == 1:
        return parts[0]
    sparse = [p for p in parts if isinstance(p, Slices)]
    dense = [p for p in parts if not isinstance(p, Slices)]
    if not dense:
        kind = sparse[0].indices.aval.dtype
        same = [p.indices if p.indices.aval.dtype == kind else b.cast(p.indices, dtype=kind) for p in sparse]
        return Slices(b.concat(*same, axis=0), b.concat(*(p.values for p in sparse), axis=0), n.aval.shape)
    total = b.add_n(_side_by_side(b, dense))
    for p in sparse:
        total = b.scatter_add(total, p.indices, p.values)
    return total


def _side_by_side(b: GraphBuilder, parts: Sequence[Node]) -> list[Node]:
    """The contributions, those that came from disjoint slices joined: one copy in place of a padded sum per slice.

    Slices along one axis (``unstack``, ``split``, ``x[i]``) give their cotangents surrounded by zeros; where such pieces do not overlap,
    their sum is a concatenation.
    """
    runs: dict[int, list[list[tuple[int, int, Node]]]] = {}
    out: list[Node] = []
    for start, stop, axis, p in sorted(((*place, p) for p in parts if (place := _piece(p))), key=lambda piece: piece[:2]):
        rows = runs.setdefault(axis, [])
        free = next((r for r in rows if r[-1][1] <= start), None)
        rows.append([(start, stop, p)]) if free is None else free.append((start, stop, p))
    joined = {p: (axis, row) for axis, rows in runs.items() for row in rows if len(row) > 1 for _, _, p in row}
    done: set[int] = set()
    for p in parts:
        axis, row = joined.get(p, (0, []))
        if not row:
            out.append(p)
        elif id(row) not in done:
            done.add(id(row))
            out.append(_joined(b, axis, row, p))
    return out


def _piece(p: Node) -> tuple[int, int, int] | None:
    """(start, stop, axis) of a value that is surrounded by zeros along one axis only, at places known while building."""
    if p.op is not pad_op or any(p.attr("between")):
        return None
    before, after = p.attr("before"), p.attr("after")
    axes = [k for k, (x, y) in enumerate(zip(before, after)) if x != 0 or y != 0]
    if len(axes) != 1 or not all(isinstance(v, int) for v in (before[axes[0]], after[axes[0]], p.shape[axes[0]])):
        return None
    return before[axes[0]], p.shape[axes[0]] - after[axes[0]], axes[0]


def _joined(b: GraphBuilder, axis: int, row: Sequence[tuple[int, int, Node]], like: Node) -> Node:
    def zeros(n: int) -> list[Node]:
        return [b.zeros(like.aval.with_shape((*like.shape[:axis], n, *like.shape[axis + 1:])))] if n else []
    pieces: list[Node] = []
    at = 0
    for start, stop, p in row:
        pieces += [*zeros(start - at), p.inputs[0]]
        at = stop
    return b.concat(*pieces, *zeros(like.shape[axis] - at), axis=axis)


def vjp_region(region: Region, ct_avals: Sequence[Any], wrt: Sequence[bool] | None = None) -> tuple[Region, list[bool]]:
    """The region (params..., cts...) -> cotangents of the params, and which params are connected (others give no result)."""
    g = Graph(intern=False)
    b = GraphBuilder(g, site=region.nodes[0].site if region.nodes else None)
    params = [b.param(aval=p.aval, index=k) for k, p in enumerate(region.params)]
    ct_params = [b.param(aval=a, index=len(params) + k) for k, a in enumerate(ct_avals)]
    results = b.inline(region.without_effects(), params)
    asked = [p for k, p in enumerate(params) if wrt is None or wrt[k]]
    cts = gradients(b, results, asked, ct_params)
    found = dict(zip(asked, cts))
    connected = [found.get(p) is not None for p in params]
    return Region([*params, *ct_params], g.nodes, [found[p] for p in params if found.get(p) is not None]), connected


def vjp_of(b: Any, build: Any, xs: Sequence[Any], ct: Any) -> list[Any]:
    """Cotangents of ``xs`` through ``build(b, *xs)``, for any builder: traced once into a region, differentiated, inlined."""
    inner = Graph(intern=False)
    t = GraphBuilder(inner, site=getattr(b, "site", None))
    params = [t.param(aval=x.aval, index=k) for k, x in enumerate(xs)]
    result = build(t, *params)
    results = result if isinstance(result, tuple) else (result,)
    region = Region(params, inner.nodes, results)
    cts = ct if isinstance(ct, tuple) else (ct,)
    pulled, connected = vjp_region(region, [r.aval for r in results])
    given = [c if c is not None else b.zeros(r.aval) for c, r in zip(cts, results)]
    values = iter(b.inline(pulled, [*xs, *given]))
    return [next(values) if c else None for c in connected]


TOOLS["vjp_of"] = vjp_of
TOOLS["vjp_region"] = vjp_region
TOOLS["gradients"] = gradients
TOOLS["slices"] = lambda b, indices, values, shape: Slices(indices, values, shape)
