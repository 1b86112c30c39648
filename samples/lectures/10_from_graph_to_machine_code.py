"""Lecture 10: from graph to machine code. One small expression, followed down to the instructions of this processor.

Python line, graph node, loop, LLVM text, assembly: the same four operations can be pointed at on each floor. Lines set off by a bar
depend on the processor; everything else does not.
"""
# %%
import re
from collections import Counter

import numpy as np
from stage import Stage, asm_loop, llvm_loop, seconds

import staticgraph as sg

stage = Stage("10. From graph to machine code")


# %% The expression: three operations on four arrays.
def layer(x, w, b):
    """relu(x * w + b)"""
    return sg.nn.relu(x * w + b)


rng = np.random.default_rng(0)
args = [rng.normal(size=1024).astype(np.float32) for _ in range(3)]
compiled = sg.function(layer, config=sg.Config(threads=1))
result = compiled(*args)

stage.heading("floor 1: the graph")
stage.graph(compiled.graph(*args))

# %% The scheduler puts operations that walk the same elements into one loop. A value that only the loop needs has no memory at all.
stage.heading("floor 2: the loops")
report = compiled.report(*args)
print(f"{len(report.kernels)} kernel: {report.kernels[0]}; memory for intermediates: {report.arena_bytes} bytes")

# %% LLVM's language: typed, in single-assignment form, for no processor yet. A vector is a type; its width was chosen for this one.
stage.heading("floor 3: LLVM, the main loop: what leads to its first store")
main, lines = llvm_loop(compiled.llvm(*args), "fmul")
stage.machine(lines)
lanes, copies = int(re.search(r"fmul <(\d+) x float>", main)[1]), main.count("fmul")
stage.machine(["", f"one vector holds {lanes} elements; the loop does {copies} vectors per turn, {lanes * copies} elements"])

# %% Assembly: what the processor runs. Find the four operations again.
stage.heading("floor 4: assembly, the main loop")
loop = asm_loop(compiled.asm(*args))
stage.machine(loop)
counts = Counter(row.split()[0] for row in loop)
stage.machine(["", "instructions: " + ", ".join(f"{n} {name}" for name, n in counts.most_common())])
print("relu takes several instructions on some processors: their maximum drops NaN, and ours keeps it")
print("product and sum stay two instructions with two roundings: a fused one would give other bits than NumPy")

# %% Same bits as NumPy, which makes three passes over memory where the kernel makes one.
stage.heading("the result")


def in_numpy(x, w, b):
    """Three loops, two arrays in between."""
    return np.maximum(x * w + b, np.float32(0))


print("equal to NumPy, bit for bit:", result.tobytes() == in_numpy(*args).tobytes())
stage.table(("", "loops", "arrays read", "arrays written"), [("NumPy", 3, 5, 3), ("kernel", 1, 3, 1)])
sizes, speed = [1_000, 10_000, 100_000, 1_000_000], {"one kernel": [], "NumPy, three loops": []}
for n in sizes:
    args = [rng.normal(size=n).astype(np.float32) for _ in range(3)]
    compiled(*args)
    a, b = seconds(lambda: compiled(*args), lambda: in_numpy(*args), repeat=30)
    speed["one kernel"].append(n / a / 1e9)
    speed["NumPy, three loops"].append(n / b / 1e9)
stage.time(f"a million elements: kernel {1e3 / speed['one kernel'][-1]:.0f} us, NumPy {1e3 / speed['NumPy, three loops'][-1]:.0f} us")

# %%
stage.lines("10_kernel.png", "relu(x * w + b): one loop against three", "elements", "billion elements per second",
            {name: (sizes, values) for name, values in speed.items()}, log="xy")
