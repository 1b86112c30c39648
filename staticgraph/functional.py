"""JAX's names: trace a Python function into a graph, once per signature; differentiate, batch and compose functions.

Every transform returns a ``Function``: called with arrays it traces, compiles and runs; called with symbolic tensors (inside of another
trace) it appends to that graph; called with define-by-run tensors it computes now. So all of them compose, and all compile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from . import source
from .config import Config
from .dtypes import as_dtype
from .errors import DTypeError, ShapeError
from .ir.aval import Aval, product, symbol
from .ir.builder import to_array
from .ir.graph import Node, Region
from .ops.helpers import may_equal
from .runtime.state import StateStore
from .surface import nest
from .surface.array_ops import identity, placeholder, stop_gradient, zeros_like
from .surface.bodies import Trace, wrap
from .surface.callables import native_call
from .surface.funnel import convert, emit, is_dynamic
from .surface.gradients import custom_gradient, gradients
from .surface.ledger import Graph
from .surface.tensor import Tensor


class _Traced:
    """One trace: its graph, its executable, and how results are put together."""

    def __init__(self, fn: Callable[..., Any], args: Any, shapes: Sequence[tuple[Any, ...]], dtypes: Sequence[Any], config: Config, dynamic: bool) -> None:
        from .compile import compile_graph
        self.ledger = Graph()
        self.ledger.traced = f"{getattr(fn, '__name__', 'fn')}()"
        with self.ledger.as_default():
            feeds = [placeholder(d, list(s), name="arg") for s, d in zip(shapes, dtypes)]
            out = fn(*nest.pack(args, feeds))
            if out is None:
                raise ValueError(f"{getattr(fn, '__name__', 'the function')} returned None: does it end with return?")
            self.structure = nest.map_leaves(lambda _: 0, out)
            self.outputs = [convert(t) for t in nest.flatten(out)]
        self.ledger.finalize()                           # a value that was kept outside cannot be used any more
        self.feeds = [t.node for t in feeds]
        self.executable = compile_graph([t.node for t in self.outputs], self.feeds, config)
        if dynamic:
            self.executable.dynamic.update(self.executable.symbols)
        self.ledger.ir.outputs = tuple(t.node for t in self.outputs)
        self.store = StateStore()
        self.runs = 0

    def run(self, arrays: Sequence[np.ndarray[Any, Any]]) -> Any:
        """Results in the function's structure."""
        by_node = dict(zip(self.feeds, arrays))
        got = self.executable.run([by_node[i.key] for i in self.executable.inputs if i.kind == "feed"], self.store)
        return nest.pack(self.structure, [v[()] if v.ndim == 0 else v for v in got])


class Function:
    """A Python function as a compiled one. ``graph``, ``text``, ``llvm`` and ``asm`` show what a call with such arguments runs."""

    def __init__(self, fn: Callable[..., Any], config: Config | None = None, name: str | None = None) -> None:
        self.fn, self.config = fn, config or Config()
        self.__name__ = name or getattr(fn, "__name__", "function")
        self.__doc__ = getattr(fn, "__doc__", None) or type(self).__doc__
        self._traces: dict[Any, list[tuple[list[tuple[Any, ...]], _Traced]]] = {}
        self._quick: list[Any] = []          # native calls for the signatures seen twice last

    def __repr__(self) -> str:
        return f"<compiled function {self.__name__}>"

    def __call__(self, *args: Any) -> Any:
        for quick in self._quick:
            done, got = quick(quick.boxed(args) if quick.scalars else args)
            if done:
                return got
        with source.hide_own_frames():
            flat = nest.flatten(args)
            if is_dynamic(flat) or any(isinstance(a, Tensor) or hasattr(a, "_as_tensor") for a in flat):
                return self.fn(*args)
            arrays = [np.ascontiguousarray(_array(a)).reshape(np.shape(a)) for a in flat]
            traced = self.trace_for(args, arrays)
            got = traced.run(arrays)
            traced.runs += 1
            if traced.runs == 2 and all(map(nest.is_leaf, args)):            # a function that is called once need not be prepared
                quick = native_call(traced.executable, traced.feeds, list(range(len(traced.outputs))), lambda it: nest.pack(traced.structure, list(it)))
                self._quick = [*([quick] if quick else []), *self._quick][:4]
            return got

    def trace_for(self, args: Any, arrays: Sequence[np.ndarray[Any, Any]]) -> _Traced:
        """The trace that serves these arrays, made now if there is none: by shape first, with run-time sizes from the second shape on."""
        key = (repr(nest.map_leaves(lambda _: 0, args)), tuple((a.dtype.str, a.ndim) for a in arrays))
        known = self._traces.setdefault(key, [])
        shapes = [a.shape for a in arrays]
        for have, traced in known:
            if all(len(h) == len(s) and all(d is None or d == e for d, e in zip(h, s)) for h, s in zip(have, shapes)):
                return traced
        dtypes = [as_dtype(a.dtype) for a in arrays]
        wanted: list[tuple[Any, ...]] = [tuple(s) for s in shapes]
        if known:
            first = known[0][0]
            wanted = [tuple(e if d == e else None for d, e in zip(h, s)) for h, s in zip(first, shapes)]
            try:
                made = _Traced(self.fn, args, self._named(wanted, shapes), dtypes, self.config, True)
                known.append((wanted, made))
                return made
            except (TypeError, ValueError):
                wanted = [tuple(s) for s in shapes]      # the Python code needs the numbers: one trace per shape
        made = _Traced(self.fn, args, wanted, dtypes, self.config, False)
        known.append((wanted, made))
        return made

    @staticmethod
    def _named(wanted: Sequence[tuple[Any, ...]], shapes: Sequence[tuple[int, ...]]) -> list[tuple[Any, ...]]:
        """One symbol per size: open sizes that are equal now are taken to stay equal."""
        names: dict[int, Any] = {}
        return [tuple(names.setdefault(e, symbol()) if d is None else d for d, e in zip(w, s)) for w, s in zip(wanted, shapes)]

    def _shown(self, args: Any) -> _Traced:
        arrays = [_array(a) for a in nest.flatten(args)]
        return self.trace_for(args, arrays)

    def graph(self, *args: Any) -> Any:
        """The traced IR graph."""
        return self._shown(args).ledger.ir

    def text(self, *args: Any) -> str:
        """The optimised graph as text."""
        return str(self._variant(args).graph)

    def llvm(self, *args: Any) -> str:
        """The LLVM text of its kernels."""
        return "\n".join(self._variant(args).native.kernels.llvm_texts())

    def asm(self, *args: Any) -> str:
        """The machine code of its kernels as text."""
        return "\n".join(self._variant(args).native.kernels.asm())

    def report(self, *args: Any) -> Any:
        """What the compile did."""
        self._variant(args)
        return self._shown(args).executable.report

    def _variant(self, args: Any) -> Any:
        traced = self._shown(args)
        by_node = dict(zip(traced.feeds, [np.shape(a) for a in nest.flatten(args)]))
        return traced.executable.variant([by_node[i.key] for i in traced.executable.inputs if i.kind == "feed"])[0]


def _array(a: Any) -> np.ndarray[Any, Any]:
    return np.asarray(a) if isinstance(a, (np.ndarray, np.generic)) else to_array(a)


def function(fn: Callable[..., Any] | None = None, *, config: Config | None = None) -> Any:
    """Trace ``fn`` once per signature and run the compiled graph. Also a decorator, with or without arguments."""
    if fn is None:
        return lambda f: Function(f, config)
    return Function(fn, config)


def _call(fn: Any, *args: Any) -> Any:
    return fn.fn(*args) if isinstance(fn, Function) else fn(*args)


def _fresh(tree: Any) -> Any:
    """Leaves as nodes of their own, so that derivatives are by this call's arguments alone."""
    return nest.map_leaves(lambda t: identity(convert(t)), tree)


def _now(args: Any) -> Any:
    """The transforms of the define-by-run mode where one of its tensors is among the arguments, else None."""
    if not is_dynamic(nest.flatten(args)):
        return None
    from .dynamic import transforms
    return transforms


def value_and_grad(fn: Callable[..., Any], argnums: Any = 0, has_aux: bool = False) -> Function:
    """(fn(*args), derivative of its scalar result by the chosen arguments). TypeError for a result that is not a float scalar."""
    many = not isinstance(argnums, int)
    chosen = tuple(argnums) if many else (argnums,)

    def traced(*args: Any) -> Any:
        now = _now(args)
        if now is not None:
            return at_once(now, args)
        fresh = [_fresh(a) if k in chosen or k - len(args) in chosen else a for k, a in enumerate(args)]
        return differentiated(fresh, lambda y, xs: [zeros_like(x) if g is None else convert(g) for x, g in zip(xs, gradients(y, xs))])

    def at_once(now: Any, args: Any) -> Any:
        made: list[Any] = []

        def fresh_leaf(t: Any) -> Any:
            made.append(now.fresh(t))
            return made[-1]
        with now.recording():
            fresh = [nest.map_leaves(fresh_leaf, a) if k in chosen or k - len(args) in chosen else a for k, a in enumerate(args)]
            out = differentiated(fresh, lambda y, xs: [zeros_like(x) if g is None else g for x, g in zip(xs, now.gradients([y.node], xs))])
        return nest.pack(out, now.settled(nest.flatten(out), nest.flatten(args), made))

    def differentiated(fresh: Any, derivatives: Any) -> Any:
        out = _call(fn, *fresh)
        y = convert(out[0] if has_aux else out)
        if y.node.shape or not y.dtype.is_floating:
            raise TypeError(f"the gradient needs a scalar float result, got {y.dtype.name}{list(y.node.shape)}; use jacrev or vjp for others")
        wanted = [fresh[k] for k in chosen]
        leaves = nest.flatten(wanted)
        packed = nest.pack(wanted, derivatives(y, leaves))
        return out, tuple(packed) if many else packed[0]
    return Function(traced, name=f"value_and_grad({getattr(fn, '__name__', 'fn')})")


def grad(fn: Callable[..., Any], argnums: Any = 0, has_aux: bool = False) -> Function:
    """The derivative of ``fn``'s scalar result by the chosen arguments."""
    both = value_and_grad(fn, argnums, has_aux)

    def traced(*args: Any) -> Any:
        out, g = both.fn(*args)
        return (g, out[1]) if has_aux else g
    return Function(traced, name=f"grad({getattr(fn, '__name__', 'fn')})")


def vjp(fn: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[[Any], Any]]:
    """(fn(*primals), pull) with ``pull(ct)`` the cotangents of the primals. ``pull`` refuses a cotangent that is not like the result."""
    n = len(primals)

    def pulled(*args: Any) -> Any:
        now = _now(args)
        if now is not None:
            with now.recording():
                fresh = [nest.map_leaves(now.fresh, a) for a in args[:n]]
                got = now.gradients(nest.flatten(_call(fn, *fresh)), nest.flatten(fresh), nest.flatten(args[n]))
            got = [zeros_like(x) if g is None else g for x, g in zip(nest.flatten(fresh), got)]
            return tuple(nest.pack(list(fresh), now.settled(got, nest.flatten(args), nest.flatten(fresh))))
        fresh = [_fresh(a) for a in args[:n]]
        out = _call(fn, *fresh)
        leaves = nest.flatten(fresh)
        ys = [convert(y) for y in nest.flatten(out)]
        cts = [convert(c, y.dtype) for c, y in zip(nest.flatten(args[n]), ys)]
        got = [zeros_like(x) if g is None else convert(g) for x, g in zip(leaves, gradients(ys, leaves, grad_ys=cts))]
        return tuple(nest.pack(list(fresh), got))
    back = Function(pulled)
    value = Function(lambda *a: _call(fn, *a))(*primals) if not isinstance(fn, Function) else fn(*primals)

    def pull(ct: Any) -> Any:
        with source.hide_own_frames():
            return back(*primals, _directions("vjp: the cotangent", ct, "the result", value))
    return value, pull


def _directions(what: str, given: Any, of: str, like: Any) -> Any:
    """``given``, which must be like ``like`` leaf by leaf; Python numbers adopt its dtypes. ShapeError, DTypeError."""
    if not nest.same(given, like):
        raise ShapeError(f"{what} is not nested like {of}: {nest.map_leaves(_kind, given)} for {nest.map_leaves(_kind, like)}")
    leaves = []
    for g, x in zip(nest.flatten(given), nest.flatten(like)):
        (dtype, shape), number = _kind(x), not hasattr(g, "dtype")
        g = to_array(g, dtype) if number else g
        if len(_kind(g).shape) != len(shape) or not all(map(may_equal, _kind(g).shape, shape)):
            raise ShapeError(f"{what} is {_kind(g)}, {of} {_kind(x)}: they must have one shape")
        if _kind(g).dtype != dtype:
            raise DTypeError(f"{what} is {_kind(g)}, {of} {_kind(x)}: they must have one dtype")
        leaves.append(g)
    return nest.pack(like, leaves)


class _kind:
    """Dtype and shape of an array, a number or a tensor, printed as ``f64[3]``."""

    def __init__(self, x: Any) -> None:
        x = x._as_tensor() if hasattr(x, "_as_tensor") else x
        held = x.node if isinstance(x, Tensor) else x if hasattr(x, "dtype") else to_array(x)
        self.dtype, self.shape = as_dtype(held.dtype), tuple(held.shape)

    def __iter__(self) -> Any:
        return iter((self.dtype, self.shape))

    def __repr__(self) -> str:
        return str(Aval(self.shape, self.dtype))


def jvp(fn: Callable[..., Any], primals: Any, tangents: Any) -> Any:
    """(fn(*primals), its derivative along ``tangents``). ShapeError, DTypeError for a tangent that is not like its primal."""
    n = len(primals)

    def pushed(*args: Any) -> Any:
        return push(fn, args[:n], args[n:])
    with source.hide_own_frames():
        return Function(pushed)(*primals, *_directions("jvp: a tangent", tuple(tangents), "its primal", tuple(primals)))


def push(fn: Any, primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    from .transforms.jvp import jvp as push_nodes
    now = _now([*primals, *tangents])
    if now is not None:
        with now.recording():
            fresh = [nest.map_leaves(now.fresh, p) for p in primals]
            out = _call(fn, *fresh)
            xs = nest.flatten(fresh)
            moved = now.push(nest.flatten(out), xs, nest.flatten(list(tangents)))
        both = now.settled([*nest.flatten(out), *moved], nest.flatten([*primals, *tangents]), xs)
        return nest.pack(out, both[:len(moved)]), nest.pack(out, both[len(moved):])
    fresh = [_fresh(p) for p in primals]
    out = _call(fn, *fresh)
    ys = [convert(y) for y in nest.flatten(out)]
    xs = [convert(x) for x in nest.flatten(fresh)]
    ts = [convert(t, x.dtype) for t, x in zip(nest.flatten(list(tangents)), xs)]

    def build(b: Any, *_: Any) -> Any:
        got = push_nodes(b, [b.capture(y.node) for y in ys], {b.capture(x.node): b.capture(t.node) for x, t in zip(xs, ts)})
        return tuple(g if g is not None else b.zeros(y.node.aval) for g, y in zip(got, ys))
    moved = emit("Jvp", "jvp", (), build)
    return out, nest.pack(out, list(moved))


def _region_of(fn: Any, like: Any, avals: Sequence[Any]) -> tuple[Region, list[Node], Any, Any]:
    """(region of fn, captured outer nodes, structure of the result, the ledger graph)."""
    from .surface.ledger import get_default_graph
    g = get_default_graph()
    trace = Trace(g)
    with trace:
        from .ir.opdef import OPS
        params = []
        for k, a in enumerate(avals):
            n = trace.builder.append(OPS["param"], (), (("aval", a), ("index", k)), a, (), source.UNKNOWN)
            trace.params.append(n)
            params.append(wrap(g, n, "arg"))
        out = _call(fn, *nest.pack(like, params))
        nodes = [trace.builder.capture(convert(t).node) for t in nest.flatten(out)]
    captured = trace.captured()
    return trace.close(nodes, captured), captured, nest.map_leaves(lambda _: 0, out), g


def vmap(fn: Callable[..., Any], in_axes: Any = 0, out_axes: int = 0) -> Function:
    """``fn`` over a batch axis of its arguments (None: not batched), as one graph without a loop."""
    def traced(*args: Any) -> Any:
        axes = list(in_axes) if isinstance(in_axes, (list, tuple)) else [in_axes] * len(args)
        now = _now(args)
        if now is not None:
            return _rows(now, fn, args, axes, out_axes)
        flat = [convert(a) for a in nest.flatten(args)]
        dims = [None if ax is None else ax % len(convert(leaf).node.shape) for a, ax in zip(args, axes) for leaf in nest.flatten(a)]
        if all(d is None for d in dims):
            raise ValueError("vmap needs at least one argument with a batch axis")
        size = next(t.node.shape[d] for t, d in zip(flat, dims) if d is not None)
        for t, d in zip(flat, dims):
            if d is not None and isinstance(size, int) and isinstance(t.node.shape[d], int) and t.node.shape[d] != size:
                raise ValueError(f"vmap got inconsistent sizes of the batch axis: {size} and {t.node.shape[d]}")
        avals = [t.node.aval.with_shape(s for k, s in enumerate(t.node.shape) if k != d) for t, d in zip(flat, dims)]
        region, captured, structure, _ = _region_of(fn, args, avals)

        def build(b: Any, *nodes: Any) -> Any:
            from .ops.helpers import move_axis
            batched, _ = b.vmap_region(region, size, [*dims, *[None] * len(captured)], [True] * len(region.results))
            return tuple(move_axis(b, r, 0, out_axes % len(r.shape)) for r in b.inline(batched, [*nodes, *[b.capture(n) for n in captured]]))
        return nest.pack(structure, list(emit("Vmap", "vmap", flat, build)))
    return Function(traced, name=f"vmap({getattr(fn, '__name__', 'fn')})")


def _rows(now: Any, fn: Any, args: Any, axes: Any, out_axes: int) -> Any:
    """``vmap`` of define-by-run tensors: a loop."""
    sizes = {leaf.shape[ax] for a, ax in zip(args, axes) if ax is not None for leaf in nest.flatten(a)}
    if len(sizes) != 1:
        raise ValueError(f"vmap got inconsistent sizes of the batch axis: {sorted(sizes)}" if sizes else "vmap needs at least one argument with a batch axis")
    structure: list[Any] = []

    def row(k: int) -> Any:
        picked = [a if ax is None else nest.map_leaves(lambda t: t[(slice(None),) * (ax % len(t.shape)) + (k,)], a) for a, ax in zip(args, axes)]
        out = _call(fn, *picked)
        structure.append(nest.map_leaves(lambda _: 0, out))
        return nest.flatten(out)
    got = now.loop(row, sizes.pop(), out_axes)
    return nest.pack(structure[0], got)


def _jacobian_now(now: Any, fn: Any, args: Any, argnums: int) -> Any:
    with now.recording():
        x = now.fresh(args[argnums])
        out = _call(fn, *[x if k == argnums % len(args) else a for k, a in enumerate(args)])
        got = [now.jacobian(y, x) for y in nest.flatten(out)]
    return nest.pack(out, now.settled(got, nest.flatten(args), [x]))


def _basis(b: Any, aval: Any) -> Any:
    """Unit directions [size, *shape]."""
    from .dtypes import int64
    from .ir.aval import Aval
    count = product(aval.shape)
    i, j = (b.iota(shape=(count, count), axis=k, dtype=int64) for k in (0, 1))
    return b.reshape(b.cast(b.equal(i, j), dtype=aval.dtype), shape=(count, *aval.shape)) if aval.shape else b.full(Aval((1,), aval.dtype), 1)


def jacrev(fn: Callable[..., Any], argnums: int = 0) -> Function:
    """The Jacobian [*result, *argument], by rows: one batched reverse pass."""
    def traced(*args: Any) -> Any:
        now = _now(args)
        if now is not None:
            return _jacobian_now(now, fn, args, argnums)
        flat = [convert(a) for a in args]
        region, captured, structure, _ = _region_of(fn, args, [t.node.aval for t in flat])
        x = flat[argnums]

        def build(b: Any, *nodes: Any) -> Any:
            from .ir.builder import TOOLS
            out = []
            inputs = [*nodes, *[b.capture(n) for n in captured]]
            for k, r in enumerate(region.results):
                one = Region(region.params, region.nodes, [region.results[k]])
                pulled, connected = TOOLS["vjp_region"](one, [r.aval], [j == argnums for j in range(len(inputs))])
                if not any(connected):
                    out.append(b.zeros(x.node.aval.with_shape((*r.shape, *x.node.shape)).with_dtype(r.dtype)))
                    continue
                rows, _ = b.vmap_region(pulled, product(r.shape), [*[None] * len(inputs), 0], [True])
                (j,) = b.inline(rows, [*inputs, _basis(b, r.aval)])
                out.append(b.reshape(j, shape=(*r.shape, *x.node.shape)))
            return tuple(out)
        return nest.pack(structure, list(emit("Jacobian", "jacrev", flat, build)))
    return Function(traced, name=f"jacrev({getattr(fn, '__name__', 'fn')})")


def jacfwd(fn: Callable[..., Any], argnums: int = 0) -> Function:
    """The Jacobian [*result, *argument], by columns: one batched forward pass."""
    def traced(*args: Any) -> Any:
        now = _now(args)
        if now is not None:
            return _jacobian_now(now, fn, args, argnums)
        flat = [convert(a) for a in args]
        region, captured, structure, _ = _region_of(fn, args, [t.node.aval for t in flat])
        x = flat[argnums]

        def build(b: Any, *nodes: Any) -> Any:
            from .ir.builder import TOOLS
            from .ops.helpers import move_axis
            inputs = [*nodes, *[b.capture(n) for n in captured]]
            pushed, connected = TOOLS["jvp_region"](region, [j == argnums for j in range(len(inputs))])
            columns, _ = b.vmap_region(pushed, product(x.node.shape), [*[None] * len(inputs), 0], [True] * len(pushed.results))
            got = iter(b.inline(columns, [*inputs, _basis(b, x.node.aval)])[len(region.results):])
            out = []
            for r, c in zip(region.results, connected):
                if not c:
                    out.append(b.zeros(r.aval.with_shape((*r.shape, *x.node.shape))))
                    continue
                j = move_axis(b, next(got), 0, len(r.shape))
                out.append(b.reshape(j, shape=(*r.shape, *x.node.shape)))
            return tuple(out)
        return nest.pack(structure, list(emit("Jacobian", "jacfwd", flat, build)))
    return Function(traced, name=f"jacfwd({getattr(fn, '__name__', 'fn')})")


def hessian(fn: Callable[..., Any], argnums: int = 0) -> Function:
    """Second derivatives [*argument, *argument] of a scalar function: forward over reverse."""
    return jacfwd(grad(fn, argnums), argnums)


def hvp(fn: Callable[..., Any], primals: Any, tangents: Any) -> Any:
    """The Hessian of a scalar function times ``tangents``, without the Hessian (forward over reverse)."""
    n = len(primals)
    by_all = grad(fn, tuple(range(n)))

    def pushed(*args: Any) -> Any:
        return push(by_all, args[:n], args[n:])[1]
    with source.hide_own_frames():
        out = Function(pushed)(*primals, *_directions("hvp: a tangent", tuple(tangents), "its primal", tuple(primals)))
    return out if n > 1 else out[0]


def checkpoint(fn: Callable[..., Any]) -> Function:
    """``fn`` whose intermediate values are computed again in the reverse pass (with the same random numbers)."""
    def traced(*args: Any) -> Any:
        if is_dynamic(nest.flatten(args)):
            from .dynamic import checkpoint as dynamic_checkpoint
            return dynamic_checkpoint(fn, *args)
        flat = [convert(a) for a in nest.flatten(args)]
        region, captured, structure, _ = _region_of(fn, args, [t.node.aval for t in flat])
        got = emit("Checkpoint", "checkpoint", flat, lambda b, *nodes: b.checkpoint_call(*nodes, *[b.capture(n) for n in captured], region=region))
        return nest.pack(structure, list(got))
    return Function(traced, name=f"checkpoint({getattr(fn, '__name__', 'fn')})")


__all__ = ["Function", "checkpoint", "custom_gradient", "function", "grad", "hessian", "hvp", "jacfwd", "jacrev", "jvp", "stop_gradient", "value_and_grad", "vjp", "vmap"]
