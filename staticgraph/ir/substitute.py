"""Sizes inside nodes: which measured symbols a node names, and attributes with numbers in the place of symbols."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .aval import AnyAval, Aval, Dim, Size, TupleAval, measured_in, substitute
from .graph import Attrs, Graph, Node, Region


def named(attrs: Attrs, aval: AnyAval) -> set[str]:
    """Measured symbols in a node's attributes or value; those that a region measures itself are its own."""
    names = measured_in(aval)
    for key, value in attrs:
        if isinstance(value, Region):
            own: set[str] = set()
            for n in value.nodes:
                names |= named(n.attrs, n.aval) - own
                if "measure" in n.op.traits:
                    own |= measured_in(n.attr("size"))
            names -= own
        elif key != "bound":
            names |= measured_in(value)
    return names


def substituted(value: Any, values: Mapping[str, Size]) -> Any:
    """An attribute's value with sizes for symbols, also inside tuples, avals and regions."""
    if isinstance(value, Dim):
        return substitute(value, values)
    if isinstance(value, (Aval, TupleAval)):
        return value.substitute(values)
    if isinstance(value, tuple):
        return tuple(substituted(v, values) for v in value)
    if isinstance(value, Region):
        return _region(value, values)
    return value


def _region(region: Region, values: Mapping[str, Size]) -> Region:
    inner = Graph()
    made: dict[Node, Node] = {}
    for n in region.nodes:
        attrs = tuple((k, substituted(v, values)) for k, v in n.attrs)
        made[n] = inner.add(n.op, [made[i] for i in n.inputs], attrs, n.aval.substitute(values), control=[made[c] for c in n.control],
                            site=n.site, role=n.role)
    return Region([made[p] for p in region.params], inner.nodes, [made[r] for r in region.results])
