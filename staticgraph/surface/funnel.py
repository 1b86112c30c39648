"""The one way from a public call to the IR: convert operands, name the operation, build nodes, word refusals as TF1 does."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import source
from .. import transforms as _transforms  # noqa: F401  (registers the builders' tools)
from ..dtypes import DType, as_dtype, string
from ..errors import DTypeError, GraphError, ShapeError
from ..ir.builder import to_array
from ..ir.graph import Node
from ..ops.helpers import may_equal
from .constructs import nodes_of
from .deferred import busy, made_again, site_of
from .ledger import Graph, LeakedValueError, get_default_graph, remove_last, stack
from .now import Now, compute, is_now
from .shapes import shape_of
from .symbolic import name_leaked
from .tensor import Operation, RefDType, Tensor


def graph_of(inputs: Sequence[Any]) -> Graph:
    """The one graph of the tensors among ``inputs``, else the default graph. ValueError where they mix."""
    found: Any = None
    for i in inputs:
        g = getattr(i, "graph", None)
        if isinstance(g, Graph):
            if found is not None and g is not found[0]:
                error = ValueError(f"{i} must be from the same graph as {found[1]}.")
                for label, t in (("first", found[1]), ("second", i)):
                    where = getattr(getattr(t, "op", None), "site", None)
                    if where is not None:
                        source.add_note(error, f"{label} one made at {where.describe()}")
                for h in (g, found[0]):
                    if h.traced is not None and h.finalized:
                        source.add_note(error, f"hint: one is a leaked value of {h.traced}, whose trace has ended; return it from the function, or pass it as an argument")
                raise error
            found = found or (g, i)
    return found[0] if found else get_default_graph()


class op_scope(source.hide_own_frames):
    """The frame of a public call: gives the name under which it emits (``name``, else ``default``, made unique).

    Within, constants made of Python operands are named under the operation, as TF1 does (``add/y``), and the default graph is that of
    the tensors among ``values`` (one to be thrown away for define-by-run tensors). ``beside`` are names that TF1 takes for operations next
    to this one. Errors show no frames of ours.
    """

    __slots__ = ("beside", "default", "graph", "name", "pushed", "saved", "values")

    def __init__(self, name: str | None, default: str, *values: Any, beside: Sequence[str] = ()) -> None:
        g = self.graph = _graph_among(values)
        self.pushed, self.saved = g is not get_default_graph(), g._scope
        self.name, self.default, self.values, self.beside = name or default, default, values, beside

    def __enter__(self) -> str:                              # type: ignore[override]
        g, name = self.graph, self.name
        if self.pushed:
            stack().graphs.append(g)
        for other in self.beside:
            g.unique_name(other)
        if g.is_valid_name(name):
            g._scope = name = name if name.endswith("/") else g.operation_name(name) + "/"
        elif self.default != "Const":                        # emit says what is wrong with a constant's name
            raise ValueError(f"'{name}' is not a valid scope name")
        return name

    def __exit__(self, kind: Any, error: BaseException | None, tb: Any) -> None:
        self.graph._scope = self.saved
        if self.pushed:
            remove_last(stack().graphs, self.graph)
        if isinstance(error, LeakedValueError):
            name_leaked(error, self.values)
        super().__exit__(kind, error, tb)


def _graph_among(values: Sequence[Any]) -> Graph:
    for v in values:
        g = getattr(v, "graph", None)
        if isinstance(g, Graph):
            return g
        if isinstance(v, (list, tuple)):
            for i in v:
                if isinstance(g := getattr(i, "graph", None), Graph):
                    return g
    return Graph() if is_dynamic(values) else get_default_graph()


def emit(type: str, name: str, inputs: Sequence[Tensor], build: Callable[..., Any], attrs: dict[str, Any] | None = None,
         weight: int | None = None, more: int = 0) -> Any:
    """A new operation of TF type ``type`` called ``name`` (under the current scope) whose IR ``build(b, *nodes)`` makes.

    It counts as ``weight`` nodes (default: by ``constructs``, which also knows the type that shows) and ``more``. One node gives a tensor, a tuple gives a tuple. With a define-by-run tensor among the inputs it computes at once and gives such tensors.
    """
    if any(i.__class__ is not Tensor for i in inputs) and is_now(inputs := [Now(i) if is_dynamic((i,)) else i for i in inputs]):
        return compute(inputs, build)
    g = graph_of(inputs)
    if g.ranks is not None and not busy(g):
        return g.ranks.call(lambda: _emit(g, type, name, inputs, build, attrs, weight, more))
    return _emit(g, type, name, inputs, build, attrs, weight, more)


def _emit(g: Graph, type: str, name: str, inputs: Sequence[Tensor], build: Callable[..., Any], attrs: dict[str, Any] | None, weight: int | None, more: int) -> Any:
    with g.lock:
        g.check_open()
        full = g.operation_name(name)
        site = site_of(g, full)
        b = g.builder
        saved, b.site = b.site, site
        try:
            made = build(b, *[t.node for t in inputs])
        except GraphError as error:
            _word(error, full, type, inputs)
            error.site = site
            raise
        finally:
            b.site = saved
        shown, nodes_made = nodes_of(type)
        op = Operation(g, full, shown, inputs, attrs, (nodes_made if weight is None else weight) + more)
        op.site, op.construct = site, type
        op.in_force = tuple(g._controls)
        op.control_inputs = _not_implied(g._controls, inputs) if g._controls else []
        op.device = g.device_of(op)
        if g._beside:
            op.attrs["_class"] = list(g._beside)
        g.operations[full] = op
        g.op_count += op.weight
        for i in inputs if not made_again() else ():
            i._consumers.append(op)
        nodes = made if isinstance(made, tuple) else (made,)
        if g._gradient_overrides:
            from .overrides import overridden
            nodes = overridden(g, op, nodes)
        op.outputs = [Tensor(op, k, n) for k, n in enumerate(nodes)]
        return tuple(op.outputs) if isinstance(made, tuple) else op.outputs[0]


def each_named(outputs: Sequence[Tensor], name: str) -> tuple[Tensor, ...]:
    """Outputs of one operation of ours that are operations in TF1: the first keeps its name, the others are ``name_1`` ..."""
    if not isinstance(outputs[0], Tensor):   # define-by-run
        return tuple(outputs)
    first = outputs[0].op
    made = [outputs[0]]
    with first.graph.lock:
        made += [named_apart(t, name) for t in outputs[1:]]
        first.outputs = first.outputs[:1]
    return tuple(made)


def named_apart(t: Tensor, name: str) -> Tensor:
    """An output of an operation as that of one of its own."""
    first = t.op
    op = Operation(first.graph, first.graph.operation_name(name), first.type, first.inputs, first.attrs, 0)
    for k in ("construct", "site", "in_force", "control_inputs", "device", "_record"):
        setattr(op, k, getattr(first, k))
    alone = Tensor(op, 0, t._node)
    alone._record, alone._shape = t._record, t._shape
    op.outputs = [alone]
    first.graph.operations[op.name] = op
    return alone


def _not_implied(controls: Sequence[Any], inputs: Sequence[Tensor]) -> list[Any]:
    """Control inputs that no input waits for already."""
    implied = {id(c) for t in inputs for c in t.op.in_force}
    made_by = {t.op for t in inputs}
    return list(dict.fromkeys(op for c in controls if id(c) not in implied and (op := getattr(c, "op", c)) not in made_by))


def emit_operation(type: str, name: str, node: Node | None, graph: Graph, weight: int = 1) -> Operation:
    """An operation without outputs; running it runs ``node``."""
    with graph.lock:
        graph.check_open()
        op = Operation(graph, graph.operation_name(name), type, (), None, weight)
        op.node = node
        op.site = site_of(graph, op.name)
        graph.operations[op.name] = op
        graph.op_count += weight
        return op


def _word(error: GraphError, name: str, type: str, inputs: Sequence[Tensor]) -> None:
    text = str(error)
    head, _, rest = text.partition(": ")
    text = rest if rest and head.replace("_", "").isalnum() and head.islower() else text
    text = text.replace(" (inner sizes differ)", "")
    if text.startswith("Incompatible shapes") and len(inputs) == 2:
        pairs = zip(reversed(inputs[0].node.shape), reversed(inputs[1].node.shape))
        p, q = next(((p, q) for p, q in pairs if not may_equal(p, q) and 1 not in (p, q)), (None, None))
        text = text if p is None else f"Dimensions must be equal, but are {p} and {q}"
    if isinstance(error, ShapeError) and "input shapes" not in text:
        shapes = ", ".join("[" + ",".join(str(d) for d in (t.shape if t._record is None else shape_of(t.node.shape))) + "]" for t in inputs)
        text = f"{text} for '{name}' (op: '{type}') with input shapes: {shapes}."
    error.args = (text,)


# ---- conversion -----------------------------------------------------------------------------------------------------------------


def convert(value: Any, dtype: Any = None, name: str = "Const", preferred_dtype: Any = None) -> Tensor:
    """A tensor of ``value``: tensors and variables themselves, lists that hold tensors packed, everything else a constant.

    Ints become int32 (int64 where they do not fit), floats float32; NumPy arrays keep their dtype. ValueError where a
    tensor has another dtype than asked for.
    """
    want = None if dtype is None else as_dtype(dtype)
    if not isinstance(value, Tensor) and hasattr(value, "_as_tensor"):
        value = value._as_tensor()
    if is_dynamic((value,)) and not isinstance(value, (list, tuple)):
        value = Now(value)
    if isinstance(value, Tensor):
        if want is not None and value.dtype != want:
            raise DTypeValueError(f"Tensor conversion requested dtype {want.name} for Tensor with dtype {value.dtype.name}: {value!r}")
        return value
    if isinstance(value, (list, tuple)) and _holds_tensor(value):
        return _pack(value, want, name)
    if value is None:
        raise ValueError("None values not supported.")
    if hasattr(value, "_fields_of_shape"):
        value = value._fields_of_shape()
    if isinstance(value, range):
        raise DTypeError(f"Failed to convert object of type {type(value)} to Tensor. Contents: {value}. Consider casting elements to a supported type.")
    from .shapes import Dimension, TensorShape
    if isinstance(value, TensorShape):
        value = [d if d is not None else _unknown(value) for d in value.as_list()]
        want = want or as_dtype("int32")
    if isinstance(value, Dimension):
        value = int(value)
    return constant_of(value, want or _preferred(value, preferred_dtype), name)


class DTypeValueError(GraphError, ValueError):
    """TF1 raises ValueError where a conversion to another dtype is asked of a tensor."""


def _unknown(shape: Any) -> int:
    raise ValueError(f"Cannot convert a partially known TensorShape to a Tensor: {shape}")


def _preferred(value: Any, dtype: Any) -> DType | None:
    if dtype is None or isinstance(value, (np.ndarray, np.generic)):
        return None
    try:
        to_array(value, as_dtype(dtype))
    except (GraphError, TypeError, ValueError):
        return None
    return as_dtype(dtype)


def _holds_tensor(value: Any) -> bool:
    return is_dynamic(value) or any(isinstance(v, Tensor) or hasattr(v, "_as_tensor") or (isinstance(v, (list, tuple)) and _holds_tensor(v)) for v in value)


def _pack(value: Any, want: DType | None, name: str) -> Tensor:
    kind = want or next(_dtypes_inside(value))
    name = "packed" if name == "Const" else name
    parts = [convert(v, kind, f"{name}/{k}") for k, v in enumerate(value)]
    result: Tensor = emit("Pack", name, parts, lambda b, *ns: b.stack(*ns, axis=0), {"axis": 0})
    return result


def _dtypes_inside(value: Any) -> Any:
    for v in value:
        if isinstance(v, Tensor):
            yield v.dtype
        elif hasattr(v, "_as_tensor"):
            yield v._as_tensor().dtype
        elif isinstance(v, (list, tuple)):
            yield from _dtypes_inside(v)


def constant_of(value: Any, dtype: DType | None, name: str = "Const") -> Tensor:
    """A constant operation."""
    if isinstance(value, (str, bytes)) or (isinstance(value, (list, tuple, np.ndarray)) and np.asarray(value).dtype.kind in "USO"):
        array = np.vectorize(_text, otypes=[object])(np.asarray(value, object))
        if dtype is not None and dtype != string:
            raise DTypeError(f"Expected {dtype.name}, got {value!r} of type '{type(value).__name__}' instead.")
    else:
        array = to_array(value, dtype)
        if dtype is None and array.dtype.kind not in "fiubc":
            raise DTypeError(f"Failed to convert object of type {type(value)} to Tensor. Contents: {value!r}.")
    result: Tensor = emit("Const", name, (), lambda b: b.const(array), {"dtype": as_dtype(array.dtype)})
    return result


def _text(s: Any) -> bytes:
    if not isinstance(s, (str, bytes)):
        raise DTypeError(f"Expected binary or unicode string, got {s!r}")
    return s.encode() if isinstance(s, str) else s


def operands(type: str, args: Sequence[Any], names: Sequence[str] = ("x", "y", "z")) -> list[Tensor]:
    """Operands of one dtype: Python values and arrays adopt the tensors'; two tensors of different dtypes are refused as TF1 does."""
    tensors: list[Any] = [Now(a) if is_dynamic((a,)) and not isinstance(a, (list, tuple)) else a._as_tensor() if hasattr(a, "_as_tensor") else a for a in args]
    first = next((k for k, t in enumerate(tensors) if isinstance(t, Tensor)), None)
    if first is None:
        first = next((k for k, t in enumerate(tensors) if isinstance(t, (list, tuple)) and _holds_tensor(t)), 0)
        tensors[first] = convert(tensors[first], name=names[first])
    dtype = tensors[first].dtype
    out = []
    for k, t in enumerate(tensors):
        if not isinstance(t, Tensor):
            t = convert(t, dtype, names[k]) if not isinstance(t, (np.ndarray, np.generic)) else constant_of(np.asarray(t).astype(dtype.np), dtype, names[k])
        elif t.dtype != dtype:
            error = DTypeError(f"Input '{names[k]}' of '{type}' Op has type {t.dtype.name} that does not match type {dtype.name} of argument '{names[first]}'.")
            for j in (first, k):
                source.add_note(error, f"{names[j]}: {tensors[j].dtype.name} made at {tensors[j].node.site.describe()}")
            source.add_note(error, f"hint: nothing is promoted silently; sg.cast(t, sg.{dtype.name}) makes one of the other")
            raise error
        out.append(t)
    return out


def operand_list(type: str, values: Any, name: str, prefix: str | None = None) -> list[Tensor]:
    """As ``operands`` for a function that takes a list called ``name``. ValueError for an empty one, TypeError for tensors of different dtypes."""
    items = list(values) if isinstance(values, (list, tuple)) else [values]
    if not items:
        raise ValueError(f"List argument '{name}' to '{type}' Op with length 0 shorter than minimum length 1.")
    try:
        prefix = name + "_" if prefix is None else prefix
        return operands(type, items, [f"{prefix}{k}" for k in range(len(items))])
    except DTypeError as error:
        kinds = [i.dtype.name for i in items if isinstance(i, Tensor) or hasattr(i, "_as_tensor")]
        if len(set(kinds)) < 2:
            raise
        error.args = (f"Tensors in list passed to '{name}' of '{type}' Op have types [{', '.join(kinds)}] that don't all match.",)
        raise


def is_dynamic(args: Sequence[Any]) -> bool:
    """Whether a define-by-run tensor is among the arguments (then the call computes now)."""
    module = sys.modules.get("staticgraph.dynamic.tensor")
    return module is not None and any(isinstance(a, module.Tensor) or (isinstance(a, (list, tuple)) and any(isinstance(x, module.Tensor) for x in a))
                                      for a in args)


def dynamic(name: str, *args: Any, **attrs: Any) -> Any:
    """Run an op in the define-by-run mode."""
    from ..dynamic.methods import call
    return call(name, *args, **attrs)


def base_dtype(dtype: Any) -> DType:
    """A plain dtype of a plain or reference one."""
    return dtype.base if isinstance(dtype, RefDType) else as_dtype(dtype)
