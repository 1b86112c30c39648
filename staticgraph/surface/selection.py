"""Results whose size the run finds: masks, positions, distinct values, partitions. All work in every mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import source
from ..dtypes import as_dtype, bool_, int32, int64
from ..errors import ShapeError
from ..ir.aval import product
from ..ops.helpers import normalize_axis, shape_text
from ..ops.measure import true_positions
from .deferred import recorded
from .funnel import convert, emit, is_dynamic, op_scope
from .sizes import static_int


def _apply(type: str, name: str | None, inputs: dict[str, Any], build: Callable[..., Any], within: str | None = None, graded: bool = True) -> Any:
    """``build(b, *values)`` as an operation of that type and name (or called ``within`` under it), or at once for define-by-run tensors.

    A graph's operation that is not ``graded`` refuses its gradient.
    """
    values = tuple(inputs.values())
    if is_dynamic(values):
        from ..dynamic.tensor import compute
        with source.hide_own_frames():
            return build(compute, *[x if isinstance(x, compute.value_type) else compute.const(x) for x in values])
    with op_scope(name, type, *values) as label:
        def checked(b: Any, *nodes: Any) -> Any:
            return build(b, *(b.no_gradient(n, operation=label.rstrip("/"), type=type) if n.aval.dtype.is_floating else n for n in nodes))
        return emit(type, within or label, tuple(convert(x, name=k) for k, x in inputs.items()), build if graded else checked)


@recorded
def boolean_mask(tensor: Any, mask: Any, name: str | None = None, axis: Any = None) -> Any:
    """The elements (or slices) of ``tensor`` where ``mask`` is set, in row-major order: shape [..., k, ...] with the mask's axes, from
    ``axis`` (0) on, replaced by one. k is known when the graph runs.

    Everything that one mask tensor selects has the same k. ValueError for a scalar mask or shapes that do not fit.
    """
    first = 0 if axis is None else static_int(axis, "axis")

    def build(b: Any, x: Any, m: Any) -> Any:
        m = m if m.aval.dtype == bool_ else b.cast(m, dtype=bool_)
        shape, inner = x.aval.shape, m.aval.shape
        if not inner:
            raise ShapeError("mask cannot be scalar.")
        at = normalize_axis(first, len(shape))
        covered = shape[at:at + len(inner)]
        if len(covered) < len(inner) or any(isinstance(p, int) and isinstance(q, int) and p != q for p, q in zip(covered, inner)):
            raise ShapeError(f"Shapes {shape_text(covered)} and {shape_text(inner)} are incompatible")
        flat = b.reshape(x, shape=(*shape[:at], product(inner), *shape[at + len(inner):]))
        return b.take(flat, true_positions(b, m), axis=at)
    return _apply("boolean_mask", name, {"tensor": tensor, "mask": mask}, build, "GatherV2")


def where_true(condition: Any, name: str | None = None) -> Any:
    """Indices int64[k, rank] of the elements that are true (or not zero), in row-major order; k is known when the graph runs."""
    def build(b: Any, c: Any) -> Any:
        shape = c.aval.shape
        flat = true_positions(b, c if c.aval.dtype == bool_ else b.not_equal(c, b.like(c, 0)))
        if not shape:
            return b.broadcast_to(b.const(0, int64), shape=(flat.aval.shape[0], 0))
        columns, rest = [], flat
        for d in shape[:0:-1]:
            size = b.const(d, int64) if isinstance(d, int) else b.reshape(b.sizes(sizes=(d,), dtype=int64), shape=())
            # an empty axis leaves nothing to divide, but the graph must not divide by zero for it
            size = b.maximum(size, b.const(1, int64))
            columns.append(b.floormod(rest, size))
            rest = b.floordiv(rest, size)
        return b.stack(rest, *columns[::-1], axis=1)
    return _apply("Where", name, {"condition": condition}, build)


def _distinct(b: Any, x: Any) -> tuple[Any, Any, Any]:
    """(first positions int64[k], the number of each element's value int64[n], how often each occurs int64[k])

    Equal values are neighbours once sorted. Sorting is stable, so that the first of each run is where the value occurs first.
    """
    if len(x.aval.shape) != 1:
        raise ShapeError(f"unique expects a vector, got {x.aval}")
    n = x.aval.shape[0]

    def filled(value: Any, dtype: Any, size: Any) -> Any:
        return b.broadcast_to(b.const(value, dtype), shape=(size,))

    def running(flags: Any) -> Any:
        return b.sub(b.cumsum(b.cast(flags, dtype=int64), axis=0, exclusive=False, reverse=False), b.const(1, int64))
    place = b.iota(shape=(n,), axis=0, dtype=int64)
    order = b.argsort(x)
    inorder = b.take(x, order, axis=0)
    before = b.take(inorder, b.maximum(b.sub(place, b.const(1, int64)), b.const(0, int64)), axis=0)
    new = b.logical_or(b.equal(place, b.const(0, int64)), b.not_equal(inorder, before))
    heads = b.take(order, true_positions(b, new), axis=0)                    # per run of equal values: where it occurs first
    leads = b.rows_set(filled(False, bool_, n), heads, filled(True, bool_, heads.aval.shape[0]))
    of_run = b.take(running(leads), heads, axis=0)                           # its number by order of first occurrence
    numbers = b.rows_set(filled(0, int64, n), order, b.take(of_run, running(new), axis=0))
    firsts = true_positions(b, leads)
    return firsts, numbers, b.rows_add(filled(0, int64, firsts.aval.shape[0]), numbers, filled(1, int64, n))


@recorded
def unique(x: Any, out_idx: Any = int32, name: str | None = None) -> Any:
    """(y, idx): the distinct values of a vector by their first occurrence, and for each element the place of its value in y.

    NaN is equal to nothing, so that each is a value of its own. ValueError unless x is a vector.
    """
    def build(b: Any, v: Any) -> Any:
        firsts, mine, _ = _distinct(b, v)
        return b.take(v, firsts, axis=0), b.cast(mine, dtype=as_dtype(out_idx))
    return _apply("Unique", name, {"x": x}, build, graded=False)


@recorded
def unique_with_counts(x: Any, out_idx: Any = int32, name: str | None = None) -> Any:
    """``unique`` and how often each value occurs: (y, idx, count)."""
    def build(b: Any, v: Any) -> Any:
        firsts, mine, counts = _distinct(b, v)
        return b.take(v, firsts, axis=0), b.cast(mine, dtype=as_dtype(out_idx)), b.cast(counts, dtype=as_dtype(out_idx))
    return _apply("UniqueWithCounts", name, {"x": x}, build, graded=False)


@recorded
def dynamic_partition(data: Any, partitions: Any, num_partitions: int, name: str | None = None) -> list[Any]:
    """``data`` split by a number for each element or slice: part i has those whose number is i.

    A number out of range fails the run.
    """
    def build(b: Any, x: Any, p: Any) -> Any:
        inner = p.aval.shape
        ok = b.logical_and(b.greater_equal(p, b.like(p, 0)), b.less(p, b.like(p, num_partitions)))
        p = b.guard(p, ok, message=f"partitions[{{i}}] = {{a}} is not in [0, {num_partitions})", limit=num_partitions, fill=0)
        flat = b.reshape(x, shape=(product(inner), *x.aval.shape[len(inner):]))
        return tuple(b.take(flat, true_positions(b, b.equal(p, b.like(p, k))), axis=0) for k in range(num_partitions))
    return list(_apply("DynamicPartition", name, {"data": data, "partitions": partitions}, build))
