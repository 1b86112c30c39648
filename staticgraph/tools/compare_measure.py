"""What ``sg.compare`` measures: distances of results, time in interleaved rounds, dispatches, nodes and kernels, bytes."""

from __future__ import annotations

import threading
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import numpy as np

from .compare_modes import Mode


def distance(a: Any, b: Any) -> float:
    """0.0 for the same bits, else the largest difference in units in the last place of ``b``'s largest element; inf where shapes, dtypes or NaNs differ."""
    a, b = np.asarray(a), np.asarray(b)
    if a.shape != b.shape or a.dtype != b.dtype:
        return np.inf
    if a.tobytes() == b.tobytes():
        return 0.0
    if a.dtype.kind != "f":
        return 0.0 if np.array_equal(a, b) else np.inf
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    if not np.isfinite(a[~same]).all() or not np.isfinite(b[~same]).all():
        return np.inf
    if same.all():
        return float(np.finfo(a.dtype).tiny)             # zeros of other signs, NaNs of other bits
    wide = np.float64 if a.dtype.itemsize < 8 else np.longdouble
    largest = np.abs(b[np.isfinite(b)]).max(initial=0)
    unit = np.spacing(max(largest, np.finfo(b.dtype).tiny).astype(b.dtype))
    return float((np.abs(a[~same].astype(wide) - b[~same].astype(wide)).max()) / wide(unit))


@dataclass
class Timing:
    """Seconds per step: the median over rounds, the middle half, and the best round (what the machine can do when nothing disturbs)."""

    median: float
    low: float
    high: float
    best: float
    rounds: int


def times(modes: Sequence[Mode], seconds: float, rounds: int = 40) -> list[Timing]:
    """Modes take turns, so that a busy moment of the machine hits all. A turn is as many steps as take about 2 ms.

    Ends after ``rounds`` turns each or when ``seconds`` are over, but not before three turns each.
    """
    counts = []
    for m in modes:
        with m.inside():
            m.step()
            start = perf_counter()
            m.step()
            once = perf_counter() - start
        counts.append(max(1, min(200, int(2e-3 / max(once, 1e-7)))))
    found: list[list[float]] = [[] for _ in modes]
    end = perf_counter() + seconds
    for turn in range(max(3, rounds)):
        if turn >= 3 and perf_counter() > end:
            break
        for k, (m, count) in enumerate(zip(modes, counts)):
            step = m.step
            with m.inside():
                step()                       # caches are this mode's again
                start = perf_counter()
                for _ in range(count):
                    step()
                found[k].append((perf_counter() - start) / count)
    return [Timing(float(np.median(f)), *map(float, np.quantile(f, [0.25, 0.75])), min(f), len(f)) for f in found]


@dataclass
class Memory:
    """Bytes of one step: intermediate values and results, not arguments. ``timeline``: (part of the step that is over, bytes live)."""

    intermediates: int | None = None         # written, all together
    peak: int | None = None                  # live at once
    traffic: int | None = None               # read and written by operations or kernels
    timeline: list[tuple[float, int]] = field(default_factory=list)


@dataclass
class Counted:
    """What a define-by-run step did."""

    dispatches: int = 0
    written: int = 0
    moved: int = 0
    live: list[int] = field(default_factory=list)

    def add(self, operands: Sequence[Any], results: Any) -> None:
        """One operation."""
        out = [r for r in (results if isinstance(results, tuple) else (results,)) if isinstance(r, (np.ndarray, np.generic))]
        size = sum(r.nbytes for r in out)
        self.dispatches += 1
        if not any(isinstance(r, np.ndarray) and any(np.may_share_memory(r, a) for a in operands if isinstance(a, np.ndarray)) for r in out):
            self.written += size             # views move nothing
            self.moved += size + sum(getattr(a, "nbytes", 0) for a in operands)
        self.live.append(tracemalloc.get_traced_memory()[0])


@contextmanager
def counting() -> Iterator[Counted]:
    """Within: every operation of this thread's define-by-run mode, forwards and backwards, is counted."""
    from ..dynamic import engine
    from ..dynamic.compute import Compute
    from ..dynamic.plans import Pull
    found, me = Counted(), threading.get_ident()
    apply, call, add = Compute.apply, Pull.__call__, engine._add

    def counted_apply(self: Any, op: Any, inputs: Any, attrs: Any, control: Any = ()) -> Any:
        out = apply(self, op, inputs, attrs, control)
        if threading.get_ident() == me:
            found.add([self.array(t) for t in inputs], tuple(self.array(t) for t in out) if isinstance(out, tuple) else self.array(out))
        return out

    def counted_call(self: Any, values: list[Any]) -> Any:
        if threading.get_ident() != me:
            return call(self, values)
        values += self.consts                # as Pull.__call__, step by step
        for _, f, where, dtype in self.steps:
            ins = [values[i] for i in where]
            out = f(*ins)
            values.append(out if dtype is None else np.asarray(out, dtype))
            found.add(ins, values[-1])
        return [None if w is None else values[w] if w.__class__ is int else self.sliced(w, values, k) for k, w in enumerate(self.results)]

    def counted_add(b: Any, total: Any, ct: Any, create: bool) -> Any:
        out = add(b, total, ct, create)
        if threading.get_ident() == me and not create:
            found.add((total, ct), out)
        return out
    Compute.apply, Pull.__call__, engine._add = counted_apply, counted_call, counted_add         # type: ignore[method-assign]
    try:
        yield found
    finally:
        Compute.apply, Pull.__call__, engine._add = apply, call, add                             # type: ignore[method-assign]


@contextmanager
def traced_memory() -> Iterator[Callable[[], tuple[int, int]]]:
    """Within: what Python and NumPy allocate is noted; the function gives (bytes live now, most since the start) beyond those at the start."""
    running = tracemalloc.is_tracing()
    if not running:
        tracemalloc.start()
    base = tracemalloc.get_traced_memory()[0]
    tracemalloc.reset_peak()
    try:
        yield lambda: tuple(v - base for v in tracemalloc.get_traced_memory())       # type: ignore[return-value]
    finally:
        if not running:
            tracemalloc.stop()


def memory_of(m: Mode) -> Memory:
    """Static: from the memory plan. Dynamic: counted and noted while it runs once. NumPy and the interpreter: the most that was live."""
    if m.executable is not None:
        return _planned(m.executable)
    if m.kind == "peer" and m.name != "NumPy":
        return Memory()                      # other allocators are not seen from here
    for _ in range(2):                       # the first turn fills caches, which are not the step's
        with traced_memory() as look, counting() as found:
            base = tracemalloc.get_traced_memory()[0]
            out = m.step()
            _, peak = look()
        del out
    if m.kind != "dynamic":
        return Memory(peak=peak)
    m.dispatches = found.dispatches
    return Memory(found.written, peak, found.moved, _over_time([max(0, b - base) for b in found.live]))


def _over_time(live: Sequence[int]) -> list[tuple[float, int]]:
    """Each operation takes an equal part of the step, which ends with what the last one leaves."""
    return [(k / len(live), b) for k, b in enumerate(live)] + [(1.0, b) for b in live[-1:]]


def _planned(executable: Any) -> Memory:
    """From the memory plan: a buffer is live from its first to its last touch, a result to the end. Kernels in loops count once."""
    program = next(iter(executable.variants.values())).program
    touched = {v.buffer for k in program.kernels for v in k.writes if v.buffer.space == "out"}
    lives = [(b, b.last) for b in program.arena.buffers] + [(b, None) for b in touched]
    steps = max((b.last for b, _ in lives), default=0) + 1
    change = [0] * (steps + 1)
    for b, last in lives:
        if isinstance(b.bytes, int):
            change[b.first] += b.bytes
            change[steps if last is None else last + 1] -= b.bytes
    live = np.cumsum(change[:steps]).tolist()
    traffic = sum(v.buffer.bytes for k in program.kernels for v in (*k.reads, *k.writes) if isinstance(v.buffer.bytes, int))
    return Memory(sum(b.bytes for b, _ in lives if isinstance(b.bytes, int)), max(live), traffic, _over_time(live))


def passes_of(executable: Any, written: int) -> list[dict[str, Any]]:
    """Nodes after each pass, and the kernels that the graph would be at that point: one per operation, and fused.

    ``written`` nodes came from the function; in lowering the state, equal ones became one. The passes run here one after the other; a compile
    runs them as one sweep, to their common end, which is the last row.
    """
    from ..codegen.lower import Lowering
    from ..codegen.target import host
    from ..compile import default_pipeline, specialize
    g = specialize(executable.lowered.graph, {})
    pipeline, passes = default_pipeline(executable.config.optimize)
    context = pipeline.PassContext(executable.config.fast_math, [])
    single = {p.name: p for p in pipeline.SINGLE}
    stages = [("lower_state", g)]
    for name in ("dce", "expand", "canonicalize", "fold", "algebra", "cse", "dce"):
        stages.append((name, single[name](stages[-1][1], context)))
    stages.append(("compiled", pipeline.run(g, passes, context)))
    out: list[dict[str, Any]] = [{"pass": "as written", "nodes": written, "kernels": None, "fused": None}]
    for name, graph in stages:
        plain = single["dce"](single["expand"](graph, context), context)     # composed operations have no code of their own
        row: dict[str, Any] = {"pass": name, "nodes": len(graph)}
        for key, fuse in (("kernels", False), ("fused", True)):
            low = Lowering(host(), fuse=fuse)
            low.lower(plain.nodes, *_places(plain))
            row[key] = len(low.kernels)
        out.append(row)
    return out


def _places(graph: Any) -> tuple[dict[Any, Any], list[Any]]:
    from ..schedule.steps import Buffer
    bound = {n: Buffer("in", n.aval.size * n.aval.dtype.size, n.attr("index")) for n in graph.nodes if n.op.name == "input"}
    return bound, [(o, Buffer("out", o.aval.size * o.aval.dtype.size, k)) for k, o in enumerate(graph.outputs)]
