"""Graphs as text, one line per node, and back: ``parse(str(g)) == g``.

::

    %4: f64[8] = div(%2, %3)                       # model.py:14
    %5: f64[8] = sum(%4, axis=(0,), keepdims=False)   # model.py:15  adjoint of %2
    return %5

Attributes are Python literals; a bare name is a dtype (``f32``) or a dimension (``n0``). Regions follow their node, indented.
"""

from __future__ import annotations

import ast
import base64
import re
import zlib
from typing import Any

import numpy as np

from ..dtypes import ALL, DType, as_dtype
from ..errors import GraphError
from .aval import AnyAval, Aval, Dim, TupleAval, _from_ast, parse_dim
from .graph import ArrayAttr, Graph, Node, Region
from .opdef import OPS

_INLINE = 32                                 # larger constants are printed compressed
_DTYPE_NAMES = {d.short for d in ALL}


def format_array(a: np.ndarray[Any, Any]) -> str:
    """``array(f32, (2, 3), [...])``: exact, so that it parses back to the same bits."""
    dtype = as_dtype(a.dtype)
    if a.dtype == object:
        body = repr(a.ravel().tolist())
    elif a.size <= _INLINE and not _odd_nan(a):
        body = "[" + ", ".join(_number(v) for v in a.ravel().tolist()) + "]"
    else:
        body = repr(base64.b85encode(zlib.compress(a.tobytes(), 6)).decode())
    return f"array({dtype.short}, {a.shape!r}, {body})"


def _odd_nan(a: np.ndarray[Any, Any]) -> bool:
    # only the default quiet NaN survives a trip through decimal text
    if a.dtype.kind != "f":
        return a.dtype.kind == "c"
    bad = np.isnan(a)
    return bool(bad.any()) and a[bad].tobytes() != np.full(int(bad.sum()), np.nan, a.dtype).tobytes()


def _number(v: Any) -> str:
    return {"nan": "nan", "inf": "inf", "-inf": "-inf"}.get(repr(v), repr(v))


def _value(v: Any, regions: dict[Region, str]) -> str:
    if isinstance(v, Region):
        return regions.setdefault(v, f"@{len(regions)}")
    if isinstance(v, DType):
        return v.short
    if isinstance(v, Aval):
        return f"aval({str(v)!r})"
    if isinstance(v, tuple):
        inner = ", ".join(_value(x, regions) for x in v)
        return f"({inner},)" if len(v) == 1 else f"({inner})"
    if isinstance(v, float):
        return _number(v)
    if isinstance(v, (Dim, ArrayAttr, bool, int, str, bytes, type(None), complex)):
        return repr(v)
    if isinstance(v, np.generic):
        return _value(v.item(), regions)
    return f"opaque({getattr(v, '__name__', type(v).__name__)!r}, {id(v)})"


def _lines(nodes: Any, results: Any, params: Any, indent: str, sites: bool) -> list[str]:
    out: list[str] = []
    number = {n: i for i, n in enumerate(nodes)}
    skip = set(params)
    for n in nodes:
        if n in skip:
            continue
        regions: dict[Region, str] = {}
        args = [f"%{number[i]}" for i in n.inputs]
        args += [f"{k}={_value(v, regions)}" for k, v in n.attrs]
        if n.control:
            args.append("control=[" + ", ".join(f"%{number[c]}" for c in n.control) + "]")
        line = f"{indent}%{number[n]}: {n.aval} = {n.op.name}({', '.join(args)})"
        if sites and n.site.frames:
            line = f"{line:<48s} # {n.site.short()}" + (f"  {n.role}" if n.role else "")
        out.append(line)
        for region, name in regions.items():
            heads = ", ".join(f"%{i}: {p.aval}" for i, p in enumerate(region.params))
            out.append(f"{indent}  {name}({heads}):")
            ordered = (*region.params, *(m for m in region.nodes if m not in set(region.params)))
            out += _lines(ordered, region.results, region.params, indent + "    ", sites)
    if results or params:
        out.append(indent + "return " + ", ".join(f"%{number[r]}" for r in results))
    return out


def print_graph(g: Graph, sites: bool = True) -> str:
    """The text of a graph. ``sites=False`` leaves the comments out."""
    return "\n".join(_lines(g.nodes, g.outputs, (), "", sites))


def print_node(n: Node) -> str:
    """One line for messages."""
    args = [f"%{i.id}" for i in n.inputs] + [f"{k}={_value(v, {})}" for k, v in n.attrs]
    text = f"%{n.id}: {n.aval} = {n.op.name}({', '.join(args)})"
    return text if len(text) < 400 else text[:400] + "..."


def print_dot(g: Graph) -> str:
    """Graphviz text: one box per node, edges from inputs to users in the order of operands; bodies of control flow as clusters."""
    rows = ["digraph g {", '  rankdir=TB; ordering="in"; compound=true; node [shape=box, fontname=monospace];', *_dot(g.nodes, "n", "  ")]
    rows += [f'  out{k} [label="output {k}", shape=plaintext]; n{o.id} -> out{k};' for k, o in enumerate(g.outputs)]
    return "\n".join([*rows, "}"])


def _dot(nodes: Any, prefix: str, indent: str) -> list[str]:
    rows, name = [], {n: f"{prefix}{k}" for k, n in enumerate(nodes)}
    for n in nodes:
        style = {True: "style=rounded", False: "style=solid"}[not n.inputs] + (", color=firebrick" if n.role.startswith("adjoint") else "")
        label = "\\n".join(_quoted(t) for t in (f"%{n.id} {n.op.name}", str(n.aval), n.site.short(), n.role) if t)
        rows.append(f'{indent}{name[n]} [label="{label}", {style}];')
        rows += [f"{indent}{name[i]} -> {name[n]};" for i in n.inputs]
        rows += [f"{indent}{name[c]} -> {name[n]} [style=dashed];" for c in n.control]
        for k, region in ((k, v) for k, v in n.attrs if isinstance(v, Region)):
            body = f"{name[n]}_{k}_"
            inside = list(dict.fromkeys((*region.params, *region.nodes)))
            rows += [f"{indent}subgraph cluster_{body} {{", f'{indent}  label="{k} of %{n.id}";', *_dot(inside, body, indent + "  "), indent + "}"]
            rows += [f"{indent}{body}{inside.index(r)} -> {name[n]} [style=dotted, ltail=cluster_{body}];" for r in region.results[:1]]
    return rows


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


# ---- parsing -----------------------------------------------------------------------------------------------------------

_NODE = re.compile(r"^( *)%(\d+): (.+?) = (\w+)(\(.*)$")
_HEAD = re.compile(r"^( *)@(\d+)\((.*)\):\s*$")
_RETURN = re.compile(r"^( *)return ?(.*)$")
_AVAL = re.compile(r"(\w+)\[(.*)\]$")


def parse_aval(text: str) -> AnyAval:
    """``f32[2,n0]`` or ``(f32[], i32[])``."""
    text = text.strip()
    if text.startswith("("):
        return TupleAval(tuple(_single(t) for t in re.findall(r"\w+\[[^\]]*\]", text)))
    return _single(text)


def _single(text: str) -> Aval:
    m = _AVAL.match(text)
    if m is None or m[1] not in _DTYPE_NAMES:
        raise GraphError(f"not an aval: {text!r}")
    return Aval(tuple(parse_dim(d) for d in _split(m[2])), as_dtype(m[1]))


def _split(text: str) -> list[str]:
    """Split at commas that are not in parentheses (``max(n,1)`` is one dimension)."""
    out, depth, start = [], 0, 0
    for i, ch in enumerate(text):
        depth += (ch == "(") - (ch == ")")
        if ch == "," and depth == 0:
            out.append(text[start:i])
            start = i + 1
    return [*out, text[start:]] if text.strip() else []


def parse(text: str) -> Graph:
    """The graph that ``str(graph)`` printed. GraphError names the line that does not fit."""
    lines = [(k + 1, line) for k, line in enumerate(text.splitlines()) if line.strip()]
    nodes, results, rest = _parse_block(lines, 0, ())
    if rest < len(lines):
        raise GraphError(f"line {lines[rest][0]}: unexpected text {lines[rest][1].strip()!r}")
    g = Graph()
    g.nodes.extend(nodes)
    g.outputs = tuple(results)
    return g


def _parse_block(lines: list[tuple[int, str]], at: int, params: tuple[AnyAval, ...]) -> tuple[list[Node], list[Node], int]:
    graph = Graph()
    for i, aval in enumerate(params):
        graph.add(OPS["param"], (), (("aval", aval), ("index", i)), aval)
    results: list[Node] = []
    indent: int | None = None
    while at < len(lines):
        number, line = lines[at]
        m = _NODE.match(line)
        here = len(line) - len(line.lstrip())
        if indent is None:
            indent = here
        if here < indent:
            break
        if m is None:
            r = _RETURN.match(line)
            if r is None:
                break
            names = [int(t) for t in re.findall(r"%(\d+)", r[2].split("#")[0])]
            if any(k >= len(graph.nodes) for k in names):
                raise GraphError(f"line {number}: {line.strip()!r} names a node that does not exist")
            results = [graph.nodes[k] for k in names]
            at += 1
            break
        at += 1
        regions: dict[str, Region] = {}
        while at < len(lines) and (h := _HEAD.match(lines[at][1])) is not None:
            avals = tuple(parse_aval(t) for t in re.findall(r"%\d+: (\(.*?\)|\w+\[[^\]]*\])", h[3]))
            body, res, at = _parse_block(lines, at + 1, avals)
            regions[h[2]] = Region(body[:len(avals)], body, res)
        try:
            _parse_node(graph, m, regions)
        except (SyntaxError, KeyError, IndexError, ValueError) as error:
            raise GraphError(f"line {number}: cannot parse {line.strip()!r} ({error})") from error
    return graph.nodes, results, at


def _parse_node(graph: Graph, m: re.Match[str], regions: dict[str, Region]) -> None:
    op = OPS[m[4]]
    call = ast.parse("f" + re.sub(r"%(\d+)", r"_v\1", _guard_strings(m[5], regions)), mode="eval").body
    assert isinstance(call, ast.Call)
    inputs = tuple(graph.nodes[int(a.id[2:])] for a in call.args if isinstance(a, ast.Name))
    control: tuple[Node, ...] = ()
    attrs = []
    for k in call.keywords:
        if k.arg == "control":
            assert isinstance(k.value, ast.List)
            control = tuple(graph.nodes[int(e.id[2:])] for e in k.value.elts if isinstance(e, ast.Name))
        else:
            attrs.append((str(k.arg), _literal(k.value, regions)))
    graph.add(op, inputs, tuple(sorted(attrs)), parse_aval(m[3]), control=control)


def _guard_strings(text: str, regions: dict[str, Region]) -> str:
    # outside of quotes, @3 names a region
    parts = re.split(r"('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")", text)
    return "".join(p if i % 2 else re.sub(r"@(\d+)", r"_r\1", p) for i, p in enumerate(parts))


def _literal(tree: ast.expr, regions: dict[str, Region]) -> Any:
    if isinstance(tree, ast.Constant):
        return tree.value
    if isinstance(tree, ast.Tuple):
        return tuple(_literal(e, regions) for e in tree.elts)
    if isinstance(tree, ast.Name):
        if tree.id.startswith("_r"):
            return regions[tree.id[2:]]
        if tree.id in ("nan", "inf"):
            return float(tree.id)
        if tree.id in _DTYPE_NAMES:
            return as_dtype(tree.id)
    if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.USub) and not _is_dim(tree.operand):
        return -_literal(tree.operand, regions)
    if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name) and tree.func.id == "array":
        return _parse_array(tree)
    if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name) and tree.func.id == "aval":
        return parse_aval(ast.literal_eval(tree.args[0]))
    if isinstance(tree, ast.BinOp) and isinstance(tree.right, ast.Constant) and isinstance(tree.right.value, complex):
        return ast.literal_eval(tree)
    return _from_ast(tree)


def _is_dim(tree: ast.expr) -> bool:
    return isinstance(tree, ast.BinOp) or (isinstance(tree, ast.Name) and tree.id not in ("inf", "nan"))


def _parse_array(call: ast.Call) -> ArrayAttr:
    dtype = as_dtype(call.args[0].id)                                        # type: ignore[attr-defined]
    shape = ast.literal_eval(call.args[1])
    body = call.args[2]
    if isinstance(body, ast.Constant) and isinstance(body.value, str):
        data = np.frombuffer(zlib.decompress(base64.b85decode(body.value)), dtype.np)
        return ArrayAttr(data.reshape(shape))
    assert isinstance(body, ast.List)
    values = [_literal(e, {}) for e in body.elts]
    array = np.empty(len(values), dtype.np)
    array[:] = values
    return ArrayAttr(array.reshape(shape))
