"""From steps to the words of ``docs/internals.md`` section 4."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..errors import InternalError_
from ..ir.aval import Atom, Dim, Size, measured_in, symbol, symbols_of
from ..schedule.memory import Arena, plan
from ..schedule.steps import Buffer, CheckStep, CommitStep, CopyStep, HostStep, JumpIfZeroStep, JumpStep, KernelStep, LabelStep, MeasureStep, SameStep
from .kernel import BufferAt, CheckId, Imm, Kernel, SizeOf
from .lower import Lowering

END, CALL, PAR, CHECK, JUMP, JUMPZ, COPY, HOST, LIN, DIV, MUL, MAX, NEED, SETDIM, ZERO, COMMIT, SAME, QUOT = range(18)
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
    measured: dict[str, int] = field(default_factory=dict)           # symbols that the run finds: their dims entries


class _Assembler:
    def __init__(self, low: Lowering, symbols: list[str]) -> None:
        self.low = low
        self.words: list[int] = []
        self.prologue: list[int] = []
        self.later: dict[str, list[int]] = {}            # words that follow the measure of a symbol
        self.measured: dict[str, int] = {}               # where in the steps each symbol is measured
        self.fixups: list[tuple[int, int]] = []
        self.texts: dict[str, int] = {}
        self.dims: dict[Size, int] = {}
        self.atoms: dict[Atom, int] = {}
        self.n_dims = len(symbols)
        self.symbols = {s: k for k, s in enumerate(symbols)}

    # ---- sizes --------------------------------------------------------------------------------------------------------------------

    def dim(self, size: Dim) -> int:
        """The dims entry of ``size``: filled by the prologue, or after the last measure that it depends on."""
        found = self.dims.get(size)
        if found is not None:
            return found
        parts = [(coef, self._atom(atom)) for atom, coef in size.terms]
        if size.const == 0 and len(parts) == 1 and parts[0][0] == 1:
            self.dims[size] = parts[0][1]
            return parts[0][1]
        at = self._new()
        self._words_for(size).extend([LIN, at, size.const, len(parts), *(w for coef, source in parts for w in (coef, source))])
        self.dims[size] = at
        return at

    def _words_for(self, *sizes: Size) -> list[int]:
        """Where the computation of a size belongs."""
        names = {s for size in sizes for s in symbols_of(size) if s in self.measured}
        return self.later.setdefault(max(names, key=self.measured.__getitem__), []) if names else self.prologue

    def _entry(self, size: Size) -> int:
        if isinstance(size, Dim):
            return self.dim(size)
        at = self._new()
        self.prologue += [LIN, at, int(size), 0]
        return at

    def _atom(self, atom: Atom) -> int:
        if atom.kind == "sym":
            if atom.name not in self.symbols and atom.name in self.measured:
                self.symbols[atom.name] = self._new()
            if atom.name not in self.symbols:
                raise InternalError_(f"the size {atom.name} is not known to the run")
            return self.symbols[atom.name]
        found = self.atoms.get(atom)
        if found is None:
            x, y = atom.args
            if atom.kind == "div" and isinstance(y, int):
                source = self._entry(x)
                found = self._new()
                self._words_for(x).extend([DIV, found, source, y])
            else:
                a, b = self._entry(x), self._entry(y)
                found = self._new()
                self._words_for(x, y).extend([{"div": QUOT, "mul": MUL, "max": MAX}[atom.kind], found, a, b])
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
        """All steps to words. What follows a measure is complete only when all steps have been seen: then they are written again."""
        self.measured = {s: k for k, step in enumerate(self.low.steps) if isinstance(step, MeasureStep) for s in measured_in(step.size)}
        self._write()
        if self.later:
            self.words, self.fixups = [], []
            self._write()

    def _write(self) -> None:
        """The words of all steps; jumps are patched at the end."""
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
            elif isinstance(step, MeasureStep):
                if isinstance(step.size, Dim):
                    words += [SETDIM, self.dim(step.size), *self.address(step.source)]
                    words += [w for s in measured_in(step.size) for w in self.later.get(s, ())]
            elif isinstance(step, SameStep):
                words += [SAME, self.low.checks[step.node], *self.amount(step.left), *self.amount(step.right)]
            else:
                assert isinstance(step, HostStep)
                buffers = [*step.reads, *step.writes]
                sizes = measured_by_host(step.item.node)                     # Python cannot know them otherwise
                words += [HOST, self.low.hosts.index(step.item), len(buffers) + len(sizes), *(w for b in buffers for w in self.address(b)),
                          *(w for s in sizes for w in self.amount(s))]
        words += [CHECK, END]
        self.jumps = [(at, labels[label]) for at, label in jumps]

    def finish(self) -> np.ndarray[Any, Any]:
        """The program: sizes first, then the steps."""
        shift = len(self.prologue)
        words = self.prologue + self.words
        for at, target in self.jumps:
            words[at + shift] = target + shift
        self.fixups = [(at + shift, k) for at, k in self.fixups]
        return np.array(words, np.int64)


def measured_by_host(node: Any) -> list[Dim]:
    """The measured symbols in the shapes of a host operation, in the order in which their values follow the addresses."""
    return [symbol(s) for s in sorted(measured_in((*(i.aval for i in node.inputs), node.aval)))]


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
    if isinstance(step, MeasureStep):
        return [step.source]
    return [*step.reads, *step.writes] if isinstance(step, HostStep) else []


def assemble(low: Lowering, symbols: list[str]) -> Program:
    """The program of a finished lowering; ``symbols`` are the run-time sizes, in the order the run gives them."""
    _lifetimes(low)
    buffers = {b for step in low.steps for b in _touched(step) if b.space == "ws"}
    arena = plan(sorted(buffers, key=lambda b: (b.first, b.last, low.buffers.index(b) if len(low.buffers) < 2000 else 0)))
    a = _Assembler(low, symbols)
    if isinstance(arena.bytes, Dim):
        a.prologue += [NEED, a.dim(arena.bytes)]
    a.assemble()
    words = a.finish()
    constants = [c.array for c in low.constants]
    checks = list(low.checks)
    measured = {s: at for s, at in a.symbols.items() if s in a.measured}
    return Program(words, a.fixups, list(a.texts), symbols, max(1, a.n_dims), arena, arena.bytes, constants,
                   checks, low.hosts, low.kernels, measured)
