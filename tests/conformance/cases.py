"""Hard cases with right answers, as small programs: each in every mode that exists.

    python tests/conformance/cases.py FILE [ID ...]

FILE holds one case per line (JSON). A program case passes when its values and gradients are as expected in each mode: compiled with
all passes, compiled as written, define-by-run, exported, and by forward differentiation where it names gradients. A scenario is a function of
``scenarios.py``. Prints ``passed P of N`` last.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))

import export_scenarios
from native import Case
from scenarios import SCENARIOS

import staticgraph as sg
import staticgraph.dynamic as dy
from staticgraph.config import Config
from staticgraph.dtypes import as_dtype
from staticgraph.errors import InvalidArgumentError
from staticgraph.surface.funnel import emit
from staticgraph.transforms.jvp import jvp


def array(spec: dict[str, Any]) -> np.ndarray[Any, Any]:
    """A case's array: ``data`` with names for the values JSON lacks, or one value everywhere (``fill``)."""
    dtype = np.dtype(spec["dtype"])
    if "fill" in spec:
        return np.full(spec["shape"], spec["fill"], dtype)
    data = [float(v) if isinstance(v, str) else v for v in spec["data"]]
    return np.array(data, object if dtype.kind in "iu" else dtype).astype(dtype).reshape(spec["shape"])


# ---- the verbs of the programs, on any builder -------------------------------------------------------------------------------

_SAME = ["abs", "add", "ceil", "clip", "div", "equal", "exp", "floordiv", "gather", "greater", "greater_equal", "less", "log", "log_softmax", "maximum", "minimum", "mul", "neg", "pow", "reciprocal", "relu", "softmax", "sqrt", "square", "sub", "truncdiv", "truncmod", "where", "cumsum", "norm", "scatter_add", "logsumexp"]
_RENAMED = {"mod": "floormod", "isnan": "is_nan", "isfinite": "is_finite", "shift_left": "left_shift", "shift_right": "right_shift",
            "reduce_sum": "sum", "reduce_max": "max", "reduce_mean": "mean", "reduce_prod": "prod"}


def verb(b: Any, name: str, args: list[Any], attrs: dict[str, Any]) -> Any:
    """One step of a program."""
    if name in ("reduce_sum", "reduce_max", "reduce_mean", "reduce_prod"):
        axis = attrs.get("axis")
        return getattr(b, _RENAMED[name])(*args, axis=None if axis is None else (axis,))
    if name in ("norm", "logsumexp"):
        return getattr(b, name)(*args, axis=None)
    if name == "cast":
        return b.cast(*args, dtype=as_dtype(attrs["to"]))
    if name == "cast_float":
        return b.cast(*args, dtype=as_dtype("float32"))
    if name == "broadcast_to":
        return b.broadcast_to(*args, shape=tuple(attrs["shape"]))
    if name == "slice0":
        for k in attrs["index"]:
            row = b.slice(args[0], starts=(k, *(0,) * (len(args[0].shape) - 1)), sizes=(1, *args[0].shape[1:]), steps=(1,) * len(args[0].shape))
            args = [b.squeeze(row, axis=(0,))]
        return args[0]
    if name == "max_pool2d":
        w, s = attrs["window"], attrs["stride"]
        return b.max_pool2d(*args, ksize=(w, w), strides=(s, s), padding="VALID", data_format="NCHW")
    if name == "conv2d":
        s, p, d = attrs["stride"], attrs["pad"], attrs["dilation"]
        x, w = args
        return b.conv2d(x, b.transpose(w, perm=(2, 3, 1, 0)), strides=(s, s), padding=((p, p), (p, p)), data_format="NCHW", dilations=(d, d))
    if name in _RENAMED or name in _SAME:
        return getattr(b, _RENAMED.get(name, name))(*args, **attrs)
    raise NotImplementedError(f"no verb {name} yet")


def program(b: Any, case: dict[str, Any], inputs: dict[str, Any]) -> dict[str, Any]:
    """All named values of a case's program."""
    values = dict(inputs)
    for target, name, args, *rest in case["program"]:
        values[target] = verb(b, name, [values[a] if isinstance(a, str) else a for a in args], rest[0] if rest else {})
    return values


def gradient_names(case: dict[str, Any]) -> list[tuple[str, str]]:
    """(output, input) of each gradient asked for."""
    return [(g["of"], x) for g in case["grads"] for x in g["wrt"]]


# ---- modes -------------------------------------------------------------------------------------------------------------------


def compiled(case: dict[str, Any], arrays: dict[str, Any], optimize: str) -> dict[str, Any]:
    """Values and reverse gradients of one native program."""
    c = Case()
    nodes = {k: c.feed(v) for k, v in arrays.items()}
    values = program(c.b, case, nodes)
    pairs = gradient_names(case)
    wanted = {o: values[o] for o in case["outputs"]}
    wanted |= {f"d{y}/d{x}": c.b.gradients([values[y]], [nodes[x]])[0] for y, x in pairs}
    c.outputs = list(wanted.values())
    return dict(zip(wanted, c.run(Config(optimize=optimize))))


def forward(case: dict[str, Any], arrays: dict[str, Any]) -> dict[str, Any]:
    """The gradients of scalars by one tangent per input element; nothing for large inputs."""
    c = Case()
    nodes = {k: c.feed(v) for k, v in arrays.items()}
    values = program(c.b, case, nodes)
    wanted: dict[Any, Any] = {}
    for y, x in gradient_names(case):
        if arrays[x].size > 100:
            continue
        for k in range(arrays[x].size):
            e = np.zeros(arrays[x].size, arrays[x].dtype)
            e[k] = 1
            wanted[y, x, k] = jvp(c.b, [values[y]], {nodes[x]: c.b.const(e.reshape(arrays[x].shape))})[0]
    c.outputs = list(wanted.values())
    got = dict(zip(wanted, c.run()))
    return {f"d{y}/d{x}": np.array([got[y, x, k] for k in range(arrays[x].size)]).reshape(arrays[x].shape)
            for y, x in gradient_names(case) if (y, x, 0) in got}


def dynamic(case: dict[str, Any], arrays: dict[str, Any]) -> dict[str, Any]:
    """Define-by-run."""
    inputs = {k: dy.tensor(v, requires_grad=v.dtype.kind == "f") for k, v in arrays.items()}
    values = program(dy, case, inputs)
    out = {o: values[o].detach().numpy() for o in case["outputs"]}
    for y, x in gradient_names(case):
        out[f"d{y}/d{x}"] = dy.grad([values[y]], [inputs[x]], retain_graph=True)[0].detach().numpy()
    return out


def exported(case: dict[str, Any], arrays: dict[str, Any]) -> dict[str, Any]:
    """A session's run, and the same from an exported object: equal to the last bit."""
    if shutil.which("cc") is None and shutil.which("ld") is None:
        return {}
    pairs = gradient_names(case)
    names = [*case["outputs"], *(f"d{y}/d{x}" for y, x in pairs)]

    def build(b: Any, *nodes: Any) -> tuple[Any, ...]:
        inputs = dict(zip(arrays, nodes))
        values = program(b, case, inputs)
        return (*(values[o] for o in case["outputs"]), *(b.gradients([values[y]], [inputs[x]])[0] for y, x in pairs))
    with sg.Graph().as_default(), sg.Session() as sess, tempfile.TemporaryDirectory() as folder:
        feeds = [sg.placeholder(v.dtype, v.shape) for v in arrays.values()]
        outs = emit("Program", "program", feeds, build)
        want = sess.run(list(outs), dict(zip(feeds, arrays.values())))
        made = sg.export.shared_object(Path(folder) / "case.so", {f"i{k}": t for k, t in enumerate(feeds)}, {f"o{k}": t for k, t in enumerate(outs)}, sess)
        with_no_python = sg.export.load(made.path)
        got = with_no_python(**{f"i{k}": v for k, v in enumerate(arrays.values())})
        with_no_python.close()
    for k, w in enumerate(want):
        if np.asarray(w).tobytes() != got[f"o{k}"].tobytes():
            raise AssertionError(f"{names[k]} exported is {str(got[f'o{k}'])[:80]}, in the session {str(w)[:80]}")
    return dict(zip(names, want))


MODES = {"optimised": lambda c, a: compiled(c, a, "O2"), "unoptimised": lambda c, a: compiled(c, a, "O0"), "dynamic": dynamic, "forward": forward, "exported": exported}

# ---- what is right -----------------------------------------------------------------------------------------------------------


def equal(got: Any, want: Any, tol: dict[str, float], signs: bool) -> bool:
    """Within the case's tolerance; NaN equals NaN; exact cases also compare the sign of zero."""
    got, want = np.asarray(got), np.asarray(want)
    if got.shape != want.shape:
        return False
    if got.dtype.kind in "iub":
        return bool((got == want.astype(got.dtype)).all())
    with np.errstate(all="ignore"):
        near = np.isclose(got.astype(np.float64), want.astype(np.float64), tol["rtol"], tol["atol"], equal_nan=True)
    if signs and want.dtype.kind == "f":
        near &= np.isnan(want) | (want != 0) | (np.signbit(got) == np.signbit(want))
    return bool(near.all())


def pick(results: dict[str, Any], name: str) -> Any:
    """``y``, ``y[1:5]``, ``sum(dy/dx)`` of the results; None when the mode did not compute it."""
    if name.startswith("sum("):
        got = pick(results, name[4:-1])
        return None if got is None else got.astype(np.float64).sum()
    base, _, index = name.partition("[")
    if base not in results:
        return None
    if not index:
        return results[base]
    start, _, stop = index.rstrip("]").partition(":")
    return results[base][int(start):int(stop)]


def wrong(case: dict[str, Any], results: dict[str, Any]) -> list[str]:
    """What differs from the case's expectations."""
    faults = []
    for name, expect in case["expect"].items():
        if name == "or_exception" or "rule" in expect or (got := pick(results, name)) is None:
            continue
        tol = case["tol"]
        if "eq" in expect:
            good = equal(got, array(expect["eq"]), tol, tol["rtol"] == 0)
        elif "any_of" in expect:
            good = any(equal(got, array(w), tol, False) for w in expect["any_of"])
        else:
            low, high = (array(w) for w in expect["within"])
            good = np.shape(got) == low.shape and bool(((got >= low - tol["atol"]) & (got <= high + tol["atol"])).all())
        if not good:
            faults.append(f"{name} = {str(got)[:120]}")
    return faults


def run(case: dict[str, Any]) -> list[str]:
    """Faults of a program case in all modes."""
    arrays = {k: array(v) for k, v in case["inputs"].items()}
    faults = []
    seen: dict[str, Any] = {}
    for mode, evaluate in MODES.items():
        try:
            results = evaluate(case, arrays)
        except InvalidArgumentError as e:
            if "or_exception" not in case["expect"]:
                faults.append(f"{mode}: {e}")
            continue
        faults += [f"{mode}: {f}" for f in wrong(case, results)]
        for name, value in results.items():
            first = seen.setdefault(name, value)
            if np.asarray(value).dtype != np.asarray(first).dtype or not equal(value, first, {"rtol": 1e-5, "atol": max(case["tol"]["atol"], 1e-12)}, False):
                faults.append(f"{mode}: {name} = {str(value)[:80]}, in another mode {str(first)[:80]}")
    return faults


def scenario(name: str) -> list[str]:
    """Faults of a scenario."""
    found = SCENARIOS.get(name) or export_scenarios.SCENARIOS.get(name)
    if found is None:
        return ["there is no function for this scenario yet"]
    try:
        found()
    except (AssertionError, export_scenarios.Missing) as error:
        return [str(error)[:200] or "a condition does not hold"]
    return []


def main(argv: list[str]) -> int:
    """Run the file's program cases, or those named."""
    if not argv or argv[0].startswith("-"):
        print(__doc__)
        return 2
    cases = [json.loads(line) for line in Path(argv[0]).read_text().splitlines() if line.strip()]
    chosen = [c for c in cases if not argv[1:] or c["id"] in argv[1:]]
    good = 0
    for case in chosen:
        try:
            faults = run(case) if case["form"] == "program" else scenario(case["id"])
        except Exception as e:
            faults = [f"{type(e).__name__}: {e}"]
        good += not faults
        for f in faults:
            print(f"{case['id']} {case['what'][:60]}: {f}")
    print(f"passed {good} of {len(chosen)}")
    return int(good < len(chosen))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
