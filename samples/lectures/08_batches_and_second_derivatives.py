"""Lecture 8: vmap, Jacobians, and second derivatives without a Hessian.

Transforms take a function and give a function: vmap one that works on a batch, grad one that gives the gradient, jvp and vjp products with
the Jacobian. They compose; each composition is one graph, and compiles like any other.
"""
# %%
import numpy as np
from stage import Stage, seconds, work

import staticgraph as sg

stage = Stage("8. vmap, Jacobians, Hessian-vector products")
rng = np.random.default_rng(0)


# %% A model for one example. vmap makes one for many; no loop is left, products with a vector become products with a matrix.
def loss(w, x, y):
    """The squared error of a tiny network on one example: x has 8 numbers, y is one."""
    hidden = sg.tanh(sg.reduce_sum(sg.expand_dims(x, 1) * w, axis=0))
    return sg.square(sg.reduce_sum(hidden) - y)


w, xs, ys = rng.normal(size=(8, 16)) / 3, rng.normal(size=(64, 8)), rng.normal(size=64)
one, many = sg.function(loss), sg.vmap(loss, (None, 0, 0))

stage.heading("one example, and a batch of 64")
looped = np.array([one(w, x, y) for x, y in zip(xs, ys)])
batched = many(w, xs, ys)
print(f"largest difference between 64 calls and one: {np.abs(looped - batched).max():.0e}")
rows = [("one example", len(one.graph(w, xs[0], ys[0])), "64 times"), ("batch", len(many.graph(w, xs, ys)), "once")]
stage.table(("", "nodes as written", "called"), rows)
t_loop, t_batch = seconds(lambda: [one(w, x, y) for x, y in zip(xs, ys)], lambda: many(w, xs, ys))
stage.time(f"64 calls {1e6 * t_loop:.0f} us, one batched call {1e6 * t_batch:.0f} us")

# %% Composed with grad: a gradient for every example (for clipping each, for privacy, for statistics). A batched loss has only their sum.
stage.heading("per-example gradients: vmap of grad")
each = sg.vmap(sg.grad(loss), (None, 0, 0))(w, xs, ys)
total = sg.grad(lambda w: sg.reduce_sum(sg.vmap(loss, (None, 0, 0))(w, xs, ys)))(w)
norms = np.sqrt((each ** 2).sum(axis=(1, 2)))
print(f"shape {each.shape}; their sum is the batch's gradient: {np.allclose(each.sum(axis=0), total)}")
print(f"norms from {norms.min():.3f} to {norms.max():.3f}")


# %% A Jacobian is vmap of jvp over the columns of the identity, or of vjp over its rows. jacfwd and jacrev do just that.
def curve(x):
    """Three numbers to four."""
    return sg.stack([sg.sin(x[0]) * x[1], sg.exp(x[2] * 0.5), x[0] * x[1] * x[2], sg.reduce_sum(sg.square(x))])


stage.heading("a Jacobian, four ways")
x = np.array([0.5, -1.0, 2.0])
by_columns = sg.vmap(lambda v: sg.jvp(curve, (x,), (v,))[1], out_axes=1)(np.eye(3))
by_rows = sg.vmap(lambda u: sg.vjp(curve, x)[1](u)[0])(np.eye(4))
for row in by_columns:
    print("  ".join(f"{v:9.4f}" for v in row))
differences = [np.abs(by_columns - other).max() for other in (by_rows, sg.jacfwd(curve)(x), sg.jacrev(curve)(x))]
print(f"columns by jvp; the others differ by at most {max(differences):.0e}")


# %% Second derivatives. A Hessian has n * n entries; its product with a vector costs a few evaluations, whatever n is:
# it is the derivative of the gradient along that vector, forward mode over reverse mode.
def rosenbrock(x):
    """A bent valley in n dimensions; the minimum is 0 at (1, ..., 1)."""
    return sg.reduce_sum(100.0 * sg.square(x[1:] - sg.square(x[:-1])) + sg.square(1.0 - x[:-1]))


def product(x, v):
    """The Hessian at x times v."""
    return sg.hvp(rosenbrock, (x,), (v,))


stage.heading("Hessian against Hessian-vector product: scalar operations per evaluation of the function")
sizes, full, thin, rows = [4, 16, 64, 256], [], [], []
for n in sizes:
    hessian, compiled_product, function = sg.hessian(rosenbrock), sg.function(product), sg.function(rosenbrock)
    x, v = rng.normal(size=n), rng.normal(size=n)
    unit = work(sg.parse(function.text(x)))
    full.append(work(sg.parse(hessian.text(x))) / unit)
    thin.append(work(sg.parse(compiled_product.text(x, v))) / unit)
    rows.append((n, n * n, f"{full[-1]:.0f}", f"{thin[-1]:.1f}", np.allclose(hessian(x) @ v, compiled_product(x, v))))
stage.table(("n", "entries", "Hessian", "Hessian times v", "equal"), rows)

# %% What it is good for: Newton's method in many dimensions. H d = -g is solved by conjugate gradients, which asks for products only.
stage.heading("Newton's method with products only, n = 256")
gradient = sg.grad(rosenbrock)


def conjugate_gradients(x, right, steps=60):
    """d with H d = right, nearly; stops where the Hessian curves downwards or the rest is small."""
    d, rest = np.zeros_like(x), right.copy()
    direction, size = rest.copy(), rest @ rest
    for _ in range(steps):
        bent = compiled_product(x, direction)
        curvature = direction @ bent
        if curvature <= 0 or size < 1e-16 * (right @ right):
            break
        d += size / curvature * direction
        rest -= size / curvature * bent
        size, before = rest @ rest, size
        direction = rest + size / before * direction
    return d if d.any() else right


point = np.full(256, 1.2)
rows = []
for step in range(7):
    slope = gradient(point)
    rows.append((step, f"{function(point):.1e}", f"{np.linalg.norm(slope):.1e}"))
    point = point + conjugate_gradients(point, -slope)
stage.table(("step", "f", "norm of the gradient"), rows)
print("nearer to the minimum than 1e-6 after the last:", np.abs(point - 1).max() < 1e-6)

# %%
stage.lines("08_second_derivatives.png", "Second derivatives in n dimensions", "n", "evaluations' worth of work",
            {"Hessian": (sizes, full), "Hessian times a vector": (sizes, thin)}, log="xy")
