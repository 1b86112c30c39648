"""Variables, what assigns them, and their initialisation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import source
from ..dtypes import DType, as_dtype, string
from ..errors import DTypeError, ShapeError, UnimplementedError
from ..ir.opdef import OPS
from .deferred import apart, recorded, site_of
from .funnel import constant_of, convert, emit, emit_operation, graph_of, op_scope
from .keys import GraphKeys
from .ledger import get_default_graph
from .shapes import TensorShape
from .symbolic import refuse_values
from .tensor import Operation, RefDType, Tensor, add_operators


class Variable:
    """A value that lives in a session. ``initializer`` sets it; ``assign`` and the optimizers change it."""

    __array_priority__ = 100

    def __init__(self, initial_value: Any = None, trainable: bool = True, collections: Any = None, validate_shape: bool = True,
                 caching_device: Any = None, name: str | None = None, variable_def: Any = None, dtype: Any = None, expected_shape: Any = None,
                 import_scope: Any = None, constraint: Any = None, use_resource: Any = None, synchronization: Any = None, aggregation: Any = None,
                 shape: Any = None) -> None:
        with source.hide_own_frames(), apart(get_default_graph()):
            if initial_value is None:
                raise ValueError("initial_value must be specified.")
            if variable_def is not None:
                raise NotImplementedError("variable_def is not available: give an initial value")
            if not isinstance(collections, (list, tuple, set, type(None))):
                raise ValueError(f"collections argument to Variable constructor must be a list, tuple, or set. Got {collections} of type {type(collections)}")
            if constraint is not None and not callable(constraint):
                raise ValueError("The `constraint` argument must be a callable.")
            g = graph_of([initial_value])
            if g is not get_default_graph():
                with g.as_default():
                    self.__init__(initial_value, trainable, collections, validate_shape, name=name, dtype=dtype, expected_shape=expected_shape,  # type: ignore[misc]
                                  constraint=constraint, use_resource=use_resource, shape=shape)
                return
            if name is not None and not g.is_valid_name(name):
                raise ValueError(f"'{name}' is not a valid scope name")
            with g.control_dependencies(None):
                base = name or "Variable"
                own = g.unique_name(base, mark_as_used=False)
                value = initial_value
                if callable(initial_value):
                    with g.name_scope(own + "/Initializer/"):
                        value = initial_value()
                        value = value if isinstance(value, Tensor) else convert(value, None if dtype is None else as_dtype(dtype), "initial_value")
                kind = None if dtype is None else as_dtype(dtype)
                if not isinstance(value, Tensor):
                    value = convert(value, kind, f"{own[len(g._scope):]}/{'Initializer/' if use_resource else ''}initial_value")
                elif kind is not None and value.dtype != kind:
                    value = convert(value, kind)
                if shape is not None and not TensorShape(shape).is_compatible_with(value.shape):
                    raise ValueError(f"The initial value's shape ({value.shape}) is not compatible with the explicitly supplied `shape` argument ({TensorShape(shape)}).")
                self._make(g, value, base, trainable, collections, validate_shape, bool(use_resource))
            self.constraint = constraint

    def _make(self, g: Any, value: Tensor, name: str, trainable: bool, collections: Any, validate: bool, resource: bool) -> None:
        if any(not isinstance(s, int) for s in value.node.shape) or (value._record is not None and not value.shape.is_fully_defined()):
            if not validate:
                raise NotImplementedError(f"a variable whose shape may change (validate_shape=False) is not available: {value!r} must have a known shape")
            raise ShapeError(f"initial_value must have a shape specified: {value}")
        root = g.builder                     # variables are made outside of all bodies
        if not root.owns(value._node):
            raise ValueError(f"Initializer for variable {g.unique_name(name, mark_as_used=False)}/ is from inside a control-flow construct, such as a loop or conditional. "
                             "When creating a variable inside a loop or conditional, use a lambda as the initializer.")
        self._resource = resource
        self._reads: list[Tensor] = []       # besides the snapshot: what feeds the variable feeds them too
        self.graph, self.initial_value = g, value
        self.uid = g.next_uid()
        self.base_dtype: DType = value.dtype
        self._trainable = trainable
        site = source.capture(g._scope)
        saved, root.site = root.site, site
        self.node = root.graph.add(OPS["variable"], (), (("aval", value.node.aval), ("uid", self.uid)), value.node.aval, site=site)
        root.site = saved
        self.site = site
        full = g.operation_name(name)
        self.op = Operation(g, full, "VarHandleOp" if resource else "VariableV2", (), {"dtype": value.dtype})
        self.op.site, self.op.device = site, g.device_of(self.op)
        g.operations[full] = self.op
        self._ref = Tensor(self.op, 0, self.node)
        self.op.outputs = [self._ref]
        g.op_count += 1
        self._handle = full
        is_set, assign, read = ("IsInitialized/VarIsInitializedOp", "AssignVariableOp", "Read/ReadVariableOp") if resource else ("", "Assign", "read")
        if is_set:
            emit("VarIsInitializedOp", _absolute(g, f"{full}/{is_set}"), (), lambda b: b.apply(OPS["is_initialized"], (b.capture(self.node),), {}))
        self.initializer: Operation = emit(assign, _absolute(g, full + "/Assign"), (value,),
                                           lambda b, v: b.apply(OPS["assign"], (b.capture(self.node), v), {})).op
        self._snapshot: Tensor = emit("ReadVariableOp" if resource else "Identity", _absolute(g, f"{full}/{read}"), (),
                                      lambda b: b.apply(OPS["read"], (b.capture(self.node),), {}))
        g.variables[self.uid] = self
        keys = [GraphKeys.GLOBAL_VARIABLES] if collections is None else list(collections)
        if trainable and GraphKeys.TRAINABLE_VARIABLES not in keys:
            keys.append(GraphKeys.TRAINABLE_VARIABLES)
        g.add_to_collections(keys, self)

    # ---- what it is --------------------------------------------------------------------------------------------------------------

    name = property(lambda self: self._handle + ":0", doc="``v:0``")
    handle = property(lambda self: self._ref, doc="The output of the operation that is the variable.")
    dtype = property(lambda self: self.base_dtype if self._resource else RefDType(self.base_dtype),
                     doc="The reference dtype (prints ``float32_ref``); with ``use_resource`` the plain one.")
    shape = property(lambda self: TensorShape(list(self.node.shape)), doc="The static shape.")
    device = property(lambda self: self.op.device, doc="The device asked for.")
    trainable = property(lambda self: self._trainable, doc="Whether optimizers change it by default.")

    def get_shape(self) -> TensorShape:
        """The static shape."""
        return self.shape

    def __repr__(self) -> str:
        return f"<tf.Variable '{self.name}' shape={self.shape} dtype={self.dtype.name}>"

    def _as_tensor(self) -> Tensor:
        """The snapshot read: the value at the run's entry, or after what ``control_dependencies`` put before it."""
        # inside a branch or a loop the snapshot is captured, so that gradients find their way out
        return self.read_value() if self.graph._controls else self._snapshot

    _ref_tensor = _as_tensor

    def _as_graph_element(self) -> Tensor:
        return self._snapshot

    def _control_nodes_of(self) -> list[Any]:
        return [self._snapshot.node]

    def value(self) -> Tensor:
        """The snapshot read."""
        return self._as_tensor()

    def read_value(self) -> Tensor:
        """A read of its own, ordered by the control dependencies around it."""
        with source.hide_own_frames():
            result: Tensor = emit("Identity", "read", (), lambda b: b.apply(OPS["read"], (b.capture(self.node),), {}))
            self._reads.append(result)
            return result

    def initialized_value(self) -> Tensor:
        """The value, or the initial value where it has none yet."""
        return self._guarded(lambda: self._as_tensor())

    def _guarded(self, read: Callable[[], Tensor]) -> Tensor:
        from .control import cond
        result: Tensor = cond(is_variable_initialized(self), read, lambda: self.initial_value)
        return result

    def eval(self, session: Any = None) -> Any:
        """The value in the default session (or ``session``)."""
        return self._snapshot.eval(session=session)

    def load(self, value: Any, session: Any = None) -> None:
        """Set the value in a session at once."""
        from .session import default_session_for
        default_session_for(self.graph, session, "set variable", "load")._store.load(("variable", self.uid), _fitted(self, value), self.base_dtype)

    # ---- changes -----------------------------------------------------------------------------------------------------------------------

    def _effect(self, op: str, type: str, name: str | None, value: Any, indices: Any = None, what: str = "value") -> Tensor:
        with op_scope(name, type, self, value, indices) as label:
            rows = [] if indices is None else [convert(indices, name="indices")]
            t = self._operand(type, what, value)
            if not rows:
                self._check_shape(type, label.rstrip("/"), t)
            elif not t.node.shape and not op.startswith("variable_scatter_nd"):          # one number for all
                t = emit("BroadcastTo", what, (t, rows[0]), lambda b, n, i: b.broadcast(n, (*i.shape, *self.node.shape[1:])), weight=0)
            result: Tensor = emit(type, label, (*rows, t), lambda b, *ns: b.apply(OPS[op], (b.capture(self.node), *ns), {}))
            return result

    def _operand(self, type: str, what: str, value: Any) -> Tensor:
        """A tensor of the variable's graph and dtype."""
        if value is None:
            raise ValueError(f"Tried to convert '{what}' to a tensor and failed. Error: None values not supported.")
        given = isinstance(value, Tensor) or hasattr(value, "_as_tensor")
        if given and value.graph is not self.graph:
            raise ValueError(f"{value} must be from the same graph as {self._ref}.")
        try:
            t = convert(value, None if given else self.base_dtype, what)
        except DTypeError as error:
            error.args = (f"Expected {self.base_dtype.name} passed to parameter '{what}' of op '{type}', got {value!r} of type '{value.__class__.__name__}' instead. Error: {error}",)
            raise
        if t.dtype != self.base_dtype:
            raise DTypeError(f"Input '{what}' of '{type}' Op has type {t.dtype.name} that does not match type {self.base_dtype.name} of argument 'ref'.")
        return t

    def _check_shape(self, type: str, name: str, t: Tensor) -> None:
        mine, given = self.shape, t.shape
        if given.is_compatible_with(mine):
            return
        texts = ["[" + ",".join("?" if d is None else str(d) for d in s.as_list()) + "]" for s in (mine, given)]
        k = next((k for k, (p, q) in enumerate(zip(mine.as_list(), given.as_list())) if None not in (p, q) and p != q), 0)
        what = (f"Shapes must be equal rank, but are {mine.ndims} and {given.ndims}" if mine.ndims != given.ndims else
                f"Dimension {k} in both shapes must be equal, but are {mine[k]} and {given[k]}. Shapes are {texts[0]} and {texts[1]}.")
        raise ShapeError(f"{what} for '{name}' (op: '{type}') with input shapes: {', '.join(texts)}.")

    def assign(self, value: Any, use_locking: bool = False, name: str | None = None, read_value: bool = True) -> Any:
        """Set it; the result is the new value (with ``read_value`` False an operation)."""
        return self._result(self._effect("assign", "Assign", name, value), read_value)

    def assign_add(self, delta: Any, use_locking: bool = False, name: str | None = None, read_value: bool = True) -> Any:
        """Add to it; the result is the new value."""
        return self._result(self._effect("assign_add", "AssignAdd", name, delta), read_value)

    def assign_sub(self, delta: Any, use_locking: bool = False, name: str | None = None, read_value: bool = True) -> Any:
        """Subtract from it; the result is the new value."""
        return self._result(self._effect("assign_sub", "AssignSub", name, delta), read_value)

    def set_shape(self, shape: Any) -> None:
        """Nothing to refine: ValueError where it contradicts."""
        self.shape.merge_with(TensorShape(shape))

    @staticmethod
    def _result(new: Tensor, read_value: bool) -> Any:
        return new if read_value else new.op

    def _rows(self, op: str, type: str, indices: Any, updates: Any, name: str | None) -> Tensor:
        return self._effect(op, type, name, updates, indices, "updates")

    def scatter_add(self, indices: Any, updates: Any = None, name: str | None = None) -> Tensor:
        """Add rows."""
        return self._rows("variable_scatter_add", "ScatterAdd", *_sparse(indices, updates), name)

    def scatter_sub(self, indices: Any, updates: Any = None, name: str | None = None) -> Tensor:
        """Subtract rows."""
        return self._rows("variable_scatter_sub", "ScatterSub", *_sparse(indices, updates), name)

    def scatter_update(self, indices: Any, updates: Any = None, name: str | None = None) -> Tensor:
        """Replace rows."""
        return self._rows("variable_scatter_update", "ScatterUpdate", *_sparse(indices, updates), name)

    def scatter_nd_add(self, indices: Any, updates: Any, name: str | None = None) -> Tensor:
        """Add at index tuples."""
        return self._effect("variable_scatter_nd_add", "ScatterNdAdd", name, updates, indices, "updates")

    def scatter_nd_sub(self, indices: Any, updates: Any, name: str | None = None) -> Tensor:
        """Subtract at index tuples."""
        return self._effect("variable_scatter_nd_sub", "ScatterNdSub", name, updates, indices, "updates")

    def scatter_nd_update(self, indices: Any, updates: Any, name: str | None = None) -> Tensor:
        """Replace at index tuples."""
        return self._effect("variable_scatter_nd_update", "ScatterNdUpdate", name, updates, indices, "updates")

    def _assign_slice(self, index: Any, value: Any, name: str) -> Tensor:
        """Set ``self[index]``; the result is the whole new value."""
        from .indexing import part
        with op_scope(_absolute(self.graph, name), "StridedSliceAssign", self, value) as label:
            t = self._operand("StridedSliceAssign", "value", value)
            shape = tuple(self.node.shape)
            count = self.graph.op_count                              # what finds the places counts nothing
            places = part(constant_of(np.arange(int(np.prod(shape))).reshape(shape), None, "places"), index, "picked")

            def tuples(b: Any, n: Any) -> Any:
                columns = []
                for d in shape[::-1]:
                    columns.append(b.floormod(n, b.like(n, max(d, 1))))
                    n = b.floordiv(n, b.like(n, max(d, 1)))
                return b.stack(*columns[::-1], axis=-1)
            rows = emit("Tuples", "indices", (places,), tuples)
            wide = emit("BroadcastTo", "updates", (t, places), lambda b, n, p: b.broadcast(n, p.shape))
            self.graph.op_count = count
            return self._effect("variable_scatter_nd_update", "StridedSliceAssign", label, wide, rows, "updates")

    def __iter__(self) -> Any:
        raise TypeError("'Variable' object is not iterable.")

    __hash__ = object.__hash__

    def __eq__(self, other: Any) -> bool:
        return self is other

    def __ne__(self, other: Any) -> bool:
        return self is not other


add_operators(Variable)
refuse_values(Variable)
# a variable is an object that is there, as in TF1: programs write ``step = step or default``
Variable.__bool__ = lambda self: True                    # type: ignore[attr-defined]


def _sparse(indices: Any, updates: Any) -> tuple[Any, Any]:
    return (indices.indices, indices.values) if updates is None else (indices, updates)


def _fitted(v: Variable, value: Any) -> Any:
    array = np.asarray(value, v.base_dtype.np)
    if array.shape != tuple(v.node.shape):
        raise ShapeError(f"Cannot load a value of shape {array.shape} into variable '{v.name}' of shape {tuple(v.node.shape)}")
    return array


def _root_builder(g: Any) -> Any:
    b = g.builder
    while b.outer is not None:
        b = b.outer
    return b


def _absolute(g: Any, full: str) -> str:
    """A name relative to the current scope that comes out as ``full``."""
    return full[len(g._scope):] if full.startswith(g._scope) else full


RefVariable = ResourceVariable = Variable


# ---- initialising -----------------------------------------------------------------------------------------------------------------


def global_variables(scope: str | None = None) -> list[Variable]:
    """Variables of the default graph."""
    return get_default_graph().get_collection(GraphKeys.GLOBAL_VARIABLES, scope)


all_variables = global_variables


def trainable_variables(scope: str | None = None) -> list[Variable]:
    """Variables that optimizers change by default."""
    return get_default_graph().get_collection(GraphKeys.TRAINABLE_VARIABLES, scope)


def local_variables(scope: str | None = None) -> list[Variable]:
    """Local variables."""
    return get_default_graph().get_collection(GraphKeys.LOCAL_VARIABLES, scope)


def model_variables(scope: str | None = None) -> list[Variable]:
    """Variables of a model, as those who made it say."""
    return get_default_graph().get_collection(GraphKeys.MODEL_VARIABLES, scope)


def moving_average_variables(scope: str | None = None) -> list[Variable]:
    """Variables that moving averages are kept of."""
    return get_default_graph().get_collection(GraphKeys.MOVING_AVERAGE_VARIABLES, scope)


@recorded
def variables_initializer(var_list: Sequence[Variable], name: str = "init") -> Operation:
    """An operation that sets these variables to their initial values."""
    with source.hide_own_frames():
        g = get_default_graph()
        return _run_all(g, name, [v.initializer for v in var_list])


def _run_all(g: Any, name: str, items: Sequence[Any]) -> Operation:
    """An operation that runs ``items``, its control inputs."""
    op = emit_operation("NoOp", name, group_node(g, [n for x in items for n in x._control_nodes_of()]), g)
    op.control_inputs = list(dict.fromkeys(getattr(x, "op", x) for x in items))
    return op


def global_variables_initializer() -> Operation:
    """An operation that sets all variables made so far."""
    return variables_initializer(global_variables())


def local_variables_initializer() -> Operation:
    """An operation that sets all local variables made so far."""
    return variables_initializer(local_variables(), "init")


def tables_initializer(name: str = "init_all_tables") -> Operation:
    """An operation that sets all lookup tables: there are none."""
    return no_op(name)


initialize_all_variables = global_variables_initializer
initialize_local_variables = local_variables_initializer
initialize_variables = variables_initializer


def group_node(g: Any, nodes: Sequence[Any]) -> Any:
    """A node that runs ``nodes``."""
    b = g.builder
    b.site = site_of(g, "")
    try:
        return b.apply(OPS["group"], (), {}, tuple(dict.fromkeys(nodes)))
    finally:
        b.site = None


@recorded
def is_variable_initialized(variable: Variable) -> Tensor:
    """Whether it has a value, as a bool tensor."""
    with source.hide_own_frames():
        result: Tensor = emit("IsVariableInitialized", "IsVariableInitialized", (), lambda b: b.apply(OPS["is_initialized"], (b.capture(variable.node),), {}))
        return result


class _Report(Tensor):
    """Names of the variables without a value; the run gives which those are."""

    def __init__(self, flags: Tensor, names: Sequence[str]) -> None:
        super().__init__(flags.op, 0, flags._node)
        self._flags, self._names = flags, np.array([n.encode() for n in names], object)
        self._shape = TensorShape([None if len(names) else 0])

    dtype = property(lambda self: string, doc="Text.")

    @property
    def node(self) -> Any:
        """No node computes text: UnimplementedError where something wants to compute with it."""
        raise UnimplementedError(None, self.op, f"{self.name}: a report of variables can be fetched, not computed with")

    def _control_nodes_of(self) -> list[Any]:
        return self._flags._control_nodes_of()

    def _fetch_parts(self) -> Any:
        return [self._flags], lambda got: self._names[~got[0]]


def report_uninitialized_variables(var_list: Sequence[Variable] | None = None, name: str = "report_uninitialized_variables") -> Tensor:
    """Names of the variables (default: all global and local ones) that have no value; a run gives an object array of bytes."""
    from .array_ops import stack
    with source.hide_own_frames():
        variables = [*global_variables(), *local_variables()] if var_list is None else list(var_list)
        g = get_default_graph()
        with g.name_scope(name), g.control_dependencies(None):
            flags = stack([is_variable_initialized(v) for v in variables], name="flags") if variables else convert(np.zeros(0, bool), name="flags")
            report = _Report(flags, [v.op.name for v in variables])
            name, type = ("boolean_mask/GatherV2", "GatherV2") if variables else ("Const", "Const")
            report.op = Operation(g, g.operation_name(name), type, (flags,))
            report.op.site, report.op.outputs = flags.op.site, [report]
            g.operations[report.op.name] = report.op
            g.op_count += 29 if variables else 1         # what selects the names
            return report


@recorded
def group(*inputs: Any, name: str | None = None, **unknown: Any) -> Operation:
    """An operation that runs all inputs."""
    with source.hide_own_frames():
        if unknown:
            raise ValueError(f"Unknown keyword arguments {', '.join(unknown)}")
        flat = [x for i in inputs for x in (i if isinstance(i, (list, tuple)) else [i]) if x is not None]
        g = graph_of(flat)
        return _run_all(g, name or "group_deps", flat)


@recorded
def no_op(name: str | None = None) -> Operation:
    """An operation that does nothing (but waits for control dependencies)."""
    with source.hide_own_frames():
        g = get_default_graph()
        return emit_operation("NoOp", name or "NoOp", group_node(g, g._control_nodes()), g)


@recorded
def tuple_(tensors: Sequence[Any], name: str | None = None, control_inputs: Any = None) -> list[Any]:
    """The tensors, none of which is ready before all are."""
    from .array_ops import identity
    with source.hide_own_frames():
        g = get_default_graph()
        real = [t for t in tensors if t is not None]
        if not real:
            raise ValueError("Must have at least one Tensor or Operation")
        with g.name_scope(name or "tuple") as scope:
            ready = group(*real, *(control_inputs or ()))
        with g.name_scope(scope), g.control_dependencies([ready]):
            return [None if t is None else identity(t, "control_dependency") for t in tensors]
