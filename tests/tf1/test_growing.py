"""Statement 104: loop variables whose size changes, as ``shape_invariants`` allow. Values are those of TensorFlow 1.15.5 or of NumPy."""

import numpy as np
import pytest

import staticgraph.compat.v1 as tf

T = tf.TensorShape


def appended(start, n):
    """``n`` rows behind ``start``, each half of the one before and its number."""
    return tf.while_loop(lambda i, x: i < n, lambda i, x: (i + 1, tf.concat([x, x[-1:] * 0.5 + tf.cast(i, x.dtype)], 0)), [0, start],
                         shape_invariants=[T([]), T([None, 3])])


def test_104_rows_are_appended(sess):
    n = tf.placeholder(tf.int32, [])
    i, x = appended(tf.ones([1, 3]), n)
    assert (i.name, x.name) == ("while/Exit:0", "while/Exit_1:0")
    assert x.shape.as_list() == [None, 3]
    for trips in (0, 1, 5, 300):             # more than the room that a first run has
        want = np.ones((trips + 1, 3), "f4")
        for k in range(trips):
            want[k + 1] = want[k] * np.float32(0.5) + k
        found = sess.run([i, x], {n: trips})
        assert found[0] == trips and np.array_equal(found[1], want)


def test_104_names_and_shapes_inside(sess):
    seen = []

    def body(i, x, y):
        seen.append((i.shape.as_list(), x.shape.as_list()))
        return i + 1, tf.concat([x, [tf.to_float(i)]], 0), y + tf.reduce_sum(x)
    i, x, y = tf.while_loop(lambda i, x, y: i < 4, body, [0, tf.constant([5.0]), 0.0], shape_invariants=[T([]), T([None]), T([])])
    assert [t.name for t in (i, x, y)] == ["while/Exit:0", "while/Exit_1:0", "while/Exit_2:0"]
    assert all(s == ([], [None]) for s in seen)
    got = sess.run([x, y])
    assert np.array_equal(got[0], [5, 0, 1, 2, 3]) and got[1] == 24


def test_104_rows_are_taken_away_and_the_gradient(sess):
    p = tf.placeholder(tf.float32, [None, 2])
    _, x = tf.while_loop(lambda i, x: i < 4, lambda i, x: (i + 1, x[1:]), [0, p], shape_invariants=[T([]), T([None, 2])])
    (g,) = tf.gradients(x * x, p)
    value = np.arange(12, dtype="f4").reshape(6, 2)
    rest, slope = sess.run([x, g], {p: value})
    assert np.array_equal(rest, value[4:])
    assert np.array_equal(slope, np.r_[np.zeros((4, 2)), 2 * value[4:]])
    rest, slope = sess.run([x, g], {p: value[:3]})         # nothing is left
    assert rest.shape == (0, 2) and np.array_equal(slope, np.zeros((3, 2)))


@pytest.mark.parametrize("dtype", [tf.bool, tf.int32, tf.int64, tf.float64, tf.uint8])
def test_104_dtypes(sess, dtype):
    (x,) = tf.while_loop(lambda x: tf.size(x) < 100, lambda x: [tf.concat([x, x], 0)], [tf.ones([3], dtype)], shape_invariants=[T([None])], return_same_structure=True)
    got = sess.run(x)
    assert got.shape == (192,) and got.dtype == dtype.as_numpy_dtype and got.all()


def test_104_two_axes(sess):
    _, x = tf.while_loop(lambda i, x: i < 4, lambda i, x: (i + 1, tf.concat([tf.concat([x, 2 * x], 0), tf.concat([x, 3 * x], 0)], 1)), [0, tf.ones([1, 3])],
                         shape_invariants=[T([]), T(None)])
    want = np.ones((1, 3), "f4")
    for _ in range(4):
        want = np.block([[want, want], [2 * want, 3 * want]])
    assert np.array_equal(sess.run(x), want)


def test_104_an_axis_in_the_middle(sess):
    p = tf.placeholder(tf.float32, [2, None, 3])
    _, x = tf.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, tf.concat([x[:, :1] + 1, x], 1)), [0, p], shape_invariants=[T([]), T([2, None, 3])])
    (g,) = tf.gradients(x, p)
    value = np.arange(12, dtype="f4").reshape(2, 2, 3)
    got, slope = sess.run([x, g], {p: value})
    want = value
    for _ in range(3):
        want = np.concatenate([want[:, :1] + 1, want], 1)
    assert np.array_equal(got, want)
    assert np.array_equal(slope, np.broadcast_to(np.array([4, 1])[:, None], (2, 2, 3)))


def test_104_a_size_that_stays_is_known(sess):
    x = tf.placeholder(tf.float32, [None, None])
    _, y = tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, tf.where(tf.equal(i % 2, 0), tf.matmul(y, x), y)), [0, x], shape_invariants=[T([]), T([None, None])])
    assert np.array_equal(sess.run(y, {x: np.eye(3) * 2}), np.eye(3) * 8)


def test_104_loops_in_loops_and_branches(sess):
    def body(i, x):
        _, z = tf.while_loop(lambda j, z: j < i, lambda j, z: (j + 1, tf.concat([z, [j * 10]], 0)), [0, x], shape_invariants=[T([]), T([None])])
        return i + 1, z
    _, x = tf.while_loop(lambda i, x: i < 4, body, [0, tf.constant([7])], shape_invariants=[T([]), T([None])])
    assert sess.run(x).tolist() == [7, 0, 0, 10, 0, 10, 20]
    _, x = tf.while_loop(lambda i, x: i < 5, lambda i, x: (i + 1, tf.cond(tf.equal(i % 2, 0), lambda: tf.concat([x, x], 0), lambda: x[1:])), [0, tf.constant([1.0, 2.0])],
                         shape_invariants=[T([]), T([None])])
    assert sess.run(x).tolist() == [1, 2, 2, 1, 2, 1, 2, 2, 1, 2]


def test_104_gradients_of_first_and_second_order(sess):
    w = tf.placeholder(tf.float64, [2])
    n = tf.placeholder(tf.int32, [])
    _, x = tf.while_loop(lambda i, x: i < n, lambda i, x: (i + 1, tf.concat([x, x[-1:] * w], 0)), [0, tf.ones([1, 2], tf.float64)], shape_invariants=[T([]), T([None, 2])])
    (g,) = tf.gradients(tf.reduce_sum(x), w)
    (h,) = tf.gradients(g, w)
    point = np.array([0.9, 1.1])
    for trips in (0, 1, 6, 100):             # the sum of w**k
        k = np.arange(trips + 1)[:, None]
        got = sess.run([x, g, h], {w: point, n: trips})
        assert np.allclose(got[0], point ** k)
        assert np.allclose(got[1], (k * point ** np.maximum(k - 1, 0)).sum(0))
        assert np.allclose(got[2], (k * (k - 1) * point ** np.maximum(k - 2, 0)).sum(0))


def test_104_variables_of_the_body_are_made_once(sess):
    def body(i, x):
        w = tf.get_variable("w", [3], initializer=tf.ones_initializer(), regularizer=lambda v: tf.reduce_sum(v))
        tf.add_to_collection("seen", x)
        return i + 1, tf.concat([x, [w * tf.to_float(i)]], 0)
    _, x = tf.while_loop(lambda i, x: i < 4, body, [0, tf.ones([1, 3])], shape_invariants=[T([]), T([None, 3])])
    assert [v.name for v in tf.global_variables()] == [v.name for v in tf.trainable_variables()] == ["w:0"]
    assert len(tf.get_collection("seen")) == len(tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)) == 1
    grads = tf.gradients(x, tf.global_variables())
    sess.run(tf.global_variables_initializer())
    got = sess.run([x, *grads, *tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)])
    assert np.array_equal(got[0], np.array([1, 0, 1, 2, 3], "f4")[:, None] * np.ones(3, "f4"))
    assert np.array_equal(got[1], [6, 6, 6]) and got[2] == 3
    with pytest.raises(ValueError, match="Variable w already exists"):
        tf.get_variable("w", [3])
    with pytest.raises(Exception, match="traced again, since the size of a loop variable changes"):
        tf.while_loop(lambda i, x: i < 4, lambda i, x: (i + 1, tf.concat([x, [tf.Variable(lambda: tf.ones([3]))]], 0)), [0, tf.ones([1, 3])],
                      shape_invariants=[T([]), T([None, 3])])


def test_104_the_trace_that_is_taken_back_leaves_nothing(sess):
    before = set(tf.get_default_graph().get_operations())
    x = tf.ones([1], name="x")
    tf.while_loop(lambda i, x: i < 4, lambda i, x: (i + 1, tf.concat([x, x], 0, name="twice")), [0, x], shape_invariants=[T([]), T([None])])
    names = [op.name for op in tf.get_default_graph().get_operations() if op not in before]
    assert names.count("while/twice") == 1 and "while/twice_1" not in names
    assert tf.identity(x, name="while/twice").op.name == "while/twice_1"


def test_104_refusals(sess):
    x = tf.ones([1, 3])
    with pytest.raises(ValueError, match=r"enters the loop with shape \(1, 3\), but has shape \(1, 6\) after one iteration. To allow the shape to vary"):
        tf.while_loop(lambda i, x: i < 4, lambda i, x: (i + 1, tf.concat([x, x], 1)), [0, x], shape_invariants=[T([]), T([None, 3])])
    with pytest.raises(NotImplementedError, match="whose rank changes"):
        tf.while_loop(lambda i, x: i < 4, lambda i, x: (i + 1, tf.expand_dims(x, 0)), [0, x], shape_invariants=[T([]), T(None)])
    with pytest.raises(ValueError, match="1 shape invariants for 2 loop variables"):
        tf.while_loop(lambda i, x: i < 4, lambda i, x: (i + 1, tf.concat([x, x], 0)), [0, x], shape_invariants=[T([None, 3])])
    with pytest.raises(TypeError, match="enters the loop as float32, but is int32"):
        tf.while_loop(lambda i, x: i < 4, lambda i, x: (i + 1, tf.ones([2, 3], tf.int32)), [0, x], shape_invariants=[T([]), T([None, 3])])


def test_104_a_failing_trip_changes_nothing(sess):
    v = tf.Variable([1.0], name="v")
    n = tf.placeholder(tf.int32, [])
    _, x = tf.while_loop(lambda i, x: i < n, lambda i, x: (i + 1, tf.concat([x, tf.gather(v, [i])], 0)), [0, tf.zeros([1])], shape_invariants=[T([]), T([None])])
    step = v.assign_add([tf.reduce_sum(x)])
    sess.run(v.initializer)
    assert sess.run(step, {n: 1}).tolist() == [2.0]
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"indices\[0\] = 1 is not in \[0, 1\)"):
        sess.run(step, {n: 200})
    assert sess.run(v).tolist() == [2.0]


def test_104_with_a_tensor_array_beside(sess):
    ta = tf.TensorArray(tf.float32, 4)
    _, x, ta = tf.while_loop(lambda i, x, ta: i < 4, lambda i, x, ta: (i + 1, tf.concat([x, [1.0]], 0), ta.write(i, tf.reduce_sum(x))), [0, tf.zeros([1]), ta],
                             shape_invariants=[T([]), T([None]), T(None)])
    assert sess.run(x).tolist() == [0, 1, 1, 1, 1] and sess.run(ta.stack()).tolist() == [0, 1, 2, 3]


def test_015_variables_made_in_bodies_are_outside(sess):
    def body(i, x):
        return i + 1, x + tf.get_variable("v", initializer=np.full([1, 3], 2, "f4")) + tf.Variable(lambda: tf.ones([1, 3]) * 2)
    _, x = tf.while_loop(lambda i, x: i < 4, body, [0, tf.ones([1, 3])])
    y = tf.cond(x[0, 0] > 0, lambda: tf.get_variable("u", [2], initializer=tf.ones_initializer()) + 1, lambda: tf.zeros([2]))
    sess.run(tf.global_variables_initializer())
    assert sess.run(x).tolist() == [[17, 17, 17]] and sess.run(y).tolist() == [2, 2]
    for inner in (lambda i, x: (i + 1, x + tf.Variable(x * 2)), lambda i, x: (i + 1, x + tf.Variable(tf.ones([1, 3])))):
        with pytest.raises(ValueError, match="is from inside a control-flow construct, such as a loop or conditional"):
            tf.while_loop(lambda i, x: i < 4, inner, [0, tf.ones([1, 3])])
