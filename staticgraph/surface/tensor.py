"""``Operation`` and ``Tensor``: what users hold. A tensor is a handle on one IR node; only its static shape may be refined."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from .. import source
from ..dtypes import DType
from ..ir.graph import Node
from .shapes import TensorShape, shape_of

OPERATORS: dict[str, Callable[..., Any]] = {}            # filled by surface.operators: one table, every operand class


def shown(f: Callable[..., Any]) -> Callable[..., Any]:
    """A method that Python calls by itself (an operator, a conversion): what it raises shows the user's line last."""
    @functools.wraps(f)
    def call(*args: Any, **kw: Any) -> Any:
        with source.hide_own_frames():
            return f(*args, **kw)
    return call


class RefDType:
    """The dtype of a TF1 reference variable: prints ``float32_ref`` and equals no plain dtype."""

    def __init__(self, base: DType) -> None:
        self.base = base

    @property
    def base_dtype(self) -> DType:
        """Without the mark."""
        return self.base

    @property
    def real_dtype(self) -> RefDType:
        """Of the real type."""
        return RefDType(self.base.real_dtype)

    def is_compatible_with(self, other: Any) -> bool:
        """Only a reference of the same type is."""
        return self == other

    @property
    def name(self) -> str:
        """``float32_ref``"""
        return self.base.name + "_ref"

    def __getattr__(self, name: str) -> Any:
        return getattr(self.base, name)

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, RefDType) and other.base == self.base

    def __ne__(self, other: Any) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return f"tf.{self.name}"

    def __str__(self) -> str:
        return f"<dtype: '{self.name}'>"


class Operation:
    """One named operation (a TF1 NodeDef)."""

    def __init__(self, graph: Any, name: str, type: str, inputs: Any = (), attrs: dict[str, Any] | None = None, weight: int = 1) -> None:
        self.graph, self.name, self.type = graph, name, type
        self.construct = type                # what it is here, where ``type`` is the last of several nodes of TF1
        self.inputs: list[Any] = list(inputs)
        self.outputs: list[Tensor] = []
        self.attrs = dict(attrs or {})
        self.weight = weight
        self._node: Node | None = None       # what running it runs, for operations without outputs
        self._record: Any = None             # the call that is made again for other ranks, where it depends on a placeholder of unknown rank
        self.control_inputs: list[Any] = []
        self.in_force: tuple[Any, ...] = ()  # what ``control_dependencies`` asked for where it was made
        self.device = ""
        self.site: Any = None

    @property
    def node(self) -> Node | None:
        """What running it runs, for operations without outputs."""
        found: Node | None = self._node if self._record is None or self._node is None else self._record.node_of(self)
        return found

    @node.setter
    def node(self, node: Node | None) -> None:
        self._node = node

    def get_attr(self, name: str) -> Any:
        """An attribute. ValueError where there is none."""
        found = self.attrs.get(name, self)
        found = self._derived(name) if found is self else found
        if found is self:
            raise ValueError(f"Operation '{self.name}' has no attr named '{name}'.")
        return found

    def _derived(self, name: str) -> Any:
        """Attributes that follow from the inputs, or this operation where there is none of that name."""
        if name == "T" and self.inputs and self.type != "Cast":
            return self.inputs[0].dtype.base_dtype
        if name == "SrcT" and self.type == "Cast":
            return self.inputs[0].dtype.base_dtype
        if name == "N" and self.type in ("Pack", "ConcatV2", "AddN"):
            return len(self.inputs)
        return b"" if name in ("container", "shared_name") and self.type in ("VariableV2", "VarHandleOp") else self

    def colocation_groups(self) -> list[bytes]:
        """What ``colocate_with`` asked for: ``[b"loc:@name"]``, by default its own."""
        return list(self.attrs.get("_class", [f"loc:@{self.name}".encode()]))

    @property
    def node_def(self) -> Any:
        """A view like TF1's NodeDef."""
        from .protos import node_def
        return node_def(self)

    def run(self, feed_dict: Any = None, session: Any = None) -> None:
        """Run it in the default session (or ``session``)."""
        from .session import default_session_for
        default_session_for(self.graph, session, "execute operation", "run").run(self, feed_dict)

    def _control_nodes_of(self) -> list[Node]:
        return [t.node for t in self.outputs] if self.outputs else [n] if (n := self.node) is not None else []

    def _as_graph_element(self) -> Operation:
        return self

    def values(self) -> tuple[Any, ...]:
        """The outputs."""
        return tuple(self.outputs)

    def __repr__(self) -> str:
        return f"<tf.Operation '{self.name}' type={self.type}>"

    def __str__(self) -> str:
        return str(self.node_def)


class Tensor:
    """A symbolic value. ``node`` is the IR node that computes it."""

    __array_priority__ = 100
    _give_shape: Callable[[TensorShape], None] | None = None

    def __init__(self, op: Operation, index: int, node: Node) -> None:
        self.op, self.value_index, self._node = op, index, node
        self._record: Any = None             # as an operation's
        self._shape = shape_of(node.shape)
        self._consumers: list[Operation] = []
        self._refined: TensorShape | None = None             # by set_shape

    graph = property(lambda self: self.op.graph, doc="The graph it belongs to.")
    device = property(lambda self: self.op.device, doc="The device asked for.")
    dtype = property(lambda self: self._node.dtype, doc="The element type.")

    @property
    def node(self) -> Node:
        """The IR node that computes it."""
        found: Node = self._node if self._record is None else self._record.node_of(self)
        return found

    @property
    def name(self) -> str:
        """``op:0``"""
        return f"{self.op.name}:{self.value_index}"

    @property
    def shape(self) -> TensorShape:
        """The static shape."""
        if self._record is None:
            return self._shape
        found = self._record.ranks.shape(self)
        return found if self._refined is None else found.merge_with(self._refined)

    def get_shape(self) -> TensorShape:
        """The static shape."""
        return self.shape

    def set_shape(self, shape: Any) -> None:
        """Refine the static shape. ValueError where it contradicts."""
        if self._give_shape is not None:     # a result of py_func, whose shape nobody knew
            self._give_shape(TensorShape(shape))
            return
        merged = self.shape.merge_with(TensorShape(shape))
        if self._record is not None and merged.ndims is not None:
            self._record.ranks.pin(self, merged)
        self._shape = self._refined = merged

    def consumers(self) -> list[Operation]:
        """Operations that use it."""
        return list(self._consumers)

    def eval(self, feed_dict: Any = None, session: Any = None) -> Any:
        """Its value in the default session (or ``session``)."""
        from .session import default_session_for
        return default_session_for(self.graph, session, "evaluate tensor", "eval").run(self, feed_dict)

    def _control_nodes_of(self) -> list[Node]:
        return [self.node]

    def _as_graph_element(self) -> Tensor:
        return self

    def __repr__(self) -> str:
        return f"<tf.Tensor '{self.name}' shape={self.shape} dtype={self.dtype.name}>"

    def __str__(self) -> str:
        shape = f", shape={s}" if (s := self.shape).ndims is not None else ""
        return f'Tensor("{self.name}"{shape}, dtype={self.dtype.name})'


def _operator(name: str) -> Callable[..., Any]:
    @shown
    def method(self: Any, *args: Any) -> Any:
        return OPERATORS[name](self, *args)
    method.__name__ = name
    return method


OPERATOR_NAMES = tuple(f"__{p}{n}__" for n in ("add", "sub", "mul", "truediv", "div", "floordiv", "mod", "pow", "matmul", "and", "or", "xor") for p in ("", "r")
                       ) + ("__lt__", "__le__", "__gt__", "__ge__", "__neg__", "__abs__", "__invert__", "__getitem__")


def add_operators(cls: type) -> None:
    """Give a class the operators of tensors."""
    for name in OPERATOR_NAMES:
        setattr(cls, name, _operator(name))


add_operators(Tensor)


def is_symbolic(x: Any) -> bool:
    """A tensor or something that stands for one."""
    return isinstance(x, Tensor) or hasattr(x, "_as_tensor")


def python_kind(x: Any) -> str:
    """How TF1's messages name a Python value's type."""
    return type(x).__name__
