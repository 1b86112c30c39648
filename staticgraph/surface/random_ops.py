"""Random tensors with TF1's seeds: the pair (graph seed, operation seed) names the stream."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from .. import source
from ..dtypes import as_dtype, float32, float64
from ..ir.aval import Size, product
from ..ops.random import advance, shuffle_advance
from .constructs import operand_nodes
from .deferred import recorded
from .funnel import convert, dynamic, emit, is_dynamic, op_scope
from .ledger import get_default_graph
from .sizes import one_of, sizes_from
from .tensor import Tensor

_DEFAULT = 87654321


def set_random_seed(seed: int) -> None:
    """The graph's seed: operations made from now on without a seed of their own derive theirs from it. The define-by-run mode's stream starts again."""
    get_default_graph().seed = seed
    loaded = sys.modules.get("staticgraph.dynamic.random")
    if loaded is not None:
        loaded.manual_seed(seed)


def get_seed(op_seed: int | None, before: int = 0) -> tuple[int, int]:
    """The seed pair of a new operation; (0, 0) means "drawn by the session".

    A graph's seed is completed with the number of nodes made so far, ``before`` of them by the call itself.
    """
    g = get_default_graph()
    if g.seed is not None:
        pair = (g.seed, g.op_count + before if op_seed is None else op_seed)
    elif op_seed is not None:
        pair = (_DEFAULT, op_seed)
    else:
        return 0, 0
    return pair if pair != (0, 0) else (0, 2**31 - 1)


def stream(b: Any, pair: tuple[int, int], blocks: Size) -> Any:
    """The key of a new stream for draws that move it on by ``blocks``."""
    s, s2 = pair
    return b.stream(uid=get_default_graph().next_uid(), seed=int(s), seed2=int(s2), advance=blocks)


def _draw(op: str, tf: str, shape: tuple[Size, ...], dtype: Any, seed: int | None, name: str, scale: Any, shift: Any, operands: int, after: int) -> Tensor:
    """The generator, after ``operands`` nodes of the call, and ``after`` nodes that scale and shift its numbers."""
    kind = as_dtype(dtype)
    pair = get_seed(seed, operands)

    def build(b: Any) -> Any:
        z = getattr(b, op)(stream(b, pair, advance(product(shape))), shape=shape, dtype=kind)
        if scale is not None:
            z = b.mul(z, scale(b) if callable(scale) else b.like(z, scale))
        return b.add(z, shift(b) if callable(shift) else b.like(z, shift)) if shift is not None else z
    result: Tensor = emit(tf, name, (), build, {"dtype": kind}, operands + 1 + after)
    return result


def _number(v: Any) -> Any:
    """A Python number, or a function of the builder for a tensor."""
    if isinstance(v, Tensor) or hasattr(v, "_as_tensor"):
        node = convert(v).node
        return lambda b: b.capture(node)
    return float(v)


@recorded
def random_normal(shape: Any, mean: Any = 0.0, stddev: Any = 1.0, dtype: Any = float32, seed: int | None = None, name: str | None = None) -> Tensor:
    """Normal numbers."""
    with op_scope(name, "random_normal", shape, mean, stddev) as label:
        return _draw("random_normal", "RandomStandardNormal", sizes_from(shape), dtype, seed, label, _number(stddev), _number(mean), operand_nodes(shape, mean, stddev), 2)


@recorded
def truncated_normal(shape: Any, mean: Any = 0.0, stddev: Any = 1.0, dtype: Any = float32, seed: int | None = None, name: str | None = None) -> Tensor:
    """Normal numbers within two standard deviations."""
    with op_scope(name, "truncated_normal", shape, mean, stddev) as label:
        return _draw("truncated_normal", "TruncatedNormal", sizes_from(shape), dtype, seed, label, _number(stddev), _number(mean), operand_nodes(shape, mean, stddev), 2)


@recorded
def random_uniform(shape: Any, minval: Any = 0, maxval: Any = None, dtype: Any = float32, seed: int | None = None, name: str | None = None) -> Tensor:
    """Uniform numbers in [minval, maxval); integers need maxval."""
    with op_scope(name, "random_uniform", shape, minval, maxval) as label:
        kind = as_dtype(dtype)
        sizes = sizes_from(shape)
        if kind.is_integer:
            if maxval is None:
                raise ValueError(f"Must specify maxval for integer dtype {kind!r}")
            lo, hi = convert(minval, kind, "min"), convert(maxval, kind, "max")
            pair = get_seed(seed, operand_nodes(shape))
            return emit("RandomUniformInt", label, (lo, hi), lambda b, p, q: b.random_uniform_int(
                stream(b, pair, advance(product(sizes))), p, q, shape=sizes, dtype=kind), {"dtype": kind}, operand_nodes(shape) + 1)
        low, high = _number(minval), _number(1 if maxval is None else maxval)
        span = (lambda b: b.sub(high(b) if callable(high) else b.const(kind.np.type(high)), low(b) if callable(low) else b.const(kind.np.type(low)))) \
            if callable(low) or callable(high) else kind.np.type(high) - kind.np.type(low)
        return _draw("random_uniform", "RandomUniform", sizes, kind, seed, label, span, low, operand_nodes(shape, minval, maxval), 3)


@recorded
def dropout(x: Any, keep_prob: Any = None, noise_shape: Any = None, seed: int | None = None, name: str | None = None, rate: Any = None) -> Any:
    """Each element is kept with ``keep_prob`` (or dropped with ``rate``) and scaled by 1 / keep_prob. ValueError outside (0, 1]."""
    with source.hide_own_frames():
        chosen = one_of("rate", rate, keep_prob=keep_prob)
        if chosen is None:
            raise ValueError("You must provide a rate to dropout.")
        from_tensor = isinstance(chosen, Tensor) or hasattr(chosen, "_as_tensor")
        keep = None if from_tensor else float(chosen) if keep_prob is not None else 1 - float(chosen)
        if keep is not None and not 0 < keep <= 1:
            raise ValueError(f"keep_prob must be a scalar tensor or a float in the range (0, 1], got {keep}")
    if keep == 1:
        return x
    if is_dynamic((x,)):
        from ..dynamic.random import dropped
        with source.hide_own_frames():
            noise = x.shape if noise_shape is None else tuple(d if s in (None, -1) else int(s) for d, s in zip(x.shape, noise_shape))
            return dropped(x, float(chosen) if keep_prob is None else 1 - float(chosen), noise, seed, get_default_graph().seed)
    with op_scope(name, "dropout", x, chosen, beside=("sub",) if from_tensor and keep_prob is not None else ()):
        t = convert(x, name="x")
        # the rate (1 - keep_prob of a tensor is made outside), the shape and two bounds come before the generator
        first = 2 if from_tensor and keep_prob is not None else operand_nodes(chosen)
        pair = get_seed(seed, first + 3)
        shape = t.node.shape if noise_shape is None else tuple(d if s in (None, -1) else s for d, s in zip(t.node.shape, sizes_from(noise_shape)))

        def build(b: Any, n: Any, given: Any = None) -> Any:
            part = b.const(np.float64(chosen)) if given is None else b.cast(given, dtype=float64)
            if keep_prob is not None:
                part = b.sub(b.like(part, 1), part)
            return b.dropout(n, stream(b, pair, advance(product(shape))), part, shape=shape)
        return emit("Dropout", "mul_1", (t, convert(chosen, name="rate")) if from_tensor else (t,), build, weight=first + 15)


@recorded
def random_shuffle(value: Any, seed: int | None = None, name: str | None = None) -> Any:
    """Rows in a random order: TF1's for the same seeds."""
    if is_dynamic((value,)):
        from ..dynamic.random import stream_of
        with source.hide_own_frames():
            key = stream_of(seed, get_default_graph().seed).key(shuffle_advance(value.shape[0]))
            return dynamic("take", value, dynamic("random_shuffle", key, count=value.shape[0]), axis=0)
    with op_scope(name, "RandomShuffle", value) as label:
        pair = get_seed(seed)                # before the value is converted
        t = convert(value, name="value")
        n = t.node.shape[0]
        return emit("RandomShuffle", label, (t,), lambda b, x: b.take(
            b.no_gradient(x, operation=label.rstrip("/"), type="RandomShuffle"), b.random_shuffle(stream(b, pair, shuffle_advance(n)), count=n), axis=0))
