"""Helpers of the walker as LLVM text: whether to stop, memmove and memset."""

from __future__ import annotations

# asked at every kernel: whether the caller's flag is set and, now and then (``{tick}`` says when), whether the process has a reason to stop
_CANCELLED = """
define internal i1 @sg_cancelled(ptr %run, ptr %last) alwaysinline {{
entry:
  %cp = getelementptr i8, ptr %run, i64 64
  %c = load ptr, ptr %cp
  %null = icmp eq ptr %c, null
  br i1 %null, label %no, label %look
look:
  %v = load volatile i32, ptr %c
  %set = icmp ne i32 %v, 0
  br i1 %set, label %yes, label %clock
clock:
{tick}
  br i1 %due, label %ask, label %no
ask:
  store i64 %now, ptr %last
  %r = call i32 @sg_poll()
  %stop = icmp ne i32 %r, 0
  ret i1 %stop
yes:
  ret i1 true
no:
  ret i1 false
}}
"""
_POLL = "declare i32 @sg_poll()"
_NO_POLL = "define internal i32 @sg_poll() {\n  ret i32 0\n}"
_NEVER = "  %now = add i64 0, 0\n  %due = icmp ne i64 0, 0"
_BY_CYCLES = """  %now = call i64 @llvm.readcyclecounter()
  %then = load i64, ptr %last
  %gone = sub i64 %now, %then
  %due = icmp ugt i64 %gone, 250000000"""
_BY_COUNT = """  %then = load i64, ptr %last
  %now0 = add i64 %then, 1
  %due = icmp ugt i64 %now0, 4000
  %now = select i1 %due, i64 0, i64 %now0
  store i64 %now, ptr %last"""


def cancelled(polls: str) -> str:
    """``sg_cancelled``; ``polls`` as in ``walker.walker_text``."""
    tick = {"": _NEVER, "cycles": _BY_CYCLES, "count": _BY_COUNT}[polls]
    return (_POLL if polls else _NO_POLL) + _CANCELLED.format(tick=tick)


# memmove and memset of our own, eight bytes at a time: an exported object must not need libc
MOVES = """
define internal void @sg_move(ptr %d, ptr %s, i64 %n) {
entry:
  %di = ptrtoint ptr %d to i64
  %si = ptrtoint ptr %s to i64
  %gap = sub i64 %di, %si
  %over = icmp ult i64 %gap, %n
  %words = lshr i64 %n, 5
  %main = shl i64 %words, 5
  br i1 %over, label %down, label %up
up:
  %i = phi i64 [ 0, %entry ], [ %i2, %up.body ]
  %m = icmp slt i64 %i, %main
  br i1 %m, label %up.body, label %tail
up.body:
  %sp = getelementptr i8, ptr %s, i64 %i
  %dp = getelementptr i8, ptr %d, i64 %i
  %v = load <32 x i8>, ptr %sp, align 1
  store <32 x i8> %v, ptr %dp, align 1
  %i2 = add i64 %i, 32
  br label %up
tail:
  %j = phi i64 [ %main, %up ], [ %j2, %tail.body ]
  %k = icmp slt i64 %j, %n
  br i1 %k, label %tail.body, label %done
tail.body:
  %tp = getelementptr i8, ptr %s, i64 %j
  %up2 = getelementptr i8, ptr %d, i64 %j
  %b = load volatile i8, ptr %tp
  store volatile i8 %b, ptr %up2
  %j2 = add i64 %j, 1
  br label %tail
down:
  %q = phi i64 [ %n, %entry ], [ %q2, %down.body ]
  %r = icmp sgt i64 %q, 0
  br i1 %r, label %down.body, label %done
down.body:
  %q2 = sub i64 %q, 1
  %xp = getelementptr i8, ptr %s, i64 %q2
  %yp = getelementptr i8, ptr %d, i64 %q2
  %z = load volatile i8, ptr %xp
  store volatile i8 %z, ptr %yp
  br label %down
done:
  ret void
}

define internal void @sg_clear(ptr %d, i64 %n) {
entry:
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %j, %body ]
  %m = icmp slt i64 %i, %n
  br i1 %m, label %body, label %done
body:
  %p = getelementptr i8, ptr %d, i64 %i
  store volatile i8 0, ptr %p
  %j = add i64 %i, 1
  br label %head
done:
  ret void
}
"""
