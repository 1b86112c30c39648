"""Statements 41 to 69 against what TF 1.15.5 was seen to do: graphs, sessions, fetches, feeds."""

import collections
import threading

import numpy as np
import pytest

import staticgraph as tf


def at_the_root(f):
    """``f()`` in a thread, which has neither a graph nor a session of its own."""
    results = []

    def run():
        tf.reset_default_graph()
        try:
            results.append(f())
        finally:
            tf.reset_default_graph()
    t = threading.Thread(target=run)
    t.start()
    t.join()
    return results[0]


def test_041_threads_share_the_global_graph():
    def f():
        seen = []
        t = threading.Thread(target=lambda: seen.append(tf.get_default_graph()))
        t.start()
        t.join()
        return seen[0] is tf.get_default_graph()
    assert at_the_root(f)


def test_042_a_reset_under_an_interactive_session():
    def f():
        s = tf.InteractiveSession()
        before = tf.get_default_graph()
        tf.reset_default_graph()
        s.close()
        return tf.get_default_graph() is not before
    assert at_the_root(f)


def test_043_an_old_session_runs_old_tensors_after_a_reset():
    def f():
        a = tf.constant(2.0) * 3
        s = tf.Session()
        tf.reset_default_graph()
        with pytest.raises(ValueError, match="must be from the same graph as"):
            a + tf.constant(1.0)
        return s.run(a)
    assert at_the_root(f) == 6


@pytest.mark.parametrize("use", [
    lambda a, c: a + c, lambda a, c: tf.concat([[1.0], tf.reshape(c, [1]), tf.reshape(a, [1])], 0), lambda a, c: tf.Variable(1.0).assign(a), lambda a, c: tf.stack([a, c]),
    lambda a, c: tf.reshape(c, tf.cast(tf.reshape(a, [1]), tf.int32)), lambda a, c: tf.gradients(c, a) and a + c, lambda a, c: tf.cond(tf.constant(True), lambda: a, lambda: c)])
def test_043_operands_of_two_graphs(use):
    a = tf.constant(1.0, name="a")
    with tf.Graph().as_default(), pytest.raises(ValueError, match=r"must be from the same graph|another graph"):
        use(a, tf.constant(2.0, name="c"))


def test_043_what_belongs_to_the_graph_of_its_tensors(fresh_graph):
    a = tf.constant(1.0, name="a")
    with tf.Graph().as_default() as other:
        assert tf.group(a).graph is tf.identity(a).graph is tf.Variable(a).graph is fresh_graph and tf.no_op().graph is other
        with pytest.raises(ValueError, match="is not an element of this graph"), tf.control_dependencies([a]):
            pass


def test_045_finalized_graphs_take_nothing(fresh_graph):
    a = tf.constant(1.0)
    fresh_graph.finalize()
    fresh_graph.finalize()
    for make in (lambda: a + 1, lambda: tf.Variable(1.0), tf.no_op, lambda: tf.group(a), lambda: tf.placeholder(tf.float32), tf.global_variables_initializer,
                 lambda: fresh_graph.add_to_collection("k", 1), lambda: tf.get_variable("w", [1])):
        with pytest.raises(RuntimeError, match="^Graph is finalized and cannot be modified.$"):
            make()
    assert fresh_graph.get_operations() == [a.op]


def test_045_elements_by_name_or_object(fresh_graph):
    a = tf.constant(1.0, name="a")
    get = fresh_graph.as_graph_element
    assert get("a:0") is get(b"a:0") is get(a) is a and get("a") is get(a.op) is a.op
    for call, error, text in ((lambda: get(3), TypeError, "Can not convert a int into a Tensor or Operation."), (lambda: get(a, allow_tensor=False), TypeError, "Can not convert a Tensor into a Operation."),
                              (lambda: get(a.op, allow_operation=False), TypeError, "Can not convert a Operation into a Tensor."),
                              (lambda: get("a:0", allow_tensor=False), ValueError, "Name 'a:0' appears to refer to a Tensor, not a Operation."),
                              (lambda: get(a, False, False), ValueError, "allow_tensor and allow_operation can't both be False.")):
        with pytest.raises(error, match=text):
            call()
    with fresh_graph.gradient_override_map({"Identity": "Other"}):
        assert tf.identity(a).op.get_attr("_gradient_op_type") == b"Other"


@pytest.mark.parametrize("name, error, text", [("a:x", ValueError, "The name 'a:x' looks a like a Tensor name, but is not a valid one."), ("a:0:0", ValueError, "looks a like a Tensor name"),
                                               ("^a", ValueError, "looks like an \\(invalid\\) Operation name, not a Tensor"), (3, TypeError, "Tensor names are strings \\(or similar\\), not int.")])
def test_046_names_of_no_tensor(fresh_graph, name, error, text):
    tf.constant(1.0, name="a")
    with pytest.raises(error, match=text):
        fresh_graph.get_tensor_by_name(name)


def test_046_names_of_no_operation(fresh_graph):
    a = tf.constant(1.0, name="a")
    with pytest.raises(ValueError, match="Name 'a:0' appears to refer to a Tensor, not a Operation."):
        fresh_graph.get_operation_by_name("a:0")
    with pytest.raises(TypeError, match="Operation names are strings \\(or similar\\), not Tensor."):
        fresh_graph.get_operation_by_name(a)


def test_047_a_default_session_is_not_a_default_graph(fresh_graph):
    s = tf.Session(graph=tf.Graph())
    with s.as_default() as entered:
        assert entered is s is tf.get_default_session() and tf.get_default_graph() is fresh_graph
    with s:
        assert tf.get_default_graph() is s.graph
    with pytest.raises(tf.errors.CancelledError, match="Session has been closed."):
        s.list_devices()
    tf.constant(1.0, name="a")
    assert [n.name for n in tf.Session().graph_def.node] == ["a"]


def test_048_which_session(fresh_graph):
    a = tf.constant(1.0)
    x = tf.placeholder(tf.float32)
    s = tf.Session()
    assert a.eval(session=s) == 1 and a.op.run(session=s) is None and x.eval({x: 3.0}, s) == 3
    for call, text in ((lambda: a.op.run(), "^Cannot execute operation using `run\\(\\)`: No default session is registered. Use `with sess.as_default\\(\\):` or pass an explicit session to `run\\(session=sess\\)`$"),
                       (lambda: tf.Variable(1.0).eval(), "^Cannot evaluate tensor using `eval")):
        with pytest.raises(ValueError, match=text):
            call()
    with tf.Graph().as_default():
        tf.constant(1.0)
        with tf.Session() as other:
            for call, text in ((lambda: a.eval(session=other), "Cannot use the given session to evaluate tensor: the tensor's graph is different from the session's graph."),
                               (lambda: a.op.run(), "Cannot use the default session to execute operation: the operation's graph is different")):
                with pytest.raises(ValueError, match=text):
                    call()


def test_049_an_empty_graph_comes_first(sess):
    for fetch, feeds in (("a:0", None), ([], {3: 4}), (None, None)):
        with pytest.raises(RuntimeError, match="The Session graph is empty."):
            sess.run(fetch, feeds)


def test_050_an_interactive_session_of_another_graph(fresh_graph):
    other = tf.Graph()
    s = tf.InteractiveSession(graph=other)
    assert tf.get_default_graph() is other and tf.get_default_session() is s
    s.close()
    s.close()
    assert tf.get_default_graph() is fresh_graph and tf.get_default_session() is None


def test_051_two_hundred_threads(sess):
    v, w = tf.Variable(0), tf.Variable(np.zeros(3))
    both = tf.group(v.assign_add(1), w.assign_add([1.0, 2.0, 3.0]))
    sess.run(tf.global_variables_initializer())
    threads = [threading.Thread(target=sess.run, args=(both,)) for _ in range(200)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert sess.run(v) == 200 and sess.run(w).tolist() == [200, 400, 600]


def test_051_sums_of_threads_that_read_and_write(sess):
    v = tf.Variable(0.0)
    add = v.assign_add(tf.placeholder(tf.float32, [], name="by"))
    sess.run(v.initializer)
    seen = []
    threads = [threading.Thread(target=lambda k=k: seen.append(sess.run(add, {"by:0": float(k)}))) for k in range(200)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert sess.run(v) == 199 * 100 == max(seen) and len(set(seen)) >= 199               # adding 0 gives a sum again


@pytest.mark.parametrize("asked, got", [("/gpu:0", "/device:GPU:0"), ("/job:a/task:1", "/job:a/task:1"), ("/cpu", "/device:CPU:*"), ("/device:gpu:0", "/device:GPU:0"), ("", "")])
def test_052_names_of_devices(asked, got):
    with tf.device(asked):
        assert tf.constant(1.0).device == got and tf.Variable(1.0).device == got
    with tf.device("/job:w"), tf.device("/gpu:1"):
        assert tf.constant(1.0).device == "/job:w/device:GPU:1"


def test_053_containers_of_fetches(sess):
    a = tf.constant(1.0)

    class Mine(dict):
        pass

    class Items(list):
        pass
    got = sess.run(collections.defaultdict(list, d=a))
    assert type(got) is collections.defaultdict and got == {"d": 1} and got["new"] == []
    assert type(sess.run(Mine(a=a))) is Mine and sess.run({1: a, (2, 3): a})[2, 3] == 1 and sess.run([[], {}, ()]) == [[], {}, ()]
    assert isinstance(sess.run(Items([a])), list) and sess.run(tf.constant(np.zeros((0, 3)))).shape == (0, 3) and sess.run([a.op, a.op]) == [None, None]
    kinds = [type(sess.run(tf.constant(v))) for v in (1, True, 1 + 2j, "x")]
    assert kinds == [np.int32, np.bool_, np.complex128, bytes]


def test_053_slices_of_a_gradient(sess):
    table, rows = tf.Variable([[1.0], [2.0]]), tf.IndexedSlices(tf.constant([[1.0]]), tf.constant([0]))
    got = sess.run([rows, tf.gradients(tf.nn.embedding_lookup(table, [1, 1]), table)[0]])
    assert all(isinstance(g, tf.IndexedSlicesValue) for g in got) and got[0].dense_shape is None and got[1].indices.tolist() == [1, 1]


def test_056_a_fed_scalar_comes_back_as_an_array(sess):
    x = tf.placeholder(tf.float32, [])
    got = sess.run([x, x * 1], {x: 1.5})
    assert isinstance(got[0], np.ndarray) and got[0].shape == () and isinstance(got[1], np.float32)


def test_057_texts_of_refusals(sess):
    tf.constant(1.0, name="a")
    with pytest.raises(TypeError, match="^Fetch argument None has invalid type <class 'NoneType'>$"):
        sess.run([None])
    with pytest.raises(ValueError, match="^Fetch argument 'nothing' cannot be interpreted as a Tensor. \\(\"The name 'nothing' refers to an Operation not in the graph.\"\\)$"):
        sess.run("nothing")
    with pytest.raises(ValueError, match="looks a like a Tensor name"):
        sess.run("a:x")
    for wrong in (True, object, {"k": 3}):
        with pytest.raises(TypeError, match="must be a string or Tensor"):
            sess.run(wrong)


def test_058_what_is_inside_can_neither_be_fetched_nor_fed(fresh_graph, sess):
    inner = []

    def kept(t):
        inner.append(t)
        return t
    out = tf.while_loop(lambda i: i < 3, lambda i: kept(tf.multiply(i, 2, name="mul")) + 1, [0], name="while")
    tf.scan(lambda a, b: kept(a + b), tf.constant([1.0, 2.0]))
    tf.map_fn(lambda a: kept(a * 3), tf.constant([1.0, 2.0]))
    tf.cond(out > 3, lambda: kept(-out), lambda: out)
    for t in inner:
        with pytest.raises(tf.errors.InaccessibleTensorError, match=f"Operation '{t.op.name}' has been marked as not fetchable. Typically this happens when it is defined in another function"):
            sess.run(t)
        with pytest.raises(ValueError, match="may not be fed"):
            sess.run(out, {t: 3})
        assert not fresh_graph.is_fetchable(t) and not fresh_graph.is_fetchable(t.op) and not fresh_graph.is_feedable(t)
    assert fresh_graph.is_fetchable(out) and fresh_graph.is_feedable(out)


@pytest.mark.parametrize("kind, shape, text", [("float64", [2], r"double and shape \[2\]"), ("int32", [], "int32"), ("bool", None, "bool"), ("float16", None, "half"), ("int64", [None], r"int64 and shape \[\?\]"),
                                               ("uint8", [1, 2], r"uint8 and shape \[1,2\]"), ("complex64", [3], r"complex64 and shape \[3\]")])
def test_060_types_and_shapes_in_words(sess, kind, shape, text):
    x = tf.placeholder(kind, shape, name="x")
    with pytest.raises(tf.errors.InvalidArgumentError, match="You must feed a value for placeholder tensor 'x' with dtype " + text + "\n") as caught:
        sess.run(tf.identity(x))
    assert caught.value.op.name == "x" and caught.value.op.type == "Placeholder" and caught.value.error_code == 3


def test_061_shapes_refined_later(sess):
    x = tf.placeholder(tf.float32, [None, 3], name="x")
    assert sess.run(x + 1, {x: np.ones((0, 3))}).shape == (0, 3)
    x.set_shape([2, 3])
    for value, shape in ((np.ones((1, 3)), r"\(1, 3\)"), (1.0, r"\(\)"), ([[1, 2]], r"\(1, 2\)")):
        with pytest.raises(ValueError, match=f"Cannot feed value of shape {shape} for Tensor 'x:0', which has shape '\\(2, 3\\)'"):
            sess.run(x + 1, {x: value})


def test_062_casts_of_fed_values(sess):
    u, b, v = tf.placeholder(tf.uint8, []), tf.placeholder(tf.bool, []), tf.placeholder(tf.float32, [None])
    assert [sess.run(u + 0, {u: x}) for x in (255, np.int64(300), -1.0)] == [255, 44, 255] and [bool(sess.run(tf.identity(b), {b: x})) for x in (0.5, np.array(3), "")] == [True, True, False]
    assert [sess.run(v + 0, {v: x}).tolist() for x in ((1, 2), [True, False], range(3), [np.float64(1.0)])] == [[1, 2], [1, 0], [0, 1, 2], [1]]
    f, i = tf.placeholder(tf.float32, []), tf.placeholder(tf.int32, [])
    assert sess.run(f + 0, {f: "3.5"}) == 3.5 and sess.run(i + 0, {i: "7"}) == 7 and sess.run(f + 0, {f: 1e300}) == np.inf


@pytest.mark.parametrize("kind, value", [("int32", -(2**40)), ("uint8", -1), ("int8", 200), ("bool", 2), ("float32", 2**24 + 1), ("float16", 70000)])
def test_063_python_ints_that_are_none_of_the_dtype(sess, kind, value):
    x = tf.placeholder(kind, [])
    with pytest.raises(TypeError, match=f"Type of feed value {value} with type <class 'int'> is not compatible with Tensor type"):
        sess.run(tf.identity(x), {x: value})
    y = tf.placeholder(tf.float64, [])
    assert sess.run(y + 0, {y: 2**53 + 1}) == 2.0**53


@pytest.mark.parametrize("value, error", [(object(), TypeError), ({}, TypeError), ([["a"]], ValueError), ([1, "a"], ValueError), (lambda: 1, TypeError)])
def test_064_objects_that_are_no_numbers(sess, value, error):
    x = tf.placeholder(tf.float32)
    with pytest.raises(error, match="Cannot feed value .* for Tensor 'Placeholder:0'"):
        sess.run(x + 0, {x: value})


def test_066_refused_keys(sess):
    x = tf.placeholder(tf.float32, [], name="x")
    for key, text in ((x.op, "Can not convert a Operation into a Tensor."), (None, "Can not convert a NoneType into a Tensor."), ("x:1", "exists but only has 1 outputs"),
                      ("x", "The name 'x' refers to an Operation, not a Tensor.")):
        with pytest.raises(TypeError, match=f"^Cannot interpret feed_dict key as Tensor: .*{text}"):
            sess.run(x + 1, {key: 2})
    with pytest.raises(TypeError, match="input must be a dictionary"):
        sess.run(x + 1, "x")
    assert sess.run(x + 1, collections.OrderedDict([(x, 2)])) == 3 and sess.run(tf.constant(1.0), []) == 1


def test_067_a_fed_variable_is_read_everywhere(sess):
    v = tf.Variable(1.0, name="v")
    sess.run(v.initializer)
    with tf.control_dependencies([tf.no_op()]):
        ordered = v + 0.0
    fetches = [v.read_value(), v.value(), tf.identity(v), ordered, v * 2]
    assert [float(x) for x in sess.run(fetches, {v: 9.0})] == [9, 9, 9, 9, 18] and sess.run(v) == 1
    for change in (v.assign(1.0), v.assign_add(1.0)):
        with pytest.raises(tf.errors.InvalidArgumentError, match="variable v is fed in this run: it cannot be assigned"):
            sess.run(change, {v: 5.0})
    assert sess.run(v) == 1


def test_067_parts_of_an_operation(sess):
    a, b = tf.split(tf.constant([1, 2, 3, 4]), 2)
    assert [x.tolist() for x in sess.run([a + 0, b + 0], {a: [9, 9]})] == [[9, 9], [3, 4]]
    m = tf.matmul(tf.ones([2, 2]), tf.ones([2, 2]))
    assert sess.run(tf.reduce_sum(m), {m: np.zeros((2, 2))}) == 0
    with pytest.raises(ValueError, match="which has shape '\\(2, 2\\)'"):
        sess.run(m, {m: np.zeros((3, 2))})


def test_069_parts_of_sparse_placeholders():
    x, y, z = tf.sparse_placeholder(tf.float32, [None, None], name="x"), tf.sparse_placeholder(tf.float32), tf.sparse_placeholder(tf.float32, [2, 3], name="z")
    assert [[t.name for t in (p.indices, p.values, p.dense_shape)] for p in (x, y, z)] == [
        ["x/indices:0", "x/values:0", "x/shape:0"], ["Placeholder_2:0", "Placeholder_1:0", "Placeholder:0"], ["z/indices:0", "z/values:0", "z/shape:0"]]


def test_095_of_several_operations_of_one_line_the_one_that_failed_is_named(sess):
    i = tf.placeholder(tf.int32, [1])
    picked = [tf.gather([1.0, 2.0, 3.0], i + k) for k in range(3)]
    for t in picked:
        with pytest.raises(tf.errors.InvalidArgumentError) as caught:
            sess.run(t, {i: [9]})
        assert caught.value.op.name == t.op.name


def test_067_a_value_that_shapes_were_made_with_is_not_replaced_silently():
    count, other = tf.constant(3), tf.constant(3)
    zeros = tf.zeros([count])
    with tf.Session() as s:
        assert s.run(zeros).shape == (3,) and s.run(count * other, {other: 7}) == 21
        assert s.run(zeros, {count: 3}).shape == (3,)
        with pytest.raises(ValueError, match="shapes were made with its own while the graph was built"):
            s.run(zeros, {count: 5})
        with pytest.raises(ValueError, match="shapes were made with its own while the graph was built"):
            s.make_callable(zeros, [count])(5)


def test_070_a_default_that_is_a_size():
    p, q = tf.placeholder_with_default(3, []), tf.placeholder_with_default(tf.constant(2) + 1, [])
    made = [tf.zeros([p]), tf.fill([q, 2], 1.0), tf.range(p)]
    with tf.Session() as s:
        for _ in range(2):
            assert [v.shape for v in s.run(made)] == [(3,), (3, 2), (3,)]
            assert [v.shape for v in s.run(made, {p: 5, q: 7})] == [(5,), (7, 2), (5,)]
