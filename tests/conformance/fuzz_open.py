"""Random programs whose sizes are open: each compiled once and run at several sizes, against the graph as written, interpreted with NumPy.

    python tests/conformance/fuzz_open.py [--first SEED] [--count N]

Placeholders are ``[None, ...]``; no step looks at a size. Gradients are among the results. Prints ``passed P of N`` last.
"""

from __future__ import annotations

import random
import sys
from typing import Any

import numpy as np
from fuzz import compared, main

import staticgraph as sg

SIZES = ({"n": 3, "m": 5, "k": 2}, {"n": 17, "m": 8, "k": 33}, {"n": 1, "m": 1, "k": 1}, {"n": 70, "m": 1, "k": 4}, {"n": 2, "m": 0, "k": 3}, {"n": 16, "m": 130, "k": 64})


class OpenProgram:
    """One random program; a value is known with the letters of its axes."""

    def __init__(self, seed: int, steps: int) -> None:
        self.rng = random.Random(seed)
        self.numbers = np.random.default_rng(seed)
        self.inputs: list[tuple[Any, str]] = []
        self.pool: list[tuple[Any, str]] = []
        self.text: list[str] = []
        self.dtype = self.rng.choice(("float32", "float64"))
        for axes in self.rng.sample(["nm", "mk", "n", "m", "knm", "nk", ""], self.rng.randint(2, 4)):
            x = sg.placeholder(self.dtype, [None] * len(axes))
            self.inputs.append((x, axes))
            self.add(x, axes, "feed")
        for _ in range(self.rng.randint(3, steps)):
            self.rng.choice([self.unary, self.unary, self.binary, self.binary, self.binary, self.product, self.product, self.reduction, self.reduction, self.turned,
                             self.window, self.joined, self.reshaped, self.row_wise, self.picked, self.branch, self.loop])()

    def add(self, y: Any, axes: str, what: str) -> None:
        self.pool.append((y, axes))
        self.text.append(f"{len(self.pool) - 1}: {what} -> {axes or 'scalar'}")

    def pick(self, at_least: int = 0) -> tuple[Any, str, int]:
        """A value of that rank, its axes and its number."""
        fitting = [k for k, (_, axes) in enumerate(self.pool) if len(axes) >= at_least]
        k = self.rng.choice(fitting[-5:]) if fitting else -1
        return (*self.pool[k], k) if fitting else (None, "", -1)

    def unary(self) -> None:
        x, axes, k = self.pick()
        f = self.rng.choice([sg.tanh, sg.sin, sg.sigmoid, sg.square, sg.nn.relu, sg.nn.softplus, sg.negative, lambda v: sg.exp(-sg.abs(v)), lambda v: v * 0.5 + 1.0])
        self.add(f(x), axes, f"{getattr(f, '__name__', 'f')} {k}")

    def binary(self) -> None:
        x, axes, k = self.pick()
        fitting = [j for j, (_, other) in enumerate(self.pool) if axes.endswith(other) or other.endswith(axes)]
        j = self.rng.choice(fitting)
        f = self.rng.choice([sg.add, sg.subtract, sg.multiply, sg.maximum, lambda a, c: a / (1.0 + sg.square(c)), sg.squared_difference])
        self.add(f(x, self.pool[j][0]), max(axes, self.pool[j][1], key=len), f"{getattr(f, '__name__', 'f')} {k} {j}")

    def product(self) -> None:
        x, axes, k = self.pick(2)
        if x is None:
            return
        options = [(j, t) for j, (_, other) in enumerate(self.pool) if len(other) >= 2 for t in (False, True)
                   if (other[-1] if t else other[-2]) == axes[-1] and (other[:-2] == axes[:-2] or len(other) == 2)]
        if options:
            j, t = self.rng.choice(options)
            y, other = self.pool[j]
            self.add(sg.matmul(x, y, transpose_b=t) * 0.25, axes[:-1] + (other[-2] if t else other[-1]), f"matmul {k} {j}{'T' * t}")

    def reduction(self) -> None:
        x, axes, k = self.pick(1)
        if x is None:
            return
        at = self.rng.randrange(len(axes))
        keep = self.rng.random() < 0.5
        y = self.rng.choice([sg.reduce_sum, sg.reduce_sum, sg.reduce_logsumexp if "m" not in axes else sg.reduce_sum])(x, axis=at, keepdims=keep)
        y = x - y if keep else y
        self.add(y, axes if keep else axes[:at] + axes[at + 1:], f"reduce {k} axis {at}{' kept' * keep}")

    def turned(self) -> None:
        x, axes, k = self.pick(2)
        if x is not None:
            order = self.rng.sample(range(len(axes)), len(axes))
            self.add(sg.transpose(x, order), "".join(axes[p] for p in order), f"transpose {k} {order}")

    def window(self) -> None:
        """Slices that are padded back, or reversed."""
        x, axes, k = self.pick(1)
        if x is None:
            return
        at = self.rng.randrange(len(axes))
        part = [slice(None)] * len(axes)
        pads = [[0, 0]] * len(axes)
        kind = self.rng.randrange(3)
        if kind == 0:
            y = sg.reverse(x, [at])
        elif kind == 1:
            y = sg.concat([x, x[(*part[:at], slice(0, 1), *part[at + 1:])]], at)
            y = y[(*part[:at], slice(0, -1), *part[at + 1:])] if "m" not in axes else sg.reverse(x, [at])
        else:
            y = sg.pad(x, [*pads[:at], [2, 0], *pads[at + 1:]])[(*part[:at], slice(2, None), *part[at + 1:])]
        self.add(y, axes, f"window {kind} {k} axis {at}")

    def joined(self) -> None:
        x, axes, k = self.pick(1)
        if x is None:
            return
        j = self.rng.choice([j for j, (_, other) in enumerate(self.pool) if other == axes])
        at = self.rng.randrange(len(axes))
        y = sg.concat([x, self.pool[j][0]], at) if self.rng.random() < 0.6 else sg.stack([x, self.pool[j][0]], at)
        self.add(sg.reduce_sum(y, axis=at), axes[:at] + axes[at + 1:], f"join {k} {j} axis {at}") if y.shape.ndims == len(axes) else self.add(
            sg.reduce_sum(sg.tanh(y), axis=at), axes, f"stack {k} {j} axis {at}")

    def reshaped(self) -> None:
        x, axes, k = self.pick(2)
        if x is None:
            return
        flat = sg.reshape(x, [-1]) if self.rng.random() < 0.5 else sg.reshape(x, [sg.size(x)])
        y = sg.reshape(sg.cumsum(flat) if self.rng.random() < 0.3 else sg.sin(flat), sg.shape(x))
        self.add(y, axes, f"through a line {k}")

    def row_wise(self) -> None:
        x, axes, k = self.pick(1)
        if x is None:
            return
        at = self.rng.randrange(len(axes))
        f = self.rng.choice([lambda v: sg.cumsum(v, at), lambda v: sg.cumsum(v, at, reverse=True, exclusive=True), lambda v: sg.nn.softmax(v, axis=at),
                             lambda v: (v - sg.reduce_mean(v, axis=at, keepdims=True)) * 0.7])
        self.add(f(x), axes, f"along axis {at} of {k}")

    def picked(self) -> None:
        x, axes, k = self.pick(1)
        if x is None or "m" in axes:
            return
        at = self.rng.randrange(len(axes))
        rows = sg.gather(x, sg.constant([0, -1 + 1, 0]), axis=at)
        self.add(sg.reduce_sum(rows, axis=at) + sg.reduce_max(x, axis=at), axes[:at] + axes[at + 1:], f"rows of {k} axis {at}")

    def branch(self) -> None:
        x, axes, k = self.pick()
        self.add(sg.cond(sg.reduce_sum(x) > 0.37, lambda: sg.tanh(x), lambda: x * 2.0), axes, f"cond {k}")

    def loop(self) -> None:
        x, axes, k = self.pick()
        y = sg.while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, sg.sin(v) * 0.5 + x), (sg.constant(0), x))[1]
        self.add(y, axes, f"loop {k}")

    def results(self) -> list[Any]:
        """The last values, and gradients of a sum of them."""
        out = [y for y, _ in self.pool[-3:]]
        found = sg.gradients([sg.reduce_sum(sg.tanh(0.1 * y)) for y in out], [x for x, _ in self.inputs])
        return [*out, *[sg.convert_to_tensor(g) for g in found if g is not None]]

    def feeds_at(self, sizes: dict[str, int]) -> list[np.ndarray[Any, Any]]:
        """Arrays for the placeholders."""
        return [self.numbers.uniform(-2, 2, [sizes[a] for a in axes]).astype(self.dtype) for _, axes in self.inputs]


def check(seed: int, steps: int) -> list[str]:
    """Faults of one program."""
    with sg.Graph().as_default():
        program = OpenProgram(seed, steps)
        values = [program.feeds_at(sizes) for sizes in SIZES]
        bad = compared(program.results(), [x for x, _ in program.inputs], values, np.finfo(program.dtype).eps)
    return [*bad, *program.text] if bad else []


if __name__ == "__main__":
    sys.exit(main(check, __doc__))
