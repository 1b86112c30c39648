"""Statements 15 to 40 against what TF 1.15.5 was seen to do: variables and collections."""

import numpy as np
import pytest

import staticgraph as tf


def names(items):
    return [i.name for i in items]


def test_015_operations_of_all_ways_to_make_a_variable(fresh_graph):
    tf.Variable(tf.zeros([2]), name="z")
    tf.Variable(lambda: 1.0, name="l")
    tf.Variable(lambda: tf.ones([2]), name="m")
    tf.get_variable("c", initializer=3.0)
    tf.get_variable("b", [2], dtype=tf.bool)
    tf.Variable(1.0, name="r", use_resource=True)
    assert " ".join(f"{op.name}:{op.type}" for op in fresh_graph.get_operations()) == (
        "zeros:Const z:VariableV2 z/Assign:Assign z/read:Identity l/Initializer/initial_value:Const l:VariableV2 l/Assign:Assign l/read:Identity "
        "m/Initializer/ones:Const m:VariableV2 m/Assign:Assign m/read:Identity c/initial_value:Const c:VariableV2 c/Assign:Assign c/read:Identity "
        "b/Initializer/zeros:Const b:VariableV2 b/Assign:Assign b/read:Identity r/Initializer/initial_value:Const r:VarHandleOp "
        "r/IsInitialized/VarIsInitializedOp:VarIsInitializedOp r/Assign:AssignVariableOp r/Read/ReadVariableOp:ReadVariableOp")


def test_016_what_a_ref_dtype_tells():
    kind = tf.Variable(1.0).dtype
    assert (kind.name, repr(kind), str(kind)) == ("float32_ref", "tf.float32_ref", "<dtype: 'float32_ref'>") and kind.real_dtype.name == "float32_ref"
    assert kind.is_floating and not kind.is_compatible_with(tf.float32) and tf.zeros([2], kind).dtype == tf.cast(1, kind).dtype == tf.float32


def test_017_repr_of_resource_variables():
    assert repr(tf.get_variable("r", [2], use_resource=True)) == "<tf.Variable 'r:0' shape=(2,) dtype=float32>"
    assert tf.get_variable("s", [1], use_resource=True).handle.name == "s:0"


def test_018_all_kinds_of_numbers():
    values = (True, np.ones(2, "f4"), np.arange(2), np.int8(3), 1 + 2j, [1, 2.0], 2**40)
    assert [tf.Variable(v).dtype.base_dtype.name for v in values] == ["bool", "float32", "int64", "int8", "complex128", "float32", "int64"]
    assert tf.Variable(1, dtype="float64").dtype.base_dtype == tf.float64


@pytest.mark.parametrize("make, error, text", [
    (lambda: tf.Variable(None), ValueError, "initial_value must be specified."),
    (lambda: tf.Variable(tf.placeholder(tf.float32, [None, 2], name="p")), ValueError, r'initial_value must have a shape specified: Tensor\("p:0", shape=\(\?, 2\), dtype=float32\)'),
    (lambda: tf.Variable("a", dtype=tf.float32), TypeError, "Expected float32, got 'a' of type 'str' instead."),
    (lambda: tf.Variable(tf.constant(1.0), dtype=tf.int32), ValueError, "Tensor conversion requested dtype int32 for Tensor with dtype float32"),
    (lambda: tf.Variable(1.0, collections=3), ValueError, "collections argument to Variable constructor must be a list, tuple, or set. Got 3"),
    (lambda: tf.Variable(1.0, constraint=3), ValueError, "`constraint` argument must be a callable"),
    (lambda: tf.Variable(tf.placeholder(tf.float32, [None]), validate_shape=False), NotImplementedError, "must have a known shape"),
    (lambda: tf.assign(tf.Variable([1.0, 2.0]), [1.0], validate_shape=False), NotImplementedError, "a variable keeps its shape")])
def test_019_refused(make, error, text):
    with pytest.raises(error, match=text):
        make()


def test_021_all_uses_need_a_value(sess):
    v, w = tf.Variable(1.0, name="v"), tf.Variable([1.0, 2.0], name="scope/w")
    for fetch, name in ((v + 1, "v"), (v.assign_sub(1.0), "v"), (v.read_value(), "v"), (w[0], "scope/w"), (tf.scatter_add(w, [0], [1.0]), "scope/w"), (w[0].assign(1.0), "scope/w")):
        with pytest.raises(tf.errors.FailedPreconditionError, match=f"^Attempting to use uninitialized value {name}"):
            sess.run(fetch)
    assert sess.run(v.initialized_value()) == 1


def test_022_names_and_results_of_assigns(sess):
    v = tf.Variable(1.0, name="v")
    sess.run(v.initializer)
    made = [v.assign(5.0), v.assign_add(2.0), v.assign_sub(1.0), tf.assign(v, 9.0), tf.assign_add(v, 1.0), tf.assign_sub(v, 1.0)]
    assert [t.op.name for t in made] == ["Assign", "AssignAdd", "AssignSub", "Assign_1", "AssignAdd_1", "AssignSub_1"] and [t.op.type for t in made[:2]] == ["Assign", "AssignAdd"]
    assert [sess.run(t) for t in made] == [5, 7, 6, 9, 10, 9] and v.assign(1.0, name="named").op.name == "named" and v.assign(1.0, read_value=False).type == "Assign"
    v.load(4.0)
    assert v.eval() == 4 and sess.run(v.initial_value) == 1 and v.initial_value.name == "v/initial_value:0" and v.read_value().name == "read:0" and v.value().name == "v/read:0"
    with pytest.raises(ValueError), tf.Session() as other:
        v.load([1.0, 2.0], other)
    v.set_shape([])
    with pytest.raises(ValueError):
        v.set_shape([3])


@pytest.mark.parametrize("call, error, text", [
    (lambda v, w: v.assign_add(tf.constant(1)), TypeError, "^Input 'value' of 'AssignAdd' Op has type int32 that does not match type float32 of argument 'ref'.$"),
    (lambda v, w: v.assign("a"), TypeError, "^Expected float32 passed to parameter 'value' of op 'Assign', got 'a' of type 'str' instead. Error: Expected float32, got 'a' of type 'str' instead.$"),
    (lambda v, w: v.assign(None), ValueError, "^Tried to convert 'value' to a tensor and failed. Error: None values not supported.$"),
    (lambda v, w: w.assign([1.0, 2.0, 3.0]), ValueError,
     r"^Dimension 0 in both shapes must be equal, but are 2 and 3. Shapes are \[2\] and \[3\]. for 'Assign' \(op: 'Assign'\) with input shapes: \[2\], \[3\].$"),
    (lambda v, w: v.assign(np.ones(2)), ValueError, r"^Shapes must be equal rank, but are 0 and 1 for 'Assign' \(op: 'Assign'\) with input shapes: \[\], \[2\].$"),
    (lambda v, w: tf.assign_add(tf.constant(1.0), 2.0), AttributeError, "assign_add"), (lambda v, w: tf.scatter_add(w, [0], tf.constant([1])), TypeError, "'updates' of 'ScatterAdd'")])
def test_023_refused_assigns(call, error, text):
    with pytest.raises(error, match=text):
        call(tf.Variable(1.0, name="v"), tf.Variable([1.0, 2.0], name="w"))


def test_024_rows_of_a_variable(sess):
    m = tf.Variable(np.ones((3, 2), "f4"))
    sess.run(m.initializer)
    assert sess.run(tf.scatter_update(m, [[0], [2]], np.zeros((2, 1, 2)))).tolist() == [[0, 0], [1, 1], [0, 0]]
    assert sess.run(tf.scatter_add(m, 1, [5.0, 5.0])).tolist() == [[0, 0], [6, 6], [0, 0]]
    assert sess.run(tf.scatter_sub(m, [0, 1, 1], 1.0)).tolist() == [[-1, -1], [4, 4], [0, 0]]            # one number for all


@pytest.mark.parametrize("change", [tf.scatter_update, tf.scatter_add, tf.scatter_sub])
@pytest.mark.parametrize("at, text", [([7], r"indices\[0\] = 7 is not in \[0, 3\)"), ([0, -1], r"indices\[1\] = -1 is not in \[0, 3\)")])
def test_024_rows_that_are_not_there(sess, change, at, text):
    v = tf.Variable([1.0, 2.0, 3.0])
    sess.run(v.initializer)
    with pytest.raises(tf.errors.InvalidArgumentError, match=text):
        sess.run(change(v, at, [1.0] * len(at)))
    assert sess.run(v).tolist() == [1, 2, 3]


def test_025_initialisers_by_name(fresh_graph):
    v = tf.Variable(1.0, name="a")
    made = [tf.global_variables_initializer(), tf.local_variables_initializer(), tf.variables_initializer([v]), tf.variables_initializer([v], name="q"), tf.initialize_all_variables(),
            tf.tables_initializer(), tf.initialize_local_variables()]
    assert names(made) == ["init", "init_1", "init_2", "q", "init_3", "init_all_tables", "init_4"] and {op.type for op in made} == {"NoOp"}
    assert names(made[0].control_inputs) == ["a/Assign"] and names(tf.group(v.initializer, tf.constant(1.0, name="c")).control_inputs) == ["a/Assign", "c"]


def test_029_a_report_is_for_fetching(sess):
    empty = tf.report_uninitialized_variables()
    assert empty.shape.as_list() == [0] and sess.run(empty).shape == (0,) and sess.run(empty).dtype == object
    tf.Variable(1.0, name="sc/w")
    report = tf.report_uninitialized_variables(name="again")
    assert sess.run(report).tolist() == [b"sc/w"] and report.name == "again/boolean_mask/GatherV2:0"
    with pytest.raises(tf.errors.UnimplementedError, match="a report of variables can be fetched, not computed with"):
        tf.size(report)
    with tf.control_dependencies([report]):
        assert sess.run(tf.constant(2.0)) == 2


def test_032_the_dtype_asked_for_is_float32_unless_said():
    def again(*args, **kw):
        with tf.variable_scope(tf.get_variable_scope(), reuse=True):
            return tf.get_variable(*args, **kw)
    i = tf.get_variable("i", initializer=1)
    with pytest.raises(ValueError, match="Trying to share variable i, but specified dtype float32 and found dtype int32_ref."):
        again("i")
    assert again("i", dtype=tf.int32) is i
    w = tf.get_variable("w", [1])
    assert again("w", shape=1) is w and again("w", [None]) is w and again("w", initializer=tf.zeros([2])) is w
    with pytest.raises(ValueError, match="does not exist, or was not created with tf.get_variable"):
        tf.Variable(1.0, name="v")
        again("v", [])


def test_033_initialisers_of_all_kinds(sess):
    assert tf.get_variable("f", initializer=lambda: tf.ones([2])).shape.as_list() == [2]
    for k, shape in enumerate((tf.TensorShape([2]), (2,), [tf.Dimension(2)], np.array([2]), [np.int64(2)])):
        assert tf.get_variable(f"d{k}", shape).shape.as_list() == [2]
    assert [tf.get_variable(f"c{k}", initializer=v).dtype.base_dtype.name for k, v in enumerate((1, np.ones(2), [1.0, 2.0]))] == ["int32", "float64", "float32"]
    for k, (v, kind) in enumerate(((1, tf.float32), (np.ones(2), tf.float32), (tf.constant(1.0), tf.float64))):
        with pytest.raises(ValueError, match="Initializer type .* and explicit dtype .* don't match."):
            tf.get_variable(f"e{k}", initializer=v, dtype=kind)


def test_034_defaults_of_inner_scopes(sess):
    def penalty(w):
        return tf.reduce_sum(w * w)
    with tf.variable_scope("s", initializer=tf.constant_initializer(2.0), regularizer=penalty) as scope:
        x = tf.get_variable("x", [2], initializer=tf.zeros_initializer(), regularizer=lambda w: None)
        with tf.variable_scope("in"):
            y = tf.get_variable("y", [1])
    scope.set_initializer(tf.ones_initializer())
    scope.set_regularizer(None)
    with tf.variable_scope(scope):
        z = tf.get_variable("z", [1])
    sess.run(tf.global_variables_initializer())
    assert [v.tolist() for v in sess.run([x, y, z])] == [[0, 0], [2], [1]] and sess.run(tf.get_collection("regularization_losses")) == [4]


def test_036_a_variable_is_an_object_that_is_there():
    v = tf.Variable(0.0)
    assert bool(v) and (v or 1) is v and (v == v) is True and (v == 0) is False
    for use in (len, float, list):
        with pytest.raises(TypeError):
            use(v)


def test_037_functions_of_collections():
    tf.Variable(1.0, name="v"), tf.Variable(1.0, trainable=False, name="f")
    assert names(tf.global_variables("f")) == ["f:0"] and names(tf.trainable_variables("v")) == ["v:0"] and tf.model_variables() == tf.moving_average_variables() == []
    with tf.variable_scope("q") as scope:
        tf.get_variable("z", [1])
        local = tf.get_local_variable("l", [1])
    assert not local.trainable and names(tf.local_variables()) == ["q/l:0"] == names(scope.local_variables())
    assert names(scope.trainable_variables()) == names(scope.global_variables()) == ["q/z:0"]


def test_038_items_of_all_kinds(fresh_graph):
    tf.add_to_collection("k", 3)
    tf.add_to_collections(["k", "l"], 5)
    assert tf.get_collection("k") == [3, 5] and tf.get_collection("l") == [5] and tf.get_collection("k", scope="x") == [] and "k" in fresh_graph.collections
    fresh_graph.clear_collection("k")
    assert tf.get_collection("k") == [] and tf.get_collection(None) == []


def test_039_further_keys():
    keys = tf.GraphKeys
    assert (keys.SUMMARY_OP, keys.EVAL_STEP, keys.READY_FOR_LOCAL_INIT_OP, keys.RESOURCES, keys.SAVEABLE_OBJECTS, keys.COND_CONTEXT, keys.ASSET_FILEPATHS) == (
        "summary_op", "eval_step", "ready_for_local_init_op", "resources", "saveable_objects", "cond_context", "asset_filepaths")
