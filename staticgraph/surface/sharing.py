"""Sharing variables by name: variable scopes, ``get_variable`` and templates."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from .. import source
from ..dtypes import DType, as_dtype, float32
from .funnel import convert
from .initializers import glorot_uniform_initializer, zeros_initializer
from .ledger import get_default_graph
from .shapes import TensorShape
from .tensor import Tensor
from .variables import GraphKeys, Variable, trainable_variables


class AutoReuse:
    """``AUTO_REUSE``: make what is missing, share what is there."""

    def __repr__(self) -> str:
        return "AUTO_REUSE"


AUTO_REUSE = AutoReuse()


class VariableScope:
    """Where ``get_variable`` makes variables, and its defaults there."""

    def __init__(self, name: str = "", reuse: Any = False, initializer: Any = None, regularizer: Any = None, dtype: Any = float32,
                 original_name_scope: str = "", caching_device: Any = None, custom_getter: Any = None, use_resource: Any = None, constraint: Any = None) -> None:
        self._name, self._reuse = name, reuse
        self.initializer, self.regularizer, self.dtype = initializer, regularizer, dtype
        self.original_name_scope = original_name_scope
        self.custom_getter = custom_getter
        self.use_resource, self.constraint = use_resource, constraint

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
    _no_partitions(partitioner)
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
                          custom_getter=custom_getter or base.custom_getter, use_resource=base.use_resource if use_resource is None else use_resource,
                          constraint=constraint or base.constraint)
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


def _no_partitions(partitioner: Any) -> None:
    if partitioner is not None:
        raise NotImplementedError("partitioned variables are not available: leave partitioner out, the variable is one piece")


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
        _no_partitions(partitioner)
        getter = custom_getter or scope.custom_getter
        given = {"shape": shape, "dtype": dtype, "initializer": initializer, "regularizer": regularizer, "trainable": trainable, "collections": collections,
                 "validate_shape": validate_shape, "use_resource": use_resource, "constraint": constraint}
        if getter is not None:
            return getter(lambda n, *a, **k: _get(g, shared, scope, n, *a, **k), _full(scope, name), **given)
        return _get(g, shared, scope, _full(scope, name), **given)


def _full(scope: VariableScope, name: str) -> str:
    return f"{scope.name}/{name}" if scope.name else name


def _get(g: Any, shared: _Shared, scope: VariableScope, full: str, shape: Any = None, dtype: Any = None, initializer: Any = None,
         regularizer: Any = None, trainable: Any = None, collections: Any = None, validate_shape: bool = True, use_resource: Any = None,
         constraint: Any = None, caching_device: Any = None, partitioner: Any = None, reuse: Any = None, synchronization: Any = None,
         aggregation: Any = None) -> Variable:
    _no_partitions(partitioner)
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
                            validate_shape=validate_shape, constraint=constraint or scope.constraint, use_resource=scope.use_resource if use_resource is None else use_resource)
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
        return init if isinstance(init, Tensor) else convert(init, kind if dtype is not None else None, full + "/initial_value")
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

    def enter() -> Any:
        if unique_name_ is not None:         # this very name: two templates of it share their variables
            return variable_scope(unique_name_, reuse=AUTO_REUSE, custom_getter=custom_getter_)
        return variable_scope(None, default_name=name_, custom_getter=custom_getter_)
    if create_scope_now_:
        with enter() as scope:
            state["made"] = scope

    def call(*args: Any, **kw: Any) -> Any:
        if "scope" in state:
            with variable_scope(state["scope"], reuse=True):
                return func_(*args, **{**kwargs, **kw})
        with variable_scope(state["made"]) if create_scope_now_ else enter() as scope:
            result = func_(*args, **{**kwargs, **kw})
            state["scope"] = scope
            return result
    return call


