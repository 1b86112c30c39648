"""Matrix products."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import ShapeError
from ..ir.aval import Aval, Size
from ..ir.opdef import Matmul, OpDef, define
from .helpers import NUMBERS, Sample, align_batch, broadcast_shapes, check_kind, f32, f64, may_equal, same_dtype, summed_wide


def _infer(x: Aval, y: Aval, *, transpose_a: bool = False, transpose_b: bool = False) -> Aval:
    check_kind(x, NUMBERS)
    dtype = same_dtype(x, y)
    for side, a in (("left", x), ("right", y)):
        if a.ndim < 2:
            raise ShapeError(f"Shape must be rank 2 but is rank {a.ndim}: the {side} operand is {a}")
    m, k = x.shape[-2:] if not transpose_a else x.shape[:-3:-1]
    k2, n = y.shape[-2:] if not transpose_b else y.shape[:-3:-1]
    if not may_equal(k, k2):
        raise ShapeError(f"Dimensions must be equal, but are {k} and {k2} (inner sizes differ)")
    return Aval((*broadcast_shapes(x.shape[:-2], y.shape[:-2]), m, n), dtype)


def _swap(x: Any) -> Any:
    return np.swapaxes(x, -1, -2)


@summed_wide
def _ref(x: Any, y: Any, *, transpose_a: bool = False, transpose_b: bool = False) -> Any:
    x, y = np.asarray(x), np.asarray(y)
    return np.matmul(_swap(x) if transpose_a else x, _swap(y) if transpose_b else y)


def _vjp(b: Any, ct: Any, z: Any, x: Any, y: Any, *, transpose_a: bool = False, transpose_b: bool = False) -> list[Any]:
    ta, tb = transpose_a, transpose_b
    by_x = b.matmul(y, ct, transpose_a=tb, transpose_b=True) if ta else b.matmul(ct, y, transpose_a=False, transpose_b=not tb)
    by_y = b.matmul(ct, x, transpose_a=True, transpose_b=ta) if tb else b.matmul(x, ct, transpose_a=not ta, transpose_b=False)
    return [by_x, by_y]


def _jvp(b: Any, ts: Any, z: Any, x: Any, y: Any, **attrs: Any) -> Any:
    left = b.matmul(ts[0], y, **attrs) if ts[0] is not None else None
    right = b.matmul(x, ts[1], **attrs) if ts[1] is not None else None
    return b.add_n([left, right])


def _vmap(b: Any, size: Size, ins: Any, dims: Any, **attrs: Any) -> Any:
    rank = max(len(x.aval.shape) - (d is not None) for x, d in zip(ins, dims))
    return b.matmul(*[align_batch(b, x, d, rank) for x, d in zip(ins, dims)], **attrs), 0


def _samples(rng: np.random.Generator) -> list[Sample]:
    def draw(*shape: int, dtype: Any = "f8") -> Any:
        return rng.normal(size=shape).astype(dtype)
    out = []
    for ta in (False, True):
        for tb in (False, True):
            a, c = ((5, 3) if ta else (3, 5)), ((4, 5) if tb else (5, 4))
            out.append(Sample((draw(*a), draw(*c)), {"transpose_a": ta, "transpose_b": tb}))
            a, c = ((65, 17) if ta else (17, 65)), ((33, 65) if tb else (65, 33))
            out.append(Sample((draw(*a, dtype="f4"), draw(*c, dtype="f4")), {"transpose_a": ta, "transpose_b": tb}, grad=False))
    plain = {"transpose_a": False, "transpose_b": False}
    out += [Sample((draw(2, 3, 4), draw(2, 4, 2)), plain), Sample((draw(2, 3, 4), draw(4, 2)), plain),
            Sample((draw(2, 1, 2, 3), draw(3, 3, 2)), plain), Sample((draw(1, 7), draw(7, 1)), plain),
            Sample((draw(1, 30, dtype="f4"), draw(30, 20, dtype="f4")), plain, grad=False),
            Sample((draw(0, 3), draw(3, 2)), plain, grad=False), Sample((draw(2, 0), draw(0, 3)), plain, grad=False),
            Sample((rng.integers(-9, 9, (3, 4)).astype("i4"), rng.integers(-9, 9, (4, 5)).astype("i4")), plain, grad=False)]
    return out


matmul = define(OpDef(
    "matmul", _infer, _ref, _vjp, _jvp, _vmap, Matmul(), _samples,
    (((f64(32, 10), f64(12, 4)), {}, "inner sizes differ"), ((f64(3), f64(3, 2)), {}, "Shape must be rank 2 but is rank 1"),
     ((f64(3, 3), f32(3, 3)), {}, "different dtypes")),
    doc="Products of the last two axes, the leading ones broadcast. Each element is one chain over k, so its bits depend on K alone."))
