"""One source for both modes: control flow on define-by-run tensors computes what the compiled graph computes, gradients included."""

from __future__ import annotations

import numpy as np
import pytest

import staticgraph as sg
import staticgraph.dynamic as dy

rng = np.random.default_rng(0)
rows, w = rng.normal(size=(5, 3)), rng.normal(size=(3, 3))
zero = np.zeros(3)


def cell(h, x, w):
    return sg.tanh(sg.reduce_sum(sg.expand_dims(h + x, 1) * w, axis=0))


def by_cond(x, w):
    return sg.cond(sg.reduce_sum(x) > 0.0, lambda: sg.reduce_sum(sg.square(x) @ w), lambda: sg.reduce_sum(sg.sin(x) @ w))


def by_case(x, w):
    total = sg.reduce_sum(x)
    return sg.case([(total > 5.0, lambda: sg.reduce_sum(x @ w)), (total > -5.0, lambda: sg.reduce_sum(sg.exp(x) @ w))], lambda: total)


def by_while(x, w):
    return sg.while_loop(lambda k, v: k < 4, lambda k, v: (k + 1, cell(v, x[0], w)), (0, x[1]))[1][0]


def by_limit(x, w):
    return sg.reduce_sum(sg.while_loop(lambda v: sg.reduce_sum(v) < 1e9, lambda v: (v * 2.0 + w[0],), (sg.abs(x[0]),), maximum_iterations=3))


def by_scan(x, w):
    return sg.reduce_sum(sg.scan(lambda h, r: cell(h, r, w), x, initializer=x[0] * 0.0) * x)


def by_scan_from_the_first(x, w):
    return sg.reduce_sum(sg.scan(lambda h, r: cell(h, r, w), x) * x)


def by_reverse_scan(x, w):
    return sg.reduce_sum(sg.scan(lambda h, r: cell(h, r, w), x, reverse=True) * x)


def by_map(x, w):
    return sg.reduce_sum(sg.map_fn(lambda r: cell(r[0], r[1], w), (x, x * 2.0)))


def by_foldl(x, w):
    return sg.reduce_sum(sg.foldl(lambda h, r: cell(h, r, w), x))


def by_foldr(x, w):
    return sg.reduce_sum(sg.foldr(lambda h, r: cell(h, r, w), x, initializer=x[0]))


@pytest.mark.parametrize("fn", [by_cond, by_case, by_while, by_limit, by_scan, by_scan_from_the_first, by_reverse_scan, by_map, by_foldl, by_foldr],
                         ids=lambda f: f.__name__)
@pytest.mark.parametrize("sign", (1.0, -1.0))
def test_control_flow_agrees_between_the_modes(fn, sign):
    x = sign * np.abs(rows)
    value, (gx, gw) = sg.value_and_grad(fn, (0, 1))(x, w)
    tx, tw = dy.tensor(x, requires_grad=True), dy.tensor(w, requires_grad=True)
    out = fn(tx, tw)
    out.backward()
    assert np.allclose(out.item(), value, rtol=1e-12)
    assert np.allclose(tx.grad.numpy(), gx, rtol=1e-10, atol=1e-14)
    assert np.allclose(0 if tw.grad is None else tw.grad.numpy(), gw, rtol=1e-10, atol=1e-14)


def test_a_branch_not_taken_is_not_called():
    called = []
    x = dy.tensor(1.0, requires_grad=True)
    sg.cond(x > 0.0, lambda: x * 2.0, lambda: called.append(1))
    assert not called
    with pytest.raises(ValueError, match="false_fn must have a return value"):
        sg.cond(x < 0.0, lambda: x, lambda: None)


def test_refusals_are_those_of_the_static_mode():
    x = dy.tensor([1.0, 2.0])
    with pytest.raises(sg.errors.DTypeError, match="pred must be a scalar bool tensor, got bool\\[2\\]"):
        sg.cond(x > 0.0, lambda: x, lambda: x)
    with pytest.raises(sg.errors.DTypeError, match="got float32\\[\\]"):
        sg.while_loop(lambda v: v, lambda v: v, (dy.tensor(1.0),))
    with pytest.raises(ValueError, match="1 enter the loop and the body returns 2"):
        sg.while_loop(lambda v: v < 3.0, lambda v: (v, v), (dy.tensor(1.0),))


def table(*functions):
    return pytest.mark.parametrize("fn", functions, ids=range(len(functions)))


labels, ids, mask = np.array([0, 2, 1, 1, 0]), np.array([3, 0]), np.array([True, False, True, False, True])


@table(lambda x: sg.split(x, 3, axis=1)[1], lambda x: sg.tile(x, [1, 2]), lambda x: sg.pad(x, [[1, 0], [0, 2]]), lambda x: sg.reverse(x, [0]),
       lambda x: sg.unstack(x)[2], lambda x: sg.tensordot(x, w, 1), lambda x: sg.zeros_like(x) + sg.ones_like(x) * x, lambda x: sg.matrix_transpose(x),
       lambda x: sg.broadcast_to(x, [2, 5, 3]), lambda x: sg.sort(x), lambda x: sg.nn.top_k(x, 2)[0], lambda x: sg.nn.moments(x, [0])[1],
       lambda x: sg.clip_by_norm(x, 1.0), lambda x: sg.nn.xw_plus_b(x, w, zero), lambda x: sg.gather(x, ids), lambda x: sg.convert_to_tensor(x) * 2.0,
       lambda x: sg.where(mask, x, x * x), lambda x: sg.norm(x, ord=1, axis=1), lambda x: sg.norm(x, ord=np.inf), lambda x: sg.norm(x),
       lambda x: sg.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=sg.matmul(x, w)),
       lambda x: sg.nn.softmax_cross_entropy_with_logits(labels=sg.nn.softmax(x), logits=x),
       lambda x: sg.nn.softmax_cross_entropy_with_logits_v2(labels=sg.nn.softmax(x), logits=x),
       lambda x: sg.nn.sigmoid_cross_entropy_with_logits(labels=np.ones((5, 3), np.float32), logits=x),
       lambda x: sg.nn.bias_add(sg.reshape(x, [1, 5, 3, 1]), np.arange(5.0), data_format="NCHW"),
       lambda x: x * sg.cast(sg.div(sg.cast(x * 7.0, sg.int32), 2), sg.float64), lambda x: x * sg.cast(sg.rank(x) + sg.size(x) + sg.shape(x)[0], sg.float64))
def test_every_public_function_computes_at_once_on_define_by_run_tensors(fn):
    def total(x):
        y = fn(x)
        return sg.reduce_sum(sg.sin(y) if y.dtype.is_floating else y)
    value, gradient = sg.value_and_grad(total)(rows)
    t = dy.tensor(rows, requires_grad=True)
    before = len(sg.get_default_graph().operations)
    out = total(t)
    out.backward()
    assert isinstance(out, dy.Tensor)
    assert len(sg.get_default_graph().operations) == before          # the default graph does not grow with each step
    assert np.allclose(out.item(), value, rtol=1e-12)
    assert np.allclose(t.grad.numpy(), gradient, rtol=1e-10, atol=1e-14)


def test_a_tensor_without_a_value_is_refused_beside_one_that_has():
    with sg.Graph().as_default(), pytest.raises(sg.GraphError, match="has no value while its graph is built"):
        sg.tensordot(dy.tensor(rows), sg.placeholder(sg.float64, [3, 3]), 1)
