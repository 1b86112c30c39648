"""The worker threads of the JIT: one pool per thread count and process, as LLVM text, never unloaded.

``parallel(pool, task, arg, n)`` hands out chunks of 0 .. n-1 through one counter; the caller takes chunks as well, so it never waits
for a worker that is not at work. Workers spin a bounded time for the next job, then sleep on a futex. A second caller at the
same time does its work alone. After a fork the child starts workers of its own at its first use. Linux only; elsewhere
runs are serial.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from functools import cache

SPIN = 4000                                  # pauses before a worker sleeps: some tens of microseconds
_lock = threading.Lock()

# the pool: 0 pid, 1 workers wanted, 2 lock, 3 task, 4 arg, 5 n, 6 chunk, 7 next, 8 open (job number while open, else 0),
# 9 busy workers, 10 job number (the futex word), 11 sleepers
_TEXT = """
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i64 @syscall(i64, ...)
declare i32 @getpid()
declare i32 @sched_yield()

define internal void @sg_chunks(ptr %pool) {
entry:
  %taskp = getelementptr i64, ptr %pool, i64 3
  %task = load ptr, ptr %taskp
  %argp = getelementptr i64, ptr %pool, i64 4
  %arg = load ptr, ptr %argp
  %np = getelementptr i64, ptr %pool, i64 5
  %n = load i64, ptr %np
  %cp = getelementptr i64, ptr %pool, i64 6
  %chunk = load i64, ptr %cp
  %nextp = getelementptr i64, ptr %pool, i64 7
  br label %take
take:
  %lo = atomicrmw add ptr %nextp, i64 %chunk seq_cst
  %more = icmp slt i64 %lo, %n
  br i1 %more, label %work, label %done
work:
  %end = add i64 %lo, %chunk
  %hi = call i64 @llvm.smin.i64(i64 %end, i64 %n)
  %r = call i32 %task(ptr %arg, i64 %lo, i64 %hi)
  br label %take
done:
  ret void
}

define internal ptr @sg_worker(ptr %pool) {
entry:
  %jobp = getelementptr i64, ptr %pool, i64 10
  %openp = getelementptr i64, ptr %pool, i64 8
  %busyp = getelementptr i64, ptr %pool, i64 9
  %sleepp = getelementptr i64, ptr %pool, i64 11
  br label %idle
idle:
  %seen = phi i64 [ 0, %entry ], [ %job, %leave ]
  br label %look
look:
  %spins = phi i64 [ 0, %idle ], [ %spins1, %spin ]
  %job = load atomic i64, ptr %jobp seq_cst, align 8
  %new = icmp ne i64 %job, %seen
  br i1 %new, label %join, label %spin
spin:
  PAUSE
  %spins1 = add i64 %spins, 1
  %tired = icmp sgt i64 %spins1, SPINS
  br i1 %tired, label %sleep, label %look
sleep:
  %s0 = atomicrmw add ptr %sleepp, i64 1 seq_cst
  %word = trunc i64 %seen to i32
  %f = call i64 (i64, ...) @syscall(i64 FUTEX, ptr %jobp, i64 128, i32 %word, ptr null)
  %s1 = atomicrmw sub ptr %sleepp, i64 1 seq_cst
  br label %idle2
idle2:
  br label %look2
look2:
  %job2 = load atomic i64, ptr %jobp seq_cst, align 8
  %new2 = icmp ne i64 %job2, %seen
  br i1 %new2, label %join2, label %sleep
join2:
  br label %join
join:
  %j = phi i64 [ %job, %look ], [ %job2, %join2 ]
  %b0 = atomicrmw add ptr %busyp, i64 1 seq_cst
  %open = load atomic i64, ptr %openp seq_cst, align 8
  %mine = icmp eq i64 %open, %j
  br i1 %mine, label %help, label %leave
help:
  call void @sg_chunks(ptr %pool)
  br label %leave
leave:
  %b1 = atomicrmw sub ptr %busyp, i64 1 seq_cst
  br label %idle
}

define internal void @sg_start(ptr %pool, i32 %pid) {
entry:
  %pid64 = zext i32 %pid to i64
  store atomic i64 %pid64, ptr %pool seq_cst, align 8
  %wp = getelementptr i64, ptr %pool, i64 1
  %workers = load i64, ptr %wp
  %thread = alloca i64
  %openp = getelementptr i64, ptr %pool, i64 8
  store i64 0, ptr %openp
  %busyp = getelementptr i64, ptr %pool, i64 9
  store i64 0, ptr %busyp
  %sleepp = getelementptr i64, ptr %pool, i64 11
  store i64 0, ptr %sleepp
  %jobp = getelementptr i64, ptr %pool, i64 10
  store i64 0, ptr %jobp
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %i1, %body ]
  %m = icmp slt i64 %i, %workers
  br i1 %m, label %body, label %done
body:
  %r = call i32 @pthread_create(ptr %thread, ptr null, ptr @sg_worker, ptr %pool)
  %i1 = add i64 %i, 1
  br label %head
done:
  ret void
}

define void @sg_parallel(ptr %pool, ptr %task, ptr %arg, i64 %n) {
entry:
  %lockp = getelementptr i64, ptr %pool, i64 2
  %pid = call i32 @getpid()
  %pid64 = zext i32 %pid to i64
  %known = load atomic i64, ptr %pool seq_cst, align 8
  %same = icmp eq i64 %known, %pid64
  br i1 %same, label %try, label %forked
forked:
  store atomic i64 0, ptr %lockp seq_cst, align 8
  br label %try
try:
  %got = cmpxchg ptr %lockp, i64 0, i64 1 seq_cst seq_cst
  %ok = extractvalue { i64, i1 } %got, 1
  br i1 %ok, label %held, label %alone
alone:
  %r = call i32 %task(ptr %arg, i64 0, i64 %n)
  ret void
held:
  %known2 = load atomic i64, ptr %pool seq_cst, align 8
  %same2 = icmp eq i64 %known2, %pid64
  br i1 %same2, label %ready, label %start
start:
  call void @sg_start(ptr %pool, i32 %pid)
  br label %ready
ready:
  %wp = getelementptr i64, ptr %pool, i64 1
  %workers = load i64, ptr %wp
  %threads = add i64 %workers, 1
  %parts = shl i64 %threads, 2
  %c0 = udiv i64 %n, %parts
  %chunk = call i64 @llvm.smax.i64(i64 %c0, i64 1)
  %taskp = getelementptr i64, ptr %pool, i64 3
  store ptr %task, ptr %taskp
  %argp = getelementptr i64, ptr %pool, i64 4
  store ptr %arg, ptr %argp
  %np = getelementptr i64, ptr %pool, i64 5
  store i64 %n, ptr %np
  %cp = getelementptr i64, ptr %pool, i64 6
  store i64 %chunk, ptr %cp
  %nextp = getelementptr i64, ptr %pool, i64 7
  store atomic i64 0, ptr %nextp seq_cst, align 8
  %jobp = getelementptr i64, ptr %pool, i64 10
  %openp = getelementptr i64, ptr %pool, i64 8
  %job0 = load i64, ptr %jobp
  %job = add i64 %job0, 1
  store atomic i64 %job, ptr %openp seq_cst, align 8
  store atomic i64 %job, ptr %jobp seq_cst, align 8
  %sleepp = getelementptr i64, ptr %pool, i64 11
  %asleep = load atomic i64, ptr %sleepp seq_cst, align 8
  %any = icmp sgt i64 %asleep, 0
  br i1 %any, label %wake, label %go
wake:
  %f = call i64 (i64, ...) @syscall(i64 FUTEX, ptr %jobp, i64 129, i32 2147483647, ptr null)
  br label %go
go:
  call void @sg_chunks(ptr %pool)
  store atomic i64 0, ptr %openp seq_cst, align 8
  %busyp = getelementptr i64, ptr %pool, i64 9
  br label %wait
wait:
  %w = phi i64 [ 0, %go ], [ %w1, %again ]
  %busy = load atomic i64, ptr %busyp seq_cst, align 8
  %idle = icmp eq i64 %busy, 0
  br i1 %idle, label %free, label %more
more:
  PAUSE
  %w1 = add i64 %w, 1
  %long = icmp sgt i64 %w1, SPINS
  br i1 %long, label %yield, label %again
yield:
  %y = call i32 @sched_yield()
  br label %again
again:
  br label %wait
free:
  store atomic i64 0, ptr %lockp seq_cst, align 8
  ret void
}
"""


def _text() -> str:
    import platform
    arm = platform.machine() in ("aarch64", "arm64")
    pause = "call void @llvm.aarch64.hint(i32 1)" if arm else "call void @llvm.x86.sse2.pause()"
    futex = "98" if arm else "202"
    text = _TEXT.replace("PAUSE", pause).replace("SPINS", str(SPIN)).replace("FUTEX", futex)
    # a sleeping worker that was woken for nothing sleeps again on the same word
    return text.replace("idle2:\n  br label %look2\nlook2:", "look2:").replace("br label %idle2", "br label %look2")


@cache
def _parallel() -> int:
    from .engine import engine
    libc = ctypes.CDLL(None)
    names = ("pthread_create", "syscall", "getpid", "sched_yield")
    addresses = {n: ctypes.cast(getattr(libc, n), ctypes.c_void_p).value for n in names}
    return engine().permanent(_text(), "sg_parallel", addresses)


_pools: dict[int, ctypes.Array[ctypes.c_int64]] = {}


def pool(threads: int) -> tuple[int | None, int | None]:
    """(address of ``parallel``, address of the pool) for that many threads, the caller included; (None, None) for a serial run."""
    if threads <= 1 or not sys.platform.startswith("linux"):
        return None, None
    with _lock:
        memory = _pools.get(threads)
        if memory is None:
            memory = _pools[threads] = (ctypes.c_int64 * 16)()
            memory[1] = threads - 1
        return _parallel(), ctypes.addressof(memory)
