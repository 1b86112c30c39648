"""Processors that code can be made for: feature strings, vector widths, and LLVM target machines.

``host()`` is the processor of this process (``SG_TARGET`` may name a lesser one, for tests); the other targets are for
export. llvmlite is imported only when a machine is asked for, so that importing the package stays quick.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from typing import Any

from ..dtypes import DType

_V2 = ("cx16", "sahf", "popcnt", "sse3", "ssse3", "sse4.1", "sse4.2")
_V3 = (*_V2, "avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe")
_V4 = (*_V3, "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl", "evex512")


@dataclass(frozen=True, slots=True)
class Target:
    """One processor.

    ``features`` is LLVM's string (``+avx2,-avx512f``), ``vector_bits`` the register width the generators aim at, ``fma``
    whether a fused multiply-add is one instruction (targets without it form a second class of bits), ``masked`` whether
    masked loads and stores are cheap for every element type.
    """

    name: str
    triple: str
    cpu: str
    features: str
    vector_bits: int
    fma: bool
    masked: bool

    def lanes(self, dtype: DType) -> int:
        """Elements of ``dtype`` in one vector register (bool counts as its byte, float16 as the float32 it is computed in)."""
        return self.vector_bits // max(8, 32 if dtype.name == "float16" else dtype.bits)

    def has(self, feature: str) -> bool:
        """Whether ``feature`` (LLVM's spelling) is switched on."""
        return f"+{feature}" in self.features.split(",")

    @property
    def rounds(self) -> bool:
        """Whether floor, ceil, trunc and rint are instructions (x86 has them from SSE4.1 on)."""
        return not self.triple.startswith("x86_64") or self.has("sse4.1")

    @property
    def half(self) -> bool:
        """Whether float16 <-> float32 conversions are instructions."""
        return self.triple.startswith(("aarch64", "arm64")) or self.has("f16c")


def _x86(name: str, features: tuple[str, ...], triple: str = "x86_64-unknown-linux-gnu") -> Target:
    wide = "avx512f" in features
    text = ",".join(f"+{f}" for f in features) + (",-prefer-256-bit" if wide else "")
    bits = 512 if wide else 256 if "avx2" in features else 128
    return Target(name, triple, "x86-64", text, bits, "fma" in features, wide)


NAMED: dict[str, Target] = {t.name: t for t in (
    _x86("x86-64", ()),
    _x86("x86-64-v2", _V2),
    _x86("x86-64-v3", _V3),
    _x86("x86-64-v4", _V4),
    _x86("x86_64-windows", _V3, "x86_64-w64-windows-gnu"),
    Target("aarch64-linux", "aarch64-unknown-linux-gnu", "generic", "+neon", 128, True, False),
    Target("arm64-macos", "arm64-apple-macosx11.0", "apple-m1", "", 128, True, False),
    Target("wasm32", "wasm32-unknown-unknown", "generic", "+simd128,+bulk-memory,+nontrapping-fptoint", 128, False, False),
)}


def named(name: str) -> Target:
    """The target called ``name`` (``host`` for this processor); ValueError lists the known ones."""
    if name == "host":
        return host()
    if name not in NAMED:
        raise ValueError(f"Unknown target {name!r}; known: host, {', '.join(NAMED)}.")
    return NAMED[name]


@cache
def _detect() -> Target:
    import llvmlite.binding as llvm
    triple = llvm.get_process_triple()
    # A hypervisor may lie about the model number, so the name serves only for instruction timings; the features decide.
    on = llvm.get_host_cpu_features()
    features = on.flatten()
    cpu = llvm.get_host_cpu_name()
    if not triple.startswith("x86_64"):
        return Target("host", triple, cpu, features, 128, triple.startswith(("aarch64", "arm64")), False)
    wide = all(on.get(f, False) for f in ("avx512f", "avx512bw", "avx512dq", "avx512vl"))
    if wide:
        features += ",-prefer-256-bit"          # every server model would otherwise be given 256-bit code
    bits = 512 if wide else 256 if on.get("avx2", False) else 128
    return Target("host", triple, cpu, features, bits, bool(on.get("fma", False)), wide)


def host() -> Target:
    """This processor, or the lesser one that the environment variable ``SG_TARGET`` names."""
    forced = os.environ.get("SG_TARGET", "")
    return named(forced) if forced and forced != "host" else _detect()


@cache
def _initialize() -> None:
    import llvmlite.binding as llvm
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()


def machine(target: Target, jit: bool = True, opt: int = 2) -> Any:
    """An LLVM target machine: position independent code (WebAssembly modules have no place of their own, and need none); for a JIT its code
    model, else the default one (export)."""
    import llvmlite.binding as llvm
    _initialize()
    return llvm.Target.from_triple(target.triple).create_target_machine(
        cpu=target.cpu, features=target.features, opt=opt, reloc="static" if target.triple.startswith("wasm") else "pic",
        codemodel="jitdefault" if jit else "default", jit=jit)
