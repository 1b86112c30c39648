"""The public functions of an export as LLVM text: they check what the caller gives, choose the instruction set and call a driver."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .driver import CANCEL, DIMS, ERROR, IN, OUT, PARALLEL, POOL, RUN_BYTES, STATE, WORKSPACE, WORKSPACE_BYTES
from .messages import BAD_ARGUMENT, CALL, FIRST, NEED_WORKSPACE, STATE_FOREIGN, UNKNOWN, UNSUPPORTED_CPU, Messages
from .messages import STATE as STATE_NULL
from .messages import WORKSPACE as WORKSPACE_NULL
from .objectfile import quoted, table
from .plan import Entry, Field
from .sizes import LIMIT, SizeText, spelled

TYPES = "%sg_call = type { ptr, i64, ptr, ptr, ptr, [7 x i64] }\n"
MAGIC = int.from_bytes(b"SGSTATE1", "little")
STATE_HEADER = 64                            # magic, layout, bytes, checksum, then zeros

POINTERS = """
define internal i64 @sg_pointers(ptr %table, ptr %masks, i64 %n) nounwind {
entry:
  br label %head
head:
  %k = phi i64 [ 0, %entry ], [ %next, %good ]
  %more = icmp slt i64 %k, %n
  br i1 %more, label %body, label %fine
body:
  %place = getelementptr ptr, ptr %table, i64 %k
  %p = load ptr, ptr %place
  %a = ptrtoint ptr %p to i64
  %mp = getelementptr i8, ptr %masks, i64 %k
  %m8 = load i8, ptr %mp
  %m = zext i8 %m8 to i64
  %low = and i64 %a, %m
  %odd = icmp ne i64 %low, 0
  %null = icmp eq i64 %a, 0
  %wrong = or i1 %odd, %null
  %counts = icmp ne i64 %m, 255
  %bad = and i1 %wrong, %counts
  br i1 %bad, label %found, label %good
good:
  %next = add i64 %k, 1
  br label %head
found:
  ret i64 %k
fine:
  ret i64 -1
}
"""


def bad(number: int | str) -> str:
    """The status BAD_ARGUMENT with a text's number, as an LLVM operand."""
    return str(BAD_ARGUMENT | int(number) << 8)


class _Body:
    """One function under construction."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.n = 0

    def value(self, text: str) -> str:
        self.n += 1
        self.lines.append(f"  %b{self.n} = {text}")
        return f"%b{self.n}"

    def line(self, text: str) -> None:
        self.lines.append("  " + text)

    def leave_if(self, condition: str, status: str) -> None:
        """Return ``status`` where the condition holds."""
        self.n += 1
        self.line(f"br i1 {condition}, label %out{self.n}, label %on{self.n}")
        self.lines += [f"out{self.n}:", f"  ret i32 {status}", f"on{self.n}:"]

    def aligned(self, pointer: str, align: int, number: int) -> None:
        """Refuse NULL and misaligned pointers."""
        a = self.value(f"ptrtoint ptr {pointer} to i64")
        low = self.value(f"and i64 {a}, {align - 1}")
        odd = self.value(f"icmp ne i64 {low}, 0")
        null = self.value(f"icmp eq i64 {a}, 0")
        self.leave_if(self.value(f"or i1 {odd}, {null}"), bad(number))


def entry_text(e: Entry, name: str, drivers: Sequence[str], workspaces: Sequence[Any], layout: int | None, messages: Messages) -> str:
    """The function ``NAME_entry``. ``drivers`` and ``workspaces`` are one per target; ``layout`` is the state's hash, None without a state."""
    b = _Body()
    out = []
    b.aligned("%call", 8, CALL)
    error = b.value("getelementptr %sg_call, ptr %call, i32 0, i32 5")
    b.line(f"store i64 {2**63 - 1}, ptr {error}")
    for k in (1, 2, 3, 4, 5, 6):
        b.line(f"store i64 0, ptr {b.value(f'getelementptr i64, ptr {error}, i64 {k}')}")
    chosen = b.value("call i32 @sg_choose()")
    b.leave_if(b.value(f"icmp slt i32 {chosen}, 0"), str(UNSUPPORTED_CPU))
    if layout is not None:
        b.aligned("%state", 64, STATE_NULL)
        for at, want in ((0, MAGIC), (8, layout)):
            have = b.value(f"load i64, ptr {b.value(f'getelementptr i8, ptr %state, i64 {at}')}")
            b.leave_if(b.value(f"icmp ne i64 {have}, {want}"), bad(STATE_FOREIGN))
    for what, fields in (("inputs", e.inputs), ("outputs", e.outputs)):
        if not fields:
            continue
        first = len(messages.texts)
        for f in fields:
            messages.add(f"{name}_{e.name}: the pointer {what}->{f.c} is NULL or not aligned to {_alignment(f)} bytes")
        null = messages.add(f"{name}_{e.name}: {what} is NULL")
        b.leave_if(b.value(f"icmp eq ptr %{what}, null"), bad(null))
        masks = f"{e.name}.{what}"
        out.append(table(masks, [255 if f.aval.size == 0 else _alignment(f) - 1 for f in fields], "i8"))
        which = b.value(f"call i64 @sg_pointers(ptr %{what}, ptr @{masks}, i64 {len(fields)})")
        number = b.value(f"trunc i64 {b.value(f'add i64 {which}, {first}')} to i32")
        status = b.value(f"or i32 {b.value(f'shl i32 {number}, 8')}, {BAD_ARGUMENT}")
        b.leave_if(b.value(f"icmp sge i64 {which}, 0"), status)
    n_dims = max([1, *(p.n_dims for p in e.programs)])
    dims = b.value(f"alloca [{n_dims} x i64], align 8")
    if e.symbols:
        _sizes(b, e, name, dims, messages)
    wanted = b.value("load i64, ptr " + b.value("getelementptr %sg_call, ptr %call, i32 0, i32 1"))
    ws = b.value("load ptr, ptr %call")
    fixed = max([w for w in workspaces if isinstance(w, int)], default=0)
    if fixed or any(not isinstance(w, int) for w in workspaces):
        need_place = b.value(f"getelementptr i64, ptr {error}, i64 5")
        b.line(f"store i64 {fixed}, ptr {need_place}")
        b.leave_if(b.value(f"icmp slt i64 {wanted}, {fixed}"), str(NEED_WORKSPACE))
        b.line(f"store i64 0, ptr {need_place}")
        low = b.value(f"and i64 {b.value(f'ptrtoint ptr {ws} to i64')}, 63")
        odd = b.value(f"icmp ne i64 {low}, 0")
        given = b.value(f"icmp sgt i64 {wanted}, 0")
        null = b.value(f"and i1 {given}, {b.value(f'icmp eq ptr {ws}, null')}")
        b.leave_if(b.value(f"or i1 {odd}, {null}"), bad(WORKSPACE_NULL))
    run = b.value(f"alloca [{RUN_BYTES} x i8], align 16")
    place = {"parallel": 2, "pool": 3, "cancel": 4}
    given_ = {k: b.value(f"load ptr, ptr {b.value(f'getelementptr %sg_call, ptr %call, i32 0, i32 {n}')}") for k, n in place.items()}
    for at, kind, what in ((IN, "ptr", "%inputs" if e.inputs else "null"), (OUT, "ptr", "%outputs" if e.outputs else "null"),
                        (STATE, "ptr", "%state" if layout is not None else "null"), (WORKSPACE, "ptr", ws), (DIMS, "ptr", dims),
                        (ERROR, "ptr", error), (PARALLEL, "ptr", given_["parallel"]), (POOL, "ptr", given_["pool"]), (CANCEL, "ptr", given_["cancel"]),
                        (WORKSPACE_BYTES, "i64", wanted)):
        b.line(f"store {kind} {what}, ptr {b.value(f'getelementptr i8, ptr {run}, i64 {at}') if at else run}")
    cases = "  ".join(f"i32 {k}, label %target{k}" for k in range(len(drivers)))
    b.line(f"switch i32 {chosen}, label %none [ {cases} ]")
    results = []
    for k, d in enumerate(drivers):
        b.lines += [f"target{k}:", f"  %r{k} = call i32 @{d}(ptr {run})", "  br label %done"]
        results.append(f"[ %r{k}, %target{k} ]")
    b.lines += ["none:", f"  ret i32 {UNSUPPORTED_CPU}", "done:", f"  %status = phi i32 {', '.join(results)}"]
    if e.checks:
        b.lines += ["  %is = icmp eq i32 %status, 1", "  br i1 %is, label %error, label %end", "error:", f"  %check = load i64, ptr {error}",
                    f"  %number = add i64 %check, {e.first_message}", f"  store i64 %number, ptr {error}", "  %short = trunc i64 %number to i32",
                    "  %high = shl i32 %short, 8", "  %full = or i32 %high, 1", "  ret i32 %full", "end:"]
    b.line("ret i32 %status")
    # allocas belong to the entry block, so that they are one fixed piece of the stack
    allocas = [x for x in b.lines if " = alloca " in x]
    rest = [x for x in b.lines if " = alloca " not in x]
    head = f"define i32 @{name}_{e.name}({', '.join(f'ptr %{p}' for p in parameters(e, layout is not None))}) nounwind {{\nentry:\n"
    return "".join(out) + head + "\n".join([*allocas, *rest]) + "\n}\n"


def _alignment(f: Field) -> int:
    """What C asks of a pointer to the elements: a complex number is two of its parts."""
    size: int = f.aval.dtype.size
    return size // 2 if f.aval.dtype.kind == "c" else size


def parameters(e: Entry, state: bool) -> list[str]:
    """The names of an entry's parameters, all of them pointers."""
    return [*(["state"] if state else []), *(["inputs"] if e.inputs else []), *(["outputs"] if e.outputs else []), *(["sizes"] if e.symbols else []), "call"]


def _sizes(b: _Body, e: Entry, name: str, dims: str, messages: Messages) -> None:
    """Check the caller's sizes and put them into ``dims``."""
    names = size_names(e)
    b.leave_if(b.value("icmp eq ptr %sizes, null"), bad(messages.add(f"{name}_{e.name}: sizes is NULL")))
    values: dict[str, str] = {}
    for k, s in enumerate(e.symbols):
        v = values[s] = b.value(f"load i64, ptr {b.value(f'getelementptr i64, ptr %sizes, i64 {k}')}")
        number = messages.add(f"{name}_{e.name}: sizes->{names[s]} is not between 0 and {LIMIT}")
        b.leave_if(b.value(f"icmp ugt i64 {v}, {LIMIT}"), bad(number))
        b.line(f"store i64 {v}, ptr {b.value(f'getelementptr i64, ptr {dims}, i64 {k}')}")
    t = SizeText(values, "q")
    for p, q in e.equal:
        done = len(t.lines)
        x, y = t.size(p), t.size(q)
        b.lines += t.lines[done:]
        number = messages.add(f"{name}_{e.name}: the sizes do not fit: {spelled(p, names)} must equal {spelled(q, names)}")
        b.leave_if(b.value(f"icmp ne i64 {x}, {y}"), bad(number))


def size_names(e: Entry) -> dict[str, str]:
    """The C names of open sizes: ``batch`` if the caller gives one, else INPUT_AXIS of their first appearance; OUTPUT_AXIS for those the run finds."""
    out = dict(zip(e.found, [f.c for f in e.outputs[len(e.outputs) - len(e.found):]]))
    if len(e.symbols) == 1:
        return {e.symbols[0]: "batch", **out}
    for f in e.inputs:
        for axis, d in enumerate(f.aval.shape):
            if repr(d) in e.symbols:
                out.setdefault(repr(d), f"{f.c}_{axis}")
    for s in e.symbols:
        out.setdefault(s, s)
    return out


def workspace_text(function: str, e: Entry, sizes: Sequence[Any]) -> str:
    """``int64_t NAME_entry_workspace_bytes([sizes])``: enough on every target."""
    if not e.symbols:
        return f"define i64 @{function}() nounwind {{\n  ret i64 {max(int(s) for s in sizes)}\n}}\n"
    lines = ["  %null = icmp eq ptr %sizes, null", "  br i1 %null, label %none, label %given", "none:", "  ret i64 -1", "given:"]
    values = {}
    for k, s in enumerate(e.symbols):
        lines += [f"  %p{k} = getelementptr i64, ptr %sizes, i64 {k}", f"  %v{k} = load i64, ptr %p{k}"]
        values[s] = f"%v{k}"
    t = SizeText(values)
    total = "0"
    for s in sizes:
        total = t._new(f"call i64 @llvm.smax.i64(i64 {total}, i64 {t.size(s)})")
    return f"define i64 @{function}(ptr %sizes) nounwind {{\nentry:\n" + "\n".join([*lines, *t.lines, f"  ret i64 {total}"]) + "\n}\n"


def messages_text(name: str, messages: Messages) -> str:
    """``const char *NAME_error_message(int32_t)`` and ``int32_t NAME_error_values(int32_t)`` with their tables."""
    offsets, raw = [], b""
    for t in messages.texts:
        offsets.append(len(raw))
        raw += t.encode() + b"\0"
    n = len(messages.texts)
    index = f"""
  %detail = ashr i32 %status, 8
  %kind = and i32 %status, 255
  %none = icmp eq i32 %detail, 0
  %either = select i1 %none, i32 %kind, i32 %detail
  %known = icmp ult i32 %either, {n}
  %k = select i1 %known, i32 %either, i32 {UNKNOWN}
  %k64 = zext i32 %k to i64
"""
    return (f"@sg_texts = internal constant [{len(raw)} x i8] {quoted(raw)}\n" + table("sg_text_at", offsets)
            + table("sg_text_types", [ord(t) for t in messages.types], "i8") + f"""
define ptr @{name}_error_message(i32 %status) nounwind {{
{index}
  %op = getelementptr i32, ptr @sg_text_at, i64 %k64
  %o = load i32, ptr %op
  %o64 = zext i32 %o to i64
  %text = getelementptr i8, ptr @sg_texts, i64 %o64
  ret ptr %text
}}

define i32 @{name}_error_values(i32 %status) nounwind {{
{index}
  %tp = getelementptr i8, ptr @sg_text_types, i64 %k64
  %t = load i8, ptr %tp
  %t32 = zext i8 %t to i32
  ret i32 %t32
}}
""")


__all__ = ["FIRST", "MAGIC", "POINTERS", "STATE_HEADER", "TYPES", "bad", "entry_text", "messages_text", "parameters", "size_names", "workspace_text"]
