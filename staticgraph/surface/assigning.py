"""Changes of variables as functions: ``assign(v, x)`` for ``v.assign(x)``."""

from __future__ import annotations

from typing import Any

from .funnel import convert
from .tensor import Tensor


def assign(ref: Any, value: Any, validate_shape: Any = None, use_locking: Any = None, name: str | None = None) -> Tensor:
    """``ref.assign(value)``. A variable keeps its shape: ``validate_shape=False`` with another one is refused."""
    if validate_shape is False:
        shape = convert(value, ref.base_dtype, "value").shape
        if not shape.is_compatible_with(ref.shape):
            raise NotImplementedError(f"a variable keeps its shape: assign(validate_shape=False) cannot give {ref.name} of shape {ref.shape} the shape {shape}")
    result: Tensor = ref.assign(value, name=name)
    return result


def assign_add(ref: Any, value: Any, use_locking: Any = None, name: str | None = None) -> Tensor:
    """``ref.assign_add(value)``"""
    result: Tensor = ref.assign_add(value, name=name)
    return result


def assign_sub(ref: Any, value: Any, use_locking: Any = None, name: str | None = None) -> Tensor:
    """``ref.assign_sub(value)``"""
    result: Tensor = ref.assign_sub(value, name=name)
    return result


def scatter_add(ref: Any, indices: Any, updates: Any, use_locking: Any = None, name: str | None = None) -> Tensor:
    """Add rows to a variable."""
    result: Tensor = ref.scatter_add(indices, updates, name)
    return result


def scatter_sub(ref: Any, indices: Any, updates: Any, use_locking: Any = None, name: str | None = None) -> Tensor:
    """Subtract rows from a variable."""
    result: Tensor = ref.scatter_sub(indices, updates, name)
    return result


def scatter_update(ref: Any, indices: Any, updates: Any, use_locking: Any = None, name: str | None = None) -> Tensor:
    """Replace rows of a variable."""
    result: Tensor = ref.scatter_update(indices, updates, name)
    return result
