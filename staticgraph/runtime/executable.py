"""A program with its kernels linked: one native call per run."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..config import Config
from ..memory import aligned, aligned_empty
from .engine import KernelSet, engine
from .interrupt import raise_reason, timer

I64 = ctypes.c_int64
NONE = 2**63 - 1
OK, ERROR, NEED_WORKSPACE, CANCELLED, HOST, BAD_ARGUMENT, UNSUPPORTED_CPU = range(7)
_WALK = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)


class SgError(ctypes.Structure):
    """The error record: the smallest (iteration, check, element) that failed."""

    _fields_ = [(n, I64) for n in ("check", "element", "a", "b", "iteration", "need", "lock")]


class SgRun(ctypes.Structure):
    """One run, by the one calling convention of session and export (``docs/internals.md`` section 3)."""

    _fields_ = [("inputs", ctypes.c_void_p), ("outputs", ctypes.c_void_p), ("state", ctypes.c_void_p), ("workspace", ctypes.c_void_p),
                ("dims", ctypes.c_void_p), ("error", ctypes.c_void_p), ("parallel", ctypes.c_void_p), ("pool", ctypes.c_void_p),
                ("cancel", ctypes.c_void_p), ("host", ctypes.c_void_p), ("host_data", ctypes.c_void_p), ("workspace_bytes", I64),
                ("program", ctypes.c_void_p), ("consts", ctypes.c_void_p)]


class Frame:
    """The memory of one run in flight: structures, pointer tables and an arena. Frames are pooled."""

    def __init__(self, n_in: int, n_out: int, n_state: int, n_dims: int, workspace: int) -> None:
        self.run = SgRun()
        self.error = SgError()
        self.inputs = (ctypes.c_void_p * max(1, n_in))()
        self.outputs = (ctypes.c_void_p * max(1, n_out))()
        self.state = (ctypes.c_void_p * max(1, n_state))()
        self.dims = (I64 * max(1, n_dims))()
        self.cancel = ctypes.c_int32(0)
        self.arena: np.ndarray[Any, Any] | None = None
        r = self.run
        r.inputs, r.outputs, r.state = (ctypes.addressof(x) for x in (self.inputs, self.outputs, self.state))
        r.dims, r.error, r.cancel = (ctypes.addressof(x) for x in (self.dims, self.error, self.cancel))
        self.grow(workspace)

    def clear(self) -> None:
        """Forget the error of the last run."""
        self.error.check, self.error.lock = NONE, 0
        self.error.element = self.error.iteration = 0

    def grow(self, workspace: int) -> None:
        """Make the arena at least that large."""
        if self.arena is None or self.arena.size < workspace:
            self.arena = aligned_empty((max(64, workspace),), np.uint8)
            self.run.workspace = self.arena.ctypes.data
            self.run.workspace_bytes = self.arena.size


class NativeProgram:
    """Words, kernels and constants in memory. ``run`` may be called from several threads at once."""

    def __init__(self, program: Any, target: Any, config: Config) -> None:
        self.program = program
        self.kernels = KernelSet(program.texts, target, config.cache)
        words = program.words.copy()
        for at, k in program.fixups:
            words[at] = self.kernels.addresses[k]
        self.words = words
        self.constants = []
        for c in program.constants:
            self.constants.append(aligned(c))
        self.const_table = (ctypes.c_void_p * max(1, len(self.constants)))(*[c.ctypes.data for c in self.constants])
        self.walk = _WALK(engine().walk)
        self.frames: list[Frame] = []
        self.lock = threading.Lock()
        self.static_workspace = program.workspace if isinstance(program.workspace, int) else 0
        self.counts = (0, 0, 0)
        self.parallel, self.pool = _pool(config.thread_count)

    def frame(self, n_in: int, n_out: int, n_state: int) -> Frame:
        """A frame for one run; give it back with ``frames.append``."""
        with self.lock:
            if self.frames:
                return self.frames.pop()
        f = Frame(n_in, n_out, n_state, self.program.n_dims, self.static_workspace)
        f.run.program = self.words.ctypes.data
        f.run.consts = ctypes.addressof(self.const_table)
        f.run.parallel, f.run.pool = self.parallel, self.pool
        return f

    def run(self, feeds: Sequence[np.ndarray[Any, Any]], outs: Sequence[np.ndarray[Any, Any]], states: Sequence[np.ndarray[Any, Any]],
            dims: Sequence[int], host: Any = None, found: dict[str, int] | None = None) -> tuple[int, Any]:
        """(status, error record). Arrays must be contiguous, of the right dtypes and sizes; they are kept alive by the caller.

        ``found`` gets the sizes that the run measured.
        """
        f = self.frame(len(feeds), len(outs), len(states))
        for k, a in enumerate(feeds):
            f.inputs[k] = a.ctypes.data
        for k, a in enumerate(outs):
            f.outputs[k] = a.ctypes.data
        for k, a in enumerate(states):
            f.state[k] = a.ctypes.data
        for k, d in enumerate(dims):
            f.dims[k] = d
        f.run.host = ctypes.cast(host, ctypes.c_void_p).value if host is not None else None
        f.cancel.value = 0
        limit = timer(f.cancel)
        while True:
            f.clear()
            status = self.walk(ctypes.addressof(f.run))
            if status != NEED_WORKSPACE:
                break
            f.grow(f.error.need)
        error = None
        if status == ERROR:
            error = SgError.from_buffer_copy(f.error)
        elif found is not None:
            found.update((s, f.dims[at]) for s, at in self.program.measured.items())
        with self.lock:
            self.frames.append(f)
        if limit is not None:
            limit.cancel()
        if status == CANCELLED:
            raise_reason()
        return status, error


def _pool(threads: int) -> tuple[int | None, int | None]:
    """Addresses of the pool's ``parallel`` function and data; None for one thread."""
    if threads <= 1:
        return None, None
    from .threads import pool
    return pool(threads)
