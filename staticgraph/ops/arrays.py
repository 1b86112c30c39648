"""Arrays of elements that a run writes and reads one by one: what may be done to an element is found while running.

The elements are rows of a buffer (``index.take`` and ``index.rows_set``). Beside it stands a count per element, a state of the run that every
handle of the array shares: all zero where the run starts, and changed in the program's order like a variable.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..dtypes import int8
from ..errors import DTypeError, InvalidArgumentError
from ..ir.aval import Aval
from ..ir.opdef import Control, NoRule, NotDifferentiable, OpDef, define
from .helpers import aval_of, f32, i32

_LEAF = NotDifferentiable("it is a leaf")
_INDEX = NotDifferentiable("an index has no derivative")


def _never(*, aval: Aval, uid: Any) -> Any:
    raise AssertionError("a run's state has no value of its own")


run_state = define(OpDef(
    "run_state", lambda *, aval, uid: aval, _never, _LEAF, _LEAF, NoRule("a leaf has no batch of its own"), Control("variable"), lambda rng: [],
    traits=frozenset({"unmerged"}), doc="A variable of one run: zeros where the run starts, gone where it ends."))

_WRITTEN, _READ = 1, 2


def _access_infer(state: Aval, i: Aval, **_: Any) -> Aval:
    if state.dtype != int8 or state.ndim != 1 or i.dtype.kind not in "iu" or i.ndim > 1:
        raise DTypeError(f"indices of elements must be integers, one or a vector, got {i} for {state}")
    return i


def _access_ref(state: Any, i: Any, *, write: bool, name: str) -> Any:
    counts = np.array(state)
    np.add.at(counts, i, _WRITTEN if write else _READ)
    for k in np.atleast_1d(i):
        if counts[k] > (_WRITTEN if write else _WRITTEN + _READ):
            raise InvalidArgumentError(None, None, _message(write, bool(counts[k] > 2 * _WRITTEN), name).format(a=k))
    return np.array(i)


def _message(write: bool, was_read: bool, name: str) -> str:
    if write:
        return f"TensorArray {name}: Could not write to TensorArray index {{a}} because it has already been {'read' if was_read else 'written to'}."
    return f"TensorArray {name}: Could not read index {{a}} twice because it was cleared after a previous read (perhaps try setting clear_after_read = false?)."


def _access(b: Any, counts: Any, i: Any, *, write: bool, name: str) -> tuple[Any, Any]:
    """(the indices, checked; the next counts)."""
    counts = b.rows_add(counts, i, b.full(Aval(i.aval.shape, int8), _WRITTEN if write else _READ))
    found = b.take(counts, i, axis=0)
    if write:
        for once in (False, True):           # a count of two is a second write, more is a write behind a read
            ok = b.less(found, b.like(found, 3)) if once else b.not_equal(found, b.like(found, 2 * _WRITTEN))
            i = b.guard(i, ok, message=_message(True, once, name), limit=0, fill=0)
    else:
        i = b.guard(i, b.less_equal(found, b.like(found, _WRITTEN + _READ)), message=_message(False, True, name), limit=0, fill=0)
    return i, counts


array_access = define(OpDef(
    "array_access", _access_infer, _access_ref, _INDEX, _INDEX,
    # a batch has an array of its own per item: only what all items do alike is one access
    lambda b, size, ins, dims, **kw: (ins[1], dims[1]) if dims[1] is not None else (b.array_access(*ins, **kw), None),
    Control("effect"), lambda rng: [], (((aval_of(int8, 3), f32()), {"write": True, "name": "a"}, "indices of elements must be integers"),
                                        ((i32(3), i32()), {"write": True, "name": "a"}, "indices of elements must be integers")),
    frozenset({"effect", "assign", "result"}),
    "The indices (known to be inside), once they are counted as written or read: an element is written once, and read once where reading clears it.",
    step=_access))
