"""A network with two hidden layers on images of digits: the model of ``staticgraph demo``."""

from itertools import pairwise

import numpy as np

import staticgraph as sg
from staticgraph.data import load_digits

SIZES = (64, 128, 64, 10)


def init(rng, sizes=SIZES):
    """Weights ``w1``, ``b1``, ``w2`` ... of layers of ``sizes``, float32; He's normal initialisation."""
    params = {}
    for k, (a, b) in enumerate(pairwise(sizes), 1):
        params[f"w{k}"] = rng.normal(0, (2 / a) ** 0.5, (a, b)).astype(np.float32)
        params[f"b{k}"] = np.zeros(b, np.float32)
    return params


def predict(params, x):
    """Logits [n, 10] of images x [n, 64]."""
    layers = len(params) // 2
    for k in range(1, layers + 1):
        x = sg.matmul(x, params[f"w{k}"]) + params[f"b{k}"]
        if k < layers:
            x = sg.nn.relu(x)
    return x


def loss(params, x, t):
    """The mean cross-entropy of digits t [n], int32."""
    return sg.reduce_mean(sg.nn.sparse_softmax_cross_entropy_with_logits(labels=t, logits=predict(params, x)))


def batch(rng, n=64):
    """n images and their digits."""
    x, t, _, _ = load_digits()
    rows = rng.integers(len(x), size=n)
    return x[rows], t[rows]


def training_step(seed=0, rate=2e-3):
    """In the current graph: (placeholders x and t, variables by name, loss, the step: one of Adam)."""
    feeds = sg.placeholder(sg.float32, [None, 64], name="x"), sg.placeholder(sg.int32, [None], name="t")
    params = {name: sg.Variable(value, name=name) for name, value in init(np.random.default_rng(seed)).items()}
    value = loss(params, *feeds)
    return feeds, params, value, sg.train.AdamOptimizer(rate).minimize(value)
