"""Code for other processors, run here where that is possible: operations, blocks of every kind, training steps. One of two sets of bits holds
everywhere: that of fused multiply-add, and that of processors without it."""

from __future__ import annotations

import importlib.util
import shutil

import numpy as np
import pytest
from exported import MODELS, compiler
from foreign import case_of, emulator, function, large, operations, run, same_values, training
from native import run as run_session
from objects import undefined

from staticgraph.codegen.target import NAMED, host

PLAIN = "wasm32", "x86-64"


def usable(name):
    """The target; skips where its code does not run here."""
    if not NAMED[name].triple.startswith("x86_64") and importlib.util.find_spec("ziglang") is None:
        pytest.skip("the package ziglang (extra: export) is not installed")
    if name == "aarch64-linux" and not emulator():
        pytest.skip("qemu-user is not installed")
    if name == "wasm32" and not shutil.which("node"):
        pytest.skip("node is not installed")
    if NAMED[name].triple.startswith("x86_64"):
        compiler("cc")
        if not host().has("fma"):
            pytest.skip("this processor has no fused multiply-add")
    return NAMED[name]


def some(part, parts=18):
    """Every eighteenth operation with its samples; ``tests/conformance/targets.py`` takes all."""
    return [(op, c) for op in operations()[part::parts] if (c := case_of(op)) is not None]


@pytest.mark.parametrize("target", NAMED)
def test_operations_leave_no_symbol_open(target):
    assert {op.name: names for op, c in some(list(NAMED).index(target)) if (names := undefined(function("f", c, NAMED[target]).code))} == {}


def test_the_list_of_open_symbols_is_read_in_every_format():
    from emitted import object_code
    text = "declare float @expf(float)\ndefine float @f(float %x) {\n  %y = call float @expf(float %x)\n  ret float %y\n}\n"
    assert {t: [n.lstrip("_") for n in undefined(object_code(text, NAMED[t]))] for t in NAMED} == {t: ["expf"] for t in NAMED}


def test_operations_on_aarch64_have_the_bits_of_the_session(tmp_path):
    cases = some(8)
    target = usable("aarch64-linux")
    functions = [function(f"f_{op.name}", c, target) for op, c in cases]
    run(functions, tmp_path, target)
    wanted = [run_session(c.executable(), c) for _, c in cases]
    assert [f.symbol for f, w in zip(functions, wanted) if not all(map(same_values, f.outputs, w))] == []


def test_operations_on_webassembly_have_the_bits_of_x86_without_fused_multiply_add(tmp_path):
    got = []
    for name in PLAIN:
        got.append([function(f"f_{op.name}", c, usable(name)) for op, c in some(9)])
        run(got[-1], tmp_path / name, NAMED[name])
    assert [f.symbol for f, g in zip(*got) if not all(map(same_values, f.outputs, g.outputs))] == []


def made(model, name, folder):
    return large(NAMED[name], folder) if model == "large" else training(model, NAMED[name], folder)


@pytest.mark.parametrize("model", ["large", *MODELS])
def test_training_on_aarch64_has_the_bits_of_the_session(model, tmp_path):
    target = usable("aarch64-linux")
    f, wanted = made(model, target.name, tmp_path)
    state = f.state
    run([f], tmp_path, target)
    assert all(map(same_values, f.outputs, wanted))
    if model != "large":                                  # its state is that of its draws
        np.testing.assert_array_equal(f.state[64:], state[64:])


@pytest.mark.parametrize("model", ["large", "mlp", "transformer"])
def test_training_on_webassembly_has_the_bits_of_x86_without_fused_multiply_add(model, tmp_path):
    results = []
    for name in PLAIN:
        usable(name)
        f, _ = made(model, name, tmp_path / name)
        run([f], tmp_path / name, NAMED[name])
        results.append([*f.outputs, f.state[64:]])
    assert all(map(same_values, *results))
