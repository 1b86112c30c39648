"""Matrix products beside OpenBLAS (NumPy's ``matmul`` with ``out=``), and the cost of bits that depend on K alone.

Own products are called like NumPy's: one foreign call for one product.
"""

from __future__ import annotations

import ctypes
import math
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from kernels import in_turns

from staticgraph.codegen.gemm import GemmSpec, gemm
from staticgraph.codegen.gemm.plan import Plan
from staticgraph.codegen.target import host
from staticgraph.dtypes import DType, float32, float64
from staticgraph.runtime.engine import KernelSet, engine

SQUARES = (16, 24, 32, 48, 64, 96, 100, 128, 192, 256, 384, 512, 768, 1024)
LAYERS = ((32, 784, 128), (784, 32, 128), (32, 128, 10), (128, 32, 10), (32, 10, 128), (64, 784, 512), (128, 512, 10),
          (32, 768, 3072), (32, 3072, 768), (256, 1024, 256), (37, 70, 101))
VECTORS = ((1, 64, 64), (1, 784, 512), (784, 512, 1), (1, 4096, 1000))
LAYOUTS = (("NN", False, False), ("TN", True, False), ("NT", False, True))

DRIVER = """
define void @drive(ptr %f, ptr %t, i64 %n, ptr %a) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %j, %loop ]
  %fp = getelementptr ptr, ptr %f, i64 %i
  %tp = getelementptr i64, ptr %t, i64 %i
  %fn = load ptr, ptr %fp
  %tasks = load i64, ptr %tp
  %r = call i32 %fn(ptr null, ptr %a, i64 0, i64 %tasks)
  %j = add i64 %i, 1
  %more = icmp slt i64 %j, %n
  br i1 %more, label %loop, label %done
done:
  ret void
}
"""


class Product:
    """A product with its arrays, ready to be called again and again."""

    def __init__(self, dtype: DType, m: int, k: int, n: int, ta: bool, tb: bool, loose: tuple[str, ...] = (),
                 change: Callable[[Plan], Plan] | None = None) -> None:
        rng = np.random.default_rng(0)
        self.a = rng.standard_normal((k, m) if ta else (m, k)).astype(dtype.np)
        self.b = rng.standard_normal((n, k) if tb else (k, n)).astype(dtype.np)
        self.c = np.zeros((m, n), dtype.np)
        sizes = {"m": m, "n": n, "k": k}
        spec = GemmSpec(dtype, **{s: None if s in loose else v for s, v in sizes.items()}, ta=ta, tb=tb)
        start = time.perf_counter()
        made = gemm(host(), spec)
        if change is not None:
            made = gemm(host(), spec, plan=change(made.plan))
        self.kernels = KernelSet([part.text for part in made.kernels], host(), keep=False)
        self.compile_ms = (time.perf_counter() - start) * 1e3
        self.plan = made.plan
        self.workspace = np.zeros(made.workspace(m, n, k, 1) // 8 + 8)
        address = -(-self.workspace.ctypes.data // 64) * 64
        named = {"a": self.a.ctypes.data, "b": self.b.ctypes.data, "c": self.c.ctypes.data, "workspace": address} | sizes
        words = [named[o] for o in made.operands]
        count = len(made.kernels)
        self.words = (ctypes.c_int64 * len(words))(*words)
        self.functions = (ctypes.c_int64 * count)(*self.kernels.addresses)
        self.tasks = (ctypes.c_int64 * count)(*[part.tasks(m, n, k, 1) for part in made.kernels])
        call = _driver()
        arguments = (ctypes.addressof(self.functions), ctypes.addressof(self.tasks), count, ctypes.addressof(self.words))
        self.run: Callable[[], Any] = lambda: call(*arguments)
        x, y = self.a.T if ta else self.a, self.b.T if tb else self.b
        out = np.zeros_like(self.c)
        self.peer: Callable[[], Any] = lambda: np.matmul(x, y, out=out)
        self.run()
        self.peer()
        scale = np.abs(x).astype(np.float64) @ np.abs(y).astype(np.float64)
        assert np.all(np.abs(self.c - out) <= scale * np.finfo(dtype.np).eps * (k + 8)), "the product is wrong"


def _driver() -> Callable[..., Any]:
    if not hasattr(_driver, "call"):
        kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p)
        _driver.call = kind(engine().permanent(DRIVER, "drive", {}))               # type: ignore[attr-defined]
    return _driver.call                                                            # type: ignore[attr-defined]


def _ratio(p: Product, seconds: float) -> tuple[float, float]:
    own, peer = in_turns([p.run, p.peer], seconds)
    return peer / own, own


def _mean(values: list[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))


def _table(title: str, shapes: list[tuple[int, int, int]], seconds: float) -> list[float]:
    print(f"\n{title}: OpenBLAS time / own time, own GFLOP/s in brackets, then compile ms")
    found: list[float] = []
    for dtype in (float32, float64):
        for m, k, n in shapes:
            cells, compiling = [], 0.0
            for name, ta, tb in LAYOUTS:
                p = Product(dtype, m, k, n, ta, tb)
                ratio, own = _ratio(p, seconds)
                compiling = max(compiling, p.compile_ms)
                found.append(ratio)
                cells.append(f"{name} {ratio:5.2f} ({2e-9 * m * n * k / own:5.1f})")
            print(f"  {dtype.name} {m:>4}x{k}@{k}x{n}".ljust(30), "  ".join(cells), f"  {compiling:5.1f}", flush=True)
    print(f"  at least OpenBLAS's speed: {sum(r >= 1 for r in found)} of {len(found)}, geometric mean {_mean(found):.2f}")
    return found


def _sizes_as_operands(seconds: float) -> None:
    print("\nSizes as operands: time / time with constants (m; all)")
    for m, k, n in ((32, 784, 128), (64, 64, 64), (256, 256, 256), (16, 16, 16)):
        runs = [Product(float32, m, k, n, False, False, loose) for loose in ((), ("m",), ("m", "n", "k"))]
        base, some, every = in_turns([r.run for r in runs], seconds)
        print(f"  {m}x{k}@{k}x{n}: {some / base:.2f}; {every / base:.2f}   compile ms {runs[1].compile_ms:.0f}; {runs[2].compile_ms:.0f}")


def _rule(seconds: float) -> None:
    print("\nBits depend on K alone: time of one chain per element / time with a sum per block of k")
    ratios = []
    for dtype in (float32, float64):
        for m, k, n in ((256, 1024, 256), (512, 512, 512), (1024, 1024, 1024), (64, 2048, 512)):
            for block in (256, 512):
                def cut(plan: Plan, free: bool, block: int = block) -> Plan:
                    return replace(plan, kc=block, free=free)
                chain = Product(dtype, m, k, n, False, False, change=lambda p: cut(p, False))
                blocks = Product(dtype, m, k, n, False, False, change=lambda p: cut(p, True))
                one, other = in_turns([chain.run, blocks.run], seconds)
                ratios.append(one / other)
    print(f"  blocked products: {min(ratios):.2f} .. {max(ratios):.2f}, geometric mean {_mean(ratios):.3f}")
    print("  matrix times vector, beside OpenBLAS (which may add in any order): own time / its time")
    for dtype in (float32, float64):
        for m, k, n in VECTORS:
            cells = [f"{name} {1 / _ratio(Product(dtype, m, k, n, ta, tb), seconds)[0]:.2f}" for name, ta, tb in LAYOUTS]
            print(f"  {dtype.name} {m:>4}x{k}@{k}x{n}".ljust(30), "  ".join(cells), flush=True)


def run(quick: bool) -> None:
    """Print all tables."""
    seconds = 0.03 if quick else 0.15
    squares = [(s, s, s) for s in SQUARES if not quick or s <= 256]
    all_ = _table("Squares", squares, seconds) + _table("Layers of small networks", list(LAYERS), seconds)
    print(f"\nGEMM over both tables: {sum(r >= 1 for r in all_) / len(all_):.0%} at least OpenBLAS's speed, mean {_mean(all_):.2f}")
    _sizes_as_operands(seconds)
    _rule(seconds)
