"""The one list of passes, each with the reason for its place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any

from staticgraph.config import log, log_wants
from staticgraph.ir.graph import Graph
from staticgraph.ir.rewrite import rewrite
from staticgraph.ir.verify import verify

from . import algebra as algebra_
from . import canonicalize as canonicalize_
from .algebra import algebra
from .base import GraphPass, PassContext, graph_pass
from .canonicalize import canonicalize
from .cse import cse
from .dce import dce
from .expand import expand, expand_rules
from .fold import fold, fold_rule
from .lower_state import Lowered, lower_state
from .rematerialize import candidates as rematerialize_candidates
from .rematerialize import rematerialize


@graph_pass(needs={"pure"}, gives={"canonical", "expanded", "folded", "simplified", "merged"})
def simplify(g: Graph, context: PassContext) -> Graph:
    """expand, canonicalize, fold and algebra as one sweep: what one of them makes, the others see at once, and equal nodes merge on the way.

        %0: f32[] = const(value=array(f32, (), [2.0]))     ->  %0: f32[3] = input(aval=aval('f32[3]'), index=0)
        %1: f32[] = const(value=array(f32, (), [0.5]))      |  return %0
        %2: f32[] = mul(%0, %1)                             |
        %3: f32[3] = input(aval=aval('f32[3]'), index=0)    |
        %4: f32[3] = mul(%3, %2)                            |
        return %4                                           |
    """
    rules = [*expand_rules(), *canonicalize_.RULES, *algebra_.RULES, fold_rule()]
    return dce(rewrite(g, rules, fast_math=context.fast_math, log=context.log), context)


# lower_state runs before these (it makes the graph pure). rematerialize runs after them, under Config.max_bytes, and staticgraph.compile chooses
# its number of segments by the arena that each gives. Fusion follows them in staticgraph.schedule, on items whose
# views are resolved: a fused group needs strides, which the IR does not have.
O2: tuple[GraphPass, ...] = (
    dce,            # first: gradients nobody asked for need no simplifying
    simplify,       # expand + canonicalize + fold + algebra + cse in one sweep, to their common fixed point
    dce,            # last: operands that simplifying left behind
)
O1: tuple[GraphPass, ...] = O2
O0: tuple[GraphPass, ...] = (
    dce,            # the graph as written, less what nothing needs
    expand,         # composed ops have no code of their own
    dce,
)
LEVELS = {"O0": O0, "O1": O1, "O2": O2}
SINGLE = (canonicalize, expand, fold, algebra, cse, dce, simplify)     # each alone, for lectures and tests


def check(passes: Sequence[GraphPass], given: Sequence[str] = ("pure",)) -> None:
    """ValueError if a pass stands before what it needs."""
    have = set(given)
    for p in passes:
        missing = p.needs - have
        if missing:
            raise ValueError(f"pass {p.name} needs {', '.join(sorted(missing))}, which nothing before it gives")
        have |= p.gives


def run(g: Graph, passes: Sequence[GraphPass], context: PassContext, observe: Callable[[str, Graph, float], Any] | None = None,
        verifying: bool = False) -> Graph:
    """Run passes in order. ``observe(name, graph, seconds)`` sees each result; ``verifying`` checks each result."""
    check(passes)
    for p in passes:
        start = perf_counter()
        new = p(g, context)
        seconds = perf_counter() - start
        if verifying:
            verify(new, f"after pass {p.name}", before=g)
        if observe is not None:
            observe(p.name, new, seconds)
        if log_wants("passes"):
            log("passes", f"{p.name:10s} {len(g):6d} -> {len(new):6d} nodes  {1e3 * seconds:8.2f} ms")
        g = new
    return g


__all__ = ["LEVELS", "SINGLE", "Lowered", "PassContext", "check", "lower_state", "rematerialize", "rematerialize_candidates", "run"]
