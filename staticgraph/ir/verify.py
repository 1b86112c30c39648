"""The verifier: what every graph between two passes must satisfy.

Runs after each pass in tests and under ``SG_VERIFY=1``. A failure names the pass and the node, and prints the nodes around it.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import GraphError, InternalError_
from .aval import TupleAval
from .graph import Graph, Node, Region
from .opdef import OPS
from .text import print_node


def verify(g: Graph, stage: str = "verify", before: Graph | None = None) -> None:
    """Raise InternalError_ unless: inputs come before users; each op is in the table; ``infer`` gives the stored aval; attributes
    are hashable and sorted; every node has a site if the nodes of ``before`` had; outputs keep their count and avals;
    guards and effects of ``before`` are still there in number or fewer merged ones.
    """
    _nodes(g.nodes, stage, needs_site=before is not None and all(n.site.frames for n in before.nodes))
    inside = set(g.nodes)
    for o in g.outputs:
        if o not in inside:
            _fail(stage, "an output is not in the graph", o, g.nodes)
    if before is not None:
        if len(before.outputs) != len(g.outputs):
            raise InternalError_(f"{stage}: {len(before.outputs)} outputs became {len(g.outputs)}")
        for old, new in zip(before.outputs, g.outputs):
            if old.aval != new.aval:
                _fail(stage, f"an output's aval {old.aval} became {new.aval}", new, g.nodes)
        lost = _effects(before) - _effects(g)
        if lost:
            raise InternalError_(f"{stage}: effects were lost: {', '.join(sorted(lost))}")


def _effects(g: Graph) -> set[str]:
    return {f"{n.op.name} {n.attrs}" for n in g.nodes if n.op.has_effect}


def _nodes(nodes: Sequence[Node], stage: str, needs_site: bool) -> None:
    seen: set[Node] = set()
    for position, n in enumerate(nodes):
        if n.id != position:
            _fail(stage, f"id {n.id} at position {position}", n, nodes)
        for i in (*n.inputs, *n.control):
            if i not in seen:
                _fail(stage, f"input %{i.id} is not defined before its use", n, nodes)
        seen.add(n)
        if OPS.get(n.op.name) is not n.op:
            _fail(stage, f"op {n.op.name!r} is not in the table", n, nodes)
        if [k for k, _ in n.attrs] != sorted(k for k, _ in n.attrs):
            _fail(stage, "attributes are not sorted", n, nodes)
        try:
            hash(n.attrs)
        except TypeError:
            _fail(stage, "an attribute is not hashable", n, nodes)
        try:
            aval = n.op.infer(*[i.aval for i in n.inputs], **n.kw)
        except GraphError as error:
            _fail(stage, f"infer refuses it: {error}", n, nodes)
        if aval != n.aval:
            _fail(stage, f"infer gives {aval}", n, nodes)
        if isinstance(n.aval, TupleAval) != isinstance(aval, TupleAval):
            _fail(stage, "tuple and single value mixed", n, nodes)
        if needs_site and not n.site.frames:
            _fail(stage, "no source site", n, nodes)
        for r in n.regions:
            _region(r, stage)


def _region(r: Region, stage: str) -> None:
    inside = set(r.nodes)
    for k, p in enumerate(r.params):
        if p not in inside or p.attr("index") != k:
            raise InternalError_(f"{stage}: parameter {k} of a region is not its own node")
    _nodes(r.nodes, stage, needs_site=False)
    if not all(x in inside for x in r.results):
        raise InternalError_(f"{stage}: a region's result is not its own node")


def _fail(stage: str, what: str, n: Node, nodes: Sequence[Node]) -> None:
    at = n.id if n.id < len(nodes) else len(nodes) - 1
    lines = [("> " if m is n else "  ") + print_node(m) for m in nodes[max(0, at - 5):at + 5]]
    raise InternalError_(f"{stage}: {what}: {print_node(n)}\n" + "\n".join(lines))
