"""Index tuples, segments, sequences, matrices of positions: TF1's names against NumPy (statements 24, 96, 97)."""

import numpy as np
import pytest

import staticgraph as tf

A = np.arange(24.0).reshape(2, 3, 4)


def test_024_assigning_a_part(sess):
    v = tf.Variable(np.zeros((3, 4), "f4"))
    sess.run(v.initializer)
    want = np.zeros((3, 4))
    for index, value in ((1, 7.0), ((slice(None), 2), [1.0, 2.0, 3.0]), ((slice(None, None, 2), slice(1, 3)), 5.0), ((0, 0), -1.0), ((Ellipsis, -1), 9.0)):
        want[index] = value
        assert np.array_equal(sess.run(v[index].assign(value)), want)
    assert np.array_equal(sess.run(v), want)


def test_024_assigning_a_part_that_the_run_chooses(sess):
    v, k = tf.Variable(np.zeros((3, 2), "f4")), tf.placeholder(tf.int32, [])
    sess.run(v.initializer)
    assert sess.run(v[k].assign([1.0, 2.0]), {k: 1}).tolist() == [[0, 0], [1, 2], [0, 0]]
    assert sess.run(v[:k].assign([[5.0, 5.0]] * 2), {k: 2}).tolist() == [[5, 5], [5, 5], [0, 0]]
    assert sess.run(v[k, 0].assign(9.0), {k: -1}).tolist() == [[5, 5], [5, 5], [9, 0]]
    for part, value in ((v[k], [1.0, 2.0]), (v[:k], [[5.0, 5.0]] * 2)):
        with pytest.raises(tf.errors.InvalidArgumentError):
            sess.run(part.assign(value), {k: 5 if part.shape.ndims == 1 else 3})
    assert sess.run(v).tolist() == [[5, 5], [5, 5], [9, 0]] and [v[0].assign([0.0, 0.0]).op.name, v[1].assign([0.0, 0.0]).op.name] == [
        "strided_slice_5/_assign", "strided_slice_6/_assign"]


def test_024_index_tuples_of_a_variable(sess):
    v = tf.Variable(np.zeros((2, 3), "f4"))
    sess.run(v.initializer)
    assert sess.run(tf.scatter_nd_add(v, [[0, 1], [0, 1], [1, 2]], [1.0, 2.0, 3.0])).tolist() == [[0, 3, 0], [0, 0, 3]]
    assert sess.run(tf.scatter_nd_sub(v, [[0]], [[1.0, 1.0, 1.0]])).tolist() == [[-1, 2, -1], [0, 0, 3]]
    assert sess.run(v.scatter_nd_update([[1, 0]], [8.0])).tolist() == [[-1, 2, -1], [8, 0, 3]]
    with pytest.raises(tf.errors.InvalidArgumentError):
        sess.run(tf.scatter_nd_update(v, [[0, 3]], [1.0]))
    assert sess.run(v).tolist() == [[-1, 2, -1], [8, 0, 3]]


def test_096_index_tuples(sess):
    at = np.array([[0, 1], [1, 2], [0, 1]])
    x = tf.placeholder(tf.float64, [None, 3, 4])
    picked = tf.gather_nd(x, at)
    assert np.array_equal(sess.run(picked, {x: A}), A[tuple(at.T)]) and picked.shape.as_list() == [3, 4]
    slope = np.zeros_like(A)
    np.add.at(slope, tuple(at.T), 1)
    assert np.array_equal(sess.run(tf.gradients(picked, [x])[0], {x: A}), slope)
    want = np.zeros((2, 3))
    np.add.at(want, tuple(at.T), [1, 2, 3])
    assert np.array_equal(sess.run(tf.scatter_nd(at, [1.0, 2.0, 3.0], [2, 3])), want)
    assert np.array_equal(sess.run(tf.tensor_scatter_add(np.ones((2, 3)), at, [1.0, 2.0, 3.0])), 1 + want)
    assert np.array_equal(sess.run(tf.tensor_scatter_sub(np.ones((2, 3)), at, [1.0, 2.0, 3.0])), 1 - want)
    assert sess.run(tf.tensor_scatter_update([1, 2, 3], [[1]], [9])).tolist() == [1, 9, 3]
    with pytest.raises(tf.errors.InvalidArgumentError):
        sess.run(tf.gather_nd(x, [[0, -1]]), {x: A})


def test_096_segments(sess):
    x, ids = tf.placeholder(tf.float32, [None, 2]), tf.placeholder(tf.int32, [None])
    total, mean = tf.unsorted_segment_sum(x, ids, 4), tf.unsorted_segment_mean(x, ids, 4)
    feed = {x: [[1, 2], [3, 4], [5, 6], [7, 8]], ids: [2, 0, 2, -1]}
    assert sess.run(total, feed).tolist() == [[3, 4], [0, 0], [6, 8], [0, 0]] and sess.run(mean, feed).tolist() == [[3, 4], [0, 0], [3, 4], [0, 0]]
    assert sess.run(tf.gradients(total * [[1.0], [2.0], [3.0], [4.0]], [x])[0], feed).tolist() == [[3, 3], [1, 1], [3, 3], [0, 0]]
    with pytest.raises(tf.errors.InvalidArgumentError):
        sess.run(total, {x: [[1, 2]], ids: [4]})


def test_096_sequences(sess):
    n = tf.placeholder(tf.int32, [None])
    assert sess.run(tf.sequence_mask(n, 3), {n: [0, 2, 3]}).tolist() == [[False] * 3, [True, True, False], [True] * 3]
    assert sess.run(tf.sequence_mask(n, dtype=tf.float32), {n: [1, 2]}).tolist() == [[1, 0], [1, 1]]
    got = sess.run(tf.reverse_sequence(A, [1, 3], seq_axis=1, batch_axis=0))
    assert np.array_equal(got, np.stack([A[0], A[1, ::-1]]))
    got = sess.run(tf.reverse_sequence(A, seq_lengths=[2, 1, 0, 3], seq_dim=1, batch_dim=2))
    want = A.copy()
    for k, length in enumerate([2, 1, 0, 3]):
        want[:, :length, k] = A[:, :length, k][:, ::-1]
    assert np.array_equal(got, want)


def test_096_orders(sess):
    x = np.array([[3, 1, 2], [1, 3, 1]])
    assert sess.run(tf.argsort(x)).tolist() == [[1, 2, 0], [0, 2, 1]] and sess.run(tf.argsort(x, axis=0, direction="DESCENDING")).tolist() == [[0, 1, 0], [1, 0, 1]]
    assert sess.run(tf.invert_permutation([2, 0, 1])).tolist() == [1, 2, 0]
    for shift, axis in ((1, 0), (-2, 2), ([1, 5], [1, 2])):
        assert np.array_equal(sess.run(tf.roll(A, shift, axis)), np.roll(A, shift, axis))
    for kind in ("xy", "ij"):
        for got, want in zip(sess.run(tf.meshgrid([1, 2, 3], [4, 5], [6], indexing=kind)), np.meshgrid([1, 2, 3], [4, 5], [6], indexing=kind)):
            assert np.array_equal(got, want)
    assert sess.run(tf.confusion_matrix([0, 1, 1], [1, 1, 0], 2, weights=[1, 2, 3])).tolist() == [[0, 1], [3, 2]]
    assert np.allclose(sess.run(tf.linspace(1.0, tf.constant(2.0), 5)), np.linspace(1, 2, 5))


def test_096_matrices(sess):
    m = A[:, :, :3]
    pairs = [(tf.eye(2, 3), np.eye(2, 3)), (tf.eye(2, batch_shape=[3], dtype=tf.int32), np.stack([np.eye(2)] * 3)), (tf.diag([1.0, 2.0]), np.diag([1, 2])),
             (tf.diag_part(m[0]), np.diagonal(m[0])), (tf.matrix_diag([[1, 2], [3, 4]]), [np.diag([1, 2]), np.diag([3, 4])]), (tf.trace(m), np.trace(m, axis1=1, axis2=2)),
             (tf.matrix_diag_part(A), np.diagonal(A, axis1=1, axis2=2)), (tf.matrix_band_part(m, 0, -1), np.triu(m)), (tf.linalg.band_part(m, -1, 0), np.tril(m)),
             (tf.cross(m, m[:, ::-1]), np.cross(m, m[:, ::-1])), (tf.linalg.transpose(m), m.transpose(0, 2, 1))]
    for got, want in pairs:
        assert np.array_equal(sess.run(got), want)
    filled = m.copy()
    filled[:, np.arange(3), np.arange(3)] = -1
    assert np.array_equal(sess.run(tf.linalg.set_diag(m, -np.ones((2, 3)))), filled)
    x = tf.placeholder(tf.float32, [None])
    assert sess.run(tf.eye(tf.shape(x)[0]), {x: [1, 2]}).tolist() == [[1, 0], [0, 1]]
    with pytest.raises(ValueError, match="needs a vector"):
        tf.diag([[1.0]])


def test_097_control_inputs_that_an_input_waits_for_are_left_out():
    a, b = tf.no_op(name="a"), tf.constant(1.0, name="b")
    with tf.control_dependencies([a, b]):
        first = tf.constant(2.0, name="first")
        second = tf.multiply(first, 2.0)
        third = tf.identity(b)
    assert first.op.control_inputs == [a, b.op] and second.op.control_inputs == [] and third.op.control_inputs == [a]


def test_096_parts_of_a_selection_that_is_empty(sess):
    p = tf.placeholder(tf.float32, [None, 2])
    selected = tf.boolean_mask(p, p[:, 0] > 0)
    for n in (0, 1, 2, 4):
        rows = np.arange(1, 2 * n + 1, dtype="f4").reshape(n, 2)
        for part in (np.s_[1:], np.s_[:-1], np.s_[2:], np.s_[1:3], np.s_[::-1], np.s_[1::2], np.s_[-3:-1], np.s_[:-2:2], np.s_[-2:], np.s_[2:1], np.s_[3::3]):
            for source, value in ((selected, np.r_[np.zeros((2, 2)), rows]), (p, rows)):     # a size that the run finds, one that it is fed
                y = source[part]
                found, slope = sess.run([y, tf.gradients(y, source)[0]], {p: value})
                want = np.zeros_like(rows)
                want[part] = 1
                assert np.array_equal(found, rows[part]) and np.array_equal(slope, want), (n, part)
