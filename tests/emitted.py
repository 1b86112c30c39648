"""Run an elementwise function, written over the emitter, on NumPy arrays: what the emitter's own tests stand on."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

import llvmlite.binding as llvm
import numpy as np

from staticgraph.codegen.emitter import Emitter
from staticgraph.codegen.target import Target, host, machine
from staticgraph.dtypes import DType, as_dtype


def object_code(text: str, target: Target) -> bytes:
    """The verified text as an object file of the target."""
    m = machine(target, jit=False)
    module = llvm.parse_assembly(text)
    module.triple, module.data_layout = target.triple, str(m.target_data)
    module.verify()
    return m.emit_object(module)


def undefined_symbols(text: str, target: Target) -> set[str]:
    """Names that the object would leave to the linker."""
    return set(_undefined(object_code(text, target)))


def _undefined(data: bytes) -> list[str]:
    """Undefined symbols of a 64-bit ELF object."""
    assert data[:5] == b"\x7fELF\x02"
    word = lambda at, n: int.from_bytes(data[at:at + n], "little")
    table, size, count = word(0x28, 8), word(0x3A, 2), word(0x3C, 2)
    sections = [table + size * i for i in range(count)]
    names = []
    for s in sections:
        if word(s + 4, 4) != 2:                           # SHT_SYMTAB
            continue
        start, length, strings = word(s + 24, 8), word(s + 32, 8), word(sections[word(s + 40, 4)] + 24, 8)
        for at in range(start + 24, start + length, 24):
            if word(at + 6, 2) == 0:                      # SHN_UNDEF
                name = data[strings + word(at, 4):]
                names.append(name[:name.index(b"\0")].decode())
    return [n for n in names if n != "_GLOBAL_OFFSET_TABLE_"]


class Compiled:
    """A kernel's text, loaded into this process. Calling it passes addresses of arrays and integers as operands."""

    def __init__(self, text: str, target: Target) -> None:
        m = machine(target)
        module = llvm.parse_assembly(text)
        module.triple, module.data_layout = target.triple, str(m.target_data)
        module.verify()
        self.engine = llvm.create_mcjit_compiler(module, m)
        self.engine.finalize_object()
        self.call = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(
            self.engine.get_function_address("K"))

    def __call__(self, *operands: Any, lo: int = 0, hi: int = 1) -> None:
        words = (ctypes.c_uint64 * max(1, len(operands)))()
        for i, x in enumerate(operands):
            words[i] = x.ctypes.data if isinstance(x, np.ndarray) else int(x) & (2 ** 64 - 1)
        assert self.call(None, ctypes.addressof(words), lo, hi) == 0


def elementwise_text(f: Callable[..., Any], ins: tuple[DType, ...], out: DType, lanes: int, target: Target) -> str:
    """A kernel that stores ``f(e, *loaded)`` for operand 0 elements; operands: n, inputs, output."""
    e = Emitter(target)
    n, pointers = e.arg(0), [e.arg_ptr(i + 1) for i in range(len(ins) + 1)]

    def body(i: Any, _: Any) -> list[Any]:
        e.store(pointers[-1], f(e, *[e.load(p, d, i, lanes) for p, d in zip(pointers, ins)]), i, dtype=out)
        return []
    e.loop(0, n, lanes, [], body)
    return e.text()


@cache
def _compiled(f: Callable[..., Any], ins: tuple[DType, ...], out: DType, lanes: int, target: Target) -> Compiled:
    return Compiled(elementwise_text(f, ins, out, lanes, target), target)


def run(f: Callable[..., Any], *arrays: Any, out: Any = None, lanes: int = 0, target: Target | None = None) -> np.ndarray:
    """``f(e, *values)`` over the broadcast arrays; ``lanes`` 0 means the target's vector length for the first input."""
    target = target or host()
    arrays = tuple(np.array(a, copy=True, order="C") for a in np.broadcast_arrays(*arrays))
    shape, n = arrays[0].shape, arrays[0].size
    ins = tuple(as_dtype(a.dtype) for a in arrays)
    result = as_dtype(out) if out is not None else ins[0]
    lanes = lanes or target.lanes(ins[0])
    padded = [np.concatenate([a.ravel(), np.ones(lanes, a.dtype)]) for a in arrays]
    y = np.empty(n + lanes, result.np)
    _compiled(f, ins, result, lanes, target)(n, *padded, y)
    return y[:n].reshape(shape).copy()
