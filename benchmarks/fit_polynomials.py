"""Fit the minimax polynomials of ``staticgraph/codegen/mathfn/coefficients.py`` and print that file. Needs mpmath.

    python benchmarks/fit_polynomials.py > staticgraph/codegen/mathfn/coefficients.py

Each fit minimises the largest error of a polynomial p against g under a weight w (the discrete Remez exchange on Chebyshev
points), with the smallest degree whose error is below 2**-bits. Three sets: for float32, for float64, and ``wide`` for float32
functions that compute in float64. Three to ten bits are to spare.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from mpmath import mp, mpf

mp.dps = 60
Function = Callable[[mpf], mpf]


def remez(g: Function, w: Function, a: mpf, b: mpf, degree: int, points: int = 40) -> tuple[list[mpf], mpf]:
    """Coefficients (constant term first) and the largest weighted error."""
    count = points * (degree + 2)
    xs = [(a + b) / 2 + (b - a) / 2 * mp.cos(mp.pi * (2 * i + 1) / (2 * count)) for i in range(count)][::-1]
    gs, ws = [g(x) for x in xs], [w(x) for x in xs]
    nodes = [round((1 - float(mp.cos(mp.pi * i / (degree + 1)))) / 2 * (count - 1)) for i in range(degree + 2)]
    for _ in range(30):
        rows = mp.matrix(degree + 2, degree + 2)
        right = mp.matrix(degree + 2, 1)
        for r, k in enumerate(nodes):
            for c in range(degree + 1):
                rows[r, c] = xs[k] ** c
            rows[r, degree + 1] = (-1) ** r / ws[k]
            right[r] = gs[k]
        solved = mp.lu_solve(rows, right)
        p = [solved[i] for i in range(degree + 1)]
        level = abs(solved[degree + 1])
        errors = [wk * (mp.polyval(p[::-1], x) - gk) for x, gk, wk in zip(xs, gs, ws)]
        # one extremum per run of equal sign, then the best consecutive degree + 2 of them
        peaks: list[int] = []
        for k, err in enumerate(errors):
            if peaks and (errors[peaks[-1]] > 0) == (err > 0):
                if abs(err) > abs(errors[peaks[-1]]):
                    peaks[-1] = k
            else:
                peaks.append(k)
        while len(peaks) > degree + 2:
            peaks.pop(0 if abs(errors[peaks[0]]) < abs(errors[peaks[-1]]) else -1)
        worst = max(abs(err) for err in errors)
        if len(peaks) < degree + 2 or worst < level * mpf("1.01"):
            break
        nodes = peaks
    return p, worst


def fit(g: Function, w: Function, a: float, b: float, bits: float, start: int) -> list[mpf]:
    for degree in range(start, 40):
        p, worst = remez(g, w, mpf(a), mpf(b), degree)
        if worst < mpf(2) ** -bits:
            print(f"degree {degree}, error 2**{float(mp.log(worst, 2)):.1f}", file=sys.stderr)
            return p
    raise ValueError("no degree below 40 is enough")


def odd(f: Function) -> tuple[Function, Function]:
    """p(z) with f(x) = x + x**3 p(x*x), relative to f."""
    return (lambda z: (f(mp.sqrt(z)) / mp.sqrt(z) - 1) / z), (lambda z: mp.sqrt(z) ** 3 / f(mp.sqrt(z)))


def atanh2(z: mpf) -> mpf:
    s = mp.sqrt(z)
    return 2 * mp.atanh(s)


EPS = 1e-30                                             # in place of 0, where the quotients are limits
HALF_LN2, QUARTER_PI = 0.34664, 0.7860
LOG_Z = 0.02945                                         # ((sqrt(2) - 1) / (sqrt(2) + 1))**2 and a little
FITS: dict[str, tuple[str, Function, Function, float, float, int]] = {
    "EXP": ("e**r = 1 + r + r**2 p(r), |r| <= ln(2)/2", lambda r: (mp.expm1(r) - r) / r ** 2, lambda r: r ** 2 / mp.exp(r),
            -HALF_LN2, HALF_LN2, 3),
    "LOG": ("2 atanh(s) = 2 s + s z p(z), z = s*s", lambda z: (atanh2(z) / mp.sqrt(z) - 2) / z,
            lambda z: mp.sqrt(z) * z / atanh2(z), EPS, LOG_Z, 1),
    "SIN": ("sin r = r + r**3 p(r*r), |r| <= pi/4", *odd(mp.sin), EPS, QUARTER_PI ** 2, 1),
    "COS": ("cos r = 1 - z/2 + z**2 p(z), z = r*r", lambda z: (mp.cos(mp.sqrt(z)) - 1 + z / 2) / z ** 2,
            lambda z: z ** 2 / mp.cos(mp.sqrt(z)), EPS, QUARTER_PI ** 2, 1),
    "TANH": ("tanh x = x + x**3 p(x*x), |x| <= 0.6", *odd(mp.tanh), EPS, 0.3601, 2),
    "SINH": ("sinh x = x + x**3 p(x*x), |x| <= 1", *odd(mp.sinh), EPS, 1.001, 2),
    "ASIN": ("asin x = x + x**3 p(x*x), |x| <= 1/2 (0.55 in F32)", *odd(mp.asin), EPS, 0.2501, 2),
    "ATAN": ("atan x = x + x**3 p(x*x), |x| <= tan(pi/8) (1/2 in F32)", *odd(mp.atan), EPS, 0.1717, 2),
    "ERF": ("erf x = x + x p(x*x), |x| <= 1", lambda z: mp.erf(mp.sqrt(z)) / mp.sqrt(z) - 1,
            lambda z: mp.sqrt(z) / mp.erf(mp.sqrt(z)), EPS, 1.001, 4),
}
FURTHER = {"ASIN_F32": 0.3026, "ATAN_F32": 0.2501}       # where float32 must not change to the other formula earlier
BITS = {"F32": 27.3, "WIDE": 34, "F64": 57}


def ratio(t: mpf) -> mpf:
    x = 4 * (1 + t) / (1 - t)                            # t = (x - 4) / (x + 4)
    return mp.exp(x * x) * mp.erfc(x) * (1 + 2 * x)


def split(value: mpf, *bits: int) -> list[mpf]:
    """Consecutive pieces of ``value`` with so many bits each: their sum is ``value`` to the sum of the bits."""
    out = []
    for n in bits:
        unit = mpf(2) ** (mp.floor(mp.log(abs(value), 2)) + 1 - n)
        out.append(mp.nint(value / unit) * unit)
        value -= out[-1]
    return out


def constants() -> list[tuple[str, str, list[mpf]]]:
    """Leading pieces are short enough for exact products: with exponents (LN2, LOG10_2), quadrants (HALF_PI) or mantissa heads."""
    half_pi = mp.pi / 2
    return [("LN2_F32", "ln 2", split(mp.ln(2), 16, 24)), ("LN2_F64", "ln 2", split(mp.ln(2), 42, 53)),
            ("LOG2E_F32", "1 / ln 2", split(1 / mp.ln(2), 12, 24)), ("LOG2E_F64", "1 / ln 2", split(1 / mp.ln(2), 21, 53)),
            ("LOG10E_F32", "1 / ln 10", split(1 / mp.ln(10), 12, 24)), ("LOG10E_F64", "1 / ln 10", split(1 / mp.ln(10), 21, 53)),
            ("LOG10_2_F32", "log10 2", split(mp.log10(2), 15, 24)), ("LOG10_2_F64", "log10 2", split(mp.log10(2), 41, 53)),
            ("HALF_PI_F32", "pi/2", split(half_pi, 24, 24, 24)), ("HALF_PI_F64", "pi/2", split(half_pi, 53, 53, 53)),
            ("HALF_PI_SHORT", "pi/2, for products without fma", split(half_pi, 33, 33, 53)),
            ("TWO_THIRDS", "2/3", split(mpf(2) / 3, 53, 53))]


def main() -> None:
    mp.dps = 420
    words = [int(mp.floor(mp.ldexp(2 / mp.pi, 64 * (i + 1)))) & (2 ** 64 - 1) for i in range(21)]
    mp.dps = 60
    print('"""Minimax coefficients, constant term first. Generated by benchmarks/fit_polynomials.py: do not edit."""\n')
    print("from __future__ import annotations\n")
    out: list[tuple[str, str, list[mpf]]] = []
    for name, (what, g, w, a, b, start) in FITS.items():
        for kind, bits in BITS.items():
            print(name, kind, file=sys.stderr, end=" ")
            out.append((f"{name}_{kind}", what, fit(g, w, a, FURTHER.get(f"{name}_{kind}", b), bits, start)))
    out.append(("LOG_F32_PLAIN", "log1p f = f - f**2/2 + f**3 p(f), sqrt(1/2) <= 1+f <= sqrt(2)", fit(
        lambda f: (mp.log1p(f) - f + f * f / 2) / f ** 3, lambda f: f ** 3 / mp.log1p(f), -0.2929, 0.41422, 27.3, 6)))
    out.append(("LOG_TAIL", "2 atanh(s) = 2 s + 2/3 s**3 + s**5 p(s*s), to 2**-68", fit(
        lambda z: ((atanh2(z) / mp.sqrt(z) - 2) / z - mpf(2) / 3) / z, lambda z: mp.sqrt(z) ** 5 / atanh2(z), EPS, LOG_Z, 68, 4)))
    out.append(("ERF_F32_FAR", "erf x = 1 - p(x - 5/2), 1 <= x <= 4", fit(
        lambda u: mp.erfc(u + mpf(5) / 2), lambda u: mpf(1), -1.501, 1.501, 27, 8)))
    # t runs to (27.5 - 4) / (27.5 + 4) for float64 and (10.5 - 4) / (10.5 + 4) for float32
    out.append(("ERFCX_F64", "exp(x*x) erfc(x) (1 + 2x) = p(t), t = (x - 4) / (x + 4)", fit(
        ratio, lambda t: 1 / ratio(t), -1, 0.7461, 56, 16)))
    out.append(("ERFCX_WIDE", "the same", fit(ratio, lambda t: 1 / ratio(t), -1, 0.4483, 34, 8)))
    out.append(("CBRT_START", "cbrt m, 2**(-3/2) <= m <= 2**(3/2)", fit(mp.cbrt, lambda m: 1 / mp.cbrt(m), 0.3535, 2.8285, 9, 2)))
    out += constants()
    for label, what, p in out:
        print(f"# {what}")
        rows = [f"    {float(c)!r}," for c in p]
        print(f"{label} = (\n" + "\n".join(rows) + "\n)")
    print("# the first 1344 bits of 2/pi, 64 a word")
    print("TWO_OVER_PI = (\n" + "\n".join(f"    0x{w:016X}," for w in words) + "\n)")


if __name__ == "__main__":
    main()
