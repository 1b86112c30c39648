"""Statement 112, 135 and functions of index tuples, by TF 1.15.5."""

import numpy as np
import pytest

import staticgraph as tf


@pytest.mark.parametrize("type, f", [("RandomShuffle", tf.random_shuffle), ("Unique", lambda x: tf.unique(x)[0]), ("UniqueWithCounts", lambda x: tf.unique_with_counts(x)[0])])
def test_112_what_refuses_its_gradient(sess, type, f):
    x = tf.constant([1.0, 2.0, 1.0])
    f(x)
    y = f(x)
    assert set(sess.run(y)) == {1, 2}
    with pytest.raises(LookupError, match=rf"No gradient defined for operation '{type}_1' \(op type: {type}\)"):
        tf.gradients(y, [x])


@pytest.mark.parametrize("f", [
    lambda x: tf.unique(x)[1], lambda x: x // 2.0, lambda x: tf.where(x > 1.0), tf.size, tf.shape, lambda x: tf.one_hot(tf.cast(x, tf.int32), 3),
    lambda x: tf.py_func(lambda a: a, [x], tf.float32), lambda x: x < 1.0, tf.is_nan, tf.argmin, lambda x: tf.sequence_mask(tf.cast(x, tf.int32), 4)])
def test_112_none(f):
    x = tf.constant([1.0, 2.5])
    assert tf.gradients(tf.cast(f(x), tf.float32), [x]) == [None]


def test_112_remainders(sess):
    x = tf.constant([1.0, 2.5])
    assert sess.run(tf.gradients(3.0 % x, [x])[0]).tolist() == [-3, -1]


def test_135_names_to_restore():
    v, w = tf.Variable([1.0, 2.0], name="v"), tf.Variable(1.0, name="w")
    ema = tf.train.ExponentialMovingAverage(0.9)
    ema.apply([v])
    b = tf.Variable(1.0, trainable=False, name="b")
    assert ema.variables_to_restore() == {"b": b, "v/ExponentialMovingAverage": v, "w/ExponentialMovingAverage": w}
    assert ema.variables_to_restore([w]) == {"b": b, "v": v, "v/ExponentialMovingAverage": ema.average(v), "w/ExponentialMovingAverage": w}


def test_096_index_tuples_by_batch(sess):
    a = np.arange(12.0).reshape(2, 3, 2)
    assert sess.run(tf.gather_nd(a, [[[0], [2]], [[1], [1]]], batch_dims=1)).tolist() == [[[0, 1], [4, 5]], [[8, 9], [8, 9]]]
    assert sess.run(tf.gather_nd(a, [[1], [2]], batch_dims=1)).tolist() == [[2, 3], [10, 11]]
    with pytest.raises(ValueError, match="the first 1 axes"):
        tf.gather_nd(a, [[1], [2], [0]], batch_dims=1)


def test_096_confusion_of_as_many_classes_as_occur(sess):
    labels = tf.placeholder(tf.int32, [None])
    m = tf.confusion_matrix(labels, tf.ones_like(labels))
    assert sess.run(m, {labels: [0, 3, 1]}).tolist() == [[0, 1, 0, 0], [0, 1, 0, 0], [0, 0, 0, 0], [0, 1, 0, 0]]
    assert sess.run(m, {labels: [0]}).tolist() == [[0, 1], [0, 0]]
    assert sess.run(tf.confusion_matrix([0, 2, 1], [1, 1, 1], weights=[0.5, 1.5, 2.0], dtype=tf.float32)).tolist() == [[0, 0.5, 0], [0, 2, 0], [0, 1.5, 0]]
    with pytest.raises(tf.errors.InvalidArgumentError):
        sess.run(m, {labels: [0, -1]})
