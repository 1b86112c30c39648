"""Variables, what assigns them, and their initialisation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import source
from ..dtypes import DType, as_dtype, string
from ..errors import DTypeError, ShapeError
from ..ir.opdef import OPS
from .deferred import apart, recorded, site_of
from .funnel import convert, emit, emit_operation, op_scope
from .ledger import get_default_graph
from .shapes import TensorShape
from .symbolic import refuse_values
from .tensor import Operation, RefDType, Tensor, add_operators


class GraphKeys:
    """Names of the standard collections."""

    GLOBAL_VARIABLES = VARIABLES = "variables"
    TRAINABLE_VARIABLES = "trainable_variables"
    LOCAL_VARIABLES = "local_variables"
    MODEL_VARIABLES = "model_variables"
    METRIC_VARIABLES = "metric_variables"
    UPDATE_OPS = "update_ops"
    SUMMARIES = "summaries"
    LOSSES = "losses"
    REGULARIZATION_LOSSES = "regularization_losses"
    MOVING_AVERAGE_VARIABLES = "moving_average_variables"
    QUEUE_RUNNERS = "queue_runners"
    GLOBAL_STEP = "global_step"
    TRAIN_OP = "train_op"
    WEIGHTS, BIASES, ACTIVATIONS = "weights", "biases", "activations"
    TABLE_INITIALIZERS = "table_initializer"
    SAVERS, INIT_OP, READY_OP, LOCAL_INIT_OP = "savers", "init_op", "ready_op", "local_init_op"


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
            g = get_default_graph()
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
                    value = convert(value, kind, f"{own[len(g._scope):]}/initial_value")
                elif kind is not None and value.dtype != kind:
                    value = convert(value, kind)
                for wanted in (expected_shape, shape):
                    if wanted is not None and not TensorShape(wanted).is_compatible_with(value.shape):
                        raise ValueError(f"The initial value's shape ({value.shape}) is not compatible with the explicitly supplied `shape` argument ({TensorShape(wanted)}).")
                self._make(g, value, base, trainable, collections, validate_shape, bool(use_resource))
            self.constraint = constraint

    def _make(self, g: Any, value: Tensor, name: str, trainable: bool, collections: Any, validate: bool, resource: bool) -> None:
        if any(not isinstance(s, int) for s in value.node.shape) or (value._record is not None and not value.shape.is_fully_defined()):
            if not validate:
                raise NotImplementedError(f"a variable whose shape may change (validate_shape=False) is not available: {value!r} must have a known shape")
            raise ShapeError(f"initial_value must have a shape specified: {value!r}")
        self._resource = resource
        self.graph, self.initial_value = g, value
        self.uid = g.next_uid()
        self.base_dtype: DType = value.dtype
        self._trainable = trainable
        site = source.capture(g._scope)
        root = _root_builder(g)
        saved, root.site = root.site, site
        self.node = root.graph.add(OPS["variable"], (), (("aval", value.node.aval), ("uid", self.uid)), value.node.aval, site=site)
        root.site = saved
        self.site = site
        full = g.operation_name(name)
        self.op = Operation(g, full, "VarHandleOp" if resource else "VariableV2", (), {"dtype": value.dtype})
        self.op.site = site
        g.operations[full] = self.op
        self._ref = Tensor(self.op, 0, self.node)
        self.op.outputs = [self._ref]
        g.op_count += 1
        self._handle = full
        self.initializer: Operation = emit("Assign", _absolute(g, full + "/Assign"), (value,),
                                           lambda b, v: b.apply(OPS["assign"], (b.capture(self.node), v), {})).op
        self._snapshot: Tensor = emit("Identity", _absolute(g, full + "/read"), (), lambda b: b.apply(OPS["read"], (b.capture(self.node),), {}))
        g.variables[self.uid] = self
        keys = [GraphKeys.GLOBAL_VARIABLES] if collections is None else list(collections)
        if trainable and GraphKeys.TRAINABLE_VARIABLES not in keys:
            keys.append(GraphKeys.TRAINABLE_VARIABLES)
        g.add_to_collections(keys, self)

    # ---- what it is --------------------------------------------------------------------------------------------------------------

    name = property(lambda self: self._handle + ":0", doc="``v:0``")
    dtype = property(lambda self: self.base_dtype if self._resource else RefDType(self.base_dtype),
                     doc="The reference dtype (prints ``float32_ref``); with ``use_resource`` the plain one.")
    shape = property(lambda self: TensorShape(list(self.node.shape)), doc="The static shape.")
    device = ""
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
        default_session_for(self.graph, session, "Cannot load")._store.load(("variable", self.uid), _fitted(self, value), self.base_dtype)

    # ---- changes -----------------------------------------------------------------------------------------------------------------------

    def _effect(self, op: str, type: str, name: str | None, value: Any, indices: Any = None, what: str = "value") -> Tensor:
        with op_scope(name, type, self, value, indices) as label:
            rows = [] if indices is None else [convert(indices, name="indices")]
            t = value if isinstance(value, Tensor) else value._as_tensor() if hasattr(value, "_as_tensor") else convert(value, self.base_dtype, what)
            if t.dtype != self.base_dtype:
                raise DTypeError(f"Input '{what}' of '{type}' Op has type {t.dtype.name} that does not match type {self.base_dtype.name} of argument 'ref'.")
            result: Tensor = emit(type, label, (*rows, t), lambda b, *ns: b.apply(OPS[op], (b.capture(self.node), *ns), {}))
            return result

    def assign(self, value: Any, use_locking: bool = False, name: str | None = None, read_value: bool = True) -> Any:
        """Set it; the result is the new value (with ``read_value`` False an operation)."""
        return self._result(self._effect("assign", "Assign", name, value), read_value)

    def assign_add(self, delta: Any, use_locking: bool = False, name: str | None = None, read_value: bool = True) -> Any:
        """Add to it; the result is the new value."""
        return self._result(self._effect("assign_add", "AssignAdd", name, delta), read_value)

    def assign_sub(self, delta: Any, use_locking: bool = False, name: str | None = None, read_value: bool = True) -> Any:
        """Subtract from it; the result is the new value."""
        return self._result(self._effect("assign_sub", "AssignSub", name, delta), read_value)

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

    def _assign_slice(self, index: Any, value: Any, name: str | None = None) -> Tensor:
        """Set ``self[index]``; the result is the whole new value."""
        with op_scope(name, "strided_slice/_assign", self, value) as label:
            shape = tuple(self.node.shape)
            try:
                picked = np.arange(int(np.prod(shape))).reshape(shape)[index]
            except (IndexError, TypeError, NotImplementedError) as error:
                raise NotImplementedError(f"only slices with bounds known while building can be assigned: {error}") from None
            where = np.stack(np.unravel_index(picked, shape), -1)            # the index tuple of each element
            t = convert(value, self.base_dtype, "value")
            rows = emit("Const", "indices", (), lambda b: b.const(where), weight=0)
            wide = emit("BroadcastTo", "updates", (t,), lambda b, n: b.broadcast(n, where.shape[:-1]), weight=0)
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


# ---- assigning from outside -----------------------------------------------------------------------------------------------------


def assign(ref: Any, value: Any, validate_shape: Any = None, use_locking: Any = None, name: str | None = None) -> Tensor:
    """``ref.assign(value)``"""
    result: Tensor = ref.assign(value, name=name)
    return result


def assign_add(ref: Any, value: Any, use_locking: Any = None, name: str | None = None) -> Tensor:
    """``ref.assign_add(value)``"""
    result: Tensor = ref.assign_add(value, name=name)
    return result


def assign_sub(ref: Any, value: Any, use_locking: Any = None, name: str | None = None) -> Tensor:
    """``ref.assign_sub(value)``"""
    result: Tensor = ref.assign_sub(value, name=name)
    return result


def scatter_add(ref: Any, indices: Any, updates: Any, use_locking: Any = None, name: str | None = None) -> Tensor:
    """Add rows to a variable."""
    result: Tensor = ref.scatter_add(indices, updates, name)
    return result


def scatter_sub(ref: Any, indices: Any, updates: Any, use_locking: Any = None, name: str | None = None) -> Tensor:
    """Subtract rows from a variable."""
    result: Tensor = ref.scatter_sub(indices, updates, name)
    return result


def scatter_update(ref: Any, indices: Any, updates: Any, use_locking: Any = None, name: str | None = None) -> Tensor:
    """Replace rows of a variable."""
    result: Tensor = ref.scatter_update(indices, updates, name)
    return result


# ---- initialising -----------------------------------------------------------------------------------------------------------------


def global_variables() -> list[Variable]:
    """Variables of the default graph."""
    return get_default_graph().get_collection(GraphKeys.GLOBAL_VARIABLES)


all_variables = global_variables


def trainable_variables(scope: str | None = None) -> list[Variable]:
    """Variables that optimizers change by default."""
    return get_default_graph().get_collection(GraphKeys.TRAINABLE_VARIABLES, scope)


def local_variables(scope: str | None = None) -> list[Variable]:
    """Local variables."""
    return get_default_graph().get_collection(GraphKeys.LOCAL_VARIABLES, scope)


@recorded
def variables_initializer(var_list: Sequence[Variable], name: str = "init") -> Operation:
    """An operation that sets these variables to their initial values."""
    with source.hide_own_frames():
        g = get_default_graph()
        nodes = [n for v in var_list for n in v.initializer._control_nodes_of()]
        return emit_operation("NoOp", name, group_node(g, nodes), g)


def global_variables_initializer() -> Operation:
    """An operation that sets all variables made so far."""
    return variables_initializer(global_variables())


def local_variables_initializer() -> Operation:
    """An operation that sets all local variables made so far."""
    return variables_initializer(local_variables(), "init")


initialize_all_variables = global_variables_initializer
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
        self._shape = TensorShape([None])

    dtype = property(lambda self: string, doc="Text.")

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
            report.op = Operation(g, g.operation_name("boolean_mask/GatherV2"), "GatherV2", (flags,))
            report.op.site, report.op.outputs = flags.op.site, [report]
            g.operations[report.op.name] = report.op
            g.op_count += 29                 # what selects the names
            return report


@recorded
def group(*inputs: Any, name: str | None = None, **unknown: Any) -> Operation:
    """An operation that runs all inputs."""
    with source.hide_own_frames():
        if unknown:
            raise ValueError(f"Unknown keyword arguments {', '.join(unknown)}")
        g = get_default_graph()
        flat = [x for i in inputs for x in (i if isinstance(i, (list, tuple)) else [i]) if x is not None]
        return emit_operation("NoOp", name or "group_deps", group_node(g, [n for x in flat for n in x._control_nodes_of()]), g)


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
