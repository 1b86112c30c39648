"""``cond``, ``case``, ``while_loop``, ``scan``, ``map_fn`` and folds: bodies are traced once into regions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import source
from ..dtypes import as_dtype, bool_, int32, int64
from ..errors import DTypeError, ShapeError
from ..ir.graph import Node
from . import at_once, growing, nest
from .array_ops import stack
from .bodies import Trace, close_handles, one_shape, result_of, wrap
from .checks import Assert
from .deferred import recorded
from .funnel import convert, each_named, emit, named_apart
from .ledger import LedgerBuilder, get_default_graph
from .math_ops import FUNCTIONS, cast
from .shapes import Dimension, TensorShape
from .sizes import known
from .tensor import Operation, Tensor
from .variables import Variable


@recorded
def cond(pred: Any, true_fn: Any = None, false_fn: Any = None, strict: bool = False, name: str | None = None, fn1: Any = None, fn2: Any = None) -> Any:
    """The results of ``true_fn()`` or ``false_fn()``; what they make inside runs only if chosen."""
    with source.hide_own_frames():
        for new, old, k in ((true_fn, fn1, "true_fn"), (false_fn, fn2, "false_fn")):
            if new is not None and old is not None:
                raise TypeError(f"cond(): '{'fn1' if k == 'true_fn' else 'fn2'}' and '{k}' may not be set simultaneously.")
        true_fn, false_fn = true_fn or fn1, false_fn or fn2
        if not callable(true_fn) or not callable(false_fn):
            raise TypeError("true_fn and false_fn must be callable.")
        if isinstance(pred, (bool, np.bool_)):
            raise TypeError("pred must not be a Python bool")
        if at_once.is_now(pred):
            return at_once.branch(pred, true_fn, false_fn, strict)
        g = get_default_graph()
        with g.name_scope(name or "cond"):
            p = _predicate(pred)
            traces, outs = [], []
            for f, label in ((true_fn, "true_fn"), (false_fn, "false_fn")):
                t = Trace(g)
                with t:
                    out = f()
                    if out is None:
                        raise ValueError(f"{label} must have a return value.")
                    out = nest.with_items(out, [x if isinstance(x, nest.Handle) else result_of(t.builder, x) for x in nest.items(out)])
                traces.append(t)
                outs.append(out)
            if not nest.same(outs[0], outs[1]):
                raise ValueError(f"The two structures don't have the same nested structure: {_nesting(outs[0])} and {_nesting(outs[1])}")
            if not nest.items(outs[0]):
                raise ValueError("true_fn and false_fn must return at least one result.")
            close_handles(traces, list(zip(*map(nest.handles, outs))))
            results = [[x if isinstance(x, Node) else result_of(t.builder, x) for x in nest.flatten(out)] for t, out in zip(traces, outs)]
            for x, y in zip(*results):
                if x.dtype != y.dtype:
                    raise DTypeValueError(f"Outputs of true_fn and false_fn must have the same type: {x.dtype.name}, {y.dtype.name}")
            results = one_shape(g.builder, p.node, traces, results)
            captured = list(dict.fromkeys(n for t in traces for n in t.captured()))
            regions = [t.close(nodes, captured) for t, nodes in zip(traces, results)]
            got = emit("If", "Merge", (p,), lambda b, pn: b.cond(pn, *[b.capture(n) for n in captured], true=regions[0], false=regions[1]))
            result = nest.pack(nest.met(outs[0], outs[1]), each_named(got, "Merge"))
        return result[0] if isinstance(result, (list, tuple)) and len(result) == 1 and not strict else result


def _nesting(x: Any) -> str:
    return str(nest.with_items(x, ["."] * len(nest.items(x)))).replace("'", "")


class DTypeValueError(DTypeError, ValueError):
    """TF1 raises ValueError where branches differ in dtype."""


@recorded
def case(pred_fn_pairs: Any, default: Any = None, exclusive: bool = False, strict: bool = False, name: str = "case") -> Any:
    """The result of the first function whose predicate holds, else of ``default``.

    Without ``default`` a run in which none holds fails, with ``exclusive`` one in which more than one does (InvalidArgumentError).
    """
    with source.hide_own_frames():
        pairs = list(pred_fn_pairs.items()) if isinstance(pred_fn_pairs, dict) else list(pred_fn_pairs)
        for pair in pairs:
            if not isinstance(pair, (tuple, list)) or len(pair) != 2:
                raise TypeError(f"Each entry in pred_fn_pairs must be a 2-tuple, got {pair!r}")
        if not all(callable(f) for _, f in pairs) or not (default is None or callable(default)):
            raise TypeError("the functions of case must be callable.")
        if not pairs:
            raise ValueError("case needs at least one pair of a predicate and a function")
        if at_once.is_now([p for p, _ in pairs]):
            return at_once.choose(pairs, default, exclusive, strict)
        g = get_default_graph()
        with g.name_scope(name):
            predicates = [_predicate(p) for p, _ in pairs]
            checks = []
            if exclusive:
                checks.append(_count(predicates, lambda n: n <= 1, f"Input error: exclusive=True: more than 1 conditions ({', '.join(p.name for p in predicates)}) evaluated as True:"))
            if default is None:
                checks.append(_count(predicates, lambda n: n >= 1, "Input error: None of conditions evaluated as True:"))
                *pairs, (_, default) = pairs
            build: Callable[[], Any] = default
            for p, (_, f) in reversed(list(zip(predicates, pairs))):
                build = (lambda p=p, f=f, rest=build: cond(p, f, rest, strict=strict))
            with g.control_dependencies(checks):
                return build()


def _count(predicates: Sequence[Tensor], holds: Callable[[Any], Tensor], message: str) -> Operation:
    both = stack(predicates, name="preds_c")
    return Assert(holds(FUNCTIONS["reduce_sum"](cast(both, int32))), [message, both], summarize=len(predicates))


def _predicate(pred: Any) -> Tensor:
    """A scalar bool tensor. TypeError for anything else."""
    if isinstance(pred, (bool, np.bool_)):
        raise TypeError("pred must not be a Python bool")
    p = convert(pred, name="pred")
    if p.dtype != bool_ or p.node.shape:
        raise DTypeError(f"pred must be a scalar bool tensor, got {p}")
    return p


@recorded
def while_loop(cond: Any, body: Any, loop_vars: Any, shape_invariants: Any = None, parallel_iterations: int = 10, back_prop: bool = True,
               swap_memory: bool = False, name: str | None = None, maximum_iterations: Any = None, return_same_structure: bool = False) -> Any:
    """``loop_vars = body(*loop_vars)`` as long as ``cond(*loop_vars)`` holds, at most ``maximum_iterations`` times.

    Shapes must not change from trip to trip, but for sizes that ``shape_invariants`` leave open (``growing``); the results have these shapes. A
    single loop variable is returned as a tensor unless ``return_same_structure``.
    """
    with source.hide_own_frames():
        if not isinstance(loop_vars, (list, tuple)) and not isinstance(loop_vars, dict):
            raise TypeError("loop_vars must be a list or a tuple")
        if not loop_vars:
            raise ValueError("No loop variables provided")
        if not callable(cond) or not callable(body):
            raise TypeError("cond and body must be callable.")
        if not isinstance(parallel_iterations, (int, np.integer)) or parallel_iterations <= 0:
            raise TypeError("parallel_iterations must be a positive integer.")
        if at_once.is_now(loop_vars):
            return at_once.loop(cond, body, loop_vars, maximum_iterations)
        g = get_default_graph()
        with g.name_scope(name or "while"):
            if shape_invariants is None:
                result = _loop(g, cond, body, loop_vars, maximum_iterations, back_prop=back_prop)[0]
            else:
                result = _varying(g, cond, body, loop_vars, maximum_iterations, _leaves_of_shapes(shape_invariants), back_prop)
        return result[0] if isinstance(result, (list, tuple)) and len(result) == 1 and not return_same_structure else result


def _varying(g: Any, cond: Any, body: Any, loop_vars: Any, maximum: Any, given: list[Any], back_prop: bool) -> Any:
    """The results of a loop with invariants, which are their shapes. ValueError for one that its loop variable does not have."""
    items = nest.items(loop_vars)
    if len(given) != len(items):
        raise ValueError(f"{len(given)} shape invariants for {len(items)} loop variables")
    invariants = [TensorShape(None if isinstance(x, nest.Handle) else shape) for x, shape in zip(items, given)]
    axes: dict[int, tuple[int, ...]] = {}
    with growing.Traced(g) as trace:
        while True:
            entering = growing.grown(loop_vars, axes)
            try:
                result, flat = _loop(g, cond, body, entering, maximum, back_prop=back_prop, invariants=invariants)
                break
            except growing.Outgrown as found:
                axes.update(found.axes)
                trace.take_back()
    for t, shape in zip(flat, invariants):
        if not isinstance(t, nest.Handle):
            if not shape.is_compatible_with(t.shape):
                raise ValueError(f"The shape invariant specified for {t.name} is not compatible with the initial shape of the loop variable. It enters the loop with shape {t.shape}, "
                                 f"but the specified shape invariant is {shape}.")
            if t._record is None:
                t._shape = shape
    return result


def _leaves_of_shapes(x: Any) -> list[Any]:
    if x is None or isinstance(x, TensorShape) or (isinstance(x, (list, tuple)) and all(d is None or isinstance(d, (int, Dimension)) for d in x) and x):
        return [x]
    items = [x[k] for k in sorted(x, key=str)] if isinstance(x, dict) else x
    return [leaf for i in items for leaf in _leaves_of_shapes(i)]


def _loop(g: Any, cond: Any, body: Any, loop_vars: Any, maximum: Any = None, trips: int | None = None, back_prop: bool = True,
          invariants: Sequence[TensorShape] | None = None) -> tuple[Any, list[Tensor]]:
    """The results in their structure, and flat. ``trips``: a number of trips that ``cond`` is known to keep.

    Without ``back_prop`` they are constants to gradients. With ``invariants``: ``growing.Outgrown`` where sizes change that they leave open.
    """
    for h in nest.handles(loop_vars):
        h._handle_open()                     # one whose parts can be there has them now
    loop_vars = nest.copied(loop_vars)       # the same parts, whatever the body does to a handle
    init = [convert(v) for v in nest.flatten(loop_vars)]
    b: LedgerBuilder = g.builder
    start = [b.capture(t.node) for t in init]
    bound = None if maximum is None else _bound(maximum).node

    def call(f: Any, structure: Any) -> Any:
        seen = growing.values(structure, invariants, "Identity")
        return f(*seen) if isinstance(seen, (list, tuple)) else f(seen)
    entering = nest.handles(loop_vars)
    test = Trace(g, loop=True, entering=entering)
    with test:
        ok = convert(call(cond, nest.pack(loop_vars, [wrap(g, test.param(n), "Merge") for n in start])))
        if ok.dtype != bool_ or ok.node.shape:
            raise DTypeError(f"the condition of a loop must be a bool scalar, got {ok}")
        flag = test.builder.capture(ok.node)
        if bound is not None:
            flag = test.builder.logical_and(test.builder.less(test.counter(), test.builder.capture(bound)), flag)
            trips = _static_bound(bound)
    step = Trace(g, loop=True, entering=entering)
    with step:
        entered = nest.pack(loop_vars, [wrap(g, step.param(n), "Identity") for n in start])
        out = call(body, entered)
        if (found := len(nest.items(out))) != (given := len(nest.items(loop_vars))):
            raise ValueError(f"The number of loop variables differs: {given} enter the loop and the body returns {found}")
        out = growing.put_back(entered, out, invariants)
        flat, late = _returned(step, test, loop_vars, out)
        init += [t for _, t in late]
        results = [result_of(step.builder, x, None if isinstance(x, (Tensor, Variable)) else t.dtype) for x, t in zip(flat, init)]
        for t, r in zip(init, results):
            if r.dtype != t.dtype:
                raise DTypeError(f"loop variable {t.name} enters the loop as {t.dtype.name}, but is {r.dtype.name} after one iteration")
            if r.shape != t.node.shape:
                raise ShapeError(f"Input tensor '{t.name}' enters the loop with shape {t.shape}, but has shape {_text(r.shape)} after one iteration. To allow the shape to "
                                 "vary across iterations, use the `shape_invariants` argument of tf.while_loop to specify a less-specific shape.")
        counted = test.count is not None or step.count is not None       # random draws and bounds: the iteration number is carried along
        counters = [t.counter() for t in (test, step)] if counted else []
        if counted:
            results = [*results, step.builder.add(counters[1], step.builder.like(counters[1], 1))]
    captured = list(dict.fromkeys([*test.captured(), *step.captured()]))
    regions = test.close([flag], captured, counters[:1]), step.close(results, captured, counters[1:])

    def build(bb: Any, *nodes: Any) -> Any:
        more = (bb.const(np.int64(0)),) if counted else ()
        made = bb.while_loop(*nodes, *more, *[bb.capture(n) for n in captured], cond=regions[0], body=regions[1], limit=trips)
        return made if back_prop else tuple(map(bb.stop_gradient, made))
    got = list(emit("While", "Exit", init, build))[:len(init)]
    structure = loop_vars if nest.is_leaf(out) or not nest.same(out, loop_vars) else out
    own, rest = iter(got), iter(got[len(got) - len(late):])
    new = []
    for like, made in zip(nest.items(loop_vars), nest.items(out)):
        if isinstance(like, nest.Handle):
            parts = [next(own) for _ in like._handle_parts()] + ([next(rest)] if any(h is like for h, _ in late) else [])
            handle = like._handle_joined(made)._handle_of(parts)
            new.append(handle.value("Exit") if isinstance(handle, growing.Growing) else handle)
        else:
            t = next(own)
            new.append(named_apart(t, "Exit") if t.value_index else t)
    return nest.with_items(structure, new), new


def _returned(step: Trace, test: Trace, loop_vars: Any, out: Any) -> tuple[list[Any], list[tuple[Any, Tensor]]]:
    """What a body returns, flat: the parts that the loop's variables have, then those of handles that entered open and are closed inside.

    These are loop variables too: (the handle, the value that it enters with).
    """
    flat, parts, late = [], [], []
    for like, made in zip(nest.items(loop_vars), nest.items(out)):
        if isinstance(like, nest.Handle) != isinstance(made, nest.Handle):
            raise ValueError(f"The two structures don't have the same nested structure: {loop_vars} and {out}")
        if not isinstance(like, nest.Handle):
            flat.append(made)
            continue
        count = len(like._handle_parts())
        if like in step.late or like in test.late or len(made._handle_parts()) > count:
            made._handle_close(like)
            entry = nest.copied(like)
            entry._handle_close(made)
            late.append((like, entry._handle_parts()[-1]))
            parts.append(made._handle_parts()[-1])
        flat += made._handle_parts()[:count]
    for trace in (step, test):
        trace.params += [trace.late_param(h, t.node) for h, t in late]
    return flat + parts, late


_ROOM = 1024                                 # trips for which a gradient's stacks are allocated at once; for a larger bound they grow


def _bound(maximum: Any) -> Tensor:
    """``maximum_iterations`` as an int64 scalar."""
    t = convert(maximum, name="maximum_iterations")
    if not t.dtype.is_integer or t.node.shape:
        raise DTypeError(f"maximum_iterations must be an integer scalar, got {maximum}")
    result: Tensor = cast(t, int64)
    return result


def _static_bound(bound: Node) -> int | None:
    found = known(bound)
    n = None if found is None else found.item()
    return max(n, 0) if isinstance(n, int) and n <= _ROOM else None


def _text(shape: Any) -> str:
    from .shapes import shape_of
    return str(shape_of(shape))


def _steps(fn: Callable[..., Any], elems: Any, initializer: Any, reverse: bool, collect: bool, name: str, back_prop: bool) -> Any:
    """The common loop of scan, map_fn and folds: an accumulator (or None) and results stored by row."""
    if not callable(fn):
        raise TypeError("fn must be callable.")
    if at_once.is_now(elems, initializer):
        return at_once.rows(fn, elems, initializer, reverse, collect)
    flat = [convert(e) for e in nest.flatten(elems)]
    if not all(t.node.shape for t in flat):
        raise ValueError("elems must be a 1+ dimensional Tensor, not a scalar")
    n = flat[0].node.shape[0]
    from .array_ops import shape as shape_of_tensor
    total = shape_of_tensor(flat[0], out_type=int64)[0] if not isinstance(n, int) else convert(np.int64(n))
    acc0 = None if initializer is None else nest.map_leaves(convert, initializer)

    def row(i: Any) -> Any:
        return nest.pack(elems, [emit("Gather", "row", (t, i), lambda b, x, k: b.take(x, k, axis=0)) for t in flat])
    g = get_default_graph()
    probe = Trace(g)
    with probe:                              # one traced call tells the results' shapes
        i0 = wrap(g, probe.param(convert(np.int64(0)).node), "index")
        probed = fn(row(i0)) if acc0 is None else fn(acc0, row(i0))
        shapes = [(t.node.shape, t.dtype) for t in map(convert, nest.flatten(probed))]
    stores = [emit("TensorArrayV3", "TensorArray", (), lambda b, s=s, d=d: b.zeros(_aval((n, *s), d))) for s, d in shapes] if collect else []

    def body(k: Any, acc: Any, kept: Any) -> Any:
        at = total - 1 - k if reverse else k
        out = fn(row(at)) if acc0 is None else fn(acc, row(at))
        leaves = [convert(x) for x in nest.flatten(out)]
        new = [emit("TensorArrayWriteV3", "write", (s, at, v), lambda b, x, i, u: b.rows_set(x, i, u)) for s, v in zip(kept, leaves)]
        return k + 1, (acc if acc0 is None else nest.pack(acc0, leaves)), new
    start = convert(np.int64(0))
    empty = [] if acc0 is None else acc0
    with g.name_scope(name):
        _, acc, kept = _loop(g, lambda k, *_: k < total, body, (start, empty, stores), trips=n if isinstance(n, int) else None, back_prop=back_prop)[0]
        if collect:
            kept = [emit("TensorArrayGatherV3", f"TensorArrayStack{f'_{k}' if k else ''}/TensorArrayGatherV3", (t,), lambda b, n: b.identity(n)) for k, t in enumerate(kept)]
    return nest.pack(probed, kept) if collect else acc


def _aval(shape: Any, dtype: Any) -> Any:
    from ..ir.aval import Aval
    return Aval(tuple(shape), dtype)


@recorded
def scan(fn: Callable[..., Any], elems: Any, initializer: Any = None, parallel_iterations: int = 10, back_prop: bool = True, swap_memory: bool = False,
         infer_shape: bool = True, reverse: bool = False, name: str | None = None) -> Any:
    """All accumulators of ``acc = fn(acc, elem)``; without an initializer the first element is the start."""
    with source.hide_own_frames():
        if initializer is not None:
            return _steps(fn, elems, initializer, reverse, True, name or "scan", back_prop)
        from .array_ops import concat, expand_dims
        edge = -1 if reverse else 0
        as_tensor = (lambda e: e) if at_once.is_now(elems) else convert
        first = nest.map_leaves(lambda e: as_tensor(e)[edge], elems)
        rest = nest.map_leaves(lambda e: as_tensor(e)[:-1] if reverse else as_tensor(e)[1:], elems)
        got = _steps(fn, rest, first, reverse, True, name or "scan", back_prop)
        joined = [concat([r, expand_dims(f, 0)] if reverse else [expand_dims(f, 0), r], 0) for f, r in zip(nest.flatten(first), nest.flatten(got))]
        return nest.pack(got, joined)


@recorded
def map_fn(fn: Callable[..., Any], elems: Any, dtype: Any = None, parallel_iterations: Any = None, back_prop: bool = True, swap_memory: bool = False,
           infer_shape: bool = True, name: str | None = None) -> Any:
    """``fn`` of every row, stacked. DTypeError where the results are not of ``dtype``, if that is given."""
    with source.hide_own_frames():
        result = _steps(fn, elems, None, False, True, name or "map", back_prop)
        if dtype is not None:
            wanted = nest.flatten(dtype)
            found = [t.dtype for t in nest.flatten(result)]
            if len(wanted) != len(found) or any(as_dtype(w) != k for w, k in zip(wanted, found)):
                raise DTypeError(f"map_fn was given dtype {dtype}, but its function gives {', '.join(k.name for k in found)}")
        return result


@recorded
def foldl(fn: Callable[..., Any], elems: Any, initializer: Any = None, parallel_iterations: int = 10, back_prop: bool = True, swap_memory: bool = False,
          name: str | None = None) -> Any:
    """The last accumulator of ``acc = fn(acc, elem)``."""
    return _fold(fn, elems, initializer, False, name or "foldl", back_prop)


@recorded
def foldr(fn: Callable[..., Any], elems: Any, initializer: Any = None, parallel_iterations: int = 10, back_prop: bool = True, swap_memory: bool = False,
          name: str | None = None) -> Any:
    """As ``foldl``, from the last element."""
    return _fold(fn, elems, initializer, True, name or "foldr", back_prop)


def _fold(fn: Callable[..., Any], elems: Any, initializer: Any, reverse: bool, name: str, back_prop: bool) -> Any:
    with source.hide_own_frames():
        if initializer is None:
            edge = -1 if reverse else 0
            as_tensor = (lambda e: e) if at_once.is_now(elems) else convert
            initializer = nest.map_leaves(lambda e: as_tensor(e)[edge], elems)
            elems = nest.map_leaves(lambda e: as_tensor(e)[:-1] if reverse else as_tensor(e)[1:], elems)
        return _steps(fn, elems, initializer, reverse, False, name, back_prop)
