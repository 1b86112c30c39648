"""Translations of graphs into other libraries: each entry of the tables gives what the compiled graph gives."""

from __future__ import annotations

import importlib
import importlib.util
from contextlib import nullcontext

import numpy as np
import pytest
from derived import close, reference, samples_of
from native import Case, as_tuple

import staticgraph as sg
from staticgraph.ir.opdef import OPS
from staticgraph.tools.compare_modes import Problem, trace
from staticgraph.tools.compare_peers import PEERS, _jax_settings
from staticgraph.tools.translate import TABLES, NoCounterpart, runnable, translate

rng = np.random.default_rng(0)
x, y, w = rng.normal(size=(4, 6)), rng.normal(size=(4, 6)), rng.normal(size=(6, 6))
image, filters, labels = rng.normal(size=(2, 6, 6, 3)), rng.normal(size=(3, 3, 3, 2)), np.array([0, 5, 2, 1], np.int32)

FUNCTIONS = {
    **{name: (lambda a, b, f=name: getattr(sg, f)(a * 0.5)) for name in
       ("exp", "expm1", "sin", "cos", "tan", "sinh", "cosh", "tanh", "square", "sign", "floor", "ceil", "atan", "asinh", "erf", "sigmoid", "softplus",
        "log_sigmoid", "softsign", "negative", "abs", "silu")},
    **{name: (lambda a, b, f=name: getattr(sg, f)(a * a + 1.1)) for name in ("log", "log1p", "sqrt", "rsqrt", "reciprocal", "acosh")},
    **{name: (lambda a, b, f=name: getattr(sg, f)(sg.tanh(a) * 0.9)) for name in ("asin", "acos", "atanh")},
    **{name: (lambda a, b, f=name: getattr(sg.nn, f)(a)) for name in ("relu", "relu6", "elu", "selu", "gelu", "leaky_relu", "softmax", "log_softmax", "l2_loss")},
    **{name: (lambda a, b, f=name: getattr(sg, f)(a, b)) for name in ("add", "subtract", "multiply", "divide", "maximum", "minimum", "squared_difference", "atan2")},
    **{name: (lambda a, b, f=name: sg.where(getattr(sg, f)(a, b), a, b)) for name in ("less", "less_equal", "greater", "greater_equal", "equal", "not_equal")},
    **{name: (lambda a, b, f=name: getattr(sg, f)(a, axis=1, keepdims=True) + getattr(sg, f)(b)) for name in ("reduce_sum", "reduce_mean", "reduce_max", "reduce_min")},
    "logsumexp": lambda a, b: sg.reduce_logsumexp(a, axis=0), "pow": lambda a, b: sg.pow(sg.abs(a) + 0.5, b), "numbers": lambda a, b: 1.0 / (2.0 - a * 0.25) ** 2.0,
    "logical": lambda a, b: sg.where(sg.logical_and(a > 0.0, sg.logical_not(sg.logical_or(b > 0.0, a > 1.0))), a, b),
    "matmul": lambda a, b: sg.matmul(a, b, transpose_b=True) @ sg.matmul(b, sg.constant(w)), "matmul_ta": lambda a, b: sg.matmul(a, b, transpose_a=True),
    "moves": lambda a, b: sg.transpose(sg.reshape(sg.concat([a, b], 1), [4, 3, 4]), [2, 0, 1]), "slices": lambda a, b: a[1:3, ::2] + b[-2:, 3:] * a[0, 1],
    "parts": lambda a, b: sg.stack([*sg.split(a, 2, axis=1), b[:, :3]], axis=1), "rows": lambda a, b: sg.squeeze(sg.expand_dims(sg.gather(a, labels[:2] * 0 + 1), 1), [1]),
    "tile": lambda a, b: sg.tile(a, [2, 1]) + sg.broadcast_to(b[0], [8, 6]), "clip": lambda a, b: sg.clip_by_value(a, -0.5, 0.5), "stop": lambda a, b: sg.stop_gradient(a) * b,
    "cast": lambda a, b: sg.cast(sg.cast(a, sg.float32), sg.float64) + sg.cast(a > 0.0, sg.float64), "argmax": lambda a, b: sg.cast(sg.argmax(a, 1), sg.float64),
    "cumsum": lambda a, b: sg.cumsum(a, 1), "add_n": lambda a, b: sg.add_n([a, b, a]),
    "layer_norm": lambda a, b: sg.nn.layer_normalization(a, b[0], b[1]), "xent": lambda a, b: sg.nn.softmax_cross_entropy_with_logits_v2(labels=sg.nn.softmax(a), logits=b),
    "sparse_xent": lambda a, b: sg.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=a),
    "logistic": lambda a, b: sg.nn.sigmoid_cross_entropy_with_logits(labels=sg.sigmoid(a), logits=b),
}


def run(fn, args, library):
    p = Problem.of(fn, args, None, 1)
    t = trace(p)
    return ran(t.ledger.ir, [f.node for f in t.feeds], [v.node for v in t.values], p.leaves, library)


def ran(graph, feeds, outputs, arrays, library):
    """Results of the translation, as arrays."""
    text, extra, _ = translate(graph, feeds, outputs, library)
    PEERS[library].start(1)
    module = importlib.import_module("jax.numpy" if library == "jax" else library)
    convert = getattr(module, {"torch": "tensor", "tensorflow": "constant"}.get(library, "asarray"))
    with _jax_settings(True) if library == "jax" else nullcontext():
        f = runnable(text, {k: c if callable(c) else convert(c) for k, c in extra.items()}, library)
        return [np.asarray(o) for o in f(*map(convert, arrays))]


@pytest.mark.parametrize("library", TABLES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_translation_computes_what_the_graph_does(name, library):
    pytest.importorskip(library)
    fn = FUNCTIONS[name]
    (got,) = run(fn, (x, y), library)
    expected = np.asarray(sg.function(fn)(x, y))
    assert got.shape == expected.shape and got.dtype == expected.dtype
    assert np.allclose(got, expected, rtol=1e-6 if name == "cast" else 1e-12, atol=1e-14)


@pytest.mark.parametrize("library", TABLES)
@pytest.mark.parametrize("strides, padding", [(1, "SAME"), (2, "VALID"), (2, "SAME")])
def test_windows_are_translated(strides, padding, library):
    pytest.importorskip(library)

    def fn(a, f):
        h = sg.nn.conv2d(a, f, [1, strides, strides, 1], padding)
        return sg.nn.max_pool(h, [1, 2, 2, 1], [1, 2, 2, 1], "VALID")
    (got,) = run(fn, (image, filters), library)
    assert np.allclose(got, sg.function(fn)(image, filters), rtol=1e-12, atol=1e-13)


# what a library does otherwise, with its own right, on some sample
OTHER = {("tensorflow", "squared_difference"),                       # not of uint8
         ("tensorflow", "clip"),                                     # where the lower bound is above the upper one
         ("tensorflow", "gather"), ("tensorflow", "gather_nd"),      # negative indices are refused
         ("tensorflow", "prod")}                                     # numbers below 1e-38 are 0


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("library", TABLES)
def test_every_entry_computes_what_the_record_says(library):
    """On the samples of the op's own record, but those with infinities, NaN and the smallest and largest numbers."""
    pytest.importorskip(library)

    def plain(a):
        return np.asarray(a).dtype.kind != "f" or (np.isfinite(a) & (np.abs(a) < 1e6) & ((np.abs(a) > 1e-6) | (np.asarray(a) == 0))).all()
    wrong, checked = set(), 0
    for name in set(TABLES[library]()) - {"get"}:
        op = OPS[name]
        samples = samples_of(op)
        for s in [samples[0], samples[-1]] if library == "jax" else samples:      # JAX compiles each: some
            if not all(map(plain, s.arrays)):
                continue
            case = Case()
            outputs = as_tuple(case.b.call(op, *map(case.feed, s.arrays), **s.attrs))
            try:
                got = ran(case.graph, case.feeds, outputs, case.values, library)
            except NoCounterpart:
                continue
            except Exception as error:
                print(name, s.attrs, error)
                wrong.add((library, name))
                continue
            checked += 1
            if not all(close(g, w, op, 300) for g, w in zip(got, reference(op, s), strict=True)):
                print(name, s.attrs, got, reference(op, s))
                wrong.add((library, name))
    assert wrong == {k for k in OTHER if k[0] == library}
    assert checked > (100 if library == "jax" else 700)


def test_what_has_no_counterpart_is_named_with_its_line():
    with pytest.raises(NoCounterpart, match=r"while_loop at test_translate\.py:\d+ has no counterpart in numpy: give .* numpy=\.\.\."):
        run(lambda a: sg.while_loop(lambda k, b: k < 3, lambda k, b: (k + 1, b * 2.0), (0, a))[1], (x,), "numpy")
    with pytest.raises(NoCounterpart, match="top_k"):
        run(lambda a: sg.nn.top_k(a, 2)[0], (x,), "torch")


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed")
def test_negative_steps_are_refused_for_pytorch():
    with pytest.raises(NoCounterpart, match="negative steps"):
        run(lambda a: a[::-1], (x,), "torch")


@pytest.mark.parametrize("library", TABLES)
def test_means_of_integers_are_not_translated(library):
    pytest.importorskip(library)
    whole = lambda a: sg.reduce_mean(a)
    if library == "tensorflow":                                      # as here, its mean of integers is one
        assert run(whole, (labels,), library) == [2]
    else:
        with pytest.raises(NoCounterpart, match="mean of integers"):
            run(whole, (labels,), library)
