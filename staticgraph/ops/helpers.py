"""Whole rules for families of ops: shapes, vjp, jvp, vmap and samples that many records share."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..dtypes import DType, as_dtype, bool_, float32, float64, int32, int64
from ..errors import DTypeError, ShapeError
from ..ir.aval import Aval, Dim, Size, assume_equal
from ..ir.opdef import NotDifferentiable, OpDef, Scalar, define

FLOATS = "f"
NUMBERS = "fiu"
INTS = "iu"
BOOLS = "b"
ANY = "fiubcs"


@dataclass(frozen=True)
class Sample:
    """One input of the derived tests. ``grad=False`` where differences say nothing (kinks, infinities, ties)."""

    arrays: tuple[Any, ...]
    attrs: dict[str, Any] = field(default_factory=dict)
    grad: bool = True


def aval_of(dtype: DType, *shape: Size) -> Aval:
    """Short for samples and refused inputs."""
    return Aval(shape, dtype)


def f64(*shape: Size) -> Aval:
    """A float64 aval."""
    return Aval(shape, float64)


def f32(*shape: Size) -> Aval:
    """A float32 aval."""
    return Aval(shape, float32)


def i32(*shape: Size) -> Aval:
    """An int32 aval."""
    return Aval(shape, int32)


def i64(*shape: Size) -> Aval:
    """An int64 aval."""
    return Aval(shape, int64)


def b1(*shape: Size) -> Aval:
    """A bool aval."""
    return Aval(shape, bool_)


# ---- shapes --------------------------------------------------------------------------------------------------------------


def broadcast_shapes(*shapes: tuple[Size, ...]) -> tuple[Size, ...]:
    """NumPy's broadcasting; ShapeError with both shapes where it does not apply.

    An unknown size beside another size (not 1) is taken to be equal to it; each run checks that (``compile.check_sizes``).
    """
    rank = max((len(s) for s in shapes), default=0)
    out: list[Size] = []
    for axis in range(rank):
        size: Size = 1
        for s in shapes:
            k = axis - (rank - len(s))
            if k < 0 or s[k] == 1:
                continue
            if size == 1 or (isinstance(size, Dim) and isinstance(s[k], int)):
                assume_equal(size, s[k]) if size != 1 else None
                size = s[k]
            elif not may_equal(s[k], size):
                raise ShapeError(f"Incompatible shapes: {' vs. '.join(shape_text(x) for x in shapes)}")
        out.append(size)
    return tuple(out)


def may_equal(p: Size, q: Size) -> bool:
    """False only for two different ints: unknown sizes are checked at each run."""
    assume_equal(p, q)
    return not (isinstance(p, int) and isinstance(q, int)) or p == q


def shape_text(shape: Sequence[Size]) -> str:
    """``[2,n0]``"""
    return "[" + ",".join(map(repr, shape)) + "]"


def check_kind(aval: Aval, kinds: str, position: int = 0) -> None:
    """DTypeError unless the dtype's kind is among ``kinds``."""
    if aval.dtype.kind not in kinds:
        from ..dtypes import ALL
        allowed = ", ".join(d.name for d in ALL if d.kind in kinds)
        raise DTypeError(f"Value passed to parameter '{'xyzabc'[position]}' has DataType {aval.dtype.name} "
                         f"not in list of allowed values: {allowed}")


def same_dtype(*avals: Aval) -> DType:
    """The operands' one dtype. DTypeError gives both avals."""
    first = avals[0]
    for a in avals[1:]:
        if a.dtype != first.dtype:
            raise DTypeError(f"operands have different dtypes: {first} and {a}; nothing is promoted silently (use cast)")
    return first.dtype


def normalize_axis(axis: int, rank: int) -> int:
    """A non-negative axis. ShapeError out of range."""
    if not -rank <= axis < rank:
        raise ShapeError(f"axis {axis} of a {rank}-dimensional value")
    return axis % rank


def normalize_axes(axis: Any, rank: int) -> tuple[int, ...]:
    """Sorted non-negative axes of an attribute: None means all. ShapeError out of range or twice."""
    if axis is None:
        return tuple(range(rank))
    axes = tuple(sorted(normalize_axis(int(a), rank) for a in (axis if isinstance(axis, tuple) else (axis,))))
    if len(set(axes)) < len(axes):
        raise ShapeError(f"axis {axis} names one axis twice")
    return axes


def static_size(size: Size, what: str) -> int:
    """An int, or ShapeError naming what has to be known while building."""
    if isinstance(size, Dim):
        raise ShapeError(f"{what} must be known while building, got {size!r}")
    return size


# ---- elementwise ---------------------------------------------------------------------------------------------------------


def elementwise_infer(kinds: str, result: DType | None = None) -> Callable[..., Aval]:
    """infer of an elementwise op: one dtype of ``kinds``, broadcast shape, ``result`` dtype (default the operands')."""
    def infer(*avals: Aval) -> Aval:
        for k, a in enumerate(avals):
            check_kind(a, kinds, k)
        dtype = same_dtype(*avals)
        return Aval(broadcast_shapes(*(a.shape for a in avals)), result or dtype)
    return infer


def vmap_aligned(op: Callable[[], OpDef]) -> Callable[..., Any]:
    """vmap of an elementwise op: batch axes first, ranks aligned, then NumPy's broadcasting does the rest."""
    def rule(b: Any, size: Size, ins: Sequence[Any], dims: Sequence[int | None], **attrs: Any) -> tuple[Any, int]:
        rank = max(len(x.aval.shape) - (d is not None) for x, d in zip(ins, dims))
        return b.call(op(), *[align_batch(b, x, d, rank) for x, d in zip(ins, dims)], **attrs), 0
    return rule


def align_batch(b: Any, x: Any, dim: int | None, rank: int) -> Any:
    """``x`` with its batch axis in front and ones after it, so that it broadcasts against batched values of rank ``1 + rank``."""
    if dim is None:
        return x
    x = move_axis(b, x, dim, 0)
    shape = x.aval.shape
    missing = rank - (len(shape) - 1)
    return x if missing == 0 else b.reshape(x, shape=(shape[0], *(1,) * missing, *shape[1:]))


def move_axis(b: Any, x: Any, source: int, target: int) -> Any:
    """``np.moveaxis`` for one axis."""
    if source == target:
        return x
    order = [k for k in range(len(x.aval.shape)) if k != source]
    order.insert(target, source)
    return b.transpose(x, perm=tuple(order))


def batched(b: Any, x: Any, dim: int | None, size: Size) -> Any:
    """``x`` with its batch axis in front, broadcast there if it has none."""
    if dim is None:
        return b.broadcast_to(x, shape=(size, *x.aval.shape))
    return move_axis(b, x, dim, 0)


def summed_wide(ref: Callable[..., Any]) -> Callable[..., Any]:
    """The meaning of a sum of products: of float16 it is one of float32, rounded once."""
    @functools.wraps(ref)
    def wide(*xs: Any, **attrs: Any) -> Any:
        if np.asarray(xs[0]).dtype != np.float16:
            return ref(*xs, **attrs)
        return ref(*[np.asarray(x, np.float32) for x in xs], **attrs).astype(np.float16)
    return wide


Partials = Callable[..., Sequence[Any]]


def elementwise(name: str, ref: Callable[..., Any], partials: Partials | NotDifferentiable, lower: Callable[..., Any],
                lo: float = -2.0, hi: float = 2.0, *, kinds: str = FLOATS, result: DType | None = None,
                traits: Sequence[str] = (), kinks: Sequence[float] = (), infer: Callable[..., Any] | None = None,
                more: Callable[..., Any] | None = None, errors: Any = (), doc: str = "", decompose: Any = None,
                samples: Callable[..., Any] | None = None, rules: tuple[Any, Any] | None = None) -> OpDef:
    """Define an elementwise op.

    ``partials(b, y, *xs)`` gives dy/dx per input: a value, a Python number, or None for "not connected"; vjp, jvp and vmap follow.
    Products with a cotangent use ``mulz``: a zero cotangent stays zero beside an infinite or NaN partial, and stays
    differentiable. ``lo, hi`` bound the random samples; ``kinks`` are further points where only values are compared; ``more``
    adds samples, ``samples`` replaces them; ``rules`` replaces the derived (vjp, jvp).
    """
    inputs = tuple(p for p in _positional(ref))

    def vjp(b: Any, ct: Any, y: Any, *xs: Any, **attrs: Any) -> list[Any]:
        assert not isinstance(partials, NotDifferentiable)
        return [scaled(b, ct, d) for d in partials(b, y, *xs, **attrs)]

    def jvp(b: Any, ts: Sequence[Any], y: Any, *xs: Any, **attrs: Any) -> Any:
        assert not isinstance(partials, NotDifferentiable)
        parts = [scaled(b, t, d) for t, d in zip(ts, partials(b, y, *xs, **attrs)) if t is not None]
        total = b.add_n(parts)
        return None if total is None else b.broadcast(total, y.aval.shape)

    def drawn(rng: np.random.Generator) -> list[Sample]:
        return default_samples(rng, len(inputs), kinds, lo, hi, kinks) + (list(more(rng)) if more else [])

    pair: Any = rules or ((partials, partials) if isinstance(partials, NotDifferentiable) else (vjp, jvp))
    op = define(OpDef(
        name, infer or elementwise_infer(kinds, result), ref, pair[0], pair[1],
        vmap_aligned(lambda: op), decompose or Scalar(lower), samples or drawn, tuple(errors) or default_errors(len(inputs), kinds),
        frozenset({"elementwise", *traits}), doc))
    return op


def _positional(ref: Callable[..., Any]) -> list[str]:
    import inspect
    if isinstance(ref, np.ufunc):
        return ["x", "y", "z"][:ref.nin]
    return [p.name for p in inspect.signature(ref).parameters.values() if p.kind is not p.KEYWORD_ONLY]


def scaled(b: Any, ct: Any, d: Any) -> Any:
    """``ct * d`` for a partial ``d``: None stays None, 1 and -1 cost nothing or a sign, else a strong zero."""
    if d is None or ct is None:
        return None
    if isinstance(d, (int, float)):
        return ct if d == 1 else b.neg(ct) if d == -1 else b.mul(ct, b.like(ct, d))
    return b.mulz(ct, d)


SPECIAL = (0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-40, -1e-40, 3e38, 0.5, -0.5, 1e-300, 88.9, -103.5, 709.9)


def default_samples(rng: np.random.Generator, arity: int, kinds: str, lo: float, hi: float,
                    kinks: Sequence[float]) -> list[Sample]:
    """Random values, broadcasting, every special value, empties, rank 0, and lengths around the vector width."""
    out: list[Sample] = []

    def draw(shape: tuple[int, ...], dtype: Any) -> np.ndarray[Any, Any]:
        if dtype is bool:
            return rng.random(shape) < 0.5
        if np.dtype(dtype).kind in "iu":
            low = max(int(lo * 4), np.iinfo(dtype).min)
            return rng.integers(low, max(int(hi * 4), low + 2), shape).astype(dtype)
        return rng.uniform(lo, hi, shape).astype(dtype)

    dtypes: list[Any] = []
    if "f" in kinds:
        dtypes += [np.float64, np.float32]
    if "i" in kinds:
        dtypes += [np.int32, np.int64]
    if "u" in kinds:
        dtypes += [np.uint8]
    if "b" in kinds:
        dtypes += [np.bool_]
    for dtype in dtypes:
        out.append(Sample(tuple(draw((3, 4), dtype) for _ in range(arity))))
    first = dtypes[0]
    if arity > 1:
        out.append(Sample((draw((2, 1, 3), first), *(draw((4, 1), first) for _ in range(arity - 1)))))
        for dtype in dtypes:                 # each operand a scalar: it is computed before the loop
            out += [Sample(tuple(draw(() if k == scalar else (5,), dtype) for k in range(arity)), grad=dtype is first and scalar == 0)
                    for scalar in range(arity)]
    for n in (0, 1, 15, 16, 17, 67):
        out.append(Sample(tuple(draw((n,), np.float32 if "f" in kinds else first) for _ in range(arity)), grad=n == 1))
    out.append(Sample(tuple(draw((), first) for _ in range(arity))))
    out.append(Sample((np.broadcast_to(draw((4,), first), (3, 4)), *(draw((3, 4), first) for _ in range(arity - 1)))))
    if "f" in kinds:
        for dtype in (np.float32, np.float64):
            with np.errstate(over="ignore", under="ignore"):
                points = np.array([*SPECIAL, *kinks], np.float64).astype(dtype)
            grids = np.meshgrid(*[points] * arity, indexing="ij") if arity < 3 else [points] * arity
            out.append(Sample(tuple(np.ascontiguousarray(g.ravel()) for g in grids), grad=False))
    return out


def default_errors(arity: int, kinds: str) -> tuple[tuple[tuple[Any, ...], dict[str, Any], str], ...]:
    """Refusals every elementwise op owes: a dtype of another kind, and shapes that do not broadcast."""
    good = as_dtype("float64" if "f" in kinds else "int32" if "i" in kinds else "bool")
    out: list[Any] = []
    if "b" not in kinds:
        out.append(((Aval((3,), bool_),) * arity, {}, "not in list of allowed values"))
    elif "f" not in kinds:
        out.append(((Aval((3,), float64),) * arity, {}, "not in list of allowed values"))
    if arity == 2:
        out.append(((Aval((3,), good), Aval((4,), good)), {}, "Incompatible shapes: [3] vs. [4]"))
        if "f" in kinds:
            out.append(((Aval((3,), float32), Aval((3,), float64)), {}, "different dtypes"))
    return tuple(out)


# ---- linear ops ------------------------------------------------------------------------------------------------------------


def linear_jvp(op: Callable[[], OpDef]) -> Callable[..., Any]:
    """jvp of an op that is linear in its inputs together: the op applied to the tangents (zeros for absent ones)."""
    def jvp(b: Any, ts: Sequence[Any], y: Any, *xs: Any, **attrs: Any) -> Any:
        if all(t is None for t in ts):
            return None
        return b.call(op(), *[b.zeros(x.aval) if t is None else t for t, x in zip(ts, xs)], **attrs)
    return jvp
