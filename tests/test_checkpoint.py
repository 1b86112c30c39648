"""Checkpoints in static graphs: memory falls as the theory says, for one forward pass more, and no bit of a gradient changes.

Griewank and Walther, "Evaluating Derivatives", chapter 12: n steps in segments of s keep n / s boundaries and the s values of one segment.
"""

from __future__ import annotations

import numpy as np
import pytest

import staticgraph as sg

LAYERS, ROWS, WIDTH = 36, 128, 32
rng = np.random.default_rng(0)
x = rng.normal(size=(ROWS, WIDTH))
weights = [rng.normal(size=(WIDTH, WIDTH)) / 6 for _ in range(LAYERS)]
UNIT = x.nbytes                              # the values of one layer


def layers(h, ws):
    for w in ws:
        h = sg.tanh(h @ w)
    return h


def in_segments(length):
    def model(x, ws):
        for k in range(0, LAYERS, length):
            x = sg.checkpoint(layers)(x, ws[k:k + length])
        return sg.reduce_sum(sg.square(x))
    return model


def measured(model):
    """(value, gradients, arena in units of a layer's values, matrix products)"""
    f = sg.value_and_grad(model, 1)
    value, gradients = f(x, weights)
    return value, gradients, f.report(x, weights).arena_bytes / UNIT, f.text(x, weights).count("matmul(")


@pytest.fixture(scope="module")
def plain():
    return measured(lambda x, ws: sg.reduce_sum(sg.square(layers(x, ws))))


@pytest.mark.parametrize("length", [2, 3, 6, 12, 18])
def test_memory_is_the_boundaries_and_one_segment(plain, length):
    value, gradients, arena, products = measured(in_segments(length))
    assert plain[2] >= LAYERS                                                # without checkpoints every layer's values are kept
    assert arena <= LAYERS / length + length + 4                             # two adjoints, scratch of a product
    assert products - plain[3] == LAYERS                                     # one forward pass more
    assert value == plain[0] and all(a.tobytes() == b.tobytes() for a, b in zip(gradients, plain[1]))


def test_adjoints_of_independent_branches_do_not_wait_for_each_other():
    # each branch's values can go before the next branch begins: memory must not grow with the branches' temporaries
    def branches(count):
        def model(x, ws):
            return sg.add_n([sg.reduce_sum(sg.exp(sg.sin(x @ w) @ w)) for w in ws[:count]])
        f = sg.value_and_grad(model, 1)
        f(x, weights)
        return f.report(x, weights).arena_bytes / UNIT
    assert branches(12) - branches(6) <= 6 * 2 + 1                           # what a branch keeps: sin's operand and the product


@pytest.mark.parametrize("activation", [sg.nn.relu, sg.nn.relu6, sg.nn.elu, sg.nn.selu, sg.nn.leaky_relu, sg.tanh, sg.sigmoid], ids=lambda f: f.__name__)
def test_activations_keep_their_result_only(activation):
    # the operand of the activation is a product's result: it would be one more value of this size per layer
    def model(x, ws):
        for w in ws:
            x = activation(x @ w)
        return sg.reduce_sum(sg.square(x))
    f = sg.value_and_grad(model, 1)
    f(x, weights[:8])
    assert f.report(x, weights[:8]).arena_bytes / UNIT <= 8 + 3


@pytest.mark.parametrize("activation", [sg.nn.relu, sg.nn.relu6, sg.nn.elu, sg.nn.selu, lambda x: sg.nn.leaky_relu(x, 0.25),
                                        lambda x: sg.nn.leaky_relu(x, 0.0), lambda x: sg.nn.leaky_relu(x, -0.5)])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_derivatives_at_the_smallest_numbers(activation, dtype):
    # results may round to zero there, and their sign still has to tell the side
    tiny = np.finfo(dtype).smallest_subnormal
    at = np.array([-tiny, tiny, -1e-30, 1e-30, -0.5, 0.5], dtype)
    got = sg.grad(lambda x: sg.reduce_sum(activation(x)))(at)
    assert got[0] == pytest.approx(got[2], rel=1e-6) and got[1] == got[3] == got[5]
    assert got[0] != got[1] or activation is sg.nn.elu


# ---- Config.max_bytes: the compiler chooses what to recompute -----------------------------------------------------------------------------


def deep(config):
    """(values of a training step's gradients, arena bytes, products in the graph) of a deep chain under ``config``."""
    with sg.Graph().as_default():
        h = sg.placeholder(sg.float64, [ROWS, WIDTH])
        ws = [sg.Variable(w) for w in weights]
        loss = sg.reduce_sum(sg.square(layers(h, [w.read_value() for w in ws])))
        gradients = sg.gradients(loss, ws)
        step = sg.train.GradientDescentOptimizer(0.01).apply_gradients(list(zip(gradients, ws)))
        with sg.Session(config=config) as sess:
            sess.run(sg.global_variables_initializer())
            got = sess.run([loss, gradients, step], {h: x})
            variant = next(iter(sess.last_executable.variants.values()))
            return [got[0], *got[1], *sess.run(ws)], variant.program.workspace, sum(n.op.name == "matmul" for n in variant.graph)


@pytest.fixture(scope="module")
def unlimited():
    return deep(sg.Config())


@pytest.mark.parametrize("share", [0.9, 0.5, 0.3])
def test_a_budget_is_kept_and_no_bit_changes(unlimited, share):
    budget = int(unlimited[1] * share)
    values, arena, products = deep(sg.Config(max_bytes=budget))
    assert arena <= budget and products > unlimited[2]
    assert all(np.asarray(a).tobytes() == np.asarray(b).tobytes() for a, b in zip(values, unlimited[0]))


def test_a_budget_that_suffices_changes_nothing(unlimited):
    assert deep(sg.Config(max_bytes=unlimited[1]))[1:] == unlimited[1:]


def test_a_budget_that_no_plan_meets_says_what_is_possible():
    with pytest.raises(sg.errors.ResourceExhaustedError, match=r"max_bytes is 1,000, but no plan needs less than [\d,]+ bytes"):
        deep(sg.Config(max_bytes=1000))
