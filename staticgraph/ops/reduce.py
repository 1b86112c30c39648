"""Reductions over axes: sum, prod, max, min, any, all, argmax and what is made of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..dtypes import DType, int32, int64
from ..errors import DTypeError, ShapeError
from ..ir.aval import Aval, Size, product
from ..ir.opdef import Loops, NotDifferentiable, OpDef, Reduce, define
from .composed import composed
from .elementwise import quiet
from .helpers import NUMBERS, Sample, b1, check_kind, f64, linear_jvp, move_axis, normalize_axes, normalize_axis

Axis = Any                                   # None (all), an int or a tuple of ints


def reduced_shape(shape: tuple[Size, ...], axis: Axis, keepdims: bool) -> tuple[Size, ...]:
    """The shape after reducing ``axis``."""
    axes = normalize_axes(axis, len(shape))
    if keepdims:
        return tuple(1 if k in axes else d for k, d in enumerate(shape))
    return tuple(d for k, d in enumerate(shape) if k not in axes)


def _infer(kinds: str, result: DType | None = None) -> Any:
    def infer(x: Aval, *, axis: Axis, keepdims: bool = False) -> Aval:
        check_kind(x, kinds)
        return Aval(reduced_shape(x.shape, axis, keepdims), result or x.dtype)
    return infer


def restore(b: Any, y: Any, x: Any, axis: Axis) -> Any:
    """A reduced value broadcast back to ``x``'s shape (the transpose of a sum)."""
    axes = normalize_axes(axis, len(x.aval.shape))
    kept = tuple(1 if k in axes else d for k, d in enumerate(x.aval.shape))
    y = y if y.aval.shape == kept else b.reshape(y, shape=kept)
    return b.broadcast(y, x.aval.shape)


def _vmap(op: Any) -> Any:
    def rule(b: Any, size: Size, ins: Any, dims: Any, *, axis: Axis, keepdims: bool = False) -> Any:
        x = move_axis(b, ins[0], dims[0], 0)
        axes = tuple(a + 1 for a in normalize_axes(axis, len(x.aval.shape) - 1))
        return b.call(op(), x, axis=axes, keepdims=keepdims), 0
    return rule


def _samples(kinds: str, ties: bool = False) -> Any:
    def samples(rng: np.random.Generator) -> list[Sample]:
        def draw(*shape: int, dtype: Any = "f8") -> Any:
            if "f" in kinds:
                return rng.normal(size=shape).astype(dtype)
            return rng.random(shape) < 0.5
        out = [Sample((draw(3, 4),), {"axis": a, "keepdims": k}) for a, k in (((0,), False), ((1,), False), ((0, 1), False), ((1,), True))]
        out += [Sample((draw(2, 3, 4),), {"axis": (0, 2), "keepdims": False}), Sample((draw(2, 3, 4),), {"axis": (1,), "keepdims": True}),
                Sample((draw(5),), {"axis": None, "keepdims": False}), Sample((draw(),), {"axis": None, "keepdims": False})]
        for n in (1, 63, 64, 65, 131, 4097, 9000):
            out.append(Sample((draw(n, dtype="f4"),), {"axis": (0,), "keepdims": False}, grad=False))
            out.append(Sample((draw(2, n, dtype="f8"),), {"axis": (1,), "keepdims": False}, grad=False))
        out += [Sample((draw(300, 5, dtype="f4"),), {"axis": (0,), "keepdims": False}, grad=False),
                Sample((draw(7, 300, 3, dtype="f4"),), {"axis": (1,), "keepdims": False}, grad=False)]
        if "f" in kinds:
            special = np.array([[1, np.nan, 2], [np.inf, -np.inf, 0.0], [-0.0, -0.0, -0.0]])
            out += [Sample((special,), {"axis": (1,), "keepdims": False}, grad=False),
                    Sample((special.astype("f4"),), {"axis": (0,), "keepdims": False}, grad=False)]
        if "i" in kinds:
            out += [Sample((rng.integers(-5, 5, (3, 40)).astype(t),), {"axis": (1,), "keepdims": False}, grad=False) for t in ("i4", "i8")]
        return out
    return samples


_ERRORS = (((f64(3, 4),), {"axis": (2,)}, "axis 2 of a 2-dimensional"), ((f64(3, 4),), {"axis": (0, 0)}, "names one axis twice"))


def _empty(rng: Any) -> list[Sample]:
    return [Sample((np.zeros((0, 3)),), {"axis": (0,), "keepdims": False}, grad=False),
            Sample((np.zeros((0, 3), "f4"),), {"axis": (1,), "keepdims": False}, grad=False)]


sum_: OpDef = define(OpDef(
    "sum", _infer(NUMBERS), lambda x, *, axis, keepdims=False: np.sum(x, axis=axis, keepdims=keepdims, dtype=np.asarray(x).dtype),
    lambda b, ct, y, x, *, axis, keepdims=False: [restore(b, ct, x, axis)], linear_jvp(lambda: sum_), _vmap(lambda: sum_),
    Reduce("add"), lambda rng: _samples(NUMBERS)(rng) + _empty(rng), _ERRORS, frozenset({"linear"}),
    doc="The sum over axes (None: all), by a fixed tree of 64 lanes and blocks of 4,096; 0 for none."))


def _prod_vjp(b: Any, ct: Any, y: Any, x: Any, *, axis: Axis, keepdims: bool = False) -> list[Any]:
    # the product of the others by running products from both ends: no division, so zeros are exact
    axes = normalize_axes(axis, len(x.aval.shape))
    rest = tuple(k for k in range(len(x.aval.shape)) if k not in axes)
    order = rest + axes
    moved = b.transpose(x, perm=order)
    flat = b.reshape(moved, shape=(*(x.aval.shape[k] for k in rest), product(x.aval.shape[k] for k in axes)))
    last = len(rest)
    before = b.cumprod(flat, axis=last, exclusive=True, reverse=False)
    after = b.cumprod(flat, axis=last, exclusive=True, reverse=True)
    others = b.reshape(b.mul(before, after), shape=moved.aval.shape)
    from .shape import inverse
    return [b.mulz(restore(b, ct, x, axis), b.transpose(others, perm=inverse(order)))]


def _prod_jvp(b: Any, ts: Any, y: Any, x: Any, *, axis: Axis, keepdims: bool = False) -> Any:
    if ts[0] is None:
        return None
    ones = b.full(y.aval, 1)
    others = _prod_vjp(b, ones, y, x, axis=axis, keepdims=keepdims)[0]
    return b.sum(b.mulz(ts[0], others), axis=normalize_axes(axis, len(x.aval.shape)), keepdims=keepdims)


prod: OpDef = define(OpDef(
    "prod", _infer(NUMBERS), lambda x, *, axis, keepdims=False: np.prod(x, axis=axis, keepdims=keepdims, dtype=np.asarray(x).dtype),
    _prod_vjp, _prod_jvp, _vmap(lambda: prod), Reduce("mul"), lambda rng: _samples(NUMBERS)(rng) + _empty(rng) + [
        Sample((np.array([[0, 2, 3], [0, 0, 3], [1, 2, 4]], "f8"),), {"axis": (1,), "keepdims": False})], _ERRORS,
    doc="The product over axes; 1 for none. The gradient is exact where entries are zero."))


def _check_not_empty(x: Aval, axis: Axis) -> None:
    for k in normalize_axes(axis, x.ndim):
        if x.shape[k] == 0:
            raise ShapeError(f"Reduction axis {k} is empty in shape {list(x.shape)}")


def _extreme(name: str, combine: str, ref: Any, doc: str) -> OpDef:
    infer = _infer(NUMBERS)

    def infer_nonempty(x: Aval, *, axis: Axis, keepdims: bool = False) -> Aval:
        out: Aval = infer(x, axis=axis, keepdims=keepdims)
        if out.size != 0:
            _check_not_empty(x, axis)
        return out

    def share(b: Any, y: Any, x: Any, axis: Axis) -> Any:
        # ties share evenly: the mask over the number of ties
        mask = b.cast(b.equal(x, restore(b, y, x, axis)), dtype=x.aval.dtype)
        count = b.sum(mask, axis=normalize_axes(axis, len(x.aval.shape)), keepdims=True)
        return b.div(mask, b.broadcast(count, x.aval.shape))

    def vjp(b: Any, ct: Any, y: Any, x: Any, *, axis: Axis, keepdims: bool = False) -> list[Any]:
        return [b.mulz(restore(b, ct, x, axis), share(b, y, x, axis))]

    def jvp(b: Any, ts: Any, y: Any, x: Any, *, axis: Axis, keepdims: bool = False) -> Any:
        if ts[0] is None:
            return None
        return b.sum(b.mulz(ts[0], share(b, y, x, axis)), axis=normalize_axes(axis, len(x.aval.shape)), keepdims=keepdims)

    op: OpDef = define(OpDef(name, infer_nonempty, ref, vjp, jvp, _vmap(lambda: op), Reduce(combine), _samples(NUMBERS),
                      (*_ERRORS, ((f64(0, 3),), {"axis": (0,)}, "Reduction axis 0 is empty in shape [0, 3]")),
                      frozenset({"exact"}), doc))
    return op


max_ = _extreme("max", "maximum", lambda x, *, axis, keepdims=False: np.max(x, axis=axis, keepdims=keepdims),
                "The largest over axes; NaN if there is one; ties share the gradient evenly; an empty axis is refused.")
min_ = _extreme("min", "minimum", lambda x, *, axis, keepdims=False: np.min(x, axis=axis, keepdims=keepdims),
                "The smallest over axes; NaN if there is one; ties share the gradient evenly; an empty axis is refused.")

_FLAT = NotDifferentiable("piecewise constant")


def _logical(name: str, combine: str, ref: Any, doc: str) -> OpDef:
    op: OpDef = define(OpDef(name, _infer("b"), ref, _FLAT, _FLAT, _vmap(lambda: op), Reduce(combine),
                      lambda rng: [Sample((s.arrays[0] != 0,), s.attrs, grad=False) for s in _samples("b")(rng)],
                      (((b1(3, 4),), {"axis": (2,)}, "axis 2 of a 2-dimensional"),
                       ((f64(3),), {"axis": (0,)}, "not in list of allowed values")), frozenset({"exact"}), doc))
    return op


any_ = _logical("any", "or", lambda x, *, axis, keepdims=False: np.any(x, axis=axis, keepdims=keepdims), "True if one is; False for none.")
all_ = _logical("all", "and", lambda x, *, axis, keepdims=False: np.all(x, axis=axis, keepdims=keepdims), "True if all are; True for none.")


def _arg(name: str, ref: Any, largest: bool, doc: str) -> OpDef:
    def infer(x: Aval, *, axis: int, dtype: DType = int64) -> Aval:
        check_kind(x, NUMBERS + "b")
        if dtype not in (int32, int64):
            raise DTypeError(f"{name} gives int32 or int64, not {dtype.name}")
        k = normalize_axis(axis, x.ndim)
        if x.shape[k] == 0:
            raise ShapeError(f"Reduction axis {k} is empty in shape {list(x.shape)}")
        return Aval((*x.shape[:k], *x.shape[k + 1:]), dtype)

    def vmap(b: Any, size: Size, ins: Any, dims: Any, *, axis: int, dtype: DType = int64) -> Any:
        x = move_axis(b, ins[0], dims[0], 0)
        return b.call(op, x, axis=normalize_axis(axis, len(x.aval.shape) - 1) + 1, dtype=dtype), 0

    def samples(rng: np.random.Generator) -> list[Sample]:
        ties = np.array([[1, 3, 3], [2, 2, 1], [np.nan, 5, np.nan]])
        return [Sample((rng.normal(size=(3, 4)),), {"axis": 0, "dtype": int64}), Sample((ties,), {"axis": 1, "dtype": int32}),
                Sample((rng.normal(size=(2, 3, 4)).astype("f4"),), {"axis": -1, "dtype": int64}),
                Sample((rng.integers(0, 3, (40,)).astype("i4"),), {"axis": 0, "dtype": int64})]

    op: OpDef = define(OpDef(name, infer, lambda x, *, axis, dtype=int64: ref(x, axis).astype(dtype.np), _FLAT, _FLAT, vmap,
                      Loops(lambda k, out, x, *, axis, dtype: k.arg_extreme(out, x, axis, largest),
                            tasks=lambda out, x, **attrs: out.size),
                      samples, (((f64(3),), {"axis": 1}, "axis 1 of a 1-dimensional"),
                                ((f64(0, 3),), {"axis": 0}, "Reduction axis 0 is empty")), frozenset({"exact"}), doc))
    return op


argmax = _arg("argmax", lambda x, axis: np.argmax(x, axis), True, "Index of the largest along an axis; the first at ties and for NaN.")
argmin = _arg("argmin", lambda x, axis: np.argmin(x, axis), False, "Index of the smallest along an axis; the first at ties and for NaN.")

# ---- composed ----------------------------------------------------------------------------------------------------------------


def count(b: Any, x: Any, axis: Axis) -> Any:
    """How many elements are reduced, as a scalar of ``x``'s dtype."""
    n = product(x.aval.shape[k] for k in normalize_axes(axis, len(x.aval.shape)))
    if isinstance(n, int):
        return b.like(x, n)
    return b.cast(b.reshape(b.sizes(sizes=(n,), dtype=int64), shape=()), dtype=x.aval.dtype)


def _mean_build(b: Any, x: Any, *, axis: Axis, keepdims: bool = False) -> Any:
    total = b.sum(x, axis=axis, keepdims=keepdims)
    n = count(b, x, axis)
    return b.div(total, n) if x.aval.dtype.kind == "f" else b.truncdiv(total, n)


def _mean_ref(x: Any, *, axis: Axis, keepdims: bool = False) -> Any:
    x = np.asarray(x)
    total = np.sum(x, axis=axis, keepdims=keepdims, dtype=x.dtype)
    n = product(x.shape[k] for k in normalize_axes(axis, x.ndim))
    return total / x.dtype.type(n) if x.dtype.kind == "f" else np.trunc(total / n).astype(x.dtype)


def _mean_samples(rng: np.random.Generator) -> list[Sample]:
    return _samples("f")(rng) + [Sample((np.array([1, 2, 2], "i4"),), {"axis": (0,), "keepdims": False}, grad=False),
                                 Sample((np.zeros((0, 2)),), {"axis": (0,), "keepdims": False}, grad=False)]


def _mean_vjp(b: Any, ct: Any, y: Any, x: Any, *, axis: Axis, keepdims: bool = False) -> list[Any]:
    return [restore(b, b.div(ct, count(b, x, axis)), x, axis)]


mean: OpDef = composed(
    "mean", _infer(NUMBERS), quiet(_mean_ref), _mean_build, _mean_samples, _ERRORS,
    "The sum divided once by the count; NaN for none; integers divide toward zero.", traits={"linear"}, vjp=_mean_vjp,
    jvp=linear_jvp(lambda: mean), vmap=_vmap(lambda: mean))


def _lse_build(b: Any, x: Any, *, axis: Axis, keepdims: bool = False) -> Any:
    top = b.max(x, axis=axis, keepdims=True)
    safe = b.stop_gradient(b.where(b.is_finite(top), top, b.zeros(top.aval)))
    total = b.sum(b.exp(b.sub(x, safe)), axis=axis, keepdims=True)
    y = b.add(b.log(total), safe)
    return b.reshape(y, shape=reduced_shape(x.aval.shape, axis, keepdims))


def _lse_ref(x: Any, *, axis: Axis, keepdims: bool = False) -> Any:
    x = np.asarray(x)
    top = np.max(x, axis=axis, keepdims=True)
    safe = np.where(np.isfinite(top), top, 0).astype(x.dtype)
    y = np.log(np.sum(np.exp(x - safe), axis=axis, keepdims=True)) + safe
    return y.reshape(reduced_shape(x.shape, axis, keepdims)).astype(x.dtype)


def _lse_vjp(b: Any, ct: Any, y: Any, x: Any, *, axis: Axis, keepdims: bool = False) -> list[Any]:
    return [b.mulz(restore(b, ct, x, axis), _lse_weights(b, y, x, axis))]


def _lse_weights(b: Any, y: Any, x: Any, axis: Axis) -> Any:
    # exp(x - y); where every entry is -inf, y is too and the weights are 0
    z = restore(b, y, x, axis)
    finite = b.not_equal(z, b.like(z, -np.inf))
    return b.where(finite, b.exp(b.sub(x, b.where(finite, z, b.zeros(z.aval)))), b.zeros(z.aval))


def _lse_jvp(b: Any, ts: Any, y: Any, x: Any, *, axis: Axis, keepdims: bool = False) -> Any:
    if ts[0] is None:
        return None
    return b.sum(b.mulz(ts[0], _lse_weights(b, y, x, axis)), axis=normalize_axes(axis, len(x.aval.shape)), keepdims=keepdims)


def _lse_infer(x: Aval, *, axis: Axis, keepdims: bool = False) -> Aval:
    out: Aval = _infer("f")(x, axis=axis, keepdims=keepdims)
    if out.size != 0:
        _check_not_empty(x, axis)
    return out


logsumexp = composed("logsumexp", _lse_infer, quiet(_lse_ref), _lse_build,
                     lambda rng: [*_samples("f")(rng), Sample((np.array([[-np.inf, -np.inf], [-np.inf, 1], [1e4, 1e4]], "f8"),),
                                                              {"axis": (1,), "keepdims": False}, grad=False)],
                     _ERRORS, "log(sum(exp(x))) without overflow; -inf where all entries are.", vjp=_lse_vjp, jvp=_lse_jvp)
