"""NumPy beside tensors: ``np.sin(t)``, ``array + t``, ``np.concatenate([t, array])`` compute with the same ops, and are recorded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import source
from .methods import call, matmul, where
from .shaping import cat, stack
from .tape import AutogradError
from .tensor import Tensor, compute

_UFUNCS = {"add": "add", "subtract": "sub", "multiply": "mul", "negative": "neg", "power": "pow", "float_power": "pow", "absolute": "abs",
           "fabs": "abs", "sign": "sign", "square": "square", "sqrt": "sqrt", "reciprocal": "reciprocal", "exp": "exp", "expm1": "expm1", "exp2": "exp2", "log": "log",
           "log1p": "log1p", "log2": "log2", "log10": "log10", "sin": "sin", "cos": "cos", "tan": "tan", "arcsin": "asin", "arccos": "acos", "arctan": "atan",
           "arctan2": "atan2", "sinh": "sinh", "cosh": "cosh", "tanh": "tanh", "arcsinh": "asinh", "arccosh": "acosh", "arctanh": "atanh", "maximum": "maximum",
           "minimum": "minimum", "floor": "floor", "ceil": "ceil", "trunc": "trunc", "rint": "rint", "floor_divide": "floordiv", "remainder": "floormod",
           "fmod": "truncmod", "less": "less", "less_equal": "less_equal", "greater": "greater", "greater_equal": "greater_equal", "equal": "equal",
           "not_equal": "not_equal", "logical_and": "logical_and", "logical_or": "logical_or", "logical_xor": "logical_xor", "logical_not": "logical_not",
           "bitwise_and": "bitwise_and", "bitwise_or": "bitwise_or", "bitwise_xor": "bitwise_xor", "invert": "invert", "left_shift": "left_shift",
           "right_shift": "right_shift", "isnan": "is_nan", "isinf": "is_inf", "isfinite": "is_finite"}


def array_ufunc(self: Tensor, ufunc: Any, method: str, *inputs: Any, out: Any = None, **kw: Any) -> Any:
    """NumPy's ufuncs of tensors are the ops of the same meaning. ``array += t`` takes the values of a tensor without a gradient."""
    with source.hide_own_frames():
        if out is not None:
            if any(isinstance(o, Tensor) for o in out):
                raise TypeError(f"np.{ufunc.__name__}(..., out=tensor) is not available: use the tensor's own methods ({ufunc.__name__}_)")
            return getattr(ufunc, method)(*[_plain(i, f"np.{ufunc.__name__}") for i in inputs], out=out, **kw)
        if method == "__call__" and not kw:
            if ufunc.__name__ in ("divide", "true_divide"):
                from .methods import divide
                return divide(*inputs)
            if ufunc is np.matmul:
                return matmul(*inputs)
            name = _UFUNCS.get(ufunc.__name__)
            if name is not None:
                return call(name, *inputs)
        return getattr(ufunc, method)(*[_plain(i, f"np.{ufunc.__name__}") for i in inputs], **kw)


def _plain(value: Any, what: str) -> Any:
    """A tensor's array; AutogradError where a gradient would be lost silently."""
    if isinstance(value, (list, tuple)):
        return type(value)(_plain(v, what) for v in value)
    if not isinstance(value, Tensor):
        return value
    if value.requires_grad:
        raise AutogradError(f"{what} has no gradient here and its argument requires one: use a function of staticgraph, or tensor.detach() to go on without it")
    return value._array


def _reduced(method: str) -> Callable[..., Any]:
    def f(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
        return getattr(a, method)(axis, keepdims)
    return f


def _axis_of(method: str) -> Callable[..., Any]:
    def f(a: Any, axis: Any = None) -> Any:
        return getattr(a, method)(axis)
    return f


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{n: _reduced(n) for n in ("sum", "mean", "prod", "any", "all")}, "amax": _reduced("amax"), "amin": _reduced("amin"), "max": _reduced("amax"), "min": _reduced("amin"),
    "argmax": _axis_of("argmax"), "argmin": _axis_of("argmin"),
    "cumsum": lambda a, axis=0: a.cumsum(axis), "cumprod": lambda a, axis=0: a.cumprod(axis),
    "reshape": lambda a, shape: a.reshape(shape), "ravel": lambda a: a.reshape(-1), "squeeze": lambda a, axis=None: a.squeeze(axis),
    "transpose": lambda a, axes=None: a.T if axes is None else a.permute(tuple(axes)), "swapaxes": lambda a, i, j: a.transpose(i, j),
    "expand_dims": lambda a, axis: a.unsqueeze(axis), "broadcast_to": lambda a, shape: a.expand(shape), "flip": lambda a, axis: a.flip(axis),
    "concatenate": lambda arrays, axis=0: cat(arrays, axis), "stack": lambda arrays, axis=0: stack(arrays, axis),
    "where": where, "clip": lambda a, a_min=None, a_max=None: a.clamp(a_min, a_max), "dot": matmul, "outer": lambda a, b: compute.operands(None, (a, b))[0].outer(b),
    "round": lambda a, decimals=0: a.round(decimals), "zeros_like": lambda a: compute.zeros(a.aval), "ones_like": lambda a: compute.full(a.aval, 1),
    "shape": lambda a: a.shape, "ndim": lambda a: a.ndim, "size": lambda a: a.numel(), "copy": lambda a: a.clone(),
}


def array_function(self: Tensor, func: Any, types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """NumPy's functions of tensors: recorded where there is an op for it, else of their arrays (which needs that no gradient is lost)."""
    name = func.__name__
    with source.hide_own_frames():
        ours = _FUNCTIONS.get(name)
        if ours is not None:
            import inspect
            try:
                inspect.signature(ours).bind(*args, **kwargs)
            except TypeError:
                ours = None
        if ours is not None:
            first = args[0] if args else None
            if isinstance(first, Tensor) or name in ("concatenate", "stack", "where", "dot", "outer"):
                return ours(*args, **kwargs)
        return func(*[_plain(a, f"np.{name}") for a in args], **{k: _plain(v, f"np.{name}") for k, v in kwargs.items()})


Tensor.__array_ufunc__ = array_ufunc         # type: ignore[attr-defined]
Tensor.__array_function__ = array_function   # type: ignore[attr-defined]
