"""Charts drawn by matplotlib: one sheet as PNG, SVG or PDF."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from math import log10
from pathlib import Path
from typing import Any

from .charts import PAD, Bars, Chart, Lines, bounds, label_places, number, ticks

SIZE = 16                                    # points


def sheet(charts: Sequence[Chart], path: str | Path, title: str) -> None:
    """Draw charts in two columns (one chart fills the sheet). ImportError, naming the extra, without matplotlib."""
    try:
        import matplotlib
    except ImportError as error:
        raise ImportError("plots need matplotlib: pip install 'staticgraph[viz]'; html() needs nothing") from error
    with matplotlib.rc_context({"font.size": SIZE, "axes.titlesize": SIZE + 3, "axes.linewidth": 1.2, "svg.fonttype": "none"}):
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
        # bars, whose names stand on the left, in one column, and lines, whose names stand on the right, in the other
        columns = [c for c in ([c for c in charts if isinstance(c, kind)] for kind in (Bars, Lines)) if c]
        tall = [max(map(_height, row)) for row in zip_longest(*columns)]
        figure = Figure(figsize=(11.5 * len(columns), sum(tall) + 0.7), layout="constrained")
        FigureCanvasAgg(figure)
        figure.suptitle(title, fontsize=SIZE + 6, fontweight="bold")
        grid = figure.add_gridspec(len(tall), len(columns), height_ratios=tall)
        for k, column in enumerate(columns):
            for row, chart in enumerate(column):
                axes = figure.add_subplot(grid[row, k])
                axes.set_title(chart.title, loc="left", fontweight="bold", pad=12)
                (_bars if isinstance(chart, Bars) else _lines)(axes, chart)      # type: ignore[operator]
        figure.get_layout_engine().set(w_pad=0.25, h_pad=0.25)                   # type: ignore[union-attr, call-arg]
        figure.savefig(path, dpi=100)


def _height(chart: Chart | None) -> float:
    if chart is None:
        return 0.0
    return 1.9 + 0.42 * len(chart.bars) + 0.2 * sum(b.gap for b in chart.bars) if isinstance(chart, Bars) else 6.4


def _bars(axes: Any, chart: Bars) -> None:
    low, high = bounds(chart)
    y, places = 0.0, []
    for b in chart.bars:
        y += 0.45 if b.gap else 0
        places.append(y)
        if b.value is not None:
            axes.barh(y, b.value - low, 0.74, left=low, color=b.colour)
        end = b.value or low
        if b.low is not None and b.high is not None:
            axes.plot([b.low, b.high], [y, y], color="#1a1a1a", lw=2, marker="|", ms=11, mew=2)
            end = max(end, b.high)
        axes.annotate(b.text, (end, y), (8, 0), textcoords="offset points", va="center")
        y += 1
    axes.set_yticks(places, [b.label for b in chart.bars])
    axes.set_ylim(y - 0.4, -0.6)
    if chart.log:
        axes.set_xscale("log")
        axes.set_xlim(low, high * (high / low) ** 0.2)
    else:
        axes.set_xlim(0, high * 1.2)
    _numbers(axes, "x", ticks(low, high, chart.log))
    axes.set_xlabel(chart.axis + (", logarithmic" if chart.log else ""))
    axes.grid(axis="x", color="#d9d9d6")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def _numbers(axes: Any, which: str, places: Sequence[float]) -> None:
    (axes.set_xticks if which == "x" else axes.set_yticks)(places, [number(t) for t in places])
    axes.tick_params(axis=which, which="minor", length=0, labelbottom=False, labelleft=False)


def _lines(axes: Any, chart: Lines) -> None:
    if chart.log:
        axes.set_xscale("log")
        axes.set_yscale("log")
    for line in chart.lines:
        dash = (0, tuple(float(v) / 3 for v in line.dash.split())) if line.dash else "-"
        axes.plot(line.x, line.y, color=line.colour, lw=3, ls=dash, marker="o" if line.texts else None, ms=8, drawstyle="steps-post" if line.steps else "default")
        for x, y, words in zip(line.x, line.y, line.texts):
            axes.annotate(words, (x, y), (0, -24 if line.below else 8), textcoords="offset points", ha="center", color=line.colour)
    xs = [v for line in chart.lines for v in line.x]
    ys = [v for line in chart.lines for v in line.y]
    axes.set_xlim(min(xs), max(xs)) if not chart.names else axes.set_xlim(-PAD, max(xs) + PAD / 4)
    if not chart.log:
        axes.set_ylim(0, max(ys) * 1.12 or 1.0)
    if chart.names:
        axes.set_xticks(range(len(chart.names)), chart.names, rotation=28, ha="right", rotation_mode="anchor")
    else:
        _numbers(axes, "x", ticks(min(xs), max(xs), chart.log))
    low, high = axes.get_ylim()
    _numbers(axes, "y", list(ticks(low if low > 0 else 0.0, high, chart.log)))
    axes.set_ylim(low, high)
    from matplotlib.patheffects import withStroke
    for x, y, words in chart.marks:
        axes.plot([x], [y], "o", ms=13, mfc="white", mec="#1a1a1a", mew=2.5)
        axes.annotate(words, (x, y), (-12, 12), textcoords="offset points", ha="right", path_effects=[withStroke(linewidth=5, foreground="white")])
    f = log10 if chart.log else float
    ends = {k: (f(line.y[-1]) - f(low)) / (f(high) - f(low)) for k, line in enumerate(chart.lines)}      # parts of the axis
    order = sorted(ends, key=ends.__getitem__)
    inches = _height(chart) - 1.9
    for k, y in zip(order, label_places([ends[k] for k in order], SIZE * 1.3 / 72 / inches, 0.02, 1.0)):
        line = chart.lines[k]
        axes.annotate(line.label, (1.0, y), (14, 0), xycoords="axes fraction", textcoords="offset points", va="center", color=line.colour,
                      fontweight="bold", annotation_clip=False)
        if abs(y - ends[k]) > 0.02:
            axes.annotate("", (1.0, ends[k]), (13, 72 * inches * (y - ends[k])), xycoords="axes fraction", textcoords="offset points", annotation_clip=False,
                          arrowprops={"arrowstyle": "-", "color": line.colour, "lw": 1, "shrinkA": 0, "shrinkB": 0})
    axes.set_xlabel(chart.x + (", logarithmic" if chart.log else ""))
    axes.set_ylabel(chart.y + (", logarithmic" if chart.log else ""))
    axes.grid(color="#d9d9d6")
    axes.spines[["top", "right"]].set_visible(False)
