"""Reverse-mode differentiation in one small class: numbers that remember how they were made.

An operation on numbers gives a new number with *edges* to its operands; on each edge stands the local derivative d(result)/d(operand), known as
soon as the operation has run. The derivative of the end by any number is the sum over all paths of the products of what stands on
their edges; ``backward`` computes all these sums in one sweep, from the end to the beginning.
"""

import math


class Scalar:
    """A number, its gradient, and edges (operand, local derivative)."""

    def __init__(self, value, edges=(), made_by=""):
        self.value, self.grad = float(value), 0.0
        self.edges, self.made_by = tuple(edges), made_by

    def __repr__(self):
        return f"Scalar({self.value:.6g}, grad={self.grad:.6g}{', ' + self.made_by if self.made_by else ''})"

    # ---- operations: a value, and one local derivative per operand -------------------------------------------------------------

    def __add__(self, other):
        other = lift(other)
        return Scalar(self.value + other.value, [(self, 1.0), (other, 1.0)], "+")

    def __mul__(self, other):
        other = lift(other)
        return Scalar(self.value * other.value, [(self, other.value), (other, self.value)], "*")

    def __pow__(self, n):
        if isinstance(n, Scalar):
            raise TypeError("the exponent must be a plain number: write (b * a.log()).exp() for a ** b")
        slope = n * self.value ** (n - 1) if n else 0.0      # 0 * 0**-1 would be an error where x**0 is constant
        return Scalar(self.value ** n, [(self, slope)], f"**{n}")

    def exp(self):
        y = math.exp(self.value)
        return Scalar(y, [(self, y)], "exp")

    def log(self):
        return Scalar(math.log(self.value), [(self, 1 / self.value)], "log")

    def sin(self):
        return Scalar(math.sin(self.value), [(self, math.cos(self.value))], "sin")

    def tanh(self):
        y = math.tanh(self.value)
        return Scalar(y, [(self, 1 - y * y)], "tanh")

    def relu(self):
        return Scalar(max(self.value, 0.0), [(self, float(self.value > 0))], "relu")

    __radd__, __rmul__ = __add__, __mul__
    __neg__ = lambda self: self * -1
    __sub__ = lambda self, other: self + -lift(other)
    __rsub__ = lambda self, other: -self + other
    __truediv__ = lambda self, other: self * lift(other) ** -1
    __rtruediv__ = lambda self, other: self ** -1 * other

    # ---- the sweep ------------------------------------------------------------------------------------------------------------------

    def backward(self):
        """Add d(self)/d(x) to ``x.grad`` for every number x that self was made of."""
        order, seen, stack = [], set(), [(self, False)]      # a stack of its own: long chains need no deep recursion
        while stack:
            node, done = stack.pop()
            if done:
                order.append(node)
            elif node not in seen:
                seen.add(node)
                stack += [(node, True), *((operand, False) for operand, _ in node.edges)]
        so_far = {self: 1.0}
        for node in reversed(order):                         # users before operands: what reaches a number is complete when it is its turn
            node.grad += so_far[node]
            for operand, slope in node.edges:                # += : one term per path
                so_far[operand] = so_far.get(operand, 0.0) + so_far[node] * slope


def lift(x):
    """A plain number as a Scalar."""
    return x if isinstance(x, Scalar) else Scalar(x)


if __name__ == "__main__":
    x, y = Scalar(2.0), Scalar(3.0)
    f = (x + y) * x.sin()
    f.backward()
    print(f"f = (x + y) * sin(x) at x = 2, y = 3: f = {f.value:.4f}, df/dx = {x.grad:.4f}, df/dy = {y.grad:.4f}")
    a, b = Scalar(-0.5), Scalar(0.5)                         # y = tanh(a x + b) is to pass through (1, 0.8) and (-1, -0.2)
    for step in range(201):
        loss = sum(((a * p + b).tanh() - q) ** 2 for p, q in ((1.0, 0.8), (-1.0, -0.2)))
        a.grad = b.grad = 0.0
        loss.backward()
        a.value, b.value = a.value - 0.5 * a.grad, b.value - 0.5 * b.grad
        if step % 100 == 0:
            print(f"step {step:3d}: loss {loss.value:.6f}, a = {a.value:.4f}, b = {b.value:.4f}")
