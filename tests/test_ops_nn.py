"""Laws of activations, softmax, losses and norms that the derived tests do not know: tails, infinities, unused rows, unknown sizes."""

from __future__ import annotations

import numpy as np
import pytest
from native import Case, native

import staticgraph as sg
from staticgraph import errors
from staticgraph.transforms.jvp import jvp

ROWS = np.array([[-np.inf, -np.inf, -np.inf], [0.0, 1.0, -np.inf], [np.nan, 0.0, 1.0]])


def slopes(f, *arrays, ct=None):
    """f's value and its gradients by all operands, natively; ``ct`` is the cotangent (ones)."""
    case = Case()
    nodes = [case.feed(a) for a in arrays]
    y = f(case.b, *nodes)
    cts = None if ct is None else [case.feed(ct)]
    grads = case.b.gradients([y], [n for n in nodes if n.dtype.is_floating], cts)
    case.outputs = [y, *(g for g in grads if g is not None)]
    return case.run()


def forward(f, x, t):
    """The tangent of f at x along t."""
    case = Case()
    node = case.feed(x)
    case.outputs = jvp(case.b, [f(case.b, node)], {node: case.feed(t)})
    return case.run()[0]


def hessian(f, x):
    """Second derivatives of a scalar f, one row per element."""
    case = Case()
    node = case.feed(x)
    (g,) = case.b.gradients([f(case.b, node)], [node])
    flat = case.b.reshape(g, shape=(x.size,))
    case.outputs = [case.b.reshape(case.b.gradients([case.b.slice(flat, starts=(k,), sizes=(1,), steps=(1,))], [node])[0], shape=(x.size,)) for k in range(x.size)]
    return np.array(case.run())


# ---- activations -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("approximate", [True, False])
@pytest.mark.parametrize("dtype, far", [("f4", 3e38), ("f4", 1e20), ("f4", 50.0), ("f8", 1e300), ("f8", 1e160), ("f8", 50.0), ("f8", np.inf)])
def test_gelu_and_its_derivative_are_exact_far_out(dtype, far, approximate):
    value, slope = slopes(lambda b, x: b.gelu(x, approximate=approximate), np.array([far, -far], dtype))
    assert value[0] == np.dtype(dtype).type(far) and (value[1] == 0 or far == np.inf) and list(slope) == [1, 0]


def test_the_tanh_form_of_gelu_keeps_its_digits_below_zero():
    x = np.linspace(-8, -3, 60).astype("f4")
    u = np.float64(2 * 0.7978845608028654) * (x.astype("f8") + 0.044715 * x.astype("f8")**3)
    got = native(lambda b, v: b.gelu(v, approximate=True), x)
    assert (np.abs(got / (x / (1 + np.exp(-u))) - 1) < 1e-5).all()


@pytest.mark.parametrize("name, want", [("sigmoid", [0, 0.5, 1]), ("softplus", [0, np.log(2), np.inf]), ("log_sigmoid", [-np.inf, -np.log(2), 0])])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_logistic_functions_have_their_limits(name, want, dtype):
    for far in (np.inf, 3e38):
        got = native(lambda b, x: getattr(b, name)(x), np.array([-far, 0, far], dtype))
        want_here = np.array([np.sign(w) * far if np.isinf(w) else w for w in want])
        assert np.allclose(got, want_here.astype(dtype), rtol=1e-6, atol=0)


# ---- softmax ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_a_row_that_is_not_used_has_no_gradient_whatever_it_holds(name):
    def f(b, x):
        return getattr(b, name)(x, axis=-1)
    ct = np.zeros((3, 3))
    ct[1, 0] = 1
    value, slope = slopes(f, ROWS, ct=ct)
    p = np.array([1, np.e]) / (1 + np.e)
    want = [p[0] * p[1], -p[0] * p[1]] if name == "softmax" else [p[1], -p[1]]
    assert np.isnan(value[[0, 2]]).all() and not slope[[0, 2]].any()
    assert np.allclose(slope[1], [*want, 0], rtol=1e-14)


@pytest.mark.parametrize("shift", [0, 1e4, -1e4, 1e8])
def test_softmax_does_not_depend_on_a_shift(shift):
    x = np.array([[0, 1, 2], [5, 5, 5]], "f8")
    base, moved = (native(lambda b, v: b.softmax(v, axis=-1), x + s) for s in (0, shift))
    assert np.array_equal(base, moved) and np.allclose(base.sum(-1), 1, rtol=1e-15)


# ---- losses ----------------------------------------------------------------------------------------------------------------------


def xent(b, labels, logits):
    return b.softmax_cross_entropy_with_logits(labels, logits)


def test_a_class_of_weight_zero_beside_a_logit_of_minus_infinity_counts_nothing():
    labels, logits = np.array([0.0, 1, 0]), np.array([-np.inf, 0, 0])
    loss, by_labels, by_logits = slopes(xent, labels, logits)
    assert np.isclose(loss, np.log(2), rtol=1e-15) and list(by_logits) == [0, -0.5, 0.5] and by_labels[0] == np.inf
    tangents = [forward(lambda b, z: xent(b, b.const(labels), z), logits, np.eye(3)[k]) for k in range(3)]
    assert tangents == [0, -0.5, 0.5]


def test_cross_entropy_of_far_logits_is_the_gap():
    loss, _, by_logits = slopes(xent, np.array([[0.0, 1]]), np.array([[-3e11, -4.5e11]]))
    assert loss[0] == 1.5e11 and by_logits.tolist() == [[1, -1]]


def test_cross_entropy_of_an_empty_batch():
    loss, by_labels, by_logits = slopes(xent, np.zeros((0, 3)), np.zeros((0, 3)))
    assert loss.shape == (0,) and by_labels.shape == by_logits.shape == (0, 3)


def test_gradients_of_shared_labels_and_logits_are_summed():
    rng = np.random.default_rng(0)
    p, z = rng.random((4, 3)), rng.normal(size=(1, 3))
    apart = slopes(xent, p, np.repeat(z, 4, 0))
    loss, by_labels, by_logits = slopes(xent, p, z)
    assert np.allclose(loss, apart[0]) and np.allclose(by_labels, apart[1]) and np.allclose(by_logits, apart[2].sum(0, keepdims=True))
    shared = slopes(xent, p[:1], np.repeat(z, 4, 0))
    assert np.allclose(shared[1], 4 * slopes(xent, p[:1], z)[1]) and shared[1].shape == (1, 3)


def test_version_one_stops_the_labels_gradient():
    with sg.Graph().as_default():
        p, z = sg.placeholder(sg.float32, [None, 3]), sg.placeholder(sg.float32, [None, 3])
        assert sg.gradients(sg.nn.softmax_cross_entropy_with_logits(labels=p, logits=z), [p]) == [None]
        assert sg.gradients(sg.nn.softmax_cross_entropy_with_logits_v2(labels=p, logits=z), [p]) != [None]


@pytest.mark.parametrize("dtype", ["i4", "i8", "u1", "i2"])
@pytest.mark.parametrize("label", [9, 3, -1])
def test_a_label_out_of_range_is_named(label, dtype):
    if label < 0 and dtype == "u1":
        label, text = 255, "255"
    else:
        text = str(label)
    message = rf"Received a label value of {text} which is outside the valid range of \[0, 3\)\."
    labels = np.array([0, label], dtype)
    for f in (lambda b, y, z: b.sparse_softmax_cross_entropy_with_logits(y, z),
              lambda b, y, z: b.gradients([b.sparse_softmax_cross_entropy_with_logits(y, z)], [z])[0]):
        with pytest.raises(errors.InvalidArgumentError, match=message):
            native(f, labels, np.zeros((2, 3)))


def test_narrow_labels_among_many_classes_are_found_once():
    logits = np.random.default_rng(0).normal(size=(2, 1000))
    loss, by_logits = slopes(lambda b, y, z: b.sparse_softmax_cross_entropy_with_logits(y, z), np.array([3, 250], "u1"), logits)
    lse = np.log(np.exp(logits).sum(-1))
    assert np.allclose(loss, lse - [logits[0, 3], logits[1, 250]]) and ((by_logits < 0).sum(-1) == 1).all()


def test_labels_are_checked_against_a_number_of_classes_known_at_the_run():
    with sg.Graph().as_default(), sg.Session() as s:
        y, z = sg.placeholder(sg.int32, [None]), sg.placeholder(sg.float32, [None, None])
        loss = sg.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=z)
        for classes in (3, 5):
            assert np.allclose(s.run(loss, {y: [classes - 1], z: np.zeros((1, classes))}), np.log(classes))
            with pytest.raises(errors.InvalidArgumentError, match=rf"Received a label value of {classes} .*\[0, {classes}\)"):
                s.run(loss, {y: [classes], z: np.zeros((1, classes))})


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_the_logistic_loss_of_a_certain_answer(dtype):
    z = np.array([-np.inf, -1e4, 0, 1e4, np.inf], dtype)
    for label, sign in ((0, 1), (1, -1)):
        loss, _, by_logits = slopes(lambda b, y, v: b.sigmoid_cross_entropy_with_logits(y, v), np.full(5, label, dtype), z)
        want = np.array([0, 0, np.log(2), 1e4, np.inf])[::sign]
        assert np.allclose(loss, want, rtol=1e-7, atol=0)
        assert list(by_logits) == list((np.array([0, 0, 0.5, 1, 1]) * sign)[::sign])


# ---- norms -----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype, unit", [("f4", 2.0**-100), ("f4", 2.0**120), ("f4", 1e-44), ("f8", 2.0**-1000), ("f8", 2.0**1000), ("f8", 1.0)])
def test_norms_neither_overflow_nor_vanish(dtype, unit):
    x = (np.array([3.0, -4.0]) * unit).astype(dtype)
    length, slope = slopes(lambda b, v: b.norm(v, axis=None), x)
    assert np.isclose(length, np.hypot(*x.astype("f8")), rtol=1e-6 if unit > 1e-40 else 0.2)
    assert np.allclose(slope, [0.6, -0.8], rtol=1e-6 if unit > 1e-40 else 0.2)


def test_the_norm_of_one_tiny_number_is_it_and_its_slope_one():
    x = np.array([1e-30], "f4")
    assert [float(v.ravel()[0]) for v in slopes(lambda b, v: b.norm(v, axis=None), x)] == [float(x[0]), 1]


def test_the_square_of_a_norm_is_flat_at_zero_and_the_norm_follows_longer_vectors():
    value, slope = slopes(lambda b, x: b.square(b.norm(x, axis=None)), np.zeros(3))
    assert value == 0 and not slope.any()
    x = np.random.default_rng(0).normal(size=3)
    unit = x / np.linalg.norm(x)
    assert np.allclose(hessian(lambda b, v: b.norm(v, axis=None), x), (np.eye(3) - np.outer(unit, unit)) / np.linalg.norm(x))


def test_l2_normalize_of_the_surface_has_length_one_and_a_tangential_gradient():
    x = np.random.default_rng(0).normal(size=(4, 3)).astype("f4")
    with sg.Graph().as_default(), sg.Session() as s:
        p = sg.placeholder(sg.float32, [None, 3])
        y = sg.nn.l2_normalize(p, axis=1)
        value, slope = s.run([y, sg.gradients(y * sg.constant([1.0, 2.0, 3.0]), [p])[0]], {p: x})
    assert np.allclose(np.square(value).sum(1), 1, rtol=1e-6) and np.allclose((slope * x).sum(1), 0, atol=1e-5)


def test_second_derivatives_of_a_variance_count_the_mean():
    n = 4
    got = hessian(lambda b, x: b.moments(x, axis=None)[1], np.random.default_rng(0).normal(size=n))
    assert np.allclose(got, 2 / n * (np.eye(n) - 1 / n), atol=1e-14)


def test_moments_of_the_surface_for_any_batch():
    with sg.Graph().as_default(), sg.Session() as s:
        p = sg.placeholder(sg.float32, [None, 3])
        mean, variance = sg.nn.moments(p, [0])
        for n in (2, 5, 7):
            x = np.random.default_rng(n).normal(size=(n, 3)).astype("f4") + 1e3
            m, v = s.run([mean, variance], {p: x})
            assert np.allclose(m, x.astype("f8").mean(0), rtol=1e-6) and np.allclose(v, x.astype("f8").var(0), rtol=1e-3)


@pytest.mark.parametrize("layer", [True, False], ids=["layer_norm", "l2_normalize"])
def test_a_row_without_cotangent_gets_none_whatever_it_holds(layer):
    x = np.array([[1.0, 2, 4], [np.nan, np.inf, 0]])

    def f(b, v):
        if layer:
            return b.layer_norm(v, b.const(np.ones(3)), b.const(np.zeros(3)))
        return b.l2_normalize(v, axis=(1,))
    _, slope = slopes(f, x, ct=np.array([[1.0, 0, 0], [0, 0, 0]]))
    assert slope[0].any() and np.isfinite(slope[0]).all() and not slope[1].any()


def test_a_layer_norm_of_several_axes_is_one_of_their_product():
    rng = np.random.default_rng(0)
    x, gamma, beta = rng.normal(size=(5, 3, 4)), rng.normal(size=(3, 4)), rng.normal(size=(3, 4))
    wide = slopes(lambda b, *v: b.layer_norm(*v, axis=1), x, gamma, beta)
    flat = slopes(lambda b, *v: b.layer_norm(*v), x.reshape(5, 12), gamma.ravel(), beta.ravel())
    for w, f in zip(wide, flat):
        assert np.allclose(w.reshape(f.shape), f, rtol=1e-12, atol=1e-14)


def test_batch_norm_standardises_channels_and_agrees_with_its_inference_form():
    rng = np.random.default_rng(0)
    x, gamma, beta = rng.normal(2, 3, (6, 5, 4)), rng.normal(size=5), rng.normal(size=5)
    y, mean, variance = native(lambda b, *v: b.batch_norm(*v, axis=1, epsilon=1e-3), x, gamma, beta)
    assert np.allclose(mean, x.mean((0, 2))) and np.allclose(variance, x.var((0, 2)))
    again = native(lambda b, *v: b.batch_norm_inference(*v, axis=1, epsilon=1e-3), x, mean, variance, gamma, beta)
    assert np.allclose(y, again, rtol=1e-12, atol=1e-12) and np.allclose(y.mean((0, 2)), beta)


def test_gradients_of_batch_norm_flow_through_the_statistics_alone():
    rng = np.random.default_rng(0)
    x, ones = rng.normal(size=(6, 4)), np.ones(4)
    _, by_mean, *_ = slopes(lambda b, *v: b.batch_norm(*v)[1], x, ones, ones)
    _, by_variance, *_ = slopes(lambda b, *v: b.batch_norm(*v)[2], x, ones, ones)
    _, by_all, *_ = slopes(lambda b, *v: b.batch_norm(*v)[0], x, ones, ones)
    assert np.allclose(by_mean, 1 / 6) and np.allclose(by_variance, 2 * (x - x.mean(0)) / 6) and np.allclose(by_all, 0, atol=1e-12)


def test_clip_of_crossed_bounds_follows_the_upper_one():
    value, by_x, by_lo, by_hi = slopes(lambda b, *v: b.clip(*v), np.array([-2.0, 0, 2]), np.full(3, 1.0), np.full(3, -1.0))
    assert list(value) == [-1] * 3 and not by_x.any() and not by_lo.any() and list(by_hi) == [1] * 3
