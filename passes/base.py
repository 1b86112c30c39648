"""What a pass is: a function from graph to graph with a picture of what it does.

``@graph_pass`` records what a pass needs to hold and what it establishes; ``passes.pipeline`` checks the order when it is built. The
docstring shows a graph before and after, side by side in the printer's own format, and that text is the pass's first test.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from staticgraph.ir.graph import Graph
from staticgraph.ir.rewrite import Change


@dataclass
class PassContext:
    """Settings and the change log of one compile."""

    fast_math: bool = False
    log: list[Change] | None = None


@dataclass(frozen=True)
class GraphPass:
    """A named pass. ``needs`` and ``gives`` are properties of graphs, by name."""

    name: str
    fn: Callable[[Graph, PassContext], Graph]
    needs: frozenset[str] = field(default_factory=frozenset)
    gives: frozenset[str] = field(default_factory=frozenset)
    doc: str = ""

    def __call__(self, g: Graph, context: PassContext | None = None) -> Graph:
        return self.fn(g, context or PassContext())

    def pictures(self) -> list[tuple[str, str]]:
        """The (before, after) pairs of the docstring."""
        out, block = [], []
        for line in [*self.doc.splitlines(), ""]:
            if "->" in line or "|" in line:
                block.append(line)
            elif block:
                out.append(_split(block))
                block = []
        return out


def _split(block: list[str]) -> tuple[str, str]:
    left, right = [], []
    for line in block:
        before, _, after = line.replace("->", "|", 1).partition("|")
        left.append(before.strip())
        right.append(after.strip())
    return "\n".join(x for x in left if x), "\n".join(x for x in right if x)


def graph_pass(*, needs: Iterable[str] = (), gives: Iterable[str] = ()) -> Callable[[Callable[[Graph, PassContext], Graph]], GraphPass]:
    """Decorator: make a ``GraphPass`` of ``fn(graph, context) -> graph``."""
    def wrap(fn: Callable[[Graph, PassContext], Graph]) -> GraphPass:
        return GraphPass(fn.__name__, fn, frozenset(needs), frozenset(gives), fn.__doc__ or "")
    return wrap
