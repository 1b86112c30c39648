"""New tensors: ``zeros``, ``arange``, ``from_numpy`` and kin, under PyTorch's names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..dtypes import as_dtype
from .tensor import Tensor, tensor


def _sizes(size: tuple[Any, ...]) -> tuple[int, ...]:
    given = size[0] if len(size) == 1 and isinstance(size[0], (tuple, list)) else size
    return tuple(int(s) for s in given)


def _made(array: Any, requires_grad: bool) -> Tensor:
    t = Tensor._wrap(array)
    return t.requires_grad_() if requires_grad else t


def zeros(*size: Any, dtype: Any = "float32", requires_grad: bool = False) -> Tensor:
    """All zeros."""
    return _made(np.zeros(_sizes(size), as_dtype(dtype).np), requires_grad)


def ones(*size: Any, dtype: Any = "float32", requires_grad: bool = False) -> Tensor:
    """All ones."""
    return _made(np.ones(_sizes(size), as_dtype(dtype).np), requires_grad)


def full(size: Any, fill_value: Any, *, dtype: Any = None, requires_grad: bool = False) -> Tensor:
    """All ``fill_value``."""
    one = tensor(fill_value, dtype)
    return _made(np.full(_sizes((size,)) if isinstance(size, (tuple, list)) else (int(size),), one._array), requires_grad)


empty = zeros                                # what is not written yet reads as zero


def eye(n: int, m: int | None = None, *, dtype: Any = "float32", requires_grad: bool = False) -> Tensor:
    """Ones on the diagonal."""
    return _made(np.eye(n, m, dtype=as_dtype(dtype).np), requires_grad)


def arange(start: Any, end: Any = None, step: Any = 1, *, dtype: Any = None, requires_grad: bool = False) -> Tensor:
    """start, start + step, ... below end: int64 from ints, float32 from floats."""
    if end is None:
        start, end = 0, start
    kind = "float32" if any(isinstance(v, float) for v in (start, end, step)) else "int64"
    return _made(np.arange(start, end, step).astype(as_dtype(dtype or kind).np), requires_grad)


def linspace(start: float, end: float, steps: int, *, dtype: Any = "float32", requires_grad: bool = False) -> Tensor:
    """``steps`` numbers from start to end, both included."""
    return _made(np.linspace(start, end, steps).astype(as_dtype(dtype).np), requires_grad)


def from_numpy(array: np.ndarray[Any, Any]) -> Tensor:
    """A tensor in the array's own memory."""
    if not isinstance(array, np.ndarray):
        raise TypeError(f"expected np.ndarray (got {type(array).__name__})")
    as_dtype(array.dtype)
    return Tensor._wrap(array)


def as_tensor(data: Any, dtype: Any = None) -> Tensor:
    """The tensor itself, an array in its own memory, or a new tensor of ``data``."""
    if isinstance(data, Tensor) and (dtype is None or as_dtype(dtype) == data.dtype):
        return data
    if isinstance(data, np.ndarray) and (dtype is None or as_dtype(dtype).np == data.dtype):
        return from_numpy(data)
    return data.to(dtype) if isinstance(data, Tensor) else tensor(data, dtype)       # type: ignore[attr-defined]


def _like(make: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def like(t: Tensor, *, dtype: Any = None, requires_grad: bool = False) -> Tensor:
        return make(t.shape, dtype=dtype or t.dtype, requires_grad=requires_grad)
    like.__doc__ = f"``{make.__name__}`` in the shape and dtype of ``t``."
    return like


zeros_like, ones_like, empty_like = _like(zeros), _like(ones), _like(zeros)


def full_like(t: Tensor, fill_value: Any, *, dtype: Any = None, requires_grad: bool = False) -> Tensor:
    """All ``fill_value`` in the shape and dtype of ``t``."""
    return full(t.shape, fill_value, dtype=dtype or t.dtype, requires_grad=requires_grad)


def _install() -> None:
    put: Any = Tensor
    put.new_zeros = lambda self, *size, dtype=None, requires_grad=False: zeros(*size, dtype=dtype or self.dtype, requires_grad=requires_grad)
    put.new_ones = lambda self, *size, dtype=None, requires_grad=False: ones(*size, dtype=dtype or self.dtype, requires_grad=requires_grad)
    put.new_full = lambda self, size, value, dtype=None, requires_grad=False: full(size, value, dtype=dtype or self.dtype, requires_grad=requires_grad)
    put.new_tensor = lambda self, data, dtype=None, requires_grad=False: tensor(data, dtype or self.dtype, requires_grad)


_install()
