"""Every op, by the laws of ``tests/derived.py``."""

from __future__ import annotations

import derived
import pytest


@pytest.mark.parametrize("law", list(derived.LAWS))
@pytest.mark.parametrize("op", derived.testable(), ids=lambda op: op.name)
def test_op_obeys(op, law):
    failures = derived.LAWS[law](op)
    assert not failures, "\n".join(f"{op.name} sample {k}: {what}" for k, what in failures[:6])
