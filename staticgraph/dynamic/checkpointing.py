"""Checkpointing in the define-by-run mode: keep the inputs, run the function again when its gradient is wanted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import source
from ..ir.opdef import OPS
from .tape import GradFn, grad_mode, is_grad_enabled
from .tensor import Tensor, _leaves, backward, compute


def checkpoint(fn: Callable[..., Any], *args: Any) -> Any:
    """``fn(*args)`` without keeping its intermediate values: the backward pass runs it again, recorded, and goes back through that.

    ``fn`` must give the same result both times. Tensors among ``args`` (not inside containers) get gradients, and so do tensors ``fn`` closes over.
    """
    tensors = tuple(a for a in args if isinstance(a, Tensor))
    with grad_mode(False):
        out = fn(*args)
    single = isinstance(out, Tensor)
    outs = (out,) if single else tuple(out)
    results = tuple(Tensor._wrap(o.data.copy()) for o in outs)
    if is_grad_enabled():
        site = source.capture()
        g = GradFn(OPS["identity"], {}, tensors, site)

        def pull(totals: list[Any]) -> list[Any]:
            copies = {id(t): t.detach().requires_grad_(t.requires_grad) for t in tensors}
            with grad_mode(True):
                again = fn(*[copies[id(a)] if isinstance(a, Tensor) else a for a in args])
            roots = [(r, ct) for r, ct in zip((again,) if isinstance(again, Tensor) else tuple(again), totals)
                     if ct is not None and r.requires_grad]
            if not roots:
                return [None] * len(tensors)
            found = backward(compute, [r for r, _ in roots], [c for _, c in roots], False, is_grad_enabled())
            inner = {id(c) for c in copies.values()}
            from .tensor import _accumulate
            for r, _ in roots:
                for key, leaf in _leaves(r).items():
                    if key not in inner and key in found:
                        _accumulate(leaf, found.pop(key), False)
            return [found.get(id(copies[id(t)])) for t in tensors]
        g.pull = pull
        for k, r in enumerate(results):
            if r.dtype.is_floating:
                r._grad_fn, r._index, r._requires_grad = g, k, True
        g.outputs = tuple((r._storage, r.aval) for r in results)
        g.out_versions = (0,) * len(results)
    return results[0] if single else results
