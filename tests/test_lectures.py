"""The lectures: each script runs, prints what ``tests/lectures`` says, and leaves the pictures it names.

Lines marked ``[time]`` are measured by the clock: their numbers are not compared. Other numbers agree to one unit of the last digit printed,
and whole numbers (counts of nodes, operations, bytes) exactly. ``python tests/test_lectures.py`` writes the expected texts again.
"""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
LECTURES = sorted((ROOT / "samples" / "lectures").glob("[0-9][0-9]_*.py"))
EXPECTED = ROOT / "tests" / "lectures"
NUMBER = re.compile(r"(?<![A-Za-z_])[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?")
drawing = importlib.util.find_spec("matplotlib") is not None


def run(script: Path, out: Path, *options: str) -> str:
    """What a lecture prints."""
    env = {**os.environ, "PYTHONPATH": str(ROOT), "SG_TARGET": os.environ.get("SG_TARGET", ""), "SG_LOG": "", "SG_TRACEBACK": ""}
    done = subprocess.run([sys.executable, str(script), "--out", str(out), *options], capture_output=True, text=True, env=env, timeout=300)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    assert done.stderr == ""
    return done.stdout


def lines(text: str) -> list[str]:
    """What is compared: times without their numbers, pictures by name only, spaces between words as one."""
    kept = [" ".join(line.split()) for line in text.splitlines() if not line.startswith("  |")]
    return [NUMBER.sub("#", line) if line.startswith("[time]") else line for line in kept]


def unit(number: str) -> float:
    """One unit of the last digit; 0 for a whole number."""
    mantissa, _, exponent = number.partition("e")
    digits = len(mantissa.partition(".")[2])
    return 10.0 ** (int(exponent or 0) - digits) if digits or exponent else 0.0


def same(left: str, right: str) -> bool:
    """Equal words, and numbers that agree as far as they are printed."""
    if NUMBER.sub("#", left) != NUMBER.sub("#", right):
        return False
    pairs = zip(NUMBER.findall(left), NUMBER.findall(right))
    return all(a == b or abs(float(a) - float(b)) <= 1.01 * max(unit(a), unit(b)) for a, b in pairs)


@pytest.mark.parametrize("script", LECTURES, ids=lambda p: p.stem)
def test_a_lecture_prints_what_is_expected(script, tmp_path):
    got, expected = lines(run(script, tmp_path)), lines((EXPECTED / f"{script.stem}.txt").read_text())
    for k, (a, b) in enumerate(zip(got, expected)):
        assert same(a, b), f"line {k + 1}: expected\n{b}\ngot\n{a}\nif the change is meant: python tests/test_lectures.py writes the texts again"
    assert len(got) == len(expected)
    named = [line.partition(": ")[2] for line in got if line.startswith("picture: ")]
    plots = [name for name in named if name.endswith(".png") and drawing]
    drawn = [name for name in named if name.endswith(".svg")]
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(plots + drawn)
    assert all((tmp_path / name).stat().st_size > 8000 for name in plots)              # an empty page is smaller
    assert all((tmp_path / name).read_text().count("<rect") > 5 for name in drawn)


@pytest.mark.parametrize("script", [p for p in LECTURES if p.name[:2] in ("02", "04")], ids=lambda p: p.stem)
def test_without_matplotlib_pictures_are_text(script, tmp_path):
    text = run(script, tmp_path, "--text")
    assert not list(tmp_path.iterdir())
    for block in text.split("picture: ")[1:]:
        rows = [line for line in block.splitlines()[1:] if line.startswith("  |")]
        assert len(rows) > 3 and max(map(len, rows)) < 110


def test_the_first_lecture_is_what_mathematics_says(tmp_path):
    text = run(LECTURES[0], tmp_path, "--text")
    forms = text.partition("all forms")[2].partition("picture")[0]
    rows = [line.split()[-3:] for line in forms.splitlines() if re.search(r"\d", line)]
    assert len(rows) >= 4 and all(row == ["4.5465", "-1.1714", "0.9093"] for row in rows)


def test_the_tenth_lecture_finds_its_four_operations_in_machine_code(tmp_path):
    text = run(LECTURES[9], tmp_path)
    llvm, _, assembly = text.partition("floor 3")[2].partition("floor 4")
    for word in ("load <", "fmul", "fadd", "maximum", "store <", "phi", "br i1"):
        assert word in llvm, word
    rows = [line for line in assembly.splitlines() if line.startswith("  | ")]
    assert 8 <= len(rows) < 60 and sum("mul" in row for row in rows) >= 1 and sum("add" in row for row in rows) >= 1


def test_the_lecturers_page_shows_what_is_printed():
    page = (ROOT / "docs" / "lecturing.md").read_text()
    blocks = re.findall(r"```\n\$ python samples/lectures/(\w+)\.py.*\n((?:.*\n)+?)```", page)
    assert {name for name, _ in blocks} == {p.stem for p in LECTURES if p.name[:2] != "08"}
    for name, block in blocks:
        printed = lines((EXPECTED / f"{name}.txt").read_text())
        for line in lines(block):
            assert any(same(line, p) for p in printed), f"{name} does not print: {line}"


def converter():
    """``samples/lectures/notebooks.py`` as a module."""
    spec = importlib.util.spec_from_file_location("lecture_notebooks", ROOT / "samples" / "lectures" / "notebooks.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("script", LECTURES, ids=lambda p: p.stem)
def test_cells_of_a_notebook_are_the_script(script):
    cells = converter().cells_of(script.read_text())
    code = "\n".join(text for kind, text in cells if kind == "code")
    body = ast.parse(script.read_text()).body[1:]                            # without the docstring, which is the first text cell
    assert ast.dump(ast.parse(code)) == ast.dump(ast.Module(body, []))
    assert cells[0][0] == "markdown" and cells[0][1].startswith("# Lecture ")
    words = " ".join(text for kind, text in cells if kind == "markdown")
    assert all(line[5:] in words for line in script.read_text().splitlines() if line.startswith("# %% "))


@pytest.mark.parametrize("number", [1, 9])
def test_notebooks_run_and_keep_their_results(number, tmp_path):
    # pictures, errors over several cells; ``make notebooks`` runs all of them
    pytest.importorskip("nbclient", reason="pip install 'staticgraph[notebook]'")
    pytest.importorskip("ipykernel", reason="pip install 'staticgraph[notebook]'")
    script = LECTURES[number - 1]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, str(ROOT / "samples" / "lectures" / "notebooks.py"), "--out", str(tmp_path), "--execute", f"{number:02d}"],
                          capture_output=True, text=True, env=env, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    cells = json.loads((tmp_path / f"{script.stem}.ipynb").read_text())["cells"]
    outputs = [o for c in cells for o in c.get("outputs", [])]
    got = lines("".join("".join(o["text"]) for o in outputs if o["output_type"] == "stream"))
    expected = lines((EXPECTED / f"{script.stem}.txt").read_text())
    places = re.compile(r"line \d+(, \d+)*( and \d+)?|\w+\.py:\d+")
    for a, b in zip(got, expected):
        assert same(places.sub("somewhere", a), places.sub("somewhere", b)) or a.startswith("picture"), f"expected\n{b}\ngot\n{a}"
    assert len(got) == len(expected)
    for kind, ending, wanted in (("image/png", ".png", drawing), ("image/svg+xml", ".svg", True)):
        shown = sum(kind in o.get("data", {}) for o in outputs)
        assert shown == (sum(line.startswith("picture: ") and line.endswith(ending) for line in expected) if wanted else 0)


def test_every_lecture_has_its_text():
    assert {p.stem for p in LECTURES} == {p.stem for p in EXPECTED.glob("*.txt")}
    assert [p.name[:2] for p in LECTURES] == [f"{k:02d}" for k in range(1, len(LECTURES) + 1)]


if __name__ == "__main__":
    import tempfile
    for lecture in LECTURES:
        with tempfile.TemporaryDirectory() as folder:
            kept = [line for line in run(lecture, Path(folder)).splitlines() if not line.startswith("  |")]
            text = "\n".join(NUMBER.sub("#", line) if line.startswith("[time]") else line for line in kept)
            (EXPECTED / f"{lecture.stem}.txt").write_text(text + "\n")
            print(lecture.stem)
