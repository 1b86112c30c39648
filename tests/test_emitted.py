"""Functions of the emitter, run on chosen targets: within their ulp limits, the same bits on all targets with FMA, and without a library.

The reference is NumPy's float64 function. x86-64 has no FMA, x86-64-v4 has instructions for exponents and mantissas that v3 has not.
"""

from __future__ import annotations

import numpy as np
import pytest
from emitted import elementwise_text, run, undefined_symbols

from staticgraph.codegen.target import NAMED, host
from staticgraph.dtypes import float32, float64

V1, V3, V4 = NAMED["x86-64"], NAMED["x86-64-v3"], NAMED["x86-64-v4"]
NEEDS = {V1: (), V3: ("avx2", "fma", "f16c"), V4: ("avx512f", "avx512bw", "avx512dq", "avx512vl")}


def _sigmoid(x):
    t = np.exp(-np.abs(x))
    return np.where(x < 0, t, 1.0) / (1 + t)


FUNCTIONS = {"sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "tanh": np.tanh,
             "sinh": np.sinh, "cosh": np.cosh, "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "log": np.log, "log2": np.log2,
             "log10": np.log10, "log1p": np.log1p, "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh, "sigmoid": _sigmoid, "cbrt": np.cbrt,
             "softplus": lambda x: np.logaddexp(0, x)}


def here(target):
    """The target, if this processor can run its code; else the test is skipped."""
    if not host().triple.startswith("x86_64") or not all(host().has(f) for f in NEEDS[target]):
        pytest.skip(f"this processor does not run {target.name}")
    return target


def method(name):
    """The emitter's function; one object per name, so that a compiled kernel is found again."""
    return _METHODS.setdefault(name, lambda e, x: getattr(e, name)(x))


_METHODS: dict = {}


def singles():
    """Every 12,289th float32 of all of them, the neighbours of multiples of pi/4 and of powers of two, and the hardest for sine and cosine."""
    spread = np.arange(0, 2 ** 32, 12289, dtype=np.uint64).astype(np.uint32).view(np.float32)
    turns = (np.arange(1, 40001) * (np.pi / 4)).astype(np.float32)
    powers = np.ldexp(np.float32(1), np.arange(-149, 128)).astype(np.float32)
    # 16367173 * 2**72 is the float32 closest to a multiple of pi/2 (Muller, Elementary Functions, 3rd edition, table 11.2)
    hard = np.array([np.ldexp(16367173.0, 72), 0.5, 0.55, 30000.0, 3.0e4 + 2 ** -9, 0.0, np.inf, np.nan, 1.0, 2 ** 120], np.float32)
    near = np.concatenate([turns, powers, hard])
    near = np.concatenate([near, np.nextafter(near, np.float32(-np.inf)), np.nextafter(near, np.float32(np.inf))])
    return np.concatenate([spread, near, -near])


X32 = singles()


def doubles():
    """float64 numbers of all sizes, and neighbours of multiples of pi/4 and powers of two."""
    rng = np.random.default_rng(5)
    bits = rng.integers(0, 2 ** 64, 100_000, dtype=np.uint64, endpoint=False).view(np.float64)
    near = np.concatenate([np.arange(1, 5001) * (np.pi / 4), np.ldexp(1.0, np.arange(-1074, 1024)), [0.0, np.inf, np.nan, 0.5, 0.6]])
    near = np.concatenate([near, np.nextafter(near, -np.inf), np.nextafter(near, np.inf)])
    return np.concatenate([bits, rng.normal(0, 3, 50_000), near, -near])


@pytest.mark.parametrize("target", [V1, V3, V4], ids=lambda t: t.name)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_float32_functions_are_within_two_ulp_of_the_true_value(name, target):
    with np.errstate(all="ignore"):
        want = FUNCTIONS[name](X32.astype(np.float64))
        got = run(method(name), X32, target=here(target))
        rounded = want.astype(np.float32)
        finite = np.isfinite(rounded)
        off = np.abs(got[finite].astype(np.float64) - want[finite]) / np.spacing(np.abs(rounded[finite]))
    assert off.max() <= 2.0, f"{X32[finite][off.argmax()]!r}"
    np.testing.assert_array_equal(got[~finite], rounded[~finite])
    zero = finite & (want == 0)
    np.testing.assert_array_equal(np.signbit(got[zero]), np.signbit(want[zero]))


def same_bits(a, b):
    """Arrays of one dtype, equal bit for bit where they are numbers."""
    np.testing.assert_array_equal(np.isnan(a), np.isnan(b))
    raw = np.dtype(f"u{a.itemsize}")
    np.testing.assert_array_equal(a.view(raw)[~np.isnan(a)], b.view(raw)[~np.isnan(b)])


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_target_with_fma_gives_the_same_bits(name):
    here(V4)
    for x in (X32, doubles()):
        same_bits(run(method(name), x, target=V3), run(method(name), x, target=V4))


@pytest.mark.parametrize("name", ["sin", "atan", "log", "tanh"])
def test_bits_do_not_depend_on_the_number_of_lanes(name):
    x = X32[::7]
    whole = run(method(name), x, target=here(V4))
    for lanes in (1, 4, 32):
        same_bits(run(method(name), x, lanes=lanes, target=V4), whole)


@pytest.mark.parametrize("target", [V1, V3, V4], ids=lambda t: t.name)
@pytest.mark.parametrize("dtype", [float32, float64], ids=lambda d: d.name)
def test_functions_leave_no_symbol_to_the_linker(dtype, target):
    def all_of_them(e, x):
        total = x
        for name in FUNCTIONS:
            total = e.add(total, getattr(e, name)(x))
        return total
    assert undefined_symbols(elementwise_text(all_of_them, (dtype,), dtype, target.lanes(dtype), target), target) == set()
