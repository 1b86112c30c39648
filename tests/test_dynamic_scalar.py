"""The scalar engine of the samples: against mathematics, against the dynamic mode, and against micrograd where that is installed."""

from __future__ import annotations

import importlib.util
import math
import random
import sys
from pathlib import Path

import pytest

import staticgraph.dynamic as dy

spec = importlib.util.spec_from_file_location("scalar_engine", Path(__file__).parents[1] / "samples" / "scalar_engine.py")
scalar_engine = importlib.util.module_from_spec(spec)
spec.loader.exec_module(scalar_engine)
Scalar = scalar_engine.Scalar


def test_the_blackboard_example():
    x, y = Scalar(2.0), Scalar(3.0)
    f = (x + y) * x.sin()
    f.backward()
    assert math.isclose(f.value, 5 * math.sin(2)) and math.isclose(x.grad, math.sin(2) + 5 * math.cos(2)) and math.isclose(y.grad, math.sin(2))


@pytest.mark.parametrize("f, slope", [
    (lambda x: x ** 3 - 2 * x + 1, lambda x: 3 * x * x - 2), (lambda x: 1 / x, lambda x: -1 / x ** 2), (lambda x: (x * x).log(), lambda x: 2 / x),
    (lambda x: x.exp() / (1 + x.exp()), lambda x: math.exp(x) / (1 + math.exp(x)) ** 2), (lambda x: x.tanh(), lambda x: 1 - math.tanh(x) ** 2),
    (lambda x: 3 - x, lambda x: -1.0), (lambda x: x - x, lambda x: 0.0), (lambda x: (-x).relu() + x.relu() * 2, lambda x: 2.0), (lambda x: x ** 0, lambda x: 0.0)])
def test_derivatives_are_those_of_calculus(f, slope):
    x = Scalar(0.7)
    f(x).backward()
    assert math.isclose(x.grad, slope(0.7), abs_tol=1e-15)


def test_gradients_add_up_and_paths_too():
    x = Scalar(3.0)
    y = x * x
    (y + y).backward()                       # two paths through y, two through x
    assert x.grad == 12
    (x * 1).backward()
    assert x.grad == 13


def test_a_chain_of_100000_needs_no_recursion():
    assert sys.getrecursionlimit() < 100_000
    x = y = Scalar(1.0)
    for _ in range(100_000):
        y = y + x * 1e-5
    y.backward()
    assert math.isclose(x.grad, 2.0)


def expression(seed, make, log, tanh, relu):
    """A random expression of three variables, in any library."""
    rng = random.Random(seed)
    leaves = [make(rng.uniform(0.5, 2)) for _ in range(3)]
    made = list(leaves)
    for _ in range(25):
        a, b = rng.choice(made), rng.choice(made)
        made.append(rng.choice([lambda: a + b, lambda: a * b * 0.5, lambda: a - b * 2, lambda: a / (b * b + 1), lambda: relu(a), lambda: (a * a + 1) ** -0.5,
                                lambda: tanh(a), lambda: log(a * a + 1), lambda: 1.5 - a])())
    return leaves, sum(made[-5:], make(0.0))


@pytest.mark.parametrize("seed", range(10))
def test_random_expressions_agree_with_the_dynamic_mode(seed):
    ours, f = expression(seed, Scalar, Scalar.log, Scalar.tanh, Scalar.relu)
    theirs, g = expression(seed, lambda v: dy.tensor(v, dtype="float64", requires_grad=True), dy.log, dy.tanh, dy.relu)
    f.backward()
    g.backward()
    assert math.isclose(f.value, g.item(), rel_tol=1e-12)
    for a, b in zip(ours, theirs):
        assert math.isclose(a.grad, 0 if b.grad is None else b.grad.item(), rel_tol=1e-10, abs_tol=1e-14)


@pytest.mark.parametrize("seed", range(10))
def test_random_expressions_agree_with_micrograd(seed):
    engine = pytest.importorskip("micrograd.engine")
    # micrograd has neither log nor tanh: powers stand for them in both
    log, tanh = (lambda v: v ** 2), (lambda v: v ** 3 * 0.1)
    ours, f = expression(seed, Scalar, log, tanh, lambda v: v.relu())
    theirs, g = expression(seed, engine.Value, log, tanh, lambda v: v.relu())
    f.backward()
    g.backward()
    assert math.isclose(f.value, g.data, rel_tol=1e-12)
    for a, b in zip(ours, theirs):
        assert math.isclose(a.grad, b.grad, rel_tol=1e-9, abs_tol=1e-14)
