"""Lecture 1: the graph of f = (x + y) * sin(x), its value and both derivatives, in every form the project has.

A computation is a graph: nodes are elementary operations, edges say whose result goes where. Each node knows one thing about
derivatives: how its own result reacts to its own operands. The chain rule does the rest.
"""
# %%
import math
import tempfile

import numpy as np
from stage import Stage

import staticgraph as sg
import staticgraph.dynamic as dy
from staticgraph.ir.evaluate import evaluate

from scalar_engine import Scalar                 # isort: skip  (stage.py makes the samples' folder known)

stage = Stage("1. The graph of f = (x + y) * sin(x)")

# %% By hand. Left to right: values. Right to left: adjoints, "how much does f change per change of this node".
stage.heading("on the blackboard, at x = 2, y = 3")
x, y = 2.0, 3.0
a = x + y
b = math.sin(x)
f = a * b

f_bar = 1.0                                      # f reacts to itself one to one
a_bar = f_bar * b                                # f = a * b, so df/da = b
b_bar = f_bar * a                                #           and df/db = a
x_bar = a_bar * 1.0 + b_bar * math.cos(x)        # x is used twice: by a (da/dx = 1) and by b (db/dx = cos x); both count
y_bar = a_bar * 1.0                              # y is used once, by a

stage.table(("node", "computed as", "value", "adjoint"),
            [("x", "given", f"{x:.4f}", f"{x_bar:.4f}"), ("y", "given", f"{y:.4f}", f"{y_bar:.4f}"),
             ("a", "x + y", f"{a:.4f}", f"{a_bar:.4f}"), ("b", "sin(x)", f"{b:.4f}", f"{b_bar:.4f}"), ("f", "a * b", f"{f:.4f}", f"{f_bar:.4f}")])


# %% A program that does the same: numbers that remember their operands and local derivatives (samples/scalar_engine.py, one page).
sx, sy = Scalar(x), Scalar(y)
sf = (sx + sy) * sx.sin()
sf.backward()                                    # from f to x and y, adding one term per path
scalar = sf.value, sx.grad, sy.grad


# %% One Python function serves all modes from here on: what it does depends on what it is given.
def formula(x, y):
    """(x + y) * sin(x)"""
    return (x + y) * sg.sin(x)


# %% Define-by-run: every line computes at once, and each result remembers who made it.
stage.heading("dynamic: the graph grows while the code runs")
tx, ty = dy.tensor(x, dtype="float64", requires_grad=True), dy.tensor(y, dtype="float64", requires_grad=True)
tf = formula(tx, ty)
print("f was made by", tf.grad_fn, "from", ", ".join(str(fn) for fn, _ in tf.grad_fn.next_functions))
tf.backward()                                    # walks the remembered graph from f to the leaves
dynamic = tf.item(), tx.grad.item(), ty.grad.item()

# %% And outside of Python: the static graph as a shared object with a C header, loaded again by a module that knows NumPy only.
def leave_python(session):
    """f and both derivatives from an exported object; None where no linker is installed."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            made = sg.export.shared_object(f"{folder}/blackboard.so", {"x": px, "y": py}, {"f": pf, "df_dx": gx, "df_dy": gy}, session)
        except sg.export.LinkError:
            return None
        library = sg.export.load(made.path)
        got = library(x=np.float64(x), y=np.float64(y))
        library.close()
    return got["f"], got["df_dx"], got["df_dy"]


# %% Define-then-run: the function is called with symbols; nothing is computed yet. The gradient is more nodes of the same graph.
stage.heading("static: the graph with its gradient, before anything runs")
with sg.Graph().as_default() as ledger:
    px, py = sg.placeholder(sg.float64, [], name="x"), sg.placeholder(sg.float64, [], name="y")
    pf = formula(px, py)
    gx, gy = sg.gradients(pf, [px, py])
    stage.graph(ledger.ir, {px.node: "x", py.node: "y", pf.node: f"mul(%{pf.node.inputs[0].id}, %{pf.node.inputs[1].id}) = f"})
    with sg.Session() as session:                # now it is compiled, once, and may run many times
        static = session.run([pf, gx, gy], {px: x, py: y})
        report = session.last_executable.report
        exported = leave_python(session)
values = dict(zip(ledger.ir.nodes, evaluate(ledger.ir.nodes, {px.node: np.float64(x), py.node: np.float64(y)})))
stage.drawing("01_static_graph.svg", "f = (x + y) * sin(x) and its gradient, as a static graph", [pf, gx, gy],
              names={pf: "f", gx: "df/dx", gy: "df/dy"}, notes={n: f"{v:.4f}" for n, v in values.items()})
print(f"\n{report.passes[0].nodes} nodes as written, {report.passes[-1].nodes} after the passes, {len(report.kernels)} native kernel")

# %% The same numbers from each form.
stage.heading("all forms")
truth = f, math.sin(2) + (2 + 3) * math.cos(2), math.sin(2)
rows = [("mathematics", truth), ("by hand", (f, x_bar, y_bar)), ("scalar engine", scalar), ("dynamic", dynamic), ("static", static)]
if exported:
    rows.append(("exported", exported))
else:
    print("no linker is installed: the exported form is left out")
stage.table(("form", "f", "df/dx", "df/dy"), [(name, *(f"{v:.4f}" for v in values)) for name, values in rows])
stage.blackboard("01_blackboard.png", "f = (x + y) * sin(x) at x = 2, y = 3",
                 {"x": (0, 1, f"{x:.4f}", f"{x_bar:.4f}"), "y": (0, -0.4, f"{y:.4f}", f"{y_bar:.4f}"), "b = sin(x)": (1.4, 1, f"{b:.4f}", f"{b_bar:.4f}"),
                  "a = x + y": (1.4, -0.4, f"{a:.4f}", f"{a_bar:.4f}"), "f = a * b": (2.8, 0.3, f"{f:.4f}", f"{f_bar:.4f}")},
                 [("x", "b = sin(x)", "cos x"), ("x", "a = x + y", "1"), ("y", "a = x + y", "1"), ("b = sin(x)", "f = a * b", "a"), ("a = x + y", "f = a * b", "b")])
