"""``shared_object``: from tensors of a session's graph to one object file and its header."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .. import source
from ..codegen.target import Target
from ..compile import Executable
from ..errors import GraphError
from ..ir.aval import evaluate, measured_in, symbols_of, upper_bound
from ..ir.builder import GraphBuilder
from ..ir.graph import Graph, Node
from ..specialize import sizes_of_feeds
from ..transforms.gradient import gradients as reverse
from ..transforms.jvp import jvp as forward
from .entries import size_names
from .header import header_text
from .link import link
from .module import Module
from .names import distinct, mangled
from .objectfile import is_elf, parsed, write_constants
from .plan import (
    Entry,
    Field,
    Store,
    lowered,
    measured_outputs,
    optimised,
    program_for,
    refuse_unbounded,
)
from .sizes import as_json, unified
from .state import layout_of, state_bytes
from .targets import wanted_targets

ABI = 1
INLINE = 1 << 16                             # bytes of constants that go through LLVM; more are written by ourselves
TEXT = 1 << 28                               # and no more than these go through LLVM where we cannot: they take some ten times their size
FORMATS = ("shared", "static", "object", "llvm", "asm")


@dataclass(frozen=True)
class Export:
    """What was written: the object, its header, and the manifest that is embedded in it."""

    path: Path
    header: Path
    manifest: dict[str, Any]


def shared_object(path: Any, inputs: Mapping[str, Any], outputs: Mapping[str, Any], session: Any = None, state: str = "frozen", batch: Any = "fixed",
                  gradients: bool = False, target: str = "portable", targets: Sequence[str] | None = None, format: str = "shared",
                  name: str | None = None, functions: Mapping[str, tuple[Mapping[str, Any], Mapping[str, Any]]] | None = None) -> Export:
    """Write the computation of ``outputs`` from ``inputs`` as a library that needs nothing, and a C header beside it.

    ``inputs`` and ``outputs`` map names to tensors; an operation among the outputs (a training step) is run and has no value. Variables get the
    values that ``session`` (default: the default session) holds now.

    ``state``: "frozen" bakes variables in as constants; "owned" puts them, and random streams, into a state that the caller owns; the main
    function is then ``NAME_step`` if it changes the state, else ``NAME_run``. ``functions`` adds entry points ``NAME_key`` on the same state:
    key -> (inputs, outputs). ``gradients`` adds ``NAME_vjp`` and ``NAME_jvp`` by the floating inputs.

    ``batch``: "fixed" asks that all sizes are known; "dynamic" makes open sizes arguments of the functions; an int, or shapes by the name of
    the input, fixes them here. ``target``: "portable" (baseline, v3 and v4 in one object, chosen at the first call), "native", or a name of
    ``staticgraph info --targets``; ``targets`` lists several. ``format``: "shared", "static", "object", "llvm" or "asm". ``name`` is the prefix
    of all functions (default: the file's name, as a C identifier).

    GraphError at the user's line for operations that need Python, loops with gradients without a bound, open sizes, clashing names.
    FailedPreconditionError for variables without a value. OSError where the file cannot be written. A failed export leaves no file.
    """
    with source.hide_own_frames():
        if state not in ("frozen", "owned"):
            raise ValueError(f"state must be 'frozen' or 'owned', not {state!r}")
        if format not in FORMATS:
            raise ValueError(f"format must be one of {', '.join(FORMATS)}, not {format!r}")
        if not (batch in ("fixed", "dynamic") if isinstance(batch, str) else isinstance(batch, (int, Mapping)) and not isinstance(batch, bool)):
            raise ValueError(f"batch must be 'fixed', 'dynamic', a number or shapes by input name, not {batch!r}")
        chosen = wanted_targets(target, targets)
        where = _writable(path)
        session = session if session is not None else _default_session()
        prefix = mangled(name if name is not None else where.name.split(".")[0].removeprefix("lib"))
        job = _Job(session, prefix, state == "frozen", batch, chosen)
        job.add(None, inputs, outputs)
        for key, pair in (functions or {}).items():
            job.add(key, *pair)
        if gradients:
            job.add_gradients(inputs, outputs)
        return job.write(where, format)


def _default_session() -> Any:
    from ..surface.ledger import get_default_session
    found = get_default_session()
    if found is None:
        raise ValueError("export: there is no default session; pass session=")
    return found


def _writable(path: Any) -> Path:
    """The path, after a look whether a file can be made there."""
    where = Path(os.fspath(path))
    if where.suffix == ".h":
        raise ValueError(f"export: {where} is the name of a header; name the object, its header is written beside it")
    if where.is_dir():
        raise IsADirectoryError(f"export: {where} is a folder")
    if not where.parent.is_dir():
        raise FileNotFoundError(f"export: there is no folder {where.parent}")
    try:
        handle, made = tempfile.mkstemp(prefix=".sg-export-", dir=where.parent)
    except OSError as error:
        raise type(error)(error.errno, f"export: cannot write into {where.parent}: {error.strerror}") from None
    os.close(handle)
    os.unlink(made)
    return where


class _Job:
    """One export under construction."""

    def __init__(self, session: Any, name: str, frozen: bool, batch: Any, targets: Sequence[Target]) -> None:
        self.session, self.name, self.batch, self.targets = session, name, batch, list(targets)
        self.store = Store(session, frozen)
        self.entries: list[Entry] = []
        self.defaults: dict[Node, Any] = {}  # values of placeholders that are not fed
        self.graphs: list[tuple[Graph, Executable, list[Any]]] = []

    # ---- entries -------------------------------------------------------------------------------------------------------------------

    def _fields(self, what: str, tensors: Mapping[str, Any]) -> list[Field]:
        if not isinstance(tensors, Mapping):
            raise TypeError(f"export: {what}s must map names to tensors, got {type(tensors).__name__}")
        names = distinct(tensors, what)
        out = []
        for key, t in tensors.items():
            element = self.session.graph.as_graph_element(t, allow_operation=False)
            if element.node.aval.dtype.name not in _EXPORTABLE:
                raise GraphError(f"export: the {what} {key!r} has dtype {element.node.aval.dtype.name}, which has no form in C")
            out.append(Field(key, names[key], element.node.aval, element.node))
        return out

    def _lower(self, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> tuple[list[Field], list[Field], Executable]:
        g = self.session.graph
        given = self._fields("input", inputs)
        elements = {k: g.as_graph_element(v) for k, v in outputs.items()} if isinstance(outputs, Mapping) else outputs
        values = {k: t for k, t in elements.items() if hasattr(t, "value_index")} if isinstance(outputs, Mapping) else outputs
        results = self._fields("output", values)
        runs = [t for t in elements.values() if not hasattr(t, "value_index")]
        if not results and not runs:
            raise GraphError("export: there are no outputs")
        plan = self.session._plan([*values.values(), *runs], [g.as_graph_element(t, allow_operation=False) for t in inputs.values()])
        if plan.unfed:
            self.session._missing_feed(plan)
        used = {t.node for t in plan.used} | {f.node for f in results}
        for f in given:
            if f.node not in used:
                raise GraphError(f"export: no output needs the input {f.name!r} ({f.node.site.short()}); leave it out")
        group = plan.nodes[len(plan.tensors):]
        exe = lowered([*(f.node for f in results), *group], [*(f.node for f in given), *plan.defaults], self.session.config)
        self.defaults.update(plan.defaults)
        return given, results, exe

    def add(self, name: str | None, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
        """An entry; the main one has no name yet."""
        given, results, exe = self._lower(inputs, outputs)
        graph = exe.lowered.graph
        n = len(results)
        refuse_unbounded(graph.nodes)
        versions = exe.versions
        if self.store.frozen and versions:
            kind, _, index = versions[0]
            o = graph.outputs[index]
            what = "changes a variable" if kind == "variable" else "draws random numbers"
            source.raise_at(o.site, GraphError(f"export: {o.site.short()} {what}, which frozen state cannot: export with state='owned', "
                                               "or leave it out of the outputs"))
        graph.outputs = (*graph.outputs[:n], *(graph.outputs[i] for _, _, i in versions))
        versions = [(kind, uid, n + k) for k, (kind, uid, _) in enumerate(versions)]
        self._entry(Entry(name or ("step" if versions else "run"), given, results, writes=bool(versions)), exe, versions)

    def add_gradients(self, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
        """``vjp`` and ``jvp`` of the main function's tensors; they leave the state alone."""
        for name in ("vjp", "jvp"):
            given, results, exe = self._lower(inputs, outputs)
            graph = exe.lowered.graph
            b = GraphBuilder(graph)
            leaves = {key: node for kind, key, node in exe.lowered.inputs if kind == "feed"}
            xs = [f for f in given if f.aval.dtype.is_floating and f.node in leaves]
            ys = [(f, graph.outputs[k]) for k, f in enumerate(results) if f.aval.dtype.is_floating]
            if not xs or not ys:
                raise GraphError("export: gradients=True needs a floating input and a floating output")
            nodes = [leaves[f.node] for f in xs]
            seeds = []
            for label, node in [("ct_" + f.name, y) for f, y in ys] if name == "vjp" else [("tangent_" + f.name, n) for f, n in zip(xs, nodes)]:
                with b.at(node.site, ""):
                    seed = b.input(aval=node.aval, index=len(exe.lowered.inputs))
                exe.lowered.inputs.append(("feed", seed, seed))
                seeds.append(seed)
                given.append(Field(label, mangled(label), node.aval, seed))
            pairs = [(f, n) for f, n in zip(xs, nodes)] if name == "vjp" else ys
            found = reverse(b, [y for _, y in ys], nodes, seeds) if name == "vjp" else forward(b, [y for _, y in ys], dict(zip(nodes, seeds)))
            values = list(graph.outputs[:len(results)])
            for (f, like), d in zip(pairs, found):
                with b.at(like.site, "gradient"):
                    values.append(d if d is not None else b.zeros(like.aval))
                label = ("grad_" if name == "vjp" else "tangent_") + f.name
                results.append(Field(label, mangled(label), like.aval, f.node))
            distinct([f.name for f in given], "input")
            distinct([f.name for f in results], "output")
            graph.outputs = tuple(values)
            refuse_unbounded(graph.nodes)
            self._entry(Entry(name, given, results), exe, [])

    def _entry(self, e: Entry, exe: Executable, versions: list[Any]) -> None:
        made_of = {o.name: {o.name + s for s in _SUFFIXES} for o in (*self.entries, e)}
        if e.name in _TAKEN or e.name != mangled(e.name) or any(o.name == e.name or made_of[o.name] & made_of[e.name] for o in self.entries):
            raise GraphError(f"export: a function cannot be called {e.name!r}: the name is taken or no C identifier")
        fed = {f.node for f in e.inputs}
        for kind, key, node in exe.lowered.inputs:
            if kind != "feed":
                self.store.variable(kind, key, node)
            elif key not in fed:
                e.baked.append(key)
        for kind, uid, index in versions:
            self.store.variable(kind, uid, exe.lowered.graph.outputs[index])
        graph = exe.lowered.graph
        symbols = sorted({s for f in e.inputs for d in f.aval.shape for s in symbols_of(d)}, key=_by_number)
        values = self._sizes(e, graph, symbols)
        e.symbols = [s for s in symbols if s not in values]
        for f in (*e.inputs, *e.outputs):
            f.aval = f.aval.substitute(values)
        made = optimised(graph, values, self.session.config)
        measured_outputs(e, made)
        distinct([f.name for f in e.outputs], "output")
        self.entries.append(e)
        self.graphs.append((made, exe, versions))

    def _sizes(self, e: Entry, graph: Graph, symbols: list[str]) -> dict[str, Any]:
        """Values of open sizes: numbers, or earlier symbols that they must equal; fills ``e.equal``."""
        if not symbols:
            return {}
        if isinstance(self.batch, Mapping):
            shapes = [tuple(self.batch[f.name]) if f.name in self.batch else None for f in e.inputs]
            for f, s in zip(e.inputs, shapes):
                if s is not None and (len(s) != len(f.aval.shape) or any(isinstance(d, int) and d != n for d, n in zip(f.aval.shape, s))):
                    raise GraphError(f"export: batch gives {f.name!r} the shape {list(s)}, the tensor has {f.aval}")
            values: dict[str, Any] = dict(sizes_of_feeds([f.aval for f, s in zip(e.inputs, shapes) if s is not None], [s for s in shapes if s is not None]))
            same, _ = unified(graph, symbols)
            for _ in symbols:                                # sizes that follow from those given, and the other way round
                values.update({s: evaluate(v, values) for s, v in same.items() if s not in values and symbols_of(v) <= values.keys()})
                values.update({repr(v): values[s] for s, v in same.items() if s in values and repr(v) in symbols})
            self._open(e, [s for s in symbols if s not in values])
            return values
        same, equal = unified(graph, symbols)
        free = [s for s in symbols if s not in same]
        if self.batch == "dynamic":
            e.equal = equal
            return same
        if self.batch == "fixed" or len(free) > 1:
            self._open(e, free)
        known = dict.fromkeys(free, int(self.batch))
        return {**known, **{s: evaluate(v, known) for s, v in same.items()}}

    def _open(self, e: Entry, symbols: Sequence[str]) -> None:
        """GraphError for sizes that are still open."""
        if not symbols:
            return
        f = next(f for f in e.inputs if any(s in symbols for d in f.aval.shape for s in symbols_of(d)))
        raise GraphError(f"export: the input {f.name!r} ({f.node.site.short()}) has an open size, {f.aval}: pass batch='dynamic', "
                         "batch=N where all open sizes are one, or batch={'" + f.name + "': shape}")

    # ---- files ----------------------------------------------------------------------------------------------------------------------

    def write(self, where: Path, format: str) -> Export:
        """Make the programs, the module and the files."""
        owned = not self.store.frozen
        layout = layout_of(self.store) if owned else None
        variables = list(self.store.variables.values())
        if owned:
            c = distinct([v.name for v in variables], "variable")
            for v in variables:
                v.c = c[v.name]
        module = Module(self.name, self.targets)
        for e, (graph, exe, versions) in zip(self.entries, self.graphs):
            for t in self.targets:
                e.programs.append(program_for(e, graph, exe, versions, self.store, t, self.session.config))
            module.entry(e, self.store, [self.defaults[n] for n in e.baked], layout)
        manifest = self._manifest(module, layout)
        size = module.blob.bytes + (state_bytes(variables) if owned else 0)
        external = format in ("shared", "static") and size > INLINE and is_elf(self.targets[0])
        if not external and size > TEXT:
            raise GraphError(f"export: {size >> 20} MiB of constants cannot be written as format {format!r} for {self.targets[0].name}; "
                             "state='owned' does not help either: export a shared object for Linux, or feed large arrays as inputs")
        text = module.text(self.entries, self.store, layout, manifest, external)
        header = header_text(self.name, self.entries, variables, owned, manifest)
        with tempfile.TemporaryDirectory(prefix=".sg-export-", dir=where.parent) as folder:
            aside = Path(folder)
            made = self._object(aside, text, format, module if external else None, where.name)
            (aside / "header.h").write_text(header)
            beside = where.with_suffix(".h")
            os.replace(made, where)
            os.replace(aside / "header.h", beside)
        return Export(where, beside, manifest)

    def _object(self, folder: Path, text: str, format: str, module: Module | None, soname: str) -> Path:
        out = folder / "out"
        if format == "llvm":
            out.write_text(f'target triple = "{self.targets[0].triple}"\n' + text)
            return out
        target = self.targets[0]
        parsed_, tm = parsed(text, target)
        if format == "asm":
            out.write_text(tm.emit_assembly(parsed_))
            return out
        code = folder / "code.o"
        code.write_bytes(tm.emit_object(parsed_))
        objects = [code]
        if module is not None:
            objects.append(folder / "constants.o")
            write_constants(objects[1], module.blob, f"{self.name}.constants", target)
        if format == "object":
            code.replace(out)
        else:
            link(objects, out, target, format, soname, _FUNCTION.findall(text))
        return out

    def _manifest(self, module: Module, layout: int | None) -> dict[str, Any]:
        from importlib.metadata import version

        from .. import __version__

        def array(f: Field, names: dict[str, str]) -> dict[str, Any]:
            return {"name": f.name, "c": f.c, "dtype": f.aval.dtype.name, "shape": [as_json(d, names) for d in f.aval.shape]}

        def result(e: Entry, k: int, names: dict[str, str]) -> dict[str, Any]:
            f = e.outputs[k]
            if k >= len(e.outputs) - len(e.found):
                return {**array(f, names), "found": True}
            return {**array(f, names), **({"room": as_json(upper_bound(f.aval.size, e.bounds), names)} if measured_in(f.aval) else {})}
        entries = []
        for e in self.entries:
            names = size_names(e)
            entries.append({"name": e.name, "symbol": f"{self.name}_{e.name}", "inputs": [array(f, names) for f in e.inputs],
                            "outputs": [result(e, k, names) for k in range(len(e.outputs))], "sizes": [names[s] for s in e.symbols], "writes": e.writes})
        state = None
        if layout is not None:
            state = {"bytes": state_bytes(list(self.store.variables.values())), "layout": layout,
                     "variables": [{"name": v.name, "c": v.c, "dtype": v.value.dtype.name, "shape": list(v.value.shape), "offset": v.offset}
                                   for v in self.store.variables.values()]}
        sites = {str(k): {**s, "values": module.messages.types[k]} for k, s in enumerate(module.messages.sites) if s is not None}
        return {"abi": ABI, "name": self.name, "versions": {"staticgraph": __version__, "llvmlite": version("llvmlite"), "numpy": np.__version__},
                "targets": [t.name for t in self.targets], "triple": self.targets[0].triple, "entries": entries, "state": state, "sites": sites}


def _by_number(symbol: str) -> tuple[int, str]:
    digits = symbol.lstrip("abcdefghijklmnopqrstuvwxyz")
    return (int(digits) if digits.isdigit() else 0, symbol)


_FUNCTION = re.compile(r"^define (?!internal|hidden)[^@]*@([\w.]+)\(", re.MULTILINE)
_EXPORTABLE = {"bool", "float16", "float32", "float64", "complex64", "complex128", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"}
_SUFFIXES = ("", "_workspace_bytes", "_inputs", "_outputs", "_sizes")             # C names that an entry makes
_TAKEN = {"workspace_bytes", "error_message", "error_values", "abi_version", "manifest", "describe", "state", "state_bytes", "state_init", "state_get",
          "state_set", "state_save", "state_load"}

__all__ = ["Export", "Node", "shared_object"]
