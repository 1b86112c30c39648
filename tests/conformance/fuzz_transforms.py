"""Random programs as functions: batching against a loop over lanes, forward against reverse mode, and checkpoints, which change no bit.

    python tests/conformance/fuzz_transforms.py [--first SEED] [--count N]

The programs are those of ``fuzz.py`` in float64. Prints ``passed P of N`` last.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from fuzz import Program, different, main

import staticgraph as sg

LANES = 3


class Recorded(Program):
    """The program with values for its feeds: given ones for floats (the first time through, drawn ones), constants for integers."""

    def __init__(self, seed: int, steps: int, given: Any = None) -> None:
        self.given = None if given is None else iter(given)
        self.drawn: list[np.ndarray[Any, Any]] = []
        super().__init__(seed, steps)

    def feed(self, shape: list[int], dtype: Any = None) -> Any:
        dtype = np.dtype(dtype or self.rng.choice(("f8", "f8", "f8", "i4")))
        if dtype.kind != "f":
            return self.add(sg.constant(self.numbers.integers(-9, 10, shape).astype(dtype)), f"constant {dtype.name}{shape}")
        value = self.numbers.uniform(-2, 2, shape)
        if self.given is None:
            self.drawn.append(value)
            return self.add(sg.constant(value), f"feed {shape}")
        return self.add(next(self.given), f"feed {shape}")

    def typed(self) -> None:
        """Floats of one width only."""

    def floats(self) -> list[Any]:
        """The last float values."""
        return [y for y in self.pool[-4:] if y.dtype.is_floating]


def check(seed: int, steps: int) -> list[str]:
    """Faults of one program."""
    with sg.Graph().as_default():
        first = Recorded(seed, steps)
        if not first.floats() or not first.drawn:
            return []
    numbers = np.random.default_rng(seed)

    def f(*xs: Any) -> list[Any]:
        return Recorded(seed, steps, xs).floats()
    primals = first.drawn
    bad: list[str] = []
    try:
        values = [np.asarray(v) for v in sg.function(f)(*primals)]
        lanes = [[p + 0.1 * numbers.standard_normal(p.shape) for p in primals] for _ in range(LANES)]
        alone = [sg.function(f)(*lane) for lane in lanes]
        together = sg.vmap(f)(*[np.stack(of) for of in zip(*lanes)])
        for k, got in enumerate(together):
            bad += _said(f"vmap, result {k}", np.asarray(got), np.stack([np.asarray(a[k]) for a in alone]))
        tangents = [numbers.standard_normal(p.shape) for p in primals]
        weights = [numbers.standard_normal(v.shape) for v in values]
        _, moved = sg.jvp(f, primals, tangents)
        pulled = sg.vjp(f, *primals)[1](weights)
        forward, backward = ([sum(float(np.sum(np.asarray(p) * q)) for p, q in zip(a, c))] for a, c in ((moved, weights), (pulled, tangents)))
        size = sum(float(np.sum(np.abs(np.asarray(p) * q))) for p, q in zip(moved, weights)) + sum(float(np.sum(np.abs(np.asarray(p) * q))) for p, q in zip(pulled, tangents))
        if not np.isclose(forward[0], backward[0], rtol=1e-7, atol=1e-9 * (1 + size)) and np.isfinite(size):
            bad.append(f"forward {forward[0]!r}, reverse {backward[0]!r}")

        def loss(*xs: Any) -> Any:
            return sum(sg.reduce_sum(sg.tanh(0.1 * y)) for y in f(*xs))
        every = tuple(range(len(primals)))
        plain, again = (sg.grad(g, every)(*primals) for g in (loss, sg.checkpoint(loss)))
        bad += [f"checkpoint, gradient {k}: not the bits of the plain one" for k, (p, q) in enumerate(zip(plain, again))
                if not np.array_equal(np.asarray(p), np.asarray(q), equal_nan=True)]
        batched = sg.vmap(sg.grad(loss, every))(*[np.stack(of) for of in zip(*lanes)])
        singly = [sg.grad(loss, every)(*lane) for lane in lanes]
        for k, got in enumerate(batched):
            bad += _said(f"vmap of grad, result {k}", np.asarray(got), np.stack([np.asarray(a[k]) for a in singly]))
    except Exception as error:
        bad.append(f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}")
    return [*bad, *first.text] if bad else []


def _said(what: str, got: np.ndarray[Any, Any], want: np.ndarray[Any, Any]) -> list[str]:
    text = different(got, want, float(np.finfo("f8").eps), 1.0)
    return [f"{what}: {text}"] if text else []


if __name__ == "__main__":
    sys.exit(main(check, __doc__))
