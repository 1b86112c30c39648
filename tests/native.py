"""Helpers of the tests: graphs from samples, run natively, with the kernels counted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import staticgraph.ops
import staticgraph.transforms.gradient
import staticgraph.transforms.jvp
import staticgraph.transforms.vmap  # noqa: F401
from staticgraph.compile import Executable, compile_graph
from staticgraph.config import Config
from staticgraph.dtypes import as_dtype
from staticgraph.ir.aval import Aval
from staticgraph.ir.builder import GraphBuilder
from staticgraph.ir.graph import Graph, Node
from staticgraph.runtime.state import StateStore


class Case:
    """A graph under construction with its feeds."""

    def __init__(self) -> None:
        self.graph = Graph()
        self.b = GraphBuilder(self.graph)
        self.feeds: list[Node] = []
        self.values: list[np.ndarray[Any, Any]] = []
        self.outputs: list[Node] = []

    def feed(self, value: Any) -> Node:
        """A placeholder fed with ``value``."""
        value = np.asarray(value)
        node = self.b.placeholder(aval=Aval(value.shape, as_dtype(value.dtype)), uid=len(self.feeds))
        self.feeds.append(node)
        self.values.append(value)
        return node

    def executable(self, config: Config | None = None) -> Executable:
        """Compiled for the outputs."""
        return compile_graph(self.outputs, self.feeds, config)

    def run(self, config: Config | None = None) -> list[np.ndarray[Any, Any]]:
        """The outputs, computed natively: at least one kernel ran, and no host call."""
        if not self.outputs:
            return []
        exe = self.executable(config)
        out = run(exe, self)
        variant = next(iter(exe.variants.values()))
        assert not variant.program.hosts, "a host call in what should be native"
        return out


def run(exe: Executable, case: Case, values: Sequence[Any] | None = None, store: StateStore | None = None) -> list[np.ndarray[Any, Any]]:
    """Run with the case's values (or others of the same shapes)."""
    arrays = dict(zip(case.feeds, case.values if values is None else values))
    ordered = [np.ascontiguousarray(arrays[i.key], dtype=i.key.aval.dtype.np) for i in exe.inputs if i.kind == "feed"]
    ordered = [a.reshape(i.key.shape) if a.shape != i.key.shape and i.key.aval.is_static else a
               for a, i in zip(ordered, [i for i in exe.inputs if i.kind == "feed"])]
    return exe.run(ordered, store or StateStore())


def native(fn: Callable[..., Any], *arrays: Any, config: Config | None = None) -> Any:
    """``fn(b, *nodes)`` compiled and run: one array, or a list of them."""
    case = Case()
    nodes = [case.feed(a) for a in arrays]
    out = fn(case.b, *nodes)
    single = not isinstance(out, (tuple, list))
    case.outputs = [out] if single else list(out)
    got = case.run(config)
    return got[0] if single else got


def as_tuple(x: Any) -> tuple[Any, ...]:
    """Outputs of a ref as a tuple."""
    return x if isinstance(x, tuple) else (x,)
