"""From steps to the words of ``docs/internals.md`` section 4."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..errors import InternalError_
from ..ir.aval import Atom, Dim, Size
from ..schedule.memory import Arena, plan
from ..schedule.steps import Buffer, CheckStep, CommitStep, CopyStep, HostStep, JumpIfZeroStep, JumpStep, KernelStep, LabelStep
from .kernel import BufferAt, CheckId, Imm, Kernel, SizeOf
from .lower import Lowering

END, CALL, PAR, CHECK, JUMP, JUMPZ, COPY, HOST, LIN, DIV, MUL, MAX, NEED, SETDIM, ZERO, COMMIT = range(16)
IMM, DIM, WS, WSD, IN, OUT, STATE, CONST = range(8)
_SPACES = {"in": IN, "out": OUT, "state": STATE, "const": CONST}


@dataclass
class Program:
    """The words, and what has to be filled in: ``fixups`` are (word, kernel text index)."""

    words: np.ndarray[Any, Any]
    fixups: list[tuple[int, int]]
    texts: list[str]
    symbols: list[str]                       # dims[0 .. len-1] at entry
    n_dims: int
    arena: Arena
    workspace: Size
    constants: list[np.ndarray[Any, Any]]
    checks: list[Any]                        # nodes, by check number
    hosts: list[Any]
    kernels: list[Kernel] = field(default_factory=list)


class _Assembler:
    def __init__(self, low: Lowering, symbols: list[str]) -> None:
        self.low = low
        self.words: list[int] = []
        self.prologue: list[int] = []
        self.fixups: list[tuple[int, int]] = []
        self.texts: dict[str, int] = {}
        self.dims: dict[Size, int] = {}
        self.atoms: dict[Atom, int] = {}
        self.n_dims = len(symbols)
        self.symbols = {s: k for k, s in enumerate(symbols)}

    # ---- sizes --------------------------------------------------------------------------------------------------------------------

    def dim(self, size: Dim) -> int:
        """The dims entry that the prologue fills with ``size``."""
        found = self.dims.get(size)
        if found is not None:
            return found
        parts = [(coef, self._atom(atom)) for atom, coef in size.terms]
        if size.const == 0 and len(parts) == 1 and parts[0][0] == 1:
            self.dims[size] = parts[0][1]
            return parts[0][1]
        at = self._new()
        self.prologue += [LIN, at, size.const, len(parts)]
        for coef, source in parts:
            self.prologue += [coef, source]
        self.dims[size] = at
        return at

    def _entry(self, size: Size) -> int:
        if isinstance(size, Dim):
            return self.dim(size)
        at = self._new()
        self.prologue += [LIN, at, int(size), 0]
        return at

    def _atom(self, atom: Atom) -> int:
        if atom.kind == "sym":
            if atom.name not in self.symbols:
                raise InternalError_(f"the size {atom.name} is not known to the run")
            return self.symbols[atom.name]
        found = self.atoms.get(atom)
        if found is None:
            x, y = atom.args
            if atom.kind == "div" and isinstance(y, int):
                source = self._entry(x)
                found = self._new()
                self.prologue += [DIV, found, source, y]
            elif atom.kind == "div":
                raise InternalError_(f"a size divided by a run-time size: {atom!r}")
            else:
                a, b = self._entry(x), self._entry(y)
                found = self._new()
                self.prologue += [MUL if atom.kind == "mul" else MAX, found, a, b]
            self.atoms[atom] = found
        return found

    def _new(self) -> int:
        self.n_dims += 1
        return self.n_dims - 1

    # ---- operands -------------------------------------------------------------------------------------------------------------------

    def amount(self, size: Size) -> list[int]:
        """A size as an operand."""
        return [DIM, self.dim(size)] if isinstance(size, Dim) else [IMM, int(size)]

    def address(self, buffer: Buffer, offset: Size = 0) -> list[int]:
        """The address ``offset`` bytes into a buffer."""
        if buffer.space == "ws":
            place = buffer.offset + offset
            return [WSD, self.dim(place)] if isinstance(place, Dim) else [WS, int(place)]
        if isinstance(offset, Dim):
            raise InternalError_("a run-time offset into a caller's buffer")
        return [_SPACES[buffer.space] | buffer.index << 8, int(offset)]

    def operand(self, o: Any) -> list[int]:
        """A kernel's operand."""
        if isinstance(o, BufferAt):
            return self.address(o.value.buffer, o.offset * o.value.aval.dtype.size)
        if isinstance(o, SizeOf):
            return self.amount(o.size)
        if isinstance(o, CheckId):
            return [IMM, self.low.checks[o.node]]
        assert isinstance(o, Imm)
        return [IMM, o.bits - (1 << 64) if o.bits >= 1 << 63 else o.bits]

    # ---- steps --------------------------------------------------------------------------------------------------------------------------

    def assemble(self) -> None:
        """All steps to words; jumps are patched at the end."""
        labels: dict[LabelStep, int] = {}
        jumps: list[tuple[int, LabelStep]] = []
        words = self.words
        for step in self.low.steps:
            if isinstance(step, KernelStep):
                kernel = step.kernel
                operands = [w for o in kernel.operands for w in self.operand(o)]
                text = self.texts.setdefault(kernel.text, len(self.texts))
                words += [PAR if step.parallel else CALL]
                self.fixups.append((len(words), text))
                words += [0, *self.amount(kernel.tasks), len(kernel.operands), *operands]
            elif isinstance(step, CopyStep):
                words += [COPY, *self.address(step.target), *self.address(step.source, step.source_offset), *self.amount(step.bytes)]
            elif isinstance(step, LabelStep):
                labels[step] = len(words)
            elif isinstance(step, JumpStep):
                words += [JUMP, 0]
                jumps.append((len(words) - 1, step.label))
            elif isinstance(step, JumpIfZeroStep):
                words += [JUMPZ, *self.address(step.buffer), 0]
                jumps.append((len(words) - 1, step.label))
            elif isinstance(step, CheckStep):
                words.append(CHECK)
            elif isinstance(step, CommitStep):
                words.append(COMMIT)
            else:
                assert isinstance(step, HostStep)
                buffers = [*step.reads, *step.writes]
                words += [HOST, self.low.hosts.index(step.item), len(buffers), *(w for b in buffers for w in self.address(b))]
        words += [CHECK, END]
        shift = len(self.prologue)
        for at, label in jumps:
            words[at] = labels[label] + shift
        self.words = self.prologue + words
        self.fixups = [(at + shift, k) for at, k in self.fixups]


def _lifetimes(low: Lowering) -> None:
    """First and last step of each arena buffer; what a loop reads from before it lives to the loop's end."""
    for k, step in enumerate(low.steps):
        for b in _touched(step):
            b.touch(k)
    for start, stop in sorted(low.loops, reverse=True):
        for b in low.buffers:
            if b.first < start <= b.last <= stop:
                b.last = stop


def _touched(step: Any) -> list[Buffer]:
    if isinstance(step, KernelStep):
        return [o.value.buffer for o in step.kernel.operands if isinstance(o, BufferAt)]
    if isinstance(step, CopyStep):
        return [step.target, step.source]
    if isinstance(step, JumpIfZeroStep):
        return [step.buffer]
    return [*step.reads, *step.writes] if isinstance(step, HostStep) else []


def assemble(low: Lowering, symbols: list[str]) -> Program:
    """The program of a finished lowering; ``symbols`` are the run-time sizes, in the order the run gives them."""
    _lifetimes(low)
    buffers = {b for step in low.steps for b in _touched(step) if b.space == "ws"}
    arena = plan(sorted(buffers, key=lambda b: (b.first, b.last, low.buffers.index(b) if len(low.buffers) < 2000 else 0)))
    a = _Assembler(low, symbols)
    a.assemble()
    words = a.words
    if isinstance(arena.bytes, Dim):
        saved, a.prologue = a.prologue, []
        need = a.dim(arena.bytes)
        head = [*a.prologue, NEED, need]
        body = len(saved)
        words = saved + head + words[body:]
        a.fixups = [(at + len(head), k) for at, k in a.fixups]
        _shift_jumps(words, body + len(head), len(head))
    constants = [c.array for c in low.constants]
    checks = list(low.checks)
    return Program(np.array(words, np.int64), a.fixups, list(a.texts), symbols, max(1, a.n_dims), arena, arena.bytes, constants,
                   checks, low.hosts, low.kernels)


def _shift_jumps(words: list[int], start: int, by: int) -> None:
    at = start
    while at < len(words):
        op = words[at]
        if op in (CALL, PAR):
            at += 5 + 2 * words[at + 4]
        elif op == JUMP:
            words[at + 1] += by
            at += 2
        elif op == JUMPZ:
            words[at + 3] += by
            at += 4
        elif op == HOST:
            at += 3 + 2 * words[at + 2]
        else:
            at += {END: 1, CHECK: 1, COMMIT: 1, COPY: 7, NEED: 2, SETDIM: 4, ZERO: 5}[op]
