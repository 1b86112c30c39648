"""A traced function as source text for NumPy, PyTorch, JAX or TensorFlow: one line per node, so that a comparison runs the peer's own operations.

The text is what a user of that library would write for straight-line code. Ops without an entry are refused by name; for NumPy they are calls of
the op's own NumPy meaning, so that whole gradients can be written out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..dtypes import float64, int32, int64
from ..ir import walk
from ..ir.graph import ArrayAttr, Graph, Node
from ..ops.conv import padding_of


class NoCounterpart(NotImplementedError):
    """An op that the other library does not have in this form."""


Rule = Any                                   # a template over {0}, {1} ... and attributes, or a function of (node, operands)

_UNARY = "exp expm1 log log1p exp2 log2 log10 sin cos tan sinh cosh tanh sqrt square sign floor ceil trunc"
_COMPARE = {"equal": "==", "not_equal": "!=", "less": "<", "less_equal": "<=", "greater": ">", "greater_equal": ">="}
_ARCS = {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "asinh": "arcsinh", "acosh": "arccosh", "atanh": "arctanh"}
_TESTS = ("is_nan", "is_inf", "is_finite")
_COMMON: dict[str, Rule] = {
    "add": "{0} + {1}", "sub": "{0} - {1}", "mul": "{0} * {1}", "div": "{0} / {1}", "neg": "-{0}", "pow": "{0} ** {1}", "identity": "{0}",
    "reciprocal": "1 / {0}", "squared_difference": "({0} - {1}) ** 2", **{k: f"{{0}} {v} {{1}}" for k, v in _COMPARE.items()},
    "get": "{0}[{index}]", "reshape": "{0}.reshape({shape})", "add_n": lambda n, xs: " + ".join(xs),
    "slice": lambda n, xs: f"{xs[0]}[{_slices(n)}]", "guard": "{0}",
}


def _slices(n: Node) -> str:
    out = []
    for a, c, s, d in zip(n.attr("starts"), n.attr("sizes"), n.attr("steps"), n.inputs[0].shape):
        stop = a + c * s
        out.append(":" if (a, c, s) == (0, d, 1) else f"{a}:{'' if stop < 0 else stop}" + ("" if s == 1 else f":{s}"))
    return ", ".join(out)


def _swap(n: Node, xs: Sequence[str], name: str) -> str:
    def turned(x: str, k: int, flag: str) -> str:
        return f"{x}.{name}" if n.attr(flag) and len(n.inputs[k].shape) > 1 else x
    return f"{turned(xs[0], 0, 'transpose_a')} @ {turned(xs[1], 1, 'transpose_b')}"


def _kept(n: Node, m: str) -> str:
    """The argument by which sums and products of integers keep their dtype."""
    if n.dtype.is_floating or n.op.name not in ("sum", "prod", "mean"):
        return ""
    if n.op.name == "mean":
        raise NoCounterpart("the mean of integers, which is one here, is not translated")
    return f", dtype={m}.{n.dtype.name}"


def _as_dtype(n: Node, method: str) -> str:
    """What makes the library's int64 positions those of the node."""
    return "" if n.dtype == int64 else f"{method}{n.dtype.name})"


def _plain_pads(n: Node) -> list[tuple[int, int]]:
    before, after = n.attr("before"), n.attr("after")
    if any(n.attr("between")) or min((*before, *after), default=0) < 0:
        raise NoCounterpart("padding between elements, or by negative sizes, is not translated")
    return list(zip(before, after))


def _like_numpy(m: str) -> dict[str, Rule]:
    """The entries that NumPy and ``jax.numpy`` share."""
    table: dict[str, Rule] = {**_COMMON, **{k: f"{m}.{k}({{0}})" for k in _UNARY.split()}, **{k: f"{m}.{v}({{0}})" for k, v in _ARCS.items()}}
    table.update({k: f"{m}.{k}({{0}}, {{1}})" for k in ("maximum", "minimum", "logical_and", "logical_or", "logical_xor")})
    table.update({k: f"{m}.{k.replace('_', '')}({{0}})" for k in _TESTS})
    table.update({k: lambda n, xs: f"{m}.{n.op.name}({xs[0]}, {n.attr('axis')})" + _as_dtype(n, f".astype({m}.") for k in ("argmax", "argmin")})
    table.update({k: f"{{0}}.{k}(axis={{axis}}, keepdims={{keepdims}})" for k in ("any", "all")})
    table.update(dict.fromkeys(("sum", "mean", "max", "min", "prod"), lambda n, xs: f"{xs[0]}.{n.op.name}(axis={n.attr('axis')}{_kept(n, m)}, keepdims={n.attr('keepdims')})"))
    table.update({
        "abs": f"{m}.abs({{0}})", "logical_not": f"{m}.logical_not({{0}})", "atan2": f"{m}.arctan2({{0}}, {{1}})", "where": f"{m}.where({{0}}, {{1}}, {{2}})",
        "rsqrt": f"1 / {m}.sqrt({{0}})", "transpose": "{0}.transpose({perm})", "broadcast_to": f"{m}.broadcast_to({{0}}, {{shape}})",
        "expand_dims": f"{m}.expand_dims({{0}}, {{axis}})", "squeeze": f"{m}.squeeze({{0}}, {{axis}})", "clip": f"{m}.clip({{0}}, {{1}}, {{2}})",
        "concat": lambda n, xs: f"{m}.concatenate([{', '.join(xs)}], {n.attr('axis')})", "stack": lambda n, xs: f"{m}.stack([{', '.join(xs)}], {n.attr('axis')})",
        "cast": f"{{0}}.astype({m}.{{dtype}})", "tile": f"{m}.tile({{0}}, {{multiples}})", "stop_gradient": "{0}",
        "take": f"{m}.take({{0}}, {{1}}, {{axis}})",
        "matmul": lambda n, xs: _swap(n, xs, "swapaxes(-1, -2)"), "floordiv": "{0} // {1}", "floormod": "{0} % {1}", "rint": f"{m}.rint({{0}})",
        "reverse": f"{m}.flip({{0}}, {{axis}})", "sort": lambda n, xs: f"{m}.sort({xs[0]})" + ("[..., ::-1]" if n.attr("descending") else ""),
        "pad": lambda n, xs: f"{m}.pad({xs[0]}, {_plain_pads(n)}, constant_values={n.attr('value')})",
    })
    return table


def _numpy() -> dict[str, Rule]:
    return {**_like_numpy("np"), "relu": "np.maximum({0}, 0)", "sigmoid": "1 / (1 + np.exp(-{0}))", "silu": "{0} / (1 + np.exp(-{0}))"}


def _window(n: Node, key: str) -> str:
    return str(tuple(n.attr(key)))


def _only_nhwc(n: Node) -> None:
    if n.attr("data_format", "NHWC") != "NHWC":
        raise NoCounterpart(f"{n.op.name} with data_format {n.attr('data_format')} is not translated")


def _jax_pool(n: Node, xs: Sequence[str]) -> str:
    _only_nhwc(n)
    k, s = n.attr("ksize"), n.attr("strides")
    if not isinstance(n.attr("padding"), str):
        raise NoCounterpart("pooling with explicit padding is not translated")
    return f"jax.lax.reduce_window({xs[0]}, -jnp.inf, jax.lax.max, (1, {k[0]}, {k[1]}, 1), (1, {s[0]}, {s[1]}, 1), {n.attr('padding')!r})"


def _jax_conv(n: Node, xs: Sequence[str]) -> str:
    _only_nhwc(n)
    return (f"jax.lax.conv_general_dilated({xs[0]}, {xs[1]}, {_window(n, 'strides')}, {n.attr('padding')!r}, rhs_dilation={_window(n, 'dilations')}, "
            "dimension_numbers=('NHWC', 'HWIO', 'NHWC'))")


def _to_last(n: Node) -> tuple[int, ...]:
    """The axes from the attribute ``axis`` to the last."""
    rank = len(n.inputs[0].shape)
    return tuple(range(n.attr("axis") % rank, rank))


def _jax() -> dict[str, Rule]:
    nn = "relu relu6 sigmoid softplus silu selu elu log_sigmoid"
    return {
        **_like_numpy("jnp"), **{k: f"jax.nn.{k}({{0}})" for k in nn.split()}, "gelu": "jax.nn.gelu({0}, approximate={approximate})",
        "leaky_relu": "jax.nn.leaky_relu({0}, {alpha})", "softsign": "jax.nn.soft_sign({0})", "erf": "jax.scipy.special.erf({0})",
        "softmax": "jax.nn.softmax({0}, {axis})", "log_softmax": "jax.nn.log_softmax({0}, {axis})",
        "logsumexp": "jax.nn.logsumexp({0}, axis={axis}, keepdims={keepdims})", "stop_gradient": "jax.lax.stop_gradient({0})",
        "layer_norm": lambda n, xs: f"jax.nn.standardize({xs[0]}, axis={_to_last(n)}, epsilon={n.attr('epsilon')}) * {xs[1]} + {xs[2]}", "gather": "jnp.take({0}, {1}, {axis})",
        "one_hot": lambda n, xs: f"jax.nn.one_hot({xs[0]}, {n.attr('depth')}, dtype=jnp.{n.attr('dtype').name}, axis={n.attr('axis')})",
        "sparse_softmax_cross_entropy_with_logits": "-jnp.take_along_axis(jax.nn.log_softmax({1}), {0}[..., None], -1)[..., 0]",
        "softmax_cross_entropy_with_logits": "-({0} * jax.nn.log_softmax({1})).sum(-1)",
        "sigmoid_cross_entropy_with_logits": "jax.nn.softplus({1}) - {0} * {1}",
        "l2_loss": "({0} ** 2).sum() / 2", "conv2d": _jax_conv, "max_pool2d": _jax_pool, "cumsum": lambda n, xs: _plain_scan(n, f"jnp.cumsum({xs[0]}, {n.attr('axis')})"),
    }


def _plain_scan(n: Node, text: str) -> str:
    if n.attr("exclusive") or n.attr("reverse"):
        raise NoCounterpart("an exclusive or reversed cumsum is not translated")
    return text


def _torch_reduce(n: Node, xs: Sequence[str]) -> str:
    name = {"max": "amax", "min": "amin"}.get(n.op.name, n.op.name)
    axis = n.attr("axis")
    dims = tuple(range(len(n.inputs[0].shape))) if axis is None else axis
    if not dims:
        return xs[0]
    if name == "prod" and len(dims) > 1:
        raise NoCounterpart("the product over several axes is not translated to PyTorch")
    return f"{xs[0]}.{name}({dims[0] if name == 'prod' else dims}, {n.attr('keepdims')}{_kept(n, 'torch')})"


def _torch_padding(n: Node, image: str, ksize: Sequence[int], dilations: Sequence[int], fill: str = "") -> tuple[str, str]:
    """(The image, padded where both sides differ, as N, C, H, W; what the operation is to pad on both sides.)"""
    (top, bottom), (left, right) = padding_of(n.attr("padding"), n.inputs[0].shape[1:3], ksize, n.attr("strides"), dilations)
    image = f"{image}.permute(0, 3, 1, 2)"
    if (top, left) == (bottom, right):
        return image, f"({top}, {left})"
    return f"F.pad({image}, ({left}, {right}, {top}, {bottom}){fill})", "0"


def _torch_conv(n: Node, xs: Sequence[str]) -> str:
    _only_nhwc(n)
    image, pad = _torch_padding(n, xs[0], n.inputs[1].shape[:2], n.attr("dilations"))
    return f"F.conv2d({image}, {xs[1]}.permute(3, 2, 0, 1), None, {_window(n, 'strides')}, {pad}, {_window(n, 'dilations')}).permute(0, 2, 3, 1)"


def _torch_pool(n: Node, xs: Sequence[str]) -> str:
    _only_nhwc(n)
    image, pad = _torch_padding(n, xs[0], n.attr("ksize"), (1, 1), ", value=-torch.inf")
    if n.op.name == "avg_pool2d" and "pad" in image:
        raise NoCounterpart("average pooling with other padding on one side than on the other is not translated")
    more = f", {pad}" + (", count_include_pad=False" if n.op.name == "avg_pool2d" else "") if pad not in ("0", "(0, 0)") else ""
    return f"F.{n.op.name}({image}, {_window(n, 'ksize')}, {_window(n, 'strides')}{more}).permute(0, 2, 3, 1)"


def _torch_norm(n: Node, xs: Sequence[str]) -> str:
    return f"F.layer_norm({xs[0]}, {tuple(n.shape[k] for k in _to_last(n))}, {xs[1]}, {xs[2]}, {n.attr('epsilon')})"


def _torch_slice(n: Node, xs: Sequence[str]) -> str:
    if any(s < 0 for s in n.attr("steps")):
        raise NoCounterpart("slices with negative steps are not translated to PyTorch")
    return f"{xs[0]}[{_slices(n)}]"


def _torch() -> dict[str, Rule]:
    same = (_UNARY + " asin acos atan asinh acosh atanh erf erfc abs relu sigmoid rsqrt logical_not").split()
    f = "relu6 elu selu softplus silu softsign"
    return {
        **_COMMON, **{k: f"torch.{k}({{0}})" for k in same}, **{k: f"F.{k}({{0}})" for k in f.split()}, "log_sigmoid": "F.logsigmoid({0})",
        **{k: f"torch.{k}({{0}}, {{1}})" for k in ("maximum", "minimum", "atan2", "logical_and", "logical_or", "logical_xor")}, "where": "torch.where({0}, {1}, {2})",
        **dict.fromkeys(("sum", "mean", "max", "min", "prod", "any", "all", "logsumexp"), _torch_reduce), "gelu": lambda n, xs: f"F.gelu({xs[0]}, approximate={'tanh' if n.attr('approximate') else 'none'!r})",
        "leaky_relu": "F.leaky_relu({0}, {alpha})", "softmax": "torch.softmax({0}, {axis})", "log_softmax": "torch.log_softmax({0}, {axis})",
        "transpose": "{0}.permute({perm})", "broadcast_to": "{0}.expand({shape})", "expand_dims": "{0}.unsqueeze({axis})",
        "squeeze": lambda n, xs: f"{xs[0]}.reshape({tuple(n.shape)})", "clip": "torch.clamp({0}, {1}, {2})", "slice": _torch_slice,
        "concat": lambda n, xs: f"torch.cat([{', '.join(xs)}], {n.attr('axis')})", "stack": lambda n, xs: f"torch.stack([{', '.join(xs)}], {n.attr('axis')})",
        "cast": "{0}.to(torch.{dtype})", "tile": "{0}.tile({multiples})", "stop_gradient": "{0}.detach()", **{k: lambda n, xs: f"{xs[0]}.{n.op.name}({n.attr('axis')})" + _as_dtype(n, ".to(torch.") for k in ("argmax", "argmin")},
        "matmul": lambda n, xs: _swap(n, xs, "mT"), "layer_norm": _torch_norm, "conv2d": _torch_conv, "max_pool2d": _torch_pool, "avg_pool2d": _torch_pool,
        "sparse_softmax_cross_entropy_with_logits": lambda n, xs: f"F.cross_entropy({xs[1]}{'.movedim(-1, 1)' if len(n.shape) > 1 else ''}, {xs[0]}.long(), reduction='none')",
        "softmax_cross_entropy_with_logits": "-({0} * torch.log_softmax({1}, -1)).sum(-1)",
        "sigmoid_cross_entropy_with_logits": "F.binary_cross_entropy_with_logits({1}, {0}, reduction='none')", "l2_loss": "({0} ** 2).sum() / 2",
        **dict.fromkeys(("gather", "take"), lambda n, xs: f"{xs[0]}[{':, ' * (n.attr('axis') % len(n.inputs[0].shape))}{xs[1]}]"),
        "cumsum": lambda n, xs: _plain_scan(n, f"torch.cumsum({xs[0]}, {n.attr('axis')})"), **{k: f"torch.{k.replace('_', '')}({{0}})" for k in _TESTS},
        "floordiv": "torch.div({0}, {1}, rounding_mode='floor')", "floormod": "torch.remainder({0}, {1})", "rint": "torch.round({0})",
        "reverse": "torch.flip({0}, {axis})", "sort": "torch.sort({0}, descending={descending})[0]",
        "pad": lambda n, xs: f"F.pad({xs[0]}, {tuple(w for pair in _plain_pads(n)[::-1] for w in pair)}, value={n.attr('value')})",
    }


def _tf_padding(n: Node) -> str:
    padding = n.attr("padding")
    return repr(padding if isinstance(padding, str) else [[0, 0], *map(list, padding), [0, 0]])


def _tf_conv(n: Node, xs: Sequence[str]) -> str:
    _only_nhwc(n)
    return f"tf.nn.conv2d({xs[0]}, {xs[1]}, {_window(n, 'strides')}, {_tf_padding(n)}, dilations={_window(n, 'dilations')})"


def _tf_pool(n: Node, xs: Sequence[str]) -> str:
    _only_nhwc(n)
    if n.op.name == "avg_pool2d" and not isinstance(n.attr("padding"), str):
        raise NoCounterpart("average pooling with explicit padding is not translated")
    return f"tf.nn.{n.op.name}({xs[0]}, {_window(n, 'ksize')}, {_window(n, 'strides')}, {_tf_padding(n)})"


def _tf_norm(n: Node, xs: Sequence[str]) -> str:
    """As Keras composes it: TensorFlow has no operation of its own."""
    moments = f"*tf.nn.moments({xs[0]}, {list(_to_last(n))}, keepdims=True)"
    return f"tf.nn.batch_normalization({xs[0]}, {moments}, {xs[2]}, {xs[1]}, {n.attr('epsilon')})"


def _tf_length(n: Node, xs: Sequence[str]) -> str:
    axis = n.attr("axis")
    if axis is not None and len(axis) > 2:
        raise NoCounterpart("norm over more than two axes, but not all, is not translated to TensorFlow")
    return f"tf.norm({xs[0]}, axis={axis[0] if axis is not None and len(axis) == 1 else axis}, keepdims={n.attr('keepdims')})"


def _tf_moments(n: Node, xs: Sequence[str]) -> str:
    axis = n.attr("axis")
    return f"tf.nn.moments({xs[0]}, {list(range(len(n.inputs[0].shape)) if axis is None else axis)}, keepdims={n.attr('keepdims')})"


def _tf_batch_norm(n: Node, xs: Sequence[str]) -> str:
    if len(_to_last(n)) > 1:
        raise NoCounterpart("batch_norm_inference with channels not last is not translated")
    x, mean, variance, gamma, beta = xs
    return f"tf.nn.batch_normalization({x}, {mean}, {variance}, {beta}, {gamma}, {n.attr('epsilon')})"


def _tf_gelu(n: Node, xs: Sequence[str]) -> str:
    x = xs[0]
    if n.dtype == float64:                   # tf.nn.gelu rounds its constants to float32 for every dtype
        inner = f"tf.tanh(math.sqrt(2 / math.pi) * ({x} + 0.044715 * {x} ** 3))" if n.attr("approximate") else f"tf.math.erf({x} / math.sqrt(2))"
        return f"0.5 * {x} * (1 + {inner})"
    return f"tf.nn.gelu({x}, approximate={n.attr('approximate')})"


def _tf_leaky_relu(n: Node, xs: Sequence[str]) -> str:
    x, alpha = xs[0], n.attr("alpha")
    return f"tf.where({x} > 0, {x}, {alpha} * {x})" if n.dtype == float64 else f"tf.nn.leaky_relu({x}, {alpha})"             # so does this


def _tf_dense(n: Node, xs: Sequence[str]) -> str:
    if n.inputs[0].shape != n.inputs[1].shape:
        raise NoCounterpart("cross entropy of labels and logits of different shapes is not translated to TensorFlow")
    return f"tf.nn.softmax_cross_entropy_with_logits({xs[0]}, {xs[1]})"


def _tf_sparse(n: Node, xs: Sequence[str]) -> str:
    labels = xs[0] if n.inputs[0].dtype in (int32, int64) else f"tf.cast({xs[0]}, tf.int32)"
    return f"tf.nn.sparse_softmax_cross_entropy_with_logits({labels}, {xs[1]})"


def _tf_matmul(n: Node, xs: Sequence[str]) -> str:
    turned = "".join(f", {flag}=True" for flag in ("transpose_a", "transpose_b") if n.attr(flag))
    return f"tf.matmul({xs[0]}, {xs[1]}{turned})"


def _tensorflow() -> dict[str, Rule]:
    math = (_UNARY + " asin acos atan asinh acosh atanh erf erfc abs rsqrt rint sigmoid logical_not").split() + list(_TESTS)
    pairs = ["maximum", "minimum", "squared_difference", "logical_and", "logical_or", "logical_xor", "floordiv", "floormod"]
    nn = ["relu", "relu6", "elu", "selu", "silu", "softplus", "softsign", "l2_loss"]
    scan = "{0}, {axis}, exclusive={exclusive}, reverse={reverse}"
    return {
        **_COMMON, **{k: f"tf.math.{k}({{0}})" for k in math}, **{k: f"tf.math.{k}({{0}}, {{1}})" for k in pairs}, **{k: f"tf.nn.{k}({{0}})" for k in nn},
        **{k: f"tf.reduce_{k}({{0}}, {{axis}}, {{keepdims}})" for k in ("sum", "mean", "max", "min", "prod", "any", "all", "logsumexp")},
        **{k: f"tf.bitwise.{k}({{0}}, {{1}})" for k in ("bitwise_and", "bitwise_or", "bitwise_xor")},
        **{k: f"tf.math.{k}({{0}}, {{axis}}, output_type=tf.{{dtype}})" for k in ("argmax", "argmin")},
        "exp2": "2 ** {0}", "log2": "tf.math.log({0}) / math.log(2)", "log10": "tf.math.log({0}) / math.log(10)", "trunc": "tf.sign({0}) * tf.floor(tf.abs({0}))",
        "atan2": "tf.atan2({0}, {1})", "where": "tf.where({0}, {1}, {2})", "clip": "tf.clip_by_value({0}, {1}, {2})", "log_sigmoid": "tf.math.log_sigmoid({0})",
        "gelu": _tf_gelu, "leaky_relu": _tf_leaky_relu, "softmax": "tf.nn.softmax({0}, {axis})",
        "log_softmax": "tf.nn.log_softmax({0}, {axis})", "reshape": "tf.reshape({0}, {shape})", "transpose": "tf.transpose({0}, {perm})",
        "broadcast_to": "tf.broadcast_to({0}, {shape})", "expand_dims": "tf.expand_dims({0}, {axis})", "squeeze": "tf.squeeze({0}, {axis})",
        "tile": "tf.tile({0}, {multiples})", "reverse": "tf.reverse({0}, {axis})", "pad": lambda n, xs: f"tf.pad({xs[0]}, {_plain_pads(n)}, constant_values={n.attr('value')})",
        "cast": "tf.cast({0}, tf.{dtype})", "stop_gradient": "tf.stop_gradient({0})",
        "concat": lambda n, xs: f"tf.concat([{', '.join(xs)}], {n.attr('axis')})", "stack": lambda n, xs: f"tf.stack([{', '.join(xs)}], {n.attr('axis')})",
        "add_n": lambda n, xs: f"tf.add_n([{', '.join(xs)}])", "matmul": _tf_matmul, "cumsum": f"tf.cumsum({scan})", "cumprod": f"tf.math.cumprod({scan})",
        "gather": "tf.gather({0}, {1}, axis={axis})", "take": "tf.gather({0}, {1}, axis={axis})", "gather_nd": "tf.gather_nd({0}, {1})",
        "top_k": "tf.math.top_k({0}, {k})", "one_hot": "tf.one_hot({0}, {depth}, {on}, {off}, {axis}, tf.{dtype})",
        "sort": lambda n, xs: f"tf.sort({xs[0]}, direction={'DESCENDING' if n.attr('descending') else 'ASCENDING'!r})",
        "layer_norm": _tf_norm, "batch_norm_inference": _tf_batch_norm, "moments": _tf_moments,
        "norm": _tf_length, "l2_normalize": "tf.math.l2_normalize({0}, {axis}, {epsilon})",
        "conv2d": _tf_conv, "max_pool2d": _tf_pool, "avg_pool2d": _tf_pool, "diag": "tf.linalg.diag({0})", "diag_part": "tf.linalg.diag_part({0})",
        "band_part": "tf.linalg.band_part({0}, {lower}, {upper})",
        "sparse_softmax_cross_entropy_with_logits": _tf_sparse, "sigmoid_cross_entropy_with_logits": "tf.nn.sigmoid_cross_entropy_with_logits({0}, {1})",
        "softmax_cross_entropy_with_logits": _tf_dense,
    }


TABLES: dict[str, Callable[[], dict[str, Rule]]] = {"numpy": _numpy, "torch": _torch, "jax": _jax, "tensorflow": _tensorflow}
IMPORTS = {"numpy": "import numpy as np", "torch": "import torch\nimport torch.nn.functional as F", "jax": "import jax\nimport jax.numpy as jnp",
           "tensorflow": "import math\nimport tensorflow as tf"}


def translate(g: Graph, feeds: Sequence[Node], outputs: Sequence[Node], library: str) -> tuple[str, dict[str, Any], int]:
    """(source of ``program(a0, a1, ...)`` that gives a tuple of ``outputs``, names it needs besides the imports, operations in it).

    NoCounterpart names the first op that has no counterpart, and its line.
    """
    table, names = TABLES[library](), {n: f"a{k}" for k, n in enumerate(feeds)}
    rows: list[str] = []
    extra: dict[str, Any] = {}
    count, order = 0, walk.ancestors(outputs)
    plain = _numbers(order, outputs)
    for n in order:
        if n in names:
            continue
        value = n.attr("value")
        if isinstance(value, ArrayAttr):
            if value.array.ndim == 0 and value.array.dtype.kind in "fi" and np.isfinite(value.array) and n in plain:
                names[n] = f"({value.array.item()!r})"       # it adopts the other operand's dtype, as here
                continue
            names[n] = f"c{len(extra)}"
            extra[names[n]] = value.array
            continue
        if n.op.name == "stop_gradient" and library == "numpy":
            names[n] = names[n.inputs[0]]
            continue
        text = _expression(n, [names[i] for i in n.inputs], table.get(n.op.name), library, extra)
        if text == names.get(n.inputs[0] if n.inputs else n):
            names[n] = text
            continue
        names[n] = f"v{n.id}"
        rows.append(f"    v{n.id} = {text}")
        count += 1
    rows.append(f"    return ({', '.join(names[o] for o in outputs)},)")
    source = f"def program({', '.join(names[n] for n in feeds)}):\n" + "\n".join(rows) + "\n"
    return source, extra, count


def _numbers(order: Sequence[Node], outputs: Sequence[Node]) -> set[Node]:
    """Scalar constants that only stand beside arrays in an infix expression."""
    infix = {"add", "sub", "mul", "div", "pow", *_COMPARE}
    users: dict[Node, list[Node]] = {}
    for n in order:
        for i in n.inputs:
            users.setdefault(i, []).append(n)
    consts = {n for n in order if n.op.name == "const"}
    return {n for n in consts - set(outputs) if all(u.op.name in infix and not consts.issuperset(u.inputs) for u in users.get(n, ()))}


def _expression(n: Node, xs: list[str], rule: Rule, library: str, extra: dict[str, Any]) -> str:
    if rule is None:
        if library != "numpy" or n.regions:
            raise NoCounterpart(f"{n.op.name} at {n.site.short()} has no counterpart in {library}: give the function of that library, {library}=...")
        name, kw = f"sg_{n.op.name}", n.kw
        key = name if name not in extra or extra[name].keywords == kw else f"{name}_{n.id}"
        extra[key] = _Meaning(n)
        return f"{key}({', '.join(xs)})"
    if callable(rule):
        return str(rule(n, xs))
    shown = {k: getattr(v, "name", v) if k == "dtype" else v for k, v in n.attrs}
    return str(rule.format(*xs, **shown))


class _Meaning:
    """An op's NumPy meaning at fixed attributes."""

    def __init__(self, n: Node) -> None:
        self.f, self.keywords, self.dtype = n.op.ref, n.kw, getattr(n.aval, "dtype", None)

    def __call__(self, *arrays: Any) -> Any:
        out = self.f(*arrays, **self.keywords)
        return out if self.dtype is None else np.asarray(out, self.dtype.np)


def runnable(source: str, names: Mapping[str, Any], library: str) -> Callable[..., Any]:
    """The function of a translation."""
    space: dict[str, Any] = {}
    exec(IMPORTS[library], space)
    space.update(names)
    exec(compile(source, f"<{library} program>", "exec"), space)
    made: Callable[..., Any] = space["program"]
    return made
