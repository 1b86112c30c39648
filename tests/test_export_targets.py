"""Exports for other processors and systems, each linker alone and none, and the sample programs in C, Rust and JavaScript."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from exported import MODELS, compiler, session_of

import staticgraph as sg
from staticgraph.export import link as linking
from staticgraph.export.targets import NAMED

SAMPLES = Path(__file__).parent.parent / "samples" / "export"
needs_zig = pytest.mark.skipif(importlib.util.find_spec("ziglang") is None, reason="the package ziglang (extra: export) is not installed")


@pytest.fixture(scope="module")
def model():
    """(session, input, output, a batch of 7, its result) of the digits model."""
    session, (x, _), _, _, _, y, (xs, _) = session_of(MODELS["mlp"], 7)
    return session, x, y, xs, session.run(y, {x: xs})


def export(model, path, **options):
    session, x, y, _, _ = model
    return sg.export.shared_object(path, {"x": x}, {"y": y}, session, batch=7, name="digits", **options)


@pytest.mark.parametrize("target", list(NAMED))
def test_objects_of_every_target_refer_to_nothing(model, tmp_path, target):
    made = export(model, tmp_path / "digits.o", target=target, format="object")
    data = made.path.read_bytes()
    kind = b"\x7fELF" if "linux" in NAMED[target].triple else b"\xcf\xfa\xed\xfe" if "macos" in target else b"\0asm" if "wasm" in target else b"\x64\x86"
    assert data.startswith(kind)
    if kind == b"\x7fELF":
        from emitted import _undefined
        assert not _undefined(data)
    assert target in made.header.read_text()


@pytest.mark.parametrize("target, tool", [("aarch64-linux", "aarch64-linux-gnu-ld"), ("aarch64-linux", "ld.lld"), ("x86-64", "ld.lld")])
def test_cross_linkers(model, tmp_path, target, tool, monkeypatch):
    where, readelf = compiler(tool), compiler("readelf")
    monkeypatch.setattr(linking, "_zig", lambda *tool: None)
    monkeypatch.setattr(linking.shutil, "which", lambda name: where if name == tool else None)
    data = export(model, tmp_path / "digits.so", target=target).path.read_bytes()
    assert data[:4] == b"\x7fELF" and int.from_bytes(data[18:20], "little") == {"aarch64-linux": 183, "x86-64": 62}[target]
    said = subprocess.run([readelf, "-dW", "-lW", str(tmp_path / "digits.so")], capture_output=True, text=True, check=True).stdout
    assert "NEEDED" not in said and "RWE" not in said


ONLY = {"cc": "cc", "ld": "ld", "ziglang": None}


@pytest.mark.parametrize("tool", ONLY)
def test_each_linker_alone(model, tmp_path, tool, monkeypatch):
    if tool == "ziglang":
        pytest.importorskip("ziglang")
    else:
        compiler(tool)
        monkeypatch.setattr(linking, "_zig", lambda *tool: None)
    monkeypatch.setattr(linking.shutil, "which", lambda name: name if name == ONLY[tool] else None)
    made = export(model, tmp_path / "digits.so", target="native")
    first = made.path.read_bytes()
    np.testing.assert_array_equal(sg.export.load(made.path)(x=model[3])["y"], model[4])
    (tmp_path / "again").mkdir()
    again = export(model, tmp_path / "again" / "digits.so", target="native")
    assert again.path.read_bytes() == first, "equal inputs give equal bytes"


def test_without_a_linker_the_ways_to_one_are_named_and_nothing_is_left(model, tmp_path, monkeypatch):
    monkeypatch.setattr(linking, "_zig", lambda *tool: None)
    monkeypatch.setattr(linking.shutil, "which", lambda name: None)
    with pytest.raises(sg.export.LinkError, match=r"(?s)C compiler \(cc\).*binutils.*ziglang"):
        export(model, tmp_path / "digits.so")
    assert list(tmp_path.iterdir()) == []


def test_what_a_linker_says_is_passed_on(tmp_path):
    compiler("cc")
    (tmp_path / "bad.o").write_bytes(b"no object")
    with pytest.raises(sg.export.LinkError, match="refused the export"):
        linking.link([tmp_path / "bad.o"], tmp_path / "out.so", NAMED["x86-64"], "shared", "out")
    assert [p.name for p in tmp_path.iterdir()] == ["bad.o"]


def test_a_static_library(model, tmp_path):
    compiler("ar")
    made = export(model, tmp_path / "libdigits.a", format="static")
    main = tmp_path / "main.c"
    main.write_text('#include <stdio.h>\n#include "libdigits.h"\nint main(void) { printf("%d\\n", (int)digits_abi_version()); return 0; }\n')
    subprocess.run([compiler("cc"), "-std=c99", "-I", str(tmp_path), str(main), str(made.path), "-o", str(tmp_path / "main")], check=True)
    assert subprocess.run([str(tmp_path / "main")], capture_output=True, text=True, check=True).stdout == "1\n"


@needs_zig
@pytest.mark.parametrize("target, magic", [("arm64-macos", b"\xcf\xfa\xed\xfe"), ("x86_64-windows", b"MZ"), ("aarch64-linux", b"\x7fELF")])
def test_shared_objects_of_systems_that_are_not_here(model, tmp_path, target, magic):
    made = export(model, tmp_path / "digits.lib", target=target)
    assert made.path.read_bytes().startswith(magic)
    assert b"digits_run_workspace_bytes" in made.path.read_bytes()


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The sample's folder, copied and built."""
    compiler("make"), compiler("cc")
    folder = tmp_path_factory.mktemp("samples")
    shutil.copytree(SAMPLES, folder / "export", ignore=shutil.ignore_patterns("build"))
    shutil.copytree(SAMPLES.parent / "models", folder / "models", ignore=shutil.ignore_patterns("__pycache__"))
    done = make(folder / "export")
    return folder / "export", done


def make(folder, *goals):
    root = str(Path(__file__).parent.parent)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([root, *os.environ.get("PYTHONPATH", "").split(os.pathsep)])}
    done = subprocess.run(["make", f"PYTHON={sys.executable}", *goals], cwd=folder, capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def accuracy(text):
    return float(text.split("accuracy ")[-1].split(" %")[0])


def test_c_programs_infer_and_train_to_the_bits_of_python(built):
    _, said = built
    assert "the state has the bits of the Python session" in said and "C trained 440 steps" in said
    assert accuracy(said) >= 97


def test_a_rust_program(built):
    folder, said = built
    if not shutil.which("rustc"):
        pytest.skip("rustc is not installed")
    assert accuracy(make(folder, "rust")) == accuracy(said)


@needs_zig
def test_webassembly_under_node(built):
    folder, said = built
    if not shutil.which("node"):
        pytest.skip("node is not installed")
    assert abs(accuracy(make(folder, "wasm")) - accuracy(said)) < 1
