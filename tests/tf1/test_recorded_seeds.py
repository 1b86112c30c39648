"""Statements 153 to 156: the numbers of TF 1.15.5 where only the graph has a seed."""

import json
from pathlib import Path

import numpy as np
import pytest
from recorded_seeds import PROGRAMS, numbers

import staticgraph.compat.v1 as tf

RECORDED = json.loads((Path(__file__).parent / "recorded_seeds.json").read_text())


@pytest.mark.parametrize("name", RECORDED)
def test_156_numbers_of_a_graph_seed(name):
    got = numbers(tf, PROGRAMS[name])
    assert len(got) == len(RECORDED[name])
    for ours, theirs in zip(got, RECORDED[name]):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1.5e-6)
