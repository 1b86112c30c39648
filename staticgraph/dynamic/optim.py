"""Optimizers of the define-by-run mode: PyTorch's names, arguments and formulas."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from .. import source
from .modes import GradMode
from .tensor import Tensor

Array = np.ndarray[Any, Any]


class Optimizer:
    """Updates leaves in place from their ``grad``.

    ``params`` are tensors, or dicts ``{"params": tensors, "lr": ...}`` with settings of their own. ``param_groups`` holds the settings in
    force (a schedule writes ``param_groups[0]["lr"]``); ``state_dict`` and ``load_state_dict`` carry what was accumulated.
    """

    def __init__(self, params: Iterable[Any], **defaults: Any) -> None:
        if isinstance(params, Tensor):
            raise TypeError("params argument given to the optimizer should be an iterable of Tensors or dicts, but got a Tensor")
        given = list(params)
        if not given:
            raise ValueError("optimizer got an empty parameter list")
        self.defaults = defaults
        self.param_groups: list[dict[str, Any]] = []
        self.state: dict[Tensor, dict[str, Any]] = {}
        for g in given if isinstance(given[0], dict) else [{"params": given}]:
            self.add_param_group(g)

    def add_param_group(self, group: dict[str, Any]) -> None:
        """More parameters, with settings of their own."""
        tensors = [group["params"]] if isinstance(group["params"], Tensor) else list(group["params"])
        known = {id(p) for g in self.param_groups for p in g["params"]}
        for p in tensors:
            if not isinstance(p, Tensor):
                raise TypeError(f"optimizer can only optimize Tensors, but one of the params is {type(p).__name__}")
            if not p.is_leaf:
                raise ValueError("can't optimize a non-leaf Tensor")
            if id(p) in known:
                raise ValueError("some parameters appear in more than one parameter group")
            known.add(id(p))
        unknown = set(group) - set(self.defaults) - {"params"}
        if unknown:
            raise ValueError(f"unknown setting {sorted(unknown)[0]!r}; {type(self).__name__} has {', '.join(self.defaults)}")
        self.param_groups.append({**self.defaults, **group, "params": tensors})

    @property
    def params(self) -> list[Tensor]:
        """The parameters of all groups."""
        return [p for g in self.param_groups for p in g["params"]]

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget (or zero) the gradients: ``backward`` adds to them."""
        for p in self.params:
            if p._grad is None:
                continue
            if set_to_none:
                p._grad = None
            else:
                if p._grad.grad_fn is not None:
                    p._grad = p._grad.detach()
                p._grad.zero_()

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One update of every parameter that has a gradient. ``closure`` computes the loss again first; its value is returned."""
        loss = None
        if closure is not None:
            with GradMode(True):
                loss = closure()
        site = source.capture()
        with np.errstate(all="ignore"):
            for group in self.param_groups:
                for p in group["params"]:
                    if p._grad is not None:
                        self.update(p._array, p._grad._array, self.state.setdefault(p, {}), group)
                        p.counter.bump(f"{type(self).__name__}.step", site)
        return loss

    def update(self, value: Array, g: Array, state: dict[str, Any], group: dict[str, Any]) -> None:
        """Move one parameter's array, in place."""
        raise TypeError(f"{type(self).__name__} must define update")

    def state_dict(self) -> dict[str, Any]:
        """Settings and accumulated arrays as plain data: parameters are numbered in order."""
        number = {id(p): k for k, p in enumerate(self.params)}
        return {"state": {number[id(p)]: {k: v.copy() if isinstance(v, np.ndarray) else v for k, v in s.items()} for p, s in self.state.items()},
                "param_groups": [{**{k: v for k, v in g.items() if k != "params"}, "params": [number[id(p)] for p in g["params"]]} for g in self.param_groups]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """What ``state_dict`` gave, for as many parameters in the same groups. ValueError where they differ."""
        groups = state_dict["param_groups"]
        if [len(g["params"]) for g in groups] != [len(g["params"]) for g in self.param_groups]:
            raise ValueError("loaded state dict contains a parameter group that doesn't match the size of optimizer's group")
        by_number = {n: p for g, own in zip(groups, self.param_groups) for n, p in zip(g["params"], own["params"])}
        state: dict[Tensor, dict[str, Any]] = {}
        for n, s in state_dict["state"].items():
            p = by_number[n]
            for k, v in s.items():
                if isinstance(v, np.ndarray) and v.ndim and v.shape != p.shape:
                    raise ValueError(f"loaded state dict has {k} of shape {list(v.shape)} for parameter {n} of shape {list(p.shape)}")
            state[p] = {k: v.copy() if isinstance(v, np.ndarray) else v for k, v in s.items()}
        self.state = state
        for g, own in zip(groups, self.param_groups):
            own.update({k: v for k, v in g.items() if k != "params"})

    def __repr__(self) -> str:
        rows = [f"Parameter Group {k}\n" + "\n".join(f"    {n}: {v}" for n, v in g.items() if n != "params") for k, g in enumerate(self.param_groups)]
        return f"{type(self).__name__} (\n" + "\n".join(rows) + "\n)"


def _positive(**settings: float) -> None:
    for name, value in settings.items():
        if value < 0:
            raise ValueError(f"Invalid {name} value: {value}")


class SGD(Optimizer):
    """g += weight_decay * p; v = momentum * v + (1 - dampening) * g (v starts as g); p -= lr * v. Nesterov: p -= lr * (g + momentum * v)."""

    def __init__(self, params: Iterable[Any], lr: float = 1e-3, momentum: float = 0.0, dampening: float = 0.0, weight_decay: float = 0.0,
                 nesterov: bool = False, *, maximize: bool = False) -> None:
        _positive(lr=lr, momentum=momentum, weight_decay=weight_decay)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        super().__init__(params, lr=lr, momentum=momentum, dampening=dampening, weight_decay=weight_decay, nesterov=nesterov, maximize=maximize)

    def update(self, value: Array, g: Array, state: dict[str, Any], group: dict[str, Any]) -> None:
        kind = value.dtype.type
        if group["maximize"]:
            g = -g
        if group["weight_decay"]:
            g = g + kind(group["weight_decay"]) * value
        if group["momentum"]:
            v = state.get("momentum_buffer")
            if v is None:
                v = state["momentum_buffer"] = np.array(g)
            else:
                v *= kind(group["momentum"])
                v += kind(1 - group["dampening"]) * g
            g = g + kind(group["momentum"]) * v if group["nesterov"] else v
        value -= kind(group["lr"]) * g


class Momentum(SGD):
    """SGD with momentum 0.9."""

    def __init__(self, params: Iterable[Any], lr: float = 1e-3, momentum: float = 0.9, nesterov: bool = False) -> None:
        super().__init__(params, lr, momentum, nesterov=nesterov)


class Adam(Optimizer):
    """m = b1 m + (1-b1) g; v = b2 v + (1-b2) g^2; p -= lr / (1-b1^t) * m / (sqrt(v / (1-b2^t)) + eps) (Kingma and Ba, 2015).

    ``weight_decay`` adds to the gradient; ``AdamW`` takes it from the parameter instead (Loshchilov and Hutter, 2019). ``amsgrad`` divides by the
    largest v so far (Reddi et al., 2018).
    """

    decoupled = False

    def __init__(self, params: Iterable[Any], lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8, weight_decay: float = 0.0,
                 amsgrad: bool = False, *, maximize: bool = False) -> None:
        _positive(lr=lr, eps=eps, weight_decay=weight_decay)
        if not (0 <= betas[0] < 1 and 0 <= betas[1] < 1):
            raise ValueError(f"Invalid beta parameters: {betas}")
        super().__init__(params, lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, amsgrad=amsgrad, maximize=maximize)

    def update(self, value: Array, g: Array, state: dict[str, Any], group: dict[str, Any]) -> None:
        kind = value.dtype.type
        b1, b2 = group["betas"]
        if not state:
            state.update(step=0, exp_avg=np.zeros_like(value), exp_avg_sq=np.zeros_like(value))
            if group["amsgrad"]:
                state["max_exp_avg_sq"] = np.zeros_like(value)
        state["step"] += 1
        m, v, t = state["exp_avg"], state["exp_avg_sq"], state["step"]
        if group["maximize"]:
            g = -g
        if group["weight_decay"]:
            if self.decoupled:
                value *= kind(1 - group["lr"] * group["weight_decay"])
            else:
                g = g + kind(group["weight_decay"]) * value
        m += kind(1 - b1) * (g - m)
        v *= kind(b2)
        v += kind(1 - b2) * g * g
        if group["amsgrad"]:
            v = np.maximum(state["max_exp_avg_sq"], v, out=state["max_exp_avg_sq"])
        root = np.sqrt(v)
        root /= kind((1 - b2 ** t) ** 0.5)
        root += kind(group["eps"])
        value -= kind(group["lr"] / (1 - b1 ** t)) * (m / root)


class AdamW(Adam):
    """Adam with weight decay taken from the parameter, not added to the gradient."""

    decoupled = True

    def __init__(self, params: Iterable[Any], lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8, weight_decay: float = 1e-2,
                 amsgrad: bool = False, *, maximize: bool = False) -> None:
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, maximize=maximize)


class RMSprop(Optimizer):
    """v = alpha v + (1-alpha) g^2; p -= lr * g / (sqrt(v) + eps), with momentum buffer = momentum * buffer + g / (sqrt(v) + eps)."""

    def __init__(self, params: Iterable[Any], lr: float = 1e-2, alpha: float = 0.99, eps: float = 1e-8, weight_decay: float = 0.0, momentum: float = 0.0) -> None:
        _positive(lr=lr, eps=eps, weight_decay=weight_decay, momentum=momentum, alpha=alpha)
        super().__init__(params, lr=lr, alpha=alpha, eps=eps, weight_decay=weight_decay, momentum=momentum)

    def update(self, value: Array, g: Array, state: dict[str, Any], group: dict[str, Any]) -> None:
        kind = value.dtype.type
        v = state.setdefault("square_avg", np.zeros_like(value))
        if group["weight_decay"]:
            g = g + kind(group["weight_decay"]) * value
        v *= kind(group["alpha"])
        v += kind(1 - group["alpha"]) * g * g
        g = g / (np.sqrt(v) + kind(group["eps"]))
        if group["momentum"]:
            buffer = state.setdefault("momentum_buffer", np.zeros_like(value))
            buffer *= kind(group["momentum"])
            buffer += g
            g = buffer
        value -= kind(group["lr"]) * g
