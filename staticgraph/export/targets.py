"""Which targets an export is for."""

from __future__ import annotations

from collections.abc import Sequence

from ..codegen.target import NAMED, Target, host
from .cpu import LEVELS, level_of

PORTABLE = ("x86-64", "x86-64-v3", "x86-64-v4")


def wanted_targets(target: str, targets: Sequence[str] | None) -> list[Target]:
    """The targets of an export, the least first. ValueError for an unknown name, or for targets that cannot share an object."""
    names = list(targets) if targets is not None else list(PORTABLE) if target == "portable" else [target]
    if not names:
        raise ValueError("targets is empty")
    found = []
    for n in names:
        if n == "native":
            level = level_of(host())
            found.append(host() if level < 0 else NAMED[LEVELS[level]])
        elif n in NAMED:
            found.append(NAMED[n])
        else:
            raise ValueError(f"unknown target {n!r}; there are portable, native, {', '.join(NAMED)}")
    if len({t.triple for t in found}) > 1:
        raise ValueError(f"targets of different systems cannot share an object: {', '.join(names)}")
    if len({t.name for t in found}) < len(found):
        raise ValueError(f"a target is named twice: {', '.join(names)}")
    return sorted(found, key=level_of)
