"""Python functions inside graphs: they run between native segments, also within loops, under the GIL.

Where sizes of a result are *open*, only the function's array says what they are. Memory is there before the call, so such a result comes in two parts:
a vector with room for the most elements there can be (capacities, which a run makes larger), filled from the front, and the sizes. ``results``
measures these and gives the first elements their shape, without a copy. What a run that starts again has got from a function it keeps
(``runtime.hostcall``): a function is called once per run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..dtypes import DType, int64
from ..errors import InvalidArgumentError, ShapeError
from ..ir.aval import Aval, Size, TupleAval, capacity
from ..ir.opdef import Host, NoRule, NotDifferentiable, OpDef, View, define
from .control import CAPACITY
from .helpers import Sample, f32
from .measure import size_of

Axes = tuple[int, ...]
_SPELLED = {"float32": "float", "float64": "double"}
_NO_RULE = NotDifferentiable("a Python function has no rule")


def unforeseen(message: str, index: int, shape: tuple[int, ...]) -> InvalidArgumentError:
    """The error for a result ``index`` of a Python function that is of ``shape``, which is not what the program was made for."""
    error = InvalidArgumentError(None, None, message)
    error.unforeseen = index, shape          # type: ignore[attr-defined]  # where there may be a program for it: see surface.deferred
    return error


def results_of(*arrays: Any, fn: Callable[..., Any], outs: tuple[Aval, ...], name: str, open: tuple[Axes, ...] = (), ones: bool = True) -> tuple[Any, ...]:
    """What ``fn`` gives for the arrays, open ones as their elements and their sizes; InvalidArgumentError where that is not what was declared."""
    got = fn(*arrays)
    values = [] if got is None else list(got) if isinstance(got, (list, tuple)) and not (len(outs) == 1 and len(got) != 1) else [got]
    if not outs:
        return ()
    if len(values) != len(outs):
        raise InvalidArgumentError(None, None, f"{name} returns {len(values)} values, but expects to see {len(outs)} values.")
    results: list[Any] = []
    for k, (value, aval, axes) in enumerate(zip(values, outs, open or ((),) * len(outs))):
        array = np.asarray(value)
        if array.dtype != aval.dtype.np:
            found, want = (_SPELLED.get(n, n) for n in (array.dtype.name, aval.dtype.name))
            raise InvalidArgumentError(None, None, f"{k}-th value returned by {name} is {found}, but expects {want}")
        declared = [None if a in axes else d for a, d in enumerate(aval.shape)]
        if array.ndim != len(declared) or any((isinstance(d, int) and d != s) or (d is None and s == 1 and not ones) for d, s in zip(declared, array.shape)):
            raise unforeseen(f"{k}-th value returned by {name} has shape {list(array.shape)}, but {str(declared).replace('None', '?')} was declared: "
                             "name the shapes of the results with set_shape or shapes=[...]", k, array.shape)
        results += [array.reshape(-1), np.array(array.shape, np.int64)] if axes else [array]
    return tuple(results)


def _infer(*xs: Aval, fn: Any, outs: tuple[Aval, ...], name: str, open: tuple[Axes, ...] = (), ones: bool = True) -> TupleAval:
    avals: list[Aval] = []
    for aval, axes in zip(outs, open or ((),) * len(outs)):
        avals += [Aval((aval.size,), aval.dtype), Aval((aval.ndim,), int64)] if axes else [aval]
    return TupleAval(tuple(avals))


def _in_room(*arrays: Any, fn: Callable[..., Any], outs: tuple[Aval, ...], name: str, open: tuple[Axes, ...] = (), ones: bool = True) -> tuple[Any, ...]:
    """The results as the op has them: open ones with all their room."""
    got = iter(results_of(*arrays, fn=fn, outs=outs, name=name, open=open, ones=ones))
    filled: list[Any] = []
    for aval, axes in zip(outs, open or ((),) * len(outs)):
        value = next(got)
        if not axes:
            filled.append(value)
            continue
        sizes = next(got)
        if any(s > d for s, d in zip(sizes, aval.shape)):
            raise InvalidArgumentError(None, None, CAPACITY)
        room = np.zeros(int(np.prod([int(d) for d in aval.shape if isinstance(d, int)])), aval.dtype.np)
        room[:value.size] = value
        filled += [room, sizes]
    return tuple(filled)


py_func = define(OpDef(
    "py_func", _infer, _in_room, _NO_RULE, _NO_RULE, NoRule("a Python function is not batched"), Host(results_of), lambda rng: [],
    traits=frozenset({"effect", "unmerged"}),
    doc="Results of a Python function, called with arrays at each run, in the order of creation; no gradient. ``open`` has, for each result, the axes whose "
        "sizes the function finds; ``outs`` has the room for them there. Without ``ones`` an open size of 1 is not as good as any other."))


def _front_infer(x: Aval, *, shape: tuple[Size, ...]) -> Aval:
    if x.ndim != 1:
        raise ShapeError(f"the front of a vector, got {x}")
    return x.with_shape(tuple(shape))


front = define(OpDef(
    "front", _front_infer, lambda x, *, shape: x[:int(np.prod(shape))].reshape(shape), _NO_RULE, _NO_RULE, NoRule("a Python function is not batched"),
    View(lambda v, out, shape: v.slice((0,), (out.size,), (1,)).reshape(shape)),
    lambda rng: [Sample((rng.normal(size=9).astype("f4"),), {"shape": s}, grad=False) for s in ((2, 3), (9,), (), (0, 4))],
    (((f32(2, 2),), {"shape": (2,)}, "the front of a vector"),), doc="The first elements of a vector, under a shape; the vector has as many (who makes it sees to that)."))


def results(b: Any, inputs: Sequence[Any], fn: Any, kinds: Sequence[DType], shapes: Sequence[Sequence[Size | None]], name: str, ones: bool = True) -> tuple[Any, ...]:
    """Results of a call of ``fn``, of ``shapes`` where None is a size that its array has."""
    if b.computes and any(None in s for s in shapes):                        # called now: then its sizes are known
        got = fn(*[b.array(x) for x in inputs])
        arrays = got if isinstance(got, (list, tuple)) and len(got) == len(kinds) else [got]
        fn, shapes = lambda *_: got, [np.shape(v) if len(s) == np.ndim(v) else s for v, s in zip(arrays, shapes)]
    rooms = tuple(Aval(tuple(capacity() if d is None else d for d in s), k) for s, k in zip(shapes, kinds))
    axes = tuple(tuple(a for a, d in enumerate(s) if d is None) for s in shapes)
    got = iter(b.py_func(*inputs, fn=fn, outs=rooms, name=name, open=axes, ones=ones))
    out = []
    for room, open in zip(rooms, axes):
        value = next(got)
        if open:
            sizes = next(got)
            found = {a: size_of(b, b.reshape(b.slice(sizes, starts=(a,), sizes=(1,), steps=(1,)), shape=()), room.shape[a]) for a in open}
            value = b.front(value, shape=tuple(found.get(a, d) for a, d in enumerate(room.shape)))
        out.append(value)
    return tuple(out)
