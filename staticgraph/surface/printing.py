"""Values as TF1 prints them: the summaries of ``Print`` and ``Assert``, and those of ``print``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def element(value: Any, quoted: bool = False) -> str:
    """One element: floats with 6 digits (15 for float64), or as many more as tell it apart; bools as 0 and 1 in summaries."""
    if isinstance(value, (bytes, str)):
        text = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
        return f'"{text}"' if quoted else text
    if isinstance(value, (bool, np.bool_)):
        return str(int(value))
    if isinstance(value, (float, np.floating)):
        few, more = (15, 17) if isinstance(value, float) else (6, 9)
        text = f"{float(value):.{few}g}"
        return text if type(value)(text) == value or value != value else f"{float(value):.{more}g}"
    return str(value)


def summary(array: Any, count: int) -> str:
    """The first ``count`` elements, rows in brackets, ``...`` for the rest (negative: all): ``[1 2][3...]...``."""
    a = np.asarray(array)
    count = a.size if count < 0 else count
    if a.ndim == 0:
        return element(a[()]) if count else "..."
    return _first(a, count, True)[0] + ("..." if a.size > count else "")


def _first(a: Any, left: int, outermost: bool) -> tuple[str, int]:
    if a.ndim == 1:
        shown = " ".join(element(v) for v in a[:left])
        return shown + ("..." if len(a) > left and not outermost else ""), max(0, left - len(a))
    parts = []
    for row in a:
        if left <= 0:
            break
        text, left = _first(row, left, False)
        parts.append(f"[{text}]")
    return "".join(parts), left


def ends(array: Any, count: int) -> str:
    """The first and last ``count`` of each axis, as ``print`` shows them (negative: all): ``[0 1 2 ... 7 8 9]``."""
    a = np.asarray(array)
    return _ends(a, max(a.shape, default=0) if count < 0 else count, 0, a.ndim, lambda v: element(v, True))


def _ends(a: Any, count: int, axis: int, rank: int, show: Callable[[Any], str]) -> str:
    if a.ndim == 0:
        return show(a[()])
    gap = " " if axis == rank - 1 else "\n" * (rank - axis - 1) + " " * (axis + 1)
    long = len(a) > 2 * count
    rows = [*a[:count], *a[len(a) - count:]] if long else list(a)
    texts = [_ends(r, count, axis + 1, rank, show) for r in map(np.asarray, rows)]
    if long:
        texts.insert(count, "...")
    return "[" + gap.join(texts) + "]"
