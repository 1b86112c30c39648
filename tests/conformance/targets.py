"""Every operation's samples, and programs, as code of every target: no symbol is left open, and where the code runs here its bits are those of its class.

    python tests/conformance/targets.py [TARGET ...]

Targets with fused multiply-add are compared with the session, the others with ``x86-64``. aarch64 needs qemu-user, wasm32 needs Node, both need
the package ziglang; what cannot be run is compiled only, and the line says so. Prints ``passed P of N`` last.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from exported import MODELS
from foreign import case_of, emulator, function, large, operations, run, same_values, training
from native import run as run_session
from objects import undefined

from staticgraph.codegen.target import NAMED, host


def runs(name):
    """Whether code of the target can be run here."""
    if name == "wasm32":
        return bool(shutil.which("node"))
    if name == "aarch64-linux":
        return bool(emulator())
    return name in ("x86-64", "x86-64-v2") or (name == "x86-64-v3" and host().has("avx2")) or (name == "x86-64-v4" and host().masked)


def checked(name, cases, wanted, folder):
    """(passed, number) of one target; prints what fails. ``wanted``: results of this class of targets, filled by its first member."""
    target, functions, failed = NAMED[name], [], 0
    for op, case in cases:
        functions.append(function(f"f_{op.name}", case, target))
    programs = [large(target, folder), *(training(m, target, folder) for m in MODELS)]
    functions += [f for f, _ in programs]
    if runs(name):
        run(functions, folder, target)
    if target.fma and not wanted:
        wanted += [run_session(case.executable(), case) for _, case in cases] + [values for _, values in programs]
    if runs(name) and not wanted:
        wanted += [f.outputs for f in functions]
    for k, f in enumerate(functions):
        names = undefined(f.code)
        equal = not runs(name) or all(map(same_values, f.outputs, wanted[k]))
        failed += bool(names) or not equal
        if names or not equal:
            print(f"{name} {f.symbol}: {'undefined ' + ', '.join(names) if names else 'other bits'}")
    print(f"{name}: {len(functions) - failed} of {len(functions)}, {'run' if runs(name) else 'compiled only'}", flush=True)
    return len(functions) - failed, len(functions)


def main(names):
    """Check the named targets, or all."""
    if unknown := [name for name in names if name not in NAMED]:
        raise SystemExit(f"unknown target {unknown[0]!r}; there are {', '.join(NAMED)}")
    cases = [(op, case) for op in operations() if (case := case_of(op)) is not None]
    classes = {True: [], False: []}
    counts = []
    names = list(names or NAMED)
    if not all(NAMED[name].fma for name in names):           # what the second class is compared with
        names = ["x86-64", *(name for name in names if name != "x86-64")]
    if not host().fma:
        raise SystemExit("this processor has no fused multiply-add: the session's bits are not those of the first class")
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            counts.append(checked(name, cases, classes[NAMED[name].fma], Path(folder)))
    passed, total = (sum(column) for column in zip(*counts))
    print(f"passed {passed} of {total}")
    return passed != total


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
