"""Initial values: constants and random numbers scaled by fan-in and fan-out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..dtypes import as_dtype, float32
from .random_ops import random_normal, random_uniform, truncated_normal

_TRUNCATED = 0.87962566103423978             # standard deviation of a unit normal cut at two


class Initializer:
    """Callable as ``init(shape, dtype=None, partition_info=None)``."""

    def __call__(self, shape: Any, dtype: Any = None, partition_info: Any = None) -> Any:
        raise TypeError(f"{type(self).__name__} must define __call__")

    def get_config(self) -> dict[str, Any]:
        """Its settings."""
        return dict(vars(self))


class zeros_initializer(Initializer):
    """All zeros."""

    def __init__(self, dtype: Any = float32) -> None:
        self.dtype = dtype

    def __call__(self, shape: Any, dtype: Any = None, partition_info: Any = None) -> Any:
        from .array_ops import zeros
        return zeros(shape, dtype or self.dtype)


class ones_initializer(Initializer):
    """All ones."""

    def __init__(self, dtype: Any = float32) -> None:
        self.dtype = dtype

    def __call__(self, shape: Any, dtype: Any = None, partition_info: Any = None) -> Any:
        from .array_ops import ones
        return ones(shape, dtype or self.dtype)


class constant_initializer(Initializer):
    """A value, repeated to fill."""

    def __init__(self, value: Any = 0, dtype: Any = None, verify_shape: bool = False) -> None:
        self.value, self.dtype = value, dtype

    def __call__(self, shape: Any, dtype: Any = None, partition_info: Any = None) -> Any:
        from .array_ops import constant
        kind = as_dtype(dtype or self.dtype or float32)
        return constant(np.asarray(self.value).astype(kind.np), kind, shape)


class random_uniform_initializer(Initializer):
    """Uniform in [minval, maxval) (maxval None: 1)."""

    def __init__(self, minval: Any = 0, maxval: Any = None, seed: int | None = None, dtype: Any = float32) -> None:
        self.minval, self.maxval, self.seed, self.dtype = minval, maxval, seed, dtype

    def __call__(self, shape: Any, dtype: Any = None, partition_info: Any = None) -> Any:
        return random_uniform(shape, self.minval, 1 if self.maxval is None else self.maxval, dtype or self.dtype, seed=self.seed)


class random_normal_initializer(Initializer):
    """Normal."""

    def __init__(self, mean: float = 0.0, stddev: float = 1.0, seed: int | None = None, dtype: Any = float32) -> None:
        self.mean, self.stddev, self.seed, self.dtype = mean, stddev, seed, dtype

    def __call__(self, shape: Any, dtype: Any = None, partition_info: Any = None) -> Any:
        return random_normal(shape, self.mean, self.stddev, dtype or self.dtype, seed=self.seed)


class truncated_normal_initializer(random_normal_initializer):
    """Normal, redrawn beyond two standard deviations."""

    def __call__(self, shape: Any, dtype: Any = None, partition_info: Any = None) -> Any:
        return truncated_normal(shape, self.mean, self.stddev, dtype or self.dtype, seed=self.seed)


def fans(shape: Sequence[int]) -> tuple[float, float]:
    """(fan in, fan out) of a weight's shape: the last two axes, times the receptive field."""
    if len(shape) < 1:
        return 1, 1
    if len(shape) == 1:
        return shape[0], shape[0]
    field = math.prod(shape[:-2])
    return shape[-2] * field, shape[-1] * field


class variance_scaling_initializer(Initializer):
    """Variance scale / fan; "normal" draws are truncated and corrected for that."""

    def __init__(self, scale: float = 1.0, mode: str = "fan_in", distribution: str = "truncated_normal", seed: int | None = None, dtype: Any = float32) -> None:
        if scale <= 0:
            raise ValueError("`scale` must be positive float.")
        if mode not in ("fan_in", "fan_out", "fan_avg"):
            raise ValueError(f"Invalid `mode` argument: {mode}")
        if distribution not in ("normal", "uniform", "truncated_normal", "untruncated_normal"):
            raise ValueError(f"Invalid `distribution` argument: {distribution}")
        self.scale, self.mode, self.distribution, self.seed, self.dtype = scale, mode, distribution, seed, dtype

    def __call__(self, shape: Any, dtype: Any = None, partition_info: Any = None) -> Any:
        kind = dtype or self.dtype
        into, out = fans([int(s) for s in shape])
        variance = self.scale / max(1.0, {"fan_in": into, "fan_out": out, "fan_avg": (into + out) / 2}[self.mode])
        if self.distribution in ("normal", "truncated_normal"):
            return truncated_normal(shape, 0.0, math.sqrt(variance) / _TRUNCATED, kind, seed=self.seed)
        if self.distribution == "untruncated_normal":
            return random_normal(shape, 0.0, math.sqrt(variance), kind, seed=self.seed)
        limit = math.sqrt(3 * variance)
        return random_uniform(shape, -limit, limit, kind, seed=self.seed)


class glorot_uniform_initializer(variance_scaling_initializer):
    """Uniform with limit sqrt(6 / (fan in + fan out)) (Glorot and Bengio, 2010)."""

    def __init__(self, seed: int | None = None, dtype: Any = float32) -> None:
        super().__init__(1.0, "fan_avg", "uniform", seed, dtype)


class glorot_normal_initializer(variance_scaling_initializer):
    """Truncated normal with variance 2 / (fan in + fan out)."""

    def __init__(self, seed: int | None = None, dtype: Any = float32) -> None:
        super().__init__(1.0, "fan_avg", "truncated_normal", seed, dtype)


def he_normal(seed: int | None = None) -> Initializer:
    """Truncated normal with variance 2 / fan in (He et al., 2015)."""
    return variance_scaling_initializer(2.0, "fan_in", "truncated_normal", seed)


def he_uniform(seed: int | None = None) -> Initializer:
    """Uniform with variance 2 / fan in."""
    return variance_scaling_initializer(2.0, "fan_in", "uniform", seed)


xavier_initializer = glorot_uniform_initializer
