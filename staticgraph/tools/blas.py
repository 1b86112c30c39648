"""The number of threads of NumPy's matrix products, for a while: a comparison with one thread must not give two to NumPy.

NumPy has no function for it. Its wheels bring OpenBLAS, whose own functions are called here, as threadpoolctl does.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np


@contextmanager
def blas_threads(count: int) -> Iterator[bool]:
    """Within: NumPy's OpenBLAS uses ``count`` threads. Gives False where NumPy has another BLAS, which stays as it is."""
    found = _openblas()
    if found is None:
        yield False
        return
    get, set_to = found
    before = get()
    set_to(count)
    try:
        yield True
    finally:
        set_to(before)


@cache
def _openblas() -> tuple[Callable[[], int], Callable[[int], None]] | None:
    """(how many threads, so many threads) of the OpenBLAS that came with NumPy."""
    home = Path(np.__file__).parent
    files = [path for folder in (home.parent / "numpy.libs", home / ".dylibs") if folder.is_dir() for path in sorted(folder.glob("*openblas*"))]
    for path, prefix, suffix in product(files, ("scipy_", ""), ("64_", "")):
        library = ctypes.CDLL(str(path))     # NumPy has loaded it: this is the same one
        name = f"{prefix}openblas_{{}}_num_threads{suffix}"
        if hasattr(library, name.format("set")):
            return getattr(library, name.format("get")), getattr(library, name.format("set"))
    return None
