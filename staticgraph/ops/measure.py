"""Sizes that the run itself finds: how many elements a mask selects, a length that is computed.

``measure`` gives a measured symbol its value; whatever names the symbol runs after it. Memory is laid out for the symbol's ``bound``, work is
done for its value. Two sizes that must agree and are not the same expression are compared by ``same_sizes`` before anything relies on it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..dtypes import bool_, int64
from ..errors import DTypeError, InvalidArgumentError, ShapeError
from ..ir.aval import Aval, Size, capacity, measured
from ..ir.opdef import Control, Loops, NoRule, NotDifferentiable, OpDef, define
from .composed import composed
from .control import CAPACITY
from .helpers import Sample, b1, f32, i32, i64, linear_jvp

_COUNT = NotDifferentiable("it is a count")
_LANES = NoRule("each lane of the batch would have a size of its own")


def _count_infer(x: Aval, **_: Any) -> Aval:
    if x != i64():
        raise DTypeError(f"a size must be an int64 scalar, got {x}")
    return x


measure = define(OpDef(
    "measure", _count_infer, lambda x, *, size, bound: x, _COUNT, _COUNT, _LANES, Control("measure"),
    lambda rng: [Sample((np.int64(3),), {"size": measured(), "bound": 4}, grad=False)],
    (((i32(),), {"size": 1, "bound": 4}, "a size must be an int64 scalar"),), frozenset({"measure"}),
    "The value, which the symbol ``size`` stands for from here on. It is in 0 .. ``bound``."))


def _run_size_ref(x: Any, *, bound: Size) -> Any:
    if x < 0:
        raise InvalidArgumentError(None, None, f"a size of {int(x)}: sizes are not negative")
    return x


def _run_size_build(b: Any, x: Any, *, bound: Size) -> Any:
    x = b.guard(x, b.greater_equal(x, b.like(x, 0)), message="a size of {a}: sizes are not negative", limit=0, fill=0)
    room = b.reshape(b.sizes(sizes=(bound,), dtype=int64), shape=())
    return b.guard(x, b.less_equal(x, room), message=CAPACITY, limit=bound, fill=0)


run_size = composed("run_size", _count_infer, _run_size_ref, _run_size_build,
                    lambda rng: [Sample((np.int64(3),), {"bound": 4}, grad=False)], (((i32(),), {"bound": 4}, "a size must be"),),
                    "A computed size, checked: negative fails the run; above ``bound`` the run starts again with more memory.",
                    vjp=_COUNT, jvp=_COUNT, vmap=_LANES)


def _positions_infer(mask: Aval, *, size: Size) -> Aval:
    if mask.dtype != bool_ or mask.ndim != 1:
        raise ShapeError(f"positions of a bool vector, got {mask}")
    return Aval((size,), int64)


def _emit_positions(k: Any, out: Any, mask: Any, *, size: Size) -> None:
    e, n, count = k.e, k.size(mask.shape[0]), k.size(size)

    def step(vals: Any) -> Any:
        i, found = vals
        out.store(i, found)                  # kept only where the mask is set: the next one then goes behind it
        return [e.add(i, 1), e.add(found, e.cast(mask.load(i), int64))]
    zero = e.const(int64, 0)
    e.while_([zero, zero], lambda v: e.and_(e.cmp("lt", v[1], count), e.cmp("lt", v[0], n)), step)


positions = define(OpDef(
    "positions", _positions_infer, lambda mask, *, size: np.flatnonzero(mask), _COUNT, _COUNT, _LANES, Loops(_emit_positions),
    lambda rng: [
        Sample((np.array([True, False, False, True, True]),), {"size": 3}, grad=False), Sample((np.zeros(4, bool),), {"size": 0}, grad=False),
        Sample((np.ones(3, bool),), {"size": 3}, grad=False), Sample((np.zeros(0, bool),), {"size": 0}, grad=False)],
    (((f32(3),), {"size": 1}, "positions of a bool vector"), ((b1(2, 2),), {"size": 1}, "positions of a bool vector")),
    doc="Where a mask is set, in order; ``size`` is how often."))


def _same_infer(x: Aval, *, shape: tuple[Size, ...], pairs: tuple[tuple[Size, Size], ...], message: str) -> Aval:
    if len(shape) != x.ndim:
        raise ShapeError(f"sizes {shape} for {x}")
    return x.with_shape(shape)


def _same_ref(x: Any, *, shape: Any, pairs: Any, message: str) -> Any:
    for p, q in pairs:
        if p != q:
            raise InvalidArgumentError(None, None, message.format(a=p, limit=q))
    return np.array(x)


def _emit_same(k: Any, out: Any, x: Any, **_: Any) -> None:
    k.e.loop(0, k.size(out.aval.size), 1, [], lambda i, _: out.store(x.load(i), i) or [])


same_sizes: OpDef = define(OpDef(
    "same_sizes", _same_infer, _same_ref, lambda b, ct, y, x, **kw: [b.reshape(ct, shape=x.aval.shape)], linear_jvp(lambda: same_sizes),
    _LANES, Loops(_emit_same),
    lambda rng: [Sample((rng.normal(size=(3, 2)),), {"shape": (3, 2), "pairs": ((3, 3),), "message": "{a} is not {limit}"}),
                 Sample((np.zeros((0,), "i4"),), {"shape": (0,), "pairs": (), "message": ""}, grad=False)],
    (((f32(3),), {"shape": (), "pairs": (), "message": ""}, "sizes () for"),), frozenset({"guard", "linear", "sizes"}),
    doc="x, after a check that each pair of sizes is equal; its sizes are then written as ``shape`` writes them."))


def size_of(b: Any, value: Any, bound: Size | None = None) -> Size:
    """The size that the integer scalar ``value`` of a run is: a measured symbol, or an int where ``b`` computes now.

    The caller makes sure that it is in 0 .. ``bound``; without a bound the run checks it and finds the memory.
    """
    value = value if value.aval.dtype == int64 else b.cast(value, dtype=int64)
    if b.computes:
        got = int(b.array(value))
        return int(_run_size_ref(got, bound=0))
    if bound is None:
        bound = capacity()
        value = b.run_size(value, bound=bound)
    size = measured()
    b.measure(value, size=size, bound=bound)
    return size


def true_positions(b: Any, mask: Any) -> Any:
    """Row-major positions (int64[k]) of the elements of a bool array that are set."""
    flat = mask if len(mask.aval.shape) == 1 else b.reshape(mask, shape=(mask.aval.size,))
    memo = {} if b.computes else b.graph.memo
    if mask not in memo:                     # everything that one mask selects has one size
        count = b.sum(b.cast(flat, dtype=int64), axis=(0,), keepdims=False)
        memo[mask] = b.positions(flat, size=size_of(b, count, flat.aval.shape[0]))
    return memo[mask]
