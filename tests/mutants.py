"""Can the derived tests fail? Swap a rule of an op for a wrong one and see which law notices.

    python tests/mutants.py [OP ...]

Mutants per op: the cotangents doubled, the tangent doubled, one output element of the lowering changed, the meaning (``ref``) changed,
results of batching reversed. Each must be noticed by some law; survivors are listed and make the exit status 1.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from derived import LAWS, differentiable, testable

from staticgraph.ir.opdef import OpDef, Scalar

CHANGED: set[str] = set()                # ops whose mutant did change something: the others were never asked
EQUIVALENT = {"sign": "its derivative is 0, and twice 0 is 0"}


def doubled_cotangents(op: OpDef) -> Callable[..., Any]:
    """A vjp whose first cotangent is twice what it should be."""
    def vjp(b: Any, *args: Any, **kw: Any) -> Any:
        out = list(op_vjp(b, *args, **kw))
        for k, ct in enumerate(out):
            if ct is not None and hasattr(ct, "aval"):
                out[k] = b.add(ct, ct)
                CHANGED.add(op.name)
                break
        return out
    op_vjp = op.vjp
    return vjp


def doubled_tangent(op: OpDef) -> Callable[..., Any]:
    """A jvp that is twice what it should be."""
    def jvp(b: Any, *args: Any, **kw: Any) -> Any:
        out = op_jvp(b, *args, **kw)
        CHANGED.add(op.name)
        if isinstance(out, (tuple, list)):
            return type(out)(b.add(t, t) if t is not None else None for t in out)
        return None if out is None else b.add(out, out)
    op_jvp = op.jvp
    return jvp


def changed_meaning(op: OpDef) -> Callable[..., Any]:
    """A ref whose first element is off."""
    op_ref = op.ref

    @functools.wraps(op_ref)
    def ref(*args: Any, **kw: Any) -> Any:
        out = op_ref(*args, **kw)
        first = np.array(out[0] if isinstance(out, tuple) else out)
        CHANGED.add(op.name)
        if first.size:
            flat = first.reshape(-1)
            flat[0] = not flat[0] if first.dtype == bool else flat[0] + 1
        return (first, *out[1:]) if isinstance(out, tuple) else first
    return ref


def changed_code(op: OpDef) -> Scalar | None:
    """An elementwise lowering that is off by one."""
    if not isinstance(op.lower, Scalar):
        return None
    emit = op.lower.emit

    def wrong(e: Any, *args: Any, **kw: Any) -> Any:
        y = emit(e, *args, **kw)
        CHANGED.add(op.name)
        return e.not_(y) if y.dtype.name == "bool" else e.add(y, 1)
    return Scalar(wrong)


def reversed_batch(op: OpDef) -> Callable[..., Any] | None:
    """A vmap rule whose batch comes out backwards."""
    if not callable(op.vmap):
        return None
    op_vmap = op.vmap

    def vmap(b: Any, size: Any, ins: Any, dims: Any, **kw: Any) -> Any:
        out, at = op_vmap(b, size, ins, dims, **kw)
        outs, places = (out, at) if isinstance(out, (tuple, list)) else ((out,), (at,))
        if all(p is None for p in places):
            return out, at
        CHANGED.add(op.name)
        turned = [o if p is None else b.reverse(o, axis=(p,)) for o, p in zip(outs, places)]
        return (tuple(turned), at) if isinstance(out, (tuple, list)) else (turned[0], at)
    return vmap


def mutants(op: OpDef) -> Iterator[tuple[str, str, Any, tuple[str, ...]]]:
    """(name, field, wrong value, laws that should notice)."""
    if differentiable(op) and callable(op.vjp):
        yield "doubled cotangents", "vjp", doubled_cotangents(op), ("derivatives", "second_order")
    if differentiable(op) and callable(op.jvp):
        yield "doubled tangent", "jvp", doubled_tangent(op), ("derivatives", "second_order")
    yield "changed meaning", "ref", changed_meaning(op), ("values", "folding")
    for name, field, value, laws in (("changed code", "lower", changed_code(op), ("values",)), ("reversed batch", "vmap", reversed_batch(op), ("batching",))):
        if value is not None:
            yield name, field, value, laws


def noticed(op: OpDef, laws: tuple[str, ...]) -> bool:
    """Whether a law fails; an error counts as noticing."""
    for law in laws:
        try:
            if LAWS[law](op):
                return True
        except Exception:
            return True
    return False


def main(names: list[str]) -> int:
    """Try all mutants of the ops named, or of all ops."""
    killed, survivors = 0, []
    ops = [op for op in testable() if not names or op.name in names]
    for n, op in enumerate(ops):
        for name, field, value, laws in mutants(op):
            kept = getattr(op, field)
            object.__setattr__(op, field, value)
            try:
                CHANGED.discard(op.name)
                if noticed(op, laws):
                    killed += 1
                elif op.name in CHANGED and not (op.name in EQUIVALENT and name.startswith("doubled")):
                    survivors.append(f"{op.name}: {name}")
            finally:
                object.__setattr__(op, field, kept)
        if sys.stderr.isatty():
            print(f"\r{n + 1}/{len(ops)} ops, {killed} mutants noticed, {len(survivors)} not", end="", flush=True, file=sys.stderr)
    print(f"{killed} mutants noticed, {len(survivors)} not")
    for s in survivors:
        print("survived:", s)
    return int(bool(survivors))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
