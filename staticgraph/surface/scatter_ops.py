"""Indexing by tuples, segments and sequences under TF1's names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import source
from ..dtypes import as_dtype, bool_, int32, int64
from ..errors import ShapeError
from ..ir.aval import Aval
from ..ops.helpers import move_axis, normalize_axis
from .deferred import recorded
from .funnel import constant_of, convert, emit, op_scope, operands
from .sizes import known, one_of, sizes_from, static_axes, static_int
from .tensor import Tensor


@recorded
def gather_nd(params: Any, indices: Any, name: str | None = None, batch_dims: int = 0) -> Any:
    """Elements (or slices) of ``params`` at the index tuples along the last axis of ``indices``; an index out of range fails the run."""
    with op_scope(name, "GatherNd", params, indices) as label:
        def build(b: Any, x: Any, i: Any) -> Any:
            places = [b.iota(shape=(*i.shape[:-1], 1), axis=k, dtype=i.aval.dtype) for k in range(batch_dims)]           # which batch each tuple is of
            return b.gather_nd(x, b.concat(*places, i, axis=len(i.shape) - 1) if places else i, negative="refuse")
        p, at = convert(params, name="params"), convert(indices, name="indices")
        batches = p.node.shape[:batch_dims], at.node.shape[:batch_dims]
        if not 0 <= batch_dims < len(at.node.shape) or any(isinstance(m, int) and isinstance(n, int) and m != n for m, n in zip(*batches)):
            raise ShapeError(f"gather_nd: the first {batch_dims} axes of params {p.shape} and indices {at.shape} must be equal, and fewer than those of indices")
        return emit("GatherNd", label, (p, at), build)


@recorded
def scatter_nd(indices: Any, updates: Any, shape: Any, name: str | None = None) -> Any:
    """Zeros of ``shape`` with ``updates`` added at index tuples."""
    with op_scope(name, "ScatterNd", indices, updates) as label:
        sizes = sizes_from(shape)
        return emit("ScatterNd", label, (convert(indices, name="indices"), convert(updates, name="updates")),
                    lambda b, i, u: b.scatter_nd_add(b.zeros(Aval(sizes, u.dtype)), i, u, negative="refuse"))


def _tensor_scatter(public: str, tf: str, build: Callable[..., Any]) -> Callable[..., Any]:
    @recorded
    def f(tensor: Any, indices: Any, updates: Any, name: str | None = None) -> Any:
        with op_scope(name, tf, tensor, indices, updates) as label:
            x, u = operands(tf, (tensor, updates), ("tensor", "updates"))
            return emit(tf, label, (x, convert(indices, name="indices"), u), build)
    f.__name__ = f.__qualname__ = public
    f.__doc__ = f"{tf}: a copy of ``tensor`` with ``updates`` at index tuples."
    return f


tensor_scatter_update = _tensor_scatter("tensor_scatter_update", "TensorScatterUpdate", lambda b, x, i, u: b.scatter_nd_update(x, i, u, negative="refuse"))
tensor_scatter_add = _tensor_scatter("tensor_scatter_add", "TensorScatterAdd", lambda b, x, i, u: b.scatter_nd_add(x, i, u, negative="refuse"))
tensor_scatter_sub = _tensor_scatter("tensor_scatter_sub", "TensorScatterSub", lambda b, x, i, u: b.scatter_nd_add(x, i, b.neg(u), negative="refuse"))


def scatter_nd_update(ref: Any, indices: Any, updates: Any, use_locking: bool = True, name: str | None = None) -> Tensor:
    """Replace at index tuples of a variable; gives the whole new value."""
    result: Tensor = ref.scatter_nd_update(indices, updates, name)
    return result


def scatter_nd_add(ref: Any, indices: Any, updates: Any, use_locking: bool = False, name: str | None = None) -> Tensor:
    """Add at index tuples of a variable; gives the whole new value."""
    result: Tensor = ref.scatter_nd_add(indices, updates, name)
    return result


def scatter_nd_sub(ref: Any, indices: Any, updates: Any, use_locking: bool = False, name: str | None = None) -> Tensor:
    """Subtract at index tuples of a variable; gives the whole new value."""
    result: Tensor = ref.scatter_nd_sub(indices, updates, name)
    return result


# ---- segments -----------------------------------------------------------------------------------------------------------------------


def _segments(b: Any, x: Any, ids: Any, count: Any) -> Any:
    """Sums of the slices of x with equal id; negative ids are dropped."""
    lead = len(ids.shape)
    flat_ids = b.reshape(ids, shape=(ids.aval.size,))
    flat = b.reshape(x, shape=(ids.aval.size, *x.shape[lead:]))
    kept = b.greater_equal(flat_ids, b.like(flat_ids, 0))
    mask = b.broadcast(b.reshape(kept, shape=(kept.shape[0], *(1,) * (len(flat.shape) - 1))), flat.shape)
    safe = b.where(kept, flat_ids, b.zeros(flat_ids.aval))
    return b.scatter_add(b.zeros(Aval((count, *flat.shape[1:]), x.dtype)), safe, b.where(mask, flat, b.zeros(flat.aval)))


def _check_segments(x: Tensor, ids: Tensor) -> None:
    if len(ids.node.shape) > len(x.node.shape):
        raise ShapeError(f"segment ids of shape {ids.shape} have more axes than the data of shape {x.shape}")


@recorded
def unsorted_segment_sum(data: Any, segment_ids: Any, num_segments: Any, name: str | None = None) -> Any:
    """``result[k]`` is the sum of the slices of ``data`` whose id is k, for k below ``num_segments``; slices of negative id are left out."""
    with op_scope(name, "UnsortedSegmentSum", data, segment_ids) as label:
        x, ids = convert(data, name="data"), convert(segment_ids, name="segment_ids")
        _check_segments(x, ids)
        (count,) = sizes_from(num_segments, "num_segments")
        return emit("UnsortedSegmentSum", label, (x, ids), lambda b, n, i: _segments(b, n, i, count))


@recorded
def unsorted_segment_mean(data: Any, segment_ids: Any, num_segments: Any, name: str | None = None) -> Any:
    """Means of segments; 0 for one without members."""
    with op_scope(name, "UnsortedSegmentMean", data, segment_ids):
        x, ids = convert(data, name="data"), convert(segment_ids, name="segment_ids")
        _check_segments(x, ids)
        (count,) = sizes_from(num_segments, "num_segments")

        def build(b: Any, n: Any, i: Any) -> Any:
            members = b.maximum(_segments(b, b.full(n.aval, 1), i, count), b.like(n, 1))
            return b.div(_segments(b, n, i, count), members)
        return emit("UnsortedSegmentMean", "truediv", (x, ids), build)


# ---- sequences ------------------------------------------------------------------------------------------------------------------------


@recorded
def sequence_mask(lengths: Any, maxlen: Any = None, dtype: Any = bool_, name: str | None = None) -> Any:
    """True (or 1) at the first ``lengths`` places of rows of ``maxlen``."""
    with op_scope(name, "SequenceMask", lengths, maxlen):
        n = convert(lengths, name="lengths")
        if maxlen is None:
            from .math_ops import FUNCTIONS
            maxlen = FUNCTIONS["reduce_max"](n)
            static = 1                           # the largest is at least 0
        else:
            static = 0
        (room,) = sizes_from(maxlen, "maxlen")

        def build(b: Any, x: Any) -> Any:
            shape = (*x.shape, room)
            at = b.iota(shape=shape, axis=len(shape) - 1, dtype=x.dtype)
            return b.cast(b.less(at, b.broadcast(b.expand_dims(x, axis=-1), shape)), dtype=as_dtype(dtype))
        return emit("SequenceMask", "Less", (n,), build, more=static)


@recorded
def reverse_sequence(input: Any, seq_lengths: Any = None, seq_axis: Any = None, batch_axis: Any = None, name: str | None = None, seq_dim: Any = None,
                     batch_dim: Any = None) -> Any:
    """The first ``seq_lengths[k]`` places along ``seq_axis`` reversed, for each k along ``batch_axis`` (0)."""
    with op_scope(name, "ReverseSequence", input, seq_lengths) as label:
        along, batch = one_of("seq_axis", seq_axis, seq_dim=seq_dim), one_of("batch_axis", batch_axis, batch_dim=batch_dim)
        x, n = convert(input, name="input"), convert(seq_lengths, name="seq_lengths")
        rank = len(x.node.shape)
        s, c = normalize_axis(static_int(along, "seq_axis"), rank), normalize_axis(0 if batch is None else static_int(batch, "batch_axis"), rank)

        def build(b: Any, v: Any, lengths: Any) -> Any:
            order = [c, s, *(k for k in range(rank) if k not in (c, s))]
            moved = b.transpose(v, perm=tuple(order))
            shape = moved.shape[:2]
            at = b.iota(shape=shape, axis=1, dtype=lengths.dtype)
            last = b.broadcast(b.expand_dims(lengths, axis=-1), shape)
            turned = b.where(b.less(at, last), b.sub(b.sub(last, at), b.like(at, 1)), at)
            got = b.gather_batch(moved, turned, axis=1, batch_dims=1, negative="refuse")
            return b.transpose(got, perm=tuple(order.index(k) for k in range(rank)))
        return emit("ReverseSequence", label, (x, n), build)


@recorded
def argsort(values: Any, axis: int = -1, direction: str = "ASCENDING", stable: bool = False, name: str | None = None) -> Any:
    """Indices (int32) that put an axis in order; equal elements keep theirs."""
    with op_scope(name, "argsort", values):
        x = convert(values, name="values")

        def build(b: Any, n: Any) -> Any:
            k, last = normalize_axis(axis, len(n.shape)), len(n.shape) - 1
            down, moved = direction.upper() == "DESCENDING", move_axis(b, n, k, last)
            return move_axis(b, b.sort(moved, descending=down), last, k), b.cast(move_axis(b, b.argsort(moved, descending=down), last, k), dtype=int32)
        return emit("ArgSort", "TopKV2", (x,), build)[1]


@recorded
def roll(input: Any, shift: Any, axis: Any, name: str | None = None) -> Any:
    """Elements moved along axes, those that fall off the end coming in at the start."""
    with op_scope(name, "Roll", input) as label:
        x = convert(input, name="input")
        axes, shifts = static_axes(axis), static_axes(shift, "shift")
        pairs = list(zip(axes if isinstance(axes, tuple) else (axes,), shifts if isinstance(shifts, tuple) else (shifts,), strict=True))

        def build(b: Any, n: Any) -> Any:
            for a, by in pairs:
                k = normalize_axis(a, len(n.shape))
                size = n.shape[k]
                if not isinstance(size, int):
                    places = b.iota(shape=(size,), axis=0, dtype=int64)
                    count = b.maximum(b.sizes(sizes=(size,), dtype=int64), b.const(np.int64(1)))          # no division by no elements
                    n = b.take(n, b.floormod(b.sub(places, b.like(places, by)), count), axis=k)
                    continue
                cut = -by % size if size else 0
                if cut:
                    def part(start: int, length: int, n: Any = n, k: int = k) -> Any:
                        return b.slice(n, starts=tuple(start if j == k else 0 for j in range(len(n.shape))), sizes=tuple(length if j == k else d for j, d in enumerate(n.shape)),
                                       steps=(1,) * len(n.shape))
                    n = b.concat(part(cut, size - cut), part(0, cut), axis=k)
            return n
        return emit("Roll", label, (x,), build)


def meshgrid(*args: Any, indexing: str = "xy", name: str = "meshgrid") -> list[Any]:
    """Coordinates of a grid of vectors: one array per vector, the first two axes exchanged for "xy"."""
    if indexing not in ("xy", "ij"):
        raise ValueError("indexing parameter must be either 'xy' or 'ij'")
    with op_scope(name, "meshgrid", *args), source.hide_own_frames():
        vectors = [convert(a, name=f"arg_{k}") for k, a in enumerate(args)]
        rank = len(vectors)
        place = list(range(rank))
        if indexing == "xy" and rank > 1:
            place[:2] = 1, 0
        sizes: list[Any] = [None] * rank
        for k, v in enumerate(vectors):
            sizes[k] = v.node.aval.size

        def laid(k: int) -> Any:
            return lambda b, v: b.broadcast_to(b.reshape(v, shape=tuple(sizes[k] if j == place[k] else 1 for j in range(rank))), shape=tuple(sizes[place.index(j)] for j in range(rank)))
        return [emit("Mul", "mul", (v,), laid(k), weight=5, more=8 * (k == 0)) for k, v in enumerate(vectors)]


@recorded
def invert_permutation(x: Any, name: str | None = None) -> Any:
    """y with y[x[k]] = k."""
    with op_scope(name, "InvertPermutation", x) as label:
        return emit("InvertPermutation", label, (convert(x, name="x"),), lambda b, p: b.scatter_update(b.zeros(p.aval), p, b.iota(shape=p.shape, axis=0, dtype=p.dtype)))


def confusion_matrix(labels: Any, predictions: Any, num_classes: Any = None, dtype: Any = int32, name: str | None = None, weights: Any = None) -> Any:
    """Counts (or sums of weights) of pairs: rows are labels, columns predictions."""
    from .array_ops import stack
    from .math_ops import FUNCTIONS
    with op_scope(name, "confusion_matrix", labels, predictions, weights):
        y, p = convert(labels, name="labels"), convert(predictions, name="predictions")
        if num_classes is None:              # one more than the largest
            values = [known(t.node) for t in (y, p)]
            fixed = all(v is not None and all(isinstance(n, int) for n in v.ravel()) for v in values)
            num_classes = max(max(v.ravel(), default=0) for v in values) + 1 if fixed else FUNCTIONS["maximum"](FUNCTIONS["reduce_max"](y), FUNCTIONS["reduce_max"](p)) + 1
        (classes,) = sizes_from(num_classes, "num_classes")
        w = constant_of(np.ones((), as_dtype(dtype).np), None, "ones") if weights is None else convert(weights, as_dtype(dtype), "weights")
        wide = emit("BroadcastTo", "updates", (w, y), lambda b, u, i: b.broadcast(u, i.shape))
        sizes = (classes, classes)
        return emit("SparseTensorDenseAdd", "SparseTensorDenseAdd", (stack([y, p], axis=1), wide), lambda b, i, u: b.scatter_nd_add(b.zeros(Aval(sizes, u.dtype)), i, u, negative="refuse"))
