"""Calls from a running program back into Python: ``Host`` ops of the graph."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from .. import source
from ..errors import InvalidArgumentError, OpError, OutOfRangeError, ResourceExhaustedError, UnimplementedError, UnknownError
from ..ir.aval import Aval, evaluate, measured_in

HOST_FUNCTION = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_int64, ctypes.POINTER(ctypes.c_void_p))


def _array(address: int | None, aval: Aval, values: Mapping[str, int]) -> np.ndarray[Any, Any]:
    """The memory at an address as an array."""
    shape = tuple(evaluate(d, values) for d in aval.shape)
    size = int(np.prod(shape)) * aval.dtype.np.itemsize
    if size == 0:
        return np.zeros(shape, aval.dtype.np)
    return np.frombuffer((ctypes.c_char * size).from_address(address or 0), aval.dtype.np).reshape(shape)


def host_function(items: Sequence[Any], values: Mapping[str, int], failures: list[Any]) -> Any:
    """The native function that the program calls for host operation ``number``; what is raised is kept in ``failures`` and stops the run."""
    def call(_data: Any, number: int, pointers: Any) -> int:
        node = items[number].node
        try:
            ins = [i.aval for i in node.inputs]
            given = len(ins) + len(node.aval.elements)
            known = {**values, **{s: pointers[given + k] or 0 for k, s in enumerate(sorted(measured_in((*ins, node.aval))))}}
            arrays = [_array(pointers[k], aval, known).copy() for k, aval in enumerate(ins)]
            for k, (aval, got) in enumerate(zip(node.aval.elements, node.op.lower.call(*arrays, **node.kw))):
                _array(pointers[len(ins) + k], aval, known)[...] = got
            return 0
        except BaseException as error:       # also KeyboardInterrupt: it must not cross native code
            failures.append((node, error))
            return 1
    return HOST_FUNCTION(call)


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
