"""``pad`` in all its modes (96), and assertions on ranks and types (163): values by NumPy, texts by TF 1.15.5."""

import numpy as np
import pytest

import staticgraph as tf

A = np.arange(24.0).reshape(2, 3, 4)


@pytest.mark.parametrize("mode", ["REFLECT", "SYMMETRIC"])
@pytest.mark.parametrize("sizes", [[2, 3, 4], [None, 3, None], [None, None, None]])
@pytest.mark.parametrize("amounts", [[[0, 0], [2, 1], [3, 3]], [[1, 0], [0, 0], [1, 2]]])
def test_096_mirrored_borders(sess, mode, sizes, amounts):
    x = tf.placeholder(tf.float64, sizes)
    y = tf.pad(x, amounts, mode)
    want = np.pad(A, amounts, mode.lower())
    weights = np.random.default_rng(1).normal(size=want.shape)
    assert y.shape.as_list() == [None if d is None else d + sum(p) for d, p in zip(sizes, amounts)] and y.op.type == "MirrorPad"
    got, slope = sess.run([y, tf.gradients(y, [x], grad_ys=tf.constant(weights))[0]], {x: A})
    assert np.array_equal(got, want)
    # each place of y shows one element of x, whose slope is the sum of their weights
    shows = np.pad(np.arange(A.size).reshape(A.shape), amounts, mode.lower())
    assert np.allclose(slope.ravel(), np.bincount(shows.ravel(), weights.ravel(), A.size))


def test_096_more_than_one_image_is_refused(sess):
    x = tf.placeholder(tf.float32, [None, 3])
    for mode, amounts, word in (("REFLECT", [[2, 0], [0, 0]], "less than"), ("REFLECT", [[0, 3], [0, 0]], "less than"), ("SYMMETRIC", [[0, 3], [0, 0]], "no greater than")):
        y = tf.pad(x, amounts, mode)
        with pytest.raises(tf.errors.InvalidArgumentError, match=f"paddings must be {word} the dimension size"):
            sess.run(y, {x: np.ones((2, 3))})
        assert sess.run(y, {x: np.ones((4, 3))}).shape[0] == 4 + sum(amounts[0])
        with pytest.raises(ValueError, match=f"paddings must be {word} the dimension size"):
            tf.pad(tf.ones([2, 3]), amounts, mode)
    empty = tf.pad(x, [[1, 0], [0, 0]], "SYMMETRIC")
    with pytest.raises(tf.errors.InvalidArgumentError, match="paddings must be no greater than"):
        sess.run(empty, {x: np.ones((0, 3))})
    with pytest.raises(ValueError, match="Unknown padding mode: FOO"):
        tf.pad(x, [[1, 0], [0, 0]], "foo")
    with pytest.raises(ValueError, match=r"paddings must have shape \[2,2\]"):
        tf.pad(x, [[1, 0]])


def test_163_ranks(sess):
    v = tf.constant([1.0], name="v")
    for op in (tf.assert_rank(v, 1), tf.assert_rank_at_least(v, 0), tf.assert_rank_in(v, [1, 2]), tf.assert_type(v, tf.float32)):
        assert op.type == "NoOp" and sess.run(op) is None
    assert tf.assert_rank(v, 1).name == "assert_rank_1/static_checks_determined_all_ok"
    for f, text in ((lambda: tf.assert_rank(v, 2, message="hello"), r"hello\.  Tensor v:0 must have rank 2\.  Received rank 1, shape \(1,\)"),
                    (lambda: tf.assert_rank_at_least(v, 2), r"\.  Tensor v:0 must have rank at least 2\.  Received rank 1"),
                    (lambda: tf.assert_rank_in(v, [0, 2]), r"must have rank in \(0, 2\)\.  Received rank 1"), (lambda: tf.assert_rank(v, [1]), "Rank must be a scalar")):
        with pytest.raises(ValueError, match=text):
            f()
    with pytest.raises(TypeError, match="must be of type <dtype: 'int32'>"):
        tf.assert_rank(v, 1.5)
    with pytest.raises(TypeError, match=r"hi  v:0 must be of type <dtype: 'int32'>"):
        tf.assert_type(v, tf.int32, message="hi")


def test_163_ranks_that_the_feed_decides(sess):
    x = tf.placeholder(tf.float32)
    with tf.control_dependencies([tf.assert_rank(x, 2)]):
        y = tf.identity(x)
    assert sess.run(y, {x: [[1.0]]}).shape == (1, 1)
    with pytest.raises(ValueError, match=r"must have rank 2\.  Received rank 1"):
        sess.run(y, {x: [1.0]})
