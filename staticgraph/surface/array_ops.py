"""Shapes, slices, joins, indexing and constants under TF1's names."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import source
from ..dtypes import as_dtype, bool_, float32, int32
from ..errors import DTypeError, ShapeError
from ..ir.aval import Aval, Dim, Size, product
from ..ir.opdef import OPS
from ..ops.helpers import normalize_axis
from ..ops.shape import resolve_shape
from .funnel import constant_of, convert, dynamic, emit, is_dynamic, operands
from .ledger import get_default_graph
from .shapes import TensorShape, to_sizes
from .sizes import known, sizes_from, static_axes, static_int
from .tensor import OPERATORS, Tensor


def constant(value: Any, dtype: Any = None, shape: Any = None, name: str = "Const", verify_shape: bool = False) -> Tensor:
    """A constant. With ``shape`` the last value fills up what is missing."""
    with source.hide_own_frames():
        want = None if dtype is None else as_dtype(dtype)
        if shape is None:
            return constant_of(value, want, name)
        array = np.asarray(constant_array(value, want))
        sizes = tuple(int(s) for s in sizes_from(shape))
        count = int(np.prod(sizes))
        if array.size > count:
            raise ValueError(f"Too many elements provided. Needed at most {count}, but received {array.size}")
        if array.size == 0 and count:
            raise ValueError(f"no value to fill the shape {sizes} with")
        flat = np.concatenate([array.ravel(), np.full(count - array.size, array.ravel()[-1] if array.size else 0, array.dtype)])
        return constant_of(flat.reshape(sizes).astype(array.dtype), None, name)


def constant_array(value: Any, dtype: Any) -> Any:
    """The array a constant is made of."""
    from ..ir.builder import to_array
    return to_array(value, dtype)


def placeholder(dtype: Any, shape: Any = None, name: str | None = None) -> Tensor:
    """A value to be fed. ``None`` in ``shape`` is a size that each run may choose."""
    with source.hide_own_frames():
        g = get_default_graph()
        kind = as_dtype(dtype)
        static = TensorShape(shape)
        sizes = () if static.ndims is None else to_sizes(static)
        t: Tensor = emit("Placeholder", name or "Placeholder", (), lambda b: b.placeholder(aval=Aval(sizes, kind), uid=g.next_uid()), {"dtype": kind, "shape": static})
        t._known_rank = static.ndims is not None
        t._shape = static if static.ndims is not None else t._shape
        g.placeholders[t.node] = t
        return t


def placeholder_with_default(input: Any, shape: Any, name: str | None = None) -> Tensor:
    """``input`` unless it is fed. ValueError for an incompatible shape."""
    with source.hide_own_frames():
        x = convert(input, name="input")
        static = TensorShape(shape)
        graph = x.graph
        if not static.is_compatible_with(x.shape):
            raise ValueError(f"Shapes {static} and {x.shape} are not compatible")
        open_sizes = x.node.op is OPS["const"] and static.ndims is not None and not static.is_fully_defined()
        aval = Aval(to_sizes(static), x.dtype) if open_sizes else None
        t: Tensor = emit("PlaceholderWithDefault", name or "PlaceholderWithDefault", (x,),
                         lambda b, n: b.placeholder(aval=aval, uid=graph.next_uid()) if open_sizes else b.identity(n))
        if open_sizes:
            graph.placeholders[t.node] = t
            graph.defaults[t.node] = x.node.attr("value")
        if static.ndims is not None:
            t._shape = static
        return t


def identity(input: Any, name: str | None = None) -> Any:
    """The value itself; inside ``control_dependencies`` it waits for them."""
    if is_dynamic((input,)):
        return dynamic("identity", input)
    with source.hide_own_frames():
        return emit("Identity", name or "Identity", (convert(input, name="input"),), lambda b, n: b.identity(n))


def stop_gradient(input: Any, name: str | None = None) -> Any:
    """The value, cut off from gradients."""
    if is_dynamic((input,)):
        return input.detach()
    with source.hide_own_frames():
        return emit("StopGradient", name or "StopGradient", (convert(input, name="input"),), lambda b, n: b.stop_gradient(n))


def shape(input: Any, name: str | None = None, out_type: Any = int32) -> Tensor:
    """The shape as a vector."""
    with source.hide_own_frames():
        x = convert(input, name="input")
        return emit("Shape", name or "Shape", (x,), lambda b, n: _sizes(b, n.shape, as_dtype(out_type)))


def _sizes(b: Any, sizes: tuple[Size, ...], dtype: Any) -> Any:
    if all(isinstance(s, int) for s in sizes):
        return b.const(np.array(sizes, dtype.np))
    return b.sizes(sizes=sizes, dtype=dtype)


def size(input: Any, name: str | None = None, out_type: Any = int32) -> Tensor:
    """The number of elements."""
    with source.hide_own_frames():
        x = convert(input, name="input")
        return emit("Size", name or "Size", (x,), lambda b, n: b.reshape(_sizes(b, (n.aval.size,), as_dtype(out_type)), shape=()))


def rank(input: Any, name: str | None = None) -> Tensor:
    """The rank as a scalar."""
    with source.hide_own_frames():
        return constant_of(np.int32(len(convert(input).node.shape)), None, name or "Rank")


def reshape(tensor: Any, shape: Any, name: str | None = None) -> Any:
    """The same elements under another shape; one size may be -1."""
    if is_dynamic((tensor,)):
        return tensor.reshape(*shape)
    with source.hide_own_frames():
        x = convert(tensor, name="tensor")
        sizes = sizes_from(shape)
        return emit("Reshape", name or "Reshape", (x,), lambda b, n: b.reshape(n, shape=resolve_shape(n.aval, sizes)))


def transpose(a: Any, perm: Any = None, name: str | None = None, conjugate: bool = False) -> Any:
    """Axes in another order (default: reversed)."""
    with source.hide_own_frames():
        order = static_axes(perm, "perm")
        if is_dynamic((a,)):
            return dynamic("transpose", a, perm=order or tuple(range(a.ndim))[::-1])
        x = convert(a, name="a")
        order = tuple(range(len(x.node.shape)))[::-1] if order is None else order
        return emit("Transpose", name or "transpose", (x,), lambda b, n: b.transpose(n, perm=order))


def matrix_transpose(a: Any, name: str | None = None) -> Any:
    """The last two axes swapped."""
    rank_ = len(convert(a).node.shape)
    return transpose(a, (*range(rank_ - 2), rank_ - 1, rank_ - 2), name or "matrix_transpose")


def expand_dims(input: Any, axis: Any = None, name: str | None = None, dim: Any = None) -> Any:
    """A new axis of size 1."""
    k = static_int(axis if axis is not None else dim, "axis")
    if is_dynamic((input,)):
        return dynamic("expand_dims", input, axis=k)
    with source.hide_own_frames():
        return emit("ExpandDims", name or "ExpandDims", (convert(input, name="input"),), lambda b, n: b.expand_dims(n, axis=k))


def squeeze(input: Any, axis: Any = None, name: str | None = None, squeeze_dims: Any = None) -> Any:
    """Axes of size 1 removed (all of them, or those named)."""
    with source.hide_own_frames():
        axes = static_axes(axis if axis is not None else squeeze_dims)
        axes = axes if axes is None or isinstance(axes, tuple) else (axes,)
        if is_dynamic((input,)):
            return dynamic("squeeze", input, axis=axes)
        return emit("Squeeze", name or "Squeeze", (convert(input, name="input"),), lambda b, n: b.squeeze(n, axis=axes))


def concat(values: Any, axis: Any, name: str | None = None) -> Any:
    """Joined along an axis."""
    k = static_int(axis, "axis")
    if is_dynamic((values,)):
        return dynamic("concat", *values, axis=k)
    with source.hide_own_frames():
        ins = operands("ConcatV2", list(values) if isinstance(values, (list, tuple)) else [values], tuple(f"values[{j}]" for j in range(99)))
        return emit("ConcatV2", name or "concat", ins, lambda b, *ns: b.concat(*ns, axis=k))


def stack(values: Any, axis: int = 0, name: str = "stack") -> Any:
    """Joined along a new axis."""
    if is_dynamic((values,)):
        return dynamic("stack", *values, axis=axis)
    with source.hide_own_frames():
        return emit("Pack", name, operands("Pack", list(values)), lambda b, *ns: b.stack(*ns, axis=axis), {"axis": axis})


def unstack(value: Any, num: int | None = None, axis: int = 0, name: str = "unstack") -> list[Any]:
    """The parts along an axis, which is removed."""
    with source.hide_own_frames():
        x = convert(value, name="value")
        k = normalize_axis(axis, len(x.node.shape))
        n = x.node.shape[k] if num is None else num
        if isinstance(n, Dim):
            raise ValueError(f"Cannot infer num from shape {x.shape}")

        def build(b: Any, node: Any) -> Any:
            s = node.shape
            parts = (b.slice(node, starts=tuple(j if a == k else 0 for a in range(len(s))), sizes=tuple(1 if a == k else d for a, d in enumerate(s)), steps=(1,) * len(s))
                     for j in range(n))
            return tuple(b.reshape(p, shape=(*s[:k], *s[k + 1:])) for p in parts)
        return list(emit("Unpack", name, (x,), build, {"axis": axis}))


def split(value: Any, num_or_size_splits: Any, axis: Any = 0, num: int | None = None, name: str = "split") -> list[Any]:
    """Pieces along an axis: a number of equal ones, or the sizes given."""
    with source.hide_own_frames():
        x = convert(value, name="value")
        k = normalize_axis(static_int(axis, "axis"), len(x.node.shape))
        whole = x.node.shape[k]
        if isinstance(num_or_size_splits, (int, np.integer)):
            count = int(num_or_size_splits)
            if isinstance(whole, int) and whole % count:
                raise ShapeError(f"Dimension size must be evenly divisible by {count} but is {whole}")
            pieces: list[Any] = [whole // count] * count
        else:
            pieces = list(sizes_from(num_or_size_splits))
            if -1 in pieces:
                rest = whole - sum(p for p in pieces if p != -1)
                pieces = [rest if p == -1 else p for p in pieces]

        def build(b: Any, node: Any) -> Any:
            s, at, out = node.shape, 0, []
            for p in pieces:
                out.append(b.slice(node, starts=tuple(at if a == k else 0 for a in range(len(s))), sizes=tuple(p if a == k else d for a, d in enumerate(s)), steps=(1,) * len(s)))
                at = at + p
            return tuple(out)
        return list(emit("Split", name, (x,), build))


def tile(input: Any, multiples: Any, name: str | None = None) -> Any:
    """Repeated along each axis."""
    with source.hide_own_frames():
        m = sizes_from(multiples, "multiples")
        return emit("Tile", name or "Tile", (convert(input, name="input"),), lambda b, n: b.tile(n, multiples=m))


def broadcast_to(input: Any, shape: Any, name: str | None = None) -> Any:
    """NumPy's broadcasting to a shape."""
    with source.hide_own_frames():
        s = sizes_from(shape)
        return emit("BroadcastTo", name or "BroadcastTo", (convert(input, name="input"),), lambda b, n: b.broadcast_to(n, shape=s))


def pad(tensor: Any, paddings: Any, mode: str = "CONSTANT", name: str | None = None, constant_values: Any = 0) -> Any:
    """Constant padding (before, after) per axis."""
    with source.hide_own_frames():
        if mode.upper() != "CONSTANT":
            raise ValueError(f"pad mode {mode!r} is not available, only CONSTANT")
        x = convert(tensor, name="tensor")
        amounts = [tuple(sizes_from(p)) for p in (paddings if not isinstance(paddings, Tensor) else np.asarray(known(paddings.node)).tolist())]
        return emit("Pad", name or "Pad", (x,), lambda b, n: b.pad(n, before=tuple(p[0] for p in amounts), after=tuple(p[1] for p in amounts), between=(0,) * len(amounts),
                                                                   value=x.dtype.np.type(constant_values).item()))


def reverse(tensor: Any, axis: Any, name: str | None = None) -> Any:
    """Reversed along axes."""
    with source.hide_own_frames():
        x = convert(tensor, name="tensor")
        axes = static_axes(axis)
        axes = axes if isinstance(axes, tuple) else (axes,)
        return emit("ReverseV2", name or "ReverseV2", (x,), lambda b, n: b.reverse(n, axis=axes))


def _filled(name: str, value: int) -> Any:
    def f(shape: Any, dtype: Any = float32, name_: str | None = None) -> Tensor:
        with source.hide_own_frames():
            aval = Aval(sizes_from(shape), as_dtype(dtype))
            return emit("Const" if aval.is_static else "Fill", name_ or name, (), lambda b: b.full(aval, value))
    f.__doc__ = f"All {name}."
    f.__name__ = name
    return lambda shape, dtype=float32, name=None: f(shape, dtype, name)


zeros, ones = _filled("zeros", 0), _filled("ones", 1)


def _filled_like(name: str, value: int) -> Any:
    def f(tensor: Any, dtype: Any = None, name_: str | None = None, optimize: bool = True) -> Tensor:
        with source.hide_own_frames():
            x = convert(tensor, name="tensor")
            kind = x.dtype if dtype is None else as_dtype(dtype)
            return emit("ZerosLike" if value == 0 else "OnesLike", name_ or name, (x,), lambda b, n: b.full(Aval(n.shape, kind), value))
    return lambda tensor, dtype=None, name=None, optimize=True: f(tensor, dtype, name, optimize)


zeros_like, ones_like = _filled_like("zeros_like", 0), _filled_like("ones_like", 1)


def fill(dims: Any, value: Any, name: str | None = None) -> Tensor:
    """A shape filled with a scalar."""
    with source.hide_own_frames():
        v = convert(value, name="value")
        s = sizes_from(dims, "dims")
        return emit("Fill", name or "Fill", (v,), lambda b, n: b.broadcast_to(n, shape=s) if s else n)


def range_(start: Any, limit: Any = None, delta: Any = 1, dtype: Any = None, name: str = "range") -> Tensor:
    """start, start + delta, ... below limit."""
    with source.hide_own_frames():
        if limit is None:
            start, limit = 0, start
        if all(isinstance(v, (int, float, np.number)) for v in (start, limit, delta)):
            kind = as_dtype(dtype).np if dtype else np.int32 if all(isinstance(v, (int, np.integer)) for v in (start, limit, delta)) else np.float32
            return constant_of(np.arange(start, limit, delta).astype(kind), None, name)
        first, last = sizes_from(start, "start")[0], sizes_from(limit, "limit")[0]
        step = static_int(delta, "delta")
        count = (last - first + (step - 1)) // step
        kind = as_dtype(dtype) if dtype is not None else int32
        return emit("Range", name, (), lambda b: b.add(b.mul(b.iota(shape=(count,), axis=0, dtype=kind), b.const(np.asarray(step, kind.np))),
                                                       b.reshape(b.sizes(sizes=(first,), dtype=kind), shape=())))


def linspace(start: Any, stop: Any, num: int, name: str | None = None) -> Tensor:
    """``num`` values from start to stop, both included."""
    with source.hide_own_frames():
        return constant_of(np.linspace(start, stop, num).astype(np.float32), None, name or "LinSpace")


def one_hot(indices: Any, depth: Any, on_value: Any = None, off_value: Any = None, axis: Any = None, dtype: Any = None, name: str | None = None) -> Any:
    """``on_value`` at each index, ``off_value`` elsewhere."""
    with source.hide_own_frames():
        kind = as_dtype(dtype) if dtype is not None else float32
        attrs = {"depth": static_int(depth, "depth"), "on": 1 if on_value is None else on_value, "off": 0 if off_value is None else off_value,
                 "axis": -1 if axis is None else axis, "dtype": kind}
        if is_dynamic((indices,)):
            return dynamic("one_hot", indices, **attrs)
        return emit("OneHot", name or "one_hot", (convert(indices, name="indices"),), lambda b, n: b.one_hot(n, **attrs))


def gather(params: Any, indices: Any, validate_indices: Any = None, name: str | None = None, axis: Any = None, batch_dims: int = 0) -> Any:
    """Rows (or slices of another axis) at indices, batch by batch for ``batch_dims`` leading axes; an index out of range fails the run."""
    k = batch_dims if axis is None else static_int(axis, "axis")
    if is_dynamic((params, indices)):
        return dynamic("gather_batch", params, indices, axis=k, batch_dims=batch_dims) if batch_dims else dynamic("gather", params, indices, axis=k)
    with source.hide_own_frames():
        source_ = getattr(params, "_ref_tensor", None)
        x = source_() if source_ is not None else convert(params, name="params")
        i = convert(indices, name="indices")
        if batch_dims:
            return emit("GatherV2", name or "GatherV2", (x, i), lambda b, n, m: b.gather_batch(n, m, axis=k, batch_dims=batch_dims, negative="refuse"))
        return emit("GatherV2", name or "GatherV2", (x, i), lambda b, n, m: b.gather(n, m, axis=k, negative="refuse"))


def gather_along(x: Any, indices: Any, name: str | None = None) -> Any:
    """Elements at indices along the last axis, row by row."""
    with source.hide_own_frames():
        return emit("GatherAlong", name or "take_along", (convert(x), convert(indices)), lambda b, n, m: b.take_along(n, m))


def embedding_lookup(params: Any, ids: Any, partition_strategy: str = "mod", name: str | None = None, validate_indices: bool = True, max_norm: Any = None) -> Any:
    """Rows of a table at ids."""
    with source.hide_own_frames():
        if isinstance(params, (list, tuple)):
            params = params[0] if len(params) == 1 else concat(params, 0)
        return gather(params, ids, name=name or "embedding_lookup/Identity")


def top_k(input: Any, k: int = 1, sorted: bool = True, name: str | None = None) -> Any:
    """(values, indices) of the k largest of the last axis."""
    with source.hide_own_frames():
        return emit("TopKV2", name or "TopKV2", (convert(input, name="input"),), lambda b, n: b.top_k(n, k=static_int(k, "k")))


def sort(values: Any, axis: int = -1, direction: str = "ASCENDING", name: str | None = None) -> Any:
    """The last axis in order."""
    with source.hide_own_frames():
        x = convert(values)
        last = len(x.node.shape) - 1

        def build(b: Any, n: Any) -> Any:
            from ..ops.helpers import move_axis
            k = normalize_axis(axis, len(n.shape))
            return move_axis(b, b.sort(move_axis(b, n, k, last), descending=direction.upper() == "DESCENDING"), last, k)
        return emit("Sort", name or "sort", (x,), build)


def boolean_mask_refused(*_: Any, **__: Any) -> Any:
    """The number of kept elements is only known when the graph runs."""
    raise NotImplementedError("boolean_mask has a size that only the run knows; use where(mask, x, 0)")


# ---- indexing -------------------------------------------------------------------------------------------------------------------------


def strided_slice(x: Any, index: Any, name: str = "strided_slice") -> Tensor:
    """``x[index]`` with ints, slices with steps, None, ``...`` and scalar integer tensors."""
    t = convert(x)
    items = list(index) if isinstance(index, tuple) else [index]
    for i in items:
        ok = isinstance(i, (int, np.integer, slice)) or i is None or i is Ellipsis or isinstance(i, Tensor) or hasattr(i, "_as_tensor")
        if not ok or isinstance(i, (bool, np.bool_)):
            raise DTypeError("Only integers, slices (`:`), ellipsis (`...`), tf.newaxis (`None`) and scalar tf.int32/tf.int64 tensors are valid "
                             f"indices, got {i!r}")
    if len(items) == 1 and isinstance(items[0], Tensor) and items[0].dtype == bool_:
        return boolean_mask_refused()
    dynamic_ = [i for i in items if isinstance(i, Tensor) and known(i.node) is None]
    if dynamic_:
        return _dynamic_index(t, items, name)
    items = [static_int(i, "index") if isinstance(i, Tensor) or hasattr(i, "_as_tensor") else i for i in items]
    result: Tensor = emit("StridedSlice", name, (t,), lambda b, n: index_node(b, n, items))
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


def _getitem(x: Any, index: Any) -> Any:
    with source.hide_own_frames():
        return strided_slice(x, index)


OPERATORS["__getitem__"] = _getitem


def slice_(input_: Any, begin: Any, size: Any, name: str | None = None) -> Tensor:
    """``size`` elements from ``begin`` on, per axis (-1: all that remain)."""
    with source.hide_own_frames():
        x = convert(input_, name="input")
        starts, counts = sizes_from(begin, "begin"), sizes_from(size, "size")
        full = tuple(d - a if c == -1 else c for d, a, c in zip(x.node.shape, starts, counts))
        return emit("Slice", name or "Slice", (x,), lambda b, n: b.slice(n, starts=starts, sizes=full, steps=(1,) * len(starts)))


def flatten_node(b: Any, n: Any) -> Any:
    """All axes but the first as one."""
    return b.reshape(n, shape=(n.shape[0], product(n.shape[1:])))


