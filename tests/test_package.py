"""What importing loads, which floors stand on which, samples, the command line."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def python(*args: str) -> str:
    """Output of a fresh interpreter; its errors fail the test."""
    done = subprocess.run([sys.executable, *args], capture_output=True, text=True, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def test_importing_loads_no_compiler():
    loaded = python("-c", "import sys, staticgraph; print([m for m in ('llvmlite', 'networkx', 'passes', 'matplotlib', 'scipy', 'torch') if m in sys.modules])")
    assert loaded.strip() == "[]"


@pytest.mark.parametrize("name", ["Graph", "Session", "Variable", "placeholder", "sin", "gradients", "nn", "train", "dynamic", "errors", "function", "cond", "IndexedSlices", "float32", "parse"])
def test_any_name_may_be_the_first_one_used(name):
    python("-c", f"import staticgraph as sg; sg.{name}")


def test_every_public_name_resolves():
    python("-c", "import staticgraph as sg\nfor name in dir(sg):\n    getattr(sg, name)")


FLOORS = ["dtypes errors source config numerics memory", "ir", "ops", "transforms", "schedule codegen", "runtime", "compile diagnose specialize export", "surface", "train nn functional dynamic data", "tools"]


def test_floors_import_only_what_is_below():
    """At module level; what a function imports when it runs is its own affair."""
    level = {name: k for k, names in enumerate(FLOORS) for name in names.split()}
    wrong = []
    for path in sorted((ROOT / "staticgraph").rglob("*.py")):
        inside = path.relative_to(ROOT / "staticgraph").parts
        own = inside[0].removesuffix(".py")
        if own not in level:
            continue
        for node in ast.parse(path.read_text()).body:
            if not isinstance(node, ast.ImportFrom) or node.level != len(inside):
                continue
            for target in ([node.module.split(".")[0]] if node.module else [a.name for a in node.names]):
                if target in level and level[target] > level[own]:
                    wrong.append(f"{'/'.join(inside)}: {target}")
    assert wrong == []


def test_files_stay_short():
    long = {str(p.relative_to(ROOT)): n for folder in ("staticgraph", "passes", "tests", "samples") for p in (ROOT / folder).rglob("*.py")
            if (n := len(p.read_text().splitlines())) > 500}
    assert long == {}


@pytest.mark.parametrize("sample", sorted((ROOT / "samples").glob("*.py")), ids=lambda p: p.stem)
def test_samples_run(sample):
    assert python(str(sample)).strip()


def test_the_command_line_helps():
    assert "demo" in python("-m", "staticgraph", "--help")
    assert "llvmlite" in python("-m", "staticgraph", "info")
