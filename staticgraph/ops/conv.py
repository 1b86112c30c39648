"""2-D convolution in TF's terms: padding, layouts, strides and dilations around the sums of products of ``windows``.

Gradients are operations of their own, so that second derivatives come from the same rules.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import ShapeError
from ..ir.aval import Aval, Size
from .composed import composed
from .helpers import Sample, check_kind, f64, may_equal, same_dtype, shape_text, summed_wide
from .windows import Pair, out_size, patches_ref, span, unpatch_ref


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


# ---- convolution ------------------------------------------------------------------------------------------------------------------


def _layout(b: Any, x: Any, data_format: str) -> Any:
    return b.transpose(x, perm=(0, 2, 3, 1)) if data_format == "NCHW" else x


def _back(b: Any, y: Any, data_format: str) -> Any:
    return b.transpose(y, perm=(0, 3, 1, 2)) if data_format == "NCHW" else y


def nhwc(x: Aval, data_format: str) -> Any:
    n, *rest = x.shape
    return (n, rest[1], rest[2], rest[0]) if data_format == "NCHW" else x.shape


def check_format(data_format: str) -> None:
    if data_format not in ("NHWC", "NCHW"):
        raise ShapeError(f"data_format must be NHWC or NCHW, got {data_format!r}")


def _conv_infer(x: Aval, w: Aval, *, strides: Pair, padding: Any, data_format: str = "NHWC", dilations: Pair = (1, 1)) -> Aval:
    check_format(data_format)
    check_kind(x, "f")
    same_dtype(x, w)
    if x.ndim != 4 or w.ndim != 4:
        raise ShapeError(f"Shape must be rank 4 but is rank {x.ndim if x.ndim != 4 else w.ndim}: conv2d of {x} by {w}")
    n, h, wd, c = nhwc(x, data_format)
    kh, kw, ci, co = w.shape
    if not may_equal(c, ci):
        raise ShapeError(f"Dimensions must be equal, but are {c} and {ci}: the image has {c} channels, the weights take {ci}")
    pads = padding_of(padding, (h, wd), (kh, kw), strides, dilations)
    sizes = []
    for d, (p, q), k, s, g in zip((h, wd), pads, (kh, kw), strides, dilations):
        full = d + p + q
        if isinstance(full, int) and full < span(k, g):
            raise ShapeError(f"Negative dimension size caused by subtracting {span(k, g)} from {full}")
        sizes.append(out_size(full, k, s, g))
    shape = (n, *sizes, co)
    return Aval((n, co, *sizes) if data_format == "NCHW" else shape, x.dtype)


def _padded(b: Any, x: Any, pads: Any, value: float = 0.0) -> Any:
    if all(p == 0 for pair in pads for p in pair):
        return x
    (t, d), (left, r) = pads
    return b.pad(x, before=(0, t, left, 0), after=(0, d, r, 0), between=(0, 0, 0, 0), value=value)


def _pad_image(b: Any, x: Any, ksize: Any, strides: Pair, padding: Any, dilations: Pair) -> Any:
    return _padded(b, x, padding_of(padding, x.aval.shape[1:3], ksize, strides, dilations))


def _conv_build(b: Any, x: Any, w: Any, *, strides: Pair, padding: Any, data_format: str = "NHWC", dilations: Pair = (1, 1)) -> Any:
    x = _pad_image(b, _layout(b, x, data_format), w.aval.shape[:2], strides, padding, dilations)
    return _back(b, b.correlate(x, w, strides=tuple(strides), dilations=tuple(dilations)), data_format)


@summed_wide
def _conv_ref(x: Any, w: Any, *, strides: Pair, padding: Any, data_format: str = "NHWC", dilations: Pair = (1, 1)) -> Any:
    x, w = np.asarray(x), np.asarray(w)
    x = x.transpose(0, 2, 3, 1) if data_format == "NCHW" else x
    (t, d), (left, r) = padding_of(padding, x.shape[1:3], w.shape[:2], strides, dilations)
    x = np.pad(x, ((0, 0), (t, d), (left, r), (0, 0)))
    p = patches_ref(x, ksize=w.shape[:2], strides=strides, dilations=dilations)
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


def placed(b: Any, x: Any, before: Any, sizes: Any, between: Any = (0, 0)) -> Any:
    """Images with zeros between, ``before`` and after their pixels (cut where ``before`` is negative or they are too large) to ``sizes``."""
    after = [n - (o - 1) * (g + 1) - 1 - p for n, o, g, p in zip(sizes, x.aval.shape[1:3], between, before)]
    room = [[max(v, 0) if isinstance(v, int) else v for v in side] for side in (before, after)]
    x = b.pad(x, before=(0, *room[0], 0), after=(0, *room[1], 0), between=(0, *between, 0), value=0.0)
    cut = [-v if isinstance(v, int) and v < 0 else 0 for v in before]
    if any(cut) or any(isinstance(v, int) and v < 0 for v in after):
        x = b.slice(x, starts=(0, *cut, 0), sizes=(x.aval.shape[0], *sizes, x.aval.shape[3]), steps=(1, 1, 1, 1))
    return x


def _turned(b: Any, w: Any) -> Any:
    return b.transpose(b.reverse(w, axis=(0, 1)), perm=(0, 1, 3, 2))


def _input_grad_build(b: Any, ct: Any, w: Any, *, shape: tuple[Size, ...], strides: Pair, padding: Any, data_format: str = "NHWC", dilations: Pair = (1, 1)) -> Any:
    """A convolution of the padded cotangents by the turned weights; with strides one for each class of pixels modulo the strides."""
    ct = _layout(b, ct, data_format)
    n, h, wd, _c = nhwc(Aval(tuple(shape), ct.aval.dtype), data_format)
    kh, kw = w.aval.shape[:2]
    pads = padding_of(padding, (h, wd), (kh, kw), strides, dilations)
    first = [p for p, _ in pads]
    if tuple(strides) != (1, 1) and tuple(dilations) == (1, 1) and all(isinstance(v, int) for v in (h, wd, kh, kw, *first, *ct.aval.shape[1:3])):
        full = _by_classes(b, ct, w, strides, [(p + d + s - 1) // s for p, d, s in zip(first, (h, wd), strides)])
        dx = b.slice(full, starts=(0, *first, 0), sizes=(n, h, wd, full.aval.shape[3]), steps=(1, 1, 1, 1))
        return _back(b, dx, data_format)
    before = [span(k, g) - 1 - p for k, g, p in zip((kh, kw), dilations, first)]
    sizes = [d + span(k, g) - 1 for d, k, g in zip((h, wd), (kh, kw), dilations)]
    spread = placed(b, ct, before, sizes, [s - 1 for s in strides])
    return _back(b, b.correlate(spread, _turned(b, w), strides=(1, 1), dilations=tuple(dilations)), data_format)


def _by_classes(b: Any, ct: Any, w: Any, strides: Pair, counts: Any) -> Any:
    """The padded image's cotangent: pixel s q + r sees the taps r, r + s, ... of outputs q, q - 1, ... only, so no zero is multiplied."""
    (sh, sw), (kh, kw, ci, co) = strides, w.aval.shape
    n = ct.aval.shape[0]
    rows = []
    for r in range(sh):
        line = []
        for q in range(sw):
            taps = (max(0, -(-(kh - r) // sh)), max(0, -(-(kw - q) // sw)))
            if 0 in taps:
                line.append(b.zeros(Aval((n, *counts, ci), ct.aval.dtype)))
                continue
            part = b.slice(w, starts=(r, q, 0, 0), sizes=(*taps, ci, co), steps=(sh, sw, 1, 1))
            near = placed(b, ct, [t - 1 for t in taps], [m + t - 1 for m, t in zip(counts, taps)])
            line.append(b.correlate(near, _turned(b, part)))
        rows.append(b.reshape(b.stack(*line, axis=3), shape=(n, counts[0], counts[1] * sw, ci)))
    return b.reshape(b.stack(*rows, axis=2), shape=(n, counts[0] * sh, counts[1] * sw, ci))


@summed_wide
def _input_grad_ref(ct: Any, w: Any, *, shape: Any, strides: Pair, padding: Any, data_format: str = "NHWC", dilations: Pair = (1, 1)) -> Any:
    ct, w = np.asarray(ct), np.asarray(w)
    ct = ct.transpose(0, 2, 3, 1) if data_format == "NCHW" else ct
    _n, h, wd, _c = (shape[0], shape[2], shape[3], shape[1]) if data_format == "NCHW" else shape
    (t, d), (left, r) = padding_of(padding, (h, wd), w.shape[:2], strides, dilations)
    p = np.tensordot(ct, w, ((3,), (3,)))
    full = unpatch_ref(p, image=(h + t + d, wd + left + r), strides=strides, dilations=dilations)
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
    w = Aval((*ksize, nhwc(x, data_format)[3], nhwc(ct, data_format)[3]), x.dtype)
    _input_grad_infer(ct, w, shape=x.shape, strides=strides, padding=padding, data_format=data_format, dilations=dilations)
    return w


def _weight_grad_build(b: Any, x: Any, ct: Any, *, ksize: Pair, strides: Pair, padding: Any, data_format: str = "NHWC", dilations: Pair = (1, 1)) -> Any:
    x = _pad_image(b, _layout(b, x, data_format), ksize, strides, padding, dilations)
    return b.correlate_weights(x, _layout(b, ct, data_format), ksize=ksize, strides=tuple(strides), dilations=tuple(dilations))


@summed_wide
def _weight_grad_ref(x: Any, ct: Any, *, ksize: Pair, strides: Pair, padding: Any, data_format: str = "NHWC", dilations: Pair = (1, 1)) -> Any:
    x, ct = (np.asarray(a).transpose(0, 2, 3, 1) if data_format == "NCHW" else np.asarray(a) for a in (x, ct))
    (t, d), (left, r) = padding_of(padding, x.shape[1:3], ksize, strides, dilations)
    p = patches_ref(np.pad(x, ((0, 0), (t, d), (left, r), (0, 0))), ksize=ksize, strides=strides, dilations=dilations)
    return np.tensordot(p, ct, ((0, 1, 2), (0, 1, 2)))


conv2d_weight_grad = composed("conv2d_weight_grad", _weight_grad_infer, _weight_grad_ref, _weight_grad_build, lambda rng: _grad_samples(rng, True),
                              (((f64(1, 4, 4, 2), f64(1, 3, 3, 4)), {"ksize": (3, 3), "strides": (1, 1), "padding": "VALID"}, "the convolution of"),),
                              "The weights' cotangent of conv2d.")
