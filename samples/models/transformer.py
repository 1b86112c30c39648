"""One transformer block over the rows of an image of a digit (A. Vaswani et al., 2017; normalisation before each part: R. Xiong et al., 2020)."""

import numpy as np

import staticgraph as sg
from staticgraph.data import load_digits

HEADS = 4


def init(rng, inputs=8, steps=8, width=32):
    """Weights of embedding, attention, gelu network and last layer, float32. ``width`` is a multiple of HEADS."""
    def normal(a, b):
        return rng.normal(0, a ** -0.5, (a, b)).astype(np.float32)
    params = {"embed": normal(inputs, width), "place": normal(steps, width), "query": normal(width, width), "key": normal(width, width),
              "value": normal(width, width), "join": normal(width, width), "wide": normal(width, 4 * width), "narrow": normal(4 * width, width),
              "out": normal(width, 10), "wide_bias": np.zeros(4 * width, np.float32), "narrow_bias": np.zeros(width, np.float32),
              "out_bias": np.zeros(10, np.float32)}
    for name in ("norm1", "norm2", "norm3"):
        params[f"{name}_scale"], params[f"{name}_shift"] = np.ones(width, np.float32), np.zeros(width, np.float32)
    return params


def attention(params, x):
    """Multi-head self-attention over x [n, steps, width]."""
    steps, width = (int(d) for d in x.shape[1:])
    size = width // HEADS

    def heads(name):
        return sg.transpose(sg.reshape(sg.matmul(x, params[name]), [-1, steps, HEADS, size]), [0, 2, 1, 3])
    query, key, value = heads("query"), heads("key"), heads("value")
    weights = sg.nn.softmax(sg.matmul(query, key, transpose_b=True) * size ** -0.5)         # [n, heads, steps, steps]
    mixed = sg.reshape(sg.transpose(sg.matmul(weights, value), [0, 2, 1, 3]), [-1, steps, width])
    return sg.matmul(mixed, params["join"])


def block(params, x):
    """x plus attention, plus a network of two layers: each reads what is normalised, and is added."""
    x = x + attention(params, norm(params, "norm1", x))
    wide = sg.nn.gelu(sg.matmul(norm(params, "norm2", x), params["wide"]) + params["wide_bias"])
    return x + sg.matmul(wide, params["narrow"]) + params["narrow_bias"]


def norm(params, name, x):
    """Layer normalisation over the last axis."""
    return sg.nn.layer_normalization(x, params[f"{name}_scale"], params[f"{name}_shift"])


def predict(params, x):
    """Logits [n, 10] of sequences x [n, steps, inputs]."""
    x = block(params, sg.matmul(x, params["embed"]) + params["place"])
    return sg.matmul(sg.reduce_mean(norm(params, "norm3", x), axis=1), params["out"]) + params["out_bias"]


def loss(params, x, t):
    """The mean cross-entropy of digits t [n], int32."""
    return sg.reduce_mean(sg.nn.sparse_softmax_cross_entropy_with_logits(labels=t, logits=predict(params, x)))


def batch(rng, n=32):
    """n images as sequences of 8 rows, and their digits."""
    x, t, _, _ = load_digits()
    rows = rng.integers(len(x), size=n)
    return x[rows].reshape(n, 8, 8), t[rows]


def training_step(seed=0, rate=2e-3):
    """In the current graph: (placeholders x and t, variables by name, loss, the step: one of Adam)."""
    feeds = sg.placeholder(sg.float32, [None, 8, 8], name="x"), sg.placeholder(sg.int32, [None], name="t")
    params = {name: sg.Variable(value, name=name) for name, value in init(np.random.default_rng(seed)).items()}
    value = loss(params, *feeds)
    return feeds, params, value, sg.train.AdamOptimizer(rate).minimize(value)
