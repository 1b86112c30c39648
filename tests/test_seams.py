"""Small programs, all native, that hold the places of what comes later: state in loops, sizes at run time, guards in threads."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import staticgraph as sg
from staticgraph.errors import InvalidArgumentError, OpError


@pytest.fixture(autouse=True)
def fresh_graph():
    """Each program has a graph of its own."""
    with sg.Graph().as_default():
        yield


def session(**settings):
    """A session with all variables initialised."""
    s = sg.Session(config=sg.Config(**settings))
    s.run(sg.global_variables_initializer())
    return s


def variants(s):
    """The programs compiled for the last run; none of them calls back into Python."""
    found = list(s.last_executable.variants.values())
    assert found and not any(v.program.hosts for v in found)
    return found


def test_read_assign_read_by_control_dependencies():
    v = sg.Variable(1.0)
    before = v.read_value()
    with sg.control_dependencies([before]):
        change = v.assign_add(2.0)
    with sg.control_dependencies([change]):
        after = v.read_value()
    with session() as s:
        assert s.run([before, after]) == [1.0, 3.0]
        assert s.run([before, after]) == [3.0, 5.0]
        variants(s)


def test_cond_does_not_run_the_assign_of_the_other_branch():
    p = sg.placeholder(sg.bool, [])
    v, w = sg.Variable(0), sg.Variable(0)
    y = sg.cond(p, lambda: v.assign_add(1), lambda: w.assign_add(10))
    with session() as s:
        assert s.run(y, {p: True}) == 1
        assert s.run([v, w]) == [1, 0]
        assert s.run(y, {p: False}) == 10
        assert s.run([v, w]) == [1, 10]


@pytest.mark.parametrize("trips", [0, 1, 1000])
def test_while_with_an_assign_a_fed_trip_count_and_its_gradient(trips):
    n = sg.placeholder(sg.int32, [])
    x = sg.placeholder(sg.float64, [])
    count = sg.Variable(0)

    def body(i, w):
        with sg.control_dependencies([count.assign_add(1)]):
            return [i + 1, w * x]
    _, y = sg.while_loop(lambda i, w: i < n, body, [sg.constant(0), sg.constant(1.0, sg.float64)])
    _, z = sg.while_loop(lambda i, w: i < n, lambda i, w: [i + 1, w * x], [sg.constant(0), sg.constant(1.0, sg.float64)])
    first, = sg.gradients(z, [x])
    second, = sg.gradients(first, [x])
    with session() as s:
        value = 1.001
        assert np.isclose(s.run(y, {x: value, n: trips}), value**trips, rtol=1e-12)
        assert s.run(count) == trips
        got = s.run([z, first, second], {x: value, n: trips})
        variants(s)
        want = [value**trips, trips * value**(trips - 1), trips * (trips - 1) * value**(trips - 2)]
        assert np.allclose(got, want, rtol=1e-11)


def test_two_batch_sizes_and_a_third_without_a_third_compile():
    x = sg.placeholder(sg.float32, [None, 3])
    w = sg.Variable(np.arange(6, dtype=np.float32).reshape(3, 2))
    loss = sg.reduce_sum(sg.square(sg.matmul(x, w)))
    step = sg.gradients(loss, [w])[0]
    with session() as s:
        for rows in (4, 7, 9, 1, 33):
            data = np.random.default_rng(rows).normal(size=(rows, 3)).astype("f4")
            got = s.run(step, {x: data})
            want = 2 * data.T @ (data @ np.arange(6, dtype="f4").reshape(3, 2))
            assert np.allclose(got, want, rtol=1e-4, atol=1e-4)
            assert len(variants(s)) <= 2
        compiled = s.last_executable
        assert len(compiled.variants) == 2


def test_sizes_of_a_placeholder_that_nothing_reads():
    p = sg.placeholder(sg.float32, [None, 3])
    q = sg.placeholder(sg.float32, [None])
    with session() as s:
        for rows in (2, 5, 6):
            assert list(s.run(sg.shape(p), {p: np.zeros((rows, 3))})) == [rows, 3]
            assert s.run(sg.zeros([sg.shape(p)[0]]), {p: np.zeros((rows, 3))}).shape == (rows,)
            total, many = s.run([sg.reduce_sum(q), sg.shape(p)], {p: np.zeros((rows, 3)), q: np.ones(4)})
            assert total == 4 and list(many) == [rows, 3]
        with pytest.raises(InvalidArgumentError, match="You must feed a value for placeholder tensor"):
            s.run(sg.shape(p))


def test_embedding_gradients_are_slices_also_through_adam():
    table = sg.Variable(np.ones((1000, 4), "f4"))
    ids = sg.placeholder(sg.int32, [None])
    rows = sg.nn.embedding_lookup(table, ids)
    loss = sg.reduce_sum(sg.square(rows))
    assert isinstance(sg.gradients(loss, [table])[0], sg.IndexedSlices)
    train = sg.train.AdamOptimizer(0.1).minimize(loss)
    with session() as s:
        s.run(train, {ids: [3, 5, 3]})
        variants(s)
        after = s.run(table)
        changed = np.flatnonzero((after != 1).any(axis=1))
        assert list(changed) == [3, 5]
        assert np.allclose(after[[3, 5]], 0.9, atol=1e-5)


def test_dropout_recomputed_under_checkpoint_has_the_same_mask():
    x = sg.placeholder(sg.float32, [64])

    def block(v):
        return sg.nn.dropout(sg.square(v), 0.5, seed=7)
    y = sg.checkpoint(block)(x)
    g, = sg.gradients(y, [x])
    with session() as s:
        data = np.linspace(1, 2, 64).astype("f4")
        masks = []
        for _ in range(3):
            value, grad = s.run([y, g], {x: data})
            kept = value != 0
            assert np.array_equal(kept, grad != 0) and 0 < kept.sum() < 64
            assert np.allclose(grad[kept], 4 * data[kept])
            masks.append(kept)
        assert not np.array_equal(masks[0], masks[1])
        variants(s)


def test_a_fed_intermediate_replaces_what_computes_it():
    x = sg.placeholder(sg.float32, [])
    hidden = sg.sin(x)
    y = hidden * hidden
    g, = sg.gradients(y, [hidden])
    with session() as s:
        assert s.run([y, g], {hidden: 3.0}) == [9.0, 6.0]        # x need not be fed
        with pytest.raises(InvalidArgumentError, match="You must feed a value for placeholder tensor"):
            s.run(y)


@pytest.mark.parametrize("bad", [[150_000], [150_000, 7, 199_999]])
def test_a_guard_in_a_threaded_kernel_reports_the_same_element_at_any_thread_count(bad):
    x = sg.placeholder(sg.float32, [200_000])
    i = sg.placeholder(sg.int32, [200_000])
    y = sg.sqrt(sg.gather(x, i)) * 2.0
    indices = np.arange(200_000, dtype=np.int32)
    indices[bad] = 200_000 + np.arange(len(bad))
    messages = []
    for threads in (1, 2, 4):
        with session(threads=threads) as s:
            s.run(y, {x: np.ones(200_000), i: np.arange(200_000)})
            assert max(k.tasks for v in variants(s) for k in v.program.kernels) > 1
            with pytest.raises(InvalidArgumentError) as caught:
                s.run(y, {x: np.ones(200_000), i: indices})
            messages.append(str(caught.value).splitlines()[0])
    assert len(set(messages)) == 1
    assert str(min(bad)) in messages[0] and str(indices[min(bad)]) in messages[0]


def test_python_functions_between_native_segments_and_in_loops():
    x = sg.placeholder(sg.float32, [3])
    seen = []

    def double(a):
        seen.append(a.copy())
        return a * np.float32(2)
    y = sg.exp(sg.py_func(double, [sg.sin(x)], sg.float32, shapes=[3])) + 1.0

    def body(i, a):
        return [i + 1, sg.py_func(double, [a + 1.0], sg.float32, shapes=[3])]
    _, z = sg.while_loop(lambda i, a: i < 4, body, [sg.constant(0), x])
    with session() as s:
        data = np.array([0.1, 0.2, 0.3], "f4")
        assert np.allclose(s.run(y, {x: data}), np.exp(2 * np.sin(data)) + 1) and len(seen) == 1
        want = data
        for _ in range(4):
            want = (want + 1) * 2
        assert np.allclose(s.run(z, {x: data}), want) and len(seen) == 5
        assert sg.gradients(y, [x]) == [None]


def test_errors_of_python_functions():
    v = sg.Variable(1.0)
    with sg.control_dependencies([v.assign(5.0)]):
        fails = sg.py_func(lambda: 1 / 0, [], sg.float32)
    with session() as s:
        with pytest.raises(sg.errors.UnknownError, match="ZeroDivisionError: division by zero"):
            s.run(fails)
        assert s.run(v) == 1
        with pytest.raises(InvalidArgumentError, match="0-th value returned by PyFunc is double, but expects float"):
            s.run(sg.py_func(lambda: np.float64(1), [], sg.float32))
        with pytest.raises(InvalidArgumentError, match="shapes="):
            s.run(sg.py_func(lambda: np.zeros(3, "f4"), [], sg.float32, shapes=[2]))
        calls = []
        effect = sg.py_func(lambda: calls.append(1), [], [])
        with sg.control_dependencies([effect]):
            after = sg.identity(sg.constant(1.0))
        assert s.run(after) == 1 and s.run(effect) is None and len(calls) == 2


def test_a_failing_step_leaves_every_variable_as_it_was():
    i = sg.placeholder(sg.int32, [])
    v, w = sg.Variable(np.arange(5.0)), sg.Variable(3)
    with sg.control_dependencies([v.assign_add(np.ones(5)), w.assign(4)]):
        y = sg.gather(v.read_value(), i)
    with session() as s:
        before = [a.tobytes() for a in s.run([v.read_value(), w.read_value()])]
        with pytest.raises(OpError, match="9 is not in"):
            s.run(y, {i: 9})
        assert [a.tobytes() for a in s.run([v.read_value(), w.read_value()])] == before
        s.run(y, {i: 1})
        assert s.run(w) == 4


def test_a_run_time_error_names_the_users_line():
    a = sg.placeholder(sg.int32, [3])
    y = a // sg.placeholder_with_default(np.array([1, 0, 2], np.int32), [3])      # the line that fails
    with session() as s:
        with pytest.raises(InvalidArgumentError) as caught:
            s.run(y, {a: [1, 2, 3]})
        import traceback
        shown = "".join(traceback.format_exception(caught.type, caught.value, caught.tb))
        assert "Integer division by zero" in str(caught.value)
        assert "the line that fails" in shown


def test_two_executables_share_their_kernels():
    from staticgraph.runtime.engine import engine
    x = sg.placeholder(sg.float32, [128])
    first, second = sg.exp(x) * 2.0 + 1.0, sg.exp(x * 1.0) * 2.0 + 1.0
    with session(cache=False) as s:
        s.run(first, {x: np.zeros(128)})
        (one,) = variants(s)
        before = set(engine().table)         # others may be collected meanwhile
        s.run(second, {x: np.zeros(128)})
        (two,) = variants(s)
        assert one is not two
        assert set(engine().table) <= before
        assert one.native.kernels.addresses == two.native.kernels.addresses


def test_eight_threads_on_one_session_lose_no_update():
    v = sg.Variable(np.zeros(1000))
    step = v.assign_add(np.ones(1000))
    with session() as s:
        def work():
            for _ in range(250):
                s.run(step.op)
        workers = [threading.Thread(target=work) for _ in range(8)]
        for t in workers:
            t.start()
        for t in workers:
            t.join()
        assert (s.run(v) == 2000).all()


@pytest.mark.parametrize("m, k, n", [(2, 3, 1), (1, 17, 1), (5, 40, 7), (33, 8, 2)])
def test_products_of_stretched_and_strided_operands(m, k, n):
    rng = np.random.default_rng(0)
    a, b, w = (rng.normal(size=s).astype("f4") for s in ((m, k), (k, n), (k, n + 3)))
    x, y, z = (sg.placeholder(sg.float32, v.shape) for v in (a, b, w))
    feeds, wide = {x: a, y: b, z: w}, np.broadcast_to
    pairs = [(sg.matmul(x, sg.ones([k, n])), a @ np.ones((k, n))), (sg.matmul(sg.ones([m, k]), y), np.ones((m, k)) @ b),
             (sg.matmul(sg.broadcast_to(x[:1], [m, k]), y), wide(a[:1], (m, k)) @ b), (sg.matmul(x, sg.broadcast_to(y[:, :1], [k, n])), a @ wide(b[:, :1], (k, n))),
             (sg.matmul(x, z[:, 1:1 + n]), a @ w[:, 1:1 + n]), (sg.matmul(x, z[:, ::-1][:, :n]), a @ w[:, ::-1][:, :n]), (sg.matmul(y, sg.ones([k, m]), transpose_a=True), b.T @ np.ones((k, m)))]
    with session() as s:
        for (product, want), got in zip(pairs, s.run([p for p, _ in pairs], feeds)):
            assert np.allclose(got, want, rtol=1e-4, atol=1e-5), product
