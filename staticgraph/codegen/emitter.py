"""``Emitter``: LLVM text of one kernel, growing. The vocabulary stands in ``docs/internals.md``, section 2.

Its parts, each on top of the last: ``core`` (names, constants, lanes, text), ``flow`` (loops, conditionals), ``arith``,
``division``, ``memory``, and the functions of ``mathfn``.
"""

from __future__ import annotations

from ..dtypes import int64
from .core import Core, Text
from .mathfn import Functions
from .target import Target
from .values import Val

__all__ = ["Emitter", "Val"]


class Emitter(Functions):
    """One kernel's text. ``Emitter(target)`` starts it, ``text()`` gives it."""

    def __init__(self, target: Target, text: Text | None = None) -> None:
        super().__init__(target, text)
        self.lo, self.hi = Val("%lo", int64, 1), Val("%hi", int64, 1)       # the tasks to do

    def _inner(self) -> Core:
        return Emitter(self.target, self._text)
