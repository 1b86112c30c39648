"""Newton's method: value, gradient and Hessian compiled from one Python function."""

import numpy as np

import staticgraph as sg


def rosenbrock(x):
    """The banana function; its minimum is at (1, 1)."""
    return 100 * (x[1] - x[0] ** 2) ** 2 + (1 - x[0]) ** 2


gradient, hessian = sg.grad(rosenbrock), sg.hessian(rosenbrock)
point = np.array([-1.2, 1.0])
for step in range(8):
    slope = gradient(point)
    print(f"step {step}  at ({point[0]:+.6f}, {point[1]:+.6f})  |gradient| {np.linalg.norm(slope):.1e}")
    point = point - np.linalg.solve(hessian(point), slope)
