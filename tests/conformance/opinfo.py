"""Samples of operations with values, gradients and tangents against our own: each compiled, in the dtype of the sample.

    python tests/conformance/opinfo.py DIR [NAME ...]

DIR holds ``manifest.jsonl`` and ``data.npz``. Gradients and tangents are those of float64 in the samples. Prints what failed, the operations
without an entry in ``opinfo_table.py``, and ``passed P of N`` last.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from pathlib import Path

import numpy as np
from opinfo_table import OPS

import staticgraph as sg

# of integers these are the identity or a matter of course: refused as in TF1, like arithmetic of truth values
INTEGERS_REFUSED = {"ceil", "floor", "round", "isfinite", "isinf", "isnan", "isposinf", "isneginf", "nansum", "nn.functional.relu6",
                    "nn.functional.conv1d", "nn.functional.conv2d", "nn.functional.hardtanh"}
TOLERANCE = {"float64": (1e-7, 1e-9), "float32": (2e-4, 2e-5)}


class Samples:
    """The file of samples and its arrays."""

    def __init__(self, folder: Path) -> None:
        with np.load(folder / "data.npz") as data:
            self.data = {name: data[name] for name in data.files}
        self.cases = [json.loads(line) for line in (folder / "manifest.jsonl").read_text().splitlines()]

    def array(self, x):
        """An array of the file."""
        dtype, start, shape = x["t"]
        return self.data[dtype][start:start + int(np.prod(shape, dtype=int))].reshape(shape)

    def decode(self, x, leaf):
        """An argument with ``leaf`` of each array in it."""
        if not isinstance(x, dict):
            return x
        (kind, value), = x.items()
        if kind == "t":
            return leaf(self.array(x))
        if kind in ("l", "u"):
            return {"l": list, "u": tuple}[kind](self.decode(v, leaf) for v in value)
        return {"f": float, "s": lambda v: slice(*v), "e": lambda v: Ellipsis, "dtype": np.dtype}[kind](value)


def flat(y):
    """Tensors of a result in order."""
    return [v for x in y for v in flat(x)] if isinstance(y, (list, tuple)) else [y]


def close(got, want, rtol, atol):
    """Equal in shape, and near."""
    got = np.asarray(got)
    return got.shape == want.shape and np.allclose(got.astype(np.float64), want.astype(np.float64), rtol=rtol, atol=atol, equal_nan=True)


def failures(samples, case):
    """What of the sample is not as it should be; None where there is no entry."""
    f = OPS.get(case["op"])
    if f is None:
        return None
    rtol, atol = TOLERANCE.get(case["dtype"], TOLERANCE["float32"])
    # the samples compute with integers as with float32, and with truth values as with integers; here a program says so
    promoted = case["dtype"] in ("int64", "bool") and case["out_dtypes"] == ["float32"]
    with sg.Graph().as_default(), sg.Session() as session:
        feeds = {}

        def leaf(a):
            x = sg.placeholder(a.dtype, a.shape)
            feeds[x] = a
            return sg.cast(x, "float32") if promoted else x
        args = [samples.decode(x, leaf) for x in case["args"]]
        kwargs = {k: samples.decode(x, leaf) for k, x in case["kwargs"].items()}
        inputs = list(feeds)
        out = f(*args, **kwargs)
        if out is None or any(y is None for y in flat(out)):
            return None
        out = flat(out)
        fetches = {"values": out}
        differentiable = case.get("grad") and all(c is not None for c in case["cot"])
        floats = [y for y in out if y.dtype.is_floating]
        if differentiable:
            cotangents = [sg.constant(samples.array(c), y.dtype) for c, y in zip(case["cot"], floats, strict=True)]
            xs = [inputs[k] for k in case["wrt"]]
            found = sg.gradients(floats, xs, grad_ys=cotangents, unconnected_gradients="zero")
            fetches["gradients"] = [sg.convert_to_tensor(g) for g in found]                   # rows of a table are added up
        got = session.run(fetches, feeds)
        bad = [f"value {k}: {y!r} for {samples.array(w)!r}" for k, (y, w) in enumerate(zip(got["values"], case["out"], strict=True))
               if not close(y, samples.array(w), rtol, atol)]
        if differentiable:
            bad += [f"gradient {k}: {y!r} for {samples.array(w)!r}" for k, (y, w) in enumerate(zip(got["gradients"], case["grad"], strict=True))
                    if w is not None and not close(y, samples.array(w), 10 * rtol, 10 * atol)]
        if not bad and differentiable and case.get("jvp") and all(t is not None for t in case["tan"]):
            bad += _tangents(samples, case, f, list(feeds.values()), rtol, atol)
    return bad


def _tangents(samples, case, f, arrays, rtol, atol):
    """The derivative along the sample's directions."""
    def of(*moving):
        rest = dict(zip(case["wrt"], moving, strict=True))
        values = iter([rest.get(k, a) for k, a in enumerate(arrays)])
        leaf = lambda a: sg.convert_to_tensor(next(values))
        args = [samples.decode(x, leaf) for x in case["args"]]                                    # floats: nothing is promoted
        out = flat(f(*args, **{k: samples.decode(x, leaf) for k, x in case["kwargs"].items()}))
        return [y for y in out if y.dtype.is_floating]
    primals = [arrays[k] for k in case["wrt"]]
    _, got = sg.jvp(of, primals, [samples.array(t).astype(p.dtype) for t, p in zip(case["tan"], primals, strict=True)])
    return [f"tangent {k}: {y!r} for {samples.array(w)!r}" for k, (y, w) in enumerate(zip(got, case["jvp"], strict=True))
            if w is not None and not close(y, samples.array(w), 10 * rtol, 10 * atol)]


def main() -> int:
    """Run the samples."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", help="only these operations")
    given = parser.parse_args()
    samples = Samples(given.folder)
    passed, wrong, refused, absent = 0, 0, 0, Counter()
    for case in samples.cases:
        if given.names and case["op"] not in given.names:
            continue
        try:
            bad = failures(samples, case)
        except sg.errors.DTypeError as error:
            if case["dtype"] == "bool" or (case["op"] in INTEGERS_REFUSED and case["dtype"] == "int64"):
                refused += 1
                continue
            bad = [str(error).splitlines()[0]]
        except Exception as error:
            bad = [f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"]
        if bad is None:
            absent[case["op"]] += 1
        elif bad:
            wrong += 1
            print(f"{case['id']}: " + "; ".join(" ".join(b.split())[:300] for b in bad))
        else:
            passed += 1
    if absent:
        print(f"without an entry: {sum(absent.values())} samples of {len(absent)} operations: {' '.join(sorted(absent))}")
    print(f"refused with a clear error, by TF1's rules: {refused} samples of truth values and integers")
    print(f"passed {passed} of {passed + wrong + refused + sum(absent.values())}")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
