"""Prepared calls: the quick way gives what the long way gives, and refuses what it refuses."""

from __future__ import annotations

import gc
import threading

import numpy as np
import pytest

import staticgraph as sg


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
