"""The builder that computes now: applies ops to tensors, and records them where that is on."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import source
from ..dtypes import DType, bool_
from ..errors import GraphError
from ..ir import walk
from ..ir.builder import BuilderBase, to_array
from ..ir.evaluate import evaluate as interpret
from ..ir.graph import UNMERGED, ArrayAttr
from ..ir.opdef import OPS, Host, OpDef
from .modes import STATE
from .plans import Signature, signature
from .tape import Edge, OpFn, accumulator, clock


class _Quiet(threading.local):
    """``run(f, *arrays)`` without NumPy's floating-point warnings: a context that has them off, entered in a tenth of the time of ``np.errstate``."""

    def __init__(self) -> None:
        context = contextvars.copy_context()
        context.run(np.seterr, all="ignore")
        self.run = context.run


_quiet = _Quiet()


class MixedModesError(GraphError, TypeError):
    """A define-by-run tensor and a tensor of a graph met in one operation.

    ::

        y = placeholder * weights                        # weights: dy.tensor
        y = placeholder * weights.detach().numpy()       # its values now, as a constant of the graph
    """


def mixed(dynamic: Any, static: Any) -> MixedModesError:
    """The error, with what each operand is and what to do."""
    mine = "the define-by-run mode" if dynamic is None else f"a define-by-run tensor {list(dynamic.shape)}"
    error = MixedModesError(f"{mine} met {static}, which has no value while its graph is built")
    where = getattr(getattr(static, "op", None), "site", None)
    if where is not None:
        source.add_note(error, f"the graph's tensor was made at {where.describe()}")
    source.add_note(error, "hint: in a graph use t.detach().numpy() (its values now, a constant) or feed them to a placeholder; "
                           "in sg.function pass the tensor as an argument; define-by-run, use the graph tensor's value from Session.run")
    return error


def constant_value(static: Any) -> np.ndarray[Any, Any] | None:
    """The value of a graph's tensor that is made of constants only (``sg.zeros([3])``), else None."""
    node = (static._as_tensor() if hasattr(static, "_as_tensor") else static).node
    for n in walk.ancestors([node]):
        if n.op.traits & UNMERGED or n.op.has_effect or n.op in _LEAVES or isinstance(n.op.lower, Host) or n.control:
            return None
    result: np.ndarray[Any, Any] = interpret([node], {})[0]
    return result


_INDICES = frozenset({"i", "indices", "starts", "key", "words"})
_LEAVES = frozenset(OPS[name] for name in ("placeholder", "input", "param", "variable"))


class Compute(BuilderBase):
    """Operands are tensors, arrays or numbers; results are tensors."""

    computes = True                          # values are known: a rule may look at them

    def __init__(self, tensor_type: Any) -> None:
        self.tensor_type = tensor_type
        self.value_type = tensor_type

    def const(self, value: Any, dtype: DType | None = None) -> Any:
        """A tensor of its own memory that wants no gradient."""
        if isinstance(value, ArrayAttr):
            value = value.array
        if hasattr(value, "_as_graph_element") or hasattr(value, "_as_tensor"):
            return self.value_of(value, None)
        return self.tensor_type._wrap(np.array(to_array(value, dtype)))

    def operands(self, op: OpDef | None, inputs: Sequence[Any]) -> tuple[Any, ...]:
        """Inputs as tensors: numbers and arrays adopt the dtype of the first tensor among them (of one that is not bool, if any).

        Operands that are indices keep theirs.
        """
        kind = self.tensor_type
        for i in inputs:
            if not isinstance(i, kind):
                break
        else:
            return tuple(inputs)
        dtype = None
        for i in inputs:
            if isinstance(i, kind):
                dtype = i.dtype
                if dtype != bool_:
                    break
        names = op.signature[0] if op is not None else ()
        if op is OPS["where"] and not isinstance(inputs[0], kind):
            inputs = (self.const(np.asarray(inputs[0], bool)), *inputs[1:])
        return tuple(i if isinstance(i, kind) else self._operand(i, None if k < len(names) and names[k] in _INDICES else dtype, inputs) for k, i in enumerate(inputs))

    def _operand(self, value: Any, dtype: DType | None, inputs: Sequence[Any]) -> Any:
        if isinstance(value, self.tensor_type):
            return value
        kind = value.__class__
        if dtype is not None and dtype.kind == "f" and (kind is float or kind is int):
            return self.tensor_type._wrap(np.array(value, dtype.np))
        if hasattr(value, "_as_graph_element") or hasattr(value, "_as_tensor"):
            return self.value_of(value, next((i for i in inputs if isinstance(i, self.tensor_type)), None))
        return self.const(value, dtype)

    def value_of(self, static: Any, beside: Any) -> Any:
        """A graph's tensor that is made of constants only, as a tensor of this mode. MixedModesError for another."""
        held = getattr(static, "node", None)
        if isinstance(held, self.tensor_type):           # an operand on its way through the surface
            return held
        known = constant_value(static)
        if known is None:
            raise mixed(beside, static)
        return self.tensor_type._wrap(known)

    def array(self, x: Any) -> np.ndarray[Any, Any]:
        """The value of an operand."""
        result: np.ndarray[Any, Any] = x._array
        return result

    def stream(self, *, uid: Any, seed: int, seed2: int, advance: int) -> Any:
        """The key of a draw: a stream of this mode stands for that of a session."""
        from .random import stream_with
        return stream_with((seed, seed2)).key(advance)

    def capture(self, value: Any) -> Any:
        """The value itself: nothing lies outside."""
        return value

    def apply(self, op: OpDef, inputs: tuple[Any, ...], attrs: dict[str, Any], control: tuple[Any, ...] = ()) -> Any:
        """Apply ``op`` to tensors; an op with several results gives a tuple."""
        arrays = [t._array for t in inputs]
        sig = signature(op, arrays, attrs, source.capture)
        result = evaluate(sig, arrays)
        if sig.single:
            out = self._wrap(sig, result, inputs, arrays)
            if sig.differentiable and STATE.enabled:
                for t in inputs:
                    if t._requires_grad or (t._view is not None and t.requires_grad):
                        fn = describe(sig, inputs)
                        if fn.plan.kept:
                            keep(fn, inputs, (out,))
                        out._grad_fn, out._requires_grad = fn, True
                        break
            return out
        outs = tuple([self._wrap(sig, r, inputs, arrays) for r in result])
        if sig.differentiable and STATE.enabled and any(t.requires_grad for t in inputs):
            fn = describe(sig, inputs)
            keep(fn, inputs, outs)
            for k, o in enumerate(outs):
                if sig.outs[k].dtype.kind == "f":
                    o._grad_fn, o._index, o._requires_grad = fn, k, True
        return outs

    def _wrap(self, sig: Signature, result: np.ndarray[Any, Any], inputs: Sequence[Any], arrays: Sequence[Any]) -> Any:
        if sig.view:
            return self.tensor_type._view_of(inputs[0], result, sig)
        # results have memory of their own; a ref may hand its operand on
        if not result.flags.writeable or (result.base is not None and any(np.may_share_memory(result, a) for a in arrays)):
            result = result.copy(order="K")
        else:
            for a in arrays:
                if result is a:
                    result = result.copy(order="K")
                    break
        t = self.tensor_type.__new__(self.tensor_type)
        t._array = result
        return t

    def with_history(self, array: np.ndarray[Any, Any], counter: Any, edge: Edge) -> Any:
        """A kept value as a tensor: the leaf itself, or one that stands where the value stood."""
        if edge is not None and edge[0].order == 0:
            return edge[0].variable
        t = self.tensor_type._wrap(array)
        t._counter = counter
        if edge is not None:
            t._grad_fn, t._index = edge
            t._requires_grad = True
        return t

    def inline(self, region: Any, args: Sequence[Any]) -> tuple[Any, ...]:
        """Run a region's nodes on tensors."""
        made = dict(zip(region.params, args))
        for n in region.nodes:
            if n in made:
                continue
            ins = [made[i] for i in n.inputs]
            if n.op is OPS["get"]:
                made[n] = ins[0][n.attr("index")]
            elif n.op is OPS["const"]:
                made[n] = self.const(n.attr("value"))
            else:
                made[n] = self.apply(n.op, tuple(ins), n.kw)
        return tuple(made[r] for r in region.results)


def evaluate(sig: Signature, arrays: Sequence[np.ndarray[Any, Any]]) -> Any:
    """The op's NumPy meaning, in the inferred dtypes: an array, or a tuple of them."""
    if sig.python or sig.regions:            # ops of the user's own Python would enter the context again
        with np.errstate(all="ignore"):
            result = sig.run(*arrays)
    else:
        result = _quiet.run(sig.run, *arrays)
    if sig.single:
        return result if result.__class__ is np.ndarray and result.dtype is sig.dtype else np.asarray(result, sig.dtype)
    return tuple([np.asarray(r, a.dtype.np) for r, a in zip(result, sig.outs)])


def edge_of(t: Any) -> Edge:
    """Where the gradient of a tensor goes."""
    if t._view is not None:
        t._follow()
    if t._grad_fn is not None:
        return t._grad_fn, t._index
    return (accumulator(t), 0) if t._requires_grad else None


def describe(sig: Signature, inputs: Sequence[Any]) -> OpFn:
    """The record of an operation, before its results are known."""
    fn = OpFn.__new__(OpFn)
    fn.sig = sig
    fn.outs = sig.outs
    fn.site = source.capture(depth=1)
    edges: list[Edge] = []
    for t in inputs:
        if t._view is not None:
            t._follow()
        made_by = t._grad_fn
        if made_by is not None:
            edges.append((made_by, t._index))
        else:
            edges.append((accumulator(t), 0) if t._requires_grad else None)
    fn.edges = tuple(edges)
    fn.order = -next(clock)                  # after the operands' histories, which a view may only now have brought up to date
    fn.plan = sig.pull(tuple([e is not None for e in edges]))
    return fn


def keep(fn: OpFn, inputs: Sequence[Any], outs: Sequence[Any]) -> None:
    """Note the values that the rule reads, with their versions; of several results any may lack a cotangent, so everything is kept then."""
    fn.kept = kept = fn.plan.kept if fn.sig.single else (*range(len(inputs)), *(-1 - k for k in range(len(outs))))
    saved = []
    for k in kept:
        t = inputs[k] if k >= 0 else outs[-1 - k]
        c = t._counter or t.counter
        saved.append((t._array, c, c.version))
    fn.saved = saved
