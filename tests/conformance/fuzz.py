"""Random programs: compiled at each level, with one thread and with two, against the graph as written, interpreted with NumPy.

    python tests/conformance/fuzz.py [--first SEED] [--count N] [--size N]

A program draws on shapes of any rank (empty axes, single elements, lengths around a vector, rows that are split into tasks), floats of both widths
and integers, broadcasting, views of operands, products, reductions, indexing, branches and loops; its gradients, and sometimes second ones, are
among the results. A failing seed prints its program. Prints ``passed P of N`` last.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

import staticgraph as sg
from staticgraph.compile import compile_graph
from staticgraph.runtime.state import StateStore

LENGTHS = (1, 1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 33, 64, 70)
RARE = (0, 130, 600, 4100)
WHOLE = 60000                                # elements of one value at most


class Program:
    """One random program, built in the default graph; ``text`` tells its steps."""

    def __init__(self, seed: int, steps: int) -> None:
        self.rng = random.Random(seed)
        self.numbers = np.random.default_rng(seed)
        self.feeds: dict[Any, np.ndarray[Any, Any]] = {}
        self.pool: list[Any] = []
        self.text: list[str] = []
        for _ in range(self.rng.randint(1, 3)):
            self.feed(self.shape())
        for _ in range(self.rng.randint(2, steps)):
            self.step()

    # ---- operands --------------------------------------------------------------------------------------------------------------

    def length(self) -> int:
        return self.rng.choice(RARE if self.rng.random() < 0.05 else LENGTHS)

    def shape(self) -> list[int]:
        while True:
            shape = [self.length() for _ in range(self.rng.choice((0, 1, 1, 2, 2, 2, 3, 3, 4)))]
            if np.prod(shape) <= WHOLE:
                return shape

    def feed(self, shape: list[int], dtype: Any = None) -> Any:
        """A new placeholder with values."""
        dtype = np.dtype(dtype or self.rng.choice(("f4", "f8", "f8", "i4", "i8")))
        value = self.numbers.uniform(-2, 2, shape).astype(dtype) if dtype.kind == "f" else self.numbers.integers(-9, 10, shape).astype(dtype)
        x = sg.placeholder(dtype, shape)
        self.feeds[x] = value
        return self.add(x, f"feed {dtype.name}{shape}")

    def add(self, y: Any, what: str) -> Any:
        """Enter a value."""
        if np.prod(sizes(y)) <= WHOLE and len(sizes(y)) <= 5:
            self.pool.append(y)
            self.text.append(f"{len(self.pool) - 1}: {what} -> {y.dtype.name}{sizes(y)}")
        return y

    def pick(self, good: Callable[[Any], bool] = lambda x: True) -> Any:
        """A value made before, the latest more often."""
        fitting = [x for x in self.pool if good(x)]
        return None if not fitting else fitting[-1 - min(int(self.rng.expovariate(0.4)), len(fitting) - 1)]

    def name(self, x: Any) -> int:
        return next((k for k, y in enumerate(self.pool) if y is x), -1)

    def partner(self, x: Any) -> Any:
        """A value that broadcasts against ``x``, of its dtype."""
        fitting = [y for y in self.pool if y.dtype == x.dtype and fits(sizes(x), sizes(y))]
        if fitting and self.rng.random() < 0.7:
            return self.rng.choice(fitting)
        keep = self.rng.randint(0, len(sizes(x)))
        return self.feed([1 if self.rng.random() < 0.3 else n for n in sizes(x)[keep:]], x.dtype.as_numpy_dtype)

    # ---- steps -------------------------------------------------------------------------------------------------------------------

    def step(self) -> None:
        """One more value."""
        kinds = [self.unary] * 3 + [self.binary] * 4 + [self.view] * 4 + [self.reduction] * 2 + [self.product] * 2 + [
            self.joined, self.indexed, self.choice, self.scanned, self.ordered, self.branch, self.loop, self.normal, self.typed]
        self.rng.choice(kinds)()

    def unary(self) -> None:
        x = self.pick()
        if x.dtype.is_floating:
            f = self.rng.choice([sg.tanh, sg.sin, sg.cos, sg.sigmoid, sg.abs, sg.negative, sg.square, sg.nn.relu, sg.nn.softplus, sg.atan, sg.erf, sg.floor,
                                 sg.nn.gelu, lambda v: sg.exp(-sg.abs(v)), lambda v: sg.log1p(sg.abs(v)), lambda v: sg.sqrt(sg.abs(v) + 0.5), sg.stop_gradient])
        else:
            f = self.rng.choice([sg.negative, sg.abs, sg.square, sg.sign, sg.invert])
        self.add(f(x), f"unary {getattr(f, '__name__', '')} {self.name(x)}")

    def binary(self) -> None:
        x = self.pick()
        y = self.partner(x)
        if self.rng.random() < 0.5:
            x, y = y, x
        floats = [sg.add, sg.subtract, sg.multiply, sg.maximum, sg.minimum, sg.squared_difference, sg.atan2, lambda a, c: a / (1.0 + sg.square(c)),
                  lambda a, c: sg.pow(sg.abs(a) + 0.5, sg.tanh(c))]
        whole = [sg.add, sg.subtract, sg.multiply, sg.maximum, sg.minimum, sg.bitwise_and, sg.bitwise_xor, lambda a, c: sg.floordiv(a, sg.abs(c) + 1),
                 lambda a, c: sg.floormod(a, sg.abs(c) + 1), lambda a, c: sg.pow(a, sg.bitwise_and(c, 3)), lambda a, c: sg.left_shift(a, sg.bitwise_and(c, 7))]
        f = self.rng.choice(floats if x.dtype.is_floating else whole)
        self.add(f(x, y), f"binary {getattr(f, '__name__', '')} {self.name(x)} {self.name(y)}")

    def view(self) -> None:
        x = self.pick()
        shape = sizes(x)
        kind = self.rng.randrange(8)
        if kind == 0:
            y = sg.transpose(x, self.rng.sample(range(len(shape)), len(shape)))
        elif kind == 1:
            y = sg.reshape(x, self.factors(int(np.prod(shape))))
        elif kind == 2 and shape:
            y = x[tuple(self.part(n) for n in shape)]
        elif kind == 3:
            y = sg.broadcast_to(x, [self.length() if n == 1 and self.rng.random() < 0.7 else n for n in [*([1] * self.rng.randint(0, 2)), *shape]])
        elif kind == 4:
            y = sg.expand_dims(x, self.rng.randint(0, len(shape)))
        elif kind == 5 and shape:
            y = sg.reverse(x, self.rng.sample(range(len(shape)), self.rng.randint(1, len(shape))))
        elif kind == 6 and shape and 0 not in shape:
            y = sg.tile(x, [self.rng.choice((1, 1, 2, 3)) for _ in shape])
        elif shape:
            y = sg.pad(x, [[self.rng.randint(0, 2), self.rng.randint(0, 2)] for _ in shape])
        else:
            return
        self.add(y, f"view {kind} {self.name(x)}")

    def part(self, n: int) -> Any:
        """An index of an axis."""
        if n == 0 or self.rng.random() < 0.3:
            return slice(None)
        if self.rng.random() < 0.25:
            return self.rng.randrange(-n, n)
        a, c = sorted((self.rng.randint(0, n), self.rng.randint(0, n)))
        return slice(a, c, self.rng.choice((1, 1, 2, 3))) if self.rng.random() < 0.7 else slice(None, None, self.rng.choice((-1, -2)))

    def factors(self, n: int) -> list[int]:
        """A shape of ``n`` elements."""
        out = []
        for p in (2, 3, 5, 2, 7):
            if n % p == 0 and n > 0 and self.rng.random() < 0.6:
                out.append(p)
                n //= p
        return self.rng.sample([*out, n], len(out) + 1)

    def reduction(self) -> None:
        x = self.pick()
        rank = len(sizes(x))
        axes = None if self.rng.random() < 0.3 else sorted(self.rng.sample(range(rank), self.rng.randint(0, rank)))
        chosen = sizes(x) if axes is None else [sizes(x)[k] for k in axes]
        fs = [sg.reduce_sum]
        if 0 not in chosen:
            fs += [sg.reduce_max, sg.reduce_min]
            if x.dtype.is_floating:
                fs += [sg.reduce_mean, sg.reduce_logsumexp]
        f = self.rng.choice(fs)
        self.add(f(x, axis=axes, keepdims=self.rng.random() < 0.4), f"reduce {f.__name__} {self.name(x)} over {axes}")

    def product(self) -> None:
        x = self.pick(lambda v: v.dtype.is_floating and len(sizes(v)) >= 2)
        if x is None:
            return
        ta, tb = self.rng.random() < 0.3, self.rng.random() < 0.3
        k, m = sizes(x)[-2:] if ta else sizes(x)[:-3:-1]
        fitting = [y for y in self.pool if y.dtype == x.dtype and len(sizes(y)) >= 2 and sizes(y)[-1 if tb else -2] == k and fits(sizes(x)[:-2], sizes(y)[:-2])]
        y = self.rng.choice(fitting) if fitting and self.rng.random() < 0.6 else self.feed([self.length(), k] if tb else [k, self.length()], x.dtype.as_numpy_dtype)
        if m * sizes(y)[-2 if tb else -1] * k > 4e6:
            return
        self.add(sg.matmul(x, y, transpose_a=ta, transpose_b=tb) * 0.25, f"matmul {self.name(x)}{'T' * ta} {self.name(y)}{'T' * tb}")

    def joined(self) -> None:
        x = self.pick(lambda v: len(sizes(v)) >= 1)
        if x is None:
            return
        others = [y for y in self.pool if y.dtype == x.dtype and sizes(y) == sizes(x)]
        parts = [x, *self.rng.sample(others, min(2, len(others)))]
        axis = self.rng.randrange(len(sizes(x)))
        f = self.rng.choice((sg.concat, sg.stack))
        self.add(f(parts, axis), f"{f.__name__} {[self.name(p) for p in parts]} axis {axis}")

    def indexed(self) -> None:
        x = self.pick(lambda v: len(sizes(v)) >= 1 and 0 not in sizes(v))
        if x is None:
            return
        axis = self.rng.randrange(len(sizes(x)))
        n, count = sizes(x)[axis], self.rng.choice((1, 3, 8, 17))
        at = sg.constant(self.numbers.integers(0, n, count).astype("i4"))
        self.add(sg.gather(x, at, axis=axis), f"gather {self.name(x)} axis {axis}")
        if axis == 0 and self.rng.random() < 0.5:
            self.add(sg.unsorted_segment_sum(self.pool[-1], sg.constant(self.numbers.integers(0, 4, count).astype("i4")), 4), "segment sums")

    def choice(self) -> None:
        x = self.pick()
        y = self.partner(x)
        z = x + y
        self.add(sg.where(sg.greater(z, sg.zeros_like(z)), z, sg.broadcast_to(y, sg.shape(z))), f"where {self.name(x)} {self.name(y)}")

    def scanned(self) -> None:
        x = self.pick(lambda v: len(sizes(v)) >= 1)
        if x is not None:
            axis, exclusive, reverse = self.rng.randrange(len(sizes(x))), self.rng.random() < 0.4, self.rng.random() < 0.4
            self.add(sg.cumsum(x, axis, exclusive=exclusive, reverse=reverse) * sg.constant(1, x.dtype), f"cumsum {self.name(x)} axis {axis}")

    def ordered(self) -> None:
        x = self.pick(lambda v: len(sizes(v)) >= 1 and 0 not in sizes(v))
        if x is None:
            return
        kind = self.rng.randrange(3)
        if kind == 0:
            self.add(sg.sort(x, axis=-1), f"sort {self.name(x)}")
        elif kind == 1:
            self.add(sg.nn.top_k(x, self.rng.randint(1, sizes(x)[-1]))[0], f"top_k {self.name(x)}")
        else:
            self.add(sg.cast(sg.argmax(x, axis=self.rng.randrange(len(sizes(x)))), "int32"), f"argmax {self.name(x)}")

    def branch(self) -> None:
        x = self.pick(lambda v: v.dtype.is_floating)
        if x is not None:
            y = self.partner(x)
            self.add(sg.cond(sg.reduce_sum(x) > 0.37, lambda: x * y + x, lambda: sg.sin(x) - y), f"cond {self.name(x)} {self.name(y)}")

    def loop(self) -> None:
        x = self.pick(lambda v: v.dtype.is_floating)
        if x is None:
            return
        y, trips = self.partner(x), self.rng.choice((0, 1, 2, 5))
        start = x + 0.0 * y
        last = sg.while_loop(lambda i, v: i < trips, lambda i, v: (i + 1, sg.tanh(v * y) + 0.5 * v), (sg.constant(0), start))[1]
        self.add(last, f"loop of {trips} on {self.name(x)} {self.name(y)}")

    def normal(self) -> None:
        x = self.pick(lambda v: v.dtype.is_floating and len(sizes(v)) >= 1 and 0 not in sizes(v))
        if x is None:
            return
        axis = self.rng.choice((-1, -1, 0))
        if self.rng.random() < 0.5:
            self.add(self.rng.choice((sg.nn.softmax, sg.nn.log_softmax))(x, axis=axis), f"softmax {self.name(x)} axis {axis}")
        else:
            mean, variance = sg.nn.moments(x, [axis % len(sizes(x))], keep_dims=True)
            self.add((x - mean) * sg.rsqrt(variance + 0.1), f"normalise {self.name(x)} axis {axis}")

    def typed(self) -> None:
        x = self.pick()
        to = self.rng.choice(("float32", "float64"))
        self.add(sg.cast(sg.clip_by_value(x, sg.constant(-1000, x.dtype), sg.constant(1000, x.dtype)), to), f"cast {self.name(x)} to {to}")

    # ---- results -----------------------------------------------------------------------------------------------------------------

    def results(self) -> list[Any]:
        """Some values, and gradients of a sum of them."""
        out = self.pool[-3:]
        floats = [y for y in out if y.dtype.is_floating]
        xs = [x for x in self.feeds if x.dtype.is_floating]
        if not floats or not xs:
            return out
        loss = sum(sg.cast(sg.reduce_sum(sg.tanh(0.1 * y)), "float64") for y in floats)
        first = [g for g in sg.gradients(loss, xs) if g is not None]
        if first and self.rng.random() < 0.4:
            again = sum(sg.cast(sg.reduce_sum(sg.square(sg.tanh(g))), "float64") for g in first)
            first += [g for g in sg.gradients(again, xs) if g is not None]
        return [*out, *[sg.convert_to_tensor(g) for g in first]]


def sizes(x: Any) -> list[int]:
    """The shape as numbers."""
    return list(x.shape.as_list())


def fits(a: list[int], c: list[int]) -> bool:
    """Whether the shapes broadcast."""
    return all(p == q or 1 in (p, q) for p, q in zip(a[::-1], c[::-1]))


def different(got: np.ndarray[Any, Any], want: np.ndarray[Any, Any], eps: float, largest: float) -> str:
    """What is wrong, or nothing."""
    got, want = np.asarray(got), np.asarray(want)
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"{got.dtype}{list(got.shape)} for {want.dtype}{list(want.shape)}"
    if want.dtype.kind != "f":
        return "" if np.array_equal(got, want) else f"{int((got != want).sum())} of {got.size} differ"
    finite = np.abs(want[np.isfinite(want)])
    scale = max(1.0, float(finite.max()) if finite.size else 0.0)
    with np.errstate(all="ignore"):
        near = (got == want) | (np.isnan(got) & np.isnan(want)) | (np.abs(got - want) <= 5000 * eps * max(scale, largest))
    return "" if near.all() else f"{int((~near).sum())} of {got.size} differ, the first {got[~near].flat[0]!r} for {want[~near].flat[0]!r}"


CONFIGS = {"O1": sg.Config(optimize="O1", threads=1), "one thread": sg.Config(threads=1), "two threads": sg.Config(threads=2)}


def compared(results: list[Any], inputs: list[Any], values: list[list[np.ndarray[Any, Any]]], eps: float) -> list[str]:
    """How compiled results differ from interpreted ones, at each set of values, and with two threads in their bits."""
    nodes, feeds = [r.node for r in results], [x.node for x in inputs]
    as_written = compile_graph(nodes, feeds, sg.Config(optimize="O0"))
    compiled = {name: compile_graph(nodes, feeds, config) for name, config in CONFIGS.items()}
    bad: list[str] = []
    for k, arrays in enumerate(values):
        of = dict(zip(feeds, arrays, strict=True))
        ordered = [of[i.key] for i in as_written.inputs if i.kind == "feed"]
        want = as_written.interpret(ordered, StateStore())
        largest = max([1.0, *[float(np.abs(w[np.isfinite(w)]).max()) for w in want if w.dtype.kind == "f" and np.isfinite(w).any()]])
        got = {}
        for name, executable in compiled.items():
            try:
                got[name] = executable.run([of[i.key] for i in executable.inputs if i.kind == "feed"], StateStore())
            except Exception as error:
                bad.append(f"values {k}, {name}: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}")
                continue
            bad += [f"values {k}, {name}, result {j}: {what}" for j, (g, w) in enumerate(zip(got[name], want)) if (what := different(g, w, eps, largest))]
        if not bad and any(g.tobytes() != w.tobytes() for g, w in zip(got["one thread"], got["two threads"])):
            bad.append("one thread and two differ in bits")
    return bad


def check(seed: int, steps: int) -> list[str]:
    """Faults of one program."""
    with sg.Graph().as_default():
        program = Program(seed, steps)
        eps = float(np.finfo("f4" if any(x.dtype == sg.float32 for x in program.pool) else "f8").eps)
        bad = compared(program.results(), list(program.feeds), [list(program.feeds.values())], eps)
    return [*bad, *program.text] if bad else []


def main(check: Callable[[int, int], list[str]], doc: str | None) -> int:
    """Run the programs."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=200, help="programs")
    parser.add_argument("--steps", type=int, default=12, help="steps of a program at most")
    given = parser.parse_args()
    wrong = 0
    for seed in range(given.first, given.first + given.count):
        try:
            bad = check(seed, given.steps)
        except Exception as error:
            bad = [f"{type(error).__name__}: {error}"]
        if bad:
            wrong += 1
            print(f"seed {seed}:\n  " + "\n  ".join(bad), flush=True)
    print(f"passed {given.count - wrong} of {given.count}")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main(check, __doc__))
