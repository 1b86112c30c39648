"""Sessions: fetches and feeds to executables, on state that a run changes all at once or not at all."""

from __future__ import annotations

import collections
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from .. import source
from ..config import Config, log, log_wants
from ..dtypes import string
from ..errors import CancelledError, Error, FailedPreconditionError, InaccessibleTensorError, InvalidArgumentError, NotFoundError, UnimplementedError
from ..ir import walk
from ..ir.aval import Dim, TupleAval, symbols_of
from ..ir.graph import Node
from ..ir.opdef import OPS
from ..runtime.hostcall import Calls
from ..runtime.interrupt import time_limit
from ..runtime.state import StateStore
from .callables import Repeated, native_call, prepared_call
from .deferred import Found, depends_on_ranks, ranks_fed
from .feeds import prepared
from .ledger import Graph, get_default_graph, get_default_session, remove_last, stack
from .protos import ConfigProto
from .sizes import contradicts
from .tensor import Operation, Tensor
from .variables import group_node

# what is refused while building is worded otherwise where only the run finds it
_RUN_TIME_WORDS = (
    (r"^Cannot reshape a tensor with (\d+) elements to shape \[[^\]]*\] \((\d+) elements\)", r"Input to reshape is a tensor with \1 values, but the requested shape has \2"),
    (r"^Dimensions of inputs should match: (shape\[0\] = \[[^\]]*\] vs\. )(\[[^\]]*\]) \(axis \d+\)", r"ConcatOp : Dimensions of inputs should match: \1shape[1] = \2"),
    (r"^(Reduction axis \d+ is empty in shape \[\d+), (\d+\])", r"\1,\2"))


class Plan:
    """One set of fetches and feeds: the executables for it by which variables have no value."""

    def __init__(self, session: BaseSession, tensors: list[Tensor], ops: list[Operation], feeds: list[Tensor]) -> None:
        self.tensors, self.ops, self.feeds = tensors, ops, feeds
        self.native: tuple[Any, Any] = None, None            # an executable that has run, and its native call where there can be one
        g = session.graph
        nodes = [t.node for t in tensors]
        run = [n for op in ops for n in op._control_nodes_of()]
        if run:
            with g.lock:
                nodes.append(group_node(g, run))
        self.nodes = nodes
        fed = [t.node for t in feeds]
        self.order = walk.ancestors(nodes, stop=fed) if nodes else []
        for n in self.order:
            v = g.variables.get(n.inputs[0].attr("uid")) if "assign" in n.op.traits or n.op is OPS["read"] else None
            if v is not None and v._snapshot.node in fed and n not in fed:
                source.raise_at(n.site, InvalidArgumentError(None, v.op, f"variable {v.op.name} is fed in this run: it cannot be assigned"))
        self.variables = sorted({n.attr("uid") for n in self.order if n.op is OPS["variable"]} | {
            uid for n in self.order for r in n.regions for uid in _variables_in(r)})
        needed = {*self.order, *_sources_of_sizes(g, self.order)}
        self.used = [t for t in feeds if t.node in needed]
        open_nodes = [n for n in (*self.order, *(needed - set(self.order))) if n.op is OPS["placeholder"] and n not in set(fed)]
        self.defaults = {n: g.defaults[n].array for n in open_nodes if n in g.defaults}
        self.unfed = [n for n in open_nodes if n not in g.defaults]
        self.executables: dict[frozenset[Any], Any] = {}
        self.reads_missing: Any = None


def _sources_of_sizes(g: Graph, order: list[Node]) -> list[Node]:
    """Placeholders that no node reads but whose sizes the nodes need: ``shape(p)`` alone."""
    present = set(order)
    open_sizes = {n: set().union(*(symbols_of(d) for d in n.aval.shape)) for n in g.placeholders if n not in present}
    open_sizes = {n: names for n, names in open_sizes.items() if names}
    if not open_sizes:
        return []
    read: set[str] = set()
    for n in order:
        sizes = [d for a in (n.aval.elements if isinstance(n.aval, TupleAval) else (n.aval,)) for d in a.shape]
        sizes += [d for _, v in n.attrs if isinstance(v, tuple) for d in v if isinstance(d, Dim)]
        read.update(*(symbols_of(d) for d in sizes))
    for n in present & set(g.placeholders):
        read.difference_update(*(symbols_of(d) for d in n.aval.shape))
    return [n for n, names in open_sizes.items() if names & read]


def _variables_in(region: Any) -> set[Any]:
    out = set()
    for n in region.nodes:
        if n.op is OPS["variable"]:
            out.add(n.attr("uid"))
        for r in n.regions:
            out |= _variables_in(r)
    return out


class BaseSession:
    """Runs parts of a graph; holds the values of its variables."""

    def __init__(self, target: str = "", graph: Graph | None = None, config: Any = None) -> None:
        if not isinstance(target, (str, type(None))):
            raise TypeError(f"target must be a string, but got {type(target)}")
        if target:
            raise NotFoundError(None, None, f"there is no session target {target!r}: everything runs in this process")
        if not isinstance(graph, (Graph, type(None))):
            raise TypeError(f"graph must be a tf.Graph, but got {type(graph)}")
        if not isinstance(config, (Config, ConfigProto, type(None))):
            raise TypeError(f"config must be a tf.ConfigProto, but got {type(config)}")
        self.graph = graph if graph is not None else get_default_graph()
        self.config = config if isinstance(config, Config) else _from_proto(config)
        self._soft_placement = config is not None and (isinstance(config, Config) or bool(getattr(config, "allow_soft_placement", False)))
        self._store = StateStore()
        self._plans: dict[Any, Plan] = {}
        self._repeated: dict[Any, Repeated] = {}
        self._ranks_found: dict[Tensor, tuple[int, ...]] = {}                # shapes that Python functions gave last
        self._closed = False
        self.last_executable: Any = None
        self._contexts: list[Any] = []

    # ---- life ----------------------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Free values and machine code. Closing twice is fine."""
        self._closed = True
        self._plans.clear()
        self._repeated.clear()
        self._store.clear()
        self.last_executable = None

    def __enter__(self) -> Any:
        context = self.graph.as_default()
        context.__enter__()
        self._contexts.append(context)
        stack().sessions.append(self)
        return self

    def __exit__(self, *exc: Any) -> None:
        remove_last(stack().sessions, self)
        self._contexts.pop().__exit__(None, None, None)
        self.close()

    @contextmanager
    def as_default(self) -> Iterator[Any]:
        """Context manager: the default session (not closed at the end). The default graph stays what it is."""
        stack().sessions.append(self)
        try:
            yield self
        finally:
            remove_last(stack().sessions, self)

    graph_def = property(lambda self: self.graph.as_graph_def(), doc="The operations of the graph.")
    sess_str = property(lambda self: b"", doc="The target.")

    def list_devices(self) -> list[Any]:
        """The CPU."""
        if self._closed:
            raise CancelledError(None, None, "Session has been closed.")
        Device = collections.namedtuple("Device", "name device_type memory_limit_bytes")
        return [Device("/job:localhost/replica:0/task:0/device:CPU:0", "CPU", 0)]

    # ---- runs ------------------------------------------------------------------------------------------------------------------------

    def run(self, fetches: Any, feed_dict: Any = None, options: Any = None, run_metadata: Any = None) -> Any:
        """Values of ``fetches`` (a tensor, operation, variable or name, or any nesting of them) with ``feed_dict`` fed.

        All or nothing: a run that fails leaves every variable as it was. Raises what TF1 raises: TypeError and ValueError for
        fetches and feeds that do not fit, ``FailedPreconditionError`` for variables without a value, ``InvalidArgumentError`` for
        missing feeds and for what only the run can find (at the line that made the operation). ``options.timeout_in_ms`` is a limit of
        time (``DeadlineExceededError``).
        """
        if run_metadata is not None:
            raise NotImplementedError("run_metadata is not available: SG_LOG=timing,kernels prints what a session compiles and runs")
        limit = getattr(options, "timeout_in_ms", 0)
        if limit:
            with time_limit(limit / 1000):
                return self.run(fetches, feed_dict)
        with source.hide_own_frames():
            key = Repeated.key(fetches, feed_dict)
            known = self._repeated.get(key)
            if known is not None:
                done, got = known(feed_dict)
                if done:
                    return got
            self._check_open()
            flat: list[Any] = []
            rebuild = self._flatten(fetches, flat)
            feeds, values = self._feeds(feed_dict)
            results = self._run_flat(flat, feeds, values)
            if known is None and not log_wants("feeds"):
                self._remember(key, fetches, flat, feed_dict, feeds)
            return rebuild(iter(results))

    def _remember(self, key: Any, fetches: Any, flat: list[Any], feed_dict: Any, feeds: list[Tensor]) -> None:
        plan = self._plan(flat, feeds) if not depends_on_ranks([*flat, *feeds]) else None
        known = Repeated.made(self, plan, fetches, flat, feed_dict, feeds) if plan is not None else None
        if known is not None:
            self._repeated[key] = known

    def _check_open(self) -> None:
        if self._closed:
            raise RuntimeError("Attempted to use a closed Session.")
        if not self.graph.operations:
            raise RuntimeError("The Session graph is empty.  Add operations to the graph before calling run().")

    def _run_flat(self, flat: list[Any], feeds: list[Tensor], values: list[np.ndarray[Any, Any]]) -> list[Any]:
        given = dict(zip(feeds, values))
        found, calls = Found(self._ranks_found), Calls()
        while True:
            try:
                with ranks_fed(self.graph, flat, feeds, values, found) as ranks:
                    plan = self._plan(flat, feeds, ranks)
                    got = iter(self._execute(plan, [given[t] for t in plan.used], native=True, calls=calls))
                break
            except InvalidArgumentError as error:
                found.add(error)             # a Python function's result has another rank than in the run before
        by_tensor: dict[Tensor, Any] = {}
        for t in plan.tensors:
            value = next(got)
            by_tensor[t] = value
        out = []
        for f in flat:
            if isinstance(f, Operation):
                out.append(None)
            elif f in given and self._fed_itself(f):
                out.append(given[f])
            elif f in given:
                out.append(given[f].copy()[()])
            elif f.dtype == string:
                out.append(_text(f))
            else:
                v = by_tensor[f]
                out.append(v[()] if v.ndim == 0 else v)
        return out

    def _fed_itself(self, t: Tensor) -> bool:
        """Not a further read of a variable that is fed."""
        return t._node.op is not OPS["read"] or t is self.graph.variables[t._node.inputs[0].attr("uid")]._snapshot

    def _plan(self, flat: list[Any], feeds: list[Tensor], ranks: Any = None) -> Plan:
        key = (tuple(id(f) for f in flat), tuple(sorted(id(t) for t in feeds)), ranks)
        plan = self._plans.get(key)
        if plan is None:
            fed = set(feeds)
            tensors = list(dict.fromkeys(f for f in flat if isinstance(f, Tensor) and f not in fed and f.dtype != string))
            ops = list(dict.fromkeys(f for f in flat if isinstance(f, Operation)))
            if self.graph.placed and not self._soft_placement:
                _check_devices([*(t.op for t in tensors), *ops])
            plan = self._plans[key] = Plan(self, tensors, ops, feeds)
            plan.keep = (flat, feeds)        # type: ignore[attr-defined]  # ids stay theirs while these live
        return plan

    def _execute(self, plan: Plan, values: Sequence[np.ndarray[Any, Any]], native: bool = False, calls: Calls | None = None) -> list[np.ndarray[Any, Any]]:
        """Values of the plan's tensors; with ``native`` by a native call of the whole run, where there can be one (callables have their own)."""
        if plan.unfed:
            self._missing_feed(plan)
        if not plan.nodes:
            return []
        exe = self._executable(plan)
        if exe.missing:
            v = self.graph.variables[exe.missing[0]]
            error = FailedPreconditionError(None, v.op, f"Attempting to use uninitialized value {v.op.name}")
            source.add_note(error, "hint: run sg.global_variables_initializer() first, once in each session")
            source.raise_at(v.site, error)
        arrays = {**plan.defaults, **dict(zip([t.node for t in plan.used], values))}
        self.last_executable = exe
        feeds = [i.key for i in exe.inputs if i.kind == "feed"]
        ordered = [arrays[n] for n in feeds]
        if native and plan.native[0] is exe and plan.native[1] is not None:
            done, got = plan.native[1](ordered)
            if done:
                return got
        try:
            results = exe.run(ordered, self._store, calls)
        except Error as error:
            self._named(error)
            raise
        if native and plan.native[0] is not exe:
            plan.native = exe, native_call(exe, feeds, range(len(plan.tensors)), list, self._store)
        return results

    def _named(self, error: Any) -> None:
        for pattern, text in _RUN_TIME_WORDS:
            error.args = (re.sub(pattern, text, str(error)),)
            error._message = error.args[0]
        node = getattr(error, "_op", None)
        if isinstance(node, Node):
            made = [op for op in self.graph.operations.values() if op.site is not None and op.site.frames == node.site.frames]
            # a line may make several operations; what an operation makes has its very site, else the last one of the line is named
            op = next((op for op in made if op.site is node.site), made[-1] if made else None)
            if op is not None:
                error._op = error._node_def = op
                source.add_note(error, f"[[node {op.name}]]")

    def _executable(self, plan: Plan) -> Any:
        store = self._store
        unset = frozenset(uid for uid in plan.variables if not store.initialized(("variable", uid)))
        exe = plan.executables.get(unset)
        if exe is None:
            from ..compile import compile_graph
            with self.graph.lock:
                exe = plan.executables.get(unset)
                if exe is None:
                    exe = plan.executables[unset] = compile_graph(plan.nodes, [*(t.node for t in plan.used), *plan.defaults], self.config, unset)
        return exe

    def _missing_feed(self, plan: Plan) -> None:
        node = plan.unfed[0]
        t = self.graph.placeholders.get(node)
        name = t.op.name if t is not None else f"%{node.id}"
        shape = "" if t is not None and not t.shape.ndims else " and shape [" + ",".join("?" if not isinstance(d, int) else str(d) for d in node.shape) + "]"
        spelled = {"float16": "half", "float32": "float", "float64": "double"}.get(node.dtype.name, node.dtype.name)
        error = InvalidArgumentError(None, t.op if t is not None else None, f"You must feed a value for placeholder tensor '{name}' with dtype {spelled}{shape}")
        source.add_note(error, f"placeholder made at {node.site.describe()}")
        target = next((n for n in plan.nodes if walk.path(node, n)), None)
        if target is not None:
            steps = walk.path(node, target)
            shown = steps if len(steps) <= 6 else [*steps[:3], *steps[-3:]]
            source.add_note(error, "needed by: " + " -> ".join(f"{n.op.name} ({n.site.short()})" for n in shown))
        raise error

    # ---- fetches and feeds ---------------------------------------------------------------------------------------------------------

    def _flatten(self, fetch: Any, out: list[Any]) -> Callable[[Any], Any]:
        """Append the leaves of a fetch structure; returns how to rebuild it from their values."""
        if isinstance(fetch, (list, tuple)) and not hasattr(fetch, "_as_graph_element"):
            parts = [self._flatten(f, out) for f in fetch]
            if hasattr(fetch, "_fields"):
                return lambda values: type(fetch)(*[p(values) for p in parts])
            kind = type(fetch)
            return lambda values: kind([p(values) for p in parts])
        if isinstance(fetch, dict):
            named = {k: self._flatten(f, out) for k, f in fetch.items()}

            def fill(values: Any) -> Any:
                made = fetch.copy() if isinstance(fetch, collections.defaultdict) else type(fetch)()
                for k, p in named.items():
                    made[k] = p(values)
                return made
            return fill
        if hasattr(fetch, "_fetch_parts"):
            return self._flatten_parts(fetch, out)
        if fetch is None:
            raise TypeError(f"Fetch argument {fetch!r} has invalid type {type(fetch)!r}")
        if isinstance(fetch, (int, float, np.ndarray, set)) or (not isinstance(fetch, (str, bytes, Tensor, Operation)) and not hasattr(fetch, "_as_graph_element")):
            raise TypeError(f"Fetch argument {fetch!r} has invalid type {type(fetch)!r}, must be a string or Tensor. (Can not convert a {type(fetch).__name__} into a Tensor or Operation.)")
        try:
            element = self.graph.as_graph_element(fetch)
        except (ValueError, KeyError) as error:
            raise ValueError(f"Fetch argument {fetch!r} cannot be interpreted as a Tensor. ({error})") from None
        if hasattr(element, "_fetch_parts"):
            return self._flatten_parts(element, out)
        if not self.graph.is_fetchable(element):
            op = element.op if isinstance(element, Tensor) else element
            error = InaccessibleTensorError(f"Operation {op.name!r} has been marked as not fetchable. Typically this happens when it is defined in another function or code "
                                            "block. Use return values,explicit Python locals or TensorFlow collections to access it.")
            if self.graph.is_inside(op):
                source.add_note(error, "hint: it is inside of a loop or a branch: return its value from there")
            raise error
        out.append(element)
        return lambda values: next(values)

    def _flatten_parts(self, fetch: Any, out: list[Any]) -> Callable[[Any], Any]:
        """Of something that stands for several tensors: its parts, and what it makes of their values."""
        parts, build = fetch._fetch_parts()
        inner = [self._flatten(f, out) for f in parts]
        return lambda values: build([p(values) for p in inner])

    def _feeds(self, feed_dict: Any) -> tuple[list[Tensor], list[np.ndarray[Any, Any]]]:
        if not feed_dict:
            return [], []
        if not isinstance(feed_dict, dict):
            raise TypeError(f"input must be a dictionary: the feed_dict is of type {type(feed_dict).__name__}")
        tensors, values = [], []
        whole = [(k, v) for k, v in feed_dict.items() if not hasattr(k, "_feed_parts")]
        parts = [p for k, v in feed_dict.items() if hasattr(k, "_feed_parts") for p in k._feed_parts(v).items()]
        for key, value in (*whole, *parts):
            t = self._feed_key(key)
            if t in tensors:
                raise ValueError(f"Tensor '{t.name}' is fed twice")
            tensors.append(t)
            values.append(prepared(t, value))
            _not_fixed(t, values[-1])
        for t, value in list(zip(tensors, values)):
            if t._node.op is OPS["read"] and t is (v := self.graph.variables[t._node.inputs[0].attr("uid")])._snapshot:
                others = [r for r in v._reads if r not in tensors and not self.graph.is_inside(r.op)]
                tensors += others
                values += [value] * len(others)
        if log_wants("feeds"):
            log("feeds", ", ".join(f"{t.name} {v.dtype}{list(v.shape)}" for t, v in zip(tensors, values)))
        return tensors, values

    def _feed_key(self, key: Any) -> Tensor:
        try:
            t = self.graph.as_graph_element(key, allow_operation=False)
        except (TypeError, ValueError, KeyError) as error:
            raise TypeError(f"Cannot interpret feed_dict key as Tensor: {error.args[0]}") from None
        if not self.graph.is_feedable(t):
            raise ValueError(f"Tensor {t} may not be fed.")
        result: Tensor = t
        return result

    # ---- prepared calls ------------------------------------------------------------------------------------------------------------

    def make_callable(self, fetches: Any, feed_list: Sequence[Any] | None = None, accept_options: bool = False) -> Callable[..., Any]:
        """A function of the fed values, in the order of ``feed_list``: the quickest way to run from Python."""
        if accept_options:
            raise NotImplementedError("make_callable(accept_options=True) is not available: use run for options of a single run")
        with source.hide_own_frames():
            self._check_open()
            flat: list[Any] = []
            rebuild = self._flatten(fetches, flat)
            feeds = [self._feed_key(k) for k in feed_list or ()]
            for t in feeds:
                _not_fixed(t)
            if depends_on_ranks([*flat, *feeds]) or any(isinstance(f, Tensor) and f.dtype == string for f in flat):     # what runs depends on what is fed
                return lambda *values: rebuild(iter(self._run_flat(flat, feeds, [prepared(t, v) for t, v in zip(feeds, values, strict=True)])))
            plan = self._plan(flat, feeds)
        return prepared_call(self, plan, flat, feeds, rebuild)

    def partial_run_setup(self, fetches: Any, feeds: Any = None) -> Any:
        """Not available: a run is one native call."""
        raise NotImplementedError("partial_run is not available: fetch what is needed in one run, or feed intermediate values")


class Session(BaseSession):
    """TF1's ``tf.Session``."""


class InteractiveSession(BaseSession):
    """A session that installs itself as the default one until ``close``."""

    def __init__(self, target: str = "", graph: Graph | None = None, config: Any = None) -> None:
        super().__init__(target, graph, config)
        stack().sessions.append(self)
        if graph is not None:
            stack().graphs.append(graph)
        self._given_graph = graph

    def close(self) -> None:
        """Close, and stop being the default."""
        if self in stack().sessions:
            remove_last(stack().sessions, self)
            if self._given_graph in stack().graphs:
                remove_last(stack().graphs, self._given_graph)
        super().close()


def _not_fixed(t: Tensor, value: Any = None) -> None:
    """ValueError for a feed of what the graph was built with, unless it is that very value."""
    if contradicts(t.node, value):
        raise ValueError(f"Tensor {t} may not be fed another value: shapes were made with its own while the graph was built. A placeholder_with_default can be fed.")


def _from_proto(config: Any) -> Config:
    threads = getattr(config, "intra_op_parallelism_threads", 0) or None
    return Config(threads=threads)


def _text(t: Tensor) -> Any:
    """The value of a string constant: bytes, or an object array of bytes."""
    if t.node.op is not OPS["const"]:
        raise UnimplementedError(None, t.op, f"{t.name}: strings that a run computes are not available")
    array = t.node.attr("value").array.copy()
    return array[()] if array.ndim == 0 else array


def _check_devices(ops: Sequence[Operation]) -> None:
    """InvalidArgumentError, at its line, for an operation among those a run needs that is placed on a device that there is not."""
    seen, stack_ = set(ops), list(ops)
    while stack_:
        op = stack_.pop()
        if op.device and "CPU" not in op.device:
            source.raise_at(op.site, InvalidArgumentError(None, op, f"Cannot assign a device for operation {op.name}: Operation was explicitly assigned to {op.device} but available "
                                                          "devices are [ /job:localhost/replica:0/task:0/device:CPU:0 ]. Make sure the device specification refers to a valid device, "
                                                          "or set allow_soft_placement=True in the session's config."))
        for other in (*(t.op for t in op.inputs), *op.control_inputs):
            if isinstance(other, Operation) and other not in seen:
                seen.add(other)
                stack_.append(other)


def default_session_for(graph: Graph, session: Any, what: str, call: str) -> Any:
    """The session to use for ``what`` (``evaluate tensor``) by ``call`` (``eval``). ValueError where there is none, or one of another graph."""
    given = session is not None
    thing = what.split()[-1]
    session = session if given else get_default_session()
    if session is None:
        raise ValueError(f"Cannot {what} using `{call}()`: No default session is registered. Use `with sess.as_default(){':' * (call == 'run')}` "
                         f"or pass an explicit session to `{call}(session=sess)`")
    if session.graph is not graph:
        which, then = ("given", "") if given else ("default", " Pass an explicit session to " + ("run(session=sess)." if call == "run" else "`eval(session=sess)`."))
        raise ValueError(f"Cannot use the {which} session to {what}: the {thing}'s graph is different from the session's graph.{then}")
    return session
