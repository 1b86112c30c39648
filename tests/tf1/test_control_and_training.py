"""Statements 97 to 136: control, gradients, optimizers."""

import numpy as np
import pytest

import staticgraph as tf


def test_097_control_dependencies(sess):
    v = tf.Variable(1.0)
    sess.run(v.initializer)
    before = tf.constant(1.0) * 2
    u = v.assign(5.0)
    with tf.control_dependencies([u]):
        tf.identity(before)
        inside = tf.constant(1.0) + 0
        with tf.control_dependencies(None):
            free = tf.constant(3.0) + 0
    sess.run([before, free])
    assert sess.run(v) == 1
    sess.run(inside)
    assert sess.run(v) == 5
    with pytest.raises(TypeError), tf.control_dependencies([3]):
        pass


def test_098_reads_after_an_assign(sess):
    v = tf.Variable(1.0)
    sess.run(v.initializer)
    with tf.control_dependencies([v.assign(2.0)]):
        reads = [v.read_value(), tf.identity(v), v + 0.0]
    assert sess.run(reads) == [2, 2, 2]


def test_099_unordered_reads_come_first(sess):
    v = tf.Variable(1.0)
    sess.run(v.initializer)
    assert sess.run([v, v.assign_add(1.0)]) == [1, 2]


@pytest.mark.parametrize("bound, trips", [(3, 3), (0, 0), (5000, 10), (np.int64(4), 4)])
def test_103_a_bound_on_the_trips(sess, bound, trips):
    x, n = tf.constant(2.0), tf.placeholder(tf.int32, [])

    def power(bound):
        return tf.while_loop(lambda k, a: k < 10, lambda k, a: (k + 1, a * x), (0, 1.0), maximum_iterations=bound)[1]
    for y, feed in ((power(bound), {}), (power(n), {n: bound})):
        (slope,) = tf.gradients(y, [x])
        assert sess.run([y, slope, tf.gradients(slope, [x])[0]], feed) == [2.0**trips, trips * 2.0**(trips - 1), trips * (trips - 1) * 2.0**(trips - 2)]


def test_103_a_bound_must_be_an_integer():
    with pytest.raises(TypeError, match="maximum_iterations must be an integer scalar"):
        tf.while_loop(lambda k: k < 10, lambda k: k + 1, [0], maximum_iterations=2.5)


def test_106_gradients_through_while(sess):
    x = tf.constant(2.0)
    _, y = tf.while_loop(lambda i, a: i < 3, lambda i, a: [i + 1, a * x], [0, tf.constant(1.0)])
    assert sess.run(tf.gradients(y, [x])) == [12]


def test_107_map_scan_and_folds(sess):
    x = tf.placeholder(tf.float32, [None, 3])
    squares = tf.map_fn(lambda r: r * r, x)
    assert squares.shape.as_list() == [None, 3]
    data = np.arange(6.0).reshape(2, 3)
    assert np.array_equal(sess.run(squares, {x: data}), data**2)
    assert list(sess.run(tf.scan(lambda a, r: a + r, tf.constant([1.0, 2.0, 3.0])))) == [1, 3, 6]
    assert sess.run(tf.foldl(lambda a, r: a - r, tf.constant([1.0, 2.0, 3.0]))) == -4
    assert sess.run(tf.foldr(lambda a, r: a - r, tf.constant([1.0, 2.0, 3.0]))) == 0
    assert np.array_equal(sess.run(tf.gradients(squares, [x])[0], {x: data}), 2 * data)


def test_110_gradients_are_sums(sess):
    x = tf.constant([1.0, 2.0])
    (g,) = tf.gradients([x * x, 3 * x], x)
    assert list(sess.run(g)) == [5, 7]
    assert tf.gradients(x, [tf.constant(1.0)]) == [None] and list(sess.run(tf.gradients(x, x)[0])) == [1, 1]


def test_111_seeds_and_stops(sess):
    x = tf.constant(3.0)
    y = x * x
    assert sess.run(tf.gradients(y, [x], grad_ys=[2.0])) == [12]
    assert sess.run(tf.gradients(y * x, [x], stop_gradients=[y])) == [9]
    z = tf.constant(1.0)
    assert sess.run(tf.gradients(y, [z], unconnected_gradients="zero")) == [0]


def test_112_what_gives_none(sess):
    x = tf.constant([1.0, 2.5])
    for f in (tf.argmax, tf.round, tf.rint, tf.floor, tf.ceil, tf.zeros_like, tf.ones_like, tf.stop_gradient, lambda v: tf.cast(v, tf.int32), lambda v: v < 1.0):
        y = f(x)
        assert tf.gradients(tf.cast(y, tf.float32), [x]) == [None]
    assert list(sess.run(tf.gradients(tf.sign(x), [x])[0])) == [0, 0]
    assert list(sess.run(tf.gradients(x % 2.0, [x])[0])) == [1, 1]


def test_113_kinks(sess):
    zero = tf.constant(0.0)
    slopes = [sess.run(tf.gradients(f(zero), [zero])[0]) for f in (tf.nn.relu, tf.nn.relu6, tf.abs, tf.nn.elu, tf.nn.leaky_relu, tf.sqrt)]
    assert np.allclose(slopes, [0, 0, 0, 1, 0.2, np.inf])
    x, y = tf.constant(1.0), tf.constant(1.0)
    assert sess.run(tf.gradients(tf.maximum(x, y), [x, y])) == [1, 0] and sess.run(tf.gradients(tf.minimum(x, y), [x, y])) == [1, 0]
    t = tf.constant([2.0, 2.0])
    assert list(sess.run(tf.gradients(tf.reduce_max(t), [t])[0])) == [0.5, 0.5]
    assert list(sess.run(tf.gradients(tf.clip_by_value(t, 2.0, 3.0), [t])[0])) == [1, 1]


def test_115_slices_of_embeddings(sess):
    v = tf.Variable(np.ones((4, 2), "f4"))
    rows = tf.nn.embedding_lookup(v, [1, 3, 1])
    (g,) = tf.gradients(rows, [v])
    assert isinstance(g, tf.IndexedSlices)
    got = sess.run(g)
    assert list(got.indices) == [1, 3, 1] and got.values.shape == (3, 2) and list(got.dense_shape) == [4, 2]
    assert np.array_equal(sess.run(tf.convert_to_tensor(g))[:, 0], [0, 2, 0, 1])
    sess.run(v.initializer)
    (dense,) = tf.gradients(tf.reduce_sum(rows) + tf.reduce_sum(v), [v])
    assert not isinstance(dense, tf.IndexedSlices) and np.array_equal(sess.run(dense)[:, 0], [1, 3, 1, 2])


def test_116_second_derivatives(sess):
    x = tf.constant([1.0, 2.0])
    (g,) = tf.gradients(x**3, [x])
    assert np.allclose(sess.run(tf.gradients(g, [x])[0]), [6, 12])
    (h,) = tf.hessians(tf.reduce_sum(x**3), x)
    assert np.allclose(sess.run(h), [[6, 0], [0, 12]])


def test_117_labels_get_no_gradient():
    labels, logits = tf.constant([[0.5, 0.5]]), tf.constant([[1.0, 2.0]])
    assert tf.gradients(tf.nn.softmax_cross_entropy_with_logits(labels=labels, logits=logits), [labels]) == [None]
    assert tf.gradients(tf.nn.softmax_cross_entropy_with_logits_v2(labels=labels, logits=logits), [labels]) != [None]


def test_118_custom_gradient(sess):
    @tf.custom_gradient
    def f(x):
        return x * x, lambda dy: dy * 100.0
    x = tf.constant(3.0)
    y = f(x)
    assert sess.run([y, tf.gradients(y, [x])[0]]) == [9, 100]


def test_118_registered_gradients(fresh_graph, sess):
    name = f"Doubled{id(fresh_graph)}"

    @tf.RegisterGradient(name)
    def doubled(op, grad):
        assert op.type in ("Identity", "Relu") and len(op.inputs) == len(op.outputs) == 1
        return 2.0 * grad + 0.0 * op.inputs[0]
    with pytest.raises(KeyError, match="Registering two gradient with name"):
        tf.RegisterGradient(name)(doubled)
    x = tf.placeholder(tf.float32, [])
    with fresh_graph.gradient_override_map({"Identity": name, "Relu": name}):
        y = tf.identity(x) * tf.nn.relu(-x)
    assert sess.run([y, tf.gradients(y, [x])[0]], {x: -3.0}) == [-9, 2 * 3 - 2 * -3 * 0 + 2 * 3]

    def body(i, a):
        with fresh_graph.gradient_override_map({"Identity": name}):
            return i + 1, tf.identity(a) * x
    _, z = tf.while_loop(lambda i, a: i < 3, body, (0, 1.0))
    plain = 3 * 5.0**2
    assert sess.run(z, {x: 5.0}) == 125 and sess.run(tf.gradients(z, [x])[0], {x: 5.0}) == plain * (1 + 2 + 4) / 3
    with fresh_graph.gradient_override_map({"Square": "Nothing is called so"}):
        q = tf.square(x)
    with pytest.raises(LookupError, match=r"No gradient defined for operation 'Square' \(op type: Square\)"):
        tf.gradients(q, [x])


def test_118_python_functions_with_a_gradient(fresh_graph, sess):
    name = f"Sine{id(fresh_graph)}"
    tf.RegisterGradient(name)(lambda op, grad: grad * tf.cos(op.inputs[0]))
    x = tf.placeholder(tf.float32, [])
    with fresh_graph.gradient_override_map({"PyFunc": name}):
        y = tf.py_func(lambda v: np.sin(v), [x], tf.float32)
    assert np.allclose(sess.run([y, tf.gradients(y * 2.0, [x])[0]], {x: 0.5}), [np.sin(0.5), 2 * np.cos(0.5)])


def test_119_names_of_gradients():
    x = tf.constant(1.0)
    y = tf.square(x)
    assert tf.gradients(y, [x])[0].name.startswith("gradients/") and tf.gradients(y, [x])[0].name.startswith("gradients_1/")


def test_120_deep_chains(sess):
    x = tf.constant(1.0)
    y = x
    for _ in range(3000):
        y = y * 1.0001
    assert np.isclose(sess.run(tf.gradients(y, [x])[0]), 1.0001**3000, rtol=1e-3)


def trained(sess, optimizer, steps):
    """v = [1, 2] after some steps on sum(v**2 [1, 3])."""
    v = tf.Variable([1.0, 2.0], name="v")
    train = optimizer.minimize(tf.reduce_sum(v**2 * [1.0, 3.0]))
    sess.run(tf.global_variables_initializer())
    for _ in range(steps):
        sess.run(train)
    return sess.run(v)


@pytest.mark.parametrize("number, make, steps, want", [
    (121, lambda: tf.train.GradientDescentOptimizer(0.1), 1, [0.8, 0.8]),
    (122, lambda: tf.train.MomentumOptimizer(0.1, 0.9), 2, [0.46, -0.76]),
    (122, lambda: tf.train.MomentumOptimizer(0.1, 0.9, use_nesterov=True), 1, [0.62, -0.28]),
    (123, lambda: tf.train.AdamOptimizer(0.1), 3, [0.7015873, 1.7006245]),
    (124, lambda: tf.train.AdagradOptimizer(0.1), 1, [0.9012271, 1.9000346]),
    (126, lambda: tf.train.RMSPropOptimizer(0.1), 1, [0.8245884, 1.6932141])])
def test_121_to_126_formulas(sess, number, make, steps, want):
    assert np.allclose(trained(sess, make(), steps), want, atol=2e-6)


def test_123_slots_of_adam(sess):
    v = tf.Variable(1.0, name="v")
    opt = tf.train.AdamOptimizer()
    opt.minimize(v * v)
    assert [w.op.name for w in tf.global_variables()] == ["v", "beta1_power", "beta2_power", "v/Adam", "v/Adam_1"]
    assert opt.get_slot(v, "m").op.name == "v/Adam" and sorted(opt.get_slot_names()) == ["m", "v"]


def test_128_rows_of_a_table(sess):
    for make, all_move in ((lambda: tf.train.GradientDescentOptimizer(0.1), False), (lambda: tf.train.AdagradOptimizer(0.1), False), (lambda: tf.train.AdamOptimizer(0.1), True)):
        v = tf.Variable(np.ones((3, 1), "f4"))
        ids = tf.placeholder(tf.int32, [None])
        train = make().minimize(tf.reduce_sum(tf.square(tf.nn.embedding_lookup(v, ids))))
        sess.run(tf.global_variables_initializer())
        sess.run(train, {ids: [0, 0]})
        middle = sess.run(v)
        assert middle[0] != 1 and middle[1] == 1
        sess.run(train, {ids: [1]})
        assert (sess.run(v)[0] != middle[0]) == all_move


def test_129_gradients_and_refusals():
    v, n = tf.Variable(1.0, name="a"), tf.Variable(1, name="n")
    opt = tf.train.GradientDescentOptimizer(0.1)
    pairs = opt.compute_gradients(v * v)
    assert [(g is None, w) for g, w in pairs] == [(False, v), (True, n)]
    opt.apply_gradients(pairs)
    with pytest.raises(ValueError, match="No gradients provided for any variable"):
        opt.apply_gradients([(None, v)])
    with pytest.raises(ValueError, match=r"No variables provided."):
        opt.apply_gradients([])
    with pytest.raises(ValueError, match="No gradients provided for any variable, check your graph for ops that do not support gradients"):
        opt.minimize(tf.constant(1.0))


def test_129_nothing_to_train():
    with pytest.raises(ValueError, match=r"No variables to optimize."):
        tf.train.AdamOptimizer().minimize(tf.constant(1.0))


def test_130_minimize_with_a_step(sess):
    v = tf.Variable(1.0)
    step = tf.train.get_or_create_global_step()
    train = tf.train.AdamOptimizer().minimize(v * v, global_step=step)
    assert train.name == "Adam"
    sess.run(tf.global_variables_initializer())
    sess.run(train)
    assert sess.run(step) == 1


def test_131_names_of_slots():
    v = tf.Variable(1.0, name="w")
    with tf.variable_scope("opt"):
        tf.train.MomentumOptimizer(0.1, 0.9).minimize(v * v)
    tf.train.AdamOptimizer(name="Foo").minimize(v * v)
    names = [w.op.name for w in tf.global_variables()]
    assert "opt/w/Momentum" in names and "w/Foo" in names and "w/Foo_1" in names
    assert tf.trainable_variables() == [v]


def test_132_vector_losses(sess):
    assert np.allclose(trained(sess, tf.train.GradientDescentOptimizer(0.1), 1), [0.8, 0.8])
    with pytest.raises(AttributeError):
        tf.train.GradientDescentOptimizer(0.1).minimize(1.0)


def test_133_the_global_step():
    step = tf.train.get_or_create_global_step()
    assert step.op.name == "global_step" and step.dtype.base_dtype == tf.int64 and tf.train.get_or_create_global_step() is step


def test_134_decays(sess):
    s = tf.placeholder(tf.int64, [])
    smooth, stairs = tf.train.exponential_decay(1.0, s, 10, 0.5), tf.train.exponential_decay(1.0, s, 10, 0.5, staircase=True)
    assert np.allclose(sess.run([smooth, stairs], {s: 15}), [0.5**1.5, 0.5])
    steps = tf.train.piecewise_constant(s, [10, 20], [1.0, 2.0, 3.0])
    assert [sess.run(steps, {s: k}) for k in (10, 11, 20, 21)] == [1, 2, 2, 3]
    assert np.allclose(sess.run(tf.train.polynomial_decay(1.0, s, 10, 0.1), {s: 50}), 0.1)


def test_135_moving_averages(sess):
    v = tf.Variable(1.0, name="v")
    ema = tf.train.ExponentialMovingAverage(0.9)
    update = ema.apply([v])
    sess.run(tf.global_variables_initializer())
    sess.run(v.assign(2.0))
    sess.run(update)
    assert np.isclose(sess.run(ema.average(v)), 1.1) and ema.average_name(v) == "v/ExponentialMovingAverage"


def test_136_clipping(sess):
    x, y = tf.constant([3.0]), tf.constant([4.0])
    clipped, norm = tf.clip_by_global_norm([x, None, y], 1.0)
    assert clipped[1] is None and np.allclose(sess.run([clipped[0], clipped[2]]), [[0.6], [0.8]]) and sess.run(norm) == 5
    assert np.allclose(sess.run(tf.clip_by_norm(tf.constant([3.0, 4.0]), 1.0)), [0.6, 0.8])


def test_153_and_154_seeds(fresh_graph):
    one, two = tf.random_uniform([3], seed=5), tf.random_uniform([3], seed=5)
    with tf.Session() as s, tf.Session() as t:
        a, b = s.run([one, two])
        assert np.array_equal(a, b) and np.array_equal(a, t.run(one)) and not np.array_equal(a, s.run(one))
