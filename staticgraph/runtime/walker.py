"""The native function that walks a program, and the helper that kernels report failed guards to, as LLVM text.

``docs/internals.md`` sections 3 to 5 give the structures and words. The text is target independent; an exported object holds its
own copy.
"""

from __future__ import annotations

from .walker_parts import MOVES, cancelled

MAX_ARGS = 1024                              # operands of one kernel or host call; the assembler checks

_RESOLVE = """
define internal i64 @sg_resolve(ptr %run, ptr %o) alwaysinline {
entry:
  %word = load i64, ptr %o
  %vp = getelementptr i64, ptr %o, i64 1
  %value = load i64, ptr %vp
  %kind = and i64 %word, 255
  %index = lshr i64 %word, 8
  switch i64 %kind, label %imm [ i64 1, label %dim  i64 2, label %ws  i64 3, label %wsd  i64 4, label %table
                                 i64 5, label %table  i64 6, label %table  i64 7, label %consts ]
imm:
  ret i64 %value
dim:
  %dp = getelementptr i8, ptr %run, i64 32
  %dims = load ptr, ptr %dp
  %de = getelementptr i64, ptr %dims, i64 %value
  %d = load i64, ptr %de
  ret i64 %d
ws:
  %wp = getelementptr i8, ptr %run, i64 24
  %w = load i64, ptr %wp
  %wv = add i64 %w, %value
  ret i64 %wv
wsd:
  %dp2 = getelementptr i8, ptr %run, i64 32
  %dims2 = load ptr, ptr %dp2
  %de2 = getelementptr i64, ptr %dims2, i64 %value
  %d2 = load i64, ptr %de2
  %wp2 = getelementptr i8, ptr %run, i64 24
  %w2 = load i64, ptr %wp2
  %wv2 = add i64 %w2, %d2
  ret i64 %wv2
table:
  %k = sub i64 %kind, 4
  %tp = getelementptr ptr, ptr %run, i64 %k
  %t = load ptr, ptr %tp
  br label %entry_of
consts:
  %cp = getelementptr i8, ptr %run, i64 104
  %c = load ptr, ptr %cp
  br label %entry_of
entry_of:
  %base = phi ptr [ %t, %table ], [ %c, %consts ]
  %ep = getelementptr i64, ptr %base, i64 %index
  %e = load i64, ptr %ep
  %ev = add i64 %e, %value
  ret i64 %ev
}

define internal i32 @sg_task(ptr %arg, i64 %lo, i64 %hi) {
entry:
  %run = load ptr, ptr %arg
  %fp = getelementptr ptr, ptr %arg, i64 1
  %fn = load ptr, ptr %fp
  %ap = getelementptr ptr, ptr %arg, i64 2
  %args = load ptr, ptr %ap
  %r = call i32 %fn(ptr %run, ptr %args, i64 %lo, i64 %hi)
  ret i32 %r
}

define internal i1 @sg_failed(ptr %run, i64 %edges) {
entry:
  %ep = getelementptr i8, ptr %run, i64 40
  %e = load ptr, ptr %ep
  %check = load i64, ptr %e
  %none = icmp eq i64 %check, 9223372036854775807
  br i1 %none, label %no, label %yes
yes:
  %ip = getelementptr i64, ptr %e, i64 4
  store i64 %edges, ptr %ip
  ret i1 true
no:
  ret i1 false
}
"""

# a report keeps the smallest (check, element): the same error at any thread count
REPORT = """
define void @sg_report(ptr %e, i64 %check, i64 %element, i64 %a, i64 %b) {
entry:
  %lock = getelementptr i64, ptr %e, i64 6
  br label %spin
spin:
  %got = cmpxchg ptr %lock, i64 0, i64 1 acquire monotonic
  %ok = extractvalue { i64, i1 } %got, 1
  br i1 %ok, label %held, label %spin
held:
  %ep = getelementptr i64, ptr %e, i64 1
  %oldc = load i64, ptr %e
  %olde = load i64, ptr %ep
  %lower = icmp slt i64 %check, %oldc
  %same = icmp eq i64 %check, %oldc
  %earlier = icmp slt i64 %element, %olde
  %both = and i1 %same, %earlier
  %take = or i1 %lower, %both
  br i1 %take, label %write, label %done
write:
  %ap = getelementptr i64, ptr %e, i64 2
  %bp = getelementptr i64, ptr %e, i64 3
  store i64 %check, ptr %e
  store i64 %element, ptr %ep
  store i64 %a, ptr %ap
  store i64 %b, ptr %bp
  br label %done
done:
  store atomic i64 0, ptr %lock release, align 8
  ret void
}
"""


class _Ops:
    """Blocks of the walker: each op reads words after ``%pc`` and branches to ``%next`` with a new one."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.edges: list[tuple[str, str]] = []           # (new pc, from block)
        self.count = 0

    def word(self, at: int, kind: str = "i64") -> str:
        p, v = self.name(), self.name()
        self.lines += [f"  {p} = getelementptr i64, ptr %pc, i64 {at}", f"  {v} = load {kind}, ptr {p}"]
        return v

    def operand(self, at: int) -> str:
        p, v = self.name(), self.name()
        self.lines += [f"  {p} = getelementptr i64, ptr %pc, i64 {at}", f"  {v} = call i64 @sg_resolve(ptr %run, ptr {p})"]
        return v

    def pointer(self, at: int) -> str:
        v, p = self.operand(at), self.name()
        self.lines.append(f"  {p} = inttoptr i64 {v} to ptr")
        return p

    def dim(self, index: str) -> str:
        p = self.name()
        self.lines.append(f"  {p} = getelementptr i64, ptr %dims, i64 {index}")
        return p

    def value(self, text: str) -> str:
        v = self.name()
        self.lines.append(f"  {v} = {text}")
        return v

    def name(self) -> str:
        self.count += 1
        return f"%t{self.count}"

    def block(self, label: str) -> None:
        self.lines.append(f"{label}:")
        self.current = label

    def advance(self, words: str) -> None:
        p = self.value(f"getelementptr i64, ptr %pc, i64 {words}")
        self.go(p)

    def go(self, pc: str) -> None:
        self.lines.append("  br label %next")
        self.edges.append((pc, self.current))


def walker_text(polls: str = "") -> str:
    """``sg_walk`` and ``sg_report``. ``polls`` says how the walker knows that it is time to call ``sg_poll`` (``runtime.interrupt``): by processor
    "cycles", by a "count" of kernels where those cannot be read, or, in exports, never.
    """
    o = _Ops()

    def arguments(first: int, count: str, label: str) -> None:
        """Resolve ``count`` operands that start ``first`` words on into ``%args``."""
        o.lines.append(f"  br label %{label}.head")
        before = o.current
        o.block(f"{label}.head")
        o.lines.append(f"  %{label}.i = phi i64 [ 0, %{before} ], [ %{label}.j, %{label}.body ]")
        o.lines.append(f"  %{label}.more = icmp slt i64 %{label}.i, {count}")
        o.lines.append(f"  br i1 %{label}.more, label %{label}.body, label %{label}.go")
        o.block(f"{label}.body")
        o.lines += [f"  %{label}.w = shl i64 %{label}.i, 1", f"  %{label}.x = add i64 %{label}.w, {first}",
                    f"  %{label}.p = getelementptr i64, ptr %pc, i64 %{label}.x",
                    f"  %{label}.v = call i64 @sg_resolve(ptr %run, ptr %{label}.p)",
                    f"  %{label}.a = getelementptr i64, ptr %args, i64 %{label}.i",
                    f"  store i64 %{label}.v, ptr %{label}.a", f"  %{label}.j = add i64 %{label}.i, 1", f"  br label %{label}.head"]
        o.block(f"{label}.go")

    def poll(label: str) -> None:
        """Leave with CANCELLED if asked to, unless state is being written."""
        c = o.value("load i1, ptr %committed")
        o.lines.append(f"  br i1 {c}, label %{label}.run, label %{label}.poll")
        o.block(f"{label}.poll")
        s = o.value("call i1 @sg_cancelled(ptr %run, ptr %last)")
        o.lines.append(f"  br i1 {s}, label %cancelled, label %{label}.run")
        o.block(f"{label}.run")

    o.block("op0")
    o.lines.append("  ret i32 0")

    o.block("call")
    poll("call")
    fn, tasks, n = o.word(1, "ptr"), o.operand(2), o.word(4)
    arguments(5, n, "ca")
    parallel = o.value("load ptr, ptr %parallel.p")
    wanted = o.value("icmp eq i64 %op, 2")
    given = o.value(f"icmp ne ptr {parallel}, null")
    several = o.value(f"icmp sgt i64 {tasks}, 1")
    both = o.value(f"and i1 {wanted}, {given}")
    share = o.value(f"and i1 {both}, {several}")
    o.lines.append(f"  br i1 {share}, label %shared, label %alone")
    o.block("alone")
    o.value(f"call i32 {fn}(ptr %run, ptr %args, i64 0, i64 {tasks})")
    o.lines.append("  br label %called")
    o.block("shared")
    pool = o.value("load ptr, ptr %pool.p")
    o.lines += ["  store ptr %run, ptr %job", "  %job.fn = getelementptr ptr, ptr %job, i64 1", f"  store ptr {fn}, ptr %job.fn",
                "  %job.args = getelementptr ptr, ptr %job, i64 2", "  store ptr %args, ptr %job.args",
                f"  call void {parallel}(ptr {pool}, ptr @sg_task, ptr %job, i64 {tasks})", "  br label %called"]
    o.block("called")
    twice = o.value(f"shl i64 {n}, 1")
    o.advance(o.value(f"add i64 {twice}, 5"))

    for label, commits in (("check", False), ("commit", True)):
        o.block(label)
        edges = o.value("load i64, ptr %edges")
        bad = o.value(f"call i1 @sg_failed(ptr %run, i64 {edges})")
        o.lines.append(f"  br i1 {bad}, label %failed, label %{label}.ok")
        o.block(f"{label}.ok")
        if commits:
            o.lines.append("  store i1 true, ptr %committed")
        o.advance("1")

    o.block("jump")
    target = o.word(1)
    place = o.value(f"getelementptr i64, ptr %program, i64 {target}")
    back = o.value(f"icmp ule ptr {place}, %pc")
    o.lines.append(f"  br i1 {back}, label %jump.back, label %jump.run")
    o.block("jump.back")
    count = o.value("load i64, ptr %edges")
    more = o.value(f"add i64 {count}, 1")
    o.lines.append(f"  store i64 {more}, ptr %edges")
    c = o.value("load i1, ptr %committed")
    o.lines.append(f"  br i1 {c}, label %jump.run, label %jump.poll")
    o.block("jump.poll")
    s = o.value("call i1 @sg_cancelled(ptr %run, ptr %last)")
    o.lines.append(f"  br i1 {s}, label %cancelled, label %jump.run")
    o.block("jump.run")
    o.go(place)

    o.block("jumpz")
    flag = o.value(f"load i8, ptr {o.pointer(1)}")
    zero = o.value(f"icmp eq i8 {flag}, 0")
    target = o.word(3)
    there = o.value(f"getelementptr i64, ptr %program, i64 {target}")
    here = o.value("getelementptr i64, ptr %pc, i64 4")
    o.go(o.value(f"select i1 {zero}, ptr {there}, ptr {here}"))

    o.block("copy")
    target, origin, size = o.pointer(1), o.pointer(3), o.operand(5)
    o.lines.append(f"  call void @sg_move(ptr {target}, ptr {origin}, i64 {size})")
    o.advance("7")

    o.block("host")
    o.lines.append(f"  store i64 {0 if polls == 'cycles' else 4000}, ptr %last")              # before Python is called, always
    poll("host")
    n = o.word(2)
    arguments(3, n, "ha")
    function = o.value("load ptr, ptr %host.p")
    data = o.value("load ptr, ptr %data.p")
    number = o.word(1)
    status = o.value(f"call i32 {function}(ptr {data}, i64 {number}, ptr %args)")
    bad = o.value(f"icmp ne i32 {status}, 0")
    o.lines.append(f"  br i1 {bad}, label %host.failed, label %host.ok")
    o.block("host.ok")
    twice = o.value(f"shl i64 {n}, 1")
    o.advance(o.value(f"add i64 {twice}, 3"))

    o.block("lin")
    start, n = o.word(2), o.word(3)
    o.lines.append("  br label %lin.head")
    o.block("lin.head")
    o.lines += [f"  %lin.i = phi i64 [ 0, %lin ], [ %lin.j, %lin.body ]",            # noqa: F541
                f"  %lin.s = phi i64 [ {start}, %lin ], [ %lin.t, %lin.body ]",
                f"  %lin.more = icmp slt i64 %lin.i, {n}", "  br i1 %lin.more, label %lin.body, label %lin.end"]
    o.block("lin.body")
    o.lines += ["  %lin.w = shl i64 %lin.i, 1", "  %lin.x = add i64 %lin.w, 4", "  %lin.cp = getelementptr i64, ptr %pc, i64 %lin.x",
                "  %lin.c = load i64, ptr %lin.cp", "  %lin.dp = getelementptr i64, ptr %lin.cp, i64 1", "  %lin.d = load i64, ptr %lin.dp",
                "  %lin.vp = getelementptr i64, ptr %dims, i64 %lin.d", "  %lin.v = load i64, ptr %lin.vp",
                "  %lin.m = mul i64 %lin.c, %lin.v", "  %lin.t = add i64 %lin.s, %lin.m", "  %lin.j = add i64 %lin.i, 1",
                "  br label %lin.head"]
    o.block("lin.end")
    o.lines.append(f"  store i64 %lin.s, ptr {o.dim(o.word(1))}")
    twice = o.value(f"shl i64 {n}, 1")
    o.advance(o.value(f"add i64 {twice}, 4"))

    o.block("div")
    x = o.value(f"load i64, ptr {o.dim(o.word(2))}")
    k = o.word(3)
    q = o.value(f"sdiv i64 {x}, {k}")
    r = o.value(f"srem i64 {x}, {k}")
    off = o.value(f"icmp ne i64 {r}, 0")
    sign = o.value(f"xor i64 {r}, {k}")
    below = o.value(f"icmp slt i64 {sign}, 0")
    down = o.value(f"and i1 {off}, {below}")
    less = o.value(f"sext i1 {down} to i64")
    o.lines.append(f"  store i64 {o.value(f'add i64 {q}, {less}')}, ptr {o.dim(o.word(1))}")
    o.advance("4")

    for label, text in (("mul", "mul i64 {0}, {1}"), ("max", "call i64 @llvm.smax.i64(i64 {0}, i64 {1})")):
        o.block(label)
        x, y = (o.value(f"load i64, ptr {o.dim(o.word(k))}") for k in (2, 3))
        o.lines.append(f"  store i64 {o.value(text.format(x, y))}, ptr {o.dim(o.word(1))}")
        o.advance("4")

    o.block("need")
    wanted = o.value(f"load i64, ptr {o.dim(o.word(1))}")
    have = o.value("load i64, ptr %bytes.p")
    short = o.value(f"icmp sgt i64 {wanted}, {have}")
    o.lines.append(f"  br i1 {short}, label %need.more, label %need.ok")
    o.block("need.more")
    o.lines += ["  %need.e = load ptr, ptr %error.p", "  %need.p = getelementptr i64, ptr %need.e, i64 5",
                f"  store i64 {wanted}, ptr %need.p", "  ret i32 2"]
    o.block("need.ok")
    o.advance("2")

    o.block("setdim")
    v = o.value(f"load i64, ptr {o.pointer(2)}")
    o.lines.append(f"  store i64 {v}, ptr {o.dim(o.word(1))}")
    o.advance("4")

    o.block("zero")
    target, size = o.pointer(1), o.operand(3)
    o.lines.append(f"  call void @sg_clear(ptr {target}, i64 {size})")
    o.advance("5")

    o.block("same")
    x, y = o.operand(2), o.operand(4)
    differ = o.value(f"icmp ne i64 {x}, {y}")
    o.lines.append(f"  br i1 {differ}, label %same.not, label %same.ok")
    o.block("same.not")
    record = o.value("load ptr, ptr %error.p")
    o.lines.append(f"  call void @sg_report(ptr {record}, i64 {o.word(1)}, i64 0, i64 {x}, i64 {y})")
    edges = o.value("load i64, ptr %edges")
    o.value(f"call i1 @sg_failed(ptr %run, i64 {edges})")
    o.lines.append("  br label %failed")
    o.block("same.ok")
    o.advance("6")

    o.block("quot")
    x, y = (o.value(f"load i64, ptr {o.dim(o.word(k))}") for k in (2, 3))
    none = o.value(f"icmp eq i64 {y}, 0")
    by = o.value(f"select i1 {none}, i64 1, i64 {y}")
    q = o.value(f"sdiv i64 {x}, {by}")
    o.lines.append(f"  store i64 {o.value(f'select i1 {none}, i64 0, i64 {q}')}, ptr {o.dim(o.word(1))}")
    o.advance("4")

    labels = ("op0", "call", "call", "check", "jump", "jumpz", "copy", "host", "lin", "div", "mul", "max", "need", "setdim", "zero", "commit",
              "same", "quot")
    cases = "  ".join(f"i64 {k}, label %{label}" for k, label in enumerate(labels))
    pcs = ", ".join(f"[ {pc}, %{block} ]" for pc, block in o.edges)
    head = f"""
define i32 @sg_walk(ptr %run) {{
entry:
  {"%start = call i64 @llvm.readcyclecounter()" if polls == "cycles" else ""}
  %args = alloca [{MAX_ARGS} x i64], align 16
  %job = alloca [3 x ptr], align 16
  %edges = alloca i64
  %committed = alloca i1
  %last = alloca i64
  store i64 0, ptr %edges
  store i1 false, ptr %committed
  store i64 {"%start" if polls == "cycles" else 0}, ptr %last
  %dims.p = getelementptr i8, ptr %run, i64 32
  %dims = load ptr, ptr %dims.p
  %error.p = getelementptr i8, ptr %run, i64 40
  %parallel.p = getelementptr i8, ptr %run, i64 48
  %pool.p = getelementptr i8, ptr %run, i64 56
  %host.p = getelementptr i8, ptr %run, i64 72
  %data.p = getelementptr i8, ptr %run, i64 80
  %bytes.p = getelementptr i8, ptr %run, i64 88
  %program.p = getelementptr i8, ptr %run, i64 96
  %program = load ptr, ptr %program.p
  br label %loop
next:
  %npc = phi ptr {pcs}
  br label %loop
loop:
  %pc = phi ptr [ %program, %entry ], [ %npc, %next ]
  %op = load i64, ptr %pc
  switch i64 %op, label %bad [ {cases} ]
bad:
  ret i32 5
failed:
  ret i32 1
cancelled:
  ret i32 3
host.failed:
  ret i32 4
"""
    return _RESOLVE + cancelled(polls) + MOVES + REPORT + head + "\n".join(o.lines) + "\n}\n"
