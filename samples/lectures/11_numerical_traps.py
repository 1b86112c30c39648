"""Lecture 11: numerical traps. Correct mathematics, correct derivative rules, and still NaN, infinity or noise.

Floating point has two limits: numbers end (overflow), and differences of near numbers lose digits (cancellation). Differentiation adds
a third trap: zero times infinity, in branches that were not even taken.
"""
# %%
import math

import numpy as np
from stage import Stage

import staticgraph as sg

stage = Stage("11. Numerical traps")


def text(v):
    """Short, with nan and inf as words."""
    return f"{v:.4g}"


# %% Trap 1: where. Both branches are computed, and both send a cotangent back; the one not taken sends zero times its local derivative.
def guarded(x):
    """log(x) where x is positive, else 2 x."""
    return sg.where(x > 0.0, sg.log(x), 2.0 * x)


stage.heading("zero times infinity: the gradient of where(x > 0, log(x), 2 x) at 0")
chosen, slope_of_log = 0.0, math.inf             # log was not chosen, so its cotangent is 0; its local derivative is 1 / 0
stage.table(("computed by", "gradient"), [
    ("the chain rule in plain arithmetic: 0 * inf + 2", text(chosen * slope_of_log + 2.0)),
    ("this project", text(sg.grad(guarded)(np.float64(0.0)))),
    ("mathematics (the branch that was taken)", "2")])


def repaired(x):
    """The usual repair, for engines with plain arithmetic: give the branch not taken a harmless operand."""
    positive = x > 0.0
    return sg.where(positive, sg.log(sg.where(positive, x, sg.ones_like(x))), 2.0 * x)


print("with the usual repair, a second where inside:", text(sg.grad(repaired)(np.float64(0.0))))
print("here a zero cotangent is a strong zero: mulz(0, d) is 0 whatever d is (the mulz nodes of lecture 1)")

# %% The same trap in a length, the other way round: an infinite cotangent meets a zero. No rule can know that the limit exists.
stage.heading("infinity times zero: the gradient of a length, sqrt(sum(v * v)), at (0, 0) and at (3, 4)")
rows = []
for name, f in (("sqrt(sum(v * v))", lambda v: sg.sqrt(sg.reduce_sum(sg.square(v)))), ("norm(v)", sg.norm)):
    length = sg.grad(f)
    rows.append((name, *(f"({', '.join(text(g) for g in length(np.array(at)))})" for at in ([0.0, 0.0], [3.0, 4.0]))))
stage.table(("written as", "at (0, 0)", "at (3, 4)"), rows)
print("norm is one operation, so its rule can say what holds at 0: the gradient of least length, 0")

# %% Trap 2: overflow inside, though the result is an ordinary number.
stage.heading("overflow: log(sum(exp(x))) for x = (1000, 1001)")


def naive(x):
    """As in the textbook."""
    return sg.log(sg.reduce_sum(sg.exp(x)))


x = np.array([1000.0, 1001.0])
exact = 1001 + math.log1p(math.exp(-1))
rows = []
for name, f in (("log(sum(exp(x)))", naive), ("m + log(sum(exp(x - m)))", lambda x: sg.stop_gradient(sg.reduce_max(x)) + naive(x - sg.stop_gradient(sg.reduce_max(x)))),
                ("reduce_logsumexp", sg.reduce_logsumexp)):
    value, gradient = sg.value_and_grad(f)(x)
    rows.append((name, text(value), f"({', '.join(text(g) for g in gradient)})"))
rows.append(("mathematics", text(exact), f"({text(1 / (1 + math.e))}, {text(math.e / (1 + math.e))})"))
stage.table(("written as", "value", "gradient"), rows)
print("in the first line infinity is loud; the zeros are not: 1 / inf is a zero, and a strong one\nlook at values before gradients")

# %% The loss of a classifier hides the same trap: a probability that rounds to 0 has no logarithm.
stage.heading("overflow: the loss of a sure and wrong classifier, logits (800, 0), the true class is the second")
labels, logits = np.array([0.0, 1.0]), np.array([800.0, 0.0])
rows = []
for name, f in (("-sum(y * log(softmax(z)))", lambda z: -sg.reduce_sum(labels * sg.log(sg.nn.softmax(z)))),
                ("softmax_cross_entropy_with_logits", lambda z: sg.nn.softmax_cross_entropy_with_logits(labels=labels, logits=z))):
    value, gradient = sg.value_and_grad(f)(logits)
    rows.append((name, text(value), f"({', '.join(text(g) for g in gradient)})"))
stage.table(("written as", "loss", "gradient"), rows)
print("the first has stopped learning for good; the second knows which way to go")

# %% Trap 3: cancellation. Near numbers are subtracted; the digits they shared are gone.
stage.heading("cancellation: (exp(x) - 1) / x, in float32; the limit is 1")
forms = {"(exp(x) - 1) / x": sg.function(lambda x: (sg.exp(x) - 1.0) / x), "expm1(x) / x": sg.function(lambda x: sg.expm1(x) / x)}
points = np.array([10.0 ** -k for k in range(1, 9)], np.float32)
truth = np.array([math.expm1(float(p)) / float(p) for p in points])
errors = {name: np.abs(f(points).astype(np.float64) - truth) / truth for name, f in forms.items()}
stage.table(("x", *forms), [(f"{p:.0e}", *(f"{errors[name][k]:.0e}" if errors[name][k] > 3e-7 else "below 3e-7" for name in forms)) for k, p in enumerate(points)])

stage.heading("cancellation: the variance of numbers near 10000, in float32")
values = (10_000 + np.tile([-1.0, 0.0, 1.0], 1000)).astype(np.float32)
mean_of_squares = sg.function(lambda v: sg.reduce_mean(sg.square(v)) - sg.square(sg.reduce_mean(v)))
squares_of_differences = sg.function(lambda v: sg.reduce_mean(sg.square(v - sg.reduce_mean(v))))
print(f"E[v*v] - E[v]*E[v] = {mean_of_squares(values):.4g}   E[(v - E[v])**2] = {squares_of_differences(values):.4g}   mathematics: {2 / 3:.4g}")

# %% Trap 4: long sums. One by one, small terms fall below the last digit of the running total. In blocks, as a tree, they do not.
stage.heading("long sums: four million times 0.1 in float32")
many = np.full(4_000_000, 0.1, np.float32)
true_sum = float(many[0]) * many.size
for name, total in (("one by one", np.cumsum(many)[-1]), ("by our kernel", sg.function(sg.reduce_sum)(many))):
    print(f"{name:14s} {total:.0f}   relative error {abs(total - true_sum) / true_sum:.0e}")

# %% Trap 5: algebra that is right for numbers and wrong for floating point. A compiler must not use it unasked.
stage.heading("simplification: log(exp(x)) and x - x")
strict, fast = sg.Config(), sg.Config(fast_math=True)
rows = []
for name, f, at in (("log(exp(x))", lambda x: sg.log(sg.exp(x)), 1000.0), ("x - x", lambda x: x - x, math.inf), ("x * 0", lambda x: x * 0.0, math.nan)):
    by_config = [sg.function(f, config=c) for c in (strict, fast)]
    results = [float(g(np.float64(at))) for g in by_config]
    rows.append((name, text(at), *(text(r) for r in results), " ".join(n.op.name for n in sg.parse(by_config[1].text(np.float64(at))).nodes)))
stage.table(("written", "at x =", "as written (default)", "fast_math=True", "nodes left by fast_math"), rows)

# %%
stage.lines("11_cancellation.png", "(exp(x) - 1) / x in float32", "x", "relative error",
            {name: (points.tolist(), [max(v, 1e-9) for v in e]) for name, e in errors.items()}, log="xy")
