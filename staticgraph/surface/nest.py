"""Nested lists, tuples and dicts of values: to a flat list and back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any


def is_leaf(x: Any) -> bool:
    """Not a list, tuple or dict."""
    return not isinstance(x, (list, tuple, dict))


def flatten(x: Any) -> list[Any]:
    """The leaves, in order (dicts by sorted key)."""
    if is_leaf(x):
        return [x]
    items = [x[k] for k in sorted(x, key=str)] if isinstance(x, dict) else x
    return [leaf for i in items for leaf in flatten(i)]


def pack(like: Any, leaves: Sequence[Any]) -> Any:
    """``leaves`` in the structure of ``like``."""
    rest = iter(leaves)
    return _pack(like, rest)


def _pack(like: Any, rest: Any) -> Any:
    if is_leaf(like):
        return next(rest)
    if isinstance(like, dict):
        got = {k: _pack(like[k], rest) for k in sorted(like, key=str)}
        return type(like)((k, got[k]) for k in like)
    parts = [_pack(i, rest) for i in like]
    return type(like)(*parts) if hasattr(like, "_fields") else type(like)(parts)


def map_leaves(f: Callable[[Any], Any], x: Any) -> Any:
    """``f`` of every leaf, in the same structure."""
    return pack(x, [f(i) for i in flatten(x)])


def same(x: Any, y: Any) -> bool:
    """The same nesting."""
    if is_leaf(x) or is_leaf(y):
        return is_leaf(x) and is_leaf(y)
    if isinstance(x, dict) or isinstance(y, dict):
        return isinstance(x, dict) and isinstance(y, dict) and set(x) == set(y) and all(same(x[k], y[k]) for k in x)
    return len(x) == len(y) and all(map(same, x, y))
