"""Sizes of a run put into a graph: symbols become numbers, and what shape rules took to be equal is checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from . import source
from .errors import GraphError, InvalidArgumentError
from .ir.aval import Aval, Dim
from .ir.graph import Graph, Node
from .ir.substitute import substituted


def sizes_of_feeds(avals: Sequence[Aval], shapes: Sequence[tuple[int, ...]]) -> dict[str, int]:
    """Values of the symbols that the feeds' shapes give."""
    values: dict[str, int] = {}
    for aval, shape in zip(avals, shapes):
        for d, s in zip(aval.shape, shape):
            if isinstance(d, Dim) and d.const == 0 and len(d.terms) == 1 and d.terms[0][1] == 1 and d.terms[0][0].kind == "sym":
                values.setdefault(d.terms[0][0].name, s)
    return values


def specialize(g: Graph, values: Mapping[str, int]) -> Graph:
    """The graph with symbols replaced by numbers; every node's shape is inferred again.

    InvalidArgumentError at the user's line where sizes that were taken to be equal are not.
    """
    if not values:
        return g
    out = Graph(intern=True)
    made: dict[Node, Node] = {}
    for n in g.nodes:
        attrs = tuple((k, substituted(v, values)) for k, v in n.attrs)
        inputs = tuple(made[i] for i in n.inputs)
        expected = n.aval.substitute(values)
        check_node(n, inputs, dict(attrs), expected)
        new = out.add(n.op, inputs, attrs, expected, control=[made[c] for c in n.control], site=n.site, role=n.role)
        made[n] = new
    out.outputs = tuple(made[o] for o in g.outputs)
    return out


def check_node(n: Node, inputs: Sequence[Node], attrs: dict[str, Any], expected: Any) -> None:
    """Refuse a node whose operands' actual sizes do not give the shape that was inferred while building."""
    try:
        actual = n.op.infer(*[i.aval for i in inputs], **attrs)
    except GraphError as error:
        actual = str(error)
    if actual != expected:
        what = actual if isinstance(actual, str) else _mismatch(n, inputs, expected)
        source.raise_at(n.site, InvalidArgumentError(None, n, what))


def _mismatch(n: Node, inputs: Sequence[Node], expected: Any) -> str:
    shapes = " vs. ".join("[" + ",".join(map(str, i.aval.shape)) + "]" for i in inputs if isinstance(i.aval, Aval))
    return f"Incompatible shapes: {shapes} ({n.op.name} was built for a result {expected})"


def check_sizes(g: Graph, values: Mapping[str, int]) -> None:
    """Refuse sizes of a run that do not fit the graph (``specialize`` without keeping the result)."""
    specialize(g, values)
