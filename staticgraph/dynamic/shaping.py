"""Reductions, shapes, joining and picking under PyTorch's names; axes may be called ``dim`` or ``axis``."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import source
from ..dtypes import as_dtype, bool_
from ..errors import ShapeError
from ..ir.aval import product
from ..ir.opdef import OPS
from ..ops.helpers import normalize_axes, normalize_axis
from ..ops.shape import resolve_shape
from .indexing import OutOfBounds, basic
from .methods import call, hidden, where
from .tape import FitError
from .tensor import Tensor, compute

Values = namedtuple("Values", ["values", "indices"])
Extremes = namedtuple("Extremes", ["min", "max"])


def _axis(t: Tensor, dim: int) -> int:
    rank = max(t.ndim, 1)
    if not -rank <= dim < rank:
        raise OutOfBounds(f"Dimension out of range (expected to be in range of [{-rank}, {rank - 1}], but got {dim})")
    return dim % rank


def _axes(t: Tensor, dim: Any) -> Any:
    if dim is None:
        return None
    return tuple(_axis(t, int(d)) for d in (dim if isinstance(dim, (tuple, list)) else (dim,))) if t.ndim else ()


# ---- reductions ------------------------------------------------------------------------------------------------------------------


def _reduction(name: str, counts: bool = False) -> Callable[..., Any]:
    op = OPS[name]

    @hidden
    def method(self: Tensor, dim: Any = None, keepdim: bool = False, *, axis: Any = None, keepdims: bool | None = None, dtype: Any = None) -> Any:
        x = self if dtype is None else compute.cast(self, dtype=as_dtype(dtype))
        if name in ("any", "all") and not x.dtype.is_bool:
            x = compute.cast(x, dtype=bool_)
        if counts and x.dtype.kind in "bi" and x.dtype.name != "int64" and dtype is None:
            x = compute.cast(x, dtype=as_dtype("int64"))
        return compute.apply(op, (x,), {"axis": _axes(x, dim if axis is None else axis), "keepdims": keepdim if keepdims is None else keepdims})
    method.__name__ = name
    method.__doc__ = f"``{name}`` over ``dim`` (an axis or several; None: all)." + (" Integers and bools are summed as int64." if counts else "")
    return method


def _extreme(name: str, binary: str) -> Callable[..., Any]:
    whole = _reduction(name)

    @hidden
    def method(self: Tensor, dim: Any = None, keepdim: bool = False, *, axis: Any = None) -> Any:
        dim = dim if axis is None else axis
        if isinstance(dim, Tensor):
            return call(binary, self, dim)
        if dim is None:
            return whole(self)
        k = _axis(self, dim)
        at = compute.expand_dims(call(f"arg{name}", self, axis=k), axis=k)
        picked = _take_along(self, at, k)
        return Values(picked, at) if keepdim else Values(compute.squeeze(picked, axis=(k,)), compute.squeeze(at, axis=(k,)))
    method.__name__ = name
    method.__doc__ = f"The {name}imum of all; with ``dim`` the pair (values, indices) along it; with a tensor, the {binary} by elements."
    return method


def _arg(name: str) -> Callable[..., Any]:
    @hidden
    def method(self: Tensor, dim: Any = None, keepdim: bool = False, *, axis: Any = None) -> Any:
        dim = dim if axis is None else axis
        if dim is None:
            return call(name, compute.reshape(self, shape=(product(self.shape),)), axis=0)
        out = call(name, self, axis=_axis(self, dim))
        return compute.expand_dims(out, axis=_axis(self, dim)) if keepdim else out
    method.__name__ = name
    method.__doc__ = f"{name} along ``dim``, or of all elements in row-major order."
    return method


@hidden
def var(self: Tensor, dim: Any = None, *, correction: int = 1, unbiased: bool | None = None, keepdim: bool = False, axis: Any = None) -> Any:
    """Variance: squares about the mean over (n - ``correction``)."""
    axes = normalize_axes(_axes(self, dim if axis is None else axis), self.ndim)
    correction = correction if unbiased is None else int(unbiased)
    centred = compute.sub(self, compute.mean(self, axis=axes, keepdims=True))
    n = product(self.shape[a] for a in axes)
    return compute.div(compute.sum(compute.square(centred), axis=axes, keepdims=keepdim), compute.const(max(n - correction, 0), self.dtype))      # type: ignore[operator]


def std(self: Tensor, dim: Any = None, **kw: Any) -> Any:
    """The root of the variance."""
    return call("sqrt", var(self, dim, **kw))


@hidden
def norm(self: Tensor, p: Any = 2, dim: Any = None, keepdim: bool = False) -> Any:
    """The ``p``-norm over ``dim`` (2, 1, inf, or any number)."""
    axes = _axes(self, dim)
    if p in (2, "fro"):
        return compute.norm(self, axis=axes, keepdims=keepdim)
    size = compute.abs(self)
    if p == float("inf"):
        return compute.max(size, axis=axes, keepdims=keepdim)
    if p == 1:
        return compute.sum(size, axis=axes, keepdims=keepdim)
    return compute.pow(compute.sum(compute.pow(size, float(p)), axis=axes, keepdims=keepdim), 1 / float(p))


def _scan(name: str) -> Callable[..., Any]:
    def method(self: Tensor, dim: int = 0, *, axis: int | None = None) -> Any:
        return call(name, self, axis=_axis(self, dim if axis is None else axis))
    method.__name__ = name
    method.__doc__ = f"{name} along ``dim``."
    return method


def _soft(name: str) -> Callable[..., Any]:
    def method(self: Tensor, dim: int = -1, *, axis: int | None = None) -> Any:
        return call(name, self, axis=_axis(self, dim if axis is None else axis))
    method.__name__ = name
    method.__doc__ = f"{name} along ``dim``."
    return method


# ---- shapes ------------------------------------------------------------------------------------------------------------------------


def _sizes(sizes: tuple[Any, ...]) -> tuple[int, ...]:
    given = sizes[0] if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)) else sizes
    return tuple(int(s) for s in given)


@hidden
def reshape(self: Tensor, *shape: Any) -> Any:
    """Under another shape; one size may be -1. Shares memory where the layout allows it."""
    return compute.reshape(self, shape=resolve_shape(self.aval, _sizes(shape)))


@hidden
def view(self: Tensor, *shape: Any) -> Any:
    """``reshape`` that must share memory. ShapeError where the layout does not allow it."""
    if len(shape) == 1 and not isinstance(shape[0], (int, tuple, list, np.integer)):
        raise TypeError("view takes a shape; use to(dtype) for another dtype")
    out = reshape(self, *shape)
    if out._view is None and out._array.size:
        raise FitError("view size is not compatible with input tensor's size and stride (at least one dimension spans across two contiguous subspaces). "
                         "Use .reshape(...) instead.")
    return out


@hidden
def flatten(self: Tensor, start_dim: int = 0, end_dim: int = -1) -> Any:
    """Axes ``start_dim`` to ``end_dim`` as one."""
    if not self.ndim:
        return compute.reshape(self, shape=(1,))
    a, z = _axis(self, start_dim), _axis(self, end_dim)
    return compute.reshape(self, shape=(*self.shape[:a], product(self.shape[a:z + 1]), *self.shape[z + 1:]))


@hidden
def transpose(self: Tensor, dim0: int = 0, dim1: int = 1) -> Any:
    """Two axes swapped."""
    perm = list(range(self.ndim))
    a, c = _axis(self, dim0), _axis(self, dim1)
    perm[a], perm[c] = perm[c], perm[a]
    return compute.transpose(self, perm=tuple(perm))


@hidden
def permute(self: Tensor, *dims: Any) -> Any:
    """Axes in another order."""
    return compute.transpose(self, perm=tuple(_axis(self, d) for d in _sizes(dims)))


@hidden
def squeeze(self: Tensor, dim: Any = None, *, axis: Any = None) -> Any:
    """Without axes of size 1: all of them, or those of ``dim`` that are."""
    dim = dim if axis is None else axis
    axes = tuple(k for k, s in enumerate(self.shape) if s == 1) if dim is None else tuple(k for k in _axes(self, dim) if self.ndim and self.shape[k] == 1)
    return compute.squeeze(self, axis=axes) if axes else compute.reshape(self, shape=self.shape)


@hidden
def expand(self: Tensor, *sizes: Any) -> Any:
    """Broadcast to ``sizes`` (-1 keeps a size), in memory of its own."""
    want = _sizes(sizes)
    lead = len(want) - self.ndim
    return compute.broadcast_to(self, shape=tuple(self.shape[k - lead] if s == -1 else s for k, s in enumerate(want)))


@hidden
def repeat(self: Tensor, *sizes: Any) -> Any:
    """Copies side by side, ``sizes[k]`` along axis k (new axes in front)."""
    want = _sizes(sizes)
    if len(want) < self.ndim:
        raise ShapeError("Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor")
    return compute.tile(compute.reshape(self, shape=(1,) * (len(want) - self.ndim) + self.shape), multiples=want)


@hidden
def tile(self: Tensor, *sizes: Any) -> Any:
    """``repeat`` that takes fewer sizes than there are axes: those of the last ones."""
    want = _sizes(sizes)
    return repeat(self, (*(1,) * (self.ndim - len(want)), *want))


@hidden
def roll(self: Tensor, shifts: int, dim: int | None = None) -> Any:
    """Moved along an axis (None: along all elements in row-major order); what leaves at the end comes in at the beginning."""
    if dim is None:
        return compute.reshape(roll(compute.reshape(self, shape=(product(self.shape),)), shifts, 0), shape=self.shape)
    k, n = _axis(self, dim), self.shape[_axis(self, dim)]
    at = (n - shifts) % n if n else 0
    return compute.concat(narrow(self, k, at, n - at), narrow(self, k, 0, at), axis=k)


@hidden
def movedim(self: Tensor, source_: int, destination: int) -> Any:
    """An axis at another place."""
    a, z = _axis(self, source_), _axis(self, destination)
    perm = [k for k in range(self.ndim) if k != a]
    perm.insert(z, a)
    return compute.transpose(self, perm=tuple(perm))


@hidden
def unflatten(self: Tensor, dim: int, sizes: Any) -> Any:
    """An axis as several; one size may be -1."""
    k = _axis(self, dim)
    inner = resolve_shape(self.aval.with_shape((self.shape[k],)), tuple(sizes))
    return compute.reshape(self, shape=(*self.shape[:k], *inner, *self.shape[k + 1:]))


@hidden
def diff(self: Tensor, dim: int = -1) -> Any:
    """Each element less the one before it along an axis."""
    k = _axis(self, dim)
    n = self.shape[k]
    return compute.sub(narrow(self, k, 1, n - 1), narrow(self, k, 0, n - 1))


@hidden
def flip(self: Tensor, *dims: Any) -> Any:
    """Axes reversed."""
    return compute.reverse(self, axis=tuple(_axis(self, d) for d in _sizes(dims)))


@hidden
def narrow(self: Tensor, dim: int, start: int, length: int) -> Any:
    """``length`` elements of an axis from ``start`` on; a view."""
    k = _axis(self, dim)
    start = start % self.shape[k] if start < 0 else start
    if start + length > self.shape[k]:
        raise OutOfBounds(f"start ({start}) + length ({length}) exceeds dimension size ({self.shape[k]}).")
    return basic(self, (*[slice(None)] * k, slice(start, start + length)))


@hidden
def select(self: Tensor, dim: int, index: int) -> Any:
    """Element ``index`` of an axis; a view."""
    return basic(self, (*[slice(None)] * _axis(self, dim), index))


@hidden
def unbind(self: Tensor, dim: int = 0) -> tuple[Any, ...]:
    """The elements of an axis; views."""
    return tuple(select(self, dim, k) for k in range(self.shape[_axis(self, dim)]))


@hidden
def split(self: Tensor, split_size: Any, dim: int = 0) -> tuple[Any, ...]:
    """Pieces of ``split_size`` (the last may be smaller), or of the sizes in a list; views."""
    d = self.shape[_axis(self, dim)]
    sizes = list(split_size) if isinstance(split_size, (list, tuple)) else [min(split_size, d - k) for k in range(0, d, split_size)] or [0]
    if sum(sizes) != d:
        raise ShapeError(f"split_with_sizes expects split_sizes to sum exactly to {d} (input tensor's size at dimension {dim}), but got {sizes}")
    starts = np.cumsum([0, *sizes[:-1]]).tolist()
    return tuple(narrow(self, dim, s, n) for s, n in zip(starts, sizes))


def chunk(self: Tensor, chunks: int, dim: int = 0) -> tuple[Any, ...]:
    """At most ``chunks`` pieces of equal size."""
    return split(self, max(1, -(-self.shape[_axis(self, dim)] // chunks)), dim)


def _joined(args: tuple[Any, ...], dim: int, axis: int | None) -> tuple[tuple[Any, ...], int]:
    """Operands and axis of ``cat([x, y], 0)``, and of the op's ``concat(x, y, axis=0)``."""
    if isinstance(args[0], (list, tuple)):
        args, dim = args[0], args[1] if len(args) > 1 else dim
    return compute.operands(None, tuple(args)), dim if axis is None else axis


def cat(*tensors: Any, dim: int = 0, axis: int | None = None) -> Any:
    """``cat([x, y], dim)``: joined along an axis."""
    with source.hide_own_frames():
        ts, k = _joined(tensors, dim, axis)
        return call("concat", *ts, axis=_axis(ts[0], k))


def stack(*tensors: Any, dim: int = 0, axis: int | None = None) -> Any:
    """``stack([x, y], dim)``: joined along a new axis."""
    with source.hide_own_frames():
        ts, k = _joined(tensors, dim, axis)
        return call("stack", *ts, axis=normalize_axis(k, ts[0].ndim + 1))


# ---- picking ------------------------------------------------------------------------------------------------------------------------


def _last(t: Any, k: int) -> Any:
    """Axis ``k`` moved to the end."""
    return t if k == t.ndim - 1 else compute.transpose(t, perm=(*[a for a in range(t.ndim) if a != k], k))


def _take_along(t: Any, index: Any, k: int) -> Any:
    """``np.take_along_axis``"""
    if t.ndim == 0:
        return t
    got = compute.take_along(_last(t, k), _last(index, k))
    return got if k == t.ndim - 1 else compute.transpose(got, perm=(*range(k), t.ndim - 1, *range(k, t.ndim - 1)))


def _integers(index: Any) -> Any:
    return index if isinstance(index, Tensor) else compute.const(np.asarray(index, np.int64))


def _inside(index: Any, size: int) -> None:
    a = index._array
    if a.size and not (a.min() >= 0 and a.max() < size):
        raise OutOfBounds(f"index {a.min() if a.min() < 0 else a.max()} is out of bounds for dimension of size {size}")


@hidden
def gather(self: Tensor, dim: int, index: Any) -> Any:
    """``out[i][j] = self[index[i][j]][j]`` for ``dim`` 0, and so on."""
    k, index = _axis(self, dim), _integers(index)
    if index.ndim != self.ndim:
        raise ShapeError("Index tensor must have the same number of dimensions as input tensor")
    _inside(index, self.shape[k] if self.ndim else 1)
    here = basic(self, tuple(slice(None) if a == k else slice(n) for a, n in enumerate(index.shape)))
    return _take_along(here, index, k)


@hidden
def index_select(self: Tensor, dim: int, index: Any) -> Any:
    """The elements of an axis that ``index`` names."""
    index = _integers(index)
    _inside(index, self.shape[_axis(self, dim)])
    return compute.take(self, index, axis=_axis(self, dim))


@hidden
def masked_select(self: Tensor, mask: Any) -> Any:
    """The elements where the mask holds, in one row."""
    m = mask._array if isinstance(mask, Tensor) else np.asarray(mask)
    shape = np.broadcast_shapes(self.shape, m.shape)
    return compute.broadcast(self, shape)[Tensor._wrap(np.broadcast_to(m, shape))]


@hidden
def scatter_add(self: Tensor, dim: int, index: Any, src: Any) -> Any:
    """``self[index[i][j]][j] += src[i][j]`` for ``dim`` 0, in a new tensor."""
    k, index = _axis(self, dim), _integers(index)
    _inside(index, self.shape[k])
    src = basic(src, tuple(slice(n) for n in index.shape))
    where = np.arange(product(self.shape)).reshape(self.shape)               # type: ignore[arg-type]
    at = np.take_along_axis(where[tuple(slice(None) if a == k else slice(n) for a, n in enumerate(index.shape))], index._array, k)
    flat, count = compute.reshape(self, shape=(product(self.shape),)), at.size
    return compute.reshape(compute.rows_add(flat, compute.const(at.ravel()), compute.reshape(src, shape=(count,))), shape=self.shape)


@hidden
def sort(self: Tensor, dim: int = -1, descending: bool = False) -> Any:
    """(values, indices) along an axis; equal elements keep their order."""
    k = _axis(self, dim)
    at = compute.cast(compute.argsort(_last(self, k), descending=descending), dtype=as_dtype("int64"))
    at = at if k == self.ndim - 1 else compute.transpose(at, perm=(*range(k), self.ndim - 1, *range(k, self.ndim - 1)))
    return Values(_take_along(self, at, k), at)


@hidden
def topk(self: Tensor, k: int, dim: int = -1, largest: bool = True) -> Any:
    """(values, indices) of the ``k`` largest (smallest) along an axis."""
    values, at = sort(self, dim, largest)
    return Values(narrow(values, dim, 0, k), narrow(at, dim, 0, k))


@hidden
def tril(self: Tensor, diagonal: int = 0) -> Any:
    """The lower triangle, up to ``diagonal`` above the main one."""
    return where(np.tril(np.ones(self.shape[-2:], bool), diagonal), self, 0)


@hidden
def triu(self: Tensor, diagonal: int = 0) -> Any:
    """The upper triangle, from ``diagonal`` on."""
    return where(np.triu(np.ones(self.shape[-2:], bool), diagonal), self, 0)


def _install() -> None:
    put: Any = Tensor
    for name in ("sum", "prod"):
        setattr(put, name, _reduction(name, counts=True))
    for name in ("mean", "any", "all", "logsumexp"):
        setattr(put, name, _reduction(name))
    put.amax, put.amin = _reduction("max"), _reduction("min")
    put.max, put.min = _extreme("max", "maximum"), _extreme("min", "minimum")
    put.argmax, put.argmin = _arg("argmax"), _arg("argmin")
    put.cumsum, put.cumprod = _scan("cumsum"), _scan("cumprod")
    put.softmax, put.log_softmax = _soft("softmax"), _soft("log_softmax")
    for f in (var, std, norm, reshape, view, flatten, transpose, permute, squeeze, expand, repeat, flip, narrow, select, unbind, split, chunk, gather, index_select,
              masked_select, scatter_add, sort, topk, tril, triu, tile, roll, movedim, unflatten, diff):
        setattr(put, f.__name__, f)
    put.ravel, put.swapaxes, put.moveaxis = flatten, transpose, movedim
    put.argsort = lambda self, dim=-1, descending=False: sort(self, dim, descending).indices
    put.unsqueeze = hidden(lambda self, dim: compute.expand_dims(self, axis=normalize_axis(dim, self.ndim + 1)))
    put.expand_as, put.reshape_as, put.view_as = (lambda self, o: expand(self, o.shape)), (lambda self, o: reshape(self, o.shape)), (lambda self, o: view(self, o.shape))
    put.t = hidden(lambda self: transpose(self, 0, 1) if self.ndim == 2 else reshape(self, self.shape))
    put.T = property(lambda self: permute(self, tuple(range(self.ndim))[::-1]), doc="All axes reversed.")
    put.mT = property(lambda self: transpose(self, -2, -1), doc="The last two axes swapped.")
    put.size = lambda self, dim=None: self.shape if dim is None else self.shape[_axis(self, dim)]
    put.dim = lambda self: self.ndim
    put.numel = put.nelement = lambda self: self._array.size
    put.element_size = lambda self: self._array.itemsize
    put.nbytes = property(lambda self: self._array.nbytes, doc="Bytes of its elements.")
    put.stride = lambda self, dim=None: tuple(s // self._array.itemsize for s in self._array.strides) if dim is None else self._array.strides[dim] // self._array.itemsize
    put.is_contiguous = lambda self: self._array.flags.c_contiguous
    put.is_floating_point = lambda self: self.dtype.is_floating
    put.contiguous = lambda self: self if self._array.flags.c_contiguous else compute.identity(self)
    put.outer = hidden(lambda self, o: compute.mul(compute.reshape(self, shape=(self.shape[0], 1)), o))
    put.diag = hidden(lambda self: compute.diag(self) if self.ndim == 1 else compute.diag_part(self))
    put.trace = hidden(lambda self: compute.sum(compute.diag_part(self), axis=None))
    put.count_nonzero = hidden(lambda self, dim=None: compute.sum(compute.cast(compute.cast(self, dtype=bool_), dtype=as_dtype("int64")), axis=_axes(self, dim), keepdims=False))
    put.aminmax = hidden(lambda self, *, dim=None, keepdim=False: Extremes(self.amin(dim, keepdim), self.amax(dim, keepdim)))
    put.nonzero = lambda self: Tensor._wrap(np.argwhere(self._array))


_install()
