"""Python functions inside graphs: they run between native segments, also within loops, under the GIL."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import InvalidArgumentError
from ..ir.aval import Aval, TupleAval
from ..ir.opdef import Host, NoRule, NotDifferentiable, OpDef, define

_SPELLED = {"float32": "float", "float64": "double"}


def _call(*arrays: Any, fn: Callable[..., Any], outs: tuple[Aval, ...], name: str) -> tuple[Any, ...]:
    """What ``fn`` gives for the arrays; InvalidArgumentError where that is not what was declared."""
    got = fn(*arrays)
    values = [] if got is None else list(got) if isinstance(got, (list, tuple)) and not (len(outs) == 1 and len(got) != 1) else [got]
    if not outs:
        return ()
    if len(values) != len(outs):
        raise InvalidArgumentError(None, None, f"{name} returns {len(values)} values, but expects to see {len(outs)} values.")
    results = []
    for k, (value, aval) in enumerate(zip(values, outs)):
        array = np.asarray(value)
        if array.dtype != aval.dtype.np:
            found, want = (_SPELLED.get(n, n) for n in (array.dtype.name, aval.dtype.name))
            raise InvalidArgumentError(None, None, f"{k}-th value returned by {name} is {found}, but expects {want}")
        if array.ndim != len(aval.shape) or any(isinstance(d, int) and d != s for d, s in zip(aval.shape, array.shape)):
            raise InvalidArgumentError(None, None, f"{k}-th value returned by {name} has shape {list(array.shape)}, but {list(aval.shape)} was declared: "
                                                   "name the shapes of the results with shapes=[...]")
        results.append(array)
    return tuple(results)


py_func = define(OpDef(
    "py_func", lambda *xs, fn, outs, name: TupleAval(tuple(outs)), _call, NotDifferentiable("a Python function has no rule"),
    NotDifferentiable("a Python function has no rule"), NoRule("a Python function is not batched"), Host(_call), lambda rng: [],
    traits=frozenset({"effect", "unmerged"}),
    doc="Results of a Python function, called with arrays at each run, in the order of creation; no gradient."))
