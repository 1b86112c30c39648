"""Typed handles for values of LLVM text, the spelling of their types, and exact literals."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..dtypes import DType

_REGISTER = {"bool": "i1", "float16": "float"}


@dataclass(frozen=True, slots=True)
class Val:
    """A value in a register: ``text`` is an SSA name or a literal, ``lanes`` 1 for a scalar, W for ``<W x ...>``."""

    text: str
    dtype: DType
    lanes: int

    @property
    def type(self) -> str:
        """The LLVM type in registers."""
        return register_type(self.dtype, self.lanes)

    @property
    def typed(self) -> str:
        """Type and text, as an operand is written."""
        return f"{self.type} {self.text}"

    @property
    def literal(self) -> bool:
        """Whether the text is a constant."""
        return "%" not in self.text


def scalar_type(dtype: DType) -> str:
    """The LLVM type of one element in registers: bool is i1, float16 is float."""
    return _REGISTER.get(dtype.name, dtype.llvm)


def register_type(dtype: DType, lanes: int) -> str:
    """The LLVM type of a value in registers."""
    one = scalar_type(dtype)
    return one if lanes == 1 else f"<{lanes} x {one}>"


def memory_type(dtype: DType, lanes: int) -> str:
    """The LLVM type of a value in memory: bool is i8, float16 is half."""
    return dtype.llvm if lanes == 1 else f"<{lanes} x {dtype.llvm}>"


def suffix(dtype: DType, lanes: int) -> str:
    """How intrinsics mangle the register type: ``f32``, ``v16f32``, ``v8i1``."""
    bits = 1 if dtype.kind == "b" else 32 if dtype.name == "float16" else dtype.bits
    one = f"{'f' if dtype.kind == 'f' else 'i'}{bits}"
    return one if lanes == 1 else f"v{lanes}{one}"


def literal(dtype: DType, value: Any) -> str:
    """The exact spelling of one element. Integers outside the dtype's range and non-integers for it raise ValueError."""
    if dtype.kind == "b":
        return "true" if value else "false"
    if dtype.kind == "f":
        with np.errstate(over="ignore"):
            rounded = float(value) if dtype.bits == 64 else float(np.float32(value))   # LLVM writes floats as doubles
        return "0x" + struct.pack(">d", rounded).hex().upper()
    number = int(value)
    low, high = (0, 2 ** dtype.bits) if dtype.kind == "u" else (-2 ** (dtype.bits - 1), 2 ** (dtype.bits - 1))
    if number != value or not low <= number < high:
        raise ValueError(f"{value!r} is no {dtype.name}.")
    return str(number - 2 ** dtype.bits if number >= 2 ** (dtype.bits - 1) else number)
