"""Variables and random streams of one session: their buffers, and who may touch them when.

A run reads the versions it finds and writes new ones. A run that writes a variable is alone with it until its commit; runs that only
read go on beside it on the version they pinned (the writer then works on a copy). All of a run's variables are taken at
once, so no order of locking can deadlock.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any

import numpy as np

from ..dtypes import DType


def aligned_empty(shape: tuple[int, ...], dtype: Any) -> np.ndarray[Any, Any]:
    """An uninitialised array whose memory is 64-byte aligned and padded to whole cache lines."""
    dtype = np.dtype(dtype)
    count = 1
    for d in shape:
        count *= d
    need = count * dtype.itemsize
    raw = np.empty((need + 63) // 64 * 64 + 64, np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start:start + need].view(dtype).reshape(shape)


class Slot:
    """One variable or stream. ``array`` is None until it has a value."""

    __slots__ = ("array", "owner", "pins", "writing")

    def __init__(self, array: np.ndarray[Any, Any] | None = None) -> None:
        self.array = array
        self.pins = 0
        self.writing = False
        self.owner = 0                       # thread that writes, to refuse a run that would wait for itself


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

    def slot(self, key: Any) -> Slot:
        """The slot of ``key``, made empty where there is none."""
        found = self.slots.get(key)
        if found is None:
            with self.changed:
                found = self.slots.setdefault(key, Slot())
        return found

    def initialized(self, key: Any) -> bool:
        """Whether the variable has a value."""
        found = self.slots.get(key)
        return found is not None and found.array is not None

    def value(self, key: Any) -> np.ndarray[Any, Any] | None:
        """A copy of the current value, or None."""
        with self.changed:
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
        with self.changed:
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
        with self.changed:
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
        with self.changed:
            for slot in lease.reads:
                slot.pins -= 1
            for key, slot in lease.writes:
                if commit and key in lease.fresh:
                    slot.array = lease.arrays[key]
                slot.writing, slot.owner = False, 0
            self.changed.notify_all()

    def clear(self) -> None:
        """Forget all values."""
        with self.changed:
            self.slots.clear()
