"""Variables and random streams of one session: their buffers, and who may touch them when.

A run reads the versions it finds and writes new ones. A run that writes a variable is alone with it until its commit; runs that only
read go on beside it on the version they pinned (the writer then works on a copy). All of a run's variables are taken at
once, so no order of locking can deadlock.

A prepared call (``runtime.fastcall``) does the same in native code, on the words of each slot, while it holds the GIL and no thread is
inside one of the sections below: where one is, the call goes the long way.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterable
from typing import Any

import numpy as np

from ..dtypes import DType
from ..memory import aligned_empty

ADDRESS, PINS, WRITING, LAYOUT, OBJECT = range(5)
_layouts: dict[Any, int] = {}


def layout(shape: tuple[int, ...], dtype: Any) -> int:
    """A number for a shape and a dtype, the same while the process lives."""
    return _layouts.setdefault((tuple(shape), np.dtype(dtype).str), len(_layouts) + 1)


class Slot:
    """One variable or stream. ``array`` is None until it has a value.

    ``words`` are what native code reads and writes: the array's address (0: none), the readers' pins, whether a run writes it, its
    layout's number, the array object.
    """

    __slots__ = ("_array", "owner", "words")

    def __init__(self, array: np.ndarray[Any, Any] | None = None) -> None:
        self.words = (ctypes.c_int64 * 5)()
        self.owner = 0                       # thread that writes, to refuse a run that would wait for itself
        self.array = array

    @property
    def array(self) -> np.ndarray[Any, Any] | None:
        """The current version."""
        return self._array

    @array.setter
    def array(self, array: np.ndarray[Any, Any] | None) -> None:
        words = self.words
        if array is None:
            words[ADDRESS] = words[LAYOUT] = words[OBJECT] = 0
        else:
            words[ADDRESS], words[LAYOUT], words[OBJECT] = array.ctypes.data, layout(array.shape, array.dtype), id(array)
        self._array = array

    @property
    def pins(self) -> int:
        """Runs that read the current version."""
        return self.words[PINS]

    @pins.setter
    def pins(self, n: int) -> None:
        self.words[PINS] = n

    @property
    def writing(self) -> bool:
        """Whether a run is writing it."""
        return self.words[WRITING] != 0

    @writing.setter
    def writing(self, yes: bool) -> None:
        self.words[WRITING] = yes


class _Inside:
    """How many threads are inside a section, or wait in one: a word that native code looks at."""

    def __init__(self) -> None:
        self.count = ctypes.c_int64(0)

    def __enter__(self) -> None:
        self.count.value += 1

    def __exit__(self, *_: object) -> None:
        self.count.value -= 1


class Lease:
    """What one run holds: the array to use for each slot."""

    __slots__ = ("arrays", "fresh", "reads", "writes")

    def __init__(self) -> None:
        self.arrays: dict[Any, np.ndarray[Any, Any]] = {}
        self.reads: list[Slot] = []
        self.writes: list[tuple[Any, Slot]] = []
        self.fresh: list[Any] = []           # slots whose array is new: put in place by the commit


class StateStore:
    """All slots of a session, by key: ``("variable", uid)`` or ``("stream", uid)``."""

    def __init__(self) -> None:
        self.slots: dict[Any, Slot] = {}
        self.changed = threading.Condition()
        self.inside = _Inside()

    def slot(self, key: Any) -> Slot:
        """The slot of ``key``, made empty where there is none."""
        found = self.slots.get(key)
        if found is None:
            with self.changed, self.inside:
                found = self.slots.setdefault(key, Slot())
        return found

    def initialized(self, key: Any) -> bool:
        """Whether the variable has a value."""
        found = self.slots.get(key)
        return found is not None and found.array is not None

    def value(self, key: Any) -> np.ndarray[Any, Any] | None:
        """A copy of the current value, or None."""
        with self.changed, self.inside:
            slot = self.slots.get(key)
            while slot is not None and slot.writing:
                self.changed.wait()
            return None if slot is None or slot.array is None else slot.array.copy()

    def load(self, key: Any, value: Any, dtype: DType) -> None:
        """Set a value at once."""
        source = np.asarray(value, dtype.np)
        array = aligned_empty(source.shape, dtype.np)
        array[...] = source
        slot = self.slot(key)
        with self.changed, self.inside:
            while slot.writing:
                self.changed.wait()
            slot.array = array

    def acquire(self, reads: Iterable[Any], writes: Iterable[tuple[Any, tuple[int, ...], Any]]) -> Lease:
        """Take slots for a run: ``reads`` are keys, ``writes`` are (key, shape, dtype). Waits for runs that write them.

        RuntimeError where this thread itself is writing one (a host function that runs the session again).
        """
        lease = Lease()
        writing = [(key, self.slot(key), shape, dtype) for key, shape, dtype in writes]
        only = {key for key, *_ in writing}
        reading = [(key, self.slot(key)) for key in reads if key not in only]
        me = threading.get_ident()
        with self.changed, self.inside:
            while True:
                busy = next((s for s in (*(w[1] for w in writing), *(r[1] for r in reading)) if s.writing), None)
                if busy is None:
                    break
                if busy.owner == me:
                    raise RuntimeError("a host function ran the session again for a variable that the outer run is writing")
                self.changed.wait()
            for key, slot in reading:
                assert slot.array is not None, key
                slot.pins += 1
                lease.reads.append(slot)
                lease.arrays[key] = slot.array
            for key, slot, shape, dtype in writing:
                slot.writing, slot.owner = True, me
                lease.writes.append((key, slot))
                array = slot.array
                if array is None or slot.pins or array.shape != shape:
                    fresh = aligned_empty(shape, dtype)
                    if array is not None and array.shape == shape:
                        fresh[...] = array
                    lease.fresh.append(key)
                    array = fresh
                lease.arrays[key] = array
        return lease

    def release(self, lease: Lease, commit: bool) -> None:
        """End a run; ``commit`` puts new arrays in place (those written in place already are)."""
        with self.changed, self.inside:
            for slot in lease.reads:
                slot.pins -= 1
            for key, slot in lease.writes:
                if commit and key in lease.fresh:
                    slot.array = lease.arrays[key]
                slot.writing, slot.owner = False, 0
            self.changed.notify_all()

    def end(self, reads: Iterable[Slot], writes: Iterable[Slot]) -> None:
        """End a prepared call that could not do so itself, as others were looking at the slots."""
        with self.changed, self.inside:
            for slot in reads:
                slot.pins -= 1
            for slot in writes:
                slot.writing = False
            self.changed.notify_all()

    def clear(self) -> None:
        """Forget all values."""
        with self.changed, self.inside:
            for slot in self.slots.values():
                slot.array = None            # prepared calls hold slots
            self.slots.clear()
