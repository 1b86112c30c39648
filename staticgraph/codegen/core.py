"""The text of one function under construction: names, blocks, constants, lanes, tables and helper functions."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..dtypes import DType, bool_, int32, int64
from .target import Target
from .values import Val, literal, register_type, scalar_type, suffix

Number = bool | int | float | np.generic
Operand = Val | Number


@dataclass(slots=True)
class Text:
    """What the functions of one text share: constant tables, helper functions (text, packed result type, results), externs."""

    tables: dict[str, str] = field(default_factory=dict)
    helpers: dict[str, tuple[str, str, tuple[tuple[DType, int], ...]]] = field(default_factory=dict)
    externs: dict[str, str] = field(default_factory=dict)


class Core:
    """What every part of the emitter stands on. See ``docs/internals.md`` section 2 for the vocabulary."""

    def __init__(self, target: Target, text: Text | None = None) -> None:
        self.target = target
        self._text = text or Text()
        self._lines: list[str] = []
        self._label = "entry"
        self._names = 0
        self._blocks = 0
        self._known: dict[tuple[str, str], Any] = {}          # literals' values, by text and type
        self._affine: dict[str, tuple[Val, int]] = {}         # %v = base + constant, so that addresses share a base

    # ---- lines and names ---------------------------------------------------------------------------------------------------

    def _line(self, text: str) -> None:
        self._lines.append(text)

    def _name(self) -> str:
        self._names += 1
        return f"%v{self._names}"

    def _new_label(self) -> str:
        self._blocks += 1
        return f"b{self._blocks}"

    def _start(self, label: str) -> None:
        self._lines.append(f"{label}:")
        self._label = label

    def _value(self, text: str, dtype: DType, lanes: int) -> Val:
        """Append ``%new = text`` and give the handle of the result."""
        name = self._name()
        self._lines.append(f"{name} = {text}")
        return Val(name, dtype, lanes)

    def _intrinsic(self, name: str, *operands: Val, dtype: DType | None = None) -> Val:
        """Call ``llvm.<name>``, mangled by the first operand's type, which is also the result's unless ``dtype`` is given."""
        x = operands[0]
        result = register_type(dtype or x.dtype, x.lanes)
        return self._value(f"call {result} @llvm.{name}.{suffix(x.dtype, x.lanes)}({', '.join(o.typed for o in operands)})",
                           dtype or x.dtype, x.lanes)

    # ---- constants ---------------------------------------------------------------------------------------------------------

    def const(self, dtype: DType, value: Any, lanes: int = 1) -> Val:
        """A constant with exact bits: one number for all lanes, or a sequence with one number per lane."""
        if isinstance(value, (list, tuple, np.ndarray)) and np.ndim(value) == 1:
            if lanes not in (1, len(value)):
                raise ValueError(f"{len(value)} constants for {lanes} lanes.")
            if len(value) == 1:
                return self.const(dtype, value[0])
            one = scalar_type(dtype)
            text = "<" + ", ".join(f"{one} {literal(dtype, v)}" for v in value) + ">"
            self._known[text, dtype.name] = list(value)
            return Val(text, dtype, len(value))
        text = literal(dtype, value)
        if lanes != 1:
            text = f"splat ({scalar_type(dtype)} {text})"
        result = Val(text, dtype, lanes)
        self._known[text, dtype.name] = value
        return result

    def _constant_of(self, x: Operand) -> Any:
        """The number that ``x`` is known to be in every lane, else None."""
        return self._known.get((x.text, x.dtype.name)) if isinstance(x, Val) else x

    def iota(self, dtype: DType, lanes: int) -> Val:
        """0, 1, ... lanes-1."""
        return self.const(dtype, list(range(lanes)))

    def mask(self, live: int | Val, lanes: int) -> Val:
        """A bool vector whose first ``live`` lanes are true; a constant where ``live`` is an int."""
        if isinstance(live, int):
            return self.const(bool_, [i < live for i in range(lanes)])
        # lane numbers as 64 bits would take two registers; the clamp makes 32 bits enough
        small = self._value(f"call i64 @llvm.smin.i64({live.typed}, i64 {lanes})", int64, 1)
        short = self._value(f"trunc {small.typed} to i32", int32, 1)
        wide = self.splat(short, lanes)
        return self._value(f"icmp slt {wide.type} {self.iota(int32, lanes).text}, {wide.text}", bool_, lanes)

    # ---- lanes -------------------------------------------------------------------------------------------------------------

    def splat(self, x: Val, lanes: int) -> Val:
        """``x`` in every lane."""
        if x.lanes == lanes:
            return x
        if x.lanes != 1:
            raise TypeError(f"A vector of {x.lanes} lanes cannot be spread to {lanes}.")
        if x.literal:
            return self.const(x.dtype, self._known[x.text, x.dtype.name], lanes)
        kind = register_type(x.dtype, lanes)
        one = self._value(f"insertelement {kind} poison, {x.typed}, i64 0", x.dtype, lanes)
        return self._value(f"shufflevector {one.typed}, {kind} poison, <{lanes} x i32> zeroinitializer", x.dtype, lanes)

    def lane(self, x: Val, i: int | Val) -> Val:
        """Lane ``i`` as a scalar."""
        if x.lanes == 1:
            return x
        return self._value(f"extractelement {x.typed}, i64 {i.text if isinstance(i, Val) else i}", x.dtype, 1)

    def insert(self, x: Val, i: int | Val, scalar: Operand) -> Val:
        """``x`` with lane ``i`` replaced."""
        one = self._as(scalar, x.dtype, 1)
        if x.lanes == 1:
            return one
        return self._value(f"insertelement {x.typed}, {one.typed}, i64 {i.text if isinstance(i, Val) else i}", x.dtype, x.lanes)

    def shuffle(self, x: Val, y: Val | None, indices: Sequence[int]) -> Val:
        """Lanes picked from ``x`` followed by ``y`` (None: only x); -1 leaves a lane undefined."""
        if len(indices) == 1:
            i = indices[0]
            return self.lane(x, i) if y is None or i < x.lanes else self.lane(y, i - x.lanes)
        if x.lanes == 1:                       # two scalars, or one spread
            parts = [x, x if y is None else y]
            out = Val("poison", x.dtype, len(indices))
            for at, i in enumerate(indices):
                if i >= 0:
                    out = self.insert(out, at, parts[i])
            return out
        picks = ", ".join("i32 poison" if i < 0 else f"i32 {i}" for i in indices)
        other = f"{x.type} poison" if y is None else y.typed
        return self._value(f"shufflevector {x.typed}, {other}, <{len(indices)} x i32> <{picks}>", x.dtype, len(indices))

    # ---- operands ----------------------------------------------------------------------------------------------------------

    def _as(self, x: Operand, dtype: DType, lanes: int) -> Val:
        """``x`` with this dtype and number of lanes: numbers become constants, scalars are spread."""
        if not isinstance(x, Val):
            return self.const(dtype, x, lanes)
        if x.dtype.name != dtype.name:
            raise TypeError(f"Operand types differ: {x.dtype.name} and {dtype.name}.")
        return self.splat(x, lanes)

    def _same(self, *operands: Operand) -> list[Val]:
        """The operands brought to one dtype and one number of lanes; at least one must be a ``Val``."""
        vals = [x for x in operands if isinstance(x, Val)]
        if not vals:
            raise TypeError("At least one operand must be a value, not a Python number.")
        lanes = max(v.lanes for v in vals)
        return [self._as(x, vals[0].dtype, lanes) for x in operands]

    def arg(self, i: int) -> Val:
        """Operand ``i`` of ``%a``."""
        return self._value(f"load i64, ptr {self._arg_address(i)}", int64, 1)

    def arg_ptr(self, i: int) -> str:
        """Operand ``i`` of ``%a`` as a pointer."""
        name = self._name()
        self._line(f"{name} = load ptr, ptr {self._arg_address(i)}")
        return name

    def arg_scalar(self, i: int, dtype: DType) -> Val:
        """Operand ``i`` of ``%a`` as a scalar constant of ``dtype`` (its bits, zero extended)."""
        return self.load(self._arg_address(i), dtype)            # little endian: the low bytes come first

    def load(self, ptr: str, dtype: DType) -> Val:
        raise NotImplementedError                               # the emitter's memory part

    def _arg_address(self, i: int) -> str:
        if i == 0:
            return "%a"
        name = self._name()
        self._line(f"{name} = getelementptr i64, ptr %a, i64 {i}")
        return name

    # ---- other things of the same text -----------------------------------------------------------------------------------

    def table(self, name: str, dtype: DType, values: Sequence[Any]) -> str:
        """A private constant array of this text, made once per name: the pointer to it."""
        if name not in self._text.tables:
            items = ", ".join(f"{dtype.llvm} {literal(dtype, v)}" for v in values)
            self._text.tables[name] = f"@K.{name} = private unnamed_addr constant [{len(values)} x {dtype.llvm}] [{items}]"
        return f"@K.{name}"

    def function(self, name: str, operands: Sequence[Val], build: Callable[..., Sequence[Val]], rare: bool = False) -> list[Val]:
        """Call a helper function of this text, made by ``build(e, *parameters) -> results`` at its first use.

        ``name`` must determine the body and the operands' types. ``rare`` keeps its code out of the way of the caller's.
        """
        text = self._text
        if name not in text.helpers:
            text.helpers[name] = ("", "", ())                   # holds its place in the order
            inner = self._inner()
            params = [Val(f"%p{i}", x.dtype, x.lanes) for i, x in enumerate(operands)]
            results = build(inner, *params)
            packed = "{ " + ", ".join(r.type for r in results) + " }"
            whole = "poison"
            for i, r in enumerate(results):
                fresh = inner._name()
                inner._line(f"{fresh} = insertvalue {packed} {whole}, {r.typed}, {i}")
                whole = fresh
            inner._line(f"ret {packed} {whole}")
            head = f"define internal {packed} @K.{name}({', '.join(p.typed for p in params)}) noinline"
            text.helpers[name] = (f"{head}{' cold' if rare else ''} {inner._body()}", packed,
                                  tuple((r.dtype, r.lanes) for r in results))
        _, packed, kinds = text.helpers[name]
        call = self._name()
        self._line(f"{call} = call {packed} @K.{name}({', '.join(x.typed for x in operands)})")
        return [self._value(f"extractvalue {packed} {call}, {i}", d, n) for i, (d, n) in enumerate(kinds)]

    def _inner(self) -> Core:
        raise NotImplementedError                               # the whole emitter

    def report(self, check: Val, element: Val, a: Val, b: Val) -> None:
        """Tell the run's error record that check ``check`` failed at flat index ``element``, with two words of facts."""
        self._text.externs["sg_report"] = "declare void @sg_report(ptr, i64, i64, i64, i64)"
        place, error = self._name(), self._name()
        self._line(f"{place} = getelementptr i8, ptr %run, i64 40")
        self._line(f"{error} = load ptr, ptr {place}")
        words = ", ".join(self._as(x, int64, 1).typed for x in (check, element, a, b))
        self._line(f"call void @sg_report(ptr {error}, {words})")

    def _body(self) -> str:
        lines = "\n  ".join(self._lines)
        width = f'"prefer-vector-width"="{self.target.vector_bits}"'
        return f'nounwind "no-stack-arg-probe" {width} {{\nentry:\n  {lines}\n}}'

    def text(self, name: str = "K") -> str:
        """The whole function, its tables, helper functions and declarations, in stable order."""
        body = self._body().removesuffix("\n}")
        kernel = f"define i32 @K(ptr %run, ptr %a, i64 %lo, i64 %hi) {body}\n  ret i32 0\n}}"
        shared = self._text
        parts = [*shared.tables.values(), kernel, *(h[0] for h in shared.helpers.values()), *shared.externs.values()]
        text = "\n".join(parts) + "\n"
        return text if name == "K" else re.sub(r"@K\b", f"@{name}", text)
