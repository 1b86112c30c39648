"""Statements 3 to 14 against what TF 1.15.5 was seen to do: names of operations, scopes, templates."""

import pytest

import staticgraph as tf


def test_003_scopes_share_the_counters_of_operations():
    with tf.name_scope("S") as one, tf.name_scope(None), tf.name_scope("s") as two:
        assert (one, two) == ("S/", "s_1/")
    assert tf.constant(1, name="s").name == "s_2:0"


def test_005_attributes_of_operations(fresh_graph):
    x = tf.placeholder(tf.float32, [None, 3], name="x")
    m = tf.matmul(x, tf.ones([3, 2]), transpose_b=False)
    c, v, total, joined = tf.cast(m, tf.int32), tf.Variable(1.0), tf.reduce_sum(m, 1, keepdims=True), tf.concat([m, m], 0)
    assert (m + 1).op.get_attr("T") == tf.float32 and [c.op.get_attr(k) for k in ("SrcT", "DstT")] == [tf.float32, tf.int32]
    assert [m.op.get_attr(k) for k in ("transpose_a", "transpose_b")] == [False, False] and total.op.get_attr("keep_dims") is True and joined.op.get_attr("N") == 2
    assert [v.op.get_attr(k) for k in ("dtype", "container", "shared_name")] == [tf.float32, b"", b""] and x.op.get_attr("dtype") == tf.float32
    with tf.control_dependencies([tf.no_op(name="n")]):
        assert [op.name for op in tf.constant(1.0).op.control_inputs] == ["n"]
    with fresh_graph.colocate_with(m.op):
        assert tf.constant(1.0).op.colocation_groups() == [b"loc:@MatMul"] and m.op.colocation_groups() == [b"loc:@MatMul"]


def test_005_operations_are_views_of_nodes(fresh_graph):
    a = tf.constant(1.0, name="a")
    op = tf.add(a, 2.0, name="b").op
    assert (op.node_def.name, op.node_def.op, list(op.node_def.input), op.values()[0].name, op.graph) == ("b", "Add", ["a", "b/y"], "b:0", fresh_graph)
    assert repr(op) == "<tf.Operation 'b' type=Add>" and len(op.inputs) == 2


@pytest.mark.parametrize("name", ["a b", "a:0", "_a"])
def test_006_names_of_constants(name):
    with pytest.raises(ValueError, match=f"'{name}' is not a valid node name"):
        tf.constant(1, name=name)


@pytest.mark.parametrize("make", [lambda n: tf.Variable(1.0, name=n), lambda n: tf.get_variable(n, [1]), lambda n: tf.placeholder(tf.float32, name=n),
                                  lambda n: tf.add(1, 2, name=n)])
def test_006_names_of_other_calls(make):
    with pytest.raises(ValueError, match="'a b' is not a valid scope name"):
        make("a b")


def test_006_inner_scopes_may_start_with_a_dash_or_an_underscore():
    for bad in ("_a", "-x", "a:b"):
        with pytest.raises(ValueError, match="is not a valid scope name"), tf.name_scope(bad):
            pass
    with tf.name_scope("o"):
        with tf.name_scope("_a") as one, tf.name_scope("-x") as two:
            assert (one, two) == ("o/_a/", "o/_a/-x/")
        assert tf.constant(1, name="_b").name == "o/_b:0"


def test_007_what_name_scope_takes(fresh_graph):
    with tf.name_scope("deep"):
        assert fresh_graph.get_name_scope() == "deep"
    assert fresh_graph.get_name_scope() == "" and tf.name_scope("x").name == "x"
    with pytest.raises(ValueError, match="At least one of name"):
        tf.name_scope(None, None, [1.0]).__enter__()
    with pytest.raises(TypeError):
        tf.name_scope(3)
    with tf.Graph().as_default() as other:
        z = tf.constant(1.0)
    with tf.name_scope("n", values=[z]) as scope:
        assert scope == "n/" and tf.get_default_graph() is other
    assert tf.get_default_graph() is fresh_graph


def test_009_refused_variable_scopes():
    for scope, default, text in ((None, None, "If default_name is None then name_or_scope is required"), (3, None, "name_or_scope must be a string or VariableScope")):
        with pytest.raises(TypeError, match=text), tf.variable_scope(scope, default):
            pass
    with pytest.raises(ValueError, match="reuse parameter must be True or False or None"), tf.variable_scope("s", reuse=3):
        pass


def test_010_a_scope_object_keeps_its_first_name_scope():
    with tf.variable_scope("vs") as vs:
        pass
    with tf.variable_scope("a"), tf.variable_scope(vs) as again:
        assert again.original_name_scope == "vs/" and again.name == "vs"
    with tf.variable_scope(vs, auxiliary_name_scope=False) as again:
        assert again.original_name_scope == "vs/" and tf.constant(1).name == "Const:0"


def test_011_default_names_avoid_those_taken():
    names = []

    def enter(scope=None):
        with tf.variable_scope(scope, default_name=None if scope else "y") as s:
            names.append(s.name)
    with tf.variable_scope("a") as a:
        enter(), enter(), enter("y_2"), enter()
    with tf.variable_scope("a"):
        enter()
    with tf.variable_scope(a):
        enter(), enter()
    enter("y"), enter(), enter()
    assert names == ["a/y", "a/y_1", "a/y_2", "a/y_3", "a/y", "a/y", "a/y_1", "y", "y_1", "y_2"]
    with tf.variable_scope("", default_name="z") as root:
        assert root.name == "" and tf.constant(1).name == "Const:0"


def test_012_reuse_of_scopes_in_scopes():
    auto = tf.AUTO_REUSE
    with tf.variable_scope("r", reuse=True) as shared:
        pass
    with tf.variable_scope("n") as plain:
        pass
    got = []
    for outer, inner, given in ((True, "t", auto), (auto, "t", False), (auto, "t", None), (auto, "t", True), (None, shared, False), (None, shared, auto), (True, plain, None),
                                (auto, shared, None), (None, plain, auto)):
        with tf.variable_scope("s", reuse=outer), tf.variable_scope(inner, reuse=given) as scope:
            got.append(scope.reuse)
    assert got == [auto, auto, auto, True, True, auto, False, True, auto] and str(auto) == "_ReuseMode.AUTO_REUSE"


def test_013_auxiliary_name_scope_is_a_bool():
    with pytest.raises(TypeError, match="auxiliary_name_scope must be `True` or `False`"), tf.variable_scope("s", auxiliary_name_scope=3):
        pass
    with tf.variable_scope("s", auxiliary_name_scope=False):
        assert tf.get_variable("w", []).name == "s/w:0" and tf.Variable(1.0).name == "Variable:0"


def test_014_templates_of_one_name():
    def f(x):
        return tf.get_variable("w", [], initializer=tf.ones_initializer()) * x
    t, u = tf.make_template("t", f), tf.make_template("t", f)
    assert [t(1.0).name, t(2.0).name, u(1.0).name] == ["t/mul:0", "t_1/mul:0", "t_2/mul:0"]
    assert [v.name for v in t.variables] == ["t/w:0"] and [v.name for v in u.trainable_variables] == ["t_1/w:0"] and t.name == "t" and u.variable_scope.name == "t_1"
    with tf.name_scope("o"):
        assert tf.make_template("n", f)(1.0).name == "o/n/mul:0"


def test_014_a_template_makes_variables_at_its_first_call_only():
    h = tf.make_template("h", lambda x: tf.Variable(1.0) * x)
    h(1.0)
    with pytest.raises(ValueError, match="Trainable variable created when calling a template after the first time"):
        h(2.0)
