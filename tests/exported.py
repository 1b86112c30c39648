"""Tools of the export tests: compile C beside a header, run it, look at the object."""

from __future__ import annotations

import importlib
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import staticgraph as sg

sys.path.insert(0, str(Path(__file__).parent.parent / "samples"))
MODELS = {name: importlib.import_module(f"models.{name}") for name in ("mlp", "lenet", "lstm", "transformer")}
STRICT = ["-Wall", "-Wextra", "-Werror", "-pedantic"]


def compiler(name):
    """Skip where a compiler is missing."""
    return shutil.which(name) or pytest.skip(f"{name} is not installed")


def run_c(folder: Path, source: str, objects, *flags, language="c", under=(), arguments=()):
    """Compile one source against exported objects, warnings as errors, and run it; its output."""
    cc = [compiler("cc"), "-std=c99"] if language == "c" else [compiler("c++"), "-std=c++11", "-x", "c++"]
    file = folder / ("main." + language)
    file.write_text(source)
    program = folder / f"main.{language}.out"
    done = subprocess.run([*cc, *STRICT, "-O1", *flags, "-I", str(folder), str(file), *(["-x", "none"] if language != "c" else []), *map(str, objects),
                           f"-Wl,-rpath,{folder}", "-o", str(program)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    ran = subprocess.run([*under, str(program), *arguments], capture_output=True, text=True, cwd=folder, timeout=300)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def session_of(module, n=16, steps=2):
    """(session, placeholders, variables, loss, step, prediction, a batch) of a sample model in a graph of its own, trained a little."""
    graph = sg.Graph()
    with graph.as_default():
        feeds, params, loss, step = module.training_step()
        y = module.predict(params, feeds[0])
    session = sg.Session(graph=graph)
    with graph.as_default():
        session.run(sg.global_variables_initializer())
    xs, ts = module.batch(np.random.default_rng(1), n)
    for _ in range(steps):
        session.run(step, {feeds[0]: xs, feeds[1]: ts})
    return session, feeds, params, loss, step, y, (xs, ts)


def same(a, b):
    """Equal to the last bit."""
    a, b = np.asarray(a), np.asarray(b)
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
