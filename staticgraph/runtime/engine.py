"""Owner of every LLVM object of the process: kernels by text, compiled once, freed with their last user.

A request compiles only the kernels that are missing, all in one object. Objects go through one path: text, object file (or the disk
cache), LLJIT. The table counts users per kernel; an object leaves memory when none of its kernels has a user.
"""

from __future__ import annotations

import hashlib
import re
import threading
import weakref
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from ..codegen.target import Target, host, machine
from ..config import log, log_wants
from ..errors import InternalError_
from . import cache, interrupt
from .walker import walker_text

_lock = threading.RLock()
_KERNEL = re.compile(r"@K(?=[.(])")


class _Library:
    """One linked object and how many of its kernels are in use."""

    def __init__(self, tracker: Any, symbols: dict[str, int]) -> None:
        self.tracker, self.symbols = tracker, symbols
        self.users = 0


class _Engine:
    """The process's JIT. Made at the first compile."""

    def __init__(self) -> None:
        import llvmlite.binding as llvm
        self.llvm = llvm
        self.machine = machine(host())
        self.jit = llvm.create_lljit_compiler(machine(host()))
        self.table: dict[tuple[str, str], tuple[_Library, str]] = {}
        self.counts: dict[tuple[str, str], int] = {}
        self.texts: dict[tuple[str, str], str] = {}
        self.serial = 0
        self.kept: list[Any] = []            # trackers of permanent modules
        self.runtime = self._runtime()
        self.walk = self.runtime.symbols["sg_walk"]

    def _runtime(self) -> _Library:
        """The walker, which polls for signals in this process."""
        text = walker_text("cycles" if host().triple.startswith("x86_64") else "count")
        builder = self.llvm.JITLibraryBuilder().add_object_img(self._object(text, host(), optimize=True))
        builder.import_symbol("sg_poll", self.permanent(interrupt.TEXT, "sg_poll", interrupt.imports()))
        names = ("sg_walk", "sg_report")
        for n in names:
            builder.export_symbol(n)
        tracker = builder.link(self.jit, "sg_runtime")
        return _Library(tracker, {n: tracker[n] for n in names})

    @cached_property
    def fastcall(self) -> int:
        """The address of the function that checks arrays and runs a program (``runtime.fastcall``)."""
        from .fastcall import TEXT
        return self.permanent(TEXT, "sg_fastcall", {})

    def _object(self, text: str, target: Target, optimize: bool = False, keep: bool = True) -> bytes:
        key = cache.key(text, target, optimize)
        found = cache.load(key) if keep else None
        if found is not None:
            return found
        made = self.build(text, target, optimize)
        if keep:
            cache.store(key, made)
        return made

    def build(self, text: str, target: Target, optimize: bool = False) -> bytes:
        """The object file of LLVM text. InternalError_ shows the lines around a fault."""
        llvm = self.llvm
        try:
            module = llvm.parse_assembly(text)
            module.verify()
        except RuntimeError as error:
            raise InternalError_(f"generated code is not valid LLVM: {error}\n{_around(text, str(error))}") from error
        tm = machine(target)
        module.triple = target.triple
        module.data_layout = str(tm.target_data)
        if optimize:
            passes = llvm.create_pass_builder(tm, llvm.create_pipeline_tuning_options(speed_level=2))
            passes.getModulePassManager().run(module, passes)
        return bytes(tm.emit_object(module))

    def _link(self, image: bytes, exports: Sequence[str], imports: Sequence[str]) -> _Library:
        builder = self.llvm.JITLibraryBuilder().add_object_img(image)
        for name in imports:
            builder.import_symbol(name, self.runtime.symbols[name])
        for name in exports:
            builder.export_symbol(name)
        self.serial += 1
        tracker = builder.link(self.jit, f"sg{self.serial}")
        return _Library(tracker, {name: tracker[name] for name in exports})

    def permanent(self, text: str, name: str, imports: dict[str, int | None]) -> int:
        """The address of ``name`` in a module that stays loaded for the life of the process."""
        builder = self.llvm.JITLibraryBuilder().add_object_img(self._object(text, host(), optimize=True))
        for symbol, address in imports.items():
            builder.import_symbol(symbol, address)
        self.serial += 1
        tracker = builder.export_symbol(name).link(self.jit, f"sg{self.serial}")
        self.kept.append(tracker)
        return int(tracker[name])

    def acquire(self, texts: Sequence[str], target: Target, keep: bool) -> list[tuple[str, str]]:
        """Keys of kernels that are now compiled and counted for the caller."""
        keys = [(hashlib.sha256(t.encode()).hexdigest()[:24], target.name + target.features) for t in texts]
        # those that exist are counted first: a finalizer may run at any moment and would take them away
        have = [k for k in keys if k in self.table]
        for k in have:
            self._count(k)
        missing = {k: t for k, t in zip(keys, texts) if k not in self.table}
        if missing:
            names = {k: f"k{k[0]}" for k in missing}
            module = _joined([_KERNEL.sub(f"@{names[k]}", t) for k, t in missing.items()])
            if log_wants("llvm"):
                log("llvm", module)
            library = self._link(self._object(module, target, keep=keep), list(names.values()), ("sg_report",))
            for k, t in missing.items():
                self.table[k], self.counts[k], self.texts[k] = (library, names[k]), 0, t
            for k in keys:
                if k in missing:
                    self._count(k)
        return keys

    def _count(self, key: tuple[str, str]) -> None:
        if self.counts[key] == 0:
            self.table[key][0].users += 1
        self.counts[key] += 1

    def release(self, keys: Sequence[tuple[str, str]]) -> None:
        """Take the caller's counts back; unused objects are unloaded."""
        for k in keys:
            self.counts[k] -= 1
            if self.counts[k] == 0:
                library = self.table[k][0]
                library.users -= 1
                if library.users == 0:
                    for other in [o for o, (lib, _) in self.table.items() if lib is library]:
                        del self.table[other], self.counts[other], self.texts[other]

    def address(self, key: tuple[str, str]) -> int:
        """Where a kernel is."""
        library, name = self.table[key]
        return library.symbols[name]


_engine: _Engine | None = None


def engine() -> _Engine:
    """The process's engine."""
    global _engine
    if _engine is None:
        with _lock:
            if _engine is None:
                _engine = _Engine()
    return _engine


def _joined(texts: Sequence[str]) -> str:
    """Kernels as one module; each function is declared once."""
    declared: dict[str, None] = {}
    body = []
    for t in texts:
        for line in t.splitlines():
            if line.startswith("declare"):
                declared[line] = None
            else:
                body.append(line)
    return "\n".join([*declared, *body]) + "\n"


def _around(text: str, message: str) -> str:
    found = re.search(r":(\d+):\d+: error", message) or re.search(r"line (\d+)", message)
    lines = text.splitlines()
    at = int(found[1]) - 1 if found else 0
    return "\n".join(f"{k + 1:6d} {line}" for k, line in list(enumerate(lines))[max(0, at - 6):at + 4])


class KernelSet:
    """Kernels in use by one executable; dropping it gives them back."""

    def __init__(self, texts: Sequence[str], target: Target, keep: bool = True) -> None:
        with _lock:
            e = engine()
            self.keys = e.acquire(texts, target, keep)
            self.addresses = [e.address(k) for k in self.keys]
        self._finalizer = weakref.finalize(self, _release, self.keys)
        self._finalizer.atexit = False

    def llvm_texts(self) -> list[str]:
        """The LLVM text of each kernel."""
        return [engine().texts[k] for k in self.keys]

    def asm(self, target: Target | None = None) -> list[str]:
        """The machine code of each kernel as text."""
        with _lock:
            e = engine()
            out = []
            for k in self.keys:
                module = e.llvm.parse_assembly(e.texts[k])
                tm = machine(target or host())
                module.triple = (target or host()).triple
                out.append(str(tm.emit_assembly(module)))
            return out


def _release(keys: Sequence[tuple[str, str]]) -> None:
    with _lock:
        if _engine is not None:
            _engine.release(keys)


def kernels_in_use() -> int:
    """How many kernels are compiled and in use."""
    return 0 if _engine is None else sum(c > 0 for c in _engine.counts.values())
