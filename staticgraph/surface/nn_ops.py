"""Neural-network functions under TF1's names (``sg.nn``)."""

from __future__ import annotations

from typing import Any

from ..errors import ShapeError
from ..ops.helpers import move_axis, normalize_axis
from .array_ops import embedding_lookup, one_hot, top_k
from .deferred import recorded
from .funnel import convert, dynamic, each_named, emit, is_dynamic, op_scope, operands
from .math_ops import FUNCTIONS, cast, matmul
from .random_ops import dropout
from .sizes import one_of, sizes_from, static_axes, static_int

relu, relu6, elu, selu, softplus, softsign = (FUNCTIONS[k] for k in ("relu", "relu6", "elu", "selu", "softplus", "softsign"))
sigmoid, tanh, log_sigmoid, silu, l2_loss = (FUNCTIONS[k] for k in ("sigmoid", "tanh", "log_sigmoid", "silu", "l2_loss"))


def swish(features: Any, name: str | None = None) -> Any:
    """x * sigmoid(x)"""
    if is_dynamic((features,)):
        return dynamic("silu", features)
    with op_scope(name, "IdentityN", features, beside=("Sigmoid", "mul", "Identity")) as label:
        return emit("Swish", label, (convert(features, name="features"),), lambda b, n: b.silu(n))


def leaky_relu(features: Any, alpha: float = 0.2, name: str | None = None) -> Any:
    """x above 0, alpha * x below."""
    if is_dynamic((features,)):
        return dynamic("leaky_relu", features, alpha=alpha)
    with op_scope(name, "LeakyRelu", features) as label:
        return emit("LeakyRelu", label, (convert(features, name="features"),), lambda b, n: b.leaky_relu(n, alpha=float(alpha)))


def gelu(features: Any, approximate: bool = True, name: str | None = None) -> Any:
    """x * Phi(x)."""
    if is_dynamic((features,)):
        return dynamic("gelu", features, approximate=approximate)
    with op_scope(name, "Gelu", features) as label:
        return emit("Gelu", label, (convert(features, name="features"),), lambda b, n: b.gelu(n, approximate=approximate))


# what TF makes of a softmax along another axis than the last, next to the operation that has the name
_MOVES = ("Rank", "Rank", "Sub", "range", "range", "concat", "transpose", None, "Sub", "range", "range", "concat")


def _soft(ir: str, tf: str) -> Any:
    def f(logits: Any, axis: Any = None, name: str | None = None, dim: Any = None) -> Any:
        k = one_of("axis", axis, dim=dim)
        k = -1 if k is None else static_int(k, "axis")
        if is_dynamic((logits,)):
            return dynamic(ir, logits, axis=k)
        moved = k not in (-1, len(logits.shape) - 1) if hasattr(logits, "node") else False
        beside = tuple(n or tf for n in _MOVES) if moved else ()
        with op_scope(name, "transpose" if moved else tf, logits, beside=beside) as label:
            x = convert(logits, name="logits")
            return emit("SoftmaxOfAxis" if moved else tf, label, (x,), lambda b, n: getattr(b, ir)(n, axis=k))
    f.__name__ = ir
    f.__doc__ = f"{ir} along an axis (default: the last)."
    return f


softmax, log_softmax = _soft("softmax", "Softmax"), _soft("log_softmax", "LogSoftmax")


def _xent(stop: bool, tf_name: str) -> Any:
    def f(_sentinel: Any = None, labels: Any = None, logits: Any = None, dim: Any = None, name: str | None = None, axis: Any = None) -> Any:
        if _sentinel is not None or labels is None or logits is None:
            raise ValueError(f"Only call `{tf_name}` with named arguments (labels=..., logits=..., ...)")
        with op_scope(name, "softmax_cross_entropy_with_logits_sg" if stop else "softmax_cross_entropy_with_logits", labels, logits):
            z = convert(logits, name="logits")
            y = convert(labels, None if not isinstance(labels, (list, tuple)) else z.dtype, name="labels") if not hasattr(labels, "shape") or hasattr(labels, "_as_tensor") or hasattr(
                labels, "node") else operands("SoftmaxCrossEntropyWithLogits", (z, labels))[1]
            if y.dtype != z.dtype:
                y = cast(y, z.dtype)
            k = one_of("axis", axis, dim=dim)
            k = -1 if k is None else static_int(k, "axis")

            def build(b: Any, p: Any, q: Any) -> Any:
                at, last = normalize_axis(k, len(q.shape)), len(q.shape) - 1
                p, q = move_axis(b, p, at, last), move_axis(b, q, at, last)
                return b.softmax_cross_entropy_with_logits(b.stop_gradient(p) if stop else p, q)
            return emit("SoftmaxCrossEntropyWithLogits", "Reshape_2", (y, z), build, more=stop)
    f.__name__ = tf_name
    f.__doc__ = "-sum(labels * log_softmax(logits)) over an axis (default: the last)" + ("; labels get no gradient." if stop else ".")
    return f


softmax_cross_entropy_with_logits = _xent(True, "softmax_cross_entropy_with_logits")
softmax_cross_entropy_with_logits_v2 = _xent(False, "softmax_cross_entropy_with_logits_v2")


def sparse_softmax_cross_entropy_with_logits(_sentinel: Any = None, labels: Any = None, logits: Any = None, name: str | None = None) -> Any:
    """-log_softmax(logits)[label] per row."""
    if _sentinel is not None or labels is None or logits is None:
        raise ValueError("Only call `sparse_softmax_cross_entropy_with_logits` with named arguments (labels=..., logits=..., ...)")
    with op_scope(name, "SparseSoftmaxCrossEntropyWithLogits", labels, logits):
        return emit("SparseSoftmaxCrossEntropyWithLogits", name or "SparseSoftmaxCrossEntropyWithLogits",
                    (convert(labels, name="labels"), convert(logits, name="logits")), lambda b, p, q: b.sparse_softmax_cross_entropy_with_logits(p, q))


def sigmoid_cross_entropy_with_logits(_sentinel: Any = None, labels: Any = None, logits: Any = None, name: str | None = None) -> Any:
    """Logistic loss per element."""
    if _sentinel is not None or labels is None or logits is None:
        raise ValueError("Only call `sigmoid_cross_entropy_with_logits` with named arguments (labels=..., logits=..., ...)")
    with op_scope(name, "logistic_loss", labels, logits) as label:
        z, y = operands("LogisticLoss", (logits, labels), ("logits", "labels"))
        return emit("LogisticLoss", label, (y, z), lambda b, p, q: b.sigmoid_cross_entropy_with_logits(p, q))


def weighted_cross_entropy_with_logits(targets: Any = None, logits: Any = None, pos_weight: Any = 1.0, name: str | None = None, labels: Any = None) -> Any:
    """Logistic loss with positives weighted by ``pos_weight``."""
    with op_scope(name, "logistic_loss", targets, labels, logits, pos_weight) as label:
        y = targets if targets is not None else labels
        z, y, w = operands("LogisticLoss", (logits, y, pos_weight), ("logits", "targets", "pos_weight"))

        def build(b: Any, zn: Any, yn: Any, wn: Any) -> Any:
            weight = b.add(b.mul(b.sub(wn, b.like(wn, 1)), yn), b.like(yn, 1))
            return b.add(b.mul(b.sub(b.like(yn, 1), yn), zn), b.mul(weight, b.add(b.log1p(b.exp(b.neg(b.abs(zn)))), b.relu(b.neg(zn)))))
        return emit("WeightedLogisticLoss", label, (z, y, w), build)


@recorded
def bias_add(value: Any, bias: Any, data_format: str | None = None, name: str | None = None) -> Any:
    """A bias per channel."""
    with op_scope(name, "BiasAdd", value, bias) as label:
        x, c = operands("BiasAdd", (value, bias), ("value", "bias"))
        if len(c.node.shape) != 1:
            raise ShapeError(f"Shape must be rank 1 but is rank {len(c.node.shape)}")
        first = data_format is not None and data_format.startswith("NC")

        def build(b: Any, n: Any, m: Any) -> Any:
            if first:
                m = b.reshape(m, shape=(m.shape[0], *(1,) * (len(n.shape) - 2)))
            return b.add(n, m)
        return emit("BiasAdd", label, (x, c), build)


def xw_plus_b(x: Any, weights: Any, biases: Any, name: str | None = None) -> Any:
    """x @ weights + biases"""
    with op_scope(name, "xw_plus_b", x, weights, biases) as label:
        return bias_add(matmul(x, weights), biases, name=label)


def relu_layer(x: Any, weights: Any, biases: Any, name: str | None = None) -> Any:
    """relu(x @ weights + biases)"""
    with op_scope(name, "relu_layer", x, weights, biases) as label:
        return relu(xw_plus_b(x, weights, biases), label)


def moments(x: Any, axes: Any, shift: Any = None, name: str | None = None, keep_dims: Any = None, keepdims: Any = None) -> Any:
    """(mean, population variance) over axes."""
    with op_scope(name, "moments", x):
        t = convert(x, name="x")
        ax = static_axes(axes)
        ax = ax if isinstance(ax, tuple) else (ax,)
        keep = bool(one_of("keepdims", keepdims, keep_dims=keep_dims))
        made: tuple[Any, ...] = emit("Moments", "Squeeze", (t,), lambda b, n: b.moments(n, axis=ax, keepdims=keep))
        return each_named(made, "Squeeze")


def batch_normalization(x: Any, mean: Any, variance: Any, offset: Any, scale: Any, variance_epsilon: float, name: str | None = None) -> Any:
    """(x - mean) / sqrt(variance + epsilon) * scale + offset"""
    with op_scope(name, "batchnorm", x, mean, variance, offset, scale):
        given = [t for t in (x, mean, variance, offset, scale) if t is not None]
        ins = operands("BatchNorm", given, ("x", "mean", "variance", "offset", "scale"))

        def build(b: Any, n: Any, m: Any, v: Any, *rest: Any) -> Any:
            more = list(rest)
            inv = b.rsqrt(b.add(v, b.like(v, variance_epsilon)))
            shift = more.pop(0) if offset is not None else None
            if scale is not None:
                inv = b.mul(inv, more.pop(0))
            y = b.mul(b.sub(n, m), inv)
            return b.add(y, shift) if shift is not None else y
        return emit("BatchNorm", "add_1", ins, build, more=scale is not None)


def layer_normalization(x: Any, gamma: Any, beta: Any, epsilon: float = 1e-5, name: str | None = None) -> Any:
    """(x - mean) / sqrt(var + epsilon) * gamma + beta over the last axis."""
    if is_dynamic((x, gamma, beta)):
        return dynamic("layer_norm", x, gamma, beta, epsilon=epsilon)
    with op_scope(name, "LayerNorm", x, gamma, beta) as label:
        return emit("LayerNorm", label, operands("LayerNorm", (x, gamma, beta), ("x", "gamma", "beta")), lambda b, n, g, c: b.layer_norm(n, g, c, epsilon=float(epsilon)))


layer_norm = layer_normalization


def l2_normalize(x: Any, axis: Any = None, epsilon: float = 1e-12, name: str | None = None, dim: Any = None) -> Any:
    """x / sqrt(max(sum(x**2), epsilon))"""
    with op_scope(name, "l2_normalize", x) as label:
        ax = static_axes(one_of("axis", axis, dim=dim))
        ax = ax if ax is None or isinstance(ax, tuple) else (ax,)
        return emit("L2Normalize", label, (convert(x, name="x"),), lambda b, n: b.l2_normalize(n, axis=ax, epsilon=float(epsilon)))


def in_top_k(predictions: Any, targets: Any, k: int, name: str | None = None) -> Any:
    """Whether each target is among the k largest predictions of its row."""
    with op_scope(name, "in_top_k", predictions, targets):
        def build(b: Any, p: Any, t: Any) -> Any:
            rank = len(p.shape)
            own = b.take_along(p, b.expand_dims(t, axis=rank - 1))
            above = b.sum(b.cast(b.greater(p, own), dtype=t.dtype), axis=(rank - 1,))
            return b.less(above, b.like(t, k))
        return emit("InTopKV2", name or "InTopKV2", (convert(predictions, name="predictions"), convert(targets, name="targets")), build)


def _strides(value: Any, data_format: str) -> tuple[int, int]:
    if isinstance(value, int):
        return value, value
    v = [int(s) for s in value]
    if len(v) == 4:
        v = v[2:] if data_format.startswith("NC") else v[1:3]
    return (v[0], v[0]) if len(v) == 1 else (v[0], v[1])


def conv2d(input: Any, filter: Any = None, strides: Any = None, padding: Any = None, use_cudnn_on_gpu: bool = True, data_format: str = "NHWC",
           dilations: Any = (1, 1, 1, 1), name: str | None = None, filters: Any = None) -> Any:
    """2-D convolution; weights are [height, width, in, out]."""
    w = one_of("filter", filter, filters=filters)
    attrs = {"strides": _strides(strides, data_format), "padding": _padding(padding, data_format), "data_format": data_format, "dilations": _strides(dilations, data_format)}
    if is_dynamic((input, w)):
        return dynamic("conv2d", input, w, **attrs)
    with op_scope(name, "Conv2D", input, w) as label:
        return emit("Conv2D", label, operands("Conv2D", (input, w), ("input", "filter")), lambda b, n, m: b.conv2d(n, m, **attrs), attrs)


def _padding(padding: Any, data_format: str) -> Any:
    if isinstance(padding, str):
        return padding.upper()
    pairs = tuple(tuple(int(v) for v in p) for p in padding)
    return (pairs[2:] if data_format.startswith("NC") else pairs[1:3]) if len(pairs) == 4 else pairs


@recorded
def conv2d_transpose(value: Any, filter: Any = None, output_shape: Any = None, strides: Any = None, padding: Any = "SAME", data_format: str = "NHWC",
                     name: str | None = None, input: Any = None, filters: Any = None, dilations: Any = (1, 1, 1, 1)) -> Any:
    """The gradient of conv2d by its input, as an operation: weights are [height, width, out, in]."""
    value, filter = one_of("value", value, input=input), one_of("filter", filter, filters=filters)
    with op_scope(name, "conv2d_transpose", value, filter) as label:
        shape = sizes_from(output_shape, "output_shape")
        attrs = {"strides": _strides(strides, data_format), "padding": _padding(padding, data_format), "data_format": data_format, "dilations": _strides(dilations, data_format)}
        return emit("Conv2DBackpropInput", label, operands("Conv2DBackpropInput", (value, filter), ("value", "filter")), lambda b, n, m: b.conv2d_input_grad(n, m, shape=shape, **attrs))


def _pool(ir: str, tf: str) -> Any:
    def f(value: Any = None, ksize: Any = None, strides: Any = None, padding: Any = None, data_format: str = "NHWC", name: str | None = None, input: Any = None) -> Any:
        x = value if value is not None else input
        attrs = {"ksize": _strides(ksize, data_format), "strides": _strides(strides, data_format), "padding": _padding(padding, data_format), "data_format": data_format}
        if is_dynamic((x,)):
            return dynamic(ir, x, **attrs)
        with op_scope(name, tf, x) as label:
            return emit(tf, label, (convert(x, name="value"),), lambda b, n: getattr(b, ir)(n, **attrs), attrs)
    f.__name__ = ir
    f.__doc__ = f"{tf} over windows."
    return f


max_pool, avg_pool = _pool("max_pool2d", "MaxPool"), _pool("avg_pool2d", "AvgPool")
max_pool2d, avg_pool2d = max_pool, avg_pool

__all__ = ["avg_pool", "batch_normalization", "bias_add", "conv2d", "conv2d_transpose", "dropout", "elu", "embedding_lookup", "gelu", "in_top_k", "l2_loss",
           "l2_normalize", "layer_norm", "layer_normalization", "leaky_relu", "log_sigmoid", "log_softmax", "max_pool", "moments", "one_hot", "relu", "relu6",
           "relu_layer", "selu", "sigmoid", "sigmoid_cross_entropy_with_logits", "silu", "softmax", "softmax_cross_entropy_with_logits",
           "softmax_cross_entropy_with_logits_v2", "softplus", "softsign", "sparse_softmax_cross_entropy_with_logits", "swish", "tanh", "top_k",
           "weighted_cross_entropy_with_logits", "xw_plus_b"]
