"""The ledger of a graph: operations and tensors with TF1's names, above an IR that has none.

One ``Operation`` stands for one TF1 NodeDef and any number of IR nodes. ``weight`` counts the nodes TF 1.15 would have made, so that seeds
drawn from op counts agree. Everything TF1 keeps by name (scopes, collections, fetching ``"a:0"``) is a view of this.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from .. import source
from ..dtypes import int64
from ..errors import GraphError
from ..ir.builder import GraphBuilder
from ..ir.graph import Graph as IRGraph
from ..ir.graph import Node
from ..ir.opdef import OPS, OpDef
from .devices import from_function, merged

LOOP_RESERVE = 1 << 40                        # blocks of a random stream that one run of a loop may use
_VALID = re.compile(r"^[A-Za-z0-9.][A-Za-z0-9_.\\\-/]*$")
_VALID_SCOPE = re.compile(r"^[A-Za-z0-9_.\\\-/]*$")


class LedgerBuilder(GraphBuilder):
    """Builds IR nodes for the surface: control inputs and the name scope come from the ledger, foreign nodes are captured."""

    def __init__(self, ledger: Graph, graph: IRGraph, outer: LedgerBuilder | None = None) -> None:
        super().__init__(graph)
        self.ledger = ledger
        self.outer = outer
        self.captures: dict[Node, Node] = {}
        self.counter: Callable[[], Node] | None = None   # in a loop's body: the iteration number
        self.late: Callable[[Any, Node], Node | None] | None = None                 # in a loop's body: a parameter for a part of an open handle

    def node(self, op: OpDef, inputs: tuple[Node, ...], attrs: dict[str, Any], control: tuple[Node, ...] = ()) -> Node:
        if self.outer is not None and "draw" in op.traits and not inputs:
            return self._outer_stream(op, attrs)
        self.scope = self.ledger._scope
        extra = tuple(n for n in self.ledger._control_nodes() if self.owns(n) and n not in inputs)
        if extra and (inputs or op.has_effect or "read" in op.traits):
            control = (*control, *(n for n in extra if n not in control))
        return super().node(op, tuple(self.capture(i) for i in inputs), attrs, control)

    def _outer_stream(self, op: OpDef, attrs: dict[str, Any]) -> Node:
        """A stream used inside a region lives outside of it, so that the reverse pass, which runs the region again, draws the same numbers.

        Each iteration of a loop takes its own part of a large reserve.
        """
        assert self.outer is not None
        if self.counter is None:
            return self.capture(self.outer.node(op, (), attrs))
        key = self.capture(self.outer.node(op, (), {**attrs, "advance": LOOP_RESERVE}))
        place = self.counter()
        step: Node = self.mul(self.broadcast_to(self.reshape(place, shape=(1,)), shape=(3,)), self.sizes(sizes=(0, 0, attrs["advance"]), dtype=int64))
        result: Node = self.add(key, step)
        return result

    def owns(self, n: Node) -> bool:
        """Whether the node is in this builder's own graph."""
        return n.id < len(self.graph.nodes) and self.graph.nodes[n.id] is n

    def capture(self, n: Node) -> Node:
        """The node itself, or the parameter that stands for an outer one. A variable (or a state of the run) is referred to again instead."""
        if self.owns(n):
            return n
        if self.outer is None:
            raise ValueError("a value from inside a loop body or a branch, or from another graph, was used outside of it")
        found = self.captures.get(n)
        if found is not None:
            return found
        if n.op is OPS["variable"] or n.op is OPS["run_state"]:
            made = self.graph.add(n.op, (), n.attrs, n.aval, site=n.site)
        else:
            self.outer.capture(n)
            made = self.graph.add(OPS["param"], (), (("aval", n.aval), ("index", -1 - len(self.captures))), n.aval, site=n.site)
        self.captures[n] = made
        return made

    def sub_builder(self, graph: IRGraph) -> GraphBuilder:
        return GraphBuilder(graph, self.site, self.role, self.scope)


class LeakedValueError(GraphError, RuntimeError):
    """A value that stood for an argument or a result while a function was traced, used after that.

    ::

        seen = []
        f = sg.function(lambda x: seen.append(x * 2) or x)
        f(1.0); seen[0] + 1                              # this error: return x * 2 from the function
    """


class Names(dict[str, int]):
    """Counters of names; ``log`` keeps what they were before each change."""

    log: list[tuple[str, int | None]] | None = None

    def __setitem__(self, key: str, count: int) -> None:
        if self.log is not None:
            self.log.append((key, self.get(key)))
        super().__setitem__(key, count)


class Graph:
    """TF1's ``tf.Graph``: operations, names, scopes, collections, control dependencies."""

    def __init__(self) -> None:
        self.ir = IRGraph()
        self.builder = LedgerBuilder(self, self.ir)
        self.operations: dict[str, Any] = {}
        self._names = Names()
        self._scope = ""
        self._scope_names: dict[str, int] = {}
        self._controls: list[Any] = []
        self._devices: list[Any] = []
        self._beside: tuple[bytes, ...] = ()             # what ``colocate_with`` asked for
        self.placed = False                              # whether an operation is to be on a device that is not a CPU
        self._collections: dict[str, list[Any]] = {}
        self._finalized = False
        self.traced: str | None = None                   # the function (sg.function) this graph is the trace of
        self.seed: int | None = None
        self.op_count = 0
        self._uids = 0
        self._spare_uids: list[int] = []                 # numbers of a call that is made again
        self.attempt: Any = None                         # growing.Traced, while the body of a loop may have to be traced again
        self.ranks: Any = None                           # deferred.Ranks, once there is a placeholder of unknown rank
        self._unfeedable: set[Any] = set()
        self._unfetchable: set[Any] = set()
        self._gradient_overrides: list[dict[str, str]] = []
        self._variable_scope: Any = None
        self.variables: dict[Any, Any] = {}              # by uid
        self.placeholders: dict[Any, Any] = {}           # IR node -> Tensor
        self.defaults: dict[Any, Any] = {}               # placeholder's IR node -> the constant that stands in where it is not fed
        self.lock = threading.RLock()

    # ---- names -------------------------------------------------------------------------------------------------------------------

    def unique_name(self, name: str, mark_as_used: bool = True) -> str:
        """``name`` under the current scope, made unique without regard to case."""
        full = self._scope + name if self._scope else name
        return self._unique(full, mark_as_used)

    def _unique(self, full: str, mark: bool = True) -> str:
        key = full.lower()
        count = self._names.get(key, 0)
        if mark:
            self._names[key] = count + 1
        if count == 0:
            return full
        while True:
            made = f"{full}_{count}"
            if made.lower() not in self._names:
                break
            count += 1
        if mark:
            self._names[key] = count + 1
            self._names[made.lower()] = 1
        return made

    @contextmanager
    def name_scope(self, name: str | None) -> Iterator[str]:
        """Within: operations are named under ``name``. Gives the scope's string (``"s/"``)."""
        saved = self._scope
        if not name:
            self._scope = ""
        elif name.endswith("/"):
            self._scope = name
        else:
            if not _VALID_SCOPE.match(name) or (not saved and not _VALID.match(name)):
                raise ValueError(f"'{name}' is not a valid scope name")
            self._scope = self.unique_name(name) + "/"
        try:
            yield self._scope
        finally:
            self._scope = saved

    def get_name_scope(self) -> str:
        """The current scope, without the last ``/``."""
        return self._scope.removesuffix("/")

    def is_valid_name(self, name: str) -> bool:
        """Whether an operation may have that name here (within a scope it may also start with ``_`` or ``-``)."""
        return bool((_VALID_SCOPE if self._scope else _VALID).match(name))

    def operation_name(self, name: str) -> str:
        """The final name of a new operation. ValueError for one that is not valid."""
        if name.endswith("/"):                           # a scope's string names the operation itself
            return name[:-1]
        if not self.is_valid_name(name):
            raise ValueError(f"'{name}' is not a valid node name")
        return self.unique_name(name)

    # ---- control dependencies and devices ----------------------------------------------------------------------------------------

    @contextmanager
    def control_dependencies(self, inputs: Sequence[Any] | None) -> Iterator[None]:
        """Within: new operations wait for ``inputs``; None clears what outer blocks asked for."""
        saved = self._controls
        if inputs is None:
            self._controls = []
        else:
            added = []
            for i in inputs:
                item = getattr(i, "_control_target", i)
                item = item() if callable(item) else item
                if not hasattr(item, "_control_nodes_of"):
                    raise TypeError(f"Control input must be an Operation, a Tensor or a Variable, got {i!r}")
                if getattr(item, "graph", self) is not self:
                    raise ValueError(f"{_kind(item)} {item} is not an element of this graph.")
                added.append(item)
            self._controls = [*saved, *added]
        try:
            yield
        finally:
            self._controls = saved

    def _control_nodes(self) -> list[Node]:
        return [n for c in self._controls for n in c._control_nodes_of()]

    @contextmanager
    def device(self, name: Any) -> Iterator[None]:
        """Within: operations say that they are on this device. Everything runs on the CPU: another one needs ``allow_soft_placement``."""
        outer = self._devices[-1] if self._devices else ""
        self._devices.append(from_function(name) if callable(name) else "" if name is None else merged(outer, str(name)))
        try:
            yield
        finally:
            self._devices.pop()

    def device_of(self, op: Any) -> str:
        """The device of a new operation."""
        if not self._devices:
            return ""
        chosen = self._devices[-1]
        found: str = chosen(op) if callable(chosen) else chosen
        self.placed |= bool(found) and "CPU" not in found
        return found

    @contextmanager
    def colocate_with(self, op: Any, ignore_existing: bool = False) -> Iterator[None]:
        """Within: operations say that they are where ``op`` is (``colocation_groups``); there is one device."""
        saved = self._beside
        target = None if op is None else getattr(op, "op", op)
        self._beside = (*(() if ignore_existing else saved), *(() if target is None else target.colocation_groups()))
        try:
            yield
        finally:
            self._beside = saved

    @contextmanager
    def gradient_override_map(self, mapping: dict[str, str]) -> Iterator[None]:
        """Within: operations of a type take a registered gradient of another name."""
        self._gradient_overrides.append(dict(mapping))
        try:
            yield
        finally:
            self._gradient_overrides.pop()

    # ---- collections ---------------------------------------------------------------------------------------------------------------

    def add_to_collection(self, name: str, value: Any) -> None:
        """Append to a collection."""
        self.check_open()
        self._collections.setdefault(name, []).append(value)

    def add_to_collections(self, names: Any, value: Any) -> None:
        """Append to several."""
        for n in dict.fromkeys([names] if isinstance(names, str) else names):
            self.add_to_collection(n, value)

    def get_collection(self, name: str, scope: str | None = None) -> list[Any]:
        """A new list; ``scope`` filters by ``re.match`` on the items' names."""
        items = self._collections.get(name, [])
        return [i for i in items if scope is None or (hasattr(i, "name") and re.match(scope, i.name))]

    def get_collection_ref(self, name: str) -> list[Any]:
        """The list itself."""
        return self._collections.setdefault(name, [])

    def get_all_collection_keys(self) -> list[str]:
        """Names of collections that hold something."""
        return [k for k, v in self._collections.items() if v]

    collections = property(lambda self: self.get_all_collection_keys(), doc="Names of collections that hold something.")

    def clear_collection(self, name: str) -> None:
        """Empty a collection."""
        self._collections.pop(name, None)

    # ---- looking up ------------------------------------------------------------------------------------------------------------------

    def get_operations(self) -> list[Any]:
        """All operations, in order of creation."""
        return list(self.operations.values())

    def get_operation_by_name(self, name: str) -> Any:
        """The operation. KeyError where there is none, ValueError for a tensor's name."""
        if not isinstance(name, (str, bytes)):
            raise TypeError(f"Operation names are strings (or similar), not {type(name).__name__}.")
        return self._named(name, False, True)

    def get_tensor_by_name(self, name: str) -> Any:
        """The tensor ``"op:0"``. ValueError for an operation's name, KeyError where there is none."""
        if not isinstance(name, (str, bytes)):
            raise TypeError(f"Tensor names are strings (or similar), not {type(name).__name__}.")
        return self._named(name, True, False)

    def _named(self, given: str | bytes, allow_tensor: bool, allow_operation: bool) -> Any:
        name = given.decode() if isinstance(given, bytes) else given
        form = 'Tensor names must be of the form "<op_name>:<output_index>".'
        op_name, colon, index = name.partition(":")
        op = self.operations.get(op_name)
        if colon and allow_tensor:
            if not op_name or not index.isdigit():
                raise ValueError(f"The name {name!r} looks a like a Tensor name, but is not a valid one. {form}")
            if op is None:
                raise KeyError(f"The name {name!r} refers to a Tensor which does not exist. The operation, {op_name!r}, does not exist in the graph.")
            if int(index) >= len(op.outputs):
                raise KeyError(f"The name {name!r} refers to a Tensor which does not exist. The operation, {op_name!r}, exists but only has {len(op.outputs)} outputs.")
            return op.outputs[int(index)]
        if colon:
            raise ValueError(f"Name {name!r} appears to refer to a Tensor, not a Operation.")
        if not allow_operation:
            if op is None:
                raise ValueError(f"The name {name!r} looks like an (invalid) Operation name, not a Tensor. {form}")
            raise ValueError(f"The name {name!r} refers to an Operation, not a Tensor. {form}")
        if op is None:
            raise KeyError(f"The name {name!r} refers to an Operation not in the graph.")
        return op

    def as_graph_element(self, obj: Any, allow_tensor: bool = True, allow_operation: bool = True) -> Any:
        """The operation or tensor that an object or a name stands for."""
        from .tensor import Operation, Tensor
        if not allow_tensor and not allow_operation:
            raise ValueError("allow_tensor and allow_operation can't both be False.")
        converted = getattr(obj, "_as_graph_element", None)
        obj = converted() if converted is not None else obj
        if isinstance(obj, (str, bytes)):
            return self._named(obj, allow_tensor, allow_operation)
        if (isinstance(obj, Tensor) and allow_tensor) or (isinstance(obj, Operation) and allow_operation):
            if obj.graph is not self:
                raise ValueError(f"{_kind(obj)} {obj} is not an element of this graph.")
            return obj
        wanted = " or ".join(k for k, ok in (("Tensor", allow_tensor), ("Operation", allow_operation)) if ok)
        raise TypeError(f"Can not convert a {type(obj).__name__} into a {wanted}.")

    def as_graph_def(self, from_version: int | None = None, add_shapes: bool = False) -> Any:
        """A view of the operations (those from number ``from_version`` on), as TF1's GraphDef: ``.node[k].name``, ``.op``, ``.input``."""
        from .protos import GraphDef, node_def
        return GraphDef(node=[node_def(op) for op in list(self.operations.values())[from_version or 0:]])

    # ---- life ------------------------------------------------------------------------------------------------------------------------

    def as_default(self) -> Any:
        """Context manager: this graph is the default one (of this thread)."""
        return _default_graph(self)

    def finalize(self) -> None:
        """Refuse further operations."""
        self._finalized = True

    finalized = property(lambda self: self._finalized, doc="Whether no operation can be added.")
    version = property(lambda self: len(self.operations), doc="Grows with every operation.")
    building_function = False

    def check_open(self) -> None:
        """RuntimeError for a finalized graph."""
        if self._finalized and self.traced is not None:
            raise LeakedValueError(f"a value of {self.traced} is used after its trace has ended: it stands for no number. Return it from the function, and compute with the result; "
                                   "Python code of a traced function (such as an append to a list outside of it) runs while it is traced only")
        if self._finalized:
            raise RuntimeError("Graph is finalized and cannot be modified.")

    def is_inside(self, op: Any) -> bool:
        """Whether an operation belongs to a loop's body or a branch."""
        nodes = self.ir.nodes
        return any(n.id >= len(nodes) or nodes[n.id] is not n for n in (*(t._node for t in op.outputs), *([] if op._node is None else [op._node])))

    def is_feedable(self, tensor: Any) -> bool:
        """Whether the tensor may be fed."""
        return tensor not in self._unfeedable and not self.is_inside(tensor.op)

    def prevent_feeding(self, tensor: Any) -> None:
        """Refuse feeds of the tensor."""
        self._unfeedable.add(tensor)

    def is_fetchable(self, item: Any) -> bool:
        """Whether it may be fetched."""
        return item not in self._unfetchable and not self.is_inside(getattr(item, "op", item))

    def prevent_fetching(self, op: Any) -> None:
        """Refuse fetches of the operation and its outputs."""
        self._unfetchable |= {op, *op.outputs}

    @property
    def fences(self) -> int:
        """How much may not be fed or fetched: it only grows."""
        return len(self._unfeedable) + len(self._unfetchable)

    def next_uid(self) -> int:
        """A number for a placeholder, variable or stream of this graph."""
        if self._spare_uids:
            return self._spare_uids.pop()
        self._uids += 1
        return self._uids

    def to_networkx(self) -> Any:
        """The IR as a networkx graph."""
        return self.ir.to_networkx()

    def to_dot(self) -> str:
        """The IR as Graphviz text."""
        return self.ir.to_dot()

    def __str__(self) -> str:
        return str(self.ir)


def _kind(item: Any) -> str:
    return "Tensor" if hasattr(item, "consumers") else "Operation"


class _Stack(threading.local):
    """Per thread: default graphs and sessions."""

    def __init__(self) -> None:
        self.graphs: list[Graph] = []
        self.sessions: list[Any] = []


_stack = _Stack()
_global = Graph()


def remove_last(items: list[Any], item: Any) -> None:
    """Remove the innermost of equal entries of a stack."""
    del items[len(items) - 1 - items[::-1].index(item)]


@contextmanager
def _default_graph(g: Graph) -> Iterator[Graph]:
    _stack.graphs.append(g)
    try:
        yield g
    finally:
        remove_last(_stack.graphs, g)


def get_default_graph() -> Graph:
    """The innermost ``with graph.as_default()`` of this thread, else the process's default graph."""
    return _stack.graphs[-1] if _stack.graphs else _global


def reset_default_graph() -> None:
    """A new default graph. AssertionError inside ``with graph.as_default()``."""
    global _global
    if _stack.graphs:
        raise AssertionError("Do not use tf.reset_default_graph() to clear nested graphs. If you need a cleared graph, exit the nesting and create a new graph.")
    _global = Graph()


def get_default_session() -> Any:
    """The innermost ``with session`` of this thread, or None."""
    return _stack.sessions[-1] if _stack.sessions else None


def stack() -> _Stack:
    """This thread's defaults."""
    return _stack


def here() -> source.Site:
    """The user's line."""
    return source.capture(get_default_graph()._scope)
