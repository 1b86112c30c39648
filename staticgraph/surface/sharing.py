"""Sharing variables by name: variable scopes, ``get_variable`` and templates."""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from .. import source
from ..dtypes import DType, as_dtype, float32
from .deferred import apart
from .funnel import convert
from .initializers import Initializer, glorot_uniform_initializer, zeros_initializer
from .ledger import get_default_graph
from .shapes import TensorShape
from .tensor import Tensor
from .variables import GraphKeys, Variable, trainable_variables


class _ReuseMode(enum.Enum):
    """``AUTO_REUSE``: make what is missing, share what is there."""

    AUTO_REUSE = 1


AUTO_REUSE = _ReuseMode.AUTO_REUSE


class VariableScope:
    """Where ``get_variable`` makes variables, and its defaults there."""

    def __init__(self, name: str = "", reuse: Any = False, initializer: Any = None, regularizer: Any = None, dtype: Any = float32,
                 original_name_scope: str = "", caching_device: Any = None, custom_getter: Any = None, use_resource: Any = None, constraint: Any = None) -> None:
        self._name, self._reuse = name, reuse
        self.initializer, self.regularizer, self.dtype = initializer, regularizer, dtype
        self.original_name_scope = original_name_scope
        self.caching_device, self.custom_getter, self.partitioner = caching_device, custom_getter, None
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
        return self.get_collection(GraphKeys.TRAINABLE_VARIABLES)

    def global_variables(self) -> list[Variable]:
        """Variables of this scope."""
        return self.get_collection(GraphKeys.GLOBAL_VARIABLES)

    def local_variables(self) -> list[Variable]:
        """Local variables of this scope."""
        return self.get_collection(GraphKeys.LOCAL_VARIABLES)

    def get_collection(self, name: str) -> list[Any]:
        """Items of a collection in this scope."""
        return get_default_graph().get_collection(name, self._name + "/" if self._name else "")


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
    """Within: ``get_variable`` uses this prefix and these defaults; a name scope is opened as well.

    A scope object is entered under its own absolute name. TypeError for what is neither a name nor such an object.
    """
    with source.hide_own_frames():
        _check_scope(name_or_scope, default_name, reuse, auxiliary_name_scope)
        _no_partitions(partitioner)
        g = get_default_graph()
        shared = _shared(g)
        old: VariableScope = g._variable_scope
        again = isinstance(name_or_scope, VariableScope)
        base = name_or_scope if again else old
        if again:
            name, label = base.name, base.name.split("/")[-1]
        else:
            label = str(name_or_scope) if name_or_scope is not None else _unique_scope(shared, old.name, str(default_name))
            name = f"{old.name}/{label}" if old.name else label
        scope = VariableScope(name, reuse or base.reuse or False, initializer or base.initializer, regularizer or base.regularizer, dtype or base.dtype,
                              caching_device=caching_device or base.caching_device, custom_getter=custom_getter or base.custom_getter,
                              use_resource=base.use_resource if use_resource is None else use_resource, constraint=constraint or base.constraint)
    g._variable_scope = scope
    shared.scopes[name] = shared.scopes.get(name, 0) + 1
    counts = dict(shared.scopes)
    try:
        with g.name_scope(label) if auxiliary_name_scope and label else nullcontext(g._scope) as opened:
            scope.original_name_scope = base.original_name_scope if again else opened
            yield scope
    finally:
        g._variable_scope = old
        # default names inside start anew at the next entry, so that it shares what this one made
        shared.scopes = counts if again else {k: 0 if k.startswith(name + "/") else n for k, n in shared.scopes.items()}


def _check_scope(name_or_scope: Any, default_name: Any, reuse: Any, auxiliary_name_scope: Any) -> None:
    if name_or_scope is None and default_name is None:
        raise TypeError("If default_name is None then name_or_scope is required")
    if not isinstance(name_or_scope, (str, VariableScope, type(None))):
        raise TypeError("VariableScope: name_or_scope must be a string or VariableScope.")
    if reuse not in (None, True, False, AUTO_REUSE):
        raise ValueError("The reuse parameter must be True or False or None.")
    if not isinstance(auxiliary_name_scope, bool):
        raise TypeError(f"The auxiliary_name_scope must be `True` or `False`, while get {auxiliary_name_scope}")


def _no_partitions(partitioner: Any) -> None:
    if partitioner is not None:
        raise NotImplementedError("partitioned variables are not available: leave partitioner out, the variable is one piece")


def _unique_scope(shared: _Shared, prefix: str, name: str) -> str:
    full = f"{prefix}/{name}" if prefix else name
    number = 0
    while shared.scopes.get(f"{full}_{number}" if number else full, 0):
        number += 1
    return f"{name}_{number}" if number else name


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
    kind = as_dtype(dtype if dtype is not None else scope.dtype).base_dtype
    if found is not None:
        if scope.reuse is False and not (g.attempt is not None and found.op in g.attempt.kept and g.attempt.again):
            raise ValueError(f"Variable {full} already exists, disallowed. Did you mean to set reuse=True or reuse=tf.AUTO_REUSE in VarScope? "
                             f"Originally defined at: {found.site.describe()}")
        if shape is not None and not TensorShape(shape).is_compatible_with(found.shape):
            raise ValueError(f"Trying to share variable {full}, but specified shape {TensorShape(shape)} and found shape {found.shape}.")
        if kind != found.base_dtype:
            raise ValueError(f"Trying to share variable {full}, but specified dtype {kind.name} and found dtype {found.dtype.name}.")
        return found
    if scope.reuse is True:
        raise ValueError(f"Variable {full} does not exist, or was not created with tf.get_variable(). Did you mean to set reuse=tf.AUTO_REUSE in VarScope?")
    init = initializer if initializer is not None else scope.initializer
    value = _initial(full, shape, kind, init, dtype)
    with g.name_scope(None), g.control_dependencies(None):
        variable = Variable(value, trainable=True if trainable is None else trainable, collections=collections, name=full, dtype=None if initializer is not None and shape is None else kind,
                            validate_shape=validate_shape, constraint=constraint or scope.constraint, use_resource=scope.use_resource if use_resource is None else use_resource)
    shared.by_name[full] = variable
    rule = regularizer if regularizer is not None else scope.regularizer
    if rule is not None:
        with apart(g), g.name_scope(full + "/Regularizer/"):
            loss = rule(variable)
        if loss is not None:
            g.add_to_collection(GraphKeys.REGULARIZATION_LOSSES, loss)
    return variable


def _initial(full: str, shape: Any, kind: DType, init: Any, dtype: Any) -> Any:
    if init is not None and not callable(init):
        if shape is not None:
            raise ValueError("If initializer is a constant, do not specify shape.")
        if not isinstance(init, Tensor):
            g = get_default_graph()
            with apart(g), g.name_scope(None):
                init = convert(init, None, full + "/initial_value")
        if dtype is not None and init.dtype != kind:
            raise ValueError(f"Initializer type '{init.dtype}' and explicit dtype '{kind}' don't match.")
        return init
    if shape is None and init is not None and not isinstance(init, (type, Initializer)):
        return init                                      # a function without arguments
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


class Template:
    """A function whose variables are made at its first call and shared by later ones; each call names its operations anew."""

    def __init__(self, name: str, func: Callable[..., Any], create_scope_now: bool, unique_name: str | None, custom_getter: Any) -> None:
        self._name, self._func, self._unique, self._getter = name, func, unique_name, custom_getter
        self._scope: VariableScope | None = None
        self._called = False
        if create_scope_now:
            self._open()

    name = property(lambda self: self._name, doc="Its name.")
    func = property(lambda self: self._func, doc="The function.")
    variable_scope = var_scope = property(lambda self: self._scope, doc="Where its variables are, or None before they are made.")
    variables = global_variables = property(lambda self: self._made(GraphKeys.GLOBAL_VARIABLES), doc="Its variables.")
    trainable_variables = property(lambda self: self._made(GraphKeys.TRAINABLE_VARIABLES), doc="Those that optimizers change.")
    local_variables = property(lambda self: self._made(GraphKeys.LOCAL_VARIABLES), doc="Its local variables.")

    def _made(self, key: str) -> list[Variable]:
        return self._scope.get_collection(key) if self._scope is not None else []

    def _open(self) -> None:
        with variable_scope(self._unique, default_name=self._name, custom_getter=self._getter, auxiliary_name_scope=False) as scope:
            self._scope = scope

    def __call__(self, *args: Any, **kw: Any) -> Any:
        if self._scope is None:
            self._open()
        assert self._scope is not None
        before = len(trainable_variables())
        # a name scope of its own: the variables' scope has a name that is unique among scopes of variables
        with variable_scope(self._scope, reuse=self._called, auxiliary_name_scope=False), get_default_graph().name_scope(self._unique or self._name):
            result = self._func(*args, **kw)
        made = trainable_variables()[before:]
        if self._called and made:
            raise ValueError(f"Trainable variable created when calling a template after the first time, perhaps you used tf.Variable when you meant tf.get_variable: {made}")
        self._called = True
        return result


def make_template(name_: str, func_: Callable[..., Any], create_scope_now_: bool = False, unique_name_: str | None = None, custom_getter_: Any = None,
                  **kwargs: Any) -> Template:
    """``func_`` (with ``kwargs``) as a template. ``unique_name_`` is its name as it stands: a second template of it cannot make the same variables."""
    return Template(name_, functools.partial(func_, **kwargs) if kwargs else func_, create_scope_now_, unique_name_, custom_getter_)


def get_local_variable(*args: Any, **kw: Any) -> Variable:
    """``get_variable`` for a local variable: in LOCAL_VARIABLES, not trained."""
    keys = list(kw.pop("collections", None) or []) + [GraphKeys.LOCAL_VARIABLES]
    return get_variable(*args, **{**kw, "trainable": False, "collections": keys})
