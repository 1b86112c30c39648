"""Lecture 7: what reverse mode has to remember, and how checkpoints trade memory against a second forward pass.

The backward pass needs values of the forward pass, in reverse order: the first ones must be kept longest. A checkpoint keeps only the
value at the start of a segment and computes the rest again when the backward pass comes there.
"""
# %%
import math
import tracemalloc

import numpy as np
from stage import Stage, seconds, work

import staticgraph as sg
import staticgraph.dynamic as dy

stage = Stage("7. Memory: what reverse mode stores, and checkpoints")
rng = np.random.default_rng(0)

# %% Which values does the backward rule of an operation read? Found by looking at who reads what in a gradient's graph.
stage.heading("what the backward pass reads")
x, y = rng.normal(size=(4, 4)), rng.normal(size=(4, 4))
operations = {"x + y": lambda x, y: x + y, "x * y": lambda x, y: x * y, "x @ y": lambda x, y: x @ y, "sin(x)": lambda x, y: sg.sin(x),
              "exp(x)": lambda x, y: sg.exp(x), "relu(x)": lambda x, y: sg.nn.relu(x), "sum(x)": lambda x, y: sg.reduce_sum(x, axis=0)}
rows = []
for name, operation in operations.items():
    def weighted(x, y, c, operation=operation):
        """A scalar of the operation's result; ``c`` stands for whatever comes after it."""
        return sg.reduce_sum(operation(x, y) * c)
    with sg.Graph().as_default():
        tx, ty = sg.placeholder(sg.float64, x.shape), sg.placeholder(sg.float64, y.shape)
        out = operation(tx, ty)
        wanted = [t for t in (tx, ty) if t.node in out.node.inputs]
        back = sg.gradients(out, wanted, grad_ys=sg.ones_like(out))
        needed, stack = set(), [g.node for g in back]
        while stack:                             # from the gradients up to what was there before
            for i in stack.pop().inputs:
                if i in (tx.node, ty.node, out.node):
                    needed.add({tx.node: "x", ty.node: "y", out.node: "the result"}[i])
                else:
                    stack.append(i)
    rows.append((name, ", ".join(n for n in ("x", "y", "the result") if n in needed) or "nothing but shapes"))
stage.table(("operation", "values kept for its backward rule"), rows)

# %% A deep chain: 36 layers. The unit of memory from here on is one layer's result.
LAYERS, ROWS, WIDTH = 36, 1024, 32
x = rng.normal(size=(ROWS, WIDTH))
weights = [rng.normal(size=(WIDTH, WIDTH)) / 4 for _ in range(LAYERS)]
UNIT = x.nbytes


def layers(h, ws):
    """relu(h @ w), layer by layer."""
    for w in ws:
        h = sg.nn.relu(h @ w)
    return h


def end(h):
    """One number from the last layer."""
    return sg.reduce_sum(sg.square(h))


def plain(x, ws):
    """Everything is kept."""
    return end(layers(x, ws))


def in_segments(length):
    """A checkpoint at the start of every segment."""
    def model(x, ws):
        for k in range(0, LAYERS, length):
            x = sg.checkpoint(layers)(x, ws[k:k + length])
        return end(x)
    return model


# %% Static: the compiler plans one block of memory for a run, the arena; its size is known before anything runs.
def by_graph(model):
    """(memory in units, scalar operations, gradients, a function to time)"""
    f = sg.value_and_grad(model, 1)
    _, gradients = f(x, weights)
    return f.report(x, weights).arena_bytes / UNIT, work(sg.parse(f.text(x, weights))), gradients, lambda: f(x, weights)


stage.heading(f"static: memory and work for {LAYERS} layers")
lengths = [1, 2, 3, 6, 12, 18, 36]
base_memory, base_work, base_gradients, run_plain = by_graph(plain)
rows, memory, runs = [("no checkpoints", "", f"{base_memory:.1f}", "1.00", True)], [], {}
for length in lengths:
    units, operations, gradients, runs[length] = by_graph(in_segments(length))
    same = all(a.tobytes() == b.tobytes() for a, b in zip(gradients, base_gradients))
    rows.append((f"segments of {length}", LAYERS / length + length, f"{units:.1f}", f"{operations / base_work:.2f}", same))
    memory.append(units)
stage.table(("", "theory: n / s + s", "memory", "work", "same bits"), rows)
best = lengths[memory.index(min(memory))]
print(f"the best segment has about sqrt({LAYERS}) = {math.isqrt(LAYERS)} layers: measured {best}\nthe price is one forward pass, however long the segments")
t_plain, t_best = seconds(run_plain, runs[6], repeat=5)
stage.time(f"one evaluation: without checkpoints {1e3 * t_plain:.1f} ms, with segments of 6 {1e3 * t_best:.1f} ms: {t_best / t_plain:.2f} times")


# %% By hand: compute forward, keep the boundaries; go back segment by segment, computing each again.
def by_hand_in_a_graph(x, ws):
    """Gradients by the weights, with the second forward pass written out."""
    boundaries = [x]
    for k in range(0, LAYERS, 6):
        boundaries.append(layers(boundaries[-1], ws[k:k + 6]))
    cotangent, = sg.gradients(end(boundaries[-1]), [boundaries[-1]])
    found = []
    for k in reversed(range(0, LAYERS, 6)):
        start = boundaries[k // 6]
        again = layers(start, ws[k:k + 6])
        cotangent, *by_weights = sg.gradients(again, [start, *ws[k:k + 6]], grad_ys=cotangent)
        found = by_weights + found
    return found


stage.heading("static, by hand")
f = sg.function(by_hand_in_a_graph)
gradients = f(x, weights)
print(f"memory {f.report(x, weights).arena_bytes / UNIT:.1f}, work {work(sg.parse(f.text(x, weights))) / base_work:.2f}: nothing was saved!")
print("The second forward pass is equal to the first, and the compiler merges what is equal (lecture 6).")
print("sg.checkpoint puts a barrier between the two, which no pass looks through.")


# %% Dynamic: the record of each operation holds what its rule reads. Measured by Python's own account of memory.
def by_tape(run):
    """(bytes held after the forward pass, peak, gradients); the gradients themselves are not counted."""
    ws = [dy.tensor(w, requires_grad=True) for w in weights]
    start = dy.tensor(x)
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    held = run(start, ws)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    grads = sum(w.grad.numpy().nbytes for w in ws)
    return held - before, peak - before - grads, [w.grad.numpy() for w in ws]


def automatic(model):
    """Forward, then ``backward``."""
    def run(start, ws):
        y = model(start, ws)
        held = tracemalloc.get_traced_memory()[0]
        y.backward()
        return held
    return run


def by_hand(start, ws):
    """The same schedule as above; the dynamic mode does what it is told."""
    boundaries = [start]
    with dy.no_grad():                           # nothing is recorded: only the boundaries stay
        for k in range(0, LAYERS, 6):
            boundaries.append(layers(boundaries[-1], ws[k:k + 6]))
    held = tracemalloc.get_traced_memory()[0]
    last = boundaries.pop().requires_grad_()
    end(last).backward()
    cotangent = last.grad
    for k in reversed(range(0, LAYERS, 6)):
        begin = boundaries.pop().requires_grad_()
        begin.grad = None
        layers(begin, ws[k:k + 6]).backward(cotangent)       # adds to the weights' gradients
        cotangent = begin.grad
    return held


stage.heading("dynamic: memory, as parts of the peak without checkpoints")
rows, most = [], 0
for name, run in (("no checkpoints", automatic(plain)), ("segments of 6, dy.checkpoint", automatic(in_segments(6))), ("segments of 6, by hand", by_hand)):
    held, peak, gradients = by_tape(run)
    most = most or peak
    rows.append((name, f"{held / most:.2f}", f"{peak / most:.2f}", all(np.allclose(a, b, rtol=1e-10) for a, b in zip(gradients, base_gradients))))
stage.table(("", "kept after the forward pass", "peak", "gradients agree"), rows)

# %%
stage.lines("07_checkpoints.png", f"Memory of a gradient through {LAYERS} layers", "layers per segment", "results of layers in memory",
            {"measured": (lengths, memory), "n / s + s": (lengths, [LAYERS / s + s for s in lengths]),
             "no checkpoints": (lengths, [base_memory] * len(lengths))}, log="x")
