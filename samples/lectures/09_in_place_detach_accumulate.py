"""Lecture 9: changes in place, detach, no_grad, accumulation: the famous errors, and how each mode tells of them.

The dynamic mode shares one memory between your program and the record of the backward pass, so your program can spoil the record; it
counts versions to notice. The static mode has values that never change, so most of these errors cannot be made there.
"""
# %%
import numpy as np
from stage import Stage, recorded

import staticgraph as sg
import staticgraph.dynamic as dy

stage = Stage("9. In place, detach, no_grad, accumulation")


def leaf(*values):
    """A tensor that asks for its gradient."""
    return dy.tensor(np.array(values), requires_grad=True)


# %% The famous error. square needs its operand for the backward pass (lecture 7), and the operand is changed before that.
stage.heading("modified by an inplace operation")


def spoiled():
    """backward comes too late."""
    a = leaf(1.0, 2.0) * 1.0
    y = a.square()
    a.add_(10.0)
    y.sum().backward()


stage.error(spoiled)

# %% Whether it is an error depends on what the rule keeps: the operand, the result, or neither.
stage.heading("what may be changed between forward and backward")
rows = []
for name, operation in (("a + 1", lambda a: a + 1.0), ("a * a", lambda a: a * a), ("sin(a)", lambda a: a.sin()), ("exp(a)", lambda a: a.exp()),
                        ("relu(a)", lambda a: a.relu())):
    verdicts = []
    for changed in ("the operand", "the result"):
        x = leaf(0.5, 2.0)
        a = x * 1.0
        y = operation(a)
        total = y.sum()
        (a if changed == "the operand" else y).add_(10.0)
        try:
            total.backward()
            verdicts.append("allowed")
        except dy.AutogradError:
            verdicts.append("error")
    rows.append((name, *verdicts))
stage.table(("y =", "change the operand", "change the result"), rows)

# %% In a static graph there is no changing of values. A variable has versions; a gradient reads the one that its loss read.
stage.heading("static: the same order of events, with a variable")
with sg.Graph().as_default():
    v = sg.Variable(np.array([1.0, 2.0]), name="v")
    loss = sg.reduce_sum(sg.square(v))
    slope, = sg.gradients(loss, [v])
    with sg.control_dependencies([loss]):
        change = sg.assign_add(v, np.array([10.0, 10.0]))
    with sg.Session() as session:
        session.run(sg.global_variables_initializer())
        got = session.run([loss, slope, change])
print(f"loss {got[0]}, gradient {got[1]} (of the values before), variable afterwards {got[2]}")

# %% Leaves: their memory is yours only while nothing is recorded.
stage.heading("an update by hand")
w = leaf(1.0, 2.0)
w.square().sum().backward()
stage.error(lambda: w.sub_(0.1 * w.grad))
with dy.no_grad():
    w.sub_(0.1 * w.grad)
print("under no_grad:", w.detach().numpy())

# %% Three ways to keep a gradient out.
stage.heading("detach, no_grad, stop_gradient: d/dx of x * x, where the second x is to count as a number")
x = leaf(3.0)
y = (x * x).sum()
y.backward()
rows = [("x * x", x.grad.item(), recorded(y))]
x.grad = None
y = (x * x.detach()).sum()
y.backward()
rows.append(("x * x.detach()", x.grad.item(), recorded(y)))
with dy.no_grad():
    y = (x * x).sum()
rows.append(("x * x under no_grad", "none: requires_grad is " + str(y.requires_grad), recorded(y)))
rows.append(("static: x * sg.stop_gradient(x)", float(sg.grad(lambda x: x * sg.stop_gradient(x))(np.float64(3.0))), ""))
stage.table(("", "gradient at 3", "operations recorded"), rows)
stage.error(lambda: y.backward())
print("detach shares memory with x; a change there is a change here, and is counted")

# %% Accumulation: backward adds. Two half batches make the gradient of the whole one; forgetting zero_grad makes a wrong one.
stage.heading("accumulation")
data, w = np.arange(8.0), leaf(2.0)


def cost(w, part):
    """A sum of squares over a part of the data."""
    return ((w * dy.tensor(part) - 1.0).square()).sum()


for part in (data[:4], data[4:]):
    cost(w, part).backward()
print(f"two half batches: {w.grad.item():.1f}")
w.grad = None
cost(w, data).backward()
print(f"the whole batch:  {w.grad.item():.1f}")
cost(w, data).backward()
print(f"zero_grad forgotten: {w.grad.item():.1f}")
whole = sg.grad(lambda w, part: sg.reduce_sum(sg.square(w * part - 1.0)))
print(f"static: {whole(np.float64(2.0), data):.1f} each time; a sum over batches has to be written: "
      f"{whole(np.float64(2.0), data[:4]) + whole(np.float64(2.0), data[4:]):.1f}")

# %% The record is used up by backward, since it holds memory.
stage.heading("backward twice")
y = leaf(1.0, 2.0).exp().sum()
y.backward()
stage.error(lambda: y.backward())
y = leaf(1.0, 2.0).exp().sum()
y.backward(retain_graph=True)
y.backward()
print("with retain_graph=True in the first: allowed")

stage.heading("a gradient of several numbers, and a way out of the record")
stage.error(lambda: leaf(1.0, 2.0).exp().backward())
stage.error(lambda: leaf(1.0).exp().numpy())

# %% In summary.
stage.heading("who tells of what")
stage.table(("event", "dynamic", "static"), [
    ("a kept value is changed", "error at backward, naming both lines", "cannot happen: values never change"),
    ("a leaf changed while recording", "error at once", "assign makes a new version"),
    ("gradients of a second batch", "added to the first", "returned; nothing is kept"),
    ("backward twice", "error, or retain_graph=True", "run as often as you like"),
    ("no path to the input", "grad stays None", "sg.gradients: None, sg.grad: 0")])
