"""A long short-term memory that reads an image of a digit row by row (S. Hochreiter, J. Schmidhuber, 1997; with forget gates: F. Gers, 1999)."""

import numpy as np

import staticgraph as sg
from staticgraph.data import load_digits


def init(rng, inputs=8, hidden=32):
    """Weights of the four gates side by side (input, forget, cell, output) and of the last layer, float32. The forget gate starts open."""
    def uniform(*shape):
        return rng.uniform(-1, 1, shape).astype(np.float32) / np.float32(hidden ** 0.5)
    bias = uniform(4 * hidden)
    bias[hidden:2 * hidden] = 1.0
    return {"wx": uniform(inputs, 4 * hidden), "wh": uniform(hidden, 4 * hidden), "bias": bias,
            "out": uniform(hidden, 10), "out_bias": np.zeros(10, np.float32)}


def cell(params, h, c, x):
    """One step: the next hidden state and cell of [n, hidden], given an input x [n, inputs]."""
    z = sg.matmul(x, params["wx"]) + sg.matmul(h, params["wh"]) + params["bias"]
    i, f, g, o = sg.split(z, 4, axis=1)
    c = sg.sigmoid(f) * c + sg.sigmoid(i) * sg.tanh(g)
    return sg.sigmoid(o) * sg.tanh(c), c


def predict(params, x):
    """Logits [n, 10] of sequences x [n, steps, inputs]. A Python loop: the static graph has all steps side by side."""
    first = sg.matmul(x[:, 0], params["wx"])
    h = c = sg.zeros_like(sg.split(first, 4, axis=1)[0])
    for k in range(int(x.shape[1])):
        h, c = cell(params, h, c, x[:, k])
    return sg.matmul(h, params["out"]) + params["out_bias"]


def loss(params, x, t):
    """The mean cross-entropy of digits t [n], int32."""
    return sg.reduce_mean(sg.nn.sparse_softmax_cross_entropy_with_logits(labels=t, logits=predict(params, x)))


def batch(rng, n=32):
    """n images as sequences of 8 rows, and their digits."""
    x, t, _, _ = load_digits()
    rows = rng.integers(len(x), size=n)
    return x[rows].reshape(n, 8, 8), t[rows]


def training_step(seed=0, rate=5e-3):
    """In the current graph: (placeholders x and t, variables by name, loss, the step: one of Adam)."""
    feeds = sg.placeholder(sg.float32, [None, 8, 8], name="x"), sg.placeholder(sg.int32, [None], name="t")
    params = {name: sg.Variable(value, name=name) for name, value in init(np.random.default_rng(seed)).items()}
    value = loss(params, *feeds)
    return feeds, params, value, sg.train.AdamOptimizer(rate).minimize(value)
