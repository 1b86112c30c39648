"""Statement 108: TensorArray. Messages and values are those of TF 1.15.5 for the same programs; gradients are those of the unrolled programs."""

import numpy as np
import pytest

import staticgraph as tf

F = tf.float32


def rows(n=3, **kw):
    return tf.TensorArray(F, n, **kw).unstack([float(k + 1) for k in range(n)])


def loop(n, step, *start, **kw):
    """``step(i, *values)`` n times; the values."""
    return tf.while_loop(lambda i, *_: i < n, lambda i, *v: (i + 1, *step(i, *v)), (tf.constant(0), *start), **kw)[1:]


def refused(sess, fetches, message):
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        sess.run(fetches)


def test_108_a_write_gives_a_new_handle(sess):
    empty = tf.TensorArray(F, 2)
    full = empty.write(0, 1.0).write(1, 2)
    assert full is not empty and sess.run([full.stack(), full.size()])[0].tolist() == [1, 2]
    assert sess.run(empty.read(1)) == 0 and full.dtype == F and full.element_shape.as_list() == []


def test_108_reading_clears(sess):
    ta = rows()
    first, second, other, whole = ta.read(1), ta.read(1), ta.read(0), ta.stack()
    again = r"TensorArray TensorArray: Could not read index 1 twice because it was cleared after a previous read \(perhaps try setting clear_after_read = false\?\)"
    assert sess.run([first, other]) == [2, 1] and sess.run(second) == 2 and sess.run(whole).tolist() == [1, 2, 3]    # each run has a state of its own
    refused(sess, [first, second], again)
    refused(sess, [first, whole], again)
    refused(sess, rows().gather([2, 2]), "Could not read index 2 twice")
    kept = rows(clear_after_read=False)
    values = sess.run([kept.read(1), kept.read(1), kept.gather([2, 2]), kept.stack()])
    assert values[:2] == [2, 2] and values[2].tolist() == [3, 3] and values[3].tolist() == [1, 2, 3]


def test_108_an_element_is_written_once(sess):
    refused(sess, tf.TensorArray(F, 3).write(0, 1.0).write(0, 2.0).stack(), "TensorArray TensorArray: Could not write to TensorArray index 0 because it has already been written to.")
    ta = rows(name="named")
    with tf.control_dependencies([ta.read(1)]):
        late = ta.write(1, 5.0).read(0)
    refused(sess, late, "TensorArray named: Could not write to TensorArray index 1 because it has already been read.")


@pytest.mark.parametrize("make, message", [
    (lambda: tf.TensorArray(F, 1).write(3, 1.0).stack(), "Tried to write to index 3 but array is not resizeable and size is: 1"),
    (lambda: tf.TensorArray(F, 1).write(-1, 1.0).flow, "Tried to write to index -1 but array is not resizeable and size is: 1"),
    (lambda: rows(1).read(3), "Tried to read from index 3 but array size is: 1"),
    (lambda: rows(1).gather([0, 3]), "Tried to read from index 3 but array size is: 1"),
    (lambda: tf.TensorArray(F, 1).scatter([2, 0, 1], [1.0, 2.0, 3.0]).stack(), r"Max scatter index must be < array size \(2 vs. 1\)"),
    (lambda: tf.TensorArray(F, tf.constant([1, -1])[1] * tf.reduce_max([1, 1])).write(0, 1.0).stack(), "sizes are not negative"),
])
def test_108_indices_out_of_range(sess, make, message):
    refused(sess, make(), message)


def test_108_whole_arrays(sess):
    assert sess.run(tf.TensorArray(F, 3).scatter([2, 0, 1], [1.0, 2.0, 3.0]).stack()).tolist() == [2, 3, 1]
    assert sess.run(tf.TensorArray(F, 5).unstack([1.0, 2.0, 3.0]).stack()).tolist() == [1, 2, 3, 0, 0]
    assert sess.run(tf.TensorArray(F, 2).write(0, [1.0, 2.0]).write(1, [3.0, 4.0]).concat()).tolist() == [1, 2, 3, 4]
    pieces = tf.TensorArray(F, 2).split([1.0, 2.0, 3.0, 4.0], [2, 2])
    assert sess.run([pieces.read(1), pieces.read(0)])[0].tolist() == [3, 4]
    assert sess.run(tf.TensorArray(F, 0, element_shape=[2]).stack()).shape == (0, 2)
    assert sess.run(tf.TensorArray(F, 2, element_shape=[2]).stack()).tolist() == [[0, 0], [0, 0]]
    ta = rows(clear_after_read=False).identity()
    assert sess.run([ta.flow, ta.size(), ta.gather([2, 0])])[:2] == [0, 3] and sess.run(ta.close()) is None


def test_108_sizes_that_the_run_knows(sess):
    n, x = tf.placeholder(tf.int32, []), tf.placeholder(F, [None, 2])
    squares = loop(n, lambda i, a: [a.write(i, i * i)], tf.TensorArray(tf.int32, n))[0]
    copied = loop(tf.shape(x)[0], lambda i, a: [a.write(i, x[i] * 2)], tf.TensorArray(F, tf.shape(x)[0]))[0]
    for k in (4, 0, 7):
        assert sess.run(squares.stack(), {n: k}).tolist() == [j * j for j in range(k)] and sess.run(squares.size(), {n: k}) == k
        assert np.array_equal(sess.run(copied.stack(), {x: np.full((k, 2), 1.5)}), np.full((k, 2), 3))


def test_108_arrays_that_grow(sess):
    n, x = tf.placeholder(tf.int32, []), tf.constant([1.0, 2.0])
    ta = loop(n, lambda i, a: [a.write(i, x * tf.cast(i, F))], tf.TensorArray(F, 0, dynamic_size=True, clear_after_read=False))[0]
    slope = tf.gradients(ta.stack(), x)[0]
    for k in (3, 200, 0):                    # more than there is room for at first
        got, size, d = sess.run([ta.stack(), ta.size(), slope], {n: k})
        assert size == k and np.array_equal(got, np.outer(np.arange(k), [1, 2])) and d.tolist() == [k * (k - 1) / 2] * 2
    assert sess.run(tf.TensorArray(F, 0, dynamic_size=True).write(1, 1.0).stack()).tolist() == [0, 1]
    assert sess.run(tf.TensorArray(F, 0, dynamic_size=True).unstack([1.0, 2.0]).size()) == 2
    refused(sess, tf.TensorArray(F, 1, dynamic_size=True).write(1, 1.0).read(2), "Tried to read from index 2")


def test_108_elements_have_one_shape():
    ta = tf.TensorArray(F, 3).write(0, [1.0])
    with pytest.raises(ValueError, match=r"Inconsistent shapes: saw \(2,\) but expected \(1,\)"):
        ta.write(1, [1.0, 2.0])
    with pytest.raises(ValueError, match=r"Inconsistent shapes: saw \(1,\) but expected \(2,\)"):
        tf.TensorArray(F, 3, element_shape=[2]).write(0, [1.0])
    with pytest.raises(tf.errors.UnimplementedError, match="pad them to one shape"):
        tf.TensorArray(F, 3, infer_shape=False).write(0, [1.0]).write(1, [1.0, 2.0])
    with pytest.raises(ValueError, match="give element_shape="):
        tf.TensorArray(F, 3).read(0)
    with pytest.raises(ValueError, match="requested dtype float32 for Tensor with dtype int32"):
        ta.write(1, tf.constant([1]))
    with pytest.raises(ValueError, match="Size must be provided if handle is not provided"):
        tf.TensorArray(F)
    with pytest.raises(ValueError, match="Did you mean to call pack"):
        rows().concat()


def recurrent(x, w, h, n, unrolled):
    """tanh(h w + x[t]) for n steps: the states, by a loop over arrays or written out."""
    if unrolled:
        out = []
        for t in range(n):
            h = tf.tanh(tf.matmul(h, w) + x[t])
            out.append(h)
        return tf.stack(out)
    inputs = tf.TensorArray(x.dtype, n).unstack(x)

    def step(t, h, out):
        h = tf.tanh(tf.matmul(h, w) + inputs.read(t))
        return h, out.write(t, h)
    return loop(n, step, h, tf.TensorArray(x.dtype, n))[1].stack()


@pytest.mark.parametrize("threads", [1, 2])
def test_108_a_recurrent_network(threads):
    rng = np.random.RandomState(0)
    with tf.Session(config=tf.ConfigProto(intra_op_parallelism_threads=threads)) as sess:
        x, w, h = (tf.constant(rng.normal(size=s)) for s in ((6, 2, 3), (3, 3), (2, 3)))
        found = []
        for unrolled in (False, True):
            y = recurrent(x, w, h, 6, unrolled)
            first = tf.gradients(tf.reduce_sum(y * y), [x, w, h])
            second = tf.gradients([tf.reduce_sum(tf.sin(g)) for g in first], [x, w, h])
            found.append(sess.run([y, *first, *second]))
        for got, want in zip(*found):
            assert np.allclose(got, want, rtol=1e-10, atol=1e-12)


def test_108_bits_do_not_depend_on_threads():
    rng = np.random.RandomState(1)
    values = [rng.normal(size=s).astype("f4") for s in ((20, 64, 96), (96, 96), (64, 96))]
    found = []
    for threads in (1, 2):
        with tf.Graph().as_default(), tf.Session(config=tf.ConfigProto(intra_op_parallelism_threads=threads)) as sess:
            x, w, h = map(tf.constant, values)
            y = recurrent(x, w, h, 20, False)
            found.append(sess.run([y, *tf.gradients(y, [x, w])]))
    assert all(np.array_equal(p, q) for p, q in zip(*found))


def test_108_a_loop_of_no_trips(sess):
    n, x = tf.placeholder(tf.int32, []), tf.constant(2.0)
    start = tf.TensorArray(F, 3).write(2, x)
    y = loop(n, lambda i, a: [a.write(i, x * x)], start)[0].stack()
    assert sess.run([y, tf.gradients(y, x)[0]], {n: 0})[0].tolist() == [0, 0, 2]
    assert sess.run(tf.gradients(y, x)[0], {n: 0}) == 1 and sess.run(tf.gradients(y, x)[0], {n: 2}) == 9
    assert sess.run(loop(n, lambda i, a: [a.write(i, x * x)], tf.TensorArray(F, 2))[0].stack(), {n: 0}).tolist() == [0, 0]


def test_108_branches(sess):
    p, x = tf.placeholder(tf.bool, []), tf.constant(3.0)
    fresh = tf.TensorArray(F, 2)
    ta = tf.cond(p, lambda: fresh.write(0, x), lambda: fresh)                # one branch alone tells the elements' shape
    y = ta.write(1, x * x).stack()
    for taken, want, slope in ((True, [3, 9], 7), (False, [0, 9], 6)):
        assert sess.run(y, {p: taken}).tolist() == want and sess.run(tf.gradients(y, x)[0], {p: taken}) == slope
    twice = tf.cond(p, lambda: fresh.write(0, x), lambda: fresh).write(0, x).stack()
    assert sess.run(twice, {p: False}).tolist() == [3, 0]
    with pytest.raises(tf.errors.InvalidArgumentError, match="index 0 because it has already been written to"):
        sess.run(twice, {p: True})
    even = loop(5, lambda i, a: [tf.cond(tf.equal(i % 2, 0), lambda: a.write(i, x * tf.cast(i, F)), lambda: a)], tf.TensorArray(F, 5))[0].stack()
    assert sess.run([even, tf.gradients(even, x)[0]])[0].tolist() == [0, 0, 6, 0, 12] and sess.run(tf.gradients(even, x)[0]) == 6


def test_108_loops_in_loops(sess):
    x = tf.constant(2.0)

    def outer(i, a):
        return loop(2, lambda j, a: [a.write(2 * i + j, x * tf.cast(i, F) + tf.cast(j, F))], a)
    y = loop(3, outer, tf.TensorArray(F, 6))[0].stack()
    assert sess.run([y, tf.gradients(y * y, x)[0]])[0].tolist() == [0, 1, 2, 3, 4, 5] and sess.run(tf.gradients(y * y, x)[0]) == 2 * (2 + 3 + 2 * (4 + 5))


def test_108_arrays_made_in_a_body_start_anew(sess):
    def step(i, total):
        local = tf.TensorArray(F, 2).write(0, tf.cast(i, F)).write(1, 1.0)
        return [total + tf.reduce_sum(local.stack())]
    assert sess.run(loop(4, step, tf.constant(0.0))[0]) == 6 + 4


def test_108_arrays_in_structures_and_other_loops(sess):
    x = tf.constant([1.0, 2.0, 3.0])
    ta = tf.TensorArray(F, 3, clear_after_read=False).unstack(x)
    state = {"a": tf.TensorArray(F, 3), "n": (tf.constant(0), [tf.constant(1.0)])}

    def body(s):
        i, (prod,) = s["n"]
        return {"a": s["a"].write(i, prod), "n": (i + 1, [prod * ta.read(i)])}
    out = tf.while_loop(lambda s: s["n"][0] < 3, body, [state])
    assert sess.run([out["a"].stack(), out["n"][1][0]])[0].tolist() == [1, 1, 2]
    y = tf.map_fn(lambda i: ta.read(i) * x[0], tf.constant([2, 0, 1]), dtype=F)
    assert sess.run(y).tolist() == [3, 1, 2] and sess.run(tf.gradients(y, x)[0]).tolist() == [7, 1, 1]
    z = tf.scan(lambda a, i: a + ta.read(i), tf.constant([0, 1, 2]), 0.0)
    assert sess.run(z).tolist() == [1, 3, 6]
    folded = tf.foldl(lambda a, i: a.write(i, x[i] * 10), tf.constant([2, 0, 1]), tf.TensorArray(F, 3))
    assert sess.run(folded.stack()).tolist() == [10, 20, 30]


def test_108_a_loop_reads_what_it_wrote(sess):
    x = tf.constant(0.5, tf.float64)
    start = tf.TensorArray(tf.float64, 6, clear_after_read=False).write(0, x).write(1, x * x)
    _, ta = tf.while_loop(lambda i, a: i < 6, lambda i, a: (i + 1, a.write(i, a.read(i - 1) * a.read(i - 2) + x)), (2, start))
    y = ta.stack()
    slope = tf.gradients(y, x)[0]

    def by_hand(v):
        out = [v, v * v]
        for _ in range(4):
            out.append(out[-1] * out[-2] + v)
        return np.array(out)
    h = 1e-5
    first = (by_hand(0.5 + h) - by_hand(0.5 - h)).sum() / (2 * h)
    second = (by_hand(0.5 + 1e-4) - 2 * by_hand(0.5) + by_hand(0.5 - 1e-4)).sum() / 1e-8
    got = sess.run([y, slope, tf.gradients(slope, x)[0]])
    assert np.allclose(got[0], by_hand(0.5)) and abs(got[1] - first) < 1e-8 and abs(got[2] - second) < 1e-5
