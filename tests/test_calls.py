"""Prepared calls: the quick way gives what the long way gives, and refuses what it refuses."""

from __future__ import annotations

import gc
import threading

import numpy as np
import pytest

import staticgraph as sg
from staticgraph import memory


@pytest.fixture
def call():
    """x * y + 1 and gather, prepared and warm."""
    with sg.Graph().as_default():
        x, y = sg.placeholder(sg.float32, [4]), sg.placeholder(sg.float32, [4])
        i = sg.placeholder(sg.int32, [2])
        f = sg.Session().make_callable({"product": x * y + 1, "picked": sg.gather(x, i), "sum": sg.reduce_sum(x)}, [x, y, i])
    a, b, k = np.arange(4, dtype="f4"), np.full(4, 2, "f4"), np.array([3, 0], "i4")
    f(a, b, k)
    return f, a, b, k


def check(got, a, b, k):
    """Against NumPy."""
    assert np.array_equal(got["product"], np.asarray(a, "f4") * np.asarray(b, "f4") + 1)
    assert np.array_equal(got["picked"], np.asarray(a, "f4")[np.asarray(k)]) and got["sum"] == np.sum(a)
    assert isinstance(got["sum"], np.float32)


def test_values_and_fresh_results(call):
    f, a, b, k = call
    first, second = f(a, b, k), f(a + 1, b, k)
    check(first, a, b, k)
    check(second, a + 1, b, k)


@pytest.mark.parametrize("change", [lambda a: a[::-1], lambda a: a.astype("f8"), lambda a: a.astype(">f4"), list, lambda a: np.repeat(a, 2)[::2],
                                    lambda a: np.frombuffer(b"\0" + a.tobytes(), "u1")[1:].view("f4"), np.asfortranarray, lambda a: np.broadcast_to(a, (4,))])
def test_any_layout(call, change):
    f, a, b, k = call
    changed = change(a)
    check(f(changed, b, k), changed, b, k)
    check(f(a, b, k), a, b, k)


def test_refusals_and_recovery(call):
    f, a, b, k = call
    with pytest.raises(ValueError, match="Cannot feed value of shape"):
        f(a[:3], b, k)
    with pytest.raises(ValueError, match="expected 3 values"):
        f(a, b)
    for _ in range(2):
        with pytest.raises(sg.errors.InvalidArgumentError, match="indices\\[1\\] = 9 is not in"):
            f(a, b, np.array([0, 9], "i4"))
        check(f(a, b, k), a, b, k)


def test_many_threads(call):
    f, a, b, k = call
    wrong = []

    def work(n):
        x = a + n
        for _ in range(300):
            if not np.array_equal(f(x, b, k)["product"], x * b + 1):
                wrong.append(n)
    threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert wrong == []


def test_a_closed_session_refuses_and_memory_is_given_back():
    from staticgraph.runtime import fastcall
    gc.collect()                             # callables of other tests go first
    others = set(fastcall._ALIVE)
    with sg.Graph().as_default():
        x = sg.placeholder(sg.float32, [4])
        s = sg.Session()
        f = s.make_callable(x * 2, [x])
        f(np.ones(4, "f4"))
        (mine,) = set(fastcall._ALIVE) - others
        s.close()
        with pytest.raises(RuntimeError, match="closed"):
            f(np.ones(4, "f4"))
        del f
        gc.collect()
        assert mine not in fastcall._ALIVE


# ---- programs with state ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def counter():
    """(session, prepared step that adds the fed number to every element, prepared read, the variable): all warm."""
    with sg.Graph().as_default():
        v = sg.get_variable("v", initializer=np.zeros(60_000))
        by = sg.placeholder(sg.float64, [])
        s = sg.Session(config=sg.Config(threads=1))
        s.run(v.initializer)
        step = s.make_callable([v.assign_add(sg.broadcast_to(by, [60_000])).op, by * 2], [by])
        look = s.make_callable([sg.reduce_min(v), sg.reduce_max(v)], [])
    for _ in range(2):
        assert step(np.array(0.0)) == [None, 0.0] and look() == [0.0, 0.0]
    return s, step, look, v


def in_threads(*works):
    """Run them at the same time; what they raise is raised here."""
    errors = []

    def guarded(work):
        try:
            work()
        except BaseException as error:
            errors.append(error)
    threads = [threading.Thread(target=guarded, args=(w,)) for w in works]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
        assert not t.is_alive(), "a run waits for ever"
    if errors:
        raise errors[0]


def test_no_update_is_lost_and_no_read_is_torn(counter):
    s, step, look, v = counter
    seen = []

    def prepared_steps():
        for _ in range(200):
            step(np.array(1.0))

    def session_steps():
        add = v.assign_add(np.ones(60_000))
        for _ in range(100):
            s.run(add.op)

    def reads():
        for _ in range(300):
            low, high = look()
            seen.append(low)
            assert low == high
            assert (s.run(v) >= low).all()
    in_threads(prepared_steps, prepared_steps, session_steps, reads, reads)
    assert look() == [500.0, 500.0]
    assert all(slot.pins == 0 and not slot.writing for slot in s._store.slots.values())
    assert s._store.inside.count.value == 0


def test_a_value_set_between_prepared_calls_is_seen(counter):
    s, step, look, v = counter
    for k in range(3):
        v.load(np.full(60_000, 10.0 * k), s)
        assert look() == [10.0 * k] * 2
        step(np.array(1.0))
        assert look() == [10.0 * k + 1] * 2


def test_a_prepared_step_that_fails_leaves_every_byte():
    with sg.Graph().as_default():
        v, w = sg.get_variable("v", initializer=np.arange(4.0)), sg.get_variable("w", initializer=np.zeros(4))
        i = sg.placeholder(sg.int32, [2])
        s = sg.Session()
        s.run(sg.global_variables_initializer())
        picked = sg.gather(v, i)
        step = s.make_callable([v.assign_add(np.ones(4)).op, w.assign(w + sg.reduce_sum(picked)).op, picked], [i])
        good, bad = np.array([0, 3], "i4"), np.array([0, 4], "i4")
        for _ in range(2):
            step(good)
        before = s.run([v, w])
        for _ in range(3):
            with pytest.raises(sg.errors.InvalidArgumentError, match="indices\\[1\\] = 4 is not in"):
                step(bad)
            assert all(np.array_equal(a, b) for a, b in zip(s.run([v, w]), before))
        assert np.array_equal(step(good)[2], before[0][[0, 3]])
        assert np.array_equal(s.run(v), before[0] + 1)


def test_prepared_draws_go_on_where_the_session_stopped():
    def draws(prepared):
        with sg.Graph().as_default():
            r = sg.random_normal([5], seed=3)
            s = sg.Session()
            f = s.make_callable(r, []) if prepared else lambda: s.run(r)
            return [f() for _ in range(3)] + [s.run(r)] + [f() for _ in range(2)]
    assert np.array_equal(draws(True), draws(False))


def test_closing_a_session_gives_back_the_variables_of_its_prepared_calls(counter):
    import weakref
    s, step, look, v = counter
    held = [weakref.ref(slot.array.base) for slot in s._store.slots.values()]
    s.close()
    gc.collect()
    assert [r() for r in held] == [None] * len(held)
    with pytest.raises(RuntimeError, match="closed"):
        step(np.array(1.0))
    del v, look


def test_a_training_step_takes_the_quick_way():
    with sg.Graph().as_default():
        x = sg.placeholder(sg.float32, [8, 3])
        w = sg.get_variable("w", initializer=np.ones((3, 1), "f4"))
        loss = sg.reduce_mean(sg.square(sg.matmul(x, w)))
        step = sg.train.AdamOptimizer(0.1).minimize(loss)
        s = sg.Session()
        s.run(sg.global_variables_initializer())
        f = s.make_callable([loss, step], [x])
        rows = np.ones((8, 3), "f4")
        losses = [f(rows)[0]]
        executed = []
        s._execute = lambda *_: executed.append(1)         # the long way would come here
        losses += [f(rows)[0] for _ in range(20)]
    assert not executed and losses[0] == 9 and losses[-1] < 1


BIG = (600, 500)                             # 1.2 MB of float32: results of this size use memory that is kept


@pytest.fixture(params=["callable", "run", "function"])
def doubled(request):
    """x * 2 of a large array, by each way to call it."""
    if request.param == "function":
        return sg.function(lambda x: x * 2.0)
    x = sg.placeholder(sg.float32, BIG)
    session, y = sg.Session(), x * 2.0
    return session.make_callable(y, [x]) if request.param == "callable" else lambda a: session.run(y, {x: a})


def test_a_large_result_is_nobody_elses_as_long_as_anything_of_it_is_held(doubled):
    numbers = [np.full(BIG, k, "f4") for k in range(6)]
    whole, part, column = (np.asarray(doubled(a)) for a in numbers[:3])
    part, column, view = part[3:5], column.T[7], memoryview(np.asarray(doubled(numbers[3])))
    for a in numbers:                        # later calls
        assert np.all(np.asarray(doubled(a)) == 2 * a)
    assert np.all(whole == 0) and np.all(part == 2) and np.all(column == 4) and np.all(np.asarray(view) == 6)
    whole += 1.0                             # and it can be written to
    assert np.all(np.asarray(doubled(numbers[1])) == 2) and np.all(whole == 1)


def test_the_memory_of_a_large_result_serves_the_next_call(doubled):
    a = np.ones(BIG, "f4")
    doubled(a), doubled(a)
    places = {np.asarray(doubled(a)).ctypes.data for _ in range(8)}
    assert len(places) == 1                  # none was held when the next call began
    held = [np.asarray(doubled(a)) for _ in range(8)]
    assert len({h.ctypes.data for h in held}) == 8


def test_threads_get_large_results_of_their_own(doubled):
    wrong = []

    def work(k):
        a = np.full(BIG, k, "f4")
        for _ in range(20):
            y = np.asarray(doubled(a))
            if not np.all(y == 2 * k):
                wrong.append(k)
    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_memory_kept_for_large_results_is_bounded():
    blocks = memory.Blocks()
    most = memory.KEPT // 4
    for n in range(12):
        blocks.empty((most + n * memory.LARGE,), np.uint8)
        assert sum(b.size for b in blocks.blocks) <= memory.KEPT
    assert blocks.empty((0, 5), np.float32).shape == (0, 5)
    before = len(blocks.blocks)
    assert blocks.empty((memory.KEPT + 1,), np.uint8).size == memory.KEPT + 1 and len(blocks.blocks) == before


def test_repeated_runs_answer_as_first_ones():
    x, rate = sg.placeholder(sg.float32, [None, 2]), sg.placeholder(sg.float32, [])
    w = sg.get_variable("w", [2], initializer=sg.ones_initializer())
    known = sg.is_variable_initialized(w)
    y = sg.reduce_sum(x * w) * rate
    step = sg.assign_add(w, sg.reduce_sum(x, 0))
    sess = sg.Session()
    for _ in range(3):
        assert sess.run(known) == np.bool_(False)
    for _ in range(3):
        sess.run(sg.global_variables_initializer())
        assert sess.run([known]) == [np.bool_(True)] and sess.run(known)
    sess.run(w.initializer)
    for n in (3, 3, 2, 3, 0):                # sizes may change, lists and other dtypes be fed
        for rows in (np.ones((n, 2), "f4"), np.ones((n, 2)), np.ones((n, 2), "f4")[::-1]):
            got = sess.run((y, step.op), {x: rows, rate: 0.5})
            assert got[0].dtype == np.float32 and got[1] is None and isinstance(got, tuple)
    want = 1 + 3 * 11
    assert sess.run(y, {x: [[1, 1]], rate: 2}) == 4 * want and sess.run(y, {rate: 2.0, x: np.ones((1, 2), "f4")}) == 4 * want
    with pytest.raises(ValueError, match=r"Cannot feed value of shape \(1, 3\)"):
        sess.run(y, {x: np.ones((1, 3), "f4"), rate: 2.0})
    for _ in range(2):
        with pytest.raises(sg.errors.InvalidArgumentError, match="You must feed a value for placeholder"):
            sess.run(y, {x: np.ones((1, 2), "f4")})
    y.graph.prevent_feeding(rate)
    with pytest.raises(ValueError, match="may not be fed"):
        sess.run(y, {rate: 2.0, x: np.ones((1, 2), "f4")})
    sess.close()
    with pytest.raises(RuntimeError, match="closed Session"):
        sess.run(known)


def test_a_repeated_run_that_fails_names_the_line_and_leaves_the_state():
    i = sg.placeholder(sg.int32, [1])
    v = sg.get_variable("v", [3], initializer=sg.zeros_initializer())
    read = sg.gather(v, i)
    step = sg.assign_add(v, sg.fill([3], sg.reduce_sum(read) + 1.0))
    sess = sg.Session()
    sess.run(sg.global_variables_initializer())
    for _ in range(3):
        sess.run([step, read], {i: np.array([1], "i4")})
    before = sess.run(v).tobytes()
    for _ in range(2):
        with pytest.raises(sg.errors.InvalidArgumentError, match=r"indices\[0\] = 7 is not in \[0, 3\)") as caught:
            sess.run([step, read], {i: np.array([7], "i4")})
        assert caught.traceback[-1].path.name == "test_calls.py" and "gather(v, i)" in str(caught.traceback[-1].statement)
        assert sess.run(v).tobytes() == before


def test_numbers_are_taken_by_the_quick_way_and_mean_what_they_mean():
    x, n, z = sg.placeholder(sg.float32, []), sg.placeholder(sg.int32, []), sg.placeholder(sg.float64, [])
    call = sg.Session().make_callable([x * 2.0, n + 1, z * 2.0], [x, n, z])
    for values in ((1.5, 3, 0.1), (np.float32(1.5), np.int32(3), np.float64(0.1)), (np.float64(1.5), np.int64(3), 0.1), (1, True, 1), (np.array(1.5, "f4"), 3, 1)) * 2:
        got = call(*values)
        assert [g.dtype for g in got] == [np.float32, np.int32, np.float64]
        assert got == [np.float32(values[0]) * 2, int(values[1]) + 1, float(values[2]) * 2]
    with pytest.raises(TypeError, match="not compatible with Tensor type"):
        call(1.0, 2**40, 1.0)
    with pytest.raises(ValueError, match="could not convert"):
        call("a", 1, 1.0)
    f = sg.function(lambda a, b: (a + b, a * b))
    for _ in range(3):                       # the dtype of a call is that of its numbers
        assert f(2.5, 0.5) == (3.0, 1.25) and f(2.5, 0.5)[0].dtype == np.float32
        assert f(np.float64(2.5), np.float64(0.1)) == (2.6, 0.25) and f(2, 3)[1].dtype == np.int32
        assert f(2**40, 2**41)[0] == 3 * 2**40 and f(2**40, 2**41)[0].dtype == np.int64
