"""``TensorArray``: elements that a graph writes and reads one by one, most often a row per trip of a loop.

The elements are rows of one buffer, a value like any other: a write gives a handle on the next value, the memory plan overwrites in place, and
gradients of any order are those of the ops. What may be done to an element, that it is written once and read once where reading clears
it, stands in a state of the run (``ops.arrays``), which all handles of an array share. Elements have one shape; the first write tells it, and
only then the buffer is made: zeros where the array was made, and in a loop that it entered without a shape one more loop variable.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from .. import source
from ..dtypes import DType, as_dtype, float32, int8, int32, int64
from ..errors import InvalidArgumentError, UnimplementedError
from ..ir.aval import Aval, Size, capacity, measured_in
from ..ir.graph import Node
from ..ir.opdef import OPS
from ..ops.control import CAPACITY
from . import nest
from .funnel import convert, emit, emit_operation, is_dynamic, op_scope
from .ledger import Graph, get_default_graph
from .shapes import TensorShape, shape_of
from .sizes import known, sizes_from
from .tensor import Operation, Tensor

_OUTSIDE = "Tried to read from index {a} but array size is: {limit}"
_SCATTERED = "Max scatter index must be < array size ({a} vs. {limit})"


@dataclass
class _Shared:
    """What all handles of an array have in common."""

    graph: Graph
    op: Operation
    dtype: DType
    rows: Size                               # of the buffer: the array's size, or the room of one that grows
    grows: bool
    clears: bool
    infers: bool
    declared: TensorShape
    state: Node | None = None
    element: tuple[Size, ...] | None = None  # once it is known

    @property
    def element_shape(self) -> TensorShape:
        """What is known of it."""
        return self.declared if self.element is None else shape_of(self.element)


@contextmanager
def _within(g: Graph, builder: Any) -> Iterator[Any]:
    """Operations are made there, and wait for nothing."""
    saved = g.builder, g._controls
    g.builder, g._controls = builder, []
    try:
        yield builder
    finally:
        g.builder, g._controls = saved


class TensorArray(nest.Handle):
    """``size`` elements of ``dtype``, written once each: ``ta = ta.write(i, x)``; ``ta.read(i)``, ``ta.stack()``.

    With ``dynamic_size`` it grows as far as it is written. Reading an element clears it unless ``clear_after_read=False``: a second read
    fails the run (InvalidArgumentError), as do a second write and an index out of range. What was not written reads as zeros.
    ``element_shape`` is needed only where an array is read before anything is written. All elements have one shape.
    """

    _rows: Tensor | None
    _length: Tensor | None
    _zeros: Tensor | None = None             # the rows, of a handle that was open when it was made
    _checked: Tensor | None = None           # the index that was written last: it has passed the checks
    _origin: TensorArray | None = None       # the handle outside of a loop or branch that this one stands for

    def __init__(self, dtype: Any, size: Any = None, dynamic_size: bool | None = None, clear_after_read: bool | None = None, tensor_array_name: str | None = None,
                 handle: Any = None, flow: Any = None, infer_shape: bool = True, element_shape: Any = None, colocate_with_first_write_call: bool = True,
                 name: str | None = None) -> None:
        with source.hide_own_frames():
            if handle is not None and tensor_array_name:
                raise ValueError("Cannot construct with both handle and tensor_array_name")
            if handle is not None:
                raise UnimplementedError(None, None, "a TensorArray of a resource handle is not available: pass the TensorArray itself on")
            if size is None:
                raise ValueError("Size must be provided if handle is not provided")
            if is_dynamic((size,)):
                raise UnimplementedError(None, None, "TensorArray belongs to graphs: where operations compute at once, keep tensors in a Python list")
            with op_scope(name, "TensorArray", size) as label:
                g = get_default_graph()
                count = convert(size, int32 if not isinstance(size, Tensor) else None, "size")
                rows = sizes_from(count, "size of a TensorArray")[0]
                if isinstance(rows, int) and rows < 0:
                    raise InvalidArgumentError(None, None, "Size should be >= 0.")
                room: Size = capacity() if dynamic_size else rows
                flow_now: Tensor = emit("TensorArrayV3", label, [count], lambda b, n: b.const(0.0, float32))
                declared = TensorShape(element_shape)
                self._shared = _Shared(g, flow_now.op, as_dtype(dtype), room, bool(dynamic_size), clear_after_read is not False, infer_shape, declared)
                if declared.is_fully_defined():
                    self._shared.element = tuple(declared.as_list())
                self._home: Any = g.builder
                self._rows, self._length = None, None
                if dynamic_size:
                    self._length = emit("Cast", "length", [count], lambda b, n: b.cast(n, dtype=int64), weight=0)
                self._start()

    # ---- its parts -----------------------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        """The state of its elements, which starts anew where an array is made in a loop's body."""
        s, root = self._shared, self._home
        while root.outer is not None:
            root = root.outer
        if root is not self._home and measured_in(s.rows) - measured_in(tuple(n.attr("size") for n in root.graph.nodes if n.op is OPS["measure"])):
            return                           # a size that only the body knows: no state could go around the loop
        aval = Aval((s.rows,), int8)
        s.state = root.graph.add(OPS["run_state"], (), (("aval", aval), ("uid", s.graph.next_uid())), aval, site=s.op.site)

    def _handle_parts(self) -> list[Any]:
        return [t for t in (self._length, self._rows) if t is not None]

    def _handle_of(self, parts: Sequence[Any]) -> TensorArray:
        made = copy.copy(self)
        made._home, made._checked, made._zeros = self._shared.graph.builder, None, None
        b = made._home
        while b is not None and b is not self._home:
            b = b.outer
        made._origin = None if b is None else self
        rest = iter(parts)
        made._length = None if self._length is None else next(rest)
        made._rows = next(rest, None)
        return made

    def _handle_joined(self, other: Any) -> TensorArray:
        made = copy.copy(self)
        if other._shared is not self._shared:                # one of two arrays, which the run chooses
            made._shared = replace(self._shared, state=None)
        return made

    def _handle_open(self) -> bool:
        if self._rows is None and self._shared.element is not None:
            self._rows = self._buffer()
        return self._rows is None

    def _handle_close(self, like: TensorArray) -> None:
        if self._shared.element is None:
            self._shared.element = like._shared.element
        self._rows = self._buffer()

    def _buffer(self) -> Tensor:
        """The rows. ValueError where the elements' shape is not known yet."""
        s = self._shared
        if self._rows is not None:
            return self._rows
        if self._zeros is None:
            if s.element is None:
                raise ValueError(f"{s.op.name}: nothing was written yet, so the shape of its elements is not known; give element_shape=")
            if self._origin is not None:
                outer = self._origin._buffer()
                late = None if self._home.late is None else self._home.late(self._origin, outer.node)
                self._zeros = outer if late is None else self._value(late)
            else:
                with _within(s.graph, self._home) as b, b.at(s.op.site):
                    rows = b.zeros(Aval((s.rows, *s.element), s.dtype))
                    if b.outer is not None and s.state is not None:
                        again = b.apply(OPS["assign"], (b.capture(s.state), b.zeros(s.state.aval)), {})
                        rows = b.apply(OPS["identity"], (rows,), {}, (again,))
                    self._zeros = self._value(rows)
        return self._zeros

    def _value(self, node: Node) -> Tensor:
        return Tensor(self._shared.op, 1, node)

    def _next(self, rows: Any, length: Any = None, checked: Any = None) -> TensorArray:
        made = copy.copy(self)
        made._rows, made._origin, made._home, made._checked = rows, None, self._shared.graph.builder, checked
        made._length = self._length if length is None else length
        return made

    # ---- checks --------------------------------------------------------------------------------------------------------------------

    def _place(self, b: Any, i: Any, length: Any, write: bool, message: str) -> Any:
        """Indices, once they are found inside and free."""
        s = self._shared
        i = i if i.aval.dtype == int64 else b.cast(i, dtype=int64)

        def below(x: Any, bound: Any) -> Any:
            return b.less(x, b.broadcast(bound, x.aval.shape))
        room = b.like(b.const(0, int64), s.rows) if isinstance(s.rows, int) else b.reshape(b.sizes(sizes=(s.rows,), dtype=int64), shape=())
        positive = b.greater_equal(i, b.like(i, 0))
        if not s.grows:
            i = b.guard(i, b.logical_and(positive, below(i, room)), message=message, limit=s.rows, fill=0)
        elif write:
            i = b.guard(i, positive, message="Tried to write to index {a}", limit=0, fill=0)
            i = b.guard(i, below(i, room), message=CAPACITY, limit=s.rows, fill=0)
        else:
            i = b.guard(i, b.logical_and(positive, below(i, length)), message="Tried to read from index {a}, which is behind the end of the array", limit=0, fill=0)
        if s.state is None or not (write or s.clears):
            return i
        return b.array_access(b.capture(s.state), i, write=write, name=s.op.name)

    def _takes(self, shape: tuple[Size, ...], value: Tensor, axes: int) -> Tensor:
        """The elements' shape becomes known, or must be this; ``value`` has ``axes`` more in front. ValueError where it is another."""
        s = self._shared
        static = shape_of(shape)
        if not s.element_shape.is_compatible_with(static):
            if s.infers or not s.declared.is_compatible_with(static):
                raise ValueError(f"Inconsistent shapes: saw {static} but expected {s.element_shape}")
            raise UnimplementedError(None, s.op, f"elements of different shapes in one TensorArray, {s.element_shape} and {static}, are not available: "
                                                 "pad them to one shape, or keep an array for each")
        if s.element is None:
            s.element = shape
        pairs = tuple((p, q) for p, q in zip(shape, s.element) if p != q)
        if not pairs:
            return value
        wanted = (*value.node.shape[:axes], *s.element)
        message = "TensorArray has inconsistent shapes: a size of {a} where the first element has {limit}"
        result: Tensor = emit("EnsureShape", "same_shape", [value], lambda b, v: b.same_sizes(v, shape=wanted, pairs=pairs, message=message), weight=0)
        return result

    def _written(self, type: str, label: str, index: Any, value: Tensor, element: tuple[Size, ...], message: str) -> TensorArray:
        axes = len(value.node.shape) - len(element)
        value = self._takes(element, value, axes)
        lengths = [] if self._length is None else [self._length]

        def build(b: Any, rows: Any, u: Any, i: Any, *length: Any) -> Any:
            at = self._place(b, i, None, True, message)
            made = [b.rows_set(rows, at, u)]
            if length:
                last = at if not at.aval.shape else b.max(at, axis=(0,), keepdims=False)
                made.append(b.maximum(length[0], b.add(last, b.like(last, 1))))
            return (*made, at)
        rows, *length, at = emit(type, label, [self._buffer(), value, index, *lengths], build)
        return self._next(rows, *length, checked=at)

    # ---- what programs call ----------------------------------------------------------------------------------------------------------

    def write(self, index: Any, value: Any, name: str | None = None) -> TensorArray:
        """A handle on the array with ``value`` at ``index``; an element can be written once.

        Runs fail (InvalidArgumentError) at an index out of range or written before. ValueError for a value of another shape than the others.
        """
        with op_scope(name, "TensorArrayWrite", value, self._shared.op):
            u = self._convert(value)
            return self._written("TensorArrayWriteV3", "TensorArrayWriteV3", self._index(index, "TensorArrayWriteV3", "index", 0), u, u.node.shape,
                                 "Tried to write to index {a} but array is not resizeable and size is: {limit}")

    def scatter(self, indices: Any, value: Any, name: str | None = None) -> TensorArray:
        """A handle on the array with the rows of ``value`` at ``indices``."""
        with op_scope(name, "TensorArrayScatter", value, self._shared.op):
            u = self._convert(value)
            return self._written("TensorArrayScatterV3", "TensorArrayScatterV3", self._index(indices, "TensorArrayScatterV3", "indices", 1), u, u.node.shape[1:], _SCATTERED)

    def unstack(self, value: Any, name: str | None = None) -> TensorArray:
        """A handle on the array with the rows of ``value``, from the first on."""
        with op_scope(name, "TensorArrayUnstack", value, self._shared.op):
            u = self._convert(value)
            if not u.node.shape:
                raise ValueError("Shape must be at least rank 1 but is rank 0 for a TensorArray's rows")
            return self._written("TensorArrayScatterV3", "TensorArrayScatter", self._all(u.node.shape[0]), u, u.node.shape[1:], _SCATTERED)

    def split(self, value: Any, lengths: Any, name: str | None = None) -> TensorArray:
        """A handle on the array with pieces of ``value``, ``lengths`` rows each; all lengths are equal and known while building."""
        s = self._shared
        with op_scope(name, "TensorArraySplit", value, s.op):
            u, given = self._convert(value), convert(lengths, name="lengths")
            found = known(given.node)
            total = u.node.shape[0] if u.node.shape else None
            if found is None or any(n != found.reshape(-1)[0] for n in found.reshape(-1)):
                raise UnimplementedError(None, s.op, "split takes lengths that are equal and known while building: elements of a TensorArray have one shape")
            count, each = found.size, int(found.reshape(-1)[0]) if found.size else 0
            if total != count * each:
                raise InvalidArgumentError(None, s.op, f"Expected sum of lengths to be equal to values.shape[0], but sum of lengths is {count * each} and value's shape is: {u.shape}")
            if not s.grows and isinstance(s.rows, int) and s.rows != count:
                raise InvalidArgumentError(None, s.op, f"TensorArray's size is not equal to the size of lengths ({s.rows} vs. {count}), and the TensorArray is not marked as "
                                                       "dynamically resizeable")
            element = (each, *u.node.shape[1:])
            pieces = emit("Reshape", "pieces", [u], lambda b, v: b.reshape(v, shape=(count, *element)), weight=0)
            return self._written("TensorArraySplitV3", "TensorArraySplitV3", self._all(count), pieces, element, _SCATTERED)

    def read(self, index: Any, name: str | None = None) -> Tensor:
        """The element at ``index``; unless the array was made with ``clear_after_read=False``, it can be read once in a run."""
        with source.hide_own_frames():
            return self._read("TensorArrayReadV3", name or "TensorArrayReadV3", self._index(index, name or "TensorArrayReadV3", "index", 0))

    def gather(self, indices: Any, name: str | None = None) -> Tensor:
        """The elements at ``indices``, stacked."""
        with source.hide_own_frames():
            return self._read("TensorArrayGatherV3", name or "TensorArrayGatherV3", self._index(indices, name or "TensorArrayGatherV3", "indices", 1))

    def stack(self, name: str | None = None) -> Tensor:
        """All elements, stacked along a new first axis."""
        with op_scope(name, "TensorArrayStack", self._shared.op):
            return self._whole("TensorArrayGatherV3", "TensorArrayGatherV3")

    def concat(self, name: str | None = None) -> Tensor:
        """All elements, joined along their first axis. ValueError for scalars."""
        with source.hide_own_frames():
            if not self._buffer().node.shape[1:]:
                raise ValueError("Concat saw a scalar shape at index 0 but requires at least vectors.  Did you mean to call pack?")
            return self._whole("TensorArrayConcatV3", name or "TensorArrayConcatV3", joined=True)

    def size(self, name: str | None = None) -> Tensor:
        """The number of elements, int32."""
        with source.hide_own_frames():
            if self._length is not None:
                result: Tensor = emit("TensorArraySizeV3", name or "TensorArraySizeV3", [self._length], lambda b, n: b.cast(n, dtype=int32))
                return result
            rows = self._shared.rows
            result = emit("TensorArraySizeV3", name or "TensorArraySizeV3", [], lambda b: b.reshape(b.sizes(sizes=(rows,), dtype=int32), shape=()))
            return result

    def identity(self) -> TensorArray:
        """The array, behind the control dependencies in force."""
        with source.hide_own_frames():
            if self._handle_open():
                return self
            *length, rows = (emit("Identity", "Identity", [t], lambda b, x: b.apply(OPS["identity"], (x,), {})) for t in self._handle_parts())
            return self._next(rows, *length, checked=self._checked)

    def close(self, name: str | None = None) -> Operation:
        """An operation without effect: memory is planned, not freed."""
        with source.hide_own_frames():
            return emit_operation("TensorArrayCloseV3", name or "TensorArrayCloseV3", None, self._shared.graph)

    @property
    def flow(self) -> Tensor:
        """A float32 zero that is there once the last write is."""
        with source.hide_own_frames():
            s = self._shared
            if self._checked is None:
                return s.op.outputs[0] if self._rows is None else emit("Identity", "flow", [self._rows], lambda b, x: b.apply(OPS["identity"], (b.const(0.0, float32),), {}, (x,)), weight=0)
            zero: Tensor = emit("Identity", "flow", [self._checked], lambda b, i: b.sum(b.mul(b.cast(i, dtype=float32), b.const(0.0, float32)), axis=None, keepdims=False), weight=0)
            return zero

    dtype = property(lambda self: self._shared.dtype, doc="Of its elements.")
    dynamic_size = property(lambda self: self._shared.grows, doc="Whether it grows.")
    element_shape = property(lambda self: self._shared.element_shape, doc="What is known of its elements' shape.")
    graph = property(lambda self: self._shared.graph, doc="The graph it belongs to.")

    @property
    def handle(self) -> Any:
        """There is no resource behind it. UnimplementedError."""
        raise UnimplementedError(None, self._shared.op, "a TensorArray has no resource handle here: pass the TensorArray itself on")

    def __repr__(self) -> str:
        return f"<tf.TensorArray '{self._shared.op.name}' element_shape={self.element_shape} dtype={self.dtype.name}>"

    # ---- operands --------------------------------------------------------------------------------------------------------------------

    def _convert(self, value: Any) -> Tensor:
        if is_dynamic((value,)):
            raise UnimplementedError(None, None, "TensorArray belongs to graphs: where operations compute at once, keep tensors in a Python list")
        return convert(value, self.dtype, "value")

    def _index(self, index: Any, label: str, name: str, rank: int) -> Tensor:
        i = convert(index, None if isinstance(index, Tensor) or hasattr(index, "_as_tensor") else int32, f"{label}/{name}")
        if not i.dtype.is_integer:
            raise TypeError(f"Expected int32 for the {name} of a TensorArray, got {i.dtype.name}")
        if len(i.node.shape) != rank:
            raise ValueError(f"Shape must be rank {rank} but is rank {len(i.node.shape)} for '{label}', the {name} of a TensorArray")
        return i

    def _all(self, count: Size) -> Tensor:
        result: Tensor = emit("Range", "range", [], lambda b: b.iota(shape=(count,), axis=0, dtype=int64))
        return result

    def _read(self, type: str, label: str, index: Tensor, joined: bool = False) -> Tensor:
        rows = self._buffer()
        lengths = [] if self._length is None else [self._length]

        def build(b: Any, rows: Any, i: Any, *length: Any) -> Any:
            got = b.take(rows, self._place(b, i, length[0] if length else None, False, _OUTSIDE), axis=0)
            return _joined(b, got) if joined else got
        result: Tensor = emit(type, label, [rows, index, *lengths], build)
        return result

    def _whole(self, type: str, label: str, joined: bool = False) -> Tensor:
        s = self._shared
        rows = self._buffer()
        count = s.rows if self._length is None else sizes_from(self._length, "size of a TensorArray")[0]
        if s.grows or (s.clears and s.state is not None):
            return self._read(type, label, self._all(count), joined)
        result: Tensor = emit(type, label, [rows], lambda b, x: _joined(b, x) if joined else b.identity(x))
        return result


def _joined(b: Any, rows: Any) -> Any:
    count, each, *rest = rows.aval.shape
    return b.reshape(rows, shape=(count * each, *rest))
