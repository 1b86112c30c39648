"""float16: stored as two bytes, computed as float32, rounded once."""

from __future__ import annotations

import numpy as np
import pytest

import staticgraph as sg


@pytest.mark.parametrize("level", ["O0", "O2"])
@pytest.mark.parametrize("shape, axis", [((4,), None), ((40, 3), 0), ((40, 3), 1), ((5, 1000), 1), ((300, 70), 0), ((2, 3, 17), (0, 2))])
def test_reductions_of_float16(shape, axis, level):
    x = np.random.default_rng(0).normal(size=shape).astype(np.float16)
    wide = x.astype(np.float64)
    got = sg.function(lambda x: [sg.reduce_sum(x, axis), sg.reduce_mean(x, axis), sg.reduce_max(x, axis), sg.reduce_min(x, axis), sg.reduce_sum(sg.tanh(x) * x, axis)],
                      config=sg.Config(optimize=level))(x)
    expected = [wide.sum(axis), wide.mean(axis), wide.max(axis), wide.min(axis), (np.tanh(wide) * wide).sum(axis)]
    for g, e in zip(got, expected):
        assert g.dtype == np.float16 and np.allclose(g, e, rtol=2e-3, atol=1e-3)


def test_gradients_of_float16():
    x = np.linspace(-2, 2, 50).astype(np.float16)
    value, gradient = sg.value_and_grad(lambda x: sg.reduce_sum(x * x))(x)
    assert value.dtype == gradient.dtype == np.float16 and np.array_equal(gradient, 2 * x)
