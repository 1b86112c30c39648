"""Optimizers whose step ends in a proximal map: weights are shrunk, and small ones become exactly zero."""

from __future__ import annotations

from typing import Any

from .. import source
from ..dtypes import int64
from ..surface.funnel import convert
from ..surface.math_ops import cast
from ..surface.tensor import Tensor
from ..surface.variables import Variable
from .optimizers import Builder, Optimizer, _node, _scaled


def _shrunk(b: Builder, v: Any, threshold: Any) -> Any:
    """sign(v) max(|v| - threshold, 0)"""
    return b.mul(b.sign(v), b.maximum(b.sub(b.abs(v), threshold), b.zeros(v.aval)))


class ProximalGradientDescentOptimizer(Optimizer):
    """u = v - lr g; v = sign(u) max(|u| - lr l1, 0) / (1 + lr l2) (Duchi and Singer, 2009)."""

    def __init__(self, learning_rate: Any, l1_regularization_strength: float = 0.0, l2_regularization_strength: float = 0.0, use_locking: bool = False,
                 name: str = "ProximalGradientDescent") -> None:
        super().__init__(use_locking, name)
        self._lr, self._l1, self._l2 = learning_rate, l1_regularization_strength, l2_regularization_strength

    def _dense(self, context: dict[str, Any], grad: Tensor, v: Variable) -> list[Any]:
        lr = _node(self._number(self._lr, v))

        def step(b: Builder, x: Any, g: Any) -> Any:
            rate = lr if hasattr(lr, "aval") else b.like(x, lr)
            u = b.sub(x, b.mul(g, rate))
            return b.div(_shrunk(b, u, _scaled(b, rate, self._l1)) if self._l1 else u, b.add(_scaled(b, rate, self._l2), b.like(x, 1)))
        return [self._set(v, "ApplyProximalGradientDescent", [grad], step).node]


class ProximalAdagradOptimizer(Optimizer):
    """a += g^2; r = lr / sqrt(a); u = v - r g; v = sign(u) max(|u| - r l1, 0) / (1 + r l2)."""

    slots = ("accumulator",)

    def __init__(self, learning_rate: Any, initial_accumulator_value: float = 0.1, l1_regularization_strength: float = 0.0, l2_regularization_strength: float = 0.0,
                 use_locking: bool = False, name: str = "ProximalAdagrad") -> None:
        if initial_accumulator_value <= 0.0:
            raise ValueError(f"initial_accumulator_value must be positive: {initial_accumulator_value}")
        super().__init__(use_locking, name)
        self._lr, self._start, self._l1, self._l2 = learning_rate, initial_accumulator_value, l1_regularization_strength, l2_regularization_strength

    def _slot_start(self, name: str, v: Variable) -> float:
        return self._start

    def _dense(self, context: dict[str, Any], grad: Tensor, v: Variable) -> list[Any]:
        lr = _node(self._number(self._lr, v))
        a = self._set(self._slots["accumulator"][v], "accumulate", [grad], lambda b, s, g: b.add(s, b.square(g)))

        def step(b: Builder, x: Any, g: Any, s: Any) -> Any:
            rate = _scaled(b, b.rsqrt(s), lr)
            u = b.sub(x, b.mul(g, rate))
            return b.div(_shrunk(b, u, _scaled(b, rate, self._l1)) if self._l1 else u, b.add(_scaled(b, rate, self._l2), b.like(x, 1)))
        return [a.node, self._set(v, "ApplyProximalAdagrad", [grad, a], step).node]


class AdagradDAOptimizer(Optimizer):
    """Adagrad by dual averaging: with sums G of g and Q of g^2 (from 0.1) after T steps, v = -sign(G) lr max(|G| - l1 T, 0) / (l2 T lr + sqrt(Q))."""

    slots = ("gradient_accumulator", "gradient_squared_accumulator")

    def __init__(self, learning_rate: Any, global_step: Any, initial_gradient_squared_accumulator_value: float = 0.1, l1_regularization_strength: float = 0.0,
                 l2_regularization_strength: float = 0.0, use_locking: bool = False, name: str = "AdagradDA") -> None:
        if initial_gradient_squared_accumulator_value <= 0.0:
            raise ValueError(f"initial_gradient_squared_accumulator_value must be positive: {initial_gradient_squared_accumulator_value}")
        super().__init__(use_locking, name)
        self._lr, self._step, self._start = learning_rate, global_step, initial_gradient_squared_accumulator_value
        self._l1, self._l2 = l1_regularization_strength, l2_regularization_strength

    def _slot_start(self, name: str, v: Variable) -> float:
        return 0.0 if name == "gradient_accumulator" else self._start

    def _prepare(self) -> dict[str, Any]:
        with source.hide_own_frames():
            return {"step": cast(convert(self._step), int64) + 1}

    def _dense(self, context: dict[str, Any], grad: Tensor, v: Variable) -> list[Any]:
        lr = _node(self._number(self._lr, v))
        steps = cast(context["step"], v.base_dtype)
        total = self._set(self._slots["gradient_accumulator"][v], "accumulate", [grad], lambda b, s, g: b.add(s, g))
        squares = self._set(self._slots["gradient_squared_accumulator"][v], "accumulate_squares", [grad], lambda b, s, g: b.add(s, b.square(g)))

        def step(b: Builder, x: Any, g: Any, q: Any, t: Any) -> Any:
            u = _shrunk(b, g, _scaled(b, t, self._l1)) if self._l1 else g
            return b.neg(b.div(_scaled(b, u, lr), b.add(_scaled(b, _scaled(b, t, self._l2), lr), b.sqrt(q))))
        return [total.node, squares.node, self._set(v, "ApplyAdagradDA", [total, squares, steps], step).node]
