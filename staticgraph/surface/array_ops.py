"""Shapes, slices, joins, indexing and constants under TF1's names."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import source
from ..dtypes import as_dtype, float32, int32
from ..errors import ShapeError, UnimplementedError
from ..ir.aval import Aval, Dim, Size, product
from ..ir.opdef import OPS
from ..ops.helpers import normalize_axis
from ..ops.shape import resolve_shape
from .constructs import filled_nodes, holds_tensor, is_tensor, operand_nodes
from .deferred import Ranks, recorded
from .funnel import constant_of, convert, dynamic, emit, is_dynamic, op_scope, operand_list, operands
from .ledger import get_default_graph
from .shapes import TensorShape, to_sizes
from .sizes import one_of, sizes_from, static_axes, static_int
from .tensor import Tensor


def constant(value: Any, dtype: Any = None, shape: Any = None, name: str = "Const", verify_shape: bool = False) -> Tensor:
    """A constant. With ``shape`` the last value fills up what is missing."""
    with op_scope(name, "Const", value) as label:
        want = None if dtype is None else as_dtype(dtype)
        if shape is None:
            return constant_of(value, want, label)
        array = np.asarray(constant_array(value, want))
        sizes = tuple(int(s) for s in sizes_from(shape))
        count = int(np.prod(sizes))
        if verify_shape and array.shape != sizes:
            raise TypeError(f"Expected Tensor's shape: {sizes}, got {array.shape}.")
        if array.size > count:
            raise ValueError(f"Too many elements provided. Needed at most {count}, but received {array.size}")
        if array.size == 0 and count:
            raise ValueError(f"no value to fill the shape {sizes} with")
        flat = np.concatenate([array.ravel(), np.full(count - array.size, array.ravel()[-1] if array.size else 0, array.dtype)])
        return constant_of(flat.reshape(sizes).astype(array.dtype), None, label)


def constant_array(value: Any, dtype: Any) -> Any:
    """The array a constant is made of."""
    from ..ir.builder import to_array
    return to_array(value, dtype)


def placeholder(dtype: Any, shape: Any = None, name: str | None = None) -> Tensor:
    """A value to be fed. ``None`` in ``shape`` is a size that each run may choose; without a shape it chooses the rank as well."""
    with op_scope(name, "Placeholder", dtype) as label:
        g = get_default_graph()
        kind = as_dtype(dtype)
        static = TensorShape(shape)
        sizes = () if static.ndims is None else to_sizes(static)
        t: Tensor = emit("Placeholder", label, (), lambda b: b.placeholder(aval=Aval(sizes, kind), uid=g.next_uid()), {"dtype": kind, "shape": static})
        g.placeholders[t.node] = t
        if static.ndims is None:
            g.ranks = g.ranks or Ranks(g)
            g.ranks.add(t)
        else:
            t._shape = static
        return t


@recorded
def placeholder_with_default(input: Any, shape: Any, name: str | None = None) -> Tensor:
    """``input`` unless it is fed. ValueError for an incompatible shape."""
    with op_scope(name, "PlaceholderWithDefault", input) as label:
        x = convert(input, name="input")
        static = TensorShape(shape)
        graph = x.graph
        if not static.is_compatible_with(x.shape):
            raise ValueError(f"Shapes {static} and {x.shape} are not compatible")
        # a value that a run replaces by one of another size, or that stands for a size itself, is none of the graph's constants
        open_sizes = x.node.op is OPS["const"] and static.ndims is not None and (not static.is_fully_defined() or x.dtype.is_integer)
        aval = Aval(to_sizes(static), x.dtype) if open_sizes else None
        t: Tensor = emit("PlaceholderWithDefault", label, (x,),
                         lambda b, n: b.placeholder(aval=aval, uid=graph.next_uid()) if open_sizes else b.barrier(n) if x.dtype.is_integer else b.identity(n))
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
    with op_scope(name, "Identity", input) as label:
        return emit("Identity", label, (convert(input, name="input"),), lambda b, n: b.identity(n))


def stop_gradient(input: Any, name: str | None = None) -> Any:
    """The value, cut off from gradients."""
    if is_dynamic((input,)):
        return input.detach()
    with op_scope(name, "StopGradient", input) as label:
        return emit("StopGradient", label, (convert(input, name="input"),), lambda b, n: b.stop_gradient(n))


def shape(input: Any, name: str | None = None, out_type: Any = int32) -> Tensor:
    """The shape as a vector."""
    with op_scope(name, "Shape", input) as label:
        x = convert(input, name="input")
        return emit("Const" if _fixed(x) else "Shape", label, (x,), lambda b, n: _sizes(b, n.shape, as_dtype(out_type)))


def _fixed(x: Tensor) -> bool:
    """Whether TF makes a constant of its shape."""
    return x._record is None and x.node.aval.is_static


def _sizes(b: Any, sizes: tuple[Size, ...], dtype: Any) -> Any:
    if all(isinstance(s, int) for s in sizes):
        return b.const(np.array(sizes, dtype.np))
    return b.sizes(sizes=sizes, dtype=dtype)


def size(input: Any, name: str | None = None, out_type: Any = int32) -> Tensor:
    """The number of elements."""
    with op_scope(name, "Size", input) as label:
        x = convert(input, name="input")
        return emit("Const" if _fixed(x) else "Size", label, (x,), lambda b, n: b.reshape(_sizes(b, (n.aval.size,), as_dtype(out_type)), shape=()))


@recorded
def rank(input: Any, name: str | None = None) -> Tensor:
    """The rank as a scalar."""
    with op_scope(name, "Rank", input) as label:
        x = convert(input)
        count = np.int32(len(x.node.shape))
        return emit("Rank", label, (x,), lambda b, n: b.const(count)) if is_dynamic((input,)) else constant_of(count, None, label)


@recorded
def reshape(tensor: Any, shape: Any, name: str | None = None) -> Any:
    """The same elements under another shape; one size may be -1."""
    if is_dynamic((tensor,)):
        return tensor.reshape(*shape)
    with op_scope(name, "Reshape", tensor) as label:
        x = convert(tensor, name="tensor")
        sizes = sizes_from(shape)
        return emit("Reshape", label, (x,), lambda b, n: b.reshape(n, shape=resolve_shape(n.aval, sizes)), more=operand_nodes(shape))


@recorded
def transpose(a: Any, perm: Any = None, name: str | None = None, conjugate: bool = False) -> Any:
    """Axes in another order (default: reversed)."""
    with source.hide_own_frames():
        order = static_axes(perm, "perm")
    if is_dynamic((a,)):
        return dynamic("transpose", a, perm=order or tuple(range(a.ndim))[::-1])
    with op_scope(name, "transpose", a) as label:
        x = convert(a, name="a")
        if conjugate and x.dtype.is_complex:
            raise UnimplementedError(None, None, "transpose(conjugate=True) of complex numbers is not available")
        order = tuple(range(len(x.node.shape)))[::-1] if order is None else order
        return emit("Transpose", label, (x,), lambda b, n: b.transpose(n, perm=order))


@recorded
def matrix_transpose(a: Any, name: str | None = None) -> Any:
    """The last two axes swapped."""
    with op_scope(name, "matrix_transpose", a):
        x = convert(a, name="a")
        rank_ = len(x.node.shape)
        return transpose(x, (*range(rank_ - 2), rank_ - 1, rank_ - 2))


def expand_dims(input: Any, axis: Any = None, name: str | None = None, dim: Any = None) -> Any:
    """A new axis of size 1."""
    with source.hide_own_frames():
        k = static_int(one_of("axis", axis, dim=dim), "axis")
    if is_dynamic((input,)):
        return dynamic("expand_dims", input, axis=k)
    with op_scope(name, "ExpandDims", input) as label:
        return emit("ExpandDims", label, (convert(input, name="input"),), lambda b, n: b.expand_dims(n, axis=k))


def squeeze(input: Any, axis: Any = None, name: str | None = None, squeeze_dims: Any = None) -> Any:
    """Axes of size 1 removed (all of them, or those named)."""
    with source.hide_own_frames():
        axes = static_axes(one_of("axis", axis, squeeze_dims=squeeze_dims))
        axes = axes if axes is None or isinstance(axes, tuple) else (axes,)
    if is_dynamic((input,)):
        return dynamic("squeeze", input, axis=axes)
    with op_scope(name, "Squeeze", input) as label:
        return emit("Squeeze", label, (convert(input, name="input"),), lambda b, n: b.squeeze(n, axis=axes))


def concat(values: Any, axis: Any, name: str | None = None) -> Any:
    """Joined along an axis."""
    k = static_int(axis, "axis")
    if is_dynamic((values,)):
        return dynamic("concat", *values, axis=k)
    with op_scope(name, "concat", values) as label:
        ins = operand_list("ConcatV2", values, "values")
        one = len(ins) == 1
        return emit("ConcatOfOne" if one else "ConcatV2", name or "concat" if one else label, ins, lambda b, *ns: b.concat(*ns, axis=k))


def stack(values: Any, axis: int = 0, name: str = "stack") -> Any:
    """Joined along a new axis."""
    if is_dynamic((values,)):
        return dynamic("stack", *values, axis=axis)
    with op_scope(name, "stack", values) as label:
        if axis == 0 and values and not is_tensor(values) and not holds_tensor(values):
            # numbers are a constant
            return constant_of(values, None, label)
        return emit("Pack", label, operand_list("Pack", values, "values", ""), lambda b, *ns: b.stack(*ns, axis=axis), {"axis": axis})


@recorded
def unstack(value: Any, num: int | None = None, axis: int = 0, name: str = "unstack") -> list[Any]:
    """The parts along an axis, which is removed."""
    with op_scope(name, "unstack", value) as label:
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
        return list(emit("Unpack", label, (x,), build, {"axis": axis}))


@recorded
def split(value: Any, num_or_size_splits: Any, axis: Any = 0, num: int | None = None, name: str = "split") -> list[Any]:
    """Pieces along an axis: a number of equal ones, or the sizes given."""
    with op_scope(name, "split", value, beside=() if is_tensor(num_or_size_splits) else ("Const",)) as label:
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
            if num is not None and num != len(pieces):
                raise ValueError(f"split into {num} pieces, but {len(pieces)} sizes are given")
            if -1 in pieces:
                rest = whole - sum(p for p in pieces if p != -1)
                pieces = [rest if p == -1 else p for p in pieces]

        def build(b: Any, node: Any) -> Any:
            s, at, out = node.shape, 0, []
            for p in pieces:
                out.append(b.slice(node, starts=tuple(at if a == k else 0 for a in range(len(s))), sizes=tuple(p if a == k else d for a, d in enumerate(s)), steps=(1,) * len(s)))
                at = at + p
            return tuple(out)
        return list(emit("Split" if isinstance(num_or_size_splits, (int, np.integer)) else "SplitV", label, (x,), build))


@recorded
def tile(input: Any, multiples: Any, name: str | None = None) -> Any:
    """Repeated along each axis."""
    with op_scope(name, "Tile", input) as label:
        m = sizes_from(multiples, "multiples")
        return emit("Tile", label, (convert(input, name="input"),), lambda b, n: b.tile(n, multiples=m), more=operand_nodes(multiples))


@recorded
def broadcast_to(input: Any, shape: Any, name: str | None = None) -> Any:
    """NumPy's broadcasting to a shape."""
    with op_scope(name, "BroadcastTo", input) as label:
        s = sizes_from(shape)
        return emit("BroadcastTo", label, (convert(input, name="input"),), lambda b, n: b.broadcast_to(n, shape=s), more=operand_nodes(shape))


def reverse(tensor: Any, axis: Any, name: str | None = None) -> Any:
    """Reversed along axes."""
    with op_scope(name, "ReverseV2", tensor) as label:
        x = convert(tensor, name="tensor")
        axes = static_axes(axis)
        axes = axes if isinstance(axes, tuple) else (axes,)
        return emit("ReverseV2", label, (x,), lambda b, n: b.reverse(n, axis=axes))


def _filled(name: str, value: int) -> Any:
    def f(shape: Any, dtype: Any = float32, name_: str | None = None) -> Tensor:
        with op_scope(name_, name, shape) as label:
            aval = Aval(sizes_from(shape), as_dtype(dtype))
            made, nodes = filled_nodes(shape, aval.size if aval.is_static else None)
            return emit(made, label, (), lambda b: b.full(aval, value), weight=nodes)
    f.__doc__ = f"All {name}."
    f.__name__ = name
    return recorded(lambda shape, dtype=float32, name=None: f(shape, dtype, name))


zeros, ones = _filled("zeros", 0), _filled("ones", 1)


def _filled_like(name: str, value: int) -> Any:
    def f(tensor: Any, dtype: Any = None, name_: str | None = None, optimize: bool = True) -> Tensor:
        with op_scope(name_, name, tensor) as label:
            x = convert(tensor, name="tensor")
            kind = x.dtype if dtype is None else as_dtype(dtype)
            static = value == 0 and optimize and _fixed(x)
            return emit("Const" if static else "ZerosLike" if value == 0 else "OnesLike", label, (x,), lambda b, n: b.full(Aval(n.shape, kind), value))
    return lambda tensor, dtype=None, name=None, optimize=True: f(tensor, dtype, name, optimize)


zeros_like, ones_like = _filled_like("zeros_like", 0), _filled_like("ones_like", 1)


@recorded
def fill(dims: Any, value: Any, name: str | None = None) -> Tensor:
    """A shape filled with a scalar."""
    with op_scope(name, "Fill", dims, value) as label:
        v = convert(value, name="value")
        s = sizes_from(dims, "dims")
        return emit("Fill", label, (v,), lambda b, n: b.broadcast_to(n, shape=s) if s else n, more=operand_nodes(dims))


@recorded
def range_(start: Any, limit: Any = None, delta: Any = 1, dtype: Any = None, name: str = "range") -> Tensor:
    """start, start + delta, ... below limit."""
    with op_scope(name, "range", start) as label:
        if limit is None:
            start, limit = 0, start
        made = operand_nodes(start, limit, delta) + 1
        if all(isinstance(v, (int, float, np.number)) for v in (start, limit, delta)):
            kind = as_dtype(dtype).np if dtype else np.int32 if all(isinstance(v, (int, np.integer)) for v in (start, limit, delta)) else np.float32
            values = np.arange(start, limit, delta).astype(kind)
            return emit("Range", label, (), lambda b: b.const(values), weight=made)
        first, last = sizes_from(start, "start")[0], sizes_from(limit, "limit")[0]
        step = static_int(delta, "delta")
        count = (last - first + (step - 1)) // step
        kind = as_dtype(dtype) if dtype is not None else int32
        return emit("Range", label, (), lambda b: b.add(b.mul(b.iota(shape=(count,), axis=0, dtype=kind), b.const(np.asarray(step, kind.np))),
                                                       b.reshape(b.sizes(sizes=(first,), dtype=kind), shape=())), weight=made)


def linspace(start: Any, stop: Any, num: int, name: str | None = None) -> Tensor:
    """``num`` values from start to stop, both included."""
    with op_scope(name, "LinSpace", start, stop) as label:
        p, q = operands("LinSpace", (start, stop), ("start", "stop"))
        count = static_int(num, "num")
        return emit("LinSpace", label, (p, q), lambda b, m, n: b.linspace(m, n, num=count))


@recorded
def one_hot(indices: Any, depth: Any, on_value: Any = None, off_value: Any = None, axis: Any = None, dtype: Any = None, name: str | None = None) -> Any:
    """``on_value`` at each index, ``off_value`` elsewhere."""
    with source.hide_own_frames():
        kind = as_dtype(dtype) if dtype is not None else float32
        attrs = {"depth": static_int(depth, "depth"), "on": 1 if on_value is None else on_value, "off": 0 if off_value is None else off_value,
                 "axis": -1 if axis is None else axis, "dtype": kind}
    if is_dynamic((indices,)):
        return dynamic("one_hot", indices, **attrs)
    with op_scope(name, "one_hot", indices) as label:
        return emit("OneHot", label, (convert(indices, name="indices"),), lambda b, n: b.one_hot(n, **attrs), more=(on_value is not None) + (off_value is not None) - is_tensor(depth))


def gather(params: Any, indices: Any, validate_indices: Any = None, name: str | None = None, axis: Any = None, batch_dims: int = 0) -> Any:
    """Rows (or slices of another axis) at indices, batch by batch for ``batch_dims`` leading axes; an index out of range fails the run."""
    k = batch_dims if axis is None else static_int(axis, "axis")
    with op_scope(name, "GatherV2", params, indices) as label:
        source_ = getattr(params, "_ref_tensor", None)
        x = source_() if source_ is not None else convert(params, name="params")
        i = convert(indices, name="indices")
        if batch_dims:
            return emit("GatherV2", label, (x, i), lambda b, n, m: b.gather_batch(n, m, axis=k, batch_dims=batch_dims, negative="refuse"))
        return emit("GatherV2", label, (x, i), lambda b, n, m: b.gather(n, m, axis=k, negative="refuse"))


def gather_along(x: Any, indices: Any, name: str | None = None) -> Any:
    """Elements at indices along the last axis, row by row."""
    with op_scope(name, "take_along", x, indices) as label:
        return emit("GatherAlong", label, (convert(x, name="params"), convert(indices, name="indices")), lambda b, n, m: b.take_along(n, m))


def embedding_lookup(params: Any, ids: Any, partition_strategy: str = "mod", name: str | None = None, validate_indices: bool = True, max_norm: Any = None) -> Any:
    """Rows of a table at ids, of norm at most ``max_norm``. A list of tables is one, its rows dealt out in turn ("mod") or in blocks ("div")."""
    with op_scope(name, "embedding_lookup", params, ids):
        if partition_strategy not in ("mod", "div"):
            raise ValueError(f"Unrecognized partition strategy: {partition_strategy}")
        i = convert(ids, name="ids")
        if isinstance(params, (list, tuple)):
            tables = [convert(p) for p in params]
            counts = [t.node.shape[0] for t in tables]
            if len(tables) > 1 and partition_strategy == "mod":
                if not all(isinstance(c, int) for c in counts):
                    raise ShapeError("embedding_lookup in several tables needs their numbers of rows")
                firsts = constant_of(np.concatenate([[0], np.cumsum(counts)[:-1]]).astype(i.dtype.np), None, "firsts")
                i = gather(firsts, i % len(tables)) + i // len(tables)
            params = params[0] if len(params) == 1 else concat(tables, 0)
        if max_norm is None:
            source_ = getattr(params, "_ref_tensor", None)
            table = source_() if source_ is not None else convert(params, name="params")
            return emit("EmbeddingLookup", "Identity", (table, i), lambda b, n, m: b.gather(n, m, axis=0, negative="refuse"))
        rows = gather(params, i)

        def build(b: Any, n: Any) -> Any:
            axes = tuple(range(len(i.node.shape), len(n.shape)))
            length = b.norm(n, axis=axes, keepdims=True)
            return b.div(b.mul(n, b.like(n, max_norm)), b.maximum(length, b.like(n, max_norm)))
        return emit("ClipByNorm", "Identity", (rows,), build)


def top_k(input: Any, k: int = 1, sorted: bool = True, name: str | None = None) -> Any:
    """(values, indices) of the k largest of the last axis."""
    with op_scope(name, "TopKV2", input) as label:
        return emit("TopKV2", label, (convert(input, name="input"),), lambda b, n: b.top_k(n, k=static_int(k, "k")))


@recorded
def sort(values: Any, axis: int = -1, direction: str = "ASCENDING", name: str | None = None) -> Any:
    """The last axis in order."""
    with op_scope(name, "sort", values):
        x = convert(values, name="values")
        last, down = len(x.node.shape) - 1, direction.upper() == "DESCENDING"

        def build(b: Any, n: Any) -> Any:
            from ..ops.helpers import move_axis
            k = normalize_axis(axis, len(n.shape))
            return move_axis(b, b.sort(move_axis(b, n, k, last), descending=down), last, k)
        return emit("SortDown" if down else "Sort", "TopKV2" if down else "Neg_1", (x,), build)


def flatten_node(b: Any, n: Any) -> Any:
    """All axes but the first as one."""
    return b.reshape(n, shape=(n.shape[0], product(n.shape[1:])))


