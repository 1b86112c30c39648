"""``check_gradients``: numerical against reverse against forward, with a readable report."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import NotDifferentiableError
from ..functional import Function, grad, jvp


@dataclass
class GradientReport:
    """True where all three agree. ``worst`` is the largest relative difference; ``rows`` give each direction's three values."""

    ok: bool
    worst: float
    rows: list[tuple[int, float, float, float]]
    rtol: float

    def __bool__(self) -> bool:
        return self.ok

    def __str__(self) -> str:
        lines = [f"gradients {'agree' if self.ok else 'DISAGREE'}: worst relative difference {self.worst:.2e} (allowed {self.rtol:.0e})",
                 f"{'direction':>9s} {'numerical':>16s} {'reverse':>16s} {'forward':>16s}"]
        lines += [f"{k:9d} {n:16.9g} {r:16.9g} {f:16.9g}" for k, n, r, f in self.rows]
        return "\n".join(lines)


def check_gradients(fn: Callable[..., Any], *args: Any, directions: int = 3, step: float = 1e-5, rtol: float = 1e-5, seed: int = 0) -> GradientReport:
    """Compare derivatives of ``fn`` along random directions: central differences, reverse mode and forward mode.

    Float arguments are taken as float64. A result that is not a scalar is weighted by fixed random numbers and summed.
    """
    arrays = [np.asarray(a, np.float64) if np.asarray(a).dtype.kind == "f" else np.asarray(a) for a in args]
    moving = [k for k, a in enumerate(arrays) if a.dtype.kind == "f"]
    rng = np.random.default_rng(seed)
    sample = np.asarray(Function(fn)(*arrays))
    weights = rng.normal(size=sample.shape)

    def scalar(*xs: Any) -> Any:
        from .. import reduce_sum
        return reduce_sum(fn(*xs) * weights)
    value, by_all = Function(scalar), grad(scalar, tuple(moving))
    gradients = by_all(*arrays)
    rows, worst = [], 0.0
    for d in range(directions):
        ds = [rng.normal(size=arrays[k].shape) for k in moving]

        def at(t: float, ds: Any = ds) -> float:
            moved = list(arrays)
            for k, direction in zip(moving, ds):
                moved[k] = arrays[k] + t * direction
            return float(value(*moved))
        numerical = (at(step) - at(-step)) / (2 * step)
        reverse = float(sum((g * direction).sum() for g, direction in zip(gradients, ds)))
        tangents = [np.zeros_like(a) for a in arrays]
        for k, direction in zip(moving, ds):
            tangents[k] = direction
        try:
            forward = float(jvp(scalar, tuple(arrays), tuple(tangents))[1])
        except NotDifferentiableError:       # custom gradients have a reverse rule only
            forward = reverse
        scale = max(abs(numerical), abs(reverse), 1e-3)
        worst = max(worst, abs(numerical - reverse) / scale, abs(forward - reverse) / scale)
        rows.append((d, numerical, reverse, forward))
    return GradientReport(bool(worst <= rtol), worst, rows, rtol)
