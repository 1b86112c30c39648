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


HALF = np.random.default_rng(0).normal(size=(4, 6)).astype(np.float16)
IMAGE = np.random.default_rng(1).normal(size=(2, 5, 6, 3)).astype(np.float16)


@pytest.mark.parametrize("level", ["O0", "O2"])
@pytest.mark.parametrize("f", [
    lambda x: sg.matmul(x, x, transpose_b=True), lambda x: sg.matmul(sg.tanh(x), x, transpose_a=True) + 1.0, lambda x: sg.tensordot(x, x[1], 1),
    lambda x: sg.cumsum(x, 1), lambda x: sg.cumprod(x, 0, exclusive=True), lambda x: sg.norm(x, axis=1), lambda x: sg.reduce_prod(x, 1),
    lambda x: sg.clip_by_norm(x, 1.5), lambda x: sg.nn.l2_normalize(x, 1),
], ids=["matmul", "fused", "tensordot", "cumsum", "cumprod", "norm", "prod", "clip", "normalize"])
def test_sums_of_float16_are_those_of_float32_rounded(f, level):
    def both(x):
        y = f(x)
        return y, sg.convert_to_tensor(sg.gradients(y, x)[0])
    got = sg.function(both, config=sg.Config(optimize=level))(HALF)
    want = sg.function(both)(HALF.astype(np.float32))
    for g, w in zip(got, want):
        assert g.dtype == np.float16 and np.allclose(g, w, rtol=4e-3, atol=4e-3)


def test_long_products_of_float16_do_not_lose_their_small_terms():
    """4,096 ones: a running sum in float16 stays at 2,048."""
    ones = np.ones((1, 4096), np.float16)
    got = sg.function(lambda x: (sg.matmul(x, x, transpose_b=True), sg.cumsum(x, 1)[0, -1], sg.norm(x)))(ones)
    assert [float(np.ravel(g)[0]) for g in got] == [4096.0, 4096.0, 64.0]


def test_convolutions_of_float16():
    w = np.random.default_rng(2).normal(size=(3, 2, 3, 4)).astype(np.float16)

    def both(x, w):
        y = sg.nn.conv2d(x, w, [1, 2, 1, 1], "SAME")
        return y, *sg.gradients(y, [x, w])
    got, want = sg.function(both)(IMAGE, w), sg.function(both)(IMAGE.astype(np.float32), w.astype(np.float32))
    for g, e in zip(got, want):
        assert g.dtype == np.float16 and np.allclose(g, e, rtol=4e-3, atol=4e-2)
