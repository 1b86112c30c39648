"""Loop variables whose size changes from trip to trip, as ``shape_invariants`` allow.

A body is traced for the sizes that enter the loop. Where it returns others, what the trace left in the ledger is taken back, and it is
traced again with such a variable held as a ``Growing``: a flat buffer with room, and the sizes that count. The room is a capacity as that of a
gradient's stacks: a run that needs more starts again with more. Inside the body and after the loop the variable is the tensor of these sizes.

So a function given to ``while_loop`` may be called more than once. The variables that it makes are made once.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from functools import reduce
from operator import mul
from typing import Any

from ..dtypes import int64
from ..errors import DTypeError
from ..ir.aval import Aval, Size, symbol
from ..ops.measure import size_of
from . import nest
from .deferred import undo
from .funnel import convert, emit
from .ledger import Graph
from .shapes import TensorShape, shape_of
from .tensor import Operation, Tensor
from .variables import Variable


class Growing(nest.Handle):
    """A loop variable of ``dtype`` whose ``axes`` change; ``rooms`` are their capacities, ``shape`` has its sizes as it enters."""

    def __init__(self, t: Tensor, axes: Sequence[int]) -> None:
        self.name, self.dtype, self.shape = t.name, t.dtype, t.node.shape
        self.axes = tuple(axes)
        self.rooms: tuple[Size, ...] = tuple(symbol(f"cap{symbol().terms[0][0].name}") for _ in axes)
        whole = self._with(self.rooms)
        room: Size = reduce(mul, whole, 1)
        self.buffer: Tensor = emit("Enter", "room", (), lambda b: b.zeros(Aval((room,), t.dtype)), weight=0)
        self.sizes: list[Tensor] = []
        entered = self.put(t)
        self.buffer, self.sizes = entered.buffer, entered.sizes

    def _with(self, sizes: Sequence[Size]) -> tuple[Size, ...]:
        of = dict(zip(self.axes, sizes))
        return tuple(of.get(k, d) for k, d in enumerate(self.shape))

    def value(self, name: str) -> Tensor:
        """The tensor."""
        def build(b: Any, flat: Any, *counts: Any) -> Any:
            shape = self._with([size_of(b, n, room) for n, room in zip(counts, self.rooms)])
            return b.reshape(b.take(flat, b.iota(shape=(reduce(mul, shape, 1),), axis=0, dtype=int64), axis=0), shape=shape)
        result: Tensor = emit(name, name, [self.buffer, *self.sizes], build, weight=0)
        return result

    def put(self, t: Tensor) -> Growing:
        """The variable with another value."""
        def build(b: Any, flat: Any, x: Any) -> Any:
            given = [x.aval.shape[k] for k in self.axes]
            counts = [b.run_size(b.reshape(b.sizes(sizes=(d,), dtype=int64), shape=()), bound=room) for d, room in zip(given, self.rooms)]
            shape = self._with([size_of(b, n, room) for n, room in zip(counts, self.rooms)])
            pairs = tuple((d, s) for d, s in zip(x.aval.shape, shape) if d != s)
            total = reduce(mul, shape, 1)
            x = b.reshape(b.same_sizes(x, shape=shape, pairs=pairs, message="a loop variable has a size of {a}, not {limit}"), shape=(total,))
            return (b.rows_set(flat, b.iota(shape=(total,), axis=0, dtype=int64), x), *counts)
        made = copy.copy(self)
        made.buffer, *made.sizes = emit("NextIteration", "grown", [self.buffer, t], build, weight=0)
        return made

    def _handle_parts(self) -> list[Any]:
        return [*self.sizes, self.buffer]

    def _handle_of(self, parts: Sequence[Any]) -> Growing:
        made = copy.copy(self)
        *made.sizes, made.buffer = parts
        return made

    def _handle_open(self) -> bool:
        return False

    def _handle_close(self, like: Any) -> None:
        """It is never open."""

    def _handle_joined(self, other: Any) -> Growing:
        return self


class Outgrown(Exception):
    """A body returns other sizes than it was given: ``axes`` by the place of the loop variable."""

    def __init__(self, axes: dict[int, tuple[int, ...]]) -> None:
        self.axes = axes


def grown(loop_vars: Any, axes: dict[int, tuple[int, ...]]) -> Any:
    """The loop variables, those at ``axes`` as ``Growing``."""
    return nest.with_items(loop_vars, [Growing(convert(x), axes[k]) if k in axes else x for k, x in enumerate(nest.items(loop_vars))])


def values(structure: Any, invariants: Sequence[TensorShape] | None, name: str) -> Any:
    """What a function of the loop sees: tensors, of which no more is known than the invariants say."""
    out = []
    for k, x in enumerate(nest.items(structure)):
        if isinstance(x, Growing):
            x = x.value(name)
        elif invariants is not None and isinstance(x, Tensor) and x._record is None and invariants[k].is_compatible_with(x.shape):
            x._shape = invariants[k]
        out.append(x)
    return nest.with_items(structure, out)


def put_back(structure: Any, out: Any, invariants: Sequence[TensorShape] | None) -> Any:
    """What a body returns, with the values of loop variables that grow in their buffers.

    Outgrown where sizes change that ``invariants`` leave open; NotImplementedError where a rank does.
    """
    if invariants is None:
        return out
    made: list[Any] = []
    changed: dict[int, tuple[int, ...]] = {}
    for k, (old, new, known) in enumerate(zip(nest.items(structure), nest.items(out), invariants)):
        if isinstance(new, (nest.Handle, Operation)) or (isinstance(old, nest.Handle) and not isinstance(old, Growing)):
            made.append(new)
            continue
        t = convert(new, None if isinstance(new, (Tensor, Variable)) else old.dtype)
        before = old.shape if isinstance(old, Growing) else old.node.shape
        after = t.node.shape
        if t.dtype != old.dtype:
            raise DTypeError(f"loop variable {old.name} enters the loop as {old.dtype.name}, but is {t.dtype.name} after one iteration")
        if len(before) != len(after) and known.ndims is None:
            raise NotImplementedError(f"loop variable {old.name} enters the loop with shape {shape_of(before)}, but has shape {shape_of(after)} after one iteration: loop variables "
                                      "whose rank changes are not available; reshape it to the rank that it has at the end")
        growing = old.axes if isinstance(old, Growing) else ()
        open_axes = [a for a in range(len(before)) if known.ndims is None or known.as_list()[a] is None] if len(before) == len(after) else []
        more = tuple(a for a in open_axes if a not in growing and before[a] != after[a])
        if more:
            changed[k] = tuple(sorted((*growing, *more)))
        made.append(old.put(t) if isinstance(old, Growing) and not changed else t)
    if changed:
        raise Outgrown(changed)
    return nest.with_items(out, made)


class Traced:
    """Within: what is traced can be taken back: names, operations and entries of collections, but not variables, which are made once."""

    def __init__(self, g: Graph) -> None:
        self.g, self.again = g, False
        self.kept: set[Operation] = set()    # what variables consist of

    def __enter__(self) -> Traced:
        g = self.g
        self.names: list[tuple[str, int | None]] = []
        self.count, self.op_count = len(g.operations), g.op_count
        self.collections = {k: list(v) for k, v in g._collections.items()}
        self.log, g._names.log = g._names.log, self.names
        self.outer, g.attempt = g.attempt, self
        return self

    def __exit__(self, *exc: Any) -> None:
        self.g._names.log, self.g.attempt = self.log, self.outer
        if self.log is not None:
            self.log += self.names
        if self.outer is not None:
            self.outer.kept |= self.kept

    def take_back(self) -> None:
        """The ledger is as it was, but for variables; ``get_variable`` shares them at the next call."""
        g = self.g
        for op in list(g.operations.values())[self.count:]:
            if op not in self.kept:
                del g.operations[op.name]
                for t in op.inputs:
                    t._consumers.remove(op)
        undo(g._names, self.names)
        self.names.clear()
        g.op_count = self.op_count
        for key, items in g._collections.items():
            items[:] = [i for i in items if any(i is j for j in self.collections.get(key, ())) or any(getattr(i, "op", i) is op for op in self.kept)]
        self.again = True
