"""Recompute in the backward pass rather than keep: what ``Config.max_bytes`` asks for.

The forward nodes are cut into segments of about equal bytes (T. Chen et al., "Training Deep Nets with Sublinear Memory Cost", 2016). What
crosses from one segment into a later one is kept; everything else of a segment is computed a second time, once, when the backward pass
comes to it. A ``barrier`` keeps the second computation apart from the first. Which number of segments fits is decided by who knows the
arena: ``staticgraph.compile`` lays out each candidate.
"""

from __future__ import annotations

from collections.abc import Iterator

from staticgraph.ir.aval import Dim, TupleAval
from staticgraph.ir.graph import Graph, Node
from staticgraph.ops import control, state

from .base import PassContext
from .dce import dce

_LEAVES = frozenset({"input", "const", "param", "sizes"})
_UNKNOWN = 64                                # taken for a size that only the run knows: it decides where to cut, not what is right


def is_adjoint(n: Node) -> bool:
    """Whether a node was made by the gradient pass."""
    return n.role.startswith("adjoint")


def candidates(g: Graph) -> Iterator[int]:
    """Numbers of segments worth trying, few first (each costs about one forward pass more, whatever the number)."""
    last, s = len(_forward(g)), 2
    while s <= last:
        yield s
        s = max(s + 1, s * 5 // 4)


def rematerialize(g: Graph, segments: int) -> Graph:
    """``g`` with the forward values of all segments but the last computed again for the backward pass. No value changes a bit."""
    forward = _forward(g)
    of = _cut(forward, segments)
    kept = {*g.outputs, *(i for n in of for i in n.inputs if i in of and of[i] != of[n])}
    start = _start(g)
    out = Graph(intern=True)
    made: dict[Node, Node] = {}
    again: dict[Node, Node] = {}

    def gone(n: Node) -> bool:
        return n in of and n not in kept and of[n] < segments - 1

    def second(n: Node) -> Node:
        """The second computation of a forward node, inputs first."""
        stack = [n]
        while stack:
            m = stack[-1]
            missing = [i for i in m.inputs if i not in again] if gone(m) else []
            if missing:
                stack += missing
                continue
            stack.pop()
            if m in again:
                continue
            if gone(m):
                again[m] = out.add(m.op, [again[i] for i in m.inputs], m.attrs, m.aval, site=m.site, role="recomputed")
            elif m.op in (state.const, state.sizes):
                again[m] = made[m]
            else:
                again[m] = out.add(control.barrier, (made[m],), (), m.aval, site=m.site, role="recomputed")
        return again[n]
    for n in g.nodes:
        inputs = [second(i) if n.id >= start and gone(i) else made[i] for i in n.inputs]
        made[n] = out.add(n.op, inputs, n.attrs, n.aval, control=[made[c] for c in n.control], site=n.site, role=n.role)
    out.outputs = tuple(made[o] for o in g.outputs)
    return dce(out, PassContext())


def _start(g: Graph) -> int:
    """The number of the first adjoint."""
    return next((n.id for n in g.nodes if is_adjoint(n)), 0)


def _forward(g: Graph) -> list[Node]:
    """Nodes before the first adjoint that may be computed twice."""
    return [n for n in g.nodes[:_start(g)] if n.op.name not in _LEAVES and n.op is not state.get and not isinstance(n.aval, TupleAval)
            and not n.op.has_effect and not n.control and "measure" not in n.op.traits]


def _bytes(n: Node) -> int:
    count = n.dtype.size
    for d in n.shape:
        count *= _UNKNOWN if isinstance(d, Dim) else d
    return int(count)


def _cut(forward: list[Node], segments: int) -> dict[Node, int]:
    """The segment of each forward node: consecutive runs of about equal bytes."""
    total, so_far, of = sum(map(_bytes, forward)) or 1, 0, {}
    for n in forward:
        of[n] = min(segments - 1, so_far * segments // total)
        so_far += _bytes(n)
    return of
