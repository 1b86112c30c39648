"""One model twice: as a static graph and define-by-run. The op records are the same, so the numbers agree."""

import time

import numpy as np

import staticgraph as sg
import staticgraph.dynamic as dy

rng = np.random.default_rng(0)
x, w1, w2 = rng.normal(size=(64, 32)), rng.normal(size=(32, 48)) / 6, rng.normal(size=(48, 1)) / 7


def loss(a, p, q):
    """Works on tensors of both modes."""
    return sg.reduce_mean(sg.square(sg.matmul(sg.tanh(sg.matmul(a, p)), q)))


# define-then-run: the whole forward and backward pass is known before it runs, and compiled into one function
with sg.Graph().as_default():
    feeds = [sg.placeholder(sg.float64, a.shape) for a in (x, w1, w2)]
    value = loss(*feeds)
    gradients = sg.gradients(value, feeds[1:])
    static = sg.Session().make_callable([value, *gradients], feeds)
static_out = static(x, w1, w2)


# define-by-run: each operation runs at once and leaves a record on the tape
def dynamic(a, p, q):
    """The loss and its gradients by the tape."""
    p, q = dy.tensor(p, requires_grad=True), dy.tensor(q, requires_grad=True)
    total = loss(dy.tensor(a), p, q)
    total.backward()
    return total.detach().numpy(), p.grad.numpy(), q.grad.numpy()


dynamic_out = dynamic(x, w1, w2)
for name, s, d in zip(("loss", "dloss/dw1", "dloss/dw2"), static_out, dynamic_out):
    print(f"{name:10s} largest difference {np.abs(s - d).max():.1e}")


def seconds(f):
    """The best of some calls."""
    best = 1e9
    for _ in range(50):
        start = time.perf_counter()
        f(x, w1, w2)
        best = min(best, time.perf_counter() - start)
    return best


a, b = seconds(static), seconds(dynamic)
print(f"static {1e6 * a:.0f} us, dynamic {1e6 * b:.0f} us per evaluation: {b / a:.1f} times")
