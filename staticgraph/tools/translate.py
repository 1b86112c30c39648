"""A traced function as source text for NumPy, PyTorch or JAX: one line per node, so that a comparison runs the peer's own operations.

The text is what a user of that library would write for straight-line code. Ops without an entry are refused by name; for NumPy they are calls of
the op's own NumPy meaning, so that whole gradients can be written out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..ir import walk
from ..ir.graph import ArrayAttr, Graph, Node


class NoCounterpart(NotImplementedError):
    """An op that the other library does not have in this form."""


Rule = Any                                   # a template over {0}, {1} ... and attributes, or a function of (node, operands)

_UNARY = "exp expm1 log log1p exp2 log2 log10 sin cos tan sinh cosh tanh sqrt square sign floor ceil trunc"
_COMPARE = {"equal": "==", "not_equal": "!=", "less": "<", "less_equal": "<=", "greater": ">", "greater_equal": ">="}
_ARCS = {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "asinh": "arcsinh", "acosh": "arccosh", "atanh": "arctanh"}
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


def _like_numpy(m: str) -> dict[str, Rule]:
    """The entries that NumPy and ``jax.numpy`` share."""
    table: dict[str, Rule] = {**_COMMON, **{k: f"{m}.{k}({{0}})" for k in _UNARY.split()}, **{k: f"{m}.{v}({{0}})" for k, v in _ARCS.items()}}
    table.update({k: f"{m}.{k}({{0}}, {{1}})" for k in ("maximum", "minimum", "logical_and", "logical_or")})
    table.update({k: f"{{0}}.{k}(axis={{axis}}, keepdims={{keepdims}})" for k in ("sum", "mean", "max", "min", "prod")})
    table.update({
        "abs": f"{m}.abs({{0}})", "logical_not": f"{m}.logical_not({{0}})", "atan2": f"{m}.arctan2({{0}}, {{1}})", "where": f"{m}.where({{0}}, {{1}}, {{2}})",
        "rsqrt": f"1 / {m}.sqrt({{0}})", "transpose": "{0}.transpose({perm})", "broadcast_to": f"{m}.broadcast_to({{0}}, {{shape}})",
        "expand_dims": f"{m}.expand_dims({{0}}, {{axis}})", "squeeze": f"{m}.squeeze({{0}}, {{axis}})", "clip": f"{m}.clip({{0}}, {{1}}, {{2}})",
        "concat": lambda n, xs: f"{m}.concatenate([{', '.join(xs)}], {n.attr('axis')})", "stack": lambda n, xs: f"{m}.stack([{', '.join(xs)}], {n.attr('axis')})",
        "cast": f"{{0}}.astype({m}.{{dtype}})", "tile": f"{m}.tile({{0}}, {{multiples}})", "stop_gradient": "{0}",
        "argmax": lambda n, xs: f"{m}.argmax({xs[0]}, {n.attr('axis')})", "take": f"{m}.take({{0}}, {{1}}, {{axis}})",
        "matmul": lambda n, xs: _swap(n, xs, "swapaxes(-1, -2)"),
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


def _jax() -> dict[str, Rule]:
    nn = "relu relu6 sigmoid softplus silu selu elu log_sigmoid"
    return {
        **_like_numpy("jnp"), **{k: f"jax.nn.{k}({{0}})" for k in nn.split()}, "gelu": "jax.nn.gelu({0}, approximate={approximate})",
        "leaky_relu": "jax.nn.leaky_relu({0}, {alpha})", "softsign": "jax.nn.soft_sign({0})", "erf": "jax.scipy.special.erf({0})",
        "softmax": "jax.nn.softmax({0}, {axis})", "log_softmax": "jax.nn.log_softmax({0}, {axis})",
        "logsumexp": "jax.nn.logsumexp({0}, axis={axis}, keepdims={keepdims})", "stop_gradient": "jax.lax.stop_gradient({0})",
        "layer_norm": "jax.nn.standardize({0}, axis={axis}, epsilon={epsilon}) * {1} + {2}", "gather": "jnp.take({0}, {1}, {axis})",
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
    return f"{xs[0]}.{name}({dims}, {n.attr('keepdims')})" if dims else xs[0]


def _torch_conv(n: Node, xs: Sequence[str]) -> str:
    from ..ops.conv import padding_of
    _only_nhwc(n)
    ksize = n.inputs[1].shape[:2]
    (top, bottom), (left, right) = padding_of(n.attr("padding"), n.inputs[0].shape[1:3], ksize, n.attr("strides"), n.attr("dilations"))
    image, pad = f"{xs[0]}.permute(0, 3, 1, 2)", f"({top}, {left})"
    if (top, left) != (bottom, right):
        image, pad = f"F.pad({image}, ({left}, {right}, {top}, {bottom}))", "0"
    return f"F.conv2d({image}, {xs[1]}.permute(3, 2, 0, 1), None, {_window(n, 'strides')}, {pad}, {_window(n, 'dilations')}).permute(0, 2, 3, 1)"


def _torch_pool(n: Node, xs: Sequence[str]) -> str:
    _only_nhwc(n)
    if n.attr("padding") != "VALID":
        raise NoCounterpart("pooling with padding is not translated")
    f = {"max_pool2d": "max_pool2d", "avg_pool2d": "avg_pool2d"}[n.op.name]
    return f"F.{f}({xs[0]}.permute(0, 3, 1, 2), {_window(n, 'ksize')}, {_window(n, 'strides')}).permute(0, 2, 3, 1)"


def _torch_norm(n: Node, xs: Sequence[str]) -> str:
    if n.attr("axis") not in (-1, len(n.shape) - 1):
        raise NoCounterpart("layer_norm over another axis than the last is not translated")
    return f"F.layer_norm({xs[0]}, ({n.shape[-1]},), {xs[1]}, {xs[2]}, {n.attr('epsilon')})"


def _torch_slice(n: Node, xs: Sequence[str]) -> str:
    if any(s < 0 for s in n.attr("steps")):
        raise NoCounterpart("slices with negative steps are not translated to PyTorch")
    return f"{xs[0]}[{_slices(n)}]"


def _torch() -> dict[str, Rule]:
    same = (_UNARY + " asin acos atan asinh acosh atanh erf erfc abs relu sigmoid rsqrt logical_not").split()
    f = "relu6 elu selu softplus silu softsign"
    return {
        **_COMMON, **{k: f"torch.{k}({{0}})" for k in same}, **{k: f"F.{k}({{0}})" for k in f.split()}, "log_sigmoid": "F.logsigmoid({0})",
        **{k: f"torch.{k}({{0}}, {{1}})" for k in ("maximum", "minimum", "atan2", "logical_and", "logical_or")}, "where": "torch.where({0}, {1}, {2})",
        **dict.fromkeys(("sum", "mean", "max", "min", "logsumexp"), _torch_reduce), "gelu": lambda n, xs: f"F.gelu({xs[0]}, approximate={'tanh' if n.attr('approximate') else 'none'!r})",
        "leaky_relu": "F.leaky_relu({0}, {alpha})", "softmax": "torch.softmax({0}, {axis})", "log_softmax": "torch.log_softmax({0}, {axis})",
        "transpose": "{0}.permute({perm})", "broadcast_to": "{0}.expand({shape})", "expand_dims": "{0}.unsqueeze({axis})",
        "squeeze": lambda n, xs: f"{xs[0]}.reshape({tuple(n.shape)})", "clip": "torch.clamp({0}, {1}, {2})", "slice": _torch_slice,
        "concat": lambda n, xs: f"torch.cat([{', '.join(xs)}], {n.attr('axis')})", "stack": lambda n, xs: f"torch.stack([{', '.join(xs)}], {n.attr('axis')})",
        "cast": "{0}.to(torch.{dtype})", "tile": "{0}.tile({multiples})", "stop_gradient": "{0}.detach()", "argmax": lambda n, xs: f"{xs[0]}.argmax({n.attr('axis')})",
        "matmul": lambda n, xs: _swap(n, xs, "mT"), "layer_norm": _torch_norm, "conv2d": _torch_conv, "max_pool2d": _torch_pool, "avg_pool2d": _torch_pool,
        "sparse_softmax_cross_entropy_with_logits": "F.cross_entropy({1}, {0}.long(), reduction='none')",
        "softmax_cross_entropy_with_logits": "-({0} * torch.log_softmax({1}, -1)).sum(-1)",
        "sigmoid_cross_entropy_with_logits": "F.binary_cross_entropy_with_logits({1}, {0}, reduction='none')", "l2_loss": "({0} ** 2).sum() / 2",
        "gather": lambda n, xs: f"{xs[0]}[{xs[1]}]" if n.attr("axis") == 0 else f"torch.index_select({xs[0]}, {n.attr('axis')}, {xs[1]})",
        "cumsum": lambda n, xs: _plain_scan(n, f"torch.cumsum({xs[0]}, {n.attr('axis')})"),
    }


TABLES: dict[str, Callable[[], dict[str, Rule]]] = {"numpy": _numpy, "torch": _torch, "jax": _jax}
IMPORTS = {"numpy": "import numpy as np", "torch": "import torch\nimport torch.nn.functional as F", "jax": "import jax\nimport jax.numpy as jnp"}


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
