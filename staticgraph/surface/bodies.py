"""Bodies of branches and loops under construction: what is made inside, what it uses from outside, and the region that comes of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import source
from ..dtypes import int64
from ..errors import ShapeError
from ..ir import walk
from ..ir.aval import Aval, Size, maximum, measured_in
from ..ir.graph import Graph as IRGraph
from ..ir.graph import Node, Region
from ..ir.opdef import OPS
from ..ops.measure import size_of
from .funnel import convert
from .ledger import LedgerBuilder
from .shapes import shape_of
from .tensor import Operation, Tensor


class Trace:
    """One body under construction: own parameters, then whatever it uses from outside."""

    def __init__(self, g: Any, loop: bool = False, entering: Sequence[Any] = ()) -> None:
        self.g = g
        self.outer: LedgerBuilder = g.builder
        self.graph = IRGraph()
        self.builder = LedgerBuilder(g, self.graph, self.outer)
        self.params: list[Node] = []
        self.count: Node | None = None
        self.entering = entering                         # handles among a loop's variables
        self.late: dict[Any, Node] = {}                  # parameters for what those that entered open lacked
        if loop:
            self.builder.counter, self.builder.late = self.counter, self.late_param

    def counter(self) -> Node:
        """The iteration number."""
        if self.count is None:
            self.count = self.builder.append(OPS["param"], (), (("aval", Aval((), int64)), ("index", -99)), Aval((), int64), (), source.UNKNOWN)
        return self.count

    def _param(self, like: Node) -> Node:
        return self.builder.append(OPS["param"], (), (("aval", like.aval), ("index", len(self.params))), like.aval, (), like.site)

    def param(self, like: Node) -> Node:
        """A parameter with the aval of ``like``."""
        n = self._param(like)
        self.params.append(n)
        return n

    def late_param(self, handle: Any, start: Node) -> Node | None:
        """The parameter for the part that was missing when ``handle`` entered the loop, ``start`` at first; None for other handles."""
        if handle not in self.late and any(handle is h for h in self.entering):
            self.late[handle] = self._param(start)
        return self.late.get(handle)

    def __enter__(self) -> Trace:
        self.g.builder = self.builder
        self._controls, self.g._controls = self.g._controls, []
        return self

    def __exit__(self, *exc: Any) -> None:
        self.g.builder = self.outer
        self.g._controls = self._controls

    def captured(self) -> list[Node]:
        """Outer nodes it uses (variables are not among them: they are referred to again)."""
        return [n for n, p in self.builder.captures.items() if p.op is OPS["param"]]

    def close(self, results: Sequence[Node], captured: Sequence[Node], extra: Sequence[Node] = ()) -> Region:
        """The region with parameters: own, ``extra`` (nodes of the trace), then one per captured outer node."""
        g = IRGraph()
        made: dict[Node, Node] = {}
        sources = [*self.params, *extra, *captured]
        params = []
        for k, n in enumerate(sources):
            p = g.add(OPS["param"], (), (("aval", n.aval), ("index", k)), n.aval, site=n.site)
            params.append(p)
            made[self.builder.captures.get(n, n)] = p
        needed = set(walk.ancestors(results))            # what nothing needs does not run
        for n in self.graph.nodes:
            if n in needed and n not in made and n.op is not OPS["param"]:
                made[n] = g.add(n.op, [made[i] for i in n.inputs], n.attrs, n.aval, control=[made[c] for c in n.control if c in made], site=n.site, role=n.role)
        return Region(params, g.nodes, [made[r] for r in results])


def wrap(g: Any, node: Node, name: str) -> Tensor:
    """A tensor for a parameter."""
    op = Operation(g, g.operation_name(name), "Param", (), None, 0)
    op.site = node.site
    t = Tensor(op, 0, node)
    op.outputs = [t]
    g.operations[op.name] = op
    return t


def result_of(b: LedgerBuilder, x: Any, dtype: Any = None) -> Node:
    """The node of what a body returns; of an operation, one that waits for it."""
    if isinstance(x, Operation):
        with b.at(None):
            return b.apply(OPS["group"], (), {}, tuple(x._control_nodes_of()))
    return b.capture(convert(x, dtype).node)


def close_handles(traces: Sequence[Trace], groups: Sequence[Sequence[Any]]) -> None:
    """Handles that meet are all closed where one of them is: ``groups`` has them by place, a handle for each of ``traces``."""
    for group in groups:
        closed = next((h for h in group if not h._handle_open()), None)
        for trace, h in zip(traces, group):
            if closed is not None:
                with trace:
                    h._handle_close(closed)


def one_shape(b: LedgerBuilder, pred: Node, traces: Sequence[Trace], results: Sequence[Sequence[Node]]) -> list[list[Node]]:
    """The results of two branches, place by place of one shape: a size that differs is one that the run finds.

    ShapeError where the ranks differ. A size is found where the predicate stands, so that whatever is around this cond knows it too.
    """
    avals = [n.aval for side in results for n in side]
    while b.outer is not None and not b.owns(pred) and not measured_in(tuple(d for a in avals for d in a.shape)) & _measured_by(b):
        b = b.outer
    made: dict[tuple[Size, Size], Size] = {}

    def size(x: Size, y: Size) -> Size:
        if x != y and (x, y) not in made:
            with b.at(b.site or source.capture(b.ledger._scope)):
                given = (b.reshape(b.sizes(sizes=(s,), dtype=int64), shape=()) for s in (x, y))
                made[x, y] = size_of(b, b.where(b.capture(pred), *given), maximum(x, y))
        return x if x == y else made[x, y]
    out: list[list[Node]] = [[], []]
    for pair in zip(*results):
        shapes = [n.shape for n in pair]
        if len(shapes[0]) != len(shapes[1]):
            texts = ", ".join(str(shape_of(s)) for s in shapes)
            raise ShapeError(f"outputs of true_fn and false_fn must have the same rank: {texts}")
        inside = [set(measured_in(s)) & _measured_by(t.builder) for s, t in zip(shapes, traces)]
        shape = shapes[0] if any(inside) else tuple(map(size, *shapes))      # the op says what is wrong with a size that only a branch knows
        for k, (n, trace) in enumerate(zip(pair, traces)):
            pairs = tuple((s, w) for s, w in zip(n.shape, shape) if s != w)
            if pairs and not any(inside):
                with trace.builder.at(n.site):
                    n = trace.builder.same_sizes(n, shape=shape, pairs=pairs, message="a branch gives a size of {a}, not {limit}")
            out[k].append(n)
    return out


def _measured_by(b: LedgerBuilder) -> set[str]:
    return {s for n in b.graph.nodes if "measure" in n.op.traits for s in measured_in(n.attr("size"))}
