"""Shapes given as tensors: a small partial evaluator from IR nodes to sizes.

``reshape(x, [tf.shape(x)[0], 2, 2])`` is shape arithmetic: constants, ``sizes``, and moves, sums and products of them are evaluated while
building, so the result is a tuple of ints and expressions. A number that only the run knows becomes a measured size (``ops.measure``).
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import source
from ..errors import ShapeError
from ..ir.aval import Size
from ..ir.graph import Node
from ..ops import elementwise as ew
from ..ops import logic, shape, state
from .ledger import get_default_graph
from .shapes import TensorShape, to_sizes
from .tensor import Tensor


def sizes_from(value: Any, what: str = "shape") -> tuple[Size, ...]:
    """A tuple of sizes from a shape given as ints, None, dimensions, tensors or a mix (-1 stays -1)."""
    if hasattr(value, "_as_tensor"):
        value = value._as_tensor()
    if isinstance(value, Tensor):
        if value.graph is not get_default_graph():
            raise ValueError(f"{value} must be from the same graph as what it is the {what} of.")
        found = known(value.node)
        if found is None:
            return _measured(value, what)
        return tuple(_item(v) for v in np.asarray(found, object).reshape(-1)) if value.node.shape else (_item(found.item() if isinstance(found, np.ndarray) else found),)
    if isinstance(value, (TensorShape,)):
        return to_sizes(value)
    if isinstance(value, np.ndarray):
        return tuple(int(v) for v in value.reshape(-1))
    if isinstance(value, (list, tuple)):
        return tuple(_one(v, what) for v in value)
    return (_one(value, what),)


def _measured(value: Tensor, what: str) -> tuple[Size, ...]:
    """Sizes of which at least one is only known when the graph runs."""
    node = value.node
    if node.dtype.kind not in "iu" or len(node.shape) > 1 or not node.aval.is_static:
        raise ShapeError(f"the {what} {value} must be an integer or a vector of a known number of integers")
    b: Any = value.graph.builder
    while not b.owns(node) and b.outer is not None:
        b = b.outer                          # measured where it is made, so that what is inside and after both know it
    with b.at(b.site or source.capture(value.graph._scope)):
        parts = _parts(b, node)
        return tuple(_size_of(b, p) for p in parts)


def _parts(b: Any, n: Node) -> list[Node]:
    """The elements of an integer scalar or vector as scalar nodes: those it was packed from, where it was."""
    if not n.shape:
        return [n]
    if n.op is shape.stack:
        return list(n.inputs)
    if n.op is shape.concat:
        return [p for i in n.inputs for p in _parts(b, i)]
    if n.op is logic.cast or n.op is state.identity:
        return _parts(b, n.inputs[0])
    return [b.reshape(b.slice(n, starts=(k,), sizes=(1,), steps=(1,)), shape=()) for k in range(n.shape[0])]


def _size_of(b: Any, n: Node) -> Size:
    from ..ops.measure import size_of
    found = known(n)
    if found is not None:
        return _item(found.item())
    if ("size", n) not in b.graph.memo:
        b.graph.memo["size", n] = size_of(b, n)
    result: Size = b.graph.memo["size", n]
    return result


def _one(v: Any, what: str) -> Size:
    if isinstance(v, Tensor) or hasattr(v, "_as_tensor"):
        got = sizes_from(v, what)
        return got[0]
    if isinstance(v, (int, np.integer)) and not isinstance(v, bool):
        return int(v)
    return to_sizes([v])[0]


def _item(v: Any) -> Size:
    return int(v) if isinstance(v, (int, np.integer, np.generic)) else v


_READ_WHILE_BUILDING: weakref.WeakSet[Node] = weakref.WeakSet()


def contradicts(n: Node, value: np.ndarray[Any, Any]) -> bool:
    """Whether the graph was built with another value of the node, which a run can no longer replace."""
    return n in _READ_WHILE_BUILDING and not np.array_equal(_known(n), value)     # type: ignore[arg-type]


def known(n: Node) -> np.ndarray[Any, Any] | None:
    """The value of an integer node as an object array of ints and size expressions, or None."""
    found = _known(n)
    if found is not None:
        _READ_WHILE_BUILDING.add(n)
    return found


def _known(n: Node) -> np.ndarray[Any, Any] | None:
    if n.op is state.const:
        a = n.attr("value").array
        return a.astype(object) if a.dtype.kind in "iub" else None
    if n.op is state.sizes:
        out = np.empty(len(n.attr("sizes")), object)
        out[:] = list(n.attr("sizes"))
        return out
    rule = _RULES.get(n.op)
    if rule is None:
        return None
    ins = [known(i) for i in n.inputs]
    if any(i is None for i in ins):
        return None
    try:
        return rule(n, *ins)
    except (TypeError, ZeroDivisionError):
        return None


def _elementwise(f: Any) -> Any:
    def rule(n: Node, *ins: Any) -> Any:
        wide = np.broadcast_arrays(*ins)
        out = np.empty(wide[0].shape, object)
        for k in np.ndindex(out.shape):
            out[k] = f(*[w[k] for w in wide])
        return out
    return rule


def _reduced(f: Any) -> Any:
    def rule(n: Node, x: Any) -> Any:
        total: Any = None
        for v in x.reshape(-1):
            total = v if total is None else f(total, v)
        out = np.empty((), object)
        out[()] = total
        return out.reshape(n.shape) if n.aval.size == 1 else None
    return rule


def _minimum(x: Any, y: Any) -> Any:
    if isinstance(x, int) and isinstance(y, int):
        return min(x, y)
    raise TypeError


def _rules() -> dict[Any, Any]:
    from ..ir.aval import maximum
    from ..ops import index, reduce
    return {
        shape.reshape: lambda n, x: x.reshape(n.shape), shape.transpose: lambda n, x: x.transpose(n.attr("perm")),
        shape.slice_: lambda n, x: x[tuple(slice(a, a + c * s if a + c * s >= 0 else None, s) for a, c, s in zip(n.attr("starts"), n.attr("sizes"), n.attr("steps")))],
        shape.expand_dims: lambda n, x: x.reshape(n.shape), shape.squeeze: lambda n, x: x.reshape(n.shape),
        shape.concat: lambda n, *xs: np.concatenate(xs, n.attr("axis")), shape.stack: lambda n, *xs: np.stack(xs, n.attr("axis")),
        shape.broadcast_to: lambda n, x: np.broadcast_to(x, n.shape), shape.reverse: lambda n, x: np.flip(x, n.attr("axis")),
        logic.cast: lambda n, x: x if n.dtype.kind in "iu" else None, state.identity: lambda n, x: x, state.stop_gradient: lambda n, x: x,
        ew.add: _elementwise(lambda x, y: x + y), ew.sub: _elementwise(lambda x, y: x - y), ew.mul: _elementwise(lambda x, y: x * y),
        ew.floordiv: _elementwise(lambda x, y: x // y), ew.truncdiv: _elementwise(lambda x, y: x // y), ew.neg: _elementwise(lambda x: -x),
        ew.maximum: _elementwise(maximum), ew.minimum: _elementwise(_minimum),
        reduce.sum_: _reduced(lambda x, y: x + y), reduce.prod: _reduced(lambda x, y: x * y),
        index.take: lambda n, x, i: np.take(x, i.astype(np.int64), axis=n.attr("axis")), index.gather: lambda n, x, i: np.take(x, i.astype(np.int64), axis=n.attr("axis")),
    }


_RULES = _rules()


def static_int(value: Any, what: str) -> int:
    """An int from an int or a constant tensor. ShapeError where it is not known while building."""
    if isinstance(value, (int, np.integer)):
        return int(value)
    got: Sequence[Size] = sizes_from(value, what)
    if len(got) != 1 or not isinstance(got[0], int):
        raise ShapeError(f"{what} must be known while building, got {value}")
    return got[0]


def static_axes(value: Any, what: str = "axis") -> Any:
    """None, an int or a tuple of ints."""
    if value is None:
        return None
    if isinstance(value, (list, tuple, range)):
        return tuple(static_int(v, what) for v in value)
    if isinstance(value, np.ndarray) or (isinstance(value, Tensor) and value.node.shape):
        got = sizes_from(value, what)
        return tuple(static_int(v, what) for v in got)
    return static_int(value, what)


def one_of(new: str, value: Any, **old: Any) -> Any:
    """The value of an argument that has older names too (None: not given). ValueError where it is given twice."""
    for k, v in old.items():
        if v is not None:
            if value is not None:
                raise ValueError(f"Cannot specify both '{k}' and '{new}'")
            value = v
    return value
