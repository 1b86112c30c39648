"""2-D pooling: the window's strided slices folded elementwise.

Derivatives follow from the composition; where windows are tiles (channels last, strides equal to the window) the gradient is written a
tile at a time instead of being summed over slices.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..dtypes import as_dtype, int32
from ..errors import ShapeError
from ..ir.aval import Aval
from .composed import composed
from .conv import check_format, nhwc, padding_of, placed
from .helpers import Sample, check_kind, f64
from .windows import Pair, out_size, patches_ref


def _pool_infer(x: Aval, *, ksize: Pair, strides: Pair, padding: Any, data_format: str = "NHWC") -> Aval:
    check_format(data_format)
    check_kind(x, "f")
    if x.ndim != 4:
        raise ShapeError(f"images must have rank 4, got {x}")
    n, h, w, c = nhwc(x, data_format)
    pads = padding_of(padding, (h, w), ksize, strides, (1, 1))
    sizes = []
    for d, (p, q), k, s in zip((h, w), pads, ksize, strides):
        full = d + p + q
        if isinstance(full, int) and full < k:
            raise ShapeError(f"Negative dimension size caused by subtracting {k} from {full}")
        sizes.append(out_size(full, k, s, 1))
    return Aval((n, c, *sizes) if data_format == "NCHW" else (n, *sizes, c), x.dtype)


def _taps(b: Any, x: Any, ksize: Pair, strides: Pair, padding: Any, data_format: str, fill: float) -> list[Any]:
    """The window's elements, one strided slice per tap, in row-major order."""
    h, w = (2, 3) if data_format == "NCHW" else (1, 2)
    pads = padding_of(padding, (x.aval.shape[h], x.aval.shape[w]), ksize, strides, (1, 1))
    if any(p != 0 for pair in pads for p in pair):
        before, after = [0] * 4, [0] * 4
        (before[h], after[h]), (before[w], after[w]) = pads
        x = b.pad(x, before=tuple(before), after=tuple(after), between=(0, 0, 0, 0), value=fill)
    shape = x.aval.shape
    out = []
    for i in range(ksize[0]):
        for j in range(ksize[1]):
            starts, sizes, steps = [0] * 4, list(shape), [1] * 4
            starts[h], starts[w] = i, j
            sizes[h], sizes[w] = out_size(shape[h], ksize[0], strides[0], 1), out_size(shape[w], ksize[1], strides[1], 1)
            steps[h], steps[w] = strides
            out.append(b.slice(x, starts=tuple(starts), sizes=tuple(sizes), steps=tuple(steps)))
    return out


def _first_inside(b: Any, x: Aval, out: Aval, ksize: Pair, strides: Pair, padding: Any, data_format: str) -> tuple[Any, int]:
    """The number of each window's first tap that is not padding, and the largest such number."""
    axes = (2, 3) if data_format == "NCHW" else (1, 2)
    (top, _), (left, _) = padding_of(padding, tuple(x.shape[k] for k in axes), ksize, strides, (1, 1))
    if not top and not left:
        return None, 0
    parts = []
    for axis, gone, step in zip(axes, (top, left), strides):
        start = b.iota(shape=tuple(d if k == axis else 1 for k, d in enumerate(out.shape)), axis=axis, dtype=int32)
        start = b.sub(b.full(start.aval, gone), b.mul(start, step))
        parts.append(b.maximum(start, b.zeros(start.aval)))
    return b.add(b.mul(parts[0], ksize[1]), parts[1]), top * ksize[1] + left


def _max_build(b: Any, x: Any, *, ksize: Pair, strides: Pair, padding: Any, data_format: str = "NHWC") -> Any:
    # at ties the derivative of maximum goes to its first operand: the first of the window's largest, which must not be padding
    taps = _taps(b, x, ksize, strides, padding, data_format, -np.inf)
    y = taps[0]
    first, most = _first_inside(b, x.aval, y.aval, ksize, strides, padding, data_format)
    for k, t in enumerate(taps[1:], 1):
        higher = b.maximum(y, t)
        y = b.where(b.greater_equal(first, b.full(first.aval, k)), t, higher) if k <= most else higher
    return b.identity(y) if len(taps) == 1 else y


def _are_tiles(x: Aval, ksize: Pair, strides: Pair, data_format: str) -> bool:
    return data_format == "NHWC" and tuple(ksize) == tuple(strides) and all(isinstance(d, int) for d in x.shape[1:3])


def _from_tiles(b: Any, tiles: Any, x: Aval, ksize: Pair, padding: Any) -> Any:
    """[batch, out height, window height, out width, window width, channels] as the image, without padding and with the rows no window has."""
    n, oh, kh, ow, kw, c = tiles.aval.shape
    pads = padding_of(padding, x.shape[1:3], ksize, ksize, (1, 1))
    return placed(b, b.reshape(tiles, shape=(n, oh * kh, ow * kw, c)), [-p for p, _ in pads], x.shape[1:3])


def _spread(b: Any, v: Any, ksize: Pair) -> Any:
    """A value per window at each of its pixels."""
    n, oh, ow, c = v.aval.shape
    return b.broadcast(b.reshape(v, shape=(n, oh, 1, ow, 1, c)), (n, oh, ksize[0], ow, ksize[1], c))


def _max_vjp(b: Any, ct: Any, y: Any, x: Any, *, ksize: Pair, strides: Pair, padding: Any, data_format: str = "NHWC") -> list[Any]:
    kw = {"ksize": ksize, "strides": strides, "padding": padding, "data_format": data_format}
    if not _are_tiles(x.aval, ksize, strides, data_format):
        return list(b.vjp_of(lambda c, v: _max_build(c, v, **kw), (x,), ct))
    taps = _taps(b, x, ksize, strides, padding, data_format, -np.inf)
    which = b.full(y.aval.with_dtype(int32), len(taps) - 1)
    first, most = _first_inside(b, x.aval, y.aval, ksize, strides, padding, data_format)
    for k in reversed(range(len(taps) - 1)):          # the first that is the largest, or NaN
        hit = b.logical_or(b.equal(taps[k], y), b.is_nan(taps[k]))
        if k < most:
            hit = b.logical_and(hit, b.less_equal(first, b.full(first.aval, k)))
        which = b.where(hit, b.full(which.aval, k), which)
    places = b.add(b.mul(b.iota(shape=(1, 1, ksize[0], 1, 1, 1), axis=2, dtype=int32), ksize[1]), b.iota(shape=(1, 1, 1, 1, ksize[1], 1), axis=4, dtype=int32))
    cts = _spread(b, ct, ksize)
    return [_from_tiles(b, b.where(b.equal(_spread(b, which, ksize), places), cts, b.zeros(cts.aval)), x.aval, ksize, padding)]


def _avg_vjp(b: Any, ct: Any, y: Any, x: Any, *, ksize: Pair, strides: Pair, padding: Any, data_format: str = "NHWC") -> list[Any]:
    if not _are_tiles(x.aval, ksize, strides, data_format):
        kw = {"ksize": ksize, "strides": strides, "padding": padding, "data_format": data_format}
        return list(b.vjp_of(lambda c, v: _avg_build(c, v, **kw), (x,), ct))
    count = b.like(x, ksize[0] * ksize[1]) if padding == "VALID" else b.const(_counts(x.aval, ksize, strides, padding, data_format))
    return [_from_tiles(b, _spread(b, b.div(ct, count), ksize), x.aval, ksize, padding)]


def _counts(x: Aval, ksize: Pair, strides: Pair, padding: Any, data_format: str) -> Any:
    """How many real pixels each window has, as a constant that broadcasts over batch and channels."""
    _, h, w, _ = nhwc(x, data_format)
    pads = padding_of(padding, (h, w), ksize, strides, (1, 1))
    lines = []
    for d, (p, q), k, s in zip((h, w), pads, ksize, strides):
        if not isinstance(d, int):
            raise ShapeError("average pooling with padding needs the image's size while building")
        ones = np.concatenate([np.zeros(p), np.ones(d), np.zeros(q)])
        lines.append(np.array([ones[a:a + k].sum() for a in range(0, len(ones) - k + 1, s)]))
    grid = np.outer(*lines)
    return (grid[None] if data_format == "NCHW" else grid[..., None]).astype(x.dtype.np)


def _avg_build(b: Any, x: Any, *, ksize: Pair, strides: Pair, padding: Any, data_format: str = "NHWC") -> Any:
    total = b.add_n(_taps(b, x, ksize, strides, padding, data_format, 0.0))
    if padding == "VALID":
        return b.div(total, b.like(x, ksize[0] * ksize[1]))
    return b.div(total, b.const(_counts(x.aval, ksize, strides, padding, data_format)))


def _pool_ref(largest: bool) -> Any:
    def ref(x: Any, *, ksize: Pair, strides: Pair, padding: Any, data_format: str = "NHWC") -> Any:
        x = np.asarray(x)
        counts = _counts(Aval(x.shape, as_dtype(x.dtype)), ksize, strides, padding, data_format)
        x = x.transpose(0, 2, 3, 1) if data_format == "NCHW" else x
        (t, d), (left, r) = padding_of(padding, x.shape[1:3], ksize, strides, (1, 1))
        x = np.pad(x, ((0, 0), (t, d), (left, r), (0, 0)), constant_values=-np.inf if largest else 0)
        p = patches_ref(x, ksize=ksize, strides=strides)
        y = p.max((3, 4)) if largest else p.sum((3, 4))
        y = np.ascontiguousarray(y.transpose(0, 3, 1, 2)) if data_format == "NCHW" else y
        return y if largest else y / counts
    return ref


def _pool_samples(rng: np.random.Generator) -> list[Sample]:
    out = [Sample((rng.permutation(2 * 6 * 5 * 3).reshape(2, 6, 5, 3).astype("f8"),), {"ksize": k, "strides": s, "padding": p, "data_format": "NHWC"})
           for k, s, p in (((2, 2), (2, 2), "VALID"), ((2, 2), (1, 1), "VALID"), ((3, 3), (2, 2), "SAME"), ((2, 2), (2, 2), "SAME"), ((1, 1), (1, 1), "VALID"))]
    out.append(Sample((rng.permutation(2 * 3 * 6 * 5).reshape(2, 3, 6, 5).astype("f8"),), {"ksize": (2, 2), "strides": (2, 2), "padding": "VALID", "data_format": "NCHW"}))
    out.append(Sample((np.ones((1, 4, 4, 20), "f4"),), {"ksize": (2, 2), "strides": (2, 2), "padding": "VALID", "data_format": "NHWC"}, grad=False))
    return out


_POOL_ERRORS = (((f64(1, 2, 2, 1),), {"ksize": (3, 3), "strides": (1, 1), "padding": "VALID"}, "Negative dimension size"),
                ((f64(2, 2, 1),), {"ksize": (2, 2), "strides": (1, 1), "padding": "VALID"}, "rank 4"))
max_pool2d = composed("max_pool2d", _pool_infer, _pool_ref(True), _max_build, _pool_samples, _POOL_ERRORS,
                      "The largest of each window; at ties the first one gets the gradient; overlapping windows add up.", vjp=_max_vjp)
avg_pool2d = composed("avg_pool2d", _pool_infer, _pool_ref(False), _avg_build, _pool_samples, _POOL_ERRORS,
                      "The mean of each window; padding does not count.", vjp=_avg_vjp)
