"""Sizes that only the run knows: masks, positions, distinct values, computed lengths. NumPy says what is right."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from native import Case

import staticgraph as sg
import staticgraph.dynamic as dy
from staticgraph.config import Config
from staticgraph.errors import InvalidArgumentError
from staticgraph.ir.aval import maximum, measured, never_negative, parse_dim, symbol, upper_bound
from staticgraph.ir.text import parse
from staticgraph.ops.measure import size_of, true_positions

RNG = np.random.default_rng(7)




@pytest.fixture(autouse=True)
def graph():
    with sg.Graph().as_default():
        yield


# ---- sizes as expressions --------------------------------------------------------------------------------------------------------------


def test_bounds_hold_for_every_value_of_the_symbols():
    k, j, n = measured("k900"), measured("k901"), symbol("n900")
    bounds = {"k900": n, "k901": k}
    for size in (k, 3 * k + 2, n - k, k * j, (k + 3) // 4, maximum(k, 5), n * k - j, 7 - k, (n - k) * 2 + j):
        most = upper_bound(size, bounds)
        for a, b, c in itertools.product(range(6), repeat=3):
            if c <= b <= a:
                from staticgraph.ir.aval import evaluate
                values = {"n900": a, "k900": b, "k901": c}
                assert evaluate(most, values) >= evaluate(size, values), (size, most, values)


def test_a_difference_may_be_negative():
    k, n = measured("k902"), symbol("n902")
    assert never_negative(3 * n + k) and not never_negative(n - k) and not never_negative(n - 1) and never_negative(maximum(n - k, 0))
    assert maximum(n - k, 0) is not n - k and maximum(n + 1, 0) is n + 1
    assert parse_dim(repr(maximum(n - k, 0))) is maximum(n - k, 0)


# ---- the IR: one graph in three modes ---------------------------------------------------------------------------------------------------


def selected(n, share):
    """A graph that uses a mask's positions in every kind of kernel, its feeds, and what NumPy says."""
    x, mask = RNG.normal(size=(n, 3)), RNG.random(n) < share
    case = Case()
    xn, mn = case.feed(x), case.feed(mask)
    b = case.b
    at = true_positions(b, mn)
    y = b.take(xn, at, axis=0)
    z = b.mul(y, y)
    case.outputs = [at, y, b.sum(z, axis=(0,), keepdims=False), b.matmul(b.transpose(y, perm=(1, 0)), z), b.full(at.aval, 7),
                    b.sizes(sizes=(y.shape[0], 3 * y.shape[0] + 1), dtype=at.dtype), b.reshape(y, shape=(y.shape[0] * 3,)),
                    b.cumsum(y, axis=0, exclusive=False, reverse=True), b.concat(y, xn, axis=0)]
    case.outputs += case.b.gradients([b.sum(z, axis=(0, 1), keepdims=False)], [xn])
    picked = x[mask]
    want = [np.flatnonzero(mask), picked, (picked**2).sum(0), picked.T @ picked**2, np.full(mask.sum(), 7), [mask.sum(), 3 * mask.sum() + 1],
            picked.ravel(), picked[::-1].cumsum(0)[::-1], np.concatenate([picked, x]), 2 * x * mask[:, None]]
    return case, want


@pytest.mark.parametrize("n", [0, 1, 5, 100, 6000])
@pytest.mark.parametrize("share", [0, 0.3, 1])
def test_what_a_mask_selects(n, share):
    case, want = selected(n, share)
    for config in (Config(), Config(optimize="O0"), Config(threads=2)):
        for g, w in zip(case.run(config), want, strict=True):
            assert g.shape == np.shape(w)
            np.testing.assert_allclose(g, w, rtol=1e-11, atol=1e-300)


def test_interpreter_and_print():
    case, want = selected(50, 0.4)
    exe = case.executable()
    from staticgraph.runtime.state import StateStore
    feeds = dict(zip(case.feeds, case.values))
    got = exe.interpret([feeds[i.key] for i in exe.inputs], StateStore())
    for g, w in zip(got, want, strict=True):
        np.testing.assert_allclose(g, w, rtol=1e-11)
    case.graph.outputs = tuple(case.outputs)
    assert parse(str(case.graph)) == case.graph


def test_memory_is_for_the_bound_and_results_are_trimmed():
    case = Case()
    at = true_positions(case.b, case.feed(np.arange(4096) == 9))
    case.outputs = [case.b.mul(at, at)]
    exe = case.executable()
    from native import run
    got, = run(exe, case)
    assert got[0] == 81 and (got if got.base is None else got.base).size == 1
    assert exe.report.arena_bytes >= 4096 * 8


# ---- masks and positions in all modes -----------------------------------------------------------------------------------------------------

ROWS, MASK = RNG.normal(size=(6, 2, 3)), np.array([True, False, True, True, False, False])
MASKED = {
    "rows": (lambda x: sg.boolean_mask(x, MASK), lambda x: x[MASK]),
    "two axes": (lambda x: sg.boolean_mask(x, np.stack([MASK, ~MASK], 1)), lambda x: x[np.stack([MASK, ~MASK], 1)]),
    "from an axis": (lambda x: sg.boolean_mask(x, [True, False, True], axis=2), lambda x: x[:, :, [0, 2]]),
    "elements": (lambda x: sg.boolean_mask(x, sg.greater(x, 0.0)), lambda x: x[x > 0]),
    "positions": (lambda x: sg.where(sg.greater(x, 0.0)), lambda x: np.argwhere(x > 0)),
    "nothing": (lambda x: sg.boolean_mask(x, np.zeros(6, bool)), lambda x: x[:0]),
}


@pytest.mark.parametrize("case", MASKED)
def test_masks_static_traced_and_define_by_run(case):
    f, ref = MASKED[case]
    want = ref(ROWS)
    x = sg.placeholder(sg.float64, [None, 2, 3])
    with sg.Session() as sess:
        for _ in range(2):
            np.testing.assert_array_equal(sess.run(f(x), {x: ROWS}), want)
    np.testing.assert_array_equal(sg.function(f)(ROWS), want)
    np.testing.assert_array_equal(f(dy.tensor(ROWS)).numpy(), want)


@pytest.mark.parametrize("values", [[3, 1, 3, 2, 1, 1], [], [5], [2.5, float("nan"), 2.5, float("nan"), -0.0, 0.0]])
def test_distinct_values_by_first_occurrence(values):
    kind = sg.float64 if any(isinstance(v, float) for v in values) else sg.int32
    x = sg.placeholder(kind, [None])
    seen = []
    for v in values:
        if v not in seen or v != v:
            seen.append(v)
    with sg.Session() as sess:
        y, index, count = sess.run(sg.unique_with_counts(x), {x: np.array(values, kind.np)})
        np.testing.assert_array_equal(y, np.array(seen, kind.np))
        np.testing.assert_array_equal(y[index], np.array(values, kind.np))
        assert count.tolist() == [1 if v != v else values.count(v) for v in seen] and index.dtype == np.int32
        assert sess.run(sg.unique(x, out_idx=sg.int64)[1], {x: np.array(values, kind.np)}).dtype == np.int64


def test_partitions():
    data, number = sg.placeholder(sg.float32, [None, 2]), sg.placeholder(sg.int32, [None])
    parts = sg.dynamic_partition(data, number, 3)
    d, n = RNG.normal(size=(9, 2)).astype("f4"), np.array([0, 2, 2, 0, 0, 2, 0, 0, 2], "i4")
    with sg.Session() as sess:
        for k, p in enumerate(sess.run(parts, {data: d, number: n})):
            np.testing.assert_array_equal(p, d[n == k])
        with pytest.raises(InvalidArgumentError, match=r"partitions\[1\] = 3 is not in \[0, 3\)"):
            sess.run(parts, {data: d[:2], number: [0, 3]})


def test_one_mask_has_one_size_and_two_masks_are_compared():
    x, mask = sg.placeholder(sg.float32, [None, 4]), sg.placeholder(sg.bool, [None])
    same = sg.boolean_mask(x, mask) * sg.boolean_mask(x + 1, mask)
    other = sg.boolean_mask(x, mask) * sg.boolean_mask(x, sg.logical_not(mask))
    product = sg.matmul(sg.boolean_mask(x, mask), sg.boolean_mask(x, sg.logical_not(mask)), transpose_a=True)
    data = RNG.normal(size=(5, 4)).astype("f4")
    with sg.Session() as sess:
        m = np.array([1, 1, 0, 0, 1], bool)
        np.testing.assert_allclose(sess.run(same, {x: data, mask: m}), data[m] * (data[m] + 1), rtol=1e-6)
        for t in (other, product):
            with pytest.raises(InvalidArgumentError, match=r"Incompatible shapes: \[\?,4\] vs. \[\?,4\]|is not"):
                sess.run(t, {x: data, mask: m})
        np.testing.assert_allclose(sess.run(other, {x: data[:4], mask: m[:4]}), data[:2] * data[2:4], rtol=1e-6)
        with pytest.raises(InvalidArgumentError):
            sess.run(same, {x: data, mask: m[:4]})


def test_gradient_and_training_through_a_mask():
    x, mask = sg.placeholder(sg.float64, [None, 3]), sg.placeholder(sg.bool, [None])
    w = sg.Variable(np.ones((3, 2)))
    loss = sg.reduce_sum(sg.square(sg.matmul(sg.boolean_mask(x, mask), w)))
    step = sg.train.GradientDescentOptimizer(0.01).minimize(loss)
    want = np.ones((3, 2))
    with sg.Session() as sess:
        sess.run(sg.global_variables_initializer())
        for n in (4, 9, 1, 9):
            a, m = RNG.normal(size=(n, 3)), RNG.random(n) < 0.5
            sess.run(step, {x: a, mask: m})
            want -= 0.01 * 2 * a[m].T @ (a[m] @ want)
        np.testing.assert_allclose(sess.run(w), want, rtol=1e-12)


def test_batching_a_mask_is_refused():
    with pytest.raises(sg.GraphError, match="each lane of the batch would have a size of its own"):
        sg.vmap(lambda x: sg.boolean_mask(x, x > 0.0))(np.ones((2, 3)))


# ---- computed lengths ------------------------------------------------------------------------------------------------------------------


def test_shapes_from_fed_numbers():
    n, x = sg.placeholder(sg.int32, []), sg.placeholder(sg.float32, [None, 4])
    y = sg.reshape(x, [n, -1])
    fetches = [sg.fill([n, 3], 2.0), sg.range(n), sg.tile(x, [n, 1]), sg.zeros([n]), y, sg.shape(y), sg.range(2, n * 2, 3)]
    data = np.arange(24, dtype="f4").reshape(6, 4)
    with sg.Session() as sess:
        for k in (2, 3, 6, 24, 1):
            want = [np.full((k, 3), 2), np.arange(k), np.tile(data, (k, 1)), np.zeros(k), data.reshape(k, -1), [k, 24 // k], np.arange(2, 2 * k, 3)]
            for g, w in zip(sess.run(fetches, {n: k, x: data}), want, strict=True):
                np.testing.assert_array_equal(g, w)
        assert sess.run(sg.range(n), {n: 5000}).tolist() == list(range(5000))
        with pytest.raises(InvalidArgumentError, match="a size of -1: sizes are not negative"):
            sess.run(fetches[0], {n: -1})
        with pytest.raises(InvalidArgumentError, match="24 is not 20"):
            sess.run(y, {n: 5, x: data})


def test_a_negative_range_is_empty_or_refused_but_never_memory():
    n = sg.placeholder(sg.int32, [])
    with sg.Session() as sess, pytest.raises(InvalidArgumentError):
        sess.run(sg.range(5, n), {n: 2})


SLICES = ["x[:b]", "x[a:]", "x[a:b]", "x[a:b:2]", "x[a:b:-1]", "x[:, a:b]", "x[..., a:b]", "x[None, a:b]", "x[b:a:-2, 1:3]", "x[0, a:]", "x[:a, :b]",
          "x[a:3]", "x[-2:b]"]


def test_slices_between_fed_bounds():
    x, a, b = sg.placeholder(sg.float32, [None, 5]), sg.placeholder(sg.int32, []), sg.placeholder(sg.int32, [])
    fetches = [eval(s, {"x": x, "a": a, "b": b}) for s in SLICES]
    g, = sg.gradients(sg.reduce_sum(x[a:b] ** 2), [x])
    with sg.Session() as sess:
        for n in (6, 3):
            data = RNG.normal(size=(n, 5)).astype("f4")
            for i, j in itertools.product((-9, -3, -1, 0, 1, 2, 4, 20), repeat=2):
                feed = {x: data, a: i, b: j}
                for s, got in zip(SLICES, sess.run(fetches, feed)):
                    np.testing.assert_array_equal(got, eval(s, {"x": data, "a": i, "b": j}), f"{s} a={i} b={j}")
                want = np.zeros_like(data)
                want[i:j] = 2 * data[i:j]
                np.testing.assert_allclose(sess.run(g, feed), want, rtol=1e-6)


def test_slice_with_fed_begin_and_size():
    x, a, b = sg.placeholder(sg.float32, [None, 5]), sg.placeholder(sg.int32, []), sg.placeholder(sg.int32, [])
    data = RNG.normal(size=(6, 5)).astype("f4")
    begin, rest, size = sg.slice(x, [a, 0], [2, 3]), sg.slice(x, [a, 1], [-1, 2]), sg.slice(x, [0, 0], [b, -1])
    with sg.Session() as sess:
        np.testing.assert_array_equal(sess.run(begin, {x: data, a: 2}), data[2:4, :3])
        np.testing.assert_array_equal(sess.run(rest, {x: data, a: 2}), data[2:, 1:3])
        np.testing.assert_array_equal(sess.run(size, {x: data, b: 4}), data[:4])
        for t, feed in ((begin, {a: 5}), (begin, {a: -1}), (size, {b: -2}), (size, {b: 7})):
            with pytest.raises(InvalidArgumentError):
                sess.run(t, {x: data, **feed})


# ---- with state, control flow and Python ---------------------------------------------------------------------------------------------------


def test_inside_loops_and_branches():
    x = sg.placeholder(sg.float64, [None])

    def body(i, total):
        return i + 1, total + sg.reduce_sum(sg.boolean_mask(x, x > sg.cast(i, sg.float64)))
    _, total = sg.while_loop(lambda i, t: i < 4, body, [sg.constant(0), sg.constant(0.0, sg.float64)])
    mask = x > 1.0
    kept = sg.boolean_mask(x, mask)
    branch = sg.cond(sg.size(kept) > 2, lambda: kept * 2, lambda: kept)
    data = RNG.normal(size=50) * 3
    with sg.Session() as sess:
        np.testing.assert_allclose(sess.run(total, {x: data}), sum(data[data > i].sum() for i in range(4)))
        np.testing.assert_allclose(sess.run(branch, {x: data}), data[data > 1] * 2)
        np.testing.assert_allclose(sess.run(branch, {x: data[data < 1]}), [])


def test_a_size_known_only_inside_cannot_leave():
    x = sg.placeholder(sg.float64, [None])
    with pytest.raises((sg.GraphError, ValueError), match="only known inside"):
        sg.cond(sg.reduce_sum(x) > 0.0, lambda: sg.boolean_mask(x, x > 0.0), lambda: x)


def test_python_functions_get_the_selected_elements():
    x = sg.placeholder(sg.float64, [None])
    y = sg.py_func(lambda a: np.float64(a.size + 100 * a.sum()), [sg.boolean_mask(x, x > 0.0)], sg.float64)
    with sg.Session() as sess:
        data = np.array([1.0, -2.0, 3.0])
        assert sess.run(y, {x: data}) == 402.0


def test_a_fed_selection_needs_no_mask():
    x = sg.placeholder(sg.float64, [None])
    kept = sg.boolean_mask(x, x > 0.0)
    with sg.Session() as sess:
        assert sess.run(kept * 2.0, {kept: [1.0, 2.0, 3.0]}).tolist() == [2.0, 4.0, 6.0]


def test_variables_take_a_selection_of_their_own_size_only():
    x, v = sg.placeholder(sg.float32, [None]), sg.Variable(np.zeros(2, np.float32))
    put = sg.assign(v, sg.boolean_mask(x, x > 0.0))
    with sg.Session() as sess:
        sess.run(sg.global_variables_initializer())
        sess.run(put, {x: [1, -1, 2]})
        assert sess.run(v).tolist() == [1.0, 2.0]
        with pytest.raises(InvalidArgumentError, match="is not"):
            sess.run(put, {x: [1, -1, 2, 3]})
        assert sess.run(v).tolist() == [1.0, 2.0]


def test_prepared_calls():
    x = sg.placeholder(sg.float32, [4])
    with sg.Session() as sess:
        f = sess.make_callable(sg.boolean_mask(x, x > 0.0), [x])
        for data in ([1, -1, 2, 3], [-1, -1, -1, -1], [1, 2, 3, 4]):
            a = np.array(data, "f4")
            assert f(a).tolist() == a[a > 0].tolist()


def test_define_by_run_sizes_are_numbers():
    from staticgraph.dynamic.tensor import compute
    assert size_of(compute, dy.tensor(np.int64(4))) == 4
    with pytest.raises(InvalidArgumentError):
        size_of(compute, dy.tensor(np.int64(-4)))


BEYOND = ["x[:2]", "x[2:]", "x[-2:]", "x[:-2]", "x[1:3]", "x[-3:-1]", "x[1:-1]", "x[::2]", "x[1::2]", "x[:4:3]", "x[5:]", "x[1:]", "x[:-1]", "x[2:100]", "x[-100:2]"]


def test_bounds_beyond_the_ends_of_a_batch_of_any_size():
    x = sg.placeholder(sg.float32, [None, 3])
    fetches = [eval(s, {"x": x}) for s in BEYOND]
    assert all(t.shape.as_list() == [None, 3] for t in fetches)
    g, = sg.gradients(sg.reduce_sum(x[:2] ** 2), [x])
    with sg.Session() as sess:
        for n in (5, 2, 1, 0, 7):
            data = RNG.normal(size=(n, 3)).astype("f4")
            for s, got in zip(BEYOND, sess.run(fetches, {x: data})):
                np.testing.assert_array_equal(got, eval(s, {"x": data}), f"{s} of {n}")
            want = np.zeros_like(data)
            want[:2] = 2 * data[:2]
            np.testing.assert_allclose(sess.run(g, {x: data}), want)


@pytest.mark.parametrize("f", [
    lambda x: x[::-1], lambda x: x[::2], lambda x: x[::-2], lambda x: x[1::3], lambda x: x[-1::-3], lambda x: x[:0:2], lambda x: sg.roll(x, 2, 0), lambda x: sg.roll(x, -1, 0),
    lambda x: sg.cumsum(x, 0, exclusive=True), lambda x: sg.cumsum(x, 0, exclusive=True, reverse=True), lambda x: sg.cumprod(x, 0, exclusive=True),
    lambda x: sg.pad(x, [[1, 2]]), lambda x: sg.scan(lambda a, c: a * c, x, sg.constant(1.0))], ids=range(13))
def test_an_open_axis_may_be_empty(f):
    """Values and gradients of one program with an open axis are those of programs with each size, no element included."""
    def both(x):
        y = f(x)
        return [y, sg.convert_to_tensor(sg.gradients(y * y, x)[0])]
    x = sg.placeholder(sg.float32, [None])
    fetches = both(x)
    with sg.Session() as sess:
        for n in (0, 1, 2, 5, 0, 16):
            a = np.arange(n).astype("f4") + 1
            got = sess.run(fetches, {x: a})
            with sg.Graph().as_default(), sg.Session() as fixed:
                p = sg.placeholder(sg.float32, [n])
                for g, w in zip(got, fixed.run(both(p), {p: a})):
                    np.testing.assert_array_equal(g, w)
