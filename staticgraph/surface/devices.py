"""Names of devices: ``/job:worker/device:GPU:0``, and parts of such names that scopes add to each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_PARTS = ("job", "replica", "task", "device")


def _parts(name: str) -> dict[str, str]:
    parts = {}
    for part in name.strip("/").split("/"):
        key, _, value = part.partition(":")
        if key.lower() in ("cpu", "gpu"):
            key, value = "device", f"{key.upper()}:{value or '*'}"
        elif key == "device":
            kind, _, number = value.partition(":")
            value = f"{kind.upper()}:{number or '*'}"
        if part and (key not in _PARTS or not value):
            raise ValueError(f"Unknown attribute: '{key}' in '{name}'")
        if part:
            parts[key] = value
    return parts


def merged(outer: str, name: str) -> str:
    """``/gpu:0`` within ``/job:worker`` is ``/job:worker/device:GPU:0``. ValueError for what is no device name."""
    parts = {**(_parts(outer) if isinstance(outer, str) else {}), **_parts(name)}
    return "".join(f"/{k}:{parts[k]}" for k in _PARTS if k in parts)


def from_function(f: Callable[[Any], Any]) -> Callable[[Any], str]:
    """The device that a function of an operation names."""
    return lambda op: merged("", str(f(op) or ""))
