"""``docs/conventions.md`` and the examples of the documents, executed."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from native import Case

import staticgraph as sg
from staticgraph import dtypes, dynamic, errors
from staticgraph.config import Config
from staticgraph.ir import evaluate as interpreter
from staticgraph.ir.opdef import OPS

ROOT = Path(__file__).parents[1]
ROWS = re.findall(r"^\| `(.+?)` \| `(.+?)` \|$", (ROOT / "docs" / "conventions.md").read_text(), re.M)
NAMES = {"f8": dtypes.float64, "i4": dtypes.int32, "i8": dtypes.int64, "u1": dtypes.uint8, "bool_": dtypes.bool_}


def compiled(optimize: str, folded: bool):
    """Evaluate natively, from fed operands or from constants."""
    def evaluate(expression):
        case = Case()

        def operand(value, dtype):
            array = np.array(value, dtype)
            return case.b.const(array) if folded else case.feed(array)
        out = eval(expression, scope(case.b, operand, lambda f, x: case.b.gradients([f(x)], [x])[0]))
        if out is None:
            return None
        case.outputs = [out]
        return case.run(Config(optimize=optimize))[0]
    return evaluate


def interpreted(expression):
    """Evaluate by the meanings of the records."""
    case = Case()
    out = eval(expression, scope(case.b, lambda value, dtype: case.feed(np.array(value, dtype)), lambda f, x: case.b.gradients([f(x)], [x])[0]))
    return None if out is None else interpreter.evaluate([out], dict(zip(case.feeds, case.values)))[0]


def by_run(expression):
    """Evaluate in the define-by-run mode."""
    def operand(value, dtype):
        return dynamic.tensor(np.array(value, dtype), requires_grad=dtype is np.float64)
    b = SimpleNamespace(**{name: getattr(dynamic, name) for name in OPS})
    b.const = lambda value, dtype: dynamic.tensor(np.array(value, dtype.np))
    out = eval(expression, scope(b, operand, lambda f, x: dynamic.grad([f(x).sum()], [x], allow_unused=True)[0]))
    return None if out is None else out.detach().numpy()


def scope(b, operand, gradient):
    """The names that rows use."""
    return {**NAMES, "b": b, "v": lambda x: operand(x, np.float64), "n": lambda x: operand(x, np.int32), "inf": np.inf, "nan": np.nan,
            "d": lambda f, x: gradient(f, operand(x, np.float64))}


EXECUTORS = {"O0": compiled("O0", False), "O2": compiled("O2", False), "O0 folded": compiled("O0", True), "O2 folded": compiled("O2", True),
             "interpreter": interpreted, "define-by-run": by_run}


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("expression, value", ROWS)
def test_convention(expression, value, executor):
    evaluate = EXECUTORS[executor]
    if value.endswith("Error"):
        with pytest.raises(getattr(errors, value)):
            evaluate(expression)
        return
    want = eval(value, {"inf": np.inf, "nan": np.nan})
    got = evaluate(expression)
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
