"""The words of a program as straight code: one function that calls the kernels in turn.

A session's walker reads the same words at run time (``docs/internals.md`` section 4). Here they are known, so each becomes a few
instructions with a direct call: an exported object needs neither the table nor the relocations it would have. What each word does is
the walker's, to the letter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..codegen import program as words_of
from ..codegen.program import Program

RUN_BYTES = 112                              # sg_run, docs/internals.md section 3
IN, OUT, STATE, WORKSPACE, DIMS, ERROR, PARALLEL, POOL, CANCEL = 0, 8, 16, 24, 32, 40, 48, 56, 64
WORKSPACE_BYTES = 88

# what a driver calls: tasks of a kernel for ``parallel``, the test after a guard, memmove and memset
SUPPORT = """
define internal i32 @sg_task(ptr %arg, i64 %lo, i64 %hi) nounwind {
entry:
  %run = load ptr, ptr %arg
  %fp = getelementptr i8, ptr %arg, i64 8
  %fn = load ptr, ptr %fp
  %ap = getelementptr i8, ptr %arg, i64 16
  %args = load ptr, ptr %ap
  %r = call i32 %fn(ptr %run, ptr %args, i64 %lo, i64 %hi)
  ret i32 %r
}

define internal i1 @sg_failed(ptr %e, i64 %edges) nounwind {
entry:
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


class _Driver:
    def __init__(self, program: Program, kernels: Sequence[str], constants: Mapping[int, str], states: Sequence[int],
                 found: Sequence[tuple[int, int]]) -> None:
        self.program, self.kernels, self.constants, self.states, self.found = program, kernels, constants, states, found
        self.words = [int(w) for w in program.words]
        self.fn = {at: kernels[k] for at, k in program.fixups}
        self.lines: list[str] = []
        self.count = 0
        self.committed = False
        self.max_args = 1

    def value(self, text: str) -> str:
        self.count += 1
        self.lines.append(f"  %t{self.count} = {text}")
        return f"%t{self.count}"

    def line(self, text: str) -> None:
        self.lines.append("  " + text)

    def label(self) -> str:
        self.count += 1
        return f"l{self.count}"

    def start(self, label: str) -> None:
        self.lines.append(f"{label}:")

    # ---- operands --------------------------------------------------------------------------------------------------------------

    def dim_at(self, index: int) -> str:
        """The address of a dims entry."""
        return self.value(f"getelementptr i64, ptr %dims, i64 {index}")

    def dim(self, index: int) -> str:
        """A dims entry."""
        return self.value(f"load i64, ptr {self.dim_at(index)}")

    def set_dim(self, index: int, value: str) -> None:
        """Write a dims entry."""
        self.line(f"store i64 {value}, ptr {self.dim_at(index)}")

    def pointer(self, at: int) -> str:
        """The operand at word ``at`` as an address."""
        kind, index, value = self.words[at] & 255, self.words[at] >> 8, self.words[at + 1]
        if kind == words_of.WS:
            return self.value(f"getelementptr i8, ptr %ws, i64 {value}") if value else "%ws"
        if kind == words_of.WSD:
            return self.value(f"getelementptr i8, ptr %ws, i64 {self.dim(value)}")
        if kind == words_of.CONST:
            base = self.constants[index]
        elif kind == words_of.STATE:
            base, value = "%state", value + self.states[index]
        else:
            table = {words_of.IN: "%in", words_of.OUT: "%out"}[kind]
            base = self.value(f"load ptr, ptr {self.value(f'getelementptr ptr, ptr {table}, i64 {index}')}")
        return self.value(f"getelementptr i8, ptr {base}, i64 {value}") if value else base

    def operand(self, at: int) -> str:
        """The operand at word ``at`` as an i64."""
        kind, value = self.words[at] & 255, self.words[at + 1]
        if kind == words_of.IMM:
            return str(value)
        if kind == words_of.DIM:
            return self.dim(value)
        return self.value(f"ptrtoint ptr {self.pointer(at)} to i64")

    # ---- words -------------------------------------------------------------------------------------------------------------------

    def text(self, name: str, attributes: str) -> str:
        """The whole function ``i32 name(ptr run)``."""
        w = self.words
        ops, at = [], 0
        while at < len(w):
            ops.append(at)
            at += _length(w, at)
        targets = {w[p + 1] if w[p] == words_of.JUMP else w[p + 3] for p in ops if w[p] in (words_of.JUMP, words_of.JUMPZ)}
        self.max_args = max([1, *(w[p + 4] for p in ops if w[p] in (words_of.CALL, words_of.PAR))])
        commit = next((p for p in ops if w[p] == words_of.COMMIT), len(w))
        for p in ops:
            if p in targets:
                self.line(f"br label %w{p}")
                self.start(f"w{p}")
            self.committed = p > commit
            self._op(p)
        head = [f"define internal i32 @{name}(ptr %run) nounwind {attributes} {{", "entry:",
                f"  %args = alloca [{self.max_args} x i64], align 16", "  %job = alloca [3 x i64], align 16", "  %edges = alloca i64",
                "  store i64 0, ptr %edges"]
        for field, name_ in ((IN, "in"), (OUT, "out"), (STATE, "state"), (WORKSPACE, "ws"), (DIMS, "dims"), (ERROR, "error"),
                             (PARALLEL, "parallel"), (POOL, "pool"), (CANCEL, "cancel")):
            head += [f"  %{name_}.p = getelementptr i8, ptr %run, i64 {field}", f"  %{name_} = load ptr, ptr %{name_}.p"]
        tail = ["failed:", "  ret i32 1", "cancelled:", "  ret i32 3", "}"]
        return "\n".join([*head, *self.lines, *tail]) + "\n"

    def _op(self, p: int) -> None:
        w = self.words
        op = w[p]
        if op == words_of.END:
            for at, out in self.found:
                place = self.value(f"load ptr, ptr {self.value(f'getelementptr ptr, ptr %out, i64 {out}')}")
                self.line(f"store i64 {self.dim(at)}, ptr {place}, align 1")
            self.line("ret i32 0")
        elif op in (words_of.CALL, words_of.PAR):
            self._call(p, op == words_of.PAR)
        elif op in (words_of.CHECK, words_of.COMMIT):
            self._check()
        elif op == words_of.JUMP:
            if w[p + 1] <= p:
                self.line(f"store i64 {self.value(f'add i64 {self._edges()}, 1')}, ptr %edges")
                self._poll()
            self.line(f"br label %w{w[p + 1]}")
            self.start(self.label())
        elif op == words_of.JUMPZ:
            zero = self.value(f"icmp eq i8 {self.value(f'load i8, ptr {self.pointer(p + 1)}')}, 0")
            go_on = self.label()
            self.line(f"br i1 {zero}, label %w{w[p + 3]}, label %{go_on}")
            self.start(go_on)
        elif op == words_of.COPY:
            target, source, size = self.pointer(p + 1), self.pointer(p + 3), self.operand(p + 5)
            self.line(f"call void @sg_move(ptr {target}, ptr {source}, i64 {size})")
        elif op == words_of.ZERO:
            target, size = self.pointer(p + 1), self.operand(p + 3)
            self.line(f"call void @sg_clear(ptr {target}, i64 {size})")
        elif op == words_of.SETDIM:
            self.set_dim(w[p + 1], self.value(f"load i64, ptr {self.pointer(p + 2)}"))
        elif op == words_of.NEED:
            self._need(w[p + 1])
        elif op == words_of.SAME:
            self._same(p)
        else:
            self._size(p, op)

    def _edges(self) -> str:
        return self.value("load i64, ptr %edges")

    def _call(self, p: int, shared: bool) -> None:
        w = self.words
        self._poll()
        n = w[p + 4]
        tasks = self.operand(p + 2)
        operands = [self.operand(p + 5 + 2 * k) for k in range(n)]
        for k, v in enumerate(operands):
            place = self.value(f"getelementptr i64, ptr %args, i64 {k}") if k else "%args"
            self.line(f"store i64 {v}, ptr {place}")
        fn = self.fn[p + 1]
        if not shared:
            self.value(f"call i32 @{fn}(ptr %run, ptr %args, i64 0, i64 {tasks})")
            return
        alone, several, done = self.label(), self.label(), self.label()
        given = self.value("icmp ne ptr %parallel, null")
        many = self.value(f"icmp sgt i64 {tasks}, 1")
        self.line(f"br i1 {self.value(f'and i1 {given}, {many}')}, label %{several}, label %{alone}")
        self.start(alone)
        self.value(f"call i32 @{fn}(ptr %run, ptr %args, i64 0, i64 {tasks})")
        self.line(f"br label %{done}")
        self.start(several)
        self.line("store ptr %run, ptr %job")
        for k, v in ((8, f"@{fn}"), (16, "%args")):
            self.line(f"store ptr {v}, ptr {self.value(f'getelementptr i8, ptr %job, i64 {k}')}")
        self.line(f"call void %parallel(ptr %pool, ptr @sg_task, ptr %job, i64 {tasks})")
        self.line(f"br label %{done}")
        self.start(done)

    def _poll(self) -> None:
        """Leave if the caller's flag is set, unless state is being written."""
        if self.committed:
            return
        look, go_on = self.label(), self.label()
        self.line(f"br i1 {self.value('icmp eq ptr %cancel, null')}, label %{go_on}, label %{look}")
        self.start(look)
        stop = self.value(f"icmp ne i32 {self.value('load volatile i32, ptr %cancel')}, 0")
        self.line(f"br i1 {stop}, label %cancelled, label %{go_on}")
        self.start(go_on)

    def _check(self) -> None:
        if not self.program.checks:
            return
        bad, go_on = self.value(f"call i1 @sg_failed(ptr %error, i64 {self._edges()})"), self.label()
        self.line(f"br i1 {bad}, label %failed, label %{go_on}")
        self.start(go_on)

    def _need(self, index: int) -> None:
        wanted = self.dim(index)
        have = self.value(f"load i64, ptr {self.value(f'getelementptr i8, ptr %run, i64 {WORKSPACE_BYTES}')}")
        short, more, go_on = self.value(f"icmp sgt i64 {wanted}, {have}"), self.label(), self.label()
        self.line(f"br i1 {short}, label %{more}, label %{go_on}")
        self.start(more)
        self.line(f"store i64 {wanted}, ptr {self.value('getelementptr i64, ptr %error, i64 5')}")
        self.line("ret i32 2")
        self.start(go_on)

    def _same(self, p: int) -> None:
        x, y = self.operand(p + 2), self.operand(p + 4)
        differ, bad, go_on = self.value(f"icmp ne i64 {x}, {y}"), self.label(), self.label()
        self.line(f"br i1 {differ}, label %{bad}, label %{go_on}")
        self.start(bad)
        self.line(f"call void @sg_report(ptr %error, i64 {self.words[p + 1]}, i64 0, i64 {x}, i64 {y})")
        self.value(f"call i1 @sg_failed(ptr %error, i64 {self._edges()})")
        self.line("br label %failed")
        self.start(go_on)

    def _size(self, p: int, op: int) -> None:
        w = self.words
        if op == words_of.LIN:
            total = str(w[p + 2])
            for k in range(w[p + 3]):
                part = self.value(f"mul i64 {w[p + 4 + 2 * k]}, {self.dim(w[p + 5 + 2 * k])}")
                total = self.value(f"add i64 {total}, {part}")
            self.set_dim(w[p + 1], total)
            return
        x = self.dim(w[p + 2])
        if op == words_of.DIV:
            self.set_dim(w[p + 1], self.floor(x, w[p + 3]))
            return
        y = self.dim(w[p + 3])
        if op == words_of.MUL:
            result = self.value(f"mul i64 {x}, {y}")
        elif op == words_of.MAX:
            result = self.value(f"call i64 @llvm.smax.i64(i64 {x}, i64 {y})")
        else:
            none = self.value(f"icmp eq i64 {y}, 0")
            q = self.value(f"sdiv i64 {x}, {self.value(f'select i1 {none}, i64 1, i64 {y}')}")
            result = self.value(f"select i1 {none}, i64 0, i64 {q}")
        self.set_dim(w[p + 1], result)

    def floor(self, x: str, k: int) -> str:
        """x / k, rounded down."""
        q, r = self.value(f"sdiv i64 {x}, {k}"), self.value(f"srem i64 {x}, {k}")
        off = self.value(f"icmp ne i64 {r}, 0")
        below = self.value(f"icmp slt i64 {self.value(f'xor i64 {r}, {k}')}, 0")
        down = self.value(f"zext i1 {self.value(f'and i1 {off}, {below}')} to i64")
        return self.value(f"sub i64 {q}, {down}")


def _length(w: Sequence[int], at: int) -> int:
    """Words of the op at ``at``."""
    op = w[at]
    if op in (words_of.CALL, words_of.PAR):
        return 5 + 2 * w[at + 4]
    if op == words_of.LIN:
        return 4 + 2 * w[at + 3]
    return {words_of.END: 1, words_of.CHECK: 1, words_of.COMMIT: 1, words_of.JUMP: 2, words_of.NEED: 2, words_of.JUMPZ: 4, words_of.DIV: 4,
            words_of.MUL: 4, words_of.MAX: 4, words_of.SETDIM: 4, words_of.QUOT: 4, words_of.ZERO: 5, words_of.SAME: 6, words_of.COPY: 7}[op]


def driver(program: Program, name: str, kernels: Sequence[str], constants: Mapping[int, str], states: Sequence[int], attributes: str,
           found: Sequence[tuple[int, int]] = ()) -> str:
    """The function ``i32 @name(ptr run)`` as LLVM text.

    ``kernels`` are the names of the functions of ``program.texts``, ``constants`` the addresses of its constants (LLVM constant expressions),
    ``states`` the byte offset of each variable in the caller's state, ``found`` (dims entry,
    output) of sizes that the run finds and writes to an output.
    """
    return _Driver(program, kernels, constants, states, found).text(name, attributes)
