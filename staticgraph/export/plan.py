"""What is exported: entries with their inputs and outputs, the state, and the program of each entry on each target.

An entry is one C function. Its graph is made pure, optimised once (passes do not know targets) and scheduled per target. Frozen variables stay
inputs of the graph and are bound to constant memory only then: the program is the session's word by word, so the bits are its too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..codegen.lower import Lowering
from ..codegen.program import Program, assemble
from ..codegen.target import Target
from ..compile import Executable, default_pipeline, stream_state
from ..config import Config
from ..diagnose import with_finite_checks
from ..dtypes import int64
from ..errors import FailedPreconditionError, GraphError
from ..ir.aval import Aval, Dim, capacities_in, measured_in, upper_bound
from ..ir.graph import Graph, Node
from ..ir.opdef import Control, Host
from ..ops.control import CAPACITY
from ..schedule.steps import Buffer
from ..source import raise_at
from ..specialize import specialize
from .names import mangled

ALIGN = 64


@dataclass
class Field:
    """One array of an entry: a name in Python and in C, its shape and dtype, the node that it feeds or fetches."""

    name: str
    c: str
    aval: Aval
    node: Node


@dataclass
class Variable:
    """One variable or random stream of the state: its value now, and where it lives in the caller's state."""

    key: tuple[str, Any]
    name: str
    c: str
    value: np.ndarray[Any, Any]
    offset: int = 0

    @property
    def room(self) -> int:
        """Its bytes with padding to whole cache lines: kernels may read and write whole vectors."""
        return (self.value.nbytes + ALIGN - 1) // ALIGN * ALIGN


@dataclass
class Entry:
    """One C function ``NAME_name``."""

    name: str
    inputs: list[Field]
    outputs: list[Field]
    writes: bool = False                     # whether it changes the state
    symbols: list[str] = field(default_factory=list)     # sizes that the caller gives
    equal: list[tuple[Any, Any]] = field(default_factory=list)       # sizes that must agree, checked at entry
    baked: list[Node] = field(default_factory=list)      # placeholders that keep their default value
    found: list[str] = field(default_factory=list)       # measured sizes of outputs; the last outputs are their values
    bounds: dict[str, Any] = field(default_factory=dict)             # the most that measured sizes can be
    programs: list[Program] = field(default_factory=list)            # one per target
    checks: list[Node] = field(default_factory=list)
    first_message: int = 0                   # number of the message of check 0


class Store:
    """The values that the export takes from the session, by state key, in the order of their first use."""

    def __init__(self, session: Any, frozen: bool) -> None:
        self.session, self.frozen = session, frozen
        self.variables: dict[tuple[str, Any], Variable] = {}

    def variable(self, kind: str, key: Any, node: Node) -> Variable:
        """The variable or stream of an executable's input or version."""
        uid = key[0] if isinstance(key, tuple) else key
        found = self.variables.get((kind, uid))
        if found is None:
            store = self.session._store
            if kind == "stream":
                value, name = stream_state(store, key), self._stream_name(uid, node)
            else:
                variable = self.session.graph.variables[uid]
                name = variable.op.name
                value = store.value((kind, uid))
                if value is None:
                    raise_at(variable.site, FailedPreconditionError(None, variable.op, f"export: the variable {name} has no value in the session: "
                                                                    "run its initializer before the export"))
            found = self.variables[kind, uid] = Variable((kind, uid), name, "", value)
        return found

    def _stream_name(self, uid: Any, node: Node) -> str:
        for op in self.session.graph.operations.values():
            if op.site is not None and op.site.frames == node.site.frames:
                return f"{op.name}/stream"
        return f"stream{uid}"

    def place(self, start: int) -> int:
        """Offsets from ``start`` on; returns the end."""
        for v in self.variables.values():
            v.offset = start
            start += v.room
        return start


# ---- one entry -----------------------------------------------------------------------------------------------------------------


def lowered(fetches: Sequence[Node], feeds: Sequence[Node], config: Config) -> Executable:
    """The pure graph of an entry, checked for what cannot leave Python."""
    exe = Executable(fetches, feeds, config)
    refuse_host(exe.lowered.graph.nodes)
    return exe


def refuse_host(nodes: Iterable[Node]) -> None:
    """GraphError at the user's line for an operation that needs Python."""
    for n in nodes:
        if isinstance(n.op.lower, Host):
            raise_at(n.site, GraphError(f"export: operation {n.op.name!r} ({n.site.short()}) runs in Python, which an exported object does not have. "
                                        "Leave it out of the exported outputs, or feed its result as an input"))
        for r in n.regions:
            refuse_host(r.nodes)


def program_for(entry: Entry, graph: Graph, exe: Executable, versions: Sequence[Any], store: Store, target: Target, config: Config) -> Program:
    """The program of an optimised graph on one target. ``versions`` are (kind, uid, output index) of the state's next values."""
    low = Lowering(target, fuse=config.optimize == "O2")
    low.checks = {n: k for k, n in enumerate(entry.checks)}                  # the same numbers on every target
    order = {key: k for k, key in enumerate(store.variables)}
    numbers = {f.node: k for k, f in enumerate(entry.inputs)}
    bound: dict[Node, Buffer] = {}
    constants: list[tuple[Buffer, int]] = []
    states: dict[int, Buffer] = {}
    for n in graph.nodes:
        if not (isinstance(n.op.lower, Control) and n.op.lower.kind == "input"):
            continue
        kind, key, _ = exe.lowered.inputs[n.attr("index")]
        size = n.aval.size * n.aval.dtype.size
        at = numbers.get(key, -1) if kind == "feed" else order[kind, key[0] if kind == "stream" else key]
        if kind == "feed" and at >= 0:
            bound[n] = Buffer("in", size, at, name=entry.inputs[at].name)
        elif kind == "feed" or store.frozen:
            bound[n] = Buffer("const", size, name=str(key))
            constants.append((bound[n], BAKED + entry.baked.index(key) if kind == "feed" else FROZEN + at))
        else:
            bound[n] = states[at] = Buffer("state", size, at, name=str(key))
    targets = [(o, Buffer("out", upper_bound(o.aval.size * o.aval.dtype.size, entry.bounds), k, name=f"fetch {k}"))
               for k, o in enumerate(graph.outputs[:len(entry.outputs) - len(entry.found)])]
    for kind, uid, index in versions:
        at, o = order[kind, uid], graph.outputs[index]
        targets.append((o, states.get(at) or Buffer("state", o.aval.size * o.aval.dtype.size, at, name=str(uid))))
    low.lower(graph.nodes, bound, targets)
    for buffer, at in constants:             # beside the graph's own, which are numbered from 0
        buffer.index = at
    program = assemble(low, entry.symbols)
    entry.checks = list(low.checks)
    return program


BAKED = 1 << 20                              # const indices from here on are default values of placeholders, in the entry's order
FROZEN = 1 << 21                             # const indices from here on are frozen variables, in the store's order


def optimised(graph: Graph, values: Mapping[str, Any], config: Config) -> Graph:
    """The graph with sizes put in, after the passes; with checks for NaN and infinities where the session has them (``Config.nan_check``)."""
    pipeline, passes = default_pipeline(config.optimize)
    g: Graph = pipeline.run(specialize(graph, values), passes, pipeline.PassContext(config.fast_math, []))
    if config.nan_check:
        with_finite_checks(g)
    return g


def refuse_unbounded(nodes: Iterable[Node]) -> None:
    """GraphError for a loop with a gradient whose number of iterations has no bound: its stacks have no size."""
    for n in nodes:
        sizes = [d for a in (n.aval.elements if hasattr(n.aval, "elements") else (n.aval,)) for d in (*a.shape, n.attr("bound"))]
        if any(capacities_in(d) for d in sizes if isinstance(d, Dim)):
            raise_at(n.site, GraphError(f"export: a loop with a gradient ({n.site.short()}) keeps one row per iteration, and nothing says how many there "
                                        "can be: give while_loop a maximum_iterations"))
        for r in n.regions:
            refuse_unbounded(r.nodes)


def measured_outputs(entry: Entry, graph: Graph) -> None:
    """Outputs whose size the run finds: their room is the most there can be, and the sizes become outputs too."""
    entry.bounds = {s: n.attr("bound") for n in graph.nodes if "measure" in n.op.traits for s in measured_in(n.attr("size"))}
    for f in list(entry.outputs):
        for axis, d in enumerate(f.aval.shape):
            for s in sorted(measured_in(d)):
                if s not in entry.found:
                    entry.found.append(s)
                    name = f"{f.name}_{axis}"
                    entry.outputs.append(Field(name, mangled(name), Aval((), int64), f.node))


__all__ = ["ALIGN", "CAPACITY", "BAKED", "FROZEN", "Entry", "Field", "Store", "Variable", "lowered", "measured_outputs", "optimised", "program_for",
           "refuse_unbounded"]
