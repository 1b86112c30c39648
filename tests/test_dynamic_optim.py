"""Optimizers of the dynamic mode take PyTorch's steps."""

from __future__ import annotations

import numpy as np
import pytest

import staticgraph.dynamic as dy

SETTINGS = [("SGD", {"lr": 0.1}), ("SGD", {"lr": 0.1, "momentum": 0.9}), ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01}),
            ("SGD", {"lr": 0.1, "momentum": 0.8, "dampening": 0.3}), ("SGD", {"lr": 0.1, "weight_decay": 0.1, "maximize": True}), ("Adam", {"lr": 0.1}),
            ("Adam", {"lr": 0.01, "betas": (0.8, 0.95), "eps": 1e-4, "weight_decay": 0.1}), ("Adam", {"lr": 0.1, "amsgrad": True}), ("AdamW", {"lr": 0.1}),
            ("AdamW", {"lr": 0.05, "weight_decay": 0.3}), ("RMSprop", {"lr": 0.05}), ("RMSprop", {"lr": 0.05, "momentum": 0.9, "weight_decay": 0.1, "alpha": 0.9})]
start, target = np.array([[1.0, -2.0, 0.5]]), np.array([0.5, 0.5, 3.0])


def steps(t, name, settings, count=12):
    """The parameters after each step."""
    w, b = t.tensor(start, requires_grad=True), t.tensor(np.zeros(3), requires_grad=True)
    opt = getattr(t.optim, name)([w, b], **settings)
    out = []
    for k in range(count):
        opt.zero_grad()
        loss = ((w + b - t.tensor(target)) ** 2).sum()
        if k == 3:                           # a step in which one parameter has no gradient
            loss = ((w - t.tensor(target)) ** 2).sum()
        loss.backward()
        opt.step()
        out.append(np.concatenate([w.detach().numpy().ravel(), b.detach().numpy()]))
    return np.array(out)


@pytest.mark.parametrize("name, settings", SETTINGS, ids=str)
def test_steps_are_pytorchs(name, settings):
    torch = pytest.importorskip("torch")
    np.testing.assert_allclose(steps(dy, name, settings), steps(torch, name, settings), rtol=1e-10, atol=1e-12)


def test_first_steps_are_the_formulas():
    """lr * g for SGD and Momentum, lr * sign(g) for Adam."""
    for opt, move in ((dy.optim.SGD, lambda g: 0.1 * g), (dy.optim.Momentum, lambda g: 0.1 * g), (dy.optim.Adam, lambda g: 0.1 * np.sign(g))):
        w = dy.tensor(start, requires_grad=True)
        (w * w).sum().backward()
        opt([w], lr=0.1).step()
        np.testing.assert_allclose(w.detach().numpy(), start - move(2 * start), atol=1e-7)


def test_parameter_groups_and_schedules():
    a, b = dy.tensor([1.0], requires_grad=True), dy.tensor([1.0], requires_grad=True)
    opt = dy.optim.SGD([{"params": [a]}, {"params": b, "lr": 0.5}], lr=0.1)
    (a + b).sum().backward()
    opt.step()
    assert np.isclose(a.item(), 0.9) and np.isclose(b.item(), 0.5)
    opt.param_groups[0]["lr"] = 1.0
    opt.step()
    assert np.isclose(a.item(), -0.1) and "lr: 1.0" in repr(opt)


@pytest.mark.parametrize("name, settings", [SETTINGS[2], SETTINGS[7], SETTINGS[11]], ids=str)
def test_a_state_dict_goes_on_where_it_was(name, settings):
    def run(opt, w, n):
        for _ in range(n):
            opt.zero_grad()
            ((w - 1) ** 2).sum().backward()
            opt.step()
    w = dy.tensor(start, requires_grad=True)
    opt = getattr(dy.optim, name)([w], **settings)
    run(opt, w, 3)
    saved, value = opt.state_dict(), w.detach().clone()
    run(opt, w, 3)
    again = dy.tensor(value, requires_grad=True)
    other = getattr(dy.optim, name)([again], lr=99.0)
    other.load_state_dict(saved)
    run(other, again, 3)
    assert np.array_equal(w.detach().numpy(), again.detach().numpy())
    with pytest.raises(ValueError, match="doesn't match the size"):
        getattr(dy.optim, name)([w, again]).load_state_dict(saved)
    with pytest.raises(ValueError, match="of shape"):
        getattr(dy.optim, name)([dy.tensor([1.0], requires_grad=True)]).load_state_dict(saved)


def test_refusals():
    w = dy.tensor([1.0], requires_grad=True)
    for wrong, text in ((lambda: dy.optim.SGD([]), "empty parameter list"), (lambda: dy.optim.SGD([w * 1]), "non-leaf"), (lambda: dy.optim.SGD([w, w]), "more than one"),
                        (lambda: dy.optim.SGD([w], lr=-1), "Invalid lr"), (lambda: dy.optim.SGD([w], nesterov=True), "Nesterov"), (lambda: dy.optim.Adam([w], betas=(1.0, 0)), "beta"),
                        (lambda: dy.optim.SGD([{"params": [w], "rate": 1}]), "unknown setting 'rate'")):
        with pytest.raises(ValueError, match=text):
            wrong()
    for wrong in (lambda: dy.optim.SGD(w), lambda: dy.optim.SGD([np.ones(3)])):
        with pytest.raises(TypeError):
            wrong()


def test_a_closure_is_called_with_recording_on():
    w = dy.tensor([3.0], requires_grad=True)
    opt = dy.optim.SGD([w], lr=0.5)

    def closure():
        opt.zero_grad()
        loss = (w * w).sum()
        loss.backward()
        return loss
    with dy.no_grad():
        assert opt.step(closure).item() == 9 and w.item() == 0
