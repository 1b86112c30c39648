"""Nested lists, tuples and dicts of values: to a flat list and back."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any


class Handle(ABC):
    """What a structure holds in place of several values: its parts are leaves.

    One may be open: a part that only its first use will tell is missing. Control flow closes it where any of the values that meet
    there (the branches' results; a loop's operand and its body's result) is closed.
    """

    @abstractmethod
    def _handle_parts(self) -> list[Any]:
        """The values; the one that may be missing is the last."""

    @abstractmethod
    def _handle_of(self, parts: Sequence[Any]) -> Any:
        """The same of other values."""

    @abstractmethod
    def _handle_open(self) -> bool:
        """Whether a part is missing, and cannot be made yet."""

    @abstractmethod
    def _handle_close(self, like: Any) -> None:
        """Make the missing part as ``like`` has it."""

    @abstractmethod
    def _handle_joined(self, other: Any) -> Any:
        """What stands for this or the other one."""


def is_leaf(x: Any) -> bool:
    """Not a list, tuple or dict."""
    return not isinstance(x, (list, tuple, dict))


def flatten(x: Any) -> list[Any]:
    """The leaves, in order (dicts by sorted key); of a handle its parts."""
    return [part for i in items(x) for part in (i._handle_parts() if isinstance(i, Handle) else [i])]


def items(x: Any) -> list[Any]:
    """The leaves, with handles as they are."""
    if is_leaf(x):
        return [x]
    return [leaf for i in ([x[k] for k in sorted(x, key=str)] if isinstance(x, dict) else x) for leaf in items(i)]


def handles(x: Any) -> list[Any]:
    """The handles among the leaves."""
    return [i for i in items(x) if isinstance(i, Handle)]


def with_items(like: Any, new: Sequence[Any]) -> Any:
    """``new`` leaves in the structure of ``like``, a handle being one."""
    return _pack(like, iter(new), whole=True)


def met(x: Any, y: Any) -> Any:
    """The structure of ``x``, with handles that stand for those of either."""
    return with_items(x, [i._handle_joined(j) if isinstance(i, Handle) else i for i, j in zip(items(x), items(y))])


def copied(x: Any) -> Any:
    """The same structure with handles of its own."""
    return with_items(x, [copy.copy(i) if isinstance(i, Handle) else i for i in items(x)])


def pack(like: Any, leaves: Sequence[Any]) -> Any:
    """``leaves`` in the structure of ``like``."""
    rest = iter(leaves)
    return _pack(like, rest)


def _pack(like: Any, rest: Any, whole: bool = False) -> Any:
    if isinstance(like, Handle) and not whole:
        return like._handle_of([next(rest) for _ in like._handle_parts()])
    if is_leaf(like):
        return next(rest)
    if isinstance(like, dict):
        got = {k: _pack(like[k], rest, whole) for k in sorted(like, key=str)}
        return type(like)((k, got[k]) for k in like)
    parts = [_pack(i, rest, whole) for i in like]
    return type(like)(*parts) if hasattr(like, "_fields") else type(like)(parts)


def map_leaves(f: Callable[[Any], Any], x: Any) -> Any:
    """``f`` of every leaf, in the same structure."""
    return pack(x, [f(i) for i in flatten(x)])


def same(x: Any, y: Any) -> bool:
    """The same nesting."""
    if is_leaf(x) or is_leaf(y):
        return is_leaf(x) and is_leaf(y) and isinstance(x, Handle) == isinstance(y, Handle)
    if isinstance(x, dict) or isinstance(y, dict):
        return isinstance(x, dict) and isinstance(y, dict) and set(x) == set(y) and all(same(x[k], y[k]) for k in x)
    return len(x) == len(y) and all(map(same, x, y))
