"""Optimizers with TF1's formulas, slots and names. One update is part of the graph, and of the one native call of a step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import source
from ..surface.array_ops import constant
from ..surface.deferred import recorded
from ..surface.funnel import convert, emit, emit_operation
from ..surface.gradients import IndexedSlices, gradients
from ..surface.ledger import get_default_graph
from ..surface.math_ops import cast
from ..surface.sharing import get_variable_scope
from ..surface.tensor import Operation, Tensor
from ..surface.variables import GraphKeys, Variable, group_node, trainable_variables

Builder = Any


class Optimizer:
    """Base: ``compute_gradients``, ``apply_gradients`` and both as ``minimize``."""

    GATE_NONE, GATE_OP, GATE_GRAPH = 0, 1, 2
    slots: tuple[str, ...] = ()
    _touched: Tensor | None = None           # while a sparse update is made: which elements it may change

    def __init__(self, use_locking: bool, name: str) -> None:
        if not name:
            raise ValueError("Must specify the optimizer name")
        self._name = name
        self._slots: dict[str, dict[Variable, Variable]] = {}
        self._non_slots: dict[tuple[str, Any], Variable] = {}

    def get_name(self) -> str:
        """The optimizer's name."""
        return self._name

    def minimize(self, loss: Any, global_step: Any = None, var_list: Any = None, gate_gradients: int = 1, aggregation_method: Any = None,
                 colocate_gradients_with_ops: bool = False, name: str | None = None, grad_loss: Any = None) -> Operation:
        """One step of descent on ``loss`` as an operation. ValueError where nothing connects a variable to the loss."""
        with source.hide_own_frames():
            pairs = self.compute_gradients(loss, var_list, grad_loss=grad_loss)
            if not any(g is not None for g, _ in pairs):
                raise ValueError("No gradients provided for any variable, check your graph for ops that do not support gradients, between variables "
                                 f"{[str(v) for _, v in pairs]} and loss {loss}.")
            return self.apply_gradients(pairs, global_step, name)

    def compute_gradients(self, loss: Any, var_list: Any = None, gate_gradients: int = 1, aggregation_method: Any = None,
                          colocate_gradients_with_ops: bool = False, grad_loss: Any = None) -> list[tuple[Any, Variable]]:
        """(gradient or None, variable) for every variable."""
        with source.hide_own_frames():
            loss.dtype                                           # noqa: B018  (a float loss has none: AttributeError, as in TF1)
            variables = trainable_variables() if var_list is None else list(var_list) if isinstance(var_list, (list, tuple)) else [var_list]
            if not variables:
                raise ValueError("No variables to optimize.")
            return list(zip(gradients(loss, variables, grad_ys=grad_loss), variables))

    @recorded
    def apply_gradients(self, grads_and_vars: Any, global_step: Any = None, name: str | None = None) -> Operation:
        """The update as an operation; with ``global_step`` that is counted up after it."""
        with source.hide_own_frames():
            pairs = list(grads_and_vars)
            if not pairs:
                raise ValueError("No variables provided.")
            live = [(g, v) for g, v in pairs if g is not None]
            if not live:
                raise ValueError(f"No gradients provided for any variable: {[str(v) for _, v in pairs]}.")
            graph = get_default_graph()
            # slots are variables: they are named by the variable scope, not by the name scope of the caller
            with graph.name_scope(None), graph.control_dependencies(None):
                self._create_slots([v for _, v in live])
            label = name or self._name
            with graph.name_scope(label) as scope:
                context = self._prepare()
                nodes: list[Any] = []
                for g, v in live:
                    with graph.name_scope(f"update_{v.op.name.replace('/', '_')}"):
                        made = self._apply(context, g, v)
                        nodes += made if v.constraint is None else [*made, _constrained(graph, g, v, made).node]
                with graph.control_dependencies(None):
                    nodes += self._finish(context, nodes)
            if global_step is None:
                op = emit_operation("NoOp", scope, group_node(graph, nodes), graph)
            else:
                with graph.control_dependencies([_Nodes(graph, nodes)]):
                    step = global_step.assign_add(constant(1, global_step.base_dtype, name=f"{scope}value"), name=scope)
                op = step.op
            ops = graph.get_collection_ref(GraphKeys.TRAIN_OP)
            if op not in ops:
                ops.append(op)
            return op

    # ---- slots ---------------------------------------------------------------------------------------------------------------------

    def _create_slots(self, variables: Sequence[Variable]) -> None:
        for name in self.slots:
            for v in variables:
                self._slot(v, name, self._slot_start(name, v), self._slot_label(name))

    def _slot_start(self, name: str, v: Variable) -> float:
        return 0.0

    def _slot_label(self, name: str) -> str:
        return self._name

    def _slot(self, v: Variable, slot: str, start: float, label: str) -> Variable:
        table = self._slots.setdefault(slot, {})
        if v not in table:
            prefix = get_variable_scope().name
            full = f"{prefix}/{v.op.name}/{label}" if prefix else f"{v.op.name}/{label}"
            value = constant(np.full(tuple(v.node.shape), start, v.base_dtype.np), name=f"{full}/Initializer/zeros")
            table[v] = Variable(value, trainable=False, name=full)
        return table[v]

    def get_slot(self, var: Variable, name: str) -> Variable | None:
        """A slot of a variable, or None."""
        return self._slots.get(name, {}).get(var)

    def get_slot_names(self) -> list[str]:
        """Names of the slots in use."""
        return sorted(self._slots)

    def _non_slot(self, start: Any, name: str, like: Variable) -> Variable:
        key = (name, get_default_graph())
        if key not in self._non_slots:
            prefix = get_variable_scope().name
            full = f"{prefix}/{name}" if prefix else name
            self._non_slots[key] = Variable(np.asarray(start, like.base_dtype.np), trainable=False, name=full)
        return self._non_slots[key]

    def variables(self) -> list[Variable]:
        """All variables the optimizer made."""
        return [*self._non_slots.values(), *(v for t in self._slots.values() for v in t.values())]

    # ---- one update ----------------------------------------------------------------------------------------------------------------

    def _prepare(self) -> dict[str, Any]:
        """What all updates share: hyperparameters as tensors."""
        return {}

    def _apply(self, context: dict[str, Any], grad: Any, v: Variable) -> list[Any]:
        if isinstance(grad, IndexedSlices):
            return self._apply_rows(context, grad, v)
        return self._dense(context, convert(grad), v)

    def _apply_rows(self, context: dict[str, Any], grad: IndexedSlices, v: Variable) -> list[Any]:
        # repeated rows are summed first; rows that do not occur keep their value and their slots
        dense, self._touched = _summed(grad)
        try:
            return self._dense(context, dense, v)
        finally:
            self._touched = None

    def _dense(self, context: dict[str, Any], grad: Tensor, v: Variable) -> list[Any]:
        raise TypeError(f"{type(self).__name__} must define _dense")

    def _finish(self, context: dict[str, Any], nodes: list[Any]) -> list[Any]:
        return []

    def _number(self, value: Any, v: Variable) -> Any:
        """A hyperparameter in the variable's dtype: a Python number, or a tensor."""
        if callable(value):
            value = value()
        if isinstance(value, (Tensor, Variable)):
            t = convert(value)
            return t if t.dtype == v.base_dtype else cast(t, v.base_dtype)
        return float(value)

    def _set(self, v: Variable, name: str, ins: Sequence[Tensor], build: Callable[..., Any]) -> Tensor:
        """Assign ``build(b, current value, *ins)``; returns the new value."""
        old = _value(v)
        value: Tensor = emit(f"Apply{self._name}", name, [old, *ins], build)
        if self._touched is not None:
            value = emit("Select", "touched", (self._touched, value, old), lambda b, t, new, kept: b.where(t, new, kept))
        result: Tensor = v.assign(value)
        return result


class _Nodes:
    """IR nodes as a control dependency."""

    def __init__(self, graph: Any, nodes: Sequence[Any]) -> None:
        self.graph, self.nodes = graph, list(nodes)

    def _control_nodes_of(self) -> list[Any]:
        return self.nodes


def _constrained(graph: Any, grad: Any, v: Variable, made: list[Any]) -> Tensor:
    """The variable's constraint, applied after its update."""
    if isinstance(grad, IndexedSlices):
        raise RuntimeError("Cannot use a constraint function on a sparse variable.")
    with graph.control_dependencies([_Nodes(graph, made)]):
        return v.assign(v.constraint(v.read_value()))


def _value(v: Variable) -> Tensor:
    return v._as_tensor()


def _scaled(b: Builder, x: Any, factor: Any) -> Any:
    """x times a number or a scalar node."""
    return b.mul(x, factor if hasattr(factor, "aval") else b.like(x, factor))


def _node(value: Any) -> Any:
    return value.node if isinstance(value, Tensor) else value


class GradientDescentOptimizer(Optimizer):
    """v -= lr * g"""

    def __init__(self, learning_rate: Any, use_locking: bool = False, name: str = "GradientDescent") -> None:
        super().__init__(use_locking, name)
        self._lr = learning_rate

    def _dense(self, context: dict[str, Any], grad: Tensor, v: Variable) -> list[Any]:
        lr = _node(self._number(self._lr, v))
        return [self._set(v, "ApplyGradientDescent", [grad], lambda b, x, g: b.sub(x, _scaled(b, g, lr))).node]

    def _apply_rows(self, context: dict[str, Any], grad: IndexedSlices, v: Variable) -> list[Any]:
        lr = _node(self._number(self._lr, v))
        step = emit("Mul", "mul", (grad.values,), lambda b, g: _scaled(b, g, lr))
        return [v.scatter_sub(grad.indices, step).node]


class MomentumOptimizer(Optimizer):
    """a = m a + g; v -= lr a (Nesterov: v -= lr g + lr m a)."""

    slots = ("momentum",)

    def __init__(self, learning_rate: Any, momentum: Any, use_locking: bool = False, name: str = "Momentum", use_nesterov: bool = False) -> None:
        super().__init__(use_locking, name)
        self._lr, self._momentum, self._nesterov = learning_rate, momentum, use_nesterov

    def _dense(self, context: dict[str, Any], grad: Tensor, v: Variable) -> list[Any]:
        lr, m = _node(self._number(self._lr, v)), _node(self._number(self._momentum, v))
        slot = self._slots["momentum"][v]
        a = self._set(slot, "accumulate", [grad], lambda b, s, g: b.add(_scaled(b, s, m), g))
        if self._nesterov:
            new = self._set(v, "ApplyMomentum", [grad, a], lambda b, x, g, s: b.sub(x, b.add(_scaled(b, g, lr), _scaled(b, _scaled(b, s, m), lr))))
        else:
            new = self._set(v, "ApplyMomentum", [a], lambda b, x, s: b.sub(x, _scaled(b, s, lr)))
        return [a.node, new.node]


def _summed(grad: IndexedSlices) -> tuple[Tensor, Tensor]:
    """(the dense gradient, where its rows occur)."""
    dense = grad._as_tensor()

    def build(b: Builder, i: Any, like: Any) -> Any:
        from ..dtypes import float32
        from ..ir.aval import Aval
        rows = b.zeros(Aval(like.shape[:1], float32))
        hit = b.greater(b.scatter_add(rows, i, b.full(Aval(i.shape, float32), 1)), b.const(np.float32(0)))
        return b.broadcast(b.reshape(hit, shape=(like.shape[0], *(1,) * (len(like.shape) - 1))), like.shape)
    return dense, emit("Touched", "touched", (grad.indices, dense), build)


class AdagradOptimizer(Optimizer):
    """a += g^2; v -= lr g / sqrt(a)."""

    slots = ("accumulator",)

    def __init__(self, learning_rate: Any, initial_accumulator_value: float = 0.1, use_locking: bool = False, name: str = "Adagrad") -> None:
        if initial_accumulator_value <= 0.0:
            raise ValueError(f"initial_accumulator_value must be positive: {initial_accumulator_value}")
        super().__init__(use_locking, name)
        self._lr, self._start = learning_rate, initial_accumulator_value

    def _slot_start(self, name: str, v: Variable) -> float:
        return self._start

    def _dense(self, context: dict[str, Any], grad: Tensor, v: Variable) -> list[Any]:
        lr = _node(self._number(self._lr, v))
        a = self._set(self._slots["accumulator"][v], "accumulate", [grad], lambda b, s, g: b.add(s, b.square(g)))
        new = self._set(v, "ApplyAdagrad", [grad, a], lambda b, x, g, s: b.sub(x, b.div(_scaled(b, g, lr), b.sqrt(s))))
        return [a.node, new.node]

    def _apply_rows(self, context: dict[str, Any], grad: IndexedSlices, v: Variable) -> list[Any]:
        return self._dense(context, grad._as_tensor(), v)                    # where g = 0, accumulator and value stay as they are, exactly


class AdadeltaOptimizer(Optimizer):
    """a = rho a + (1-rho) g^2; u = sqrt(d + eps) / sqrt(a + eps) g; d = rho d + (1-rho) u^2; v -= lr u (Zeiler, 2012)."""

    slots = ("accum", "accum_update")

    def __init__(self, learning_rate: Any = 0.001, rho: float = 0.95, epsilon: float = 1e-8, use_locking: bool = False, name: str = "Adadelta") -> None:
        super().__init__(use_locking, name)
        self._lr, self._rho, self._epsilon = learning_rate, rho, epsilon

    def _dense(self, context: dict[str, Any], grad: Tensor, v: Variable) -> list[Any]:
        lr, rho, eps = _node(self._number(self._lr, v)), self._rho, self._epsilon
        old = _value(self._slots["accum_update"][v])
        a = self._set(self._slots["accum"][v], "accumulate", [grad], lambda b, s, g: b.add(_scaled(b, s, rho), _scaled(b, b.square(g), 1 - rho)))
        u = emit("Adadelta", "update", (grad, a, old), lambda b, g, s, d: b.mul(b.div(b.sqrt(b.add(d, b.like(d, eps))), b.sqrt(b.add(s, b.like(s, eps)))), g))
        d = self._set(self._slots["accum_update"][v], "accumulate_update", [u], lambda b, s, q: b.add(_scaled(b, s, rho), _scaled(b, b.square(q), 1 - rho)))
        new = self._set(v, "ApplyAdadelta", [u], lambda b, x, q: b.sub(x, _scaled(b, q, lr)))
        return [a.node, d.node, new.node]


class AdamOptimizer(Optimizer):
    """lr_t = lr sqrt(1-b2^t) / (1-b1^t); m, u moving averages; v -= lr_t m / (sqrt(u) + epsilon) (Kingma and Ba, 2015, "epsilon hat")."""

    slots = ("m", "v")

    def __init__(self, learning_rate: Any = 0.001, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-8, use_locking: bool = False, name: str = "Adam") -> None:
        super().__init__(use_locking, name)
        self._lr, self._beta1, self._beta2, self._epsilon = learning_rate, beta1, beta2, epsilon

    def _slot_label(self, name: str) -> str:
        return self._name

    def _create_slots(self, variables: Sequence[Variable]) -> None:
        first = min(variables, key=lambda v: v.name)
        self._non_slot(self._beta1, "beta1_power", first)
        self._non_slot(self._beta2, "beta2_power", first)
        for v in variables:
            for name in self.slots:
                self._slot(v, name, 0.0, self._name)

    def _powers(self) -> tuple[Variable, Variable]:
        g = get_default_graph()
        return self._non_slots["beta1_power", g], self._non_slots["beta2_power", g]

    def _prepare(self) -> dict[str, Any]:
        p1, p2 = self._powers()
        lr = self._number(self._lr, p1)
        ins = (_value(p1), _value(p2)) + ((lr,) if isinstance(lr, Tensor) else ())
        rate = emit("Mul", "lr", ins, lambda b, x, y, r=None: b.div(b.mul(r if r is not None else b.like(x, lr), b.sqrt(b.sub(b.like(y, 1), y))), b.sub(b.like(x, 1), x)))
        return {"lr": rate}

    def _dense(self, context: dict[str, Any], grad: Tensor, v: Variable) -> list[Any]:
        b1, b2, eps = (self._number(x, v) for x in (self._beta1, self._beta2, self._epsilon))
        rate = context["lr"] if context["lr"].dtype == v.base_dtype else cast(context["lr"], v.base_dtype)
        m = self._set(self._slots["m"][v], "m", [grad], lambda b, s, g: b.add(_scaled(b, s, b1), _scaled(b, g, 1 - b1)))
        u = self._set(self._slots["v"][v], "v", [grad], lambda b, s, g: b.add(_scaled(b, s, b2), _scaled(b, b.square(g), 1 - b2)))
        new = self._set(v, "ApplyAdam", [m, u, rate], lambda b, x, p, q, r: b.sub(x, b.div(b.mul(p, r), b.add(b.sqrt(q), b.like(q, eps)))))
        return [m.node, u.node, new.node]

    def _apply_rows(self, context: dict[str, Any], grad: IndexedSlices, v: Variable) -> list[Any]:
        return self._dense(context, grad._as_tensor(), v)                    # TF1's Adam decays and moves all rows

    def _finish(self, context: dict[str, Any], nodes: list[Any]) -> list[Any]:
        p1, p2 = self._powers()
        return [self._set(p, "power", [], lambda b, x, f=f: _scaled(b, x, f)).node for p, f in ((p1, self._beta1), (p2, self._beta2))]


class RMSPropOptimizer(Optimizer):
    """ms = d ms + (1-d) g^2 (from 1); mom = mu mom + lr g / sqrt(ms + epsilon); v -= mom (centered: less the squared mean)."""

    def __init__(self, learning_rate: Any, decay: float = 0.9, momentum: float = 0.0, epsilon: float = 1e-10, use_locking: bool = False, centered: bool = False, name: str = "RMSProp") -> None:
        super().__init__(use_locking, name)
        self._lr, self._decay, self._momentum, self._epsilon, self._centered = learning_rate, decay, momentum, epsilon, centered

    slots = ("rms", "momentum")

    def _create_slots(self, variables: Sequence[Variable]) -> None:
        for v in variables:
            self._slot(v, "rms", 1.0, self._name)
            if self._centered:
                self._slot(v, "mg", 0.0, self._name)
            self._slot(v, "momentum", 0.0, self._name)

    def _dense(self, context: dict[str, Any], grad: Tensor, v: Variable) -> list[Any]:
        lr, d, mu, eps = _node(self._number(self._lr, v)), self._decay, self._momentum, self._epsilon
        ms = self._set(self._slots["rms"][v], "rms", [grad], lambda b, s, g: b.add(_scaled(b, s, d), _scaled(b, b.square(g), 1 - d)))
        out = [ms.node]
        ins = [grad, ms]
        if self._centered:
            mg = self._set(self._slots["mg"][v], "mg", [grad], lambda b, s, g: b.add(_scaled(b, s, d), _scaled(b, g, 1 - d)))
            out.append(mg.node)
            ins.append(mg)

        def step(b: Builder, s: Any, g: Any, q: Any, c: Any = None) -> Any:
            base = q if c is None else b.sub(q, b.square(c))
            return b.add(_scaled(b, s, mu), b.div(_scaled(b, g, lr), b.sqrt(b.add(base, b.like(q, eps)))))
        mom = self._set(self._slots["momentum"][v], "momentum", ins, step)
        new = self._set(v, "ApplyRMSProp", [mom], lambda b, x, s: b.sub(x, s))
        return [*out, mom.node, new.node]


class FtrlOptimizer(Optimizer):
    """Follow the regularized leader (McMahan et al., 2013); ``l2_shrinkage`` adds 2 l2_shrinkage v to the gradient, but not to its square."""

    slots = ("accum", "linear")

    def __init__(self, learning_rate: Any, learning_rate_power: float = -0.5, initial_accumulator_value: float = 0.1, l1_regularization_strength: float = 0.0,
                 l2_regularization_strength: float = 0.0, use_locking: bool = False, name: str = "Ftrl", accum_name: str | None = None, linear_name: str | None = None,
                 l2_shrinkage_regularization_strength: float = 0.0) -> None:
        for what, value in (("initial_accumulator_value", initial_accumulator_value), ("l1_regularization_strength", l1_regularization_strength),
                            ("l2_regularization_strength", l2_regularization_strength), ("l2_shrinkage_regularization_strength", l2_shrinkage_regularization_strength)):
            if value < 0:
                raise ValueError(f"{what} {value} needs to be greater than or equal to zero")
        if learning_rate_power > 0:
            raise ValueError(f"learning_rate_power {learning_rate_power} needs to be less than or equal to zero")
        super().__init__(use_locking, name)
        self._lr, self._power, self._start = learning_rate, learning_rate_power, initial_accumulator_value
        self._l1, self._l2, self._shrinkage = l1_regularization_strength, l2_regularization_strength, l2_shrinkage_regularization_strength
        self._labels = {"accum": accum_name or name, "linear": linear_name or name}

    def _slot_start(self, name: str, v: Variable) -> float:
        return self._start if name == "accum" else 0.0

    def _slot_label(self, name: str) -> str:
        return self._labels[name]

    def _dense(self, context: dict[str, Any], grad: Tensor, v: Variable) -> list[Any]:
        lr, p, l1, l2 = _node(self._number(self._lr, v)), self._power, self._l1, self._l2
        old, x0 = _value(self._slots["accum"][v]), _value(v)
        a = self._set(self._slots["accum"][v], "accum", [grad], lambda b, s, g: b.add(s, b.square(g)))

        def over_rate(b: Builder, x: Any) -> Any:
            return b.div(x, lr if hasattr(lr, "aval") else b.like(x, lr))

        def linear(b: Builder, z: Any, g: Any, new: Any, before: Any, x: Any) -> Any:
            gap = b.sub(b.pow(new, b.like(new, -p)), b.pow(before, b.like(before, -p)))
            g = b.add(g, _scaled(b, x, 2 * self._shrinkage)) if self._shrinkage else g
            return b.add(z, b.sub(g, b.mul(over_rate(b, gap), x)))
        z = self._set(self._slots["linear"][v], "linear", [grad, a, old, x0], linear)

        def value(b: Builder, x: Any, new: Any, zz: Any) -> Any:
            denominator = b.add(over_rate(b, b.pow(new, b.like(new, -p))), b.like(new, 2 * l2))
            shrunk = b.div(b.sub(_scaled(b, b.sign(zz), l1), zz), denominator)
            return b.where(b.greater(b.abs(zz), b.like(zz, l1)), shrunk, b.zeros(x.aval))
        new = self._set(v, "ApplyFtrl", [a, z], value)
        return [a.node, z.node, new.node]


__all__ = ["AdadeltaOptimizer", "AdagradOptimizer", "AdamOptimizer", "FtrlOptimizer", "GradientDescentOptimizer", "MomentumOptimizer", "Optimizer", "RMSPropOptimizer"]
