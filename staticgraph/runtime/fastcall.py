"""Calls that cost less than a microsecond: a native function that checks the arrays itself and runs the program.

CPython hands a METH_FASTCALL function its arguments as a C array of objects. Ours compares each object's class, dtype object, rank, sizes
and flags with a record made beforehand, stores the data pointers where the program looks for them, and walks the program with the GIL
released. It answers 0 for a run that succeeded and otherwise changes nothing that counts: the caller then goes the long way, which repeats
the run, converts what needs converting and words the error. Only programs without state go this way, so that a repetition is harmless.

Offsets are those of ``PyObject`` and ``PyArrayObject`` on 64-bit CPython with a GIL; elsewhere ``available`` is False.
"""

from __future__ import annotations

import ctypes
import struct
import sys
import sysconfig
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from .engine import engine

NOT_FIT, BUSY = -1, -2
_HEAD, _PER_ARG = 8, 4
_BYTES_PAYLOAD = 32                          # of a bytes object: refcount, type, size, hash, then the text
_CONTIGUOUS_ALIGNED = 0x101

TEXT = f"""
define ptr @sg_fastcall(ptr %self, ptr %args, i64 %n) {{
entry:
  %at = getelementptr i8, ptr %self, i64 {_BYTES_PAYLOAD}
  %rec = load ptr, ptr %at
  %want = load i64, ptr %rec
  %boxp = getelementptr i64, ptr %rec, i64 4
  %box = load ptr, ptr %boxp
  %right = icmp eq i64 %n, %want
  br i1 %right, label %claim, label %misfit
claim:
  %busyp = getelementptr i64, ptr %rec, i64 7
  %old = atomicrmw xchg ptr %busyp, i64 1 acquire
  %free = icmp eq i64 %old, 0
  br i1 %free, label %ready, label %busy
ready:
  %typep = getelementptr i64, ptr %rec, i64 1
  %type = load ptr, ptr %typep
  %none = icmp eq i64 %n, 0
  br i1 %none, label %go, label %arg
arg:
  %k = phi i64 [ 0, %ready ], [ %k1, %store ]
  %slot = getelementptr ptr, ptr %args, i64 %k
  %o = load ptr, ptr %slot
  %base = mul i64 %k, {_PER_ARG}
  %base8 = add i64 %base, {_HEAD}
  %a = getelementptr i64, ptr %rec, i64 %base8
  %tp = getelementptr i8, ptr %o, i64 8
  %t = load ptr, ptr %tp
  %isarray = icmp eq ptr %t, %type
  br i1 %isarray, label %look, label %undo
look:
  %dp = getelementptr i8, ptr %o, i64 56
  %d = load ptr, ptr %dp
  %dwant = load ptr, ptr %a
  %dsame = icmp eq ptr %d, %dwant
  %np = getelementptr i8, ptr %o, i64 24
  %nd = load i32, ptr %np
  %nd64 = zext i32 %nd to i64
  %nwantp = getelementptr i64, ptr %a, i64 1
  %nwant = load i64, ptr %nwantp
  %nsame = icmp eq i64 %nd64, %nwant
  %fp = getelementptr i8, ptr %o, i64 64
  %f = load i32, ptr %fp
  %f2 = and i32 %f, {_CONTIGUOUS_ALIGNED}
  %fsame = icmp eq i32 %f2, {_CONTIGUOUS_ALIGNED}
  %s1 = and i1 %dsame, %nsame
  %s2 = and i1 %s1, %fsame
  br i1 %s2, label %sizes, label %undo
sizes:
  %sp = getelementptr i8, ptr %o, i64 32
  %s = load ptr, ptr %sp
  %swantp = getelementptr i64, ptr %a, i64 2
  %swant = load ptr, ptr %swantp
  br label %size
size:
  %j = phi i64 [ 0, %sizes ], [ %j1, %same ]
  %done = icmp eq i64 %j, %nd64
  br i1 %done, label %store, label %compare
compare:
  %xp = getelementptr i64, ptr %s, i64 %j
  %x = load i64, ptr %xp
  %yp = getelementptr i64, ptr %swant, i64 %j
  %y = load i64, ptr %yp
  %eq = icmp eq i64 %x, %y
  br i1 %eq, label %same, label %undo
same:
  %j1 = add i64 %j, 1
  br label %size
store:
  %datap = getelementptr i8, ptr %o, i64 16
  %data = load ptr, ptr %datap
  %placep = getelementptr i64, ptr %a, i64 3
  %place = load ptr, ptr %placep
  store ptr %data, ptr %place
  %k1 = add i64 %k, 1
  %last = icmp eq i64 %k1, %n
  br i1 %last, label %go, label %arg
go:
  %runp = getelementptr i64, ptr %rec, i64 2
  %run = load ptr, ptr %runp
  %walkp = getelementptr i64, ptr %rec, i64 3
  %walk = load ptr, ptr %walkp
  %savep = getelementptr i64, ptr %rec, i64 5
  %save = load ptr, ptr %savep
  %restorep = getelementptr i64, ptr %rec, i64 6
  %restore = load ptr, ptr %restorep
  %state = call ptr %save()
  %status = call i32 %walk(ptr %run)
  call void %restore(ptr %state)
  %status64 = sext i32 %status to i64
  br label %leave
undo:
  br label %leave
leave:
  %answer = phi i64 [ %status64, %go ], [ {NOT_FIT}, %undo ]
  store atomic i64 0, ptr %busyp release, align 8
  %r0 = call ptr %box(i64 %answer)
  ret ptr %r0
busy:
  %r1 = call ptr %box(i64 {BUSY})
  ret ptr %r1
misfit:
  %r2 = call ptr %box(i64 {NOT_FIT})
  ret ptr %r2
}}
"""


class _MethodDef(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("address", ctypes.c_void_p), ("flags", ctypes.c_int), ("doc", ctypes.c_char_p)]


def available() -> bool:
    """Whether the objects of this interpreter look as the native code expects."""
    return (sys.implementation.name == "cpython" and struct.calcsize("P") == 8 and not sysconfig.get_config_var("Py_GIL_DISABLED")
            and not sysconfig.get_config_var("Py_TRACE_REFS") and sys.byteorder == "little")


@cache
def _definition() -> _MethodDef:
    """One for all functions and for ever: the collector reads it of a function that is already dying."""
    return _MethodDef(b"run", engine().fastcall, 0x80, None)


def fast_call(program: Any, feeds: Sequence[tuple[Any, tuple[int, ...]]], outs: Sequence[tuple[Any, tuple[int, ...]]]) -> Any:
    """A function of the fed arrays followed by the arrays for the results; ``feeds`` and ``outs`` are (NumPy dtype, shape).

    Its answer is 0 for success; anything else says that the long way must be gone. Returned with its frame, whose error record is to be
    cleared after a failure, and with a function that frees it all.
    """
    frame = program.frame(len(feeds), len(outs), 0)          # its own: never given back
    api = ctypes.pythonapi
    values = [len(feeds) + len(outs), id(np.ndarray), ctypes.addressof(frame.run), engine().walk,
              *(ctypes.cast(getattr(api, f), ctypes.c_void_p).value or 0 for f in ("PyLong_FromLong", "PyEval_SaveThread", "PyEval_RestoreThread")), 0]
    kept: list[Any] = [frame, program]
    tables = [(ctypes.addressof(frame.inputs), feeds), (ctypes.addressof(frame.outputs), outs)]
    for table, arrays in tables:
        for k, (dtype, shape) in enumerate(arrays):
            sizes = (ctypes.c_int64 * max(1, len(shape)))(*shape)
            kept += [dtype, sizes]
            values += [id(dtype), len(shape), ctypes.addressof(sizes), table + 8 * k]
    frame.clear()
    frame.cancel.value = 0
    record = (ctypes.c_int64 * len(values))(*values)
    payload = struct.pack("q", ctypes.addressof(record))     # ``self`` of the function: a bytes object that holds the address
    make = api.PyCMethod_New
    make.argtypes, make.restype = [ctypes.c_void_p, ctypes.py_object, ctypes.py_object, ctypes.c_void_p], ctypes.py_object
    function = make(ctypes.addressof(_definition()), payload, payload, None)
    _ALIVE[payload] = (function, record, kept)
    return function, frame, lambda: _ALIVE.pop(payload, None)


_ALIVE: dict[bytes, Any] = {}
