"""Element types: one frozen record each, shared by the IR, the emitter and the surface.

A ``DType`` is what TF1 calls ``tf.float32``: it compares equal to NumPy's dtype and to its name, prints
``tf.float32``-style through ``repr`` and knows its LLVM spelling. Types do not promote
silently (see ``docs/conventions.md``), so there is no promotion table here.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np


@dataclass(frozen=True, eq=False)
class DType:
    """One element type. ``short`` is its spelling in printed graphs, ``llvm`` its type in memory."""

    name: str          # float32, as NumPy and TF1 spell it
    short: str         # f32, as printed graphs spell it
    kind: str          # "f" float, "i" signed, "u" unsigned, "b" bool, "c" complex, "s" string (host only)
    bits: int
    llvm: str          # type in memory; bool is i8 there and i1 in registers
    enum: int          # TF1's DataType number

    @cached_property
    def np(self) -> np.dtype[Any]:
        """The NumPy dtype (object for strings)."""
        return np.dtype(object if self.kind == "s" else self.name)

    @property
    def size(self) -> int:
        """Bytes of one element."""
        return max(1, self.bits // 8)

    @property
    def as_numpy_dtype(self) -> Any:
        """The NumPy scalar type, as TF1's attribute of the same name."""
        return self.np.type

    @property
    def base_dtype(self) -> DType:
        """The dtype without the reference mark of TF1's variables."""
        return self

    @property
    def as_datatype_enum(self) -> int:
        """TF1's DataType number."""
        return self.enum

    @property
    def real_dtype(self) -> DType:
        """float32 for complex64, float64 for complex128, otherwise the dtype itself."""
        return {"complex64": float32, "complex128": float64}.get(self.name, self)

    is_floating = property(lambda self: self.kind == "f", doc="A float type.")
    is_integer = property(lambda self: self.kind in "iu", doc="A signed or unsigned integer type.")
    is_unsigned = property(lambda self: self.kind == "u", doc="An unsigned integer type.")
    is_bool = property(lambda self: self.kind == "b", doc="The bool type.")
    is_complex = property(lambda self: self.kind == "c", doc="A complex type.")

    def is_compatible_with(self, other: Any) -> bool:
        """Whether values of the other type may stand where these are wanted: it is the same one."""
        return as_dtype(other) == self

    @property
    def min(self) -> Any:
        """The smallest finite value."""
        return self._limit("min", False)

    @property
    def max(self) -> Any:
        """The largest finite value."""
        return self._limit("max", True)

    def _limit(self, which: str, of_bool: bool) -> Any:
        if self.kind == "b":
            return of_bool
        if self.kind == "f":
            return getattr(np.finfo(self.np), which)
        if self.kind in "iu":
            return getattr(np.iinfo(self.np), which)
        raise TypeError(f"Cannot find {which}imum value of {self!r}.")

    def __eq__(self, other: object) -> bool:
        if isinstance(other, DType):
            return self.name == other.name
        if other is None:
            return False
        try:
            return as_dtype(other).name == self.name
        except TypeError:
            return False

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return f"tf.{self.name}"

    def __str__(self) -> str:
        return f"<dtype: '{self.name}'>"

    def __reduce__(self) -> Any:
        return as_dtype, (self.name,)


float16 = DType("float16", "f16", "f", 16, "half", 19)
float32 = DType("float32", "f32", "f", 32, "float", 1)
float64 = DType("float64", "f64", "f", 64, "double", 2)
int8 = DType("int8", "i8", "i", 8, "i8", 6)
int16 = DType("int16", "i16", "i", 16, "i16", 5)
int32 = DType("int32", "i32", "i", 32, "i32", 3)
int64 = DType("int64", "i64", "i", 64, "i64", 9)
uint8 = DType("uint8", "u8", "u", 8, "i8", 4)
uint16 = DType("uint16", "u16", "u", 16, "i16", 17)
uint32 = DType("uint32", "u32", "u", 32, "i32", 22)
uint64 = DType("uint64", "u64", "u", 64, "i64", 23)
bool_ = DType("bool", "bool", "b", 8, "i8", 10)
complex64 = DType("complex64", "c64", "c", 64, "<2 x float>", 8)
complex128 = DType("complex128", "c128", "c", 128, "<2 x double>", 18)
string = DType("string", "str", "s", 64, "ptr", 7)

ALL = (float16, float32, float64, int8, int16, int32, int64, uint8, uint16, uint32, uint64, bool_,
       complex64, complex128, string)
NATIVE = tuple(d for d in ALL if d.kind in "fiub" and d is not float16)   # what kernels compute with
_BY_NAME: dict[str, DType] = {d.name: d for d in ALL} | {d.short: d for d in ALL} | {
    "float": float32, "double": float64, "half": float16, "object": string, "str": string, "bool_": bool_}


def as_dtype(value: Any) -> DType:
    """The ``DType`` that ``value`` names: a DType, a NumPy dtype or type, ``float`` or ``bool``, or a name.

    Raises TypeError for anything else, ``int`` included (its width is not said), as TF1 does.
    """
    if isinstance(value, DType):
        return value
    base = getattr(value, "base_dtype", None)     # a reference dtype of the surface
    if isinstance(base, DType):
        return base
    if isinstance(value, str):
        found = _BY_NAME.get(value)
    elif value is float:
        found = float32
    elif value is bool:
        found = bool_
    elif value is str or value is bytes:
        found = string
    elif value is int or value is None:
        found = None
    else:
        try:
            name = np.dtype(value).name
        except TypeError:
            name = ""
        found = string if name.startswith(("str", "bytes")) else _BY_NAME.get(name)
    if found is None:
        raise TypeError(f"Cannot convert value {value!r} to a TensorFlow DType.")
    return found
