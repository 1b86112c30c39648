"""The quick scenarios of ``tests/conformance``: hard cases that are sequences of steps."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent / "conformance"))

import export_scenarios
import scenarios


@pytest.mark.parametrize("name", scenarios.QUICK)
def test_scenario(name):
    scenarios.SCENARIOS[name]()


@pytest.mark.parametrize("name", export_scenarios.SCENARIOS)
def test_export_scenario(name):
    try:
        export_scenarios.SCENARIOS[name]()
    except export_scenarios.Missing as error:
        pytest.skip(str(error))
