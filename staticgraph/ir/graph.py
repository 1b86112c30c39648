"""Nodes and graphs: an append-only list of frozen nodes, inputs before users.

``Graph(intern=False)`` is what users build (each call makes a node, so each line keeps its own); ``Graph(intern=True)`` is
what passes build (equal nodes are one). A region is the body of a control-flow op: its own list, its own ids, no captures.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from ..errors import InternalError_, NotDifferentiableError
from ..memory import aligned_empty
from ..source import UNKNOWN, Site
from .aval import AnyAval, Aval, TupleAval, measured_in
from .opdef import OpDef

_LARGE = 1 << 16
Attrs = tuple[tuple[str, Any], ...]


class ArrayAttr:
    """A constant's value as a hashable attribute: compares by dtype, shape and bytes (so NaN equals NaN, 0.0 is not -0.0)."""

    __slots__ = ("_hash", "array")

    def __init__(self, array: Any) -> None:
        given = np.asarray(array)
        if given.nbytes < _LARGE or given.dtype == object:
            array = np.array(given, order="C", copy=True)
            if array.dtype.byteorder not in "=|":
                array = array.astype(array.dtype.newbyteorder("="))
        else:                                # where compiled code can use it as it is: a large constant is there once
            array = aligned_empty(given.shape, given.dtype.newbyteorder("="))
            array[...] = given
        array.flags.writeable = False
        self.array = array
        self._hash: int | None = None

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, ArrayAttr):
            return False
        a, b = self.array, other.array
        return (a.dtype == b.dtype and a.shape == b.shape and hash(self) == hash(other)
                and (a.tobytes() == b.tobytes() if a.dtype != object else a.tolist() == b.tolist()))

    def __hash__(self) -> int:
        if self._hash is None:
            a = self.array
            data = tuple(a.ravel().tolist()) if a.dtype == object else a.tobytes()
            self._hash = hash((a.dtype.str, a.shape, data))
        return self._hash

    def __repr__(self) -> str:
        from .text import format_array
        return format_array(self.array)


class Node:
    """One op applied to values: frozen. Identity is (op, inputs, control, attrs); id, site and role are side notes."""

    __slots__ = ("__weakref__", "attrs", "aval", "control", "id", "inputs", "op", "role", "site", "sites")
    id: int
    op: OpDef
    inputs: tuple[Node, ...]
    control: tuple[Node, ...]
    attrs: Attrs
    aval: Any                    # Aval, or TupleAval for an op with several outputs
    site: Site
    role: str                    # "", or such as "adjoint of %5"
    sites: tuple[Site, ...]      # further sites of merged nodes (at most 3)

    def __init__(self, id: int, op: OpDef, inputs: tuple[Node, ...], control: tuple[Node, ...], attrs: Attrs,
                 aval: AnyAval, site: Site, role: str, sites: tuple[Site, ...] = ()) -> None:
        put = object.__setattr__
        put(self, "id", id)
        put(self, "op", op)
        put(self, "inputs", inputs)
        put(self, "control", control)
        put(self, "attrs", attrs)
        put(self, "aval", aval)
        put(self, "site", site)
        put(self, "role", role)
        put(self, "sites", sites)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"nodes are frozen: cannot set {name}")

    @property
    def kw(self) -> dict[str, Any]:
        """The attributes as keyword arguments."""
        return dict(self.attrs)

    def attr(self, name: str, default: Any = None) -> Any:
        """One attribute."""
        for k, v in self.attrs:
            if k == name:
                return v
        return default

    @property
    def shape(self) -> tuple[Any, ...]:
        """Shape of the (single) value."""
        shape: tuple[Any, ...] = self.aval.shape
        return shape

    @property
    def dtype(self) -> Any:
        """Element type of the (single) value."""
        return self.aval.dtype

    @property
    def regions(self) -> tuple[Region, ...]:
        """Regions among the attributes."""
        return tuple(v for _, v in self.attrs if isinstance(v, Region))

    @property
    def has_effect(self) -> bool:
        """Whether running it has an effect, its own or that of a region: it must not be dropped, merged or reordered against others."""
        return self.op.has_effect or any(r.has_effect for r in self.regions)

    def all_sites(self) -> tuple[Site, ...]:
        """The site and those of nodes merged into this one."""
        return (self.site, *self.sites)

    def __repr__(self) -> str:
        return f"%{self.id}: {self.aval} = {self.op.name}({', '.join(f'%{i.id}' for i in self.inputs)})"

    def __reduce__(self) -> Any:
        raise TypeError("nodes are not pickled: print the graph and parse it")


class Region:
    """A frozen body: parameters, nodes (parameters first, then in order) and results. Equality is structural."""

    __slots__ = ("_effect", "_key", "nodes", "params", "results")
    params: tuple[Node, ...]
    nodes: tuple[Node, ...]
    results: tuple[Node, ...]

    def __init__(self, params: Sequence[Node], nodes: Sequence[Node], results: Sequence[Node]) -> None:
        put = object.__setattr__
        put(self, "params", tuple(params))
        put(self, "nodes", tuple(nodes))
        put(self, "results", tuple(results))
        put(self, "_key", None)
        put(self, "_effect", None)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"regions are frozen: cannot set {name}")

    def key(self) -> tuple[Any, ...]:
        """What equality compares: ops, inputs by position, attributes, results."""
        if self._key is None:                                                # type: ignore[attr-defined]
            index = {n: i for i, n in enumerate(self.nodes)}
            rows = tuple((n.op.name, tuple(index[i] for i in n.inputs), tuple(index[i] for i in n.control), n.attrs,
                          n.aval if not n.inputs else None) for n in self.nodes)
            key = (len(self.params), rows, tuple(index[r] for r in self.results))
            object.__setattr__(self, "_key", (hash(key), key))
        return self._key                                                     # type: ignore[attr-defined]

    @property
    def has_effect(self) -> bool:
        """Whether running it has an effect."""
        if self._effect is None:                                             # type: ignore[attr-defined]
            object.__setattr__(self, "_effect", any(n.has_effect for n in self.nodes))
        return bool(self._effect)                                            # type: ignore[attr-defined]

    def without_effects(self) -> Region:
        """What its results need, for derivatives, which run a region again: effects that only control inputs ask for are left out.

        NotDifferentiableError where a result depends on what the region assigns to a variable.
        """
        if not self.has_effect and not any(n.control for n in self.nodes):
            return self
        needed = set(self.params)
        stack = list(self.results)
        while stack:
            n = stack.pop()
            if n not in needed:
                needed.add(n)
                stack.extend(n.inputs)
                stack.extend(c for c in n.control if "measure" in c.op.traits)           # the sizes that it names
        assigned = {n.inputs[0].attrs for n in self.nodes if "assign" in n.op.traits and n.inputs[0].op.name == "variable"}
        g = Graph()
        made: dict[Node, Node] = {}
        for n in self.nodes:
            if n not in needed:
                continue
            if "result" in n.op.traits:      # an access of a run's state, which is of no matter to derivatives
                made[n] = made[n.inputs[1]]
                continue
            if "assign" in n.op.traits or ("read" in n.op.traits and n.inputs[0].attrs in assigned):
                error = NotDifferentiableError("a loop or a branch assigns this variable and uses its new value: read it before, or carry the value as a loop variable")
                error.site = n.site
                raise error
            attrs = tuple((k, v.without_effects() if isinstance(v, Region) else v) for k, v in n.attrs)
            made[n] = g.add(n.op, (made[i] for i in n.inputs), attrs, n.aval, site=n.site, role=n.role)
        return Region([made[p] for p in self.params], g.nodes, [made[r] for r in self.results])

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Region) and self.key() == other.key())

    def __hash__(self) -> int:
        return int(self.key()[0])

    def __repr__(self) -> str:
        return f"<region of {len(self.nodes)} nodes>"


class Graph:
    """An append-only list of nodes. ``outputs`` are the results of an optimised graph (empty for a user's graph)."""

    __slots__ = ("__weakref__", "_table", "intern", "measures", "memo", "nodes", "outputs")

    def __init__(self, intern: bool = False) -> None:
        self.nodes: list[Node] = []
        self.outputs: tuple[Node, ...] = ()
        self.intern = intern
        self.measures: dict[str, Node] = {}  # per measured symbol: the node that finds its value
        self.memo: dict[Any, Any] = {}       # what is found once per value: the positions of a mask, the size that a number stands for
        self._table: dict[tuple[Any, ...], Node] = {}

    def add(self, op: OpDef, inputs: Iterable[Node], attrs: Attrs, aval: AnyAval, *, control: Iterable[Node] = (),
            site: Site = UNKNOWN, role: str = "") -> Node:
        """Append a node (or, in an interning graph, return the equal one, which keeps both sites)."""
        inputs, control = tuple(inputs), tuple(control)
        count = len(self.nodes)
        for i in inputs + control:
            if i.id >= count or self.nodes[i.id] is not i:
                raise InternalError_(f"{op.name}: input {i!r} is not in this graph")
        if self.measures:
            control = self._after_measures(inputs, control, attrs, aval)
        if self.intern and not (op.traits & UNMERGED):
            key = (op, inputs, control, attrs) if inputs else (op, control, attrs, aval)
            found = self._table.get(key)
            if found is not None:
                return self._merge(found, site)
            node = Node(count, op, inputs, control, attrs, aval, site, role)
            self._table[key] = node
        else:
            node = Node(count, op, inputs, control, attrs, aval, site, role)
        self.nodes.append(node)
        if "measure" in op.traits:
            for name in measured_in(node.attr("size")):
                self.measures.setdefault(name, node)
        return node

    def _after_measures(self, inputs: tuple[Node, ...], control: tuple[Node, ...], attrs: Attrs, aval: AnyAval) -> tuple[Node, ...]:
        """``control`` and the measures of the symbols that the node names but its inputs do not, so that no size is read before it is known."""
        from .substitute import named
        names = named(attrs, aval)
        if not names:
            return control
        for i in inputs:
            names -= measured_in(i.aval)
        more = {self.measures[s] for s in names if s in self.measures} - set(inputs) - set(control)
        return (*control, *sorted(more, key=lambda n: n.id)) if more else control

    def _merge(self, found: Node, site: Site) -> Node:
        # the survivor keeps both lines: provenance is a side note, so this is not a change of the node
        if site.frames and len(found.sites) < 3 and all(s.frames != site.frames for s in found.all_sites()):
            if found.site.frames:
                object.__setattr__(found, "sites", (*found.sites, site))
            else:
                object.__setattr__(found, "site", site)
        return found

    def __len__(self) -> int:
        return len(self.nodes)

    def __iter__(self) -> Iterator[Node]:
        return iter(self.nodes)

    def __str__(self) -> str:
        from .text import print_graph
        return print_graph(self)

    def __repr__(self) -> str:
        return f"<graph of {len(self.nodes)} nodes, {len(self.outputs)} outputs>"

    def __eq__(self, other: object) -> bool:
        """Structural equality: the same ops, inputs, attributes and outputs in the same order (sites and roles aside)."""
        if self is other:
            return True
        if not isinstance(other, Graph):
            return NotImplemented
        mine, theirs = self.as_region().key(), other.as_region().key()
        return mine == theirs

    __hash__ = object.__hash__

    def as_region(self) -> Region:
        """The whole graph as a frozen region without parameters."""
        return Region((), self.nodes, self.outputs)

    def to_networkx(self) -> Any:
        """A networkx.DiGraph with a vertex per node id: its op, aval, site, role and attrs, and whether it is an output.

        An edge carries ``operands``, the positions at which the user takes the value (``(0, 1)`` for ``x * x``; none for a mere control edge),
        and ``control``.
        """
        import networkx as nx
        g, results = nx.DiGraph(), set(self.outputs)
        for n in self.nodes:
            g.add_node(n.id, op=n.op.name, aval=str(n.aval), site=n.site.short(), role=n.role, attrs=n.kw, output=n in results)
            for i in dict.fromkeys((*n.inputs, *n.control)):
                g.add_edge(i.id, n.id, operands=tuple(k for k, j in enumerate(n.inputs) if j is i), control=i in n.control)
        return g

    def to_dot(self) -> str:
        """Graphviz text: a box per node, operands from left to right, bodies of control flow as clusters. ``sg.draw`` needs no Graphviz."""
        from .text import print_dot
        return print_dot(self)


UNMERGED = frozenset({"effect", "unmerged"})


def element_aval(aval: AnyAval, index: int) -> Aval:
    """The aval of output ``index`` of a tuple aval."""
    if not isinstance(aval, TupleAval):
        raise InternalError_(f"get({index}) of a single value {aval}")
    return aval.elements[index]
