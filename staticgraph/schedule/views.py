"""Strided views: how a kernel reads a value through reshape, transpose, broadcast, slice and reverse without a copy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..ir.aval import Size, product


def contiguous(shape: Sequence[Size]) -> tuple[Size, ...]:
    """Row-major strides in elements; axes of size 1 get 0, since they are never walked."""
    out: list[Size] = []
    step: Size = 1
    for d in reversed(shape):
        out.append(0 if d == 1 else step)
        step = step * d
    return tuple(reversed(out))


@dataclass(frozen=True)
class View:
    """Element ``index`` of the view is element ``offset + sum(index * strides)`` of ``base`` (a ``schedule.items.Value``)."""

    base: Any
    shape: tuple[Size, ...]
    strides: tuple[Size, ...]
    offset: Size = 0

    @staticmethod
    def whole(base: Any, shape: Sequence[Size]) -> View:
        """All of a contiguous value."""
        return View(base, tuple(shape), contiguous(shape))

    @property
    def is_contiguous(self) -> bool:
        """Row-major without gaps and from the start."""
        return self.offset == 0 and all(d == 1 or s == c for d, s, c in zip(self.shape, self.strides, contiguous(self.shape)))

    def permute(self, perm: Sequence[int]) -> View:
        """Axes in another order."""
        return replace(self, shape=tuple(self.shape[p] for p in perm), strides=tuple(self.strides[p] for p in perm))

    def broadcast(self, shape: Sequence[Size]) -> View:
        """NumPy's broadcasting: stride 0 along stretched and new axes."""
        lead = len(shape) - len(self.shape)
        strides = [0] * lead + [0 if d == 1 else s for d, s in zip(self.shape, self.strides)]
        return replace(self, shape=tuple(shape), strides=tuple(strides))

    def slice(self, starts: Sequence[Size], sizes: Sequence[Size], steps: Sequence[int]) -> View:
        """``start + k * step`` per axis."""
        offset = self.offset
        for a, s, n in zip(starts, self.strides, sizes):
            if n != 0:
                offset = offset + a * s
        strides = tuple(0 if n == 1 else s * t for s, t, n in zip(self.strides, steps, sizes))
        return replace(self, shape=tuple(sizes), strides=strides, offset=offset)

    def reverse(self, axes: Sequence[int]) -> View:
        """Reversed along axes."""
        offset = self.offset
        strides = list(self.strides)
        for k in axes:
            if self.shape[k] == 1:
                continue
            offset = offset + (self.shape[k] - 1) * strides[k]
            strides[k] = -strides[k]
        if product(self.shape) == 0:
            offset = self.offset
        return replace(self, strides=tuple(strides), offset=offset)

    def reshape(self, shape: Sequence[Size]) -> View | None:
        """Under another shape, or None where that needs a copy: runs of axes that are contiguous to each other are regrouped."""
        shape = tuple(shape)
        if self.is_contiguous:
            return replace(self, shape=shape, strides=contiguous(shape))
        old = [(d, s) for d, s in zip(self.shape, self.strides) if d != 1]
        strides: list[Size] = []
        i, k = 0, 0
        new = list(shape)
        while k < len(new):
            if new[k] == 1:
                strides.append(0)
                k += 1
                continue
            if i >= len(old):
                return None
            have, j = old[i][0], i + 1
            want, m = new[k], k + 1
            while have != want and have is not want:
                if isinstance(have, int) and isinstance(want, int):
                    grow_old = have < want
                else:
                    grow_old = not _divides(want, have)
                if grow_old:
                    if j >= len(old):
                        return None
                    if old[j - 1][1] != old[j][1] * old[j][0]:
                        return None                      # a gap between the merged axes
                    have = have * old[j][0]
                    j += 1
                else:
                    if m >= len(new):
                        return None
                    want = want * new[m]
                    m += 1
            step = old[j - 1][1]
            part: list[Size] = []
            for d in reversed(new[k:m]):
                part.append(0 if d == 1 else step)
                step = step * d
            strides += reversed(part)
            i, k = j, m
        return replace(self, shape=shape, strides=tuple(strides)) if i == len(old) else None


def _divides(part: Size, whole: Size) -> bool:
    from ..ir.aval import exact_div
    return exact_div(whole, part) is not None


def collapse(sizes: Sequence[Size], strides: Sequence[Sequence[Size]]) -> tuple[tuple[Size, ...], list[tuple[Size, ...]]]:
    """Merge neighbouring axes that every access walks as one; ``strides[a]`` are those of access a over the axes.

    Axes of size 1 are dropped.
    """
    axes = [k for k, d in enumerate(sizes) if d != 1]
    out_sizes: list[Size] = []
    out: list[list[Size]] = [[] for _ in strides]
    for k in axes:
        if out_sizes and all(o[-1] == s[k] * sizes[k] for o, s in zip(out, strides)):
            out_sizes[-1] = out_sizes[-1] * sizes[k]
            for o, s in zip(out, strides):
                o[-1] = s[k]
        else:
            out_sizes.append(sizes[k])
            for o, s in zip(out, strides):
                o.append(s[k])
    return tuple(out_sizes), [tuple(o) for o in out]
