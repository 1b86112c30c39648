"""The NumPy interpreter: run nodes by their ops' ``ref``. Iterative; values are dropped after their last use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from . import walk
from .aval import TupleAval, measured_in
from .graph import Node, Region
from .substitute import substituted


def evaluate(outputs: Sequence[Node], env: Mapping[Node, Any]) -> list[Any]:
    """Values of ``outputs``, given those of some nodes (placeholders, or any others: nothing above them runs).

    Arrays have the inferred dtypes. Raises what a ``ref`` raises, such as InvalidArgumentError of a guard.
    """
    order = walk.ancestors(outputs, stop=env)
    last: dict[Node, int] = {}
    for k, n in enumerate(order):
        for i in n.inputs:
            last[i] = k
    keep = set(outputs)
    values: dict[Node, Any] = {}
    sizes: dict[str, int] = {}               # measured ones
    with np.errstate(all="ignore"):
        for k, n in enumerate(order):
            values[n] = env[n] if n in env else _run(n, [values[i] for i in n.inputs], sizes)
            if "measure" in n.op.traits:
                sizes.update(dict.fromkeys(measured_in(n.attr("size")), int(values[n])))
            for i in n.inputs:
                if last[i] == k and i not in keep:
                    values.pop(i, None)
    return [values[o] for o in outputs]


def _run(n: Node, ins: Sequence[Any], sizes: Mapping[str, int]) -> Any:
    attrs = {k: substituted(v, sizes) for k, v in n.attrs} if sizes else n.kw
    result = n.op.ref(*ins, **attrs)
    if isinstance(n.aval, TupleAval):
        return tuple(_cast(r, a) for r, a in zip(result, n.aval.elements))
    return _cast(result, n.aval)


def _cast(value: Any, aval: Any) -> Any:
    # strides stay as they are, as in the define-by-run mode: the order of NumPy's sums depends on them, and the bits of both modes are the same
    return np.asarray(value, aval.dtype.np)


def evaluate_region(region: Region, args: Sequence[Any]) -> list[Any]:
    """A region's results for values of its parameters."""
    return evaluate(region.results, dict(zip(region.params, args)))
