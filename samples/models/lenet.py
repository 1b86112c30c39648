"""LeNet-5's shape with relu and max pooling, on images of digits brought to 28x28."""

import numpy as np

import staticgraph as sg
from staticgraph.data import load_digits


def init(rng):
    """Filters [height, width, in, out] and weights, float32; He's normal initialisation."""
    shapes = {"c1": (5, 5, 1, 6), "c2": (5, 5, 6, 16), "w1": (400, 120), "w2": (120, 84), "w3": (84, 10)}
    params = {}
    for name, shape in shapes.items():
        params[name] = rng.normal(0, (2 / np.prod(shape[:-1])) ** 0.5, shape).astype(np.float32)
        params[f"{name}_bias"] = np.zeros(shape[-1], np.float32)
    return params


def predict(params, x):
    """Logits [n, 10] of images x [n, 28, 28, 1]."""
    for name, padding in (("c1", "SAME"), ("c2", "VALID")):
        x = sg.nn.relu(sg.nn.conv2d(x, params[name], [1, 1, 1, 1], padding) + params[f"{name}_bias"])
        x = sg.nn.max_pool(x, [1, 2, 2, 1], [1, 2, 2, 1], "VALID")
    x = sg.reshape(x, [-1, 400])
    for name in ("w1", "w2"):
        x = sg.nn.relu(sg.matmul(x, params[name]) + params[f"{name}_bias"])
    return sg.matmul(x, params["w3"]) + params["w3_bias"]


def loss(params, x, t):
    """The mean cross-entropy of digits t [n], int32."""
    return sg.reduce_mean(sg.nn.sparse_softmax_cross_entropy_with_logits(labels=t, logits=predict(params, x)))


def batch(rng, n=32):
    """n images, each pixel three times in both directions and a rim of two, and their digits."""
    x, t, _, _ = load_digits()
    rows = rng.integers(len(x), size=n)
    large = x[rows].reshape(n, 8, 8).repeat(3, 1).repeat(3, 2)
    return np.pad(large, ((0, 0), (2, 2), (2, 2)))[..., None], t[rows]


def training_step(seed=0, rate=0.05):
    """In the current graph: (placeholders x and t, variables by name, loss, the step: one of gradient descent)."""
    feeds = sg.placeholder(sg.float32, [None, 28, 28, 1], name="x"), sg.placeholder(sg.int32, [None], name="t")
    params = {name: sg.Variable(value, name=name) for name, value in init(np.random.default_rng(seed)).items()}
    value = loss(params, *feeds)
    return feeds, params, value, sg.train.GradientDescentOptimizer(rate).minimize(value)
