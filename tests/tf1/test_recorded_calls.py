"""Statements 2, 4, 5 and 156, call by call: names, types, static shapes and numbers of nodes against what TF 1.15.5 was seen to make."""

import json
from pathlib import Path

import pytest
from recorded_calls import measure

import staticgraph.compat.v1 as tf

RECORDED = json.loads((Path(__file__).parent / "recorded_calls.json").read_text())

# what differs, by the beginning of the call: the fields, and why
ALL = ("name", "type", "dtype", "shape", "nodes", "taken", "raises")
GRADIENTS = ("name", "type", "nodes", "taken")
DIFFERENT = [
    (("tf.map_fn", "tf.scan", "tf.fold", "tf.cond", "tf.case", "tf.while_loop", "v.initialized_value"), GRADIENTS, "control flow is one operation here, not switches and merges"),
    (("tf.gradients", "tf.hessians"), GRADIENTS, "adjoint nodes belong to the compiler: a gradient is one operation"),
    (("tf.train.",), GRADIENTS, "updates are one operation, and gradients too"),
    (("tf.Assert", "tf.assert_"), ALL, "an assertion is one operation here, not a branch"),
    (("tf.global_norm", "tf.clip_by_global_norm"), GRADIENTS, "one operation here"),
    (("tf.py_func",), ("shape",), "the function gives the shape"),
    (("tf.one_hot(i, k",), ("raises",), "the depth must be known while building"),
    (("tf.confusion_matrix",), ("nodes",), "its checks are no operations of their own here, but those of the indices"),
]


def differing(call):
    """Fields in which a call may differ."""
    return {f for starts, fields, _ in DIFFERENT if call.startswith(starts) for f in fields}


@pytest.mark.parametrize("call", RECORDED)
def test_004_as_recorded(call):
    results, nodes, names = RECORDED[call]
    allowed = differing(call)
    try:
        got = measure(tf, call, lambda graph: graph.op_count, names)
    except (NotImplementedError, ValueError):
        if "raises" in allowed:
            return
        raise
    wrong = {}
    for k, field in enumerate(("name", "type", "dtype", "shape")):
        want, have = [r[k] for r in results if k < len(r)], [r[k] for r in got["results"] if k < len(r)]
        if want != have:
            wrong[field] = (want, have)
    if nodes != got["nodes"]:
        wrong["nodes"] = (nodes, got["nodes"])
    if names != got["taken"]:
        wrong["taken"] = (names, got["taken"])
    assert not {f: v for f, v in wrong.items() if f not in allowed}
