"""``x[...]`` and slices: basic indexing of tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import source
from ..dtypes import bool_
from ..errors import DTypeError, ShapeError
from ..ir.aval import Size
from .deferred import recorded
from .funnel import convert, emit, op_scope
from .sizes import known, sizes_from, static_int
from .tensor import OPERATORS, Tensor


def boolean_mask_refused(*_: Any, **__: Any) -> Any:
    """The number of kept elements is only known when the graph runs."""
    raise NotImplementedError("boolean_mask has a size that only the run knows; use where(mask, x, 0)")


@recorded
def strided_slice(x: Any, index: Any, name: str = "strided_slice") -> Tensor:
    """``x[index]`` with ints, slices with steps, None, ``...`` and scalar integer tensors."""
    items = list(index) if isinstance(index, tuple) else [index]
    for i in items:
        ok = isinstance(i, (int, np.integer, slice)) or i is None or i is Ellipsis or isinstance(i, Tensor) or hasattr(i, "_as_tensor")
        if not ok or isinstance(i, (bool, np.bool_)):
            raise DTypeError("Only integers, slices (`:`), ellipsis (`...`), tf.newaxis (`None`) and scalar tf.int32/tf.int64 tensors are valid "
                             f"indices, got {i!r}")
    if len(items) == 1 and isinstance(items[0], Tensor) and items[0].dtype == bool_:
        return boolean_mask_refused()
    with op_scope(name, "strided_slice", x, *items) as label:
        t = convert(x, name="input")
        if any(isinstance(i, Tensor) and known(i.node) is None for i in items):
            return _dynamic_index(t, items, label)
        items = [static_int(i, "index") if isinstance(i, Tensor) or hasattr(i, "_as_tensor") else i for i in items]
        result: Tensor = emit("StridedSlice", label, (t,), lambda b, n: index_node(b, n, items))
        return result


def index_node(b: Any, n: Any, items: list[Any]) -> Any:
    """Basic indexing of an IR node. ShapeError for an int out of range or too many indices."""
    items = list(items)
    used = sum(i is not None and i is not Ellipsis for i in items)
    rank_ = len(n.shape)
    if used > rank_:
        raise ShapeError(f"Index out of range using input dim {rank_}; input has only {rank_} dims")
    at = next((k for k, i in enumerate(items) if i is Ellipsis), None)
    if at is None:
        items += [slice(None)] * (rank_ - used)
    else:
        items[at:at + 1] = [slice(None)] * (rank_ - used)
    starts, sizes, steps, out, axis = [], [], [], [], 0
    for i in items:
        if i is None:
            out.append(1)
            continue
        d = n.shape[axis]
        if isinstance(i, slice):
            a, c, s = _bounds(i, d)
            out.append(c)
        else:
            i = int(i)
            if isinstance(d, int) and not -d <= i < d:
                raise ShapeError(f"slice index {i} of dimension {axis} out of bounds.")
            a, c, s = (i if i >= 0 else d + i), 1, 1
        starts.append(a)
        sizes.append(c)
        steps.append(s)
        axis += 1
    y = b.slice(n, starts=tuple(starts), sizes=tuple(sizes), steps=tuple(steps))
    return b.reshape(y, shape=tuple(out)) if tuple(out) != y.shape else y


def _bounds(i: slice, d: Size) -> tuple[Size, Size, int]:
    """(start, count, step) of a slice of an axis of size ``d``; a size not known is taken to be large enough for the bounds given."""
    step = 1 if i.step is None else static_int(i.step, "step")
    parts = [None if v is None else (sizes_from(v)[0]) for v in (i.start, i.stop)]
    if isinstance(d, int) and all(v is None or isinstance(v, int) for v in parts):
        r = range(*slice(parts[0], parts[1], step).indices(d))
        return (r.start if len(r) else 0), len(r), step
    start, stop = parts

    def place(v: Any) -> Any:
        return d + v if isinstance(v, int) and v < 0 else v
    if step > 0:
        a, z = (0 if start is None else place(start)), (d if stop is None else place(stop))
    else:
        a, z = (d - 1 if start is None else place(start)), (-1 if stop is None else place(stop))
    span = z - a if step > 0 else a - z
    return a, (span + (abs(step) - 1)) // abs(step) if abs(step) > 1 else span, step


def _dynamic_index(t: Tensor, items: list[Any], name: str) -> Tensor:
    """Scalar integer tensors pick along their axis at run time."""
    picks = [i for i in items if isinstance(i, Tensor)]
    rest = [slice(None) if isinstance(i, Tensor) else i for i in items]
    if Ellipsis in [i for i in rest if not isinstance(i, slice)] or None in rest:
        raise ShapeError("a scalar tensor as an index cannot be mixed with ... or None here")
    axes = [k for k, i in enumerate(items) if isinstance(i, Tensor)]

    def build(b: Any, n: Any, *ids: Any) -> Any:
        ints = [k for k, i in enumerate(rest) if not isinstance(i, slice)]
        for axis, i in sorted(zip(axes, ids), reverse=True, key=lambda p: p[0]):
            n = b.gather(n, i, axis=axis, negative="wrap")
        left = [i for k, i in enumerate(rest) if k not in axes]
        del ints
        return index_node(b, n, left)
    result: Tensor = emit("StridedSlice", name, (t, *picks), build)
    return result


@recorded
def _getitem(x: Any, index: Any) -> Any:
    with source.hide_own_frames():
        return strided_slice(x, index)


OPERATORS["__getitem__"] = _getitem


@recorded
def slice_(input_: Any, begin: Any, size: Any, name: str | None = None) -> Tensor:
    """``size`` elements from ``begin`` on, per axis (-1: all that remain)."""
    with op_scope(name, "Slice", input_) as label:
        x = convert(input_, name="input")
        starts, counts = sizes_from(begin, "begin"), sizes_from(size, "size")
        full = tuple(d - a if c == -1 else c for d, a, c in zip(x.node.shape, starts, counts))
        return emit("Slice", label, (x,), lambda b, n: b.slice(n, starts=starts, sizes=full, steps=(1,) * len(starts)))
