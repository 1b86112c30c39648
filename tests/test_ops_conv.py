"""Convolutions, pooling and the copies around them, beside what the derived tests say."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from native import Case, native, run

import staticgraph as sg
from staticgraph.config import Config
from staticgraph.dtypes import float32
from staticgraph.errors import ShapeError
from staticgraph.ir.aval import Aval, symbol
from staticgraph.runtime.state import StateStore


def kernels(exe):
    return next(iter(exe.variants.values())).program.kernels


def correlation(x, w, stride, dilation=1):
    """In float64 by definition: a sum over taps and channels for each output pixel."""
    kh, kw = w.shape[:2]
    oh = (x.shape[1] - (kh - 1) * dilation - 1) // stride + 1
    ow = (x.shape[2] - (kw - 1) * dilation - 1) // stride + 1
    y = np.zeros((x.shape[0], oh, ow, w.shape[3]))
    for n, i, j in np.ndindex(x.shape[0], oh, ow):
        for a, c in np.ndindex(kh, kw):
            y[n, i, j] += x[n, i * stride + a * dilation, j * stride + c * dilation].astype("f8") @ w[a, c].astype("f8")
    return y


SHAPES = [(1, 5, 5, 1, 3, 3, 1), (2, 9, 23, 3, 3, 3, 16), (1, 8, 17, 16, 5, 3, 33), (2, 6, 40, 5, 1, 1, 130), (3, 4, 7, 2, 4, 7, 6), (1, 12, 15, 20, 2, 2, 24)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("stride, dilation", [(1, 1), (2, 1), (1, 2)])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_convolution_and_both_gradients_agree_with_the_definition(shape, stride, dilation, dtype):
    n, h, w, c, kh, kw, o = shape
    if (kh - 1) * dilation >= h or (kw - 1) * dilation >= w:
        return
    rng = np.random.default_rng(0)
    x, k = rng.normal(size=(n, h, w, c)).astype(dtype), rng.normal(size=(kh, kw, c, o)).astype(dtype)
    want = correlation(x, k, stride, dilation)
    ct = rng.normal(size=want.shape).astype(dtype)
    kw_ = {"strides": (stride, stride), "padding": "VALID", "dilations": (dilation, dilation)}

    def f(b, x, k, ct):
        y = b.conv2d(x, k, **kw_)
        return y, *b.gradients([y], [x, k], [ct])
    y, dx, dk = native(f, x, k, ct)
    tolerance = 1e-5 if dtype == "f4" else 1e-13
    scale = np.abs(want).max() + 1
    assert np.abs(y - want).max() <= tolerance * scale
    # <ct, conv(x, k)> is bilinear: its derivatives by x and k, contracted with x and k, give it back
    total = float((ct.astype("f8") * want).sum())
    size = float(np.abs(ct.astype("f8") * want).sum()) + 1
    assert abs(float((dx.astype("f8") * x).sum()) - total) <= tolerance * size
    assert abs(float((dk.astype("f8") * k).sum()) - total) <= tolerance * size
    e = np.zeros_like(x)
    e.flat[e.size // 2] = 1
    assert abs(dx.flat[e.size // 2] - float((ct * correlation(e, k, stride, dilation)).sum())) <= tolerance * scale
    e = np.zeros_like(k)
    e.flat[e.size // 3] = 1
    assert abs(dk.flat[e.size // 3] - float((ct * correlation(x, e, stride, dilation)).sum())) <= tolerance * size


@pytest.mark.parametrize("size, k, stride", list(itertools.product((5, 6, 7), (1, 2, 3, 4), (1, 2, 3))))
def test_same_padding_puts_the_extra_pixel_at_the_end(size, k, stride):
    x, w = np.arange(1.0, size + 1).reshape(1, size, 1, 1), np.arange(1.0, k + 1).reshape(k, 1, 1, 1)
    y = native(lambda b, x, w: b.conv2d(x, w, strides=(stride, 1), padding="SAME"), x, w).ravel()
    out = -(-size // stride)
    total = max((out - 1) * stride + k - size, 0)
    padded = np.pad(x.ravel(), (total // 2, total - total // 2))
    assert y.tolist() == [float(padded[i * stride:i * stride + k] @ w.ravel()) for i in range(out)]


def test_layouts_agree_bitwise():
    rng = np.random.default_rng(1)
    x, w = rng.normal(size=(2, 13, 18, 7)).astype("f4"), rng.normal(size=(3, 3, 7, 9)).astype("f4")
    kw = {"strides": (2, 1), "padding": "SAME"}
    last = native(lambda b, x, w: b.conv2d(x, w, data_format="NHWC", **kw), x, w)
    first = native(lambda b, x, w: b.conv2d(x, w, data_format="NCHW", **kw), np.ascontiguousarray(x.transpose(0, 3, 1, 2)), w)
    assert np.array_equal(last, first.transpose(0, 2, 3, 1))


def test_bits_depend_on_the_taps_alone():
    rng = np.random.default_rng(2)
    x, w = rng.normal(size=(9, 20, 30, 16)).astype("f4"), rng.normal(size=(3, 3, 16, 80)).astype("f4")
    ct = rng.normal(size=(9, 18, 28, 80)).astype("f4")
    whole = native(lambda b, x, w: b.correlate(x, w), x, w)
    part = native(lambda b, x, w: b.correlate(x, w), x[4:5, 2:11, 3:12], w[..., 21:40])
    assert np.array_equal(whole[4:5, 2:9, 3:10, 21:40], part)
    chain = np.zeros(80, "f4")
    for a, c, i in np.ndindex(3, 3, 16):
        chain = (chain.astype("f8") + x[0, a, c, i].astype("f8") * w[a, c, i]).astype("f4")      # exact product and one rounding
    assert np.array_equal(whole[0, 0, 0], chain) or np.abs(whole[0, 0, 0] - chain).max() <= 4e-7 * np.abs(chain).max()
    dw = native(lambda b, x, ct: b.correlate_weights(x, ct, ksize=(3, 3)), x, ct)
    few = native(lambda b, x, ct: b.correlate_weights(x, ct, ksize=(3, 3)), x[..., 3:10], ct[..., 5:25])
    assert np.array_equal(dw[:, :, 3:10, 5:25], few)


@pytest.mark.parametrize("op", ["correlate", "correlate_weights"])
def test_convolution_kernels_are_shared_between_threads_with_the_same_bits(op):
    rng = np.random.default_rng(4)
    x = rng.normal(size=(2, 34, 34, 32)).astype("f4")
    other = rng.normal(size=(3, 3, 32, 64) if op == "correlate" else (2, 32, 32, 64)).astype("f4")
    case = Case()
    a, c = case.feed(x), case.feed(other)
    case.outputs = [getattr(case.b, op)(a, c, **({} if op == "correlate" else {"ksize": (3, 3)}))]
    results = []
    for threads in (1, 2):
        exe = case.executable(Config(threads=threads))
        results.append(run(exe, case, store=StateStore())[0])
        assert max(k.tasks for k in kernels(exe)) > 1
    assert np.array_equal(*results)


def test_a_batch_known_to_the_run_only_gives_the_same_bits():
    rng = np.random.default_rng(5)
    w = rng.normal(size=(3, 3, 4, 20)).astype("f4")
    case = Case()
    x = case.b.placeholder(aval=Aval((symbol(), 9, 11, 4), float32), uid=90)
    k = case.feed(w)
    case.feeds.insert(0, x)
    case.values.insert(0, np.zeros((1, 9, 11, 4), "f4"))
    y = case.b.conv2d(x, k, strides=(1, 1), padding="SAME")
    case.outputs = [y, case.b.gradients([y], [k], [y])[0]]
    exe = case.executable()
    for size in (1, 3, 0, 6):
        data = rng.normal(size=(size, 9, 11, 4)).astype("f4")
        got = run(exe, case, [data, w])

        def f(b, x, k):
            y = b.conv2d(x, k, strides=(1, 1), padding="SAME")
            return y, b.gradients([y], [k], [y])[0]
        for g, want in zip(got, native(f, data, w)):
            assert np.array_equal(g, want)


def test_bias_and_activation_are_the_epilogue_of_the_convolution():
    rng = np.random.default_rng(6)
    x, w, c = rng.normal(size=(2, 12, 12, 8)).astype("f4"), rng.normal(size=(3, 3, 8, 24)).astype("f4"), rng.normal(size=(24,)).astype("f4")
    case = Case()
    xs, ws, cs = case.feed(x), case.feed(w), case.feed(c)
    case.outputs = [case.b.relu(case.b.add(case.b.correlate(xs, ws), cs))]
    exe = case.executable()
    (got,) = run(exe, case)
    assert np.array_equal(got, np.maximum(native(lambda b, x, w: b.correlate(x, w), x, w) + c, 0))
    assert len(kernels(exe)) == 1


def test_an_infinite_pixel_or_weight_reaches_exactly_its_windows():
    x, w = np.ones((1, 5, 5, 1), "f4"), np.ones((2, 2, 1, 1), "f4")
    x[0, 2, 2, 0] = np.inf
    y = native(lambda b, x, w: b.conv2d(x, w, strides=(1, 1), padding="VALID"), x, w)[0, :, :, 0]
    want = np.full((4, 4), 4.0)
    want[1:3, 1:3] = np.inf
    assert np.array_equal(y, want)


def test_padding_and_format_are_refused_with_their_value():
    x, w = np.zeros((1, 4, 4, 1)), np.zeros((2, 2, 1, 1))
    with pytest.raises(ShapeError, match="padding must be 'SAME', 'VALID' or .* got 'FULL'"):
        native(lambda b, x, w: b.conv2d(x, w, strides=(1, 1), padding="FULL"), x, w)
    with pytest.raises(ShapeError, match="data_format must be NHWC or NCHW, got 'CHWN'"):
        native(lambda b, x, w: b.conv2d(x, w, strides=(1, 1), padding="VALID", data_format="CHWN"), x, w)


# ---- pooling -------------------------------------------------------------------------------------------------------------------


def windows(x, k, s, p):
    size = x.shape[1]
    total = max((-(-size // s) - 1) * s + k - size, 0) if p == "SAME" else 0
    lead = total // 2
    out = (size + total - k) // s + 1
    return out, lambda i, j: [(a, c) for a in range(i * s - lead, i * s - lead + k) for c in range(j * s - lead, j * s - lead + k)
                              if 0 <= a < size and 0 <= c < size]


@pytest.mark.parametrize("form", ["NHWC", "NCHW"])
@pytest.mark.parametrize("k, s, p", [(2, 2, "VALID"), (2, 2, "SAME"), (3, 3, "SAME"), (3, 2, "SAME"), (3, 1, "SAME"), (2, 3, "VALID"), (3, 1, "VALID")])
def test_pooling_and_its_gradient_follow_each_window(k, s, p, form):
    rng = np.random.default_rng(7)
    x = rng.integers(-3, 3, (2, 7, 7, 5)).astype("f8")       # many ties
    out, inside = windows(x, k, s, p)
    ct = rng.normal(size=(2, out, out, 5))
    want = {"max": np.zeros_like(ct), "avg": np.zeros_like(ct)}
    grad = {"max": np.zeros_like(x), "avg": np.zeros_like(x)}
    for n, i, j, c in np.ndindex(*ct.shape):
        cells = inside(i, j)
        values = [x[(n, *cell, c)] for cell in cells]
        want["max"][n, i, j, c], want["avg"][n, i, j, c] = max(values), sum(values) / len(values)
        grad["max"][(n, *cells[values.index(max(values))], c)] += ct[n, i, j, c]
        for cell in cells:
            grad["avg"][(n, *cell, c)] += ct[n, i, j, c] / len(values)
    turn = (lambda a: np.ascontiguousarray(a.transpose(0, 3, 1, 2))) if form == "NCHW" else (lambda a: a)
    for name in ("max", "avg"):
        def f(b, x, ct, name=name):
            y = getattr(b, name + "_pool2d")(x, ksize=(k, k), strides=(s, s), padding=p, data_format=form)
            return y, b.gradients([y], [x], [ct])[0]
        y, dx = native(f, turn(x), turn(ct))
        np.testing.assert_allclose(y, turn(want[name]), rtol=1e-14, atol=1e-14)
        np.testing.assert_allclose(dx, turn(grad[name]), rtol=1e-13, atol=1e-13)


# ---- turned copies ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "i8", "f2", "u1", "?"])
@pytest.mark.parametrize("shape", [(4, 4), (16, 16), (5, 37), (37, 5), (64, 100), (1, 50), (3, 200)], ids=str)
def test_a_transpose_moves_every_element(shape, dtype):
    x = (np.arange(np.prod(shape)) % 251).reshape(shape).astype(dtype)
    assert np.array_equal(native(lambda b, x: b.transpose(x, perm=(1, 0)), x), x.T)


@pytest.mark.parametrize("perm", list(itertools.permutations(range(4))), ids=str)
def test_every_permutation_of_four_axes_moves_every_element(perm):
    x = np.arange(3 * 6 * 17 * 20, dtype="f4").reshape(3, 6, 17, 20)
    assert np.array_equal(native(lambda b, x: b.transpose(x, perm=perm), x), x.transpose(perm))
    got = native(lambda b, x: b.reverse(b.transpose(b.slice(x, starts=(0, 1, 2, 3), sizes=(3, 2, 15, 8), steps=(1, 2, 1, 2)), perm=perm), axis=(1,)), x)
    assert np.array_equal(got, np.flip(x[:, 1:5:2, 2:17, 3:19:2].transpose(perm), 1))


def test_rows_added_to_a_transposed_table_leave_the_table_as_it_was():
    x, i, u = np.arange(40.0).reshape(5, 8), np.array([7, 0, 7]), np.ones((3, 5))
    both = native(lambda b, x, i, u: (b.scatter_add(b.transpose(b.neg(x), perm=(1, 0)), i, u), b.neg(x)), x, i, u)
    want = -x.T.copy()
    np.add.at(want, i, u)
    assert np.array_equal(both[0], want) and np.array_equal(both[1], -x)


@pytest.mark.parametrize("form", ["NHWC", "NCHW"])
def test_a_window_with_nan_is_nan_and_leaves_the_others_alone(form):
    x = np.arange(16.0).reshape(1, 4, 4, 1)
    x[0, 1, 0, 0] = np.nan
    turn = (lambda a: np.ascontiguousarray(a.transpose(0, 3, 1, 2))) if form == "NCHW" else (lambda a: a)
    y = native(lambda b, x: b.max_pool2d(x, ksize=(2, 2), strides=(2, 2), padding="VALID", data_format=form), turn(x))
    assert np.array_equal(y.ravel(), [np.nan, 7, 13, 15], equal_nan=True)


@pytest.mark.parametrize(("size", "stride", "pixels"), [(3, 1, 5), (3, 2, 5), (2, 2, 5), (3, 3, 7), (5, 2, 6)])
@pytest.mark.parametrize("form", ["NHWC", "NCHW"])
def test_max_pool_gives_no_gradient_to_padding(size, stride, pixels, form):
    # windows of nothing but -inf are as large as their padding: the first pixel of the image in them gets the cotangent
    rng = np.random.default_rng(0)
    x = rng.integers(0, 3, (1, pixels, pixels, 2)).astype("f4")
    x[:, :3] = x[:, :, 0] = x[0, -1, -1] = -np.inf
    outs = -(-pixels // stride)
    ct = rng.integers(1, 9, (1, outs, outs, 2)).astype("f4")
    before = max((outs - 1) * stride + size - pixels, 0) // 2
    want = np.zeros_like(x)
    for c, i, j in np.ndindex(2, outs, outs):
        rows, columns = (range(max(k * stride - before, 0), min(k * stride - before + size, pixels)) for k in (i, j))
        r, q = max(((r, q) for r in rows for q in columns), key=lambda at: x[0, at[0], at[1], c])
        want[0, r, q, c] += ct[0, i, j, c]
    turn = (lambda a: a.transpose(0, 3, 1, 2)) if form == "NCHW" else lambda a: a
    with sg.Graph().as_default(), sg.Session() as session:
        p = sg.placeholder(np.float32, turn(x).shape)
        window, step = ([1, 1, v, v] if form == "NCHW" else [1, v, v, 1] for v in (size, stride))
        y = sg.nn.max_pool(p, window, step, "SAME", data_format=form)
        got = session.run(sg.gradients(y, [p], grad_ys=sg.constant(turn(ct)))[0], {p: turn(x)})
    np.testing.assert_array_equal(got, turn(want))
