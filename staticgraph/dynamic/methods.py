"""Operators, methods and functions of dynamic tensors, made from the op table: an op added there appears here by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import source
from ..errors import ShapeError
from ..ir.opdef import OPS
from ..ops.helpers import normalize_axes, normalize_axis
from ..ops.shape import resolve_shape
from .tensor import Tensor, compute

_OPERATORS = {"add": "add", "sub": "sub", "mul": "mul", "truediv": "div", "pow": "pow", "floordiv": "floordiv", "mod": "floormod",
              "matmul": "matmul", "and": "logical_and", "or": "logical_or", "xor": "logical_xor"}
_COMPARISONS = {"lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal", "eq": "equal", "ne": "not_equal"}
_METHODS = ("exp", "expm1", "log", "log1p", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh",
            "atanh", "sqrt", "rsqrt", "square", "reciprocal", "abs", "neg", "sign", "sigmoid", "relu", "softplus", "erf", "erfc",
            "floor", "ceil", "maximum", "minimum", "logical_not")


def call(name: str, *inputs: Any, **attrs: Any) -> Any:
    """Apply the op ``name`` now; tensors, arrays and numbers mix (arrays and numbers adopt the tensors' dtype)."""
    with source.hide_own_frames():
        return compute.call(OPS[name], *inputs, **attrs)


def _binary(name: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
    def forward(self: Tensor, other: Any) -> Any:
        return call(name, self, other)

    def reverse(self: Tensor, other: Any) -> Any:
        return call(name, other, self)
    return forward, reverse


def _matmul(x: Any, y: Any) -> Any:
    """Products with NumPy's treatment of vectors."""
    x, y = compute.operands(None, (x, y))                                    # type: ignore[arg-type]
    a = x if x.ndim > 1 else compute.reshape(x, shape=(1, x.shape[0]))
    b = y if y.ndim > 1 else compute.reshape(y, shape=(y.shape[0], 1))
    z = compute.matmul(a, b)
    shape = list(z.shape)
    if y.ndim == 1:
        del shape[-1]
    if x.ndim == 1:
        del shape[-1 if y.ndim == 1 else -2]
    return z if len(shape) == z.ndim else compute.reshape(z, shape=tuple(shape))


def _reduction(name: str) -> Callable[..., Any]:
    def method(self: Tensor, dim: Any = None, keepdim: bool = False) -> Any:
        axis = dim if dim is None or isinstance(dim, tuple) else tuple(dim) if isinstance(dim, list) else (dim,)
        return call(name, self, axis=axis, keepdims=keepdim)
    method.__name__ = name
    method.__doc__ = f"``{name}`` over ``dim`` (an axis or several; None: all)."
    return method


def _getitem(self: Tensor, index: Any) -> Any:
    """Ints, slices with steps, None, ``...``; an integer array or tensor picks rows of its axis."""
    with source.hide_own_frames():
        items = list(index) if isinstance(index, tuple) else [index]
        fancy = [k for k, i in enumerate(items) if isinstance(i, (list, np.ndarray)) or (isinstance(i, Tensor) and i.ndim)]
        if fancy:
            if len(items) != 1:
                raise ShapeError("an index array must stand alone: x[indices]")
            chosen = items[0]
            ids = chosen if isinstance(chosen, Tensor) else compute.const(np.asarray(chosen))
            if ids.dtype.is_bool:
                ids = compute.const(np.flatnonzero(ids.data))
            return compute.gather(self, ids, axis=0)
        return _basic(self, items)


def _basic(x: Tensor, items: list[Any]) -> Any:
    items = [int(i) if isinstance(i, Tensor) else i for i in items]
    used = sum(i is not None and i is not Ellipsis for i in items)
    if used > x.ndim:
        raise ShapeError(f"too many indices: {used} for a {x.ndim}-dimensional tensor")
    if Ellipsis not in [i for i in items if not isinstance(i, (int, slice))]:
        items = [*items, Ellipsis]
    at = next(k for k, i in enumerate(items) if i is Ellipsis)
    items[at:at + 1] = [slice(None)] * (x.ndim - used)
    starts, sizes, steps, shape, axis = [], [], [], [], 0
    for i in items:
        if i is None:
            shape.append(1)
            continue
        d = x.shape[axis]
        if isinstance(i, slice):
            r = range(*i.indices(d))
            starts.append(r.start if len(r) else 0)
            sizes.append(len(r))
            steps.append(r.step)
            shape.append(len(r))
        else:
            starts.append(normalize_index(int(i), d, axis))
            sizes.append(1)
            steps.append(1)
        axis += 1
    y = compute.slice(x, starts=tuple(starts), sizes=tuple(sizes), steps=tuple(steps))
    return compute.reshape(y, shape=tuple(shape)) if tuple(shape) != y.shape else y


def normalize_index(i: int, size: int, axis: int) -> int:
    """A non-negative index. IndexError (a ShapeError too) out of range."""
    if not -size <= i < size:
        raise OutOfBounds(f"index {i} is out of bounds for dimension {axis} with size {size}")
    return i % size


class OutOfBounds(ShapeError, IndexError):
    """An index that is not there (IndexError ends Python's iteration protocol, too)."""


def _reshape(self: Tensor, *shape: Any) -> Any:
    """Under another shape; one size may be -1."""
    sizes = tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
    with source.hide_own_frames():
        return compute.reshape(self, shape=resolve_shape(self.aval, sizes))


def _transpose(self: Tensor, dim0: int = 0, dim1: int = 1) -> Any:
    """Two axes swapped."""
    perm = list(range(self.ndim))
    a, b = normalize_axis(dim0, self.ndim), normalize_axis(dim1, self.ndim)
    perm[a], perm[b] = perm[b], perm[a]
    return call("transpose", self, perm=tuple(perm))


def _softmax(self: Tensor, dim: int = -1) -> Any:
    """softmax along ``dim``."""
    return call("softmax", self, axis=dim)


def _squeeze(self: Tensor, dim: Any = None) -> Any:
    """Without axes of size 1."""
    return call("squeeze", self, axis=None if dim is None else normalize_axes(dim, self.ndim))


def _std_methods() -> None:
    for python, name in _OPERATORS.items():
        forward, reverse = _binary(name)
        setattr(Tensor, f"__{python}__", forward)
        setattr(Tensor, f"__r{python}__", reverse)
    for python, name in _COMPARISONS.items():
        setattr(Tensor, f"__{python}__", _binary(name)[0])
    Tensor.__hash__ = object.__hash__                                        # type: ignore[method-assign]
    put: Any = Tensor
    put.__matmul__ = lambda self, other: _hidden(_matmul, self, other)
    put.__rmatmul__ = lambda self, other: _hidden(_matmul, other, self)
    put.matmul = put.mm = put.__matmul__
    put.__neg__ = lambda self: call("neg", self)
    put.__abs__ = lambda self: call("abs", self)
    put.__invert__ = lambda self: call("logical_not", self)
    put.__getitem__ = _getitem
    for name in _METHODS:
        setattr(Tensor, name, _method(name))
    for name in ("sum", "mean", "prod", "max", "min", "any", "all", "logsumexp"):
        setattr(Tensor, name, _reduction(name))
    put.reshape = put.view = _reshape
    put.transpose = _transpose
    put.T = property(lambda self: call("transpose", self, perm=tuple(range(self.ndim))[::-1]), doc="All axes reversed.")
    put.squeeze = _squeeze
    put.unsqueeze = lambda self, dim: call("expand_dims", self, axis=dim)
    put.softmax = _softmax
    put.pow = put.__pow__
    put.argmax = lambda self, dim=0: call("argmax", self, axis=dim)
    put.to = put.type = lambda self, dtype: call("cast", self, dtype=_dtype(dtype))
    put.float = lambda self: self.to("float32")
    put.double = lambda self: self.to("float64")
    put.long = lambda self: self.to("int64")


def _method(name: str) -> Callable[..., Any]:
    def method(self: Tensor, *others: Any, **attrs: Any) -> Any:
        return call(name, self, *others, **attrs)
    method.__name__ = name
    method.__doc__ = f"The op ``{name}`` of this tensor."
    return method


def _hidden(f: Callable[..., Any], *args: Any) -> Any:
    with source.hide_own_frames():
        return f(*args)


def _dtype(value: Any) -> Any:
    from ..dtypes import as_dtype
    return as_dtype(value)


_std_methods()
