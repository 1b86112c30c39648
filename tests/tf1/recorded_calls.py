"""Public calls and what TF 1.15 makes of them: names, types, dtypes and shapes of results, numbers of nodes, names taken.

Run as a program with TensorFlow 1.15 it records all that anew: ``python tests/tf1/recorded_calls.py tests/tf1/recorded_calls.json``.
``test_recorded_calls.py`` compares it with ours. The calls are in ``recorded_calls.txt``, one a line; those that take a name are made a
second time with one.
"""

import json
import os
import sys

PREAMBLE = """
x = tf.placeholder(tf.float32, [2, 3], name="x")
y = tf.placeholder(tf.float32, [2, 3], name="y")
u = tf.placeholder(tf.float32, [3], name="u")
s = tf.placeholder(tf.float32, [], name="s")
n = tf.placeholder(tf.float32, [None, 3], name="n")
m = tf.placeholder(tf.float32, [3, 3], name="m")
c = tf.placeholder(tf.float32, [4, 2, 3], name="c")
i = tf.placeholder(tf.int32, [3], name="i")
j = tf.placeholder(tf.int32, [2, 3], name="j")
k = tf.placeholder(tf.int32, [], name="k")
p = tf.placeholder(tf.bool, [2, 3], name="p")
q = tf.placeholder(tf.bool, [], name="q")
f = tf.placeholder(tf.float32, [1, 8, 8, 2], name="f")
h = tf.placeholder(tf.float32, [3, 3, 2, 4], name="h")
v = tf.Variable(tf.zeros([4, 3]), name="v")
"""

WORDS = ("Const", "Sum", "sub", "add", "mul", "Sigmoid", "Identity", "Rank", "Sub", "range", "concat", "transpose", "Softmax", "LogicalOr", "LogicalAnd", "LogicalNot",
         "MatMul", "zeros")


def calls():
    """All calls, each also with a name where it may take one."""
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "recorded_calls.txt")) as f:
        lines = f.read().splitlines()
    for call in lines:
        yield call
        if call.endswith(")") and call.startswith("tf.") and "name=" not in call:
            yield call[:-1] + ("" if call.endswith("()") else ", ") + "name='name')"


def leaves(tf, result):
    """Tensors, variables and operations of a result, in order."""
    if result is None:
        return []
    if isinstance(result, tf.SparseTensor):
        return [result.indices, result.values, result.dense_shape]
    if isinstance(result, (list, tuple)):
        return [x for r in result for x in leaves(tf, r)]
    return [result]


def described(tf, x):
    """[name, type, dtype, shape] of a tensor, [name, type] of an operation."""
    if isinstance(x, tf.Operation):
        return [x.name, x.type]
    if not hasattr(x, "op"):
        return [str(x)]
    ndims = x.shape.ndims
    return [x.name, x.op.type, x.dtype.base_dtype.name, None if ndims is None else [d.value for d in x.shape.dims]]


def taken(graph, name):
    """Whether the graph gives another operation of that name a number."""
    return graph.unique_name(name, mark_as_used=False) != name


def measure(tf, call, count, names=()):
    """What a call makes: its results, the number of nodes by ``count``, and which of the common names at the root (and ``names``) it takes."""
    with tf.Graph().as_default() as graph:
        scope = {"tf": tf}
        exec(PREAMBLE, scope)
        before = count(graph)
        operations = len(graph.get_operations())
        result = eval(call, scope)
        roots = {op.name.split("/")[0] for op in graph.get_operations()[operations:]}
        common = {w + number for w in WORDS for number in ("", "_1", "_2")}
        return {"results": [described(tf, x) for x in leaves(tf, result)], "nodes": count(graph) - before, "roots": sorted(roots),
                "taken": sorted(n for n in common | roots | set(names) if taken(graph, n))}


def main():
    """Record with TensorFlow 1.15."""
    import tensorflow as tf
    out = {}
    for call in calls():
        try:
            got = measure(tf, call, lambda graph: len(graph.get_operations()))
        except (TypeError, ValueError) as error:          # it takes no name
            if "name='name'" not in call:
                raise
            print("no name:", call, error)
            continue
        out[call] = [got["results"], got["nodes"], got["taken"]]
    with open(sys.argv[1], "w") as f:
        f.write("{\n" + ",\n".join(json.dumps(k) + ": " + json.dumps(v) for k, v in out.items()) + "\n}\n")


if __name__ == "__main__":
    main()
