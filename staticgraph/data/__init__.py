"""Small real data for demos and tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np


def load_digits(seed: int = 0, test_fraction: float = 0.2) -> tuple[np.ndarray[Any, Any], ...]:
    """Handwritten digits: (x_train, y_train, x_test, y_test), x float32[n, 64] in [0, 1], y int32[n].

    1,797 images of 8x8 pixels, split by a fixed seed. Source: E. Alpaydin and C. Kaynak, "Optical Recognition of Handwritten Digits",
    UCI Machine Learning Repository, 1998, CC BY 4.0.
    """
    with np.load(Path(__file__).parent / "digits.npz") as z:
        x = z["images"].reshape(-1, 64).astype(np.float32) / np.float32(16)
        y = z["labels"].astype(np.int32)
    order = np.random.default_rng(seed).permutation(len(x))
    cut = round(len(x) * (1 - test_fraction))
    train, test = order[:cut], order[cut:]
    return x[train], y[train], x[test], y[test]
