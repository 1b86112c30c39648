"""Whole programs of one kernel: fused elementwise chains beside a copy, sums beside NumPy's, the cost of a prepared call.

Results are new arrays, as a session gives them; so are the peers'.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from kernels import in_turns

import staticgraph as sg

CHAINS: dict[str, Callable[..., Any]] = {
    "x*2+1": lambda x: x * 2.0 + 1.0,
    "relu(x*y+x)-y": lambda x, y: sg.nn.relu(x * y + x) - y,
    "|x|*max(x,y)/(y*y+1)": lambda x, y: abs(x) * sg.maximum(x, y) / (y * y + 1.0),
    "tanh(x)": lambda x: sg.tanh(x),
    "exp(x)*sigmoid(y)": lambda x, y: sg.exp(x) * sg.sigmoid(y),
}


def prepared(f: Callable[..., Any], arrays: Sequence[np.ndarray[Any, Any]]) -> Callable[[], Any]:
    """``f`` of placeholders like the arrays, compiled for one thread and bound to them."""
    with sg.Graph().as_default():
        feeds = [sg.placeholder(a.dtype, a.shape) for a in arrays]
        call = sg.Session(config=sg.Config(threads=1)).make_callable(f(*feeds), feeds)
    return lambda: call(*arrays)


def run(quick: bool) -> None:
    """Print the tables."""
    rng = np.random.default_rng(0)
    seconds = 0.2 if quick else 1.0
    print("\nfused chains, float32: bytes per second as a share of a copy's (np.copy)")
    for size in (1 << 14, 1 << 18, 1 << 22):
        for name, f in CHAINS.items():
            arrays = [rng.uniform(-2, 2, size).astype("f4") for _ in range(f.__code__.co_argcount)]
            ours, copy = in_turns([prepared(f, arrays), lambda x=arrays[0]: np.copy(x)], seconds)
            share = (len(arrays) + 1) / 2 * copy / ours
            print(f"  {size:8d} {name:22s} {share:6.2f}   {4e-9 * size * (len(arrays) + 1) / ours:6.1f} GB/s")
    print("\nsums: NumPy's time / ours, and errors against exact sums")
    for size, dtype in ((10_000_000, "f4"), (10_000_000, "f8"), (10_000, "f4")):
        x = rng.uniform(0, 1, size).astype(dtype)
        call = prepared(sg.reduce_sum, [x])
        ours, numpy = in_turns([call, lambda x=x: x.sum()], seconds)
        exact = float(np.sum(x, dtype=np.longdouble))
        running = float(np.cumsum(x, dtype=dtype)[-1])
        errors = [abs(float(v) - exact) / exact for v in (call(), x.sum(), running)]
        print(f"  {size:9d} {dtype}  {numpy / ours:5.2f}   relative error: ours {errors[0]:.1e}, NumPy {errors[1]:.1e}, running sum {errors[2]:.1e}")
    print("\na prepared call with 3 small feeds")
    small = [np.ones(4, "f4")] * 3

    def empty(a: Any, b: Any, c: Any) -> None:
        """Nothing."""
    ours, nothing = in_turns([prepared(lambda a, b, c: a * b + c, small), lambda: empty(*small)], seconds)
    print(f"  {1e6 * ours:.2f} us; an empty Python call {1e6 * nothing:.2f} us")
