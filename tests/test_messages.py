"""Errors that students make: the first line says what is wrong with the values, notes say where they came from and what to do, and the last
frame is the user's own line."""

from __future__ import annotations

import functools
import math
import traceback

import numpy as np
import pytest

import staticgraph as sg


def raised(f):
    """(error, all it says, file of the innermost frame)"""
    with pytest.raises(Exception) as caught:
        f()
    error = caught.value
    return error, "\n".join([str(error), *getattr(error, "__notes__", ())]), traceback.extract_tb(error.__traceback__)[-1].filename


@pytest.fixture
def graph():
    with sg.Graph().as_default():
        yield


def a_feed():
    return sg.placeholder(sg.float32, [None, 3], name="x")


def set_item(t):
    t[0] = 1.0


CASES = {
    "two dtypes": (lambda: a_feed() * sg.constant(2), "type int32 that does not match type float32", "y: int32 made at test_messages.py:", "sg.cast(t, sg.float32)"),
    "numpy's sine": (lambda: np.sin(a_feed()), "Cannot convert a symbolic Tensor (x:0) to a numpy array", "sg.sin for np.sin"),
    "math's sine": (lambda: math.sin(sg.reduce_sum(a_feed())), "has no value while the graph is built", "sg.sin for math.sin"),
    "item assignment": (lambda: set_item(a_feed()), "does not support item assignment", "sg.where"),
    "a loop over a tensor": (lambda: list(a_feed()), "iterating over `tf.Tensor` is not allowed", "sg.unstack"),
    "a branch": (lambda: 1 if sg.reduce_sum(a_feed()) > 0.0 else 2, "as a Python `bool` is not allowed", "Use sg.cond"),
    "text": (lambda: a_feed() + "a", "Expected float32, got 'a'"),
    "no value yet": (lambda: sg.Session().run(sg.Variable(2.0, name="v") * 2.0), "uninitialized value v", "global_variables_initializer"),
    "a wrong feed": (lambda: sg.Session().run(sg.reduce_sum(x := a_feed()), {x: np.zeros((2, 4))}), "Cannot feed value of shape (2, 4)", "x:0 made at test_messages.py:"),
    "no return": (lambda: sg.function(lambda x: None)(1.0), "returned None: does it end with return?"),
}


@pytest.mark.parametrize("name", CASES)
def test_an_error_says_what_where_and_what_to_do(name, graph):
    f, *parts = CASES[name]
    error, said, last = raised(f)
    assert all(p in said for p in parts), said
    assert parts[0] in said.splitlines()[0]
    assert last == __file__, "".join(traceback.format_exception(error))


def test_names_of_other_libraries_lead_to_ours():
    from staticgraph import _ELSEWHERE
    for name, ours in _ELSEWHERE.items():
        assert functools.reduce(getattr, ours.split("."), sg) is not None
        with pytest.raises(AttributeError, match=f"here it is sg.{ours}"):
            getattr(sg, name)


def test_similar_names_are_offered_by_python():
    with pytest.raises(AttributeError) as caught:
        _ = sg.reduce_sums
    assert (caught.value.name, caught.value.obj) == ("reduce_sums", sg) and "reduce_sum" in dir(sg)
