"""The hard cases about exports. Each needs a C compiler; HC115 also objdump and valgrind. What is missing is said, and then nothing is claimed."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np

import staticgraph as sg


class Missing(RuntimeError):
    """A tool that the scenario needs is not installed."""


def _tool(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise Missing(f"{name} is not installed")
    return found


def _export(path: Path, fn, x, **options):
    """``fn`` of one float64 input as an export."""
    with sg.Graph().as_default(), sg.Session() as sess:
        p = sg.placeholder(sg.float64, x.shape)
        return sg.export.shared_object(path, {"x": p}, {"y": fn(p)}, sess, **options)


def _run_c(folder: Path, source: str, objects, *flags: str, under: tuple[str, ...] = ()) -> str:
    main = folder / "main.c"
    main.write_text(source)
    made = subprocess.run([_tool("cc"), "-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-I", str(folder), str(main), *map(str, objects), f"-Wl,-rpath,{folder}",
                    *flags, "-o", str(folder / "main")], capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    done = subprocess.run([*under, str(folder / "main")], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


class _Call(ctypes.Structure):
    _fields_ = [("workspace", ctypes.c_void_p), ("bytes", ctypes.c_int64), ("parallel", ctypes.c_void_p), ("pool", ctypes.c_void_p), ("cancel", ctypes.c_void_p),
                ("error", ctypes.c_int64 * 7)]


def _direct(library, x):
    """f_run of a library loaded by ctypes alone."""
    y, room = np.zeros_like(x), np.zeros(1 << 16, np.uint8)
    inputs, outputs, call = (ctypes.c_void_p * 1)(x.ctypes.data), (ctypes.c_void_p * 1)(y.ctypes.data), _Call((room.ctypes.data + 63) // 64 * 64, 1 << 15)
    assert library.f_run(inputs, outputs, ctypes.byref(call)) == 0
    return y


def hc111() -> None:
    """Two objects with the same function names."""
    x = np.array([1.0, 2.0])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for k, fn in enumerate((lambda p: p + 1.0, lambda p: p * 10.0)):
            for order in "ab":
                _export(folder / f"f{k}{order}.so", fn, x, name="f")
        for order, flags in (("a", ctypes.RTLD_LOCAL), ("b", ctypes.RTLD_GLOBAL)):
            libraries = {k: ctypes.CDLL(str(folder / f"f{k}{order}.so"), flags) for k in ((0, 1) if order == "a" else (1, 0))}
            assert _direct(libraries[0], x).tolist() == [2, 3] and _direct(libraries[1], x).tolist() == [10, 20]
        for k, fn in enumerate((lambda p: p + 1.0, lambda p: p * 10.0)):
            _export(folder / f"g{k}.o", fn, x, name=f"g{k}", format="object")
        said = _run_c(folder, '#include "g0.h"\n#include "g1.h"\n#include <stdio.h>\nint main(void) { static double x[2] = {1, 2}, y[2], z[2];\n'
                              "static double room[1024]; sg_call c = { 0 }; g0_run_inputs a = { x }; g0_run_outputs b = { y }; g1_run_inputs d = { x }; g1_run_outputs e = { z };\n"
                              "c.workspace = (void *)(((size_t)room + 63) / 64 * 64); c.workspace_bytes = 4096;\n"
                              'if (g0_run(&a, &b, &c) || g1_run(&d, &e, &c)) return 1;\nprintf("%g %g %g %g", y[0], y[1], z[0], z[1]); return 0; }\n',
                      [folder / "g0.o", folder / "g1.o"])
        assert said == "2 3 10 20", said


def hc113() -> None:
    """Special constants keep their bits."""
    for dtype in (np.float32, np.float64):
        info = np.finfo(dtype)
        c = np.array([np.nan, np.inf, -np.inf, -0.0, info.smallest_subnormal, info.max], dtype)
        with tempfile.TemporaryDirectory() as name, sg.Graph().as_default(), sg.Session() as sess:
            x = sg.placeholder(c.dtype, [6])
            made = sg.export.shared_object(Path(name) / "c.so", {"x": x}, {"c": sg.constant(c), "y": sg.constant(c) * x}, sess)
            m = sg.export.load(made.path)
            got = m(x=np.ones(6, dtype))
            m.close()
        for value in got.values():
            assert np.isnan(value[0]) and value[1:].tobytes() == c[1:].tobytes()


_V4 = """
#include <stdio.h>
#include <string.h>
#include "v4.h"
int main(void) {
  static double x[64], y[64], room[2048];
  v4_run_inputs a = { x };
  v4_run_outputs b = { y };
  sg_call c = { 0 };
  int32_t status;
  c.workspace = (void *)(((size_t)room + 63) / 64 * 64);
  c.workspace_bytes = 8192;
  status = v4_run(&a, &b, &c);
  printf("%d %s", (int)SG_KIND(status), v4_error_message(status));
  return 0;
}
"""


def hc115() -> None:
    """A baseline object uses baseline instructions; a processor that lacks what an object needs is told so."""
    x = np.linspace(0, 1, 64)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)

        def registers(target: str) -> set[str]:
            path = _export(folder / f"{target}.o", sg.exp, x, target=target, format="object", name="f").path
            text = subprocess.run([_tool("objdump"), "-d", str(path)], capture_output=True, text=True, check=True).stdout
            return {k for k in ("ymm", "zmm") if re.search(rf"%{k}\d", text)}
        assert registers("x86-64") == set() and registers("x86-64-v3") == {"ymm"} and "zmm" in registers("x86-64-v4")
        # the default holds all three and asks the processor: valgrind's has no AVX-512
        _export(folder / "v4.so", sg.exp, x, target="x86-64-v4", name="v4")
        said = _run_c(folder, _V4, [folder / "v4.so"], under=(_tool("valgrind"), "-q", "--error-exitcode=9"))
        assert said.startswith("6 ") and "AVX-512" in said, said
        _export(folder / "v4.so", sg.exp, x, name="v4")
        assert _run_c(folder, _V4, [folder / "v4.so"], under=(_tool("valgrind"), "-q", "--error-exitcode=9")).startswith("0 ")


def hc117() -> None:
    """A C program from the header alone; NULL and wrong sizes give a status."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        made = _export(folder / "p.so", lambda x: sg.matmul(x, x, transpose_a=True), np.zeros((2, 2)))
        said = _run_c(folder, '#include <stdio.h>\n#include "p.h"\nint main(void) { static double x[4] = {1, 2, 3, 4}, y[4], room[4096];\n'
                              "p_run_inputs a = { x }, none = { 0 }; p_run_outputs b = { y }; sg_call c = { 0 };\n"
                              "c.workspace = (void *)(((size_t)room + 63) / 64 * 64); c.workspace_bytes = P_WORKSPACE_BYTES;\n"
                              'if (p_run(&a, &b, &c)) return 1;\nprintf("%g %g %g %g|", y[0], y[1], y[2], y[3]);\n'
                              "if (!p_run(&none, &b, &c) || !p_run(NULL, &b, &c) || !p_run(&a, NULL, &c) || !p_run(&a, &b, NULL)) return 2;\n"
                              'c.workspace_bytes = P_WORKSPACE_BYTES - 1; if (P_WORKSPACE_BYTES && !p_run(&a, &b, &c)) return 3;\nprintf("refused"); return 0; }\n',
                      [made.path])
        assert said == "10 14 14 20|refused", said


SCENARIOS = {f.__name__.upper(): f for f in (hc111, hc113, hc115, hc117)}
