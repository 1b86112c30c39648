"""Lecture 5: static against dynamic graphs, on a network, on sequences of changing length, and on a branch that depends on data.

Dynamic (define-by-run): Python runs the model; each operation computes and is recorded; the record is walked back. Static (define-then-run):
Python runs the model once, on symbols; what it described is compiled and then runs without Python.
"""
# %%
import numpy as np
from stage import Stage, recorded, seconds

import staticgraph as sg
import staticgraph.dynamic as dy

stage = Stage("5. Static against dynamic")
rng = np.random.default_rng(0)
calls = {"python": 0}                            # how often Python ran the model's code


# %% A network with one hidden layer: one source for both modes.
def mlp(x, w1, w2):
    """The mean square of what comes out."""
    calls["python"] += 1
    return sg.reduce_mean(sg.square(sg.tanh(x @ w1) @ w2))


def dynamic_step(model, *arrays):
    """(value, gradients by all but the first argument) by the tape."""
    x, *weights = (dy.tensor(a, requires_grad=k > 0) for k, a in enumerate(arrays))
    y = model(x, *weights)
    size = recorded(y)
    y.backward()
    return y.item(), [w.grad.numpy() for w in weights], size


stage.heading("a network, 5 steps")
arrays = rng.normal(size=(32, 16)), rng.normal(size=(16, 24)) / 4, rng.normal(size=(24, 1)) / 5
static_step = sg.value_and_grad(mlp, (1, 2))
rows = []
for name, step in (("dynamic", lambda *a: dynamic_step(mlp, *a)), ("static", static_step)):
    calls["python"] = 0
    for _ in range(5):
        value, gradients, *more = step(*arrays)
    rows.append((name, f"{value:.6f}", f"{np.abs(gradients[0]).sum():.6f}", calls["python"], f"{more[0]} operations" if more else "nothing"))
stage.table(("mode", "loss", "sum of |dloss/dw1|", "runs of the Python code", "recorded again each step"), rows)
report = static_step.report(*arrays)
print(f"static: {report.passes[0].nodes} nodes for value and gradients became {len(report.kernels)} kernels, started by one call")

# %% Sequences. In the dynamic mode a loop is a loop.


def by_loop(xs, w, u, h):
    """The last state of a recurrent network: Python's own for, as long as the sequence is."""
    calls["python"] += 1
    for k in range(xs.shape[0]):
        h = sg.tanh(xs[k:k + 1] @ w + h @ u)
    return sg.reduce_sum(h)


def by_scan(xs, w, u, h):
    """The same; the loop is part of the graph, so its length may be known later."""
    calls["python"] += 1
    states = sg.scan(lambda h, x: sg.tanh(sg.expand_dims(x, 0) @ w + h @ u), xs, initializer=h)
    return sg.reduce_sum(states[-1])


stage.heading("sequences of changing length")
w, u, h = rng.normal(size=(4, 8)) / 2, rng.normal(size=(8, 8)) / 3, np.zeros((1, 8))
static_loop, static_scan = sg.value_and_grad(by_loop, (1, 2)), sg.value_and_grad(by_scan, (1, 2))
rows = []
for length in (3, 7, 5, 7, 12, 9):
    xs = rng.normal(size=(length, 4))
    value, gradients, size = dynamic_step(by_loop, xs, w, u, h)
    row = [length, f"{value:.6f}", size]
    for compiled in (static_loop, static_scan):
        calls["python"] = 0
        found, (gw, gu) = compiled(xs, w, u, h)
        assert np.allclose(found, value) and np.allclose(gw, gradients[0]) and np.allclose(gu, gradients[1])
        row += ["traced" if calls["python"] else "reused", len(compiled.graph(xs, w, u, h))]
    rows.append(row)
stage.table(("length", "result", "dynamic: recorded", "Python loop, static", "nodes", "scan, static", "nodes"), rows)
print("a Python loop is unrolled while tracing: a graph per length\nscan: one graph for the first length, a second for all others")


# %% A branch that depends on data.
def choose(x):
    """Python's if."""
    if sg.reduce_sum(x) > 0.0:
        return sg.reduce_sum(sg.square(x))
    return sg.reduce_sum(sg.sin(x))


def choose_in_graph(x):
    """Both branches are in the graph; the run takes one."""
    return sg.cond(sg.reduce_sum(x) > 0.0, lambda: sg.reduce_sum(sg.square(x)), lambda: sg.reduce_sum(sg.sin(x)))


stage.heading("a branch that depends on data")
points = np.array([1.0, 2.0]), np.array([-1.0, -2.0])
for x in points:
    t = dy.tensor(x, requires_grad=True)
    y = choose(t)
    y.backward()
    print(f"dynamic  x = {x}: value {y.item():.4f}, gradient {np.round(t.grad.numpy(), 4)}, made by {y.grad_fn.next_functions[0][0]}")
print("\nstatic, while tracing (there is no number to look at):")
stage.error(lambda: sg.function(choose)(points[0]))
print("\nwith the branch in the graph, as the message says:")
value_and_gradient = sg.value_and_grad(choose_in_graph)
for x in points:
    value, gradient = value_and_gradient(x)
    print(f"static   x = {x}: value {value:.4f}, gradient {np.round(gradient, 4)}")

# %% What it costs: small layers show what each mode pays per operation, large ones that the arithmetic is the same.
widths, times = [8, 32, 128, 512], {"dynamic": [], "static": []}
for width in widths:
    arrays = rng.normal(size=(32, 16)), rng.normal(size=(16, width)) / 4, rng.normal(size=(width, 1))
    compiled = sg.value_and_grad(mlp, (1, 2))
    compiled(*arrays)
    a, b = seconds(lambda: dynamic_step(mlp, *arrays), lambda: compiled(*arrays))
    times["dynamic"].append(1e6 * a)
    times["static"].append(1e6 * b)
print()
stage.time(f"one step at width 8: dynamic {times['dynamic'][0]:.0f} us, static {times['static'][0]:.0f} us; "
           f"at width 512: {times['dynamic'][-1]:.0f} us, {times['static'][-1]:.0f} us")
stage.lines("05_static_and_dynamic.png", "Loss and gradients of a small network", "width of the hidden layer", "microseconds per step",
            {name: (widths, t) for name, t in times.items()}, log="xy")
