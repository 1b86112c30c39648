"""Strided windows of an image: a view of them, and sums of products over them.

``correlate`` and ``correlate_weights`` are bilinear, and each is the other's transpose together with ``conv2d_input_grad``; all kernels of
convolutions are theirs. Images are [batch, height, width, channels], weights [height, width, in, out].
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ..errors import ShapeError
from ..ir.aval import Aval, Size, product
from ..ir.opdef import Loops, OpDef, View, Windows, define
from .helpers import Sample, batched, check_kind, f64, linear_jvp, may_equal, move_axis, same_dtype, shape_text, summed_wide

Pair = tuple[int, int]


def span(k: Any, dilation: int) -> int:
    """Pixels that a window of k taps covers."""
    return (k - 1) * dilation + 1



def out_size(size: Size, k: Any, s: int, g: int) -> Size:
    return (size - span(k, g)) // s + 1


def _patches_infer(x: Aval, *, ksize: Any, strides: Pair, dilations: Pair = (1, 1)) -> Aval:
    if x.ndim != 4:
        raise ShapeError(f"images must be [batch, height, width, channels], got {x}")
    for d, k, g in zip(x.shape[1:3], ksize, dilations):
        if isinstance(d, int) and d < span(k, g):
            raise ShapeError(f"a window of {ksize[0]}x{ksize[1]} does not fit an image of {shape_text(x.shape[1:3])}")
    oh, ow = (out_size(d, k, s, g) for d, k, s, g in zip(x.shape[1:3], ksize, strides, dilations))
    return Aval((x.shape[0], oh, ow, *ksize, x.shape[3]), x.dtype)


def _windows(v: Any, out: Aval, *, ksize: Pair, strides: Pair, dilations: Pair = (1, 1)) -> Any:
    sn, sh, sw, sc = v.strides
    steps = (sn, sh * strides[0], sw * strides[1], sh * dilations[0], sw * dilations[1], sc)
    return replace(v, shape=out.shape, strides=tuple(0 if d == 1 else s for d, s in zip(out.shape, steps)))


def patches_ref(x: Any, *, ksize: Pair, strides: Pair, dilations: Pair = (1, 1)) -> Any:
    x = np.asarray(x)
    w = np.lib.stride_tricks.sliding_window_view(x, (span(ksize[0], dilations[0]), span(ksize[1], dilations[1])), (1, 2))
    return np.ascontiguousarray(w[:, ::strides[0], ::strides[1], :, ::dilations[0], ::dilations[1]].transpose(0, 1, 2, 4, 5, 3))


def _patches_vmap(name: str) -> Any:
    def rule(b: Any, size: Size, ins: Any, dims: Any, **kw: Any) -> Any:
        x = move_axis(b, ins[0], dims[0], 0)
        flat = b.reshape(x, shape=(x.aval.shape[0] * x.aval.shape[1], *x.aval.shape[2:]))
        y = getattr(b, name)(flat, **kw)
        return b.reshape(y, shape=(size, x.aval.shape[1], *y.aval.shape[1:])), 0
    return rule


def _patch_samples(rng: np.random.Generator) -> list[Sample]:
    return [Sample((rng.normal(size=(2, 5, 6, 3)),), {"ksize": k, "strides": s, "dilations": g})
            for k, s, g in (((3, 2), (1, 1), (1, 1)), ((2, 2), (2, 2), (1, 1)), ((3, 3), (2, 1), (1, 1)), ((2, 2), (1, 2), (2, 1)))]


patches: OpDef = define(OpDef(
    "patches", _patches_infer, patches_ref,
    lambda b, ct, y, x, *, ksize, strides, dilations=(1, 1): [b.unpatch(ct, image=x.aval.shape[1:3], strides=strides, dilations=dilations)],
    linear_jvp(lambda: patches), _patches_vmap("patches"), View(_windows), _patch_samples,
    (((f64(3, 3),), {"ksize": (2, 2), "strides": (1, 1)}, "images must be"), ((f64(1, 2, 2, 1),), {"ksize": (3, 3), "strides": (1, 1)}, "does not fit an image")),
    frozenset({"exact", "linear"}), doc="Windows [batch, out height, out width, height, width, channels] of an image; a view."))


def _unpatch_infer(p: Aval, *, image: tuple[Size, Size], strides: Pair, dilations: Pair = (1, 1)) -> Aval:
    if p.ndim != 6:
        raise ShapeError(f"patches must have rank 6, got {p}")
    return Aval((p.shape[0], *image, p.shape[5]), p.dtype)


def unpatch_ref(p: Any, *, image: Any, strides: Pair, dilations: Pair = (1, 1)) -> Any:
    p = np.asarray(p)
    n, oh, ow, kh, kw, c = p.shape
    out = np.zeros((n, *image, c), p.dtype)
    for i in range(kh):
        for j in range(kw):
            out[:, i * dilations[0]:i * dilations[0] + (oh - 1) * strides[0] + 1:strides[0],
                j * dilations[1]:j * dilations[1] + (ow - 1) * strides[1] + 1:strides[1]] += p[:, :, :, i, j]
    return out


def _emit_unpatch(k: Any, out: Any, p: Any, *, image: Any, strides: Pair, dilations: Pair = (1, 1)) -> None:
    """One task per row of pixels; each pixel adds its windows in order."""
    e = k.e
    _n, oh, ow, kh, kw, c = (k.size(s) for s in p.shape)
    height, width = (k.size(s) for s in image)
    w = k.lanes(out.dtype)

    def row(t: Any) -> None:
        batch, y = k.div(t, height), k.mod(t, height)

        def pixel(x: Any) -> None:
            base = k.mul(k.add(k.mul(t, width), x), c)
            main = k.mul(k.div(c, w), w)
            for step, lo, hi in ((w, 0, main), (1, main, c)):
                def channels(ch: Any, _: Any, step: int = step) -> Any:
                    def taps_y(i: Any, acc: Any) -> Any:
                        dy = k.sub(y, k.mul(i, dilations[0]))

                        def taps_x(j: Any, inner: Any) -> Any:
                            dx = k.sub(x, k.mul(j, dilations[1]))
                            oy, ox = k.div(dy, strides[0]), k.div(dx, strides[1])
                            ok = e.and_(e.and_(e.cmp("ge", k.index(dy), 0), e.cmp("ge", k.index(dx), 0)),
                                        e.and_(e.cmp("lt", k.index(oy), k.index(oh)), e.cmp("lt", k.index(ox), k.index(ow))))
                            for d, s in ((dy, strides[0]), (dx, strides[1])):
                                if s > 1:
                                    ok = e.and_(ok, e.cmp("eq", k.index(k.mod(d, s)), 0))
                            at = k.mul(k.add(k.mul(k.add(k.mul(k.add(k.mul(k.add(k.mul(batch, oh), oy), ow), ox), kh), i), kw), j), c)
                            return e.if_(ok, lambda: [e.add(inner[0], p.load(k.add(at, ch), step))], lambda: [inner[0]])
                        return e.loop(0, kw, 1, acc, taps_x)
                    total = e.loop(0, kh, 1, [e.const(out.dtype, 0, step)], taps_y)
                    out.store(total[0], k.add(base, ch))
                    return []
                e.loop(lo, hi, step, [], channels)
        k.range(width, pixel)
    k.tasks(row)


unpatch: OpDef = define(OpDef(
    "unpatch", _unpatch_infer, unpatch_ref,
    lambda b, ct, y, p, *, image, strides, dilations=(1, 1): [b.patches(ct, ksize=p.aval.shape[3:5], strides=strides, dilations=dilations)],
    linear_jvp(lambda: unpatch), _patches_vmap("unpatch"),
    Loops(_emit_unpatch, tasks=lambda out, p, **kw: out.shape[0] * out.shape[1]),
    lambda rng: [Sample((patches_ref(s.arrays[0], **s.attrs),), {"image": (5, 6), "strides": s.attrs["strides"], "dilations": s.attrs["dilations"]}) for s in _patch_samples(rng)],
    (((f64(3, 3),), {"image": (3, 3), "strides": (1, 1)}, "rank 6"),), frozenset({"linear"}), doc="Windows added up into an image: the transpose of ``patches``."))


# ---- sums of products over windows -----------------------------------------------------------------------------------------------


def _correlate_infer(x: Aval, w: Aval, *, strides: Pair = (1, 1), dilations: Pair = (1, 1)) -> Aval:
    check_kind(x, "f")
    same_dtype(x, w)
    if x.ndim != 4 or w.ndim != 4:
        raise ShapeError(f"correlate needs an image [batch, height, width, channels] and weights [height, width, in, out], got {x} and {w}")
    if not may_equal(x.shape[3], w.shape[2]):
        raise ShapeError(f"Dimensions must be equal, but are {x.shape[3]} and {w.shape[2]} (channels of {x} and {w})")
    p = _patches_infer(x, ksize=w.shape[:2], strides=strides, dilations=dilations)
    return Aval((*p.shape[:3], w.shape[3]), x.dtype)


@summed_wide
def _correlate_ref(x: Any, w: Any, *, strides: Pair = (1, 1), dilations: Pair = (1, 1)) -> Any:
    p = patches_ref(x, ksize=np.shape(w)[:2], strides=strides, dilations=dilations)
    return np.tensordot(p, w, ((3, 4, 5), (0, 1, 2)))


def _correlate_vjp(b: Any, ct: Any, y: Any, x: Any, w: Any, *, strides: Pair = (1, 1), dilations: Pair = (1, 1)) -> list[Any]:
    kw = {"strides": strides, "dilations": dilations}
    return [b.conv2d_input_grad(ct, w, shape=x.aval.shape, padding="VALID", **kw), b.correlate_weights(x, ct, ksize=w.aval.shape[:2], **kw)]


def _bilinear_jvp(name: str) -> Any:
    def jvp(b: Any, ts: Any, y: Any, p: Any, q: Any, **kw: Any) -> Any:
        f = getattr(b, name)
        return b.add_n([None if ts[0] is None else f(ts[0], q, **kw), None if ts[1] is None else f(p, ts[1], **kw)])
    return jvp


def _rows_of(b: Any, x: Any, ksize: Any, strides: Pair, dilations: Pair) -> tuple[Any, tuple[Size, ...]]:
    """Windows of a batch of batches of images, as rows [size, positions, taps], and the positions' shape."""
    size, n = x.aval.shape[:2]
    p = b.patches(b.reshape(x, shape=(size * n, *x.aval.shape[2:])), ksize=ksize, strides=strides, dilations=dilations)
    _, oh, ow, kh, kw, c = p.aval.shape
    return b.reshape(p, shape=(size, n * oh * ow, kh * kw * c)), (n, oh, ow)


def _correlate_vmap(b: Any, size: Size, ins: Any, dims: Any, *, strides: Pair = (1, 1), dilations: Pair = (1, 1)) -> Any:
    (x, w), (dx, dw) = ins, dims
    if dw is None:                           # more images
        x = move_axis(b, x, dx, 0)
        y = b.correlate(b.reshape(x, shape=(size * x.aval.shape[1], *x.aval.shape[2:])), w, strides=strides, dilations=dilations)
        return b.reshape(y, shape=(size, x.aval.shape[1], *y.aval.shape[1:])), 0
    w = move_axis(b, w, dw, 0)
    kh, kw, ci, co = w.aval.shape[1:]
    if dx is None:                           # more channels
        wide = b.reshape(b.transpose(w, perm=(1, 2, 3, 0, 4)), shape=(kh, kw, ci, size * co))
        y = b.correlate(x, wide, strides=strides, dilations=dilations)
        return b.reshape(y, shape=(*y.aval.shape[:3], size, co)), 3
    rows, place = _rows_of(b, move_axis(b, x, dx, 0), (kh, kw), strides, dilations)
    y = b.matmul(rows, b.reshape(w, shape=(size, kh * kw * ci, co)))
    return b.reshape(y, shape=(size, *place, co)), 0


def _correlate_samples(rng: np.random.Generator) -> list[Sample]:
    out = [Sample((rng.normal(size=(2, 6, 5, 3)), rng.normal(size=(3, 2, 3, 4))), {"strides": s, "dilations": g})
           for s, g in (((1, 1), (1, 1)), ((2, 2), (1, 1)), ((2, 1), (1, 1)), ((1, 1), (2, 1)), ((1, 2), (1, 3)))]
    plain = {"strides": (1, 1), "dilations": (1, 1)}
    for n, h, w, c, kh, kw, o in ((1, 5, 5, 1, 1, 1, 17), (3, 7, 20, 1, 5, 5, 6), (2, 4, 16, 16, 3, 3, 40), (1, 3, 31, 5, 2, 3, 130), (0, 4, 4, 2, 2, 2, 3)):
        out.append(Sample((rng.normal(size=(n, h, w, c)).astype("f4"), rng.normal(size=(kh, kw, c, o)).astype("f4")), plain, grad=False))
    return out


_RANKS: Any = ((f64(4, 4, 2), f64(2, 2, 2, 3)), {"strides": (1, 1)}, "correlate needs an image")
correlate = define(OpDef(
    "correlate", _correlate_infer, _correlate_ref, _correlate_vjp, _bilinear_jvp("correlate"), _correlate_vmap, Windows(), _correlate_samples,
    (_RANKS, ((f64(1, 4, 4, 2), f64(2, 2, 3, 3)), {"strides": (1, 1)}, "Dimensions must be equal, but are 2 and 3"),
     ((f64(1, 2, 2, 2), f64(3, 3, 2, 3)), {"strides": (1, 1)}, "does not fit an image")),
    doc="Sums of products of an image's windows and weights; each element is one chain over (height, width, channel)."))


def _weights_infer(x: Aval, ct: Aval, *, ksize: tuple[Size, Size], strides: Pair = (1, 1), dilations: Pair = (1, 1)) -> Aval:
    check_kind(x, "f")
    same_dtype(x, ct)
    if x.ndim != 4 or ct.ndim != 4:
        raise ShapeError(f"correlate_weights needs two images [batch, height, width, channels], got {x} and {ct}")
    w = Aval((*ksize, x.shape[3], ct.shape[3]), x.dtype)
    y = _correlate_infer(x, w, strides=strides, dilations=dilations)
    if not all(map(may_equal, y.shape, ct.shape)):
        raise ShapeError(f"windows of {ksize[0]}x{ksize[1]} of {x} make an image of shape {shape_text(y.shape)}, got {ct}")
    return w


@summed_wide
def _weights_ref(x: Any, ct: Any, *, ksize: Any, strides: Pair = (1, 1), dilations: Pair = (1, 1)) -> Any:
    return np.tensordot(patches_ref(x, ksize=ksize, strides=strides, dilations=dilations), ct, ((0, 1, 2), (0, 1, 2)))


def _weights_vjp(b: Any, g: Any, w: Any, x: Any, ct: Any, *, ksize: Any, strides: Pair = (1, 1), dilations: Pair = (1, 1)) -> list[Any]:
    kw = {"strides": strides, "dilations": dilations}
    return [b.conv2d_input_grad(ct, g, shape=x.aval.shape, padding="VALID", **kw), b.correlate(x, g, **kw)]


def _weights_vmap(b: Any, size: Size, ins: Any, dims: Any, *, ksize: Any, strides: Pair = (1, 1), dilations: Pair = (1, 1)) -> Any:
    (x, ct), (dx, dct) = ins, dims
    kw = {"ksize": ksize, "strides": strides, "dilations": dilations}
    if dx is None:                           # more channels
        ct = move_axis(b, ct, dct, 3)
        wide = b.reshape(ct, shape=(*ct.aval.shape[:3], size * ct.aval.shape[4]))
        w = b.correlate_weights(x, wide, **kw)
        return b.reshape(w, shape=(*w.aval.shape[:3], size, ct.aval.shape[4])), 3
    x, ct = batched(b, x, dx, size), batched(b, ct, dct, size)
    rows, _ = _rows_of(b, x, ksize, strides, dilations)
    co = ct.aval.shape[4]
    w = b.matmul(rows, b.reshape(ct, shape=(size, product(ct.aval.shape[1:4]), co)), transpose_a=True)
    return b.reshape(w, shape=(size, *ksize, x.aval.shape[4], co)), 0


def _weights_samples(rng: np.random.Generator) -> list[Sample]:
    out = []
    for s in _correlate_samples(rng):
        x, w = s.arrays
        ct = rng.normal(size=_correlate_ref(x, w, **s.attrs).shape).astype(x.dtype)
        out.append(Sample((x, ct), {**s.attrs, "ksize": w.shape[:2]}, s.grad))
    return out


correlate_weights = define(OpDef(
    "correlate_weights", _weights_infer, _weights_ref, _weights_vjp, _bilinear_jvp("correlate_weights"), _weights_vmap, Windows(weights=True), _weights_samples,
    (((f64(4, 4, 2), f64(2, 2, 3)), {"ksize": (2, 2)}, "two images"), ((f64(1, 4, 4, 2), f64(1, 2, 2, 3)), {"ksize": (2, 2)}, "make an image of shape"),),
    doc="The weights' cotangent of ``correlate``; each element is one chain over (batch, height, width)."))
