"""Sizes that the caller gives: which there are, which must agree, and expressions in them as LLVM text and as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..ir.aval import Atom, Dim, Size, assumptions, measured_in, substitute, symbol, symbols_of
from ..ir.graph import Graph
from ..specialize import specialize

LIMIT = (1 << 31) - 1                        # of one size: no address computed from two of them overflows


def unified(graph: Graph, symbols: Sequence[str]) -> tuple[dict[str, Size], list[tuple[Size, Size]]]:
    """(symbols that follow from the others, and how; the other pairs of sizes that must agree).

    The shape rules say which sizes they take to be equal: x of [n, 64] with labels of [m] makes m = n, one size for the caller to give.
    """
    order = {s: k for k, s in enumerate(symbols)}
    values: dict[str, Size] = {}
    while True:
        with assumptions(every=True) as pairs:
            specialize(graph, {s: values.get(s, symbol(s)) for s in symbols})            # type: ignore[misc]
        others = list(dict.fromkeys((p, q) for p, q in pairs if p is not q and not measured_in((p, q))))
        found = next((f for p, q in others if (f := _solved(p, q, order)) is not None), None)
        if found is None:
            return values, others
        name, value = found
        values = {k: substitute(v, {name: value}) for k, v in values.items()} | {name: value}


def _solved(p: Size, q: Size, order: Mapping[str, int]) -> tuple[str, Size] | None:
    """(symbol, value) that makes the two equal, the later symbol of two; None where neither is a symbol of its own."""
    options = [(repr(x), y) for x, y in ((p, q), (q, p)) if isinstance(x, Dim) and repr(x) in order and repr(x) not in symbols_of(y)]
    return max(options, key=lambda o: order[o[0]]) if options else None


# ---- as LLVM text ------------------------------------------------------------------------------------------------------------------


class SizeText:
    """Appends instructions that compute sizes to ``lines``; ``values`` are the SSA names of the symbols."""

    def __init__(self, values: Mapping[str, str], prefix: str = "z") -> None:
        self.values, self.prefix = values, prefix
        self.lines: list[str] = []
        self.known: dict[Size, str] = {}

    def _new(self, text: str) -> str:
        name = f"%{self.prefix}{len(self.lines)}"
        self.lines.append(f"  {name} = {text}")
        return name

    def size(self, size: Size) -> str:
        """The SSA name or literal of a size."""
        if not isinstance(size, Dim):
            return str(size)
        found = self.known.get(size)
        if found is None:
            total = str(size.const)
            for atom, coef in size.terms:
                part = self._atom(atom)
                part = part if coef == 1 else self._new(f"mul i64 {part}, {coef}")
                total = part if total == "0" else self._new(f"add i64 {total}, {part}")
            found = self.known[size] = total
        return found

    def _atom(self, atom: Atom) -> str:
        if atom.kind == "sym":
            return self.values[atom.name]
        x, y = (self.size(a) for a in atom.args)
        if atom.kind == "max":
            return self._new(f"call i64 @llvm.smax.i64(i64 {x}, i64 {y})")
        if atom.kind == "mul":
            return self._new(f"mul i64 {x}, {y}")
        none = self._new(f"icmp eq i64 {y}, 0")
        by = self._new(f"select i1 {none}, i64 1, i64 {y}")
        q, r = self._new(f"sdiv i64 {x}, {by}"), self._new(f"srem i64 {x}, {by}")
        off = self._new(f"icmp ne i64 {r}, 0")
        sign = self._new(f"xor i64 {r}, {by}")
        below = self._new(f"icmp slt i64 {sign}, 0")
        down = self._new(f"and i1 {off}, {below}")
        wide = self._new(f"zext i1 {down} to i64")
        low = self._new(f"sub i64 {q}, {wide}")
        return self._new(f"select i1 {none}, i64 0, i64 {low}")


# ---- as JSON -----------------------------------------------------------------------------------------------------------------------


def as_json(size: Size, names: Mapping[str, str]) -> Any:
    """An int, or ["sum", const, [[coefficient, term], ...]] where a term is the name of a size or ["div" | "mul" | "max", x, y]."""
    if not isinstance(size, Dim):
        return int(size)
    return ["sum", size.const, [[coef, names[a.name] if a.kind == "sym" else [a.kind, *(as_json(x, names) for x in a.args)]]
                                for a, coef in size.terms]]


def spelled(size: Size, names: Mapping[str, str]) -> str:
    """A size as C text: ``2*batch+1``."""
    if not isinstance(size, Dim):
        return str(size)

    def one(atom: Atom) -> str:
        if atom.kind == "sym":
            return names[atom.name]
        x, y = (spelled(a, names) for a in atom.args)
        return f"max({x},{y})" if atom.kind == "max" else f"({x}){'/' if atom.kind == 'div' else '*'}({y})"
    parts = [one(a) if c == 1 else f"{c}*{one(a)}" for a, c in size.terms]
    return "+".join([*parts, *([str(size.const)] if size.const else [])]).replace("+-", "-")


__all__ = ["LIMIT", "SizeText", "as_json", "spelled", "symbols_of", "unified"]
