"""``py_func``: Python functions as operations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import source
from ..dtypes import as_dtype, bool_
from ..ir.aval import Aval
from .funnel import convert, emit, op_scope
from .shapes import TensorShape, shape_of
from .sizes import to_sizes
from .tensor import Operation, Tensor


def py_func(func: Callable[..., Any], inp: Sequence[Any], Tout: Any, stateful: bool = True, name: str | None = None, shapes: Any = None) -> Any:
    """Results of ``func(*arrays)`` as tensors of dtypes ``Tout`` (a list gives a list, an empty one an operation); no gradient.

    ``shapes`` (not in TF1) names the results' shapes, one per dtype, all sizes known; without it they are scalars, or what ``set_shape`` says
    before anything uses them. Errors of a run:
    UnknownError with the text of what ``func`` raised; InvalidArgumentError where it returns another dtype or shape.
    """
    with source.hide_own_frames():
        single = not isinstance(Tout, (list, tuple))
        kinds = [as_dtype(t) for t in ([Tout] if single else Tout)]
        if not kinds:                        # an operation: its one result is that it ran
            def ran(*arrays: Any) -> Any:
                func(*arrays)
                return np.True_
            return py_func(ran, inp, bool_, stateful, name).op
        given = [[]] * len(kinds) if shapes is None else [shapes] if single and (not shapes or not isinstance(shapes[0], (list, tuple))) else list(shapes)
        if len(given) != len(kinds):
            raise ValueError(f"py_func has {len(kinds)} results, but {len(given)} shapes were given")
        if not all(TensorShape(s).is_fully_defined() for s in given):
            raise ValueError(f"py_func needs all sizes of its results, got {given}")
        shapes_now = [TensorShape(s) for s in given]
        with op_scope(name, "PyFunc", *inp) as label:
            ins = [convert(x, name=f"input_{k}") for k, x in enumerate(inp)]
            called = name or "PyFunc"

            def build(b: Any, *ns: Any) -> Any:
                return b.py_func(*ns, fn=func, outs=tuple(Aval(tuple(to_sizes(s)), k) for s, k in zip(shapes_now, kinds)), name=called)
            made = emit("PyFunc", label, ins, build)
        results: list[Tensor] = list(made) if isinstance(made, tuple) else [made]
        if shapes is None:
            op = results[0].op
            for k, t in enumerate(results):
                t._give_shape = lambda shape, k=k: _rebuilt(op, build, shapes_now, k, shape)
        return results[0] if single else results


def _rebuilt(op: Operation, build: Callable[..., Any], shapes: list[TensorShape], index: int, shape: TensorShape) -> None:
    """``set_shape`` on a result that was not given one, before anything uses the results: the call is made again for it.

    ValueError where something does, or where not all sizes are known.
    """
    if not shape.is_fully_defined():
        raise ValueError(f"py_func needs all sizes of its results, got {shape}")
    if any(t._consumers for t in op.outputs):
        raise ValueError(f"set_shape comes too late for {op.outputs[index].name}: its results are used already. Call it right after py_func, or give shapes=[...]")
    shapes[index] = shape
    b = op.graph.builder
    with b.at(op.site):
        made = build(b, *(t.node for t in op.inputs))
    for t, n in zip(op.outputs, made):
        t._node, t._shape = n, shape_of(n.shape)
