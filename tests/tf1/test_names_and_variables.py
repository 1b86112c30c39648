"""Statements 1 to 40: names, scopes, variables, collections."""

import numpy as np
import pytest

import staticgraph as tf


def test_001_default_names_are_uniquified():
    assert [tf.constant(1).name, tf.constant(1).name] == ["Const:0", "Const_1:0"]


def test_002_operators_use_lower_case_names_and_share_a_case_insensitive_counter():
    a, b = tf.constant(1.0, name="a"), tf.constant(2.0, name="b")
    assert [(a + b).name, tf.add(a, b).name, tf.add(a, b).name] == ["add:0", "Add_1:0", "Add_2:0"]
    assert [(a * b).name, (a - b).name, (a / b).name, (a // b).name, (a % b).name] == ["mul:0", "sub:0", "truediv:0", "floordiv:0", "mod:0"]
    assert [(a**2).name, (-a).name, (a < b).name, abs(a).name] == ["pow:0", "Neg:0", "Less:0", "Abs:0"]
    assert tf.constant([1, 2])[0].name == "strided_slice:0"
    assert (~tf.constant(True)).name == "LogicalNot:0"


def made_by(graph, f):
    """Names of the operations that a call makes."""
    before = len(graph.get_operations())
    f()
    return [op.name for op in graph.get_operations()[before:]]


def test_002_constants_made_of_python_operands_are_named_under_the_operation(fresh_graph):
    y = tf.placeholder(tf.float32, [], name="y")
    a = tf.placeholder(tf.float32, [2], name="a")
    calls = [(lambda: a + 1, "add/y add"), (lambda: 2 * a, "mul/x mul"), (lambda: tf.add(a, 1.0), "Add_1/y Add_1"), (lambda: a / 3, "truediv/y truediv"),
             (lambda: tf.maximum(a, 0.0), "Maximum/y Maximum"), (lambda: tf.matmul([[1.0]], [[2.0]]), "MatMul/a MatMul/b MatMul"),
             (lambda: tf.stack([y, 1.0]), "stack/1 stack"), (lambda: tf.add_n([y, 1.0]), "AddN/inputs_1 AddN"), (lambda: tf.exp(1.0), "Exp/x Exp"),
             (lambda: tf.pow(a, 2.0, name="power"), "power/y power")]
    assert [made_by(fresh_graph, f) for f, _ in calls] == [names.split() for _, names in calls]
    assert fresh_graph.get_tensor_by_name("y:0") is y and tf.constant(1.0).name == "Const:0"


@pytest.mark.parametrize("f", [
    lambda v: tf.concat([[1, 2], [3]], 0), lambda v: tf.clip_by_value(v, 0.0, 1.0), lambda v: tf.where([True, False], [1.0, 2.0], v), lambda v: v.assign([1.0, 2.0]),
    lambda v: tf.scatter_add(v, [0], [1.0]), lambda v: tf.nn.moments([1.0, 2.0], 0), lambda v: tf.nn.bias_add([[1.0, 2.0]], [1.0, 2.0]), lambda v: tf.gather([1, 2], [0]),
    lambda v: tf.nn.sparse_softmax_cross_entropy_with_logits(labels=[0], logits=[[1.0, 2.0]]), lambda v: tf.train.exponential_decay(0.1, v, 10, 0.5),
    lambda v: tf.norm([3.0, 4.0]), lambda v: tf.tensordot([1.0], [2.0], 1), lambda v: tf.clip_by_norm([3.0, 4.0], 1.0), lambda v: tf.nn.dropout([1.0, 2.0], 0.5),
    lambda v: tf.one_hot([1], 2), lambda v: tf.cast([1.5], tf.int32), lambda v: tf.fill([2], 3.0), lambda v: tf.nn.softmax([1.0, 2.0])])
def test_002_no_call_takes_a_name_at_the_root_but_its_own(fresh_graph, f):
    v = tf.Variable([1.0, 2.0], name="v")
    made = made_by(fresh_graph, lambda: f(v))
    assert len([n for n in made if "/" not in n]) <= 1 and len({n.split("/")[0] for n in made}) == 1


def test_002_operands_belong_to_the_graph_of_the_tensors(sess):
    a = tf.constant(2.0)
    with tf.Graph().as_default():
        total = tf.add_n([a * 3, tf.concat([[1.0], tf.reshape(a, [1])], 0)[1], a.graph.get_tensor_by_name(a.name) ** 2])
        assert tf.get_default_graph().get_operations() == []
    assert sess.run(total) == 12


def test_003_names_differ_also_without_case():
    assert [tf.constant(1, name=n).name for n in ("A", "a", "a_1", "a")] == ["A:0", "a_1:0", "a_1_1:0", "a_2:0"]


def test_004_default_names_of_functions():
    x = tf.constant([[1.0, 2.0]])
    made = [tf.zeros([2]), tf.ones([2]), tf.reduce_mean(x), tf.reduce_sum(x), tf.argmax(x, 1), tf.cast(x, tf.int32), tf.nn.relu(x), tf.tanh(x),
            tf.nn.softmax(x), tf.nn.softplus(x), tf.concat([x, x], 0), tf.stack([x, x]), tf.expand_dims(x, 0), tf.reshape(x, [2]), tf.transpose(x),
            tf.zeros_like(x), tf.stop_gradient(x), tf.one_hot([1], 2), tf.tile(x, [1, 2])]
    assert [t.op.name for t in made] == ["zeros", "ones", "Mean", "Sum", "ArgMax", "Cast", "Relu", "Tanh", "Softmax", "Softplus", "concat", "stack",
                                        "ExpandDims", "Reshape", "transpose", "zeros_like", "StopGradient", "one_hot", "Tile"]


def test_005_tensors_and_operations(fresh_graph):
    a = tf.constant(1.0, name="a")
    b = tf.add(a, 2.0, name="b")
    assert (b.name, b.op.name, b.value_index, b.device, b.graph) == ("b:0", "b", 0, "", fresh_graph)
    assert next(iter(b.op.inputs)) is a and b.op.outputs == [b] and a.consumers() == [b.op]
    with pytest.raises(ValueError, match="Operation 'b' has no attr named 'k'"):
        b.op.get_attr("k")


def test_006_bad_names():
    with pytest.raises(ValueError, match="'a b' is not a valid node name"):
        tf.constant(1, name="a b")
    with pytest.raises(ValueError, match="is not a valid scope name"), tf.name_scope("a:b"):
        pass


def test_007_name_scopes():
    with tf.name_scope("s") as first:
        assert first == "s/"
    with tf.name_scope("s") as second:
        assert second == "s_1/"
        with tf.name_scope(None):
            assert tf.constant(1).name == "Const:0"
    with tf.name_scope("s/"):
        assert tf.constant(1, name="c").name == "s/c:0"
    with tf.name_scope(first):
        assert tf.constant(1, name="c").name == "s/c_1:0"
    with tf.name_scope(None, "default", []) as third:
        assert third == "default/"


def test_008_name_scope_and_variables():
    with tf.name_scope("s"):
        assert tf.Variable(1.0, name="v").name == "s/v:0"
        assert tf.get_variable("w", []).name == "w:0"


def test_009_variable_scope_opens_both():
    with tf.variable_scope("vs"):
        assert tf.get_variable("w", []).name == "vs/w:0"
        assert tf.constant(1).name == "vs/Const:0"
    with tf.variable_scope("vs"):
        assert tf.get_variable("u", []).name == "vs/u:0"
        assert tf.constant(1).name == "vs_1/Const:0"
        assert tf.Variable(1.0, name="v").name == "vs_1/v:0"


def test_010_a_scope_object_jumps():
    with tf.variable_scope("vs") as vs:
        pass
    with tf.variable_scope("a"), tf.variable_scope(vs):
        assert tf.get_variable("w", []).name == "vs/w:0"
        assert tf.constant(1).name == "a/vs/Const:0"


def test_011_default_names_of_variable_scopes():
    with tf.variable_scope(None, default_name="y") as one:
        assert one.name == "y"
    with tf.variable_scope(None, default_name="y") as two:
        assert two.name == "y_1"
    with tf.variable_scope("x", default_name="y") as three:
        assert three.name == "x" and three.original_name_scope == "x/"
        assert tf.get_variable_scope() is three and not three.reuse
        three.reuse_variables()
        assert three.reuse is True


def test_012_reuse_is_inherited():
    with tf.variable_scope("s", reuse=True), tf.variable_scope("t", reuse=False) as child:
        assert child.reuse is True


def test_013_no_auxiliary_name_scope():
    with tf.variable_scope("s", auxiliary_name_scope=False):
        assert tf.constant(1).name == "Const:0"


def test_014_templates_share_their_variables():
    def f(x):
        return tf.get_variable("w", [], initializer=tf.ones_initializer()) * x
    t = tf.make_template("t", f)
    one, two = t(tf.constant(1.0)), t(tf.constant(2.0))
    assert one.name.startswith("t/") and two.name.startswith("t_1/")
    assert [v.name for v in tf.global_variables()] == ["t/w:0"]


def test_015_the_operations_of_a_variable(fresh_graph):
    tf.Variable(1.0, name="v")
    assert [op.name for op in fresh_graph.get_operations()] == ["v/initial_value", "v", "v/Assign", "v/read"]


def test_016_ref_dtypes():
    v = tf.Variable(1.0)
    assert v.dtype != tf.float32 and v.dtype.base_dtype == tf.float32 and v.value().dtype == tf.float32


def test_017_repr_and_class():
    v = tf.Variable(1.0, name="v")
    assert repr(v) == "<tf.Variable 'v:0' shape=() dtype=float32_ref>"
    assert not isinstance(v, tf.Tensor) and isinstance(v, tf.Variable) and isinstance(tf.get_variable("w", []), tf.Variable)


def test_018_dtypes_of_initial_values():
    assert [tf.Variable(x).dtype.base_dtype for x in (1.0, 1, np.ones(2))] == [tf.float32, tf.int32, tf.float64]


def test_019_refused_initial_values():
    with pytest.raises(ValueError, match=r"initial_value must be specified."):
        tf.Variable()
    with pytest.raises(TypeError, match=r"Expected int32, got 1.0 of type 'float' instead."):
        tf.Variable(1.0, dtype=tf.int32)


def test_020_a_callable_initial_value_is_called_once():
    calls = []
    tf.Variable(lambda: calls.append(1) or 1.0)
    assert calls == [1]


def test_021_uninitialised_reads(sess):
    v = tf.Variable(1.0, name="v")
    for fetch in (v, v.assign_add(1.0)):
        with pytest.raises(tf.errors.FailedPreconditionError, match="Attempting to use uninitialized value v"):
            sess.run(fetch)


def test_022_assigning(sess):
    v = tf.Variable(1.0, name="v")
    sess.run(v.initializer)
    assert sess.run(v.assign(5.0)) == 5 and sess.run(v.assign_add(2.0)) == 7 and sess.run(v.assign_sub(3.0)) == 4
    assert sess.run(tf.assign(v, 9.0)) == 9
    v.load(3.0, sess)
    assert v.eval(sess) == 3 and sess.run([v.read_value(), v.value(), v.initialized_value()]) == [3, 3, 3]
    assert v.op.name == "v" and v.shape.as_list() == [] and sess.run(v.initial_value) == 1


def test_023_refused_assigns():
    v = tf.Variable(1.0)
    with pytest.raises(TypeError, match="has type int32 that does not match type float32 of argument 'ref'"):
        v.assign(tf.constant(1))
    with pytest.raises(ValueError):
        v.assign([1.0, 2.0])
    with pytest.raises(AttributeError):
        tf.assign(tf.constant(1.0), 2.0)


def test_024_scatter_updates(sess):
    v = tf.Variable([1.0, 2.0, 3.0])
    sess.run(v.initializer)
    assert list(sess.run(tf.scatter_add(v, [0, 0], [1.0, 1.0]))) == [3, 2, 3]
    assert list(sess.run(tf.scatter_update(v, [1], [9.0]))) == [3, 9, 3]
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"indices\[0\] = 7 is not in \[0, 3\)"):
        sess.run(tf.scatter_update(v, [7], [0.0]))
    assert list(sess.run(v)) == [3, 9, 3]


def test_025_the_initializer_is_a_snapshot(sess):
    tf.Variable(1.0)
    init = tf.global_variables_initializer()
    late = tf.Variable(1.0)
    assert init.name == "init" and tf.global_variables_initializer().name == "init_1"
    assert sess.run(init) is None
    with pytest.raises(tf.errors.FailedPreconditionError):
        sess.run(late)


def test_026_random_initialisers_draw_again(sess):
    v = tf.Variable(tf.random_normal([4]))
    sess.run(v.initializer)
    first = sess.run(v)
    sess.run(v.initializer)
    assert not np.array_equal(first, sess.run(v))


def test_027_initialized_value_orders_initialisers(sess):
    v = tf.Variable(2.0)
    w = tf.Variable(v.initialized_value() * 3)
    sess.run(tf.global_variables_initializer())
    assert sess.run(w) == 6


def test_028_values_belong_to_the_session(fresh_graph):
    v = tf.Variable(1.0)
    with tf.Session(graph=fresh_graph) as one, tf.Session(graph=fresh_graph) as two:
        one.run(v.initializer)
        assert one.run(v) == 1
        with pytest.raises(tf.errors.FailedPreconditionError):
            two.run(v)


def test_029_is_variable_initialized(sess):
    v = tf.Variable(1.0)
    check = tf.is_variable_initialized(v)
    assert not sess.run(check)
    sess.run(v.initializer)
    assert sess.run(check)


def test_029_report_uninitialized_variables(sess):
    v, w = tf.Variable(1.0, name="v"), tf.Variable(1.0, name="w", collections=[tf.GraphKeys.LOCAL_VARIABLES])
    report, some = tf.report_uninitialized_variables(), tf.report_uninitialized_variables([v])
    assert report.dtype == tf.string and report.shape.as_list() == [None] and list(sess.run(report)) == [b"v", b"w"]
    ready = tf.assert_variables_initialized()
    with pytest.raises(tf.errors.FailedPreconditionError, match="Attempting to use uninitialized value v"):
        sess.run(ready)
    sess.run(v.initializer)
    got = sess.run({"all": report, "some": some, "named": report.name})
    assert list(got["all"]) == list(got["named"]) == [b"w"] and got["some"].shape == (0,) and got["all"].dtype == object
    sess.run(w.initializer)
    assert sess.run(report).size == 0 and sess.run(ready) is None
    with tf.Graph().as_default():
        assert tf.assert_variables_initialized() is None


def test_030_to_032_sharing_needs_reuse_and_agreement():
    w = tf.get_variable("w", [1])
    with pytest.raises(ValueError, match="Variable w already exists, disallowed. Did you mean to set reuse=True or reuse=tf.AUTO_REUSE in VarScope?"):
        tf.get_variable("w", [1])
    with tf.variable_scope("s", reuse=True), pytest.raises(ValueError, match="Variable s/w does not exist, or was not created with tf.get_variable()"):
        tf.get_variable("w", [1])
    with tf.variable_scope(tf.get_variable_scope(), reuse=True):
        assert tf.get_variable("w", [1]) is w
        with pytest.raises(ValueError, match=r"Trying to share variable w, but specified shape \(2,\) and found shape \(1,\)."):
            tf.get_variable("w", [2])
        with pytest.raises(ValueError, match="but specified dtype float64 and found dtype float32_ref"):
            tf.get_variable("w", [1], dtype=tf.float64)


def test_033_default_initialisers(sess):
    w, n = tf.get_variable("w", [50, 70]), tf.get_variable("n", [3], dtype=tf.int32)
    sess.run(tf.global_variables_initializer())
    limit = (6 / 120) ** 0.5
    value = sess.run(w)
    assert limit * 0.95 < np.abs(value).max() <= limit and list(sess.run(n)) == [0, 0, 0]
    with pytest.raises(ValueError):
        tf.get_variable("none")
    with pytest.raises(ValueError):
        tf.get_variable("partial", [None, 2])
    with pytest.raises(ValueError, match=r"If initializer is a constant, do not specify shape."):
        tf.get_variable("both", [2], initializer=np.ones(2, "f4"))
    assert tf.get_variable("a/b", 3, initializer=tf.zeros_initializer).shape.as_list() == [3]


def test_034_scope_defaults():
    def penalty(w):
        return tf.reduce_sum(w * w)
    with tf.variable_scope("s", initializer=tf.constant_initializer(2.0), regularizer=penalty):
        w = tf.get_variable("w", [2])
    with tf.Session() as s:
        s.run(w.initializer)
        assert list(s.run(w)) == [2, 2]
        assert s.run(tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)) == [8]


def test_035_reuse_gives_the_same_object():
    w = tf.get_variable("w", [1])
    with tf.variable_scope("", reuse=tf.AUTO_REUSE):
        assert tf.get_variable("w", [1]) is w


def test_036_indexing_but_no_iteration(sess):
    v = tf.Variable([1.0, 2.0])
    sess.run(v.initializer)
    assert sess.run(v[1]) == 2
    with pytest.raises(TypeError):
        iter(v)


def test_037_collections_of_variables():
    v = tf.Variable(1.0)
    fixed = tf.Variable(1.0, trainable=False)
    local = tf.Variable(1.0, collections=[tf.GraphKeys.LOCAL_VARIABLES])
    assert tf.global_variables() == tf.all_variables() == [v, fixed]
    assert tf.trainable_variables() == [v, local] and tf.local_variables() == [local]


def test_038_collections_by_key(fresh_graph):
    for name in ("gen/w", "generator/w", "a/gen/w"):
        tf.add_to_collection("k", tf.constant(1, name=name))
    assert tf.get_collection("k") is not tf.get_collection("k") and tf.get_collection("unknown") == []
    assert [t.op.name for t in tf.get_collection("k", scope="gen")] == ["gen/w", "generator/w"]
    tf.get_collection_ref("k").clear()
    assert tf.get_collection("k") == []


def test_039_key_strings():
    keys = tf.GraphKeys
    assert (keys.GLOBAL_VARIABLES, keys.TRAINABLE_VARIABLES, keys.LOCAL_VARIABLES, keys.UPDATE_OPS, keys.SUMMARIES, keys.LOSSES) == (
        "variables", "trainable_variables", "local_variables", "update_ops", "summaries", "losses")
    assert (keys.REGULARIZATION_LOSSES, keys.GLOBAL_STEP, keys.TRAIN_OP, keys.TABLE_INITIALIZERS) == (
        "regularization_losses", "global_step", "train_op", "table_initializer")


def test_040_minimize_joins_the_train_ops():
    v = tf.Variable(1.0)
    train = tf.train.GradientDescentOptimizer(0.1).minimize(v * v)
    assert tf.get_collection(tf.GraphKeys.TRAIN_OP) == [train]
