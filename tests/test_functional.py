"""Transforms of Python functions."""

from __future__ import annotations

import re

import numpy as np
import pytest

import staticgraph as sg

v = np.array([0.5, 1.0, 2.0])


def test_function_traces_once_per_structure_and_twice_per_rank():
    calls = []

    @sg.function
    def f(x):
        calls.append(1)
        return {"s": sg.reduce_sum(x), "t": (x * 2, x)}
    for n in (2, 3, 4, 5):
        got = f(np.ones((n, 3)))
        assert got["s"] == 3 * n and got["t"][0].shape == (n, 3)
    assert len(calls) <= 2


def test_grad_and_value_and_grad():
    def f(x, w):
        return sg.reduce_sum(sg.tanh(sg.matmul(x, w)))
    x, w = np.random.default_rng(0).normal(size=(4, 3)), np.random.default_rng(1).normal(size=(3, 2))
    value, (dx, dw) = sg.value_and_grad(f, (0, 1))(x, w)
    slope = 1 - np.tanh(x @ w) ** 2
    assert np.isclose(value, np.tanh(x @ w).sum()) and np.allclose(dw, x.T @ slope) and np.allclose(dx, slope @ w.T)
    assert np.allclose(sg.grad(f, 1)(x, w), dw)


def test_jacobians_and_hessians():
    def f(x):
        return sg.sin(x) * x[0]
    forward, reverse = sg.jacfwd(f)(v), sg.jacrev(f)(v)
    want = np.diag(np.cos(v) * v[0])
    want[:, 0] += np.sin(v)
    assert np.allclose(forward, want) and np.allclose(reverse, want)
    assert np.allclose(sg.hessian(lambda x: sg.reduce_sum(x * x * x))(v), np.diag(6 * v))
    assert np.allclose(sg.hvp(lambda x: sg.reduce_sum(x * x * x), (v,), (np.ones(3),)), 6 * v)


def test_directions_that_are_not_like_their_values_are_refused():
    # a scalar or a row would broadcast, and give the derivative along another direction
    def f(x):
        return sg.sin(x) * 2.0
    for bad, message in ((np.ones(2), "jvp: a tangent is f64[2], its primal f64[3]: they must have one shape"), (1.0, "is f64[]"),
                         (np.ones((1, 3)), "f64[1,3]"), (np.ones(3, np.float32), "one dtype"), ([1.0, 0.0, 0.0], "not nested like its primal")):
        with pytest.raises((sg.errors.ShapeError, sg.errors.DTypeError), match=re.escape(message)):
            sg.jvp(f, (v,), (bad,))
    with pytest.raises(sg.errors.ShapeError, match="the cotangent is f64\\[2\\], the result f64\\[3\\]"):
        sg.vjp(f, v)[1](np.ones(2))
    with pytest.raises(sg.errors.ShapeError, match="hvp: a tangent"):
        sg.hvp(lambda x: sg.reduce_sum(f(x)), (v,), (1.0,))


def test_numbers_as_directions_adopt_the_dtype():
    x = np.float64(2.0)
    assert sg.jvp(sg.square, (x,), (1.0,))[1] == 4.0 and sg.vjp(sg.square, x)[1](1)[0] == 4.0
    assert sg.hvp(lambda x: x * x * x, (x,), (1,)) == 12.0


def test_vjp_and_jvp():
    y, pull = sg.vjp(lambda x: x * x, v)
    assert np.allclose(y, v * v) and np.allclose(pull(np.ones(3)), 2 * v)
    y, tangent = sg.jvp(lambda x: x * x, (v,), (np.ones(3),))
    assert np.allclose(y, v * v) and np.allclose(tangent, 2 * v)


def test_vmap_is_one_program():
    a = np.arange(12.0).reshape(4, 3)
    f = sg.vmap(lambda x, w: sg.reduce_sum(x * w), (0, None))
    assert np.allclose(f(a, v), a @ v)
    per_example = sg.vmap(sg.grad(lambda w, x: sg.square(sg.reduce_sum(w * x))), (None, 0))
    assert np.allclose(per_example(v, a), 2 * (a @ v)[:, None] * a)
    nested = sg.vmap(sg.vmap(lambda x, y: x * y, (None, 0)), (0, None))
    assert np.allclose(nested(v, v), np.outer(v, v))


def test_vmap_of_cond_and_while():
    def f(x):
        return sg.cond(x > 1.0, lambda: x * 10.0, lambda: -x)
    assert np.allclose(sg.vmap(f)(v), np.where(v > 1, v * 10, -v))

    def g(x, n):
        return sg.while_loop(lambda i, a: i < n, lambda i, a: [i + 1, a * x], [sg.constant(0), sg.constant(1.0, sg.float64)])[1]
    assert np.allclose(sg.vmap(g)(v, np.array([0, 1, 3], np.int32)), v ** np.array([0, 1, 3]))


def test_five_derivatives_stay_small():
    f = sg.tanh
    for _ in range(5):
        f = sg.grad(f)
    t = np.tanh(0.3)
    want = 16 - 136 * t**2 + 240 * t**4 - 120 * t**6
    assert np.isclose(f(np.float64(0.3)), want)
    assert len(f.graph(np.float64(0.3)).nodes) < 2000


def test_check_gradients_finds_a_wrong_rule():
    assert sg.check_gradients(lambda a, b: sg.exp(a) * sg.sin(b) / a, v, v)

    @sg.custom_gradient
    def wrong(x):
        return x * x, lambda dy: dy * 3.0 * x
    report = sg.check_gradients(lambda x: wrong(x), v)
    assert not report and "DISAGREE" in str(report)
    with pytest.raises(sg.errors.NotDifferentiableError, match="reverse rule only"):
        sg.jvp(lambda x: wrong(x), (v,), (v,))


def test_branching_on_a_tensor_teaches():
    with pytest.raises(TypeError, match="cond"):
        sg.function(lambda x: x if x > 0 else -x)(1.0)


def test_cotangents_of_disjoint_slices_are_joined_by_one_copy():
    # one padded array and one sum per slice made the gradient of an unrolled loop quadratic in its steps
    with sg.Graph().as_default() as g:
        x = sg.placeholder(np.float64, [5, 3])
        parts = sg.unstack(x)
        y = sum(sg.reduce_sum(p * p * float(k + 1)) for k, p in enumerate(parts) if k != 2)
        dx = sg.gradients(y, [x])[0]
        value = np.random.default_rng(0).normal(size=(5, 3))
        got = sg.Session().run(dx, {x: value})
    weights = np.array([1, 2, 0, 4, 5])[:, None]
    assert np.array_equal(got, 2 * weights * value)
    made = [n.op.name for n in g.ir.nodes]
    assert made.count("concat") == 1


def test_cotangents_of_slices_that_overlap_add_up():
    with sg.Graph().as_default():
        x = sg.placeholder(np.float64, [6, 4])
        pieces = [(x[0:2], 3), (x[1:4], 5), (x[4:6], 7), (x[:, 2:3], 11), (x[:, 0:1], 13), (x[::2], 17), (x[::-1], 19), (x, 23)]
        dx = sg.gradients(sum(sg.reduce_sum(p) * float(w) for p, w in pieces), [x])[0]
        got = sg.Session().run(dx, {x: np.zeros((6, 4))})
    want = np.full((6, 4), 19.0 + 23.0)
    want[0:2] += 3
    want[1:4] += 5
    want[4:6] += 7
    want[:, 2] += 11
    want[:, 0] += 13
    want[::2] += 17
    assert np.array_equal(got, want)


def test_prepared_calls_give_what_the_first_call_gave():
    # from the third call on, arrays of a known signature go straight to the program; all else goes the long way, and comes out the same
    f = sg.function(lambda x, w: {"sum": sg.reduce_sum(x * w), "rows": (x + w, x)})
    rng = np.random.default_rng(0)
    for shape in [(3,)] * 4 + [(5,)] * 4 + [(3,), (7,), (3,)]:
        x, w = rng.normal(size=shape), rng.normal(size=shape)
        got = f(x, w)
        assert got["sum"] == pytest.approx((x * w).sum()) and got["sum"].shape == ()
        assert np.array_equal(got["rows"][0], x + w) and np.array_equal(got["rows"][1], x)
    x = rng.normal(size=3)
    kept = f(x, x)["rows"][0]
    f(x + 1, x)
    assert np.array_equal(kept, x + x)                                       # results are arrays of their own
    strided = rng.normal(size=(3, 2))[:, 0]
    assert np.array_equal(f(strided, x)["rows"][0], strided + x)
    assert f(x.astype(np.float32), x.astype(np.float32))["rows"][0].dtype == np.float32


def test_prepared_calls_word_their_errors():
    f = sg.function(lambda x, i: sg.gather(x, i))
    x = np.arange(3.0)
    for _ in range(4):
        assert np.array_equal(f(x, np.array([2, 0])), [2.0, 0.0])
    with pytest.raises(sg.errors.InvalidArgumentError, match="3"):
        f(x, np.array([3, 0]))
    assert np.array_equal(f(x, np.array([1, 1])), [1.0, 1.0])
    with pytest.raises(Exception, match="argument"):
        f(x)


def test_prepared_calls_draw_new_numbers_and_compute_at_once():
    import staticgraph.dynamic as dy
    f = sg.function(lambda x: x + sg.random_normal([3], seed=1, dtype=sg.float64))
    x = np.zeros(3)
    draws = [f(x) for _ in range(5)]
    assert len({d.tobytes() for d in draws}) == 5
    g = sg.function(lambda x: x * 2.0)
    for _ in range(4):
        g(x)
    assert type(g(dy.tensor(x))) is dy.Tensor


# ---- what Python may not ask while a function is traced ------------------------------------------------------------------------------

def by_while(x):
    while sg.reduce_sum(x) < 10.0:
        x = x * 2.0
    return x


def by_item(x):
    x[0] = 1.0
    return x


REFUSED = {
    "if": (lambda x: x if x > 0 else -x, 1.0, TypeError, "sg.cond"), "while": (by_while, v, TypeError, "sg.while_loop"), "and": (lambda x: x > 0 and x, 1.0, TypeError, "sg.where"),
    "==": (lambda x: x if x == 1.0 else -x, 1.0, TypeError, "sg.cond"), "float": (lambda x: x * float(x), 1.0, TypeError, "return it and use float\\(\\)"),
    "int": (lambda x: x * int(x), 1.0, TypeError, "sg.cast"), "range": (lambda x: list(range(x)), np.int32(3), TypeError, "sg.while_loop"),
    "list index": (lambda x: [1.0, 2.0][x], np.int32(1), TypeError, "sg.gather"), "np.sin": (np.sin, v, TypeError, "Use sg.sin for np.sin"), "np.sum": (np.sum, v, TypeError, "Use sg.reduce_sum"),
    "np.max": (np.max, v, TypeError, "Use sg.reduce_max"), "np.asarray": (np.asarray, v, NotImplementedError, "to a numpy array"),
    "np.arctan2": (lambda x: np.arctan2(x, x), v, TypeError, "Use sg.atan2|same meaning"), "np.concatenate": (lambda x: np.concatenate([x, x]), v, TypeError, "to a numpy array"),
    "x[0] = 1": (by_item, v, TypeError, "sg.where\\(mask, new, old\\)"), "len of a scalar": (len, 1.0, TypeError, "sg.shape\\(t\\)\\[0\\]"), "iteration of a scalar": (list, 1.0, TypeError, "sg.unstack")}


@pytest.mark.parametrize("name", REFUSED)
def test_what_needs_a_value_is_refused_with_the_line_and_the_remedy(name):
    fn, argument, kind, remedy = REFUSED[name]
    with pytest.raises(kind, match=remedy) as caught:
        sg.function(fn)(argument)
    assert "has no value while the graph is built" in str(caught.value)
    notes = "\n".join(caught.value.__notes__)
    assert "asked for at test_functional.py:" in notes and "was made at test_functional.py:" in notes


def test_numpy_operands_on_the_left_are_operators():
    f = sg.function(lambda x: np.ones(3) + x * np.float64(2) - np.array([1.0, 2.0, 3.0]) / x)
    assert np.allclose(f(v), 1 + v * 2 - np.array([1, 2, 3]) / v)
    assert np.array_equal(sg.function(lambda x: np.ones(3) < x)(v), v > 1) and np.array_equal(sg.function(lambda x: np.eye(3) @ x[:, None])(v), v[:, None])


def test_a_traced_function_knows_its_sizes_and_compares_elements():
    assert sg.function(lambda x: sum(row * 2.0 for row in x))(v) == 7 and sg.function(lambda x: x * float(len(x)))(v).tolist() == [1.5, 3, 6]
    assert sg.function(lambda x: sg.cast(x == 1.0, sg.float64) + sg.cast(x != 1.0, sg.float64) * 3.0)(v).tolist() == [3, 1, 3]
    with sg.Graph().as_default():
        x = sg.placeholder(sg.float32, [2])
        assert (x == x) is True and (x == 1.0) is False and (x != 1.0) is True          # TF1: identity
        with pytest.raises(TypeError, match="iterating"):
            list(x)


def test_a_leaked_value_is_refused_with_both_lines():
    kept = []

    def f(x):
        kept.append(x * 2.0)                 # it leaks here
        return x
    sg.function(f)(v)
    for use in (lambda: kept[0] + 1.0, lambda: sg.sin(kept[0]), lambda: 1.0 - kept[0], lambda: sg.reduce_sum(kept[0])):
        with pytest.raises(sg.GraphError, match="a value of f\\(\\) is used after its trace has ended.*Return it from the function") as caught:
            use()                            # and is used here
        notes = "\n".join(caught.value.__notes__)
        assert "it leaks here" in notes and "used at test_functional.py" in notes
    with pytest.raises(TypeError, match="leaked value of f\\(\\), whose trace has ended"):
        float(kept[0])
    with pytest.raises(ValueError, match="must be from the same graph") as caught:
        sg.function(lambda x: x + kept[0])(v)
    assert "leaked value of f()" in "\n".join(caught.value.__notes__)
