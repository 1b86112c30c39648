"""2-D convolution and pooling over strided windows.

``patches`` is a view: windows of a padded image are read through strides. A convolution is one matrix product of the patches with the
weights [height, width, in, out], so each output element is one chain over (height, width, in); pooling folds the window's strided
slices elementwise. All derivatives follow from the compositions.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import ShapeError
from ..ir.aval import Aval, Size, product
from ..ir.opdef import Loops, OpDef, View, define
from .composed import composed
from .helpers import Sample, check_kind, f64, linear_jvp, may_equal, move_axis, same_dtype, shape_text

Pair = tuple[int, int]


def span(k: Any, dilation: int) -> int:
    """Pixels that a window of k taps covers."""
    return (k - 1) * dilation + 1


def padding_of(padding: Any, sizes: Any, ksize: Any, strides: Pair, dilations: Pair) -> Any:
    """((top, bottom), (left, right)) for "SAME" (the extra pixel at the end, as TF), "VALID" or explicit pairs."""
    if padding == "VALID":
        return (0, 0), (0, 0)
    if padding == "SAME":
        out = []
        for d, k, s, g in zip(sizes, ksize, strides, dilations):
            if not isinstance(d, int):
                if s == 1:
                    total: Size = span(k, g) - 1
                else:
                    raise ShapeError("SAME padding with a stride needs the image's size while building")
            else:
                total = max((-(-d // s) - 1) * s + span(k, g) - d, 0)
            out.append((total // 2, total - total // 2))
        return out[0], out[1]
    if isinstance(padding, tuple) and len(padding) == 2:
        (t, d), (left, r) = padding
        return (t, d), (left, r)
    raise ShapeError(f"padding must be 'SAME', 'VALID' or ((top, bottom), (left, right)), got {padding!r}")


def _out(size: Size, k: Any, s: int, g: int) -> Size:
    return (size - span(k, g)) // s + 1


def _patches_infer(x: Aval, *, ksize: Pair, strides: Pair, dilations: Pair = (1, 1)) -> Aval:
    if x.ndim != 4:
        raise ShapeError(f"images must be [batch, height, width, channels], got {x}")
    for d, k, g in zip(x.shape[1:3], ksize, dilations):
        if isinstance(d, int) and d < span(k, g):
            raise ShapeError(f"a window of {ksize[0]}x{ksize[1]} does not fit an image of {shape_text(x.shape[1:3])}")
    oh, ow = (_out(d, k, s, g) for d, k, s, g in zip(x.shape[1:3], ksize, strides, dilations))
    return Aval((x.shape[0], oh, ow, *ksize, x.shape[3]), x.dtype)


def _windows(v: Any, out: Aval, *, ksize: Pair, strides: Pair, dilations: Pair = (1, 1)) -> Any:
    from dataclasses import replace
    sn, sh, sw, sc = v.strides
    steps = (sn, sh * strides[0], sw * strides[1], sh * dilations[0], sw * dilations[1], sc)
    return replace(v, shape=out.shape, strides=tuple(0 if d == 1 else s for d, s in zip(out.shape, steps)))


def _patches_ref(x: Any, *, ksize: Pair, strides: Pair, dilations: Pair = (1, 1)) -> Any:
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
    "patches", _patches_infer, _patches_ref,
    lambda b, ct, y, x, *, ksize, strides, dilations=(1, 1): [b.unpatch(ct, image=x.aval.shape[1:3], strides=strides, dilations=dilations)],
    linear_jvp(lambda: patches), _patches_vmap("patches"), View(_windows), _patch_samples,
    (((f64(3, 3),), {"ksize": (2, 2), "strides": (1, 1)}, "images must be"), ((f64(1, 2, 2, 1),), {"ksize": (3, 3), "strides": (1, 1)}, "does not fit an image")),
    frozenset({"exact", "linear"}), doc="Windows [batch, out height, out width, height, width, channels] of an image; a view."))


def _unpatch_infer(p: Aval, *, image: tuple[Size, Size], strides: Pair, dilations: Pair = (1, 1)) -> Aval:
    if p.ndim != 6:
        raise ShapeError(f"patches must have rank 6, got {p}")
    return Aval((p.shape[0], *image, p.shape[5]), p.dtype)


def _unpatch_ref(p: Any, *, image: Any, strides: Pair, dilations: Pair = (1, 1)) -> Any:
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
    "unpatch", _unpatch_infer, _unpatch_ref,
    lambda b, ct, y, p, *, image, strides, dilations=(1, 1): [b.patches(ct, ksize=p.aval.shape[3:5], strides=strides, dilations=dilations)],
    linear_jvp(lambda: unpatch), _patches_vmap("unpatch"),
    Loops(_emit_unpatch, tasks=lambda out, p, **kw: out.shape[0] * out.shape[1]),
    lambda rng: [Sample((_patches_ref(s.arrays[0], **s.attrs),), {"image": (5, 6), "strides": s.attrs["strides"], "dilations": s.attrs["dilations"]}) for s in _patch_samples(rng)],
    (((f64(3, 3),), {"image": (3, 3), "strides": (1, 1)}, "rank 6"),), frozenset({"linear"}), doc="Windows added up into an image: the transpose of ``patches``."))


# ---- convolution ------------------------------------------------------------------------------------------------------------------


def _layout(b: Any, x: Any, data_format: str) -> Any:
    return b.transpose(x, perm=(0, 2, 3, 1)) if data_format == "NCHW" else x


def _back(b: Any, y: Any, data_format: str) -> Any:
    return b.transpose(y, perm=(0, 3, 1, 2)) if data_format == "NCHW" else y


def _nhwc(x: Aval, data_format: str) -> Any:
    n, *rest = x.shape
    return (n, rest[1], rest[2], rest[0]) if data_format == "NCHW" else x.shape


def _check_format(data_format: str) -> None:
    if data_format not in ("NHWC", "NCHW"):
        raise ShapeError(f"data_format must be NHWC or NCHW, got {data_format!r}")


def _conv_infer(x: Aval, w: Aval, *, strides: Pair, padding: Any, data_format: str = "NHWC", dilations: Pair = (1, 1)) -> Aval:
    _check_format(data_format)
    check_kind(x, "f")
    same_dtype(x, w)
    if x.ndim != 4 or w.ndim != 4:
        raise ShapeError(f"Shape must be rank 4 but is rank {x.ndim if x.ndim != 4 else w.ndim}: conv2d of {x} by {w}")
    n, h, wd, c = _nhwc(x, data_format)
    kh, kw, ci, co = w.shape
    if not may_equal(c, ci):
        raise ShapeError(f"Dimensions must be equal, but are {c} and {ci}: the image has {c} channels, the weights take {ci}")
    pads = padding_of(padding, (h, wd), (kh, kw), strides, dilations)
    sizes = []
    for d, (p, q), k, s, g in zip((h, wd), pads, (kh, kw), strides, dilations):
        full = d + p + q
        if isinstance(full, int) and full < span(k, g):
            raise ShapeError(f"Negative dimension size caused by subtracting {span(k, g)} from {full}")
        sizes.append(_out(full, k, s, g))
    shape = (n, *sizes, co)
    return Aval((n, co, *sizes) if data_format == "NCHW" else shape, x.dtype)


def _padded(b: Any, x: Any, pads: Any, value: float = 0.0) -> Any:
    if all(p == 0 for pair in pads for p in pair):
        return x
    (t, d), (left, r) = pads
    return b.pad(x, before=(0, t, left, 0), after=(0, d, r, 0), between=(0, 0, 0, 0), value=value)


def _columns(b: Any, x: Any, w_shape: Any, strides: Pair, padding: Any, dilations: Pair) -> tuple[Any, tuple[Size, ...]]:
    """(patches as rows, their batch, height and width)."""
    kh, kw = w_shape[:2]
    pads = padding_of(padding, x.aval.shape[1:3], (kh, kw), strides, dilations)
    p = b.patches(_padded(b, x, pads), ksize=(kh, kw), strides=tuple(strides), dilations=tuple(dilations))
    n, oh, ow = p.aval.shape[:3]
    return b.reshape(p, shape=(n * oh * ow, kh * kw * x.aval.shape[3])), (n, oh, ow)


def _conv_build(b: Any, x: Any, w: Any, *, strides: Pair, padding: Any, data_format: str = "NHWC", dilations: Pair = (1, 1)) -> Any:
    x = _layout(b, x, data_format)
    rows, place = _columns(b, x, w.aval.shape, strides, padding, dilations)
    kh, kw, ci, co = w.aval.shape
    y = b.matmul(rows, b.reshape(w, shape=(kh * kw * ci, co)))
    return _back(b, b.reshape(y, shape=(*place, co)), data_format)


def _conv_ref(x: Any, w: Any, *, strides: Pair, padding: Any, data_format: str = "NHWC", dilations: Pair = (1, 1)) -> Any:
    x, w = np.asarray(x), np.asarray(w)
    x = x.transpose(0, 2, 3, 1) if data_format == "NCHW" else x
    (t, d), (left, r) = padding_of(padding, x.shape[1:3], w.shape[:2], strides, dilations)
    x = np.pad(x, ((0, 0), (t, d), (left, r), (0, 0)))
    p = _patches_ref(x, ksize=w.shape[:2], strides=strides, dilations=dilations)
    y = np.tensordot(p, w, ((3, 4, 5), (0, 1, 2)))
    return np.ascontiguousarray(y.transpose(0, 3, 1, 2)) if data_format == "NCHW" else y


def _conv_vjp(b: Any, ct: Any, y: Any, x: Any, w: Any, **kw: Any) -> list[Any]:
    return [b.conv2d_input_grad(ct, w, shape=x.aval.shape, **kw), b.conv2d_weight_grad(x, ct, ksize=w.aval.shape[:2], **kw)]


def _conv_jvp(b: Any, ts: Any, y: Any, x: Any, w: Any, **kw: Any) -> Any:
    return b.add_n([None if ts[0] is None else b.conv2d(ts[0], w, **kw), None if ts[1] is None else b.conv2d(x, ts[1], **kw)])


def _conv_samples(rng: np.random.Generator) -> list[Sample]:
    out = []
    for s, p, g in (((1, 1), "VALID", (1, 1)), ((1, 1), "SAME", (1, 1)), ((2, 2), "SAME", (1, 1)), ((2, 1), "VALID", (1, 1)), ((1, 1), ((1, 0), (2, 1)), (1, 1)),
                    ((1, 1), "VALID", (2, 1)), ((2, 2), ((1, 1), (1, 1)), (1, 1))):
        out.append(Sample((rng.normal(size=(2, 6, 5, 3)), rng.normal(size=(3, 2, 3, 4))), {"strides": s, "padding": p, "data_format": "NHWC", "dilations": g}))
    out.append(Sample((rng.normal(size=(2, 3, 6, 5)), rng.normal(size=(3, 2, 3, 4))), {"strides": (1, 1), "padding": "SAME", "data_format": "NCHW", "dilations": (1, 1)}))
    out.append(Sample((rng.normal(size=(1, 5, 5, 1)).astype("f4"), rng.normal(size=(1, 1, 1, 17)).astype("f4")),
                      {"strides": (1, 1), "padding": "VALID", "data_format": "NHWC", "dilations": (1, 1)}, grad=False))
    return out


conv2d = composed("conv2d", _conv_infer, _conv_ref, _conv_build, _conv_samples,
                  (((f64(1, 4, 4, 2), f64(3, 3, 3, 4)), {"strides": (1, 1), "padding": "VALID"}, "Dimensions must be equal, but are 2 and 3"),
                   ((f64(1, 2, 2, 3), f64(3, 3, 3, 4)), {"strides": (1, 1), "padding": "VALID"}, "Negative dimension size"),
                   ((f64(4, 4, 2), f64(3, 3, 2, 4)), {"strides": (1, 1), "padding": "VALID"}, "Shape must be rank 4")),
                  "2-D convolution (no flip) by weights [height, width, in, out].", vjp=_conv_vjp, jvp=_conv_jvp)


def _input_grad_infer(ct: Aval, w: Aval, *, shape: tuple[Size, ...], strides: Pair, padding: Any, data_format: str = "NHWC", dilations: Pair = (1, 1)) -> Aval:
    x = Aval(tuple(shape), ct.dtype)
    y = _conv_infer(x, w, strides=strides, padding=padding, data_format=data_format, dilations=dilations)
    if len(y.shape) != len(ct.shape) or not all(map(may_equal, y.shape, ct.shape)):
        raise ShapeError(f"the convolution of {x} has shape {shape_text(y.shape)}, got {ct}")
    return x


def _input_grad_build(b: Any, ct: Any, w: Any, *, shape: tuple[Size, ...], strides: Pair, padding: Any, data_format: str = "NHWC", dilations: Pair = (1, 1)) -> Any:
    """Zeros between the outputs, and a convolution by the turned weights."""
    ct = _layout(b, ct, data_format)
    n, h, wd, _c = _nhwc(Aval(tuple(shape), ct.aval.dtype), data_format)
    kh, kw = w.aval.shape[:2]
    pads = padding_of(padding, (h, wd), (kh, kw), strides, dilations)
    before, after = [], []
    for d, (p, _), k, s, g, o in zip((h, wd), pads, (kh, kw), strides, dilations, ct.aval.shape[1:3]):
        first = span(k, g) - 1 - p
        before.append(first)
        after.append(d + span(k, g) - 1 - first - ((o - 1) * s + 1))
    spread = b.pad(ct, before=(0, *(max(v, 0) if isinstance(v, int) else v for v in before), 0), after=(0, *(max(v, 0) if isinstance(v, int) else v for v in after), 0),
                   between=(0, strides[0] - 1, strides[1] - 1, 0), value=0.0)
    cut = [(-v if isinstance(v, int) and v < 0 else 0) for v in before]
    if any(cut) or any(isinstance(v, int) and v < 0 for v in after):
        sizes = tuple(d + span(k, g) - 1 for d, k, g in zip((h, wd), (kh, kw), dilations))
        spread = b.slice(spread, starts=(0, *cut, 0), sizes=(n, *sizes, ct.aval.shape[3]), steps=(1, 1, 1, 1))
    turned = b.transpose(b.reverse(w, axis=(0, 1)), perm=(0, 1, 3, 2))
    return _back(b, b.conv2d(spread, turned, strides=(1, 1), padding="VALID", data_format="NHWC", dilations=dilations), data_format)


def _input_grad_ref(ct: Any, w: Any, *, shape: Any, strides: Pair, padding: Any, data_format: str = "NHWC", dilations: Pair = (1, 1)) -> Any:
    ct, w = np.asarray(ct), np.asarray(w)
    ct = ct.transpose(0, 2, 3, 1) if data_format == "NCHW" else ct
    _n, h, wd, _c = (shape[0], shape[2], shape[3], shape[1]) if data_format == "NCHW" else shape
    (t, d), (left, r) = padding_of(padding, (h, wd), w.shape[:2], strides, dilations)
    p = np.tensordot(ct, w, ((3,), (3,)))
    full = _unpatch_ref(p, image=(h + t + d, wd + left + r), strides=strides, dilations=dilations)
    x = full[:, t:t + h, left:left + wd]
    return np.ascontiguousarray(x.transpose(0, 3, 1, 2) if data_format == "NCHW" else x)


def _grad_samples(rng: np.random.Generator, weight: bool) -> list[Sample]:
    out = []
    for s in _conv_samples(rng):
        x, w = s.arrays
        ct = rng.normal(size=_conv_ref(x, w, **s.attrs).shape).astype(x.dtype)
        out.append(Sample((x, ct), {**s.attrs, "ksize": w.shape[:2]}, s.grad) if weight else Sample((ct, w), {**s.attrs, "shape": x.shape}, s.grad))
    return out


conv2d_input_grad = composed("conv2d_input_grad", _input_grad_infer, _input_grad_ref, _input_grad_build, lambda rng: _grad_samples(rng, False),
                             (((f64(1, 3, 3, 4), f64(3, 3, 2, 4)), {"shape": (1, 4, 4, 2), "strides": (1, 1), "padding": "VALID"}, "the convolution of"),),
                             "The image's cotangent of conv2d (the transposed convolution).")


def _weight_grad_infer(x: Aval, ct: Aval, *, ksize: Pair, strides: Pair, padding: Any, data_format: str = "NHWC", dilations: Pair = (1, 1)) -> Aval:
    same_dtype(x, ct)
    w = Aval((*ksize, _nhwc(x, data_format)[3], _nhwc(ct, data_format)[3]), x.dtype)
    _input_grad_infer(ct, w, shape=x.shape, strides=strides, padding=padding, data_format=data_format, dilations=dilations)
    return w


def _weight_grad_build(b: Any, x: Any, ct: Any, *, ksize: Pair, strides: Pair, padding: Any, data_format: str = "NHWC", dilations: Pair = (1, 1)) -> Any:
    x, ct = _layout(b, x, data_format), _layout(b, ct, data_format)
    rows, _ = _columns(b, x, ksize, strides, padding, dilations)
    co = ct.aval.shape[3]
    flat = b.reshape(ct, shape=(product(ct.aval.shape[:3]), co))
    return b.reshape(b.matmul(rows, flat, transpose_a=True), shape=(*ksize, x.aval.shape[3], co))


def _weight_grad_ref(x: Any, ct: Any, *, ksize: Pair, strides: Pair, padding: Any, data_format: str = "NHWC", dilations: Pair = (1, 1)) -> Any:
    x, ct = (np.asarray(a).transpose(0, 2, 3, 1) if data_format == "NCHW" else np.asarray(a) for a in (x, ct))
    (t, d), (left, r) = padding_of(padding, x.shape[1:3], ksize, strides, dilations)
    p = _patches_ref(np.pad(x, ((0, 0), (t, d), (left, r), (0, 0))), ksize=ksize, strides=strides, dilations=dilations)
    return np.tensordot(p, ct, ((0, 1, 2), (0, 1, 2)))


conv2d_weight_grad = composed("conv2d_weight_grad", _weight_grad_infer, _weight_grad_ref, _weight_grad_build, lambda rng: _grad_samples(rng, True),
                              (((f64(1, 4, 4, 2), f64(1, 3, 3, 4)), {"ksize": (3, 3), "strides": (1, 1), "padding": "VALID"}, "the convolution of"),),
                              "The weights' cotangent of conv2d.")


# ---- pooling -----------------------------------------------------------------------------------------------------------------------


def _pool_infer(x: Aval, *, ksize: Pair, strides: Pair, padding: Any, data_format: str = "NHWC") -> Aval:
    _check_format(data_format)
    check_kind(x, "f")
    if x.ndim != 4:
        raise ShapeError(f"images must have rank 4, got {x}")
    n, h, w, c = _nhwc(x, data_format)
    pads = padding_of(padding, (h, w), ksize, strides, (1, 1))
    sizes = []
    for d, (p, q), k, s in zip((h, w), pads, ksize, strides):
        full = d + p + q
        if isinstance(full, int) and full < k:
            raise ShapeError(f"Negative dimension size caused by subtracting {k} from {full}")
        sizes.append(_out(full, k, s, 1))
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
            sizes[h], sizes[w] = _out(shape[h], ksize[0], strides[0], 1), _out(shape[w], ksize[1], strides[1], 1)
            steps[h], steps[w] = strides
            out.append(b.slice(x, starts=tuple(starts), sizes=tuple(sizes), steps=tuple(steps)))
    return out


def _max_build(b: Any, x: Any, *, ksize: Pair, strides: Pair, padding: Any, data_format: str = "NHWC") -> Any:
    # at ties the derivative of maximum goes to its first operand: the first of the window's largest
    taps = _taps(b, x, ksize, strides, padding, data_format, -np.inf)
    y = taps[0]
    for t in taps[1:]:
        y = b.maximum(y, t)
    return b.identity(y) if len(taps) == 1 else y


def _counts(x: Aval, ksize: Pair, strides: Pair, padding: Any, data_format: str) -> Any:
    """How many real pixels each window has, as a constant that broadcasts over batch and channels."""
    _, h, w, _ = _nhwc(x, data_format)
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
        counts = _counts(Aval(x.shape, same_kind(x)), ksize, strides, padding, data_format)
        x = x.transpose(0, 2, 3, 1) if data_format == "NCHW" else x
        (t, d), (left, r) = padding_of(padding, x.shape[1:3], ksize, strides, (1, 1))
        x = np.pad(x, ((0, 0), (t, d), (left, r), (0, 0)), constant_values=-np.inf if largest else 0)
        p = _patches_ref(x, ksize=ksize, strides=strides)
        y = p.max((3, 4)) if largest else p.sum((3, 4))
        y = np.ascontiguousarray(y.transpose(0, 3, 1, 2)) if data_format == "NCHW" else y
        return y if largest else y / counts
    return ref


def same_kind(x: Any) -> Any:
    """The DType of an array."""
    from ..dtypes import as_dtype
    return as_dtype(x.dtype)


def _pool_samples(rng: np.random.Generator) -> list[Sample]:
    out = [Sample((rng.permutation(2 * 6 * 5 * 3).reshape(2, 6, 5, 3).astype("f8"),), {"ksize": k, "strides": s, "padding": p, "data_format": "NHWC"})
           for k, s, p in (((2, 2), (2, 2), "VALID"), ((2, 2), (1, 1), "VALID"), ((3, 3), (2, 2), "SAME"), ((2, 2), (2, 2), "SAME"), ((1, 1), (1, 1), "VALID"))]
    out.append(Sample((rng.permutation(2 * 3 * 6 * 5).reshape(2, 3, 6, 5).astype("f8"),), {"ksize": (2, 2), "strides": (2, 2), "padding": "VALID", "data_format": "NCHW"}))
    out.append(Sample((np.ones((1, 4, 4, 20), "f4"),), {"ksize": (2, 2), "strides": (2, 2), "padding": "VALID", "data_format": "NHWC"}, grad=False))
    return out


_POOL_ERRORS = (((f64(1, 2, 2, 1),), {"ksize": (3, 3), "strides": (1, 1), "padding": "VALID"}, "Negative dimension size"),
                ((f64(2, 2, 1),), {"ksize": (2, 2), "strides": (1, 1), "padding": "VALID"}, "rank 4"))
max_pool2d = composed("max_pool2d", _pool_infer, _pool_ref(True), _max_build, _pool_samples, _POOL_ERRORS,
                      "The largest of each window; at ties the first one gets the gradient; overlapping windows add up.")
avg_pool2d = composed("avg_pool2d", _pool_infer, _pool_ref(False), _avg_build, _pool_samples, _POOL_ERRORS,
                      "The mean of each window; padding does not count.")
