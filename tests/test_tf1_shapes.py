"""Placeholders of unknown rank (statements 60, 71, 90 to 92): each run chooses the rank; values, gradients and state are as if the shape had been given."""

import threading
import traceback

import numpy as np
import pytest

import staticgraph as tf
from staticgraph.surface.deferred import ranks_fed


@pytest.fixture(autouse=True)
def graph():
    """A default graph per test."""
    with tf.Graph().as_default() as made:
        yield made


@pytest.fixture
def sess(graph):
    """A session on the test's graph."""
    with tf.Session() as session:
        yield session


def numbers(shape, seed=0):
    return np.asarray(np.random.default_rng(seed).standard_normal(shape), np.float32)


SHAPES = [((), ()), ((3,), ()), ((1,), (3,)), ((2, 3), (3,)), ((2, 1), (1, 3)), ((4, 2, 3), (2, 1)), ((0, 3), (3,)), ((5, 1, 1, 1), (1, 3))]


def test_071_values_and_gradients_for_each_rank(sess):
    x, y = tf.placeholder(tf.float32), tf.placeholder(tf.float32)
    z = x * y + tf.constant([1.0, 2.0, 3.0])
    slopes = tf.gradients(z, [x, y])
    for left, right in SHAPES:
        p, q = numbers(left), numbers(right, 1)
        value, gx, gy = sess.run([z, *slopes], {x: p, y: q})
        want = p * q + np.array([1, 2, 3], np.float32)
        assert value.shape == want.shape and np.allclose(value, want, atol=1e-6)
        assert gx.shape == left and gy.shape == right
        assert np.isclose(gx.sum(), np.broadcast_to(q, want.shape).sum(), atol=1e-5) and np.isclose(gy.sum(), np.broadcast_to(p, want.shape).sum(), atol=1e-5)


def test_071_a_model_trained_on_numbers_is_measured_on_vectors(sess):
    x, y = tf.placeholder("float"), tf.placeholder("float")
    w, b = tf.Variable(0.3), tf.Variable(-0.1)
    cost = tf.reduce_sum(tf.pow(x * w + b - y, 2)) / (2 * 17)
    step = tf.train.GradientDescentOptimizer(0.01).minimize(cost)
    sess.run(tf.global_variables_initializer())
    data = np.linspace(1, 5, 17)
    p, q = 0.3, -0.1
    for u in data:
        sess.run(step, {x: u, y: 2 * u + 1})
        e = u * p + q - (2 * u + 1)
        p, q = p - 0.01 * e * u / 17, q - 0.01 * e / 17
    assert np.allclose(sess.run([w, b]), [p, q], rtol=1e-5)
    e = data * p + q - (2 * data + 1)
    assert np.isclose(sess.run(cost, {x: data, y: 2 * data + 1}), (e * e).sum() / 34, rtol=1e-4)
    sess.run(step, {x: data, y: 2 * data + 1})
    assert np.allclose(sess.run([w, b]), [p - 0.01 * (e * data).sum() / 17, q - 0.01 * e.sum() / 17], rtol=1e-4)


def test_071_a_network_without_any_shape_trains(sess):
    x, y, rate, keep = (tf.placeholder(tf.float32) for _ in range(4))
    w1, w2 = tf.Variable(tf.random_normal([4, 8], seed=1)), tf.Variable(tf.random_normal([8, 3], seed=2))
    logits = tf.matmul(tf.nn.dropout(tf.nn.relu(tf.matmul(x, w1)), keep), w2)
    loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(labels=y, logits=logits))
    step = tf.train.AdamOptimizer(rate).minimize(loss)
    count = len(tf.global_variables())
    sess.run(tf.global_variables_initializer())
    data, labels = numbers((6, 4)), np.eye(3)[[0, 1, 2, 2, 1, 0]]
    before = sess.run(loss, {x: data, y: labels, keep: 1.0})
    for _ in range(60):
        sess.run(step, {x: data, y: labels, rate: 0.05, keep: 1.0})
    assert sess.run(loss, {x: data, y: labels, keep: 1.0}) < 0.3 * before
    one, all_rows = sess.run(logits, {x: data[:1], keep: 1.0}), sess.run(logits, {x: data, keep: 1.0})
    assert np.array_equal(one, all_rows[:1])
    assert len(tf.global_variables()) == count == 8


def test_071_a_run_with_other_ranks_adds_nothing_to_the_ledger(graph, sess):
    x = tf.placeholder(tf.float32, name="x")
    first, second = x + 1.0, x + 2.0
    product = tf.matmul(first, tf.ones([3, 2]), name="product")
    third = x + 3.0
    assert (first.name, second.name, third.name) == ("add:0", "add_1:0", "add_2:0")
    names, count = [op.name for op in graph.get_operations()], graph.op_count
    for value in (1.0, np.ones(3), np.ones((2, 3))):
        sess.run(third, {x: value})
    assert np.array_equal(sess.run("product:0", {"x:0": np.ones((2, 3))}), np.full((2, 2), 6))
    assert [op.name for op in graph.get_operations()] == names and graph.op_count == count
    assert first.consumers() == [product.op] and product.op.inputs[0] is first
    assert (x + 4.0).name == "add_3:0"
    graph.finalize()
    assert sess.run(second, {x: np.ones((1, 1, 2))}).shape == (1, 1, 2)


def test_001_names_and_counts_are_those_of_the_program_with_shapes():
    def program(shape, other):
        with tf.Graph().as_default() as g:
            x, y = tf.placeholder(tf.float32, shape), tf.placeholder(tf.float32, other)
            h = tf.matmul(x + 1.0, tf.ones([3, 2]))
            with tf.name_scope("loss"):
                loss = tf.reduce_mean(tf.square(tf.concat([h, y], 1)[:, 1:]))
            tf.train.AdamOptimizer().minimize(loss + tf.reduce_sum(tf.Variable([1.0])))
            return [(op.name, op.type, [i.name for i in op.inputs], [[c.name for c in t.consumers()] for t in op.outputs]) for op in g.get_operations()], g.op_count
    assert program(None, None) == program([None, 3], [None, 2])


def test_123_slots_and_train_ops_are_made_once(sess):
    x = tf.placeholder(tf.float32)
    w = tf.Variable([1.0, 2.0])
    step = tf.train.AdamOptimizer(0.1).minimize(tf.reduce_sum(w * x))
    init = tf.global_variables_initializer()
    assert len(tf.global_variables()) == 5
    for value in (3.0, [1.0, 2.0], [[1.0, 2.0], [3.0, 4.0]]):
        sess.run(init, {x: value})
        sess.run(step, {x: value})
        assert np.allclose(sess.run(w), [0.9, 1.9])              # Adam's first step is the rate
    slots = [v.initializer for v in tf.global_variables()[1:]]
    sess.run([slots, step.graph.get_tensor_by_name("Sum:0")], {x: np.ones((2, 2, 2))})
    assert len(tf.global_variables()) == 5 and tf.get_collection("train_op") == [step]


def test_090_a_static_shape_is_what_all_ranks_agree_on(sess):
    x = tf.placeholder(tf.float32)
    assert x.shape.ndims is None and (x * 2.0).shape.ndims is None and tf.transpose(x).shape.ndims is None
    assert str(x) == 'Tensor("Placeholder:0", dtype=float32)'
    assert tf.reduce_sum(x).shape.as_list() == [] and tf.shape(x).shape.as_list() == [None]
    rows = tf.reshape(x, [-1, 6])
    assert rows.shape.as_list() == [None, 6]
    assert tf.matmul(x, tf.ones([4, 5])).shape.as_list() == [None, 5]
    w = tf.Variable(tf.ones([int(rows.shape[1]), 2]))
    sess.run(w.initializer)
    assert np.array_equal(sess.run(tf.matmul(rows, w), {x: np.ones((4, 3))}), np.full((2, 2), 6))
    with pytest.raises(ValueError, match="initial_value must have a shape specified"):
        tf.Variable(x * 1.0)


def test_091_functions_of_the_shape(sess):
    x = tf.placeholder(tf.float32)
    fetches = [tf.rank(x), tf.shape(x), tf.size(x), tf.shape(tf.transpose(x)), tf.zeros(tf.shape(x)), tf.ones_like(x), x[0], tf.expand_dims(x, -1)]
    for shape in ((4,), (2, 1, 4), (3, 5)):
        rank, sizes, count, turned, zeros, ones, row, wide = sess.run(fetches, {x: np.ones(shape)})
        assert (rank, tuple(sizes), count, tuple(turned)) == (len(shape), shape, np.prod(shape), shape[::-1])
        assert zeros.shape == ones.shape == shape and row.shape == shape[1:] and wide.shape == (*shape, 1)


def test_092_set_shape_gives_a_rank(sess):
    x, y = tf.placeholder(tf.float32), tf.placeholder(tf.float32)
    x.set_shape([None, 3])
    assert x.shape.as_list() == [None, 3]
    assert np.array_equal(sess.run(tf.reduce_sum(x, 1), {x: np.ones((2, 3))}), [3, 3])
    with pytest.raises(ValueError, match=r"Cannot feed value of shape \(3,\) for Tensor 'Placeholder:0', which has shape '\(\?, 3\)'"):
        sess.run(x + 0.0, {x: np.ones(3)})
    with pytest.raises(ValueError):
        x[0, 0, 0]
    doubled = y * 2.0
    doubled.set_shape([None, 4])
    assert doubled.shape.as_list() == [None, 4] and sess.run(tf.reduce_sum(doubled, 1), {y: np.ones((2, 4))}).tolist() == [8, 8]
    with pytest.raises(ValueError):
        doubled.set_shape([7])


def test_093_what_no_rank_allows_is_refused_while_building(graph):
    x = tf.placeholder(tf.float32)
    ints, rows = tf.constant([[1]]), tf.reshape(tf.matmul(x, tf.ones([2, 3])), [-1, 3])
    names, count = [op.name for op in graph.get_operations()], graph.op_count
    with pytest.raises(TypeError, match="Input 'b' of 'MatMul' Op has type int32 that does not match type float32 of argument 'a'"):
        tf.matmul(x, ints)
    with pytest.raises(ValueError):
        rows[0, 0, 0]

    def inside():
        doubled = x * 2.0
        return tf.matmul(doubled, rows, transpose_b=True) + doubled[0, 0, 0, 0, 0, 0]
    with pytest.raises(ValueError):
        tf.cond(tf.placeholder(tf.bool, [], "p"), inside, inside)
    assert [op.name for op in graph.get_operations()] == [*names, "p"] and graph.op_count == count + 1
    assert tf.add(x, 1.0).name == "Add:0" and rows.consumers() == []


def test_094_ranks_that_do_not_fit_fail_the_run_at_their_line(sess):
    x = tf.placeholder(tf.float32)
    v = tf.Variable([1.0, 2.0])
    add = v.assign_add(x * 1.0)
    bad = x + tf.constant([1.0, 2.0, 3.0])   # the line
    sess.run(v.initializer)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"Incompatible shapes: \[2\] vs. \[3\]"):
        sess.run(bad, {x: [1.0, 2.0]})
    with pytest.raises(tf.errors.InvalidArgumentError):
        sess.run([bad, add], {x: np.ones((2, 2, 2, 2))})
    assert sess.run(v).tolist() == [1, 2]
    w = tf.matmul(x, tf.ones([2, 2]))        # another line
    with pytest.raises(tf.errors.InvalidArgumentError, match="Shape must be rank 2 but is rank 1") as caught:
        sess.run(w, {x: np.ones(2)})
    assert "another line" in traceback.extract_tb(caught.value.__traceback__)[-1].line


def test_060_a_missing_feed_names_no_shape(sess):
    x = tf.placeholder(tf.float32, name="x")
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"You must feed a value for placeholder tensor 'x' with dtype float\n"):
        sess.run(x + 1.0)


def test_067_fed_intermediates_choose_the_rank(sess):
    x = tf.placeholder(tf.float32)
    middle = x * 3.0
    end = tf.reduce_sum(middle + 1.0)
    assert sess.run([end], {middle: 5.0}) == [6] and sess.run(end, {middle: [5.0, 6.0], x: [0.0, 0.0]}) == 13
    as_rows = tf.matmul(x, tf.ones([2, 2]))
    assert sess.run(as_rows, {x: np.ones((1, 2))}).shape == (1, 2) and sess.run(end, {middle: 5.0}) == 6
    with pytest.raises(ValueError, match=r"Cannot feed value of shape \(2,\) for Tensor 'MatMul:0', which has shape '\(\?, 2\)'"):
        sess.run(as_rows + 1.0, {as_rows: [1.0, 2.0]})
    with pytest.raises(ValueError, match=r"Cannot feed value of shape \(2,\) for Tensor 'mul:0'"):
        sess.run(middle + x, {middle: [5.0, 6.0], x: [0.0]})


def test_091_uses_that_ask_for_different_ranks(sess):
    x = tf.placeholder(tf.float32)
    as_matrix = tf.matmul(x, tf.ones([2, 2]))
    as_vector = tf.Variable([1.0, 1.0]).assign_add(x)
    after = as_matrix + 1.0
    assert sess.run(after, {x: np.ones((1, 2))}).tolist() == [[3, 3]]
    sess.run(tf.global_variables_initializer())
    assert sess.run(as_vector, {x: [1.0, 2.0]}).tolist() == [2, 3]
    assert sess.run(as_matrix, {x: np.ones((3, 2))}).shape == (3, 2)


def test_101_and_103_control_flow_over_an_unknown_rank(sess):
    x, p = tf.placeholder(tf.float32), tf.placeholder(tf.bool)
    chosen = tf.cond(p, lambda: x * 2.0, lambda: x + 1.0)
    _, power = tf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a * x), (0, x))
    squares = tf.map_fn(lambda row: row * row, x)
    slope = tf.gradients(power, [x])[0]
    for shape in ((3,), (2, 2)):
        data = numbers(shape)
        assert np.array_equal(sess.run(chosen, {x: data, p: True}), data * 2) and np.array_equal(sess.run(chosen, {x: data, p: False}), data + 1)
        assert np.allclose(sess.run([power, slope], {x: data}), [data**4, 4 * data**3], rtol=1e-5)
        assert np.array_equal(sess.run(squares, {x: data}), data * data)


def test_097_and_022_state_behind_an_unknown_rank(sess):
    x = tf.placeholder(tf.float32)
    v = tf.Variable([0.0, 0.0])
    add = v.assign_add(x)
    with tf.control_dependencies([add]):
        after = tf.constant(1.0) + v
    total = tf.Variable(0.0)
    with tf.control_dependencies([total.assign_add(tf.reduce_sum(x))]):
        seen = total.read_value()
    both = tf.group(add)
    sess.run(tf.global_variables_initializer())
    assert sess.run(after, {x: [1.0, 2.0]}).tolist() == [2, 3]
    assert sess.run(both, {x: [1.0, 1.0]}) is None and sess.run(v).tolist() == [2, 3]
    assert [sess.run(seen, {x: value}) for value in (1.0, [2.0, 3.0], [[4.0], [5.0]])] == [1, 6, 15]
    call = sess.make_callable(add, [x])
    assert call(np.array([1.0, 1.0])).tolist() == [3, 4]


def test_153_draws_do_not_depend_on_how_the_shape_became_known(sess):
    x = tf.placeholder(tf.float32)
    noisy = x + tf.random_normal(tf.shape(x), seed=5)
    static = tf.random_normal([4], seed=5)
    got = [sess.run(noisy, {x: np.zeros(4)}), sess.run(noisy, {x: np.zeros((2, 2))}).ravel()]
    assert np.array_equal(got, [sess.run(static), sess.run(static)])


def test_051_ranks_of_different_threads_do_not_mix(sess):
    x = tf.placeholder(tf.float32)
    total = tf.reduce_sum(x * x + 1.0)
    wrong = []

    def work(rank):
        for _ in range(10):
            value = np.ones((2,) * rank, np.float32)
            if sess.run(total, {x: value}) != 2 * value.size:
                wrong.append(rank)
    threads = [threading.Thread(target=work, args=(k % 4,)) for k in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert wrong == []


def test_051_what_is_fed_concerns_only_the_thread_that_runs(graph):
    x = tf.placeholder(tf.float32)
    y = x + 1.0
    seen = []
    with ranks_fed(graph, [y], [x], [np.ones((2, 3))]):
        other = threading.Thread(target=lambda: seen.append(len(y.node.shape)))
        other.start()
        other.join()
        assert (len(y.node.shape), seen) == (2, [0])
    assert len(y.node.shape) == 0


def test_120_deep_chains_of_unknown_rank(sess):
    x = tf.placeholder(tf.float32)
    y = x
    for _ in range(2000):
        y = y + 1.0
    assert sess.run(y, {x: [1.0, 2.0]}).tolist() == [2001, 2002]
