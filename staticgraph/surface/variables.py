"""Variables, scopes that share them, and their initialisation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from .. import source
from ..dtypes import DType, as_dtype, float32
from ..errors import DTypeError, ShapeError
from ..ir.opdef import OPS
from .funnel import convert, emit, emit_operation
from .initializers import glorot_uniform_initializer, zeros_initializer
from .ledger import get_default_graph
from .shapes import TensorShape
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
        with source.hide_own_frames():
            if initial_value is None:
                raise ValueError("initial_value must be specified.")
            g = get_default_graph()
            with g.control_dependencies(None):
                value = initial_value() if callable(initial_value) else initial_value
                base = name or "Variable"
                own = g.unique_name(base, mark_as_used=False)
                kind = None if dtype is None else as_dtype(dtype)
                if not isinstance(value, Tensor):
                    value = convert(value, kind, f"{own[len(g._scope):]}/initial_value")
                elif kind is not None and value.dtype != kind:
                    value = convert(value, kind)
                self._make(g, value, base, trainable, collections, validate_shape)
            self.constraint = constraint

    def _make(self, g: Any, value: Tensor, name: str, trainable: bool, collections: Any, validate: bool) -> None:
        if any(not isinstance(s, int) for s in value.node.shape):
            raise ShapeError(f"initial_value must have a shape specified: {value!r}")
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
        self.op = Operation(g, full, "VariableV2", (), {"dtype": value.dtype})
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
    dtype = property(lambda self: RefDType(self.base_dtype), doc="The reference dtype (prints ``float32_ref``).")
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

    def _effect(self, op: str, type: str, name: str, *ins: Any, weight: int = 1) -> Tensor:
        with source.hide_own_frames():
            tensors = [i if isinstance(i, Tensor) else self._operand(i, type) for i in ins]
            for t in tensors[-1:]:
                if t.dtype != self.base_dtype:
                    raise DTypeError(f"Input 'value' of '{type}' Op has type {t.dtype.name} that does not match type {self.base_dtype.name} of argument 'ref'.")
            result: Tensor = emit(type, name, tensors, lambda b, *ns: b.apply(OPS[op], (b.capture(self.node), *ns), {}), weight=weight)
            return result

    def _operand(self, value: Any, type: str) -> Tensor:
        t: Tensor = value._as_tensor() if hasattr(value, "_as_tensor") else convert(value, self.base_dtype, "value")
        return t

    def assign(self, value: Any, use_locking: bool = False, name: str | None = None, read_value: bool = True) -> Tensor:
        """Set it; the result is the new value."""
        return self._effect("assign", "Assign", name or "Assign", value)

    def assign_add(self, delta: Any, use_locking: bool = False, name: str | None = None, read_value: bool = True) -> Tensor:
        """Add to it; the result is the new value."""
        return self._effect("assign_add", "AssignAdd", name or "AssignAdd", delta)

    def assign_sub(self, delta: Any, use_locking: bool = False, name: str | None = None, read_value: bool = True) -> Tensor:
        """Subtract from it; the result is the new value."""
        return self._effect("assign_sub", "AssignSub", name or "AssignSub", delta)

    def _rows(self, op: str, type: str, indices: Any, updates: Any, name: str | None) -> Tensor:
        i = convert(indices)
        u = convert(updates, self.base_dtype) if not isinstance(updates, Tensor) else updates
        return self._effect(op, type, name or type, i, u)

    def scatter_add(self, indices: Any, updates: Any = None, name: str | None = None) -> Tensor:
        """Add rows."""
        return self._rows("variable_scatter_add", "ScatterAdd", *_sparse(indices, updates), name)

    def scatter_sub(self, indices: Any, updates: Any = None, name: str | None = None) -> Tensor:
        """Subtract rows."""
        return self._rows("variable_scatter_sub", "ScatterSub", *_sparse(indices, updates), name)

    def scatter_update(self, indices: Any, updates: Any = None, name: str | None = None) -> Tensor:
        """Replace rows."""
        return self._rows("variable_scatter_update", "ScatterUpdate", *_sparse(indices, updates), name)

    def __iter__(self) -> Any:
        raise TypeError("'Variable' object is not iterable.")

    def __bool__(self) -> bool:
        return bool(self._as_tensor())

    __hash__ = object.__hash__

    def __eq__(self, other: Any) -> bool:
        return self is other

    def __ne__(self, other: Any) -> bool:
        return self is not other


add_operators(Variable)


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
    b.site = source.capture(g._scope)
    try:
        return b.apply(OPS["group"], (), {}, tuple(dict.fromkeys(nodes)))
    finally:
        b.site = None


def is_variable_initialized(variable: Variable) -> Tensor:
    """Whether it has a value, as a bool tensor."""
    with source.hide_own_frames():
        result: Tensor = emit("IsVariableInitialized", "IsVariableInitialized", (), lambda b: b.apply(OPS["is_initialized"], (b.capture(variable.node),), {}))
        return result


def group(*inputs: Any, name: str | None = None, **_: Any) -> Operation:
    """An operation that runs all inputs."""
    with source.hide_own_frames():
        g = get_default_graph()
        flat = [x for i in inputs for x in (i if isinstance(i, (list, tuple)) else [i]) if x is not None]
        return emit_operation("NoOp", name or "group_deps", group_node(g, [n for x in flat for n in x._control_nodes_of()]), g)


def no_op(name: str | None = None) -> Operation:
    """An operation that does nothing (but waits for control dependencies)."""
    with source.hide_own_frames():
        g = get_default_graph()
        return emit_operation("NoOp", name or "NoOp", group_node(g, g._control_nodes()), g)


def tuple_(tensors: Sequence[Any], name: str | None = None, control_inputs: Any = None) -> list[Any]:
    """The tensors, none of which is ready before all are."""
    from .array_ops import identity
    with source.hide_own_frames():
        g = get_default_graph()
        real = [t for t in tensors if t is not None]
        with g.control_dependencies([*real, *(control_inputs or ())]):
            return [None if t is None else identity(t) for t in tensors]


# ---- variable scopes --------------------------------------------------------------------------------------------------------------------


class AutoReuse:
    """``AUTO_REUSE``: make what is missing, share what is there."""

    def __repr__(self) -> str:
        return "AUTO_REUSE"


AUTO_REUSE = AutoReuse()


class VariableScope:
    """Where ``get_variable`` makes variables, and its defaults there."""

    def __init__(self, name: str = "", reuse: Any = False, initializer: Any = None, regularizer: Any = None, dtype: Any = float32,
                 original_name_scope: str = "", caching_device: Any = None, custom_getter: Any = None) -> None:
        self._name, self._reuse = name, reuse
        self.initializer, self.regularizer, self.dtype = initializer, regularizer, dtype
        self.original_name_scope = original_name_scope
        self.custom_getter = custom_getter

    name = property(lambda self: self._name, doc="The prefix of its variables.")
    reuse = property(lambda self: self._reuse, doc="False, True or AUTO_REUSE.")

    def reuse_variables(self) -> None:
        """From now on share."""
        self._reuse = True

    def set_initializer(self, initializer: Any) -> None:
        """Default initializer inside."""
        self.initializer = initializer

    def set_regularizer(self, regularizer: Any) -> None:
        """Default regularizer inside."""
        self.regularizer = regularizer

    def get_variable(self, *args: Any, **kw: Any) -> Variable:
        """``get_variable`` in this scope."""
        with variable_scope(self, auxiliary_name_scope=False):
            return get_variable(*args, **kw)

    def trainable_variables(self) -> list[Variable]:
        """Trainable variables of this scope."""
        return trainable_variables(self._name)

    def global_variables(self) -> list[Variable]:
        """Variables of this scope."""
        return get_default_graph().get_collection(GraphKeys.GLOBAL_VARIABLES, self._name)


class _Shared:
    """The variables of a graph by name, and counters of default scope names."""

    def __init__(self) -> None:
        self.by_name: dict[str, Variable] = {}
        self.scopes: dict[str, int] = {}


def _shared(g: Any) -> _Shared:
    if not hasattr(g, "_shared_variables"):
        g._shared_variables = _Shared()
        g._variable_scope = VariableScope()
    result: _Shared = g._shared_variables
    return result


def get_variable_scope() -> VariableScope:
    """The current variable scope."""
    g = get_default_graph()
    _shared(g)
    result: VariableScope = g._variable_scope
    return result


@contextmanager
def variable_scope(name_or_scope: Any, default_name: str | None = None, values: Any = None, initializer: Any = None, regularizer: Any = None,
                   caching_device: Any = None, partitioner: Any = None, custom_getter: Any = None, reuse: Any = None, dtype: Any = None,
                   use_resource: Any = None, constraint: Any = None, auxiliary_name_scope: bool = True) -> Iterator[VariableScope]:
    """Within: ``get_variable`` uses this prefix and these defaults; a name scope is opened as well."""
    g = get_default_graph()
    shared = _shared(g)
    old: VariableScope = g._variable_scope
    if name_or_scope is None and default_name is None:
        raise ValueError("If default_name is None then name_or_scope is required")
    if isinstance(name_or_scope, VariableScope):
        name, label = name_or_scope.name, name_or_scope.name.split("/")[-1]
        base = name_or_scope
        mode = name_or_scope.reuse if reuse is None else reuse
    else:
        if name_or_scope is None:
            label = _unique_scope(shared, old.name, str(default_name))
        else:
            label = str(name_or_scope)
        name = f"{old.name}/{label}" if old.name else label
        base = old
        mode = reuse
    if old.reuse is True or (old.reuse is AUTO_REUSE and not mode):
        mode = mode if mode else old.reuse
        mode = True if old.reuse is True else mode
    scope = VariableScope(name, mode or False, initializer or base.initializer, regularizer or base.regularizer, dtype or base.dtype,
                          custom_getter=custom_getter or base.custom_getter)
    g._variable_scope = scope
    _forget(shared, name)
    try:
        if auxiliary_name_scope and label:
            with g.name_scope(label) as opened:
                scope.original_name_scope = opened
                yield scope
        else:
            scope.original_name_scope = g._scope
            yield scope
    finally:
        g._variable_scope = old


def _unique_scope(shared: _Shared, prefix: str, name: str) -> str:
    full = f"{prefix}/{name}" if prefix else name
    count = shared.scopes.get(full, 0)
    shared.scopes[full] = count + 1
    return name if count == 0 else f"{name}_{count}"


def _forget(shared: _Shared, name: str) -> None:
    # entering a scope starts its default names anew, so that a second entry shares what the first made
    for k in [k for k in shared.scopes if k.startswith(name + "/")]:
        del shared.scopes[k]
    shared.scopes[name] = max(1, shared.scopes.get(name, 0))


def get_variable(name: str, shape: Any = None, dtype: Any = None, initializer: Any = None, regularizer: Any = None, trainable: bool | None = None,
                 collections: Any = None, caching_device: Any = None, partitioner: Any = None, validate_shape: bool = True, use_resource: Any = None,
                 custom_getter: Any = None, constraint: Any = None, synchronization: Any = None, aggregation: Any = None) -> Variable:
    """The variable of that name in the current scope, made or shared as the scope says."""
    with source.hide_own_frames():
        g = get_default_graph()
        shared, scope = _shared(g), get_variable_scope()
        getter = custom_getter or scope.custom_getter
        if getter is not None:
            return getter(lambda n, *a, **k: _get(g, shared, scope, n, *a, **k), _full(scope, name), shape=shape, dtype=dtype, initializer=initializer,
                          regularizer=regularizer, trainable=trainable, collections=collections)
        return _get(g, shared, scope, _full(scope, name), shape, dtype, initializer, regularizer, trainable, collections, validate_shape)


def _full(scope: VariableScope, name: str) -> str:
    return f"{scope.name}/{name}" if scope.name else name


def _get(g: Any, shared: _Shared, scope: VariableScope, full: str, shape: Any = None, dtype: Any = None, initializer: Any = None,
         regularizer: Any = None, trainable: Any = None, collections: Any = None, validate_shape: bool = True, **_: Any) -> Variable:
    found = shared.by_name.get(full)
    kind = as_dtype(dtype) if dtype is not None else None
    if found is not None:
        if scope.reuse is False:
            raise ValueError(f"Variable {full} already exists, disallowed. Did you mean to set reuse=True or reuse=tf.AUTO_REUSE in VarScope? "
                             f"Originally defined at: {found.site.describe()}")
        if shape is not None and not TensorShape(shape).is_compatible_with(found.shape):
            raise ValueError(f"Trying to share variable {full}, but specified shape {TensorShape(shape)} and found shape {found.shape}.")
        if kind is not None and kind != found.base_dtype:
            raise ValueError(f"Trying to share variable {full}, but specified dtype {kind.name} and found dtype {found.dtype.name}.")
        return found
    if scope.reuse is True:
        raise ValueError(f"Variable {full} does not exist, or was not created with tf.get_variable(). Did you mean to set reuse=tf.AUTO_REUSE in VarScope?")
    kind = kind or as_dtype(scope.dtype)
    init = initializer if initializer is not None else scope.initializer
    value = _initial(full, shape, kind, init, dtype)
    with g.name_scope(None), g.control_dependencies(None):
        variable = Variable(value, trainable=True if trainable is None else trainable, collections=collections, name=full, dtype=None if initializer is not None and shape is None and dtype is None else kind,
                            validate_shape=validate_shape)
    shared.by_name[full] = variable
    rule = regularizer if regularizer is not None else scope.regularizer
    if rule is not None:
        with g.name_scope(full + "/Regularizer/"):
            loss = rule(variable)
        if loss is not None:
            g.add_to_collection(GraphKeys.REGULARIZATION_LOSSES, loss)
    return variable


def _initial(full: str, shape: Any, kind: DType, init: Any, dtype: Any) -> Any:
    if init is not None and not callable(init):
        if shape is not None:
            raise ValueError("If initializer is a constant, do not specify shape.")
        return init if isinstance(init, Tensor) else convert(init, kind if dtype is not None else None, full + "/Initializer/Const")
    if shape is None:
        raise ValueError(f"Shape of a new variable ({full}) must be fully defined, but instead was <unknown>.")
    static = TensorShape(shape)
    if not static.is_fully_defined():
        raise ValueError(f"Shape of a new variable ({full}) must be fully defined, but instead was {static}.")
    if isinstance(init, type):
        init = init()
    if init is None:
        init = glorot_uniform_initializer() if kind.is_floating else zeros_initializer()
    sizes = [int(d) for d in static.as_list()]           # type: ignore[arg-type]

    def make() -> Any:
        g = get_default_graph()
        with g.name_scope(full + "/Initializer/"):
            try:
                return init(sizes, dtype=kind, partition_info=None)
            except TypeError as error:
                if "partition_info" not in str(error):
                    raise
                return init(sizes, dtype=kind)
    return make


def make_template(name_: str, func_: Callable[..., Any], create_scope_now_: bool = False, unique_name_: Any = None, custom_getter_: Any = None, **kwargs: Any) -> Callable[..., Any]:
    """``func_`` whose variables are made at the first call and shared by later ones."""
    state: dict[str, Any] = {}

    def call(*args: Any, **kw: Any) -> Any:
        if "scope" in state:
            with variable_scope(state["scope"], reuse=True):
                return func_(*args, **{**kwargs, **kw})
        with variable_scope(None, default_name=name_) as scope:
            state["scope"] = scope
            return func_(*args, **{**kwargs, **kw})
    return call


