"""From fetches and feeds of a user's graph to an executable: prune, lower the state, optimise, schedule, generate, link.

The one importer of ``passes``. Sizes unknown while building are compiled as constants at their first value and as run-time
values from their second on.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from . import diagnose
from .config import Config, log, log_wants
from .dtypes import as_dtype
from .errors import InternalError_, InvalidArgumentError, ResourceExhaustedError
from .ir.aval import Aval, Dim, TupleAval, capacities_in, evaluate, measured_in, symbols_of, upper_bound
from .ir.evaluate import evaluate as evaluate_nodes
from .ir.graph import Graph, Node
from .ir.opdef import Control
from .ir.text import print_node
from .memory import aligned_empty, empty_result
from .ops.control import CAPACITY
from .runtime.hostcall import Calls, MoreRoom, host_function, raise_host_failure
from .runtime.state import StateStore
from .specialize import check_sizes, sizes_of_feeds, specialize

if TYPE_CHECKING:
    from .codegen.lower import Lowering
    from .codegen.program import Program


@dataclass
class PassReport:
    """What one pass did."""

    name: str
    nodes: int
    seconds: float
    text: str = ""


@dataclass
class CompileReport:
    """What a compile did: nodes and time per pass, kernels, arena, seconds per stage."""

    passes: list[PassReport] = field(default_factory=list)
    changes: list[Any] = field(default_factory=list)
    kernels: list[str] = field(default_factory=list)
    groups: int = 0
    arena_bytes: Any = 0
    seconds: dict[str, float] = field(default_factory=dict)

    def __str__(self) -> str:
        rows = [f"{p.name:14s} {p.nodes:7d} nodes {1e3 * p.seconds:9.2f} ms" for p in self.passes]
        rows.append(f"{'kernels':14s} {len(self.kernels):7d}")
        rows.append(f"{'arena':14s} {self.arena_bytes!s:>7s} bytes")
        rows += [f"{k:14s} {1e3 * v:13.2f} ms" for k, v in self.seconds.items()]
        return "\n".join(rows)


def default_pipeline(level: str) -> Any:
    """The pass list of an optimisation level."""
    # the project's only hidden own import: passes stands above this package's floors, and importing it at the top would make
    # ``import passes`` fail when it comes first (a cycle through ``staticgraph/__init__``)
    from passes import pipeline
    return pipeline, pipeline.LEVELS[level]


# ---- executables -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Input:
    """One input of an executable: ``kind`` is feed, variable or stream."""

    kind: str
    key: Any                                 # the fed node, the variable's uid, or (uid, seed, seed2)
    aval: Aval


class Executable:
    """One compiled graph: runs on feeds and a session's state. Thread safe.

    ``fetches`` are the nodes whose values a run returns, in order.
    """

    def __init__(self, fetches: Sequence[Node], feeds: Sequence[Node], config: Config, uninitialized: Iterable[Any] = ()) -> None:
        self.config = config
        self.report = CompileReport()
        start = perf_counter()
        lowered = _lower_state(fetches, feeds, frozenset(uninitialized))
        self.lowered = lowered
        self.report.seconds["lower_state"] = perf_counter() - start
        self.inputs = [Input(kind, key, node.aval) for kind, key, node in lowered.inputs]
        self.feed_index = {i.key: k for k, i in enumerate(i for i in self.inputs if i.kind == "feed")}
        self.feed_avals = [i.aval for i in self.inputs if i.kind == "feed"]
        self.n_fetches = len(fetches)
        self.versions = lowered.versions
        self.missing = lowered.missing       # uids of variables read without a value
        self.symbols = sorted({s for a in self.feed_avals for d in a.shape for s in symbols_of(d)})
        self.capacities = dict.fromkeys(sorted(_capacities(lowered.graph.nodes)), 64)    # rows of stacks and the like, grown while running
        self.variants: dict[tuple[tuple[str, int], ...], Variant] = {}
        self.dynamic: set[str] = set()
        self.first: dict[str, int] = {}
        self.checked: set[tuple[int, ...]] = set()
        self.lock = threading.Lock()
        self.segments = 1                    # of the backward pass's plan, where Config.max_bytes asks for one
        self.asked = fetches, feeds, tuple(uninitialized)

    @cached_property
    def as_written(self) -> Executable:
        """The same without optimisation, for ``Config.verify``."""
        fetches, feeds, uninitialized = self.asked
        return Executable(fetches, feeds, self.config.with_(optimize="O0", verify=False, nan_check=False), uninitialized)

    def variant(self, shapes: Sequence[tuple[int, ...]]) -> tuple[Variant, dict[str, int]]:
        """The compiled form for feeds of these shapes, compiled now if there is none."""
        if not self.symbols:
            found = self.variants.get(())
            if found is None:
                with self.lock:
                    found = self.variants.get(()) or self._compile({})
            return found, {}
        values = sizes_of_feeds(self.feed_avals, shapes)
        with self.lock:
            for s in self.symbols:
                if self.first.setdefault(s, values[s]) != values[s]:
                    self.dynamic.add(s)
            fixed = {s: self.first[s] for s in self.symbols if s not in self.dynamic}
            key = tuple(fixed.items())
            found = self.variants.get(key)
            point = tuple(values[s] for s in self.symbols)
            if found is None:
                found = self._compile(fixed)
            if self.dynamic and point not in self.checked:
                check_sizes(self.lowered.graph, values)
                self.checked.add(point)
            return found, values

    def _compile(self, fixed: dict[str, int]) -> Variant:
        key = tuple(fixed.items())
        found = self.variants[key] = Variant(self, fixed)
        return found

    def interpret(self, feeds: Sequence[Any], store: StateStore) -> list[np.ndarray[Any, Any]]:
        """The unoptimised graph through the NumPy meaning of its ops, on the same state; nothing is changed."""
        return self._replayed(feeds, lambda kind, key: _current(store, kind, key), lambda stages, env: evaluate_nodes(
            stages[0][1].outputs, env(stages[0][1])))[:self.n_fetches]

    def _replayed(self, feeds: Sequence[Any], current: Any, use: Callable[..., Any], variant: Variant | None = None) -> Any:
        """``use(stages, env)`` on the graph as written (and, of a variant, after each of its passes) with numbers for all sizes.

        Called again with more room where a loop's stacks are too small.
        """
        values = {**sizes_of_feeds(self.feed_avals, [np.shape(f) for f in feeds]), **self.capacities}
        while True:
            stages = [("as written", specialize(self.lowered.graph, values))]
            stages += [(name, specialize(g, values)) for name, g in (variant.stages() if variant else ())]
            try:
                return use(stages, lambda g: diagnose.environment(g, self.inputs, feeds, current))
            except InvalidArgumentError as error:
                if CAPACITY not in str(error):
                    raise
                values.update({k: values[k] * 4 for k in self.capacities})

    def run(self, feeds: Sequence[np.ndarray[Any, Any]], store: StateStore, calls: Calls | None = None) -> list[np.ndarray[Any, Any]]:
        """Values of the fetches; ``feeds`` are C-contiguous arrays of the feeds' dtypes, in the order of ``feed_avals``.

        ``calls`` are what Python functions gave in an attempt at the same run.
        """
        variant, values = self.variant([f.shape for f in feeds])
        calls = calls or Calls()
        while True:
            try:
                return variant.run(feeds, {**values, **self.capacities} if self.capacities else values, store, calls)
            except MoreRoom as more:
                self.capacities = {k: max(more.needs[k], 2 * v) if k in more.needs else v for k, v in self.capacities.items()}
            except _StackFull as full:
                self.capacities.update({k: self.capacities[k] * 4 for k in full.symbols})
                if max(self.capacities.values()) > 1 << 40:
                    raise InvalidArgumentError(None, None, "a loop ran too many times, or a size that the run found is too large") from full
            except _NotFinite as found:
                number = next(k for k, o in enumerate(variant.graph.outputs) if o is found.guard)
                self._replayed(feeds, lambda kind, key: _current(store, kind, key),
                               lambda stages, env, k=number: diagnose.raise_not_finite(stages, env, k), variant)


def _is_input(n: Node) -> bool:
    return isinstance(n.op.lower, Control) and n.op.lower.kind == "input"


def _current(store: StateStore, kind: str, key: Any) -> Any:
    if kind == "variable":
        return store.value(("variable", key))
    return stream_state(store, key)


def stream_state(store: StateStore, key: Any) -> np.ndarray[Any, Any]:
    """The state (seed, seed2, offset) of a random stream, made at its first use; seeds (0, 0) are drawn."""
    uid, seed, seed2 = key
    slot = store.slot(("stream", uid))
    with store.changed, store.inside:
        if slot.array is None:
            state = aligned_empty((3,), np.int64)
            if seed == 0 and seed2 == 0:
                drawn = np.random.SeedSequence().generate_state(2, np.uint64)
                state[:2] = drawn.view(np.int64)
            else:
                state[:2] = seed, seed2
            state[2] = 0
            slot.array = state
        return slot.array.copy()


def _lower_state(fetches: Sequence[Node], feeds: Sequence[Node], uninitialized: frozenset[Any]) -> Any:
    pipeline, _ = default_pipeline("O0")
    return pipeline.lower_state(fetches, feeds, uninitialized)


class Variant:
    """An executable compiled for some sizes as constants and the others as run-time values."""

    def __init__(self, owner: Executable, fixed: Mapping[str, int]) -> None:
        from .codegen.target import host
        from .runtime.executable import NativeProgram
        self.owner, self.fixed = owner, dict(fixed)
        config, report = owner.config, owner.report
        report.passes = []
        clock = perf_counter()

        def lap(stage: str) -> None:
            nonlocal clock
            now = perf_counter()
            report.seconds[stage] = now - clock
            clock = now
        g = specialize(owner.lowered.graph, fixed)
        report.passes.append(PassReport("as written", len(g), 0.0, str(g) if log_wants("graph") else ""))
        log("graph", "before passes:\n" + str(g)) if log_wants("graph") else None
        pipeline, passes = default_pipeline(config.optimize)
        context = pipeline.PassContext(config.fast_math, report.changes)
        g = pipeline.run(g, passes, context, lambda name, new, s: report.passes.append(PassReport(name, len(new), s)),
                         verifying=verifying())
        log("graph", "after passes:\n" + str(g)) if log_wants("graph") else None
        if config.verify:
            diagnose.refuse_host_operations(g)
        if config.nan_check:
            diagnose.with_finite_checks(g)
        lap("passes")
        self.target = host()
        self.symbols = [s for s in owner.symbols if s not in fixed] + list(owner.capacities)
        self.graph, low, self.program = self._fitted(g)
        lap("schedule and emit")
        report.kernels = [k.title for k in low.kernels]
        report.groups = len(low.kernels)
        report.arena_bytes = self.program.workspace
        if log_wants("memory"):
            log("memory", self.program.arena.chart())
        if log_wants("kernels"):
            log("kernels", "\n".join(f"{k.title}  tasks={k.tasks}" for k in low.kernels))
        self.native = NativeProgram(self.program, self.target, config)
        lap("machine code")
        self.has_error = bool(self.program.checks)

    def _fitted(self, g: Graph) -> tuple[Graph, Lowering, Program]:
        """Schedule ``g``; where ``max_bytes`` asks for less memory, what is kept for the backward pass is recomputed.

        With sizes that only a run knows, as at the first sizes. ResourceExhaustedError where no plan fits.
        """
        budget, owner = self.owner.config.max_bytes, self.owner
        low, program = self._schedule(g)
        if budget is None or (isinstance(program.workspace, int) and program.workspace <= budget):
            return g, low, program
        pipeline, _ = default_pipeline("O0")
        least = program.workspace
        for segments in [owner.segments] if isinstance(least, Dim) else pipeline.rematerialize_candidates(g):
            if segments < 2:
                break
            new = pipeline.rematerialize(g, segments)
            low, program = self._schedule(new)
            if isinstance(program.workspace, Dim) or program.workspace <= budget:
                owner.segments = segments
                self.owner.report.passes.append(PassReport("rematerialize", len(new), 0.0))
                return new, low, program
            least = min(least, program.workspace)
        if isinstance(least, Dim):
            return g, low, program
        raise ResourceExhaustedError(None, None, f"Config.max_bytes is {budget:,}, but no plan needs less than {least:,} bytes: "
                                                 "the values that one operation reads and writes must be there at once")

    def _schedule(self, g: Graph) -> tuple[Lowering, Program]:
        """Kernels, buffers and words of a graph; sets what a run has to know about inputs, results and state."""
        from .codegen.lower import Lowering
        from .codegen.program import assemble
        from .schedule.steps import Buffer
        owner = self.owner
        low = Lowering(self.target, fuse=owner.config.optimize == "O2")
        bound: dict[Node, Any] = {}
        self.states: list[Any] = []          # keys of the store, by state index
        slots: dict[Any, int] = {}
        feed_number = {k: j for j, k in enumerate(k for k, i in enumerate(owner.inputs) if i.kind == "feed")}
        for n in g.nodes:
            if not _is_input(n):
                continue
            k = n.attr("index")
            entry = owner.inputs[k]
            size = n.aval.size * n.aval.dtype.size
            if entry.kind == "feed":
                bound[n] = Buffer("in", size, feed_number[k], name=f"feed {k}")
            else:
                key = _store_key(entry)
                bound[n] = Buffer("state", size, self._slot(slots, key), name=f"{key}")
        reads = set(slots)
        state_buffers = {b.index: b for b in bound.values() if b.space == "state"}
        targets: list[tuple[Node, Any]] = []
        self.out_avals = [o.aval for o in g.outputs[:owner.n_fetches]]
        bounds = {s: n.attr("bound") for n in g.nodes if "measure" in n.op.traits for s in measured_in(n.attr("size"))}
        # results whose size the run finds get memory for the most there can be
        self.room = {k: upper_bound(a.size, bounds) for k, a in enumerate(self.out_avals) if measured_in(a)}
        for k, o in enumerate(g.outputs[:owner.n_fetches]):
            targets.append((o, Buffer("out", upper_bound(o.aval.size * o.aval.dtype.size, bounds), k, name=f"fetch {k}")))
        self.writes: list[tuple[Any, tuple[int, ...], Any]] = []
        for kind, uid, index in owner.versions:
            key = (kind, uid)
            o = g.outputs[index]
            at = self._slot(slots, key)
            buffer = state_buffers.get(at) or Buffer("state", o.aval.size * o.aval.dtype.size, at, name=f"{key}")
            state_buffers[at] = buffer
            targets.append((o, buffer))
            self.writes.append((key, o.aval, o.aval.dtype.np))
        self.reads = [k for k in slots if k in reads]
        self.states = list(slots)
        low.lower(g.nodes, bound, targets)
        return low, assemble(low, self.symbols)

    @staticmethod
    def _slot(slots: dict[Any, int], key: Any) -> int:
        return slots.setdefault(key, len(slots))

    def run(self, feeds: Sequence[np.ndarray[Any, Any]], values: Mapping[str, int], store: StateStore, calls: Calls) -> list[np.ndarray[Any, Any]]:
        """One attempt at a run: take the state, call the program, commit or leave everything as it was."""
        outs = [empty_result((evaluate(self.room[k], values),) if k in self.room else tuple(evaluate(d, values) for d in a.shape), a.dtype.np)
                for k, a in enumerate(self.out_avals)]
        for entry in self.owner.inputs:
            if entry.kind == "stream":
                stream_state(store, entry.key)
        writes = [(key, tuple(evaluate(d, values) for d in aval.shape), dtype) for key, aval, dtype in self.writes]
        lease = store.acquire(self.reads, writes)
        done = False
        entry = {k: a.copy() for k, a in lease.arrays.items()} if self.owner.config.verify else {}
        try:
            failures: list[Any] = []
            host = host_function(self.program.hosts, values, failures, calls) if self.program.hosts else None
            found: dict[str, int] = {}
            status, error = self.native.run(feeds, outs, [lease.arrays[k] for k in self.states], [values[s] for s in self.symbols], host, found)
            if failures and isinstance(failures[0][1], MoreRoom):
                raise failures[0][1]
            if failures:
                raise_host_failure(*failures[0])
            if status:
                self._fail(status, error, values)
            if entry:
                self._verify(feeds, outs, found, values, entry, lease)
            done = True
        finally:
            store.release(lease, commit=done)
        for k in self.room:
            outs[k] = _trimmed(outs[k], tuple(evaluate(d, {**values, **found}) for d in self.out_avals[k].shape))
        return outs

    def stages(self) -> list[tuple[str, Graph]]:
        """The graph after each pass, for a look at what went wrong."""
        pipeline, passes = default_pipeline(self.owner.config.optimize)
        out: list[tuple[str, Graph]] = []
        pipeline.run(specialize(self.owner.lowered.graph, self.fixed), passes, pipeline.PassContext(self.owner.config.fast_math),
                     lambda name, g, s: out.append((name, g)))
        return out

    def _verify(self, feeds: Sequence[Any], outs: Sequence[Any], found: Mapping[str, int], values: Mapping[str, int],
                entry: Mapping[Any, Any], lease: Any) -> None:
        got = [_trimmed(o, tuple(evaluate(d, {**values, **found}) for d in self.out_avals[k].shape)) if k in self.room else o
               for k, o in enumerate(outs)]
        keys = [(kind, uid) for kind, uid, _ in self.owner.versions]
        got += [lease.arrays[k] for k in keys]
        try:
            plain, store = self.owner.as_written, StateStore()
            for key, before in entry.items():
                store.load(key, before, as_dtype(before.dtype))
            want = [*plain.run(feeds, store), *(store.value(k) for k in keys)]
            self.owner._replayed(feeds, lambda kind, key: entry[kind, key if kind == "variable" else key[0]],
                                 lambda stages, env: diagnose.raise_where_different(stages, env, got, want), self)
        except BaseException:
            for key, before in entry.items():
                lease.arrays[key][...] = before
            raise

    def _fail(self, status: int, error: Any, values: Mapping[str, int]) -> None:
        if error is not None and self.program.checks[error.check].attr("message") == CAPACITY:
            raise _StackFull(symbols_of(self.program.checks[error.check].attr("limit")))
        if error is not None and self.program.checks[error.check].attr("message") == diagnose.NOT_FINITE:
            raise _NotFinite(self.program.checks[error.check])
        from .runtime.report import raise_status
        raise_status(self, status, error, values)


def _trimmed(a: np.ndarray[Any, Any], shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """The first elements of a flat array under a shape, without the memory of the others."""
    size = int(np.prod(shape))
    return a.reshape(shape) if size == a.size else a[:size].copy().reshape(shape)


class _StackFull(Exception):
    """Stacks or buffers are too small: the run, which has changed nothing, starts again with larger ones. ``symbols``: their capacities."""

    def __init__(self, symbols: Iterable[str]) -> None:
        self.symbols = symbols


class _NotFinite(Exception):
    """A result or a next value is not finite: the run, which has changed nothing, is looked into."""

    def __init__(self, guard: Node) -> None:
        self.guard = guard


def _capacities(nodes: Iterable[Node]) -> set[str]:
    """Symbols that stand for the rows of stacks and other room that a run makes larger."""
    out: set[str] = set()
    for n in nodes:
        avals = n.aval.elements if isinstance(n.aval, TupleAval) else (n.aval,)
        out |= {s for a in avals for d in (*a.shape, n.attr("bound")) for s in capacities_in(d)}
        for r in n.regions:
            out |= _capacities(r.nodes)
    return out


def _store_key(entry: Input) -> tuple[str, Any]:
    return (entry.kind, entry.key if entry.kind == "variable" else entry.key[0])


def verifying() -> bool:
    """Whether ``SG_VERIFY`` asks for the verifier after each pass."""
    import os
    return os.environ.get("SG_VERIFY", "") not in ("", "0")


def compile_graph(fetches: Sequence[Node], feeds: Sequence[Node], config: Config | None = None,
                  uninitialized: Iterable[Any] = ()) -> Executable:
    """An executable that gives ``fetches`` for values of ``feeds`` (placeholders or any other nodes).

    ``uninitialized`` are uids of variables without a value; those that would be read are in ``Executable.missing``.
    """
    return Executable(fetches, feeds, config or Config(), uninitialized)


__all__ = ["CompileReport", "Executable", "InternalError_", "Variant", "check_sizes", "compile_graph", "print_node", "specialize"]
