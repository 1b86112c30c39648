"""Arrays as kernels want them: on a cache line, with whole cache lines behind."""

from __future__ import annotations

from typing import Any

import numpy as np

LINE = 64


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
