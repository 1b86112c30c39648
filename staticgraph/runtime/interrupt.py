"""Ctrl-C and time limits while native code runs.

Python runs signal handlers between its own instructions only, so a long native call would be deaf. In this process the walker therefore calls
``sg_poll`` between kernels every tenth of a second or so, and before it calls Python. It gives the handlers their turn (they run in the main
thread only); what one raises is kept here, stops the run, which has changed nothing, and is raised where the run was asked for. This is native
code because a handler may run at the very first instruction of a Python callback, outside of any ``try``.
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..errors import DeadlineExceededError

TEXT = """
@sg_slots = external global [4 x i64]
declare i32 @PyGILState_Ensure()
declare void @PyGILState_Release(i32)
declare i32 @PyErr_CheckSignals()
declare void @PyErr_Fetch(ptr, ptr, ptr)
declare void @PyErr_NormalizeException(ptr, ptr, ptr)

define i32 @sg_poll() {
entry:
  %gil = call i32 @PyGILState_Ensure()
  %r = call i32 @PyErr_CheckSignals()
  %raised = icmp ne i32 %r, 0
  br i1 %raised, label %keep, label %done
keep:
  %type = getelementptr i64, ptr @sg_slots, i64 1
  %value = getelementptr i64, ptr @sg_slots, i64 2
  %trace = getelementptr i64, ptr @sg_slots, i64 3
  call void @PyErr_Fetch(ptr %type, ptr %value, ptr %trace)
  call void @PyErr_NormalizeException(ptr %type, ptr %value, ptr %trace)
  store i64 1, ptr @sg_slots
  br label %done
done:
  call void @PyGILState_Release(i32 %gil)
  %stop = zext i1 %raised to i32
  ret i32 %stop
}
"""

_slots = (ctypes.c_int64 * 4)()              # whether a handler has raised, and (type, value, traceback), each a reference of ours


def imports() -> dict[str, int | None]:
    """Addresses that ``TEXT`` needs."""
    names = ("PyGILState_Ensure", "PyGILState_Release", "PyErr_CheckSignals", "PyErr_Fetch", "PyErr_NormalizeException")
    return {"sg_slots": ctypes.addressof(_slots), **{n: ctypes.cast(getattr(ctypes.pythonapi, n), ctypes.c_void_p).value for n in names}}


class _Local(threading.local):
    deadline: float | None = None


_local = _Local()


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Within, in this thread: runs that are under way after ``seconds`` stop with DeadlineExceededError."""
    saved, _local.deadline = _local.deadline, time.monotonic() + seconds
    try:
        yield
    finally:
        _local.deadline = saved


def timer(cancel: Any) -> threading.Timer | None:
    """Where this thread has a time limit: a running timer that then sets the flag (a ctypes int that the walker polls)."""
    if _local.deadline is None:
        return None

    def stop() -> None:
        cancel.value = 1
    made = threading.Timer(max(0.0, _local.deadline - time.monotonic()), stop)
    made.daemon = True
    made.start()
    return made


def raise_reason() -> None:
    """Raise what stopped a run of this thread: what a signal handler raised, or the time limit."""
    if _slots[0] and threading.current_thread() is threading.main_thread():
        error = ctypes.cast(_slots[2], ctypes.py_object).value
        for k in (1, 2, 3):
            if _slots[k]:
                ctypes.pythonapi.Py_DecRef(ctypes.c_void_p(_slots[k]))
            _slots[k] = 0
        _slots[0] = 0
        raise error
    if _local.deadline is not None and time.monotonic() >= _local.deadline:
        raise DeadlineExceededError(None, None, "Timed out waiting for the run to finish")
