"""Calls that cost less than a microsecond: a native function that checks the arrays itself and runs the program.

CPython hands a METH_FASTCALL function its arguments as a C array of objects. Ours compares each object's class, dtype object, rank, sizes
and flags with a record made beforehand, stores the data pointers where the program looks for them, and walks the program with the GIL
released. It answers 0 for a run that succeeded and otherwise changes nothing that counts: the caller then goes the long way, which repeats
the run, converts what needs converting and words the error. A run that does not succeed changes no state (it stops before its commit),
so a repetition is harmless.

State (``runtime.state``): with the GIL held and no Python thread inside a section of the store, no slot can change while this code looks at
them all and marks those it takes, and again while it gives them back. Where a thread is inside, the call goes the long way, or, at its end,
leaves the giving back to ``StateStore.end``, which wakes those that wait. The arrays of the slots taken are kept alive by references.

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
from .state import LAYOUT, OBJECT, PINS, WRITING, Slot

NOT_FIT, BUSY = -1, -2
HELD = 256                                   # added to the answer of a run that has not given its slots back
_HEAD, _PER_ARG, _PER_SLOT = 14, 4, 5
_BYTES_PAYLOAD = 32                          # of a bytes object: refcount, type, size, hash, then the text
_CONTIGUOUS_ALIGNED = 0x101

TEXT = f"""
define internal void @sg_mark(ptr %entry, i64 %by) alwaysinline {{
  %w = load ptr, ptr %entry
  %mp = getelementptr i64, ptr %entry, i64 1
  %writes = load i64, ptr %mp
  %reads = sub i64 1, %writes
  %pp = getelementptr i64, ptr %w, i64 {PINS}
  %p = load i64, ptr %pp
  %pb = mul i64 %reads, %by
  %p1 = add i64 %p, %pb
  store i64 %p1, ptr %pp
  %wp = getelementptr i64, ptr %w, i64 {WRITING}
  %wv = load i64, ptr %wp
  %wb = mul i64 %writes, %by
  %w1 = add i64 %wv, %wb
  store i64 %w1, ptr %wp
  ret void
}}

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
  %insidep = getelementptr i64, ptr %rec, i64 8
  %inside = load ptr, ptr %insidep
  %countp = getelementptr i64, ptr %rec, i64 9
  %count = load i64, ptr %countp
  %tablep = getelementptr i64, ptr %rec, i64 10
  %table = load ptr, ptr %tablep
  %refp = getelementptr i64, ptr %rec, i64 11
  %incref = load ptr, ptr %refp
  %unrefp = getelementptr i64, ptr %rec, i64 12
  %decref = load ptr, ptr %unrefp
  %stateless = icmp eq i64 %count, 0
  br i1 %stateless, label %start, label %closed
closed:
  %in = load volatile i64, ptr %inside
  %alone = icmp eq i64 %in, 0
  br i1 %alone, label %check, label %undo
check:
  %sk = phi i64 [ 0, %closed ], [ %sk1, %fits ]
  %sb = mul i64 %sk, {_PER_SLOT}
  %s0 = getelementptr i64, ptr %table, i64 %sb
  %w = load ptr, ptr %s0
  %s1p = getelementptr i64, ptr %s0, i64 1
  %writes = load i64, ptr %s1p
  %s2p = getelementptr i64, ptr %s0, i64 2
  %lwant = load i64, ptr %s2p
  %address = load i64, ptr %w
  %pinsp = getelementptr i64, ptr %w, i64 {PINS}
  %pins = load i64, ptr %pinsp
  %writingp = getelementptr i64, ptr %w, i64 {WRITING}
  %writing = load i64, ptr %writingp
  %layoutp = getelementptr i64, ptr %w, i64 {LAYOUT}
  %layout = load i64, ptr %layoutp
  %ok1 = icmp eq i64 %layout, %lwant
  %ok2 = icmp eq i64 %writing, 0
  %blocked = mul i64 %pins, %writes
  %ok3 = icmp eq i64 %blocked, 0
  %ok12 = and i1 %ok1, %ok2
  %ok123 = and i1 %ok12, %ok3
  br i1 %ok123, label %fits, label %undo
fits:
  %s3p = getelementptr i64, ptr %s0, i64 3
  %splace = load ptr, ptr %s3p
  store i64 %address, ptr %splace
  %sk1 = add i64 %sk, 1
  %slast = icmp eq i64 %sk1, %count
  br i1 %slast, label %take, label %check
take:
  %tk = phi i64 [ 0, %fits ], [ %tk1, %take ]
  %tb = mul i64 %tk, {_PER_SLOT}
  %t0 = getelementptr i64, ptr %table, i64 %tb
  call void @sg_mark(ptr %t0, i64 1)
  %tw = load ptr, ptr %t0
  %twop = getelementptr i64, ptr %tw, i64 {OBJECT}
  %two = load ptr, ptr %twop
  %t4 = getelementptr i64, ptr %t0, i64 4
  store ptr %two, ptr %t4
  call void %incref(ptr %two)
  %tk1 = add i64 %tk, 1
  %tlast = icmp eq i64 %tk1, %count
  br i1 %tlast, label %start, label %take
start:
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
  br i1 %stateless, label %leave, label %after
after:
  %in2 = load volatile i64, ptr %inside
  %alone2 = icmp eq i64 %in2, 0
  %held = select i1 %alone2, i64 0, i64 {HELD}
  %back = select i1 %alone2, i64 -1, i64 0
  %answer1 = add i64 %status64, %held
  br label %give
give:
  %gk = phi i64 [ 0, %after ], [ %gk1, %give ]
  %gb = mul i64 %gk, {_PER_SLOT}
  %g0 = getelementptr i64, ptr %table, i64 %gb
  call void @sg_mark(ptr %g0, i64 %back)
  %g4 = getelementptr i64, ptr %g0, i64 4
  %go4 = load ptr, ptr %g4
  call void %decref(ptr %go4)
  %gk1 = add i64 %gk, 1
  %glast = icmp eq i64 %gk1, %count
  br i1 %glast, label %leave, label %give
undo:
  br label %leave
leave:
  %answer = phi i64 [ %status64, %start ], [ %answer1, %give ], [ {NOT_FIT}, %undo ]
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


def fast_call(program: Any, feeds: Sequence[tuple[Any, tuple[int, ...]]], outs: Sequence[tuple[Any, tuple[int, ...]]],
              slots: Sequence[tuple[Slot, bool, int]] = (), inside: Any = None) -> Any:
    """A function of the fed arrays followed by the arrays for the results; ``feeds`` and ``outs`` are (NumPy dtype, shape).

    ``slots`` are (slot, whether the program writes it, its layout) in the order of the program's state, ``inside`` the store's word.
    Its answer is 0 for success, ``HELD`` more where ``StateStore.end`` must be called; anything else says that the long way must be gone.
    Returned with its frame, whose error record is to be cleared after a failure, and with a function that frees it all.
    """
    frame = program.frame(len(feeds), len(outs), len(slots))     # its own: never given back
    api = ctypes.pythonapi

    def address(name: str) -> int:
        return ctypes.cast(getattr(api, name), ctypes.c_void_p).value or 0
    entries: list[int] = []
    for k, (slot, writes, kind) in enumerate(slots):
        entries += [ctypes.addressof(slot.words), int(writes), kind, ctypes.addressof(frame.state) + 8 * k, 0]
    table = (ctypes.c_int64 * max(1, len(entries)))(*entries)
    values = [len(feeds) + len(outs), id(np.ndarray), ctypes.addressof(frame.run), engine().walk,
              *(address(f) for f in ("PyLong_FromLong", "PyEval_SaveThread", "PyEval_RestoreThread")), 0,
              ctypes.addressof(inside) if inside is not None else 0, len(slots), ctypes.addressof(table),
              address("Py_IncRef"), address("Py_DecRef"), 0]
    assert len(values) == _HEAD
    kept: list[Any] = [frame, program, table, slots, inside]
    tables = [(ctypes.addressof(frame.inputs), feeds), (ctypes.addressof(frame.outputs), outs)]
    for start, arrays in tables:
        for k, (dtype, shape) in enumerate(arrays):
            sizes = (ctypes.c_int64 * max(1, len(shape)))(*shape)
            kept += [dtype, sizes]
            values += [id(dtype), len(shape), ctypes.addressof(sizes), start + 8 * k]
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
