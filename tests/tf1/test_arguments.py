"""An argument that is accepted works or is refused: aliases, options and older names of public functions (statements 33, 36, 82, 88, 101 to 107)."""

import numpy as np
import pytest

import staticgraph as tf

X = np.array([[1.0, -2.0, 0.0], [0.5, 3.0, -1.0]], np.float32)


def test_088_older_names_of_reductions(sess):
    assert sess.run(tf.count_nonzero(X, reduction_indices=[1], keep_dims=True)).tolist() == [[2], [3]]
    assert sess.run([tf.argmax(X, dimension=1), tf.argmin(X, dimension=0)])[0].tolist() == [0, 1]
    assert tf.squeeze(X[:1], squeeze_dims=[0]).shape.as_list() == [3] and tf.nn.l2_normalize(X, dim=1).shape.as_list() == [2, 3]
    for call in (lambda: tf.squeeze(X, axis=0, squeeze_dims=0), lambda: tf.expand_dims(X, axis=0, dim=0), lambda: tf.nn.dropout(X, keep_prob=0.5, rate=0.5),
                 lambda: tf.count_nonzero(X, axis=0, reduction_indices=0), lambda: tf.nn.softmax_cross_entropy_with_logits(labels=X, logits=X, dim=0, axis=0)):
        with pytest.raises(ValueError, match="Cannot specify both"):
            call()


@pytest.mark.parametrize("axis", [0, 1, -2])
def test_088_cross_entropy_along_any_axis(sess, axis):
    labels = np.full((2, 3), 0.25, np.float32)
    z = np.asarray(X, np.float64)
    want = -(labels * (z - np.log(np.exp(z).sum(axis, keepdims=True)))).sum(axis)
    for given in ({"dim": axis}, {"axis": axis}):
        assert np.allclose(sess.run(tf.nn.softmax_cross_entropy_with_logits_v2(labels=labels, logits=X, **given)), want, rtol=1e-5)


def test_033_embedding_lookup_in_several_tables(sess):
    whole = np.arange(14, dtype=np.float32).reshape(7, 2)
    ids = np.array([[0, 6], [3, 5]])
    dealt = [tf.constant(whole[k::3]) for k in range(3)]
    blocks = [tf.constant(whole[:3]), tf.constant(whole[3:5]), tf.constant(whole[5:])]
    assert np.array_equal(sess.run(tf.nn.embedding_lookup(dealt, ids)), whole[ids])
    assert np.array_equal(sess.run(tf.nn.embedding_lookup(blocks, ids, partition_strategy="div")), whole[ids])
    rows = sess.run(tf.nn.embedding_lookup(whole, ids, max_norm=5.0))
    assert np.allclose(rows, whole[ids] * np.minimum(1, 5 / np.maximum(np.linalg.norm(whole[ids], axis=-1, keepdims=True), 1e-9)))
    with pytest.raises(ValueError, match="Unrecognized partition strategy"):
        tf.nn.embedding_lookup(dealt, ids, partition_strategy="other")


def test_076_shapes_of_constants_are_verified():
    assert tf.constant([1, 2], shape=[2], verify_shape=True).shape.as_list() == [2]
    with pytest.raises(TypeError, match=r"Expected Tensor's shape: \(3,\), got \(2,\)"):
        tf.constant([1, 2], shape=[3], verify_shape=True)


def test_016_resource_variables_have_plain_dtypes():
    v = tf.Variable(1.0, use_resource=True)
    with tf.variable_scope("s", use_resource=True):
        w = tf.get_variable("w", [2])
    assert v.dtype == w.dtype == tf.float32 and v.op.type == "VarHandleOp" and repr(w) == "<tf.Variable 's/w:0' shape=(2,) dtype=float32>"


def test_022_assigns_without_a_value(sess):
    v = tf.Variable(1.0)
    sess.run(v.initializer)
    change = v.assign_add(2.0, read_value=False)
    assert isinstance(change, tf.Operation) and sess.run(change) is None and sess.run(v) == 3


def test_034_constraints_follow_the_update(sess):
    def unit(w):
        return tf.clip_by_value(w, 0.0, 1.0)
    v = tf.Variable([0.5, 0.5], constraint=unit)
    with tf.variable_scope("s", constraint=unit):
        w = tf.get_variable("w", initializer=[0.5])
    train = tf.train.GradientDescentOptimizer(1.0).minimize(tf.reduce_sum(v * [2.0, -2.0]) + tf.reduce_sum(w))
    sess.run(tf.global_variables_initializer())
    sess.run(train)
    assert sess.run([v, w])[0].tolist() == [0, 1] and sess.run(w).tolist() == [0]
    with pytest.raises(RuntimeError, match="Cannot use a constraint function on a sparse variable"):
        tf.train.GradientDescentOptimizer(1.0).minimize(tf.reduce_sum(tf.gather(v, [0])))


@pytest.mark.parametrize("call", [
    lambda: tf.Variable(1.0, variable_def="proto"), lambda: tf.get_variable("w", [2], partitioner=lambda **_: [1]), lambda: tf.train.ExponentialMovingAverage(0.9, zero_debias=True),
    lambda: tf.Variable(tf.placeholder(tf.float32, [None]), validate_shape=False), lambda: tf.Session().make_callable(tf.constant(1), accept_options=True),
    lambda: tf.Session().run(tf.constant(1), run_metadata=object()), lambda: tf.Session().partial_run_setup([tf.constant(1)])])
def test_what_is_not_available_is_refused(call):
    with pytest.raises(NotImplementedError, match="not available"):
        call()


@pytest.mark.parametrize("call, error, message", [
    (lambda: tf.group(tf.no_op(), names="x"), ValueError, "Unknown keyword arguments names"), (lambda: tf.tuple([]), ValueError, "at least one"),
    (lambda: tf.Variable([1.0], shape=[2]), ValueError, "not compatible with the explicitly supplied"), (lambda: tf.split(X, [1, 1], num=3), ValueError, "split into 3"),
    (lambda: tf.cond(tf.constant(True), lambda: 1, lambda: 2, fn1=lambda: 3), TypeError, "may not be set simultaneously"),
    (lambda: tf.map_fn(lambda r: r, X, dtype=tf.int32), TypeError, "was given dtype"),
    (lambda: tf.train.FtrlOptimizer(0.1, l1_regularization_strength=-1.0), ValueError, "needs to be greater")])
def test_arguments_that_do_not_fit(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_103_shape_invariants(sess):
    x = tf.constant(X)
    _, y = tf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a + a), (0, x), shape_invariants=(tf.TensorShape([]), tf.TensorShape([None, 3])))
    assert y.shape.as_list() == [None, 3] and np.array_equal(sess.run(y), 8 * X)
    with pytest.raises(ValueError, match="not compatible with the initial shape of the loop variable"):
        tf.while_loop(lambda a: True, lambda a: a, [x], shape_invariants=[tf.TensorShape([3, None])])


def test_103_a_single_loop_variable(sess):
    assert isinstance(tf.while_loop(lambda i: i < 3, lambda i: i + 1, [0]), tf.Tensor)
    (kept,) = tf.while_loop(lambda i: i < 3, lambda i: i + 1, [0], return_same_structure=True)
    assert sess.run(kept) == 3


def test_014_templates_of_a_unique_name():
    def f():
        return tf.get_variable("w", [])
    one, two = (tf.make_template("t", f, unique_name_="shared") for _ in range(2))
    assert one() is one() and one().name == "shared/w:0"
    with pytest.raises(ValueError, match="Variable shared/w already exists"):            # as in TF 1.15
        two()
    with tf.variable_scope("a"):
        early = tf.make_template("t", f, create_scope_now_=True)
    with tf.variable_scope("b"):
        assert early().name == "a/t/w:0" and early() is early()
