"""Pictures of graphs: boxes that do not overlap, edges that do not pass through boxes, and what ``to_networkx`` and ``to_dot`` say."""

from __future__ import annotations

import itertools
import re
import shutil
import subprocess
import xml.etree.ElementTree as ET

import numpy as np
import pytest

import staticgraph as sg
from staticgraph.tools.layered import _crossings, layout, spread

SVG = "{http://www.w3.org/2000/svg}"


def random_dag(seed, n=40, degree=2.0):
    rng = np.random.default_rng(seed)
    sizes = {k: (float(rng.integers(30, 200)), float(rng.integers(20, 80))) for k in range(n)}
    edges = [(int(rng.integers(max(0, b - 15), b)), b) for b in range(1, n) for _ in range(rng.poisson(degree)) if b]
    return sizes, edges


@pytest.mark.parametrize("seed", range(6))
def test_boxes_keep_apart_and_edges_go_down_around_them(seed):
    sizes, edges = random_dag(seed)
    made = layout(sizes, edges, (20.0, 40.0))
    boxes = {k: (x - w / 2, y - h / 2, x + w / 2, y + h / 2) for (k, (x, y)), (w, h) in zip(made.centres.items(), sizes.values())}
    for (_, a), (_, b) in itertools.combinations(boxes.items(), 2):
        assert a[2] + 19.99 <= b[0] or b[2] + 19.99 <= a[0] or a[3] <= b[1] or b[3] <= a[1]
    assert all(x0 >= -1e-6 and x1 <= made.width + 1e-6 and y0 >= -1e-6 and y1 <= made.height + 1e-6 for x0, y0, x1, y1 in boxes.values())
    assert set(made.paths) == set(edges)
    for (a, b), path in made.paths.items():
        assert path[0][1] == boxes[a][3] and path[-1][1] == boxes[b][1]
        assert all(p[1] <= q[1] for p, q in itertools.pairwise(path))
        for (x, top), (_, bottom) in zip(path[1:-1:2], path[2:-1:2]):          # the straight pieces along the rows they pass
            assert all(x < box[0] or x > box[2] for box in boxes.values() if box[1] < bottom and box[3] > top)


def test_an_edge_against_the_order_is_refused():
    with pytest.raises(ValueError, match="against the order"):
        layout({"a": (1, 1), "b": (1, 1)}, [("b", "a")])
    assert layout({}, []).width == 0


@pytest.mark.parametrize("seed", range(5))
def test_places_are_the_least_squares_solution(seed):
    """The optimality conditions: a pool of touching boxes is pulled nowhere, and no beginning of it to the left, no end to the right."""
    rng = np.random.default_rng(seed)
    wanted, weight, apart = rng.normal(0, 30, 12), rng.uniform(0.5, 4, 12), rng.uniform(1, 10, 11)
    x = np.array(spread(wanted, weight, apart))
    slack = np.diff(x) - apart
    assert (slack > -1e-9).all()
    pull = weight * (wanted - x)
    for pool in np.split(np.arange(12), np.flatnonzero(slack > 1e-9) + 1):
        assert abs(pull[pool].sum()) < 1e-9
        assert (np.cumsum(pull[pool]) > -1e-9).all()                 # the left part would go right: its neighbour stops it


def test_crossings_are_counted():
    down = {"a": ["z"], "b": ["y"], "c": ["x", "y"]}
    pairs = [(p, q) for p in "abc" for q in down[p]]
    order = {"a": 0, "b": 1, "c": 2, "x": 0, "y": 1, "z": 2}
    expected = sum((order[p] - order[r]) * (order[q] - order[s]) < 0 for (p, q), (r, s) in itertools.combinations(pairs, 2))
    assert _crossings([["a", "b", "c"], ["x", "y", "z"]], down) == expected == 4


def test_crossings_that_can_be_avoided_are():
    sizes = dict.fromkeys(("a", "b", "c", "p", "q", "r"), (50.0, 20.0))
    made = layout(sizes, [("a", "r"), ("b", "q"), ("c", "p")])
    for (a, p), (b, q) in itertools.combinations([("a", "r"), ("b", "q"), ("c", "p")], 2):
        assert (made.centres[a][0] < made.centres[b][0]) == (made.centres[p][0] < made.centres[q][0])


def pair():
    with sg.Graph().as_default() as g:
        x, y = sg.placeholder(sg.float64, [], name="x"), sg.placeholder(sg.float64, [], name="y")
        f = (x + y) * sg.sin(x)
        return g, f, sg.gradients(f, [x, y])


def shown(svg):
    """(texts, boxes with text, edges) of a drawing."""
    root = ET.fromstring(svg)
    boxes = [g for g in root.iter(f"{SVG}g") if g.find(f"{SVG}title") is not None]
    return [t.text for t in root.iter(f"{SVG}text")], boxes, [p for p in root.iter(f"{SVG}path") if p.get("marker-end")]


@pytest.mark.parametrize("direction", ["down", "right"])
def test_a_drawing_shows_every_node_its_aval_line_and_role(direction, tmp_path):
    g, f, (gx, gy) = pair()
    path = tmp_path / "f.svg"
    drawing = sg.draw([f, gx, gy], path, direction=direction, title="f & <its> gradient", notes={f: "value 4.5465"})
    assert path.read_text(encoding="utf-8") == drawing.svg == drawing._repr_svg_()
    texts, boxes, edges = shown(drawing.svg)
    nodes = [n for n in g.ir.nodes if any(t and t.startswith(f"%{n.id} ") for t in texts)]
    assert len(boxes) == len(nodes)
    assert len(edges) == len({(i.id, n.id) for n in nodes for i in n.inputs})
    assert "%0 placeholder  x" in texts and "value 4.5465" in texts and "f & <its> gradient" in texts
    assert texts.count("f64[]") == len(nodes)
    assert sum("adjoint of" in t for t in texts) == sum(n.role.startswith("adjoint") for n in nodes) > 0
    assert any(re.fullmatch(r"test_draw\.py:\d+", t) for t in texts)
    thick = [b for b in boxes if b.find(f"{SVG}rect").get("stroke-width") == "4"]
    assert len(thick) == 3
    assert {float(t.get("font-size")) >= 15 for t in ET.fromstring(drawing.svg).iter(f"{SVG}text")} == {True}


def test_functions_ledgers_ir_graphs_and_bodies_are_drawn():
    def loop(state, x):
        return sg.while_loop(lambda k, v: k < 4, lambda k, v: (k + 1, sg.cond(sg.reduce_sum(v) > 0.0, lambda: v * v, lambda: x)), (0, state["v"]))[1]
    texts, boxes, _ = shown(sg.draw(loop, None, {"v": np.ones(3)}, np.ones(3)).svg)
    assert {"%0 placeholder  v", "%1 placeholder  x", "2 times"} <= set(texts)
    assert sum(bool(re.fullmatch(r"(body|cond) of %\d+ while_loop", t)) for t in texts) == 2
    assert sum(bool(re.fullmatch(r"(true|false) of %[\d.]+ cond", t)) for t in texts) == 2

    def count(nodes):
        return sum(1 + sum(count(set(r.nodes) | set(r.params)) for r in n.regions) for n in nodes)
    assert len(boxes) == count(sg.function(loop).graph({"v": np.ones(3)}, np.ones(3)).nodes)
    g, f, _ = pair()
    assert len(shown(sg.draw(g).svg)[1]) == len(g.ir.nodes)
    assert len(shown(sg.draw(g.ir).svg)[1]) == len(g.ir.nodes)
    assert len(shown(sg.draw(f).svg)[1]) == 5


def test_control_edges_are_dashed():
    with sg.Graph().as_default() as g:
        v = sg.Variable(1.0, name="v")
        with sg.control_dependencies([sg.assign(v, 2.0)]):
            sg.identity(v.read_value())
    _, _, edges = shown(sg.draw(g).svg)
    assert any(e.get("stroke-dasharray") for e in edges)


def test_refusals():
    with pytest.raises(sg.GraphError, match="got int"):
        sg.draw(3)
    with pytest.raises(ValueError, match=r"ends in \.svg"):
        sg.draw(pair()[1], "f.png")
    with pytest.raises(ValueError, match="'down' or 'right'"):
        sg.draw(pair()[1], direction="up")

    def long(x):
        for _ in range(300):
            x = sg.sin(x)
        return x
    with pytest.raises(ValueError, match="301 nodes would not be readable"):
        sg.draw(long, None, 1.0)


def test_networkx_keeps_operand_positions_and_outputs():
    nx = pytest.importorskip("networkx")
    g = sg.function(lambda x, y: (x * x) / y).graph(2.0, 3.0)
    n = g.to_networkx()
    assert nx.is_directed_acyclic_graph(n) and len(n) == len(g) == 4
    assert n.edges[0, 2]["operands"] == (0, 1) and n.edges[1, 3]["operands"] == (1,) and n.edges[2, 3]["operands"] == (0,)
    assert [k for k, out in n.nodes(data="output") if out] == [3]
    assert n.nodes[3]["op"] == "div" and n.nodes[3]["site"].startswith("test_draw.py:")


@pytest.mark.skipif(shutil.which("dot") is None, reason="Graphviz is not installed")
def test_graphviz_reads_the_dot_text():
    g = sg.value_and_grad(lambda x: sg.reduce_sum(sg.cond(x[0] > 0.0, lambda: x * x, lambda: sg.sin(x)))).graph(np.ones(3))
    done = subprocess.run(["dot", "-Tplain"], input=g.to_dot(), capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "rror" not in done.stderr
    assert done.stdout.count("\nnode ") >= len(g)
