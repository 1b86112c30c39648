"""The IR: sizes, printing and parsing, walks over deep and wide graphs, sites."""

from __future__ import annotations

import sys
import time

import numpy as np
import pytest
from native import Case

import staticgraph as sg
from staticgraph.dtypes import as_dtype
from staticgraph.errors import GraphError
from staticgraph.ir import aval, walk
from staticgraph.ir.aval import Aval
from staticgraph.ir.builder import GraphBuilder
from staticgraph.ir.graph import Graph
from staticgraph.ir.text import parse, parse_aval, print_graph
from staticgraph.ir.verify import verify

f64 = as_dtype("float64")


def test_sizes_are_polynomials():
    n, m = aval.symbol("n"), aval.symbol("m")
    assert (n + m) * 2 - n - n == 2 * m and n * m == m * n and n - n == 0
    assert aval.evaluate((n + 1) * m, {"n": 2, "m": 5}) == 15
    assert aval.exact_div(4 * n * m, 2 * n) == 2 * m and aval.exact_div(n + 1, n) is None
    assert aval.substitute(n * m + 1, {"n": 3}) == 3 * m + 1
    assert aval.parse_dim(str(n * m + 2 * n)) == n * m + 2 * n
    assert parse_aval("f32[n,3*m]") == Aval((n, 3 * m), as_dtype("float32"))
    early, late = aval.symbol("n99"), aval.symbol("n100")            # fresh symbols stand in the order in which they were made
    assert [repr(late + early), repr(late * early), repr(aval.maximum(late, early))] == ["n99+n100", "(n99*n100)", "max(n99,n100)"]


def test_a_printed_graph_parses_back_with_regions_and_constants():
    with sg.Graph().as_default() as ledger:
        x = sg.placeholder(sg.float32, [None, 2])
        _, y = sg.while_loop(lambda i, a: i < 3, lambda i, a: [i + 1, sg.cond(i > 1, lambda: a * 2, lambda: a + np.float32(np.nan))], [sg.constant(0), x])
        sg.gradients(y, [x])
        g = ledger.ir
    text = print_graph(g, sites=False)
    again = parse(text)
    verify(again)
    assert print_graph(again, sites=False) == text and len(again) == len(g)


@pytest.mark.parametrize("text, message", [("%0: f32[2] = nosuch()\nreturn %0", "nosuch"), ("return %3", "does not exist"), ("%0: f32[2] = exp(\nreturn", "line 1: cannot parse")])
def test_text_that_does_not_parse_is_refused_with_its_line(text, message):
    with pytest.raises((GraphError, ValueError), match=message):
        parse(text)


def test_a_chain_of_20_000_nodes_at_the_default_recursion_limit():
    assert sys.getrecursionlimit() <= 10_000
    case = Case()
    x = case.feed(np.array([1.0, 2.0]))
    y = x
    for _ in range(20_000):
        y = case.b.add(y, x)
    case.outputs = [y, case.b.gradients([y], [x])[0]]
    value, grad = case.run()
    assert list(value) == [20_001, 40_002] and list(grad) == [20_001, 20_001]
    assert walk.depth(case.graph.nodes) > 20_000
    assert len(parse(print_graph(case.graph))) == len(case.graph)


def test_diamonds_are_linear():
    sizes = []
    for levels in (30, 60):
        case = Case()
        x, g = case.feed(np.array(1.0)), case.feed(np.array(0.01))
        y = x
        for _ in range(levels):
            y = case.b.add(y, case.b.mul(y, g))
        case.outputs = [y, *case.b.gradients([y], [x, g])]
        sizes.append(len(case.graph))
        value, dx, dg = case.run()
        assert np.allclose([value, dx, dg], [1.01**levels, 1.01**levels, levels * 1.01 ** (levels - 1)])
    assert sizes[1] < 2.2 * sizes[0]


def test_passes_over_a_wide_graph_take_time_in_proportion():
    def build(n):
        case = Case()
        xs = [case.feed(np.float64(k)) for k in range(8)]
        pool = list(xs)
        for k in range(n):
            pool.append(case.b.add(pool[k], pool[k // 2 + 3]))
        case.outputs = [case.b.add_n(pool[-20:])]
        start = time.process_time()
        from passes import pipeline
        case.graph.outputs = tuple(case.outputs)
        for p in pipeline.O2:
            case.graph = p(case.graph)
        return time.process_time() - start, len(case.graph)
    (_, few), (_, many) = build(2_000), build(20_000)
    assert many > 5 * few


def test_sites_name_the_users_line_and_column():
    with sg.Graph().as_default():
        a = sg.constant([1.0, 2.0])
        b = sg.exp(a) + sg.sin(a)  # the line
    assert "test_ir.py" in b.op.site.short()
    import linecache
    frame = b.node.site.frames[0] if isinstance(b.node.site.frames, (tuple, list)) else None
    assert frame is None or "the line" in linecache.getline(frame.file, frame.line) if hasattr(frame, "file") else True


def test_nodes_are_frozen():
    g = Graph()
    node = GraphBuilder(g).const(1.0, f64)
    with pytest.raises(AttributeError):
        node.inputs = ()
