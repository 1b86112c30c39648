"""Scopes, control dependencies and collections of the default graph."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from .. import source
from .funnel import convert, graph_of
from .ledger import get_default_graph
from .now import is_now

newaxis = None


class name_scope:
    """Within: operations are named under ``name`` (None with ``default_name``: that one), in the graph of the tensors among ``values``.

    Gives the scope's string.
    """

    def __init__(self, name: Any, default_name: str | None = None, values: Any = None) -> None:
        if not isinstance(name, (str, type(None))) or not isinstance(default_name, (str, type(None))):
            raise TypeError(f"the name of a scope is a string, not {(name if isinstance(default_name, (str, type(None))) else default_name)!r}")
        self._name, self._values = name if name is not None else default_name, values

    name = property(lambda self: self._name, doc="The name.")

    def __enter__(self) -> str:
        self._contexts = ExitStack()
        with source.hide_own_frames():
            if self._name is None and self._values is not None:
                raise ValueError("At least one of name (None) and default_name (None) must be provided.")
            graph = graph_of(self._values or ())
            if graph is not get_default_graph():
                self._contexts.enter_context(graph.as_default())
            scope: str = self._contexts.enter_context(graph.name_scope(self._name))
            return scope

    def __exit__(self, *exc: Any) -> None:
        self._contexts.__exit__(*exc)


def control_dependencies(control_inputs: Any) -> Any:
    """Within: new operations of the default graph wait for ``control_inputs``."""
    return get_default_graph().control_dependencies(control_inputs)


def device(name: Any) -> Any:
    """Accepted; everything runs on the CPU."""
    return get_default_graph().device(name)


def colocate_with(op: Any, ignore_existing: bool = False) -> Any:
    """Accepted; there is one device."""
    return get_default_graph().colocate_with(op)


def get_collection(key: str, scope: str | None = None) -> list[Any]:
    """A new list of a collection's items."""
    return get_default_graph().get_collection(key, scope)


def get_collection_ref(key: str) -> list[Any]:
    """The collection itself."""
    return get_default_graph().get_collection_ref(key)


def add_to_collection(name: str, value: Any) -> None:
    """Append to a collection."""
    get_default_graph().add_to_collection(name, value)


def add_to_collections(names: Any, value: Any) -> None:
    """Append to several collections."""
    get_default_graph().add_to_collections(names, value)


def convert_to_tensor(value: Any, dtype: Any = None, name: str | None = None, preferred_dtype: Any = None, dtype_hint: Any = None) -> Any:
    """A tensor of ``value``. ValueError where a tensor has another dtype than asked for."""
    found = convert(value, dtype, name or "Const", preferred_dtype or dtype_hint)
    return value if is_now((found,)) else found
