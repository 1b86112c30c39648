"""The tape of the define-by-run mode: what each result remembers.

The same op records serve here as in static graphs: a result's value is the op's ``ref``, its gradient the op's ``vjp``. A ``GradFn`` keeps the
operands whose values its rule reads, with the version their memory had; a rule that finds another version raises the
error, one that needs only a shape never does.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import source
from ..errors import GraphError, ShapeError
from ..source import Site
from .plans import Pull, Signature, refused

clock = itertools.count(1)


class AutogradError(GraphError, RuntimeError):
    """A misuse of the tape: a second backward, an overwritten value, a gradient of something without one.

    ::

        y = a.exp(); a.add_(1); y.sum().backward()      # exp kept its result: fine
        y = a.square(); a.add_(1); y.sum().backward()   # square kept a, which has changed: this error, with both lines
    """


class FitError(ShapeError, AutogradError):
    """A result or a value that does not fit the memory it is to be in."""


class Counter:
    """How often a piece of memory was changed in place, and the last change. Shared by a tensor, its views and ``detach``."""

    version = 0
    changed: tuple[str, Site] | None = None

    def bump(self, how: str, site: Site) -> None:
        """One more change."""
        self.version += 1
        self.changed = how, site


Edge = Any                                   # (GradFn or AccumulateGrad, number of its result), or None: nothing to tell


class GradFn:
    """One recorded operation. Prints like ``<MulBackward>``; ``next_functions`` are those of its operands."""

    name = "Backward"
    edges: tuple[Edge, ...] = ()
    site: Site = source.UNKNOWN
    outs: tuple[Any, ...] = ()               # avals of the results
    hooks: dict[int, list[Callable[..., Any]]] | None = None         # tensor hooks, by result
    retained: dict[int, Any] | None = None                           # result -> the tensor that keeps its gradient
    node_hooks: list[Callable[..., Any]] | None = None
    node_prehooks: list[Callable[..., Any]] | None = None

    def __init__(self) -> None:
        self.order = -next(clock)           # the youngest first, in a heap

    def __repr__(self) -> str:
        return f"<{self.name}>"

    @property
    def next_functions(self) -> tuple[tuple[Any, int], ...]:
        """(grad_fn, result number) per operand; a leaf that wants a gradient shows as ``<AccumulateGrad>``."""
        return tuple((None, 0) if e is None else e for e in self.edges)

    @property
    def metadata(self) -> dict[str, Any]:
        """What is known of it: ``line`` is the user's."""
        return {"line": self.site.describe()}

    def register_hook(self, hook: Callable[[Any, Any], Any]) -> Handle:
        """Call ``hook(grad_inputs, grad_outputs)`` after it ran; a tuple it returns replaces ``grad_inputs``."""
        if self.node_hooks is None:
            self.node_hooks = []
        return Handle(self.node_hooks, hook)

    def register_prehook(self, hook: Callable[[Any], Any]) -> Handle:
        """Call ``hook(grad_outputs)`` before it runs; a tuple it returns replaces them."""
        if self.node_prehooks is None:
            self.node_prehooks = []
        return Handle(self.node_prehooks, hook)

    def pull(self, b: Any, cts: list[Any], create: bool) -> Sequence[Any]:
        """Cotangents of the operands: arrays, or recorded tensors where ``create``."""
        raise TypeError(f"{type(self).__name__} must define pull")

    def free(self) -> None:
        """Drop what was kept."""


class OpFn(GradFn):
    """An op's record. ``kept`` numbers the values in ``saved``: k for operand k, -1 - k for result k."""

    sig: Signature
    plan: Pull
    kept: tuple[int, ...] = ()
    saved: Any = ()                          # (array, counter, version) per kept value; None once freed

    @property
    def name(self) -> str:                   # type: ignore[override]
        """``MulBackward``"""
        return self.sig.name

    def pull(self, b: Any, cts: list[Any], create: bool) -> Sequence[Any]:
        plan = self.plan
        if plan.refusal is not None:
            raise refused(self.sig, plan.refusal)
        if self.sig.regions:
            given = [c if create or c is None else b.tensor_type._wrap(c) for c in cts]
            got = plan.directly(b, given, [self._value(b, k, True) for k in plan.kept])
            return got if create else [None if g is None else g._array for g in got]
        if not self.sig.single:
            plan = self.sig.pull(plan.mask, tuple(c is not None for c in cts))
        values = [c for c in cts if c is not None]
        for k in plan.kept:
            values.append(self._value(b, k, create))
        return plan.record(b, values) if create else plan(values)

    def _value(self, b: Any, k: int, as_tensor: bool) -> Any:
        """Kept value ``k``: an array, or a tensor with its history."""
        if self.saved is None:
            raise freed(self)
        array, counter, version = self.saved[self.kept.index(k)]
        if counter.version != version:
            raise modified(self, k, counter, version)
        return b.with_history(array, counter, self.edges[k] if k >= 0 else (self, -1 - k)) if as_tensor else array

    def free(self) -> None:
        self.saved = None


def modified(fn: OpFn, k: int, counter: Counter, version: int) -> AutogradError:
    """The famous error for kept value ``k``."""
    what, aval = (f"operand {k}", fn.sig.avals[k]) if k >= 0 else (f"result {-1 - k}" if not fn.sig.single else "the result", fn.sig.outs[-1 - k])
    return modified_value(fn, what, aval, counter, version)


def modified_value(fn: GradFn, what: str, aval: Any, counter: Counter, version: int) -> AutogradError:
    """Which value, where it was kept, where it was changed."""
    error = AutogradError(
        f"one of the variables needed for gradient computation has been modified by an inplace operation: "
        f"{what} of {fn.name}, {aval}, is at version {counter.version}; expected version {version} instead")
    how, where = counter.changed if counter.changed is not None else ("?", source.UNKNOWN)
    source.add_note(error, f"kept for its gradient: {fn.site.describe()}")
    source.add_note(error, f"modified by {how}: {where.describe()}")
    source.add_note(error, "hint: use an operation that gives a new tensor in place of the second line, or clone() the value before it")
    return error


def freed(fn: GradFn) -> AutogradError:
    """The error of a second backward."""
    error = AutogradError(f"Trying to backward through the graph a second time: the values that {fn.name} kept were freed by the first backward. "
                          "Specify retain_graph=True in the first one if the graph is needed again")
    source.add_note(error, f"recorded at {fn.site.describe()}")
    return error


class AccumulateGrad(GradFn):
    """Where the tape ends at a leaf that wants a gradient."""

    name = "AccumulateGrad"

    def __init__(self, variable: Any) -> None:
        self.order = 0
        self.variable = variable

    @property
    def outs(self) -> tuple[Any, ...]:       # type: ignore[override]
        """The leaf's aval."""
        return (self.variable.aval,)


def accumulator(leaf: Any) -> AccumulateGrad:
    """The leaf's one accumulator; graphs keep it alive, the leaf does not."""
    ref = leaf._accumulator
    found: AccumulateGrad | None = ref() if ref is not None else None
    if found is None:
        found = AccumulateGrad(leaf)
        leaf._accumulator = weakref.ref(found)
    return found


class Overwrite(GradFn):
    """``copy_``, ``fill_``, ``zero_``: the old values get a zero gradient, the new ones' source all of it."""

    def __init__(self, name: str, edges: tuple[Edge, ...], aval: Any, source_aval: Any, site: Site) -> None:
        super().__init__()
        self.name = name.strip("_").capitalize() + "Backward"
        self.edges, self.outs, self.source_aval, self.site = edges, (aval,), source_aval, site

    def pull(self, b: Any, cts: list[Any], create: bool) -> Sequence[Any]:
        ct = cts[0]
        zero = None if self.edges[0] is None else b.zeros(self.outs[0]) if create else np.zeros(self.outs[0].shape, self.outs[0].dtype.np)
        if self.edges[1] is None:
            return [zero, None]
        t = ct if create else b.tensor_type._wrap(ct)
        t = b.sum_to(t, self.source_aval.shape)
        if self.source_aval.dtype != self.outs[0].dtype:
            t = b.cast(t, dtype=self.source_aval.dtype)
        return [zero, t if create else t._array]


class CopySlices(GradFn):
    """A change in place of a view, as its base sees it: the part under the view goes through ``inner``, the rest passes.

    ``chain`` are the signatures that lead from the base to the view. Operand 0 is the base's old value, the others are ``inner``'s.
    """

    name = "CopySlices"

    def __init__(self, base_edge: Edge, base_aval: Any, chain: tuple[Signature, ...], inner: GradFn, site: Site) -> None:
        super().__init__()
        self.edges = (base_edge, *inner.edges[1:])
        self.outs, self.chain, self.inner, self.site = (base_aval,), chain, inner, site

    def pull(self, b: Any, cts: list[Any], create: bool) -> Sequence[Any]:
        inside = cts[0]
        for sig in self.chain:
            inside = b.apply(sig.op, (inside,), sig.attrs) if create else sig.op.ref(inside, **sig.attrs)
        spread, *others = self.inner.pull(b, [inside], create)
        if self.edges[0] is None:
            return [None, *others]
        if spread is None:
            spread = b.zeros(inside.aval) if create else np.zeros_like(inside)
        for sig in reversed(self.chain):
            plan = sig.pull((True,))
            (spread,) = plan.record(b, [spread]) if create else plan([spread])
        covered = np.zeros(self.outs[0].shape, bool)
        part = covered
        for sig in self.chain:
            part = sig.op.ref(part, **sig.attrs)
        part[...] = True
        return [b.where(b.const(covered), spread, cts[0]) if create else np.where(covered, spread, cts[0]), *others]

    def free(self) -> None:
        self.inner.free()


class Handle:
    """Removes a hook: ``remove()``, or at the end of a ``with``."""

    def __init__(self, hooks: list[Any], hook: Any) -> None:
        self._hooks = hooks
        self._entry = (hook,)                # of its own, so that one function can be registered twice
        hooks.append(self._entry)

    def remove(self) -> None:
        """Do not call the hook any more."""
        self._hooks[:] = [e for e in self._hooks if e is not self._entry]

    def __enter__(self) -> Handle:
        return self

    def __exit__(self, *exc: Any) -> None:
        self.remove()
