"""``docs/dynamic.md``: its programs run, and its table of differences holds, in PyTorch too where that is installed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from situations import plain

import staticgraph.dynamic as dy

TEXT = (Path(__file__).parents[1] / "docs" / "dynamic.md").read_text()
ROWS = [re.findall(r"`((?:[^`])*)`", cells)[:3] for cells in re.findall(r"^\| (`.*) \|$", TEXT.split("## What differs")[1].split("\n## ")[0], re.M)]


def outcome(expression, t):
    names = {"t": t, "x": t.tensor([1.0, 2.0]), "w": t.tensor([1.0, 2.0], requires_grad=True)}
    try:
        return plain(eval(expression, names))
    except Exception as error:
        return {c.__name__ for c in type(error).__mro__}


def holds(got, said):
    """The value, any NaN for NaN, or an error of that name."""
    return said in got if isinstance(got, set) else repr(got) == repr(eval(said, {"nan": float("nan")}))


@pytest.mark.parametrize("expression, torchs, ours", ROWS, ids=[r[0] for r in ROWS])
def test_a_difference_is_as_said(expression, torchs, ours):
    assert holds(outcome(expression, dy), ours)


@pytest.mark.parametrize("expression, torchs, ours", ROWS, ids=[r[0] for r in ROWS])
def test_pytorch_does_what_is_said_of_it(expression, torchs, ours):
    assert holds(outcome(expression, pytest.importorskip("torch")), torchs)


def test_the_programs_run_and_print_what_is_said(capsys):
    first, second = re.findall(r"```python\n(.*?)```", TEXT, re.S)
    names = {}
    exec(compile(first, "model.py", "exec"), names)
    assert capsys.readouterr().out == "True <MeanBackward>\n"
    exec(compile(second, "model.py", "exec"), names)
    out = capsys.readouterr().out
    said = [line[2:].removesuffix(" ...") for line in second.splitlines() if line.startswith("# ")]
    assert out.startswith(said[0]) and len(said) == 3
    for line in said[1:]:
        assert line.split(": ")[0] in out and line.split(": ")[1].split()[0] in out
