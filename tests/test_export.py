"""Exported objects: the session's bits, C and C++ callers, state, sizes, gradients, errors."""

from __future__ import annotations

import shutil
import subprocess

import numpy as np
import pytest
from exported import MODELS, compiler, run_c, same, session_of

import staticgraph as sg


@pytest.fixture(scope="module", params=list(MODELS))
def model(request):
    return (request.param, *session_of(MODELS[request.param]))


def test_frozen_inference_is_the_sessions_to_the_last_bit(model, tmp_path):
    name, session, (x, _), _, _, _, y, (xs, _) = model
    made = sg.export.shared_object(tmp_path / f"{name}.so", {"x": x}, {"y": y}, session, batch=len(xs))
    assert same(sg.export.load(made.path)(x=xs)["y"], session.run(y, {x: xs}))


def test_a_dynamic_batch_gives_the_bits_of_a_fixed_one(model, tmp_path):
    name, session, (x, _), _, _, _, y, (xs, _) = model
    m = sg.export.load(sg.export.shared_object(tmp_path / f"{name}.so", {"x": x}, {"y": y}, session, batch="dynamic", target="native").path)
    for n in (1, 3, len(xs)):
        assert same(m(x=xs[:n])["y"], session.run(y, {x: xs[:n]}))


def test_a_training_step_keeps_the_sessions_bits(model, tmp_path):
    name, session, (x, t), params, loss, step, y, (xs, ts) = model
    made = sg.export.shared_object(tmp_path / f"{name}.so", {"x": x, "t": t}, {"loss": loss, "step": step}, session, state="owned", batch=len(xs),
                                   target="native", functions={"predict": ({"x": x}, {"y": y})})
    m = sg.export.load(made.path)
    for _ in range(3):
        assert same(m.step(x=xs, t=ts)["loss"], session.run([loss, step], {x: xs, t: ts})[0])
    for v in params.values():
        assert same(m.state[v.op.name], session.run(v))
    assert same(m.predict(x=xs)["y"], session.run(y, {x: xs}))


def test_gradients_of_an_export(tmp_path):
    session, (x, t), _, loss, _, _, (xs, ts) = session_of(MODELS["mlp"])
    made = sg.export.shared_object(tmp_path / "m.so", {"x": x, "t": t}, {"loss": loss}, session, batch="dynamic", gradients=True)
    m = sg.export.load(made.path)
    with session.graph.as_default():
        g = session.run(sg.gradients(loss, x)[0], {x: xs, t: ts})
    assert same(m.vjp(x=xs, t=ts, ct_loss=np.float32(1))["grad_x"], g)
    direction = np.random.default_rng(0).normal(size=xs.shape).astype(np.float32)
    got = m.jvp(x=xs, t=ts, tangent_x=direction)["tangent_loss"]
    np.testing.assert_allclose(got, (g.astype(float) * direction).sum(), rtol=1e-4)


# ---- from C ------------------------------------------------------------------------------------------------------------------------

_C = """
#include <stdlib.h>
#include "digits.h"
/* buffers between canaries, none of them aligned to more than its element */
static unsigned char *guarded(size_t bytes) {
  unsigned char *p = (unsigned char *)malloc(bytes + 128);
  memset(p, 0xA5, bytes + 128);
  return p + 64;
}
static int intact(const unsigned char *p, size_t bytes) {
  size_t k;
  for (k = 1; k <= 60; k++) if (p[-(long)k] != 0xA5 || p[bytes + 3 + k] != 0xA5) return 0;
  return 1;
}
int main(void) {
  size_t need = (size_t)digits_workspace_bytes(), nx = 7 * 64 * sizeof(float), ny = 7 * 10 * sizeof(float);
  unsigned char *raw = (unsigned char *)malloc(need + 192), *ws = raw + 64 + (64 - (size_t)(uintptr_t)raw % 64) % 64, *x = guarded(nx + 4) + 4, *y = guarded(ny + 4) + 4;
  FILE *in = fopen("x.bin", "rb");
  digits_run_inputs inputs;
  digits_run_outputs outputs;
  sg_call call;
  int32_t status;
  char text[512];
  memset(raw, 0x5A, need + 192);
  memset(&call, 0, sizeof call);
  if (in == NULL || fread(x, 1, nx, in) != nx || digits_abi_version() != STATICGRAPH_ABI) return 1;
  fclose(in);
  inputs.x = (const float *)(const void *)x;
  outputs.y = (float *)(void *)y;
  if (SG_KIND(digits_run(&inputs, &outputs, &call)) != SG_NEED_WORKSPACE || (size_t)call.error.need != need) return 2;
  call.workspace = ws;
  call.workspace_bytes = (int64_t)need;
  status = digits_run(&inputs, &outputs, &call);
  if (status != SG_OK) return puts(digits_describe(status, &call, text, sizeof text)), 3;
  if (ws[-1] != 0x5A || ws[need] != 0x5A || !intact(y - 0, ny)) return 4;
  call.workspace = ws + 4;
  if (SG_KIND(digits_run(&inputs, &outputs, &call)) != SG_BAD_ARGUMENT) return 5;
  call.workspace = ws;
  inputs.x = NULL;
  status = digits_run(&inputs, &outputs, &call);
  puts(digits_describe(status, &call, text, sizeof text));
  fflush(stdout);
  { FILE *out = fopen("y.bin", "wb"); if (out == NULL || fwrite(y, 1, ny, out) != ny) return 6; fclose(out); }
  free(raw);
  free(x - 68);
  free(y - 68);
  return 0;
}
"""


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    folder = tmp_path_factory.mktemp("digits")
    session, (x, _), _, _, _, y, (xs, _) = session_of(MODELS["mlp"], 7)
    made = sg.export.shared_object(folder / "digits.so", {"x": x}, {"y": y}, session, batch=7)
    (folder / "x.bin").write_bytes(xs.tobytes())
    return folder, made, session.run(y, {x: xs})


@pytest.mark.parametrize("language", ["c", "cpp"])
def test_c_and_cpp_programs(digits, language):
    folder, made, want = digits
    said = run_c(folder, _C, [made.path], language=language)
    assert (folder / "y.bin").read_bytes() == want.tobytes()
    assert "inputs->x is NULL" in said


def test_under_valgrind(digits):
    folder, made, want = digits
    compiler("valgrind")
    run_c(folder, _C, [made.path], "-g", under=("valgrind", "-q", "--error-exitcode=9", "--leak-check=full"))
    # valgrind offers no AVX-512, so other instructions are chosen: the same bits on every processor with FMA
    assert (folder / "y.bin").read_bytes() == want.tobytes()


def test_it_needs_nothing(digits):
    _, made, _ = digits
    compiler("readelf")

    def readelf(*flags):
        return subprocess.run(["readelf", *flags, str(made.path)], capture_output=True, text=True, check=True).stdout
    assert "NEEDED" not in readelf("-dW")
    assert not [line for line in readelf("-sW").splitlines() if " UND " in line and line.split()[-1] not in ("UND", "0")]
    stack = next(line for line in readelf("-lW").splitlines() if "GNU_STACK" in line)
    assert "E" not in stack.split()[-2]
    exported = [line.split()[-1] for line in readelf("--dyn-syms", "-W").splitlines() if " FUNC " in line]
    assert exported and all(s.startswith("digits_") for s in exported)
    written = [line.split() for line in readelf("-SW").splitlines() if " WA " in line and (".data" in line or ".bss" in line)]
    assert sum(int(w[w.index("PROGBITS" if "PROGBITS" in w else "NOBITS") + 3], 16) for w in written) <= 4        # the dispatch word


def test_the_loader_alone_is_enough(digits):
    """The loader's file, copied, in a Python that cannot import staticgraph."""
    import sys
    folder, _, want = digits
    shutil.copy(sg.export.loader.__file__, folder / "sgload.py")
    code = ("import sys; sys.modules['staticgraph'] = sys.modules['llvmlite'] = None\nimport numpy as np, sgload\n"
            "x = np.fromfile('x.bin', np.float32).reshape(7, 64)\nprint(sgload.load('digits.so')(x=x)['y'].tobytes().hex())")
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, env={"PYTHONPATH": ""})
    assert done.stdout.strip() == want.tobytes().hex(), done.stderr


@pytest.mark.parametrize("width", [8, 200], ids=["small", "large"])          # constants inside of the code's object, or in one of their own
def test_formats(tmp_path, width):
    weights = np.random.default_rng(0).normal(size=(width, width)).astype(np.float32)
    a = np.arange(width, dtype=np.float32).reshape(1, width)
    with sg.Graph().as_default():
        x = sg.placeholder(sg.float32, [1, width])
        y = sg.matmul(x, weights)
        with sg.Session() as session:
            want = session.run(y, {x: a})
            for format, suffix in (("static", ".a"), ("object", ".o"), ("shared", ".so"), ("llvm", ".ll"), ("asm", ".s")):
                made = sg.export.shared_object(tmp_path / f"m{suffix}", {"x": x}, {"y": y}, format=format, target="native", name="m")
                if format == "llvm":
                    assert "define i32 @m_run(" in made.path.read_text()
                    continue
                said = run_c(tmp_path, f"""
#include "m.h"
int main(void) {{
  static float x[{width}], y[{width}];
  static unsigned char room[M_WORKSPACE_BYTES + 64];
  int k;
  m_run_inputs in;
  m_run_outputs out;
  sg_call call;
  in.x = x; out.y = y;
  memset(&call, 0, sizeof call);
  call.workspace = room + (64 - (size_t)(uintptr_t)room % 64) % 64; call.workspace_bytes = M_WORKSPACE_BYTES;
  for (k = 0; k < {width}; k++) x[k] = (float)k;
  if (m_run(&in, &out, &call)) return 1;
  for (k = 0; k < {width}; k++) printf("%.9g\\n", y[k]);
  return 0;
}}""", [made.path])
                assert np.float32(said.split()).tolist() == want[0].tolist(), format


def test_instruction_sets_of_one_object(tmp_path):
    """Every target that this processor has gives the session's bits, if it has FMA; without FMA the class is another one."""
    session, (x, _), _, _, _, y, (xs, _) = session_of(MODELS["mlp"], 5)
    want = session.run(y, {x: xs})
    for targets in (["x86-64-v3"], ["x86-64-v2", "x86-64-v3"], ["x86-64"]):
        made = sg.export.shared_object(tmp_path / f"{'_'.join(targets)}.so", {"x": x}, {"y": y}, session, batch=5, targets=targets)
        got = sg.export.load(made.path)(x=xs)["y"]
        if targets == ["x86-64"]:
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
        else:
            assert same(got, want)


def test_the_size_of_an_inference_object(digits):
    """Code and tables of the demo's network for three instruction sets, without the weights."""
    _, made, _ = digits
    weights = 4 * (64 * 128 + 128 + 128 * 64 + 64 + 64 * 10 + 10)
    assert made.path.stat().st_size - weights < 60_000
