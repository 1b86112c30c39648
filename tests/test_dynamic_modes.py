"""One source, both modes: dynamic values and gradients are the interpreter's bit for bit, and the compiled ones to stated ulps."""

from __future__ import annotations

import derived
import numpy as np
import pytest
from native import Case, as_tuple

import staticgraph as sg
import staticgraph.dynamic as dy
from staticgraph.ir.evaluate import evaluate

rng = np.random.default_rng(0)
a, c = rng.uniform(0.2, 0.9, (2, 3)), rng.uniform(0.2, 0.9, (2, 3))
square, row, ids = rng.normal(size=(3, 3)), rng.normal(size=3), np.array([1, 0, 1])


def interpreted(case):
    """The case's outputs by the NumPy interpreter, from the graph as it was built."""
    return evaluate(case.outputs, dict(zip(case.feeds, case.values)))


@pytest.mark.parametrize("op", [op for op in derived.testable() if derived.differentiable(op)], ids=lambda op: op.name)
def test_an_op_and_its_gradient_are_the_interpreters_bits(op):
    for _k, s in enumerate(derived.samples_of(op)):
        if any(hasattr(v, "results") for v in s.attrs.values()) or sum(np.size(v) for v in s.arrays) > 3000:
            continue
        case = Case()
        nodes = [case.feed(v) for v in s.arrays]
        outs = [o for o in as_tuple(case.b.call(op, *nodes, **s.attrs)) if o.dtype.is_floating]
        floats = [n for n in nodes if n.dtype.is_floating]
        if not outs or not floats:
            continue
        found = case.b.gradients(outs, floats)
        case.outputs = [*outs, *(g for g in found if g is not None)]
        tensors = [dy.tensor(v, requires_grad=np.asarray(v).dtype.kind == "f") for v in s.arrays]
        results = [o for o in as_tuple(dy.call(op.name, *tensors, **s.attrs)) if o.dtype.is_floating]
        asked = [t for t in tensors if t.requires_grad]
        grads = dy.grad(results, asked, [np.ones(r.shape, r.dtype.np) for r in results], allow_unused=True)
        assert [g is None for g in grads] == [g is None for g in found]
        for got, want in zip([*results, *(g for g in grads if g is not None)], interpreted(case)):
            assert derived.same_bits(got.detach().numpy(), np.asarray(want)), s


def mlp(x, w):
    return sg.reduce_mean(sg.square(sg.tanh(sg.matmul(x, w)) @ w - x))


def shared(x, w):
    h = sg.exp(x)
    return sg.reduce_sum(h * h + sg.sin(h) * x) + sg.reduce_sum(h @ w)


def rows_twice(x, w):
    return sg.reduce_sum(sg.gather(w, ids) @ w) + sg.reduce_sum(sg.gather(w, ids[:2]) * x) + sg.reduce_sum(w)


def transposed(x, w):
    return sg.reduce_sum(sg.nn.softmax(sg.transpose(x) @ x) * w) + sg.reduce_sum(x[::-1, 1:] * x[:, :2])


def attention(x, w):
    q, k = x @ w, sg.transpose(x @ sg.transpose(w))
    return sg.reduce_logsumexp(sg.nn.softmax(q @ k) @ x)


@pytest.mark.parametrize("fn", [mlp, shared, rows_twice, transposed, attention], ids=lambda f: f.__name__)
def test_a_model_is_the_interpreters_bits_and_the_compilers_to_some_ulps(fn):
    with sg.Graph().as_default() as g:
        x, w = sg.placeholder(sg.float64, a.shape), sg.placeholder(sg.float64, square.shape)
        y = fn(x, w)
        outputs = [sg.convert_to_tensor(t) for t in (y, *sg.gradients(y, [x, w]))]
        want = evaluate([t.node for t in outputs], {x.node: a, w.node: square})
        assert g is sg.get_default_graph()
        native = sg.Session().run(outputs, {x: a, w: square})
    tx, tw = dy.tensor(a, requires_grad=True), dy.tensor(square, requires_grad=True)
    out = fn(tx, tw)
    out.backward()
    got = [out.detach().numpy(), tx.grad.numpy(), tw.grad.numpy()]
    for one, two, three in zip(got, want, native):
        assert derived.same_bits(one, two)
        assert np.abs(one - three).max() <= 32 * np.spacing(np.abs(one).max())


# every way to write something in the static mode computes now when it is given dynamic tensors
SURFACE = {
    "reshape": lambda x, y: sg.reshape(x, [3, -1]), "unstack": lambda x, y: sg.unstack(x)[1], "split": lambda x, y: sg.split(x, 3, axis=1)[2],
    "tile": lambda x, y: sg.tile(x, [1, 2]), "broadcast_to": lambda x, y: sg.broadcast_to(x, [4, 2, 3]), "pad": lambda x, y: sg.pad(x, [[1, 1], [0, 0]]),
    "reverse": lambda x, y: sg.reverse(x, [0]), "zeros_like": lambda x, y: sg.zeros_like(x) + x, "slice": lambda x, y: sg.slice(x, [0, 1], [1, 2]),
    "sort": lambda x, y: sg.sort(x), "matrix_transpose": lambda x, y: sg.matrix_transpose(x), "tensordot": lambda x, y: sg.tensordot(x, y, [[1], [1]]),
    "add_n": lambda x, y: sg.add_n([x, y, x]), "where": lambda x, y: sg.where(x > y, x, y * 2.0), "moments": lambda x, y: sg.nn.moments(x, [0])[1],
    "batch_normalization": lambda x, y: sg.nn.batch_normalization(x, y, y, None, None, 1e-3), "l2_normalize": lambda x, y: sg.nn.l2_normalize(x, 0),
    "weighted_cross_entropy": lambda x, y: sg.nn.weighted_cross_entropy_with_logits(y, x, 2.0), "top_k": lambda x, y: sg.nn.top_k(x, 2)[0],
    "clip_by_norm": lambda x, y: sg.clip_by_norm(x, 0.5), "clip_by_global_norm": lambda x, y: sg.clip_by_global_norm([x, y], 1.0)[0][1],
    "boolean_mask": lambda x, y: sg.boolean_mask(x, a > 0.5), "cumsum": lambda x, y: sg.cumsum(x, axis=1), "concat": lambda x, y: sg.concat([x, y], 1),
    "stack": lambda x, y: sg.stack([x, y]), "layer_norm": lambda x, y: sg.nn.layer_norm(x, y[0], y[1]), "xw_plus_b": lambda x, y: sg.nn.xw_plus_b(x, square, y[0]),
    "softmax_cross_entropy": lambda x, y: sg.nn.softmax_cross_entropy_with_logits_v2(labels=y, logits=x), "norm": lambda x, y: sg.norm(x),
    "sparse_cross_entropy": lambda x, y: sg.nn.sparse_softmax_cross_entropy_with_logits(labels=np.array([1, 0]), logits=x), "fill": lambda x, y: sg.fill([2], x[0, 0]),
    "logsumexp": lambda x, y: sg.reduce_logsumexp(x, 1), "embedding": lambda x, y: sg.nn.embedding_lookup(x, np.array([1, 1])), "gelu": lambda x, y: sg.nn.gelu(x),
    "constants mix in": lambda x, y: sg.zeros([3], sg.float64) + x * sg.constant([1.0, 2.0, 3.0], sg.float64) + sg.cast(sg.range(3), sg.float64), "numpy": lambda x, y: np.float64(2) * x + row,
    "custom_gradient": lambda x, y: sg.custom_gradient(lambda v: (v * v, lambda ct: ct * 5.0 * v))(x), "stop_gradient": lambda x, y: sg.stop_gradient(x) * y,
    "checkpoint": lambda x, y: sg.checkpoint(lambda u, v: sg.sin(u) * v)(x, y), "gradients": lambda x, y: sg.gradients(sg.reduce_sum(x * x * y), [x])[0],
    "grad": lambda x, y: sg.grad(lambda u: sg.reduce_sum(u * u * u * y))(x), "grad of grad": lambda x, y: sg.grad(lambda u: sg.reduce_sum(sg.grad(lambda v: sg.reduce_sum(v * v * v * y))(u)))(x),
    "value_and_grad": lambda x, y: sg.value_and_grad(lambda u, v: sg.reduce_sum(u * v * v), (0, 1))(x, y)[1][1], "vjp": lambda x, y: sg.vjp(lambda u: u * u, x)[1](y)[0],
    "jvp": lambda x, y: sg.jvp(lambda u: u * sg.sin(u), (x,), (y,))[1], "hvp": lambda x, y: sg.hvp(lambda u: sg.reduce_sum(u * u * sg.sin(u)), (x,), (y,)),
    "vmap": lambda x, y: sg.vmap(lambda u, v: u * sg.reduce_sum(v))(x, y), "vmap by columns": lambda x, y: sg.vmap(lambda u: u * u[0], 1, 1)(x),
    "jacrev": lambda x, y: sg.jacrev(lambda u: sg.sin(u) * u[0])(x[0]), "jacfwd": lambda x, y: sg.jacfwd(lambda u: sg.sin(u) * u[0])(x[0]),
    "hessian": lambda x, y: sg.hessian(lambda u: sg.reduce_sum(u * u * u * row) + u[0] * u[1])(x[0]), "function": lambda x, y: sg.function(lambda u, v: u * v)(x, y),
}


@pytest.mark.parametrize("name", SURFACE)
def test_a_function_of_the_surface_computes_now(name):
    fn = SURFACE[name]
    weights = rng.normal(size=np.asarray(sg.function(fn)(a, c)).shape)

    def total(x, y):
        return sg.reduce_sum(fn(x, y) * weights)
    value, gradients = sg.value_and_grad(total, (0, 1))(a, c)
    tx, ty = dy.tensor(a, requires_grad=True), dy.tensor(c, requires_grad=True)
    out = total(tx, ty)
    assert isinstance(out, dy.Tensor)
    out.backward()
    assert np.allclose(out.item(), value, rtol=1e-10)
    for t, want in zip((tx, ty), gradients):
        assert np.allclose(0 if t.grad is None else t.grad.numpy(), want, rtol=1e-9, atol=1e-12)


def test_transforms_of_tensors_without_a_gradient_give_plain_results():
    x, w = dy.tensor(a), dy.tensor(2.0, dtype="float64", requires_grad=True)
    with dy.no_grad():
        assert not sg.grad(lambda v: sg.reduce_sum(v * v))(x).requires_grad
    assert sg.jvp(lambda v: v * v, (x,), (x,))[1].grad_fn is None
    by_w = sg.grad(lambda v: sg.reduce_sum(v * v) * w)(x)           # w is not an argument, and wants its gradient
    by_w.sum().backward()
    assert np.isclose(w.grad.item(), 2 * a.sum())


def test_a_graph_tensor_without_a_value_is_refused_with_its_line():
    x = dy.tensor(a)
    p = sg.placeholder(sg.float64, [2, 3])      # made here
    for mix in (lambda: x + p, lambda: p + x, lambda: sg.matmul(p, x), lambda: sg.concat([x, p], 0), lambda: dy.tensor(p), lambda: x.copy_(p)):
        with pytest.raises(TypeError, match="define-by-run.* met .*Placeholder") as caught:
            mix()
        notes = "\n".join(caught.value.__notes__)
        assert "made here" in notes and "detach().numpy()" in notes
    w = dy.tensor(2.0, requires_grad=True)
    with pytest.raises(TypeError, match="met"):
        sg.function(lambda v: v * w)(np.float32(1))
