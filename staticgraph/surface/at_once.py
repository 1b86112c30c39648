"""Control flow on define-by-run tensors: it computes at once, as Python's own does, so that one source serves both modes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..errors import DTypeError, InvalidArgumentError
from . import nest
from .funnel import dynamic, is_dynamic


def is_now(*trees: Any) -> bool:
    """Whether a define-by-run tensor is among the leaves."""
    return any(is_dynamic(nest.flatten(t)) for t in trees)


def truth(value: Any, what: str) -> bool:
    """The value of a scalar bool. DTypeError for anything else."""
    if getattr(value, "dtype", None) is not None and (value.dtype.name != "bool" or tuple(value.shape)):
        raise DTypeError(f"{what} must be a scalar bool tensor, got {value.dtype.name}{list(value.shape)}")
    return bool(value)


def branch(pred: Any, true_fn: Callable[[], Any], false_fn: Callable[[], Any], strict: bool) -> Any:
    """``cond``: only the chosen function is called."""
    chosen = truth(pred, "pred")
    out = (true_fn if chosen else false_fn)()
    if out is None:
        raise ValueError(f"{'true_fn' if chosen else 'false_fn'} must have a return value.")
    return out[0] if isinstance(out, (list, tuple)) and len(out) == 1 and not strict else out


def choose(pairs: Any, default: Any, exclusive: bool, strict: bool) -> Any:
    """``case``: the function of the first predicate that holds is called."""
    holding = [f for p, f in pairs if truth(p, "pred")]
    if exclusive and len(holding) > 1:
        raise InvalidArgumentError(None, None, "Input error: exclusive=True: more than 1 conditions evaluated as True")
    if not holding and default is None:
        raise InvalidArgumentError(None, None, "Input error: None of conditions evaluated as True")
    out = (holding[0] if holding else default)()
    return out[0] if isinstance(out, (list, tuple)) and len(out) == 1 and not strict else out


def loop(cond: Callable[..., Any], body: Callable[..., Any], loop_vars: Any, maximum: Any) -> Any:
    """``while_loop``: as many trips as ``cond`` says, at most ``maximum``."""
    variables, trips = nest.map_leaves(_tensor, loop_vars), 0
    count = len(nest.flatten(variables))

    def call(f: Callable[..., Any]) -> Any:
        return f(*variables) if isinstance(variables, (list, tuple)) else f(variables)
    while (maximum is None or trips < int(maximum)) and truth(call(cond), "the condition of a loop"):
        leaves = nest.flatten(call(body))
        if len(leaves) != count:
            raise ValueError(f"The number of loop variables differs: {count} enter the loop and the body returns {len(leaves)}")
        variables, trips = nest.pack(loop_vars, [_tensor(x) for x in leaves]), trips + 1
    return variables[0] if isinstance(variables, (list, tuple)) and len(variables) == 1 else variables


def rows(fn: Callable[..., Any], elems: Any, initializer: Any, reverse: bool, collect: bool) -> Any:
    """The loop of ``scan``, ``map_fn`` and folds: results of every row, stacked, or the last accumulator."""
    elems, acc = nest.map_leaves(_tensor, elems), None if initializer is None else nest.map_leaves(_tensor, initializer)
    count = len(nest.flatten(elems)[0])
    kept: list[Any] = [None] * count
    for k in reversed(range(count)) if reverse else range(count):
        row = nest.map_leaves(lambda e, k=k: e[k], elems)
        kept[k] = fn(row) if acc is None else fn(acc, row)
        acc = acc if initializer is None else kept[k]
    if not collect:
        return acc
    if not kept:
        raise ValueError("a loop over no rows has no results to take shapes from; give the static mode this case, or at least one row")
    return nest.pack(kept[0], [dynamic("stack", *parts, axis=0) for parts in zip(*map(nest.flatten, kept))])


def _tensor(value: Any) -> Any:
    # numbers and arrays become what a graph would make of them
    from ..dynamic import tensor
    from ..ir.builder import to_array
    return value if is_dynamic((value,)) else tensor(to_array(value))
