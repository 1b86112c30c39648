"""Statements 101 to 109: branches, loops, and the state and effects inside of them."""

import numpy as np
import pytest

import staticgraph as tf


@pytest.fixture
def v(sess):
    """A variable with a value."""
    made = tf.Variable(0.0, name="v")
    sess.run(made.initializer)
    return made


@pytest.mark.parametrize("p, q, want", [(True, True, 1), (True, False, -10), (False, True, 100), (False, False, 100)])
def test_101_assigns_in_nested_branches(sess, v, p, q, want):
    ps, qs = tf.placeholder(tf.bool, []), tf.placeholder(tf.bool, [])
    r = tf.cond(ps, lambda: tf.cond(qs, lambda: v.assign_add(1.0), lambda: v.assign_sub(10.0)), lambda: v.assign(100.0))
    assert sess.run(r, {ps: p, qs: q}) == want and sess.run(v) == want


def test_101_a_branch_may_assign_what_has_no_value(sess):
    p, u, w = tf.placeholder(tf.bool, []), tf.Variable(3.0, name="u"), tf.Variable(3.0, name="w")
    assert sess.run(tf.cond(p, lambda: u.assign(1.0), lambda: u.assign(2.0)), {p: True}) == 1 and sess.run(u) == 1
    with pytest.raises(tf.errors.FailedPreconditionError, match="Attempting to use uninitialized value w"):
        sess.run(tf.cond(p, lambda: w.assign(1.0), lambda: w + 1.0), {p: True})


def test_101_operations_as_branches(sess, v):
    p = tf.placeholder(tf.bool, [])
    sess.run(tf.cond(p, lambda: tf.group(v.assign(3.0)), lambda: tf.no_op()), {p: False})
    assert sess.run(v) == 0
    sess.run(tf.cond(p, lambda: tf.group(v.assign(3.0)), lambda: tf.no_op()), {p: True})
    assert sess.run(v) == 3


def test_027_initialized_value_where_there_is_none(sess):
    v = tf.Variable(3.0)
    value = v.initialized_value()
    assert sess.run(value) == 3
    sess.run(v.assign(7.0))
    assert sess.run(value) == 7


def test_105_branches_in_loops_that_assign(sess, v):
    def body(i):
        step = tf.cond(tf.equal(i % 2, 0), lambda: v.assign_add(1.0), lambda: tf.identity(v))
        with tf.control_dependencies([step]):
            return i + 1
    assert sess.run(tf.while_loop(lambda i: i < 5, body, [0])) == 5 and sess.run(v) == 3


def test_105_loops_in_loops_that_assign(sess, v):
    def inner(j):
        with tf.control_dependencies([v.assign_add(1.0)]):
            return j + 1

    def outer(i):
        with tf.control_dependencies([tf.while_loop(lambda j: j < i, inner, [0])]):
            return i + 1
    assert sess.run(tf.while_loop(lambda i: i < 5, outer, [0])) == 5 and sess.run(v) == 10


def test_105_an_effect_that_nothing_waits_for_does_not_run(sess, v):
    calls = []

    def body(i):
        v.assign_add(1.0)
        tf.py_func(lambda: calls.append("loose"), [], [])
        with tf.control_dependencies([tf.py_func(calls.append, [i], [])]):
            return tf.identity(i + 1)
    sess.run(tf.while_loop(lambda i: i < 3, body, [0]))
    assert calls == [0, 1, 2] and sess.run(v) == 0


def test_105_effects_keep_their_order_also_across_branches(sess):
    said = []
    p = tf.placeholder(tf.bool, [])

    def say(word):
        return tf.py_func(lambda: said.append(word), [], [], name=word)
    first = say("first")
    branch = tf.cond(p, lambda: tf.group(say("yes")), lambda: tf.group(say("no")))
    last = say("last")
    with tf.control_dependencies([last, branch, first]):
        done = tf.no_op()
    sess.run(done, {p: True})
    sess.run(done, {p: False})
    assert said == ["first", "yes", "last", "first", "no", "last"]


def test_106_a_gradient_runs_no_effect_again(sess):
    calls, x = [], tf.constant(2.0)

    def body(i, a):
        with tf.control_dependencies([tf.py_func(calls.append, [i], [])]):
            return i + 1, tf.identity(a * x)
    _, y = tf.while_loop(lambda i, a: i < 3, body, (0, tf.constant(1.0)))
    assert sess.run([y, tf.gradients(y, [x])[0]]) == [8, 12] and calls == [0, 1, 2]


def test_106_what_a_loop_assigns_and_uses_has_no_derivative(sess, v):
    def body(i, a):
        return i + 1, a * v.assign_add(1.0)
    x = tf.constant(2.0)
    _, y = tf.while_loop(lambda i, a: i < 3, body, (0, x))
    assert sess.run(y) == 2 * 1 * 2 * 3
    with pytest.raises(LookupError, match="assigns this variable and uses its new value"):
        tf.gradients(y, [x])


def test_109_python_functions(sess):
    x = tf.placeholder(tf.float32, [])
    y = tf.py_func(lambda v: v * np.float32(2), [x], tf.float32)
    assert sess.run(y, {x: 3}) == 6 and tf.gradients(y, [x]) == [None]
    both = tf.py_func(lambda v: (v, np.int64(7)), [x], [tf.float32, tf.int64])
    assert isinstance(both, list) and sess.run(both, {x: 1}) == [1, 7]
    with pytest.raises(tf.errors.UnknownError, match="ZeroDivisionError: division by zero"):
        sess.run(tf.py_func(lambda: 1 / 0, [], tf.float32))
    with pytest.raises(tf.errors.InvalidArgumentError, match="0-th value returned by pyfunc_2 is double, but expects float"):
        sess.run(tf.py_func(lambda: np.float64(1), [], tf.float32, name="pyfunc_2"))


def test_109_set_shape_says_what_nobody_knew(sess):
    x = tf.placeholder(tf.float32, [None])
    rows, total = tf.py_func(lambda v: (np.stack([v[:2], v[:2]]), v.sum()), [x], [tf.float32, tf.float32])
    rows.set_shape([2, 2])
    assert rows.shape.as_list() == [2, 2]
    assert sess.run(tf.reduce_sum(rows * [1.0, 10.0]) + total, {x: [1, 2, 3]}) == 2 * (1 + 20) + 6
    rows.set_shape([2, 2])
    with pytest.raises(ValueError, match="not compatible"):
        rows.set_shape([2, 3])
    with pytest.raises(tf.errors.InvalidArgumentError, match="shapes="):
        sess.run(tf.py_func(lambda v: v, [x], tf.float32, shapes=[3]), {x: [1, 2]})


def test_106_a_gradient_of_a_loop_keeps_what_it_needs(sess):
    # the rows that a loop reads and those that it writes are not kept once per trip: 4,000 rows of 50 would be 3 GB
    x, w = tf.constant(np.random.RandomState(0).rand(4000, 50).astype("f4")), tf.constant(0.5)
    y = tf.scan(lambda a, row: a * w + row, x, tf.zeros([50]))
    dx, dw = tf.gradients(y[-1], [x, w])
    rows, slope, value = sess.run([dx, dw, y])
    assert np.allclose(rows, 0.5 ** np.arange(4000)[::-1, None], atol=1e-7)
    state, tangent = np.zeros(50), np.zeros(50)
    for row in sess.run(x).astype("f8"):
        state, tangent = state * 0.5 + row, tangent * 0.5 + state
    assert abs(slope - tangent.sum()) < 1e-4 * tangent.sum() and np.allclose(value[-1], state, rtol=1e-5)


def test_101_branches_of_different_sizes(sess):
    p, x, q = tf.placeholder(tf.bool, []), tf.constant([1.0, 2.0, 3.0]), tf.placeholder(tf.float32, [None, 2])
    y = tf.cond(p, lambda: x[:2] * 2, lambda: x * x)
    slope = tf.gradients(y * y, x)[0]
    assert y.shape.as_list() == [None]
    for chosen, value, first, second in ((True, [2, 4], [8, 16, 0], [8, 8, 0]), (False, [1, 4, 9], [4, 32, 108], [12, 48, 108])):
        got = sess.run([y, slope, tf.gradients(slope, x)[0], tf.shape(y), tf.concat([y, y], 0)], {p: chosen})
        assert [g.tolist() for g in got] == [value, first, second, [len(value)], value * 2]
    z = tf.cond(p, lambda: q + 1, lambda: tf.ones([3, 2]))                   # of a size that only the run knows, it may be the other's
    for rows in (0, 3, 5):
        assert sess.run(tf.reduce_sum(z), {p: True, q: np.ones((rows, 2))}) == 4 * rows
        assert sess.run(z, {p: False, q: np.ones((rows, 2))}).shape == (3, 2)
    with pytest.raises(ValueError, match="must have the same rank"):
        tf.cond(p, lambda: x, lambda: x[None])


def test_101_branches_of_different_sizes_in_a_loop(sess):
    x = tf.constant([1.0, 2.0, 3.0])

    def body(i, a):
        return i + 1, a + tf.reduce_sum(tf.cond(tf.equal(i % 2, 0), lambda: x[:2] * a, lambda: x))
    _, r = tf.while_loop(lambda i, a: i < 4, body, (0, tf.constant(1.0)))
    # with s the sum of two and t of three, r = (1 + s + t) (1 + s) + t
    assert sess.run([r, tf.gradients(r, x)[0]])[0] == 46 and sess.run(tf.gradients(r, x)[0]).tolist() == [19, 19, 5]


@pytest.mark.parametrize("p, q, value, slope", [(True, True, [1], [1, 0, 0]), (False, True, [2, 4], [2, 2, 0]), (False, False, [1, 4, 9], [2, 4, 6])])
def test_102_cases_of_different_sizes(sess, p, q, value, slope):
    ps, qs, x = tf.placeholder(tf.bool, []), tf.placeholder(tf.bool, []), tf.constant([1.0, 2.0, 3.0])
    y = tf.case([(ps, lambda: x[:1]), (qs, lambda: x[:2] * 2)], default=lambda: x * x)
    got = sess.run([y, tf.gradients(y, x)[0]], {ps: p, qs: q})
    assert [g.tolist() for g in got] == [value, slope]


def test_101_structures(sess):
    p, one = tf.placeholder(tf.bool, []), lambda kind: lambda: kind([tf.constant(1)])
    assert all(isinstance(tf.cond(p, one(kind), one(kind)), tf.Tensor) and isinstance(tf.cond(p, one(kind), one(kind), strict=True), kind) for kind in (list, tuple))
    with pytest.raises(ValueError, match="must return at least one result"):
        tf.cond(p, list, list)
    with pytest.raises(ValueError, match=r"don't have the same nested structure: \[., .\] and ."):
        tf.cond(p, lambda: [tf.constant(1), tf.constant(2)], lambda: tf.constant(1))


def test_103_and_107_what_is_refused():
    for make, message in ((lambda: tf.while_loop(lambda i: i < 2, lambda i: i + 1, [0], parallel_iterations=0), "parallel_iterations must be a positive integer"),
                          (lambda: tf.map_fn(3, [1.0]), "fn must be callable")):
        with pytest.raises(TypeError, match=message):
            make()
    with pytest.raises(ValueError, match=r"elems must be a 1\+ dimensional Tensor, not a scalar"):
        tf.map_fn(lambda v: v, tf.constant(1.0))


def test_106_loops_without_gradients():
    x = tf.constant(2.0)
    assert tf.gradients(tf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a * x), (0, 1.0), back_prop=False)[1], x) == [None]
    assert tf.gradients(tf.map_fn(lambda v: v * x, tf.constant([1.0, 2.0]), back_prop=False), x) == [None]


@pytest.mark.parametrize("f, kind, text", [(lambda: int("q"), "InvalidArgumentError", "ValueError: invalid literal"), (lambda: 1 + "q", "InvalidArgumentError", "TypeError: unsupported"),
                                           (lambda: next(iter([])), "OutOfRangeError", "StopIteration"), (lambda: {}["k"], "UnknownError", "KeyError: 'k'"),
                                           (lambda: None, "InvalidArgumentError", "returns 0 values, but expects to see 1 values")])
def test_109_classes_of_exceptions(sess, f, kind, text):
    with pytest.raises(getattr(tf.errors, kind), match=text):
        sess.run(tf.py_func(f, [], tf.int64))


def test_103_branches_that_overwrite_loop_variables(sess):
    # the branches' results take the places of the loop's variables: also where they are exchanged, or read after they are changed
    def body(i, a, b, p):
        def change():
            changed = tf.concat([a[1:], b[:1]], 0)
            return b * 2, changed + tf.reduce_sum(a), tf.logical_not(p)
        return (i + 1, *tf.cond(p, change, lambda: (b, a, tf.logical_not(p))))
    start = (0, tf.constant([1.0, 2.0, 3.0]), tf.constant([4.0, 5.0, 6.0]), tf.constant(True))
    got = sess.run(tf.while_loop(lambda i, *_: i < 5, body, start)[1:3])
    a, b, p = np.array([1.0, 2, 3]), np.array([4.0, 5, 6]), True
    for _ in range(5):
        a, b = (b * 2, np.r_[a[1:], b[:1]] + a.sum()) if p else (b, a)
        p = not p
    assert np.array_equal(got, [a, b])
