"""NumPy's accuracy tables against our own functions: every row within its ulp limit, both dtypes.

    python tests/conformance/umath.py

Reads the tables that ship inside the NumPy wheel. Prints ``passed P of N`` last.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np

import staticgraph as sg

NAMES = {"arcsin": "asin", "arccos": "acos", "arctan": "atan", "arcsinh": "asinh", "arccosh": "acosh", "arctanh": "atanh"}


def tables():
    """(function, dtype, inputs, expected, ulp limits) of each table."""
    folder = Path(np.__file__).parent / "_core" / "tests" / "data"
    for path in sorted(folder.glob("umath-validation-set-*.csv")):
        name = path.stem[len("umath-validation-set-"):]
        rows = [line.strip().split(",") for line in path.read_text().splitlines() if line.startswith("np.")]
        for label, raw, kind in (("np.float32", np.uint32, np.float32), ("np.float64", np.uint64, np.float64)):
            chosen = [r for r in rows if r[0] == label]
            if chosen:
                bits = [np.array([int(r[k], 16) for r in chosen], raw).view(kind) for k in (1, 2)]
                yield name, kind, bits[0], bits[1], np.array([int(r[3]) for r in chosen])


def misses(got, want, ulps):
    """Rows that are off by more than their limit."""
    with np.errstate(all="ignore"):
        unit = np.spacing(np.abs(want)).astype(np.longdouble)
        near = np.abs(got.astype(np.longdouble) - want.astype(np.longdouble)) <= ulps * unit
    return ~np.where(np.isnan(want), np.isnan(got), (got == want) | near)


def main() -> int:
    """Run all tables whose function exists."""
    total = bad = 0
    for name, kind, x, want, ulps in tables():
        ours = NAMES.get(name, name)
        try:
            f = getattr(sg, ours)
        except AttributeError:
            print(f"{name:10s} {kind.__name__}: no such function here")
            continue
        missed = misses(sg.function(lambda v, f=f: f(v))(x), want, ulps)
        total += len(x)
        bad += int(missed.sum())
        print(f"{name:10s} {kind.__name__}: rows {len(x):5d} misses {int(missed.sum())}" + (f"  first at {x[missed][0]!r}" if missed.any() else ""))
    print(f"passed {total - bad} of {total}")
    return int(bad > 0)


if __name__ == "__main__":
    os.environ.setdefault("SG_CACHE", "0")
    sys.exit(main())
