"""Each statement of the TF1 semantics is a test named by its number; each has a graph of its own."""

import pytest

import staticgraph as tf


@pytest.fixture(autouse=True)
def fresh_graph():
    """A default graph per test."""
    with tf.Graph().as_default() as graph:
        yield graph


@pytest.fixture
def sess():
    """A session on the test's graph."""
    with tf.Session() as session:
        yield session
