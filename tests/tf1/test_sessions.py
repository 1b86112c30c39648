"""Statements 41 to 71: graphs, sessions, fetches, feeds."""

import collections
import threading

import numpy as np
import pytest

import staticgraph as tf


def test_041_default_graphs_are_thread_local(fresh_graph):
    seen = []
    t = threading.Thread(target=lambda: seen.extend([tf.get_default_graph(), tf.get_default_session()]))
    t.start()
    t.join()
    assert seen[0] is not fresh_graph and seen[1] is None


def test_041_default_graphs_are_a_stack(fresh_graph):
    other = tf.Graph()
    with other.as_default():
        with fresh_graph.as_default():
            assert tf.get_default_graph() is fresh_graph
        assert tf.get_default_graph() is other
    assert tf.get_default_graph() is fresh_graph


def test_042_no_reset_inside_a_graph():
    with pytest.raises(AssertionError, match=r"Do not use tf.reset_default_graph\(\) to clear nested graphs"):
        tf.reset_default_graph()


def test_043_mixing_graphs():
    a = tf.constant(1.0)
    with tf.Graph().as_default():
        b = tf.constant(2.0)
        with pytest.raises(ValueError, match="must be from the same graph as"):
            a + b


def test_044_later_operations_are_seen(sess):
    a = tf.constant(1.0)
    sess.run(a)
    assert sess.run(a + 1) == 2


def test_045_finalized_graphs(fresh_graph, sess):
    a = tf.constant(1.0)
    fresh_graph.finalize()
    assert fresh_graph.finalized and sess.run(a) == 1
    with pytest.raises(RuntimeError, match=r"Graph is finalized and cannot be modified."):
        tf.constant(2.0)


def test_045_what_a_graph_offers(fresh_graph, sess):
    a = tf.constant(1.0, name="a")
    version = fresh_graph.version
    with fresh_graph.name_scope("s"), fresh_graph.device("/cpu:0"), fresh_graph.colocate_with(a.op), fresh_graph.control_dependencies([a]):
        b = tf.add(a, 2.0, name="b")
    assert fresh_graph.version > version and [op.name for op in fresh_graph.get_operations()] == ["a", "s/b/y", "s/b"]
    assert b.device == "/device:CPU:0" and fresh_graph.unique_name("a") == "a_1" and fresh_graph.unique_name("c", mark_as_used=False) == "c"
    node = fresh_graph.as_graph_def().node[2]
    assert (node.name, node.op, node.input) == ("s/b", "Add", ["a", "s/b/y"]) and 'op: "Add"' in str(fresh_graph.as_graph_def())
    with fresh_graph.gradient_override_map({"Square": "Other"}):
        tf.square(a)
    fresh_graph.prevent_fetching(b.op)
    assert not fresh_graph.is_fetchable(b) and fresh_graph.is_feedable(b)
    with pytest.raises(ValueError, match="Operation 's/b' has been marked as not fetchable"):
        sess.run(b)


def test_046_by_name(fresh_graph):
    a = tf.constant(1.0, name="a")
    assert fresh_graph.get_tensor_by_name("a:0") is a and fresh_graph.get_operation_by_name("a") is a.op
    with pytest.raises(ValueError, match="refers to an Operation, not a Tensor"):
        fresh_graph.get_tensor_by_name("a")
    with pytest.raises(KeyError, match="The name 'b:0' refers to a Tensor which does not exist. The operation, 'b', does not exist in the graph."):
        fresh_graph.get_tensor_by_name("b:0")
    with pytest.raises(KeyError, match="The name 'b' refers to an Operation not in the graph."):
        fresh_graph.get_operation_by_name("b")


def test_047_sessions_as_contexts():
    a = tf.constant(1.0)
    with tf.Session() as s:
        assert tf.get_default_session() is s
    with pytest.raises(RuntimeError, match=r"Attempted to use a closed Session."):
        s.run(a)
    s.close()
    other = tf.Session()
    with other.as_default():
        assert a.eval() == 1
    assert other.run(a) == 1


def test_048_eval_needs_a_session():
    a = tf.constant(1.0)
    with pytest.raises(ValueError, match=r"Cannot evaluate tensor using `eval\(\)`: No default session is registered."):
        a.eval()
    with pytest.raises(ValueError, match=r"Cannot execute operation using `run\(\)`"):
        a.op.run()
    with tf.Graph().as_default():
        tf.constant(1.0)
        with tf.Session(), pytest.raises(ValueError, match="the tensor's graph is different"):
            a.eval()


def test_049_an_empty_graph(sess):
    with pytest.raises(RuntimeError, match=r"The Session graph is empty.  Add operations to the graph before calling run\(\)."):
        sess.run(3.0)


def test_050_interactive_sessions():
    s = tf.InteractiveSession()
    assert tf.constant(2.0).eval() == 2
    s.close()
    assert tf.get_default_session() is None


def test_051_runs_from_many_threads(sess):
    v = tf.Variable(0)
    add = v.assign_add(1)
    sess.run(v.initializer)
    threads = [threading.Thread(target=lambda: [sess.run(add) for _ in range(50)]) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert sess.run(v) == 200


def test_052_placement():
    with tf.device("/gpu:0"):
        x = tf.constant(1.0)
        with tf.device("/cpu:1"):
            assert (x + 0).device == "/device:CPU:1"
        with tf.device(None):
            assert (x + 0).device == ""
        with tf.device(lambda op: "/gpu:2" if op.type == "Mul" else ""):
            assert (x * 2.0).device == "/device:GPU:2" and (x - 1.0).device == ""
        y = x + 1.0
    assert y.device == "/device:GPU:0"
    with tf.Session(config=tf.ConfigProto(allow_soft_placement=True)) as s:
        assert s.run(y) == 2
    with tf.Session() as s:
        with pytest.raises(tf.errors.InvalidArgumentError, match="^Cannot assign a device for operation (add|Const)"):
            s.run(tf.identity(y))
        assert s.run(tf.constant(3.0)) == 3
    with pytest.raises(ValueError, match="Unknown attribute"), tf.device("/nonsense:0"):
        pass


def test_052_settings():
    config = tf.ConfigProto(log_device_placement=True, device_count={"GPU": 0}, inter_op_parallelism_threads=2, gpu_options=tf.GPUOptions(allow_growth=True))
    config.gpu_options.per_process_gpu_memory_fraction = 0.5
    config.intra_op_parallelism_threads = 1
    assert config.gpu_options.allow_growth and tf.Session(config=config).config.threads == 1
    with pytest.raises(ValueError, match='has no "nonsense" field'):
        tf.ConfigProto(nonsense=1)
    with pytest.raises(AttributeError):
        config.nonsense = 1
    with pytest.raises(tf.errors.NotFoundError, match="target"):
        tf.Session("grpc://somewhere")
    for wrong in ({"target": 3}, {"graph": 3}, {"config": 3}):
        with pytest.raises(TypeError, match=f"{next(iter(wrong))} must be a"):
            tf.Session(**wrong)
    with pytest.raises(TypeError, match="'a' has type str, but expected one of: int, bool"):
        config.allow_soft_placement = "a"


def test_052_devices(sess):
    assert sess.list_devices()[0].name == "/job:localhost/replica:0/task:0/device:CPU:0"


def test_053_structures_of_fetches(sess):
    a, b = tf.constant(1.0, name="a"), tf.constant([1, 2])
    pair = collections.namedtuple("pair", "x y")
    got = sess.run({"l": [a, (b, a)], "p": pair(a, [b]), "e": [], "s": "a:0", "o": "a"})
    assert isinstance(got["l"][0], np.float32) and got["l"][1][0].dtype == np.int32 and isinstance(got["l"][1], tuple)
    assert isinstance(got["p"], pair) and got["e"] == [] and got["s"] == 1 and got["o"] is None
    assert sess.run(a.op) is None
    ordered = sess.run(collections.OrderedDict([("z", a), ("y", a)]))
    assert isinstance(ordered, collections.OrderedDict) and list(ordered) == ["z", "y"]


def test_053_text_and_parts(sess):
    text, several = tf.constant("abc"), tf.constant(["a", b"b"])
    v = tf.Variable(2.0)
    sess.run(v.initializer)
    got = sess.run({"t": text, "s": [several, v]})
    assert got["t"] == b"abc" and got["s"][0].dtype == object and list(got["s"][0]) == [b"a", b"b"] and got["s"][1] == 2
    assert sess.make_callable([text, v])() == [b"abc", 2]
    sparse = tf.SparseTensor([[0, 1]], [2.0], [2, 3])
    value = sess.run(sparse)
    assert isinstance(value, tf.SparseTensorValue) and value.indices.tolist() == [[0, 1]] and value.dense_shape.tolist() == [2, 3]
    rows = sess.run(tf.gradients(tf.gather(v + [1.0, 2.0], [1]), [v])[0])
    assert rows == 1


def test_054_one_value_per_run(sess):
    r = tf.random_uniform([3])
    one, two, double = sess.run([r, r, r + r])
    assert np.array_equal(one, two) and np.array_equal(double, one + one)
    assert not np.array_equal(one, sess.run(r))


def test_055_only_ancestors_run(sess):
    v = tf.Variable(1.0)
    sess.run(v.initializer)
    v.assign(5.0)
    assert sess.run(v + 0) == 1


def test_056_a_fed_and_fetched_placeholder(sess):
    x = tf.placeholder(tf.float32, [2])
    value = np.ones(2, np.float32)
    assert sess.run(x, {x: value}) is value


@pytest.mark.parametrize("fetch", [None, 3.0, np.ones(2), {1}])
def test_057_things_that_cannot_be_fetched(sess, fetch):
    tf.constant(1.0)
    with pytest.raises(TypeError, match="has invalid type|must be a string or Tensor"):
        sess.run(fetch)


def test_057_names_that_cannot_be_fetched(sess):
    tf.constant(1.0)
    with pytest.raises(ValueError, match="cannot be interpreted as a Tensor"):
        sess.run("nothing:0")


def test_057_tensors_of_other_graphs(sess):
    tf.constant(1.0)
    with tf.Graph().as_default():
        other = tf.constant(1.0)
    with pytest.raises(ValueError, match="cannot be interpreted as a Tensor.*is not an element of this graph"):
        sess.run(other)
    with pytest.raises(TypeError, match="Can not convert a generator into a Tensor or Operation"):
        sess.run(t for t in ())


def test_058_tensors_inside_of_loops_and_branches(sess):
    inner = {}

    def body(i):
        inner["mul"] = tf.multiply(i, 2, name="mul")
        return inner["mul"] + 1
    out = tf.while_loop(lambda i: i < 3, body, [0], name="while")
    tf.cond(out > 3, lambda: inner.setdefault("neg", -out), lambda: out)
    for fetch in (inner["mul"], inner["mul"].op, "while/mul:0", [out, inner["neg"]]):
        with pytest.raises(tf.errors.InaccessibleTensorError, match="^Operation '(while/mul|cond/Neg)' has been marked as not fetchable."):
            sess.run(fetch)
    assert sess.run(out) == 3


def test_059_fetched_variables_are_copies(sess):
    v = tf.Variable([1.0, 2.0])
    sess.run(v.initializer)
    got = sess.run(v)
    got += 1
    sess.run(v.assign_add([1.0, 1.0]))
    assert list(got) == [2, 3] and list(sess.run(v)) == [2, 3]


def test_060_missing_feeds(sess):
    x = tf.placeholder(tf.float32, [None, 3], name="x")
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"You must feed a value for placeholder tensor 'x' with dtype float and shape \[\?,3\]"):
        sess.run(x + 1)


def test_061_feeds_of_a_wrong_shape(sess):
    x = tf.placeholder(tf.float32, [None, 3], name="x")
    with pytest.raises(ValueError, match=r"Cannot feed value of shape \(2, 4\) for Tensor 'x:0', which has shape '\(\?, 3\)'"):
        sess.run(x + 1, {x: np.ones((2, 4))})


def test_062_feeds_are_cast(sess):
    f, i, b = tf.placeholder(tf.float32, []), tf.placeholder(tf.int32, []), tf.placeholder(tf.bool, [])
    assert [sess.run(f + 0, {f: v}) for v in (1, True, np.float64(2.5))] == [1, 1, 2.5]
    assert [sess.run(i + 0, {i: v}) for v in (1.7, np.array(1.7), np.int64(2**40))] == [1, 1, 0]
    assert sess.run(tf.logical_not(b), {b: 0.5}) == False  # noqa: E712


def test_063_a_large_python_int(sess):
    i = tf.placeholder(tf.int32, [])
    with pytest.raises(TypeError, match=r"Type of feed value 1099511627776 with type <class 'int'> is not compatible with Tensor type"):
        sess.run(i + 0, {i: 2**40})


@pytest.mark.parametrize("value, message", [([[1, 2], [3]], "setting an array element with a sequence"), ("abc", "could not convert string to float"), (None, "Cannot feed value None")])
def test_064_values_that_cannot_be_fed(sess, value, message):
    x = tf.placeholder(tf.float32, None)
    with pytest.raises(ValueError, match=message):
        sess.run(x + 0, {x: value})


def test_065_a_tensor_as_a_value(sess):
    x = tf.placeholder(tf.float32, [])
    with pytest.raises(TypeError, match=r"The value of a feed cannot be a tf.Tensor object"):
        sess.run(x + 0, {x: tf.constant(1.0)})


def test_066_keys_of_feeds(sess):
    x = tf.placeholder(tf.float32, [], name="x")
    assert sess.run(x + 1, {"x:0": 2}) == 3
    with pytest.raises(TypeError, match="Cannot interpret feed_dict key as Tensor"):
        sess.run(x + 1, {"x": 2})
    with pytest.raises(TypeError, match="Can not convert a int into a Tensor"):
        sess.run(x + 1, {3: 2})
    with pytest.raises(TypeError):
        sess.run(x + 1, [1])


def test_067_any_tensor_can_be_fed(sess):
    v = tf.Variable(1.0)
    sess.run(v.initializer)
    a = tf.constant(1.0)
    b = a + 1
    assert sess.run(b * 2, {b: 10}) == 20
    assert sess.run(v * 2, {v: 5.0}) == 10 and sess.run(v) == 1


def test_068_tensors_that_may_not_be_fed(fresh_graph, sess):
    x = tf.placeholder(tf.float32, [])
    y = x + 1
    fresh_graph.prevent_feeding(y)
    assert sess.run(y, {x: 1}) == 2 and not fresh_graph.is_feedable(y)
    with pytest.raises(ValueError, match=r"Tensor Tensor\(\"add:0\", shape=\(\), dtype=float32\) may not be fed."):
        sess.run(y, {y: 1})


def test_069_sparse_placeholders(sess):
    x = tf.sparse_placeholder(tf.float32, [None, None], name="x")
    dense = tf.sparse_tensor_to_dense(x, default_value=-1.0)
    parts = ([[0, 1], [1, 0]], [2.0, 3.0], [2, 3])
    for value in (parts, tf.SparseTensorValue(*parts)):
        assert sess.run(dense, {x: value}).tolist() == [[-1, 2, -1], [3, -1, -1]]
    assert sess.run(x, {x: parts}).values.tolist() == [2, 3] and x.get_shape().as_list() == [None, None] and dense.shape.as_list() == [None, None]
    fixed = tf.sparse_placeholder(tf.float32, [2, 3])
    product = tf.sparse_tensor_dense_matmul(fixed, tf.eye(3))
    assert fixed.shape == [2, 3] and sess.run(product, {fixed: parts}).tolist() == [[0, 2, 0], [3, 0, 0]]
    with pytest.raises(TypeError, match="SparseTensorValue"):
        sess.run(dense, {x: np.ones((2, 3))})


def test_070_placeholders_with_a_default(sess):
    x = tf.placeholder_with_default(np.ones((2, 2), "f4"), [None, 2])
    total = tf.reduce_sum(x)
    assert sess.run(total) == 4 and sess.run(total, {x: np.ones((3, 2))}) == 6 and sess.run(total, {x: np.ones((0, 2))}) == 0
    with pytest.raises(ValueError):
        tf.placeholder_with_default(np.ones((2, 2), "f4"), [3, 2])


def test_071_dtypes_and_shapes_of_placeholders():
    assert tf.placeholder("float").dtype == tf.placeholder(float).dtype == tf.placeholder(np.float32).dtype == tf.float32
    assert tf.placeholder(tf.float32, shape=(3)).shape.as_list() == [3]
    with pytest.raises(ValueError):
        tf.placeholder(tf.float32, [-1])
