"""Elementwise functions, reductions and matrix products under TF1's names, made from tables, and the operators of tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import source
from ..dtypes import DType, as_dtype, bool_, float32, float64, int32, int64
from ..errors import ShapeError
from ..ir.opdef import OPS
from .deferred import recorded
from .funnel import base_dtype, convert, dynamic, emit, is_dynamic, op_scope, operand_list, operands
from .selection import where_true
from .shapes import shape_of
from .sizes import one_of, static_axes, static_int
from .tensor import OPERATORS, Tensor

# public name: (IR op, TF type)
UNARY = {
    "exp": ("exp", "Exp"), "expm1": ("expm1", "Expm1"), "log": ("log", "Log"), "log1p": ("log1p", "Log1p"), "sqrt": ("sqrt", "Sqrt"),
    "rsqrt": ("rsqrt", "Rsqrt"), "square": ("square", "Square"), "sin": ("sin", "Sin"), "cos": ("cos", "Cos"), "tan": ("tan", "Tan"),
    "asin": ("asin", "Asin"), "acos": ("acos", "Acos"), "atan": ("atan", "Atan"), "sinh": ("sinh", "Sinh"), "cosh": ("cosh", "Cosh"),
    "tanh": ("tanh", "Tanh"), "asinh": ("asinh", "Asinh"), "acosh": ("acosh", "Acosh"), "atanh": ("atanh", "Atanh"),
    "sigmoid": ("sigmoid", "Sigmoid"), "softplus": ("softplus", "Softplus"), "log_sigmoid": ("log_sigmoid", "LogSigmoid"),
    "relu": ("relu", "Relu"), "relu6": ("relu6", "Relu6"), "elu": ("elu", "Elu"), "selu": ("selu", "Selu"), "softsign": ("softsign", "Softsign"),
    "silu": ("silu", "Silu"), "erf": ("erf", "Erf"), "erfc": ("erfc", "Erfc"), "reciprocal": ("reciprocal", "Reciprocal"),
    "negative": ("neg", "Neg"), "abs": ("abs", "Abs"), "sign": ("sign", "Sign"), "floor": ("floor", "Floor"), "ceil": ("ceil", "Ceil"),
    "round": ("rint", "Round"), "rint": ("rint", "Rint"), "logical_not": ("logical_not", "LogicalNot"), "is_nan": ("is_nan", "IsNan"),
    "is_inf": ("is_inf", "IsInf"), "is_finite": ("is_finite", "IsFinite"), "invert": ("invert", "Invert"), "l2_loss": ("l2_loss", "L2Loss"),
}
BINARY = {
    "add": ("add", "Add"), "subtract": ("sub", "Sub"), "multiply": ("mul", "Mul"), "maximum": ("maximum", "Maximum"),
    "minimum": ("minimum", "Minimum"), "pow": ("pow", "Pow"), "squared_difference": ("squared_difference", "SquaredDifference"),
    "floordiv": ("floordiv", "FloorDiv"), "floor_div": ("floordiv", "FloorDiv"), "mod": ("floormod", "FloorMod"), "floormod": ("floormod", "FloorMod"),
    "truncatediv": ("truncdiv", "TruncateDiv"), "truncatemod": ("truncmod", "TruncateMod"), "atan2": ("atan2", "Atan2"),
    "equal": ("equal", "Equal"), "not_equal": ("not_equal", "NotEqual"), "less": ("less", "Less"), "less_equal": ("less_equal", "LessEqual"),
    "greater": ("greater", "Greater"), "greater_equal": ("greater_equal", "GreaterEqual"), "logical_and": ("logical_and", "LogicalAnd"),
    "logical_or": ("logical_or", "LogicalOr"), "logical_xor": ("logical_xor", "LogicalXor"), "bitwise_and": ("bitwise_and", "BitwiseAnd"),
    "bitwise_or": ("bitwise_or", "BitwiseOr"), "bitwise_xor": ("bitwise_xor", "BitwiseXor"), "left_shift": ("left_shift", "LeftShift"),
    "right_shift": ("right_shift", "RightShift"),
}
_DEFAULT_NAMES = {"negative": "Neg", "subtract": "Sub", "multiply": "Mul", "floor_div": "FloorDiv", "floordiv": "floordiv", "mod": "FloorMod",
                  "round": "Round", "logical_xor": "LogicalXor"}


def make_unary(public: str, ir: str, tf: str) -> Callable[..., Any]:
    """``f(x, name=None)``"""
    def f(x: Any, name: str | None = None) -> Any:
        if is_dynamic((x,)):
            return dynamic(ir, x)
        with op_scope(name, _DEFAULT_NAMES.get(public, tf), x) as label:
            return emit(tf, label, (convert(x, name="x"),), lambda b, n: getattr(b, ir)(n))
    return _described(f, public, ir)


def make_binary(public: str, ir: str, tf: str) -> Callable[..., Any]:
    """``f(x, y, name=None)``"""
    def f(x: Any, y: Any, name: str | None = None) -> Any:
        if is_dynamic((x, y)):
            return dynamic(ir, x, y)
        with source.hide_own_frames():
            return binary(tf, name or _DEFAULT_NAMES.get(public, tf), ir, x, y, beside)
    beside = ("LogicalOr", "LogicalAnd", "LogicalNot") if public == "logical_xor" else ()
    return _described(f, public, ir)


def _described(f: Callable[..., Any], public: str, ir: str) -> Callable[..., Any]:
    f.__name__ = f.__qualname__ = public
    f.__module__ = "staticgraph"
    f.__doc__ = OPS[ir].doc
    return f


def binary(tf: str, name: str, ir: str, x: Any, y: Any, beside: Sequence[str] = ()) -> Tensor:
    """An elementwise operation of two operands of one dtype."""
    with op_scope(name, tf, x, y, beside=beside) as label:
        ins = operands(tf, (x, y))
        result: Tensor = emit(tf, label, ins, lambda b, p, q: getattr(b, ir)(p, q))
        return result


def _both_bool_or_int(x: Any, y: Any, logical: str, bits: str) -> str:
    first = x if isinstance(x, Tensor) or hasattr(x, "_as_tensor") else y
    return logical if base_dtype(first.dtype).is_bool else bits


def _divide(name: str | None, x: Any, y: Any) -> Any:
    """True division: ints become float64 (int8 and int16 float32) first, as in TF1."""
    with op_scope(name, "truediv", x, y) as label:
        ins = operands("RealDiv", (x, y))
        kind = ins[0].dtype
        if kind.is_integer:
            wide = float32 if kind.bits <= 16 else float64
            ins = [cast(t, wide) for t in ins]
        return emit("RealDiv", label, ins, lambda b, p, q: b.div(p, q))


def divide(x: Any, y: Any, name: str | None = None) -> Any:
    """x / y as Python 3; two Python numbers give a Python number."""
    if isinstance(x, (int, float)) and isinstance(y, (int, float)):
        return x / y
    with source.hide_own_frames():
        return _divide(name, x, y)


def truediv(x: Any, y: Any, name: str | None = None) -> Any:
    """x / y; ints give floats."""
    with source.hide_own_frames():
        return _divide(name, x, y)


def div(x: Any, y: Any, name: str | None = None) -> Any:
    """Python 2's division: floors for ints, divides for floats."""
    with op_scope(name, "div", x, y) as label:
        ins = operands("RealDiv", (x, y))
        if ins[0].dtype.is_integer:
            return emit("FloorDiv", label, ins, lambda b, p, q: b.floordiv(p, q))
        return emit("RealDiv", label, ins, lambda b, p, q: b.div(p, q))


def realdiv(x: Any, y: Any, name: str | None = None) -> Any:
    """x / y of floats."""
    with op_scope(name, "RealDiv", x, y) as label:
        return emit("RealDiv", label, operands("RealDiv", (x, y)), lambda b, p, q: b.div(p, q))


def cast(x: Any, dtype: Any, name: str | None = None) -> Any:
    """To another dtype: float to int truncates, to bool is ``!= 0``, int to a smaller int wraps."""
    want = as_dtype(dtype)
    if is_dynamic((x,)):
        return dynamic("cast", x, dtype=want)
    with op_scope(name, "Cast", x) as label:
        t = convert(x, name="x")
        if t.dtype == want:
            return t
        return emit("Cast", label, (t,), lambda b, n: b.cast(n, dtype=want), {"DstT": want})


def _to(dtype: DType, name: str) -> Callable[..., Any]:
    default = name

    def f(x: Any, name: str | None = None) -> Any:
        with source.hide_own_frames():
            return cast(x, dtype, name or default)
    f.__doc__ = f"cast to {dtype.name}"
    return f


to_float, to_double, to_int32, to_int64 = _to(float32, "ToFloat"), _to(float64, "ToDouble"), _to(int32, "ToInt32"), _to(int64, "ToInt64")


# ---- reductions -----------------------------------------------------------------------------------------------------------------


def make_reduction(public: str, ir: str, tf: str) -> Callable[..., Any]:
    """``f(input_tensor, axis=None, keepdims=None, name=None, reduction_indices=None, keep_dims=None)``"""
    def f(input_tensor: Any, axis: Any = None, keepdims: Any = None, name: str | None = None, reduction_indices: Any = None, keep_dims: Any = None) -> Any:
        with source.hide_own_frames():
            axes = static_axes(one_of("axis", axis, reduction_indices=reduction_indices))
            keep = bool(one_of("keepdims", keepdims, keep_dims=keep_dims))
            axes = axes if axes is None or isinstance(axes, tuple) else (axes,)
        if is_dynamic((input_tensor,)):
            return dynamic(ir, input_tensor, axis=axes, keepdims=keep)
        with op_scope(name, tf, input_tensor, beside=("Const",) if axes is None and ir != "logsumexp" else ()) as label:
            x = convert(input_tensor, name="input_tensor")
            return emit(tf, "Add" if ir == "logsumexp" else label, (x,), lambda b, n: getattr(b, ir)(n, axis=axes, keepdims=keep), {"keep_dims": keep})
    return _described(f, public, ir)


REDUCTIONS = {"reduce_sum": ("sum", "Sum"), "reduce_mean": ("mean", "Mean"), "reduce_max": ("max", "Max"), "reduce_min": ("min", "Min"),
              "reduce_prod": ("prod", "Prod"), "reduce_any": ("any", "Any"), "reduce_all": ("all", "All"), "reduce_logsumexp": ("logsumexp", "ReduceLogSumExp")}


def _arg(public: str, ir: str, tf: str) -> Callable[..., Any]:
    def f(input: Any, axis: Any = None, name: str | None = None, dimension: Any = None, output_type: Any = int64) -> Any:
        with source.hide_own_frames():
            k = static_axes(one_of("axis", axis, dimension=dimension))
            k = 0 if k is None else k
        if is_dynamic((input,)):
            return dynamic(ir, input, axis=k, dtype=as_dtype(output_type))
        with op_scope(name, tf, input) as label:
            return emit(tf, label, (convert(input, name="input"),), lambda b, n: getattr(b, ir)(n, axis=k, dtype=as_dtype(output_type)))
    return _described(f, public, ir)


argmax = arg_max = _arg("argmax", "argmax", "ArgMax")
argmin = arg_min = _arg("argmin", "argmin", "ArgMin")


def count_nonzero(input_tensor: Any, axis: Any = None, keepdims: Any = None, dtype: Any = int64, name: str | None = None, reduction_indices: Any = None,
                  keep_dims: Any = None) -> Any:
    """How many elements are not zero."""
    with op_scope(name, "count_nonzero", input_tensor):
        x = convert(input_tensor, name="input_tensor")
        axes = static_axes(one_of("axis", axis, reduction_indices=reduction_indices))
        keepdims = one_of("keepdims", keepdims, keep_dims=keep_dims)
        axes = axes if axes is None or isinstance(axes, tuple) else (axes,)
        return emit("CountNonzero", "Sum", (x,), lambda b, n: b.sum(
            b.cast(b.not_equal(n, b.like(n, 0)), dtype=as_dtype(dtype)), axis=axes, keepdims=bool(keepdims)))


# ---- matrix products ---------------------------------------------------------------------------------------------------------------


@recorded
def matmul(a: Any, b: Any, transpose_a: bool = False, transpose_b: bool = False, adjoint_a: bool = False, adjoint_b: bool = False,
           a_is_sparse: bool = False, b_is_sparse: bool = False, name: str | None = None) -> Any:
    """Products of the last two axes, the leading ones broadcast."""
    ta, tb = transpose_a or adjoint_a, transpose_b or adjoint_b
    if is_dynamic((a, b)):
        return dynamic("matmul", a, b, transpose_a=ta, transpose_b=tb)
    with op_scope(name, "MatMul", a, b) as label:
        ins = operands("MatMul", (a, b), ("a", "b"))
        for t in ins:
            if len(t.node.shape) < 2:
                raise ShapeError(f"Shape must be rank 2 but is rank {len(t.node.shape)} for '{label.rstrip('/')}' (op: 'MatMul') with input shapes: "
                                 + ", ".join(f"[{','.join(map(str, shape_of(i.node.shape)))}]" for i in ins) + ".")
        for t, other in (ins, ins[::-1]):
            if t._record is not None and len(other.node.shape) == 2 != len(t.node.shape):            # TF1 then takes MatMul: this says what rank t has
                raise ShapeError(f"Shape must be rank 2 but is rank {len(t.node.shape)} for '{name or 'MatMul'}' (op: 'MatMul')")
        tf = "MatMul" if len(ins[0].node.shape) == 2 else "BatchMatMulV2"
        return emit(tf, label, ins, lambda bb, p, q: bb.matmul(p, q, transpose_a=ta, transpose_b=tb), {"transpose_a": ta, "transpose_b": tb})


batch_matmul = matmul


@recorded
def tensordot(a: Any, b: Any, axes: Any, name: str | None = None) -> Any:
    """Products summed over chosen axes (an int: the last n of a with the first n of b)."""
    with op_scope(name, "Tensordot", a, b) as label:
        ins = operands("Tensordot", (a, b), ("a", "b"))
        ra, rb = (len(t.node.shape) for t in ins)
        if isinstance(axes, int):
            left, right = list(range(ra - axes, ra)), list(range(axes))
        else:
            left, right = ([k % r for k in (ax if isinstance(ax, (list, tuple)) else [ax])] for ax, r in zip(axes, (ra, rb)))

        def build(bb: Any, p: Any, q: Any) -> Any:
            from ..ir.aval import product
            pf, qf = [k for k in range(ra) if k not in left], [k for k in range(rb) if k not in right]
            ps, qs = p.shape, q.shape
            x = bb.reshape(bb.transpose(p, perm=(*pf, *left)), shape=(product(ps[k] for k in pf), product(ps[k] for k in left)))
            y = bb.reshape(bb.transpose(q, perm=(*right, *qf)), shape=(product(qs[k] for k in right), product(qs[k] for k in qf)))
            return bb.reshape(bb.matmul(x, y), shape=(*(ps[k] for k in pf), *(qs[k] for k in qf)))
        static = all(t.node.aval.is_static for t in ins)
        return emit("Tensordot", label, ins, build, weight=None if static else 25)


def add_n(inputs: Any, name: str | None = None) -> Any:
    """The sum of tensors of one shape."""
    if is_dynamic((inputs,)):
        return dynamic("add_n", *inputs)
    return _sum_of("AddN", inputs, name)


def accumulate_n(inputs: Any, shape: Any = None, tensor_dtype: Any = None, name: str | None = None) -> Any:
    """The sum of tensors of one shape."""
    return _sum_of("AccumulateNV2", inputs, name)


def _sum_of(tf: str, inputs: Any, name: str | None) -> Any:
    with op_scope(name, tf, inputs) as label:
        ins = operand_list(tf, inputs, "inputs")
        if len(ins) == 1 and name is None:
            return ins[0]
        return emit("Identity" if len(ins) == 1 else tf, label, ins, lambda b, *ns: b.add_n(list(ns)))


def clip_by_value(t: Any, clip_value_min: Any, clip_value_max: Any, name: str | None = None) -> Any:
    """min(max(t, lo), hi); the gradient passes at both bounds."""
    if is_dynamic((t, clip_value_min, clip_value_max)):
        return dynamic("clip", t, clip_value_min, clip_value_max)
    with op_scope(name, "clip_by_value", t, clip_value_min, clip_value_max) as label:
        ins = operands("ClipByValue", (t, clip_value_min, clip_value_max), ("t", "y", "Minimum/y"))
        return emit("ClipByValue", label, ins, lambda b, x, lo, hi: b.clip(x, lo, hi))


@recorded
def where(condition: Any, x: Any = None, y: Any = None, name: str | None = None) -> Any:
    """x where the condition holds, else y; a vector condition picks rows. Without x and y: the indices int64[k, rank] of what is true."""
    if x is None and y is None:
        return where_true(condition, name)
    if x is None or y is None:
        raise ValueError("x and y must both be non-None or both be None.")
    with op_scope(name, "Select", condition, x, y) as label:
        c = convert(condition, bool_, "condition")
        p, q = operands("Select", (x, y), ("t", "e"))

        def build(b: Any, cn: Any, pn: Any, qn: Any) -> Any:
            if len(cn.shape) == 1 and len(pn.shape) > 1:
                cn = b.reshape(cn, shape=(*cn.shape, *(1,) * (len(pn.shape) - 1)))
            return b.where(cn, pn, qn)
        return emit("Select", label, (c, p, q), build)


def _scan(ir: str, tf: str) -> Callable[..., Any]:
    def f(x: Any, axis: Any = 0, exclusive: bool = False, reverse: bool = False, name: str | None = None) -> Any:
        k = static_int(axis, "axis")
        if is_dynamic((x,)):
            return dynamic(ir, x, axis=k, exclusive=exclusive, reverse=reverse)
        with op_scope(name, tf, x) as label:
            return emit(tf, label, (convert(x, name="x"),), lambda b, n: getattr(b, ir)(n, axis=k, exclusive=exclusive, reverse=reverse))
    f.__doc__ = OPS[ir].doc
    return f


cumsum, cumprod = _scan("cumsum", "Cumsum"), _scan("cumprod", "Cumprod")


def norm(tensor: Any, ord: Any = "euclidean", axis: Any = None, keepdims: Any = None, name: str | None = None, keep_dims: Any = None) -> Any:
    """Vector norms: euclidean (2), 1, inf."""
    with source.hide_own_frames():
        keep, axes = bool(one_of("keepdims", keepdims, keep_dims=keep_dims)), static_axes(axis)
        axes = axes if axes is None or isinstance(axes, tuple) else (axes,)
    with op_scope(name, "norm", tensor):
        x = convert(tensor, name="tensor")
        if ord in ("euclidean", "fro", 2):
            return emit("Norm", "Squeeze", (x,), lambda b, n: b.norm(n, axis=axes, keepdims=keep))
        if ord == 1:
            return emit("Norm1", "Squeeze", (x,), lambda b, n: b.sum(b.abs(n), axis=axes, keepdims=keep))
        if ord == np.inf:
            return emit("Norm1", "Squeeze", (x,), lambda b, n: b.max(b.abs(n), axis=axes, keepdims=keep))
        raise ValueError(f"'ord' must be a supported vector norm, got {ord}")


FUNCTIONS: dict[str, Any] = {
    **{k: make_unary(k, *v) for k, v in UNARY.items()}, **{k: make_binary(k, *v) for k, v in BINARY.items()},
    **{k: make_reduction(k, *v) for k, v in REDUCTIONS.items()}}


def _round(x: Any, name: str | None = None) -> Any:
    return x if getattr(getattr(x, "dtype", None), "is_integer", False) else _rounded(x, name)


_rounded = FUNCTIONS["round"]
FUNCTIONS["round"] = _described(_round, "round", "rint")


def function_named(name: str) -> Callable[..., Any]:
    """The function of a public name: from the tables above, or made from the record of an elementwise op without attributes.

    KeyError: no such function.
    """
    if name not in FUNCTIONS:
        op = OPS[name]
        inputs, attrs, variadic = op.signature
        if not op.is_elementwise or attrs or variadic or len(inputs) > 2:
            raise KeyError(name)
        make = make_unary if len(inputs) == 1 else make_binary
        FUNCTIONS[name] = make(name, name, "".join(part.capitalize() for part in name.split("_")))
    return FUNCTIONS[name]


# ---- operators -----------------------------------------------------------------------------------------------------------------------

_OPERATORS = {"add": ("add", "AddV2", "add"), "sub": ("sub", "Sub", "sub"), "mul": ("mul", "Mul", "mul"), "floordiv": ("floordiv", "FloorDiv", "floordiv"),
              "mod": ("floormod", "FloorMod", "mod"), "pow": ("pow", "Pow", "pow"), "lt": ("less", "Less", "Less"), "le": ("less_equal", "LessEqual", "LessEqual"),
              "gt": ("greater", "Greater", "Greater"), "ge": ("greater_equal", "GreaterEqual", "GreaterEqual")}


def _install() -> None:
    for python, (ir, tf, name) in _OPERATORS.items():
        OPERATORS[f"__{python}__"] = _hidden(lambda x, y, ir=ir, tf=tf, name=name: binary(tf, name, ir, x, y))
        OPERATORS[f"__r{python}__"] = _hidden(lambda x, y, ir=ir, tf=tf, name=name: binary(tf, name, ir, y, x))
    for python, logical, bits, tf in (("and", "logical_and", "bitwise_and", "LogicalAnd"), ("or", "logical_or", "bitwise_or", "LogicalOr"),
                                      ("xor", "logical_xor", "bitwise_xor", "LogicalXor")):
        f = _hidden(lambda x, y, lo=logical, bi=bits, tf=tf, py=python: binary(tf, py, _both_bool_or_int(x, y, lo, bi), x, y))
        OPERATORS[f"__{python}__"] = f
        OPERATORS[f"__r{python}__"] = f
    for python in ("truediv", "div"):
        OPERATORS[f"__{python}__"] = _hidden(lambda x, y: _divide("truediv", x, y))
        OPERATORS[f"__r{python}__"] = _hidden(lambda x, y: _divide("truediv", y, x))
    OPERATORS["__eq_elements__"] = _hidden(lambda x, y: binary("Equal", "Equal", "equal", x, y))
    OPERATORS["__ne_elements__"] = _hidden(lambda x, y: binary("NotEqual", "NotEqual", "not_equal", x, y))
    OPERATORS["__matmul__"] = lambda x, y: matmul(x, y, name="matmul")
    OPERATORS["__rmatmul__"] = lambda x, y: matmul(y, x, name="matmul")
    OPERATORS["__neg__"] = lambda x: FUNCTIONS["negative"](x)
    OPERATORS["__abs__"] = lambda x: FUNCTIONS["abs"](x)
    OPERATORS["__invert__"] = lambda x: FUNCTIONS["logical_not"](x)


def _hidden(f: Callable[..., Any]) -> Callable[..., Any]:
    def g(*args: Any) -> Any:
        if is_dynamic(args):
            return NotImplemented
        with source.hide_own_frames():
            return f(*args)
    return g


_install()
