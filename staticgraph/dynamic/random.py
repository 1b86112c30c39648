"""Random numbers of the define-by-run mode: the library's own streams, drawn by the same ops as in graphs.

A generator is a stream (seed, seed2, offset); a draw is a pure function of that key, and moves the offset on. ``manual_seed(s)`` (or
``sg.set_random_seed(s)``) starts the default stream again; without one it starts from the system's entropy.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..dtypes import as_dtype, float32
from ..ir.aval import product
from ..ops.random import advance, shuffle_advance
from .tensor import Tensor, compute

_DEFAULT = 87654321                          # TF1's graph seed where only the operation has one


class Generator:
    """A stream of random numbers. ``manual_seed`` starts it again; ``get_state`` and ``set_state`` carry its place."""

    def __init__(self, seed: int | None = None) -> None:
        self._lock = threading.Lock()
        self._key = (0, 0, 0)
        self.manual_seed(seed if seed is not None else int.from_bytes(os.urandom(7), "little"))

    def manual_seed(self, seed: int) -> Generator:
        """From the beginning of the stream of this seed."""
        self._key = (int(seed), 0, 0)
        return self

    def initial_seed(self) -> int:
        """The seed it was started with."""
        return self._key[0]

    def get_state(self) -> tuple[int, int, int]:
        """Where it is."""
        return self._key

    def set_state(self, state: tuple[int, int, int]) -> None:
        """Go on from there."""
        self._key = tuple(state)             # type: ignore[assignment]

    @contextmanager
    def at(self, state: tuple[int, int, int]) -> Iterator[None]:
        """Within: draw from ``state`` on; afterwards as if nothing had been drawn."""
        saved, self._key = self._key, state
        try:
            yield
        finally:
            self._key = saved

    def key(self, blocks: int) -> Tensor:
        """The stream's key, which moves on by ``blocks``."""
        with self._lock:
            a, b, offset = self._key
            self._key = a, b, offset + blocks
        return Tensor._wrap(np.array([a, b, offset], np.int64))


def _graph_seed() -> int | None:
    """The seed that ``sg.set_random_seed`` gave before this module was loaded."""
    from ..surface.ledger import get_default_graph
    return get_default_graph().seed


default_generator = Generator(_graph_seed())
_by_seed: dict[tuple[int, int], Generator] = {}


def manual_seed(seed: int) -> Generator:
    """Start the default stream, and those of calls with a ``seed=``, again."""
    _by_seed.clear()
    return default_generator.manual_seed(seed)


def initial_seed() -> int:
    """The default stream's seed."""
    return default_generator.initial_seed()


def stream_of(seed: int | None, graph_seed: int | None) -> Generator:
    """The stream of a call: the default one, or for a ``seed=`` the stream that a graph's operation with these seeds has."""
    return stream_with((0, 0) if seed is None else (_DEFAULT if graph_seed is None else graph_seed, seed))


def stream_with(pair: tuple[int, int]) -> Generator:
    """The stream of a graph's seed pair; (0, 0), "not seeded", is the default one."""
    if pair == (0, 0):
        return default_generator
    found = _by_seed.get(pair)
    if found is None:
        found = _by_seed[pair] = Generator(0)
        found.set_state((*pair, 0))
    return found


def _sizes(size: tuple[Any, ...]) -> tuple[int, ...]:
    if len(size) == 1 and isinstance(size[0], (tuple, list)):
        size = tuple(size[0])
    return tuple(int(s) for s in size)


def _draw(op: str, size: tuple[Any, ...], dtype: Any, requires_grad: bool, generator: Generator | None) -> Tensor:
    shape = _sizes(size)
    key = (generator or default_generator).key(advance(product(shape)))
    out: Tensor = getattr(compute, op)(key, shape=shape, dtype=as_dtype(dtype or float32))
    return out.requires_grad_() if requires_grad else out


def rand(*size: Any, dtype: Any = None, requires_grad: bool = False, generator: Generator | None = None) -> Tensor:
    """Uniform numbers in [0, 1)."""
    return _draw("random_uniform", size, dtype, requires_grad, generator)


def randn(*size: Any, dtype: Any = None, requires_grad: bool = False, generator: Generator | None = None) -> Tensor:
    """Normal numbers."""
    return _draw("random_normal", size, dtype, requires_grad, generator)


def randint(low: int, high: Any = None, size: Any = None, *, dtype: Any = None, generator: Generator | None = None) -> Tensor:
    """Integers in [low, high), or in [0, low): ``randint(10, (3,))`` or ``randint(2, 10, (3,))``."""
    if size is None and isinstance(high, (tuple, list)):
        low, high, size = 0, low, high
    shape = _sizes((size if size is not None else (),))
    kind = as_dtype(dtype or "int64")
    key = (generator or default_generator).key(advance(product(shape)))
    return compute.random_uniform_int(key, compute.const(low, kind), compute.const(high, kind), shape=shape, dtype=kind)


def randperm(n: int, generator: Generator | None = None) -> Tensor:
    """0 .. n-1 in a random order."""
    return compute.random_shuffle((generator or default_generator).key(shuffle_advance(n)), count=n)


def rand_like(t: Tensor, **kw: Any) -> Tensor:
    """Uniform numbers in the shape and dtype of ``t``."""
    return rand(*t.shape, dtype=kw.pop("dtype", t.dtype), **kw)


def randn_like(t: Tensor, **kw: Any) -> Tensor:
    """Normal numbers in the shape and dtype of ``t``."""
    return randn(*t.shape, dtype=kw.pop("dtype", t.dtype), **kw)


def bernoulli(p: Tensor, generator: Generator | None = None) -> Tensor:
    """1 with probability ``p``, else 0."""
    drawn = rand(*p.shape, dtype=p.dtype, generator=generator)
    return compute.cast(compute.less(drawn, p.detach()), dtype=p.dtype)


def dropout(x: Tensor, p: float = 0.5, training: bool = True, seed: int | None = None) -> Tensor:
    """Each element is dropped with probability ``p``, the others are divided by 1 - p. ValueError outside [0, 1]."""
    if not 0 <= p <= 1:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    if not training or p == 0:
        return x
    if p == 1:
        return compute.mulz(compute.zeros(x.aval), x)
    return dropped(x, p, x.shape, seed, None)


def dropped(x: Tensor, rate: float, noise: tuple[int, ...], seed: int | None, graph_seed: int | None) -> Tensor:
    """The op ``dropout`` with its next key."""
    key = stream_of(seed, graph_seed).key(advance(product(noise)))
    return compute.dropout(x, key, Tensor._wrap(np.float64(rate)), shape=noise)
