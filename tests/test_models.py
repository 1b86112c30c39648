"""The sample models: one source as a compiled graph, interpreted, define-by-run, and beside PyTorch's own layers."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

import staticgraph as sg
import staticgraph.dynamic as dy

sys.path.insert(0, str(Path(__file__).parent.parent / "samples"))
MODELS = {name: importlib.import_module(f"models.{name}") for name in ("mlp", "lenet", "lstm", "transformer")}
every = pytest.mark.parametrize("name", MODELS)


def case(name, n=8):
    model, rng = MODELS[name], np.random.default_rng(0)
    return model, model.init(rng), *model.batch(rng, n)


def close(a, b, tolerance=2e-5):
    """Equal to ``tolerance`` of the largest element."""
    a, b = np.asarray(a), np.asarray(b)
    assert a.shape == b.shape and a.dtype == b.dtype
    assert np.abs(a - b).max() <= tolerance * np.abs(b).max()


@every
def test_compiled_interpreted_and_define_by_run_agree(name):
    model, params, x, t = case(name)
    compiled = sg.value_and_grad(model.loss)
    value, gradients = compiled(params, x, t)
    flat = [*(params[k] for k in sorted(params)), x, t]
    traced = compiled.trace_for((params, x, t), flat)
    by_node = dict(zip(traced.feeds, flat))
    plain, *plain_gradients = traced.executable.interpret([by_node[i.key] for i in traced.executable.inputs], traced.store)

    tensors = {k: dy.tensor(v, requires_grad=True) for k, v in params.items()}
    now = model.loss(tensors, x, t)
    now.backward()
    close(value, plain)
    assert now.item() == plain.item()
    for k, g in zip(sorted(params), plain_gradients):
        close(gradients[k], g)
        assert np.array_equal(tensors[k].grad.numpy(), g), k


@every
def test_the_surface_graph_trains_and_takes_any_batch(name):
    model, params, x, t = case(name)
    with sg.Graph().as_default():
        feeds, variables, loss, step = model.training_step()
        logits = model.predict(variables, feeds[0])
        with sg.Session() as sess:
            sess.run(sg.global_variables_initializer())
            assert set(variables) == set(params)
            first = sess.run(loss, dict(zip(feeds, (x, t))))
            close(first, sg.function(model.loss)(params, x, t))
            for _ in range(60):
                sess.run(step, dict(zip(feeds, (x, t))))
            assert sess.run(loss, dict(zip(feeds, (x, t)))) < 0.5 * first
            for n in (1, 3, 5):
                assert sess.run(logits, {feeds[0]: x[:n]}).shape == (n, 10)


def peers(params):
    torch = pytest.importorskip("torch")
    return torch, {k: torch.tensor(v, requires_grad=True) for k, v in params.items()}


def test_mlp_beside_pytorch():
    model, params, x, t = case("mlp")
    torch, p = peers(params)
    h = torch.tensor(x)
    for k in (1, 2, 3):
        h = h @ p[f"w{k}"] + p[f"b{k}"]
        h = torch.relu(h) if k < 3 else h
    torch.nn.functional.cross_entropy(h, torch.tensor(t).long()).backward()
    _, gradients = sg.value_and_grad(model.loss)(params, x, t)
    for k in params:
        close(gradients[k], p[k].grad.numpy())


def test_lenet_beside_pytorch():
    model, params, x, t = case("lenet")
    torch, p = peers(params)
    f = torch.nn.functional
    h = torch.tensor(x).permute(0, 3, 1, 2)
    for k, rim in (("c1", 2), ("c2", 0)):
        h = f.max_pool2d(torch.relu(f.conv2d(h, p[k].permute(3, 2, 0, 1), p[f"{k}_bias"], padding=rim)), 2)
    h = h.permute(0, 2, 3, 1).reshape(len(x), 400)
    for k in ("w1", "w2", "w3"):
        h = h @ p[k] + p[f"{k}_bias"]
        h = torch.relu(h) if k != "w3" else h
    loss = f.cross_entropy(h, torch.tensor(t).long())
    loss.backward()
    value, gradients = sg.value_and_grad(model.loss)(params, x, t)
    close(value, loss.detach().numpy())
    for k in params:
        close(gradients[k], p[k].grad.numpy())


def test_lstm_beside_pytorchs_layer():
    model, params, x, t = case("lstm")
    torch, p = peers(params)
    layer = torch.nn.LSTM(8, 32, batch_first=True)
    own = {"weight_ih_l0": p["wx"].T, "weight_hh_l0": p["wh"].T, "bias_ih_l0": p["bias"], "bias_hh_l0": torch.zeros(128)}
    states, _ = torch.func.functional_call(layer, own, (torch.tensor(x),))
    loss = torch.nn.functional.cross_entropy(states[:, -1] @ p["out"] + p["out_bias"], torch.tensor(t).long())
    loss.backward()
    value, gradients = sg.value_and_grad(model.loss)(params, x, t)
    close(value, loss.detach().numpy())
    for k in params:
        close(gradients[k], p[k].grad.numpy())


def test_transformer_beside_pytorchs_layer():
    model, params, x, t = case("transformer")
    torch, p = peers(params)
    layer = torch.nn.TransformerEncoderLayer(32, model.HEADS, 128, dropout=0.0, activation=lambda v: torch.nn.functional.gelu(v, approximate="tanh"),
                                             batch_first=True, norm_first=True)
    own = {"self_attn.in_proj_weight": torch.cat([p["query"].T, p["key"].T, p["value"].T]), "self_attn.in_proj_bias": torch.zeros(96),
           "self_attn.out_proj.weight": p["join"].T, "self_attn.out_proj.bias": torch.zeros(32),
           "linear1.weight": p["wide"].T, "linear1.bias": p["wide_bias"], "linear2.weight": p["narrow"].T, "linear2.bias": p["narrow_bias"],
           "norm1.weight": p["norm1_scale"], "norm1.bias": p["norm1_shift"], "norm2.weight": p["norm2_scale"], "norm2.bias": p["norm2_shift"]}
    h = torch.func.functional_call(layer, own, (torch.tensor(x) @ p["embed"] + p["place"],))
    h = torch.nn.functional.layer_norm(h, (32,), p["norm3_scale"], p["norm3_shift"]).mean(1)
    loss = torch.nn.functional.cross_entropy(h @ p["out"] + p["out_bias"], torch.tensor(t).long())
    loss.backward()
    value, gradients = sg.value_and_grad(model.loss)(params, x, t)
    close(value, loss.detach().numpy())
    for k in params:
        close(gradients[k], p[k].grad.numpy(), 1e-4)
