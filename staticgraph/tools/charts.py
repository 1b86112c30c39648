"""Two kinds of chart as data, and their SVG: horizontal bars, and lines over a number or over names. Large type, labels beside what they name.

``charts_matplotlib`` draws the same data as PNG or PDF.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from .layered import spread

WIDTH, SIZE, HEAD = 1000, 18, 22             # pixels; font sizes of labels and titles
INK, FAINT = "#1a1a1a", "#d9d9d6"
_SANS = "Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif"
_LETTER = 0.56                               # of a letter, as a part of the size: on the safe side


@dataclass
class Bar:
    """One bar. ``text`` stands at its end; ``low`` and ``high`` are whiskers; without a ``value`` only label and text are shown."""

    label: str
    value: float | None
    text: str
    colour: str
    low: float | None = None
    high: float | None = None
    gap: bool = False                        # a little distance above: a new group begins


@dataclass
class Bars:
    """Horizontal bars with their values written out. ``axis`` names what is measured, with its unit."""

    key: str
    title: str
    axis: str
    bars: list[Bar]
    log: bool = False


@dataclass
class Line:
    """One line through (x, y). ``steps``: y holds until the next x. ``dash`` as in SVG."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    colour: str
    dash: str = ""
    steps: bool = False
    texts: Sequence[str] = ()                # beside the points
    below: bool = False                      # the texts stand below the line


@dataclass
class Lines:
    """Lines, each named at its right end. ``names``: x are positions 0, 1 ... with these names. ``marks``: points with a text, (x, y, text)."""

    key: str
    title: str
    x: str
    y: str
    lines: list[Line]
    log: bool = False
    names: Sequence[str] = ()
    marks: Sequence[tuple[float, float, str]] = ()


Chart = Bars | Lines
PAD = 0.35                                   # left and right of names, in their distance


def svg(chart: Chart) -> str:
    """The chart as an SVG element."""
    rows, height = _bars(chart) if isinstance(chart, Bars) else _lines(chart)
    head = (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" width="{WIDTH}" height="{height:.0f}" role="img" '
            f'aria-label="{escape(chart.title)}" font-family="{_SANS}">')
    return "\n".join([head, f'<rect width="{WIDTH}" height="{height:.0f}" fill="white"/>', text(0, 28, chart.title, HEAD, weight="bold"), *rows, "</svg>"])


def text(x: float, y: float, words: str, size: float = SIZE, anchor: str = "start", weight: str = "normal", fill: str = INK) -> str:
    """A text element."""
    bold = "" if weight == "normal" else f' font-weight="{weight}"'
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size:g}" text-anchor="{anchor}" fill="{fill}"{bold}>{escape(words)}</text>'


def wide(words: str, size: float = SIZE) -> float:
    """About how wide a text is."""
    return len(words) * size * _LETTER


def ticks(low: float, high: float, log: bool) -> list[float]:
    """Round numbers within a range: powers of ten, or about five equal steps."""
    if log:
        first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
        every = max(1, (last - first) // 6)
        return [10.0 ** k for k in range(first, last + 1, every)]
    raw = (high - low) / 5 or 1.0
    step = next(m * 10 ** math.floor(math.log10(raw)) for m in (1, 2, 5, 10) if m * 10 ** math.floor(math.log10(raw)) >= raw * 0.999)
    return [k * step for k in range(math.ceil(low / step), math.floor(high / step + 1e-9) + 1)]


def number(v: float) -> str:
    """A tick's number: ``1,000``, ``0.01``, ``10^7``."""
    if v != 0 and (abs(v) >= 1e6 or abs(v) < 1e-3):
        power = math.floor(math.log10(abs(v)) + 1e-9)
        return f"{v / 10 ** power:.3g}e{power}" if abs(v / 10 ** power - 1) > 1e-6 else f"1e{power}"
    return f"{v:,.10g}"


def bounds(chart: Bars) -> tuple[float, float]:
    """From where to where bars go: zero, or for logarithms a power of ten below the smallest."""
    values = [v for b in chart.bars for v in (b.value, b.low, b.high) if v]
    if not values:
        return (0.1, 1.0) if chart.log else (0.0, 1.0)
    return (10 ** math.floor(math.log10(min(values)) - 1e-9), max(values)) if chart.log else (0.0, max(values))


def _bars(chart: Bars) -> tuple[list[str], float]:
    left = max(wide(b.label) for b in chart.bars) + 16
    right = WIDTH - max(wide(b.text) for b in chart.bars) - 16
    low, high = bounds(chart)

    def at(v: float) -> float:
        part = math.log(max(v, low) / low) / (math.log(high / low) or 1) if chart.log else v / (high or 1)
        return left + part * (right - left)
    rows: list[str] = []
    y = 48.0
    grid_at = len(rows)
    for b in chart.bars:
        y += 16 if b.gap else 0
        rows.append(text(left - 10, y + 21, b.label, anchor="end"))
        end = left
        if b.value is not None:
            end = max(at(b.value), left + 2)
            rows.append(f'<rect x="{left:.1f}" y="{y:.1f}" width="{end - left:.1f}" height="28" fill="{b.colour}"/>')
        if b.low is not None and b.high is not None:
            a, z = at(b.low), at(b.high)
            rows.append(f'<path d="M{a:.1f} {y + 14:.1f}H{z:.1f}M{a:.1f} {y + 8:.1f}v12M{z:.1f} {y + 8:.1f}v12" stroke="{INK}" stroke-width="2" fill="none"/>')
            end = max(end, z)
        rows.append(text(end + 8, y + 21, b.text))
        y += 36
    grid = [f'<path d="M{at(t):.1f} 44V{y + 4:.1f}" stroke="{FAINT}"/>' for t in ticks(low, high, chart.log)]
    rows[grid_at:grid_at] = grid
    marks = _apart([(at(t), number(t)) for t in ticks(low, high, chart.log)])
    rows += [text(x, y + 24, words, anchor="middle") for x, words in marks]
    rows.append(text((left + right) / 2, y + 52, chart.axis + (", logarithmic" if chart.log else ""), anchor="middle"))
    return rows, y + 66


def _apart(marks: Sequence[tuple[float, str]]) -> list[tuple[float, str]]:
    """Those of the marks whose texts do not touch the one before."""
    out: list[tuple[float, str]] = []
    for x, words in marks:
        if not out or x - wide(words) / 2 > out[-1][0] + wide(out[-1][1]) / 2 + 12:
            out.append((x, words))
    return out


def _lines(chart: Lines) -> tuple[list[str], float]:
    xs = [v for line in chart.lines for v in line.x]
    ys = [v for line in chart.lines for v in line.y]
    x0, x1 = (min(xs) - PAD, max(xs) + PAD / 4) if chart.names else (min(xs), max(xs))
    y0, y1 = (min(v for v in ys if v > 0), max(ys)) if chart.log else (0.0, max(ys) * 1.06 or 1.0)
    fx, fy = (math.log10, math.log10) if chart.log else (float, float)
    y_marks = ticks(y0, y1, chart.log)
    left = max(wide(number(t)) for t in y_marks or [1.0]) + 16
    right = WIDTH - max(wide(line.label) for line in chart.lines) - 22
    top, bottom = 76.0, 452.0

    def px(v: float) -> float:
        return left + (fx(v) - fx(x0)) / ((fx(x1) - fx(x0)) or 1) * (right - left)

    def py(v: float) -> float:
        v = max(v, y0)
        return bottom - (fy(v) - fy(y0)) / ((fy(y1) - fy(y0)) or 1) * (bottom - top)
    rows = [text(0, 58, chart.y + (", logarithmic" if chart.log else ""))]
    rows += [f'<path d="M{left:.1f} {py(t):.1f}H{right:.1f}" stroke="{FAINT}"/>{text(left - 8, py(t) + 6, number(t), anchor="end")}' for t in y_marks]
    if chart.names:
        step = px(1) - px(0)
        turned = max(wide(n) for n in chart.names) > step - 8
        for k, name in enumerate(chart.names):
            drop = 24 if not turned or k % 2 == 0 else 48
            rows.append(text(px(k), bottom + drop, name, anchor="middle"))
        bottom_text = bottom + (84 if turned else 58)
    else:
        rows += [text(x, bottom + 24, words, anchor="middle") for x, words in _apart([(px(t), number(t)) for t in ticks(x0, x1, chart.log)])]
        bottom_text = bottom + 54
    rows.append(f'<path d="M{left:.1f} {top:.1f}V{bottom:.1f}H{right:.1f}" stroke="{INK}" fill="none"/>')
    for line in chart.lines:
        dash = f' stroke-dasharray="{line.dash}"' if line.dash else ""
        rows.append(f'<path d="{_way(line, px, py)}" stroke="{line.colour}" stroke-width="3.5" fill="none" stroke-linejoin="round"{dash}/>')
        for x, y, words in zip(line.x, line.y, line.texts):
            aside = 24 if line.below else -12
            rows.append(f'<circle cx="{px(x):.1f}" cy="{py(y):.1f}" r="5" fill="{line.colour}"/>{text(px(x), py(y) + aside, words, anchor="middle", fill=line.colour)}')
    for x, y, words in chart.marks:
        near_left = px(x) < left + wide(words) / 2
        rows.append(f'<circle cx="{px(x):.1f}" cy="{py(y):.1f}" r="8" fill="white" stroke="{INK}" stroke-width="3"/>')
        words = text(px(x) + (14 if near_left else -14), py(y) - 14, words, anchor="start" if near_left else "end")
        rows.append(words.replace("<text ", '<text stroke="white" stroke-width="6" paint-order="stroke" '))              # readable on the lines
    order = sorted(chart.lines, key=lambda line: py(line.y[-1]))
    for line, y in zip(order, label_places([py(line.y[-1]) for line in order], SIZE * 1.2, top, bottom - 4)):
        rows.append(text(right + 12, y + 6, line.label, fill=line.colour, weight="bold"))
        if abs(y - py(line.y[-1])) > 8:
            rows.append(f'<path d="M{right:.1f} {py(line.y[-1]):.1f}L{right + 9:.1f} {y:.1f}" stroke="{line.colour}"/>')
    rows.append(text((left + right) / 2, bottom_text, chart.x + (", logarithmic" if chart.log else ""), anchor="middle"))
    return rows, bottom_text + 14


def label_places(wanted: Sequence[float], apart: float, low: float, high: float) -> list[float]:
    """Heights of labels, given in order, as near to ``wanted`` as a distance and the picture allow."""
    return spread(wanted, [1.0] * len(wanted), [apart] * (len(wanted) - 1), low, high)


def _way(line: Line, px: object, py: object) -> str:
    out = []
    for k, (x, y) in enumerate(zip(line.x, line.y)):
        a, b = px(x), py(y)                  # type: ignore[operator]
        if k == 0:
            out.append(f"M{a:.1f} {b:.1f}")
        else:
            out.append(f"H{a:.1f}V{b:.1f}" if line.steps else f"L{a:.1f} {b:.1f}")
    return "".join(out)
