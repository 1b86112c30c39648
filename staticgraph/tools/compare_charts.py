"""The pictures of a comparison as data: time, when compiling has paid, dispatches, passes, memory over time, bytes."""

from __future__ import annotations

import math
from typing import Any

from .charts import Bar, Bars, Chart, Line, Lines
from .compare_report import Report, count, seconds, size

# dark enough on white for a weak projector, told apart by colour-blind eyes (after M. Okabe, K. Ito), and never the only mark: everything has its name
COLOURS = {"dynamic": "#c8451b", "static interpreted": "#6d6d6d", "static O0": "#3f8fcf", "static O1": "#2470ad", "static O2": "#0b4f8a", "NumPy": "#8a6d00",
           "PyTorch": "#7a3fa0", "JAX, jit": "#1f7a4d", "TensorFlow, graph": "#1a1a1a"}
_DASHES = {"static O0": "4 6", "static O1": "10 6", "PyTorch": "14 5 3 5", "JAX, jit": "14 5", "TensorFlow, graph": "3 5 3 10", "NumPy": "3 5", "static interpreted": "8 4"}
KEYS = ("time", "paid", "dispatches", "passes", "timeline", "bytes")


def charts(r: Report, only: str | None = None) -> list[Chart]:
    """Those for which there are numbers, in the order of ``KEYS``; with ``only`` the one of that key. ValueError for another key."""
    if only is not None and only not in KEYS:
        raise ValueError(f"no picture {only!r}; there are {', '.join(KEYS)}")
    made = (time_per_step(r), paid(r), dispatches(r), passes(r), timeline(r), traffic(r))
    return [c for c in made if c is not None and only in (None, c.key)]


def _unit(most: float, units: tuple[tuple[str, float], ...] = (("MB", 1e6), ("kB", 1e3), ("bytes", 1.0))) -> tuple[str, float]:
    """(Name, size) of the unit in which the largest value is at least one."""
    return next((u for u in units if most >= u[1]), units[-1])


def colour(name: str) -> str:
    """The colour of a mode."""
    return COLOURS.get(name, "#444444")


def time_per_step(r: Report) -> Chart | None:
    """The median, and the middle half of the rounds."""
    rows = [x for x in r.rows if x.seconds is not None]
    times: list[float] = [x.seconds for x in rows if x.seconds is not None]
    if not times:
        return None
    unit, scale = _unit(max(times), (("seconds", 1.0), ("milliseconds", 1e-3), ("microseconds", 1e-6)))
    bars = [Bar(x.name, t / scale, seconds(t), colour(x.name), (x.low or 0) / scale, (x.high or 0) / scale) for x, t in zip(rows, times)]
    return Bars("time", "Time for one step: values and gradients", f"{unit} (whiskers: middle half of the rounds)", bars, max(times) > 20 * min(times))


def paid(r: Report) -> Chart | None:
    """All time spent after n calls, the first call included."""
    known = {x.name: x for x in r.rows if x.seconds is not None}
    chosen = [known[n] for n in ("dynamic", "static interpreted", "static O2", "PyTorch", "JAX, jit", "TensorFlow, graph") if n in known]
    base = known.get("dynamic")
    if base is None or len(chosen) < 2:
        return None
    most = max([10.0, *(x.breakeven for x in chosen if x.breakeven)])
    decades = math.ceil(math.log10(most) + 0.7)
    calls = [10 ** (k / 8) for k in range(8 * decades + 1)]
    lines, marks = [], []
    for x in chosen:
        assert x.seconds is not None and x.first_call is not None and base.seconds is not None
        first = x.seconds if x is base else x.first_call
        lines.append(Line(x.name, calls, [first + (n - 1) * x.seconds for n in calls], colour(x.name), _DASHES.get(x.name, "")))
        if x.name == "static O2" and x.breakeven and x.breakeven > 1:
            marks.append((float(x.breakeven), x.breakeven * base.seconds, f"{x.name}: {x.breakeven:,} calls"))
    return Lines("paid", "When compiling has paid", "calls", "seconds in all, first call included", lines, True, marks=marks)


def dispatches(r: Report) -> Chart | None:
    """How many operations Python starts for one step."""
    rows = [x for x in r.rows if x.dispatches is not None]
    bars = [Bar(x.name, float(x.dispatches or 0), count(x.dispatches), colour(x.name)) for x in rows]
    return Bars("dispatches", "Operations that Python starts for one step", "operations", bars) if bars else None


def passes(r: Report) -> Chart | None:
    """Nodes and kernels as the passes go on."""
    if not r.passes:
        return None
    names = [p["pass"] for p in r.passes]

    def line(key: str, label: str, tone: str, dash: str, below: bool = False) -> Line:
        known = [(k, float(p[key])) for k, p in enumerate(r.passes) if p[key] is not None]
        ys = [v for _, v in known]
        texts = [f"{y:.0f}" if k in (0, len(ys) - 1) or y != ys[k - 1] else "" for k, y in enumerate(ys)]
        return Line(label, [k for k, _ in known], ys, tone, dash, texts=texts, below=below)
    return Lines("passes", "Nodes and kernels after each pass", "pass (lower_state makes equal nodes one, expand writes composed operations out)", "number", [
        line("nodes", "nodes", "#c8451b", ""), line("kernels", "kernels, unfused", "#2f7dbb", "10 6", True), line("fused", "kernels, fused", "#0b4f8a", "")], names=names)


def timeline(r: Report) -> Chart | None:
    """What is live while a step runs."""
    chosen = [n for n in ("dynamic", "static O0", "static O2") if r.timelines.get(n)]
    if not chosen:
        return None
    most = max(b for n in chosen for _, b in r.timelines[n])
    unit, scale = _unit(most)
    lines = []
    for n in chosen:
        points = r.timelines[n]
        lines.append(Line(f"{n}, peak {size(r.row(n).peak)}", [100 * x for x, _ in points], [b / scale for _, b in points], colour(n), _DASHES.get(n, ""), True))
    return Lines("timeline", "Memory that is live during a step", "per cent of the step's operations", f"{unit} of intermediate values and results", lines)


def traffic(r: Report) -> Chart | None:
    """Bytes written, live at most, moved."""
    bars: list[Bar] = []
    rows = [x for x in r.rows if x.traffic is not None]
    most = max((v for x in rows for v in (x.intermediates, x.peak, x.traffic) if v), default=0)
    unit, scale = _unit(most)
    parts: tuple[tuple[str, str], ...] = (("intermediates", "written"), ("peak", "live at most"), ("traffic", "read and written"))
    for x in rows:
        for k, (key, words) in enumerate(parts):
            value: Any = getattr(x, key)
            if value is not None:
                bars.append(Bar(f"{x.name}: {words}", value / scale, size(value), colour(x.name), gap=k == 0 and bool(bars)))
    return Bars("bytes", "Bytes of intermediate values and results in one step", unit, bars) if bars else None
