"""Calls from a running program back into Python: ``Host`` ops of the graph."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from .. import source
from ..errors import InvalidArgumentError, OpError, OutOfRangeError, ResourceExhaustedError, UnimplementedError, UnknownError
from ..ir.aval import Aval, capacities_in, evaluate, measured_in
from ..ir.substitute import substituted

HOST_FUNCTION = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_int64, ctypes.POINTER(ctypes.c_void_p))


def _array(address: int | None, aval: Aval, values: Mapping[str, int]) -> np.ndarray[Any, Any]:
    """The memory at an address as an array."""
    shape = tuple(evaluate(d, values) for d in aval.shape)
    size = int(np.prod(shape)) * aval.dtype.np.itemsize
    if size == 0:
        return np.zeros(shape, aval.dtype.np)
    return np.frombuffer((ctypes.c_char * size).from_address(address or 0), aval.dtype.np).reshape(shape)


class MoreRoom(Exception):
    """A result is larger than the room for it: the run, which has changed nothing, starts again. ``needs`` has the sizes by capacity."""

    def __init__(self, needs: dict[str, int]) -> None:
        self.needs = needs


class Calls:
    """What the Python functions of a run have given so far. A run that starts again gets it from here: no function is called twice for it.

    A run depends on nothing but feeds, state and what its functions give, so the calls of a function are the same in each attempt.
    """

    def __init__(self) -> None:
        self.given: dict[Any, list[Any]] = {}

    def attempt(self) -> Callable[[Any], Callable[..., Any]]:
        """For one attempt: of a function, the one to call in its place."""
        rest = {fn: iter(list(got)) for fn, got in self.given.items()}

        def of(fn: Any) -> Callable[..., Any]:
            def call(*arrays: Any) -> Any:
                got = next(rest[fn], self) if fn in rest else self
                if got is self:
                    got = _copied(fn(*arrays))
                    self.given.setdefault(fn, []).append(got)
                return got
            return call
        return of


def _copied(got: Any) -> Any:
    """Results that stay what they are, whatever the function does with its arrays later."""
    return got if got is None else [np.array(v) for v in got] if isinstance(got, (list, tuple)) else np.array(got)


def host_function(items: Sequence[Any], values: Mapping[str, int], failures: list[Any], calls: Calls) -> Any:
    """The native function that the program calls for host operation ``number``; what is raised is kept in ``failures`` and stops the run."""
    in_place_of = calls.attempt()

    def call(_data: Any, number: int, pointers: Any) -> int:
        node = items[number].node
        try:
            ins = [i.aval for i in node.inputs]
            given = len(ins) + len(node.aval.elements)
            known = {**values, **{s: pointers[given + k] or 0 for k, s in enumerate(sorted(measured_in((*ins, node.aval))))}}
            arrays = [_array(pointers[k], aval, known).copy() for k, aval in enumerate(ins)]
            attrs = {k: substituted(v, known) for k, v in node.attrs}
            results = node.op.lower.call(*arrays, **{**attrs, "fn": in_place_of(attrs["fn"])})
            _check_room(node, results, known)
            for k, (aval, got) in enumerate(zip(node.aval.elements, results)):
                room = _array(pointers[len(ins) + k], aval, known)
                (room[:len(got)] if got.ndim == 1 else room)[...] = got      # open ones leave the rest of their room as it is
            return 0
        except BaseException as error:       # also KeyboardInterrupt: it must not cross native code
            if hasattr(error, "unforeseen"):
                error.unforeseen = node.attr("fn"), *error.unforeseen
            failures.append((node, error))
            return 1
    return HOST_FUNCTION(call)


def _check_room(node: Any, results: Sequence[Any], values: Mapping[str, int]) -> None:
    rest = iter(results)
    needs: dict[str, int] = {}
    for room, axes in zip(node.attr("outs"), node.attr("open") or ((),) * len(results)):
        next(rest)
        if axes:
            sizes = next(rest)
            needs.update((s, int(sizes[a])) for a in axes for s in capacities_in(room.shape[a]) if sizes[a] > values[s])
    if needs:
        raise MoreRoom(needs)


_CLASSES: tuple[tuple[Any, type[OpError]], ...] = (
    ((ValueError, TypeError), InvalidArgumentError), (StopIteration, OutOfRangeError), (MemoryError, ResourceExhaustedError), (NotImplementedError, UnimplementedError))


def raise_host_failure(node: Any, error: BaseException) -> NoReturn:
    """Raise what a host operation raised: an OpError as it is, other exceptions with their text as TF1 classes them, at the user's line."""
    if not isinstance(error, Exception):
        raise error
    kind = next((k for of, k in _CLASSES if isinstance(error, of)), UnknownError)
    known = error if isinstance(error, OpError) else kind(None, node, f"{type(error).__name__}: {error}")
    if known is not error:
        known.__cause__ = error
    known._op = known._op or node
    source.raise_at(node.site, known)
