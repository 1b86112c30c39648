"""Gradients by name: ``RegisterGradient`` and what ``graph.gradient_override_map`` makes of it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import source
from ..ir.graph import Node
from ..ir.opdef import OPS, NoRule, OpDef, View
from .ledger import Graph, LedgerBuilder
from .tensor import Operation, Tensor

_REGISTERED: dict[str, tuple[Callable[..., Any], str]] = {}
_made: list[str] = []


class RegisterGradient:
    """Decorator of ``f(op, *cotangents of its outputs) -> cotangents of its inputs`` under a name for ``graph.gradient_override_map``.

    KeyError for a name that is taken.
    """

    def __init__(self, op_type: str) -> None:
        if not isinstance(op_type, str):
            raise TypeError("op_type must be a string")
        self._name = op_type

    def __call__(self, grad_func: Callable[..., Any]) -> Callable[..., Any]:
        known = _REGISTERED.get(self._name)
        if known is not None:
            raise KeyError(f"Registering two gradient with name '{self._name}'! (Previous registration was in {known[1]})")
        _REGISTERED[self._name] = grad_func, source.capture().describe()
        return grad_func


NotDifferentiable = NoGradient = lambda op_type: RegisterGradient(op_type)(lambda op, *grads: [None] * len(op.inputs))
NotDifferentiable.__doc__ = "A registered gradient that is None for every input."


def overridden(g: Graph, op: Operation, nodes: Sequence[Node]) -> Sequence[Node]:
    """The nodes of a new operation, with the gradient that the maps in force name for its type."""
    name = next((m[op.construct] for m in reversed(g._gradient_overrides) if op.construct in m), None)
    if name is None or not op.inputs:
        return nodes
    op.attrs["_gradient_op_type"] = name.encode()
    return [g.builder.apply(_with_rule(g, op, nodes, k, name), (n, *(t.node for t in op.inputs)), {}) for k, n in enumerate(nodes)]


def _with_rule(g: Graph, op: Operation, nodes: Sequence[Node], index: int, name: str) -> OpDef:
    """An op (value, *inputs) -> value whose cotangents the registered function makes. It is linear in them, so outputs are taken one by one."""
    def vjp(b: Any, ct: Any, y: Any, v: Any, *xs: Any) -> list[Any]:
        if name not in _REGISTERED:
            raise LookupError(f"No gradient defined for operation '{op.name}' (op type: {op.type}): nothing is registered as '{name}'")
        own, g.builder = g.builder, g.builder if g.builder.graph is b.graph else _builder_of(g, b)
        try:
            view = copy.copy(op)
            view.inputs = [Tensor(t.op, t.value_index, x) for t, x in zip(op.inputs, xs)]
            view.outputs = [Tensor(view, k, v if k == index else n) for k, n in enumerate(nodes)]
            given = [Tensor(view, k, ct if k == index else g.builder.zeros(n.aval)) for k, n in enumerate(nodes)]
            grads = _REGISTERED[name][0](view, *given)
            grads = list(grads) if isinstance(grads, (list, tuple)) else [grads]
            if len(grads) != len(xs):
                raise ValueError(f"Num gradients {len(grads)} generated for op {op.name} do not match num inputs {len(xs)}")
            from .funnel import convert
            return [None, *(None if d is None else convert(d, t.dtype).node for d, t in zip(grads, view.inputs))]
        finally:
            g.builder = own
    _made.append(name)
    rule = OpDef(f"gradient_override_{len(_made)}", lambda v, *xs: v, lambda v, *xs: np.array(v), vjp, NoRule("a registered gradient is a reverse rule only"),
                 lambda b, size, ins, dims: (ins[0], dims[0]), View(lambda v, out: v), lambda rng: [])
    OPS[rule.name] = rule
    return rule


def _builder_of(g: Graph, b: Any) -> LedgerBuilder:
    """A builder of the ledger that appends where ``b`` does: a rule may run on the copy of a loop's body."""
    made = LedgerBuilder(g, b.graph)
    made.site, made.role = b.site, b.role
    return made
