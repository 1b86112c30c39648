"""Where no linker is installed, tests of exports are skipped, visibly: objects can be made then, but nothing that can be loaded."""

from __future__ import annotations

import pytest


def pytest_runtest_setup(item):
    """Skip a test of loadable exports on a machine without cc, ld and ziglang."""
    if item.path.name.startswith("test_export") or "test_export_scenario" in item.name or "01_a_graph" in item.name:
        from staticgraph.codegen.target import NAMED, host
        from staticgraph.export.link import ways
        target = host()
        if not ways(NAMED.get(target.name, target), "x.so", (), "shared"):
            pytest.skip("no linker is installed: cc, ld or the package ziglang")
