"""Assertions on ranks and types: decided while building wherever the rank is known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .. import source
from ..dtypes import as_dtype
from ..errors import DTypeError, ShapeError
from .deferred import recorded
from .funnel import convert, op_scope
from .sizes import known
from .tensor import Operation
from .variables import no_op


def _rank_of(value: Any) -> int:
    """A rank given as a number or a constant."""
    t = convert(value, name="rank")
    if not t.dtype.is_integer:
        raise DTypeError(f"{t.name} must be of type <dtype: 'int32'>")
    if t.node.shape:
        raise ValueError("Rank must be a scalar.")
    found = known(t.node)
    if found is None:
        raise ValueError(f"{t.name}: a rank that a run computes is not available: ranks are part of a program")
    return int(found.item())


def _check(public: str, x: Any, ranks: Sequence[Any], holds: Callable[[int, list[int]], bool], words: str, message: str | None, name: str | None) -> Operation:
    with op_scope(name, public, x), source.hide_own_frames():
        t, wanted = convert(x, name="x"), [_rank_of(r) for r in ranks]
        rank = len(t.node.shape)
        if not holds(rank, wanted):
            shown = wanted[0] if len(wanted) == 1 and words != "rank in" else tuple(wanted)
            raise ShapeError(f"{message or ''}.  Tensor {t.name} must have {words} {shown}.  Received rank {rank}, shape {t.shape}")
        return no_op("static_checks_determined_all_ok")


@recorded
def assert_rank(x: Any, rank: Any, data: Any = None, summarize: int | None = None, message: str | None = None, name: str | None = None) -> Operation:
    """An operation that does nothing, if ``x`` has that rank; else ValueError: while building, or for the rank fed where that is open."""
    return _check("assert_rank", x, [rank], lambda r, w: r == w[0], "rank", message, name)


@recorded
def assert_rank_at_least(x: Any, rank: Any, data: Any = None, summarize: int | None = None, message: str | None = None, name: str | None = None) -> Operation:
    """``assert_rank`` for that rank or a higher one."""
    return _check("assert_rank_at_least", x, [rank], lambda r, w: r >= w[0], "rank at least", message, name)


@recorded
def assert_rank_in(x: Any, ranks: Any, data: Any = None, summarize: int | None = None, message: str | None = None, name: str | None = None) -> Operation:
    """``assert_rank`` for one of several."""
    return _check("assert_rank_in", x, list(ranks), lambda r, w: r in w, "rank in", message, name)


def assert_type(tensor: Any, tf_type: Any, message: str | None = None, name: str | None = None) -> Operation:
    """An operation that does nothing; TypeError unless the tensor has that type."""
    with op_scope(name, "assert_type", tensor):
        t = convert(tensor, name="tensor")
        if t.dtype != as_dtype(tf_type):
            raise DTypeError(f"{message or ''}  {t.name} must be of type {as_dtype(tf_type)!s}")
        return no_op("statically_determined_correct_type")
