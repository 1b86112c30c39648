"""staticgraph: TF1-style graphs; one native function per workload, called through ``Session.make_callable``."""
import staticgraph as sg

from ..workloads.elementwise import deep_consts
from . import THREADS, Step


def version():
    return f"staticgraph {sg.__version__}"


def _session():
    return sg.Session(config=sg.Config(threads=THREADS))


def _holders(inputs, names):
    return [sg.placeholder(inputs[k].dtype, inputs[k].shape, k) for k in names]


def _call(fn, inputs, keys, post=None):
    """``fn(tensors by name)`` gives the fetches; every input is fed."""
    with sg.Graph().as_default():
        names = list(inputs)
        fed = _holders(inputs, names)
        fetches = list(fn(dict(zip(names, fed))))
        call = _session().make_callable(fetches, fed)
    values, last = [inputs[k] for k in names], {}

    def run():
        last["r"] = call(*values)

    def outputs():
        found = dict(zip(keys, last["r"]))
        return post(found) if post else found
    return Step(run, outputs)


def _train(loss_fn, adam=False):
    def build(i, w):
        with sg.Graph().as_default():
            names = list(w.consts.get("weights") or w.params)
            data = [k for k in i if k not in w.params]
            fed = _holders(i, data)
            weights = {k: sg.get_variable(k, initializer=i[k]) for k in names}
            loss = loss_fn({**weights, **dict(zip(data, fed))})
            c = w.consts
            if adam:
                # TF1's Adam adds epsilon before the correction of v: this one makes the checked first step everyone's
                opt = sg.train.AdamOptimizer(c["lr"], c["beta1"], c["beta2"], c["eps"] * (1 - c["beta2"]) ** 0.5)
            else:
                opt = sg.train.GradientDescentOptimizer(c["lr"])
            step = opt.minimize(loss, var_list=list(weights.values()))
            session = _session()
            session.run(sg.global_variables_initializer())
            call = session.make_callable([loss, step], fed)
        values, last = [i[k] for k in data], {}

        def run():
            last["loss"] = call(*values)[0]

        def outputs():
            out = {**last, **session.run(weights)}
            if adam:
                for k in names:
                    out["m_" + k] = session.run(opt.get_slot(weights[k], "m"))
                    out["v_" + k] = session.run(opt.get_slot(weights[k], "v"))
                out["t"] = 1.0
            return out
        return Step(run, outputs)
    return build


def _grads(loss_fn, names, loss="loss"):
    def build(i, w):
        def fn(d):
            value = loss_fn(d, w)
            return [value, *sg.gradients(value, [d[k] for k in names])]
        return _call(fn, i, (loss, *("d_" + k for k in names)))
    return build


def _rows(f, names):
    def build(i, w):
        def fn(d):
            y = f(d, w)
            return [y, *sg.gradients(y, [d[k] for k in names], grad_ys=d["dy"])]
        return _call(fn, i, ("y", *("d_" + k for k in names)))
    return build


# ---- models ------------------------------------------------------------------------------------------------------------------


def _xent(logits, y):
    return sg.reduce_mean(sg.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))


def _mlp(layers):
    def loss(p):
        h = p["x"]
        for k in range(1, layers + 1):
            h = sg.matmul(h, p[f"W{k}"]) + p[f"b{k}"]
            if k < layers:
                h = sg.nn.relu(h)
        return _xent(h, p["y"])
    return loss


def _conv(x, w, b, padding, form):
    h = sg.nn.conv2d(x, sg.transpose(w, [2, 3, 1, 0]), [1, 1, 1, 1], padding, data_format=form)
    return sg.nn.bias_add(h, b, data_format=form)


def _pool(x):
    return sg.nn.max_pool(x, [1, 1, 2, 2], [1, 1, 2, 2], "VALID", data_format="NCHW")


def _lenet(p):
    h = sg.reshape(p["x"], [-1, 1, 28, 28])
    h = _pool(sg.nn.relu(_conv(h, p["C1"], p["c1"], "SAME", "NCHW")))
    h = _pool(sg.nn.relu(_conv(h, p["C2"], p["c2"], "VALID", "NCHW")))
    h = sg.reshape(h, [-1, 400])
    for k in (1, 2):
        h = sg.nn.relu(sg.matmul(h, p[f"W{k}"]) + p[f"b{k}"])
    return _xent(sg.matmul(h, p["W3"]) + p["b3"], p["y"])


def _block(form):
    def loss(p, w):
        h = sg.nn.relu(_conv(p["x"], p["W1"], p["b1"], "SAME", form))
        out = sg.nn.relu(_conv(h, p["W2"], p["b2"], "SAME", form) + p["x"])
        return 0.5 * sg.reduce_mean(sg.square(out))
    return loss


def _lstm(p):
    x = p["x"]
    steps, batch, inputs = x.shape.as_list()
    hidden = p["Wh"].shape.as_list()[0]
    projected = sg.unstack(sg.reshape(sg.matmul(sg.reshape(x, [steps * batch, inputs]), p["Wx"]) + p["b"], [steps, batch, 4 * hidden]))
    h = c = sg.zeros([batch, hidden])
    for z in projected:
        i, f, g, o = sg.split(z + sg.matmul(h, p["Wh"]), 4, 1)
        c = sg.sigmoid(f) * c + sg.sigmoid(i) * sg.tanh(g)
        h = sg.sigmoid(o) * sg.tanh(c)
    return _xent(sg.matmul(h, p["Wo"]) + p["bo"], p["y"])


def _embedding(p):
    e = sg.gather(p["E"], p["ids"]) - p["target"]
    return 0.5 * sg.reduce_sum(sg.square(e)) / e.shape.as_list()[0]


def _norm(x, gamma, beta, eps):
    mean, variance = sg.nn.moments(x, [-1], keep_dims=True)
    return (x - mean) * sg.rsqrt(variance + eps) * gamma + beta


def _transformer(p, w):
    heads, eps = w.consts["heads"], w.consts["eps"]
    x = p["x"]
    n, s, e = x.shape.as_list()

    def linear(t, weights, bias):
        wide = sg.matmul(sg.reshape(t, [n * s, -1]), weights) + bias
        return sg.reshape(wide, [n, s, -1])
    qkv = linear(_norm(x, p["g1"], p["c1"], eps), p["Wqkv"], p["bqkv"])
    q, k, v = sg.unstack(sg.transpose(sg.reshape(qkv, [n, s, 3, heads, e // heads]), [2, 0, 3, 1, 4]))
    weights = sg.nn.softmax(sg.matmul(q, k, transpose_b=True) * (e // heads) ** -0.5)
    x = x + linear(sg.reshape(sg.transpose(sg.matmul(weights, v), [0, 2, 1, 3]), [n, s, e]), p["Wo"], p["bo"])
    u = sg.nn.gelu(linear(_norm(x, p["g2"], p["c2"], eps), p["W1"], p["b1"]), approximate=True)
    return 0.5 * sg.reduce_mean(sg.square(x + linear(u, p["W2"], p["b2"])))


def _normal_cdf(x):
    return 0.5 * (1 + sg.erf(x * 0.5 ** 0.5))


def _price(d, w):
    s, k, t, v = d["S"], d["K"], d["T"], d["v"]
    rate = w.consts["rate"]
    spread = v * sg.sqrt(t)
    d1 = (sg.log(s / k) + (rate + 0.5 * v * v) * t) / spread
    return s * _normal_cdf(d1) - k * sg.exp(-rate * t) * _normal_cdf(d1 - spread)


def _price_and_greeks(i, w):
    def fn(d):
        price = _price(d, w)
        return [price, *sg.gradients(price, [d["S"], d["v"]])]
    return _call(fn, i, ("price", "d_S", "d_v"))


def _bmm(i, w):
    def fn(d):
        c = sg.matmul(d["A"], d["B"])
        return [c, *sg.gradients(c, [d["A"], d["B"]], grad_ys=d["dC"])]
    return _call(fn, i, ("C", "d_A", "d_B"))


def _hvp(i, w):
    names = ("W1", "b1", "W2", "b2")

    def fn(d):
        weights = [d[k] for k in names]
        h = sg.tanh(sg.matmul(d["x"], d["W1"]) + d["b1"])
        loss = _xent(sg.matmul(h, d["W2"]) + d["b2"], d["y"])
        return [loss, *sg.gradients(sg.gradients(loss, weights), weights, [d["v_" + k] for k in names])]
    return _call(fn, i, ("loss", *("hv_" + k for k in names)))


def _logreg(d, w):
    z = sg.squeeze(sg.matmul(d["X"], sg.expand_dims(d["w"], 1)), [1])
    return sg.reduce_mean(sg.nn.sigmoid_cross_entropy_with_logits(labels=d["y"], logits=z))


def _deep(d, w):
    x, a, b = d["x"], d["a"], d["b"]
    for c in deep_consts(w.consts["ops"]):
        x = (sg.sin(x) * a + x) * c + b
    return sg.reduce_sum(x)


def _reductions(i, w):
    return _call(lambda d: [sg.reduce_sum(d["x"]), *sg.nn.moments(d["x"], [0])], i, ("sum", "mean", "var"))


def _gemm(i, w):
    return _call(lambda d: [sg.matmul(d["A"], d["B"])], i, ("C",))


_BLOCK = ("x", "W1", "b1", "W2", "b2")
BUILDERS = {
    "tiny_scalar": _grads(lambda d, w: (d["x"] + d["y"]) * sg.sin(d["x"]), ("x", "y"), loss="f"),
    "mlp_small": _train(_mlp(2)), "mlp_large": _train(_mlp(3), adam=True), "mlp_hvp": _hvp, "lenet": _train(_lenet),
    "conv_nchw": _grads(_block("NCHW"), _BLOCK), "conv_nhwc": _grads(_block("NHWC"), _BLOCK),
    "lstm": _train(_lstm), "embedding": _train(_embedding),
    "transformer": lambda i, w: _grads(_transformer, ("x", *w.consts["weights"]))(i, w),
    "bs_fwd": lambda i, w: _call(lambda d: [_price(d, w)], i, ("price",)), "bs_grad": _price_and_greeks, "bmm": _bmm,
    "softmax_rows": _rows(lambda d, w: sg.nn.softmax(d["x"]), ("x",)),
    "layernorm_rows": _rows(lambda d, w: _norm(d["x"], d["gamma"], d["beta"], w.consts["eps"]), ("x", "gamma", "beta")),
    "reductions": _reductions, "logreg": _grads(_logreg, ("w",)),
    "deep_2000": _grads(_deep, ("x", "a", "b")), "deep_20000": _grads(_deep, ("x", "a", "b")),
    **{f"gemm_{n}": _gemm for n in (64, 128, 256, 512, 1024, 2048)},
}
