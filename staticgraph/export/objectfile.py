"""Object files: machine code from LLVM text, and constants written straight into an ELF file, so that a large model costs no memory."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..codegen.target import Target, machine
from ..errors import InternalError_

ALIGN = 64
_ELF_MACHINES = {"x86_64": 62, "aarch64": 183}


def is_elf(target: Target) -> bool:
    """Whether the target's object files are 64-bit ELF."""
    return target.triple.split("-")[0] in _ELF_MACHINES and "linux" in target.triple


def parsed(text: str, target: Target) -> tuple[Any, Any]:
    """(module, target machine) of LLVM text for export."""
    import llvmlite.binding as llvm
    tm = machine(target, jit=False)
    llvm.initialize_native_asmparser()       # cpuid is inline assembly
    try:
        module = llvm.parse_assembly(text)
        module.triple, module.data_layout = target.triple, str(tm.target_data)
        module.verify()
    except RuntimeError as error:
        raise InternalError_(f"generated code is not valid LLVM: {error}") from error
    return module, tm


class Blob:
    """The constants of an export, one after the other, each on a cache line of its own with zeros behind it."""

    def __init__(self) -> None:
        self.parts: list[tuple[int, np.ndarray[Any, Any]]] = []
        self.bytes = 0
        self._known: dict[int, int] = {}

    def add(self, array: np.ndarray[Any, Any]) -> int:
        """The offset of an array's bytes; the same array is kept once."""
        found = self._known.get(id(array))
        if found is None:
            found = self._known[id(array)] = self.fresh(array)
        return found

    def fresh(self, array: np.ndarray[Any, Any]) -> int:
        """The offset of an array's bytes, behind all others."""
        found = self.bytes
        self.parts.append((found, array))
        self.bytes += (array.nbytes + ALIGN - 1) // ALIGN * ALIGN
        return found

    def write(self, file: Any) -> None:
        """Append all bytes to an open file."""
        for _, array in self.parts:
            flat = np.ascontiguousarray(array).reshape(-1)
            if flat.nbytes:
                file.write(memoryview(flat.view(np.uint8)))
            file.write(bytes(-array.nbytes % ALIGN))

    def text(self, symbol: str) -> str:
        """The bytes as an LLVM constant: for small ones."""
        import io
        buffer = io.BytesIO()
        self.write(buffer)
        raw = buffer.getvalue() or bytes(ALIGN)
        return f"@{symbol} = internal constant [{len(raw)} x i8] {quoted(raw)}, align {ALIGN}\n"


_ESCAPED = [chr(b) if 32 <= b < 127 and chr(b) not in '"\\' else f"\\{b:02X}" for b in range(256)]


def quoted(raw: bytes) -> str:
    """Bytes as an LLVM string constant."""
    return 'c"' + "".join(map(_ESCAPED.__getitem__, raw)) + '"'


def write_constants(path: Path, blob: Blob, symbol: str, target: Target) -> None:
    """An ELF object that holds ``blob`` in ``.rodata`` under a hidden symbol. The bytes go from the arrays to the file."""
    name = symbol.encode()
    strings = b"\0" + name + b"\0"
    sections = b"\0.rodata\0.symtab\0.strtab\0.shstrtab\0.note.GNU-stack\0"
    data = 64
    symtab = data + blob.bytes                                   # a multiple of 64
    strtab = symtab + 48
    shstrtab = strtab + len(strings)
    headers = (shstrtab + len(sections) + 7) // 8 * 8

    def section(name: str, kind: int, flags: int, offset: int, size: int, link: int = 0, info: int = 0, align: int = 1, entry: int = 0) -> bytes:
        at = sections.index(b"\0" + name.encode() + b"\0") + 1 if name else 0
        return struct.pack("<IIQQQQIIQQ", at, kind, flags, 0, offset, size, link, info, align, entry)
    with path.open("wb") as file:
        file.write(struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF\x02\x01\x01" + bytes(9), 1, _ELF_MACHINES[target.triple.split("-")[0]], 1, 0, 0, headers, 0,
                               64, 0, 0, 64, 6, 4))
        blob.write(file)
        file.write(bytes(24) + struct.pack("<IBBHQQ", 1, 0x11, 2, 1, 0, blob.bytes))            # global object, hidden, in section 1
        file.write(strings + sections)
        file.write(bytes(headers - shstrtab - len(sections)))
        file.write(section("", 0, 0, 0, 0, align=0))
        file.write(section(".rodata", 1, 2, data, blob.bytes, align=ALIGN))
        file.write(section(".symtab", 2, 0, symtab, 48, link=3, info=1, align=8, entry=24))
        file.write(section(".strtab", 3, 0, strtab, len(strings)))
        file.write(section(".shstrtab", 3, 0, shstrtab, len(sections)))
        file.write(section(".note.GNU-stack", 1, 0, shstrtab + len(sections), 0))


def table(name: str, numbers: Sequence[int], kind: str = "i32") -> str:
    """An internal constant array of integers."""
    values = ", ".join(f"{kind} {n}" for n in numbers) or f"{kind} 0"
    return f"@{name} = internal constant [{max(1, len(numbers))} x {kind}] [{values}]\n"
