"""What the lectures share: options, tables, timings, counts, and pictures (PNG where matplotlib is installed, else text).

Nothing here is about differentiation: a lecture can be read without this file.
"""

from __future__ import annotations

import argparse
import math
import re
import sys
import textwrap
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import staticgraph as sg

sys.path.append(str(Path(__file__).resolve().parent.parent))                # other samples, for lectures that use them

COLOURS = ("#0b5fa5", "#c8451b", "#2e8540", "#6b3fa0", "#8a6d00")     # dark on white: readable on a weak projector
MARKS = "o+x*#"


def _in_notebook() -> bool:
    return "ipykernel" in sys.modules


class Stage:
    """Prints a lecture's results and writes its pictures."""

    def __init__(self, title: str) -> None:
        parser = argparse.ArgumentParser(description=sys.modules["__main__"].__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
        parser.add_argument("--out", default="pictures", metavar="DIR", help="folder for pictures (default: pictures)")
        parser.add_argument("--text", action="store_true", help="print pictures as text, also where matplotlib is installed")
        options = parser.parse_args([] if _in_notebook() else None)
        self.out, self.text, self.plt = Path(options.out), options.text, None if options.text else _matplotlib()
        print(f"{title}\n{'=' * len(title)}")

    def heading(self, text: str) -> None:
        """A line above what follows."""
        print(f"\n{text}\n{'-' * len(text)}")

    def table(self, head: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Columns as wide as they need; words to the left, numbers to the right."""
        cells = [[str(c) for c in row] for row in (head, *rows)]
        width = [max(len(row[k]) for row in cells) for k in range(len(head))]
        left = [any(row[k][:1].isalpha() for row in cells[1:]) for k in range(len(head))]
        for number, row in enumerate(cells):
            print("  ".join(c.ljust(w) if words else c.rjust(w) for c, w, words in zip(row, width, left)).rstrip())
            if number == 0:
                print("  ".join("-" * w for w in width))

    def time(self, text: str) -> None:
        """A line with measured times: the only lines that differ from run to run."""
        print(f"[time] {text}")

    def machine(self, rows: Sequence[str]) -> None:
        """Lines that depend on the processor, set off like pictures."""
        print("\n".join(f"  | {row}".rstrip() for row in rows))

    def graph(self, graph: Any, names: Mapping[Any, str] | None = None) -> None:
        """One line per node: what it is, the line of this file that made it, and whose adjoint it belongs to.

        ``str(graph)`` is the full form, which ``sg.parse`` reads back.
        """
        for n in graph.nodes:
            label = (names or {}).get(n) or f"{n.op.name}({', '.join([*(f'%{i.id}' for i in n.inputs), *_attributes(n)])})"
            made = f"line {' and '.join(str(s.line) for s in n.all_sites())}" + (f", {n.role}" if n.role else "")
            print(f"%{n.id:<3d} {n.aval!s:12s} {label:34s} {made}")
        if graph.outputs:
            print("results: " + ", ".join(f"%{o.id}" for o in graph.outputs))

    def error(self, f: Callable[[], Any]) -> None:
        """What ``f`` raises, as a student sees it: the message, the line of this file, and the notes below."""
        try:
            f()
        except Exception as error:
            own = (__file__, *(str(Path(m.__file__).parent) for m in (sg, np)))
            here = [t for t in traceback.extract_tb(error.__traceback__) if not t.filename.startswith(own)]
            said = [f"{type(error).__name__}: {error}", f"  at line {here[-1].lineno}: {here[-1].line}",
                    *(f"  {note}" for note in getattr(error, "__notes__", ()))]
            print("\n".join(textwrap.fill(row, 100, subsequent_indent="    ", break_long_words=False) for row in said))
            return
        raise AssertionError("no error came")

    # ---- pictures ------------------------------------------------------------------------------------------------------------

    def lines(self, name: str, title: str, x: str, y: str, curves: Mapping[str, tuple[Sequence[float], Sequence[float]]],
              log: str = "") -> None:
        """Curves over one pair of axes; ``log`` names the logarithmic ones ("x", "y", "xy")."""
        if self.plt is None:
            self._as_text(name, _text_chart(title, x, y, curves, log))
            return
        figure, axes = self._figure(title)
        for k, (label, (xs, ys)) in enumerate(curves.items()):
            axes.plot(xs, ys, marker="os^Dv"[k % 5], markersize=9, linewidth=3, color=COLOURS[k % 5], label=label)
        if "x" in log:
            axes.set_xscale("log")
        if "y" in log:
            axes.set_yscale("log")
        ticks = sorted({v for xs, _ in curves.values() for v in xs})
        if len(ticks) <= 12 and all(float(v).is_integer() for v in ticks):
            axes.set_xticks(ticks, [f"{v:g}" for v in ticks])
            axes.minorticks_off()
        axes.set(xlabel=x, ylabel=y)
        axes.margins(y=0.16)                     # room for the legend
        axes.grid(alpha=0.35)
        axes.legend(fontsize=17)
        self._save(figure, name)

    def bars(self, name: str, title: str, y: str, values: Mapping[str, float]) -> None:
        """One bar per value."""
        if self.plt is None:
            longest, most = max(map(len, values)), max(values.values())
            self._as_text(name, [f"{title} ({y})", *(f"{label:{longest}s} |{'#' * max(1, round(44 * v / most))} {v:,.3g}" for label, v in values.items())])
            return
        figure, axes = self._figure(title)
        drawn = axes.bar(list(values), list(values.values()), color=[COLOURS[k % 5] for k in range(len(values))])
        axes.bar_label(drawn, fmt="{:,.3g}", fontsize=18)
        axes.set_ylabel(y)
        axes.margins(y=0.12)
        self._save(figure, name)

    def blackboard(self, name: str, title: str, nodes: Mapping[str, tuple[float, float, str, str]],
                   edges: Sequence[tuple[str, str, str]]) -> None:
        """A small graph as on a blackboard. ``nodes``: label -> (column, row, value, adjoint); ``edges``: (from, to, local derivative)."""
        if self.plt is None:
            rows = [title]
            for label, (_, _, value, adjoint) in nodes.items():
                rows.append(f"{label:12s} value {value:>8s}   adjoint {adjoint:>8s}")
                rows += [f"   --- {derivative:>6s} --> {b}" for a, b, derivative in edges if a == label]
            self._as_text(name, rows)
            return
        figure, axes = self._figure(title)
        axes.axis("off")
        boxes, first = {}, min(column for column, *_ in nodes.values())
        for label, (column, row, value, adjoint) in nodes.items():
            boxes[label] = axes.text(column, row, label, fontsize=21, ha="center", va="center", zorder=3,
                                     bbox=dict(boxstyle="round,pad=0.5", fc="#eef3fa", ec="#222222", lw=2)).get_bbox_patch()
            aside = -0.12 if column == first else 0.2                        # away from the arrows
            axes.text(column + aside, row + 0.2, value, fontsize=19, color=COLOURS[0], ha="center", va="bottom")
            axes.text(column + aside, row - 0.2, adjoint, fontsize=19, color=COLOURS[1], ha="center", va="top")
        drawn: dict[tuple[str, str], int] = {}
        for a, b, derivative in edges:
            (x0, y0, *_), (x1, y1, *_) = nodes[a], nodes[b]
            twins = sum(e[:2] == (a, b) for e in edges)                      # a value used twice by one operation: two arrows, bent apart
            bend = 0.0 if twins == 1 else (0.3, -0.3)[drawn.setdefault((a, b), 0)]
            drawn[a, b] = 1
            axes.annotate("", (x1, y1), (x0, y0), arrowprops=dict(
                arrowstyle="-|>", lw=2.5, color="#444444", mutation_scale=26, connectionstyle=f"arc3,rad={bend}", patchA=boxes[a], patchB=boxes[b],
                shrinkA=3, shrinkB=3))
            axes.text(0.5 * (x0 + x1) + 0.5 * bend * (y1 - y0), 0.5 * (y0 + y1) - 0.5 * bend * (x1 - x0), derivative, fontsize=18,
                      color=COLOURS[3], ha="center", va="center", bbox=dict(boxstyle="round,pad=0.15", fc="white", ec="none"))
        for k, (text, colour) in enumerate((("value", COLOURS[0]), ("adjoint", COLOURS[1]), ("local derivative", COLOURS[3]))):
            axes.text(0.2 + 0.27 * k, -0.02, text, transform=axes.transAxes, fontsize=19, color=colour, ha="center")
        xs, ys = [n[0] for n in nodes.values()], [n[1] for n in nodes.values()]
        axes.set(xlim=(min(xs) - 0.5, max(xs) + 0.5), ylim=(min(ys) - 0.6, max(ys) + 0.6))
        self._save(figure, name)

    def drawing(self, name: str, title: str, what: Any, **options: Any) -> None:
        """A graph as boxes and arrows, by ``sg.draw``: an SVG file, which browsers show; nothing with ``--text``, which has ``graph``."""
        if self.text:
            return
        self.out.mkdir(parents=True, exist_ok=True)
        picture = sg.draw(what, self.out / name, title=title, **options)
        if _in_notebook():
            from IPython.display import display
            display(picture)
        print(f"\npicture: {name}")

    def _as_text(self, name: str, rows: Sequence[str]) -> None:
        print(f"\npicture: {name}")
        self.machine(rows)

    def _figure(self, title: str) -> Any:
        self.plt.rcParams.update({"font.size": 18, "axes.titlesize": 22, "axes.linewidth": 1.5})
        figure, axes = self.plt.subplots(figsize=(11, 6.2))
        axes.set_title(title, pad=14)
        return figure, axes

    def _save(self, figure: Any, name: str) -> None:
        self.out.mkdir(parents=True, exist_ok=True)
        figure.tight_layout()
        figure.savefig(self.out / name, dpi=110)
        self.plt.close(figure)
        if _in_notebook():
            from IPython.display import Image, display
            display(Image(filename=str(self.out / name)))
        print(f"\npicture: {name}")


def seconds(*functions: Callable[[], Any], repeat: int = 15) -> list[float]:
    """The best time of each function; calls take turns, so that a busy moment of the machine hits all of them."""
    best = [math.inf] * len(functions)
    for _ in range(repeat):
        for k, f in enumerate(functions):
            start = time.perf_counter()
            f()
            best[k] = min(best[k], time.perf_counter() - start)
    return best


def recorded(result: Any) -> int:
    """Operations that a define-by-run result remembers: what ``backward`` will walk."""
    seen, stack = set(), [result.grad_fn]
    while stack:
        fn = stack.pop()
        if fn is not None and fn not in seen and not hasattr(fn, "variable"):        # leaves are not operations
            seen.add(fn)
            stack += [before for before, _ in fn.next_functions]
    return len(seen)


def work(graph: Any) -> int:
    """Scalar operations of one run of a graph: 2 per term of a product of matrices, 1 per element otherwise; moves and constants are free."""
    total = 0
    for n in graph.nodes:
        if n.op.name == "matmul":
            x = n.inputs[0].shape
            total += 2 * math.prod(n.shape) * x[-2 if n.attr("transpose_a") else -1]
        elif n.inputs and "move" not in n.op.traits:
            total += max(math.prod(n.shape), *(math.prod(i.shape) for i in n.inputs))
    return total


def llvm_loop(text: str, busy: str) -> tuple[str, list[str]]:
    """(the block with the most operations called ``busy``, those of its lines that its first store needs)."""
    block = max(re.split(r"\n(?=\s*b\d+:)", text), key=lambda b: b.count(busy))
    rows = [row.strip() for row in block.splitlines()]
    chosen = {next(k for k, row in enumerate(rows) if row.startswith("store")), len(rows) - 1}
    defined = {row.split(" = ")[0]: k for k, row in enumerate(rows) if " = " in row}
    waiting = list(chosen)
    while waiting:
        for name in re.findall(r"%v\d+", rows[waiting.pop()]):
            if name in defined and defined[name] not in chosen:
                chosen.add(defined[name])
                waiting.append(defined[name])
    return block, [rows[k] for k in sorted(chosen)]


def asm_loop(text: str) -> list[str]:
    """The longest run of instructions that ends in a jump to its own beginning."""
    rows, best, start = text.splitlines(), [], (0, "")
    for k, row in enumerate(rows):
        label = re.match(r"(\.?\w+):", row)
        if label:
            start = k, label[1]
        elif start[1] and row.split() and row.split()[-1] == start[1] and k - start[0] > len(best):
            best = [" ".join(r.split()) for r in rows[start[0] + 1:k + 1] if not r.strip().startswith(".")]
    return best


def compiled(executable: Any) -> Any:
    """What an executable made for the sizes it ran with: ``graph``, ``program`` and ``native``."""
    return next(iter(executable.variants.values()))


def traffic(executable: Any) -> int:
    """Bytes that the kernels of one run read and write."""
    return sum(int(v.buffer.bytes) for k in compiled(executable).program.kernels for v in (*k.reads, *k.writes))


def _attributes(n: Any) -> list[str]:
    return [f"{k}={v}" if not hasattr(v, "array") else str(v.array.tolist()) for k, v in n.attrs if k not in ("aval", "uid", "keepdims")]


def _matplotlib() -> Any:
    try:
        import matplotlib
    except ImportError:
        return None
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    return plt


def _text_chart(title: str, x: str, y: str, curves: Mapping[str, tuple[Sequence[float], Sequence[float]]], log: str) -> list[str]:
    width, height = 60, 14

    def scale(values: Sequence[float], axis: str, cells: int) -> tuple[Callable[[float], int], float, float]:
        f = math.log10 if axis in log else float
        low, high = min(values), max(values)
        span = (f(high) - f(low)) or 1.0
        return lambda v: round((f(v) - f(low)) / span * (cells - 1)), low, high
    to_column, left, right = scale([v for xs, _ in curves.values() for v in xs], "x", width)
    to_row, bottom, top = scale([v for _, ys in curves.values() for v in ys], "y", height)
    cells = [[" "] * width for _ in range(height)]
    for mark, (xs, ys) in zip(MARKS, curves.values()):
        for a, b in zip(xs, ys):
            cells[height - 1 - to_row(b)][to_column(a)] = mark
    rows = [title]
    for k, row in enumerate(cells):
        label = f"{top:.0e}" if k == 0 else f"{bottom:.0e}" if k == height - 1 else ""
        rows.append(f"{label:>7s} |{''.join(row)}")
    return [*rows, f"{'':8s}+{'-' * width}", f"{'':9s}{left:<10.3g}{x:^40s}{right:>10.3g}",
            f"{'':9s}{y}: " + "   ".join(f"{m} {label}" for m, label in zip(MARKS, curves))]
