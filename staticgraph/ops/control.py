"""Control flow: cond, while_loop and checkpoint over regions, with all their derivatives.

A region has no captures: what it uses from outside are operands. A while's reverse pass is a while itself: the forward loop is run with
stacks that keep the carried values of each iteration (rows of one array, written in place), and the backward loop reads them from the
last to the first. Both consist of ops with rules, so second order needs nothing new.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..dtypes import bool_, int64
from ..errors import DTypeError, InternalError, ShapeError
from ..ir import walk
from ..ir.aval import Aval, Size, TupleAval, capacity, measured_in
from ..ir.evaluate import evaluate_region
from ..ir.graph import Region
from ..ir.opdef import Control, Decompose, OpDef, View, define
from .helpers import Sample, batched, may_equal, move_axis, shape_text

CAPACITY = "stack capacity"                  # the guard whose failure makes the run start again with larger stacks


def _result_avals(region: Region) -> tuple[Aval, ...]:
    """Avals of the results. ShapeError where a size is measured inside: whoever uses the result could not know it."""
    own = {s for n in region.nodes if "measure" in n.op.traits for s in measured_in(n.attr("size"))}
    for r in region.results if own else ():
        if measured_in(r.aval) & own:
            raise ShapeError(f"a branch or loop body gives {r.aval}, of a size that is only known inside (made at {r.site.describe()}); "
                             "results must have sizes that are known before")
    return tuple(r.aval for r in region.results)


def _check_params(region: Region, operands: Sequence[Aval], what: str) -> None:
    if len(region.params) != len(operands):
        raise ShapeError(f"{what} takes {len(region.params)} values, got {len(operands)}")
    for k, (p, o) in enumerate(zip(region.params, operands)):
        if p.aval.dtype != o.dtype or len(p.aval.shape) != len(o.shape) or not all(map(may_equal, p.aval.shape, o.shape)):
            raise ShapeError(f"operand {k} of {what} is {o}, expected {p.aval}")


# ---- cond ------------------------------------------------------------------------------------------------------------------------


def _cond_infer(pred: Aval, *operands: Aval, true: Region, false: Region) -> TupleAval:
    if pred.dtype != bool_ or pred.shape:
        raise DTypeError(f"pred must be a bool scalar, got {pred}")
    _check_params(true, operands, "true_fn")
    _check_params(false, operands, "false_fn")
    left, right = _result_avals(true), _result_avals(false)
    if len(left) != len(right):
        raise ShapeError(f"true_fn gives {len(left)} values and false_fn {len(right)}")
    for p, q in zip(left, right):
        if p.dtype != q.dtype:
            raise DTypeError(f"Outputs of true_fn and false_fn must have the same type: {p.dtype.name}, {q.dtype.name}")
        if len(p.shape) != len(q.shape) or not all(map(may_equal, p.shape, q.shape)):
            raise ShapeError(f"outputs of true_fn and false_fn must have the same shape: {shape_text(p.shape)}, {shape_text(q.shape)}")
    return TupleAval(left)


def _cond_ref(pred: Any, *operands: Any, true: Region, false: Region) -> Any:
    return tuple(evaluate_region(true if bool(pred) else false, operands))


def _branches_vjp(b: Any, region: Region, asked: Sequence[bool]) -> tuple[Region, list[bool]]:
    from ..ir.builder import TOOLS
    result: tuple[Region, list[bool]] = TOOLS["vjp_region"](region, _result_avals(region), asked)
    return result


def _with_zeros(b: Any, region: Region, have: Sequence[bool], want: Sequence[bool], avals: Sequence[Aval]) -> Region:
    """The region with zeros for wanted results that it does not give."""
    def body(inner: Any, *params: Any) -> list[Any]:
        got = iter(inner.inline(region, params))
        out = []
        for h, w, a in zip(have, want, avals):
            value = next(got) if h else None
            if w:
                out.append(value if value is not None else inner.zeros(a))
        return out
    result: Region = traced_region(b, [p.aval for p in region.params], body)
    return result


def traced_region(b: Any, avals: Sequence[Aval], body: Any) -> Region:
    """A region built with a plain graph builder (rules may run in any builder)."""
    from ..ir.builder import GraphBuilder
    from ..ir.graph import Graph
    g = Graph()
    inner = GraphBuilder(g, site=getattr(b, "site", None))
    params = [inner.param(aval=a, index=k) for k, a in enumerate(avals)]
    results = tuple(body(inner, *params))
    return Region(params, g.nodes, results)


def _cond_vjp(b: Any, cts: Any, outs: Any, pred: Any, *operands: Any, true: Region, false: Region) -> list[Any]:
    given = [c if c is not None else b.zeros(o.aval) for c, o in zip(cts, outs)]
    asked = [o.aval.dtype.is_floating for o in operands]
    pulled = [_branches_vjp(b, r, asked) for r in (true, false)]
    want = [x or y for x, y in zip(pulled[0][1], pulled[1][1])]
    if not any(want):
        return [None] * (1 + len(operands))
    avals = [o.aval for o in operands]
    both = [_with_zeros(b, r, have, want, avals) for r, have in pulled]
    got = iter(b.cond(pred, *operands, *given, true=both[0], false=both[1]))
    return [None, *(next(got) if w else None for w in want)]


def _cond_jvp(b: Any, ts: Any, outs: Any, pred: Any, *operands: Any, true: Region, false: Region) -> Any:
    from ..ir.builder import TOOLS
    marked = [t is not None for t in ts[1:]]
    pushed = [TOOLS["jvp_region"](r, marked) for r in (true, false)]
    n = len(outs)
    want = [x or y for x, y in zip(pushed[0][1], pushed[1][1])]
    regions = [_with_zeros(b, r, [True] * n + list(have), [False] * n + want, [o.aval for o in outs] * 2) for r, have in (
        (Region(r.params, r.nodes, r.results), have) for r, have in pushed)]
    if not any(want):
        return (None,) * n
    got = iter(b.cond(pred, *operands, *(t for t in ts[1:] if t is not None), true=regions[0], false=regions[1]))
    return tuple(next(got) if w else None for w in want)


def _cond_vmap(b: Any, size: Size, ins: Any, dims: Any, *, true: Region, false: Region) -> Any:
    pred, operands = ins[0], ins[1:]
    n = len(true.results)
    if dims[0] is None:
        front = [True] * n
        regions = [b.vmap_region(r, size, dims[1:], front)[0] for r in (true, false)]
        return b.cond(pred, *operands, true=regions[0], false=regions[1]), (0,) * n
    # lanes choose: both branches run, and each lane takes its own
    pred = move_axis(b, pred, dims[0], 0)
    values = []
    for r in (true, false):
        region, _ = b.vmap_region(r, size, dims[1:], [True] * n)
        values.append(b.inline(region, operands))
    out = []
    for x, y in zip(*values):
        mask = b.reshape(pred, shape=(size, *(1,) * (len(x.aval.shape) - 1)))
        out.append(b.where(b.broadcast(mask, x.aval.shape), x, y))
    return tuple(out), (0,) * n


def _sample_regions() -> tuple[Region, Region]:
    a = Aval((3,), Aval((), np_f64()).dtype)
    return (traced_region(None, [a, a], lambda b, x, y: [b.mul(b.sin(x), y)]), traced_region(None, [a, a], lambda b, x, y: [b.add(x, x)]))


def np_f64() -> Any:
    """float64."""
    from ..dtypes import float64
    return float64


def _cond_samples(rng: np.random.Generator) -> list[Sample]:
    t, f = _sample_regions()
    return [Sample((np.array(p), rng.normal(size=3), rng.normal(size=3)), {"true": t, "false": f}) for p in (True, False)]


cond = define(OpDef("cond", _cond_infer, _cond_ref, _cond_vjp, _cond_jvp, _cond_vmap, Control("cond"), _cond_samples,
                    doc="The results of one of two regions; the other does not run."))


# ---- while -------------------------------------------------------------------------------------------------------------------------


def _while_infer(*operands: Aval, cond: Region, body: Region, limit: int | None = None) -> TupleAval:
    n = len(body.results)
    if n == 0:
        raise ShapeError("No loop variables provided")
    _check_params(cond, operands, "cond")
    _check_params(body, operands, "body")
    if len(cond.results) != 1 or cond.results[0].aval.dtype != bool_ or cond.results[0].aval.shape:
        raise DTypeError("the condition of a loop must give one bool scalar")
    for k, (o, r) in enumerate(zip(operands, _result_avals(body))):
        if o.dtype != r.dtype or o.shape != r.shape:
            raise ShapeError(f"loop variable {k} enters the loop as {o}, but is {r} after one iteration")
    return TupleAval(tuple(operands[:n]))


def _while_ref(*operands: Any, cond: Region, body: Region, limit: int | None = None) -> Any:
    n = len(body.results)
    carried, captured = list(operands[:n]), list(operands[n:])
    trips = 0
    while bool(evaluate_region(cond, [*carried, *captured])[0]):
        if limit is not None and trips == limit:
            raise InternalError(None, None, f"a loop whose condition should hold at most {limit} times goes on")
        carried = evaluate_region(body, [*carried, *captured])
        trips += 1
    return tuple(carried)


def _recorded(b: Any, operands: Sequence[Any], cond: Region, body: Region, limit: int | None, asked: Sequence[int]) -> tuple[Any, list[Any]]:
    """The loop run with stacks: (number of trips, a stack for each of the carried values ``asked`` for)."""
    n, m = len(body.results), len(asked)
    room: Size = limit if limit is not None else capacity()
    carried, captured = operands[:n], operands[n:]
    stacks = [b.zeros(Aval((room, *carried[k].aval.shape), carried[k].aval.dtype)) for k in asked]
    start = b.const(np.int64(0))
    avals = [*(c.aval for c in carried), start.aval, *(s.aval for s in stacks), *(c.aval for c in captured)]

    def split(params: Sequence[Any]) -> tuple[Any, Any, Any, Any]:
        return params[:n], params[n], params[n + 1:n + 1 + m], params[n + 1 + m:]

    def condition(inner: Any, *params: Any) -> list[Any]:
        values, _, _, rest = split(params)
        return list(inner.inline(cond.without_effects(), [*values, *rest]))

    def step(inner: Any, *params: Any) -> list[Any]:
        values, count, kept, rest = split(params)
        at = count if isinstance(room, int) else inner.guard(
            count, inner.less(count, inner.reshape(inner.sizes(sizes=(room,), dtype=int64), shape=())), message=CAPACITY, limit=room, fill=0)
        pushed = [inner.rows_set(s, at, values[k]) for s, k in zip(kept, asked)]
        return [*inner.inline(body.without_effects(), [*values, *rest]), inner.add(count, inner.like(count, 1)), *pushed]
    outs = b.while_loop(*carried, start, *stacks, *captured, cond=traced_region(b, avals, condition), body=traced_region(b, avals, step), limit=limit)
    return outs[n], list(outs[n + 1:])


def _is_zero(x: Any) -> bool:
    """Zeros as ``b.zeros`` writes them."""
    while x.op.name == "broadcast_to":
        x = x.inputs[0]
    return x.op.name == "const" and not np.any(x.attr("value").array)


def _added(b: Any, total: Any, ct: Any) -> Any:
    """The sum; of a cotangent of some rows only those are touched, so that a loop that reads a row per trip adds a row per trip."""
    if ct.op.name == "scatter_add" and _is_zero(ct.inputs[0]):
        return b.scatter_add(total, *ct.inputs[1:])
    return b.add(total, ct)


def _while_vjp(b: Any, cts: Any, outs: Any, *operands: Any, cond: Region, body: Region, limit: int | None = None) -> list[Any]:
    n = len(body.results)
    captured = operands[n:]
    floats = [k for k in range(n) if operands[k].aval.dtype.is_floating]
    constants = [k for k, c in enumerate(captured) if c.aval.dtype.is_floating]
    if not floats:
        return [None] * len(operands)
    from ..ir.builder import TOOLS
    asked = [o.aval.dtype.is_floating for o in operands]
    pulled, connected = TOOLS["vjp_region"](body, _result_avals(body), asked)
    used = set(walk.ancestors(pulled.results))
    kept_ones = [k for k in range(n) if pulled.params[k] in used]            # not the rows of an array that the body only writes
    trips, stacks = _recorded(b, operands, cond, body, limit, kept_ones)
    seeds = [cts[k] if cts[k] is not None else b.zeros(operands[k].aval) for k in floats]
    sums = [b.zeros(captured[k].aval) for k in constants]
    inside = [trips, *seeds, *sums, *stacks, *captured]
    avals = [x.aval for x in inside]
    m, q = len(floats), len(constants)

    def condition(inner: Any, *params: Any) -> list[Any]:
        return [inner.greater(params[0], inner.like(params[0], 0))]

    def step(inner: Any, *params: Any) -> list[Any]:
        at = inner.sub(params[0], inner.like(params[0], 1))
        now, totals, kept, rest = params[1:1 + m], params[1 + m:1 + m + q], params[1 + m + q:1 + m + q + len(stacks)], params[1 + m + q + len(stacks):]
        found = {k: inner.take(s, at, axis=0) for k, s in zip(kept_ones, kept)}
        values = [found[k] if k in found else inner.zeros(operands[k].aval) for k in range(n)]
        flow = dict(zip(floats, now))
        given = [flow[k] if k in flow else inner.zeros(r.aval) for k, r in enumerate(body.results)]
        got = iter(inner.inline(pulled, [*values, *rest, *given]))
        back = [next(got) if c else None for c in connected]
        new = [back[k] if back[k] is not None else inner.zeros(operands[k].aval) for k in floats]
        added = [t if back[n + k] is None else _added(inner, t, back[n + k]) for t, k in zip(totals, constants)]
        return [at, *new, *added]
    result = b.while_loop(*inside, cond=traced_region(b, avals, condition), body=traced_region(b, avals, step), limit=limit)
    out: list[Any] = [None] * len(operands)
    for j, k in enumerate(floats):
        out[k] = result[1 + j]
    for j, k in enumerate(constants):
        out[n + k] = result[1 + m + j]
    return out


def _while_jvp(b: Any, ts: Any, outs: Any, *operands: Any, cond: Region, body: Region, limit: int | None = None) -> Any:
    from ..ir.builder import TOOLS
    n = len(body.results)
    carried, captured = operands[:n], operands[n:]
    floats = [k for k in range(n) if carried[k].aval.dtype.is_floating]
    moving = [k for k in range(len(captured)) if ts[n + k] is not None]
    marked = [k in floats for k in range(n)] + [k in moving for k in range(len(captured))]
    pushed, connected = TOOLS["jvp_region"](body, marked)
    tangents = [ts[k] if ts[k] is not None else b.zeros(carried[k].aval) for k in floats]
    extra = [ts[n + k] for k in moving]
    inside = [*carried, *tangents, *captured, *extra]
    avals = [x.aval for x in inside]
    m = len(floats)

    def condition(inner: Any, *params: Any) -> list[Any]:
        return list(inner.inline(cond, [*params[:n], *params[n + m:n + m + len(captured)]]))

    def step(inner: Any, *params: Any) -> list[Any]:
        values, moved, rest = params[:n], params[n:n + m], params[n + m:]
        got = inner.inline(pushed, [*values, *rest[:len(captured)], *moved, *rest[len(captured):]])
        new = iter(got[n:])
        found = [next(new) if c else None for c in connected]
        return [*got[:n], *(found[k] if found[k] is not None else inner.zeros(carried[k].aval) for k in floats)]
    result = b.while_loop(*inside, cond=traced_region(b, avals, condition), body=traced_region(b, avals, step), limit=limit)
    found = dict(zip(floats, result[n:]))
    return tuple(found.get(k) for k in range(n))


def _while_vmap(b: Any, size: Size, ins: Any, dims: Any, *, cond: Region, body: Region, limit: int | None = None) -> Any:
    n = len(body.results)
    flags = [d is not None for d in dims[:n]]
    rest_dims = [None if d is None else 0 for d in dims[n:]]
    rest = [x if d is None else move_axis(b, x, d, 0) for x, d in zip(ins[n:], dims[n:])]
    places: list[int | None]
    while True:                              # which carried values end up batched: at most n rounds
        places = [0 if f else None for f in flags] + rest_dims
        _, axes = b.vmap_region(body, size, places, flags)
        grown = [f or a is not None for f, a in zip(flags, axes)]
        if grown == flags:
            break
        flags = grown
    condition, (lane,) = b.vmap_region(cond, size, places)
    if lane is not None:
        flags = [True] * n
        places = [*([0] * n), *rest_dims]
        condition, _ = b.vmap_region(cond, size, places)
    stepped, _ = b.vmap_region(body, size, places, flags)
    carried = [batched(b, x, d, size) if f else x for x, d, f in zip(ins[:n], dims[:n], flags)]
    if lane is None:
        out = b.while_loop(*carried, *rest, cond=condition, body=stepped, limit=limit)
        return out, tuple(0 if f else None for f in flags)
    avals = [x.aval for x in (*carried, *rest)]

    def some(inner: Any, *params: Any) -> list[Any]:
        return [inner.any(inner.inline(condition, params)[0], axis=None)]

    def step(inner: Any, *params: Any) -> list[Any]:
        # lanes that are done keep their values
        active = inner.inline(condition, params)[0]
        out = []
        for old, new in zip(params, inner.inline(stepped, params)):
            mask = inner.reshape(active, shape=(size, *(1,) * (len(old.aval.shape) - 1)))
            out.append(inner.where(inner.broadcast(mask, old.aval.shape), new, old))
        return out
    out = b.while_loop(*carried, *rest, cond=traced_region(b, avals, some), body=traced_region(b, avals, step), limit=limit)
    return out, (0,) * n


def _while_samples(rng: np.random.Generator) -> list[Sample]:
    i, x = Aval((), int64), Aval((2,), np_f64())
    c = traced_region(None, [i, x, i, x], lambda b, k, v, n, w: [b.less(k, n)])
    s = traced_region(None, [i, x, i, x], lambda b, k, v, n, w: [b.add(k, b.like(k, 1)), b.mul(b.sin(v), w)])
    return [Sample((np.int64(0), rng.normal(size=2), np.int64(t), rng.normal(size=2)), {"cond": c, "body": s, "limit": limit})
            for t, limit in ((3, None), (0, None), (4, 8))]


while_loop = define(OpDef("while_loop", _while_infer, _while_ref, _while_vjp, _while_jvp, _while_vmap, Control("while"), _while_samples,
                          doc="body applied to the carried values (the first operands) as long as cond holds; the other operands stay. ``limit`` says that cond "
                              "holds at most so often: room for the stacks of the reverse pass. Without it that is found while running."))


# ---- checkpoint ----------------------------------------------------------------------------------------------------------------------


barrier = define(OpDef(
    "barrier", lambda x: x, lambda x: np.array(x), lambda b, ct, y, x: [ct], lambda b, ts, y, x: ts[0], lambda b, size, ins, dims: (b.barrier(ins[0]), dims[0]),
    View(lambda v, out: v), lambda rng: [Sample((rng.normal(size=(3,)),))], traits=frozenset({"unmerged", "linear"}),
    doc="The value itself, which no pass looks through: what is computed from it is not merged with what is computed from the operand."))


def _call_vjp(b: Any, cts: Any, outs: Any, *operands: Any, region: Region) -> list[Any]:
    from ..ir.builder import TOOLS
    pulled, connected = TOOLS["vjp_region"](region, _result_avals(region), [o.aval.dtype.is_floating for o in operands])
    given = [c if c is not None else b.zeros(o.aval) for c, o in zip(cts, outs)]
    again = [b.barrier(o) for o in operands]
    got = iter(b.inline(pulled, [*again, *given]))
    return [next(got) if c else None for c in connected]


def _call_jvp(b: Any, ts: Any, outs: Any, *operands: Any, region: Region) -> Any:
    from ..ir.builder import TOOLS
    pushed, connected = TOOLS["jvp_region"](region, [t is not None for t in ts])
    got = iter(b.inline(pushed, [*operands, *(t for t in ts if t is not None)])[len(outs):])
    return tuple(next(got) if c else None for c in connected)


def _call_vmap(b: Any, size: Size, ins: Any, dims: Any, *, region: Region) -> Any:
    new, _ = b.vmap_region(region, size, dims, [True] * len(region.results))
    return b.checkpoint_call(*ins, region=new), (0,) * len(region.results)


def _call_infer(*operands: Aval, region: Region) -> TupleAval:
    _check_params(region, operands, "the function")
    return TupleAval(_result_avals(region))


checkpoint_call = define(OpDef(
    "checkpoint_call", _call_infer, lambda *operands, region: tuple(evaluate_region(region, operands)), _call_vjp, _call_jvp, _call_vmap,
    Decompose(lambda b, *operands, region: b.inline(region, operands)),
    lambda rng: [Sample((rng.normal(size=3), rng.normal(size=3)), {"region": _sample_regions()[0]})],
    doc="A region whose values are computed again in the reverse pass instead of being kept."))
