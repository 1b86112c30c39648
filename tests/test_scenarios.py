"""The quick scenarios of ``tests/conformance``: hard cases that are sequences of steps."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent / "conformance"))

import scenarios


@pytest.mark.parametrize("name", scenarios.QUICK)
def test_scenario(name):
    scenarios.SCENARIOS[name]()
