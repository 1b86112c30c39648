"""Places for the boxes of a directed acyclic graph, layer by layer, and the paths of its edges.

After K. Sugiyama, S. Tagawa, M. Toda, "Methods for visual understanding of hierarchical system structures", 1981: layers by longest path, long edges
cut into pieces, order within layers by medians, then places as near to the neighbours as the boxes' widths allow: a least-squares problem with a
smallest distance between neighbours, which is an isotonic regression and so solved exactly by pooling.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import inf
from statistics import mean
from typing import Any

Key = Hashable
_SWEEPS = 12


@dataclass
class Layout:
    """Centres of boxes and corners of edges in the plane, layers downwards: ``centres[key]`` (x, y), ``paths[a, b]`` the points from a to b."""

    width: float
    height: float
    centres: dict[Key, tuple[float, float]]
    paths: dict[tuple[Key, Key], list[tuple[float, float]]] = field(default_factory=dict)


def layout(sizes: Mapping[Key, tuple[float, float]], edges: Sequence[tuple[Key, Key]], gap: tuple[float, float] = (28.0, 52.0)) -> Layout:
    """Boxes of ``sizes`` (width, height), given in an order where inputs come before users, and an edge from each input to its user.

    ``gap`` is the smallest distance of neighbours within a layer and of layers. ValueError for an edge against the order of ``sizes``.
    """
    number = {k: n for n, k in enumerate(sizes)}
    edges = list(dict.fromkeys(edges))
    if any(number[a] >= number[b] for a, b in edges):
        raise ValueError("an edge goes against the order of the boxes")
    level = _levels(list(sizes), edges)
    rows: list[list[Any]] = [[] for _ in range(max(level.values(), default=0) + 1)]
    for k in sizes:
        rows[level[k]].append(k)
    chains, links = _pieces(level, edges, rows)
    rows = _ordered(rows, links)
    widths = {k: sizes[k][0] if k in sizes else 8.0 for row in rows for k in row}
    x = _places(rows, links, widths, gap[0], set(sizes))
    left = min((x[k] - widths[k] / 2 for k in x), default=0.0)
    right = max((x[k] + widths[k] / 2 for k in x), default=0.0)
    middle, tops, y = {}, {}, 0.0
    for row in rows:
        tall = max((sizes[k][1] for k in row if k in sizes), default=0.0)
        for k in row:
            middle[k], tops[k] = y + tall / 2, (y, y + tall)
        y += tall + gap[1]
    made = Layout(right - left, max(0.0, y - gap[1]), {k: (x[k] - left, middle[k]) for k in sizes})
    for (a, b), chain in chains.items():
        points = [(x[a] - left, middle[a] + sizes[a][1] / 2)]
        for d in chain:
            points += [(x[d] - left, tops[d][0]), (x[d] - left, tops[d][1])]          # straight along the row it passes
        made.paths[a, b] = [*points, (x[b] - left, middle[b] - sizes[b][1] / 2)]
    return made


def _levels(keys: list[Any], edges: Sequence[tuple[Any, Any]]) -> dict[Any, int]:
    """The longest way from an input; what has more users than inputs then moves down to its first user."""
    before: dict[Any, list[Any]] = {k: [] for k in keys}
    after: dict[Any, list[Any]] = {k: [] for k in keys}
    for a, b in edges:
        before[b].append(a)
        after[a].append(b)
    level: dict[Any, int] = {}
    for k in keys:
        level[k] = max((level[i] + 1 for i in before[k]), default=0)
    for k in reversed(keys):
        if after[k] and len(after[k]) >= len(before[k]):
            level[k] = min(level[u] for u in after[k]) - 1
    lowest = min(level.values(), default=0)
    return {k: v - lowest for k, v in level.items()}


def _pieces(level: dict[Any, int], edges: Sequence[tuple[Any, Any]], rows: list[list[Any]]) -> tuple[dict[Any, list[Any]], list[tuple[Any, Any]]]:
    """Long edges as chains of pieces with a point in every layer that they pass. Edges that leave the same box share their points."""
    chains: dict[Any, list[Any]] = {}
    links: dict[tuple[Any, Any], None] = {}
    made: set[Any] = set()
    for a, b in edges:
        chain = [("bend", a, n) for n in range(level[a] + 1, level[b])]
        for d in chain:
            if d not in made:
                made.add(d)
                rows[d[2]].append(d)
        chains[a, b] = chain
        way = [a, *chain, b]
        links.update(dict.fromkeys(pairwise(way)))
    return chains, list(links)


def _neighbours(links: Sequence[tuple[Any, Any]]) -> tuple[dict[Any, list[Any]], dict[Any, list[Any]]]:
    up: dict[Any, list[Any]] = {}
    down: dict[Any, list[Any]] = {}
    for a, b in links:
        up.setdefault(b, []).append(a)
        down.setdefault(a, []).append(b)
    return up, down


def _ordered(rows: list[list[Any]], links: Sequence[tuple[Any, Any]]) -> list[list[Any]]:
    """The order with the fewest crossings among some sweeps of medians, down and up; neighbours change places where that helps."""
    up, down = _neighbours(links)
    best, fewest = [list(r) for r in rows], _crossings(rows, down)
    for sweep in range(_SWEEPS):
        beside, order = (up, range(1, len(rows))) if sweep % 2 == 0 else (down, range(len(rows) - 2, -1, -1))
        for n in order:
            other = rows[n - 1] if sweep % 2 == 0 else rows[n + 1]
            at = {k: i for i, k in enumerate(other)}
            weight = {k: mean(at[j] for j in beside[k]) if beside.get(k) else None for k in rows[n]}
            rows[n] = _sorted_where_known(rows[n], weight)
        _exchange(rows, up, down)
        count = _crossings(rows, down)
        if count < fewest:
            best, fewest = [list(r) for r in rows], count
        if fewest == 0:
            break
    return best


def _sorted_where_known(row: list[Any], weight: Mapping[Any, float | None]) -> list[Any]:
    """By weight; what has none keeps its place."""
    moving = iter(sorted((k for k in row if weight[k] is not None), key=lambda k: weight[k]))
    return [k if weight[k] is None else next(moving) for k in row]


def _exchange(rows: list[list[Any]], up: Mapping[Any, list[Any]], down: Mapping[Any, list[Any]]) -> None:
    for n, row in enumerate(rows):
        sides = [(beside, {k: i for i, k in enumerate(rows[m])}) for beside, m in ((up, n - 1), (down, n + 1)) if 0 <= m < len(rows)]
        for i in range(len(row) - 1):
            a, b = row[i], row[i + 1]
            now = swapped = 0
            for beside, at in sides:
                for p in beside.get(a, ()):
                    for q in beside.get(b, ()):
                        now += at[p] > at[q]
                        swapped += at[p] < at[q]
            if swapped < now:
                row[i], row[i + 1] = b, a


def _crossings(rows: Sequence[Sequence[Any]], down: Mapping[Any, list[Any]]) -> int:
    """Pairs of pieces between two layers that cross: inversions of the lower ends, by a counting tree."""
    total = 0
    for upper, lower in pairwise(rows):
        at = {k: i for i, k in enumerate(lower)}
        ends = [j for k in upper for j in sorted(at[b] for b in down.get(k, ()))]
        tree = [0] * (len(lower) + 1)
        for seen, j in enumerate(ends):
            k, not_after = j + 1, 0
            while k:
                not_after += tree[k]
                k &= k - 1
            total += seen - not_after
            k = j + 1
            while k < len(tree):
                tree[k] += 1
                k += k & -k
    return total


def _places(rows: Sequence[Sequence[Any]], links: Sequence[tuple[Any, Any]], widths: Mapping[Any, float], gap: float,
            boxes: set[Any]) -> dict[Any, float]:
    """x of every box and bend: each layer in turn as near to its neighbours' mean as order and widths allow."""
    up, down = _neighbours(links)
    x: dict[Any, float] = {}
    for row in rows:
        at = 0.0
        for k in row:
            x[k] = at + widths[k] / 2
            at += widths[k] + gap
        for k in row:
            x[k] -= (at - gap) / 2
    for sweep in range(_SWEEPS * 2):
        beside = (up, down)[sweep % 2]
        for row in rows if sweep % 2 == 0 else rows[::-1]:
            wanted, weight = [], []
            for k in row:
                near = beside.get(k) or (down if beside is up else up).get(k, [])
                if near:
                    pull = [_pull(k, j, boxes, up) for j in near]
                    wanted.append(sum(p * x[j] for p, j in zip(pull, near)) / sum(pull))
                    weight.append(sum(pull))
                else:
                    wanted.append(x[k])
                    weight.append(0.1)
            apart = [(widths[a] + widths[b]) / 2 + gap for a, b in pairwise(row)]
            x.update(zip(row, spread(wanted, weight, apart)))
    return x


def _pull(a: Any, b: Any, boxes: set[Any], up: Mapping[Any, list[Any]]) -> float:
    """How strongly an edge wants to be straight: long edges most, then chains of boxes, least an input beside its only user."""
    if a not in boxes and b not in boxes:
        return 8.0
    return 4.0 if up.get(a) and up.get(b) else 1.0


def spread(wanted: Sequence[float], weight: Sequence[float], apart: Sequence[float], low: float = -inf, high: float = inf) -> list[float]:
    """The places nearest to ``wanted`` (weighted squares) that keep ``apart[i]`` between i and i + 1: isotonic regression, pooling violators.

    All lie between ``low`` and ``high``; where these leave no room, from ``low`` on.
    """
    shift = [0.0]
    for a in apart:
        shift.append(shift[-1] + a)
    pools: list[list[float]] = []            # [mean, weight, count], means increasing
    for v, w, s in zip(wanted, weight, shift):
        pools.append([v - s, w, 1])
        while len(pools) > 1 and pools[-2][0] > pools[-1][0]:
            m, mw, mc = pools.pop()
            k = pools[-1]
            k[0], k[1], k[2] = (k[0] * k[1] + m * mw) / (k[1] + mw), k[1] + mw, k[2] + mc
    flat = [m for m, _, count in pools for _ in range(int(count))]
    return [max(min(m, high - shift[-1]), low) + s for m, s in zip(flat, shift)]
