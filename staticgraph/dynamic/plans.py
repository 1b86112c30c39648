"""What an op does for operands of given avals, worked out once: result avals, and its reverse rule as a list of NumPy calls.

``signature(op, arrays, attrs)`` is the table's entry. Its ``pull(mask, present)`` runs the op's ``vjp`` once, on graph nodes: what remains after
dropping unused nodes is the plan that every later backward pass walks, and the operands whose *values* it reads are all that a
recorded operation has to keep.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

import numpy as np

from ..dtypes import DType, as_dtype
from ..errors import GraphError, NotDifferentiableError
from ..ir import walk
from ..ir.aval import Aval, TupleAval
from ..ir.builder import GraphBuilder, infer
from ..ir.graph import Graph, Node
from ..ir.opdef import OPS, Host, NoRule, NotDifferentiable, OpDef
from ..source import UNKNOWN, Site
from ..transforms.gradient import Slices

VIEWS = frozenset({"reshape", "transpose", "slice", "expand_dims", "squeeze"})       # results share memory, as PyTorch's do
_LIMIT = 4096                                # signatures kept; sequences of ever new lengths start the table again
_FOLDED = 4096                               # bytes of a constant that a plan may keep

_table: dict[Any, Signature] = {}
_dtypes: dict[Any, DType] = {}


def dtype_of(array: np.ndarray[Any, Any]) -> DType:
    """The array's element type as a record."""
    kind = _dtypes.get(array.dtype)
    if kind is None:
        kind = _dtypes[array.dtype] = as_dtype(array.dtype)
    return kind


def aval_of(array: np.ndarray[Any, Any]) -> Aval:
    """Shape and element type."""
    return Aval(array.shape, dtype_of(array))


class _Operand:
    """An operand for ``infer`` when it words a refusal."""

    __slots__ = ("aval",)

    def __init__(self, aval: Aval) -> None:
        self.aval = aval


def signature(op: OpDef, arrays: Sequence[np.ndarray[Any, Any]], attrs: dict[str, Any], site: Callable[[], Site]) -> Signature:
    """The entry for these operands. What ``infer`` refuses is raised with the user's line."""
    if attrs:
        key: Any = (op, *[(a.shape, a.dtype) for a in arrays], *attrs.items(), *[math.copysign(1, v) for v in attrs.values() if v.__class__ is float])
    elif len(arrays) == 2:
        a, b = arrays
        key = op, a.shape, a.dtype, b.shape, b.dtype
    else:
        key = (op, *[(a.shape, a.dtype) for a in arrays])
    try:
        found = _table.get(key)
    except TypeError:                        # a list or an array among the attributes
        attrs = {k: _hashable(v) for k, v in attrs.items()}
        return signature(op, arrays, attrs, site)
    if found is None:
        found = Signature(op, tuple(aval_of(a) for a in arrays), {**op.defaults, **attrs}, site)
        if len(_table) >= _LIMIT:
            _table.clear()
        _table[key] = found
    return found


def _hashable(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return tuple(_hashable(v) for v in value)
    if isinstance(value, (np.ndarray, np.generic)):
        return _hashable(value.tolist())
    hash(value)
    return value


class Signature:
    """One op at given operand avals and attributes."""

    def __init__(self, op: OpDef, avals: tuple[Aval, ...], attrs: dict[str, Any], site: Callable[[], Site]) -> None:
        self.op, self.avals, self.attrs = op, avals, attrs
        try:
            aval = infer(op, [_Operand(a) for a in avals], attrs)
        except GraphError as error:
            error.site = site()
            raise
        self.single = not isinstance(aval, TupleAval)
        self.outs: tuple[Aval, ...] = (aval,) if self.single else aval.elements
        self.dtype = self.outs[0].dtype.np if self.single else None
        self.view = op.name in VIEWS
        ref = _loud(op)
        self.run: Callable[..., Any] = functools.partial(ref, **self.attrs) if self.attrs else ref
        self.differentiable = not isinstance(op.vjp, NotDifferentiable) and any(o.dtype.is_floating for o in self.outs)
        self.python = isinstance(op.lower, Host)             # runs the user's own code
        self.regions = any(hasattr(v, "results") for v in self.attrs.values())
        self.name = "".join(p.capitalize() for p in op.name.split("_")) + "Backward"
        self._pulls: dict[Any, Pull] = {}

    def pull(self, mask: tuple[bool, ...], present: tuple[bool, ...] | None = None) -> Pull:
        """The reverse rule for the operands in ``mask``; ``present`` says which results have a cotangent (several results only)."""
        key = mask if present is None else (mask, present)
        found = self._pulls.get(key)
        if found is None:
            found = self._pulls[key] = Pull(self, mask, present)
        return found


class Pull:
    """A reverse rule as steps over a list of values: [cotangents..., kept operands and results..., constants..., then each step's].

    ``kept`` numbers what is read: k for operand k, -1 - k for result k. ``results`` gives the place of each operand's cotangent
    (a pair for row-sparse ones), or None.
    """

    def __init__(self, sig: Signature, mask: tuple[bool, ...], present: tuple[bool, ...] | None) -> None:
        self.sig, self.mask = sig, mask
        self.refusal: str | None = sig.op.vjp.why if isinstance(sig.op.vjp, NoRule) else None
        self.kept: tuple[int, ...] = ()
        self.results: list[Any] = [None] * len(mask)
        self.steps: list[tuple[Any, ...]] = []
        self.nodes: list[Node] = []
        self.consts: list[Any] = []
        if sig.regions:                      # how often a loop runs is known when it has run: its rule computes with the values
            self.kept = (*range(len(mask)), *(-1 - k for k in range(len(sig.outs))))
        elif self.refusal is None:
            self._build(sig, mask, present)

    def _build(self, sig: Signature, mask: tuple[bool, ...], present: tuple[bool, ...] | None) -> None:
        op = sig.op
        graph = Graph(intern=True)
        b = GraphBuilder(graph, site=UNKNOWN)
        count = 0

        def param(aval: Aval) -> Node:
            nonlocal count
            count += 1
            return b.param(aval=aval, index=count)
        cts = [param(o) if present is None or present[k] else None for k, o in enumerate(sig.outs)]
        given = [c for c in cts if c is not None]
        xs, ys = [param(a) for a in sig.avals], [param(o) for o in sig.outs]
        result = op.vjp(b, cts[0], ys[0], *xs, **sig.attrs) if sig.single else op.vjp(b, tuple(cts), tuple(ys), *xs, **sig.attrs)
        wanted: list[Any] = []
        for x, ct, asked in zip(xs, result, mask):
            if ct is None or not asked:
                wanted.append(None)
            elif isinstance(ct, Slices):
                wanted.append((ct.indices, ct.values))
            else:
                wanted.append(b.sum_to(ct, x.aval.shape))
        ends = [n for w in wanted if w is not None for n in (w if isinstance(w, tuple) else (w,))]
        order = walk.ancestors(ends, control=False)
        values, constants, rest = _fold(order, ends)
        used = {n: k for k, n in enumerate(xs)} | {n: -1 - k for k, n in enumerate(ys)}
        kept = [n for n in order if n in used]
        self.kept = tuple(used[n] for n in kept)
        self.consts = [values[n] for n in constants]
        place = {n: k for k, n in enumerate([*given, *kept, *constants])}
        for n in rest:
            place[n] = len(place)
            self.steps.append(_step(n, [place[i] for i in n.inputs]))
        self.nodes = rest
        self.results = [None if w is None else tuple(place[n] for n in w) if isinstance(w, tuple) else place[w] for w in wanted]

    def __call__(self, values: list[Any]) -> list[Any]:
        """Cotangents of the operands. ``values`` are the results' cotangents and what was kept; it is used up."""
        values += self.consts
        put = values.append
        for count, f, where, dtype in self.steps:
            if count == 2:
                r = f(values[where[0]], values[where[1]])
            elif count == 1:
                r = f(values[where[0]])
            else:
                r = f(*[values[i] for i in where])
            if dtype is not None and r.dtype is not dtype:
                r = np.asarray(r, dtype)
            put(r)
        return [None if w is None else values[w] if w.__class__ is int else self.sliced(w, values, k) for k, w in enumerate(self.results)]

    def directly(self, b: Any, cts: Sequence[Any], kept: Sequence[Any]) -> list[Any]:
        """The rule of an op with regions, on tensors."""
        sig, n = self.sig, len(self.mask)
        ins, outs = kept[:n], kept[n:]
        result = sig.op.vjp(b, cts[0], outs[0], *ins, **sig.attrs) if sig.single else sig.op.vjp(b, tuple(cts), tuple(outs), *ins, **sig.attrs)
        return [None if c is None or not asked else b.sum_to(c.dense(b) if isinstance(c, Slices) else c, x.aval.shape)
                for c, asked, x in zip(result, self.mask, ins)]

    def sliced(self, where: tuple[int, int], values: list[Any], k: int) -> Slices:
        """A row-sparse cotangent of operand ``k``."""
        return Slices(values[where[0]], values[where[1]], self.sig.avals[k].shape)

    def record(self, b: Any, values: list[Any]) -> list[Any]:
        """The same on tensors, recorded (``create_graph``)."""
        values += [b.const(c) for c in self.consts]
        for n, (_, _, where, _) in zip(self.nodes, self.steps):
            ins = tuple(values[i] for i in where)
            values.append(ins[0][n.attr("index")] if n.op is OPS["get"] else b.apply(n.op, ins, n.kw))
        return [None if w is None else values[w] if w.__class__ is int else self.sliced(w, values, k).dense(b) for k, w in enumerate(self.results)]


def _fold(order: list[Node], ends: list[Node]) -> tuple[dict[Node, Any], list[Node], list[Node]]:
    """Values of constants and of small nodes made of them only; those of them that are read; the remaining nodes."""
    values: dict[Node, Any] = {}
    rest = []
    for n in order:
        if n.op is OPS["param"]:
            continue
        small = isinstance(n.aval, Aval) and _bytes(n.aval) <= _FOLDED
        if n.op is OPS["const"] or (small and all(i in values for i in n.inputs)):
            with np.errstate(all="ignore"):
                values[n] = np.asarray(n.op.ref(*[values[i] for i in n.inputs], **n.kw), n.aval.dtype.np)
        else:
            rest.append(n)
    read = {i for n in rest for i in n.inputs} | set(ends)
    return values, [n for n in order if n in values and n in read], rest


def _bytes(aval: Aval) -> int:
    count = 1
    for s in aval.shape:
        count *= int(s)
    return count * aval.dtype.size


def _loud(op: OpDef) -> Any:
    """The op's ``ref`` for a caller that has NumPy's warnings off."""
    return getattr(op.ref, "inner", op.ref)


def _step(n: Node, where: list[int]) -> tuple[Any, ...]:
    if n.op is OPS["get"]:
        return 1, itemgetter(n.attr("index")), where, None
    f, kw = _loud(n.op), n.kw
    if isinstance(n.aval, TupleAval):
        dtypes = [a.dtype.np for a in n.aval.elements]
        return -1, lambda *ins: tuple(np.asarray(r, d) for r, d in zip(f(*ins, **kw), dtypes)), where, None
    if kw:
        plain = f
        f = lambda *ins: plain(*ins, **kw)
    return (len(where) if len(where) in (1, 2) else -1), f, where, n.aval.dtype.np


def refused(sig: Signature, why: str) -> NotDifferentiableError:
    """The error of an op without a reverse rule."""
    return NotDifferentiableError(f"No gradient defined for operation {sig.op.name!r}: {why}")
