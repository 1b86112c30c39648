"""Borders filled with the mirror image of what lies inside."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..dtypes import int64
from ..errors import InvalidArgumentError, ShapeError
from ..ir.aval import Aval, Size
from .composed import composed
from .helpers import Sample, f64


def _too_much(before: Size, after: Size, size: Any, reflect: bool) -> str:
    relation, fault = ("less than", "not less") if reflect else ("no greater than", "greater")
    return f"paddings must be {relation} the dimension size: {before}, {after} {fault} than {size}"


def _infer(x: Aval, *, before: tuple[Size, ...], after: tuple[Size, ...], reflect: bool) -> Aval:
    if not len(before) == len(after) == x.ndim:
        raise ShapeError(f"paddings before {before} and after {after} for {x}")
    for p, q, size in zip(before, after, x.shape):
        known = [a for a in (p, q) if isinstance(a, int)]
        if any(a < 0 for a in known):
            raise ShapeError(f"paddings must be non-negative: {p} {q}")
        if isinstance(size, int) and any(a > size - reflect for a in known if a):
            raise ShapeError(_too_much(p, q, size, reflect))
    return x.with_shape(tuple(p + size + q for p, size, q in zip(before, x.shape, after)))


def _ref(x: Any, *, before: Any, after: Any, reflect: bool) -> Any:
    x = np.asarray(x)
    for p, q, size in zip(before, after, x.shape):
        if max(p, q) > size - reflect and max(p, q):
            raise InvalidArgumentError(None, None, _too_much(p, q, size, reflect))
    return np.pad(x, tuple(zip(before, after)), "reflect" if reflect else "symmetric") if x.size else np.zeros([p + s + q for p, s, q in zip(before, x.shape, after)], x.dtype)


def _places(b: Any, size: Size, before: Size, after: Size, reflect: bool) -> Any:
    """Which element of an axis each place of the padded axis shows, int64[before + size + after]."""
    if isinstance(size, int) and isinstance(before, int) and isinstance(after, int):
        return b.const(np.pad(np.arange(size), (before, after), "reflect" if reflect else "symmetric").astype(np.int64))

    def scalar(s: Size) -> Any:
        return b.const(np.int64(s)) if isinstance(s, int) else b.reshape(b.sizes(sizes=(s,), dtype=int64), shape=())
    count, first, zero = scalar(size), scalar(before), b.const(np.int64(0))
    over = b.const(np.int64(0 if reflect else 1))
    room = b.add(b.sub(count, b.const(np.int64(1))), over)                   # so much an image can fill
    for k, amount in enumerate((first, scalar(after))):
        fits = b.logical_or(b.less_equal(amount, room), b.equal(amount, zero))
        message = _too_much(before, after, "{limit}", reflect)
        safe = b.guard(amount, fits, message=message, limit=size, fill=0)
        first = b.add(first, b.sub(safe, amount)) if k else safe             # nothing is read before both fit
    place = b.sub(b.iota(shape=(before + size + after,), axis=0, dtype=int64), first)
    last = b.sub(count, b.const(np.int64(1)))
    place = b.where(b.less(place, zero), b.sub(b.neg(place), over), place)
    return b.where(b.greater(place, last), b.add(b.sub(b.add(last, last), place), over), place)


def _build(b: Any, x: Any, *, before: Any, after: Any, reflect: bool) -> Any:
    for k, (p, q) in enumerate(zip(before, after)):
        if (p, q) != (0, 0):
            x = b.take(x, _places(b, x.aval.shape[k], p, q, reflect), axis=k)
    return x


mirror_pad = composed(
    "mirror_pad", _infer, _ref, _build, lambda rng: [
        Sample((rng.normal(size=(3, 4)),), {"before": (2, 0), "after": (1, 3), "reflect": True}),
        Sample((rng.normal(size=(3, 4)),), {"before": (3, 1), "after": (0, 4), "reflect": False}),
        Sample((rng.normal(size=(2, 3)),), {"before": (0, 0), "after": (0, 0), "reflect": True}),
        Sample((np.zeros((0, 2)),), {"before": (0, 1), "after": (0, 0), "reflect": True}, grad=False),
        Sample((np.arange(5, dtype="i4"),), {"before": (4,), "after": (4,), "reflect": True}, grad=False)],
    (((f64(3),), {"before": (3,), "after": (0,), "reflect": True}, "paddings must be less than the dimension size: 3, 0 not less than 3"),
     ((f64(3),), {"before": (0,), "after": (4,), "reflect": False}, "paddings must be no greater than the dimension size: 0, 4 greater than 3"),
     ((f64(3),), {"before": (-1,), "after": (0,), "reflect": False}, "non-negative"), ((f64(3),), {"before": (), "after": (), "reflect": False}, "paddings before")),
    "x between the mirror images of its borders, ``before`` and ``after`` elements along each axis; with ``reflect`` without the outermost element itself.")
