"""``x[index]`` and ``x[index] = value``: NumPy's indexing, with PyTorch's rule for what shares memory.

Ints, slices, None and ``...`` give a view; index arrays, lists and masks gather, and the elements they name are found by indexing an
array of positions with NumPy itself.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import source
from ..errors import ShapeError
from ..ir.aval import product
from .inplace import overwrite
from .tensor import Tensor, compute


class OutOfBounds(ShapeError, IndexError):
    """An index that is not there (IndexError ends Python's iteration protocol, too)."""


def getitem(self: Tensor, index: Any) -> Any:
    """Ints, slices with steps, None, ``...`` (views); index arrays, lists and masks (copies)."""
    with source.hide_own_frames():
        items = index if isinstance(index, tuple) else (index,)
        if any(map(_is_array, items)):
            return _gathered(self, items)
        return basic(self, items)


def setitem(self: Tensor, index: Any, value: Any) -> None:
    """``x[index] = value`` in place, recorded; where an index array names an element twice the last value stays."""
    with source.hide_own_frames():
        items = index if isinstance(index, tuple) else (index,)
        if not any(map(_is_array, items)):
            overwrite(compute, basic(self, items), "copy_", value)
            return
        where = _positions(self, items)
        new = value if isinstance(value, Tensor) else compute.const(value, self.dtype)
        if new.dtype != self.dtype:
            new = compute.cast(new, dtype=self.dtype)
        _fits(new.shape, where.shape)
        new = compute.broadcast(new, where.shape)
        count = product(self.shape)
        # a new whole, then written over the old: the old values' gradient is that of the elements that stay
        flat = compute.reshape(compute.identity(self), shape=(count,))
        _, first = np.unique(where.ravel()[::-1], return_index=True)
        last = where.size - 1 - np.sort(first)
        ids, rows = compute.const(where.ravel()[last]), compute.take(compute.reshape(new, shape=(where.size,)), compute.const(last), axis=0)
        overwrite(compute, self, "index_put_", compute.reshape(compute.rows_set(flat, ids, rows), shape=self.shape))


def _fits(shape: tuple[int, ...], want: tuple[int, ...]) -> None:
    try:
        np.broadcast_shapes(shape, want)
    except ValueError:
        raise ShapeError(f"shape mismatch: value tensor of shape {list(shape)} cannot be broadcast to indexing result of shape {list(want)}") from None


def _is_array(i: Any) -> bool:
    return isinstance(i, (list, np.ndarray, bool, np.bool_)) or (isinstance(i, Tensor) and (i.ndim > 0 or i.dtype.is_bool))


def _plain(i: Any) -> Any:
    """An item as NumPy takes it."""
    if isinstance(i, Tensor):
        i = i._array
    if isinstance(i, slice):
        return slice(*[int(v) if isinstance(v, Tensor) else v for v in (i.start, i.stop, i.step)])
    if isinstance(i, (list, np.ndarray)):
        array = np.array([_plain(v) for v in i]) if isinstance(i, list) else i
        if array.size == 0:
            array = array.astype(np.int64)
        if array.dtype.kind not in "iub":
            raise IndexError("tensors used as indices must be integer or bool tensors, got " + str(array.dtype))
        return array
    return i


def _positions(x: Tensor, items: tuple[Any, ...]) -> np.ndarray[Any, Any]:
    """The row-major positions of the elements that the index names."""
    try:
        return np.arange(product(x.shape)).reshape(x.shape)[tuple(map(_plain, items))]       # type: ignore[arg-type]
    except IndexError as error:
        raise OutOfBounds(str(error)) from None


def _gathered(x: Tensor, items: tuple[Any, ...]) -> Any:
    first = _plain(items[0])
    if len(items) == 1 and isinstance(first, np.ndarray) and first.dtype.kind in "iu" and x.ndim:
        size = x.shape[0]
        if first.size and not (-size <= first.min() and first.max() < size):
            raise OutOfBounds(f"index {first.max() if first.max() >= size else first.min()} is out of bounds for dimension 0 with size {size}")
        return compute.take(x, compute.const(np.where(first < 0, first + size, first)), axis=0)
    where = _positions(x, items)
    flat = compute.reshape(x, shape=(product(x.shape),))
    return compute.take(flat, compute.const(where), axis=0)


def basic(x: Tensor, index: tuple[Any, ...]) -> Any:
    """The view for ints, slices, None and ``...``."""
    items = [i.__index__() if isinstance(i, (Tensor, np.integer)) else i for i in index]
    for i in items:
        if not (i is None or i is Ellipsis or isinstance(i, (int, slice))):
            raise TypeError(f"only integers, slices (`:`), ellipsis (`...`), None and integer or bool arrays are valid indices (got {type(i).__name__})")
    used = sum(i is not None and i is not Ellipsis for i in items)
    if used > x.ndim:
        raise OutOfBounds(f"too many indices: {used} for a {x.ndim}-dimensional tensor" if x.ndim else
                          "invalid index of a 0-dim tensor: use tensor.item() to convert it to a number")
    dots = [k for k, i in enumerate(items) if i is Ellipsis]
    if len(dots) > 1:
        raise OutOfBounds("an index can have only one ellipsis ('...')")
    at = dots[0] if dots else len(items)
    items[at:at + len(dots)] = [slice(None)] * (x.ndim - used)
    starts, sizes, steps, shape, axis = [], [], [], [], 0
    for i in items:
        if i is None:
            shape.append(1)
            continue
        d = x.shape[axis]
        if isinstance(i, slice):
            r = range(*slice(*[None if v is None else int(v) for v in (i.start, i.stop, i.step)]).indices(d))
            starts.append(r.start if len(r) else 0)
            sizes.append(len(r))
            steps.append(r.step)
            shape.append(len(r))
        else:
            if not -d <= i < d:
                raise OutOfBounds(f"index {i} is out of bounds for dimension {axis} with size {d}")
            starts.append(i % d)
            sizes.append(1)
            steps.append(1)
        axis += 1
    y = x if tuple(sizes) == x.shape and all(s == 1 for s in steps) and x.ndim else compute.slice(x, starts=tuple(starts), sizes=tuple(sizes), steps=tuple(steps))
    if y is x or tuple(shape) != y.shape:
        y = compute.reshape(y, shape=tuple(shape))
    return y
