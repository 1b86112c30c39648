"""Exports with state: training from C, random streams, failures that change nothing, saved states, names; threads and loops."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from exported import MODELS, compiler, run_c, same, session_of

import staticgraph as sg

_TRAIN = """
#define SG_WITH_PTHREADS
#include <stdlib.h>
#include "train.h"
int main(void) {
  static float x[16 * 64], loss;
  static int32_t t[16];
  unsigned char *raw = (unsigned char *)malloc(TRAIN_STATE_BYTES + TRAIN_WORKSPACE_BYTES + 192), *base = raw + (64 - (size_t)(uintptr_t)raw % 64) % 64;
  unsigned char *saved = (unsigned char *)malloc(TRAIN_STATE_BYTES);
  train_state *state = (train_state *)(void *)base;
  train_step_inputs in;
  train_step_outputs out;
  sg_call call;
  sg_pool pool;
  int k, status;
  float w[64 * 128];
  char text[1000];
  FILE *file = fopen("feeds.bin", "rb");
  in.x = x; in.t = t; out.loss = &loss;
  memset(&call, 0, sizeof call);
  call.workspace = base + (TRAIN_STATE_BYTES + 63) / 64 * 64;
  call.workspace_bytes = TRAIN_WORKSPACE_BYTES;
  if (!file || fread(x, 4, 16 * 64, file) != 16 * 64 || fread(t, 4, 16, file) != 16) return 1;
  fclose(file);
  memset(base, 0x77, TRAIN_STATE_BYTES);
  if (SG_KIND(train_step(state, &in, &out, &call)) != SG_BAD_ARGUMENT) return 2;             /* not initialised */
  if (train_state_init(state) != SG_OK) return 3;
  sg_pool_start(&pool, 3);
  call.parallel = sg_parallel_pthreads; call.pool = &pool;
  for (k = 0; k < 10; k++) {
    if ((status = train_step(state, &in, &out, &call)) != SG_OK) return puts(train_describe(status, &call, text, sizeof text)), 4;
    printf("%.9g\\n", loss);
  }
  if (train_state_save(state, saved, TRAIN_STATE_BYTES) != SG_OK) return 5;
  t[3] = 99;                                                                                 /* fails: nothing changes */
  status = train_step(state, &in, &out, &call);
  if (SG_KIND(status) != SG_ERROR) return 6;
  puts(train_describe(status, &call, text, sizeof text));
  t[3] = 0;
  { unsigned char *again = (unsigned char *)malloc(TRAIN_STATE_BYTES);
    if (train_state_save(state, again, TRAIN_STATE_BYTES) != SG_OK || memcmp(again, saved, TRAIN_STATE_BYTES) != 0) return 7;
    free(again); }
  train_step(state, &in, &out, &call);
  if (train_state_load(state, saved, TRAIN_STATE_BYTES) != SG_OK) return 8;
  if (train_state_get(state, "w1", w, sizeof w) != SG_OK || memcmp(w, state->w1, sizeof w) != 0) return 9;
  if (train_state_set(state, "w1", w, sizeof w - 4) == SG_OK || train_state_get(state, "nothing", w, sizeof w) == SG_OK) return 10;
  saved[100] ^= 1;
  status = train_state_load(state, saved, TRAIN_STATE_BYTES);
  puts(train_error_message(status));
  if (SG_KIND(status) != SG_BAD_ARGUMENT || memcmp(w, state->w1, sizeof w) != 0) return 11;
  file = fopen("w.bin", "wb");
  if (!file || fwrite(w, 1, sizeof w, file) != sizeof w) return 12;
  fclose(file);
  sg_pool_stop(&pool);
  free(raw); free(saved);
  return 0;
}
"""


@pytest.fixture(scope="module")
def train(tmp_path_factory):
    folder = tmp_path_factory.mktemp("train")
    session, (x, t), params, loss, step, _, (xs, ts) = session_of(MODELS["mlp"], 16, 0)
    made = sg.export.shared_object(folder / "train.so", {"x": x, "t": t}, {"loss": loss, "step": step}, session, state="owned", batch=16)
    (folder / "feeds.bin").write_bytes(xs.tobytes() + ts.tobytes())
    losses = [session.run([loss, step], {x: xs, t: ts})[0] for _ in range(10)]
    return folder, made, losses, session.run(params["w1"])


@pytest.mark.parametrize("under", [(), ("valgrind", "-q", "--error-exitcode=9", "--leak-check=full")], ids=["plain", "valgrind"])
@pytest.mark.parametrize("language", ["c", "cpp"])
def test_training_from_c_gives_the_sessions_bits(train, language, under):
    folder, made, losses, w = train
    if under:
        compiler("valgrind")
        if language == "cpp":
            pytest.skip("once is enough")
    said = run_c(folder, _TRAIN, [made.path], "-pthread", language=language, under=under).splitlines()
    assert [np.float32(s) for s in said[:10]] == losses
    assert "label" in said[10] and "mlp.py" in said[10] and "value 99" in said[10]
    assert "damaged" in said[11]
    assert (folder / "w.bin").read_bytes() == w.tobytes()


def test_openmp_runs_the_tasks(train):
    folder, made, losses, _ = train
    source = _TRAIN.replace("SG_WITH_PTHREADS", "SG_WITH_OPENMP").replace("sg_pool pool;", "int pool = 0;").replace("sg_pool_start(&pool, 3);", "")
    source = source.replace("sg_parallel_pthreads", "sg_parallel_openmp").replace("sg_pool_stop(&pool);", "")
    said = run_c(folder, source, [made.path], "-fopenmp").splitlines()
    assert [np.float32(s) for s in said[:10]] == losses


def test_random_streams_are_part_of_the_state(tmp_path):
    with sg.Graph().as_default():
        sg.set_random_seed(7)
        x = sg.placeholder(sg.float32, [64])
        noisy = x + sg.random_normal([64])
        kept = sg.nn.dropout(x, keep_prob=0.5)
        with sg.Session() as sess:
            sess.run([noisy, kept], {x: np.ones(64, np.float32)})            # the export goes on from here
            m = sg.export.load(sg.export.shared_object(tmp_path / "r.so", {"x": x}, {"noisy": noisy, "kept": kept}, state="owned", target="native").path)
            assert m.main.name == "step"
            fresh = m.new_state()
            for _ in range(3):
                a = np.ones(64, np.float32)
                want = sess.run([noisy, kept], {x: a})
                got = m.step(x=a)
                assert same(got["noisy"], want[0]) and same(got["kept"], want[1])
            first = m.step(x=a, state=fresh)
            assert not same(first["noisy"], got["noisy"])
            with pytest.raises(sg.GraphError, match="random"):
                sg.export.shared_object(tmp_path / "f.so", {"x": x}, {"noisy": noisy})


def test_a_failing_step_changes_nothing(tmp_path):
    with sg.Graph().as_default():
        i = sg.placeholder(sg.int32, [3], name="i")
        table, count = sg.Variable(np.arange(5, dtype=np.float32), name="table"), sg.Variable(0, name="count")
        rows = sg.gather(table, i)
        up = sg.group(sg.assign_add(count, 1), sg.assign(table, table + sg.reduce_sum(rows) + sg.random_normal([5], seed=3)))
        with sg.Session() as sess:
            sess.run(sg.global_variables_initializer())
            m = sg.export.load(sg.export.shared_object(tmp_path / "t.so", {"i": i}, {"rows": rows, "up": up}, state="owned", target="native").path)
    m.step(i=np.array([0, 1, 4], np.int32))
    before = m.state.save()
    with pytest.raises(sg.export.loader.ComputationError, match=r"indices\[1\] = 5 is not in \[0, 5\).*test_export_state\.py:\d+: rows = ") as caught:
        m.step(i=np.array([0, 5, 9], np.int32))
    assert "gather(table, i)" in caught.value.where
    assert m.state.save() == before
    assert m.state["count"] == 1


def test_names_that_c_does_not_know(tmp_path):
    with sg.Graph().as_default():
        x, z = sg.placeholder(sg.float32, [2]), sg.placeholder(sg.float32, [2])
        w = sg.Variable([1.0, 2.0], name="layer/1.w")
        y = x * w
        with sg.Session() as sess:
            sess.run(sg.global_variables_initializer())
            made = sg.export.shared_object(tmp_path / "lib9 lives.so", {"in-put": x, "int": z}, {"2y": y, "class": y + z}, state="owned")
            text = made.header.read_text()
            for name in ("in_put;", "int_;", "_2y;", "class_;", "layer_1_w[2]", "_9_lives_run("):
                assert name in text
            a = np.array([3, 4], np.float32)
            assert sg.export.load(made.path)(**{"in-put": a, "int": a})["2y"].tolist() == [3, 8]
            run_c(tmp_path, f'#include "{made.header.name}"\nint main(void) {{ return _9_lives_abi_version() != 1; }}\n', [made.path])
            run_c(tmp_path, f'#include "{made.header.name}"\nint main(void) {{ return _9_lives_abi_version() != 1; }}\n', [made.path], language="cpp")
            with pytest.raises(sg.GraphError, match=r"'a\.b' and 'a_b'.*rename"):
                sg.export.shared_object(tmp_path / "m.so", {"a.b": x, "a_b": z}, {"y": y + z})


def _two(tmp_path):
    """Two exports of the same name and different weights."""
    out = []
    for k in (1.0, 2.0):
        with sg.Graph().as_default():
            x = sg.placeholder(sg.float32, [None])
            y = x * sg.Variable(k)
            with sg.Session() as sess:
                sess.run(sg.global_variables_initializer())
                folder = tmp_path / str(k)
                folder.mkdir()
                out.append(sg.export.shared_object(folder / "model.so", {"x": x}, {"y": y}, batch="dynamic").path)
    return out


def test_two_versions_live_in_one_process(tmp_path):
    one, two = map(sg.export.load, _two(tmp_path))
    a = np.arange(5, dtype=np.float32)
    assert one(x=a)["y"].tolist() == a.tolist() and two(x=a)["y"].tolist() == (2 * a).tolist()


def test_a_new_export_at_an_old_path_is_the_new_one(tmp_path):
    first, second = _two(tmp_path)
    a = np.ones(3, np.float32)
    old = sg.export.load(first)
    second.replace(first)
    new = sg.export.load(first)
    assert old(x=a)["y"].tolist() == [1, 1, 1] and new(x=a)["y"].tolist() == [2, 2, 2]


def test_loading_many_times_does_not_grow(tmp_path):
    path = _two(tmp_path)[0]
    a = np.ones(3, np.float32)

    def mappings():
        with open("/proc/self/maps") as f:
            return len(f.readlines())

    def pages():
        with open("/proc/self/statm") as f:
            return int(f.read().split()[1])
    for k in range(1000):
        m = sg.export.load(path)
        assert m(x=a)["y"][0] == 1
        m.close()
        if k == 100:
            before = mappings(), pages()
    assert mappings() <= before[0] + 2 and pages() <= before[1] + 200
    with pytest.raises(sg.export.loader.ExportError, match="closed"):
        m(x=a)


def test_two_threads(tmp_path):
    session, (x, _), _, _, _, y, (xs, _) = session_of(MODELS["lenet"], 8)
    m = sg.export.load(sg.export.shared_object(tmp_path / "m.so", {"x": x}, {"y": y}, session, batch="dynamic", target="native").path)
    wanted = [session.run(y, {x: xs[:n]}) for n in range(1, 9)]
    wrong = []

    def work(seed):
        for n in np.random.default_rng(seed).integers(1, 9, 60):
            if not same(m(x=xs[:n])["y"], wanted[n - 1]):
                wrong.append(n)
    threads = [threading.Thread(target=work, args=(k,)) for k in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert wrong == []


def test_loops_and_their_gradients(tmp_path):
    """x^n by a loop, and its derivative n x^(n-1); without a bound there is no size for what the loop keeps."""
    def power(x, n, **bound):
        return sg.while_loop(lambda k, v: k < n, lambda k, v: (k + 1, v * x), (0, sg.ones_like(x)), **bound)[1]
    with sg.Graph().as_default():
        x, n = sg.placeholder(sg.float64, [3]), sg.placeholder(sg.int32, [])
        with sg.Session():
            m = sg.export.load(sg.export.shared_object(tmp_path / "p.so", {"x": x, "n": n}, {"y": power(x, n)}, target="native").path)
            a = np.array([1.5, -2, 0.5])
            assert m(x=a, n=np.int32(5))["y"].tolist() == (a ** 5).tolist()
            bounded = power(x, n, maximum_iterations=10)
            m = sg.export.load(sg.export.shared_object(tmp_path / "b.so", {"x": x, "n": n}, {"y": bounded}, gradients=True, target="native").path)
            got = m.vjp(x=a, n=np.int32(4), ct_y=np.ones(3))
            assert got["y"].tolist() == (a ** 4).tolist() and got["grad_x"].tolist() == (4 * a ** 3).tolist()
            assert m.jvp(x=a, n=np.int32(3), tangent_x=np.ones(3))["tangent_y"].tolist() == (3 * a ** 2).tolist()
            with pytest.raises(sg.GraphError, match="maximum_iterations"):
                sg.export.shared_object(tmp_path / "u.so", {"x": x, "n": n}, {"y": power(x, n)}, gradients=True)
    assert not (tmp_path / "u.so").exists()


def test_a_flag_cancels_a_loop(tmp_path):
    with sg.Graph().as_default():
        n = sg.placeholder(sg.int64, [])
        y = sg.while_loop(lambda k: k < n, lambda k: k + 1, [sg.constant(0, sg.int64)])
        with sg.Session():
            made = sg.export.shared_object(tmp_path / "loop.so", {"n": n}, {"y": y[0] if isinstance(y, (list, tuple)) else y})
    run_c(tmp_path, """
#include <time.h>
#include "loop.h"
int main(void) {
  int64_t n = (int64_t)1 << 60, y;
  int32_t stop = 1;
  unsigned char ws[LOOP_WORKSPACE_BYTES + 64];
  loop_run_inputs in;
  loop_run_outputs out;
  sg_call call;
  in.n = &n; out.y = &y;
  memset(&call, 0, sizeof call);
  call.workspace = ws + (64 - (size_t)(uintptr_t)ws % 64) % 64; call.workspace_bytes = LOOP_WORKSPACE_BYTES;
  call.cancel = &stop;
  return loop_run(&in, &out, &call) != SG_CANCELLED;
}
""", [made.path])


def test_outputs_whose_size_the_run_finds(tmp_path):
    with sg.Graph().as_default():
        x = sg.placeholder(sg.float32, [None, 2])
        kept = sg.boolean_mask(x, x[:, 0] > 0)
        values, index = sg.unique(sg.cast(x[:, 1], sg.int32))
        with sg.Session() as sess:
            made = sg.export.shared_object(tmp_path / "m.so", {"x": x}, {"kept": kept, "values": values, "index": index, "sum": sg.reduce_sum(kept)},
                                           batch="dynamic", target="native")
            m = sg.export.load(made.path)
            assert "room for 2*batch elements" in made.header.read_text()
            for n in (1, 5, 40):
                a = np.random.default_rng(n).normal(size=(n, 2)).astype(np.float32) * 3
                got = m(x=a)
                want = dict(zip(("kept", "values", "index", "sum"), sess.run([kept, values, index, sg.reduce_sum(kept)], {x: a})))
                assert got.keys() == want.keys() and all(same(got[k], want[k]) for k in want)
            got = m(x=-np.ones((3, 2), np.float32))
            assert got["kept"].shape == (0, 2) and got["sum"] == 0


def test_two_headers_in_one_program(tmp_path):
    with sg.Graph().as_default():
        x = sg.placeholder(sg.float32, [1])
        with sg.Session():
            made = [sg.export.shared_object(tmp_path / f"{n}.so", {"x": x}, {"y": x * k}) for n, k in (("twice", 2.0), ("thrice", 3.0))]
    source = """
#define SG_WITH_PTHREADS
#include "twice.h"
#include "thrice.h"
int main(void) {
  float x = 2, y = 0, z = 0;
  twice_run_inputs a;
  twice_run_outputs b;
  thrice_run_inputs c;
  thrice_run_outputs d;
  sg_call call;
  a.x = c.x = &x; b.y = &y; d.y = &z;
  memset(&call, 0, sizeof call);
  return twice_run(&a, &b, &call) || thrice_run(&c, &d, &call) || y != 4 || z != 6;
}
"""
    for language in ("c", "cpp"):
        run_c(tmp_path, source, [m.path for m in made], "-pthread", language=language)


def test_a_session_that_checks_for_nan_exports_the_checks(tmp_path):
    with sg.Graph().as_default():
        x, v = sg.placeholder(sg.float32, [2], name="x"), sg.Variable([1.0, 1.0], name="v")
        up = sg.assign(v, v * sg.log(x))
        with sg.Session(config=sg.Config(nan_check=True)) as sess:
            sess.run(v.initializer)
            m = sg.export.load(sg.export.shared_object(tmp_path / "m.so", {"x": x}, {"up": up.op}, state="owned", target="native").path)
    m.step(x=np.full(2, np.e, np.float32))
    before = m.state["v"]
    with pytest.raises(sg.export.loader.ComputationError, match="NaN|finite"):
        m.step(x=np.float32([1, -1]))
    assert same(m.state["v"], before)
