"""The operations of the op samples, under the names and argument orders of the samples, written with the public functions.

An entry takes the arrays of a sample as tensors. What staticgraph has no function for has no entry and is counted as such.
"""

from __future__ import annotations

import math

import numpy as np

import staticgraph as sg

OPS = {}

_SAME = ("abs acos acosh asin asinh atan atanh ceil cos cosh erf erfc exp expm1 floor log log1p reciprocal rsqrt sigmoid sign sin sinh sqrt square tan tanh "
         "logical_and logical_or logical_xor logical_not bitwise_and bitwise_or bitwise_xor maximum minimum atan2 pow")
OPS.update({name: getattr(sg, name) for name in _SAME.split()})
OPS.update({
    "neg": sg.negative, "round": sg.rint, "isfinite": sg.is_finite, "isinf": sg.is_inf, "isnan": sg.is_nan, "bitwise_not": sg.invert, "positive": sg.identity,
    "eq": sg.equal, "ne": sg.not_equal, "lt": sg.less, "le": sg.less_equal, "gt": sg.greater, "ge": sg.greater_equal,
    "bitwise_left_shift": sg.left_shift, "bitwise_right_shift": sg.right_shift, "mul": sg.multiply, "fmod": sg.truncatemod, "remainder": sg.floormod,
    "nn.functional.relu": sg.nn.relu, "nn.functional.relu6": sg.nn.relu6, "nn.functional.selu": sg.nn.selu, "nn.functional.silu": sg.nn.silu,
    "nn.functional.softsign": sg.nn.softsign, "nn.functional.logsigmoid": sg.nn.log_sigmoid, "nn.functional.elu": sg.nn.elu,
})
for _name in ("logical_and", "logical_or", "logical_xor", "logical_not"):
    OPS[_name] = lambda *xs, _f=getattr(sg, _name): _f(*[sg.cast(x, "bool") for x in xs])


def op(*names):
    """Enter a function under its sample names."""
    def enter(f):
        OPS.update(dict.fromkeys(names, f))
        return f
    return enter


# ---- elementwise -----------------------------------------------------------------------------------------------------------------

op("deg2rad")(lambda x: x * (math.pi / 180))
op("rad2deg")(lambda x: x * (180 / math.pi))
op("exp2")(lambda x: sg.pow(sg.fill(sg.shape(x), sg.constant(2, x.dtype)), x))
op("frac")(lambda x: sg.truncatemod(x, sg.ones_like(x)))
op("isposinf")(lambda x: sg.logical_and(sg.is_inf(x), x > 0))
op("isneginf")(lambda x: sg.logical_and(sg.is_inf(x), x < 0))
op("signbit")(lambda x: sg.less(1.0 / x if x.dtype.is_floating else x, 0))
op("add")(lambda x, y, alpha=1: x + y * alpha if alpha != 1 else x + y)
op("sub")(lambda x, y, alpha=1: x - y * alpha if alpha != 1 else x - y)
op("rsub")(lambda x, y, alpha=1: y - x * alpha if alpha != 1 else y - x)
op("div.no_rounding_mode")(lambda x, y: x / y)
op("__rdiv__")(lambda x, y: y / x)
op("__rpow__")(lambda x, y: y ** x)
op("__rmod__")(lambda x, y: y % x)
op("floor_divide", "div.floor_rounding")(lambda x, y, rounding_mode="floor": sg.floordiv(x, y))
op("hypot")(lambda x, y: sg.sqrt(x * x + y * y))
op("lerp")(lambda x, y, w: x + (y - x) * w)
op("addcmul")(lambda a, x, y, value=1: a + x * y * value)
op("addcdiv")(lambda a, x, y, value=1: a + x / y * value)
op("clamp")(lambda x, low=None, high=None: _clamp(x, low, high))
op("clamp_min")(sg.maximum)
op("clamp_max")(sg.minimum)
op("where")(lambda x, c, y: _where(c, x, y))
op("masked_fill")(lambda x, m, v: _where(m, v, x))
op("nn.functional.leaky_relu")(lambda x, negative_slope=0.01: sg.nn.leaky_relu(x, negative_slope))
op("nn.functional.gelu")(lambda x, approximate="none": sg.nn.gelu(x, approximate=approximate == "tanh"))
op("nn.functional.softplus")(lambda x, beta=1, threshold=20: sg.where(x * beta > threshold, x, sg.nn.softplus(x * beta) / beta))
op("nn.functional.hardtanh")(lambda x, min_val=-1.0, max_val=1.0: sg.clip_by_value(x, min_val, max_val))
op("nn.functional.tanhshrink")(lambda x: x - sg.tanh(x))
op("nn.functional.mish")(lambda x: x * sg.tanh(sg.nn.softplus(x)))
op("logit")(lambda x, eps=None: _logit(x if eps is None else sg.clip_by_value(x, eps, 1 - eps)))


def _logit(x):
    return sg.log(x / (1.0 - x))


def _clamp(x, low, high):
    if low is not None:
        x = sg.maximum(x, low)
    return x if high is None else sg.minimum(x, high)


def _where(c, x, y):
    x, y = (v if isinstance(v, sg.Tensor) else sg.constant(v, (y if isinstance(y, sg.Tensor) else x).dtype) for v in (x, y)) if not (isinstance(x, sg.Tensor) and isinstance(y, sg.Tensor)) else (x, y)
    zero = sg.zeros_like(x) + sg.zeros_like(y)
    spread = sg.broadcast_to(c, sg.shape(zero + sg.cast(c, zero.dtype)))
    return sg.where(spread, sg.broadcast_to(x, sg.shape(spread)), sg.broadcast_to(y, sg.shape(spread)))


# ---- reductions ------------------------------------------------------------------------------------------------------------------

def _reduction(f):
    return lambda x, dim=None, keepdim=False: f(x, axis=dim if not isinstance(dim, tuple) or dim else None, keepdims=keepdim)


OPS.update({name: _reduction(f) for name, f in {
    "sum": sg.reduce_sum, "prod": sg.reduce_prod, "mean": sg.reduce_mean, "amax": sg.reduce_max, "amin": sg.reduce_min,
    "all": lambda x, **k: sg.reduce_all(sg.cast(x, "bool"), **k), "any": lambda x, **k: sg.reduce_any(sg.cast(x, "bool"), **k),
    "logsumexp": sg.reduce_logsumexp, "nansum": lambda x, **k: sg.reduce_sum(sg.where(sg.is_nan(x), sg.zeros_like(x), x), **k),
    "max.reduction_no_dim": sg.reduce_max, "min.reduction_no_dim": sg.reduce_min,
}.items()})
op("count_nonzero")(lambda x, dim=None: sg.count_nonzero(x, axis=dim))
op("aminmax")(lambda x, dim=None, keepdim=False: [sg.reduce_min(x, axis=dim, keepdims=keepdim), sg.reduce_max(x, axis=dim, keepdims=keepdim)])
op("cumsum")(lambda x, dim, dtype=None: sg.cumsum(x, dim))
op("cumprod")(lambda x, dim: sg.cumprod(x, dim))
op("trace")(sg.trace)
op("dist")(lambda x, y, p=2: sg.norm(x - y, ord=p) if p else None)


def _arg(f):
    def arg(x, dim=None, keepdim=False):
        if not x.shape.ndims:
            return f(sg.reshape(x, [1]), axis=0)
        if dim is None:
            at = f(sg.reshape(x, [-1]), axis=0)
            return sg.reshape(at, [1] * x.shape.ndims) if keepdim else at
        at = f(x, axis=dim)
        return sg.expand_dims(at, dim) if keepdim else at
    return arg


OPS["argmax"], OPS["argmin"] = _arg(sg.argmax), _arg(sg.argmin)
for _name, _arg_name, _red in (("max", "argmax", sg.reduce_max), ("min", "argmin", sg.reduce_min)):
    OPS[f"{_name}.reduction_with_dim"] = lambda x, dim, keepdim=False, a=_arg_name, r=_red: [_picked(x, OPS[a](x, dim, True), dim, keepdim), OPS[a](x, dim, keepdim)]


def _picked(x, at, dim, keepdim):
    if not x.shape.ndims:
        return x
    chosen = sg.equal(_along(x, dim), sg.broadcast_to(at, sg.shape(x)))
    return sg.reduce_sum(sg.where(chosen, x, sg.zeros_like(x)), axis=dim, keepdims=keepdim)


def _along(x, dim):
    rank, dim = x.shape.ndims, dim % x.shape.ndims
    line = sg.reshape(sg.range(x.shape[dim].value), [-1 if k == dim else 1 for k in range(rank)])
    return sg.broadcast_to(sg.cast(line, "int64"), sg.shape(x))


@op("var", "var.unbiased")
def _var(x, dim=None, unbiased=True, keepdim=False, correction=None):
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    mean = sg.reduce_mean(x, axis=dim, keepdims=True)
    n = int(np.prod(x.shape.as_list())) // max(1, int(np.prod(mean.shape.as_list())))
    by = n - (int(unbiased) if correction is None else correction)
    return sg.reduce_sum(sg.square(x - mean), axis=dim, keepdims=keepdim) / by


op("std", "std.unbiased")(lambda *a, **k: sg.sqrt(_var(*a, **k)))
op("var_mean")(lambda x, dim=None, keepdim=False, **k: [_var(x, dim, keepdim=keepdim, **k), sg.reduce_mean(x, axis=dim, keepdims=keepdim)])


@op("norm", "linalg.vector_norm")
def _norm(x, p=2, dim=None, keepdim=False, ord=None):
    p = p if ord is None else ord
    if p == "nuc":
        return None
    p = 2 if p == "fro" else p
    if p == 0:
        return sg.reduce_sum(sg.cast(sg.not_equal(x, 0), x.dtype), axis=dim, keepdims=keepdim)
    if p in (math.inf, -math.inf):
        return (sg.reduce_max if p > 0 else sg.reduce_min)(sg.abs(x), axis=dim, keepdims=keepdim)
    if p < 0 or p > 2:
        return sg.pow(sg.reduce_sum(sg.pow(sg.abs(x), p), axis=dim, keepdims=keepdim), 1 / p)
    return sg.norm(x, ord=p, axis=dim, keepdims=keepdim)


# ---- shapes ----------------------------------------------------------------------------------------------------------------------

op("reshape")(sg.reshape)
op("permute")(lambda x, perm: sg.transpose(x, [k % x.shape.ndims for k in perm]))
op("ravel")(lambda x: sg.reshape(x, [-1]))
op("squeeze", "squeeze.multiple")(lambda x, dim=None: _squeeze(x, dim))
op("unsqueeze")(sg.expand_dims)
op("stack")(lambda xs, dim=0: sg.stack(xs, axis=dim))
op("cat")(lambda xs, dim=0: sg.concat([x for x in xs if x.shape.as_list() != [0]] or xs[:1], dim))
op("tile", "repeat")(lambda x, reps: _tile(x, reps))
op("flip")(lambda x, dims: sg.reverse(x, [d % x.shape.ndims for d in dims]))
op("fliplr")(lambda x: sg.reverse(x, [1]))
op("flipud")(lambda x: sg.reverse(x, [0]))
op("atleast_1d")(lambda *xs: [x if x.shape.ndims else sg.reshape(x, [1]) for x in _listed(xs)])
op("atleast_2d")(lambda *xs: [x if x.shape.ndims > 1 else sg.reshape(x, [1, -1]) for x in _listed(xs)])
op("unbind")(lambda x, dim=0: sg.unstack(x, axis=dim))
op("select")(lambda x, dim, k: sg.unstack(x, axis=dim)[k])
op("split")(lambda x, size, dim=0: sg.split(x, _pieces(x.shape[dim].value, size), dim))
op("split.list_args")(lambda x, sizes, dim=0: sg.split(x, list(sizes), dim))
op("chunk")(lambda x, n, dim=0: sg.split(x, _pieces(x.shape[dim].value, -(-x.shape[dim].value // n)), dim))
op("narrow")(lambda x, dim, start, length: _narrow(x, dim % x.shape.ndims, start, length))
op("hstack")(lambda xs: sg.concat(list(xs), 0 if xs[0].shape.ndims == 1 else 1))
op("vstack")(lambda xs: sg.concat([OPS["atleast_2d"](x)[0] for x in xs], 0))
op("diagonal")(lambda x, offset=0, dim1=0, dim2=1: sg.matrix_diag_part(_movedim(x, (dim1, dim2), (-2, -1))) if offset == 0 else None)
op("diag_embed")(lambda x, offset=0: sg.matrix_diag(x) if offset == 0 else None)
op("roll")(lambda x, shifts, dims=None: sg.roll(x, _listed(shifts), _listed(dims)) if dims is not None else sg.reshape(
    sg.roll(sg.reshape(x, [-1]), shifts if isinstance(shifts, int) else shifts[0], 0), sg.shape(x)))
op("tril")(lambda x, k=0: _triangle(x, k, True))
op("triu")(lambda x, k=0: _triangle(x, k, False))
op("meshgrid.list_of_tensors")(lambda xs, indexing: sg.meshgrid(*[OPS["atleast_1d"](x)[0] for x in xs], indexing=indexing))
op("nn.functional.pad.constant", "constant_pad_nd")(lambda x, pads, *rest: sg.pad(x, _pads(x, pads), constant_values=rest[-1] if rest and rest[-1] != "constant" and rest[-1] is not None else 0))
op("nn.functional.pad.reflect")(lambda x, pads, mode: sg.pad(x, _pads(x, pads), "REFLECT"))


def _narrow(x, dim, start, length):
    start = sg.floormod(sg.cast(sg.convert_to_tensor(start), "int32"), x.shape[dim].value)
    axes = range(x.shape.ndims)
    return sg.slice(x, sg.stack([start if k == dim else 0 for k in axes]), [length if k == dim else -1 for k in axes])


def _squeeze(x, dim):
    dims = [dim] if isinstance(dim, int) else list(dim) if dim is not None else list(range(x.shape.ndims))
    dims = [d % x.shape.ndims for d in dims if x.shape.ndims]
    ones = [d for d in dims if x.shape[d].value == 1]
    return sg.squeeze(x, ones) if ones else x


def _tile(x, reps):
    reps = list(reps)
    rank = max(len(reps), x.shape.ndims)
    x = sg.reshape(x, [1] * (rank - x.shape.ndims) + x.shape.as_list())
    return sg.tile(x, [1] * (rank - len(reps)) + reps) if rank else x


def _listed(x):
    return list(x) if isinstance(x, (list, tuple)) else [x]


def _pieces(n, size):
    return [min(size, n - k) for k in range(0, n, size)] or [0]


def _triangle(x, k, lower):
    rows, cols = (sg.expand_dims(sg.range(x.shape[-2].value), 1), sg.expand_dims(sg.range(x.shape[-1].value), 0))
    keep = sg.less_equal(cols - rows, k) if lower else sg.greater_equal(cols - rows, k)
    return sg.where(sg.broadcast_to(keep, sg.shape(x)), x, sg.zeros_like(x))


def _pads(x, pads):
    pairs = [[pads[k], pads[k + 1]] for k in range(0, len(pads), 2)][::-1]
    return [[0, 0]] * (x.shape.ndims - len(pairs)) + pairs


@op("expand", "broadcast_to")
def _expand(x, shape):
    old = [1] * (len(shape) - x.shape.ndims) + x.shape.as_list()
    return sg.broadcast_to(x, [o if s == -1 else s for o, s in zip(old, shape)])


@op("flatten")
def _flatten(x, start_dim=0, end_dim=-1):
    s = x.shape.as_list() or [1]
    a, b = start_dim % len(s), end_dim % len(s)
    return sg.reshape(x, [*s[:a], int(np.prod(s[a:b + 1])), *s[b + 1:]])


@op("unflatten")
def _unflatten(x, dim, sizes):
    s, dim = x.shape.as_list(), dim % x.shape.ndims
    return sg.reshape(x, [*s[:dim], *sizes, *s[dim + 1:]])


@op("transpose")
def _transpose(x, a, b):
    perm = list(range(x.shape.ndims))
    if perm:
        perm[a], perm[b] = perm[b], perm[a]
    return sg.transpose(x, perm)


@op("movedim")
def _movedim(x, source, to):
    source, to = ([k % x.shape.ndims for k in _listed(v)] for v in (source, to))
    rest = iter(k for k in range(x.shape.ndims) if k not in source)
    return sg.transpose(x, [source[to.index(k)] if k in to else next(rest) for k in range(x.shape.ndims)])


# ---- indexing and sorting ------------------------------------------------------------------------------------------------------------

op("index_select")(lambda x, dim, at: sg.gather(x if x.shape.ndims else sg.reshape(x, [1]), at, axis=dim if x.shape.ndims else 0))
op("nn.functional.embedding")(lambda table, at, padding_idx=None, **k: sg.nn.embedding_lookup(table, at) if padding_idx is None else None)
op("take")(lambda x, at: sg.gather(sg.reshape(x, [-1]), at))
op("sort")(lambda x, dim=-1, descending=False, stable=False: _sorted(x, dim, descending))
op("argsort")(lambda x, dim=-1, descending=False, stable=False: sg.cast(_sorted(x, dim, descending)[1], "int64"))
op("topk")(lambda x, k, dim=-1, largest=True, sorted=True: _topk(x, k, dim, largest))
op("nn.functional.one_hot")(lambda x, num_classes: sg.one_hot(x, num_classes, dtype="int64") if num_classes > 0 else None)


def _sorted(x, dim, descending):
    if not x.shape.ndims:
        return [x, sg.zeros([], "int64")]
    at = sg.argsort(x, axis=dim, direction="DESCENDING" if descending else "ASCENDING", stable=True)
    last = _transpose(x, dim, -1)
    where = _transpose(at, dim, -1)
    flat, index = sg.reshape(last, [-1, last.shape[-1].value]), sg.reshape(where, [-1, last.shape[-1].value])
    values = sg.gather(flat, index, axis=1, batch_dims=1)
    return [_transpose(sg.reshape(values, sg.shape(last)), dim, -1), sg.cast(at, "int64")]


def _topk(x, k, dim, largest):
    if not x.dtype.is_floating:
        return None                          # which of equals is taken differs
    if not x.shape.ndims:
        return [x, sg.zeros([], "int64")]
    last = _transpose(x, dim, -1)
    values, at = sg.nn.top_k(last if largest else -last, k)
    return [_transpose(values if largest else -values, dim, -1), sg.cast(_transpose(at, dim, -1), "int64")]


# ---- products ------------------------------------------------------------------------------------------------------------------------

op("mm", "linalg.multi_dot2")(sg.matmul)
op("outer")(lambda x, y: sg.expand_dims(x, 1) * sg.expand_dims(y, 0))
op("dot")(lambda x, y: sg.tensordot(x, y, 1))
op("mv")(lambda a, x: sg.tensordot(a, x, 1))
op("inner")(lambda x, y: sg.tensordot(x, y, [[-1], [-1]]) if x.shape.ndims and y.shape.ndims else x * y)
op("addmm")(lambda c, a, b, alpha=1, beta=1: c * beta + sg.matmul(a, b) * alpha)
op("addmv")(lambda c, a, x, alpha=1, beta=1: c * beta + sg.tensordot(a, x, 1) * alpha)
op("addr")(lambda c, x, y, alpha=1, beta=1: c * beta + OPS["outer"](x, y) * alpha)
op("tensordot")(lambda x, y, dims=2: sg.tensordot(x, y, dims) if _fits(x, y, dims) else None)
op("nn.functional.linear")(lambda x, w, b=None: _plus(sg.tensordot(x, w, [[-1], [1]]), b))
op("matmul")(lambda x, y: _matmul(x, y))
op("linalg.cross")(lambda x, y, dim=-1: _transpose(sg.cross(_transpose(x, dim, -1), _transpose(y, dim, -1)), dim, -1) if x.shape.as_list() == y.shape.as_list() else None)


@op("linalg.multi_dot")
def _multi_dot(xs):
    out = xs[0]
    for x in xs[1:]:
        out = _matmul(out, x)
    return out


def _fits(x, y, dims):
    """Contracted axes of one size: what is summed over is not broadcast here."""
    if isinstance(dims, int):
        return x.shape.as_list()[x.shape.ndims - dims:] == y.shape.as_list()[:dims]
    return [x.shape.as_list()[k] for k in _listed(dims[0])] == [y.shape.as_list()[k] for k in _listed(dims[1])]


def _plus(x, b):
    return x if b is None else x + b


def _matmul(x, y):
    if x.shape.ndims == 1 or y.shape.ndims == 1:
        a = sg.expand_dims(x, 0) if x.shape.ndims == 1 else x
        b = sg.expand_dims(y, 1) if y.shape.ndims == 1 else y
        out = sg.matmul(a, b)
        return sg.squeeze(out, [k for k, v in ((-2, x), (-1, y)) if v.shape.ndims == 1])
    return sg.matmul(x, y)


# ---- neural networks -------------------------------------------------------------------------------------------------------------------

op("softmax")(lambda x, dim: sg.nn.softmax(x, axis=dim))
op("nn.functional.softmin")(lambda x, dim: sg.nn.softmax(-x, axis=dim))
op("log_softmax")(lambda x, dim: sg.nn.log_softmax(x, axis=dim))
op("nn.functional.rms_norm")(lambda x, shape, w=None, eps=None: _times(x * sg.rsqrt(
    sg.reduce_mean(sg.square(x), list(range(-len(shape), 0)), keepdims=True) + (np.finfo(x.dtype.as_numpy_dtype).eps if eps is None else eps)), w))
op("nn.functional.normalize")(lambda x, p=2.0, dim=1, eps=1e-12: x / sg.maximum(_norm(x, p, dim, True), eps))
op("nn.functional.layer_norm")(lambda x, shape, w=None, b=None, eps=1e-5: _layer_norm(x, shape, w, b, eps))
op("nn.functional.glu")(lambda x, dim=-1: (lambda a, b: a * sg.sigmoid(b))(*sg.split(x, 2, dim)))
op("nn.functional.prelu")(lambda x, weight: sg.where(x > 0, x, x * (sg.reshape(weight, [-1, *[1] * (x.shape.ndims - 2)]) if x.shape.ndims > 1 else weight)))
for _name, _loss in {
    "mse": lambda x, y: sg.squared_difference(x, y), "l1": lambda x, y: sg.abs(x - y),
    "soft_margin": lambda x, y: sg.nn.softplus(-y * x),
}.items():
    OPS[f"nn.functional.{_name}_loss"] = lambda x, y, reduction="mean", f=_loss: _reduced(f(x, y), reduction)
op("nn.functional.binary_cross_entropy_with_logits")(
    lambda x, y, weight=None, pos_weight=None, reduction="mean": _reduced(_times(
        sg.nn.sigmoid_cross_entropy_with_logits(labels=y, logits=x) if pos_weight is None
        else sg.nn.weighted_cross_entropy_with_logits(y, x, pos_weight), weight), reduction))


def _times(x, w):
    return x if w is None else x * w


def _reduced(x, how):
    return x if how == "none" else sg.reduce_mean(x) if how == "mean" else sg.reduce_sum(x)


def _layer_norm(x, shape, w, b, eps):
    axes = list(range(-len(shape), 0))
    mean, var = sg.nn.moments(x, axes, keep_dims=True)
    y = (x - mean) * sg.rsqrt(var + eps)
    return _plus(_times(y, w), b)


@op("nn.functional.cross_entropy")
def _cross_entropy(x, y, weight=None, ignore_index=-100, reduction="mean", label_smoothing=0.0):
    if weight is not None or label_smoothing or y.dtype.is_floating or x.shape.ndims > 2 or ignore_index >= 0:
        return None
    return _reduced(sg.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=x), reduction)


def _conv(rank):
    def conv(x, w, b=None, stride=1, padding=0, dilation=1, groups=1):
        one, both = x.shape.ndims == rank + 1, lambda v: list(v) * (rank // len(v)) if isinstance(v, tuple) else [v] * rank
        if isinstance(padding, str) and rank == 1:
            return None
        if groups != 1:
            return None
        x = sg.expand_dims(x, 0) if one else x
        pads = padding.upper() if isinstance(padding, str) else [[0, 0], [0, 0], *[[p, p] for p in ([0] if rank == 1 else []) + both(padding)]]
        strides, dilations = ([1, 1, *([1] if rank == 1 else []), *both(v)] for v in (stride, dilation))
        if rank == 1:
            x, w = sg.expand_dims(x, 2), sg.expand_dims(w, 2)
        y = sg.nn.conv2d(x, sg.transpose(w, [2, 3, 1, 0]), strides, pads, data_format="NCHW", dilations=dilations)
        if rank == 1:
            y = sg.squeeze(y, [2])
        y = y if b is None else y + sg.reshape(b, [-1, *[1] * rank])
        return sg.squeeze(y, [0]) if one else y
    return conv


OPS["nn.functional.conv1d"], OPS["nn.functional.conv2d"] = _conv(1), _conv(2)


@op("nn.functional.batch_norm")
def _batch_norm(x, mean, variance, w=None, b=None, training=False, momentum=0.1, eps=1e-5):
    by_channel = lambda v: v if v is None else sg.reshape(v, [1, -1, *[1] * (x.shape.ndims - 2)])
    if training:
        mean, variance = sg.nn.moments(x, [0, *range(2, x.shape.ndims)], keep_dims=True)
    else:
        mean, variance = by_channel(mean), by_channel(variance)
    return sg.nn.batch_normalization(x, mean, variance, by_channel(b), by_channel(w), eps)


@op("nn.functional.avg_pool2d")
def _avg_pool(x, size, stride=None, padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None):
    if ceil_mode or divisor_override is not None or (padding and count_include_pad) or x.shape.ndims != 4:
        return None
    two = lambda v: [1, 1, *(v if isinstance(v, tuple) else (v, v))]
    return sg.nn.avg_pool(x, two(size), two(stride or size), [[p, p] for p in [0, 0, *two(padding)[2:]]] if padding else "VALID", data_format="NCHW")


# ---- what makes tensors ------------------------------------------------------------------------------------------------------------------

op("arange")(lambda *a, dtype=None: sg.range(*a, dtype=np.dtype(dtype or "int64").name))
op("full")(lambda shape, value, dtype=None: sg.fill(list(shape), sg.constant(value, dtype)))
op("eye")(lambda *n, dtype=None, requires_grad=False: sg.eye(*n, dtype=dtype or "float32"))
op("linspace")(lambda a, b, n, dtype=None: sg.cast(sg.linspace(sg.constant(a, "float64"), sg.constant(b, "float64"), n), dtype or "float32") if n > 0 else None)
