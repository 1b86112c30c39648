"""Laws of generated matrix products: the bits of an element depend on k and the data alone."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from gemm_harness import Runner, assembly, expected, operands

import staticgraph as sg
from staticgraph import dtypes
from staticgraph.codegen.emitter import Emitter
from staticgraph.codegen.gemm import GemmSpec, gemm
from staticgraph.codegen.target import NAMED, host

HOST = host()
EDGES = (0, 1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 31, 33, 64, 65, 100)
TARGETS = {"host": HOST, "v3": NAMED["x86-64-v3"], "v1": NAMED["x86-64"]}
runs_here = pytest.mark.skipif(not HOST.triple.startswith("x86_64") or not HOST.has("avx2"), reason="runs code for x86-64-v3")


def bits(x: np.ndarray) -> np.ndarray:
    return x.view(f"u{x.itemsize}")


def draw(rng: np.random.Generator) -> tuple[GemmSpec, dict[str, int], GemmSpec, int]:
    """A random product: the spec with every size constant, all sizes and strides, the spec to generate, and the row padding."""
    dtype = rng.choice([dtypes.float32, dtypes.float64, dtypes.float32, dtypes.float64, dtypes.int32, dtypes.int64])
    m, n, k = (int(rng.choice(EDGES)) if rng.random() < 0.7 else int(rng.integers(0, 130)) for _ in range(3))
    if rng.random() < 0.2:
        k = int(rng.choice([300, 784]))
    pad, batch = int(rng.choice([0, 0, 3])), int(rng.choice([1, 1, 2, 3]))
    flags = {"ta": bool(rng.random() < 0.5), "tb": bool(rng.random() < 0.5), "accumulate": bool(rng.random() < 0.25)}
    strides = {"lda": (m if flags["ta"] else k) + pad, "ldb": (k if flags["tb"] else n) + pad, "ldc": n + pad}
    strides |= {"sa": strides["lda"] * (k if flags["ta"] else m), "sb": strides["ldb"] * (n if flags["tb"] else k),
                "sc": strides["ldc"] * m}
    for s in ("sa", "sb"):
        if rng.random() < 0.25:
            strides[s] = 0
    sizes = {"m": m, "n": n, "k": k, "batch": batch}
    whole = GemmSpec(dtype, **sizes, **flags, **strides)
    loose = rng.random() < 0.5
    spec = GemmSpec(dtype, **{s: None if loose and rng.random() < 0.5 else v for s, v in sizes.items()}, **flags,
                    **{s: None if loose and rng.random() < 0.3 and v else v for s, v in strides.items()})
    return whole, sizes | strides, spec, pad


def check(spec: GemmSpec, target: Any, splits: int = 1, seed: int = 0, **sizes: int) -> None:
    """The product of random matrices equals the scalar chain bit for bit."""
    rng = np.random.default_rng(seed)
    full = {s: sizes.get(s, getattr(spec, s)) for s in ("m", "n", "k", "batch")}
    a, b, c = operands(spec, rng, **full)
    want = expected(spec, a, b, c, full["m"], full["n"], full["k"], target.fma)
    Runner(gemm(target, spec), target).prepare(a, b, c, **sizes)(splits)
    assert np.array_equal(bits(c), bits(want))


@runs_here
@pytest.mark.parametrize("seed", range(12))
def test_every_element_is_one_chain_over_ascending_k(seed: int) -> None:
    """For any sizes, layouts, batches and targets, constant or run-time, in any number of calls; gaps between rows stay."""
    rng = np.random.default_rng(seed)
    for _ in range(8):
        whole, values, spec, pad = draw(rng)
        name = str(rng.choice(["host", "host", "v3", "v1"]))
        target = TARGETS[name]
        a, b, c = operands(whole, rng, values["m"], values["n"], values["k"], values["batch"], pad)
        want = expected(whole, a, b, c, values["m"], values["n"], values["k"], target.fma)
        run = Runner(gemm(target, spec), target).prepare(a, b, c, **values)
        run(int(rng.integers(1, 4)))
        assert np.array_equal(bits(c), bits(want)), (name, spec, values)


@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float64])
@pytest.mark.parametrize("ta,tb", [(False, False), (True, False), (False, True), (True, True)])
def test_packed_and_blocked_products_are_the_same_chain(dtype: dtypes.DType, ta: bool, tb: bool) -> None:
    """Whatever the plan: blocks of k, tiles, tasks, prefetch."""
    spec = GemmSpec(dtype, 70, 410, 1030, ta, tb)
    rng = np.random.default_rng(0)
    a, b, c = operands(spec, rng, 70, 410, 1030)
    want = expected(spec, a, b, c, 70, 410, 1030, HOST.fma)
    plan = gemm(HOST, spec).plan
    assert plan.y == ("packed" if tb and not ta else "staged")
    others: list[dict[str, Any]] = [{}, {"kc": 516}, {"kc": 128, "mr": plan.mr if plan.swap else 5, "nv": 1}, {"row_tasks": 3, "ahead": 4},
                                    {"ask": not plan.ask, "pack_x": False}, {"chunk_outer": not plan.chunk_outer, "row_tasks": 2, "kc": 256}]
    if plan.y == "staged":
        others += [{"y": "packed"}, {"y": "direct"}, {"kc": None, "col_tasks": 2}]
    if ta and not plan.swap:
        others += [{"pack_x": True, "kc": 300}]
    for change in others:
        c[:] = np.nan
        Runner(gemm(HOST, spec, plan=replace(plan, **change))).prepare(a, b, c)(2)
        assert np.array_equal(bits(c), bits(want)), change


@pytest.mark.parametrize("spec,sizes", [
    (GemmSpec(dtypes.float32, None, 200, 1300, ta=True), {"m": 131}),
    (GemmSpec(dtypes.float32, None, 200, 1300, ta=True), {"m": 3}),
    (GemmSpec(dtypes.float64, 700, 2000, None, ta=True), {"k": 37}),
    (GemmSpec(dtypes.float64, 231, 300, 203, ta=True, batch=3), {}),
    (GemmSpec(dtypes.float32, 50, 300, 1700, ta=True, batch=2, sa=0), {}),
    (GemmSpec(dtypes.float32, 50, 300, 1700, ta=True, accumulate=True), {}),
])
def test_transposed_rows_are_packed_into_tiles(spec: GemmSpec, sizes: dict[str, int]) -> None:
    """Also where the number of rows or steps is an operand, in batches, and in any number of calls."""
    assert gemm(HOST, spec).plan.pack_x or HOST.vector_bits < 512
    for splits in (1, 3):
        check(spec, HOST, splits, **sizes)


@pytest.mark.parametrize("spec", [GemmSpec(dtypes.float32, 1, 1100, 300), GemmSpec(dtypes.float64, 3, 512, 300), GemmSpec(dtypes.float64, 2, 530, 301, ta=True)])
def test_tasks_of_few_rows_work_together(spec: GemmSpec) -> None:
    """The tasks of one call read whole rows of B: all at once, one by one, or none."""
    made = gemm(HOST, spec)
    assert made.plan.y == "direct" and made.plan.chunk_outer and made.kernels[-1].tasks(spec.m, spec.n, spec.k, 1) == 2
    for splits in (1, 2, 3):
        check(spec, HOST, splits)


@pytest.mark.parametrize("ta,tb", [(False, False), (True, False), (False, True), (True, True)])
def test_one_text_serves_all_sizes(ta: bool, tb: bool) -> None:
    spec = GemmSpec(dtypes.float32, None, None, None, ta, tb)
    for m, n, k in ((1, 1, 1), (5, 33, 7), (64, 64, 64), (40, 0, 3), (3, 9, 0), (129, 70, 65)):
        check(spec, HOST, m=m, n=n, k=k)


def test_specials_follow_the_chain() -> None:
    """NaN, infinities and signed zeros, also in tails of k and of the columns."""
    for m, n, k, tb in ((3, 17, 5, False), (1, 19, 33, True), (40, 3, 18, False), (20, 40, 19, True)):
        rng = np.random.default_rng(m)
        spec = GemmSpec(dtypes.float32, m, n, k, tb=tb, accumulate=True)
        a, b, c = operands(spec, rng, m, n, k)
        for x in (a, b, c):
            x[rng.random(x.shape) < 0.5] = -0.0
            x[rng.random(x.shape) < 0.02] = np.inf
            x[rng.random(x.shape) < 0.02] = np.nan
        want = expected(spec, a, b, c, m, n, k, HOST.fma)
        Runner(gemm(HOST, spec)).prepare(a, b, c)()
        assert np.array_equal(np.isnan(c), np.isnan(want))
        assert np.array_equal(bits(c)[~np.isnan(c)], bits(want)[~np.isnan(want)])


def test_no_terms_give_zeros_or_what_was_accumulated() -> None:
    for accumulate in (False, True):
        spec = GemmSpec(dtypes.float64, 5, 9, 0, accumulate=accumulate)
        a, b, c = operands(spec, np.random.default_rng(0), 5, 9, 0)
        before = c.copy()
        Runner(gemm(HOST, spec)).prepare(a, b, c)()
        assert np.array_equal(bits(c), bits(before if accumulate else np.zeros_like(c)))


@pytest.mark.parametrize("spec,sizes", [
    (GemmSpec(dtypes.float32, 37, 70, 20, batch=2), {}),
    (GemmSpec(dtypes.float32, 20, 100, 700, tb=True), {}),
    (GemmSpec(dtypes.float64, 60, 300, 600), {}),
    (GemmSpec(dtypes.float32, 128, 10, 32, ta=True), {}),
    (GemmSpec(dtypes.float32, 30, 1, 50), {}),
    (GemmSpec(dtypes.float32, None, 10, 128), {"m": 33}),
    (GemmSpec(dtypes.float64, None, None, None, ta=True, tb=True), {"m": 9, "n": 21, "k": 40}),
])
def test_sink_gets_every_element_once_and_finished(spec: GemmSpec, sizes: dict[str, int]) -> None:
    """A fused bias and doubling, with a count of visits; C itself is not touched."""
    full = {s: sizes.get(s, getattr(spec, s)) for s in ("m", "n", "k", "batch")}
    m, n, batch = full["m"], full["n"], full["batch"]
    base = len(spec.operands)
    dtype = spec.dtype

    def sink(e: Emitter, acc: Any, row: Any, col: Any, lanes: int, mask: Any, batch: Any) -> None:
        as_val = [x if not isinstance(x, int) else e.const(dtypes.int64, x) for x in (batch, row, col)]
        at = e.add(e.mul(e.add(e.mul(as_val[0], m), as_val[1]), n), as_val[2])
        bias = e.load(e.arg_ptr(base), dtype, as_val[2], lanes=lanes, mask=mask)
        out, visits = e.arg_ptr(base + 1), e.arg_ptr(base + 2)
        e.store(out, e.mul(e.add(acc, bias), 2), at, mask=mask)
        e.store(visits, e.add(e.load(visits, dtypes.int32, at, lanes=lanes, mask=mask), 1), at, mask=mask)

    rng = np.random.default_rng(1)
    a, b, c = operands(spec, rng, **full)
    before = c.copy()
    bias = rng.standard_normal(n).astype(dtype.np)
    out, visits = np.zeros((batch, m, n), dtype.np), np.zeros((batch, m, n), np.int32)
    made = gemm(HOST, spec, sink=sink)
    assert not made.needs_c
    Runner(made).prepare(a, b, c, (bias.ctypes.data, out.ctypes.data, visits.ctypes.data), **sizes)()
    product = expected(spec, a, b, c, m, n, full["k"], HOST.fma)
    assert np.array_equal(bits(out), bits((product + bias) * 2))
    assert np.all(visits == 1) and np.array_equal(bits(c), bits(before))


@pytest.mark.parametrize("m,n,k", [(64, 64, 64), (32, 128, 784), (784, 128, 32), (256, 256, 256), (1024, 1024, 1024)])
def test_two_threads_get_even_shares(m: int, n: int, k: int) -> None:
    for spec, sizes in ((GemmSpec(dtypes.float32, m, n, k), {}), (GemmSpec(dtypes.float32, m, n, k, tb=True), {})):
        made = gemm(HOST, spec)
        full = [sizes.get(s, v) for s, v in zip("mnk", (m, n, k))]
        tasks = made.kernels[-1].tasks(*full, 1)
        assert tasks >= 2 and (tasks % 2 == 0 or tasks >= 7)


def innermost(code: str) -> list[str]:
    """The loops of machine code that hold no other label."""
    out, start, label = [], 0, ""
    lines = code.split("\n")
    for i, line in enumerate(lines):
        if mark := re.match(r"(\.L\w+):", line):
            start, label = i, mark.group(1)
        elif (jump := re.match(r"\s+j\w+\s+(\.L\w+)", line)) and jump.group(1) == label:
            out.append("\n".join(lines[start:i]))
    return out


@pytest.mark.parametrize("target", [NAMED["x86-64"], NAMED["x86-64-v3"], NAMED["x86-64-v4"]], ids=lambda t: t.name)
def test_register_tiles_do_not_spill(target: Any) -> None:
    for dtype in (dtypes.float32, dtypes.float64):
        for m, n, k in ((64, 64, 64), (32, 128, 784), (300, 700, 500), (None, 128, 784)):
            for ta, tb in ((False, False), (True, False), (False, True)):
                for kernel in gemm(target, GemmSpec(dtype, m, n, k, ta, tb)).kernels:
                    if kernel.title == "gemm":
                        found = [loop for loop in innermost(assembly(kernel.text, target)) if "mul" in loop or "fmadd" in loop]
                        assert found
                        for loop in found:
                            assert not re.findall(r"mm\d+.*\(%rsp\)|\(%rsp\).*mm\d+", loop), (m, n, k, ta, tb)


@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize("m,n", [(1, 20), (15, 1), (1, 1), (40, 10), (16, 100)])
def test_thin_matrices_in_all_layouts(m: int, n: int, accumulate: bool) -> None:
    for k in (1, 4, 37):
        for layout in range(4):
            for sizes in ({}, {"m": m, "n": n}):
                spec = GemmSpec(dtypes.float32, None if sizes else m, None if sizes else n, k, layout % 2 == 1, layout > 1, accumulate=accumulate)
                check(spec, HOST, **sizes)


@pytest.mark.parametrize("n", [1, 2, 5])
def test_operands_that_are_broadcast(n):
    """A product reads its operands by strides, and a broadcast axis has none: sums over columns and rows, from NumPy."""
    rng = np.random.default_rng(n)
    w, row, column, one = (rng.integers(-8, 9, s).astype(np.float32) for s in ((32, 128), (1, 32), (128, 1), (1, 1)))
    cases = []
    for small, shape in ((row, (n, 32)), (one, (n, 32))):
        cases.append((lambda s, w, shape=shape: sg.matmul(sg.broadcast_to(s, shape), w), small, np.broadcast_to(small, shape) @ w))
        cases.append((lambda s, w, shape=shape: sg.matmul(sg.broadcast_to(sg.transpose(s), shape[::-1]), w, transpose_a=True), small,
                      np.broadcast_to(small, shape) @ w))
    for small, shape in ((column, (128, n)), (one, (128, n))):
        cases.append((lambda s, w, shape=shape: sg.matmul(w, sg.broadcast_to(s, shape)), small, w @ np.broadcast_to(small, shape)))
        cases.append((lambda s, w, shape=shape: sg.matmul(w, sg.broadcast_to(sg.transpose(s), shape[::-1]), transpose_b=True), small,
                      w @ np.broadcast_to(small, shape)))
    with sg.Session() as sess:
        for build, small, want in cases:
            s, p = sg.placeholder(sg.float32, small.shape), sg.placeholder(sg.float32, w.shape)
            np.testing.assert_array_equal(sess.run(build(s, p), {s: small, p: w}), want)


@pytest.mark.parametrize("transpose_b", [False, True])
@pytest.mark.parametrize("axes", [[0], [1], [2], [0, 2]])
@pytest.mark.parametrize("shape", [(3, 4, 1), (2, 17, 5), (4, 1, 1)])
def test_operands_that_are_reversed(shape, axes, transpose_b):
    """Batches one element apart, backwards: a stride of -1, which once meant "contiguous"."""
    rng = np.random.default_rng(0)
    x, z = rng.integers(-8, 9, shape).astype(np.float64), rng.integers(-8, 9, (shape[1] if transpose_b else 6, shape[2], shape[0])).astype(np.float64)
    order = [2, 0, 1] if transpose_b else [2, 1, 0]
    feeds = [sg.placeholder(sg.float64, a.shape) for a in (x, z)]
    turned = sg.reverse(sg.transpose(feeds[1] + 1.0, order), axes)
    want = np.flip(np.transpose(z + 1.0, order), axes)
    with sg.Session() as sess:
        got = sess.run(sg.matmul(feeds[0], turned, transpose_b=transpose_b), dict(zip(feeds, (x, z))))
    np.testing.assert_array_equal(got, x @ (want.swapaxes(1, 2) if transpose_b else want))
