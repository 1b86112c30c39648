"""Runs generated products on arrays, and the reference: one scalar chain of fused multiply-adds per element."""

from __future__ import annotations

import ctypes
import itertools
from functools import cache
from typing import Any

import llvmlite.binding as llvm
import numpy as np

from staticgraph import dtypes
from staticgraph.codegen.gemm import Gemm, GemmSpec
from staticgraph.codegen.target import Target, host, machine

_KEEP: list[Any] = []
KERNEL = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
SIZES = ("m", "n", "k", "batch")


@cache
def compile_text(text: str, target: Target | None = None, name: str = "K") -> int:
    """The address of ``@name`` of a kernel's text."""
    tm = machine(target or host())
    module = llvm.parse_assembly(text)
    engine = llvm.create_mcjit_compiler(module, tm)
    engine.finalize_object()
    _KEEP.append((engine, tm))
    return engine.get_function_address(name)


def assembly(text: str, target: Target | None = None) -> str:
    """The machine code of a kernel's text, as text."""
    return str(machine(target or host()).emit_assembly(llvm.parse_assembly(text)))


class Runner:
    """A compiled product: call it with arrays (a, b, c) of the spec's layout and the values of all run-time operands."""

    def __init__(self, made: Gemm, target: Target | None = None) -> None:
        self.made = made
        self.functions = [KERNEL(compile_text(k.text, target)) for k in made.kernels]

    def prepare(self, a: np.ndarray, b: np.ndarray, c: np.ndarray, extra: tuple[int, ...] = (), **sizes: int) -> Any:
        """A callable ``run(splits=1)`` on these arrays; ``splits`` > 1 does each kernel's tasks in that many calls, last first."""
        spec = self.made.spec
        full = [sizes.get(s, getattr(spec, s)) for s in SIZES]
        need = self.made.workspace(*full)
        ws = np.full(need // 8 + 16, np.nan)
        address = -(-ws.ctypes.data // 64) * 64
        named = {"a": a.ctypes.data, "b": b.ctypes.data, "c": c.ctypes.data, "workspace": address, **sizes}
        words = [named[o] for o in self.made.operands] + list(extra)
        table = (ctypes.c_int64 * len(words))(*words)
        tasks = [k.tasks(*full) for k in self.made.kernels]
        calls = list(zip(self.functions, tasks))
        keep = (a, b, c, ws)

        def run(splits: int = 1) -> Any:
            for f, t in calls:
                if splits == 1:
                    f(None, table, 0, t)
                    continue
                cuts = [t * i // splits for i in range(splits + 1)]
                for lo, hi in reversed(list(itertools.pairwise(cuts))):
                    if lo < hi:
                        f(None, table, lo, hi)
            return keep
        run.tasks = tasks                                                          # type: ignore[attr-defined]
        return run


REFERENCE = """
declare {t} @llvm.fma.{s}({t}, {t}, {t})
define void @K(ptr %a, ptr %b, ptr %c, i64 %m, i64 %n, i64 %k, i64 %am, i64 %ak, i64 %bk, i64 %bn) {{
entry:
  %none = icmp eq i64 %k, 0
  br label %row
row:
  %i = phi i64 [ 0, %entry ], [ %i1, %rowend ]
  br label %col
col:
  %j = phi i64 [ 0, %row ], [ %j1, %done ]
  %cr = mul i64 %i, %n
  %ci = add i64 %cr, %j
  %cp = getelementptr {t}, ptr %c, i64 %ci
  %start = load {t}, ptr %cp
  br i1 %none, label %done, label %step
step:
  %p = phi i64 [ 0, %col ], [ %p1, %step ]
  %acc = phi {t} [ %start, %col ], [ %new, %step ]
  %a0 = mul i64 %i, %am
  %a1 = mul i64 %p, %ak
  %a2 = add i64 %a0, %a1
  %ap = getelementptr {t}, ptr %a, i64 %a2
  %x = load {t}, ptr %ap
  %b0 = mul i64 %p, %bk
  %b1 = mul i64 %j, %bn
  %b2 = add i64 %b0, %b1
  %bp = getelementptr {t}, ptr %b, i64 %b2
  %y = load {t}, ptr %bp
  {product}
  %p1 = add i64 %p, 1
  %more = icmp slt i64 %p1, %k
  br i1 %more, label %step, label %done
done:
  %r = phi {t} [ %start, %col ], [ %new, %step ]
  store {t} %r, ptr %cp
  %j1 = add i64 %j, 1
  %jm = icmp slt i64 %j1, %n
  br i1 %jm, label %col, label %rowend
rowend:
  %i1 = add i64 %i, 1
  %im = icmp slt i64 %i1, %m
  br i1 %im, label %row, label %end
end:
  ret void
}}
"""


def chain(a: np.ndarray, b: np.ndarray, c: np.ndarray, fma: bool = True) -> np.ndarray:
    """``c + a @ b`` for a [m, k], b [k, n] of any strides: each element one scalar chain over ascending k from c."""
    out = np.array(c, order="C")
    (m, k), n = a.shape, b.shape[1]
    if not m or not n:
        return out
    kind = dtypes.as_dtype(a.dtype)
    t, s = kind.llvm, f"{kind.kind}{kind.bits}"
    if kind.kind == "f" and fma:
        product = f"%new = call {t} @llvm.fma.{s}({t} %x, {t} %y, {t} %acc)"
    else:
        f = "f" if kind.kind == "f" else ""
        product = f"%xy = {f}mul {t} %x, %y\n  %new = {f}add {t} %xy, %acc"
    text = REFERENCE.format(t=t, s=s, product=product)
    if kind.kind != "f":
        text = text.replace(text.split("\n")[1], "")
    f = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3, *[ctypes.c_int64] * 7)(compile_text(text))
    e = a.itemsize
    f(a.ctypes.data, b.ctypes.data, out.ctypes.data, m, n, k, a.strides[0] // e, a.strides[1] // e, b.strides[0] // e, b.strides[1] // e)
    return out


def operands(spec: GemmSpec, rng: np.random.Generator, m: int, n: int, k: int, batch: int = 1, pad: int = 0) -> tuple[np.ndarray, ...]:
    """Random a, b, c of the spec's layout, with ``pad`` more elements in each row than needed."""
    def make(rows: int, cols: int, items: int) -> np.ndarray:
        shape = (items, rows, cols + pad)
        if spec.dtype.kind == "f":
            return rng.standard_normal(shape).astype(spec.dtype.np)
        return rng.integers(spec.dtype.min, spec.dtype.max, shape, dtype=spec.dtype.np)
    a = make(*((k, m) if spec.ta else (m, k)), 1 if spec.sa == 0 else batch)
    b = make(*((n, k) if spec.tb else (k, n)), 1 if spec.sb == 0 else batch)
    return a, b, make(m, n, batch)


def expected(spec: GemmSpec, a: np.ndarray, b: np.ndarray, c: np.ndarray, m: int, n: int, k: int, fma: bool = True) -> np.ndarray:
    """The reference result, in the shape of c (what lies between rows stays)."""
    out = c.copy()
    for i in range(c.shape[0]):
        x, y = a[i % a.shape[0]], b[i % b.shape[0]]
        x = x[:k, :m].T if spec.ta else x[:m, :k]
        y = y[:n, :k].T if spec.tb else y[:k, :n]
        start = c[i, :m, :n] if spec.accumulate else np.zeros((m, n), c.dtype)
        out[i, :m, :n] = chain(x, y, start, fma)
    return out
