"""The law "exported = session, bit by bit" for every operation: all samples of many operations as one function of one object."""

from __future__ import annotations

import derived
import numpy as np
import pytest
from native import Case, as_tuple
from native import run as run_session

from staticgraph.config import Config
from staticgraph.export.build import ABI
from staticgraph.export.link import link
from staticgraph.export.loader import load
from staticgraph.export.module import Module
from staticgraph.export.objectfile import parsed
from staticgraph.export.plan import Entry, Field, Store, lowered, optimised, program_for
from staticgraph.export.targets import wanted_targets
from staticgraph.ir.aval import measured_in
from staticgraph.ir.opdef import Host

PARTS = 8


def cases():
    """Operations with samples whose sizes are known before the run, and their number."""
    return [op for op in derived.testable() if not isinstance(op.lower, Host) and not op.traits & {"effect", "draw"}]


def exported(case, folder):
    """The case's outputs from an object."""
    fields = [Field(f"i{k}", f"i{k}", n.aval, n) for k, n in enumerate(case.feeds)], [Field(f"o{k}", f"o{k}", n.aval, n) for k, n in enumerate(case.outputs)]
    e = Entry("run", *fields)
    exe = lowered(case.outputs, case.feeds, Config())
    store, targets = Store(None, True), wanted_targets("native", None)
    e.programs = [program_for(e, optimised(exe.lowered.graph, {}, Config()), exe, [], store, targets[0], Config())]
    module = Module("law", targets)
    module.entry(e, store, [], None)
    array = [[{"name": f.name, "c": f.c, "dtype": f.aval.dtype.name, "shape": list(f.aval.shape)} for f in each] for each in fields]
    manifest = {"abi": ABI, "name": "law", "targets": ["native"], "triple": targets[0].triple, "state": None, "sites": {},
                "entries": [{"name": "run", "symbol": "law_run", "inputs": array[0], "outputs": array[1], "sizes": [], "writes": False}]}
    code, machine = parsed(module.text([e], store, None, manifest, False), targets[0])
    (folder / "law.o").write_bytes(machine.emit_object(code))
    link([folder / "law.o"], folder / "law.so", targets[0], "shared", "law.so")
    got = load(folder / "law.so")(**{f.name: np.array(v, order="C") for f, v in zip(fields[0], case.values)})
    return [got[f.name] for f in fields[1]]


@pytest.mark.parametrize("part", range(PARTS))
def test_every_operation_exports_with_the_sessions_bits(part, tmp_path):
    case, names = Case(), []
    for op in cases()[part::PARTS]:
        for k, s in enumerate(derived.samples_of(op)):
            outs = as_tuple(case.b.call(op, *[case.feed(a) for a in s.arrays], **s.attrs))
            if not any(measured_in(o.aval) for o in outs):
                case.outputs += outs
                names += [f"{op.name} sample {k}"] * len(outs)
    wanted = run_session(case.executable(), case)
    wrong = [n for n, g, w in zip(names, exported(case, tmp_path), wanted) if g.dtype != w.dtype or g.shape != w.shape or g.tobytes() != w.tobytes()]
    assert wrong == []
