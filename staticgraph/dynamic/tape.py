"""The tape of the define-by-run mode: what each result remembers, and the walk backwards.

The same op records serve here as in static graphs: a result's value is the op's ``ref``, its gradient the op's ``vjp`` run by a builder that
computes at once. Operands are saved with their version; a rule that needs an overwritten value gets the error, one
that needs only its shape does not.
"""

from __future__ import annotations

import heapq
import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from .. import source
from ..dtypes import DType, as_dtype
from ..errors import GraphError, NotDifferentiableError
from ..ir.aval import Aval, TupleAval
from ..ir.builder import BuilderBase, infer, to_array
from ..ir.opdef import NoRule, NotDifferentiable, OpDef
from ..source import Site


class AutogradError(GraphError, RuntimeError):
    """A misuse of the tape: a second backward, an overwritten value, a gradient of something without one.

    ::

        y = a.exp(); a.add_(1); y.sum().backward()      # exp kept its result: fine
        y = a.square(); a.add_(1); y.sum().backward()   # square kept a, which has changed: this error, with both lines
    """


class _State(threading.local):
    enabled = True


_state = _State()
_clock = itertools.count(1)


def is_grad_enabled() -> bool:
    """Whether operations are recorded now (in this thread)."""
    return _state.enabled


@contextmanager
def grad_mode(enabled: bool) -> Iterator[None]:
    """Within: record operations, or do not."""
    saved, _state.enabled = _state.enabled, enabled
    try:
        yield
    finally:
        _state.enabled = saved


class Storage:
    """The memory of a tensor, its version, and the line of its last change in place. Shared by ``detach``."""

    __slots__ = ("array", "changed", "version")

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.array = array
        self.version = 0
        self.changed: tuple[str, Site] | None = None


class Saved:
    """An operand or result as a backward rule sees it: shape and dtype are free, the value is checked when used."""

    __slots__ = ("fn", "tensor", "version", "what")

    def __init__(self, tensor: Any, version: int, fn: GradFn, what: str) -> None:
        self.tensor, self.version, self.fn, self.what = tensor, version, fn, what

    @property
    def aval(self) -> Aval:
        """Shape and dtype."""
        return self.tensor.aval

    def unpack(self) -> Any:
        """The tensor. AutogradError if its memory has been changed since."""
        storage = self.tensor._storage
        if storage.version == self.version:
            return self.tensor
        how, where = storage.changed
        error = AutogradError(
            f"one of the variables needed for gradient computation has been modified by an inplace operation: "
            f"{self.what} of {self.fn.name}, a {self.aval}, is at version {storage.version}; expected version {self.version}")
        source.add_note(error, f"needed by: {self.fn.site.describe()}")
        source.add_note(error, f"modified by {how}: {where.describe()}")
        source.add_note(error, "hint: make a copy before the change (clone), or use the operation that gives a new tensor")
        raise error


class GradFn:
    """One recorded operation. Prints like ``<MulBackward>``; ``next_functions`` are those of its operands."""

    __slots__ = ("__weakref__", "attrs", "freed", "hooks", "inputs", "op", "order", "out_versions", "outputs", "pull", "site", "versions")

    def __init__(self, op: OpDef, attrs: dict[str, Any], inputs: tuple[Any, ...], site: Site) -> None:
        self.op, self.attrs, self.inputs, self.site = op, attrs, inputs, site
        self.versions = tuple(x._storage.version for x in inputs)
        self.outputs: tuple[Any, ...] = ()   # (storage, aval) of the results, so that results do not keep themselves alive
        self.out_versions: tuple[int, ...] = ()
        self.order = next(_clock)
        self.freed = False
        self.hooks: list[Callable[..., Any]] = []
        self.pull: Callable[..., Any] | None = None      # a rule of its own (checkpoint) in place of the op's

    @property
    def name(self) -> str:
        """``MulBackward``"""
        return "".join(p.capitalize() for p in self.op.name.split("_")) + "Backward"

    def __repr__(self) -> str:
        return f"<{self.name}>"

    @property
    def next_functions(self) -> tuple[tuple[Any, int], ...]:
        """(grad_fn, output number) per operand; a leaf that wants a gradient shows as ``<AccumulateGrad>``."""
        return tuple((x._edge(), x._index) for x in self.inputs)

    def free(self) -> None:
        """Drop what was saved."""
        self.freed = True
        self.outputs = ()


class AccumulateGrad:
    """Stands for a leaf in ``next_functions``."""

    def __init__(self, variable: Any) -> None:
        self.variable = variable

    def __repr__(self) -> str:
        return "<AccumulateGrad>"


class Compute(BuilderBase):
    """The builder that computes now. Operands are tensors (or saved ones); results are tensors, recorded where that is on."""

    computes = True

    def __init__(self, tensor_type: type) -> None:
        self.tensor_type = tensor_type
        self.value_type = (tensor_type, Saved)                               # type: ignore[assignment]

    def const(self, value: Any, dtype: DType | None = None) -> Any:
        array = getattr(value, "array", value)
        return self.tensor_type._wrap(np.array(to_array(array, dtype)))      # type: ignore[attr-defined]

    def array(self, x: Any) -> np.ndarray[Any, Any]:
        """The value of an operand."""
        result: np.ndarray[Any, Any] = (x.unpack() if isinstance(x, Saved) else x)._storage.array
        return result

    def apply(self, op: OpDef, inputs: tuple[Any, ...], attrs: dict[str, Any], control: tuple[Any, ...] = ()) -> Any:
        tensors = tuple(i.unpack() if isinstance(i, Saved) else i for i in inputs)
        if op.defaults:
            attrs = {**op.defaults, **attrs}
        site = source.capture()
        aval = infer(op, tensors, attrs, site)
        with np.errstate(all="ignore"):
            result = op.ref(*[t._storage.array for t in tensors], **attrs)
        arrays = result if isinstance(aval, TupleAval) else (result,)
        avals = aval.elements if isinstance(aval, TupleAval) else (aval,)
        own = [self._own(np.asarray(a), av, tensors) for a, av in zip(arrays, avals)]
        outs = tuple(self.tensor_type._wrap(a) for a in own)                 # type: ignore[attr-defined]
        if _state.enabled and any(t.requires_grad for t in tensors) and not isinstance(op.vjp, NotDifferentiable):
            record(op, attrs, tensors, outs, site)
        return outs if isinstance(aval, TupleAval) else outs[0]

    @staticmethod
    def _own(array: np.ndarray[Any, Any], aval: Aval, tensors: Sequence[Any]) -> np.ndarray[Any, Any]:
        # results have memory of their own: in this mode a change in place never shows through another tensor
        array = array.astype(aval.dtype.np, copy=False)
        if array.base is not None or any(array is t._storage.array for t in tensors) or not array.flags.c_contiguous:
            array = np.array(array, order="C")
        return array

    def inline(self, region: Any, args: Sequence[Any]) -> tuple[Any, ...]:
        """Run a region's nodes on tensors."""
        made = dict(zip(region.params, args))
        for n in region.nodes:
            if n in made:
                continue
            ins = [made[i] for i in n.inputs]
            if n.op.name == "get":
                made[n] = ins[0][n.attr("index")]
            else:
                made[n] = self.apply(n.op, tuple(ins), n.kw)
        return tuple(made[r] for r in region.results)


def record(op: OpDef, attrs: dict[str, Any], inputs: tuple[Any, ...], outs: tuple[Any, ...], site: Site) -> GradFn:
    """Tie results to the operation that made them."""
    fn = GradFn(op, attrs, inputs, site)
    for k, o in enumerate(outs):
        if o.dtype.is_floating:
            o._grad_fn, o._index, o._requires_grad = fn, k, True
    fn.outputs = tuple((o._storage, o.aval) for o in outs)
    fn.out_versions = tuple(o._storage.version for o in outs)
    return fn


def backward(b: Compute, roots: Sequence[Any], cts: Sequence[Any], retain: bool, create: bool,
             wanted: Sequence[Any] | None = None) -> dict[int, Any]:
    """Cotangents from ``roots`` back; returns those of leaves (or of ``wanted``) by ``id``.

    Users come before inputs: operations are visited in the reverse of their recorded order.
    """
    pending: dict[GradFn, list[list[Any]]] = {}
    found: dict[int, Any] = {}
    heap: list[tuple[int, GradFn]] = []
    targets = {(t._grad_fn, t._index): t for t in wanted or () if t._grad_fn is not None}

    def give(t: Any, ct: Any) -> None:
        fn = t._grad_fn
        if fn is None:
            if t._requires_grad and (wanted is None or any(t is w for w in wanted)):
                found[id(t)] = ct if id(t) not in found else b.add(found[id(t)], ct)
            return
        if fn not in pending:
            pending[fn] = [[] for _ in range(max(1, len(fn.out_versions)))]
            heapq.heappush(heap, (-fn.order, fn))
        pending[fn][t._index].append(ct)

    with grad_mode(create):
        for t, ct in zip(roots, cts):
            give(t, ct)
        while heap:
            fn = heapq.heappop(heap)[1]
            totals = [b.add_n(parts) for parts in pending.pop(fn)]
            for (f, k), t in targets.items():
                if f is fn and totals[k] is not None:
                    found[id(t)] = totals[k]
            for hook in fn.hooks:
                totals = hook(totals)
            for t, ct in zip(fn.inputs, _pull(b, fn, totals)):
                if ct is not None and t.requires_grad:
                    give(t, b.sum_to(ct, t.aval.shape))
            if not retain:
                fn.free()
    return found


def _pull(b: Compute, fn: GradFn, totals: list[Any]) -> Sequence[Any]:
    if fn.freed:
        error = AutogradError("Trying to backward through the graph a second time: the values it kept were freed by the first "
                              "backward. Specify retain_graph=True in the first one if you need it again")
        source.add_note(error, f"in {fn!r}, recorded at {fn.site.describe()}")
        raise error
    if fn.pull is not None:
        return fn.pull(totals)
    rule = fn.op.vjp
    if isinstance(rule, NoRule):
        raise NotDifferentiableError(f"No gradient defined for operation {fn.op.name!r}: {rule.why}")
    ins = [Saved(t, v, fn, f"operand {k}") for k, (t, v) in enumerate(zip(fn.inputs, fn.versions))]
    outs = []
    for k, ((storage, _), version) in enumerate(zip(fn.outputs, fn.out_versions)):
        t = b.tensor_type._of(storage)                                       # type: ignore[attr-defined]
        t._grad_fn, t._index, t._requires_grad = fn, k, True
        outs.append(Saved(t, version, fn, "the result"))
    if len(outs) == 1 and not _is_tuple(fn):
        result = rule(b, totals[0], outs[0], *ins, **fn.attrs)
    else:
        result = rule(b, tuple(totals), tuple(outs), *ins, **fn.attrs)
    return [c.dense(b) if hasattr(c, "dense") else c for c in result]


def _is_tuple(fn: GradFn) -> bool:
    return len(fn.outputs) > 1 or isinstance(fn.op.infer(*[t.aval for t in fn.inputs], **fn.attrs), TupleAval)


def dtype_of(value: Any) -> DType:
    """The dtype an array or number is taken to have."""
    return as_dtype(np.asarray(value).dtype)
