"""Lecture 2: numerical, symbolic and automatic differentiation, each with its price.

Numerical: change an input a little and look. Symbolic: transform the formula. Automatic: apply the chain rule to the numbers of the
operations that run.
"""
# %%
import math

import numpy as np
from stage import Stage

import staticgraph as sg

stage = Stage("2. Three ways to differentiate")


def f(x):
    """(x + 3) * sin(x): the first lecture's function at y = 3."""
    return (x + 3.0) * math.sin(x)


x, truth = 2.0, math.sin(2) + 5 * math.cos(2)

# %% Numerical. A large step misses the curvature, a small one loses the digits that f(x + h) and f(x) have in common.
stage.heading("numerical: the error of df/dx against the step h")
steps = [10.0 ** -k for k in range(1, 14)]
one_sided = [abs((f(x + h) - f(x)) / h - truth) for h in steps]
central = [abs((f(x + h) - f(x - h)) / (2 * h) - truth) for h in steps]
stage.table(("h", "one-sided, error", "central, error"), [(f"{h:.0e}", f"{a:.0e}", f"{b:.0e}") for h, a, b in list(zip(steps, one_sided, central))[::2]])
print("truncation shrinks with h (one-sided) or h*h (central); rounding grows with 1/h: best near 1e-8 and 1e-5")

# %% And every parameter needs evaluations of its own.
stage.heading("numerical: the cost of a gradient with P parameters")


def loss(w):
    """Any function of P numbers."""
    return sg.reduce_sum(sg.square(sg.tanh(w)))


rows = []
for parameters in (10, 100, 1000):
    w, calls = np.linspace(-1.0, 1.0, parameters), 0
    compiled = sg.function(loss)
    gradient = np.empty(parameters)
    for k in range(parameters):                  # two evaluations per parameter
        moved = np.zeros(parameters)
        moved[k] = 1e-5
        gradient[k] = (compiled(w + moved) - compiled(w - moved)) / 2e-5
        calls += 2
    automatic = sg.grad(loss)(w)                 # one evaluation, forward and backward
    rows.append((parameters, calls, 1, f"{np.abs(gradient - automatic).max():.0e}"))
stage.table(("P", "evaluations, numerical", "evaluations, automatic", "largest difference"), rows)

# %% Symbolic. A formula is a tree: what is used twice is written twice. Each rule below copies its operands.


def derivative(e):
    """The derivative of a formula ("x", a number, or (operator, left, right)) as another formula."""
    if not isinstance(e, tuple):
        return 1 if e == "x" else 0
    op, a, b = e
    if op == "*":                                # both operands appear again: this is where formulas swell
        return ("+", ("*", derivative(a), b), ("*", a, derivative(b)))
    return (op, derivative(a), derivative(b))    # + and -


def size(e, known):
    """Symbols in the written formula. (In memory Python shares equal parts; on paper, they are all there.)"""
    if not isinstance(e, tuple):
        return 1
    if id(e) not in known:
        known[id(e)] = 1 + size(e[1], known) + size(e[2], known)
    return known[id(e)]


def written(e):
    """The formula as text."""
    return f"({written(e[1])} {e[0]} {written(e[2])})" if isinstance(e, tuple) else str(e)


# %% The logistic map, repeated: v becomes 4 v (1 - v). As a formula v doubles at each step; as a graph it is three nodes more.
def repeated(v, times):
    """v -> 4 v (1 - v), several times."""
    for _ in range(times):
        v = 4.0 * v * (1.0 - v)
    return v


stage.heading("symbolic: expression swell")
once = ("*", ("*", 4, "x"), ("-", 1, "x"))
print("f  =", written(once))
print("f' =", written(derivative(once)), "\n")

rows, formula = [], "x"
for times in range(1, 11):
    formula = ("*", ("*", 4, formula), ("-", 1, formula))
    graph = sg.value_and_grad(lambda v, n=times: repeated(v, n)).graph(np.float64(0.3))
    rows.append((times, size(formula, {}), size(derivative(formula), {}), len(graph)))
stage.table(("repetitions", "symbols in f", "symbols in f'", "nodes of the graph of f and f'"), rows)
print(f"one repetition more: the formula of f' grows {rows[-1][2] / rows[-2][2]:.2f} times, the graph by {rows[-1][3] - rows[-2][3]} nodes")

# %% Automatic: exact to rounding (the derivative of the repeated map has a closed form to compare with), at a fixed price per operation.
stage.heading("automatic: exact")
angle = math.asin(math.sqrt(0.3))                # v = sin(t)**2 makes 4 v (1 - v) = sin(2 t)**2
for times in (1, 5, 10):
    exact = 2.0 ** times * math.sin(2 ** (times + 1) * angle) / math.sin(2 * angle)
    found = sg.grad(lambda v, n=times: repeated(v, n))(np.float64(0.3))
    print(f"{times:3d} repetitions   mathematics {exact:12.6f}   automatic {found:12.6f}")

# %%
stage.lines("02_error_against_h.png", "Numerical differentiation: no step is exact", "step h", "error of df/dx",
            {"one-sided": (steps, one_sided), "central": (steps, central)}, log="xy")
stage.lines("02_expression_swell.png", "The same derivative as a formula and as a graph", "repetitions of v = 4 v (1 - v)", "size",
            {"symbols in the formula of f'": ([r[0] for r in rows], [r[2] for r in rows]),
             "nodes of the graph of f and f'": ([r[0] for r in rows], [r[3] for r in rows])}, log="y")
