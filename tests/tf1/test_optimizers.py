"""Statements 125 to 128: each optimizer's formula, and the rows it changes, against NumPy."""

import json
from pathlib import Path

import numpy as np
import pytest
import recorded_optimizers

import staticgraph as tf


def sgd(v, g, s, t):
    return v - 0.1 * g


def momentum(v, g, s, t):
    s["a"] = 0.9 * s.get("a", 0) + g
    return v - 0.1 * s["a"]


def nesterov(v, g, s, t):
    s["a"] = 0.9 * s.get("a", 0) + g
    return v - 0.1 * g - 0.1 * 0.9 * s["a"]


def adagrad(v, g, s, t):
    s["a"] = s.get("a", 0.1) + g**2
    return v - 0.1 * g / np.sqrt(s["a"])


def adadelta(v, g, s, t):
    s["a"] = 0.9 * s.get("a", 0) + 0.1 * g**2
    u = np.sqrt(s.get("d", 0) + 1e-6) / np.sqrt(s["a"] + 1e-6) * g
    s["d"] = 0.9 * s.get("d", 0) + 0.1 * u**2
    return v - 0.1 * u


def rmsprop(v, g, s, t):
    s["q"] = 0.9 * s.get("q", 1) + 0.1 * g**2
    s["m"] = 0.5 * s.get("m", 0) + 0.1 * g / np.sqrt(s["q"] + 1e-3)
    return v - s["m"]


def centered(v, g, s, t):
    s["q"] = 0.9 * s.get("q", 1) + 0.1 * g**2
    s["g"] = 0.9 * s.get("g", 0) + 0.1 * g
    s["m"] = 0.5 * s.get("m", 0) + 0.1 * g / np.sqrt(s["q"] - s["g"]**2 + 1e-3)
    return v - s["m"]


def ftrl(v, g, s, t):
    old = s.get("n", 0.1)
    s["n"] = old + g**2
    s["z"] = s.get("z", 0) + g + 2 * 0.01 * v - (np.sqrt(s["n"]) - np.sqrt(old)) / 0.1 * v
    return np.where(np.abs(s["z"]) > 0.05, (np.sign(s["z"]) * 0.05 - s["z"]) / (np.sqrt(s["n"]) / 0.1 + 2 * 0.02), 0)


def shrunk(u, threshold):
    return np.sign(u) * np.maximum(np.abs(u) - threshold, 0)


def proximal(v, g, s, t):
    return shrunk(v - 0.1 * g, 0.1 * 0.05) / (1 + 0.1 * 0.02)


def proximal_adagrad(v, g, s, t):
    s["a"] = s.get("a", 0.1) + g**2
    r = 0.1 / np.sqrt(s["a"])
    return shrunk(v - r * g, r * 0.05) / (1 + r * 0.02)


def adagrad_da(v, g, s, t):
    s["g"], s["q"] = s.get("g", 0) + g, s.get("q", 0.1) + g**2
    return -0.1 * shrunk(s["g"], 0.05 * t) / (0.02 * t * 0.1 + np.sqrt(s["q"]))


T = tf.train
REGULARIZED = {"l1_regularization_strength": 0.05, "l2_regularization_strength": 0.02}
CASES = [
    (sgd, lambda: T.GradientDescentOptimizer(0.1)), (momentum, lambda: T.MomentumOptimizer(0.1, 0.9)), (nesterov, lambda: T.MomentumOptimizer(0.1, 0.9, use_nesterov=True)),
    (adagrad, lambda: T.AdagradOptimizer(0.1)), (adadelta, lambda: T.AdadeltaOptimizer(0.1, rho=0.9, epsilon=1e-6)),
    (rmsprop, lambda: T.RMSPropOptimizer(0.1, momentum=0.5, epsilon=1e-3)), (centered, lambda: T.RMSPropOptimizer(0.1, momentum=0.5, epsilon=1e-3, centered=True)),
    (ftrl, lambda: T.FtrlOptimizer(0.1, l2_shrinkage_regularization_strength=0.01, **REGULARIZED)), (proximal, lambda: T.ProximalGradientDescentOptimizer(0.1, **REGULARIZED)),
    (proximal_adagrad, lambda: T.ProximalAdagradOptimizer(0.1, **REGULARIZED)), (adagrad_da, lambda: T.AdagradDAOptimizer(0.1, T.get_or_create_global_step(), **REGULARIZED))]
START = np.array([[1.0, -2.0], [0.5, 3.0], [-1.0, 0.25]])


@pytest.mark.parametrize("formula, make", CASES, ids=[f.__name__ for f, _ in CASES])
def test_127_formulas(sess, formula, make):
    v = tf.Variable(START.astype("f4"))
    optimizer = make()
    train = optimizer.minimize(tf.reduce_sum(tf.square(v - 0.5)), global_step=T.get_or_create_global_step())
    sess.run(tf.global_variables_initializer())
    want, slots = START, {}
    for t in range(1, 4):
        want = formula(want, 2 * (want - 0.5), slots, t)
        sess.run(train)
        assert np.allclose(sess.run(v), want, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("formula, make", CASES, ids=[f.__name__ for f, _ in CASES])
def test_128_only_the_rows_that_occur_change_and_repeated_ones_are_summed(sess, formula, make):
    v, ids = tf.Variable(START.astype("f4")), tf.placeholder(tf.int32, [None])
    optimizer = make()
    train = optimizer.minimize(tf.reduce_sum(tf.square(tf.nn.embedding_lookup(v, ids) - 0.5)), global_step=T.get_or_create_global_step())
    sess.run(tf.global_variables_initializer())
    want, slots = START.copy(), [{} for _ in START]
    for t, rows in enumerate(([0, 2, 0], [2], [0, 0]), 1):
        sess.run(train, {ids: rows})
        for r in set(rows):
            want[r] = formula(want[r], rows.count(r) * 2 * (want[r] - 0.5), slots[r], t)
        assert np.allclose(sess.run(v), want, rtol=2e-5, atol=2e-6)
    assert np.array_equal(sess.run(v)[1], START[1])


def test_125_slots_of_adadelta():
    v = tf.Variable(1.0, name="v")
    optimizer = T.AdadeltaOptimizer()
    optimizer.minimize(v * v)
    assert optimizer.get_slot_names() == ["accum", "accum_update"] and [w.op.name for w in tf.global_variables()] == ["v", "v/Adadelta", "v/Adadelta_1"]


def test_127_a_rate_that_the_run_gives(sess):
    v, rate = tf.Variable(1.0), tf.placeholder(tf.float32, [])
    trains = [make(rate).minimize(v * v) for make in (T.FtrlOptimizer, T.ProximalGradientDescentOptimizer, T.ProximalAdagradOptimizer, T.AdadeltaOptimizer)]
    sess.run(tf.global_variables_initializer())
    for train in trains:
        before = sess.run(v)
        sess.run(train, {rate: 0.1})
        assert sess.run(v) < before


RECORDED = json.loads((Path(__file__).parent / "recorded_optimizers.json").read_text())


@pytest.mark.parametrize("case", RECORDED)
def test_121_to_128_five_steps_of_tf_1_15_5(case):
    kind, dtype, rows = case.rsplit(", ", 2)
    want = np.array(RECORDED[case])
    got = np.array(recorded_optimizers.steps(tf, kind, dtype, rows == "rows"))
    assert np.allclose(got, want, rtol=2e-6 if dtype == "float32" else 1e-13, atol=1e-6 if dtype == "float32" else 1e-14)
