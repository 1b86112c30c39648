"""Export: a graph as one shared object and one header that need nothing else."""

from __future__ import annotations

from typing import Any

from .loader import load


def __getattr__(name: str) -> Any:
    if name in ("shared_object", "Export"):
        from . import build
        return getattr(build, name)
    if name == "LinkError":
        from .link import LinkError
        return LinkError
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = ["LinkError", "load", "shared_object"]
