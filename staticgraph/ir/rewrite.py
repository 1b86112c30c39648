"""The rewrite driver: rules simplify nodes as they are rebuilt, inputs first.

A rule is ``rule(b, node) -> Node | None``. The driver rebuilds the graph in order; each node, and each node a rule makes, is offered to
the rules of its op before it is appended. Since inputs are simplified before their users, one sweep reaches the
fixed point. The driver owns sites and roles, the change log, and the limit against rules that undo each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import Error, InternalError_
from ..source import Site
from .builder import GraphBuilder
from .graph import UNMERGED, Graph, Node, Region
from .opdef import OPS, OpDef
from .text import print_node

_LIMIT = 60                                  # rewrites nested in one node before two rules are said to undo each other


@dataclass(frozen=True)
class Rule:
    """A local rewrite of nodes of ``ops``. ``fast_math`` rules change rounding, or values for NaN, infinities or signed zeros."""

    name: str
    ops: tuple[OpDef, ...]
    fn: Callable[[Any, Node], Node | None]
    fast_math: bool = False


def rule(*ops: OpDef, fast_math: bool = False) -> Callable[[Callable[[Any, Node], Node | None]], Rule]:
    """Decorator: make a ``Rule`` of a function ``(b, node) -> Node | None`` for nodes of the given ops."""
    def wrap(fn: Callable[[Any, Node], Node | None]) -> Rule:
        return Rule(fn.__name__, ops, fn, fast_math)
    return wrap


@dataclass(frozen=True)
class Change:
    """One line of the change log."""

    rule: str
    before: str
    after: str
    site: Site


class RewriteBuilder(GraphBuilder):
    """Appends to an interning graph and simplifies on the way in."""

    def __init__(self, graph: Graph, rules: Mapping[OpDef, Sequence[Rule]], log: list[Change] | None = None) -> None:
        super().__init__(graph, Site(()))
        self.rules = rules
        self.changes = log
        self._depth = 0
        self.memo: dict[Any, Any] = {}       # for rules that make several results at once

    def sub_builder(self, graph: Graph) -> RewriteBuilder:
        b = RewriteBuilder(graph, self.rules, self.changes)
        b.site, b.role = self.site, self.role
        return b

    def append(self, op: OpDef, inputs: tuple[Node, ...], attrs: Any, aval: Any, control: tuple[Node, ...], site: Site) -> Node:
        rules = self.rules.get(op)
        if rules:
            probe = Node(len(self.graph.nodes), op, inputs, control, attrs, aval, site, self.role)
            for r in rules:
                self._depth += 1
                try:
                    new = r.fn(self, probe)
                except Error:
                    raise
                except Exception as error:
                    raise InternalError_(f"rule {r.name} failed on {print_node(probe)} ({error!r}); Config(optimize=\"O0\") "
                                         f"runs without it") from error
                finally:
                    self._depth -= 1
                if new is None:
                    continue
                if self._depth > _LIMIT:
                    raise InternalError_(f"rules undo each other on {print_node(probe)}; the last one was {r.name}")
                if new.aval != aval:
                    raise InternalError_(f"rule {r.name} turned {aval} into {new.aval} on {print_node(probe)}")
                if self.changes is not None:
                    self.changes.append(Change(r.name, print_node(probe), print_node(new), site))
                return new
        return self.graph.add(op, inputs, attrs, aval, control=control, site=site, role=self.role)


def table(rules: Iterable[Rule], fast_math: bool = False) -> dict[OpDef, list[Rule]]:
    """Rules by op; those marked ``fast_math`` only where allowed."""
    out: dict[OpDef, list[Rule]] = {}
    for r in rules:
        if r.fast_math and not fast_math:
            continue
        for op in r.ops:
            out.setdefault(op, []).append(r)
    return out


def rewrite(g: Graph, rules: Iterable[Rule] = (), *, fast_math: bool = False, log: list[Change] | None = None,
            keep: Iterable[Node] | None = None) -> Graph:
    """``g`` rebuilt in an interning graph under ``rules``; regions too. ``keep`` limits the nodes copied (default: all)."""
    out = Graph(intern=True)
    b = RewriteBuilder(out, table(rules, fast_math), log)
    made = rebuild(b, g.nodes if keep is None else keep, {})
    out.outputs = tuple(made[o] for o in g.outputs)
    return out


def rebuild(b: RewriteBuilder, nodes: Iterable[Node], made: dict[Node, Node]) -> dict[Node, Node]:
    """Copy ``nodes`` (ordered) through ``b``; ``made`` maps old to new and is extended."""
    regions: dict[Region, Region] = {}
    for n in nodes:
        if n in made:
            continue
        inputs = tuple(made[i] for i in n.inputs)
        control = tuple(made[c] for c in n.control)
        b.site, b.role = n.site, n.role
        attrs = n.attrs
        if any(isinstance(v, Region) for _, v in attrs):
            attrs = tuple((k, rebuild_region(b, v, regions) if isinstance(v, Region) else v) for k, v in attrs)
        new = b.append(n.op, inputs, attrs, n.aval, control, n.site)
        for s in n.sites:
            if new.op is n.op and not new.op.traits & UNMERGED:
                b.graph._merge(new, s)
        made[n] = new
    return made


def rebuild_region(b: RewriteBuilder, region: Region, seen: dict[Region, Region]) -> Region:
    """The region rebuilt by a sub-builder of ``b``, with what its results do not need left out."""
    found = seen.get(region)
    if found is not None:
        return found
    from .walk import ancestors
    inner = b.sub_builder(Graph(intern=True))
    made: dict[Node, Node] = {}
    for i, p in enumerate(region.params):
        made[p] = inner.graph.add(OPS["param"], (), (("aval", p.aval), ("index", i)), p.aval, site=p.site)
    roots = [*region.results, *(n for n in region.nodes if n.has_effect)]
    rebuild(inner, [n for n in ancestors(roots) if n not in made], made)
    new = Region([made[p] for p in region.params], inner.graph.nodes, [made[r] for r in region.results])
    seen[region] = new
    return new
