"""``sg.draw``: a picture of a small graph as SVG, without Graphviz.

A box per node: its op, its aval, the user's line that made it. Adjoint nodes have another colour, rounded corners and the words "adjoint of", so
that the picture also reads in grey. Edges go from inputs to users; control edges are dashed. Bodies of control flow stand below the graph.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import GraphError
from ..ir import walk
from ..ir.graph import ArrayAttr, Graph, Node, Region
from ..surface import nest
from ..surface.ledger import Graph as Ledger
from .layered import layout

LIMIT = 250                                  # boxes: more than a slide can show, and than anybody reads
SIZE, SMALL = 19, 15.5                       # font sizes in pixels
_WIDTH = 0.605                               # of a letter of a monospace font, as a part of its size
_FONT = "DejaVu Sans Mono, Menlo, Consolas, monospace"
_KINDS = {"leaf": ("#f3f3f1", "#55534e", 0, "input or constant"), "node": ("#e6f0fa", "#0b5fa5", 3, "computed"),
          "adjoint": ("#fdeee3", "#c8451b", 16, "adjoint (backward pass)"), "result": ("#e6f0fa", "#0b5fa5", 3, "result: thick border")}
_LEAVES = ("placeholder", "input", "param", "variable", "const", "sizes")
_HIDDEN = ("aval", "uid", "index", "value")  # attributes that the box says otherwise, or that say nothing


class Drawing:
    """An SVG picture: ``svg`` is its text; notebooks show it; ``save`` writes it."""

    def __init__(self, svg: str) -> None:
        self.svg = svg

    def _repr_svg_(self) -> str:
        return self.svg

    def save(self, path: str | Path) -> Drawing:
        """Write it to a file. ValueError for a name that does not end in .svg."""
        if Path(path).suffix != ".svg":
            raise ValueError(f"a drawing is SVG: give a name that ends in .svg, got {str(path)!r}")
        Path(path).write_text(self.svg, encoding="utf-8")
        return self

    def __repr__(self) -> str:
        return f"<drawing, {len(self.svg)} bytes of SVG>"


def draw(what: Any, path: str | Path | None = None, *args: Any, title: str = "", direction: str = "down", names: Mapping[Any, str] | None = None,
         notes: Mapping[Any, str] | None = None) -> Drawing:
    """Draw a graph, what leads to some tensors, or a function traced with ``args``; write it to ``path`` (.svg) if given.

    ``direction``: "down" or "right". ``names``: tensor or node -> its name (placeholders and variables of a TF1-style graph have theirs).
    ``notes``: tensor or node -> a further line of its box, such as a value. ValueError for a graph of more than 250 nodes; GraphError for what
    is no graph.
    """
    if direction not in ("down", "right"):
        raise ValueError(f"direction must be 'down' or 'right', got {direction!r}")
    nodes, results, found = _nodes_of(what, args)
    if len(nodes) > LIMIT:
        raise ValueError(f"a drawing of {len(nodes)} nodes would not be readable (the limit is {LIMIT}): draw the tensors of a part, or use to_dot()")
    known = {**found, **{_node(k): v for k, v in (names or {}).items()}}
    picture = Drawing(_page(_parts(nodes, results), title, direction, known, {_node(k): v for k, v in (notes or {}).items()}))
    return picture.save(path) if path is not None else picture


def _node(x: Any) -> Any:
    return x if isinstance(x, Node) else x._as_tensor().node if hasattr(x, "_as_tensor") else x.node


def _nodes_of(what: Any, args: Sequence[Any]) -> tuple[list[Node], tuple[Node, ...], dict[Node, str]]:
    """(nodes in order, results, names of leaves)."""
    from ..functional import Function
    if isinstance(what, Graph):
        return what.nodes, what.outputs, {}
    if isinstance(what, Ledger):
        return what.ir.nodes, what.ir.outputs, _names(what)
    if isinstance(what, Function) or (callable(what) and not hasattr(what, "node")):
        f = what if isinstance(what, Function) else Function(what)
        g = f.graph(*args)
        return g.nodes, g.outputs, dict(zip((n for n in g.nodes if n.op.name == "placeholder"), argument_names(f.fn, args)))
    tensors = list(what) if isinstance(what, (list, tuple)) else [what]
    try:
        results = [_node(t) for t in tensors]
    except AttributeError:
        raise GraphError(f"draw needs a graph, tensors or a function, got {type(what).__name__}") from None
    ledger = getattr(tensors[0], "graph", None) if tensors else None
    return walk.ancestors(results), tuple(results), _names(ledger) if isinstance(ledger, Ledger) else {}


def argument_names(fn: Any, args: Sequence[Any]) -> list[str]:
    """What the leaves of a call's arguments are called, in the order of ``nest.flatten``: ``x``, ``w1`` of a dict, ``state.0`` of a tuple."""
    try:
        known = [p.name for p in inspect.signature(fn).parameters.values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    except (TypeError, ValueError):
        known = []
    out: list[str] = []

    def walk_leaves(prefix: str, x: Any) -> None:
        if nest.is_leaf(x):
            out.append(prefix)
            return
        for k in sorted(x, key=str) if isinstance(x, dict) else range(len(x)):
            walk_leaves(f"{prefix}.{k}" if prefix and not isinstance(x, dict) else str(k), x[k])
    for k, a in enumerate(args):
        walk_leaves(known[k] if k < len(known) else str(k), a)
    return out


def _names(ledger: Any) -> dict[Node, str]:
    named = {t.node: t.op.name for t in ledger.placeholders.values()}
    return {**named, **{v.node: v.op.name for v in ledger.variables.values()}}


@dataclass
class _Part:
    """A graph, or a body of one of its nodes."""

    heading: str
    nodes: Sequence[Node]
    results: Sequence[Node]
    prefix: str                              # of ids, for bodies: they number their nodes from 0 again


def _parts(nodes: Sequence[Node], results: Sequence[Node], prefix: str = "", heading: str = "") -> list[_Part]:
    out = [_Part(heading, nodes, results, prefix)]
    for n in nodes:
        for name, region in ((k, v) for k, v in n.attrs if isinstance(v, Region)):
            params = set(region.params)
            inside = [*region.params, *(m for m in region.nodes if m not in params)]
            number = {m: k for k, m in enumerate(inside)}
            body = f"{prefix}{number.get(n, n.id)}."
            out += _parts(inside, region.results, body, f"{name} of %{prefix}{n.id} {n.op.name}")
    return out


@dataclass
class _Box:
    lines: list[tuple[str, bool]]            # text, and whether it is the large first line
    kind: str
    result: bool
    hint: str                                # shown by browsers under the pointer
    width: float = 0.0
    height: float = 0.0

    def __post_init__(self) -> None:
        self.width = max(len(text) * _WIDTH * (SIZE if large else SMALL) for text, large in self.lines) + 24
        self.height = sum(SIZE * 1.3 if large else SMALL * 1.32 for _, large in self.lines) + 16


def _box(n: Node, number: str, result: bool, name: str, note: str) -> _Box:
    kind = "adjoint" if n.role.startswith("adjoint") else "leaf" if not n.inputs or n.op.name in _LEAVES else "node"
    attrs = [f"{k}={_short(v)}" for k, v in n.attrs if k not in _HIDDEN and not isinstance(v, Region) and v is not False and v is not None]
    value = n.attr("value")
    head = f"{number} {n.op.name}"
    if isinstance(value, ArrayAttr):
        head = f"{number} {_short(value)}"
    lines = [(head + (f"  {name}" if name else ""), True), (str(n.aval), False)]
    if attrs and len(text := ", ".join(attrs)) <= 40:
        lines.insert(1, (text, False))
    if n.role:
        lines.append((n.role, False))
    if note:
        lines.append((note, False))
    # a long file name would make every box as wide as itself; the hint has it in full
    sites = [s.short() if len(s.short()) <= 24 else f"line {s.line}" for s in n.all_sites() if s.frames]
    if sites:
        lines.append((", ".join(dict.fromkeys(sites)), False))
    return _Box(lines, kind, result, f"{n!r}\n{n.site.describe()}" if n.site.frames else repr(n))


def _short(v: Any) -> str:
    if isinstance(v, ArrayAttr):
        a = v.array
        return f"{a.item():.6g}" if a.size == 1 and a.dtype.kind == "f" else str(a.item()) if a.size == 1 else "const" if a.size > 4 else str(a.tolist())
    if isinstance(v, tuple):
        return "(" + ", ".join(map(_short, v)) + ("," if len(v) == 1 else "") + ")"
    return f"{v:.6g}" if isinstance(v, (float, np.floating)) else getattr(v, "short", None) or str(v)


def _page(parts: Sequence[_Part], title: str, direction: str, names: Mapping[Node, str], notes: Mapping[Node, str]) -> str:
    """The whole SVG: title, parts one below the other, legend."""
    rows: list[str] = []
    width, y, kinds = 0.0, 24.0, {}
    if title:
        rows.append(_text(24, y + 22, title, 24, weight="bold"))
        width, y = len(title) * 24 * 0.6, y + 46
    for part in parts:
        if part.heading:
            rows.append(_text(24, y + 20, part.heading, SIZE, weight="bold"))
            y += 38
        drawn, w, h, used = _drawn(part, direction, names, notes)
        rows.append(f'<g transform="translate(24 {y:.1f})">{drawn}</g>')
        width, y = max(width, w, len(part.heading) * SIZE * 0.62), y + h + 30
        kinds.update(used)
    entries = [(k, _KINDS[k]) for k in _KINDS if k in kinds]
    x = 24.0
    for kind, (fill, line, corner, words) in entries:
        needed = 40 + len(words) * SMALL * _WIDTH + 24
        if x > 24 and x + needed > max(width, 640):
            x, y = 24.0, y + 28
        rows.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="28" height="18" rx="{min(corner, 9)}" fill="{fill}" stroke="{line}" stroke-width="{4 if kind == "result" else 1.8}"/>')
        rows.append(_text(x + 38, y + 15, words, SMALL))
        x += needed
        width = max(width, x - 24)
    width, height = width + 48, y + (42 if entries else 12)
    head = (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}" '
            f'font-family="{_FONT}">')
    arrow = ('<defs><marker id="sg-arrow" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="13" markerHeight="13" orient="auto-start-reverse" '
             'markerUnits="userSpaceOnUse"><path d="M0 0 10 5 0 10z" fill="#444"/></marker></defs>')
    return "\n".join([head, f"<title>{escape(title or 'graph')}</title>", arrow, f'<rect width="{width:.0f}" height="{height:.0f}" fill="white"/>', *rows, "</svg>", ""])


def _drawn(part: _Part, direction: str, names: Mapping[Node, str], notes: Mapping[Node, str]) -> tuple[str, float, float, dict[str, None]]:
    """(SVG of a part, its width and height, the kinds of boxes in it)."""
    results = set(part.results)
    number = {n: f"%{part.prefix}{n.id if not part.prefix else k}" for k, n in enumerate(part.nodes)}
    boxes = {n: _box(n, number[n], n in results, names.get(n, ""), notes.get(n, "")) for n in part.nodes}
    inside = set(part.nodes)
    data = [(i, n) for n in part.nodes for i in n.inputs if i in inside]
    control = [(c, n) for n in part.nodes for c in n.control if c in inside]
    turn = direction == "right"
    sizes = {n: (b.height, b.width) if turn else (b.width, b.height) for n, b in boxes.items()}
    placed = layout(sizes, [*data, *control], (22.0, 64.0) if turn else (28.0, 50.0))
    at: Callable[[tuple[float, float]], tuple[float, float]] = (lambda p: (p[1], p[0])) if turn else (lambda p: p)
    out, only_control = [], set(control) - set(data)
    for edge, points in placed.paths.items():
        dash = ' stroke-dasharray="7 6"' if edge in only_control else ""
        twice = data.count(edge)
        out.append(f'<path d="{_path([at(p) for p in points], turn)}" fill="none" stroke="#444" stroke-width="1.8"{dash} marker-end="url(#sg-arrow)"/>')
        if twice > 1:
            x, y = at(points[-1])
            out.append(_text(x - 46 if turn else x + 12, y - (8 if turn else 14), f"{twice} times", SMALL))
    kinds: dict[str, None] = {}
    for n, b in boxes.items():
        kinds[b.kind] = None
        if b.result:
            kinds["result"] = None
        out.append(_boxed(b, *at(placed.centres[n])))
    w, h = at((placed.width, placed.height))
    return "".join(out), w, h, kinds


def _boxed(b: _Box, x: float, y: float) -> str:
    fill, line, corner, _ = _KINDS[b.kind]
    left, top = x - b.width / 2, y - b.height / 2
    border = 4 if b.result else 1.8
    place = f'x="{left:.1f}" y="{top:.1f}" width="{b.width:.1f}" height="{b.height:.1f}" rx="{corner}"'
    rows = [f"<g><title>{escape(b.hint)}</title>", f'<rect {place} fill="{fill}" stroke="{line}" stroke-width="{border}"/>']
    at = top + 8
    for k, (text, large) in enumerate(b.lines):
        size = SIZE if large else SMALL
        at += size * (1.3 if large else 1.32)
        rows.append(_text(x, at - size * 0.3, text, size, anchor="middle", weight="bold" if large else "normal", fill="#111" if large or k == 1 else "#333"))
    return "".join([*rows, "</g>"])


def _text(x: float, y: float, text: str, size: float, anchor: str = "start", weight: str = "normal", fill: str = "#111") -> str:
    return (f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size:g}" text-anchor="{anchor}" font-weight="{weight}" fill="{fill}" '
            f'xml:space="preserve">{escape(text)}</text>')


def _path(points: Iterable[tuple[float, float]], turn: bool) -> str:
    """A smooth way: between layers a cubic curve that leaves and arrives in the direction of flow, along a row straight."""
    (x, y), *rest = points
    out = [f"M{x:.1f} {y:.1f}"]
    for p, q in rest:
        if turn:
            out.append(f"C{(x + p) / 2:.1f} {y:.1f} {(x + p) / 2:.1f} {q:.1f} {p:.1f} {q:.1f}")
        else:
            out.append(f"C{x:.1f} {(y + q) / 2:.1f} {p:.1f} {(y + q) / 2:.1f} {p:.1f} {q:.1f}")
        x, y = p, q
    return "".join(out)
