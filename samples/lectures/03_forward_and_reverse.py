"""Lecture 3: forward mode (dual numbers, JVP) and reverse mode (VJP), and which of them is cheap when.

Forward mode carries "how does this change along one input direction" with every value. Reverse mode carries "how does one output
direction react to this" backwards. Both are products with the Jacobian J: J v and u J.
"""
# %%
import math

import numpy as np
from stage import Stage, seconds, work

import staticgraph as sg

stage = Stage("3. Forward mode and reverse mode")


# %% A dual number a + b e, with e * e = 0, carries a value and a derivative. Ordinary arithmetic then differentiates by itself.
class Dual:
    """value + tangent * e"""

    def __init__(self, value, tangent=0.0):
        self.value, self.tangent = value, tangent

    def __add__(self, other):
        return Dual(self.value + other.value, self.tangent + other.tangent)

    def __mul__(self, other):                    # (a + b e)(c + d e) = a c + (a d + b c) e: the product rule, since e * e = 0
        return Dual(self.value * other.value, self.value * other.tangent + self.tangent * other.value)

    def sin(self):
        """sin(a + b e) = sin(a) + b cos(a) e"""
        return Dual(math.sin(self.value), self.tangent * math.cos(self.value))


stage.heading("dual numbers: f = (x + y) * sin(x) at (2, 3)")
for name, dx, dy in (("x", 1.0, 0.0), ("y", 0.0, 1.0)):      # one pass per input direction
    x, y = Dual(2.0, dx), Dual(3.0, dy)
    f = (x + y) * x.sin()
    print(f"direction {name}: value {f.value:.4f}, df/d{name} = {f.tangent:.4f}")


# %% The project's forward mode is the same idea on graphs: one tangent node beside each node. Reverse mode: one adjoint node per edge.
def formula(x, y):
    """(x + y) * sin(x)"""
    return (x + y) * sg.sin(x)


stage.heading("jvp and vjp")
point = np.float64(2.0), np.float64(3.0)
value, tangent = sg.jvp(formula, point, (1.0, 0.0))
print(f"jvp along (1, 0): value {value:.4f}, tangent {tangent:.4f}")
value, pull = sg.vjp(formula, *point)
by_x, by_y = pull(1.0)
print(f"vjp from 1:       value {value:.4f}, cotangents {by_x:.4f}, {by_y:.4f}   (all inputs from one pass)")


# %% They must agree: u (J v) = (u J) v for any u and v. The project's own tests use this law on every operation.
def layer(x, a, b):
    """n numbers to m numbers through 64 units."""
    return sg.tanh(x @ a) @ b


def problem(n, m):
    """A point and the weights of ``layer``."""
    rng = np.random.default_rng(n * 1000 + m)
    return rng.normal(size=(1, n)), rng.normal(size=(n, 64)) / math.sqrt(n), rng.normal(size=(64, m)) / 8


stage.heading("the pairing law, for 5 inputs and 3 outputs")
x, a, b = problem(5, 3)
rng = np.random.default_rng(1)
v, u = rng.normal(size=(1, 5)), rng.normal(size=(1, 3))
_, jv = sg.jvp(lambda x: layer(x, a, b), (x,), (v,))
_, pull = sg.vjp(lambda x: layer(x, a, b), x)
print(f"u . (J v) = {float((u * jv).sum()):.10f}\n(u J) . v = {float((pull(u)[0] * v).sum()):.10f}")

# %% Cost of a whole Jacobian: n columns by forward mode, m rows by reverse mode. Counted in scalar operations of the compiled graph.
stage.heading("a whole Jacobian: scalar operations, in units of one evaluation of the function")
rows, columns_cost, rows_cost, shapes = [], [], [], [(1, 256), (4, 64), (16, 64), (64, 64), (64, 16), (64, 4), (256, 1)]
for n, m in shapes:
    args = problem(n, m)
    one = work(sg.parse(sg.function(layer).text(*args)))
    forward, reverse = (work(sg.parse(j(layer).text(*args))) / one for j in (sg.jacfwd, sg.jacrev))
    same = np.allclose(sg.jacfwd(layer)(*args), sg.jacrev(layer)(*args), rtol=1e-12)
    columns_cost.append(forward)
    rows_cost.append(reverse)
    rows.append((f"{n} to {m}", f"{forward:.1f}", f"{reverse:.1f}", "forward" if forward < reverse else "reverse", same))
stage.table(("inputs to outputs", "forward mode", "reverse mode", "cheaper", "equal"), rows)

# %% The case that made reverse mode famous: one loss, many parameters.
stage.heading("one output, many inputs")
rows = []
for n in (10, 100, 1000):
    args = problem(n, 1)

    def loss(x, a, b):
        """One number."""
        return sg.reduce_sum(layer(x, a, b))
    one = work(sg.parse(sg.function(loss).text(*args)))
    rows.append((n, f"{work(sg.parse(sg.jacfwd(loss).text(*args))) / one:.1f}", f"{work(sg.parse(sg.grad(loss).text(*args))) / one:.1f}"))
    plain, gradient = sg.function(loss), sg.grad(loss)
stage.table(("inputs", "forward mode", "reverse mode"), rows)
print("reverse mode: a few evaluations' worth for the whole gradient, however many inputs there are")
t_value, t_gradient = seconds(lambda: plain(*args), lambda: gradient(*args))
stage.time(f"1000 inputs: one evaluation {1e6 * t_value:.0f} us, its gradient by reverse mode {1e6 * t_gradient:.0f} us")

# %%
stage.lines("03_forward_and_reverse.png", "Cost of a Jacobian", "inputs per output", "evaluations' worth of work",
            {"forward mode": ([n / m for n, m in shapes], columns_cost), "reverse mode": ([n / m for n, m in shapes], rows_cost)}, log="xy")
