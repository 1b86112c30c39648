"""Our own modes of ``sg.compare``, each as a ``step``: values of a function and its gradients, from arrays.

Every mode is made anew for a comparison; what a user would do once (convert arguments, trace, compile) is done before ``step`` and counts as the
first call. ``compare_peers`` makes the modes of other libraries.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

import numpy as np

from .. import source
from ..config import Config
from ..ir import walk
from ..ir.builder import to_array
from ..surface import nest
from .translate import NoCounterpart


@dataclass
class Problem:
    """A function, its arguments as arrays, and by which of their leaves it is differentiated."""

    fn: Callable[..., Any]
    args: tuple[Any, ...]                    # nested arrays
    leaves: list[np.ndarray[Any, Any]]
    moving: list[int]                        # leaves with a gradient
    threads: int

    @classmethod
    def of(cls, fn: Callable[..., Any], args: tuple[Any, ...], argnums: Any, threads: int) -> Problem:
        """TypeError for arguments that are not numeric, or that ``argnums`` names although they have no floats."""
        leaves = []
        for a in nest.flatten(args):
            array = np.asarray(a) if isinstance(a, (np.ndarray, np.generic)) else to_array(a)
            if array.dtype.kind not in "fiub":
                raise TypeError(f"compare needs arrays and numbers as arguments, got {a!r}")
            leaves.append(np.ascontiguousarray(array).reshape(array.shape))
        given = argnums is not None
        if argnums is None:
            first_only = bool(args) and not nest.is_leaf(args[0])
            argnums = (0,) if first_only else range(len(args))
        chosen = {int(k) % len(args) for k in (argnums if isinstance(argnums, (tuple, list, range)) else (argnums,))} if args else set()
        moving, at = [], 0
        for k, a in enumerate(args):
            for _ in nest.flatten(a):
                if k in chosen and leaves[at].dtype.kind == "f":
                    moving.append(at)
                at += 1
            if given and k in chosen and not any(leaves[j].dtype.kind == "f" for j in range(at - len(nest.flatten(a)), at)):
                raise TypeError(f"argnums: argument {k} has no floats, so there is no gradient by it")
        return cls(fn, tuple(nest.pack(args, leaves)), leaves, moving, threads)

    def pack(self, leaves: Sequence[Any]) -> list[Any]:
        """Leaves as arguments."""
        return list(nest.pack(list(self.args), leaves))


@dataclass
class Mode:
    """One way to run the problem. ``step()`` gives something that ``read`` turns into (values, gradients) as arrays."""

    name: str
    kind: str                                # dynamic, static or peer
    step: Callable[[], Any]
    read: Callable[[Any], tuple[list[Any], list[Any]]]
    first: float = 0.0                       # seconds from the function to the first result
    dispatches: int | None = None            # operations that Python starts in a step
    executable: Any = None
    note: str = ""
    written: int = 0                         # nodes of the graph as the function wrote it
    code: str = ""                           # a peer's translation
    around: Callable[[], Any] | None = None  # a context in which it runs
    imported: float | None = None            # seconds of the library's import and start, where they fell into this comparison
    threads: str = ""                        # what it uses, where that is not what was asked for

    def inside(self) -> Any:
        """The context in which its steps run."""
        return self.around() if self.around is not None else nullcontext()


@dataclass
class Failure:
    """A mode that could not run: why, and the user's line."""

    name: str
    kind: str
    reason: str
    line: str = ""
    missing: bool = False                    # not installed, or without a counterpart: no fault of the function


def failure(name: str, kind: str, error: BaseException) -> Failure:
    """Why, in one line, and where in the user's code."""
    site = getattr(error, "site", None)
    line = site.describe() if site is not None and getattr(site, "frames", ()) else _user_line(error)
    return Failure(name, kind, in_a_line(error), line, isinstance(error, NoCounterpart))


def in_a_line(error: BaseException) -> str:
    """The class and the line that says what is wrong: the first, or the last where the first only announces (TensorFlow's "Graph execution error:")."""
    lines = [s.strip() for s in str(error).splitlines() if s.strip() and not s.strip().startswith("[[")] or [""]
    kind = f"{type(error).__name__}: "
    return kind + lines[-1 if lines[0].endswith(":") else 0].removeprefix(kind)


def _user_line(error: BaseException) -> str:
    import linecache
    import os
    found, tb = "", error.__traceback__
    while tb is not None:
        code = tb.tb_frame.f_code
        foreign = "site-packages" in code.co_filename or "__autograph_generated_file" in code.co_filename
        if not foreign and not source.is_own_file(code.co_filename) and os.path.exists(code.co_filename):
            found = f"{os.path.basename(code.co_filename)}:{tb.tb_lineno}: {linecache.getline(code.co_filename, tb.tb_lineno).strip()}"
        tb = tb.tb_next
    return found


def numeric(out: Any) -> list[Any]:
    """The leaves of a result. TypeError for one that is no tensor or number."""
    leaves = nest.flatten(out)
    if not leaves:
        raise TypeError(f"the function gives {out!r}: compare needs tensors, arrays or numbers")
    for leaf in leaves:
        numbers = isinstance(leaf, (int, float, np.ndarray, np.generic)) or hasattr(leaf, "dtype") or hasattr(leaf, "_as_tensor")
        if not numbers:
            raise TypeError(f"the function gives {leaf!r} of type {type(leaf).__name__}: compare needs tensors, arrays or numbers")
    return leaves


def has_floats(p: Problem) -> bool:
    """Whether a result is a float, so that there is a gradient (True where only running the function would tell)."""
    try:
        return any(v.dtype.is_floating for v in trace(replace(p, moving=[])).values)
    except Exception:
        return True                          # the modes say what is wrong


# ---- our own modes ---------------------------------------------------------------------------------------------------------------


def dynamic(p: Problem) -> Mode:
    """Define-by-run: Python runs the function, each operation computes at once."""
    from .. import dynamic as dy
    from .. import reduce_sum
    start = perf_counter()
    tensors = [dy.tensor(a, requires_grad=k in p.moving) for k, a in enumerate(p.leaves)]
    args = p.pack(tensors)
    wanted = [tensors[k] for k in p.moving]

    def step() -> Any:
        for t in wanted:
            t.grad = None
        out = numeric(p.fn(*args))
        if wanted:
            total = None
            for y in out:
                if isinstance(y, dy.Tensor) and y.requires_grad:
                    part = reduce_sum(y) if y.ndim else y
                    total = part if total is None else total + part
            if total is not None:            # else no result depends on the arguments: gradients are zero
                total.backward()
        return out

    def read(out: Any) -> tuple[list[Any], list[Any]]:
        values = [y.detach().numpy() if isinstance(y, dy.Tensor) else np.asarray(y) for y in out]
        return values, [np.zeros_like(p.leaves[k]) if t.grad is None else t.grad.numpy() for k, t in zip(p.moving, wanted)]
    step()
    return Mode("dynamic", "dynamic", step, read, perf_counter() - start, note="define-by-run: staticgraph.dynamic")


@dataclass
class Trace:
    """The problem as a TF1-style graph: placeholders of the arguments' sizes, values and gradients."""

    ledger: Any
    feeds: list[Any]
    values: list[Any]
    gradients: list[Any]


def trace(p: Problem) -> Trace:
    """Call the function with symbols and append the gradients of the sum of its float results."""
    import staticgraph as sg

    from ..surface.funnel import convert
    ledger = sg.Graph()
    with ledger.as_default():
        feeds = [sg.placeholder(a.dtype, list(a.shape), name="arg") for a in p.leaves]
        out = p.fn(*p.pack(feeds))
        values = [convert(y) for y in numeric(out)]
        gradients: list[Any] = []
        if p.moving:
            got = sg.gradients([v for v in values if v.dtype.is_floating], [feeds[k] for k in p.moving])
            gradients = [sg.zeros_like(feeds[k]) if g is None else convert(g) for k, g in zip(p.moving, got)]
    return Trace(ledger, feeds, values, gradients)


def compiled(p: Problem, level: str) -> Mode:
    """Define-then-run: traced, compiled at ``level`` and called through ``Session.make_callable``."""
    import staticgraph as sg
    config = Config(optimize=level, threads=p.threads, cache=False)          # a comparison pays for its compile

    gc.collect()
    start = perf_counter()
    t = trace(p)
    session = sg.Session(graph=t.ledger, config=config)
    call = session.make_callable([*t.values, *t.gradients], t.feeds)
    call(*p.leaves)
    first = perf_counter() - start
    count = len(p.moving)
    written = len(walk.ancestors([v.node for v in (*t.values, *t.gradients)]))

    def read(out: Any) -> tuple[list[Any], list[Any]]:
        return (list(out[:-count]), list(out[-count:])) if count else (list(out), [])
    return Mode(f"static {level}", "static", lambda: call(*p.leaves), read, first, 1, session.last_executable,
                {"O0": "compiled as written", "O1": "compiled after the passes", "O2": "compiled, operations fused"}.get(level, "compiled"), written)


def interpreted(p: Problem) -> Mode:
    """The traced graph without passes, walked in Python: each node runs its NumPy meaning."""
    from ..compile import compile_graph
    from ..runtime.state import StateStore
    start = perf_counter()
    t = trace(p)
    fetches = [v.node for v in (*t.values, *t.gradients)]
    executable = compile_graph(fetches, [f.node for f in t.feeds], Config(optimize="O0", threads=p.threads, cache=False))
    by_node = dict(zip((f.node for f in t.feeds), p.leaves))
    feeds, store = [by_node[i.key] for i in executable.inputs if i.kind == "feed"], StateStore()
    count = len(t.values)

    def step() -> Any:
        return executable.interpret(feeds, store)
    step()
    first = perf_counter() - start
    nodes = sum(bool(n.inputs) for n in walk.ancestors(fetches))
    return Mode("static interpreted", "static", step, lambda out: (out[:count], out[count:]), first, nodes, None, "the graph without passes, node by node in NumPy")


def own_modes(p: Problem, levels: Sequence[str]) -> list[Mode | Failure]:
    """Dynamic, interpreted and each level; a mode that fails says why."""
    made: dict[str, tuple[str, Callable[[], Mode]]] = {"dynamic": ("dynamic", lambda: dynamic(p)), "static interpreted": ("static", lambda: interpreted(p))}
    made.update({f"static {level}": ("static", lambda level=level: compiled(p, level)) for level in levels})             # type: ignore[misc]
    out: dict[str, Mode | Failure] = {}
    firsts: dict[str, float] = {}
    for name, (kind, make) in made.items():
        try:
            mode = make()
            mode.read(mode.step())
        except Exception as error:
            out[name] = failure(name, kind, error)
            continue
        if mode.executable is None or name == f"static {levels[-1]}":
            out[name] = mode
        else:
            firsts[name] = mode.first
            del mode                         # gives its kernels back, so that the next level's first call compiles its own
            gc.collect()
    for name, first in firsts.items():
        out[name] = again = made[name][1]()
        again.first = first
    return [out[name] for name in made]
