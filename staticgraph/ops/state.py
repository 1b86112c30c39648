"""Leaves and effects: placeholders, constants, variables, assigns, parameters, guards, checks, prints.

A user's graph holds ``variable``, ``read`` and the assigns as effects; the pass ``lower_state`` turns them into versions. An effect on a
variable gives ``step(b, current, *operands)``: the variable's next value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..dtypes import bool_
from ..errors import DTypeError, ShapeError
from ..ir.aval import Aval, Size, TupleAval
from ..ir.graph import ArrayAttr
from ..ir.opdef import Control, NoRule, NotDifferentiable, OpDef, Scalar, View, define
from .helpers import Sample, b1, i32, may_equal, shape_text

_LEAF = NotDifferentiable("it is a leaf")


def _never(*_: Any, **__: Any) -> Any:
    raise AssertionError("a leaf's value is supplied by the run")


def _leaf(name: str, infer: Callable[..., Any], kind: str, ref: Callable[..., Any] = _never, traits: Any = (), doc: str = "",
          samples: Any = None, errors: Any = ()) -> OpDef:
    return define(OpDef(name, infer, ref, _LEAF, _LEAF, NoRule("a leaf has no batch of its own"), Control(kind),
                        samples or (lambda rng: []), errors, frozenset(traits), doc))


placeholder = _leaf("placeholder", lambda *, aval, uid: aval, "placeholder", lambda *, aval, uid: _never(), {"unmerged"},
                    "A value fed at each run. ``uid`` tells placeholders apart.")
input_ = _leaf("input", lambda *, aval, index: aval, "input", lambda *, aval, index: _never(),
               doc="Operand ``index`` of an executable: a feed, a variable's value at entry, or a stream's offset.")
param = _leaf("param", lambda *, aval, index: aval, "param", lambda *, aval, index: _never(), {"unmerged"},
              doc="Parameter ``index`` of a region.")
variable = _leaf("variable", lambda *, aval, uid: aval, "variable", lambda *, aval, uid: _never(), {"unmerged"},
                 doc="A reference to a variable of the session; ``read`` gives its value.")


def _const_infer(*, value: ArrayAttr) -> Aval:
    from ..dtypes import as_dtype
    if not isinstance(value, ArrayAttr):
        raise DTypeError(f"a constant's value must be an ArrayAttr, got {type(value).__name__}")
    return Aval(value.array.shape, as_dtype(value.array.dtype))


const = _leaf("const", _const_infer, "const", lambda *, value: value.array, {"exact"}, "A constant.",
              lambda rng: [Sample((), {"value": ArrayAttr(np.array([1.5, -0.0, np.nan], "f4"))}, grad=False),
                           Sample((), {"value": ArrayAttr(np.int64(7))}, grad=False),
                           Sample((), {"value": ArrayAttr(np.zeros((0, 3)))}, grad=False)])

sizes = _leaf("sizes", lambda *, sizes, dtype: Aval((len(sizes),), dtype), "sizes",
              lambda *, sizes, dtype: np.array(sizes, dtype.np), {"exact"},
              "A vector of dimensions (ints or expressions) as integers of ``dtype``.",
              lambda rng: [Sample((), {"sizes": (2, 3), "dtype": i32().dtype}, grad=False)])


def _get_infer(x: Any, *, index: int) -> Aval:
    if not isinstance(x, TupleAval) or not 0 <= index < len(x.elements):
        raise ShapeError(f"output {index} of {x}")
    return x.elements[index]


get = define(OpDef("get", _get_infer, lambda x, *, index: x[index],
                   NoRule("the driver collects the cotangents of a tuple"), NoRule("the driver takes tuples apart"),
                   NoRule("the driver takes tuples apart"), Control("get"), lambda rng: [],
                   doc="Output ``index`` of an op with several outputs."))

identity = define(OpDef(
    "identity", lambda x: x, lambda x: np.array(x), lambda b, ct, y, x: [ct], lambda b, ts, y, x: ts[0],
    lambda b, size, ins, dims: (ins[0], dims[0]), View(lambda v, out: v),
    lambda rng: [Sample((rng.normal(size=(3, 4)),)), Sample((np.array(True),), grad=False)],
    traits=frozenset({"exact", "linear", "rows"}), doc="The value itself. Inside ``control_dependencies`` it waits for them."))

stop_gradient = define(OpDef(
    "stop_gradient", lambda x: x, lambda x: np.array(x), NotDifferentiable("stop_gradient"), NotDifferentiable("stop_gradient"),
    lambda b, size, ins, dims: (b.stop_gradient(ins[0]), dims[0]), View(lambda v, out: v),
    lambda rng: [Sample((rng.normal(size=(3, 4)),))], traits=frozenset({"exact"}),
    doc="The value, cut off from gradients."))


# ---- variables --------------------------------------------------------------------------------------------------------------

read = define(OpDef(
    "read", lambda v: v, lambda v: v, lambda b, ct, y, v: [ct], lambda b, ts, y, v: ts[0],
    NoRule("variables are not batched"), Control("read"), lambda rng: [], traits=frozenset({"unmerged", "read", "rows"}),
    doc="A variable's value: the version its control inputs order it after, else the value at the run's entry."))


def _assign_infer(name: str) -> Callable[..., Aval]:
    def infer(v: Aval, x: Aval) -> Aval:
        if x.dtype != v.dtype:
            raise DTypeError(f"Input 'value' of '{name}' Op has type {x.dtype.name} that does not match type {v.dtype.name} of argument 'ref'.")
        if len(v.shape) != len(x.shape) or not all(map(may_equal, v.shape, x.shape)):
            raise ShapeError(f"Dimension mismatch: the variable has shape {shape_text(v.shape)}, the value {shape_text(x.shape)}")
        return v
    return infer


_EFFECT = NotDifferentiable("it changes a variable")


def effect_on_variable(name: str, tf_name: str, step: Callable[..., Any], ref: Callable[..., Any],
                       infer: Callable[..., Any] | None = None, doc: str = "") -> OpDef:
    """Define an effect ``(variable, *operands) -> new value`` by its ``step(b, current, *operands)``."""
    return define(OpDef(name, infer or _assign_infer(tf_name), ref, _EFFECT, _EFFECT,
                        NoRule("variables are not batched"), Control("effect"), lambda rng: [],
                        traits=frozenset({"effect", "assign"}), step=step, doc=doc))


assign = effect_on_variable("assign", "Assign", lambda b, v, x: x, lambda v, x: x, doc="Sets a variable; gives the new value.")
assign_add = effect_on_variable("assign_add", "AssignAdd", lambda b, v, x: b.add(v, x), lambda v, x: v + x,
                                doc="Adds to a variable; gives the new value.")
assign_sub = effect_on_variable("assign_sub", "AssignSub", lambda b, v, x: b.sub(v, x), lambda v, x: v - x,
                                doc="Subtracts from a variable; gives the new value.")

is_initialized = define(OpDef(
    "is_initialized", lambda v: Aval((), bool_), lambda v: np.array(True), _EFFECT, _EFFECT, NoRule("variables are not batched"),
    Control("is_initialized"), lambda rng: [], traits=frozenset({"unmerged"}),
    doc="Whether the variable has a value at this point of the run."))


# ---- effects without a variable ------------------------------------------------------------------------------------------------

group = define(OpDef(
    "group", lambda: Aval((), bool_), lambda: np.array(True), _EFFECT, _EFFECT, NoRule("an effect is not batched"),
    Control("group"), lambda rng: [], traits=frozenset({"unmerged"}),
    doc="No value of its own: running it runs its control inputs."))


def _guard_infer(value: Aval, ok: Aval, *, message: str, limit: Size, fill: int) -> Aval:
    if ok.dtype != bool_ or ok.shape != value.shape:
        raise ShapeError(f"the condition of a guard must be bool{shape_text(value.shape)}, got {ok}")
    return value


def _guard_ref(value: Any, ok: Any, *, message: str, limit: Any, fill: int = 0) -> Any:
    from ..errors import InvalidArgumentError
    value, ok = np.asarray(value), np.asarray(ok)
    if not ok.all():
        element = int(np.flatnonzero(~ok.ravel())[0])
        raise InvalidArgumentError(None, None, guard_message(message, element, value.ravel()[element], limit, value.shape))
    return value


def guard_message(message: str, element: int, a: Any, limit: Any, shape: tuple[int, ...]) -> str:
    """The text of a failed guard: ``{i}`` is the element's index, ``{a}`` its value, ``{limit}`` the bound."""
    index = ",".join(map(str, np.unravel_index(element, shape))) if shape else ""
    return message.format(i=index, a=a, limit=limit)


guard = define(OpDef(
    "guard", _guard_infer, _guard_ref, lambda b, ct, y, v, ok, **kw: [ct, None], lambda b, ts, y, v, ok, **kw: ts[0],
    lambda b, size, ins, dims, **kw: _guard_vmap(b, size, ins, dims, **kw),
    Scalar(lambda e, v, ok, **kw: e.guard(v, ok, **kw)),
    lambda rng: [Sample((np.array([1, 2, 0], "i4"), np.array([True, True, True])), {"message": "v[{i}] = {a}", "limit": 3, "fill": 0})],
    ((((i32(2)), b1(3)), {"message": "", "limit": 0, "fill": 0}, "the condition of a guard"),),
    frozenset({"guard", "linear"}),
    "``value`` where ``ok``; elsewhere the run fails with ``message`` and goes on with ``fill``."))


def _guard_vmap(b: Any, size: Size, ins: Any, dims: Any, **kw: Any) -> Any:
    from .helpers import batched
    return b.guard(*[batched(b, x, d, size) for x, d in zip(ins, dims)], **kw), 0


