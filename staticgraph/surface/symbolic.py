"""What Python asks of a symbolic tensor that has no value yet: ``if t:``, ``float(t)``, ``np.sin(t)``, ``t[0] = 1``.

Each refusal names the user's line, where the tensor was made, and what to write instead.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from .. import source
from ..errors import OperatorNotAllowedInGraphError
from .tensor import OPERATORS, Tensor


class SymbolicValueError(OperatorNotAllowedInGraphError, NotImplementedError):
    """NumPy asked a symbolic tensor for its elements (NotImplementedError in TF1)."""


def refuse(t: Any, what: str, remedy: str, kind: type[Exception] = OperatorNotAllowedInGraphError) -> Exception:
    """The error: ``what`` is refused, the tensor has no value, the remedy; notes name the lines."""
    t = t._as_tensor() if hasattr(t, "_as_tensor") else t
    here, traced = _outside_numpy(source.capture()), getattr(t.graph, "traced", None)
    why = f"{t.name} has no value while the graph is built"
    if traced is not None and t.graph.finalized:
        why = f"{t.name} is a leaked value of {traced}, whose trace has ended: return it from the function to see its value"
    error = kind(f"{what}: {why}. {remedy}")
    error.site = here                        # type: ignore[attr-defined]
    source.add_note(error, f"asked for at {here.describe()}")
    if t.op.site is not None:
        source.add_note(error, f"{t.name} was made at {t.op.site.describe()}")
    return error


def _outside_numpy(site: source.Site) -> source.Site:
    """The line that called NumPy, where NumPy asked."""
    frames = site.frames
    while len(frames) > 1 and os.sep + "numpy" + os.sep in frames[0][0].co_filename:
        frames = frames[1:]
    return source.Site(frames, site.scope)


def name_leaked(error: BaseException, values: Sequence[Any]) -> None:
    """Note where the values of an ended trace among ``values`` were made."""
    for t in values:
        if isinstance(t, Tensor) and t.graph is not None and t.graph.traced is not None and not getattr(error, "__notes__", ()):
            source.add_note(error, f"used at {source.capture().describe()}")
            source.add_note(error, f"{t.name} was made at {t.op.site.describe()}")


def _bool(self: Any) -> bool:
    with source.hide_own_frames():
        raise refuse(self, "using a `tf.Tensor` as a Python `bool` is not allowed",
                     "Use sg.cond for a branch, sg.where for a choice by element, sg.while_loop for a loop.")


def _iter(self: Any) -> Iterator[Any]:
    with source.hide_own_frames():
        count = _traced_size(self)
        if count is None:
            raise refuse(self, "iterating over `tf.Tensor` is not allowed", "Use sg.unstack for a size that is known while building, sg.map_fn or sg.scan for any.")
        return iter([self[k] for k in range(count)])


def _len(self: Any) -> int:
    with source.hide_own_frames():
        count = _traced_size(self)
        if count is None:
            raise refuse(self, "len is not well defined for symbolic Tensors", "Use t.shape[0] where it is known while building, sg.shape(t)[0] for the run's size.", TypeError)
        return count


def _traced_size(t: Any) -> int | None:
    """In a function that is being traced, the first size if it is known: the trace is for these sizes."""
    shape = t.node.shape
    return shape[0] if getattr(t.graph, "traced", None) is not None and shape and isinstance(shape[0], int) else None


def _number(kind: str) -> Any:
    def method(self: Any, *_: Any) -> Any:
        with source.hide_own_frames():
            raise refuse(self, f"{kind}() of a symbolic tensor", f"Compute with the tensor itself (sg.sin for math.sin, sg.cast for another dtype), or return it and use {kind}() on "
                         "the result.", TypeError)
    return method


def _index(self: Any) -> int:
    with source.hide_own_frames():
        raise refuse(self, "range(), an index of a Python list or a size needs an int", "Use sg.range, sg.gather, or sg.while_loop; a size that is known while building is t.shape[k].", TypeError)


def _array(self: Any, *_: Any, **__: Any) -> Any:
    with source.hide_own_frames():
        raise refuse(self, f"Cannot convert a symbolic Tensor ({self.name}) to a numpy array", "Use the function of staticgraph of the same meaning; NumPy needs values.", SymbolicValueError)


# NumPy's name -> Python's operator, for array + t and np.float64(2) * t
_OPERATORS = {"add": "add", "subtract": "sub", "multiply": "mul", "true_divide": "truediv", "divide": "truediv", "floor_divide": "floordiv", "remainder": "mod", "power": "pow",
              "matmul": "matmul", "bitwise_and": "and", "bitwise_or": "or", "bitwise_xor": "xor"}
_SWAPPED = {"less": "__gt__", "less_equal": "__ge__", "greater": "__lt__", "greater_equal": "__le__"}
_NAMES = {"arcsin": "asin", "arccos": "acos", "arctan": "atan", "arctan2": "atan2", "arcsinh": "asinh", "arccosh": "acosh", "arctanh": "atanh", "absolute": "abs",
          "isnan": "is_nan", "isinf": "is_inf", "isfinite": "is_finite"}
_REDUCTIONS = {"add": "sum", "multiply": "prod", "maximum": "max", "minimum": "min", "logical_and": "all", "logical_or": "any"}


def _ufunc(self: Any, ufunc: Any, method: str, *inputs: Any, **kw: Any) -> Any:
    """``array + t`` is ``t.__radd__(array)``; a NumPy function of a tensor is refused, naming ours."""
    name = ufunc.__name__
    if method == "__call__" and not kw and len(inputs) == 2 and inputs[1] is self:
        other = inputs[0]
        if name in _OPERATORS:
            return OPERATORS[f"__r{_OPERATORS[name]}__"](self, other)
        if name in _SWAPPED:
            return OPERATORS[_SWAPPED[name]](self, other)
        if name in ("equal", "not_equal"):
            return self.__eq__(other) if name == "equal" else self.__ne__(other)
    import staticgraph
    what, ours = f"np.{name}", _NAMES.get(name, name)
    if method != "__call__":
        reduced = _REDUCTIONS.get(name, name) if method == "reduce" else f"{name}.{method}"
        what, ours = f"np.{reduced}", f"reduce_{reduced}"
    known = f"Use sg.{ours} for {what}" if hasattr(staticgraph, ours) else "Use the function of staticgraph of the same meaning"
    with source.hide_own_frames():
        raise refuse(self, f"Cannot convert a symbolic Tensor ({self.name}) to a numpy array, which {what} needs", f"{known}: it builds the operation here, and computes at once on define-by-run tensors.", SymbolicValueError)


def _setitem(self: Any, index: Any, value: Any) -> None:
    with source.hide_own_frames():
        raise refuse(self, "'Tensor' object does not support item assignment", "A tensor is a value: make a new one, with sg.where(mask, new, old) or sg.concat of the parts; state "
                     "belongs in an sg.Variable.", TypeError)


def _same(self: Any, other: Any) -> Any:
    return self is other if not _by_elements(self, other) else OPERATORS["__eq_elements__"](self, other)


def _other(self: Any, other: Any) -> Any:
    return self is not other if not _by_elements(self, other) else OPERATORS["__ne_elements__"](self, other)


def _by_elements(self: Any, other: Any) -> bool:
    """In a traced function ``==`` compares elements, as it does define-by-run; in a TF1 graph, and for our own code, it is identity."""
    if getattr(self.graph, "traced", None) is None or other is None or isinstance(other, (str, bytes, type)):
        return False
    return not source.is_own_file(sys._getframe(2).f_code.co_filename)


def refuse_values(cls: Any) -> None:
    """Give a class of symbolic tensors these answers."""
    cls.__bool__ = cls.__nonzero__ = _bool
    cls.__len__, cls.__setitem__ = _len, _setitem
    cls.__float__, cls.__int__, cls.__complex__ = _number("float"), _number("int"), _number("complex")
    cls.__index__ = _index
    cls.__array__, cls.__array_ufunc__ = _array, _ufunc


refuse_values(Tensor)
_tensor: Any = Tensor
_tensor.__iter__, _tensor.__eq__, _tensor.__ne__, _tensor.__hash__ = _iter, _same, _other, object.__hash__
