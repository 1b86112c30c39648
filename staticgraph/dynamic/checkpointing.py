"""Checkpointing in the define-by-run mode: keep the operands, run the function again when its gradient is wanted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .. import source
from . import random
from .compute import edge_of
from .engine import walk_back
from .modes import STATE, GradMode
from .tape import AccumulateGrad, GradFn, freed, modified_value
from .tensor import Tensor, compute


class _Checkpoint(GradFn):
    """Stands for the whole function; its reverse rule runs the function again."""

    name = "CheckpointBackward"

    def __init__(self, fn: Callable[..., Any], args: tuple[Any, ...], tensors: list[Tensor]) -> None:
        self.fn, self.args, self.tensors = fn, args, tensors
        self.versions = [t._version for t in tensors]
        self.edges = tuple(edge_of(t) for t in tensors)
        super().__init__()                   # younger than its operands' histories
        self.site = source.capture()
        self.stream = random.default_generator.get_state()
        self.spent = False

    def pull(self, b: Any, cts: list[Any], create: bool) -> Sequence[Any]:
        if self.spent:
            raise freed(self)
        for t, v in zip(self.tensors, self.versions):
            if t._version != v:
                raise modified_value(self, "an argument", t.aval, t.counter, v)
        # copies stand for the arguments, so that what the function closes over is told from them
        copies = {id(t): compute.identity(t) if create else t.detach().requires_grad_(t.requires_grad) for t in self.tensors}
        with GradMode(True), random.default_generator.at(self.stream):
            again = self.fn(*[copies[id(a)] if isinstance(a, Tensor) else a for a in self.args])
        outs = (again,) if isinstance(again, Tensor) else tuple(again)
        roots = [(edge_of(r), ct if create else Tensor._wrap(ct)) for r, ct in zip(outs, cts) if ct is not None and r.requires_grad]
        mine = [edge_of(copies[id(t)]) for t in self.tensors]
        closed = _leaves([e[0] for e, _ in roots], {e[0] for e in mine if e is not None})
        found = walk_back(b, roots, create, create, [*mine, *closed])
        for e in closed:
            if e in found:
                e[0].variable._add_grad(found[e] if create else Tensor._wrap(found[e]), create)
        return [None if e is None else found.get(e) for e in mine]

    def free(self) -> None:
        self.spent = True


def _leaves(starts: list[Any], stops: set[Any]) -> list[Any]:
    """Edges of the leaves below ``starts``, those behind ``stops`` left out."""
    found, seen, stack = [], set(stops), starts
    while stack:
        fn = stack.pop()
        if fn in seen:
            continue
        seen.add(fn)
        if isinstance(fn, AccumulateGrad):
            found.append((fn, 0))
        stack += [e[0] for e in fn.edges if e is not None]
    return found


def checkpoint(fn: Callable[..., Any], *args: Any) -> Any:
    """``fn(*args)`` without keeping its intermediate values: the backward pass runs it again, recorded, and goes back through that.

    ``fn`` must do the same both times; random numbers of the default generator are drawn again as they were. Tensors among ``args`` (not
    inside containers) get gradients, and so do leaves that ``fn`` closes over.
    """
    tensors = [a for a in args if isinstance(a, Tensor)]
    recorded = STATE.enabled
    node = _Checkpoint(fn, args, tensors) if recorded else None
    with GradMode(False):
        out = fn(*args)
    single = isinstance(out, Tensor)
    outs = (out,) if single else tuple(out)
    if node is None:
        return out
    results = []
    for k, o in enumerate(outs):
        r = compute.tensor_type._wrap(o._array.copy() if o._view is not None or any(o is t for t in tensors) else o._array)
        if r.dtype.is_floating:
            r._grad_fn, r._index, r._requires_grad = node, k, True
        results.append(r)
    node.outs = tuple(r.aval for r in results)
    return results[0] if single else type(out)(results) if type(out) in (tuple, list) else tuple(results)
