"""Results of Python functions whose shapes nobody declared (statement 109). What TF 1.15.5 gives was asked of it."""

import numpy as np
import pytest

import staticgraph as tf


def counted(f):
    """``f`` and the arguments of its calls."""
    calls = []

    def g(*arrays):
        calls.append(arrays)
        return f(*arrays)
    return g, calls


def hosts(sess):
    """Names of the host operations of what ran last: everything else is native."""
    (variant,) = sess.last_executable.variants.values()
    return [item.node.attr("name") for item in variant.program.hosts]


def test_109_open_sizes_come_from_the_array(sess):
    f, calls = counted(lambda n: np.arange(3 * int(n), dtype="f4").reshape(-1, 3))
    n = tf.placeholder(tf.int32, [])
    y = tf.py_func(f, [n], tf.float32)
    y.set_shape([None, 3])
    assert y.shape.as_list() == [None, 3] and tf.gradients(y, [n]) == [None]
    w = tf.Variable([1.0, 2.0, 3.0])
    loss = tf.reduce_sum(y * w)
    slope, = tf.gradients(loss, [w])
    sess.run(w.initializer)
    for k in (2, 0, 1, 100, 1000, 3):        # also more rows than there was room for
        want = np.arange(3 * k).reshape(-1, 3)
        value, got, shape = sess.run([loss, slope, tf.shape(y)], {n: k})
        assert value == (want @ [1.0, 2, 3]).sum() and np.array_equal(got, want.sum(axis=0)) and list(shape) == [k, 3]
    assert [int(c[0]) for c in calls] == [2, 0, 1, 100, 1000, 3]             # once per run, also where the run needed more memory
    assert hosts(sess) == ["PyFunc"]


def test_109_several_open_sizes(sess):
    shapes = [(70, 2, 5), (2, 80, 5), (1, 1, 5), (0, 9, 5), (300, 0, 5), (65, 90, 5)]
    given = iter(shapes)
    y, total = tf.py_func(lambda: (lambda s: (np.arange(np.prod(s), dtype="f8").reshape(s), np.int64(np.prod(s))))(next(given)), [], [tf.float64, tf.int64])
    y.set_shape([None, None, 5])
    total.set_shape([])
    sums = tf.reduce_sum(tf.cumsum(y, 1), 0)
    for s in shapes:
        got, count = sess.run([sums, total])
        want = np.arange(np.prod(s), dtype="f8").reshape(s).cumsum(1).sum(0)
        assert got.shape == want.shape and np.allclose(got, want) and count == np.prod(s)


def test_109_a_result_of_unknown_rank(sess):
    shapes = [(2,), (3, 4), (), (1, 4), (3, 4), (2, 2, 4), (0, 3)]
    given = iter(shapes)
    f, calls = counted(lambda: (lambda s: np.arange(np.prod(s), dtype="f4").reshape(s))(next(given)))
    y = tf.py_func(f, [], tf.float32)
    flat, total, shape, rank = tf.reshape(y, [-1]) * 2, tf.reduce_sum(y), tf.shape(y), tf.rank(y)
    assert y.shape.ndims is None and flat.shape.as_list() == [None] and total.shape.as_list() == [] and (y + 1).shape.ndims is None
    for s in shapes:
        want = np.arange(np.prod(s), dtype="f4").reshape(s)
        values = sess.run([y, flat, total, shape, rank])
        assert values[0].shape == s and all(np.array_equal(v, w) for v, w in zip(values, [want, want.reshape(-1) * 2, want.sum(), s, len(s)]))
    assert len(calls) == len(shapes) and hosts(sess) == ["PyFunc"]


def test_109_ranks_that_only_go_together(sess):
    a = tf.py_func(lambda: np.ones((2, 3, 4), "f4"), [], tf.float32)
    b = tf.py_func(lambda: np.ones((2, 4, 5), "f4"), [], tf.float32)
    got = sess.run(tf.matmul(a, b))          # no other rank of b goes with a's
    assert got.shape == (2, 3, 5) and (got == 4).all()
    with pytest.raises(tf.errors.InvalidArgumentError, match="Incompatible shapes"):
        sess.run(a + b)


def test_109_one_function_after_another(sess):
    f, first = counted(lambda: np.arange(6, dtype="f4").reshape(2, 3))
    g, second = counted(lambda v: v[:, :1])
    y = tf.py_func(f, [], tf.float32)
    z = tf.py_func(g, [y], tf.float32)
    both = y * z                             # an axis of size 1 is stretched, as one that is fed is
    want = np.arange(6).reshape(2, 3) * [[0], [3]]
    assert np.array_equal(sess.run(both), want) and len(first) == len(second) == 1
    assert second[0][0].shape == (2, 3)      # it has never seen what stood for an array of another rank
    assert np.array_equal(sess.run(both), want) and len(first) == len(second) == 2
    # results can be fed, at any rank
    assert np.array_equal(sess.run(both, {y: [[2.0, 1.0]]}), [[4, 2]]) and len(first) == 2
    assert np.array_equal(sess.run(both, {y: [1.0, 2.0], z: 3.0}), [3, 6]) and len(second) == 3


def test_109_a_run_of_open_sizes_stretches_an_axis_of_one(sess):
    given = iter([1, 4, 1])
    y = tf.py_func(lambda: np.ones((next(given), 3), "f4"), [], tf.float32)
    y.set_shape([None, 3])
    z = y + tf.ones([4, 3])
    assert z.shape.as_list() == [4, 3] and all(np.array_equal(sess.run(z), np.full((4, 3), 2)) for _ in range(3))


def test_109_after_an_assignment(sess):
    f, calls = counted(lambda q: np.full((2, 2), q))
    v = tf.Variable(1.0)
    with tf.control_dependencies([tf.assign_add(v, 1.0)]):
        y = tf.py_func(f, [v.read_value()], tf.float32)
    sess.run(v.initializer)
    assert np.array_equal(sess.run(y + 1), np.full((2, 2), 3)) and np.array_equal(sess.run(y), np.full((2, 2), 3))
    assert sess.run(v) == 3 and [float(c[0]) for c in calls] == [2, 3]
    # a run that fails later changes nothing
    with pytest.raises(tf.errors.InvalidArgumentError):
        sess.run(y + tf.ones([3, 3]))
    assert sess.run(v) == 3


def test_109_draws_are_drawn_once(sess):
    tf.set_random_seed(7)
    x = tf.random_normal([3])
    y = tf.py_func(lambda q: np.stack([q, -q]), [x], tf.float32)
    got = [sess.run([x, tf.reduce_sum(y, 0)]) for _ in range(2)]
    assert all((s == 0).all() for _, s in got) and not np.array_equal(got[0][0], got[1][0])
    with tf.Session() as other:
        assert all(np.array_equal(other.run(x), g[0]) for g in got)


def test_109_training_on_what_a_function_gives(sess):
    y = tf.py_func(lambda: np.ones((2, 3), "f4"), [], tf.float32)
    w = tf.Variable(tf.ones([3, 1]))
    loss = tf.reduce_mean(tf.square(tf.matmul(y, w)))
    step = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    sess.run(tf.global_variables_initializer())
    sess.run(step)
    value, weights = sess.run([loss, w])
    assert np.allclose(weights, 1 - 0.1 * 6) and np.allclose(value, (3 * 0.4) ** 2)


def test_109_set_shape_comes_at_any_time(sess):
    y = tf.py_func(lambda: np.ones((2, 3), "f4"), [], tf.float32)
    twice = y * 2
    y.set_shape([None, 3])
    assert y.shape.as_list() == [None, 3] and (y + 1).shape.as_list() == [None, 3]
    assert (sess.run(twice) == 2).all() and (sess.run(y + 1) == 2).all()
    with pytest.raises(ValueError, match="not compatible"):
        y.set_shape([4])
    y.set_shape([4, 3])
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"0-th value returned by PyFunc has shape \[2, 3\], but \[4, 3\] was declared"):
        sess.run(twice)


def test_109_in_loops_and_branches(sess):
    def body(i, total):
        rows = tf.py_func(lambda k: np.ones((int(k), 2), "f4"), [i], tf.float32)
        rows.set_shape([None, 2])
        return i + 1, total + tf.reduce_sum(rows)
    count, total = sess.run(tf.while_loop(lambda i, _: i < 100, body, [0, 0.0]))
    assert count == 100 and total == 2 * sum(range(100))
    p = tf.placeholder(tf.bool, [])
    y = tf.cond(p, lambda: tf.py_func(lambda: np.float32(2), [], tf.float32), lambda: 1.0)
    assert [sess.run(y, {p: v}) for v in (True, False)] == [2, 1]
    # there, ranks belong to the program
    z = tf.cond(p, lambda: tf.reduce_sum(tf.py_func(lambda: np.ones(3, "f4"), [], tf.float32)), lambda: 1.0)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"has shape \[3\], but \[\] was declared.*set_shape"):
        sess.run(z, {p: True})


def test_109_a_function_is_called_once_where_a_loop_needs_more_memory(sess):
    f, calls = counted(lambda v: v)
    x = tf.placeholder(tf.float32, [])
    y = tf.py_func(f, [x], tf.float32, shapes=[])
    w = tf.constant(1.01)
    _, z = tf.while_loop(lambda i, _: i < 500, lambda i, a: (i + 1, a * w), [0, y])
    slope, = tf.gradients(z, [w])            # one row per trip is kept, for more trips than there is room for at first
    assert np.allclose(sess.run(slope, {x: 2}), 2 * 500 * 1.01 ** 499, rtol=1e-3) and len(calls) == 1


def test_109_a_callable_of_unknown_ranks(sess):
    given = iter([(2, 3), (4,), (2, 3)])
    y = tf.py_func(lambda: np.ones(next(given), "f4"), [], tf.float32)
    f = sess.make_callable(tf.reduce_sum(y, 0) + tf.reduce_sum(y))
    assert np.array_equal(f(), [8, 8, 8]) and f() == 8 and np.array_equal(f(), [8, 8, 8])


def test_109_results_are_kept_as_they_were(sess):
    board = np.zeros((2, 2), "f4")

    def f():
        board[:] += 1
        return board
    a, b = (tf.py_func(f, [], tf.float32) for _ in range(2))
    first, second = sess.run([a, b])         # the array changes while the run goes on, and starts again for its rank
    assert {float(first[0, 0]), float(second[0, 0])} == {1, 2} and (sess.run(a) == 3).all()
