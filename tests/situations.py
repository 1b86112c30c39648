"""Situations of the define-by-run mode: written once for PyTorch and for ours, with the outcome beside each.

A module makes a ``Table``, enters functions of ``t`` (the library) with ``@table.outcome(expected)``, and gets its two tests from it. The outcome is
checked against ours always, and against PyTorch where that is installed: the table says what PyTorch does, not only what we say it does.
"""

from __future__ import annotations

import numpy as np
import pytest

import staticgraph.dynamic as dy


class Raises:
    """A RuntimeError (or the kind named) whose message has the text (``|`` between alternatives)."""

    def __init__(self, text, kind=RuntimeError):
        self.text, self.kind = text, kind


class Table(dict):
    """Situations by name."""

    def outcome(self, expected):
        """Enter a situation."""
        def enter(f):
            assert f.__name__ not in self
            self[f.__name__] = f, expected
            return f
        return enter

    def tests(self):
        """The two tests of every situation."""
        @pytest.mark.parametrize("name", self)
        def ours(name):
            run(*self[name], dy)

        @pytest.mark.parametrize("name", self)
        def pytorch(name):
            run(*self[name], pytest.importorskip("torch"))
        return ours, pytorch


def leaf(t, *values):
    """A leaf that wants a gradient."""
    return t.tensor(list(values), requires_grad=True)


def plain(value):
    """An outcome as Python data."""
    if hasattr(value, "detach"):
        return np.round(np.asarray(value.detach().tolist(), float), 5).tolist()
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return round(value, 5) if isinstance(value, float) else value


def run(situation, expected, library):
    """The situation in one library."""
    if isinstance(expected, Raises):
        with pytest.raises(expected.kind) as caught:
            situation(library)
        assert any(part in str(caught.value) for part in expected.text.split("|"))
    else:
        assert plain(situation(library)) == plain(expected)
