"""``dy.autograd``: ``grad``, ``backward``, and ``Function``, an operation with a reverse rule of the user's own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import source
from .compute import edge_of
from .modes import STATE, GradMode
from .tape import AutogradError, GradFn, freed, modified_value
from .tensor import Tensor, backward, compute, grad

__all__ = ["Context", "Function", "backward", "grad"]


class Context:
    """What ``forward`` hands to ``backward``: ``save_for_backward`` checks versions, other attributes are free."""

    needs_input_grad: tuple[bool, ...] = ()
    _saved: Any = ()
    _dirty: tuple[Tensor, ...] = ()
    _fixed: tuple[Tensor, ...] = ()

    def save_for_backward(self, *tensors: Any) -> None:
        """Keep tensors; reading one that was changed in place since raises."""
        self._saved = tuple((t, t._version if isinstance(t, Tensor) else 0) for t in tensors)

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        """Results without a gradient."""
        self._fixed = tensors

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """What was kept."""
        if self._saved is None:
            raise freed(self._node)
        for k, (t, v) in enumerate(self._saved):
            if isinstance(t, Tensor) and t._version != v:
                raise modified_value(self._node, f"saved tensor {k}", t.aval, t.counter, v)
        return tuple(t for t, _ in self._saved)

    _node: Any = None


class _CustomFn(GradFn):
    """The record of a user's ``Function``."""

    def __init__(self, cls: type[Function], ctx: Context, tensors: Sequence[Any]) -> None:
        self.cls, self.ctx = cls, ctx
        self.name = cls.__name__ + "Backward"
        self.edges = tuple(edge_of(t) if isinstance(t, Tensor) else None for t in tensors)
        super().__init__()                   # younger than its operands' histories
        self.site = source.capture()

    def pull(self, b: Any, cts: list[Any], create: bool) -> Sequence[Any]:
        given = [compute.zeros(a) if c is None else c if create else Tensor._wrap(c) for c, a in zip(cts, self.outs)]
        with GradMode(create):
            got = self.cls.backward(self.ctx, *given)
        got = got if isinstance(got, tuple) else (got,)
        if len(got) != len(self.edges):
            raise AutogradError(f"function {self.name} returned an incorrect number of gradients (expected {len(self.edges)}, got {len(got)})")
        out: list[Any] = []
        for g, e in zip(got, self.edges):
            if g is None or e is None:
                out.append(None)
                continue
            want = e[0].outs[e[1]]
            g = compute.sum_to(g if isinstance(g, Tensor) else compute.const(g, want.dtype), want.shape)
            out.append(g if create else np.asarray(g._array, want.dtype.np))
        return out

    def free(self) -> None:
        self.ctx._saved = None


class Function:
    """An operation of the user's own: ``forward(ctx, *args)`` and ``backward(ctx, *grads)``, both static; ``apply`` calls it.

    ::

        class Cube(dy.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return x ** 3

            @staticmethod
            def backward(ctx, grad):
                (x,) = ctx.saved_tensors
                return grad * 3 * x * x
    """

    @staticmethod
    def forward(ctx: Any, *args: Any) -> Any:
        """The result, a tensor or several."""
        raise NotImplementedError("You must implement the forward function for custom autograd.Function.")

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """One gradient (or None) per argument of ``forward``."""
        raise NotImplementedError("You must implement the backward method for your custom autograd.Function to use it with backward mode AD.")

    @classmethod
    def apply(cls, *args: Any) -> Any:
        """Run ``forward``, and record the call."""
        ctx = Context()
        ctx.needs_input_grad = tuple(isinstance(a, Tensor) and a.requires_grad for a in args)
        record = STATE.enabled and any(ctx.needs_input_grad)
        node = _CustomFn(cls, ctx, args) if record else None
        ctx._node = node
        with GradMode(False):
            out = cls.forward(ctx, *args)
        if node is None:
            return out
        outs = out if isinstance(out, tuple) else (out,)
        results = []
        for k, o in enumerate(outs):
            r = Tensor._wrap(o._array)
            r._counter = o.counter
            if r.dtype.is_floating and not any(o is f for f in ctx._fixed):
                r._grad_fn, r._index, r._requires_grad = node, k, True
            results.append(r)
        node.outs = tuple(r.aval for r in results)
        if ctx._saved:                       # a kept result is the recorded one, for second derivatives
            ctx._saved = tuple((next((r for r, o in zip(results, outs) if o is t), t), v) for t, v in ctx._saved)
        return tuple(results) if isinstance(out, tuple) else results[0]


def with_rule(f: Any, args: Sequence[Any]) -> Tensor:
    """``sg.custom_gradient`` here: ``f(*args)`` gives (result, rule)."""
    class Rule(Function):
        @staticmethod
        def forward(ctx: Any, *inner: Any) -> Any:
            value, ctx.rule = f(*inner)
            return value

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            got = ctx.rule(*grads)
            return tuple(got) if isinstance(got, (list, tuple)) else got
    Rule.__name__ = getattr(f, "__name__", "CustomGradient").strip("<>")
    tensors = [a if isinstance(a, Tensor) else compute.const(a) for a in args]
    result: Tensor = Rule.apply(*tensors)
    return result
