"""Further clauses of statements 2 to 136, one short check each; a function is named by its statement."""

import re

import numpy as np
import pytest

import staticgraph as tf


def raises(kind, match, f):
    """``f()`` fails with that class and message."""
    with pytest.raises(kind) as caught:
        f()
    assert re.search(match, str(caught.value)), str(caught.value)


def run(x, feed=None):
    """The value in a session with all variables initialised."""
    with tf.Session() as s:
        s.run(tf.global_variables_initializer())
        return s.run(x, feed)


def test_004():
    x = tf.constant([[1.0, 2.0]])
    y = tf.constant([1, 0])
    v = tf.Variable(np.ones((3, 2), "f4"))
    want = {
        "Fill": tf.fill(tf.shape(x), 1.0),
        "random_normal": tf.random_normal([2]),
        "random_uniform": tf.random_uniform([2]),
        "truncated_normal": tf.truncated_normal([2]),
        "range": tf.range(3),
        "split": tf.split(x, 2, 1)[0],
        "unstack": tf.unstack(x)[0],
        "GatherV2": tf.gather(x, [0]),
        "Pad": tf.pad(x, [[0, 0], [1, 1]]),
        "Squeeze": tf.squeeze(x),
        "Max": tf.reduce_max(x),
        "ToFloat": tf.to_float(y),
        "ones_like": tf.ones_like(x),
        "Sigmoid": tf.sigmoid(x),
        "LogSoftmax": tf.nn.log_softmax(x),
        "Elu": tf.nn.elu(x),
        "LeakyRelu": tf.nn.leaky_relu(x),
        "L2Loss": tf.nn.l2_loss(x),
        "BiasAdd": tf.nn.bias_add(x, [1.0, 2.0]),
        "clip_by_value": tf.clip_by_value(x, 0.0, 1.0),
        "logistic_loss": tf.nn.sigmoid_cross_entropy_with_logits(labels=x, logits=x),
        "SparseSoftmaxCrossEntropyWithLogits/SparseSoftmaxCrossEntropyWithLogits": tf.nn.sparse_softmax_cross_entropy_with_logits(labels=[1], logits=x),
        "softmax_cross_entropy_with_logits_sg/Reshape_2": tf.nn.softmax_cross_entropy_with_logits(labels=x, logits=x),
        "embedding_lookup/Identity": tf.nn.embedding_lookup(v, [0]),
        "moments/Squeeze": tf.nn.moments(x, [0])[0],
        "norm/Squeeze": tf.norm(x),
        "Tensordot": tf.tensordot(x, x, [[1], [1]]),
        "cond/Merge": tf.cond(tf.constant(True), lambda: x, lambda: x),
        "while/Exit": tf.while_loop(lambda i: i < 3, lambda i: i + 1, [0]),
        "map/TensorArrayStack/TensorArrayGatherV3": tf.map_fn(lambda r: r, x),
        "Print": tf.Print(x, [x]),
        "PyFunc": tf.py_func(lambda: np.float32(1), [], tf.float32),
        "Conv2D": tf.nn.conv2d(np.ones((1, 4, 4, 1), "f4"), np.ones((2, 2, 1, 1), "f4"), [1, 1, 1, 1], "SAME"),
        "MaxPool": tf.nn.max_pool(np.ones((1, 4, 4, 1), "f4"), [1, 2, 2, 1], [1, 2, 2, 1], "SAME"),
        "dropout/mul_1": tf.nn.dropout(x, 0.5),
    }
    bad = {k: t.op.name for k, t in want.items() if t.op.name != k}
    assert not bad, bad
    assert tf.group(x).name == "group_deps" and tf.global_variables_initializer().name == "init"


def test_002():
    a = tf.constant([[True]])
    assert (a & a).name == "and:0" and (a | a).name == "or:0"
    m = tf.constant([[1.0]])
    assert (m @ m).name == "matmul:0"


def test_015():
    tf.get_variable("w", [2], initializer=tf.zeros_initializer())
    assert [o.name for o in tf.get_default_graph().get_operations()] == ["w/Initializer/zeros", "w", "w/Assign", "w/read"], [
        o.name for o in tf.get_default_graph().get_operations()
    ]


def test_019():
    raises(ValueError, "initial_value must have a shape specified", lambda: tf.Variable(tf.placeholder(tf.float32, [None])))


def test_021():
    v = tf.Variable(1.0, name="v")
    s = tf.Session()
    raises(tf.errors.FailedPreconditionError, "Attempting to use uninitialized value v", lambda: s.run(v.assign_add(1.0)))


def test_033():
    w = tf.get_variable("f", [2], initializer=lambda shape, dtype=None, partition_info=None: tf.ones(shape, dtype))
    assert run(w).tolist() == [1, 1]
    raises(ValueError, "", lambda: tf.get_variable("g"))
    b = tf.get_variable("b", [2], tf.bool)
    assert run(b).tolist() == [False, False]


def test_036():
    raises(TypeError, "", lambda: list(tf.Variable([1.0, 2.0])))


def test_039():
    K = tf.GraphKeys
    assert (K.MOVING_AVERAGE_VARIABLES, K.QUEUE_RUNNERS, K.MODEL_VARIABLES, K.METRIC_VARIABLES, K.WEIGHTS, K.BIASES, K.ACTIVATIONS, K.SAVERS, K.INIT_OP) == (
        "moving_average_variables",
        "queue_runners",
        "model_variables",
        "metric_variables",
        "weights",
        "biases",
        "activations",
        "savers",
        "init_op",
    )


def test_046():
    tf.constant(1.0, name="a")
    raises(KeyError, "exists but only has 1 outputs", lambda: tf.get_default_graph().get_tensor_by_name("a:1"))


def test_071():
    raises(TypeError, "", lambda: tf.placeholder(int))
    assert tf.placeholder(tf.float32).shape.ndims is None


def test_072():
    assert tf.constant(1 + 2j).dtype == tf.complex128 and tf.constant("a").dtype == tf.string
    raises((TypeError, ValueError), "", lambda: tf.constant([1, "a"]))
    raises((TypeError, ValueError), "", lambda: tf.constant([1, None]))
    raises(TypeError, "", lambda: tf.convert_to_tensor(range(3)))


def test_074():
    f, i = tf.constant([[1.0]]), tf.constant([[1]])
    raises(TypeError, "Input 'b' of 'MatMul' Op has type int32 that does not match type float32 of argument 'a'", lambda: tf.matmul(f, i))
    raises(TypeError, "Input 'e' of 'Select' Op has type int32 that does not match type float32 of argument 't'", lambda: tf.where([[True]], f, i))


def test_075():
    assert (tf.constant(1.0) + True).dtype == tf.float32


def test_078():
    assert tf.convert_to_tensor(1, preferred_dtype=tf.float32).dtype == tf.float32 and tf.convert_to_tensor("a", preferred_dtype=tf.float32).dtype == tf.string


def test_081():
    raises(TypeError, "has DataType bool not in list", lambda: tf.reduce_mean([True]))
    assert run(tf.reduce_mean([1, 2, 2])) == 1


def test_082():
    x = tf.constant([[1.0, 3.0, 3.0]])
    assert tf.argmax(x).dtype == tf.int64 and run(tf.argmax(x, 1))[0] == 1 and tf.argmax(x, 1, output_type=tf.int32).dtype == tf.int32


def test_083():
    assert (
        tf.float32 == np.float32
        and tf.float32 == "float32"
        and repr(tf.float32) == "tf.float32"
        and str(tf.float32) == "<dtype: 'float32'>"
        and tf.float32.as_datatype_enum == 1
        and tf.float32.size == 4
        and tf.float32.max > 1e38
        and tf.float32.as_numpy_dtype is np.float32
    )
    raises(TypeError, "", lambda: tf.as_dtype("foo"))


def test_088():
    x = tf.constant([[1.0, 2.0]])
    assert tf.cond(tf.constant(True), fn1=lambda: x, fn2=lambda: x) is not None


def test_090():
    D = tf.Dimension
    d = D(3)
    assert (
        d + 1 == 4
        and d * 2 == 6
        and d // 2 == 1
        and d % 2 == 1
        and d - 1 == 2
        and "%d" % d == "3"  # noqa: UP031
        and np.prod([d, D(2)]) == 6
        and tf.zeros([d, 2]).shape.as_list() == [3, 2]
    )
    assert (D(None) == 3) is None and tf.TensorShape([None]) != [None] and str(tf.TensorShape([None, 3])) == "(?, 3)"
    raises(ValueError, "must have rank", lambda: tf.TensorShape([1]).with_rank(2))
    tf.TensorShape([2]).assert_is_compatible_with([None])
    assert tf.TensorShape([2, 3])[0] == 2 and [int(x) for x in tf.TensorShape([2, 3])] == [2, 3] and tf.TensorShape([2, 3]).dims[1].value == 3


def test_093():
    raises(ValueError, "Shape must be rank 2 but is rank 1 for 'MatMul'", lambda: tf.matmul(tf.ones([2]), tf.ones([2, 2])))


def test_093b():
    raises(
        ValueError,
        r"Rank mismatch: Rank of labels \(received 2\) should equal rank of logits minus 1 \(received 2\).",
        lambda: tf.nn.sparse_softmax_cross_entropy_with_logits(labels=[[1]], logits=[[1.0, 2.0]]),
    )


def test_094():
    x = tf.placeholder(tf.float32, [None])
    s = tf.Session()
    raises(
        tf.errors.InvalidArgumentError,
        "Input to reshape is a tensor with 6 values, but the requested shape has 5",
        lambda: s.run(tf.reshape(x, [5]), {x: np.ones(6)}),
    )


def test_094b():
    s = tf.Session()
    a, b = tf.placeholder(tf.float32, [None, None]), tf.placeholder(tf.float32, [None, None])
    raises(
        tf.errors.InvalidArgumentError,
        r"ConcatOp : Dimensions of inputs should match: shape\[0\] = \[2,3\] vs. shape\[1\] = \[2,4\]",
        lambda: s.run(tf.concat([a, b], 0), {a: np.ones((2, 3)), b: np.ones((2, 4))}),
    )


def test_094c():
    s = tf.Session()
    a = tf.placeholder(tf.float32, [None, 3])
    raises(tf.errors.InvalidArgumentError, r"Reduction axis 0 is empty in shape \[0,3\]", lambda: s.run(tf.argmax(a, 0), {a: np.ones((0, 3))}))


def test_096():
    t = tf.constant([[1, 2], [3, 4]])
    for bad in ("a", 1.5, [0]):
        raises(TypeError, "Only integers, slices", lambda: t[bad])
    assert run(t[tf.constant([True, False])]).tolist() == [[1, 2]]


def test_097():
    v = tf.Variable(1.0)
    with tf.control_dependencies([v]):
        pass
    with tf.control_dependencies([tf.no_op(), tf.constant(1)]):
        pass


def test_100():
    a, b = tf.constant(1.0), tf.constant(2.0)
    assert isinstance(tf.group(a, b), tf.Operation)
    t = tf.tuple([a, None, b])
    assert t[1] is None and run([t[0], t[2]]) == [1, 2] and tf.no_op().name == "NoOp"


def test_101():
    p = tf.placeholder(tf.bool, [])
    v = tf.Variable(0.0)
    outside = v.assign_add(1.0)
    with tf.Session() as s:
        s.run(v.initializer)
        s.run(tf.cond(p, lambda: outside + 0, lambda: tf.constant(0.0)), {p: False})
        assert s.run(v) == 1, "outside op runs always"
    raises(TypeError, "must not be a Python bool", lambda: tf.cond(True, lambda: 1, lambda: 2))
    raises(TypeError, "", lambda: tf.cond(tf.constant(1), lambda: 1, lambda: 2))
    raises(
        ValueError,
        "Outputs of true_fn and false_fn must have the same type: float32, int32",
        lambda: tf.cond(p, lambda: tf.constant(1.0), lambda: tf.constant(1)),
    )
    raises(ValueError, "don't have the same nested structure", lambda: tf.cond(p, lambda: (1, 2), lambda: 1))
    raises(ValueError, "true_fn must have a return value.", lambda: tf.cond(p, lambda: None, lambda: 1))
    raises(TypeError, "callable", lambda: tf.cond(p, 1, 2))
    assert (
        isinstance(tf.cond(p, lambda: [tf.constant(1)], lambda: [tf.constant(2)]), tf.Tensor)
        and isinstance(tf.cond(p, lambda: [1], lambda: [2], strict=True), list)
        and isinstance(tf.cond(p, lambda: (1, 2), lambda: (3, 4)), tuple)
        and set(tf.cond(p, lambda: {"a": 1}, lambda: {"a": 2})) == {"a"}
    )
    x = tf.constant(3.0)
    g = tf.gradients(tf.cond(p, lambda: x * x, lambda: x * 5.0), [x])[0]
    assert run(g, {p: True}) == 6 and run(g, {p: False}) == 5


def test_103():
    assert isinstance(tf.while_loop(lambda i, j: i < 3, lambda i, j: (i + 1, j), [0, 1]), tuple) and isinstance(
        tf.while_loop(lambda i, j: i < 3, lambda i, j: [i + 1, j], (0, 1)), list
    )
    r = tf.while_loop(lambda i, d: i < 3, lambda i, d: (i + 1, {"a": d["a"] * 2, "b": d["b"]}), (0, {"a": 1, "b": [2]}))
    assert run(r)[1]["a"] == 8
    raises(TypeError, "", lambda: tf.while_loop(lambda i: i < 3, lambda i: i + 1, tf.constant(0)))


def test_104():
    raises(
        ValueError,
        r"Input tensor '.*' enters the loop with shape \(1,\), but has shape \(2,\) after one iteration",
        lambda: tf.while_loop(lambda x: True, lambda x: tf.concat([x, x], 0), [tf.ones([1])]),
    )
    raises(ValueError, "", lambda: tf.while_loop(lambda i: i < 3, lambda i: (i, i), [0]))
    raises(ValueError, "No loop variables provided", lambda: tf.while_loop(lambda: True, lambda: 1, []))
    raises(TypeError, "", lambda: tf.while_loop(lambda i: i, lambda i: i, [0]))


def test_105():
    r = tf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, tf.concat([a[1:], tf.random_uniform([1])], 0)), (0, tf.zeros([3])))[1]
    got = run(r)
    assert len(set(got)) == 3


def test_107():
    x = tf.constant([1.0, 2.0, 3.0])
    assert run(tf.scan(lambda a, e: a + e, x, reverse=True)).tolist() == [6, 5, 3]
    a, b = tf.scan(lambda s, e: (s[0] + e, s[1] * e), x, initializer=(0.0, 1.0))
    assert run([a, b])[1].tolist() == [1, 2, 6]
    assert tf.map_fn(lambda e: tf.cast(e, tf.int32), x, dtype=tf.int32).dtype == tf.int32


def test_112():
    x = tf.constant([1.0, 2.0])
    for f in (
        tf.shape,
        tf.size,
        lambda v: v // 1.0,
        lambda v: tf.one_hot(tf.cast(v, tf.int32), 3),
        lambda v: tf.where(v > 0),
        lambda v: tf.py_func(lambda a: a, [v], tf.float32),
    ):
        assert tf.gradients(tf.cast(f(x), tf.float32), [x]) == [None]
    assert tf.gradients(tf.constant([1]) * 2, [tf.constant([1])]) == [None]


def test_113():
    z = tf.constant([0.0, 3.0])
    assert run(tf.gradients(tf.nn.selu(z), [z])[0])[0] > 1.05
    assert run(tf.gradients(tf.norm(z * 0.0 + z * [0.0, 0.0]), [z])[0]).tolist() == [0, 0]
    t = tf.constant([1.0, 1.0, 0.0])
    v, _i = tf.nn.top_k(t, 1)
    assert run(tf.gradients(v, [t])[0]).tolist() == [1, 0, 0]
    p = tf.constant([0.0, 2.0, 3.0])
    assert run(tf.gradients(tf.reduce_prod(p), [p])[0]).tolist() == [6, 0, 0]


def test_129():
    tf.Variable(1.0)
    o = tf.train.GradientDescentOptimizer(0.1)
    raises(ValueError, "No gradients provided for any variable, check your graph", lambda: o.minimize(tf.constant(1.0) * 2))


def test_130():
    v = tf.Variable(1.0)
    st = tf.train.get_or_create_global_step()
    t = tf.train.GradientDescentOptimizer(0.1).minimize(v * v, st)
    assert isinstance(t, tf.Operation) and t.type == "AssignAdd" and t.name == "GradientDescent"


def test_131():
    w = tf.Variable(1.0, name="w")
    o1 = tf.train.AdamOptimizer()
    o1.minimize(w * w)
    o2 = tf.train.AdamOptimizer()
    op = o2.minimize(w * w)
    names = [v.op.name for v in tf.global_variables()]
    assert op.name == "Adam_1" and {"w/Adam_2", "w/Adam_3", "beta1_power_1"} <= set(names), names
    assert len(o2.variables()) == 4 and o2.get_name() == "Adam"


def test_131b():
    with tf.variable_scope("m"):
        w = tf.get_variable("w", [])
    with tf.variable_scope("opt"), tf.name_scope("ns"):
        tf.train.AdamOptimizer().minimize(w * w)
    assert "opt/m/w/Adam" in [v.op.name for v in tf.global_variables()], [v.op.name for v in tf.global_variables()]


def test_134():
    s = tf.constant(15)
    T = tf.train
    got = run(
        [
            T.inverse_time_decay(1.0, s, 10, 0.5),
            T.natural_exp_decay(1.0, s, 10, 0.5),
            T.cosine_decay(1.0, s, 30),
            T.polynomial_decay(1.0, s, 10, 0.1, cycle=True),
            T.inverse_time_decay(1.0, s, 10, 0.5, staircase=True),
        ]
    )
    assert np.allclose(got, [1 / 1.75, np.exp(-0.75), 0.5, 0.9 * (1 - 15 / 20) + 0.1, 1 / 1.5]), got


def test_135():
    v = tf.Variable(1.0, name="v")
    e = tf.train.ExponentialMovingAverage(0.9, num_updates=1)
    up = e.apply([v])
    assert set(e.variables_to_restore()) == {"v/ExponentialMovingAverage"}, e.variables_to_restore()
    with tf.Session() as s:
        s.run(tf.global_variables_initializer())
        s.run(v.assign(3.0))
        s.run(up)
        d = min(0.9, 2 / 11)
        assert np.isclose(s.run(e.average(v)), 1 - (1 - d) * (1 - 3))


def test_135b():
    e = tf.train.ExponentialMovingAverage(0.9)
    x = tf.constant(2.0) * 1.0
    up = e.apply([x])
    with tf.Session() as s:
        s.run(tf.global_variables_initializer())
        s.run(up)
        assert np.isclose(s.run(e.average(x)), 0.2), s.run(e.average(x))


def test_136():
    assert np.allclose(run(tf.clip_by_average_norm(tf.constant([3.0, 4.0]), 1.0)), np.array([3.0, 4.0]) / 2.5)


def test_116():
    x = tf.constant([1.0, 2.0])
    assert isinstance(tf.hessians(tf.reduce_sum(x**3), [x]), list)


def test_062():
    f = tf.placeholder(tf.float32, [])
    s = tf.Session()
    assert s.run(f + 0, {f: np.complex64(1 + 2j)}) == 1
    raises(TypeError, "can't convert complex to float", lambda: s.run(f + 0, {f: 1 + 2j}))


def test_066():
    v = tf.Variable(1.0)
    s = tf.Session()
    s.run(v.initializer)
    assert s.run(v + 1, {v: 5.0}) == 6 and s.run(v + 1, {v.name: 7.0}) == 8, "variable keys"


def test_067():
    v = tf.Variable(1.0)
    s = tf.Session()
    s.run(v.initializer)
    raises(tf.errors.InvalidArgumentError, "", lambda: s.run(v.assign_add(1.0), {v: 5.0}))
    c = tf.constant(1.0)
    assert s.run(c + 1, {c: 4}) == 5


def test_010():
    with tf.variable_scope("vs") as vs:
        pass
    with tf.variable_scope("a"), tf.variable_scope(vs):
        assert tf.Variable(1.0, name="q").name == "a/vs/q:0"


def test_088b():
    x = tf.placeholder(tf.float32, [2, 3, 4])
    assert tf.reverse_sequence(x, [1, 2], seq_dim=1, batch_dim=0) is not None


def test_091_static_shapes():
    x = tf.placeholder(tf.float32, [None, 3])
    shapes = [
        x + tf.placeholder(tf.float32, [None, 1]),
        x + tf.ones([1, 3]),
        tf.reshape(x, tf.stack([tf.shape(x)[0], 3])),
        tf.boolean_mask(x, tf.placeholder(tf.bool, [None])),
        tf.tile(x, [2, 1]),
        tf.squeeze(tf.expand_dims(x, 0), [0]),
    ]
    assert [t.shape.as_list() for t in shapes] == [[None, 3]] * len(shapes)
    assert tf.where(x > 0).shape.as_list() == [None, 2] and tf.gather(x, [0, 1]).shape.as_list() == [2, 3] and tf.range(5).shape.as_list() == [5]


@pytest.mark.parametrize("pick", [lambda v: v[-1], lambda v: v[-2:], lambda v: v[-1] * 2.0, lambda v: v[-1] + v[-2], lambda v: v[1:][-1], lambda v: v[:, ::-1][-1]])
def test_096_the_last_rows_of_a_batch_of_any_size(pick):
    x = tf.placeholder(tf.float32, [None, 3])
    y = pick(x)
    with tf.Session() as s:
        for n in (3, 5, 8):
            value = np.arange(3.0 * n).reshape(n, 3)
            assert np.array_equal(s.run(y, {x: value}), pick(value))
