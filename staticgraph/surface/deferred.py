"""Tensors of unknown rank: what depends on one is built for a guessed rank, and again for the ranks that a run feeds or finds.

The IR has no unknown rank. So a public call that touches such a placeholder (or anything made from one) is a *record*: the call itself,
with the scopes around it. Its operations are in the ledger as always; their IR nodes belong to the *guess*, ranks under which all calls so far
can be built (scalars, until a call needs something else). A run that feeds other ranks gets a *view*: the records its fetches need, called
again with placeholders of those ranks, where axes of size 1 are 1, so that they broadcast. Views are kept. ``Tensor.node`` and
``Operation.node`` answer for the view that is active in the thread, so that gradients, optimizers and control flow need to know nothing of this.

Only the run knows the rank of what a Python function returns. A run starts with the ranks of the run before. Where a function's result has another,
the run stops at that call, before anything has seen the result, and starts again with the view for it. It has changed nothing, and what functions
have given it keeps (``runtime.hostcall``): so each is called once, wherever in the run it stands, also after assignments. (To compute its operands
in a run of their own would compute twice what both runs need, every time.)

Consequences: a function given to ``cond`` or ``while_loop`` that uses such a tensor may be called more than once; what no rank allows is refused
while building, what the fed ranks do not allow is an InvalidArgumentError of the run.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice, product
from typing import Any

import numpy as np

from .. import source
from ..errors import DTypeError, GraphError, InvalidArgumentError
from ..ir.aval import Aval, Size, symbol
from ..ir.graph import Node
from ..ir.opdef import OPS
from .ledger import Graph, get_default_graph
from .shapes import TensorShape, shape_of

Pattern = tuple[Any, ...]                    # per axis: a size, or None for any
_RANKS = (2, 1, 3, 4, 0, 5)                  # in the order in which they are tried
_NO_MATTER_OF_RANK = (DTypeError, AttributeError, NameError, NotImplementedError)              # other ranks would not help


class _Local(threading.local):
    record: Record | None = None             # the call that is being recorded
    view: View | None = None                 # what ``node`` answers for
    again: Record | None = None              # the call that is being made again


_local = _Local()


class Record:
    """A public call that touched tensors of unknown rank or made some, or (``run`` None) a placeholder of unknown rank."""

    def __init__(self, ranks: Ranks, run: Callable[[], Any] | None) -> None:
        g = ranks.graph
        self.ranks, self.run = ranks, run
        self.index = 0
        self.site = source.capture(g._scope)
        self.uses: dict[Any, None] = {}      # tensors and operations of other records, in order
        self.roots: tuple[Any, ...] = ()     # what all this depends on: placeholders and results of Python functions
        self.opens: tuple[Any, ...] = ()     # those among them that are made here
        self.names: list[tuple[str, int | None]] = []                  # name counters before the call changed them
        self.uids: tuple[int, int] = (g._uids, g._uids)
        self.apart: set[Any] = set()         # operations of variables made on the way: they are made once
        self.count = len(g.operations)
        self.context = {k: getattr(g, k) for k in ("_scope", "_controls", "_variable_scope", "builder", "seed", "op_count")}

    def node_of(self, item: Any) -> Node:
        """The node of ``item``, one of this record's, in the active view."""
        record, view = _local.record, _local.view
        if record is not None and record.ranks is self.ranks:
            record.uses[item] = None
        if view is None or view.ranks is not self.ranks:
            view = self.ranks.guess
        found = view.nodes.get(item)
        return found if found is not None else view.make(item)


class View:
    """IR nodes for one choice of ranks."""

    def __init__(self, ranks: Ranks, patterns: dict[Any, Pattern]) -> None:
        self.ranks, self.patterns = ranks, patterns
        self.nodes: dict[Any, Node] = {}
        self.done: set[Record] = set()

    def make(self, item: Any) -> Node:
        """Call again what ``item`` needs; its node."""
        with self.ranks.graph.lock:
            needed: set[Record] = set()
            stack = [item]
            while stack:
                record = stack.pop()._record
                if record not in needed and record not in self.done:
                    needed.add(record)
                    stack.extend(record.uses)
            for record in sorted(needed, key=lambda r: r.index):
                try:
                    if record.run is None:
                        self._placeholder(record.roots[0])
                    else:
                        self._again(record)
                except GraphError as error:
                    error.site = error.site or record.site
                    raise
                self.done.add(record)
            if item not in self.nodes:
                raise GraphError(f"{item.name} does not exist for the ranks {self.described()}")
            return self.nodes[item]

    def described(self) -> str:
        """``x (?, ?), y ()``"""
        return ", ".join(f"{t.op.name} {TensorShape(list(p))}" for t, p in self.patterns.items())

    def _placeholder(self, t: Any) -> None:
        g = self.ranks.graph
        sizes: tuple[Size, ...] = tuple(symbol() if d is None else d for d in self.patterns[t])
        aval = Aval(sizes, t.dtype)
        n = self.ranks.root.graph.add(OPS["placeholder"], (), (("aval", aval), ("uid", g.next_uid())), aval, site=t.op.site)
        g.placeholders[n] = t
        self.nodes[t] = n

    def _again(self, record: Record) -> None:
        """Make a recorded call in its own context, with a ledger that is thrown away; keep the nodes under the operations' names."""
        assert record.run is not None
        g, local = self.ranks.graph, (_local.record, _local.view, _local.again)
        kept = {k: getattr(g, k) for k in (*record.context, "operations", "_collections", "_finalized", "_spare_uids")}
        names, log = g._names, g._names.log
        before = {k: names.get(k) for k, _ in record.names}
        names.log = None
        undo(names, record.names)
        changed: list[tuple[str, int | None]] = []
        try:
            names.log = changed
            for k, v in record.context.items():
                setattr(g, k, v)
            scratch: dict[str, Any] = {}
            g._finalized = False             # nothing of this shows in the ledger
            g.operations, g._collections = scratch, {k: list(v) for k, v in g._collections.items()}
            g._spare_uids = list(range(record.uids[1], record.uids[0], -1))
            _local.record, _local.view, _local.again = None, self, record
            record.run()
        finally:
            _local.record, _local.view, _local.again = local
            for k, v in kept.items():
                setattr(g, k, v)
            names.log = None
            undo(names, changed)
            undo(names, list(before.items()))
            names.log = log
        for name, op in scratch.items():
            original = g.operations.get(name)
            if original is not None and (original in record.apart or original._record is record):
                self.nodes.update((t, made._node) for t, made in zip(original.outputs, op.outputs))
                if op._node is not None:
                    self.nodes[original] = op._node


def undo(names: dict[str, int], changes: Sequence[tuple[str, int | None]]) -> None:
    """Set counters of names back to what they were before ``changes``."""
    for key, old in reversed(changes):
        if old is None:
            names.pop(key, None)
        else:
            names[key] = old


class Ranks:
    """Of one graph: its placeholders of unknown rank, the records, and the views made so far."""

    def __init__(self, graph: Graph) -> None:
        self.graph, self.root = graph, graph.builder
        self.records: list[Record] = []
        self.count = 0
        self.pinned: set[Any] = set()        # roots that ``set_shape`` gave a rank
        self.views: dict[Any, View] = {}
        self.guess = View(self, {})

    def add(self, t: Any) -> None:
        """A new placeholder of unknown rank; a scalar until a call needs something else."""
        record = Record(self, None)
        t._record = record
        self.guess.nodes[t] = t._node
        self._listed(record, (t,))

    def _listed(self, record: Record, opens: tuple[Any, ...]) -> None:
        """A record that is kept, with the roots it makes: scalars in all views so far."""
        self.count += 1
        record.index, record.opens = self.count, opens
        record.roots = (*self._roots(record), *opens)
        self.records.append(record)
        self.guess.done.add(record)
        if opens:
            self._changed(dict.fromkeys(opens, ()))

    def _changed(self, patterns: dict[Any, Pattern | None]) -> None:
        """Other patterns of some roots (None: it is none any more) in all views."""
        views = {*self.views.values(), self.guess}
        for view in views:
            view.patterns = {t: p for t, p in {**view.patterns, **patterns}.items() if p is not None}
        self.views = {self._key(v.patterns): v for v in views}

    @staticmethod
    def _key(patterns: dict[Any, Pattern]) -> Any:
        return frozenset(patterns.items())

    def view(self, patterns: dict[Any, Pattern]) -> View:
        """The view for these ranks; placeholders that are not among them keep the guess."""
        full = {**self.guess.patterns, **patterns}
        key = self._key(full)
        found = self.views.get(key)
        if found is None:
            found = self.views[key] = View(self, full)
        return found

    # ---- building ------------------------------------------------------------------------------------------------------------------

    def call(self, run: Callable[[], Any], opens: bool = False) -> Any:
        """``run()``; recorded if it touches what has no rank. Where the guess does not allow the call, the guess is changed.

        With ``opens`` it makes one operation, whose results have ranks that the run finds.
        """
        g = self.graph
        with g.lock:
            guess, first = self.guess, None
            tried: Iterator[View] = iter(())
            while True:
                record = Record(self, run)
                log, g._names.log = g._names.log, record.names
                _local.record = record
                try:
                    result = run()
                except Exception as error:
                    if first is None:
                        first = error
                        tried = iter(()) if isinstance(error, _NO_MATTER_OF_RANK) else self._others(record)
                else:
                    self._keep(record, opens)
                    return result
                finally:
                    _local.record, g._names.log = None, log
                if not record.uses:
                    raise first
                self._roll_back(record)
                other = next(tried, None)
                if other is None:
                    self.guess = guess
                    raise first
                self.guess = other

    def _others(self, record: Record) -> Iterator[View]:
        """Views with other ranks for what the call used: one placeholder changed at a time, then two in all ways, more than two alike."""
        roots = [r for r in self._roots(record) if r not in self.pinned]
        base = self.guess.patterns
        for root in roots:
            yield from (self.view({**base, root: (None,) * k}) for k in _RANKS if k != len(base[root]))
        if len(roots) > 1:
            combined = product(_RANKS, repeat=2) if len(roots) == 2 else ((k,) * len(roots) for k in _RANKS)
            yield from (self.view({**base, **{r: (None,) * k for r, k in zip(roots, ranks)}}) for ranks in combined)

    @staticmethod
    def _roots(record: Record) -> list[Any]:
        return list(dict.fromkeys(r for used in record.uses for r in used._record.roots))

    def _made(self, record: Record) -> list[Any]:
        ops = self.graph.operations
        return list(islice(reversed(ops.values()), len(ops) - record.count))[::-1]

    def _keep(self, record: Record, opens: bool) -> None:
        if not record.uses and not opens:
            return
        record.uids = (record.uids[0], self.graph._uids)
        made = self._made(record)
        self._listed(record, tuple(made[-1].outputs) if opens else ())
        for op in made:
            if op in record.apart:
                continue
            for t in op.outputs:
                t._record = record
                self.guess.nodes[t] = t._node
            op._record = record
            if op._node is not None:
                self.guess.nodes[op] = op._node

    def _roll_back(self, record: Record) -> None:
        g = self.graph
        for op in self._made(record):
            if op not in record.apart:
                del g.operations[op.name]
                for t in op.inputs:
                    t._consumers.remove(op)
        undo(g._names, record.names)
        g.op_count = record.context["op_count"]

    # ---- static shapes ---------------------------------------------------------------------------------------------------------------

    def shape(self, t: Any) -> TensorShape:
        """What all ranks that can be built agree on: each placeholder's rank is varied, the others as guessed."""
        if t in t._record.opens:
            return TensorShape(list(self.guess.patterns[t]) if t in self.pinned else None)
        found: TensorShape | None = None
        base = self.guess.patterns
        free = [r for r in t._record.roots if r not in self.pinned]
        patterns = [{}, *({r: (None,) * k} for r in free for k in range(5) if k != len(base[r]))]
        for p in patterns:
            record, _local.record = _local.record, None
            view, _local.view = _local.view, self.view(p)
            try:
                shape = shape_of(t.node.shape)
            except Exception:                # this rank is not possible
                continue
            finally:
                _local.record, _local.view = record, view
            if found is None:
                found = shape
            elif len(found) != len(shape):
                return TensorShape(None)
            else:
                found = TensorShape([p.value if p.value == q.value else None for p, q in zip(found, shape)])
        return TensorShape(None) if found is None else found

    def pin(self, t: Any, shape: TensorShape) -> None:
        """``set_shape``: a root takes that rank, other tensors ranks of roots that give it. ValueError where there are none."""
        if t in t._record.opens:
            self.pinned.add(t)
            self.guess = self.view({t: tuple(shape.as_list())})
            self._settle(t._record)
            return

        def check() -> None:
            shape_of(t.node.shape).merge_with(shape)
        self.call(check)

    def _settle(self, record: Record) -> None:
        """Results of a Python function that nothing uses yet, all sizes of which are known now, are tensors like others."""
        patterns = [self.guess.patterns[t] for t in record.opens]
        op = record.opens[0].op
        if record.run is None or record.uses or not all(t in self.pinned and None not in p for t, p in zip(record.opens, patterns)):
            return
        if any(item in r.uses for r in self.records for item in (*record.opens, op)):
            return
        for t in record.opens:
            node = t.node
            t._node, t._shape, t._record = node, shape_of(node.shape), None
        op._record = None
        self.records.remove(record)
        self.pinned.difference_update(record.opens)
        self._changed(dict.fromkeys(record.opens))


def recorded(f: Callable[..., Any]) -> Callable[..., Any]:
    """A public function that looks at ranks or shapes of its arguments, or calls functions it is given, before it makes an operation."""
    @functools.wraps(f)
    def call(*args: Any, **kw: Any) -> Any:
        with source.hide_own_frames():
            g = next((g for a in (*args, *kw.values()) if isinstance(g := getattr(a, "graph", None), Graph)), None) or get_default_graph()
            return f(*args, **kw) if g.ranks is None or busy(g) else g.ranks.call(lambda: f(*args, **kw))
    return call


def busy(g: Graph) -> bool:
    """Whether a call is being recorded or made again, or a body is traced: then calls belong to that."""
    return _local.record is not None or _local.again is not None or g.builder.outer is not None


@contextmanager
def apart(g: Graph) -> Iterator[None]:
    """Within: a variable is made, outside of all bodies. It is no part of the call that makes it: making that call again must not make another one."""
    if _local.again is not None:
        raise GraphError("a variable was made by a function that is called again for other ranks of a placeholder without a shape: make it outside, or give the placeholder a shape")
    if g.attempt is not None and g.attempt.again:
        raise GraphError("a variable was made by the body of a loop that is traced again, since the size of a loop variable changes: make it outside, or share it by get_variable")
    outer, _local.record = _local.record, None
    log, g._names.log = g._names.log, None
    builder = g.builder
    while g.builder.outer is not None:
        g.builder = g.builder.outer
    count = len(g.operations)
    try:
        yield
    finally:
        _local.record, g._names.log, g.builder = outer, log, builder
        for kept in (outer and outer.apart, g.attempt and g.attempt.kept):
            if kept is not None:
                kept.update(islice(reversed(g.operations.values()), len(g.operations) - count))


def pattern_of(t: Any) -> Pattern:
    """What the view that is being made has for a root."""
    assert _local.view is not None
    return _local.view.patterns[t]


def made_again() -> bool:
    """Whether a recorded call is being made again: its operations are not those of the ledger."""
    return _local.again is not None


def site_of(g: Graph, name: str) -> source.Site:
    """The user's line for a new operation: of a call made again, where it was made first."""
    again = _local.again
    if again is None:
        return source.capture(name[:name.rfind("/") + 1])
    first = again.ranks.graph.operations.get(name)
    return again.site if first is None else first.site


# ---- running ---------------------------------------------------------------------------------------------------------------------------


def depends_on_ranks(items: Sequence[Any]) -> bool:
    """Whether any of these tensors and operations was made from a placeholder of unknown rank."""
    return any(i._record is not None for i in items)


Shapes = dict[Any, tuple[int, ...]]


class Found:
    """Shapes of the results of Python functions: those of the run that goes on, and those of runs before, which the next one starts with."""

    def __init__(self, before: Shapes) -> None:
        self.now: Shapes = {}
        self.before = before

    def add(self, error: InvalidArgumentError) -> None:
        """What a run found that was made for other ranks. Any other error is raised, and one that no other ranks would help."""
        fn, index, shape = getattr(error, "unforeseen", (None, 0, ()))
        roots = getattr(fn, "roots", ())
        if not roots or roots[index] in self.now or not roots[index].shape.is_compatible_with(TensorShape(list(shape))):
            raise error
        self.now[roots[index]] = self.before[roots[index]] = shape


class ranks_fed:
    """Within: nodes are those for the ranks fed and found. Gives what tells such views apart, for keys of what is made from their nodes.

    InvalidArgumentError, at the line of the operation, where these ranks do not allow what is fetched; ValueError for a fed
    intermediate of a rank that it cannot have.
    """

    def __init__(self, graph: Graph, fetches: Sequence[Any], feeds: Sequence[Any], values: Sequence[np.ndarray[Any, Any]],
                 found: Found | None = None) -> None:
        self.ranks, self.found = graph.ranks, found or Found({})
        if self.ranks is not None:
            self.fetches, self.fed = fetches, dict(zip(feeds, values))
            if not depends_on_ranks([*fetches, *feeds]):
                self.ranks = None

    def __enter__(self) -> View | None:
        ranks = self.ranks
        if ranks is None:
            return None
        self.saved = _local.view
        with ranks.graph.lock:
            try:
                return self._fitting(ranks)
            except BaseException:
                _local.view = self.saved
                raise

    def __exit__(self, *exc: Any) -> None:
        if self.ranks is not None:
            _local.view = self.saved

    def _fitting(self, ranks: Ranks) -> View:
        """The view for the ranks known in which fed intermediates have the shapes of their values; the others are those before, or any."""
        roots = list(dict.fromkeys(r for i in (*self.fetches, *self.fed) if i._record is not None for r in i._record.roots))
        inner = {t: v.shape for t, v in self.fed.items() if t._record is not None and t not in t._record.opens}
        shapes = {**self.found.now, **{t: v.shape for t, v in self.fed.items()}}
        known = {t: self._pattern(ranks, t, shapes[t]) for t in roots if t in shapes}
        free = [t for t in roots if t not in shapes and t not in ranks.pinned and (inner or t._record.run is not None)]
        before = {t: self._pattern(ranks, t, s) for t, s in self.found.before.items()
                  if t in roots and t not in shapes and t.shape.is_compatible_with(TensorShape(list(s)))}
        first: GraphError | None = None
        for others in (before, {}, *(dict.fromkeys(free, (None,) * k) for k in _RANKS if free)):
            _local.view = view = ranks.view({**others, **known})
            try:
                if not all(TensorShape(list(shape)).is_compatible_with(shape_of(t.node.shape)) for t, shape in inner.items()):
                    continue
                for i in self.fetches:
                    if i._record is not None and i not in self.fed:
                        i._control_nodes_of()
            except GraphError as error:      # these ranks are not possible
                if first is None:
                    first, described = error, view.described()
                continue
            return view
        if first is None or inner:
            raise ValueError("Cannot feed " + ", ".join(f"value of shape {shape} for Tensor '{t.name}', which has shape '{t.shape}'" for t, shape in inner.items()))
        source.raise_at(first.site, InvalidArgumentError(None, None, f"{first} (where shapes are {described})"))

    @staticmethod
    def _pattern(ranks: Ranks, t: Any, shape: tuple[int, ...]) -> Pattern:
        pinned = ranks.guess.patterns[t] if t in ranks.pinned else (None,) * len(shape)
        return tuple(1 if s == 1 else d for d, s in zip(pinned, shape))
