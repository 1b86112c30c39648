"""Loads and stores: contiguous, strided, indexed and masked."""

from __future__ import annotations

from ..dtypes import DType, bool_, float16, float32, int8, int16, int64
from .division import Division
from .values import Val, memory_type


class Memory(Division):
    """Memory access. Pointers are texts; indices and strides count elements."""

    def offset(self, ptr: str, dtype: DType, index: int | Val) -> str:
        """The pointer to element ``index``: unrolled copies address by constant offsets from one such base."""
        if isinstance(index, Val):
            known = self._constant_of(index)
            if known is not None:
                return self.offset(ptr, dtype, int(known))
            base, constant = self._affine.get(index.text, (index, 0))
            if constant:
                return self.offset(self.offset(ptr, dtype, base), dtype, constant)
        elif index == 0:
            return ptr
        name = self._name()
        text = self._as(index, int64, 1).typed
        self._line(f"{name} = getelementptr {dtype.llvm}, ptr {ptr}, {text}")
        return name

    def load(self, ptr: str, dtype: DType, index: int | Val = 0, lanes: int = 1, mask: Val | None = None,
             stride: int | Val = 1) -> Val:
        """``lanes`` elements from ``index`` on, ``stride`` apart; dead lanes are not touched and read as 0.

        A float16 load gives a float32 handle. ``index`` may be an i64 vector: one element per lane (``lanes`` is its length).
        """
        if isinstance(index, Val) and index.lanes > 1:
            return self._gather(ptr, dtype, [self.lane(index, i) for i in range(index.lanes)], mask)
        live = self._constant_lanes(mask)
        if live is not None and all(live):
            mask = None
        if lanes > 1 and not (isinstance(stride, int) and stride == 1):
            if isinstance(stride, int) and stride == 0 and mask is None:
                return self.splat(self.load(ptr, dtype, index), lanes)
            return self._gather(ptr, dtype, self._steps(index, stride, lanes), mask)
        place, kind = self.offset(ptr, dtype, index), memory_type(dtype, lanes)
        if mask is None:
            return self._loaded(self._value(f"load {kind}, ptr {place}, align {dtype.size}", dtype, lanes).text, dtype, lanes)
        if lanes == 1:
            zero = self._loaded_zero(dtype)
            return self.if_(mask, lambda: [self.load(place, dtype)], lambda: [zero])[0]
        call = (f"call {kind} @llvm.masked.load.{self._memory_suffix(dtype, lanes)}.p0(ptr {place}, i32 {dtype.size}, "
                f"{mask.typed}, {kind} zeroinitializer)")
        return self._loaded(self._value(call, dtype, lanes).text, dtype, lanes)

    def store(self, ptr: str, value: Val, index: int | Val = 0, mask: Val | None = None, stride: int | Val = 1,
              dtype: DType | None = None) -> None:
        """Write the lanes of ``value`` from ``index`` on, ``stride`` apart; dead lanes are not touched.

        ``dtype`` names the memory's type where the register's differs (float16). An i64 vector as ``index`` scatters: of
        lanes with the same index the last one wins.
        """
        lanes = value.lanes
        memory = dtype or value.dtype
        if memory is not value.dtype and memory is not float16:
            raise TypeError(f"A {value.dtype.name} is stored as {memory.name}; cast it first.")
        if isinstance(index, Val) and index.lanes > 1:
            return self._scatter(ptr, value, [self.lane(index, i) for i in range(index.lanes)], mask, memory)
        live = self._constant_lanes(mask)
        if live is not None and all(live):
            mask = None
        if lanes > 1 and not (isinstance(stride, int) and stride == 1):
            return self._scatter(ptr, value, self._steps(index, stride, lanes), mask, memory)
        place, (text, kind) = self.offset(ptr, memory, index), self._stored(value, memory)
        if mask is None:
            self._line(f"store {kind} {text}, ptr {place}, align {memory.size}")
        elif lanes == 1:
            self.if_(mask, lambda: self.store(place, value, dtype=memory))
        else:
            self._line(f"call void @llvm.masked.store.{self._memory_suffix(memory, lanes)}.p0({kind} {text}, ptr {place}, "
                       f"i32 {memory.size}, {mask.typed})")
        return None

    # ---- the difference between registers and memory -------------------------------------------------------------------------

    def _loaded(self, name: str, dtype: DType, lanes: int) -> Val:
        if dtype.kind == "b":
            byte = Val(name, int8, lanes)
            return self._value(f"icmp ne {byte.type} {name}, zeroinitializer" if lanes > 1 else f"icmp ne i8 {name}, 0", bool_, lanes)
        if dtype is float16:
            kind = memory_type(dtype, lanes)
            bits = self._value(f"bitcast {kind} {name} to {kind.replace('half', 'i16')}", int16, lanes)
            return self._from_half(bits)
        return Val(name, dtype, lanes)

    def _loaded_zero(self, dtype: DType) -> Val:
        return self.const(float32 if dtype is float16 else dtype, 0)

    def _stored(self, value: Val, dtype: DType) -> tuple[str, str]:
        """Text and type of what memory gets."""
        if dtype.kind == "b":
            byte = self._value(f"zext {value.typed} to {memory_type(dtype, value.lanes)}", int8, value.lanes)
            return byte.text, byte.type
        if dtype is float16:
            half = self._to_half(value)
            return half.text, half.type
        return value.text, value.type

    def _memory_suffix(self, dtype: DType, lanes: int) -> str:
        if dtype is float16:
            return f"v{lanes}f16"
        return f"v{lanes}{'f' if dtype.kind == 'f' else 'i'}{dtype.bits}"

    # ---- lanes apart -----------------------------------------------------------------------------------------------------------

    def _steps(self, index: int | Val, stride: int | Val, lanes: int) -> list[int | Val]:
        if isinstance(stride, int) and isinstance(index, int):
            return [index + i * stride for i in range(lanes)]
        if isinstance(stride, int):
            return [self.add(index, i * stride) if i else index for i in range(lanes)]
        out: list[int | Val] = [index]
        for _ in range(lanes - 1):
            last = out[-1]
            out.append(self.add(last, stride) if isinstance(last, Val) else self.add(stride, last))
        return out

    def _constant_lanes(self, mask: Val | None) -> list[bool] | None:
        if mask is None or not mask.literal:
            return None
        known = self._known[mask.text, "bool"]
        return [bool(k) for k in known] if isinstance(known, (list, tuple)) else [bool(known)] * mask.lanes

    def _gather(self, ptr: str, dtype: DType, places: list[int | Val] | list[Val], mask: Val | None) -> Val:
        """Lane by lane: no target gains much from gather instructions, and none has them for every type."""
        lanes, live = len(places), self._constant_lanes(mask)
        memory = dtype.llvm
        text = "zeroinitializer" if mask is not None else "poison"
        kind = memory_type(dtype, lanes)
        for i, place in enumerate(places):
            if live is not None and not live[i]:
                continue
            source = self.offset(ptr, dtype, place)
            if mask is not None and live is None:
                # a dead lane reads the zero of a constant instead of its own place
                source = self._choose(self.lane(mask, i), source, self.table("zero", int64, [0]))
            one, more = self._name(), self._name()
            self._line(f"{one} = load {memory}, ptr {source}, align {dtype.size}")
            self._line(f"{more} = insertelement {kind} {text}, {memory} {one}, i64 {i}")
            text = more
        return self._loaded(text, dtype, lanes)

    def _choose(self, c: Val, x: str, y: str) -> str:
        name = self._name()
        self._line(f"{name} = select i1 {c.text}, ptr {x}, ptr {y}")
        return name

    def _scatter(self, ptr: str, value: Val, places: list[int | Val] | list[Val], mask: Val | None, dtype: DType) -> None:
        live = self._constant_lanes(mask)
        text, kind = self._stored(value, dtype)
        one_type = dtype.llvm if dtype is not float16 else "i16"
        for i, place in enumerate(places):
            if live is not None and not live[i]:
                continue
            one = self._name()
            self._line(f"{one} = extractelement {kind} {text}, i64 {i}")

            def put(one: str = one, place: int | Val = place) -> None:
                self._line(f"store {one_type} {one}, ptr {self.offset(ptr, dtype, place)}, align {dtype.size}")
            if mask is not None and live is None:
                self.if_(self.lane(mask, i), put)
            else:
                put()

