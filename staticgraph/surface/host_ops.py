"""``py_func``: Python functions as operations.

Only the function's arrays have shapes. Without a word of ``set_shape`` (or ``shapes=``) a result is of unknown rank, with one whose sizes are not all
known it has open sizes: both as of a placeholder, see ``deferred``. Inside of a branch or a loop, which is a program of its own, ranks must be known:
scalars, or what ``set_shape`` says right after the call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import source
from ..dtypes import DType, as_dtype, bool_
from ..ops.host import results
from .deferred import Ranks, busy, pattern_of
from .funnel import convert, emit, graph_of, op_scope
from .shapes import TensorShape, shape_of
from .tensor import Operation, Tensor


class _Function:
    """The Python function of one operation: one object for each, so that a run can tell their calls apart. ``roots`` are its results of unknown shape."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.roots: tuple[Tensor, ...] = ()

    def __call__(self, *arrays: Any) -> Any:
        return self.function(*arrays)


def py_func(func: Callable[..., Any], inp: Sequence[Any], Tout: Any, stateful: bool = True, name: str | None = None, shapes: Any = None) -> Any:
    """Results of ``func(*arrays)`` as tensors of dtypes ``Tout`` (a list gives a list, an empty one an operation); no gradient.

    Their shapes are unknown until a run, or what ``set_shape`` says; ``shapes`` (not in TF1) names them here, one per dtype. In a branch or a loop results
    are scalars without that. A run calls the function once. Errors of a run: UnknownError with the text of what ``func`` raised; InvalidArgumentError
    where it returns another dtype, or not the shape that was declared.
    """
    with source.hide_own_frames():
        single = not isinstance(Tout, (list, tuple))
        kinds = [as_dtype(t) for t in ([Tout] if single else Tout)]
        if not kinds:                        # an operation: its one result is that it ran
            def ran(*arrays: Any) -> Any:
                func(*arrays)
                return np.True_
            return py_func(ran, inp, bool_, stateful, name, shapes=[]).op
        given = None if shapes is None else [shapes] if single and (not shapes or not isinstance(shapes[0], (list, tuple))) else list(shapes)
        if given is not None and len(given) != len(kinds):
            raise ValueError(f"py_func has {len(kinds)} results, but {len(given)} shapes were given")
        declared = [TensorShape(None)] * len(kinds) if given is None else [TensorShape(s) for s in given]
        with op_scope(name, "PyFunc", *inp) as label:
            ins = [convert(x, name=f"input_{k}") for k, x in enumerate(inp)]
            made = _made(_Function(func), label, name or "PyFunc", ins, kinds, declared)
        return made[0] if single else made


def _made(function: _Function, label: str, called: str, ins: list[Tensor], kinds: list[DType], declared: list[TensorShape]) -> list[Tensor]:
    g = graph_of(ins)
    apart = not all(s.is_fully_defined() for s in declared) and all(i.__class__ is Tensor for i in ins) and not busy(g)

    def run() -> Any:
        now = [pattern_of(t) for t in function.roots] or [() if s.ndims is None else s.as_list() for s in declared]
        return emit("PyFunc", label, ins, lambda b, *ns: results(b, ns, function, kinds, now, called, ones=not apart))
    if not apart:
        made = run()
        outs: list[Tensor] = list(made) if isinstance(made, tuple) else [made]
        for k, t in enumerate(outs if any(s.ndims is None for s in declared) else ()):
            t._give_shape = lambda shape, k=k: _rebuilt(outs[0].op, function, called, kinds, declared, k, shape)
        return outs
    g.ranks = g.ranks or Ranks(g)
    function.roots = tuple(g.ranks.call(run, opens=True))
    for t, s in zip(function.roots, declared):
        if s.ndims is not None:
            t.set_shape(s)
    return list(function.roots)


def _rebuilt(op: Operation, function: _Function, called: str, kinds: list[DType], declared: list[TensorShape], index: int, shape: TensorShape) -> None:
    """``set_shape`` in a branch or a loop, before anything uses the results: the call is made again for it. ValueError where something does."""
    if any(t._consumers for t in op.outputs):
        raise ValueError(f"set_shape comes too late for {op.outputs[index].name}: its results are used already. Call it right after py_func, or give shapes=[...]")
    declared[index] = declared[index].merge_with(shape)
    b = op.graph.builder
    with b.at(op.site):
        made = results(b, [t.node for t in op.inputs], function, kinds, [() if s.ndims is None else s.as_list() for s in declared], called)
    for t, n in zip(op.outputs, made):
        t._node, t._shape = n, shape_of(n.shape)
