"""Define-by-run, and that both modes agree."""

from __future__ import annotations

import derived
import numpy as np
import pytest
from native import Case

import staticgraph as sg
import staticgraph.dynamic as dy
from staticgraph.errors import GraphError


@pytest.mark.parametrize("op", [op for op in derived.testable() if derived.differentiable(op)], ids=lambda op: op.name)
def test_static_is_dynamic(op):
    """Law 11: values and gradients of each op in both modes."""
    for _k, s in derived.smooth_samples(op)[:3]:
        if any(hasattr(v, "results") for v in s.attrs.values()):
            pytest.skip("regions belong to graphs")
        case = Case()
        nodes = [case.feed(a) for a in s.arrays]
        outs = [o for o in derived.as_tuple(case.b.call(op, *nodes, **s.attrs)) if o.dtype.is_floating]
        floats = [n for n in nodes if n.dtype.is_floating]
        if not outs or not floats:
            continue
        case.outputs = [*outs, *(g if g is not None else case.b.zeros(x.aval) for g, x in zip(case.b.gradients(outs, floats), floats))]
        static = case.run()
        tensors = [dy.tensor(a, requires_grad=np.asarray(a).dtype.kind == "f") for a in s.arrays]
        results = [o for o in derived.as_tuple(dy.call(op.name, *tensors, **s.attrs)) if o.dtype.is_floating]
        xs = [t for t in tensors if t.requires_grad]
        grads = dy.grad(results, xs, [np.ones(r.shape, r.dtype.np) for r in results], allow_unused=True)
        dynamic = [r.detach().numpy() for r in results] + [np.zeros(x.shape) if g is None else g.detach().numpy() for g, x in zip(grads, xs)]
        for a, b in zip(static, dynamic):
            assert np.allclose(a, b, rtol=1e-5 if a.dtype == np.float32 else 1e-9, atol=1e-6 if a.dtype == np.float32 else 1e-12, equal_nan=True)


def test_backward_accumulates_and_frees():
    x = dy.tensor([1.0, 2.0], requires_grad=True)
    y = (x * x).sum()
    y.backward()
    assert list(x.grad.numpy()) == [2, 4]
    (x * 3).sum().backward()
    assert list(x.grad.numpy()) == [5, 7]
    with pytest.raises(RuntimeError):
        y.backward()


def test_a_saved_value_that_changed_is_noticed():
    x = dy.tensor([1.0, 2.0], requires_grad=True)
    h = x * 2
    y = (h * h).sum()
    h.detach().numpy()
    with dy.no_grad():
        h += 1
    with pytest.raises(RuntimeError, match="modified"):
        y.backward()


def test_double_backward():
    x = dy.tensor(0.3, requires_grad=True)
    y = dy.tanh(x)
    for _ in range(3):
        (y,) = dy.grad(y, [x], create_graph=True)
    t = np.tanh(0.3)
    assert np.isclose(y.detach().numpy(), -2 + 8 * t**2 - 6 * t**4, atol=1e-6)


def test_no_grad_records_nothing():
    x = dy.tensor(1.0, requires_grad=True)
    with dy.no_grad():
        assert not (x * 2).requires_grad
    assert (x * 2).requires_grad and not (x * 2).detach().requires_grad


def test_errors_say_what_and_where():
    with pytest.raises(GraphError, match="Incompatible shapes|not broadcast|must be equal"):
        dy.tensor([1.0, 2.0]) + dy.tensor([1.0, 2.0, 3.0])
    with pytest.raises(RuntimeError, match="requires grad"):
        dy.tensor([1.0], requires_grad=True).numpy()


def test_checkpoint_recomputes_with_the_same_gradient():
    calls = []

    def block(v):
        calls.append(1)
        return dy.exp(dy.sin(v))
    x = dy.tensor([0.1, 0.2], requires_grad=True)
    dy.checkpoint(block, x).sum().backward()
    want = np.exp(np.sin([0.1, 0.2])) * np.cos([0.1, 0.2])
    assert np.allclose(x.grad.numpy(), want) and len(calls) == 2


def test_adam_in_both_modes_takes_the_same_steps():
    start, target = np.array([1.0, -2.0]), np.array([0.5, 0.5])
    p = dy.tensor(start, requires_grad=True)
    opt = dy.optim.SGD([p], lr=0.1)
    with sg.Graph().as_default(), sg.Session() as s:
        v = sg.Variable(start)
        step = sg.train.GradientDescentOptimizer(0.1).minimize(sg.reduce_sum(sg.square(v - target)))
        s.run(sg.global_variables_initializer())
        for _ in range(5):
            opt.zero_grad()
            ((p - target) * (p - target)).sum().backward()
            opt.step()
            s.run(step)
        assert np.allclose(s.run(v), p.detach().numpy(), rtol=1e-12)
