"""Fed values: any array, list or number to a C-contiguous array of the tensor's dtype and shape."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import source
from .shapes import TensorShape
from .tensor import Tensor


def prepared(t: Tensor, value: Any) -> np.ndarray[Any, Any]:
    """The array to feed for ``t``; NumPy's casting rules apply, silently, as in TF1 (a Python int that does not fit is refused).

    TypeError for tensors, text or ints out of range; ValueError for ragged lists and for shapes that do not fit.
    """
    if isinstance(value, Tensor) or hasattr(value, "_as_tensor"):
        raise TypeError("The value of a feed cannot be a tf.Tensor object. Acceptable feed values include Python scalars, strings, lists, "
                        "numpy ndarrays, or TensorHandles. For reference, the tensor object was " + str(value) + " which was passed to the feed with key " + str(t) + ".")
    if value is None:
        raise ValueError(f"Cannot feed value None for Tensor '{t.name}', which has shape '{t.shape}'")
    dtype = t.dtype.np
    if type(value) is int and t.dtype.is_integer:
        info = np.iinfo(dtype)
        if not info.min <= value <= info.max:
            raise TypeError(f"Type of feed value {value} with type {type(value)} is not compatible with Tensor type {t.dtype.as_numpy_dtype}. "
                            "Try explicitly setting the type of the feed tensor to a larger type (e.g. int64).")
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
        raise ValueError(f"Cannot feed value {str(value)[:60]!r} for Tensor '{t.name}', which has dtype {t.dtype.name}: {error}") from error
    node = t.node.shape if t._record is None else array.shape        # without a rank: what fits is checked for the ranks fed
    if len(node) != array.ndim or any(isinstance(d, int) and d != s for d, s in zip(node, array.shape)) or not TensorShape(list(array.shape)).is_compatible_with(t.shape):
        error = ValueError(f"Cannot feed value of shape {array.shape} for Tensor '{t.name}', which has shape '{t.shape}'")
        source.add_note(error, f"{t.name} made at {t.node.site.describe()}")
        raise error
    if not array.flags.c_contiguous or not array.flags.aligned:
        array = np.array(array, order="C")
    return array
