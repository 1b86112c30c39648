"""Operators and elementwise methods of tensors, made from the op table: an op added there appears here by itself."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import source
from ..dtypes import as_dtype
from ..ir.opdef import OPS
from .indexing import getitem, setitem
from .tensor import Tensor, compute

_UNARY = ("exp", "expm1", "exp2", "log", "log1p", "log2", "log10", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh",
          "sqrt", "rsqrt", "square", "reciprocal", "abs", "neg", "sign", "sigmoid", "relu", "relu6", "elu", "selu", "silu", "gelu", "softplus", "softsign",
          "log_sigmoid", "erf", "erfc", "floor", "ceil", "trunc", "logical_not", "leaky_relu")
_BINARY = {"add": "add", "sub": "sub", "mul": "mul", "pow": "pow", "maximum": "maximum", "minimum": "minimum", "atan2": "atan2", "floor_divide": "floordiv",
           "remainder": "floormod", "fmod": "truncmod", "logical_and": "logical_and", "logical_or": "logical_or", "logical_xor": "logical_xor",
           "squared_difference": "squared_difference", "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal", "eq": "equal", "ne": "not_equal"}
_ALIASES = {"arcsin": "asin", "arccos": "acos", "arctan": "atan", "arctan2": "atan2", "arcsinh": "asinh", "arccosh": "acosh", "arctanh": "atanh", "subtract": "sub",
            "multiply": "mul", "negative": "neg", "absolute": "abs", "less": "lt", "less_equal": "le", "greater": "gt", "greater_equal": "ge", "not_equal": "ne",
            "logsigmoid": "log_sigmoid", "fix": "trunc", "true_divide": "div", "divide": "div"}
# method -> op, for changes in place; the name gets an underscore
_IN_PLACE = {**{n: n for n in _UNARY}, **_BINARY, "div": "div"}


def call(name: str, *inputs: Any, **attrs: Any) -> Any:
    """Apply the op ``name`` now; tensors, arrays and numbers mix (arrays and numbers adopt the tensors' dtype)."""
    try:
        return compute.call(OPS[name], *inputs, **attrs)
    except Exception as error:
        _at_user_line(error)
        raise


def hidden(f: Any) -> Any:
    """Errors of ``f`` show the user's line last."""
    @functools.wraps(f)
    def wrapped(*args: Any, **kw: Any) -> Any:
        with source.hide_own_frames():
            return f(*args, **kw)
    return wrapped


def _at_user_line(error: Exception) -> None:
    with_user = source.hide_own_frames()
    with_user.__exit__(type(error), error, error.__traceback__)


def _unary(name: str) -> Callable[..., Any]:
    op = OPS[name]

    def method(self: Tensor, **attrs: Any) -> Any:
        try:
            return compute.apply(op, (self,), attrs)
        except Exception as error:
            _at_user_line(error)
            raise
    return _named(method, name, f"The op ``{name}`` of every element.")


def _binary(name: str, reverse: bool = False) -> Callable[..., Any]:
    op = OPS[name]

    def method(self: Tensor, other: Any) -> Any:
        try:
            if other.__class__ is Tensor and not reverse:
                return compute.apply(op, (self, other), {})
            return compute.apply(op, compute.operands(op, (other, self) if reverse else (self, other)), {})
        except Exception as error:
            _at_user_line(error)
            raise
    return _named(method, name, f"The op ``{name}``, by elements with broadcasting.")


def _in_place(name: str, op_name: str) -> Callable[..., Any]:
    op = OPS[op_name]

    def method(self: Tensor, *others: Any, **attrs: Any) -> Tensor:
        with source.hide_own_frames():
            return self._in_place(name, op, *others, **attrs)
    return _named(method, name, f"``{op_name}`` in the tensor's own memory; gives the tensor.")


def _named(method: Any, name: str, doc: str) -> Any:
    method.__name__, method.__qualname__, method.__doc__ = name, f"Tensor.{name}", doc
    return method


def _scaled(method: str, sign: str) -> Callable[..., Any]:
    """``x.add(y, alpha=2)``"""
    plain = _binary(sign)

    def with_alpha(self: Tensor, other: Any, *, alpha: Any = 1) -> Any:
        with source.hide_own_frames():
            return plain(self, other if alpha == 1 else compute.mul(*compute.operands(None, (other if isinstance(other, Tensor) else compute.const(other, self.dtype), alpha))))
    return _named(with_alpha, method, f"self {'+' if sign == 'add' else '-'} alpha * other")


def _scaled_in_place(name: str, sign: str) -> Callable[..., Any]:
    op = OPS[sign]

    def with_alpha(self: Tensor, other: Any, *, alpha: Any = 1) -> Tensor:
        with source.hide_own_frames():
            if alpha != 1:
                other = call("mul", other if isinstance(other, Tensor) else compute.const(other, self.dtype), alpha)
            return self._in_place(name, op, other)
    return _named(with_alpha, name, f"self {'+' if sign == 'add' else '-'}= alpha * other")


def _true(x: Any) -> Any:
    """Integers and bools become floats for a true division, as in PyTorch."""
    return compute.cast(x, dtype=as_dtype("float32")) if isinstance(x, Tensor) and x.dtype.kind in "iub" else x


def divide(x: Any, y: Any, *, rounding_mode: str | None = None) -> Any:
    """x / y; ``rounding_mode`` "floor" or "trunc" rounds the quotient. Integers divide as float32."""
    if rounding_mode is not None:
        if rounding_mode not in ("floor", "trunc"):
            raise ValueError(f"div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '{rounding_mode}'")
        return call("floordiv" if rounding_mode == "floor" else "truncdiv", x, y)
    return call("div", _true(x), _true(y))


def _logic(logical: str, bits: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """``&``: of bools the logical op, of integers that of their bits."""
    def forward(self: Tensor, other: Any) -> Any:
        return call(logical if self.dtype.is_bool else bits, self, other)

    def reverse(self: Tensor, other: Any) -> Any:
        return call(logical if self.dtype.is_bool else bits, other, self)
    return forward, reverse


def matmul(x: Any, y: Any, **attrs: Any) -> Any:
    """Products with NumPy's treatment of vectors and leading axes; with ``transpose_a``, ``transpose_b`` the op's own."""
    if attrs:
        return call("matmul", x, y, **attrs)
    with source.hide_own_frames():
        if x.__class__ is Tensor and y.__class__ is Tensor and x._array.ndim == 2 == y._array.ndim:
            return compute.apply(OPS["matmul"], (x, y), {})
        x, y = compute.operands(None, (x, y))
        if not x.ndim or not y.ndim:
            raise _no_scalars(x, y)
        a = x if x.ndim > 1 else compute.reshape(x, shape=(1, x.shape[0]))
        b = y if y.ndim > 1 else compute.reshape(y, shape=(y.shape[0], 1))
        if a.ndim != b.ndim or (a.ndim > 2 and a.shape[:-2] != b.shape[:-2]):
            lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
            a, b = compute.broadcast(a, (*lead, *a.shape[-2:])), compute.broadcast(b, (*lead, *b.shape[-2:]))
        z = compute.matmul(a, b)
        shape = list(z.shape)
        if y.ndim == 1:
            del shape[-1]
        if x.ndim == 1:
            del shape[-1 if y.ndim == 1 else -2]
        return z if len(shape) == z.ndim else compute.reshape(z, shape=tuple(shape))


def _no_scalars(x: Tensor, y: Tensor) -> Exception:
    from ..errors import ShapeError
    return ShapeError(f"both arguments to matmul need to be at least 1D, but they are {x.ndim}D and {y.ndim}D")


def _round(self: Tensor, decimals: int = 0) -> Any:
    """To the nearest integer (ties to even), or to ``decimals`` places."""
    if not decimals:
        return call("rint", self)
    scale = 10.0 ** decimals
    return call("div", call("rint", call("mul", self, scale)), scale)


@hidden
def clamp(self: Tensor, min: Any = None, max: Any = None) -> Any:
    """Between ``min`` and ``max`` (either may be None). The gradient passes inside and at the bounds, as in PyTorch."""
    if min is None and max is None:
        raise ValueError("torch.clamp: At least one of 'min' or 'max' must not be None".replace("torch.", ""))
    with source.hide_own_frames():
        out = self
        if min is not None:
            out = compute.where(call("less", self, min), min, self) if not isinstance(min, Tensor) else compute.maximum(self, min)
        if max is not None:
            out = compute.where(call("greater", out, max), max, out) if not isinstance(max, Tensor) else compute.minimum(out, max)
        return out


@hidden
def where(condition: Any, x: Any = None, y: Any = None) -> Any:
    """``x`` where the condition holds, else ``y``; with the condition alone, its True positions by axis."""
    if x is None and y is None:
        return tuple(Tensor._wrap(p) for p in np.nonzero(condition._array if isinstance(condition, Tensor) else condition))
    with source.hide_own_frames():
        c = condition if isinstance(condition, Tensor) else compute.const(np.asarray(condition, bool))
        if not isinstance(x, Tensor) and not isinstance(y, Tensor):
            x = compute.const(x, None)
        x, y = compute.operands(None, (x, y))
        return compute.where(c, x, y)


def masked_fill(self: Tensor, mask: Any, value: Any) -> Any:
    """``value`` where the mask holds."""
    return where(mask, value, self)


def nan_to_num(self: Tensor, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None) -> Any:
    """Numbers in place of NaN (``nan``) and the infinities (the largest finite number, unless given)."""
    high, low = (self.dtype.max if posinf is None else posinf), (self.dtype.min if neginf is None else neginf)
    out = where(self.isnan(), nan, self)                                     # type: ignore[attr-defined]
    return where(out == float("inf"), high, where(out == float("-inf"), low, out))


def logaddexp(self: Tensor, other: Any) -> Any:
    """log(exp(self) + exp(other)), without overflow."""
    with source.hide_own_frames():
        x, y = compute.operands(None, (self, other))
        shape = np.broadcast_shapes(x.shape, y.shape)
        return compute.logsumexp(compute.stack(compute.broadcast(x, shape), compute.broadcast(y, shape), axis=0), axis=(0,))


def lerp(self: Tensor, end: Any, weight: Any) -> Any:
    """self + weight * (end - self)"""
    return self + weight * (end - self)                                      # type: ignore[operator]


@hidden
def cast_to(self: Tensor, *args: Any, **kw: Any) -> Any:
    """Of another dtype (``t.to(sg.float64)``, ``t.to(other)``); devices are accepted, there is one."""
    for a in (*args, kw.get("dtype"), kw.get("other")):
        if isinstance(a, Tensor):
            a = a.dtype
        if a is None or isinstance(a, bool) or (isinstance(a, str) and a.split(":")[0] in ("cpu", "cuda")):
            continue
        kind = as_dtype(a)
        return self if kind == self.dtype else call("cast", self, dtype=kind)
    return self


def _to(name: str) -> Callable[..., Any]:
    kind = as_dtype(name)
    return lambda self: self if self.dtype == kind else call("cast", self, dtype=kind)


def _install() -> None:
    put: Any = Tensor
    for name in _UNARY:
        setattr(put, name, _unary(name))
    for name, op in _BINARY.items():
        setattr(put, name, _binary(op))
    for name, op in _IN_PLACE.items():
        setattr(put, name + "_", _in_place(name + "_", op))
    put.div = _named(hidden(divide), "div", divide.__doc__ or "")
    put.add, put.sub = _scaled("add", "add"), _scaled("sub", "sub")
    put.add_, put.sub_ = _scaled_in_place("add_", "add"), _scaled_in_place("sub_", "sub")
    for new, old in _ALIASES.items():
        setattr(put, new, getattr(put, old))
        if hasattr(put, old + "_"):
            setattr(put, new + "_", getattr(put, old + "_"))
    for python, op in (("add", "add"), ("sub", "sub"), ("mul", "mul"), ("pow", "pow"), ("floordiv", "floordiv"), ("mod", "floormod")):
        setattr(put, f"__{python}__", _binary(op))
        setattr(put, f"__r{python}__", _binary(op, reverse=True))
        setattr(put, f"__i{python}__", _in_place(f"{python}_", op))
    put.__truediv__ = hidden(lambda self, other: divide(self, other))
    put.__rtruediv__ = hidden(lambda self, other: divide(other, self))
    put.__itruediv__ = _in_place("div_", "div")
    for python, logical, bits in (("and", "logical_and", "bitwise_and"), ("or", "logical_or", "bitwise_or"), ("xor", "logical_xor", "bitwise_xor")):
        forward, reverse = _logic(logical, bits)
        setattr(put, f"__{python}__", forward)
        setattr(put, f"__r{python}__", reverse)
    for python, op in (("lt", "less"), ("le", "less_equal"), ("gt", "greater"), ("ge", "greater_equal")):
        setattr(put, f"__{python}__", _binary(op))
    put.__eq__, put.__ne__ = _equality("equal"), _equality("not_equal")
    put.__hash__ = object.__hash__
    put.__lshift__, put.__rshift__ = _binary("left_shift"), _binary("right_shift")
    put.__matmul__ = put.matmul = put.mm = put.bmm = put.mv = put.dot = matmul
    put.__rmatmul__ = _named(hidden(lambda self, other: matmul(other, self)), "__rmatmul__", matmul.__doc__ or "")
    put.__neg__, put.__abs__ = put.neg, put.abs
    put.__pos__ = lambda self: self
    put.__invert__ = lambda self: call("logical_not" if self.dtype.is_bool else "invert", self)
    put.__getitem__, put.__setitem__ = getitem, setitem
    put.isnan, put.isinf, put.isfinite = _unary("is_nan"), _unary("is_inf"), _unary("is_finite")
    put.round, put.rint = _round, _unary("rint")
    put.clamp = put.clip = clamp
    put.clamp_ = put.clip_ = lambda self, min=None, max=None: _replace(self, "clamp_", clamp(_old(self), min, max))
    put.where = lambda self, condition, other: where(condition, self, other)
    put.masked_fill, put.lerp, put.nan_to_num, put.logaddexp = masked_fill, lerp, nan_to_num, logaddexp
    put.logical_not = hidden(lambda self: call("logical_not", self if self.dtype.is_bool else compute.cast(self, dtype=as_dtype("bool"))))
    put.frac = lambda self: self - self.trunc()
    put.hypot = lambda self, other: (self * self + other * other).sqrt()
    put.masked_fill_ = lambda self, mask, value: _replace(self, "masked_fill_", masked_fill(_old(self), mask, value))
    put.lerp_ = lambda self, end, weight: _replace(self, "lerp_", lerp(_old(self), end, weight))
    put.addcmul = lambda self, a, b, *, value=1: self + value * (a * b)
    put.addcdiv = lambda self, a, b, *, value=1: self + value * (a / b)
    put.addcmul_ = lambda self, a, b, *, value=1: self.add_(a * b, alpha=value)
    put.addcdiv_ = lambda self, a, b, *, value=1: self.add_(a / b, alpha=value)
    put.addmm = lambda self, a, b: self + matmul(a, b)
    put.to, put.type = cast_to, cast_to
    put.type_as = lambda self, other: cast_to(self, other.dtype)
    for name, kind in (("half", "float16"), ("float", "float32"), ("double", "float64"), ("short", "int16"), ("int", "int32"), ("long", "int64"), ("bool", "bool")):
        setattr(put, name, _named(_to(kind), name, f"As {kind}."))
    put.cpu = put.contiguous = lambda self: self


def _old(t: Tensor) -> Tensor:
    """The value that a change in place is about to replace, with its history."""
    return compute.identity(t)


def _replace(t: Tensor, name: str, value: Any) -> Tensor:
    from .inplace import overwrite, refuse
    with source.hide_own_frames():
        refuse(t, name)
        return overwrite(compute, t, name, value)


def _equality(name: str) -> Callable[..., Any]:
    plain = _binary(name)

    def method(self: Tensor, other: Any) -> Any:
        if other is None or isinstance(other, (str, bytes)):
            return name == "not_equal"
        return plain(self, other)
    return _named(method, name, "By elements.")


_install()
