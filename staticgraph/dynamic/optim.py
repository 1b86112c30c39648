"""Optimizers of the define-by-run mode: PyTorch's names, and its formulas."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from .tape import grad_mode
from .tensor import Tensor


class Optimizer:
    """Updates leaves from their ``grad``. ``state`` maps a parameter's number to its arrays."""

    def __init__(self, params: Iterable[Tensor], **defaults: float) -> None:
        self.params = list(params)
        if not self.params:
            raise ValueError("optimizer got an empty parameter list")
        for p in self.params:
            if not isinstance(p, Tensor) or not p.is_leaf:
                raise ValueError("can't optimize a non-leaf Tensor")
        self.defaults = defaults
        self.state: dict[int, dict[str, Any]] = {k: {} for k in range(len(self.params))}

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget (or zero) the gradients: ``backward`` adds to them."""
        for p in self.params:
            if p.grad is None:
                continue
            if set_to_none:
                p.grad = None
            else:
                p.grad.zero_()

    def step(self) -> None:
        """One update of every parameter that has a gradient."""
        with grad_mode(False):
            for k, p in enumerate(self.params):
                if p.grad is not None:
                    p.copy_(self.update(p.data, p.grad.data, self.state[k]))

    def update(self, value: np.ndarray[Any, Any], g: np.ndarray[Any, Any], state: dict[str, Any]) -> np.ndarray[Any, Any]:
        """The new value of one parameter."""
        raise TypeError(f"{type(self).__name__} must define update")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{k}={v}' for k, v in self.defaults.items())})"


class SGD(Optimizer):
    """v = momentum * v + g (v starts as g); p -= lr * v. Nesterov: p -= lr * (g + momentum * v)."""

    def __init__(self, params: Iterable[Tensor], lr: float = 1e-3, momentum: float = 0.0, weight_decay: float = 0.0,
                 nesterov: bool = False) -> None:
        super().__init__(params, lr=lr, momentum=momentum, weight_decay=weight_decay)
        self.nesterov = nesterov

    def update(self, value: np.ndarray[Any, Any], g: np.ndarray[Any, Any], state: dict[str, Any]) -> np.ndarray[Any, Any]:
        d = self.defaults
        if d["weight_decay"]:
            g = g + d["weight_decay"] * value
        if d["momentum"]:
            state["momentum"] = d["momentum"] * state["momentum"] + g if "momentum" in state else g.copy()
            g = g + d["momentum"] * state["momentum"] if self.nesterov else state["momentum"]
        return (value - d["lr"] * g).astype(value.dtype)


class Momentum(SGD):
    """SGD with momentum 0.9."""

    def __init__(self, params: Iterable[Tensor], lr: float = 1e-3, momentum: float = 0.9, nesterov: bool = False) -> None:
        super().__init__(params, lr, momentum, nesterov=nesterov)


class Adam(Optimizer):
    """m = b1 m + (1-b1) g; v = b2 v + (1-b2) g^2; p -= lr * (m / (1-b1^t)) / (sqrt(v / (1-b2^t)) + eps) (Kingma and Ba, 2015)."""

    def __init__(self, params: Iterable[Tensor], lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8) -> None:
        super().__init__(params, lr=lr, beta1=betas[0], beta2=betas[1], eps=eps)

    def update(self, value: np.ndarray[Any, Any], g: np.ndarray[Any, Any], state: dict[str, Any]) -> np.ndarray[Any, Any]:
        d = self.defaults
        if not state:
            state.update(t=0, m=np.zeros_like(value), v=np.zeros_like(value))
        state["t"] += 1
        state["m"] = d["beta1"] * state["m"] + (1 - d["beta1"]) * g
        state["v"] = d["beta2"] * state["v"] + (1 - d["beta2"]) * g * g
        m = state["m"] / (1 - d["beta1"] ** state["t"])
        v = state["v"] / (1 - d["beta2"] ** state["t"])
        return (value - d["lr"] * m / (np.sqrt(v) + d["eps"])).astype(value.dtype)
