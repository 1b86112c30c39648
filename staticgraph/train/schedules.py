"""Learning-rate schedules, moving averages, clipping and the global step."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import source
from ..dtypes import int64
from ..surface.array_ops import constant
from ..surface.funnel import convert, emit, op_scope
from ..surface.ledger import get_default_graph
from ..surface.math_ops import FUNCTIONS, cast, truediv
from ..surface.sharing import get_variable
from ..surface.tensor import Tensor
from ..surface.variables import GraphKeys, Variable, group


def _steps(global_step: Any, like: Any) -> Tensor:
    t: Tensor = cast(convert(global_step, name="global_step"), like)
    return t


def exponential_decay(learning_rate: Any, global_step: Any, decay_steps: Any, decay_rate: Any, staircase: bool = False, name: str | None = None) -> Tensor:
    """lr * rate ** (step / decay_steps); ``staircase`` floors the exponent."""
    with op_scope(name, "ExponentialDecay", learning_rate, global_step, decay_steps) as label:
        lr = convert(learning_rate, name="learning_rate")
        p = _steps(global_step, lr.dtype) / cast(convert(decay_steps, name="decay_steps"), lr.dtype)
        return FUNCTIONS["multiply"](lr, FUNCTIONS["pow"](convert(decay_rate, lr.dtype, "decay_rate"), FUNCTIONS["floor"](p) if staircase else p), name=label)


def natural_exp_decay(learning_rate: Any, global_step: Any, decay_steps: Any, decay_rate: Any, staircase: bool = False, name: str | None = None) -> Tensor:
    """lr * exp(-rate * step / decay_steps)"""
    with op_scope(name, "NaturalExpDecay", learning_rate, global_step, decay_steps) as label:
        lr = convert(learning_rate, name="learning_rate")
        p = _steps(global_step, lr.dtype) / cast(convert(decay_steps, name="decay_steps"), lr.dtype)
        return FUNCTIONS["multiply"](lr, FUNCTIONS["exp"](-convert(decay_rate, lr.dtype, "decay_rate") * (FUNCTIONS["floor"](p) if staircase else p)), name=label)


def inverse_time_decay(learning_rate: Any, global_step: Any, decay_steps: Any, decay_rate: Any, staircase: bool = False, name: str | None = None) -> Tensor:
    """lr / (1 + rate * step / decay_steps)"""
    with op_scope(name, "InverseTimeDecay", learning_rate, global_step, decay_steps) as label:
        lr = convert(learning_rate, name="learning_rate")
        p = _steps(global_step, lr.dtype) / cast(convert(decay_steps, name="decay_steps"), lr.dtype)
        return truediv(lr, convert(decay_rate, lr.dtype, "decay_rate") * (FUNCTIONS["floor"](p) if staircase else p) + 1.0, name=label)


def polynomial_decay(learning_rate: Any, global_step: Any, decay_steps: Any, end_learning_rate: float = 0.0001, power: float = 1.0, cycle: bool = False, name: str | None = None) -> Tensor:
    """From lr to the end rate in ``decay_steps``, as a power of what is left; constant after that."""
    with op_scope(name, "PolynomialDecay", learning_rate, global_step, decay_steps) as label:
        lr = convert(learning_rate, name="learning_rate")
        total = cast(convert(decay_steps, name="decay_steps"), lr.dtype)
        step = _steps(global_step, lr.dtype)
        if cycle:
            total = total * FUNCTIONS["maximum"](FUNCTIONS["ceil"](step / total), 1.0)
        p = FUNCTIONS["minimum"](step, total) / total
        return FUNCTIONS["add"]((lr - end_learning_rate) * FUNCTIONS["pow"](1.0 - p, convert(power, lr.dtype, "power")), end_learning_rate, name=label)


def cosine_decay(learning_rate: Any, global_step: Any, decay_steps: Any, alpha: float = 0.0, name: str | None = None) -> Tensor:
    """Half a cosine from lr to alpha * lr."""
    with op_scope(name, "CosineDecay", learning_rate, global_step, decay_steps) as label:
        lr = convert(learning_rate, name="learning_rate")
        total = cast(convert(decay_steps, name="decay_steps"), lr.dtype)
        p = FUNCTIONS["minimum"](_steps(global_step, lr.dtype), total) / total
        return FUNCTIONS["multiply"](lr, (1 - alpha) * 0.5 * (1.0 + FUNCTIONS["cos"](p * float(np.pi))) + alpha, name=label)


def piecewise_constant(x: Any, boundaries: Any, values: Any, name: str | None = None) -> Tensor:
    """values[0] for x <= boundaries[0], values[1] up to the next boundary, ..."""
    with op_scope(name, "PiecewiseConstant", x, boundaries, values):
        t = convert(x, name="x")
        if len(boundaries) != len(values) - 1:
            raise ValueError("The length of boundaries should be 1 less than the length of values")
        result = convert(values[-1], name="values")
        for bound, value in reversed(list(zip(boundaries, values))):
            v = convert(value, result.dtype, "values")
            result = emit("Select", "case", (t, v, result), lambda b, n, p, q, bound=bound: b.where(b.less_equal(n, b.like(n, bound)), p, q))
        return result


piecewise_constant_decay = piecewise_constant


def create_global_step(graph: Any = None) -> Variable:
    """The global step variable (int64). ValueError where there is one."""
    if get_global_step(graph) is not None:
        raise ValueError('"global_step" already exists.')
    with (graph or get_default_graph()).as_default() as g, g.name_scope(None):
        return get_variable("global_step", [], int64, initializer=_zero, trainable=False, collections=[GraphKeys.GLOBAL_VARIABLES, GraphKeys.GLOBAL_STEP])


def _zero(shape: Any, dtype: Any = None, partition_info: Any = None) -> Tensor:
    return constant(np.zeros(shape, dtype.np))


def get_global_step(graph: Any = None) -> Variable | None:
    """The global step variable, or None."""
    found = (graph or get_default_graph()).get_collection(GraphKeys.GLOBAL_STEP)
    if len(found) > 1:
        raise TypeError("Multiple tensors in global_step collection.")
    return found[0] if found else None


def get_or_create_global_step(graph: Any = None) -> Variable:
    """The global step variable, made where there is none."""
    step = get_global_step(graph)
    return create_global_step(graph) if step is None else step


class ExponentialMovingAverage:
    """Shadows s -= (1 - d)(s - v), from the initial values; with ``num_updates`` d is min(d, (1 + n) / (10 + n))."""

    def __init__(self, decay: Any, num_updates: Any = None, zero_debias: bool = False, name: str = "ExponentialMovingAverage") -> None:
        if zero_debias:
            raise NotImplementedError("ExponentialMovingAverage(zero_debias=True) is not available: shadows start at the initial values")
        self._decay, self._updates, self._name = decay, num_updates, name
        self._averages: dict[Any, Variable] = {}

    def apply(self, var_list: Any = None) -> Any:
        """An operation that updates the shadows."""
        from ..surface.variables import trainable_variables
        with source.hide_own_frames():
            g = get_default_graph()
            ops = []
            decay: Any = self._decay
            if self._updates is not None:
                n = cast(convert(self._updates), "float32")
                decay = FUNCTIONS["minimum"](convert(float(self._decay)), (n + 1.0) / (n + 10.0))
            for v in trainable_variables() if var_list is None else var_list:
                if v not in self._averages:
                    with g.name_scope(None), g.control_dependencies(None):
                        start = v.initial_value if isinstance(v, Variable) else constant(np.zeros(tuple(v.node.shape), v.dtype.np))
                        self._averages[v] = Variable(start, trainable=False, name=f"{v.op.name}/{self._name}")
                        g.add_to_collection(GraphKeys.MOVING_AVERAGE_VARIABLES, v)
                shadow = self._averages[v]
                s, x = shadow._as_tensor(), convert(v)
                ops.append(shadow.assign_sub((s - x) * (1 - decay)))
            return group(*ops, name=self._name)

    def average(self, var: Any) -> Variable | None:
        """The shadow of a variable."""
        return self._averages.get(var)

    def average_name(self, var: Any) -> str:
        """The shadow's name."""
        return self._averages[var].op.name if var in self._averages else f"{var.op.name}/{self._name}"

    def variables_to_restore(self, moving_avg_variables: Any = None) -> dict[str, Variable]:
        """Names under which to restore each variable: the shadow's for those that have one or are trainable (or are in ``moving_avg_variables``)."""
        from ..surface.variables import global_variables, moving_average_variables, trainable_variables
        averaged = {*(trainable_variables() if moving_avg_variables is None else moving_avg_variables)}
        if moving_avg_variables is None:
            averaged |= set(moving_average_variables())
        names = {self.average_name(v): v for v in averaged}
        # a shadow whose name is taken by its variable is not restored a second time
        return {**{v.op.name: v for v in global_variables() if v not in averaged and v.op.name not in names}, **names}


def global_norm(t_list: Any, name: str | None = None) -> Tensor:
    """The Euclidean norm of all tensors together; None entries are left out."""
    with op_scope(name, "global_norm", t_list):
        ins = [convert(getattr(t, "values", t), name="t_list") for t in t_list if t is not None]
        return emit("GlobalNorm", "global_norm", ins, lambda b, *ns: b.sqrt(b.add_n([b.sum(b.square(n), axis=None) for n in ns])))


def clip_by_global_norm(t_list: Any, clip_norm: Any, use_norm: Any = None, name: str | None = None) -> tuple[list[Any], Tensor]:
    """Tensors scaled by clip / max(norm, clip), and the norm; None entries stay."""
    with op_scope(name, "clip_by_global_norm", t_list, clip_norm, use_norm):
        norm = global_norm(t_list) if use_norm is None else convert(use_norm, name="use_norm")
        clip = convert(clip_norm, norm.dtype, "clip_norm")
        scale = clip / FUNCTIONS["maximum"](norm, clip)
        return [None if t is None else convert(t, name="t_list") * scale for t in t_list], norm


def clip_by_norm(t: Any, clip_norm: Any, axes: Any = None, name: str | None = None) -> Tensor:
    """The tensor scaled so that its norm is at most ``clip_norm``."""
    with op_scope(name, "clip_by_norm", t, clip_norm) as label:
        ax = axes if axes is None or isinstance(axes, tuple) else tuple(axes) if isinstance(axes, list) else (axes,)
        x = convert(t, name="t")
        clip = convert(clip_norm, x.dtype, "clip_norm")

        def build(b: Any, n: Any, c: Any) -> Any:
            length = b.norm(n, axis=ax, keepdims=True)
            return b.div(b.mul(n, c), b.maximum(length, c))
        return emit("ClipByNorm", label, (x, clip), build)


def clip_by_average_norm(t: Any, clip_norm: Any, name: str | None = None) -> Tensor:
    """As ``clip_by_norm`` for the norm divided by the number of elements."""
    with op_scope(name, "clip_by_average_norm", t, clip_norm) as label:
        x = convert(t, name="t")
        clip = convert(clip_norm, x.dtype, "clip_norm")
        return emit("ClipByAverageNorm", label, (x, clip), lambda b, n, c: b.div(b.mul(n, c), b.maximum(
            b.div(b.norm(n, axis=None, keepdims=False), b.like(n, n.aval.size if isinstance(n.aval.size, int) else 1)), c)))
