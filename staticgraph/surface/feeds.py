"""Fed values: any array, list or number to a C-contiguous array of the tensor's dtype and shape."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import source
from ..dtypes import DType, string
from .shapes import TensorShape
from .tensor import Tensor


def _fits(value: int, dtype: DType) -> bool:
    """Whether a Python int is the same number in that dtype (float64 takes any)."""
    if dtype.is_integer:
        info = np.iinfo(dtype.np)
        return bool(info.min <= value <= info.max)
    if dtype.is_bool:
        return value in (0, 1)
    if dtype.is_floating and dtype.bits < 64:
        with np.errstate(over="ignore"):
            return float(np.float64(value).astype(dtype.np)) == float(value)
    return dtype != string


def prepared(t: Tensor, value: Any) -> np.ndarray[Any, Any]:
    """The array to feed for ``t``; NumPy's casting rules apply, silently, as in TF1 (a Python int that does not fit is refused).

    TypeError for tensors, objects and Python numbers that are none of the dtype; ValueError for text, ragged lists and shapes that do not fit.
    """
    if isinstance(value, Tensor) or hasattr(value, "_as_tensor"):
        raise TypeError("The value of a feed cannot be a tf.Tensor object. Acceptable feed values include Python scalars, strings, lists, "
                        "numpy ndarrays, or TensorHandles. For reference, the tensor object was " + str(value) + " which was passed to the feed with key " + str(t) + ".")
    if value is None:
        raise ValueError(f"Cannot feed value None for Tensor '{t.name}', which has shape '{t.shape}'")
    dtype = t.dtype.np
    if isinstance(value, int) and not _fits(value, t.dtype):
        raise TypeError(f"Type of feed value {value} with type {type(value)} is not compatible with Tensor type {t.dtype.as_numpy_dtype}. "
                        "Try explicitly setting the type of the feed tensor to a larger type (e.g. int64).")
    if type(value) is complex and not t.dtype.is_complex:
        raise TypeError(f"can't convert complex to {'int' if t.dtype.is_integer else 'float'}: the value {value} fed for Tensor '{t.name}'")
    try:
        array = np.asarray(value)
        if array.dtype == object and array.dtype != dtype:
            array = np.array(value, dtype=dtype)
        if array.dtype != dtype or not array.dtype.isnative:
            with np.errstate(all="ignore"):
                if array.dtype.kind == "c" and dtype.kind != "c":
                    array = array.real
                array = array.astype(dtype)
    except (TypeError, ValueError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"Cannot feed value {str(value)[:60]!r} for Tensor '{t.name}', which has dtype {t.dtype.name}: {error}") from error
    node = t.node.shape if t._record is None else array.shape        # without a rank: what fits is checked for the ranks fed
    if len(node) != array.ndim or any(isinstance(d, int) and d != s for d, s in zip(node, array.shape)) or not TensorShape(list(array.shape)).is_compatible_with(t.shape):
        error = ValueError(f"Cannot feed value of shape {array.shape} for Tensor '{t.name}', which has shape '{t.shape}'")
        source.add_note(error, f"{t.name} made at {t.node.site.describe()}")
        raise error
    if not array.flags.c_contiguous or not array.flags.aligned:
        array = np.array(array, order="C")
    return array
