"""Checks and prints of a run: effects, in the order of the program, that run where something fetched waits for them.

A check computes its condition natively; Python is called only where it fails, with the values to show, and the run stops before any variable
changes. A print calls Python each time.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import source
from ..dtypes import bool_, string
from ..errors import DTypeError, FailedPreconditionError, InvalidArgumentError, OpError, UnimplementedError
from ..ir.aval import Aval
from ..ir.opdef import OPS
from ..ops.control import traced_region
from .deferred import recorded
from .funnel import convert, emit, op_scope, operands
from .ledger import get_default_graph
from .math_ops import FUNCTIONS
from .printing import ends, summary
from .tensor import Operation, Tensor
from .variables import global_variables, group, is_variable_initialized, local_variables

_RAN = (Aval((), bool_),)


def call_python(b: Any, f: Callable[..., None], values: Sequence[Any], label: str) -> Any:
    """A node that calls ``f(*arrays)``; its value is True."""
    def fn(*arrays: Any) -> Any:
        f(*arrays)
        return np.True_
    return b.py_func(*values, fn=fn, outs=_RAN, name=label)[0]


def fail_unless(b: Any, ok: Any, values: Sequence[Any], describe: Callable[..., str], label: str, error: type[OpError] = InvalidArgumentError) -> Any:
    """A node that stops the run with ``describe(*arrays)`` where the scalar ``ok`` is False."""
    def fail(*arrays: Any) -> None:
        raise error(None, None, describe(*arrays))
    avals = [v.aval for v in values]
    return b.cond(ok, *values, true=traced_region(b, avals, lambda inner, *vs: [inner.const(np.True_)]),
                  false=traced_region(b, avals, lambda inner, *vs: [call_python(inner, fail, vs, label)]))[0]


def after(b: Any, x: Any, effect: Any) -> Any:
    """``x``, once ``effect`` has run."""
    return b.apply(OPS["identity"], (x,), {}, (effect,))


class _Data:
    """What a check or a print shows: texts, and tensors whose arrays a run supplies."""

    def __init__(self, data: Any, name: str) -> None:
        items = list(data) if isinstance(data, (list, tuple)) else [data]
        self.tensors: list[Tensor] = []
        self.parts = [self._part(i, f"{name}_{k}") for k, i in enumerate(items)]

    def _part(self, item: Any, name: str) -> Any:
        if isinstance(item, (str, bytes)):
            return item
        t = convert(item, name=name)
        if t.dtype == string:
            if t.node.op is not OPS["const"]:
                raise UnimplementedError(None, t.op, f"{t.name}: strings that a run computes are not available")
            return t.node.attr("value").array
        self.tensors.append(t)
        return None

    def items(self, arrays: Sequence[Any]) -> list[Any]:
        """All in order, with the arrays of a run."""
        rest = iter(arrays)
        return [next(rest) if p is None else p for p in self.parts]


@recorded
def Assert(condition: Any, data: Any, summarize: int | None = None, name: str | None = None) -> Operation:
    """An operation that stops the run where the scalar ``condition`` is False: ``assertion failed: [1 nan] [text]``, 3 elements of each of ``data``."""
    with op_scope(name, "Assert", condition, data) as label:
        c = convert(condition, name="condition")
        if c.dtype != bool_ or c.node.shape:
            raise DTypeError(f"the condition of Assert must be a scalar bool, got {c!r}")
        shown = _Data(data, "data")
        count = 3 if summarize is None else summarize

        def describe(*arrays: Any) -> str:
            return "assertion failed: " + " ".join(f"[{summary(i, count)}]" for i in shown.items(arrays))
        result: Operation = emit("Assert", label, [c, *shown.tensors], lambda b, ok, *ns: fail_unless(b, ok, ns, describe, "Assert")).op
        return result


@recorded
def check(condition: Any, message: str = "check failed", name: str | None = None, **values: Any) -> Operation:
    """An operation that stops the run where ``condition`` does not hold everywhere.

    ``message`` is a format string of the names in ``values``: ``sg.check(x > 0, "x is {x}", x=x)``. InvalidArgumentError, at this line.
    """
    with op_scope(name, "check", condition, *values.values()) as label:
        c = convert(condition, bool_, "condition")
        shown = _Data(list(values.values()), "value")
        message.format(**dict.fromkeys(values, np.zeros(())))                # a name that is missing fails here

        def describe(*arrays: Any) -> str:
            return message.format(**dict(zip(values, shown.items(arrays))))
        result: Operation = emit("Check", label, [c, *shown.tensors], lambda b, ok, *ns: fail_unless(b, b.all(ok, axis=None), ns, describe, "check")).op
        return result


@recorded
def assert_variables_initialized(var_list: Any = None) -> Operation | None:
    """An operation that stops the run where a variable has no value (FailedPreconditionError); None where there is no variable."""
    with source.hide_own_frames():
        variables = [*global_variables(), *local_variables()] if var_list is None else list(var_list)
        if not variables:
            return None

        def describe(*flags: Any) -> str:
            return f"Attempting to use uninitialized value {next(v.op.name for v, ok in zip(variables, flags) if not ok)}"

        def build(b: Any, *flags: Any) -> Any:
            return fail_unless(b, b.all(b.stack(*flags, axis=0), axis=None), flags, describe, "AssertInitialized", FailedPreconditionError)
        result: Operation = emit("AssertInitialized", "AssertInitialized", [is_variable_initialized(v) for v in variables], build).op
        return result


@recorded
def check_numerics(tensor: Any, message: str, name: str | None = None) -> Tensor:
    """The tensor, if it holds no NaN and no infinity; else the run stops: ``message : Tensor had NaN values``."""
    with op_scope(name, "CheckNumerics", tensor) as label:
        x = convert(tensor, name="tensor")
        if not x.dtype.is_floating:
            raise DTypeError(f"Value passed to parameter 'tensor' has DataType {x.dtype.name} not in list of allowed values: float16, float32, float64")

        def describe(nan: Any, inf: Any) -> str:
            return f"{message} : Tensor had {'Inf and NaN' if nan and inf else 'NaN' if nan else 'Inf'} values"

        def build(b: Any, n: Any) -> Any:
            found = [b.any(b.is_nan(n), axis=None), b.any(b.is_inf(n), axis=None)]
            return after(b, n, fail_unless(b, b.logical_not(b.logical_or(*found)), found, describe, "CheckNumerics"))
        result: Tensor = emit("CheckNumerics", label, (x,), build, {"message": message})
        return result


def verify_tensor_all_finite(t: Any = None, msg: Any = None, name: str | None = None, x: Any = None, message: Any = None) -> Tensor:
    """``check_numerics`` by its other name."""
    from .array_ops import identity
    tensor = t if t is not None else x
    with op_scope(name, "VerifyFinite", tensor):
        verified = check_numerics(tensor, msg if msg is not None else message)
        with get_default_graph().control_dependencies([verified]):
            result: Tensor = identity(tensor, "control_dependency")
            return result


def add_check_numerics_ops() -> Operation:
    """One operation that checks every float tensor of the graph, in order. ValueError for a graph with branches or loops."""
    with source.hide_own_frames():
        last: list[Any] = []
        g = get_default_graph()
        for op in g.get_operations():
            if op.construct in ("If", "While"):
                raise ValueError("`tf.add_check_numerics_ops() is not compatible with TensorFlow control flow operations such as `tf.cond()` or `tf.while_loop()`.")
            for t in op.outputs:
                if t.dtype.is_floating:
                    with g.control_dependencies(last):
                        last = [check_numerics(t, t.name)]
        return group(*last)


# ---- prints -----------------------------------------------------------------------------------------------------------------------


@recorded
def Print(input_: Any, data: Any, message: str | None = None, first_n: int | None = None, summarize: int | None = None, name: str | None = None) -> Tensor:
    """``input_``; where it is computed, a line of ``message`` and ``data`` goes to standard error (``first_n`` times)."""
    with op_scope(name, "Print", input_, data) as label:
        x = convert(input_, name="input")
        shown = _Data(data, "data")
        count, left = 3 if summarize is None else summarize, [-1 if first_n is None else first_n]

        def write(*arrays: Any) -> None:
            if left[0] != 0:
                left[0] -= 1
                sys.stderr.write((message or "") + "".join(f"[{summary(i, count)}]" for i in shown.items(arrays)) + "\n")
        result: Tensor = emit("Print", label, [x, *shown.tensors], lambda b, n, *ns: after(b, n, call_python(b, write, ns, "Print")))
        return result


@recorded
def print_(*inputs: Any, output_stream: Any = None, summarize: int = 3, sep: str = " ", end: str = "\n", name: str | None = None) -> Operation:
    """An operation that prints its inputs, to standard error or another stream: arrays by their first and last elements, the rest as Python does."""
    with op_scope(name, "PrintV2", *inputs) as label:
        shown = _Data([i if _is_tensor(i) else str(i) for i in inputs], "input")

        def write(*arrays: Any) -> None:
            stream = sys.stderr if output_stream is None else output_stream
            text = sep.join(i if isinstance(i, str) else ends(i, summarize) for i in shown.items(arrays)) + end
            stream.write(text) if hasattr(stream, "write") else stream(text)
        result: Operation = emit("PrintV2", label, shown.tensors, lambda b, *ns: call_python(b, write, ns, "PrintV2")).op
        return result


def _is_tensor(x: Any) -> bool:
    return isinstance(x, (Tensor, np.ndarray)) or hasattr(x, "_as_tensor")


# ---- assertions on values ------------------------------------------------------------------------------------------------------------


def _static(t: Tensor) -> Any:
    return t.node.attr("value").array if t.node.op is OPS["const"] else None


def _assert_all(holds: Callable[..., Tensor], operands: Sequence[Tensor], data: Sequence[Any], message: str | None, summarize: int | None) -> Operation:
    """Assert that ``holds(*operands)`` everywhere; refused while building where all operands are constants that do not fit."""
    shown = [message or "", *data]
    values = [_static(t) for t in operands]
    if all(v is not None for v in values):
        from ..ir.evaluate import evaluate
        ok = holds(*operands)
        if not bool(np.all(evaluate([ok.node], {})[0])):
            raise InvalidArgumentError(None, None, "\n".join(str(_static(d)) if isinstance(d, Tensor) else str(d) for d in shown))
    else:
        ok = holds(*operands)
    return Assert(FUNCTIONS["reduce_all"](ok), shown, summarize)


def _binary(public: str, symbol: str, function: str) -> Callable[..., Operation]:
    @recorded
    def f(x: Any, y: Any, data: Any = None, summarize: int | None = None, message: str | None = None, name: str | None = None) -> Operation:
        with op_scope(name, public, x, y):
            p, q = operands(public, (x, y))
            shown = data if data is not None else [f"Condition x {symbol} y did not hold element-wise:", f"x ({p.name}) = ", p, f"y ({q.name}) = ", q]
            return _assert_all(FUNCTIONS[function], (p, q), shown, message, summarize)
    f.__name__ = f.__qualname__ = public
    f.__doc__ = f"An operation that stops the run where x {symbol} y does not hold for all elements."
    return f


assert_equal, assert_none_equal = _binary("assert_equal", "==", "equal"), _binary("assert_none_equal", "!=", "not_equal")
assert_less, assert_less_equal = _binary("assert_less", "<", "less"), _binary("assert_less_equal", "<=", "less_equal")
assert_greater, assert_greater_equal = _binary("assert_greater", ">", "greater"), _binary("assert_greater_equal", ">=", "greater_equal")


def _sign(public: str, symbol: str, function: str) -> Callable[..., Operation]:
    @recorded
    def f(x: Any, data: Any = None, summarize: int | None = None, message: str | None = None, name: str | None = None) -> Operation:
        with op_scope(name, public, x):
            p = convert(x, name="x")
            zero = convert(np.zeros((), p.dtype.np), name="zero")
            shown = data if data is not None else [f"Condition x {symbol} 0 did not hold element-wise:", f"x ({p.name}) = ", p]
            return _assert_all(FUNCTIONS[function], (p, zero), shown, message, summarize)
    f.__name__ = f.__qualname__ = public
    f.__doc__ = f"An operation that stops the run where x {symbol} 0 does not hold for all elements."
    return f


assert_positive, assert_negative = _sign("assert_positive", ">", "greater"), _sign("assert_negative", "<", "less")
assert_non_negative, assert_non_positive = _sign("assert_non_negative", ">=", "greater_equal"), _sign("assert_non_positive", "<=", "less_equal")


@recorded
def assert_near(x: Any, y: Any, rtol: Any = None, atol: Any = None, data: Any = None, summarize: int | None = None, message: str | None = None, name: str | None = None) -> Operation:
    """An operation that stops the run where |x - y| <= atol + rtol |y| does not hold for all elements (default: 10 times the resolution of the dtype)."""
    with op_scope(name, "assert_near", x, y):
        p, q = operands("assert_near", (x, y))
        eps = 10 * float(np.finfo(p.dtype.np).eps)
        bound = (eps if atol is None else atol) + (eps if rtol is None else rtol) * FUNCTIONS["abs"](q)
        shown = data if data is not None else ["x and y not equal to tolerance", f"x ({p.name}) = ", p, f"y ({q.name}) = ", q]
        return _assert_all(lambda u, w: FUNCTIONS["less_equal"](FUNCTIONS["abs"](u - w), bound), (p, q), shown, message, summarize)
