"""``py_func``: Python functions as operations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import source
from ..dtypes import as_dtype, bool_
from ..ir.aval import Aval
from .funnel import convert, emit
from .shapes import TensorShape
from .sizes import to_sizes


def py_func(func: Callable[..., Any], inp: Sequence[Any], Tout: Any, stateful: bool = True, name: str | None = None, shapes: Any = None) -> Any:
    """Results of ``func(*arrays)`` as tensors of dtypes ``Tout`` (a list gives a list, an empty one an operation); no gradient.

    ``shapes`` (not in TF1) names the results' shapes, one per dtype, all sizes known; without it they are scalars. Errors of a run:
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
        outs = tuple(Aval(tuple(to_sizes(TensorShape(s))), k) for s, k in zip(given, kinds))
        label = name or "PyFunc"
        made = emit("PyFunc", label, [convert(x) for x in inp], lambda b, *ns: b.py_func(*ns, fn=func, outs=outs, name=label))
        results = list(made) if isinstance(made, tuple) else [made]
        return results[0] if single else results
