"""Changes in place, and views: who shares memory, what a change does to the history of each, what is refused.

A tensor that is changed gets the change as its new ``grad_fn``. Where it is a view, its base gets ``CopySlices`` and every view works its history
out again when it is next asked for (their shared counter has moved on).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import source
from ..dtypes import as_dtype
from ..errors import DTypeError
from ..ir.builder import to_array
from ..ir.opdef import OPS, OpDef
from ..source import Site
from .compute import describe, edge_of, evaluate, keep
from .modes import STATE
from .plans import Signature, dtype_of, signature
from .tape import AutogradError, CopySlices, FitError, GradFn, OpFn, Overwrite, clock


class View:
    """A result that shares its operand's memory: ``chain`` are the signatures from the base, ``version`` that of the history it knows."""

    __slots__ = ("base", "chain", "recorded", "version")

    def __init__(self, base: Any, chain: tuple[Signature, ...], version: int, recorded: bool) -> None:
        self.base, self.chain, self.version, self.recorded = base, chain, version, recorded


def follow(t: Any, v: View) -> None:
    """The history of view ``t`` after its base, or another view of it, has changed: its chain again, from the base's history now."""
    v.version = t._counter.version
    if not v.recorded or not v.base._requires_grad or not t.dtype.is_floating:
        return
    edge, fn = edge_of(v.base), None
    for sig in v.chain:
        fn = OpFn.__new__(OpFn)
        fn.order, fn.sig, fn.outs, fn.site, fn.edges = -next(clock), sig, sig.outs, source.UNKNOWN, (edge,)
        fn.plan = sig.pull((True,))
        edge = fn, 0
    _settle(t, fn, 0)


def _settle(t: Any, fn: GradFn | None, index: int) -> None:
    """``fn`` is the history of ``t`` from now on; where ``t`` retains its gradient, that of its new value."""
    if t._retains and t._grad_fn is not None:
        (t._grad_fn.retained or {}).pop(t._index, None)
        if fn is not None:
            fn.retained = {**(fn.retained or {}), index: t}
    t._grad_fn, t._index, t._requires_grad = fn, index, True


def refuse(t: Any, name: str) -> None:
    """AutogradError where a change in place of ``t`` cannot be recorded."""
    if not STATE.enabled:
        return
    v = t._view
    error = None
    if t.requires_grad and t._grad_fn is None:
        error = AutogradError(f"a leaf Variable that requires grad is being used in an in-place operation: {name} would change a value that gradients "
                              "are asked of")
        source.add_note(error, "hint: update it inside `with no_grad():`, or compute a new tensor")
    elif v is not None and v.base._requires_grad:
        if not v.recorded:
            error = AutogradError("A view was created in no_grad mode and is being modified inplace with grad mode enabled: make the view, or the change, "
                                  "in the other mode; or clone() it")
        elif v.base._grad_fn is None:
            error = AutogradError(f"a view of a leaf Variable that requires grad is being used in an in-place operation: {name} would change the leaf")
            source.add_note(error, "hint: update it inside `with no_grad():`, or change a clone() of the leaf")
    if error is not None:
        raise error


def change(b: Any, t: Any, name: str, op: OpDef, others: Sequence[Any], attrs: dict[str, Any]) -> Any:
    """``t = op(t, *others)`` in t's own memory. FitError where the result does not fit it."""
    refuse(t, name)
    operands = b.operands(op, (t, *others))
    arrays = [o._array for o in operands]
    sig = signature(op, arrays, attrs, source.capture)
    out = sig.outs[0]
    if out.shape != t.shape:
        raise FitError(f"{name}: output with shape {list(t.shape)} doesn't match the broadcast shape {list(out.shape)}")
    if out.dtype != t.dtype:
        raise DTypeError(f"{name}: result type {out.dtype.name} can't be cast to the tensor's type {t.dtype.name}")
    fn: OpFn | None = None
    old = None
    if STATE.enabled and sig.differentiable and any(o.requires_grad for o in operands):
        fn = describe(sig, operands)
        # the rule may read what is about to be overwritten, here or through another operand that shares the memory
        if any(k >= 0 and np.may_share_memory(arrays[k], t._array) for k in fn.plan.kept):
            old = t._array.copy(order="K")
            operands = tuple(b.tensor_type._wrap(old) if o is t else o for o in operands)
    result = evaluate(sig, arrays)
    site = fn.site if fn is not None else source.capture()
    write(t, result, name, site)
    if fn is not None:
        keep(fn, operands, (t,))
        rebase(t, fn)
    return t


def write(t: Any, values: Any, name: str, site: Site) -> None:
    """Values into the memory of ``t``."""
    if not t._array.flags.writeable:
        raise AutogradError(f"{name}: the memory of this tensor is read-only (it was made from a read-only array); clone() it")
    t._array[...] = values
    t.counter.bump(name, site)


def rebase(t: Any, fn: GradFn) -> None:
    """``fn`` (operand 0: the old value) is how ``t`` came about from now on."""
    v = t._view
    if v is None:
        _settle(t, fn, 0)
        return
    base = v.base
    _settle(base, CopySlices(edge_of(base), base.aval, v.chain, fn, fn.site), 0)
    follow(t, v)


def overwrite(b: Any, t: Any, name: str, value: Any) -> Any:
    """New values for all of ``t``: broadcast, and cast to its dtype."""
    refuse(t, name)
    tensor_type = b.tensor_type
    source_ = value if isinstance(value, tensor_type) else None
    array = source_._array if source_ is not None else _values(b, t, value)
    try:
        spread = np.broadcast_to(array, t.shape)
    except ValueError:
        raise FitError(f"{name}: The expanded size of the tensor {list(t.shape)} must match the existing size {list(np.shape(array))}") from None
    fn = None
    if STATE.enabled and t.dtype.is_floating and (t.requires_grad or (source_ is not None and source_.requires_grad)):
        from_source = source_ is not None and source_.dtype.is_floating
        fn = Overwrite(name, (edge_of(t), edge_of(source_) if from_source else None), t.aval, source_.aval if source_ is not None else None, source.capture())
    if spread.dtype != t._array.dtype:
        cast = signature(OPS["cast"], [array], {"dtype": dtype_of(t._array)}, source.capture)
        spread = np.broadcast_to(evaluate(cast, [array]), t.shape)
    if np.may_share_memory(spread, t._array):
        spread = spread.copy()
    write(t, spread, name, fn.site if fn is not None else source.capture())
    if fn is not None:
        rebase(t, fn)
    return t


def _values(b: Any, t: Any, value: Any) -> Any:
    if hasattr(value, "_as_graph_element") or hasattr(value, "_as_tensor"):
        b.const(value)
    return to_array(value, as_dtype(t._array.dtype)) if not isinstance(value, np.ndarray) else value
