"""``docs/conventions.md`` and the examples of the documents, executed."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from native import Case

import staticgraph as sg
from staticgraph import dtypes, errors
from staticgraph.config import Config

ROOT = Path(__file__).parents[1]
ROWS = re.findall(r"^\| `(.+?)` \| `(.+?)` \|$", (ROOT / "docs" / "conventions.md").read_text(), re.M)
NAMES = {"f8": dtypes.float64, "i4": dtypes.int32, "i8": dtypes.int64, "u1": dtypes.uint8, "bool_": dtypes.bool_}


def evaluate(expression: str, optimize: str, folded: bool):
    """The expression's value, from fed operands or from constants."""
    case = Case()

    def operand(value, dtype):
        array = np.array(value, dtype)
        return case.b.const(array) if folded else case.feed(array)

    def gradient(f, x):
        node = operand(x, np.float64)
        return case.b.gradients([f(node)], [node])[0]
    scope = {**NAMES, "b": case.b, "v": lambda x: operand(x, np.float64), "n": lambda x: operand(x, np.int32), "d": gradient, "inf": np.inf, "nan": np.nan}
    out = eval(expression, scope)
    if out is None:
        return None
    case.outputs = [out]
    return case.run(Config(optimize=optimize))[0]


@pytest.mark.parametrize("folded", [False, True], ids=["fed", "constant"])
@pytest.mark.parametrize("optimize", ["O0", "O2"])
@pytest.mark.parametrize("expression, value", ROWS)
def test_convention(expression, value, optimize, folded):
    if value.endswith("Error"):
        with pytest.raises(getattr(errors, value)):
            evaluate(expression, optimize, folded)
        return
    want = eval(value, {"inf": np.inf, "nan": np.nan})
    got = evaluate(expression, optimize, folded)
    if want is None:
        assert got is None
        return
    want = np.array(want, got.dtype)
    assert np.array_equal(got, want, equal_nan=got.dtype.kind == "f"), got
    if got.dtype.kind == "f":
        assert np.array_equal(np.signbit(got)[~np.isnan(want)], np.signbit(want)[~np.isnan(want)]), got


def test_there_are_rows():
    assert len(ROWS) > 50


def blocks(name: str) -> list[str]:
    """The Python examples of a document."""
    return re.findall(r"```python\n(.*?)```", (ROOT / name).read_text(), re.S)


def test_the_readme_example_learns():
    (code,) = blocks("README.md")
    scope: dict = {}
    with sg.Graph().as_default():
        exec(code, scope)
    assert scope["value"] < 0.1


def test_the_worked_example_of_contributing_is_a_whole_op():
    from derived import LAWS

    from staticgraph.ir.opdef import OPS
    (code,) = blocks("CONTRIBUTING.md")
    scope: dict = {}
    exec(code, scope)
    op = scope["cube"]
    try:
        for name, law in LAWS.items():
            assert law(op) == [], name
        with sg.Graph().as_default(), sg.Session() as s:
            x = sg.placeholder(sg.float64, [None])
            assert list(s.run(sg.gradients(sg.cube(x), [x])[0], {x: [1.0, 2.0]})) == [3.0, 12.0]
    finally:
        del OPS[op.name]
