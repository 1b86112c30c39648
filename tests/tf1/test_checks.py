"""Statements 102 and 162 to 164: checks and prints of a run, in order, at the user's line."""

import sys

import numpy as np
import pytest

import staticgraph as tf
from staticgraph.surface.printing import ends, summary


@pytest.fixture
def x():
    """A vector to feed."""
    return tf.placeholder(tf.float32, [None], name="x")


def failing(sess, fetch, feed, match):
    """The line that a failing run blames."""
    with pytest.raises(tf.errors.InvalidArgumentError, match=match) as caught:
        sess.run(fetch, feed)
    return caught.traceback[-1].lineno


def test_102_the_first_that_holds(sess):
    p, q = tf.placeholder(tf.bool, []), tf.placeholder(tf.bool, [])
    pairs = [(p, lambda: tf.constant(1)), (q, lambda: tf.constant(2))]
    first = tf.case(pairs, default=lambda: tf.constant(3))
    only = tf.case(pairs, default=lambda: tf.constant(3), exclusive=True)
    some = tf.case(dict(pairs))
    feeds = [{p: a, q: b} for a, b in ((True, True), (True, False), (False, True), (False, False))]
    assert [sess.run(first, f) for f in feeds] == [1, 1, 2, 3] and [sess.run(only, f) for f in feeds[1:]] == [1, 2, 3]
    assert [sess.run(some, f) for f in feeds[:3]] == [1, 1, 2]
    failing(sess, only, feeds[0], r"exclusive=True: more than 1 conditions \(Placeholder:0, Placeholder_1:0\) evaluated as True:\] \[1 1\]")
    failing(sess, some, feeds[3], r"None of conditions evaluated as True:\] \[0 0\]")


def test_102_refused_pairs():
    p = tf.constant(True)
    for pairs, message in (([(p, 3)], "must be callable"), ([p], "must be a 2-tuple"), ([(True, lambda: p)], "must not be a Python bool")):
        with pytest.raises(TypeError, match=message):
            tf.case(pairs)


def test_162_numerics(sess, x):
    y = tf.check_numerics(x, "m")
    assert y.op.type == "CheckNumerics" and sess.run(y, {x: [1, 2]}).tolist() == [1, 2]
    line = failing(sess, y, {x: [1, np.nan]}, "^m : Tensor had NaN values")
    failing(sess, y, {x: [np.inf]}, "^m : Tensor had Inf values")
    failing(sess, y, {x: [np.inf, np.nan]}, "^m : Tensor had Inf and NaN values")
    assert line == test_162_numerics.__code__.co_firstlineno
    assert sess.run(tf.gradients(y * y, [x])[0], {x: [3]}).tolist() == [6]
    failing(sess, tf.verify_tensor_all_finite(x, "v"), {x: [np.nan]}, "^v : Tensor had NaN values")
    with pytest.raises(TypeError, match="not in list of allowed values"):
        tf.check_numerics(tf.constant(1), "m")


def test_162_all_tensors_of_a_graph(sess, x):
    tf.log(x, name="lg")
    every = tf.add_check_numerics_ops()
    sess.run(every, {x: [1]})
    failing(sess, every, {x: [-1]}, "^lg:0 : Tensor had NaN values")
    tf.cond(x[0] > 0, lambda: x, lambda: x)
    with pytest.raises(ValueError, match="not compatible with TensorFlow control flow"):
        tf.add_check_numerics_ops()


def test_163_assert(sess, x):
    check = tf.Assert(tf.reduce_all(x > 0), [x, "str", 3])
    assert isinstance(check, tf.Operation) and sess.run(check, {x: [1]}) is None
    with tf.control_dependencies([check]):
        y = tf.identity(x)
    assert sess.run(y, {x: [1, 2]}).tolist() == [1, 2]
    failing(sess, y, {x: [1, np.nan]}, r"^assertion failed: \[1 nan\] \[str\] \[3\]")
    failing(sess, y, {x: [0, 1, 2, 3]}, r"^assertion failed: \[0 1 2...\] \[str\] \[3\]")
    assert sess.run(x + 1, {x: [-1]}) == 0               # an unattached one does not run


def test_163_a_failing_check_leaves_every_variable(sess, x):
    v = tf.Variable(1.0)
    sess.run(v.initializer)
    with tf.control_dependencies([v.assign(5.0)]):
        late = tf.check(v.read_value() < x, "{v} is not below {x}", v=v.read_value(), x=x)
    line = failing(sess, late, {x: [7, 2]}, r"^5.0 is not below \[7. 2.\]")
    assert line == test_163_a_failing_check_leaves_every_variable.__code__.co_firstlineno + 3 and sess.run(v) == 1
    sess.run(late, {x: [7]})
    assert sess.run(v) == 5
    with pytest.raises(KeyError):
        tf.check(x > 0, "{y}", x=x)


def test_163_a_check_in_a_loop_runs_at_each_trip(sess):
    def body(i, a):
        with tf.control_dependencies([tf.check(a < 20.0, "a = {a} at {i}", a=a, i=i)]):
            return i + 1, a * 2.0
    failing(sess, tf.while_loop(lambda i, a: i < 10, body, (0, 1.0)), {}, "^a = 32.0 at 5")


@pytest.mark.parametrize("make, good, bad, symbol", [
    (tf.assert_equal, [1, 1], [1, 2], "=="), (tf.assert_none_equal, [0, 2], [0, 1], "!="), (tf.assert_less, [0, 0], [0, 1], "<"), (tf.assert_less_equal, [1, 0], [1, 2], "<="),
    (tf.assert_greater, [2, 3], [2, 1], ">"), (tf.assert_greater_equal, [1, 2], [1, 0], ">=")])
def test_163_comparisons(sess, x, make, good, bad, symbol):
    check = make(x, 1.0)
    sess.run(check, {x: good})
    failing(sess, check, {x: bad}, rf"Condition x {symbol} y did not hold element-wise:\] \[x \(x:0\) = \] \[{bad[0]} {bad[1]}\]")
    with pytest.raises(tf.errors.InvalidArgumentError, match=rf"^why\nCondition x {symbol} y did not hold"):
        make(tf.constant(bad), 1, message="why")


@pytest.mark.parametrize("make, good, bad", [(tf.assert_positive, 1, 0), (tf.assert_negative, -1, 0), (tf.assert_non_negative, 0, -1), (tf.assert_non_positive, 0, 1)])
def test_163_signs(sess, x, make, good, bad):
    check = make(x)
    sess.run(check, {x: [good]})
    failing(sess, check, {x: [good, bad]}, r"Condition x \S+ 0 did not hold element-wise:")


def test_163_nearness(sess, x):
    check = tf.assert_near(x, 1.0, rtol=0.0, atol=0.1)
    sess.run(check, {x: [1.05]})
    failing(sess, check, {x: [1.2]}, "x and y not equal to tolerance")


def test_164_print(sess, x, capfd):
    a = tf.reshape(x, [2, 2])
    y = tf.Print(a, [a, tf.shape(a)], "pre: ", first_n=2)
    for _ in range(3):
        assert sess.run(tf.gradients(y, [x])[0], {x: [1, 2, 3, 4]}).tolist() == [1] * 4
        sess.run(y, {x: [1, 2, 3, 4]})
    assert capfd.readouterr().err == 2 * "pre: [[1 2][3...]...][2 2]\n"


def test_164_print_of_the_second_kind(sess, x, capfd):
    sess.run(tf.print("x is", x, 3, output_stream=sys.stdout, sep=", "), {x: np.arange(10)})
    with tf.control_dependencies([tf.print(x)]):
        sess.run(tf.identity(1), {x: [0.5]})
    assert capfd.readouterr() == ("x is, [0 1 2 ... 7 8 9], 3\n", "[0.5]\n")


@pytest.mark.parametrize("value, count, text", [
    (np.float32(0.1), 3, "0.1"), (1 / 3, 3, "0.33333333333333331"), (np.array([True, False]), 3, "1 0"), (np.arange(4), -1, "0 1 2 3"), (np.array([b"a", "b"], object), 3, "a b"),
    (np.arange(6).reshape(3, 2), 4, "[0 1][2 3]..."), (np.array([np.inf, -np.inf], "f4"), 3, "inf -inf"), (np.float32(16777217), 3, "16777216"), ([], 3, "")])
def test_164_summaries(value, count, text):
    assert summary(value, count) == text


def test_164_ends_of_axes():
    assert ends(np.arange(10).reshape(5, 2), 1) == "[[0 1]\n ...\n [8 9]]" and ends(np.array([b"a"], object), 3) == '["a"]'
