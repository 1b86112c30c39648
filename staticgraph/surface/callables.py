"""Prepared calls: everything that can be decided once is, so that a call costs little more than its work."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import source
from ..dtypes import string
from ..memory import maker
from ..runtime.fastcall import HELD, available, fast_call
from ..runtime.interrupt import raise_reason
from ..runtime.state import layout
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

    def slow(*args: Any) -> Any:
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

    quick: Any = None
    tried = False

    def call(*args: Any) -> Any:
        nonlocal quick, tried
        if quick is not None and not session._closed:
            if quick.scalars:
                args = quick.boxed(args)
            if quick.bare is not None:
                out = quick.make(*quick.bare)
                if (status := quick.function(*args, out)) == 0:
                    return out
                done, got = quick.finish(status, [out])
            else:
                done, got = quick(args)
            if done:
                return got
        got = slow(*args)
        if not tried:
            tried = True
            quick = _quick(session, plan, flat, feeds, rebuild)
        return got
    return call


class _Quick:
    """A native call: ``outs`` are (dtype, shape) of the result arrays it wants after the feeds, ``end`` gives back slots it still holds.

    ``bare`` is (shape, dtype) where the answer is the only array itself: then a tenth of a microsecond here and there counts.
    """

    __slots__ = ("__weakref__", "answer", "bare", "end", "frame", "function", "make", "outs", "scalars")

    def __init__(self, program: Any, feeds: Any, outs: Any, answer: Callable[[list[Any]], Any], store: Any, slots: Any) -> None:
        self.outs, self.answer = [(maker(shape, dtype), shape, dtype) for dtype, shape in outs], answer
        self.scalars = [(k, dtype) for k, (dtype, shape) in enumerate(feeds) if not shape]
        token = [object()]
        self.bare = outs[0][::-1] if len(outs) == 1 and outs[0][1] and answer(token) is token[0] else None
        self.make = self.outs[0][0] if self.bare else None
        self.function, self.frame, forget = fast_call(program, feeds, outs, slots, store.inside.count if store is not None else None)
        reads, writes = ([slot for slot, written, _ in slots if written is kind] for kind in (False, True))
        self.end = lambda: store.end(reads, writes)
        weakref.finalize(self, forget)

    def __call__(self, args: Sequence[Any]) -> tuple[bool, Any]:
        """(True, results), or (False, None) where the long way must be gone: other arrays, a failure to be worded, a call at the same time."""
        outs = [make(shape, dtype) for make, shape, dtype in self.outs]
        return self.finish(self.function(*args, *outs), outs)

    def boxed(self, args: Sequence[Any]) -> list[Any]:
        """The arguments with numbers as arrays, where that is a matter of course: what is not goes the long way."""
        out = list(args)
        for k, dtype in self.scalars:
            if k < len(out):
                kind = out[k].__class__
                if kind is dtype.type or (kind is float and dtype == np.float32) or (kind is int and dtype == np.int32 and -2**31 <= out[k] < 2**31):
                    out[k] = np.array(out[k], dtype)
        return out

    def finish(self, status: int, outs: list[Any]) -> tuple[bool, Any]:
        """What the native function's answer means."""
        if status >= HELD:
            self.end()
            status -= HELD
        if status == 0:
            return True, self.answer(outs)
        if status > 0:
            self.frame.clear()
            raise_reason()
        return False, None


def _quick(session: Any, plan: Any, flat: list[Any], feeds: list[Tensor], rebuild: Callable[[Any], Any]) -> Any:
    """A native call where that is possible: all feeds used, and none of them fetched."""
    if plan.defaults or plan.used != feeds or any(f in feeds for f in flat):
        return None
    places = [plan.tensors.index(f) if isinstance(f, Tensor) else None for f in flat]
    return native_call(session.last_executable, [t.node for t in feeds], places, rebuild, session._store)


def native_call(exe: Any, feeds: list[Any], places: Sequence[int | None], rebuild: Callable[[Any], Any], store: Any = None) -> _Quick | None:
    """The call of an executable that has run, for arrays of ``feeds`` in their order: results at ``places``, put together by ``rebuild``.

    ``store`` holds the variables. None where a call needs more than arrays and variables: sizes that vary, Python functions.
    """
    if not available() or exe.config.verify or len(exe.variants) != 1:
        return None
    variant = next(iter(exe.variants.values()))
    order = [i.key for i in exe.inputs if i.kind == "feed"]
    given = [a.substitute(variant.fixed) for a in exe.feed_avals]            # open sizes are those of the first call
    if variant.symbols or exe.capacities or variant.room or variant.program.hosts or order != feeds or not all(a.is_static for a in given):
        return None
    slots = _slots(store, variant) if variant.states else []
    if slots is None:
        return None
    outs = [(a.dtype.np, a.shape) for a in variant.out_avals]
    ranks = [len(a.shape) for a in variant.out_avals]

    def answer(got: list[Any]) -> Any:
        return rebuild(iter([None if p is None else got[p] if ranks[p] else got[p][()] for p in places]))
    return _Quick(variant.native, [(a.dtype.np, tuple(a.shape)) for a in given], outs, answer, store, slots)


class Repeated:
    """``Session.run`` of fetches and fed keys that were run before: the native call of that run, without looking at the structures again."""

    __slots__ = ("answer", "feeds", "fences", "graph", "keep", "kinds", "order", "quick")

    def __init__(self, graph: Any, quick: _Quick, keep: Any, feeds: list[Tensor], order: list[int], answer: Callable[[list[Any]], Any]) -> None:
        self.graph, self.quick, self.keep, self.feeds, self.order, self.answer = graph, quick, keep, feeds, order, answer
        self.kinds = [t.dtype.np for t in feeds]
        self.fences = graph.fences

    @staticmethod
    def key(fetches: Any, feed_dict: Any) -> Any:
        """What such runs have in common. The objects are kept, so that a number stands for one of them."""
        listed = fetches.__class__ is list or fetches.__class__ is tuple
        fed = tuple(map(id, feed_dict)) if feed_dict.__class__ is dict else () if feed_dict is None else None
        return fetches.__class__, tuple(map(id, fetches)) if listed else id(fetches), fed

    @staticmethod
    def made(session: Any, plan: Any, fetches: Any, flat: list[Any], feed_dict: Any, feeds: list[Tensor]) -> Repeated | None:
        """For a run that just went natively; None for structures that may change between runs, or whose feeds are more than arrays."""
        exe, quick = plan.native
        whole = list(fetches) if fetches.__class__ in (list, tuple) else [fetches]
        keys = list(feed_dict or ())
        # a program made while variables had no value knows that of them
        if quick is None or plan.executables.get(frozenset()) is not exe or not keys == plan.used == feeds or plan.defaults or len(whole) != len(flat):
            return None
        if any(f is not g or f in feeds or (isinstance(f, Tensor) and f.dtype == string) for f, g in zip(whole, flat)):
            return None
        places = [plan.tensors.index(f) if isinstance(f, Tensor) else None for f in flat]
        kind = fetches.__class__

        def answer(got: list[Any]) -> Any:
            out = [None if p is None else got[p] if got[p].ndim else got[p][()] for p in places]
            return kind(out) if kind is list or kind is tuple else out[0]
        nodes = [t.node for t in feeds]
        return Repeated(session.graph, quick, (whole, keys), feeds, [nodes.index(i.key) for i in exe.inputs if i.kind == "feed"], answer)

    def __call__(self, feed_dict: Any) -> tuple[bool, Any]:
        """(True, the answer), or (False, None) where the long way must be gone."""
        if self.fences != self.graph.fences:
            return False, None
        values = list(feed_dict.values()) if feed_dict else []
        for k, v in enumerate(values):
            if v.__class__ is not np.ndarray or v.dtype != self.kinds[k]:
                values[k] = prepared(self.feeds[k], v)
        done, got = self.quick([values[k] for k in self.order])
        return (True, self.answer(got)) if done else (False, None)


def _slots(store: Any, variant: Any) -> list[tuple[Any, bool, int]] | None:
    """(slot, whether it is written, its layout) of the program's state; None if a size or a value is not known."""
    written = {key: (aval, dtype) for key, aval, dtype in variant.writes}
    out = []
    for key in variant.states if store is not None else ():
        slot = store.slot(key)
        if slot.array is None:
            return None
        kind = layout(slot.array.shape, slot.array.dtype)
        if key in written:
            aval, dtype = written[key]
            if not aval.is_static or layout(aval.shape, dtype) != kind:
                return None
        out.append((slot, key in written, kind))
    return out if store is not None else None
