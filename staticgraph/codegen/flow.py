"""Loops and conditionals in functional form, so that the text is SSA from the start."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..dtypes import bool_, int64
from .core import Core, Operand
from .values import Val

Vals = Sequence[Val]


class Flow(Core):
    """Control flow of the emitter."""

    def loop(self, lo: Operand, hi: Operand, step: Operand, inits: Vals, body: Callable[[Val, list[Val]], Sequence[Operand]]) -> list[Val]:
        """For i = lo, lo+step, ... while i < hi: ``vals = body(i, vals)``; gives the last vals. ``step`` > 0; bounds are i64."""
        low, high, by = (self._as(x, int64, 1) for x in (lo, hi, step))
        before, head, after = self._label, self._new_label(), self._new_label()
        bounds = self._constant_of(low), self._constant_of(high)
        known = None if None in bounds else bounds[0] < bounds[1]
        if known is False:
            return list(inits)
        if known:
            self._line(f"br label %{head}")
        else:
            enter = self._value(f"icmp slt i64 {low.text}, {high.text}", bool_, 1)
            self._line(f"br i1 {enter.text}, label %{head}, label %{after}")
        self._start(head)
        at, i, phis = self._phis(inits, counter=True)
        new = self._results("loop", body(i, phis), inits)
        following = self._value(f"add i64 {i.text}, {by.text}", int64, 1)
        more = self._value(f"icmp slt i64 {following.text}, {high.text}", bool_, 1)
        latch = self._label
        self._line(f"br i1 {more.text}, label %{head}, label %{after}")
        self._fill(at, before, latch, [i, *phis], [low, *inits], [following, *new])
        self._start(after)
        if known:
            return new
        return [self._value(f"phi {v.type} [ {a.text}, %{before} ], [ {b.text}, %{latch} ]", v.dtype, v.lanes)
                for v, a, b in zip(inits, inits, new)]

    def while_(self, inits: Vals, cond: Callable[[list[Val]], Val], body: Callable[[list[Val]], Sequence[Operand]]) -> list[Val]:
        """While ``cond(vals)`` (a bool scalar): ``vals = body(vals)``; gives the last vals."""
        before, head, inside, after = self._label, self._new_label(), self._new_label(), self._new_label()
        self._line(f"br label %{head}")
        self._start(head)
        at, _, phis = self._phis(inits, counter=False)
        go = cond(phis)
        self._line(f"br i1 {go.text}, label %{inside}, label %{after}")
        self._start(inside)
        new = self._results("while_", body(phis), inits)
        self._line(f"br label %{head}")
        self._fill(at, before, self._label, phis, list(inits), new)
        self._start(after)
        return phis

    def if_(self, c: Val, then: Callable[[], Vals | None], orelse: Callable[[], Vals | None] = list) -> list[Val]:
        """``then()`` where the bool scalar ``c`` holds, else ``orelse()``; both give lists of equally typed values."""
        known = self._constant_of(c)
        if known is not None:
            return list((then if known else orelse)() or [])
        yes, no, after = self._new_label(), self._new_label(), self._new_label()
        self._line(f"br i1 {c.text}, label %{yes}, label %{no}")
        self._start(yes)
        first = list(then() or [])
        left = self._label
        self._line(f"br label %{after}")
        self._start(no)
        second = self._results("if_", orelse() or [], first)
        right = self._label
        self._line(f"br label %{after}")
        self._start(after)
        return [self._value(f"phi {a.type} [ {a.text}, %{left} ], [ {b.text}, %{right} ]", a.dtype, a.lanes)
                for a, b in zip(first, second)]

    def _phis(self, inits: Vals, counter: bool) -> tuple[int, Val, list[Val]]:
        """Reserve lines for phis at the start of a block: where they stand, the counter's handle and the values' handles."""
        at = len(self._lines)
        i = Val(self._name() if counter else "", int64, 1)
        phis = [Val(self._name(), v.dtype, v.lanes) for v in inits]
        self._lines.extend([""] * (len(phis) + counter))
        return at, i, phis

    def _fill(self, at: int, before: str, latch: str, phis: Vals, first: Vals, later: Vals) -> None:
        for k, (p, a, b) in enumerate(zip(phis, first, later)):
            self._lines[at + k] = f"{p.text} = phi {p.type} [ {a.text}, %{before} ], [ {b.text}, %{latch} ]"

    def _results(self, what: str, new: Sequence[Operand], like: Vals) -> list[Val]:
        new = list(new)
        if len(new) != len(like):
            raise TypeError(f"{what}: {len(new)} values where {len(like)} are carried.")
        return [self._as(x, v.dtype, v.lanes) for x, v in zip(new, like)]
