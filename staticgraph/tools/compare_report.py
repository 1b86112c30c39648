"""What ``sg.compare`` found: as a table for a terminal, as data, as pictures, as one HTML page."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

AGREEMENT = ("mode", "values", "gradients", "time per step", "best", "first call", "pays off after")
WORK = ("mode", "Python dispatches", "kernels", "written", "live at most", "read and written")
PASSES = ("pass", "nodes", "kernels, one per operation", "kernels, fused")


@dataclass
class Row:
    """One mode. Times in seconds, sizes in bytes; None where it is not known or does not apply.

    ``values`` and ``gradients`` are distances from the reference (0.0: the same bits; else units in the last place of the largest element).
    """

    name: str
    kind: str
    note: str = ""
    line: str = ""                           # of the user, where the mode failed
    failed: bool = False
    equal: bool | None = None
    values: float | None = None
    gradients: float | None = None
    seconds: float | None = None             # median over rounds
    low: float | None = None                 # quartiles
    high: float | None = None
    best: float | None = None
    rounds: int = 0
    first_call: float | None = None
    breakeven: int | None = None             # calls after which the first call's cost has come back
    dispatches: int | None = None            # operations that Python starts per step
    kernels: int | None = None
    intermediates: int | None = None         # bytes written
    peak: int | None = None
    traffic: int | None = None
    imported: float | None = None            # seconds of loading a library, where that fell into the comparison; in no other number

    @property
    def ran(self) -> bool:
        """Whether it gave a result."""
        return self.seconds is not None


@dataclass
class Report:
    """Rows, passes and timelines of a comparison. ``equal`` is True where every mode that ran agrees; ``str`` and ``table`` show it."""

    name: str
    shapes: str
    reference: str
    tolerance: float
    threads: int
    rows: list[Row]
    passes: list[dict[str, Any]]
    timelines: dict[str, list[tuple[float, int]]]
    sources: dict[str, str] = field(default_factory=dict)    # a peer's program as text
    remarks: list[str] = field(default_factory=list)
    drawing: str = ""                        # SVG of the graph, where it is small
    results: dict[str, Any] = field(default_factory=dict)    # [values, gradients] as arrays, by mode

    @property
    def equal(self) -> bool:
        """Every mode that ran gives the same values and gradients, within ``tolerance``."""
        return all(r.equal for r in self.rows if r.ran)

    def row(self, name: str) -> Row:
        """A row by its mode's name. KeyError names those there are."""
        for r in self.rows:
            if r.name == name:
                return r
        raise KeyError(f"no row {name!r}; there are {', '.join(r.name for r in self.rows)}")

    def to_dict(self) -> dict[str, Any]:
        """All numbers as plain data."""
        return {"name": self.name, "shapes": self.shapes, "reference": self.reference, "tolerance": self.tolerance, "threads": self.threads, "equal": self.equal,
                "rows": [asdict(r) for r in self.rows], "passes": self.passes, "timelines": self.timelines, "sources": self.sources}

    def to_json(self, path: str | Path | None = None) -> str:
        """``to_dict`` as JSON text; written to ``path`` if given. Infinite distances are ``null`` there."""
        text = json.dumps(_plain(self.to_dict()), indent=1)
        if path is not None:
            Path(path).write_text(text + "\n", encoding="utf-8")
        return text

    # ---- text --------------------------------------------------------------------------------------------------------------------

    def agreement(self) -> list[list[str]]:
        """Rows of the first table: distances and times, a row per mode that ran."""
        return [[r.name, told(r.values), told(r.gradients), seconds(r.seconds), seconds(r.best), seconds(r.first_call), self._pays(r)] for r in self.rows if r.ran]

    def work(self) -> list[list[str]]:
        """Rows of the second table: what a step does."""
        return [[r.name, count(r.dispatches), count(r.kernels), size(r.intermediates), size(r.peak), size(r.traffic)] for r in self.rows if r.ran]

    def pass_cells(self) -> list[list[str]]:
        """Rows of the third table: nodes and kernels after each pass."""
        return [[p["pass"], count(p["nodes"]), count(p["kernels"]), count(p["fused"])] for p in self.passes]

    def _tables(self) -> list[tuple[Sequence[str], list[list[str]]]]:
        tables: list[tuple[Sequence[str], list[list[str]]]] = [(AGREEMENT, self.agreement()), (WORK, self.work()), (PASSES, self.pass_cells())]
        return [t for t in tables if t[1]]

    def _pays(self, r: Row) -> str:
        if r.name == self.reference or r.kind == "dynamic":
            return "-"
        return "never" if r.breakeven is None else f"{r.breakeven:,} call{'s' if r.breakeven > 1 else ''}"

    def verdict(self) -> str:
        """One line: do they agree?"""
        ran = [r for r in self.rows if r.ran]
        wrong = [r.name for r in ran if not r.equal]
        if wrong:
            return f"DIFFERENT from {self.reference}: {', '.join(wrong)} (by more than {self.tolerance:g} units in the last place)"
        levels = [r.name for r in ran if r.kind == "static" and r.kernels is not None]
        bits = {name: [a.tobytes() for part in self.results[name] for a in part] for name in levels if name in self.results}
        if len(ran) == 1:
            return f"only {ran[0].name} ran: nothing to compare it with"
        same = " All levels give the same bits." if len(bits) > 1 and len({repr(b) for b in bits.values()}) == 1 else ""
        return f"equal: {len(ran)} modes agree in values and gradients, to {self.tolerance:g} units in the last place.{same}"

    def notes(self) -> list[str]:
        """What was left out, and what failed."""
        return [f"{r.name} did not run: {r.note}" + (f"\n    at {r.line}" if r.line else "") for r in self.rows if not r.ran] + self.remarks

    def text(self) -> str:
        """The table, the passes and the notes as plain text."""
        lines = [f"{self.name}({self.shapes})", self.verdict()]
        for head, rows in self._tables():
            lines += ["", *_aligned([list(head), *rows])]
        if notes := self.notes():
            lines += ["", *notes]
        return "\n".join([*lines, "", self.legend()])

    def legend(self) -> str:
        """How to read the first table."""
        return (f"Distances from {self.reference}, in units in the last place of each array's largest element. Times: medians of rounds taken in\n"
                f"turns, {self.threads} thread{'s' if self.threads > 1 else ''}. Pays off: calls after which it has taken less time than {self.reference}, first call included.")

    def table(self) -> None:
        """Print it; with colours where rich is installed and the output is a terminal."""
        if sys.stdout.isatty():
            try:
                from rich.console import Console
            except ImportError:
                pass
            else:
                self._rich(Console())
                return
        print(self.text())

    def _rich(self, console: Any) -> None:
        """Narrow: terminals of lecture halls have 80 large letters in a line."""
        from rich.box import SIMPLE_HEAD
        from rich.table import Table
        console.print(f"[bold]{self.name}[/bold]({self.shapes})", highlight=False)
        console.print(self.verdict(), style="green" if self.equal else "bold red", highlight=False)
        by_name = {r.name: r for r in self.rows}
        for head, rows in self._tables():
            table = Table(box=SIMPLE_HEAD, show_edge=False, padding=0)
            for k, words in enumerate(head):
                table.add_column("\n".join(_two_lines(words)).strip(), justify="right" if k else "left", vertical="bottom", no_wrap=True)
            for row in rows:
                r = by_name.get(row[0])
                table.add_row(*row, style="" if r is None else {"dynamic": "dark_orange3", "static": "blue"}.get(r.kind, "") if r.equal else "bold red")
            console.print("", table)
        for note in ("", *self.notes()):
            console.print(note, style="yellow", highlight=False, markup=False)
        console.print(self.legend().replace("\n", " "), highlight=False)

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        ran = [r for r in self.rows if r.ran]
        return f"<comparison of {self.name}: {len(ran)} modes, {'equal' if self.equal else 'DIFFERENT'}>"

    def __bool__(self) -> bool:
        return self.equal

    # ---- pictures ----------------------------------------------------------------------------------------------------------------

    def plot(self, path: str | Path, only: str | None = None) -> None:
        """All pictures on one sheet, or one for a slide: PNG, SVG or PDF by the name.

        ``only``: time, paid, dispatches, passes, timeline or bytes. ImportError, naming the extra, without matplotlib; ValueError for a
        picture that there is not.
        """
        from .charts_matplotlib import sheet
        from .compare_charts import charts
        chosen = charts(self, only)
        if not chosen:
            raise ValueError(f"the comparison has no numbers for the picture {only or 'of any kind'}")
        sheet(chosen, path, f"{self.name}: define-by-run and define-then-run")

    def html(self, path: str | Path) -> None:
        """One page that needs no other file: tables and pictures."""
        from .compare_page import page
        Path(path).write_text(page(self), encoding="utf-8")

    def _repr_html_(self) -> str:
        from .compare_page import body
        return body(self)


def _plain(x: Any) -> Any:
    """JSON has no infinities."""
    if isinstance(x, dict):
        return {k: _plain(v) for k, v in x.items()}
    if isinstance(x, (list, tuple)):
        return [_plain(v) for v in x]
    return None if isinstance(x, float) and not math.isfinite(x) else x


def _aligned(rows: list[list[str]]) -> list[str]:
    """Columns as wide as they need, long heads on two lines; the first column to the left, the others to the right."""
    heads = [_two_lines(h) for h in rows[0]]
    rows = [[h[0] for h in heads], [h[1] for h in heads], *rows[1:]]
    if not any(rows[0]):
        rows = rows[1:]
    width = [max(len(r[k]) for r in rows) for k in range(len(rows[0]))]
    lines = ["  ".join(c.ljust(w) if k == 0 else c.rjust(w) for k, (c, w) in enumerate(zip(r, width))).rstrip() for r in rows]
    lines.insert(len(lines) - len(rows) + (2 if any(heads[k][0] for k in range(len(heads))) else 1), "  ".join("-" * w for w in width))
    return lines


def _two_lines(head: str) -> tuple[str, str]:
    words = head.split()
    if len(head) < 11 or len(words) == 1:
        return "", head
    cut = min(range(1, len(words)), key=lambda k: abs(len(" ".join(words[:k])) - len(" ".join(words[k:]))))
    return " ".join(words[:cut]), " ".join(words[cut:])


def told(distance: float | None) -> str:
    """``same bits``, ``3 ulp``."""
    if distance is None:
        return "-"
    if distance == 0:
        return "same bits"
    if math.isinf(distance):
        return "different"
    return f"{distance:.2g} ulp" if distance < 10 else f"{distance:.0f} ulp" if distance < 1e4 else f"{distance:.0e} ulp"


def seconds(t: float | None) -> str:
    """``12.3 us``"""
    if t is None:
        return "-"
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if t >= scale:
            return f"{_three(t / scale)} {unit}"
    return f"{t * 1e9:.0f} ns"


def size(b: int | None) -> str:
    """``12.3 kB``"""
    if b is None:
        return "-"
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if b >= scale:
            return f"{_three(b / scale)} {unit}"
    return f"{b} B"


def _three(v: float) -> str:
    """Three digits: ``4.00``, ``12.3``, ``658``, ``1234``."""
    return f"{v:.{max(0, 2 - math.floor(math.log10(v) + 1e-12))}f}"


def count(n: int | None) -> str:
    """``1,234``"""
    return "-" if n is None else f"{n:,}"
