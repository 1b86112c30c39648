"""Prepared calls: everything that can be decided once is, so that a call costs little more than its work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import source
from .feeds import prepared
from .tensor import Operation, Tensor


def prepared_call(session: Any, plan: Any, flat: list[Any], feeds: list[Tensor], rebuild: Callable[[Any], Any]) -> Callable[..., Any]:
    """A function of the fed values. Arrays of the right dtype and layout are used where they are; others are prepared first."""
    kinds = [(t.dtype.np, len(t.node.shape)) for t in feeds]
    count = len(feeds)
    used = [feeds.index(t) for t in plan.used]
    tensors = plan.tensors
    single = len(flat) == 1 and isinstance(flat[0], Tensor) and flat[0] not in feeds
    places = [None if isinstance(f, Operation) else ("feed", feeds.index(f)) if f in feeds else ("value", tensors.index(f)) for f in flat]

    def call(*args: Any) -> Any:
        if len(args) != count:
            raise ValueError(f"expected {count} values, got {len(args)}")
        if session._closed:
            raise RuntimeError("Attempted to use a closed Session.")
        values = []
        for k, a in enumerate(args):
            dtype, rank = kinds[k]
            if type(a) is not np.ndarray or a.dtype != dtype or a.ndim != rank or not a.flags.c_contiguous or not a.flags.aligned:
                a = prepared(feeds[k], a)
            values.append(a)
        for k, t in enumerate(feeds):
            for d, s in zip(t.node.shape, values[k].shape):
                if d.__class__ is int and d != s:
                    prepared(t, values[k])
        with source.hide_own_frames():
            got = session._execute(plan, [values[k] for k in used])
        if single:
            v = got[0]
            return rebuild(iter((v[()] if v.ndim == 0 else v,)))
        out = []
        for p in places:
            if p is None:
                out.append(None)
            elif p[0] == "feed":
                out.append(values[p[1]])
            else:
                v = got[p[1]]
                out.append(v[()] if v.ndim == 0 else v)
        return rebuild(iter(out))
    return call
