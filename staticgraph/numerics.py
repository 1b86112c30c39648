"""NumPy meanings of functions that NumPy lacks, accurate to double precision. No SciPy needed."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

_erf = np.vectorize(math.erf, otypes=[np.float64])
_erfc = np.vectorize(math.erfc, otypes=[np.float64])


def erf(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Gauss error function, in x's dtype."""
    return _erf(x.astype(np.float64)).astype(x.dtype) if x.size else np.zeros_like(x)


def erfc(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Complementary error function, in x's dtype."""
    return _erfc(x.astype(np.float64)).astype(x.dtype) if x.size else np.zeros_like(x)
