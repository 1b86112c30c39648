"""Joining object files without a compiler: the system's linker where it fits the target, a cross linker, else that of the package ``ziglang``.

A shared object refers to nothing outside: no library is needed, no symbol is left open (the linkers refuse that), the stack is not executable, and
equal inputs give equal bytes.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from ..codegen.target import Target

Command = list[str]
_ELF_EMULATION = {"x86_64": "elf_x86_64", "aarch64": "aarch64linux"}


class LinkError(RuntimeError):
    """No linker fits the target, or the linker refused the objects.

    The message has the linker's own words, or the ways to get a linker: a C compiler (``cc``), binutils (``ld``), or the package
    ``ziglang`` (``pip install "staticgraph[export]"``).
    """


def link(objects: Sequence[Path], out: Path, target: Target, format: str, name: str, functions: Sequence[str] = ()) -> None:
    """Join ``objects`` of one target into ``out``: a "shared" object or a "static" library.

    ``name`` becomes the library's own name; ``functions`` are those that a WebAssembly module or a Windows library lists as its exports (elsewhere all
    visible symbols are). The file appears whole or not at all. LinkError.
    """
    aside = out.with_name(f".{out.name}.{os.getpid()}")
    said: list[str] = []
    try:
        for command in ways(target, name, functions, format):
            words = command([str(o) for o in objects], str(aside))
            done = subprocess.run(words, capture_output=True, text=True, check=False)
            if done.returncode == 0 and aside.exists():
                os.replace(aside, out)
                return
            said.append(f"{' '.join(words[:3])} ...: {(done.stderr or done.stdout).strip()[:600]}")
    finally:
        aside.unlink(missing_ok=True)
    if said:
        raise LinkError("the linker refused the export:\n" + "\n".join(said))
    raise LinkError(f"no linker for {target.triple} was found. One of these is enough: a C compiler (cc) or binutils (ld) for the target's own "
                    'system, or the package ziglang (pip install "staticgraph[export]"); format="object" needs none')


def ways(target: Target, name: str, functions: Sequence[str], format: str) -> list[Way]:
    """What may join objects of the target, the preferred first; empty where nothing that is installed can."""
    return _archive(target) if format == "static" else _shared(target, name, functions)


Way = Callable[[list[str], str], Command]


def _native(target: Target) -> bool:
    """Whether this machine's own tools make files for the target."""
    arch = target.triple.split("-")[0]
    return platform.machine().lower() in (arch, {"x86_64": "amd64", "arm64": "aarch64"}.get(arch, arch)) and (
        ("linux" in target.triple and sys.platform == "linux") or ("macos" in target.triple and sys.platform == "darwin"))


def _zig(*tool: str) -> Command | None:
    return [sys.executable, "-m", "ziglang", *tool] if importlib.util.find_spec("ziglang") is not None else None


def _shared(target: Target, name: str, functions: Sequence[str]) -> list[Way]:
    """Ways to a shared object, the preferred first."""
    if "linux" in target.triple:
        return _elf(target, name)
    if "macos" in target.triple:
        arch = {"arm64": "aarch64"}.get(target.triple.split("-")[0], target.triple.split("-")[0])
        found = _zig("build-lib")            # zig links Mach-O itself, and signs it: arm64 loads nothing else
        ways: list[Way] = []
        if _native(target) and shutil.which("cc"):
            ways.append(lambda objects, out: ["cc", "-dynamiclib", "-nostdlib", f"-Wl,-install_name,@rpath/{name}", "-o", out, *objects])
        if found:
            ways.append(lambda objects, out: [*found, "-dynamic", "-target", f"{arch}-macos", "-fstrip", f"-femit-bin={out}", *objects])
        return ways
    if "windows" in target.triple:
        found = _zig("lld-link")
        exports = [f"/export:{f}" for f in functions]
        return [lambda objects, out: [*found, "/dll", "/noentry", "/nodefaultlib", "/Brepro", "/noimplib", *exports, f"/out:{out}", *objects]] if found else []
    if target.triple.startswith("wasm32"):
        found = [shutil.which("wasm-ld") or ""] if shutil.which("wasm-ld") else _zig("wasm-ld")
        exports = [f"--export={f}" for f in functions]
        return [lambda objects, out: [*found, "--no-entry", "--export-memory", "--export=__heap_base", "--strip-debug",
                                      *exports, "-o", out, *objects]] if found else []
    return []


def _elf(target: Target, name: str) -> list[Way]:
    words = ["-shared", "-z", "noexecstack", "-z", "defs", "--build-id=none", "--hash-style=gnu", "-soname", name]
    ways: list[Way] = []
    if _native(target):
        if shutil.which("cc"):
            passed = [f"-Wl,{','.join(words[k:k + 2])}" if words[k] in ("-z", "-soname") else f"-Wl,{words[k]}"
                      for k in range(1, len(words)) if words[k].startswith("-")]
            ways.append(lambda objects, out: ["cc", "-shared", "-nostdlib", *passed, "-o", out, *objects])
        if shutil.which("ld"):
            ways.append(lambda objects, out: ["ld", *words, "-o", out, *objects])
    arch = target.triple.split("-")[0]
    others = [[where] for tool in (f"{arch}-linux-gnu-ld", "ld.lld") if (where := shutil.which(tool))]           # Debian's names of cross linkers
    for found in (*others, _zig("ld.lld")):
        if found:
            ways.append(partial(_other, [*found, "-m", _ELF_EMULATION[arch], *words]))
    return ways


def _other(words: Command, objects: list[str], out: str) -> Command:
    return [*words, "-o", out, *objects]


def _archive(target: Target) -> list[Way]:
    """Ways to a static library. ``D`` leaves out times and owners, so that equal inputs give equal bytes."""
    ways: list[Way] = []
    if shutil.which("ar") and ("linux" in target.triple and sys.platform == "linux"):
        ways.append(lambda objects, out: ["ar", "rcsD", out, *objects])
    found = _zig("ar")
    if found:
        ways.append(lambda objects, out: [*found, "rcsD", out, *objects])
    return ways
