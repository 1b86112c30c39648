"""Undefined symbols of object files, read by hand: ELF, Mach-O, COFF and WebAssembly."""

from __future__ import annotations

from collections.abc import Iterator

from emitted import _undefined as _elf


def undefined(data: bytes) -> list[str]:
    """The names that an object file leaves to the linker."""
    if data.startswith(b"\x7fELF"):
        return _elf(data)
    if data.startswith(b"\xcf\xfa\xed\xfe"):
        return list(_mach_o(data))
    if data.startswith(b"\0asm"):
        return list(_wasm(data))
    assert data.startswith(b"\x64\x86"), f"unknown object file {data[:8]!r}"
    return list(_coff(data))


def _word(data: bytes, at: int, size: int) -> int:
    return int.from_bytes(data[at:at + size], "little")


def _name(data: bytes, at: int) -> str:
    return data[at:data.index(b"\0", at)].decode()


def _mach_o(data: bytes) -> Iterator[str]:
    at = 32
    for _ in range(_word(data, 16, 4)):
        if _word(data, at, 4) == 2:                       # LC_SYMTAB
            symbols, count, strings = (_word(data, at + k, 4) for k in (8, 12, 16))
            for s in range(symbols, symbols + 16 * count, 16):
                if data[s + 4] & 0x0E == 0 and data[s + 4] & 0xE0 == 0:          # N_UNDF, no debugging entry
                    yield _name(data, strings + _word(data, s, 4))
        at += _word(data, at + 4, 4)


def _coff(data: bytes) -> Iterator[str]:
    symbols, count = _word(data, 8, 4), _word(data, 12, 4)
    strings, k = symbols + 18 * count, 0
    while k < count:
        s = symbols + 18 * k
        if _word(data, s + 12, 2) == 0 and data[s + 16] == 2 and _word(data, s + 8, 4) == 0:         # external, in no section
            yield _name(data, strings + _word(data, s + 4, 4)) if _word(data, s, 4) == 0 else data[s:s + 8].rstrip(b"\0").decode()
        k += 1 + data[s + 17]


def _wasm(data: bytes) -> Iterator[str]:
    """Imported functions, and imported globals other than the stack pointer, which the linker itself defines."""
    def number() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    def text() -> str:
        nonlocal at
        size = number()
        at += size
        return data[at - size:at].decode()
    at = 8
    while at < len(data):
        kind = data[at]
        at += 1
        end = number()
        end += at
        if kind == 2:
            for _ in range(number()):
                text()
                name, what = text(), data[at]
                at += 1
                if what == 0:
                    number()
                elif what == 3:
                    at += 2
                else:                                     # table (with an element type) or memory: limits
                    at += what == 1
                    bounded = number() & 1
                    number()
                    if bounded:
                        number()
                if what == 0 or (what == 3 and name != "__stack_pointer"):
                    yield name
        at = end
