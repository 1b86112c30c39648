"""The caller-owned state: its layout, and the functions that make, read, write, save and load it, as LLVM text.

The state is one piece of memory: a header of 64 bytes (magic, hash of the layout, bytes, checksum), then each variable on a cache line
of its own. Saved bytes are the state itself with the checksum filled in.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from .entries import MAGIC, STATE_HEADER, bad
from .messages import STATE, STATE_BYTES, STATE_DAMAGED, STATE_FOREIGN, STATE_NAME
from .objectfile import Blob, quoted, table
from .plan import Store, Variable


def layout_of(store: Store) -> int:
    """Offsets of all variables, and the hash that tells this layout from any other."""
    end = store.place(STATE_HEADER)
    shape = [(v.name, v.value.dtype.str, v.value.shape, v.offset) for v in store.variables.values()]
    return int.from_bytes(hashlib.sha256(repr((shape, end)).encode()).digest()[:7], "little")


def state_bytes(variables: Sequence[Variable]) -> int:
    """The size of the whole state."""
    return max([STATE_HEADER, *(v.offset + v.room for v in variables)])


# four sums over 64-bit words that depend on order: fast, and no single damaged byte goes unseen
CHECKSUM = """
define internal i64 @sg_checksum(ptr %p, i64 %n) nounwind {
entry:
  br label %head
head:
  %k = phi i64 [ 0, %entry ], [ %k2, %body ]
  %h = phi i64 [ -3750763034362895579, %entry ], [ %h3, %body ]
  %more = icmp slt i64 %k, %n
  br i1 %more, label %body, label %done
body:
  %w = getelementptr i8, ptr %p, i64 %k
  %v = load i64, ptr %w, align 1
  %x = xor i64 %h, %v
  %h2 = mul i64 %x, 1099511628211
  %r = lshr i64 %h2, 29
  %h3 = xor i64 %h2, %r
  %k2 = add i64 %k, 8
  br label %head
done:
  ret i64 %h
}

define internal i32 @sg_find(ptr %name) nounwind {
entry:
  %none = icmp eq ptr %name, null
  br i1 %none, label %no, label %start
start:
  br label %next
next:
  %k = phi i32 [ 0, %start ], [ %k2, %skipped ]
  %o = phi i64 [ 0, %start ], [ %after, %skipped ]
  %more = icmp slt i32 %k, COUNT
  br i1 %more, label %same, label %no
same:
  %i = phi i64 [ 0, %next ], [ %i2, %equal ]
  %op = add i64 %o, %i
  %ap = getelementptr i8, ptr @sg_names, i64 %op
  %bp = getelementptr i8, ptr %name, i64 %i
  %a = load i8, ptr %ap
  %b = load i8, ptr %bp
  %eq = icmp eq i8 %a, %b
  br i1 %eq, label %equal, label %skip
equal:
  %i2 = add i64 %i, 1
  %end = icmp eq i8 %a, 0
  br i1 %end, label %yes, label %same
yes:
  ret i32 %k
skip:
  %s = phi i64 [ %op, %same ], [ %s2, %skip ]
  %sp = getelementptr i8, ptr @sg_names, i64 %s
  %c = load i8, ptr %sp
  %s2 = add i64 %s, 1
  %over = icmp eq i8 %c, 0
  br i1 %over, label %skipped, label %skip
skipped:
  %after = phi i64 [ %s2, %skip ]
  %k2 = add i32 %k, 1
  br label %next
no:
  ret i32 -1
}
"""

# code to refuse a pointer that is NULL or not on a cache line, and a header that is not this export's
_ALIGNED = """
  %PLACE.a = ptrtoint ptr %PLACE to i64
  %PLACE.low = and i64 %PLACE.a, 63
  %PLACE.odd = icmp ne i64 %PLACE.low, 0
  %PLACE.null = icmp eq i64 %PLACE.a, 0
  %PLACE.bad = or i1 %PLACE.odd, %PLACE.null
  br i1 %PLACE.bad, label %unaligned, label %PLACE.on
PLACE.on:
"""
_OURS = """
  %m = load i64, ptr %PLACE, align 1
  %lp = getelementptr i64, ptr %PLACE, i64 1
  %l = load i64, ptr %lp, align 1
  %m.ok = icmp eq i64 %m, MAGIC
  %l.ok = icmp eq i64 %l, LAYOUT
  %ours = and i1 %m.ok, %l.ok
  br i1 %ours, label %mine, label %foreign
mine:
"""
_ENDS = {"unaligned": STATE, "foreign": STATE_FOREIGN, "unknown": STATE_NAME, "size": STATE_BYTES, "damaged": STATE_DAMAGED}


def state_text(name: str, variables: Sequence[Variable], layout: int, blob: Blob) -> str:
    """All functions on the state."""
    total = state_bytes(variables)
    first = None
    for v in variables:                      # one after the other, as in the state
        at = blob.fresh(v.value)
        first = at if first is None else first
    names = b"".join(v.name.encode() + b"\0" for v in variables) or b"\0"
    values = {"MAGIC": str(MAGIC), "LAYOUT": str(layout), "TOTAL": str(total), "COUNT": str(len(variables)), "HEADER": str(STATE_HEADER),
              "PAYLOAD": str(total - STATE_HEADER), "INITIAL": str(first or 0), "EXPORT": name}

    def function(head: str, body: str, ends: Sequence[str] = ()) -> str:
        text = f"define {head} nounwind {{\nentry:\n{body}\n" + "".join(f"{e}:\n  ret i32 {bad(_ENDS[e])}\n" for e in ends) + "}\n"
        for key, v in values.items():
            text = text.replace(key, v)
        return text
    access = """
  %k = call i32 @sg_find(ptr %name)
  %found = icmp sge i32 %k, 0
  br i1 %found, label %have, label %unknown
have:
  %k64 = sext i32 %k to i64
  %np = getelementptr i64, ptr @sg_state_bytes, i64 %k64
  %n = load i64, ptr %np
  %fits = icmp eq i64 %n, %bytes
  br i1 %fits, label %go, label %size
go:
  %op = getelementptr i64, ptr @sg_state_at, i64 %k64
  %o = load i64, ptr %op
  %place = getelementptr i8, ptr %state, i64 %o
"""
    guard = _ALIGNED.replace("PLACE", "state") + _OURS.replace("PLACE", "state")
    out = [
        f"@sg_names = internal constant [{len(names)} x i8] {quoted(names)}\n", table("sg_state_at", [v.offset for v in variables], "i64"),
        table("sg_state_bytes", [v.value.nbytes for v in variables], "i64"), CHECKSUM.replace("COUNT", str(len(variables))),
        function("i64 @EXPORT_state_bytes()", "  ret i64 TOTAL"),
        function("i32 @EXPORT_state_init(ptr %state)", _ALIGNED.replace("PLACE", "state") + """
  call void @sg_clear(ptr %state, i64 HEADER)
  store i64 MAGIC, ptr %state
  %lp = getelementptr i64, ptr %state, i64 1
  store i64 LAYOUT, ptr %lp
  %bp = getelementptr i64, ptr %state, i64 2
  store i64 TOTAL, ptr %bp
  %to = getelementptr i8, ptr %state, i64 HEADER
  call void @sg_move(ptr %to, ptr getelementptr (i8, ptr @EXPORT.constants, i64 INITIAL), i64 PAYLOAD)
  ret i32 0""", ["unaligned"]),
        function("i32 @EXPORT_state_get(ptr %state, ptr %name, ptr %value, i64 %bytes)", guard + access
                 + "  call void @sg_move(ptr %value, ptr %place, i64 %n)\n  ret i32 0", ["unaligned", "foreign", "unknown", "size"]),
        function("i32 @EXPORT_state_set(ptr %state, ptr %name, ptr %value, i64 %bytes)", guard + access
                 + "  call void @sg_move(ptr %place, ptr %value, i64 %n)\n  ret i32 0", ["unaligned", "foreign", "unknown", "size"]),
        function("i32 @EXPORT_state_save(ptr %state, ptr %bytes, i64 %room)", guard + """
  %fits = icmp sge i64 %room, TOTAL
  br i1 %fits, label %go, label %size
go:
  call void @sg_move(ptr %bytes, ptr %state, i64 TOTAL)
  %payload = getelementptr i8, ptr %bytes, i64 HEADER
  %sum = call i64 @sg_checksum(ptr %payload, i64 PAYLOAD)
  %sp = getelementptr i64, ptr %bytes, i64 3
  store i64 %sum, ptr %sp, align 1
  ret i32 0""", ["unaligned", "foreign", "size"]),
        function("i32 @EXPORT_state_load(ptr %state, ptr %bytes, i64 %room)", _ALIGNED.replace("PLACE", "state") + """
  %fits = icmp eq i64 %room, TOTAL
  br i1 %fits, label %sized, label %size
sized:
""" + _OURS.replace("PLACE", "bytes") + """
  %payload = getelementptr i8, ptr %bytes, i64 HEADER
  %sum = call i64 @sg_checksum(ptr %payload, i64 PAYLOAD)
  %sp = getelementptr i64, ptr %bytes, i64 3
  %kept = load i64, ptr %sp, align 1
  %same = icmp eq i64 %sum, %kept
  br i1 %same, label %go, label %damaged
go:
  call void @sg_move(ptr %state, ptr %bytes, i64 TOTAL)
  %cp = getelementptr i64, ptr %state, i64 3
  store i64 0, ptr %cp
  ret i32 0""", ["unaligned", "foreign", "size", "damaged"])]
    return "".join(out)
