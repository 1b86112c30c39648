"""``x[...]`` and slices: basic indexing of tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import source
from ..dtypes import bool_, int32, int64
from ..errors import DTypeError, ShapeError
from ..ir.aval import Size, maximum
from ..ir.graph import Node
from ..ops.measure import size_of
from .constructs import index_nodes, is_tensor
from .deferred import recorded
from .funnel import convert, emit, op_scope
from .sizes import known, sizes_from, static_int
from .tensor import OPERATORS, Tensor


@recorded
def part(x: Any, index: Any, name: str = "strided_slice") -> Tensor:
    """``x[index]`` with ints, slices with steps, None, ``...`` and scalar integer tensors."""
    items = list(index) if isinstance(index, tuple) else [index]
    for i in items:
        ok = isinstance(i, (int, np.integer, slice)) or i is None or i is Ellipsis or isinstance(i, Tensor) or hasattr(i, "_as_tensor")
        if not ok or isinstance(i, (bool, np.bool_)):
            raise DTypeError("Only integers, slices (`:`), ellipsis (`...`), tf.newaxis (`None`) and scalar tf.int32/tf.int64 tensors are valid "
                             f"indices, got {i!r}")
    if len(items) == 1 and isinstance(items[0], Tensor) and items[0].dtype == bool_:
        from .selection import boolean_mask
        return boolean_mask(x, items[0], None if name == "strided_slice" else name)
    more = index_nodes(items)
    with op_scope(name, "strided_slice", x, *items, beside=["add"] * sum(is_tensor(i) for i in items)) as label:
        t = convert(x, name="input")
        if any(_at_run(v) for i in items for v in ((i.start, i.stop) if isinstance(i, slice) else (i,))):
            return _dynamic_index(t, items, label, more)
        items = [static_int(i, "index") if isinstance(i, Tensor) or hasattr(i, "_as_tensor") else i for i in items]
        result: Tensor = emit("StridedSlice", label, (t,), lambda b, n: index_node(b, n, items), more=more)
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
    """(start, count, step) of a slice of an axis of size ``d``."""
    step = 1 if i.step is None else static_int(i.step, "step")
    parts = [None if v is None else (sizes_from(v)[0]) for v in (i.start, i.stop)]
    if isinstance(d, int) and all(v is None or isinstance(v, int) for v in parts):
        r = range(*slice(parts[0], parts[1], step).indices(d))
        return (r.start if len(r) else 0), len(r), step
    start, stop = parts
    if step < 0:                             # the size is taken to be large enough for the bounds given
        a, z = (d - 1 if start is None else _from_end(start, d)), (-1 if stop is None else _from_end(stop, d))
        span = a - z
    else:
        # a bound beyond an end is that end, whatever size a run has
        a = 0 if start is None else maximum(d + start, 0) if isinstance(start, int) and start < 0 else start
        z = d if stop is None else maximum(_from_end(stop, d), 0) if isinstance(stop, int) and stop < 0 else stop
        if isinstance(stop, int) and stop >= 0:
            z = z - maximum(z - d, 0)        # the smaller of the two
        span = maximum(z - a, 0)
        a = a - maximum(a - d, 0)            # an empty part begins within the axis too
    return a, (span + (abs(step) - 1)) // abs(step) if abs(step) > 1 else span, step


def _from_end(v: Any, d: Size) -> Any:
    return d + v if isinstance(v, int) and v < 0 else v


def _at_run(v: Any) -> bool:
    """Whether an index is a number that only the run knows."""
    v = v._as_tensor() if hasattr(v, "_as_tensor") else v
    return isinstance(v, Tensor) and known(v.node) is None


def _dynamic_index(t: Tensor, items: list[Any], name: str, more: int) -> Tensor:
    """Indices and bounds of slices that only the run knows: those axes are picked first, what is left is basic indexing."""
    numbers = [convert(v) for i in items for v in ((i.start, i.stop) if isinstance(i, slice) else (i,)) if _at_run(v)]

    def build(b: Any, n: Any, *nodes: Any) -> Any:
        given = iter(nodes)
        left = list(items)
        rank = len(n.shape)
        for k, i in enumerate(items):
            after = items[k + 1:]
            axis = sum(v is not None for v in items[:k])
            if Ellipsis in [v for v in items[:k] if not isinstance(v, (slice, Tensor))]:
                axis = rank - 1 - sum(v is not None for v in after)
            if isinstance(i, slice):
                ends = [next(given) if _at_run(v) else v for v in (i.start, i.stop)]
                if any(_at_run(v) for v in (i.start, i.stop)):
                    step = 1 if i.step is None else static_int(i.step, "step")
                    n, left[k] = _run_slice(b, n, axis, ends[0], ends[1], step), slice(None)
            elif _at_run(i):
                n, left[k] = b.gather(n, b.reshape(next(given), shape=(1,)), axis=axis, negative="wrap"), 0
            elif i is not None and i is not Ellipsis:
                left[k] = static_int(i, "index")
        return index_node(b, n, left)
    result: Tensor = emit("StridedSlice", name, (t, *numbers), build, more=more)
    return result


def _run_slice(b: Any, n: Any, axis: int, start: Any, stop: Any, step: int) -> Any:
    """``n[start:stop:step]`` along an axis by Python's rules (bounds beyond the ends are the ends); the bounds are nodes, ints or None."""
    d = n.shape[axis]
    size = b.const(d, int64) if isinstance(d, int) else b.reshape(b.sizes(sizes=(d,), dtype=int64), shape=())
    low, high = (0, size) if step > 0 else (-1, b.sub(size, b.const(1, int64)))

    def place(v: Any, default: Any) -> Any:
        if v is None:
            return default
        if isinstance(v, Node):
            v = b.reshape(v if v.dtype == int64 else b.cast(v, dtype=int64), shape=())
        else:
            v = b.const(static_int(v, "index"), int64)
        v = b.where(b.less(v, b.const(0, int64)), b.add(v, size), v)
        return b.minimum(b.maximum(v, b.const(low, int64)), high)
    first = place(start, b.const(0, int64) if step > 0 else high)
    last = place(stop, size if step > 0 else b.const(-1, int64))
    span = b.sub(last, first) if step > 0 else b.sub(first, last)
    count = b.floordiv(b.add(span, b.const(abs(step) - 1, int64)), b.const(abs(step), int64))
    k = size_of(b, b.maximum(count, b.const(0, int64)), d)
    if start is None and step == 1:          # the first k: nothing moves
        whole = n.shape
        return b.slice(n, starts=(0,) * len(whole), sizes=(*whole[:axis], k, *whole[axis + 1:]), steps=(1,) * len(whole))
    n = b.reshape(n, shape=n.shape)          # so that the gradient is a dense array, as of every slice
    return b.take(n, b.add(first, b.mul(b.iota(shape=(k,), axis=0, dtype=int64), b.const(step, int64))), axis=axis)


@recorded
def _getitem(x: Any, index: Any) -> Any:
    with source.hide_own_frames():
        result = part(x, index)
        if hasattr(x, "_assign_slice"):      # v[1].assign(value) sets that part of a variable
            result.assign = lambda value, name=None: x._assign_slice(index, value, name or f"{result.op.name}/_assign")
        return result


OPERATORS["__getitem__"] = _getitem


@recorded
def strided_slice(input_: Any, begin: Any, end: Any, strides: Any = None, begin_mask: int = 0, end_mask: int = 0, ellipsis_mask: int = 0, new_axis_mask: int = 0,
                  shrink_axis_mask: int = 0, var: Any = None, name: str | None = None) -> Tensor:
    """``input_[begin:end:strides]`` per axis. A bit of a mask says of its axis: no begin, no end, ``...``, a new axis, or the element at ``begin``."""
    with op_scope(name, "StridedSlice", input_, begin, end, strides) as label:
        count = next(len(v) if isinstance(v, (list, tuple, np.ndarray)) else convert(v).node.shape[0] for v in (begin, end))
        starts, stops = ([part(v, k) for k in range(count)] if is_tensor(v) else list(v) for v in (begin, end))
        steps = [1] * count if strides is None else list(sizes_from(strides, "strides"))
        items: list[Any] = []
        for k in range(count):
            bit = 1 << k
            if ellipsis_mask & bit:
                items.append(Ellipsis)
            elif new_axis_mask & bit:
                items.append(None)
            elif shrink_axis_mask & bit:
                items.append(starts[k])
            else:
                items.append(slice(None if begin_mask & bit else starts[k], None if end_mask & bit else stops[k], steps[k]))
        result: Tensor = part(input_, tuple(items), label)
        return result


@recorded
def slice_(input_: Any, begin: Any, size: Any, name: str | None = None) -> Tensor:
    """``size`` elements from ``begin`` on, per axis (-1: all that remain)."""
    with op_scope(name, "Slice", input_) as label:
        x = convert(input_, name="input")
        if not isinstance(begin, (list, tuple, np.ndarray)) and _at_run(begin):
            begin = [part(begin, k) for k in range(len(x.node.shape))]
        if any(_at_run(v) for v in begin) if isinstance(begin, (list, tuple)) else False:
            return _slice_from(x, begin, size, label)
        starts, counts = sizes_from(begin, "begin"), sizes_from(size, "size")
        full = tuple(d - a if c == -1 else c for d, a, c in zip(x.node.shape, starts, counts))
        return emit("Slice", label, (x,), lambda b, n: b.slice(n, starts=starts, sizes=full, steps=(1,) * len(starts)))


def _slice_from(x: Tensor, begin: Any, size: Any, name: str) -> Tensor:
    """A slice of which the run knows the beginning; one that does not fit fails the run."""
    counts = sizes_from(size, "size")
    starts = convert(begin)
    starts = starts if starts.dtype == int64 else convert(starts, int32)

    def build(b: Any, n: Any, at: Any) -> Any:
        for k in [k for k, c in enumerate(counts) if c == -1]:               # all that remains
            one = b.reshape(b.slice(at, starts=(k,), sizes=(1,), steps=(1,)), shape=())
            n = _run_slice(b, n, k, one, None, 1)
        fixed = [k for k, c in enumerate(counts) if c != -1]
        zero = b.const(0, at.dtype)
        parts = [b.reshape(b.slice(at, starts=(k,), sizes=(1,), steps=(1,)), shape=()) if k in fixed else zero for k in range(len(counts))]
        return b.dynamic_slice(n, b.stack(*parts, axis=0), sizes=tuple(d if c == -1 else c for c, d in zip(counts, n.shape)))
    result: Tensor = emit("Slice", name, (x, starts), build)
    return result
