"""``Config.nan_check`` names where a NaN began; ``Config.verify`` names the pass that changed an answer. Both leave all state as it was."""

from __future__ import annotations

import linecache

import numpy as np
import pytest

import staticgraph as sg
from passes import pipeline
from passes.base import graph_pass
from staticgraph.errors import InternalError, InvalidArgumentError, UnimplementedError
from staticgraph.ir.rewrite import rewrite, rule
from staticgraph.ops import elementwise as ew


@pytest.fixture(autouse=True)
def graph():
    with sg.Graph().as_default():
        yield


def line_of(error):
    """The source line of the user's frame that the error was raised at."""
    tb = error.tb
    lines = []
    while tb is not None:
        lines.append(linecache.getline(tb.tb_frame.f_code.co_filename, tb.tb_lineno).strip())
        tb = tb.tb_next
    return lines


def test_the_op_that_made_it_and_its_operand():
    x = sg.placeholder(sg.float64, [None])
    hidden = sg.log(x)
    y = sg.reduce_sum(sg.sin(hidden) * 2.0)
    with sg.Session(config=sg.Config(nan_check=True)) as sess:
        np.testing.assert_allclose(sess.run(y, {x: [1.0, 2.0]}), 2 * np.sin(np.log(2.0)))
        with pytest.raises(InvalidArgumentError, match=r"log made a NaN at element \[2\]: operand 0 = -3.0") as error:
            sess.run(y, {x: [1.0, 4.0, -3.0, 1.0]})
        assert any("hidden = sg.log(x)" in line for line in line_of(error))
        with pytest.raises(InvalidArgumentError, match=r"div made an infinity"):
            sess.run(1.0 / sg.reduce_sum(x), {x: [0.0]})
        with pytest.raises(InvalidArgumentError, match=r"a feed of f64\[1\] holds NaN at element \[0\]"):
            sess.run(y, {x: [np.nan]})


def test_what_only_the_backward_pass_spoils():
    w = sg.Variable(np.zeros(3))
    loss = sg.reduce_sum(sg.sqrt(sg.square(w)))
    step = sg.train.GradientDescentOptimizer(0.1).minimize(loss)
    with sg.Session(config=sg.Config(nan_check=True)) as sess:
        sess.run(w.initializer)
        assert sess.run(loss) == 0
        with pytest.raises(InvalidArgumentError, match="made"):
            sess.run([step, sg.gradients(sg.log(w), [w])])
        assert sess.run(w).tolist() == [0, 0, 0]


def test_a_step_that_is_not_finite_is_not_committed():
    w, rate = sg.Variable(np.ones(4)), sg.placeholder(sg.float64, [])
    step = sg.assign(w, sg.exp(w * rate))
    other = sg.Variable(np.float64(5))
    count = sg.assign_add(other, np.float64(1))
    with sg.Session(config=sg.Config(nan_check=True)) as sess:
        sess.run(sg.global_variables_initializer())
        with pytest.raises(InvalidArgumentError, match=r"exp made an infinity at element \[0\]: operand 0 = 1000.0"):
            sess.run([step, count], {rate: 1000.0})
        assert sess.run(w).tolist() == [1] * 4 and sess.run(other) == 5
        sess.run([step, count], {rate: 1.0})
        np.testing.assert_allclose(sess.run(w), np.exp(np.ones(4)))
        assert sess.run(other) == 6


def test_draws_are_the_same_in_the_replay():
    x = sg.random_normal([50], seed=3, dtype=sg.float64)
    with sg.Session(config=sg.Config(nan_check=True)) as sess, pytest.raises(InvalidArgumentError, match=r"log made a NaN at element \[\d+\]: operand 0 = -"):
        sess.run(sg.log(x))


def test_inside_a_loop_the_loop_is_named():
    x = sg.placeholder(sg.float64, [])
    _, y = sg.while_loop(lambda i, v: i < 5, lambda i, v: (i + 1, sg.log(v)), [sg.constant(0), x])
    with sg.Session(config=sg.Config(nan_check=True)) as sess, pytest.raises(InvalidArgumentError, match="while_loop made a NaN"):
        sess.run(y, {x: 2.0})


@pytest.fixture
def broken_pass(monkeypatch):
    """A pass that turns a sum into a difference, behind the others."""
    @rule(ew.add)
    def add_is_sub(b, n):
        return b.sub(*n.inputs)

    @graph_pass(needs={"pure"}, gives={"broken"})
    def mistaken(g, context):
        return rewrite(g, [add_is_sub])
    monkeypatch.setitem(pipeline.LEVELS, "O2", (*pipeline.LEVELS["O2"], mistaken))


def test_verify_names_the_pass_and_changes_nothing(broken_pass):
    x, v = sg.placeholder(sg.float64, [3]), sg.Variable(np.ones(3))
    step = sg.assign(v, v + x)
    with sg.Session(config=sg.Config(verify=True)) as sess:
        sess.run(v.initializer)
        with pytest.raises(InternalError, match=r"verify: add gives 1.0 at element \[0\], the graph as written 3.0; changed by pass 'mistaken'"):
            sess.run(step, {x: [2.0, 0.0, 0.0]})
        assert sess.run(v).tolist() == [1, 1, 1]


def test_verify_accepts_what_is_right():
    x, v = sg.placeholder(sg.float32, [None, 8]), sg.Variable(np.eye(8, dtype=np.float32))
    loss = sg.reduce_mean(sg.nn.softmax(sg.matmul(sg.boolean_mask(x, sg.reduce_sum(x, 1) > 0.0), v)))
    step = sg.train.AdamOptimizer(0.1).minimize(loss + sg.reduce_sum(sg.nn.dropout(v, keep_prob=0.5) ** 2))
    with sg.Session(config=sg.Config(verify=True)) as sess:
        sess.run(sg.global_variables_initializer())
        for n in (5, 3, 0, 5):
            sess.run([step, loss], {x: np.random.default_rng(n).normal(size=(n, 8))})


def test_verify_refuses_python_functions_at_their_line():
    y = sg.py_func(np.sin, [sg.constant(1.0)], sg.float32)
    with sg.Session(config=sg.Config(verify=True)) as sess, pytest.raises(UnimplementedError, match="runs every step twice"):
        sess.run(y)
