"""The functional transforms (``sg.grad``, ``sg.jvp``, ``sg.vmap`` ...) on define-by-run tensors: they compute now, by the tape."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .modes import GradMode
from .shaping import stack
from .tape import AccumulateGrad
from .tensor import Tensor, compute, grad


def gradients(ys: Sequence[Any], xs: Sequence[Any], cts: Sequence[Any] | None = None) -> list[Any]:
    """Cotangents of ``xs``, None where nothing connects; recorded, so that they can be differentiated again."""
    live = [(y, None if cts is None else cts[k]) for k, y in enumerate(ys) if isinstance(y, Tensor) and y.requires_grad]
    asked = [x for x in xs if isinstance(x, Tensor) and x.requires_grad]
    if not live or not asked:
        return [None] * len(xs)
    seeds = [compute.full(y.aval, 1) if c is None else compute.operands(None, (y, c))[1] for y, c in live]
    got = iter(grad([y for y, _ in live], asked, seeds, retain_graph=True, create_graph=True, allow_unused=True))
    return [next(got) if isinstance(x, Tensor) and x.requires_grad else None for x in xs]


def fresh(x: Any) -> Tensor:
    """A node of its own, so that derivatives are by this argument alone; it is a leaf where the argument has no history."""
    t = x if isinstance(x, Tensor) else compute.const(x)
    if t.requires_grad:
        return compute.identity(t)
    return t.detach().requires_grad_(t.dtype.is_floating)


def settled(results: Sequence[Any], args: Sequence[Any], made: Sequence[Tensor]) -> list[Any]:
    """Results for a caller none of whose tensors wants gradients: without history."""
    if any(isinstance(a, Tensor) and a.requires_grad for a in args):
        return list(results)
    own = {id(t) for t in made}
    return [r.detach() if isinstance(r, Tensor) and r.requires_grad and _leaves(r) <= own else r for r in results]


def _leaves(t: Tensor) -> set[int]:
    found: set[int] = set()
    seen: set[Any] = set()
    stack_: list[Any] = [t.grad_fn]
    while stack_:
        fn = stack_.pop()
        if fn is None or fn in seen:
            continue
        seen.add(fn)
        if isinstance(fn, AccumulateGrad):
            found.add(id(fn.variable))
        stack_ += [e[0] for e in fn.edges if e is not None]
    return found | ({id(t)} if t.grad_fn is None else set())


def push(ys: Sequence[Any], xs: Sequence[Tensor], tangents: Sequence[Any]) -> list[Any]:
    """The derivative of ``ys`` along ``tangents``: the reverse pass is linear in its cotangents, and its transpose is the forward one."""
    vs = [Tensor._wrap(np.zeros(y.shape, y._array.dtype)).requires_grad_() if y.dtype.is_floating else None for y in ys]
    live = [(y, v) for y, v in zip(ys, vs) if v is not None and y.requires_grad]
    back = gradients([y for y, _ in live], xs, [v for _, v in live])
    linear = [(g, compute.operands(None, (x, t))[1]) for g, x, t in zip(back, xs, tangents) if g is not None and g.requires_grad]
    out = gradients([g for g, _ in linear], [v for _, v in live], [t for _, t in linear])
    got = iter(out)
    by_y = [next(got) if v is not None and y.requires_grad else None for y, v in zip(ys, vs)]
    return [compute.zeros(y.aval) if g is None else g for g, y in zip(by_y, ys)]


def jacobian(y: Tensor, x: Tensor) -> Tensor:
    """[*result, *argument], a reverse pass per element of the result."""
    flat = compute.reshape(y, shape=(y._array.size,))
    rows = []
    for k in range(y._array.size):
        seed = np.zeros(y._array.size, y._array.dtype)
        seed[k] = 1
        (g,) = gradients([flat], [x], [Tensor._wrap(seed)])
        rows.append(compute.zeros(x.aval.with_dtype(y.dtype)) if g is None else g)
    if not rows:
        return compute.zeros(x.aval.with_shape((*y.shape, *x.shape)))
    return compute.reshape(compute.stack(*rows, axis=0), shape=(*y.shape, *x.shape))


def loop(fn: Callable[[int], Sequence[Any]], size: int, out_axis: int) -> list[Any]:
    """``vmap``: the results of each row (flat lists), stacked."""
    rows = [list(fn(k)) for k in range(size)]
    if not rows:
        raise ValueError("vmap over no rows has no results to take shapes from; call the static mode, or give at least one row")
    return [stack([r if isinstance(r, Tensor) else compute.const(r) for r in parts], axis=out_axis) for parts in zip(*rows)]


def recording() -> GradMode:
    """Within: record, whatever the caller's mode."""
    return GradMode(True)
