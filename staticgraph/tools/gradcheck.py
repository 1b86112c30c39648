"""``check_gradients``: numerical against reverse against forward, with a readable report."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..errors import NotDifferentiableError
from ..functional import Function, push, vjp
from ..surface import nest

Array = np.ndarray[Any, Any]
_ELEMENTS = 400                              # how many single elements are looked at to name the worst


@dataclass
class Direction:
    """The derivative along one random direction, three ways. ``kink`` is the difference of the slopes on both sides, where it does not shrink with the step."""

    numerical: float
    reverse: float
    forward: float | None                    # None: there is no forward rule (custom_gradient)
    kink: float
    noise: float                             # what rounding alone can do to the differences


@dataclass
class GradientReport:
    """True where all agree. ``worst`` is the largest relative difference; ``rows`` are the directions; ``notes`` say where it fails."""

    ok: bool
    worst: float
    rows: list[Direction]
    rtol: float
    notes: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        return self.ok

    def __str__(self) -> str:
        lines = [f"gradients {'agree' if self.ok else 'DISAGREE'}: worst relative difference {self.worst:.2e} (allowed {self.rtol:.0e})",
                 f"{'direction':>9s} {'numerical':>16s} {'reverse':>16s} {'forward':>16s}"]
        lines += [f"{k:9d} {d.numerical:16.9g} {d.reverse:16.9g} {'no rule' if d.forward is None else format(d.forward, '.9g'):>16s}" for k, d in enumerate(self.rows)]
        return "\n".join([*lines, *self.notes])


def check_gradients(fn: Callable[..., Any], *args: Any, directions: int = 3, step: float | None = None, rtol: float = 1e-5, seed: int = 0) -> GradientReport:
    """Compare derivatives of ``fn`` along random directions: central differences, reverse mode and forward mode.

    Float arguments are taken as float64, others are held. The step is the cube root of the result's precision (6e-6 in float64), unless given.
    ``fn`` may return a nest of tensors: the float ones are weighted by fixed random numbers and summed. Differences are taken with two step
    sizes and extrapolated (Richardson). Where gradients disagree the report names the argument and the element that is worst, and says so where
    the slopes of the two sides differ: the function is not smooth there.

    TypeError without a float argument or result; ValueError where ``fn`` gives different values for equal arguments (random numbers).
    """
    arrays = [np.asarray(a, np.float64) if np.asarray(a).dtype.kind == "f" else np.asarray(a) for a in args]
    moving = [k for k, a in enumerate(arrays) if a.dtype.kind == "f"]
    if not moving:
        raise TypeError("check_gradients needs an argument of a float type")

    def floats(*xs: Any) -> list[Any]:
        return [t for t in nest.flatten(fn(*xs)) if _is_float(t)]
    value = Function(floats)
    base = [np.asarray(v) for v in value(*arrays)]
    if not base:
        raise TypeError("check_gradients needs a result of a float type")
    if any(not np.array_equal(a, np.asarray(b), equal_nan=True) for a, b in zip(base, value(*arrays))):
        raise ValueError("check_gradients: the function gives different values for the same arguments; draw its random numbers outside and pass them")
    rng = np.random.default_rng(seed)
    weights = [rng.normal(size=v.shape).astype(v.dtype) for v in base]

    def total(xs: Sequence[Array]) -> float:
        return math.fsum(float((np.asarray(v) * w).sum()) for v, w in zip(value(*xs), weights))

    def along(ds: Sequence[Array], scale: float) -> tuple[float, float, float]:
        """(derivative, kink, rounding)"""
        def moved(t: float) -> list[Array]:
            out = list(arrays)
            for k, d in zip(moving, ds):
                out[k] = arrays[k] + t * d
            return out
        h = (step or eps ** (1 / 3)) * scale
        ups, downs = [total(moved(t)) for t in (h, h / 2)], [total(moved(-t)) for t in (h, h / 2)]
        whole, half = (ups[0] - downs[0]) / (2 * h), (ups[1] - downs[1]) / h
        bends = [abs(ups[0] + downs[0] - 2 * here) / h, abs(ups[1] + downs[1] - 2 * here) / (h / 2)]       # of a smooth function the second is half of the first
        rounding = eps * sum(float(np.abs(np.asarray(v) * w).sum()) for v, w in zip(base, weights)) / h
        return (4 * half - whole) / 3, bends[1] if bends[1] > 0.75 * bends[0] else 0.0, 30 * rounding
    here, eps = total(arrays), max(float(np.finfo(v.dtype).eps) for v in base)
    gradients = [np.asarray(g) for k, g in enumerate(vjp(floats, *arrays)[1](weights)) if k in moving]
    forward: Any = Function(lambda *a: push(floats, a[:len(arrays)], a[len(arrays):])[1])
    scale = max(1.0, *(float(np.abs(arrays[k]).max(initial=0)) for k in moving))
    rows = []
    for _ in range(directions):
        ds = [rng.normal(size=arrays[k].shape) for k in moving]
        numerical, kink, noise = along(ds, scale)
        tangents = [np.zeros(a.shape, a.dtype) for a in arrays]
        for k, d in zip(moving, ds):
            tangents[k] = d
        try:
            pushed: float | None = math.fsum(float((np.asarray(t) * w).sum()) for t, w in zip(forward(*arrays, *tangents), weights))
        except NotDifferentiableError:       # custom gradients have a reverse rule only
            pushed = None
        rows.append(Direction(numerical, math.fsum(float((g * d).sum()) for g, d in zip(gradients, ds)), pushed, kink, noise))
    report = _judge(rows, rtol)
    if not report.ok:
        report.notes += _where(arrays, moving, gradients, lambda ds: along(ds, scale))
    return report


def _is_float(t: Any) -> bool:
    kind = getattr(t, "dtype", None)
    return isinstance(t, float) or (kind is not None and bool(getattr(kind, "is_floating", getattr(kind, "kind", "") == "f")))


def _judge(rows: Sequence[Direction], rtol: float) -> GradientReport:
    worst, smooth = 0.0, True
    for d in rows:
        values = [d.numerical, d.reverse, *([] if d.forward is None else [d.forward])]
        if not all(map(math.isfinite, values)):
            worst = math.inf
            continue
        size = max(map(abs, values))
        smooth &= d.kink <= 100 * (rtol * size + d.noise)
        worst = max(worst, *(max(0.0, abs(v - d.reverse) - d.noise * (v is d.numerical)) / max(size, 1e-300) for v in values))
    notes = [] if smooth or worst <= rtol else ["NOT SMOOTH: the slopes on both sides differ, so a kink or a jump is near; move the arguments away from it"]
    if math.isinf(worst):
        notes.append("a derivative is not finite")
    return GradientReport(worst <= rtol, worst, list(rows), rtol, notes)


def _where(arrays: Sequence[Array], moving: Sequence[int], gradients: Sequence[Array], along: Callable[[Sequence[Array]], tuple[float, float, float]]) -> list[str]:
    """The element whose gradient differs most from its difference."""
    found: tuple[float, str] = (-1.0, "")
    looked, total = 0, sum(arrays[k].size for k in moving)
    for j, k in enumerate(moving):
        for at in np.ndindex(arrays[k].shape):
            if looked == _ELEMENTS:
                break
            looked += 1
            ds = [np.zeros(arrays[m].shape) for m in moving]
            ds[j][at] = 1
            numerical, reverse = along(ds)[0], float(gradients[j][at])
            off = abs(numerical - reverse) if math.isfinite(numerical - reverse) else math.inf
            if off > found[0]:
                place = f"[{', '.join(map(str, at))}]" if at else ""
                found = off, f"worst: argument {k}{place}: numerical {numerical:.9g}, reverse {reverse:.9g}"
    return [found[1]] + ([f"(of the first {looked} of {total} elements)"] if looked < total else [])
