"""Arrays as kernels want them: on a cache line, with whole cache lines behind; and memory of large results that is used again.

The system gives the memory of a large array back as soon as it is freed, and clears each page of the next one: a call with two results of 16 MB
spends more time on that than on its work. So large results are views of blocks that are kept; a block that nobody else holds serves the next call.
"""

from __future__ import annotations

import math
import os
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

LINE = 64
LARGE = 1 << 20                              # bytes of a result from which its memory is kept
KEPT = 1 << 28                               # bytes of memory kept in all, at most; larger results come and go


def aligned_empty(shape: tuple[int, ...], dtype: Any) -> np.ndarray[Any, Any]:
    """An uninitialised array whose memory is 64-byte aligned and padded to whole cache lines."""
    dtype = np.dtype(dtype)
    count = 1
    for d in shape:
        count *= d
    need = count * dtype.itemsize
    raw = np.empty((need + LINE - 1) // LINE * LINE + LINE, np.uint8)
    start = -raw.ctypes.data % LINE
    return raw[start:start + need].view(dtype).reshape(shape)


def aligned(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The array itself if it lies like that already, else a copy that does."""
    base, start = array.base, array.ctypes.data
    if (isinstance(base, np.ndarray) and base.dtype == np.uint8 and start % LINE == 0 and array.flags.c_contiguous
            and start + (array.nbytes + LINE - 1) // LINE * LINE <= base.ctypes.data + base.nbytes):
        return array
    held = aligned_empty(array.shape, array.dtype)
    held[...] = array
    return held


class Blocks:
    """Memory of large arrays. An array is a view of its block, so that a block in use has more references than its entry here."""

    def __init__(self) -> None:
        self.blocks: list[np.ndarray[Any, Any]] = []
        self.lock = threading.Lock()
        self.blocks.append(np.empty(1, np.uint8))
        self.alone = self._references(0)
        self.blocks.clear()

    def _references(self, k: int) -> int:
        return sys.getrefcount(self.blocks[k])

    def empty(self, shape: tuple[int, ...], dtype: Any) -> np.ndarray[Any, Any]:
        """An uninitialised array, as ``numpy.empty`` gives it, on a cache line."""
        need = -(-math.prod(shape) * np.dtype(dtype).itemsize // LARGE) * LARGE + LINE
        with self.lock:
            for k in range(len(self.blocks)):          # by number: a name for a block would be a reference too
                if self.blocks[k].size == need and self._references(k) == self.alone:
                    return self._view(self.blocks[k], shape, dtype)
            block = np.empty(need, np.uint8)
            if need <= KEPT:
                self._make_room(need)
                self.blocks.append(block)
        return self._view(block, shape, dtype)

    def _make_room(self, need: int) -> None:
        """Let go of the oldest blocks: those in use live as long as their arrays."""
        while self.blocks and sum(b.size for b in self.blocks) + need > KEPT:
            self.blocks.pop(0)

    @staticmethod
    def _view(block: np.ndarray[Any, Any], shape: tuple[int, ...], dtype: Any) -> np.ndarray[Any, Any]:
        return np.ndarray(shape, dtype, block, -block.ctypes.data % LINE)


def _renew() -> None:
    """A child of a fork has no thread that could hold the lock."""
    if _BLOCKS is not None:
        _BLOCKS.lock = threading.Lock()


_BLOCKS = Blocks() if sys.implementation.name == "cpython" and getattr(sys, "_is_gil_enabled", lambda: True)() else None
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)


def maker(shape: tuple[int, ...], dtype: Any) -> Callable[..., np.ndarray[Any, Any]]:
    """What makes uninitialised result arrays of that size: a function of shape and dtype."""
    if _BLOCKS is None or math.prod(shape) * np.dtype(dtype).itemsize < LARGE:
        return np.empty
    return _BLOCKS.empty


def empty_result(shape: tuple[int, ...], dtype: Any) -> np.ndarray[Any, Any]:
    """An uninitialised array for a result."""
    return maker(shape, dtype)(shape, dtype)
