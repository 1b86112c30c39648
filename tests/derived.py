"""The tests that every op gets from its record. Each returns a list of failures: (sample number, what)."""

from __future__ import annotations

from typing import Any

import numpy as np
from native import Case, as_tuple, run

from staticgraph.config import Config
from staticgraph.errors import GraphError, OpError
from staticgraph.ir.graph import Graph, Node, Region
from staticgraph.ir.opdef import OPS, NoRule, NotDifferentiable, OpDef
from staticgraph.ir.text import parse
from staticgraph.ir.verify import verify
from staticgraph.ops.helpers import Sample
from staticgraph.runtime.state import StateStore

Failures = list[tuple[int, str]]
SEED = 20240607
STEP = 1e-5


def samples_of(op: OpDef) -> list[Sample]:
    """The record's samples, as ``Sample``s."""
    rng = np.random.default_rng(SEED)
    return [s if isinstance(s, Sample) else Sample(tuple(np.asarray(a) for a in s[0]), s[1]) for s in op.samples(rng)]


def differentiable(op: OpDef) -> bool:
    """Whether the op has derivative rules."""
    return not isinstance(op.vjp, (NotDifferentiable, NoRule)) and "refuses" not in op.traits


def smooth_samples(op: OpDef) -> list[tuple[int, Sample]]:
    """Float64 samples at which differences mean something."""
    return [(k, s) for k, s in enumerate(samples_of(op))
            if s.grad and any(np.asarray(a).dtype == np.float64 for a in s.arrays) and sum(np.size(a) for a in s.arrays) < 4000]


def reference(op: OpDef, s: Sample) -> tuple[np.ndarray[Any, Any], ...]:
    """What ``ref`` says."""
    with np.errstate(all="ignore"):
        return tuple(np.asarray(v) for v in as_tuple(op.ref(*s.arrays, **{**op.defaults, **s.attrs})))


def close(got: Any, want: Any, op: OpDef, ulps: float) -> bool:
    """Equal, or within ``ulps`` units in the last place of the larger magnitude around; NaN equals NaN, infinities are exact."""
    got, want = np.asarray(got), np.asarray(want)
    if got.shape != want.shape or got.dtype != want.dtype:
        return False
    if got.dtype.kind != "f" or got.size == 0:
        return bool(np.array_equal(got, want))
    with np.errstate(all="ignore"):
        both = np.isnan(got) & np.isnan(want) | (got == want)
        scale = np.maximum(np.abs(want), np.finfo(want.dtype).tiny)
        if not op.is_elementwise:
            finite = np.abs(want[np.isfinite(want)])
            scale = np.maximum(scale, finite.max() if finite.size else 0)
        near = np.abs(got.astype(np.longdouble) - want) <= ulps * np.spacing(scale.astype(want.dtype))
    return bool((both | (np.isfinite(want) & near)).all())


def values(op: OpDef, ulps: float = 16) -> Failures:
    """1 and 2: the native value equals ``ref``, and its shape and dtype are the inferred ones."""
    case, wants = Case(), []
    for s in samples_of(op):
        nodes = [case.feed(a) for a in s.arrays]
        outs = as_tuple(case.b.call(op, *nodes, **s.attrs))
        case.outputs += outs
        wants.append((outs, reference(op, s)))
    got = iter(case.run())
    failures: Failures = []
    for k, (outs, want) in enumerate(wants):
        for o, w in zip(outs, want):
            g = next(got)
            if g.shape != w.shape or g.dtype != w.dtype or o.shape != w.shape or o.dtype != w.dtype:
                failures.append((k, f"aval: inferred {o.aval}, native {g.dtype}{list(g.shape)}, ref {w.dtype}{list(w.shape)}"))
            elif not close(g, w, op, ulps):
                failures.append((k, f"value: native {short(g)} != ref {short(w)} of {samples_of(op)[k]}"[:400]))
    return failures


def short(a: np.ndarray[Any, Any]) -> str:
    """A few elements."""
    return np.array2string(a.ravel()[:20], precision=9, separator=",")


def _floats(nodes: list[Node]) -> list[Node]:
    return [n for n in nodes if n.dtype.is_floating]


def derivatives(op: OpDef) -> Failures:
    """3, 4, 5: reverse and forward against central differences of ``ref`` on random directions, and against each other."""
    if not differentiable(op):
        return []
    rng = np.random.default_rng(SEED + 1)
    case, plans = Case(), []
    for k, s in smooth_samples(op):
        nodes = [case.feed(a) for a in s.arrays]
        outs = [o for o in as_tuple(case.b.call(op, *nodes, **s.attrs)) if o.dtype.is_floating]
        xs = _floats(nodes)
        if not outs or not xs:
            continue
        directions = [rng.normal(size=x.shape).astype(x.dtype.np) for x in xs]
        weights = [rng.normal(size=o.shape).astype(o.dtype.np) for o in outs]
        cts = [case.feed(w) for w in weights]
        tangents = {x: case.feed(d) for x, d in zip(xs, directions)}
        grads = case.b.gradients(outs, xs, cts)
        pushed = _jvp(case.b, outs, tangents)
        sums = [g if g is not None else case.b.zeros(x.aval) for g, x in zip(grads, xs)]
        pushed = [p if p is not None else case.b.zeros(o.aval) for p, o in zip(pushed, outs)]
        case.outputs += [*sums, *pushed]
        plans.append((k, s, nodes, xs, outs, directions, weights))
    got = iter(case.run())
    failures: Failures = []
    for k, s, nodes, xs, outs, directions, weights in plans:
        grads = [next(got) for _ in xs]
        pushed = [next(got) for _ in outs]
        numeric = _difference(op, s, [nodes.index(x) for x in xs], directions, len(outs))
        reverse = sum(float((g * d).sum()) for g, d in zip(grads, directions))
        forward = sum(float((p * w).sum()) for p, w in zip(pushed, weights))
        differences = sum(float((n * w).sum()) for n, w in zip(numeric, weights))
        scale = 1 + abs(differences) + sum(float(np.abs(g).sum()) for g in grads) * 1e-3
        single = any(a.dtype == np.float32 for a in (*grads, *pushed))
        if abs(reverse - differences) > (3e-2 if single else 2e-5) * scale:
            failures.append((k, f"reverse {reverse} != differences {differences}"))
        if abs(forward - differences) > (3e-2 if single else 2e-5) * scale:
            failures.append((k, f"forward {forward} != differences {differences}"))
        if abs(forward - reverse) > (1e-4 if single else 1e-9) * scale:
            failures.append((k, f"pairing: forward {forward} != reverse {reverse}"))
    return failures


def _jvp(b: Any, outs: Any, tangents: dict[Node, Node]) -> list[Any]:
    from staticgraph.transforms.jvp import jvp
    return jvp(b, outs, tangents)


def _difference(op: OpDef, s: Sample, which: list[int], directions: list[Any], n_outs: int) -> list[Any]:
    def at(t: float) -> list[Any]:
        arrays = [np.asarray(a, np.float64) if np.asarray(a).dtype == np.float64 else np.asarray(a) for a in s.arrays]
        for k, d in zip(which, directions):
            arrays[k] = (arrays[k] + t * d).astype(arrays[k].dtype)
        outs = reference(op, Sample(tuple(arrays), s.attrs))
        return [o for o in outs if o.dtype.kind == "f"]
    step = STEP if all(np.asarray(s.arrays[k]).dtype == np.float64 for k in which) else 1e-2
    high, low = at(step), at(-step)
    return [(h.astype(np.float64) - w) / (2 * step) for h, w in zip(high, low)]


def second_order(op: OpDef) -> Failures:
    """6: the gradient's own derivative against differences of the native gradient; and with a cotangent that is exactly zero:
    the second derivative of f(x) * (x - x0) at x0 is 2 f'(x0)."""
    if not differentiable(op):
        return []
    rng = np.random.default_rng(SEED + 2)
    case, plans = Case(), []
    for k, s in smooth_samples(op)[:3]:
        nodes = [case.feed(a) for a in s.arrays]
        outs = [o for o in as_tuple(case.b.call(op, *nodes, **s.attrs)) if o.dtype.is_floating]
        xs = [n for n in nodes if n.dtype.name == "float64"]
        if not outs or not xs or any(o.dtype.name != "float64" for o in outs):
            continue
        cts = [case.feed(rng.normal(size=o.shape)) for o in outs]
        grads = case.b.gradients(outs, xs, cts)
        directions = [rng.normal(size=x.shape) for x in xs]
        fed = [case.feed(d) for d in directions]
        total = case.b.add_n([case.b.sum(case.b.mul(g, d), axis=None) for g, d in zip(grads, fed) if g is not None])
        if total is None:
            continue
        seconds = case.b.gradients([total], xs)
        flat = [g if g is not None else case.b.zeros(x.aval) for g, x in zip(seconds, xs)]
        first = [g if g is not None else case.b.zeros(x.aval) for g, x in zip(grads, xs)]
        case.outputs += [*flat, *first]
        plans.append((k, xs, directions))
    failures: Failures = []
    if plans:
        exe = case.executable()
        base = run(exe, case)
        move = [rng.normal(size=v.shape) if f.dtype.name == "float64" else 0 for f, v in zip(case.feeds, case.values)]
        moving = {x for _, xs, _ in plans for x in xs}
        shifts = [m if f in moving else 0 for f, m in zip(case.feeds, move)]
        up, down = (run(exe, case, [(v + sign * STEP * m).astype(v.dtype) for v, m in zip(case.values, shifts)]) for sign in (1, -1))
        at = 0
        for k, xs, directions in plans:
            n = len(xs)
            seconds, change = base[at:at + n], [(u - d) / (2 * STEP) for u, d in zip(up[at + n:at + 2 * n], down[at + n:at + 2 * n])]
            exact = sum(float((g * shifts[case.feeds.index(x)]).sum()) for g, x in zip(seconds, xs))
            numeric = sum(float((c * d).sum()) for c, d in zip(change, directions))
            scale = 1 + abs(numeric) + sum(float(np.abs(g).sum()) for g in seconds) * 1e-3
            if not abs(exact - numeric) <= 1e-4 * scale:
                failures.append((k, f"second derivative {exact} != differences {numeric}"))
            at += 2 * n
    if op.is_elementwise:
        failures += _zero_cotangent(op)
    return failures


def _zero_cotangent(op: OpDef) -> Failures:
    failures: Failures = []
    for k, s in smooth_samples(op)[:1]:
        case = Case()
        nodes = [case.feed(a) for a in s.arrays]
        floats = [n for n in nodes if n.dtype.name == "float64"]
        y = case.b.call(op, *nodes, **s.attrs)
        if not floats or y.dtype.name != "float64" or floats[0].shape != y.shape:
            continue
        x = floats[0]
        product = case.b.mul(y, case.b.sub(x, case.feed(case.values[case.feeds.index(x)])))
        first = case.b.gradients([product], [x])[0]
        second = case.b.gradients([first], [x])[0]
        plain = case.b.gradients([y], [x])[0]
        if plain is None:
            continue
        case.outputs = [second, plain]
        got, slope = case.run()
        if not np.allclose(got, 2 * slope, rtol=1e-9, atol=1e-12):
            failures.append((k, f"f(x)*(x - x0): second derivative {short(got)} != 2 f' {short(2 * slope)}"))
    return failures


def batching(op: OpDef) -> Failures:
    """7: vmap equals a loop over the batch."""
    if isinstance(op.vmap, NoRule):
        return []
    failures: Failures = []
    rng = np.random.default_rng(SEED + 3)
    case, plans = Case(), []
    small = [(k, s) for k, s in enumerate(samples_of(op)) if s.arrays and all(np.size(a) < 500 for a in s.arrays)]
    for k, s in small[:4] + small[4:][-3:]:
        for which in {tuple(True for _ in s.arrays), tuple(j == 0 for j in range(len(s.arrays)))}:
            size = 3
            dims = [int(rng.integers(0, np.ndim(a) + 1)) if w else None for a, w in zip(s.arrays, which)]
            parts = [[_vary(np.asarray(a), i, rng) if w else np.asarray(a) for a, w in zip(s.arrays, which)] for i in range(size)]
            stacked = [np.stack([p[j] for p in parts], d) if d is not None else np.asarray(a) for j, (a, d) in enumerate(zip(s.arrays, dims))]
            nodes = [case.feed(a) for a in stacked]
            attrs = {**op.defaults, **s.attrs}
            try:
                want = [reference(op, Sample(tuple(p), s.attrs)) for p in parts]
            except (GraphError, OpError):
                continue
            out, dim = op.vmap(case.b, size, nodes, dims, **attrs)
            outs, out_dims = as_tuple(out), as_tuple(dim)
            case.outputs += outs
            plans.append((k, len(outs), out_dims, want))
    got = iter(case.run())
    for k, n, dims, want in plans:
        for j in range(n):
            g = next(got)
            expected = np.stack([w[j] for w in want], dims[j]) if dims[j] is not None else want[0][j]
            if not close(g, expected, op, 64):
                failures.append((k, f"vmap {short(g)} != loop {short(expected)}"))
    return failures


def _vary(a: np.ndarray[Any, Any], i: int, rng: Any) -> np.ndarray[Any, Any]:
    # integers (indices, labels) differ between lanes by order only, so they stay in range
    if a.dtype.kind == "f":
        a = a * a.dtype.type(1 - i / 16)
    if a.dtype == bool and i:
        a = ~a if i == 1 else np.zeros_like(a)
    return np.roll(a, i).reshape(a.shape)


def refusals(op: OpDef) -> Failures:
    """8: each ``errors`` entry is refused with that text, at the caller's line."""
    failures: Failures = []
    for k, (avals, attrs, text) in enumerate(op.errors):
        case = Case()
        nodes = [case.b.placeholder(aval=a, uid=j) for j, a in enumerate(avals)]
        try:
            case.b.call(op, *nodes, **attrs)
        except GraphError as error:
            if text not in str(error):
                failures.append((k, f"refused with {str(error)!r}, not {text!r}"))
            elif error.site is None or not error.site.filename.endswith("derived.py"):
                failures.append((k, f"the site is {error.site}, not the caller's line"))
        else:
            failures.append((k, f"not refused: {avals} {attrs}"))
    return failures


def folding(op: OpDef) -> Failures:
    """9: constant operands give the bits that fed ones give."""
    case, pairs = Case(), 0
    for s in samples_of(op)[:6]:
        if sum(np.size(a) for a in s.arrays) > 3000:
            continue
        fed = as_tuple(case.b.call(op, *[case.feed(a) for a in s.arrays], **s.attrs))
        constant = as_tuple(case.b.call(op, *[case.b.const(np.asarray(a)) for a in s.arrays], **s.attrs))
        for f, c in zip(fed, constant):
            case.outputs += [f, c]
            pairs += 1
    got = case.run()
    return [(k, f"fed {short(f)} != constant {short(c)}") for k, (f, c) in enumerate(zip(got[::2], got[1::2])) if not same_bits(f, c)]


def same_bits(a: np.ndarray[Any, Any], c: np.ndarray[Any, Any]) -> bool:
    """Equal bytes, any NaN for any NaN."""
    if a.dtype.kind != "f":
        return a.tobytes() == c.tobytes()
    return bool(((a == c) & (np.signbit(a) == np.signbit(c)) | (np.isnan(a) & np.isnan(c))).all()) and a.shape == c.shape


def fusing(op: OpDef) -> Failures:
    """10: fused with neighbours on both sides equals unfused, bit for bit; and so does an unoptimised compile."""
    case, count = Case(), 0
    for s in samples_of(op)[:8]:
        nodes = []
        for a in s.arrays:
            n = case.feed(a)
            nodes.append(case.b.mul(n, n) if n.dtype.kind == "f" and s.grad else n)
        for o in as_tuple(case.b.call(op, *nodes, **s.attrs)):
            case.outputs.append(case.b.add(o, o) if o.dtype.kind in "fiu" else case.b.logical_not(o))
            count += 1
    fused, plain, written = case.run(), case.run(Config(optimize="O1")), case.run(Config(optimize="O0"))
    return [(k, f"fused {short(f)}, unfused {short(p)}, as written {short(w)}") for k, (f, p, w) in enumerate(zip(fused, plain, written))
            if not (same_bits(f, p) and same_bits(f, w))]


def printing(op: OpDef) -> Failures:
    """12: the printed graph parses back to an equal one."""
    case = Case()
    for s in samples_of(op)[:6]:
        case.outputs += as_tuple(case.b.call(op, *[case.feed(a) for a in s.arrays], **s.attrs))
    g: Graph = case.graph
    g.outputs = tuple(case.outputs)
    verify(g)
    text = str(g)
    return [] if parse(text) == g and str(parse(text)) == _bare(text) else [(0, text)]


def modes(op: OpDef) -> Failures:
    """11: define-by-run gives what the interpreted graph gives, bit for bit, values and gradients; compiled is within a few ulp."""
    import staticgraph.dynamic as dy
    from staticgraph.dynamic.tensor import compute
    case, plans = Case(), []
    small = smooth_samples(op)[:4] if differentiable(op) else []
    for k, s in small:
        if any(isinstance(v, Region) for v in s.attrs.values()):
            continue                         # loops and branches are Python's own in that mode
        nodes = [case.feed(a) for a in s.arrays]
        outs = [o for o in as_tuple(case.b.call(op, *nodes, **s.attrs)) if o.dtype.is_floating]
        rng = np.random.default_rng(SEED + 7)
        weights = [rng.normal(size=o.shape).astype(o.dtype.np) for o in outs]
        xs = _floats(nodes)
        grads = case.b.gradients(outs, xs, [case.feed(w) for w in weights])
        case.outputs += outs + [g if g is not None else case.b.zeros(x.aval) for g, x in zip(grads, xs)]
        plans.append((k, s, weights, len(outs)))
    if not case.outputs:
        return []
    exe = case.executable()
    values = dict(zip(case.feeds, case.values))
    got = iter(zip(case.run(), exe.interpret([values[i.key] for i in exe.inputs if i.kind == "feed"], StateStore())))
    failures: Failures = []
    for k, s, weights, count in plans:
        tensors = [dy.tensor(a, requires_grad=np.asarray(a).dtype.kind == "f") for a in s.arrays]
        outs = [o for o in as_tuple(compute.call(op, *tensors, **s.attrs)) if o.dtype.is_floating]
        xs = [t for t in tensors if t.requires_grad]
        grads = dy.grad(outs, xs, [dy.tensor(w) for w in weights], allow_unused=True)
        now = [o.detach().numpy() for o in outs] + [np.zeros_like(x.detach().numpy()) if g is None else g.detach().numpy() for g, x in zip(grads, xs)]
        assert len(outs) == count
        for d in now:
            native, interpreted = next(got)
            if not same_bits(d, interpreted):
                failures.append((k, f"define-by-run {short(d)} != interpreted {short(interpreted)}"))
            if not close(native, d, op, 1024):
                failures.append((k, f"define-by-run {short(d)} != compiled {short(native)}"))
    return failures


def _bare(text: str) -> str:
    from staticgraph.ir.text import print_graph
    return print_graph(parse(text), sites=False)


LAWS = {"values": values, "derivatives": derivatives, "second_order": second_order, "batching": batching, "refusals": refusals,
        "folding": folding, "fusing": fusing, "printing": printing, "modes": modes}


def testable() -> list[OpDef]:
    """Ops whose record gives samples."""
    return [op for op in OPS.values() if samples_of(op)]
