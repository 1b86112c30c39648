"""Lecture 4: the derivative is a sum over all paths, and reverse mode adds it up without walking them.

A change of x reaches f along every path of the graph. Along one path local derivatives multiply; over the paths they add. That is why
every engine writes `grad += ...` and never `grad = ...`.
"""
# %%
import math

import numpy as np
from stage import Stage

import staticgraph as sg
import staticgraph.dynamic as dy

stage = Stage("4. Sum over paths: reused variables, diamonds, and why +=")


# %% A diamond: x goes to f by two ways, and on one of them it is used twice.
def diamond(x):
    """sin(x) * x**2, written with a product of x by itself."""
    return sg.sin(x) * (x * x)


x = 2.0
with sg.Graph().as_default() as ledger:
    px = sg.placeholder(sg.float64, [], name="x")
    pf = diamond(px)
    nodes = {n.id: n for n in ledger.ir.nodes}
    names = {"placeholder": "x", "sin": "a = sin(x)", "mul": "b = x * x"}
    label = {n: "f = a * b" if n is pf.node else names[n.op.name] for n in nodes.values()}
    stage.heading("the graph")
    stage.graph(ledger.ir, label)

# %% Every path from x to f, by following operands backwards. b has x as its first and as its second operand: two edges, two paths.
local = {("f = a * b", 0): x * x, ("f = a * b", 1): math.sin(x), ("a = sin(x)", 0): math.cos(x), ("b = x * x", 0): x, ("b = x * x", 1): x}


def paths(node):
    """Paths from x to ``node``: lists of (operation, which operand)."""
    if label[node] == "x":
        return [[]]
    return [[*before, (label[node], k)] for k, operand in enumerate(node.inputs) for before in paths(operand)]


stage.heading("the paths from x to f, at x = 2")
rows = []
for path in paths(pf.node):
    product = math.prod(local[edge] for edge in path)
    rows.append((", ".join(f"operand {k + 1} of {op[0]}" for op, k in path), " * ".join(f"{local[e]:.4f}" for e in path), f"{product:.4f}"))
stage.table(("along", "local derivatives", "product"), rows)
total = sum(float(r[2]) for r in rows)
print(f"sum {total:.3f}; mathematics: x**2 cos x + 2 x sin x = {x * x * math.cos(x) + 2 * x * math.sin(x):.3f}; "
      f"reverse mode: {sg.grad(diamond)(np.float64(x)):.3f}")

# %% What an engine would give that writes `=`: only the path that arrives last.
stage.heading("with = in place of +=")
overwritten = {k: float(r[2]) for k, r in enumerate(rows, 1)}
for k, value in overwritten.items():
    print(f"if path {k} arrives last: df/dx = {value:.4f} (wrong)")

# %% The same rule lets `.grad` of a define-by-run tensor add up over several backward passes: wanted for large batches, a bug if forgotten.
stage.heading("accumulation in the dynamic mode")
t = dy.tensor(x, dtype="float64", requires_grad=True)
for k in (1, 2):
    diamond(t).backward()
    print(f"after backward number {k}: x.grad = {t.grad.item():.3f}")
t.grad = None                                    # what optimizer.zero_grad() does
diamond(t).backward()
print(f"after zero_grad and backward: x.grad = {t.grad.item():.3f}")

# %% In a static graph the sum is visible: add nodes that belong to x.
stage.heading("in the static graph the sum is nodes")
graph = sg.value_and_grad(diamond).graph(np.float64(x))
sums = [n for n in graph.nodes if n.op.name == "add" and n.role.startswith("adjoint")]
for n in sums:
    print(f"%{n.id} = add(%{n.inputs[0].id}, %{n.inputs[1].id}): {n.role}")
print(f"{len(rows)} paths need {len(rows) - 1} additions")

# %% Diamonds in a row: paths double with each, edges grow by two. Reverse mode visits every edge once.
stage.heading("a chain of diamonds: v = v * v, again and again")


def chain(x, length):
    """x**(2**length)"""
    for _ in range(length):
        x = x * x
    return x


rows, lengths = [], [1, 2, 4, 8, 16, 32]
for n in lengths:
    graph = sg.value_and_grad(lambda v, n=n: chain(v, n)).graph(np.float64(1.0))
    found = sg.grad(lambda v, n=n: chain(v, n))(np.float64(1.0))
    rows.append((n, 2 ** n, 2 * n, len(graph), f"{found:.0f}"))
stage.table(("squarings", "paths", "edges", "nodes with the gradient", "derivative at 1"), rows)
print("at x = 1 every local derivative is 1, so each path counts 1 and the derivative is the number of paths")

# %%
xs, bs = f"{x:.4f}", [f"{v:.4f}" for v in (math.sin(x), x * x, math.sin(x) * x * x, sg.grad(diamond)(np.float64(x)))]
stage.blackboard("04_diamond.png", "Three paths from x to f = sin(x) * (x * x), at x = 2",
                 {"x": (0, 0.5, xs, bs[3]), "a = sin(x)": (1.4, 1.15, bs[0], bs[1]), "b = x * x": (1.4, -0.15, bs[1], bs[0]),
                  "f = a * b": (2.8, 0.5, bs[2], "1.0000")},
                 [("x", "a = sin(x)", "cos x"), ("x", "b = x * x", "x"), ("x", "b = x * x", "x"), ("a = sin(x)", "f = a * b", "b"),
                  ("b = x * x", "f = a * b", "a")])
stage.lines("04_paths_and_edges.png", "Paths double, edges add", "squarings", "count",
            {"paths": (lengths, [r[1] for r in rows]), "nodes with the gradient": (lengths, [r[3] for r in rows])}, log="y")
