"""Samples of operations with values, gradients and tangents: some of those that ``tests/conformance/opinfo.py`` runs."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDER = ROOT.parent / "shared" / "cases" / "opinfo"
sys.path.insert(0, str(Path(__file__).parent / "conformance"))
EVERY = 24                                   # the whole file takes minutes


@pytest.mark.skipif(not FOLDER.is_dir(), reason="the samples lie beside the checkout, in ../shared")
@pytest.mark.parametrize("part", range(2))
def test_samples(part):
    import opinfo

    import staticgraph as sg
    samples = opinfo.Samples(FOLDER)
    found, tried = {}, 0
    for case in [c for c in samples.cases if c["op"] in opinfo.OPS][part * 12::EVERY]:
        try:
            bad = opinfo.failures(samples, case)
        except sg.errors.DTypeError:
            if case["dtype"] == "bool" or (case["op"] in opinfo.INTEGERS_REFUSED and case["dtype"] == "int64"):
                continue
            raise
        tried += bad is not None
        if bad:
            found[case["id"]] = bad
    assert not found and tried > 30
