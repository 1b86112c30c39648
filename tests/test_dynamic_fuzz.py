"""Random programs of operations, views and changes in place: the same values and gradients as PyTorch's, and no refusal that PyTorch does not make.

PyTorch refuses a few that are computed here: ``y.mul_(y)``, and changes of views made before their base had a history.
"""

from __future__ import annotations

import random

import numpy as np
import pytest

import staticgraph.dynamic as dy

START = np.random.default_rng(0).uniform(0.5, 1.5, (2, 3, 4))


def program(t, seed):
    """Run a random program; (values, gradients of the leaves), or the refusal."""
    rng = random.Random(seed)
    leaves = [t.tensor(a, requires_grad=True) for a in START]
    made = [leaves[0] * 1, leaves[1] * 1, t.tensor(START[0] * 0.5)]

    def pick():
        return rng.choice(made)

    def fitting(x):
        options = [m for m in made if m.shape == x.shape]
        return rng.choice(options)

    def part(x):
        kind = rng.randrange(6)
        if kind == 0 and x.ndim:
            return x[rng.randrange(x.shape[0])]
        if kind == 1 and x.ndim:
            return x[:rng.randint(1, x.shape[0])]
        if kind == 2 and x.ndim == 2:
            return x.transpose(0, 1)
        if kind == 3 and x.ndim == 2:
            return x[:, rng.randrange(x.shape[1])]
        if kind == 4:
            return x.unsqueeze(0) if x.ndim < 2 else x.reshape(-1) if x.is_contiguous() else x.transpose(0, 1)
        return x.detach() if rng.random() < 0.3 else x[...] if x.ndim else x * 1
    try:
        for _ in range(rng.randint(4, 14)):
            kind, x = rng.randrange(12), pick()
            if kind < 3:
                made.append(part(x))
            elif kind == 3:
                made.append(x * fitting(x))
            elif kind == 4:
                made.append(rng.choice([x.sin, x.exp, x.tanh, x.abs])())
            elif kind == 5:
                made.append(x + fitting(x) * 0.5)
            elif kind == 6:
                x.mul_(fitting(x) if rng.random() < 0.5 else 0.7)
            elif kind == 7:
                x.add_(fitting(x).sin())
            elif kind == 8:
                rng.choice([x.sin_, x.tanh_, x.zero_])()
            elif kind == 9:
                x.copy_(fitting(x) * 0.9)
            elif kind == 10 and x.ndim:
                k = rng.randrange(x.shape[0])
                x[k] = fitting(x)[k] * 0.5 if rng.random() < 0.7 else 0.25
            elif kind == 11:
                with t.no_grad():
                    made.append(x * 2)
        total = sum((m * w).sum() for m, w in zip(made, np.linspace(0.3, 1.7, len(made)).tolist()))
        total.backward()
    except RuntimeError as error:
        return str(error)
    return [m.detach().numpy() for m in made], [np.zeros(1) if v.grad is None else v.grad.numpy() for v in leaves]


@pytest.mark.parametrize("block", range(6))
def test_random_programs_do_what_pytorchs_do(block):
    torch = pytest.importorskip("torch")
    agreed, refused, ours_only = 0, 0, 0
    for seed in range(block * 100, block * 100 + 100):
        ours, theirs = program(dy, seed), program(torch, seed)
        if isinstance(theirs, str):
            refused += isinstance(ours, str)
            ours_only += not isinstance(ours, str)
            continue
        assert not isinstance(ours, str), f"{seed}: {ours}"
        for got, want in zip(ours[0] + ours[1], theirs[0] + theirs[1]):
            np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-12, err_msg=str(seed))
        agreed += 1
    assert agreed > 30 and refused > 30 and ours_only < 12


def test_a_tensor_multiplied_by_itself_in_place():
    x = dy.tensor(START[0], requires_grad=True)
    y = x * 1
    y.mul_(y)
    y.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * START[0])
