"""Indexing, scans and sorting beside what the derived tests say: errors at run time, determinism, accuracy, ties."""

from __future__ import annotations

import numpy as np
import pytest
from native import Case, native, run

from staticgraph.config import Config
from staticgraph.errors import InvalidArgumentError
from staticgraph.runtime.state import StateStore


def refused(fn, *arrays):
    with pytest.raises(InvalidArgumentError) as caught:
        native(fn, *arrays)
    return str(caught.value)


@pytest.mark.parametrize("index, shown", [([0, 4], "indices[1] = 4 is not in [0, 4)"), ([-5, 0], "indices[0] = -5 is not in [0, 4)")])
def test_an_index_out_of_range_fails_the_run_and_is_named(index, shown):
    x, i = np.zeros((4, 3)), np.array(index)
    assert shown in refused(lambda b, x, i: b.gather(x, i, axis=0), x, i)
    assert shown in refused(lambda b, x, i: b.scatter_add(x, i, b.gather(x, b.full(i.aval, 0))), x, i)
    assert shown in refused(lambda b, x, i: b.gather_nd(x, b.reshape(i, shape=(2, 1))), x, i)


def test_negative_indices_wrap_or_are_refused_by_attribute():
    x, i = np.arange(4.0), np.array([-1, -4])
    assert native(lambda b, x, i: b.gather(x, i, negative="wrap"), x, i).tolist() == [3, 0]
    assert "indices[0] = -1" in refused(lambda b, x, i: b.gather(x, i, negative="refuse"), x, i)


def test_no_row_of_an_empty_table_can_be_taken():
    assert native(lambda b, x, i: b.gather(x, i), np.zeros((0, 2)), np.zeros((0,), np.int32)).shape == (0, 2)
    assert "indices[0] = 0 is not in [0, 0)" in refused(lambda b, x, i: b.gather(x, i), np.zeros((0, 2)), np.zeros((1,), np.int32))


@pytest.mark.parametrize("start", [[-1, 0], [3, 0], [0, 1]])
def test_a_slice_must_fit_where_it_starts_even_along_axes_taken_whole(start):
    x, s = np.zeros((4, 5)), np.array(start)
    assert "is not in [0, " in refused(lambda b, x, s: b.dynamic_slice(x, s, sizes=(2, 5)), x, s)
    assert "is not in [0, " in refused(lambda b, x, s: b.dynamic_update_slice(x, b.full(x.aval.with_shape((2, 5)), 1), s), x, s)
    whole = np.array([1, 0])
    assert "starts[0] = 1 is not in [0, 0]" in refused(lambda b, x, s: b.dynamic_slice(x, s, sizes=(4, 5)), x, whole)


def test_repeated_rows_add_up_in_order_at_any_thread_count():
    rng = np.random.default_rng(3)
    x, i = np.zeros((7, 1000), "f4"), rng.integers(0, 7, 3000)
    u = rng.normal(size=(3000, 1000)).astype("f4")
    want = x.copy()
    for row, value in zip(i, u):
        want[row] += value
    case = Case()
    nodes = [case.feed(a) for a in (x, i, u)]
    case.outputs = [case.b.scatter_add(*nodes)]
    for threads in (1, 2, 3):
        exe = case.executable(Config(threads=threads))
        assert np.array_equal(want, run(exe, case, store=StateStore())[0])
        assert max(int(k.tasks) for k in next(iter(exe.variants.values())).program.kernels) > 1


def test_the_last_update_of_a_row_wins_and_gets_the_gradient():
    x, i, u = np.zeros((3, 2)), np.array([1, 1]), np.array([[1.0, 2], [3, 4]])
    y = native(lambda b, x, i, u: b.scatter_update(x, i, u), x, i, u)
    assert y.tolist() == [[0, 0], [3, 4], [0, 0]]
    dx, du = native(lambda b, x, i, u: b.gradients([b.scatter_update(x, i, u)], [x, u], [b.full(x.aval, 1)]), x, i, u)
    assert dx.tolist() == [[1, 1], [0, 0], [1, 1]] and du.tolist() == [[0, 0], [1, 1]]


def test_a_running_sum_of_100000_single_floats_keeps_its_digits():
    x = np.full(100_000, 0.1, "f4")
    want = np.cumsum(x.astype("f8"))
    got = native(lambda b, x: b.cumsum(x, axis=0), x)
    assert np.all(np.abs(got - want) <= np.spacing(want.astype("f4")) / 2)


@pytest.mark.parametrize("zeros", [(), (1,), (0, 3), (0, 1, 2, 3)])
def test_first_and_second_derivatives_of_a_running_product_are_exact_at_zeros(zeros):
    x = np.array([2.0, 3.0, -1.0, 4.0])
    x[list(zeros)] = 0
    w = np.array([1.0, 10.0, 100.0, 1000.0])

    def at(k, skip):                         # product of x[: k + 1] without the positions in skip
        return np.prod([v for j, v in enumerate(x[:k + 1]) if j not in skip])
    first = [sum(w[k] * at(k, {i}) for k in range(i, 4)) for i in range(4)]
    second = [sum(sum(w[k] * at(k, {i, j}) for k in range(max(i, j), 4)) for i in range(4) if i != j) for j in range(4)]

    def f(b, x, w):
        (g,) = b.gradients([b.cumprod(x, axis=0)], [x], [w])
        (h,) = b.gradients([g], [x], [b.full(x.aval, 1)])
        return g, h
    g, h = native(f, x, w)
    assert g.tolist() == first and h.tolist() == second


@pytest.mark.parametrize("k", [1, 2, 5, 40, 100])
@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "i8"])
def test_top_k_takes_the_lower_index_at_ties(k, dtype):
    x = np.random.default_rng(k).integers(-3, 4, (5, 100)).astype(dtype)
    if dtype[0] == "f":
        x[0, ::7], x[1, 3], x[2, 4] = np.nan, np.inf, -np.inf
        x[3, :50] = np.where(np.arange(50) % 2, 0.0, -0.0)
    values, order = native(lambda b, x: b.top_k(x, k=k), x)
    # NaN counts as largest; equal values in the order of their positions
    keys = np.where(np.isnan(x), np.inf, x) if dtype[0] == "f" else x
    want = [sorted(range(100), key=lambda j: (-int(x[r, j] != x[r, j]), -keys[r, j], j))[:k] for r in range(5)]
    assert order.tolist() == want and order.dtype == np.int32
    assert np.array_equal(values, np.take_along_axis(x, np.array(want), -1), equal_nan=dtype[0] == "f")


@pytest.mark.parametrize("n", [0, 1, 2, 3, 64, 65, 1000])
def test_sorting_is_stable_in_both_directions(n):
    x = np.random.default_rng(n).integers(0, 5, (2, n)).astype("f4")
    up = native(lambda b, x: b.argsort(x), x)
    down = native(lambda b, x: b.argsort(x, descending=True), x)
    assert np.array_equal(up, np.argsort(x, -1, kind="stable"))
    assert np.array_equal(down, np.argsort(-x, -1, kind="stable"))


def test_the_gradient_of_a_sort_goes_back_to_where_values_came_from():
    x, ct = np.array([3.0, 1.0, 2.0]), np.array([10.0, 20.0, 30.0])
    got = native(lambda b, x, ct: b.gradients([b.sort(x)], [x], [ct])[0], x, ct)
    assert got.tolist() == [30, 10, 20]
