"""Passes: their pictures, and that they keep every bit and are idempotent on random graphs."""

from __future__ import annotations

import numpy as np
import pytest

import staticgraph as sg
import staticgraph.ops
import staticgraph.transforms.gradient
from passes import pipeline
from passes.base import PassContext, graph_pass
from staticgraph.dtypes import as_dtype
from staticgraph.errors import InternalError_
from staticgraph.ir.aval import Aval
from staticgraph.ir.builder import GraphBuilder
from staticgraph.ir.evaluate import evaluate
from staticgraph.ir.graph import Graph
from staticgraph.ir.text import parse, print_graph
from staticgraph.ir.verify import verify

SPECIAL = np.array([0.0, -0.0, 1.0, -2.5, np.inf, -np.inf, np.nan, 1e-310])


@pytest.mark.parametrize("p", pipeline.SINGLE, ids=lambda p: p.name)
def test_the_picture_of_a_pass_is_what_it_does(p):
    pictures = p.pictures()
    assert pictures
    for before, after in pictures:
        assert print_graph(p(parse(before)), sites=False).strip() == after.strip()


def random_graph(seed: int):
    """A graph of elementwise and reducing ops over special values, with what the algebra looks for planted in it."""
    rng = np.random.default_rng(seed)
    g = Graph()
    b = GraphBuilder(g)
    x = [b.input(aval=Aval((8,), as_dtype("float64")), index=k) for k in range(2)]
    pool = [*x, b.const(0.0, as_dtype("float64")), b.const(-0.0, as_dtype("float64")), b.const(1.0, as_dtype("float64")), b.const(2.0, as_dtype("float64"))]
    for _ in range(25):
        p, q = (pool[int(k)] for k in rng.integers(0, len(pool), 2))
        name = rng.choice(["add", "sub", "mul", "div", "maximum", "minimum", "neg", "abs", "square", "sigmoid", "where", "reshape", "transpose", "sum", "exp"])
        if name in ("neg", "abs", "square", "sigmoid", "exp"):
            new = getattr(b, name)(p)
        elif name == "where":
            new = b.where(b.greater(p, q), p, q)
        elif name == "reshape":
            new = b.reshape(b.reshape(b.broadcast(p, (8,)), shape=(2, 4)), shape=(8,))
        elif name == "transpose":
            new = b.reshape(b.transpose(b.transpose(b.reshape(b.broadcast(p, (8,)), shape=(2, 4)), perm=(1, 0)), perm=(1, 0)), shape=(8,))
        elif name == "sum":
            new = b.sum(b.broadcast(p, (8,)), axis=(0,))
        else:
            new = getattr(b, name)(p, q)
        pool.append(new)
    gradients = b.gradients([b.sum(b.broadcast(pool[-1], (8,)), axis=None)], x)
    g.outputs = (*pool[-4:], *(d for d in gradients if d is not None))
    return g, x


def values(g: Graph, arrays):
    """Outputs by the interpreter."""
    env = {n: arrays[n.attr("index")] for n in g.nodes if n.op.name == "input"}
    with np.errstate(all="ignore"):
        return evaluate(g.outputs, env)


@pytest.mark.parametrize("seed", range(40))
def test_passes_keep_every_bit_and_are_idempotent(seed):
    g, _ = random_graph(seed)
    arrays = [SPECIAL, np.roll(SPECIAL, 3)]
    before = values(g, arrays)
    for p in pipeline.SINGLE:
        after = p(g)
        verify(after, p.name)
        for want, got in zip(before, values(after, arrays)):
            want, got = np.asarray(want), np.asarray(got)
            same = (want == got) & (np.signbit(want) == np.signbit(got)) | np.isnan(want) & np.isnan(got)
            assert same.all(), (p.name, want, got)
        assert print_graph(p(after)) == print_graph(after), p.name
        if p.name in ("dce", "cse", "simplify"):
            assert len(after) <= len(g)


def test_the_order_of_passes_is_checked():
    @graph_pass(needs={"never"})
    def late(g, context):
        """Needs what nothing gives."""
        return g
    with pytest.raises(ValueError, match="pass late needs never"):
        pipeline.check([late])
    for level in pipeline.LEVELS.values():
        pipeline.check(level)


def test_the_verifier_names_the_pass_that_broke_the_graph():
    g, _ = random_graph(0)

    @graph_pass()
    def broken(graph, context):
        """Loses an output."""
        new = Graph()
        new.nodes.extend(graph.nodes[1:])
        new.outputs = graph.outputs
        return new
    with pytest.raises(InternalError_, match="broken"):
        pipeline.run(g, [broken], PassContext(), verifying=True)


def test_folding_has_a_limit_and_leaves_draws_alone():
    g = Graph()
    b = GraphBuilder(g)
    big = b.broadcast_to(b.const(np.ones(1), as_dtype("float64")), shape=(1000, 1000))
    key = b.const(np.array([1, 2, 0]), as_dtype("int64"))
    g.outputs = (b.add(big, big), b.random_uniform(key, shape=(4,), dtype=as_dtype("float32")))
    after = pipeline.fold(g)
    assert any(n.op.name == "random_uniform" for n in after.nodes)
    assert all(n.op.name != "const" or n.aval.size < 100 for n in after.nodes)


def test_the_change_log_names_rules_and_lines():
    g = parse("%0: f32[3] = input(aval=aval('f32[3]'), index=0)\n%1: f32[3] = neg(%0)\n%2: f32[3] = neg(%1)\nreturn %2")
    context = PassContext(log=[])
    assert len(pipeline.algebra(g, context)) == 1
    assert context.log and all(c.rule for c in context.log)


def test_operands_of_unknown_sizes_keep_their_order_where_the_result_is_named_after_the_first():
    x, t, u = (sg.placeholder(sg.float32, [None]) for _ in range(3))
    y = sg.concat([x, t], 0) * u
    a = np.arange(9, dtype=np.float32)
    with sg.Session() as sess:
        for n, m in ((2, 3), (3, 1)):                    # the second sizes are compiled as unknown
            np.testing.assert_array_equal(sess.run(y, {x: a[:n], t: a[:m], u: a[:n + m]}), np.concatenate([a[:n], a[:m]]) * a[:n + m])
