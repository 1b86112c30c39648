"""``sg.compare``: counts on functions where they are known, planted differences, modes that fail, tables, pictures, pages, the command."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET

import numpy as np
import pytest

import staticgraph as sg
from staticgraph.tools import blas
from staticgraph.tools.charts import Bar, Bars, Line, Lines, svg, ticks
from staticgraph.tools.cli import main
from staticgraph.tools.compare import breakeven
from staticgraph.tools.compare_charts import KEYS, charts
from staticgraph.tools.compare_measure import distance
from staticgraph.tools.compare_modes import in_a_line
from staticgraph.tools.compare_report import seconds, size, told

ALONE = {"torch": False, "jax": False, "tensorflow": False}
FAST = {"levels": ["O2"], "seconds": 0.01}
x, y = np.linspace(0.1, 2.0, 1000), np.linspace(1.0, 3.0, 1000)


def formula(x, y):
    return sg.reduce_sum((x + y) * sg.sin(x))


@pytest.fixture(scope="module")
def report():
    return sg.compare(formula, x, y, seconds=0.2, **ALONE)


@pytest.fixture(scope="module")
def forward():
    return sg.compare(formula, x, y, seconds=0.1, argnums=(), **ALONE)


# ---- numbers ---------------------------------------------------------------------------------------------------------------------


def test_all_modes_are_there_and_agree(report):
    assert [r.name for r in report.rows] == ["dynamic", "static interpreted", "static O0", "static O1", "static O2", "NumPy"]
    assert report.equal and bool(report) and all(r.equal and r.ran for r in report.rows)
    assert report.row("static interpreted").values == report.row("static interpreted").gradients == 0.0      # bitwise, by contract
    value, (gx, gy) = report.results["static O2"]
    assert np.allclose(value[0], ((x + y) * np.sin(x)).sum(), rtol=1e-13)
    assert np.allclose(gx, np.sin(x) + (x + y) * np.cos(x), rtol=1e-13) and np.allclose(gy, np.sin(x), rtol=1e-13)
    assert "All levels give the same bits" in report.verdict() and "6 modes" in report.verdict()
    with pytest.raises(KeyError, match="static O7"):
        report.row("static O7")


def test_counts_of_a_known_function(forward):
    dispatches = {r.name: r.dispatches for r in forward.rows}
    assert dispatches == {"dynamic": 4, "static interpreted": 4, "static O0": 1, "static O1": 1, "static O2": 1, "NumPy": 4}       # add, sin, mul, sum
    assert forward.row("static O2").kernels == 1 and forward.row("static O0").kernels == 4
    row, n = forward.row("dynamic"), 8 * len(x)
    assert row.intermediates == 3 * n + 8                            # add, sin, mul, and the sum
    assert row.traffic == 3 * n + 2 * n + 3 * n + (n + 8)
    assert row.peak >= 2 * n
    assert 3 * n + 8 <= forward.row("static O0").intermediates < 4 * n and 8 <= forward.row("static O2").intermediates < n
    for level in ("static O0", "static O2"):
        assert max(b for _, b in forward.timelines[level]) == forward.row(level).peak <= forward.row(level).intermediates
    assert forward.passes[0]["pass"] == "as written" and forward.passes[0]["nodes"] == 6
    assert forward.passes[-1] == {"pass": "compiled", "nodes": 6, "kernels": 4, "fused": 1}
    assert forward.row("NumPy").gradients is None


def test_backward_operations_are_counted_with_the_sums_of_cotangents(report):
    # add sin mul sum; the cotangent of the sum (reshape, broadcast), of mul (2), of sin (cos, mul); x is used twice: one addition
    assert report.row("dynamic").dispatches == report.row("static interpreted").dispatches == report.row("NumPy").dispatches == 4 + 2 + 2 + 2 + 1


def test_passes_that_merge_show_it():
    got = sg.compare(lambda x: sg.reduce_sum(sg.exp(x) * sg.exp(x)), x, argnums=(), numpy=False, **ALONE, **FAST)
    assert [p["nodes"] for p in got.passes[:2]] == [5, 4] and got.passes[-1]["nodes"] == 4
    assert got.row("dynamic").dispatches == 4 and got.row("static O2").kernels == 1


def test_times_are_in_order_and_the_first_call_counts_the_compile(report):
    for r in report.rows:
        assert 0 < r.best <= r.low <= r.seconds <= r.high and r.rounds >= 3
    assert report.row("static O2").first_call > 10 * report.row("static O2").best


@pytest.mark.parametrize("first, later, other_first, other_later", [(1.0, 0.1, 0.3, 0.3), (0.2, 0.1, 0.3, 0.3), (5.0, 0.25, 0.5, 0.5), (1.0, 0.4, 0.3, 0.3), (2.5, 0.0, 0.1, 0.1)])
def test_break_even_is_the_first_call_after_which_less_time_was_spent(first, later, other_first, other_later):
    spent = [(first + (n - 1) * later, other_first + (n - 1) * other_later) for n in range(1, 1000)]
    expected = next((n for n, (a, b) in enumerate(spent, 1) if a <= b + 1e-12), None)
    assert breakeven(first, later, other_first, other_later) == expected


def test_matrix_products_of_numpy_are_held_to_the_number_of_threads(monkeypatch):
    found = blas._openblas()
    if found is None:
        pytest.skip("this NumPy has no OpenBLAS of its own")
    before = found[0]()
    seen = []
    got = sg.compare(lambda x: (seen.append(found[0]()), sg.reduce_sum(x))[1], x, threads=2, numpy=False, **ALONE, **FAST)
    assert set(seen) == {2} and found[0]() == before and "BLAS" not in got.text()
    monkeypatch.setattr(blas, "_openblas", lambda: None)
    assert "take as many threads as they like" in sg.compare(formula, x, y, numpy=False, **ALONE, **FAST).text()


def test_distance_counts_last_places_of_the_largest_element():
    one = np.array([1.0, 0.25], np.float32)
    assert distance(one, one.copy()) == 0.0
    assert distance(one + np.array([2.0 ** -23, 0], np.float32), one) == 1.0
    assert distance(one + np.array([0, 2.0 ** -23], np.float32), one) == 1.0
    assert distance(np.array([-0.0]), np.array([0.0])) > 0.0                     # other bits, and no more
    assert distance(np.array([-0.0]), np.array([0.0])) < 1e-300
    assert distance(np.array([np.nan, 1.0]), np.array([np.nan, 1.0])) == 0.0
    for a, b in ((np.nan, 1.0), (np.inf, 1.0), (1.0, np.inf)):
        assert distance(np.array([a]), np.array([b])) == np.inf
    assert distance(np.ones(2), np.ones(3)) == distance(np.ones(2), np.ones(2, np.float32)) == np.inf
    assert distance(np.array([1, 2]), np.array([1, 3])) == np.inf


def test_planted_differences_are_found():
    wrong = sg.compare(formula, x, y, numpy=lambda a, b: ((a + b) * np.sin(a)).sum() * (1 + 1e-12), **ALONE, **FAST)
    assert not wrong.equal and not wrong
    assert not wrong.row("NumPy").equal and wrong.row("NumPy").values > 256 and wrong.row("NumPy").gradients is None
    assert wrong.verdict().startswith("DIFFERENT from dynamic: NumPy")
    assert "DIFFERENT" in repr(wrong) and 'class="different"' in wrong._repr_html_() and 'class="wrong"' in wrong._repr_html_()
    right = sg.compare(formula, x, y, numpy=lambda a, b: ((a + b) * np.sin(a)).sum(), **ALONE, **FAST)
    assert right.equal


def test_the_first_argument_is_differentiated_where_it_holds_parameters():
    def loss(params, data):
        return sg.reduce_sum(sg.square(data @ params["w"] + params["b"]))
    got = sg.compare(loss, {"w": np.ones((3, 2)), "b": np.ones(2)}, np.ones((4, 3)), **ALONE, **FAST)
    assert got.equal and [g.shape for g in got.results["dynamic"][1]] == [(2,), (3, 2)]


# ---- modes that fail -------------------------------------------------------------------------------------------------------------


def test_a_mode_that_fails_is_a_row_with_reason_and_line():
    def branches(x):
        if sg.reduce_sum(x) > 0.0:                                   # the branch
            return sg.square(x)
        return x
    got = sg.compare(branches, x, **ALONE, **FAST)
    assert [r.name for r in got.rows if r.ran] == ["dynamic"] and got.verdict() == "only dynamic ran: nothing to compare it with"
    for r in got.rows[1:]:
        assert r.failed and "sg.cond for a branch" in r.note and r.line.startswith("test_compare.py:") and "# the branch" in r.line
    text = got.text()
    assert text.count("did not run") == 3 and got.passes == []
    assert "did not run" in got._repr_html_()
    assert {c.key for c in charts(got)} >= {"time", "dispatches"}


def test_results_that_are_not_numeric_are_refused():
    with pytest.raises(TypeError, match="no mode could run the function: TypeError: the function gives 'yes' of type str") as error:
        sg.compare(lambda x: "yes", x, **ALONE, **FAST)
    assert error.value.__notes__ == ["dynamic; static interpreted; static O2; NumPy: TypeError: the function gives 'yes' of type str: compare needs tensors, arrays or numbers"]
    with pytest.raises(TypeError, match="got 'x'"):
        sg.compare(formula, "x", y)
    with pytest.raises(TypeError, match="argument 1 has no floats"):
        sg.compare(lambda a, n: a, x, np.arange(3), argnums=1)
    with pytest.raises(ValueError, match="levels: there is no 'O7'; there are O0, O1, O2"):
        sg.compare(formula, x, y, levels=["O7"])
    with pytest.raises(ValueError, match="threads must be at least 1, got 0"):
        sg.compare(formula, x, y, threads=0)


def test_a_reason_is_the_line_that_says_it():
    class InvalidArgumentError(Exception):
        pass
    told = "Graph execution error:\n\nDetected at node GatherV2 defined at (most recent call last):\n<stack traces unavailable>\nindices[0] = 7 is not in [0, 6)\n\t [[{{node GatherV2}}]] [Op:f]"
    assert in_a_line(InvalidArgumentError(told)) == "InvalidArgumentError: indices[0] = 7 is not in [0, 6)"
    assert in_a_line(NameError("in user code:\n\n    File \"m.py\", line 2, in f  *\n        return a\n\n    NameError: name 'a' is not defined\n")) == "NameError: name 'a' is not defined"
    assert in_a_line(ValueError("one\ntwo")) == "ValueError: one" and in_a_line(KeyError()) == "KeyError: "


def test_results_without_gradients_are_compared_by_value():
    for fn, *args in ((lambda a: a > 0.5, x), (lambda n: sg.reduce_sum(n * n), np.arange(5)), (lambda a: (sg.argmax(a), {"n": sg.size(a)}), x)):
        got = sg.compare(fn, *args, **ALONE, **FAST)
        assert got.equal and all(r.ran and r.gradients is None for r in got.rows)
    constant = sg.compare(lambda a: a * 0.0 + sg.stop_gradient(a), x, **ALONE, **FAST)
    assert constant.equal and not constant.results["static O2"][1][0].any()


def test_what_no_define_by_run_tensor_takes_part_in_is_no_result_of_that_mode():
    got = sg.compare(lambda: sg.reduce_sum(sg.ones([3])), **ALONE, **FAST)
    assert not got.row("dynamic").ran and "has no value while the graph is built" in got.row("dynamic").note
    assert got.reference == "static interpreted" and got.equal and got.row("static O2").breakeven is not None


def test_what_numpy_has_no_counterpart_for_is_said():
    got = sg.compare(lambda x: sg.reduce_sum(sg.while_loop(lambda k, v: k < 3, lambda k, v: (k + 1, sg.sin(v)), (0, x))[1]), x, argnums=(), **ALONE, **FAST)
    row = got.row("NumPy")
    assert not row.ran and not row.failed and "while_loop" in row.note and "numpy=..." in row.note
    assert got.equal and got.row("static O2").ran


def test_random_numbers_are_remarked():
    got = sg.compare(lambda x: sg.nn.dropout(x, keep_prob=0.5), x, numpy=False, **ALONE, **FAST)
    assert not got.equal and "draws random numbers" in got.text() and "draws random numbers" in got._repr_html_()


# ---- peers -----------------------------------------------------------------------------------------------------------------------


def test_pytorch_by_translation_and_by_the_users_function():
    torch = pytest.importorskip("torch")
    others = {"jax": False, "numpy": False, "tensorflow": False}
    got = sg.compare(formula, x, y, **others, **FAST)
    assert got.equal and got.row("PyTorch").gradients is not None and got.row("PyTorch").dispatches == 5         # four operations and a backward
    assert "torch.sin(a0)" in got.sources["PyTorch"]
    assert sg.compare(formula, x, y, torch=lambda a, b: ((a + b) * torch.sin(a)).sum(), **others, **FAST).equal
    wrong = sg.compare(formula, x, y, torch=lambda a, b: ((a + b) * torch.sin(a).detach()).sum(), **others, **FAST)
    assert not wrong.equal and wrong.row("PyTorch").values <= 256 < wrong.row("PyTorch").gradients


def test_jax_by_translation_and_by_the_users_function():
    pytest.importorskip("jax")
    import jax.numpy as jnp
    others = {"torch": False, "numpy": False, "tensorflow": False}
    got = sg.compare(formula, x, y, **others, **FAST)
    assert got.equal and got.row("JAX, jit").gradients is not None and jnp.zeros(1, float).dtype != np.float64          # the setting is as it was
    assert sg.compare(formula, x, y, jax=lambda a, b: ((a + b) * jnp.sin(a)).sum(), **others, **FAST).equal


def test_tensorflow_by_translation_and_by_the_users_function():
    tf = pytest.importorskip("tensorflow")
    others = {"torch": False, "jax": False, "numpy": False}
    got = sg.compare(formula, x, y, **others, **FAST)
    row = got.row("TensorFlow, graph")
    assert got.equal and row.gradients is not None and row.dispatches == 1 and "tf.math.sin(a0)" in got.sources["TensorFlow, graph"]
    assert sg.compare(formula, x, y, tensorflow=lambda a, b: tf.reduce_sum((a + b) * tf.sin(a)), **others, **FAST).equal
    assert sg.compare(formula, x, y, tensorflow=tf.function(lambda a, b: tf.reduce_sum((a + b) * tf.sin(a))), **others, **FAST).equal
    wrong = sg.compare(formula, x, y, tensorflow=lambda a, b: tf.reduce_sum((a + b) * tf.stop_gradient(tf.sin(a))), **others, **FAST)
    assert not wrong.equal and wrong.row("TensorFlow, graph").values <= 256 < wrong.row("TensorFlow, graph").gradients


def test_tensorflow_gives_whole_gradients_of_gathered_rows_and_zeros_of_what_is_not_connected():
    pytest.importorskip("tensorflow")
    table, other = np.arange(12.0).reshape(4, 3), np.ones(2)
    got = sg.compare(lambda p: sg.reduce_sum(sg.square(sg.gather(p["table"], np.array([1, 1, 3])))), {"table": table, "other": other}, torch=False, jax=False, **FAST)
    assert got.equal and not got.results["TensorFlow, graph"][1][0].any() and np.allclose(got.results["TensorFlow, graph"][1][1][1], 4 * table[1])


def test_loading_tensorflow_writes_nothing_and_is_counted_apart(tmp_path):
    pytest.importorskip("tensorflow")
    program = ("import numpy as np, staticgraph as sg\n"
               "r = sg.compare(lambda x: sg.reduce_sum(sg.sin(x)), np.ones(3), torch=False, jax=False, levels=['O0'], seconds=0.01)\n"
               "row = r.row('TensorFlow, graph')\n"
               "assert r.equal and row.imported > row.first_call > 0 and 'time to load the libraries' in r.text() and 'ran with' not in r.text()\n"
               "again = sg.compare(lambda x: sg.reduce_sum(sg.sin(x)), np.ones(3), torch=False, jax=False, levels=['O0'], seconds=0.01, threads=2)\n"
               "assert 'TensorFlow, graph ran with 1 thread: it takes the number once' in again.text() and 'time to load' not in again.text()\n"
               "assert 'TF_CPP_MIN_LOG_LEVEL' not in __import__('os').environ\n")
    clean = {k: v for k, v in os.environ.items() if k != "TF_CPP_MIN_LOG_LEVEL"}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300, env=clean)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("module, reason", [("raise ImportError('libcuda.so.1: cannot open shared object file')", "ImportError: libcuda.so.1"), ("import sys; sys.exit(3)", "SystemExit: 3"),
                                            ("1 / 0", "ZeroDivisionError: division by zero"), ("__version__ = '1.15'", "not TensorFlow 2: it has no tf.function")])
def test_a_library_that_cannot_be_loaded_is_a_row_with_the_reason(module, reason, tmp_path, monkeypatch):
    (tmp_path / "tensorflow.py").write_text(module)
    for name in [n for n in sys.modules if n.partition(".")[0] == "tensorflow"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(tmp_path)
    got = sg.compare(formula, x, y, torch=False, jax=False, **FAST)
    row = got.row("TensorFlow, graph")
    assert got.equal and not row.ran and not row.failed and row.note.startswith("not available: ") and reason in row.note
    sys.modules.pop("tensorflow", None)


def test_staticgraph_in_place_of_tensorflow_is_no_peer():
    program = ("import numpy as np, staticgraph as sg, staticgraph.compat.v1 as tf\ntf.install_as_tensorflow()\n"
               "r = sg.compare(lambda x: sg.reduce_sum(sg.sin(x)), np.ones(3), torch=False, jax=False, levels=['O0'], seconds=0.01)\n"
               "assert r.equal and 'gives staticgraph here' in r.row('TensorFlow, graph').note, r.text()\n")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


# ---- what is shown ---------------------------------------------------------------------------------------------------------------


def test_the_table_has_every_mode_and_every_pass(report, capsys):
    report.table()
    text = capsys.readouterr().out
    assert text.strip() == str(report).strip()
    lines = text.splitlines()
    for r in report.rows:
        assert sum(line.startswith(r.name + " ") for line in lines) == 2
    assert max(map(len, lines)) < 125
    for name, *numbers in report.pass_cells():
        assert any(line.startswith(name) and line.split()[-3:] == numbers for line in lines)
    assert repr(report) == "<comparison of test_compare.formula: 6 modes, equal>"


def test_rich_tables_say_the_same(report):
    console = pytest.importorskip("rich.console").Console(width=80, record=True, file=io.StringIO())
    report._rich(console)
    text = console.export_text()
    assert all(cell in text for row in (*report.agreement(), *report.work(), *report.pass_cells()) for cell in row)
    assert " 1 thread. Pays off" in " ".join(text.split())


def test_numbers_as_data(report, tmp_path):
    data = json.loads(report.to_json(tmp_path / "r.json"))
    assert data == json.loads((tmp_path / "r.json").read_text()) and data["equal"] is True
    assert [r["name"] for r in data["rows"]] == [r.name for r in report.rows] and data["rows"][0]["seconds"] == report.rows[0].seconds
    assert data["passes"] == report.passes


def test_quantities_have_three_digits_and_a_unit():
    assert [seconds(t) for t in (4.0e-3, 123.4e-6, 9.999e-7, 1.5, None)] == ["4.00 ms", "123 us", "1000 ns", "1.50 s", "-"]
    assert [told(d) for d in (0.0, 0.53, 3.5, 137.2, 2e6, np.inf, None)] == ["same bits", "0.53 ulp", "3.5 ulp", "137 ulp", "2e+06 ulp", "different", "-"]
    assert [size(b) for b in (0, 999, 1000, 2_904_224, None)] == ["0 B", "999 B", "1.00 kB", "2.90 MB", "-"]


def test_the_page_is_well_formed_and_needs_nothing_else(report, tmp_path):
    report.html(tmp_path / "r.html")
    text = (tmp_path / "r.html").read_text(encoding="utf-8")
    root = ET.fromstring(text.replace("<!DOCTYPE html>", ""))
    assert not re.search(r"""\b(src|href|srcset)\s*=|@import|url\((?!#)|<script|<link|<iframe""", text)
    assert set(re.findall(r"https?://[^\"' )]+", text)) == {"http://www.w3.org/2000/svg"}
    figures = list(root.iter("figure"))
    assert len(figures) == len(KEYS) + 1                             # and the graph, which is small
    assert all(r.name in text for r in report.rows) and "def program" in text and "placeholder  x<" in text


def boxes(root):
    """(x0, y0, x1, y1, words) of the texts of a picture, a little narrower than they are."""
    out = []
    for t in root.iter("{http://www.w3.org/2000/svg}text"):
        s, width = float(t.get("font-size")), 0.46 * float(t.get("font-size")) * len(t.text or "")
        left = float(t.get("x")) - {"start": 0, "middle": width / 2, "end": width}[t.get("text-anchor")]
        out.append((left, float(t.get("y")) - 0.75 * s, left + width, float(t.get("y")) + 0.1 * s, t.text))
    return out


@pytest.mark.parametrize("key", KEYS)
def test_pictures_are_legible(report, key):
    (chart,) = charts(report, key)
    root = ET.fromstring(svg(chart))
    width, height = float(root.get("width")), float(root.get("height"))
    found = boxes(root)
    assert all(float(t.get("font-size")) >= 16 for t in root.iter("{http://www.w3.org/2000/svg}text"))           # pixels: 12 points
    for x0, y0, x1, y1, words in found:
        assert x0 >= -1 and x1 <= width + 1 and y0 >= 0 and y1 <= height, words
    for k, a in enumerate(found):
        for b in found[k + 1:]:
            assert a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1], (a[4], b[4])


def test_charts_of_odd_data():
    for chart in (Bars("k", "t", "a", [Bar("only", 0.0, "none", "#000"), Bar("unknown", None, "-", "#000")]), Bars("k", "t", "a", [Bar("one", 3.0, "3", "#000")], log=True),
                  Lines("k", "t", "x", "y", [Line("flat", [0, 1], [0.0, 0.0], "#000")]), Lines("k", "t", "x", "y", [Line("dot", [1.0], [2.0], "#000")], log=True)):
        text = svg(chart)
        ET.fromstring(text)
        assert "nan" not in text and "inf" not in text
    assert ticks(0, 10, False) == [0, 2, 4, 6, 8, 10] and ticks(1, 1000, True) == [1, 10, 100, 1000]


@pytest.mark.parametrize("name", ["all.png", "all.svg", "all.pdf"])
def test_sheets_are_written(report, name, tmp_path):
    pytest.importorskip("matplotlib")
    report.plot(tmp_path / name)
    start = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}[name[-3:]]
    assert (tmp_path / name).read_bytes().startswith(start)


def test_one_picture_for_a_slide(report, tmp_path):
    pytest.importorskip("matplotlib")
    report.plot(tmp_path / "time.svg", only="time")
    text = (tmp_path / "time.svg").read_text()
    assert "Time for one step" in text and "Nodes and kernels" not in text
    with pytest.raises(ValueError, match="no picture 'size'; there are time, paid"):
        report.plot(tmp_path / "x.png", only="size")


# ---- the command -----------------------------------------------------------------------------------------------------------------

MODEL = """
import numpy as np
import staticgraph as sg
def example(rng):
    return rng.normal(size=(4, 3)), rng.normal(size=(3, 2))
def loss(x, w):
    return sg.reduce_mean(sg.square(sg.tanh(x @ w)))
def other(x, w):
    return loss(x, w)
def other_numpy(x, w):
    return np.square(np.tanh(x @ w)).mean() * 1.001
def branches(x, w):
    return x if sg.reduce_sum(x) > 0 else w
"""
QUICK = ["--seconds", "0.01", "--without", "torch", "--without", "jax", "--without", "tensorflow"]


@pytest.fixture
def model(tmp_path):
    (tmp_path / "model.py").write_text(MODEL)
    return str(tmp_path / "model.py")


def test_the_command_says_by_its_exit_code_whether_modes_agree(model, tmp_path, capsys):
    page, data = str(tmp_path / "r.html"), str(tmp_path / "r.json")
    assert main(["compare", f"{model}:loss", "--html", page, "--json", data, *QUICK]) == 0
    out = capsys.readouterr().out
    assert "model.loss(f64[4,3], f64[3,2])" in out and "equal: 6 modes" in out and f"wrote {page}" in out
    with open(data, encoding="utf-8") as f:
        assert json.load(f)["equal"] is True
    assert main(["compare", f"{model}:other", *QUICK]) == 1
    assert "DIFFERENT from dynamic: NumPy" in capsys.readouterr().out
    assert main(["compare", f"{model}:branches", *QUICK]) == 1
    assert "did not run" in capsys.readouterr().out


@pytest.mark.parametrize("what, message", [("model", "give FILE:FUNCTION"), ("nowhere.py:loss", "there is no file 'nowhere.py'"), ("{}:los", "has no function 'los'; it has branches, example, loss"),
                                           ("broken.py:f", "does not run: ZeroDivisionError"), ("bare.py:f", "gives no arguments: write a function example")])
def test_what_the_command_cannot_do_is_said(model, tmp_path, monkeypatch, capsys, what, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "broken.py").write_text("1 / 0\n")
    (tmp_path / "bare.py").write_text("def f(x):\n    return x\n")
    assert main(["compare", what.format(model)]) == 2
    assert message in capsys.readouterr().err


def test_help_names_options_and_exit_codes(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["compare", "--help"])
    text = capsys.readouterr().out
    assert stop.value.code == 0
    for word in ("FILE:FUNCTION", "--html", "--plot", "--json", "--without", "exit code", "example(rng)"):
        assert word in text
