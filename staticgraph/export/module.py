"""One LLVM module that holds an export: kernels and drivers of each target side by side, entries, tables, manifest.

Functions carry the instruction set that they were made for as attributes, so that one object file serves several.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..codegen.target import Target
from ..runtime.walker import REPORT
from ..runtime.walker_parts import MOVES
from .cpu import NEEDS, choose_text
from .driver import SUPPORT, driver
from .entries import POINTERS, TYPES, entry_text, messages_text, workspace_text
from .messages import Messages
from .objectfile import Blob, quoted
from .plan import BAKED, FROZEN, Entry, Store
from .state import state_text

_KERNEL = re.compile(r"@K(?=[.(])")
_DEFINE = re.compile(r"^define (?!internal)", re.MULTILINE)
_HEAD = re.compile(r"^(define .*) \{$", re.MULTILINE)
MAGIC = b"\0STATICGRAPH-EXPORT-1\0"


def attributes(target: Target) -> str:
    """The function attributes of an instruction set."""
    return f'"target-cpu"="{target.cpu}" "target-features"="{target.features}"'


class Module:
    """Collects the text of an export. ``blob`` gets its constants."""

    def __init__(self, name: str, targets: Sequence[Target]) -> None:
        self.name, self.targets = name, targets
        self.blob = Blob()
        self.messages = Messages(name, NEEDS.get(targets[0].name, ""))
        self.parts: list[str] = []
        self.declared: dict[str, None] = {}
        self.kernels: dict[tuple[int, str], str] = {}

    def kernel(self, at: int, text: str) -> str:
        """The name of a kernel's function on a target; equal texts are one function."""
        found = self.kernels.get((at, text))
        if found is None:
            found = self.kernels[at, text] = f"k{at}.{hashlib.sha256(text.encode()).hexdigest()[:16]}"
            lines = []
            for line in _KERNEL.sub(f"@{found}", text).splitlines():
                if line.startswith("declare"):
                    if "@sg_report" not in line:
                        self.declared[line] = None
                else:
                    lines.append(line)
            body = _DEFINE.sub("define internal ", "\n".join(lines))
            self.parts.append(_HEAD.sub(lambda m: f"{m[1]} {attributes(self.targets[at])} {{", body))
        return found

    def entry(self, e: Entry, store: Store, baked: Sequence[Any], layout: int | None) -> None:
        """The drivers of an entry and its public functions; ``baked`` are the values of ``e.baked``."""
        e.first_message = len(self.messages.texts)
        for n in e.checks:
            self.messages.check(n)
        drivers = []
        variables = list(store.variables.values())
        for at, program in enumerate(e.programs):
            constants = {k: self._constant(c) for k, c in enumerate(program.constants)}
            constants.update({BAKED + k: self._constant(getattr(v, "array", v)) for k, v in enumerate(baked)})
            if store.frozen:
                constants.update({FROZEN + k: self._constant(v.value) for k, v in enumerate(variables)})
            kernels = [self.kernel(at, t) for t in program.texts]
            drivers.append(f"{e.name}.{at}")
            found = [(program.measured[s], len(e.outputs) - len(e.found) + k) for k, s in enumerate(e.found)]
            self.parts.append(driver(program, drivers[-1], kernels, constants, [v.offset for v in variables], attributes(self.targets[at]), found))
        workspaces = [p.workspace for p in e.programs]
        self.parts.append(entry_text(e, self.name, drivers, workspaces, layout, self.messages))
        self.parts.append(workspace_text(f"{self.name}_{e.name}_workspace_bytes", e, workspaces))

    def _constant(self, array: Any) -> str:
        offset = self.blob.add(array)
        return f"getelementptr (i8, ptr @{self.name}.constants, i64 {offset})" if offset else f"@{self.name}.constants"

    def _identity(self) -> str:
        """A hash of code and constants: two versions of one model differ in it."""
        digest = hashlib.sha256("".join(self.parts).encode())
        for _, array in self.blob.parts:
            digest.update(memoryview(np.ascontiguousarray(array).reshape(-1).view(np.uint8)))
        return digest.hexdigest()[:32]

    def text(self, entries: Sequence[Entry], store: Store, layout: int | None, manifest: dict[str, Any], external: bool) -> str:
        """The whole module. ``external``: the constants are in an object of their own."""
        main = entries[0]
        static = [int(w) for e in entries if not e.symbols for w in (p.workspace for p in e.programs)]
        if main.symbols:
            self.parts.append(workspace_text(f"{self.name}_workspace_bytes", main, [p.workspace for p in main.programs]))
        else:
            self.parts.append(f"define i64 @{self.name}_workspace_bytes() nounwind {{\n  ret i64 {max(static)}\n}}\n")
        self.parts.append(f"define i32 @{self.name}_abi_version() nounwind {{\n  ret i32 {manifest['abi']}\n}}\n")
        if layout is not None:
            self.parts.append(state_text(self.name, list(store.variables.values()), layout, self.blob))
        self.parts.append(messages_text(self.name, self.messages))
        self.parts.append(choose_text(self.targets))
        manifest["id"] = self._identity()
        raw = json.dumps(manifest, separators=(",", ":"), ensure_ascii=True).encode()
        whole = MAGIC + len(raw).to_bytes(8, "little") + hashlib.sha256(raw).digest()[:8] + raw + b"\0"
        skip = len(whole) - len(raw) - 1
        self.parts.append(f"@{self.name}.manifest = internal constant [{len(whole)} x i8] {quoted(whole)}, align 8\n"
                          f"define ptr @{self.name}_manifest() nounwind {{\n  ret ptr getelementptr (i8, ptr @{self.name}.manifest, i64 {skip})\n}}\n")
        if external:
            constants = f"@{self.name}.constants = external hidden constant [{self.blob.bytes} x i8], align 64\n"
        else:
            constants = self.blob.text(f"{self.name}.constants")
        report = REPORT.replace("define void @sg_report", "define internal void @sg_report")
        return "".join([TYPES, "\n".join(self.declared), "\n", constants, report, MOVES, SUPPORT, POINTERS, *self.parts])
