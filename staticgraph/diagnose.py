"""Looking into a run: where a NaN began (``Config.nan_check``), and whether compiled code and passes say what the graph says (``Config.verify``).

Both replay the run from the same feeds and the same state, in the NumPy interpreter or compiled as written: a run that fails changes nothing, and
draws are a function of the state. Compiled code is compared with compiled code, bit for bit; the interpreter only finds the place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from . import source
from .errors import InternalError, InvalidArgumentError, UnimplementedError
from .ir.aval import Aval
from .ir.builder import GraphBuilder
from .ir.evaluate import evaluate
from .ir.graph import Graph, Node
from .ir.opdef import Control, Host

NOT_FINITE = "it is not finite: {a}"
Current = Callable[[str, Any], Any]          # (kind, key) of an input that is state -> its value at the run's entry
_ROUNDING = {"float32": 1e-4, "float64": 1e-9}           # of the largest element: the orders in which sums are taken differ


def kind_of(n: Node) -> str:
    """How control nodes and leaves are told apart."""
    return n.op.lower.kind if isinstance(n.op.lower, Control) else ""


def refuse_host_operations(g: Graph) -> None:
    """UnimplementedError at the line of a Python function: it cannot be run a second time for a comparison."""
    for n in g.nodes:
        if isinstance(n.op.lower, Host):
            source.raise_at(n.site, UnimplementedError(None, n, "Config.verify runs every step twice, which a Python function may not allow"))


def with_finite_checks(g: Graph) -> None:
    """Let the run fail, before anything is committed, where a result or a variable's next value is not finite."""
    b = GraphBuilder(g)
    outputs = []
    for o in g.outputs:
        if isinstance(o.aval, Aval) and o.dtype.is_floating and kind_of(o) not in ("input", "const"):
            with b.at(o.site, o.role):
                o = b.guard(o, b.is_finite(o), message=NOT_FINITE, limit=0, fill=0)
        outputs.append(o)
    g.outputs = tuple(outputs)


def environment(g: Graph, inputs: Sequence[Any], feeds: Sequence[Any], current: Current) -> dict[Node, Any]:
    """Values of the graph's input nodes."""
    given = iter(feeds)
    values = [np.asarray(next(given), i.aval.dtype.np) if i.kind == "feed" else current(i.kind, i.key) for i in inputs]
    return {n: values[n.attr("index")] for n in g.nodes if kind_of(n) == "input"}


# ---- NaN -----------------------------------------------------------------------------------------------------------------------------


def raise_not_finite(stages: Sequence[tuple[str, Graph]], env: Callable[[Graph], Mapping[Node, Any]], output: int) -> NoReturn:
    """Raise at the line where the output's NaN or infinity began.

    ``stages`` are the graph as written and after each pass. Where only a later one goes wrong, the pass is named.
    """
    name = ""
    for name, g in stages:
        values = dict(zip(g.nodes, evaluate(g.nodes, env(g))))
        if not _finite(values[g.outputs[output]]):
            n = _origin(g.outputs[output], values)
            text = _story(n, values)
            if g is not stages[0][1]:
                text += f"; the graph as written gives a finite value: pass {name!r} brought it in, please report it"
            error = InvalidArgumentError(None, n, text)
            if n.role:
                source.add_note(error, f"in the backward pass: {n.role}")
            source.raise_at(n.site, error)
    o = stages[0][1].outputs[output]
    source.raise_at(o.site, InvalidArgumentError(
        None, o, f"the compiled run gave a value of {o.op.name} that is not finite; the interpreter, after any pass, gives a finite one. "
                 "With fast_math this may be; otherwise it is a fault of code generation: please report it"))


def _finite(value: Any) -> bool:
    return not isinstance(value, np.ndarray) or value.dtype.kind != "f" or bool(np.isfinite(value).all())


def _origin(n: Node, values: Mapping[Node, Any]) -> Node:
    """Up from ``n`` while an operand is already NaN (or, where there is no NaN, infinite)."""
    def spoilt(m: Node) -> bool:
        parts = values[m] if isinstance(values[m], tuple) else (values[m],)
        return any(p.dtype.kind == "f" and bool(test(p).any()) for p in parts)
    test: Any = np.isnan
    if not spoilt(n):
        test = np.isinf
    while True:
        above = next((i for i in n.inputs if spoilt(i)), None)
        if above is None:
            return n
        n = above


def _story(n: Node, values: Mapping[Node, Any]) -> str:
    value = next(v for v in (values[n] if isinstance(values[n], tuple) else (values[n],)) if not _finite(v))
    bad = np.isnan(value) if np.isnan(value).any() else np.isinf(value)
    at = tuple(int(k) for k in np.argwhere(bad)[0])
    where = f" at element [{', '.join(map(str, at))}]" if at else ""
    what = "NaN" if np.isnan(value).any() else "an infinity"
    if not n.inputs:
        return f"{'a feed' if kind_of(n) == 'input' else n.op.name} of {n.aval} holds {what}{where}"
    shown = [f"operand {k} {_element(values[i], at, value.shape) if n.op.is_elementwise else _range(values[i])}"
             for k, i in enumerate(n.inputs) if isinstance(values[i], np.ndarray)]
    return f"{n.op.name} made {'a ' if what == 'NaN' else ''}{what}{where}: {', '.join(shown)}"


def _element(x: Any, at: tuple[int, ...], shape: tuple[int, ...]) -> str:
    return f"= {np.broadcast_to(x, shape)[at]}"


def _range(x: Any) -> str:
    return f"in [{x.min()}, {x.max()}]" if x.size and x.dtype.kind in "fiu" else f"of shape {list(x.shape)}"


# ---- verification ----------------------------------------------------------------------------------------------------------------------


def raise_where_different(stages: Sequence[tuple[str, Graph]], env: Callable[[Graph], Mapping[Node, Any]], got: Sequence[Any],
                          want: Sequence[Any]) -> None:
    """Raise InternalError for the first result or next value of which a run and the run of the graph as written differ in a bit.

    The message names the pass after which the interpreted graph differs as well, else fusion and code generation.
    """
    k = next((k for k, (g, w) in enumerate(zip(got, want)) if not _same_bits(g, w)), None)
    if k is None:
        return
    guilty, plain = "fusion or code generation", evaluate(stages[0][1].outputs, env(stages[0][1]))[k]
    for name, g in stages[1:]:
        if not _close(evaluate(g.outputs, env(g))[k], plain):
            guilty = f"pass {name!r}"
            break
    o = stages[0][1].outputs[k]
    source.raise_at(o.site, InternalError(
        None, o, f"verify: {o.op.name} gives {_first_difference(got[k], want[k])}; changed by {guilty}. Nothing was committed; please report it"))


def _same_bits(got: Any, want: Any) -> bool:
    got, want = np.asarray(got), np.asarray(want)
    if got.dtype.kind != "f" or got.shape != want.shape:
        return got.shape == want.shape and got.tobytes() == want.tobytes()
    return bool(((got == want) & (np.signbit(got) == np.signbit(want)) | np.isnan(got) & np.isnan(want)).all())


def _close(got: Any, want: Any) -> bool:
    got, want = np.asarray(got), np.asarray(want)
    if got.shape != want.shape or got.dtype != want.dtype:
        return False
    if got.dtype.kind != "f":
        return bool((got == want).all())
    return not _differs(got, want).any()


def _differs(got: Any, want: Any) -> Any:
    with np.errstate(all="ignore"):
        same = (got == want) | np.isnan(got) & np.isnan(want)
        finite = np.abs(want[np.isfinite(want)])
        near = np.abs(got - want) <= _ROUNDING.get(want.dtype.name, 1e-2) * (finite.max() if finite.size else 0)
    return ~(same | near)


def _first_difference(got: Any, want: Any) -> str:
    got, want = np.asarray(got), np.asarray(want)
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"{got.dtype}{list(got.shape)}, the graph as written {want.dtype}{list(want.shape)}"
    with np.errstate(all="ignore"):
        bad = ~((got == want) & (np.signbit(got) == np.signbit(want)) | np.isnan(got) & np.isnan(want)) if got.dtype.kind == "f" else np.asarray(got != want)
    at = tuple(int(k) for k in np.argwhere(bad)[0])
    return f"{got[at]} at element {list(at)}, the graph as written {want[at]}"
