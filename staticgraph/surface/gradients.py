"""``gradients``, ``IndexedSlices``, ``hessians`` and custom gradients."""

from __future__ import annotations

import collections
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import source
from ..transforms.gradient import Slices
from ..transforms.gradient import gradients as node_gradients
from .array_ops import stop_gradient
from .deferred import recorded
from .funnel import convert, emit, graph_of, is_dynamic
from .tensor import Tensor
from .variables import Variable

IndexedSlicesValue = collections.namedtuple("IndexedSlicesValue", ["values", "indices", "dense_shape"])


class IndexedSlices:
    """A gradient that is nonzero in some rows: ``values[k]`` belongs to row ``indices[k]``; repeated rows add up."""

    def __init__(self, values: Tensor, indices: Tensor, dense_shape: Any = None, shape: Any = None) -> None:
        self.values, self.indices, self.dense_shape = values, indices, dense_shape
        self._sizes = shape

    graph = property(lambda self: self.values.graph, doc="The graph.")
    dtype = property(lambda self: self.values.dtype, doc="The element type.")
    op = property(lambda self: self.values.op, doc="The operation of the values.")
    name = property(lambda self: self.values.name, doc="The name of the values.")
    device = ""

    def _as_tensor(self) -> Tensor:
        """The full array, rows added up."""
        result: Tensor = emit("UnsortedSegmentSum", "IndexedSlices_dense", (self.values, self.indices), lambda b, v, i: Slices(i, v, self._sizes).dense(b))
        return result

    def _fetch_parts(self) -> Any:
        known = self._sizes is not None and all(isinstance(d, int) for d in self._sizes)
        shape = np.array(self._sizes, np.int32) if known else None
        return [self.values, self.indices], lambda got: IndexedSlicesValue(got[0], got[1], shape)

    def __repr__(self) -> str:
        return f"IndexedSlices(indices={self.indices}, values={self.values})"


@recorded
def gradients(ys: Any, xs: Any, grad_ys: Any = None, name: str = "gradients", colocate_gradients_with_ops: bool = False, gate_gradients: Any = False,
              aggregation_method: Any = None, stop_gradients: Any = None, unconnected_gradients: Any = "none") -> list[Any]:
    """Derivatives of sum(ys) by each x: tensors, ``IndexedSlices`` for rows of a table, None where nothing connects them.

    ``unconnected_gradients``: "none", "zero", or "error" (says where the path ends).
    """
    with source.hide_own_frames():
        y_list = _listed(ys)
        x_list = _listed(xs)
        given = [None] * len(y_list) if grad_ys is None else _listed(grad_ys)
        if is_dynamic([*y_list, *x_list]):
            return _now(y_list, x_list, given, stop_gradients, getattr(unconnected_gradients, "value", unconnected_gradients))
        tensors = [convert(y) for y in y_list]
        g = graph_of([*tensors, *(x for x in x_list if isinstance(x, (Tensor, Variable)))])
        with g.name_scope(name):
            seeds = [None if s is None else convert(s, t.dtype, f"grad_ys_{k}") for k, (s, t) in enumerate(zip(given, tensors))]
            x_nodes = [x.node if isinstance(x, Variable) else convert(x).node for x in x_list]
            stops = [s.node if isinstance(s, Variable) else convert(s).node for s in _listed(stop_gradients or [])]
            b = g.builder
            x_nodes = [b.capture(n) for n in x_nodes]
            with g.lock:
                found = node_gradients(b, [b.capture(t.node) for t in tensors], x_nodes, [None if s is None else b.capture(s.node) for s in seeds], stops, keep_slices=True)
            b.site, b.role = None, ""
            out = [_wrapped(f, n) for f, n in zip(found, x_nodes)]
            mode = getattr(unconnected_gradients, "value", unconnected_gradients)
            if mode == "zero":
                out = [emit("ZerosLike", "zeros_like", (), lambda b, n=n: b.zeros(n.aval)) if o is None else o for o, n in zip(out, x_nodes)]
            elif mode == "error" and any(o is None for o in out):
                k = out.index(None)
                raise ValueError(f"no differentiable path leads from {x_list[k]} to {', '.join(str(y) for y in y_list)}: {_why(tensors, x_nodes[k])}")
            return out


def _now(ys: list[Any], xs: list[Any], given: list[Any], stop_gradients: Any, unconnected: str) -> list[Any]:
    """``gradients`` of define-by-run tensors, by the tape."""
    from ..dynamic import transforms, zeros_like
    if stop_gradients:
        raise ValueError("stop_gradients names nodes of a graph; for define-by-run tensors use detach() where the path is to end")
    out = transforms.gradients(ys, xs, given)
    if unconnected == "error" and any(o is None for o in out):
        raise ValueError(f"no differentiable path leads from xs[{[o is None for o in out].index(True)}] to ys: it does not require a gradient, or was not used")
    return [zeros_like(x) if o is None and unconnected == "zero" else o for o, x in zip(out, xs)]


def _why(tensors: list[Tensor], x: Any) -> str:
    from ..ir import walk
    from ..ir.opdef import NotDifferentiable
    for t in tensors:
        steps = walk.path(x, t.node)
        for n in steps[1:]:
            if isinstance(n.op.vjp, NotDifferentiable):
                return f"it ends at {n.op.name} ({n.site.describe()}): {n.op.vjp.why}"
        if steps:
            return "only through an integer operand"
    return "the result does not depend on it"


def _listed(x: Any) -> list[Any]:
    return list(x) if isinstance(x, (list, tuple)) else [x]


def _wrapped(found: Any, node: Any) -> Any:
    if found is None:
        return None
    if isinstance(found, Slices):
        rows = emit("Gather", "values", (), lambda b: found.values)
        ids = emit("Reshape", "indices", (), lambda b: found.indices)
        return IndexedSlices(rows, ids, shape=found.shape)
    return emit("Grad", "grad", (), lambda b: found)


@recorded
def hessians(ys: Any, xs: Any, name: str = "hessians", colocate_gradients_with_ops: bool = False, gate_gradients: Any = False,
             aggregation_method: Any = None) -> list[Any]:
    """Second derivatives by each x, shape x.shape + x.shape."""
    with source.hide_own_frames():
        out = []
        for x in _listed(xs):
            t = x if isinstance(x, (Tensor, Variable)) else convert(x)
            first = gradients(ys, [t])[0]
            shape = t.node.shape
            count = 1
            for d in shape:
                count *= d

            def build(b: Any, gnode: Any, t: Any = t, count: int = count, shape: Any = shape) -> Any:
                flat = b.reshape(gnode, shape=(count,))
                rows = []
                for k in range(count):
                    part = b.reshape(b.slice(flat, starts=(k,), sizes=(1,), steps=(1,)), shape=())
                    row = node_gradients(b, [part], [t.node])[0]
                    rows.append(row if row is not None else b.zeros(t.node.aval))
                return b.reshape(b.stack(*rows, axis=0), shape=(*shape, *shape))
            out.append(emit("Hessian", name, (first,), build))
        return out


def custom_gradient(f: Callable[..., Any]) -> Callable[..., Any]:
    """``f(*args)`` returns ``(result, grad_fn)``; ``grad_fn(ct)`` gives the cotangents of the arguments."""
    def call(*args: Any) -> Any:
        with source.hide_own_frames():
            if is_dynamic(args):
                from ..dynamic.autograd import with_rule
                return with_rule(f, args)
            ins = [convert(a) for a in args]
            value, grad_fn = f(*[stop_gradient(t) for t in ins])
            return _attach(value, ins, grad_fn)
    call.__name__ = getattr(f, "__name__", "custom_gradient")
    call.__doc__ = f.__doc__
    return call


def _attach(value: Tensor, ins: list[Tensor], grad_fn: Callable[..., Any]) -> Tensor:
    from ..ir.opdef import OpDef, View

    def vjp(b: Any, ct: Any, y: Any, v: Any, *xs: Any) -> list[Any]:
        seed = emit("Identity", "custom_gradient", (), lambda bb: ct)
        grads = grad_fn(seed)
        grads = grads if isinstance(grads, (list, tuple)) else [grads]
        return [None, *(None if g is None else convert(g).node for g in grads)]
    from ..ir.opdef import OPS, NoRule
    _CUSTOM.append(vjp)
    name = f"custom_gradient_{len(_CUSTOM)}"
    op = OpDef(name, lambda v, *xs: v, lambda v, *xs: v, vjp, NoRule("custom_gradient was given a reverse rule only"),
               lambda b, size, ins_, dims: (ins_[0], dims[0]), View(lambda v, out: v), lambda rng: [])
    OPS[name] = op
    result: Tensor = emit("IdentityN", "custom_gradient", (value, *ins), lambda b, *ns: b.apply(op, ns, {}))
    return result


_CUSTOM: list[Any] = []
