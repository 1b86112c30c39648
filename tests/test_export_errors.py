"""Exports that cannot be made, objects that cannot be loaded, calls that do not fit: each says what to do, and leaves nothing behind."""

from __future__ import annotations

import numpy as np
import pytest

import staticgraph as sg
from staticgraph.export.loader import ExportError, read_manifest


@pytest.fixture
def graph():
    with sg.Graph().as_default(), sg.Session() as sess:
        yield sess


def test_what_needs_python_is_refused_at_its_line(graph, tmp_path):
    x = sg.placeholder(sg.float32, [3], name="x")
    y = sg.py_func(lambda a: a * 2, [x], sg.float32, name="double_it")
    with pytest.raises(sg.GraphError, match=r"'py_func' \(test_export_errors\.py:\d+\) runs in Python"):
        sg.export.shared_object(tmp_path / "m.so", {"x": x}, {"y": y + 1.0})
    z = sg.cond(sg.reduce_sum(x) > 0, lambda: sg.py_func(lambda a: a.sum(), [x], sg.float32), lambda: x[0])
    with pytest.raises(sg.GraphError, match="py_func"):
        sg.export.shared_object(tmp_path / "m.so", {"x": x}, {"z": z})
    assert list(tmp_path.iterdir()) == []


def test_open_sizes_have_to_be_said(graph, tmp_path):
    x, z = sg.placeholder(sg.float32, [None, 3], name="x"), sg.placeholder(sg.float32, [None, None], name="z")
    with pytest.raises(sg.GraphError, match=r"'a' \(test_export_errors\.py:\d+\) has an open size.*batch='dynamic'"):
        sg.export.shared_object(tmp_path / "m.so", {"a": x}, {"y": x + 1})
    with pytest.raises(sg.GraphError, match="open size"):
        sg.export.shared_object(tmp_path / "m.so", {"z": z}, {"y": z + 1}, batch=4)
    with pytest.raises(sg.GraphError, match=r"the shape \[4, 5\]"):
        sg.export.shared_object(tmp_path / "m.so", {"a": x}, {"y": x + 1}, batch={"a": (4, 5)})
    m = sg.export.load(sg.export.shared_object(tmp_path / "m.so", {"z": z}, {"y": z + 1}, batch={"z": (2, 5)}).path)
    assert m(z=np.zeros((2, 5), np.float32))["y"].shape == (2, 5)


@pytest.mark.parametrize("keywords, error, message", [
    ({"state": "thawed"}, ValueError, "state"), ({"format": "exe"}, ValueError, "format"), ({"batch": "some"}, ValueError, "batch"),
    ({"target": "z80"}, ValueError, "z80.*x86-64-v3"), ({"targets": ["x86-64", "aarch64-linux"]}, ValueError, "different"),
    ({"targets": []}, ValueError, "empty"), ({"targets": ["x86-64", "x86-64"]}, ValueError, "twice"),
    ({"inputs": {"x": 0, "q": "w:0"}}, sg.GraphError, "no output needs the input 'q'"), ({"outputs": {}}, sg.GraphError, "no outputs"),
    ({"inputs": {}}, sg.errors.InvalidArgumentError, "feed a value for placeholder"), ({"inputs": []}, TypeError, "names to tensors"),
    ({"functions": {"run": ({"x": 0}, {"y": 1})}}, sg.GraphError, "taken"), ({"functions": {"a b": ({"x": 0}, {"y": 1})}}, sg.GraphError, "identifier"),
])
def test_arguments_that_do_not_fit(graph, tmp_path, keywords, error, message):
    x, _ = sg.placeholder(sg.float32, [3], name="x"), sg.placeholder(sg.float32, [3], name="w")
    y = x + 1
    named = {0: x, 1: y}

    def resolved(v):
        return {k: named.get(t, t) for k, t in v.items()} if isinstance(v, dict) else v
    given = {"inputs": {"x": x}, "outputs": {"y": y}, **keywords}
    given = {k: {n: tuple(map(resolved, p)) for n, p in v.items()} if k == "functions" else resolved(v) if k in ("inputs", "outputs") else v
             for k, v in given.items()}
    with pytest.raises(error, match=message):
        sg.export.shared_object(tmp_path / "m.so", **given)
    assert list(tmp_path.iterdir()) == []


def test_places_that_cannot_be_written(graph, tmp_path):
    x = sg.placeholder(sg.float32, [3])
    for place, error in ((tmp_path / "none" / "m.so", FileNotFoundError), (tmp_path, IsADirectoryError), (tmp_path / "m.h", ValueError)):
        with pytest.raises(error, match="export"):
            sg.export.shared_object(place, {"x": x}, {"y": x + 1})


def test_variables_need_values(graph, tmp_path):
    x, v = sg.placeholder(sg.float32, [3]), sg.Variable([1.0, 2, 3], name="v")
    with pytest.raises(sg.errors.FailedPreconditionError, match="variable v has no value.*initializer"):
        sg.export.shared_object(tmp_path / "m.so", {"x": x}, {"y": x + v})
    graph.run(v.initializer)
    with pytest.raises(sg.GraphError, match=r"test_export_errors\.py:\d+ changes a variable.*owned"):
        sg.export.shared_object(tmp_path / "m.so", {"x": x}, {"y": sg.assign(v, x)})
    assert list(tmp_path.iterdir()) == []


def test_a_default_value_is_baked_in(graph, tmp_path):
    x, k = sg.placeholder(sg.float32, [3]), sg.placeholder_with_default(np.float32([1, 2, 3]), [3])
    made = sg.export.shared_object(tmp_path / "m.so", {"x": x}, {"y": x * k, "x": x, "again": x * k})
    got = sg.export.load(made.path)(x=np.ones(3, np.float32))
    assert {n: v.tolist() for n, v in got.items()} == {"y": [1, 2, 3], "x": [1, 1, 1], "again": [1, 2, 3]}


def test_calls_that_do_not_fit(graph, tmp_path):
    x = sg.placeholder(sg.float32, [None, 4])
    m = sg.export.load(sg.export.shared_object(tmp_path / "m.so", {"x": x}, {"y": x + 1}, batch="dynamic", target="native").path)
    a = np.zeros((4, 4), np.float32)
    for call, error, message in ((lambda: m(x=a.astype(float)), TypeError, "dtype float32, got float64"), (lambda: m(x=a[:, :3]), ValueError, r"\[batch, 4\], got \[4, 3\]"),
                                 (lambda: m(x=a[0]), ValueError, "shape"), (lambda: m(x=a.T), ValueError, "ascontiguousarray"), (lambda: m(x=a[::2]), ValueError, "strides"),
                                 (lambda: m(z=a), TypeError, "missing x; there is no input z"), (lambda: m(x=[[1.0]]), TypeError, "NumPy array"),
                                 (lambda: m.step(x=a), AttributeError, "step"), (lambda: m(x=a, state=1), TypeError, "state")):
        with pytest.raises(error, match=message):
            call()
    assert m(x=np.zeros((0, 4), np.float32))["y"].shape == (0, 4)


def test_sizes_that_must_agree(graph, tmp_path):
    x, t, u, v = (sg.placeholder(sg.float32, [None]) for _ in range(4))
    y = sg.concat([x, t], 0) * sg.concat([u, v], 0)
    m = sg.export.load(sg.export.shared_object(tmp_path / "m.so", {"x": x, "t": t, "u": u, "v": v}, {"y": y}, batch="dynamic", target="native").path)
    a = np.arange(9, dtype=np.float32)
    assert m(x=a[:2], t=a[:3], u=a[:4], v=a[:1])["y"].tolist() == [0, 1, 0, 3, 0]
    with pytest.raises(ExportError, match=r"the sizes do not fit: .* must equal"):
        m(x=a[:2], t=a[:3], u=a[:4], v=a[:2])


def test_sizes_that_follow_from_others_are_not_asked_for(graph, tmp_path):
    x, t, u, w = sg.placeholder(sg.float32, [None]), sg.placeholder(sg.float32, [None]), sg.placeholder(sg.float32, [None]), sg.placeholder(sg.float32, [None])
    y = sg.concat([x, t], 0) * u + sg.reduce_sum(w * np.float32([1, 2]))
    m = sg.export.load(sg.export.shared_object(tmp_path / "m.so", {"x": x, "t": t, "u": u, "w": w}, {"y": y}, batch="dynamic", target="native").path)
    assert m.main.sizes == ["x_0", "t_0"]
    a = np.arange(9, dtype=np.float32)
    assert m(x=a[:2], t=a[:3], u=a[:5], w=a[:2])["y"].tolist() == [2, 3, 2, 5, 10]
    with pytest.raises(ValueError, match=r"u must have shape \[x_0\+t_0\], got \[4\]"):
        m(x=a[:2], t=a[:3], u=a[:4], w=a[:2])


def test_files_that_are_no_exports(graph, tmp_path):
    x = sg.placeholder(sg.float32, [3])
    path = sg.export.shared_object(tmp_path / "m.so", {"x": x}, {"y": x + 1}).path
    whole = path.read_bytes()
    broken = tmp_path / "broken.so"
    for data, message in ((b"", "empty"), (b"\x7fELF", "not an object"), (b"hello" * 100, "not an object"), (whole[:len(whole) // 2], "truncated"),
                          (whole[:-2000], "truncated|damaged"), (whole.replace(b'"abi":1', b'"abi":9'), "damaged")):
        broken.write_bytes(data)
        with pytest.raises(ExportError, match=message):
            sg.export.load(broken)
    import _ctypes
    with pytest.raises(ExportError, match="not an object written by"):
        sg.export.load(_ctypes.__file__)
    with pytest.raises(FileNotFoundError):
        sg.export.load(tmp_path / "none.so")
    assert read_manifest(path)["entries"][0]["inputs"][0]["shape"] == [3]


def test_an_object_of_another_processor_says_so(graph, tmp_path):
    x = sg.placeholder(sg.float32, [3])
    made = sg.export.shared_object(tmp_path / "m.o", {"x": x}, {"y": x + 1}, target="aarch64-linux", format="object")
    with pytest.raises(ExportError, match="aarch64-linux"):
        sg.export.load(made.path)
