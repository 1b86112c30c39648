"""``sg.compare``: one function define-by-run, as a graph at each level, and in other libraries: equality, time, dispatches, nodes, memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import source
from ..config import LEVELS
from .blas import blas_threads
from .compare_measure import Memory, Timing, distance, memory_of, passes_of, times
from .compare_modes import Failure, Mode, Problem, has_floats, own_modes
from .compare_peers import peer_modes
from .compare_report import Report, Row
from .compare_report import seconds as seconds_of

PASSES = 5000                                # nodes up to which passes are run one by one
TOLERANCE = 256.0                            # in units of the largest element's last place: what other orders of summation give


def compare(fn: Callable[..., Any], *args: Any, argnums: Any = None, numpy: Any = None, torch: Any = None, jax: Any = None, tensorflow: Any = None,
            levels: Sequence[str] = LEVELS, seconds: float = 3.0, tolerance: float = TOLERANCE, threads: int = 1) -> Report:
    """Run ``fn(*args)`` and its gradients in every mode and compare.

    ``fn`` is written with ``sg`` functions and operators and gives a number, a tensor or nested ones; the gradient is that of the sum of its float
    results. ``args`` are arrays or nested arrays. ``argnums`` says by which arguments; by default the first, if it is a dict, list or tuple
    (parameters), else all floats.

    Modes: ``dynamic``; ``static interpreted`` (no passes, NumPy); ``static O0``, ``O1``, ``O2`` (those in ``levels``); NumPy, PyTorch, JAX and TensorFlow where
    installed, by a translation of the traced graph. ``numpy=``, ``torch=``, ``jax=``, ``tensorflow=`` give counterparts of ``fn`` in those libraries (called with
    their arrays, nested like ``args``); False leaves one out. A mode that fails is a row with its reason and the user's line.

    Results are equal within ``tolerance`` units in the last place of each array's largest element; time is measured in turns for about
    ``seconds``, with ``threads`` threads where the mode lets itself be told. TypeError for arguments or results that are not numeric; ValueError
    for ``levels`` that there are not and for no threads.
    """
    if unknown := [level for level in levels if level not in LEVELS]:
        raise ValueError(f"levels: there is no {unknown[0]!r}; there are {', '.join(LEVELS)}")
    if threads < 1:
        raise ValueError(f"threads must be at least 1, got {threads}")
    with source.hide_own_frames(), blas_threads(threads) as held:
        p = Problem.of(fn, args, argnums, threads)
        p.moving = p.moving if p.moving and has_floats(p) else []
        _warm_up()
        found = [*own_modes(p, levels), *peer_modes(p, {"numpy": numpy, "torch": torch, "jax": jax, "tensorflow": tensorflow})]
        ran = [m for m in found if isinstance(m, Mode)]
        if not ran:
            raise _all_failed(found)
        results = {}
        for m in ran:
            with m.inside():
                results[m.name] = [[np.array(a) for a in part] for part in m.read(m.step())]
        clocks = dict(zip((m.name for m in ran), times(ran, seconds)))
        memories = {m.name: memory_of(m) for m in ran}
        reference = ran[0].name
        rows = [_row(m, reference, results, clocks, memories, tolerance) for m in found]
        best = next((m for m in reversed(ran) if m.executable is not None), None)
        stages, remark = _passes(best) if best is not None else ([], "")
        draws = best is not None and any(i.kind == "stream" for i in best.executable.inputs)
        remarks = [*([remark] if remark else []), *(["the function draws random numbers: each mode draws its own, so results differ"] if draws else []),
                   *([] if held else ["NumPy's matrix products take as many threads as they like: its BLAS is not the one of NumPy's own packages"]), *_libraries(ran)]
        return Report(name=_name(fn), shapes=_shapes(p), reference=reference, tolerance=tolerance, threads=threads, rows=rows,
                      passes=stages, remarks=remarks, results=results,
                      timelines={m.name: memories[m.name].timeline for m in ran if memories[m.name].timeline}, sources={m.name: m.code for m in ran if m.code}, drawing=_drawing(p) if best is not None else "")


def _passes(m: Mode) -> tuple[list[dict[str, Any]], str]:
    """What each pass leaves, or why that is not shown."""
    if m.written > PASSES:
        return [], f"passes are not shown one by one for graphs of more than {PASSES} nodes (this one has {m.written})"
    try:
        return passes_of(m.executable, m.written), ""
    except Exception as error:               # a view beside the comparison: it must not take the comparison with it
        return [], f"passes could not be shown one by one: {type(error).__name__}: {error}"


def _libraries(ran: list[Mode]) -> list[str]:
    """What loading other libraries took, and which of them could not be told the number of threads."""
    told = [f"{m.name.partition(',')[0]} {seconds_of(m.imported)}" for m in ran if m.imported]
    return [*(f"{m.name} ran with {m.threads}: it takes the number once per process, and was started before" for m in ran if m.threads),
            *([f"time to load the libraries, in no number above: {', '.join(told)}"] if told else [])]


def _name(fn: Any) -> str:
    """``model.loss`` for a function of a file, ``loss`` for one of the script itself."""
    inner = getattr(fn, "fn", fn)
    module = getattr(inner, "__module__", None) or ""
    own = module.rpartition(".")[2].removeprefix("compared_")
    name = getattr(fn, "__name__", type(fn).__name__)
    return name if not own or own == "__main__" else f"{own}.{name}"


def _drawing(p: Problem) -> str:
    """The graph, where a slide can show it."""
    from ..ir import walk
    from .compare_modes import trace
    from .draw import argument_names, draw
    t = trace(p)
    tensors = [*t.values, *t.gradients]
    names = dict(zip(t.feeds, argument_names(p.fn, p.args)))
    return draw(tensors, names=names).svg if len(walk.ancestors([v.node for v in tensors])) <= 40 else ""


def _warm_up() -> None:
    """What the process does once (imports, LLVM's start) belongs to no mode."""
    from .compare_modes import compiled, dynamic, interpreted
    tiny = Problem.of(lambda x: x * x, (np.float64(1.0),), None, 1)
    for make in (dynamic, interpreted, lambda p: compiled(p, "O2")):
        make(tiny)                           # type: ignore[operator]


def _all_failed(found: list[Any]) -> Exception:
    """Each reason once, with the modes that gave it."""
    error = TypeError(f"no mode could run the function: {found[0].reason}")
    told: dict[str, list[str]] = {}
    for f in found:
        told.setdefault(f.reason + (f" at {f.line}" if f.line else ""), []).append(f.name)
    for reason, names in told.items():
        source.add_note(error, f"{'; '.join(names)}: {reason}")
    return error


def _shapes(p: Problem) -> str:
    from ..dtypes import as_dtype
    from ..ir.aval import Aval
    shown = [str(Aval(a.shape, as_dtype(a.dtype))) for a in p.leaves]
    return ", ".join(shown[:8]) + (f", and {len(shown) - 8} more" if len(shown) > 8 else "")


def _row(m: Mode | Failure, reference: str, results: dict[str, Any], clocks: dict[str, Timing], memories: dict[str, Memory], tolerance: float) -> Row:
    if isinstance(m, Failure):
        return Row(m.name, m.kind, note=m.reason, line=m.line, failed=not m.missing)
    clock, memory = clocks[m.name], memories[m.name]
    values, gradients = (_farthest(mine, theirs) for mine, theirs in zip(results[m.name], results[reference]))
    base = clocks[reference]
    row = Row(m.name, m.kind, note=m.note, values=values, gradients=gradients, seconds=clock.median, low=clock.low, high=clock.high, best=clock.best,
              rounds=clock.rounds, first_call=m.first, dispatches=m.dispatches, kernels=len(m.executable.report.kernels) if m.executable is not None else None,
              intermediates=memory.intermediates, peak=memory.peak, traffic=memory.traffic, imported=m.imported)
    row.equal = all(d is None or d <= tolerance for d in (values, gradients))
    # the dynamic mode pays the same at every call, its first included
    row.breakeven = breakeven(m.first, clock.median, base.median, base.median) if m.name != reference else None
    return row


def breakeven(first: float, later: float, other_first: float, other_later: float) -> int | None:
    """The number of calls after which a mode with an expensive first call has taken less time than the other one; None: never."""
    if first <= other_first:
        return 1
    if later >= other_later:
        return None
    return 1 + int(np.ceil((first - other_first) / (other_later - later)))


def _farthest(mine: list[Any], theirs: list[Any]) -> float | None:
    """The largest distance; None where there is nothing to compare."""
    if not mine or not theirs:
        return None
    if len(mine) != len(theirs):
        return float("inf")
    return max(distance(a, b) for a, b in zip(mine, theirs))
