"""Builders: the tool ``b`` that rules, passes and the surface make nodes with.

``BuilderBase`` is the protocol: ``b.sin(x)`` applies an op by its name, Python numbers adopt the dtype of the tensor operands. Its
implementations append to a graph (``GraphBuilder``), simplify while appending (``ir.rewrite``) or compute at
once (``staticgraph.dynamic``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from .. import source
from ..dtypes import DType, as_dtype, bool_, float32, int32
from ..errors import DTypeError, Error, GraphError, ShapeError
from ..source import Site
from .aval import Aval, Dim, Size, TupleAval, assume_at_most, assumptions, measured, measured_in, never_negative
from .graph import ArrayAttr, Graph, Node, Region
from .opdef import OPS, OpDef
from .substitute import substituted

# transforms that rules may ask of their tool (linearize, vmap_region ...); the transforms register themselves,
# so that no op file imports one
TOOLS: dict[str, Callable[..., Any]] = {}


class BuilderBase:
    """What every ``b`` offers. Subclasses give ``apply(op, inputs, attrs)`` and ``const``."""

    value_type: type = Node
    computes = False                         # whether values are at hand, and sizes with them

    def apply(self, op: OpDef, inputs: tuple[Any, ...], attrs: dict[str, Any], control: tuple[Any, ...] = ()) -> Any:
        """Apply ``op`` to values of this builder; an op with several outputs gives a tuple."""
        raise TypeError("a builder must define apply")

    def const(self, value: Any, dtype: DType | None = None) -> Any:
        """A constant of this builder."""
        raise TypeError("a builder must define const")

    def call(self, op: OpDef, *inputs: Any, **attrs: Any) -> Any:
        """Apply ``op``; Python and NumPy operands become constants of the tensor operands' dtype."""
        return self.apply(op, self.operands(op, inputs), attrs)

    def operands(self, op: OpDef, inputs: Sequence[Any]) -> tuple[Any, ...]:
        """Inputs as values of this builder."""
        kind: Any = self.value_type
        if all(isinstance(i, kind) for i in inputs):
            return tuple(inputs)
        dtype = next((i.aval.dtype for i in inputs if isinstance(i, kind) and i.aval.dtype != bool_), None)
        if dtype is None:
            dtype = next((i.aval.dtype for i in inputs if isinstance(i, kind)), None)
        return tuple(i if isinstance(i, kind) else self.const(i, _adopted(i, dtype)) for i in inputs)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("__"):
            raise AttributeError(name)
        tool = TOOLS.get(name)
        if tool is not None:
            return lambda *args, **kw: tool(self, *args, **kw)
        op = OPS.get(name)
        if op is None:
            raise AttributeError(f"no op and no tool named {name!r}")
        return lambda *inputs, **attrs: self.call(op, *inputs, **attrs)

    # ---- conveniences that rules use ------------------------------------------------------------------------------------

    def like(self, x: Any, value: Any) -> Any:
        """A scalar constant of ``x``'s dtype."""
        return self.const(value, x.aval.dtype)

    def full(self, aval: Aval, value: Any) -> Any:
        """``value`` broadcast to ``aval``."""
        scalar = self.const(value, aval.dtype)
        return scalar if aval.shape == () else self.broadcast_to(scalar, shape=aval.shape)

    def zeros(self, aval: Aval) -> Any:
        """Zeros of ``aval`` (False for bool)."""
        return self.full(aval, 0)

    def add_n(self, values: Sequence[Any]) -> Any:
        """The sum, left to right; None entries are left out, None for no entries."""
        present = [v for v in values if v is not None]
        if not present:
            return None
        total = present[0]
        for v in present[1:]:
            total = self.add(total, v)
        return total

    def sum_to(self, x: Any, shape: tuple[Size, ...]) -> Any:
        """Sum ``x`` down to ``shape``: the transpose of broadcasting ``shape`` up to ``x.shape``."""
        have = x.aval.shape
        if have == tuple(shape):
            return x
        lead = len(have) - len(shape)
        axes = tuple(range(lead)) + tuple(lead + i for i, s in enumerate(shape) if s == 1 and have[lead + i] != 1)
        if axes:
            x = self.sum(x, axis=axes, keepdims=False)
        return x if x.aval.shape == tuple(shape) else self.reshape(x, shape=tuple(shape))

    def broadcast(self, x: Any, shape: tuple[Size, ...]) -> Any:
        """``x`` broadcast to ``shape`` (itself where it has it)."""
        return x if x.aval.shape == tuple(shape) else self.broadcast_to(x, shape=tuple(shape))


def _adopted(value: Any, dtype: DType | None) -> DType | None:
    """The dtype a non-tensor operand takes beside tensors of ``dtype`` (TF1's rule: it adopts the tensor's)."""
    if isinstance(value, (bool, np.bool_)) and dtype is not None and dtype.kind in "iuf":
        return dtype
    return dtype


class GraphBuilder(BuilderBase):
    """Appends to ``graph``. ``at(site, role)`` sets the provenance of the nodes made inside; without it each call's user line is captured."""

    def __init__(self, graph: Graph, site: Site | None = None, role: str = "", scope: str = "") -> None:
        self.graph = graph
        self.site = site
        self.role = role
        self.scope = scope

    @contextmanager
    def at(self, site: Site | None, role: str = "") -> Iterator[GraphBuilder]:
        """Within: new nodes get this site and role."""
        saved = self.site, self.role
        self.site, self.role = site, role
        try:
            yield self
        finally:
            self.site, self.role = saved

    def const(self, value: Any, dtype: DType | None = None) -> Node:
        """A constant node. DTypeError for a Python float in an integer constant."""
        array = value if isinstance(value, ArrayAttr) else ArrayAttr(to_array(value, dtype))
        return self.apply(OPS["const"], (), {"value": array})

    def apply(self, op: OpDef, inputs: tuple[Node, ...], attrs: dict[str, Any], control: tuple[Node, ...] = ()) -> Any:
        node = self.node(op, inputs, attrs, control)
        if isinstance(node.aval, TupleAval):
            get = OPS["get"]
            return tuple(self.node(get, (node,), {"index": i}) for i in range(len(node.aval.elements)))
        return node

    def node(self, op: OpDef, inputs: tuple[Node, ...], attrs: dict[str, Any], control: tuple[Node, ...] = ()) -> Node:
        """Append one node (an op with several outputs stays one node); attributes left out take the op's defaults."""
        if op.defaults:
            attrs = {**op.defaults, **attrs}
        site = self.site if self.site is not None else source.capture(self.scope)
        with assumptions() as pairs:
            aval = infer(op, inputs, attrs, site)
            for a in aval.elements if isinstance(aval, TupleAval) else (aval,):
                for d in a.shape:
                    if not never_negative(d):
                        assume_at_most(0, d)
        if pairs and "sizes" not in op.traits:
            inputs = self._agreeing(op, inputs, pairs, site)
            aval = infer(op, inputs, attrs, site)
        return self.append(op, inputs, tuple(sorted(attrs.items())), aval, control, site)

    def _agreeing(self, op: OpDef, inputs: tuple[Node, ...], pairs: Sequence[tuple[Size, Size]], site: Site) -> tuple[Node, ...]:
        """The operands behind checks that sizes which the op takes to be equal are; each such size is then written in one way."""
        same = {q if isinstance(q, Dim) else p: p if isinstance(q, Dim) else q for p, q in pairs}
        shapes = " vs. ".join("[" + ",".join("?" if isinstance(d, Dim) else str(d) for d in i.shape) + "]" for i in inputs)
        out, left = [], list(pairs)
        for x in inputs:
            mine = [(p, q) for p, q in pairs if p in x.shape or q in x.shape] if not isinstance(x.aval, TupleAval) else []
            shape = tuple(same.get(d, d) for d in x.shape) if mine else ()
            if mine and shape != x.shape:
                left = [pair for pair in left if pair not in mine]
                x = self._same(x, shape, mine, f"Incompatible shapes: {shapes}", site)
            out.append(x)
        if left and out:
            out[0] = self._same(out[0], out[0].shape, left, f"Incompatible shapes: {shapes}", site)
        return tuple(out)

    def _same(self, x: Node, shape: tuple[Size, ...], pairs: Sequence[tuple[Size, Size]], message: str, site: Site) -> Node:
        attrs = (("message", message + " ({a} is not {limit})"), ("pairs", tuple(pairs)), ("shape", shape))
        return self.append(OPS["same_sizes"], (x,), attrs, x.aval.with_shape(shape), (), site)

    def append(self, op: OpDef, inputs: tuple[Node, ...], attrs: Any, aval: Any, control: tuple[Node, ...], site: Site) -> Node:
        """Append a node whose aval is known."""
        return self.graph.add(op, inputs, attrs, aval, control=control, site=site, role=self.role)

    def sub_builder(self, graph: Graph) -> GraphBuilder:
        """A builder of the same kind for a region's graph."""
        return type(self)(graph, self.site, self.role, self.scope)

    def region(self, avals: Sequence[Aval], fn: Callable[..., Sequence[Node]]) -> Region:
        """A region with parameters of ``avals`` whose body ``fn(b, *params)`` builds; returns its results."""
        graph = Graph(intern=self.graph.intern)
        b = self.sub_builder(graph)
        params = [b.append(OPS["param"], (), (("aval", a), ("index", i)), a, (), self.site or source.UNKNOWN)
                  for i, a in enumerate(avals)]
        results = tuple(fn(b, *params))
        return Region(params, graph.nodes, results)

    def inline(self, region: Region, args: Sequence[Node]) -> tuple[Node, ...]:
        """The region's nodes copied here with ``args`` for its parameters."""
        made: dict[Node, Node] = dict(zip(region.params, args))
        saved = self.site, self.role
        own = {s for n in region.nodes if "measure" in n.op.traits for s in measured_in(n.attr("size"))}
        fresh = {s: measured() for s in own if s in self.graph.measures}     # each copy measures its own
        for n in region.nodes:
            if n not in made:
                self.site, self.role = n.site, n.role
                attrs = {k: substituted(v, fresh) for k, v in n.attrs} if fresh else n.kw
                made[n] = self.node(n.op, tuple(made[i] for i in n.inputs), attrs, tuple(made[c] for c in n.control))
        self.site, self.role = saved
        return tuple(made[r] for r in region.results)


def infer(op: OpDef, inputs: Sequence[Any], attrs: dict[str, Any], site: Site | None = None) -> Any:
    """The op's inferred aval; a refusal names the op, and each operand's line."""
    try:
        return op.infer(*[i.aval for i in inputs], **attrs)
    except GraphError as error:
        if not getattr(error, "_sg_named", False):
            error._sg_named = True                                           # type: ignore[attr-defined]
            first = str(error)
            error.args = (first if first.startswith(op.name + ":") else f"{op.name}: {first}",)
            labels = ("left operand", "right operand") if len(inputs) == 2 else tuple(f"operand {i}" for i in range(len(inputs)))
            for label, i in zip(labels, inputs[:4]):
                where = getattr(i, "site", None)
                if where is not None and where.frames:
                    source.add_note(error, f"{label}: {i.aval} {i.op.name} made at {where.describe()}")
            error.site = site
        raise
    except TypeError as error:
        known, required, _ = op.signature
        unknown = sorted(set(attrs) - set(required))
        if unknown:
            raise GraphErrorType(f"{op.name}: unknown argument {unknown[0]!r}; it takes {', '.join((*known, *required))}") from error
        raise


class GraphErrorType(GraphError, TypeError):
    """A wrong argument of an op."""


def to_array(value: Any, dtype: DType | None = None) -> np.ndarray[Any, Any]:
    """``value`` as an array of ``dtype``; without one, Python floats are float32 and ints int32 (int64 where they do not fit).

    DTypeError where a Python float or text would become an integer; ShapeError for ragged lists.
    """
    if isinstance(value, (np.ndarray, np.generic)):
        return np.asarray(value) if dtype is None else np.asarray(value).astype(dtype.np)
    if value is None:
        raise ShapeError("None values not supported.")
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise ShapeError(f"not a rectangular array: {str(value)[:60]} ({error})") from error
    kind = array.dtype.kind
    if dtype is None:
        if kind == "f" and not isinstance(value, np.ndarray):
            return array.astype(np.float32)
        if kind == "i":
            fits = array.size == 0 or (array.min() >= -2**31 and array.max() < 2**31)
            return array.astype(int32.np if fits else np.int64)
        return array
    if dtype.kind in "iu" and kind == "f" and array.size:
        raise DTypeError(f"Expected {dtype.name}, got {value!r} of type 'float' instead.")
    if dtype.kind in "iufb" and kind in "USO":
        raise DTypeError(f"Expected {dtype.name}, got {value!r} of type {type(value).__name__!r} instead.")
    if dtype.kind in "iu" and kind in "iu" and array.size and not (np.iinfo(dtype.np).min <= array.min() and array.max() <= np.iinfo(dtype.np).max):
        raise ShapeError(f"{value!r} does not fit {dtype.name}")
    return array.astype(dtype.np)


__all__ = ["TOOLS", "BuilderBase", "Error", "GraphBuilder", "as_dtype", "float32", "infer", "to_array"]
