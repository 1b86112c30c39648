"""What a schedule is made of: buffers and steps. Steps become words of the program (``codegen.program``)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Union

from ..ir.aval import Size


@dataclass(eq=False)
class Buffer:
    """A place for one value. ``space``: ws (the arena), in, out, state or const, with ``index`` in all but the arena."""

    space: str
    bytes: Size
    index: int = 0
    offset: Any = None                       # arena: int, or a Size once planned
    name: str = ""
    first: int = -1                          # steps at which it is first and last touched
    last: int = -1

    def touch(self, step: int) -> None:
        """Extend the lifetime to ``step``."""
        if self.first < 0:
            self.first = step
        self.last = max(self.last, step)


@dataclass(eq=False)
class KernelStep:
    """Run a kernel; ``buffers`` are those of its operands, ``scratch`` live only here."""

    kernel: Any
    group: Any = None
    parallel: bool = False


@dataclass(eq=False)
class CopyStep:
    """memmove of ``bytes``; ``source_offset`` in bytes."""

    target: Buffer
    source: Buffer
    bytes: Size
    source_offset: Size = 0


@dataclass(eq=False)
class LabelStep:
    """A place to jump to."""


@dataclass(eq=False)
class JumpStep:
    """Go to a label."""

    label: LabelStep


@dataclass(eq=False)
class JumpIfZeroStep:
    """Go to a label if the byte at the buffer is 0."""

    buffer: Buffer
    label: LabelStep


@dataclass(eq=False)
class CheckStep:
    """Stop with the error if a guard has reported one."""


@dataclass(eq=False)
class CommitStep:
    """A check after which state may be written: from here on nothing fails and nothing is cancelled."""


@dataclass(eq=False)
class HostStep:
    """Call Python: ``item`` says what, ``reads`` and ``writes`` are the buffers."""

    item: Any
    reads: list[Buffer] = field(default_factory=list)
    writes: list[Buffer] = field(default_factory=list)


@dataclass(eq=False)
class MeasureStep:
    """From here on the symbol ``size`` has the value of the int64 in ``source``."""

    size: Size
    source: Buffer
    node: Any


@dataclass(eq=False)
class SameStep:
    """Stop with an error unless the two sizes are equal."""

    node: Any
    left: Size
    right: Size


Step = Union[KernelStep, CopyStep, LabelStep, JumpStep, JumpIfZeroStep, CheckStep, CommitStep, HostStep, MeasureStep, SameStep]
