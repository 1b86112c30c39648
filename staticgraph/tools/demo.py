"""``staticgraph demo``: a classifier of handwritten digits, trained natively, and what the compiler made of it."""

from __future__ import annotations

import itertools
from time import perf_counter
from typing import Any

import numpy as np

from ..data import load_digits
from .progress import progress

HIDDEN = (128, 64)


def model(sg: Any, seed: int) -> tuple[Any, ...]:
    """Placeholders, logits, loss, accuracy and training step of a network with two hidden layers."""
    x = sg.placeholder(sg.float32, [None, 64], name="images")
    y = sg.placeholder(sg.int32, [None], name="labels")
    h: Any = x
    sizes = (64, *HIDDEN, 10)
    for k, (a, b) in enumerate(itertools.pairwise(sizes)):
        with sg.name_scope(f"layer{k + 1}"):
            w = sg.Variable(sg.random_normal([a, b], stddev=(2 / a) ** 0.5, seed=seed + k), name="w")
            c = sg.Variable(sg.zeros([b]), name="b")
            h = sg.matmul(h, w) + c
            if k < len(sizes) - 2:
                h = sg.nn.relu(h)
    loss = sg.reduce_mean(sg.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=h), name="loss")
    correct = sg.reduce_mean(sg.cast(sg.equal(sg.argmax(h, 1, output_type=sg.int32), y), sg.float32), name="accuracy")
    step = sg.train.AdamOptimizer(2e-3).minimize(loss)
    return x, y, loss, correct, step


def run(epochs: int = 30, batch: int = 64, seed: int = 1, plot: str = "demo-loss.png") -> int:
    """Train, test, report. Returns 0 if the test accuracy is at least 97 %."""
    import staticgraph as sg
    x_train, y_train, x_test, y_test = load_digits()
    graph = sg.Graph()
    with graph.as_default():
        x, y, loss, accuracy, step = model(sg, seed)
        init = sg.global_variables_initializer()
    print(f"{len(x_train)} training and {len(x_test)} test images of 8x8; network 64-{'-'.join(map(str, HIDDEN))}-10, Adam, batches of {batch}")
    rng = np.random.default_rng(seed)
    losses: list[float] = []
    with sg.Session(graph=graph) as sess:
        sess.run(init)
        train = sess.make_callable([step, loss], [x, y])
        start = perf_counter()
        with progress(epochs, "training") as bar:
            for epoch in range(epochs):
                order = rng.permutation(len(x_train))
                for at in range(0, len(order) - batch + 1, batch):
                    rows = order[at:at + batch]
                    losses.append(float(train(x_train[rows], y_train[rows])[1]))
                bar.step(f"epoch {epoch + 1}  loss {np.mean(losses[-20:]):.4f}")
        seconds = perf_counter() - start
        executable = sess.last_executable
        reached = float(sess.run(accuracy, {x: x_test, y: y_test}))
        print(f"trained {len(losses)} steps in {seconds:.2f} s; test accuracy {100 * reached:.2f} %")
        _report(executable, sess, x_train[:batch], y_train[:batch], train)
    _curve(losses, plot)
    return 0 if reached >= 0.97 else 1


def _report(executable: Any, sess: Any, xs: Any, ys: Any, train: Any) -> None:
    """The compiler's part: passes, kernels, memory, time beside the interpreter's."""
    report = executable.report
    print("\nthe training step as the compiler saw it")
    before = report.passes[0].nodes
    for p in report.passes:
        print(f"  {p.name:12s} {p.nodes:5d} nodes" + (f"   {1e3 * p.seconds:7.2f} ms" if p.seconds else ""))
    print(f"  {before} nodes became {len(report.kernels)} kernels; arena {report.arena_bytes} bytes")
    for title in report.kernels:
        print(f"    {title[:100]}")
    print("  compile: " + ", ".join(f"{k} {1e3 * v:.0f} ms" for k, v in report.seconds.items()))
    variant = next(iter(executable.variants.values()))
    memory = variant.program.arena.chart(56).splitlines()
    print(f"  lifetimes in the arena ({len(memory)} buffers, offset and bytes at the left)")
    for line in memory[:14]:
        print("    " + line)
    feeds = [xs, ys]
    compiled = _best(lambda: train(*feeds), 200)
    order = [i for i in executable.inputs if i.kind == "feed"]
    by_rank = {2: xs, 1: ys}
    values = [by_rank[len(i.aval.shape)] for i in order]
    interpreted = _best(lambda: executable.interpret(values, sess._store), 5)
    print(f"  one step: {1e6 * compiled:.0f} us compiled, {1e6 * interpreted:.0f} us in the NumPy interpreter ({interpreted / compiled:.0f} times as long)")


def _best(f: Any, count: int) -> float:
    best = float("inf")
    for _ in range(count):
        start = perf_counter()
        f()
        best = min(best, perf_counter() - start)
    return best


def _curve(losses: list[float], plot: str) -> None:
    """The loss curve: a picture where matplotlib is installed, else text."""
    smooth = [float(np.mean(losses[max(0, k - 9):k + 1])) for k in range(len(losses))]
    try:
        import matplotlib
        matplotlib.use("Agg")
        import matplotlib.pyplot as plt
    except ImportError:
        print("\nloss over steps")
        top = max(smooth)
        for row in range(8, 0, -1):
            cells = [smooth[k * len(smooth) // 64] for k in range(64)]
            print(f"{top * row / 8:8.3f} |" + "".join("#" if c >= top * (row - 0.5) / 8 else " " for c in cells))
        return
    figure, axes = plt.subplots(figsize=(7, 4))
    axes.plot(losses, color="#c8d4e8", label="each step")
    axes.plot(smooth, color="#1f4e9c", label="mean of 10")
    axes.set(xlabel="step", ylabel="loss", yscale="log", title="Training loss")
    axes.legend()
    axes.grid(alpha=0.3)
    figure.tight_layout()
    figure.savefig(plot, dpi=120)
    print(f"loss curve written to {plot}")
