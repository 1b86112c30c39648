"""Run exported functions of other processors here: aarch64 under qemu-user, WebAssembly under Node, x86-64 levels directly.

Each operation becomes one object file with one function; a small program without a C library calls them all, so that nothing but the linkers is needed.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import derived
import numpy as np
from exported import MODELS, session_of
from native import Case, as_tuple

import staticgraph as sg
from staticgraph.codegen.target import Target
from staticgraph.config import Config
from staticgraph.export.build import ABI
from staticgraph.export.link import link
from staticgraph.export.module import Module
from staticgraph.export.objectfile import parsed
from staticgraph.export.plan import Entry, Field, Store, lowered, optimised, program_for
from staticgraph.ir.aval import measured_in
from staticgraph.ir.opdef import Host, OpDef


def operations() -> list[OpDef]:
    """Operations that have samples and native code."""
    return [op for op in derived.testable() if not isinstance(op.lower, Host) and "effect" not in op.traits]


def case_of(op: OpDef) -> Case | None:
    """All samples of an operation, where the sizes are known before the run."""
    case = Case()
    for s in derived.samples_of(op):
        outs = as_tuple(case.b.call(op, *[case.feed(a) for a in s.arrays], **s.attrs))
        case.outputs += [o for o in outs if not measured_in(o.aval)]
    return case if case.outputs else None


@dataclass
class Function:
    """One exported function of one target, with the data that it is called on."""

    symbol: str
    code: bytes
    inputs: list[np.ndarray[Any, Any]]
    outputs: list[np.ndarray[Any, Any]]                   # of the right shapes and dtypes; the runners fill them
    workspace: int
    state: np.ndarray[Any, Any] | None = None             # uint8; the runners initialise it by ``init``, and fill it
    init: str = ""
    calls: int = 1

    @property
    def written(self) -> list[np.ndarray[Any, Any]]:
        """The outputs, and the state."""
        return [*self.outputs, *([] if self.state is None else [self.state])]


def function(name: str, case: Case, target: Target) -> Function:
    """The object of a case: ``name_run``, its outputs those of the case."""
    fields = [[Field(f"{kind}{k}", f"{kind}{k}", n.aval, n) for k, n in enumerate(nodes)] for kind, nodes in (("i", case.feeds), ("o", case.outputs))]
    e = Entry("run", *fields)
    exe = lowered(case.outputs, case.feeds, Config())
    store = Store(None, True)
    e.programs = [program_for(e, optimised(exe.lowered.graph, {}, Config()), exe, [], store, target, Config())]
    module = Module(name, [target])
    module.entry(e, store, [], None)
    code, machine = parsed(module.text([e], store, None, {"abi": ABI}, False), target)
    return Function(f"{name}_run", machine.emit_object(code), [np.array(v, order="C") for v in case.values],
                    [np.zeros(o.shape, o.dtype.np) for o in case.outputs], int(e.programs[0].workspace))


@dataclass
class Plan:
    """Where the arrays of some functions lie in one piece of memory, each aligned to 64 bytes."""

    functions: Sequence[Function]
    size: int = 0
    inputs: list[list[int]] = field(default_factory=list)
    written: list[list[int]] = field(default_factory=list)           # outputs, then the state

    def __post_init__(self) -> None:
        for f in self.functions:
            for rows, arrays in ((self.inputs, f.inputs), (self.written, f.written)):
                rows.append([])
                for a in arrays:
                    rows[-1].append(self.size)
                    self.size += (a.nbytes + 127) // 64 * 64

    @property
    def workspace(self) -> int:
        return max(f.workspace for f in self.functions) + 64

    def image(self) -> bytes:
        """The memory before the calls."""
        memory = bytearray(self.size)
        for f, row in zip(self.functions, self.inputs):
            for a, at in zip(f.inputs, row):
                memory[at:at + a.nbytes] = a.tobytes()
        return bytes(memory)

    def fill(self, memory: bytes) -> None:
        """Take the results from the memory after the calls."""
        for f, row in zip(self.functions, self.written):
            got = [np.frombuffer(memory, a.dtype, a.size, at).reshape(a.shape) for a, at in zip(f.written, row)]
            f.outputs, f.state = got[:len(f.outputs)], got[-1] if f.state is not None else None

    def objects(self, folder: Path) -> list[str]:
        """The functions' object files."""
        for f in self.functions:
            (folder / f"{f.symbol}.o").write_bytes(f.code)
        return [str(folder / f"{f.symbol}.o") for f in self.functions]


_PROGRAM = """
#include <stdint.h>
#if defined(__aarch64__)
enum { READ = 63, WRITE = 64, EXIT = 93 };
static long sys(long n, long a, char *b, long c) {
  register long x8 __asm__("x8") = n, x0 __asm__("x0") = a, x2 __asm__("x2") = c;
  register char *x1 __asm__("x1") = b;
  __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2) : "memory");
  return x0;
}
#else
enum { READ = 0, WRITE = 1, EXIT = 60 };
static long sys(long n, long a, char *b, long c) {
  long r;
  __asm__ volatile("syscall" : "=a"(r) : "a"(n), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
  return r;
}
__attribute__((force_align_arg_pointer))
#endif
void _start(void);
"""

_MAIN = """
void _start(void) {
  long at = 0, n;
  int32_t k;
  call.workspace = workspace;
  call.bytes = sizeof workspace;
  while (at < SIZE && (n = sys(READ, 0, memory + at, SIZE - at)) > 0) at += n;
  k = calls();
  for (at = 0; k == 0 && at < SIZE && (n = sys(WRITE, 1, memory + at, SIZE - at)) > 0; at += n) {}
  sys(EXIT, k, 0, 0);
}
"""


def _source(plan: Plan) -> str:
    """The program: ``calls`` returns the number of the first function that failed, else 0."""
    lines = [_PROGRAM, f"enum {{ SIZE = {plan.size} }};", "static char memory[SIZE + 64] __attribute__((aligned(64)));",
             f"static char workspace[{plan.workspace}] __attribute__((aligned(64)));",
             "static struct { void *workspace; int64_t bytes; void *parallel, *pool, *cancel; int64_t error[7]; } call;"]
    calls = []
    for k, (f, ins, outs) in enumerate(zip(plan.functions, plan.inputs, plan.written)):
        arguments = [f"memory + {outs[-1]}"] if f.state is not None else []
        for name, row in (("in", ins), ("out", outs[:len(f.outputs)])):
            if row:
                lines.append(f"static void *{name}{k}[] = {{ {', '.join(f'memory + {at}' for at in row)} }};")
                arguments.append(f"{name}{k}")
        lines.append(f"int32_t {f.symbol}({', '.join(['void *'] * (len(arguments) + 1))});")
        if f.init:
            lines.append(f"void {f.init}(void *);")
            calls.append(f"{f.init}({arguments[0]});")
        calls += [f"if ({f.symbol}({', '.join(arguments)}, &call)) return {k % 250 + 1};"] * f.calls
    return "\n".join([*lines, "static int32_t calls(void) {", *calls, "return 0;", "}", _MAIN])


def run_linux(functions: Sequence[Function], folder: Path, target: Target) -> None:
    """Call all functions, as a static program of this processor, or of aarch64 under qemu; fills the outputs."""
    plan = Plan(functions)
    (folder / "main.c").write_text(_source(plan))
    foreign = target.triple.startswith("aarch64")
    compiler = [sys.executable, "-m", "ziglang", "cc", "-target", "aarch64-linux", "-fno-sanitize=all"] if foreign else ["cc"]
    made = subprocess.run([*compiler, "-O1", "-nostdlib", "-static", "-ffreestanding", "-fno-stack-protector", str(folder / "main.c"),
                           *plan.objects(folder), "-o", str(folder / "main")], capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    done = subprocess.run([*([emulator()] if foreign else []), str(folder / "main")], input=plan.image(), capture_output=True, check=False)
    assert done.returncode == 0, f"function {functions[done.returncode - 1].symbol} failed: {done.returncode} {done.stderr.decode()}"
    plan.fill(done.stdout)


def emulator() -> str:
    """The program that runs aarch64 code here; empty if there is none."""
    return shutil.which("qemu-aarch64") or shutil.which("qemu-aarch64-static") or ""


_SCRIPT = """
const fs = require("fs");
const plan = JSON.parse(fs.readFileSync("plan.json"));
const f = new WebAssembly.Instance(new WebAssembly.Module(fs.readFileSync("all.wasm"))).exports;
const base = Math.ceil(f.__heap_base.value / 64) * 64, tables = base + plan.size, call = tables + 65536, workspace = call + 128;
const missing = workspace + plan.workspace - f.memory.buffer.byteLength;
if (missing > 0) f.memory.grow(Math.ceil(missing / 65536));
new Uint8Array(f.memory.buffer).set(fs.readFileSync("image.bin"), base);
const view = new DataView(f.memory.buffer);
view.setUint32(call, workspace, true);
view.setBigInt64(call + 8, BigInt(plan.workspace), true);
for (const { symbol, init, calls, ins, outs, state } of plan.functions) {
  const given = state.map(at => base + at);
  [ins, outs].forEach((row, side) => {
    row.forEach((at, k) => view.setUint32(tables + 32768 * side + 4 * k, base + at, true));
    if (row.length) given.push(tables + 32768 * side);
  });
  if (init) f[init](given[0]);
  for (let k = 0; k < calls; k++) {
    const status = f[symbol](...given, call);
    if (status !== 0) { console.error(symbol, status); process.exit(1); }
  }
}
fs.writeFileSync("result.bin", new Uint8Array(f.memory.buffer, base, plan.size));
"""


def run_node(functions: Sequence[Function], folder: Path, target: Target) -> None:
    """Call all functions under Node; fills the outputs."""
    plan = Plan(functions)
    link([Path(o) for o in plan.objects(folder)], folder / "all.wasm", target, "shared", "all", [s for f in functions for s in (f.symbol, f.init) if s])
    (folder / "image.bin").write_bytes(plan.image())
    rows = [{"symbol": f.symbol, "init": f.init, "calls": f.calls, "ins": i, "outs": o[:len(f.outputs)], "state": o[len(f.outputs):]}
            for f, i, o in zip(functions, plan.inputs, plan.written)]
    (folder / "plan.json").write_text(json.dumps({"size": plan.size, "workspace": plan.workspace, "functions": rows}))
    (folder / "run.cjs").write_text(_SCRIPT)
    done = subprocess.run(["node", "run.cjs"], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    plan.fill((folder / "result.bin").read_bytes())


def run(functions: Sequence[Function], folder: Path, target: Target) -> None:
    """Call all functions as the target does it here; fills the outputs."""
    folder.mkdir(parents=True, exist_ok=True)
    (run_node if target.triple.startswith("wasm") else run_linux)(functions, folder, target)


def same_values(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> bool:
    """Equal to the last bit, but for the sign and payload of NaN: processors make NaNs of their own."""
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if a.dtype.kind == "c":
        return same_values(a.real.copy(), b.real.copy()) and same_values(a.imag.copy(), b.imag.copy())
    if a.dtype.kind != "f":
        return a.tobytes() == b.tobytes()
    whole = {2: np.uint16, 4: np.uint32, 8: np.uint64}[a.dtype.itemsize]
    return bool(((np.isnan(a) & np.isnan(b)) | (a.view(whole) == b.view(whole))).all())


def of_session(name: str, session: Any, inputs: Mapping[str, tuple[Any, Any]], outputs: Mapping[str, Any], target: Target, folder: Path,
               calls: int = 1) -> tuple[Function, list[np.ndarray[Any, Any]]]:
    """The step of a graph with its own state, to be called some times; and what the session gets by as many runs: outputs, and the variables
    as they lie in the state. ``inputs`` are (tensor, value)."""
    folder.mkdir(parents=True, exist_ok=True)
    values = {k: t for k, t in outputs.items() if hasattr(t, "value_index")}
    made = sg.export.shared_object(folder / f"{name}.o", {k: t for k, (t, _) in inputs.items()}, outputs, session, state="owned",
                                   batch={k: v.shape for k, (_, v) in inputs.items()}, targets=[target.name], format="object", name=name)
    for _ in range(calls):
        got = session.run([*values.values(), *(t for k, t in outputs.items() if k not in values)], dict(inputs.values()))[:len(values)]
    state = np.zeros(made.manifest["state"]["bytes"], np.uint8)
    for v in made.manifest["state"]["variables"]:
        if not v["name"].endswith("/stream"):
            raw = session.run(session.graph.get_tensor_by_name(v["name"] + ":0")).tobytes()
            state[v["offset"]:v["offset"] + len(raw)] = np.frombuffer(raw, np.uint8)
    workspace = int(re.search(r"_WORKSPACE_BYTES (\d+)", made.header.read_text())[1])
    got = [np.asarray(v) for v in got]
    f = Function(f"{name}_step", made.path.read_bytes(), [v for _, v in inputs.values()], [np.zeros_like(v) for v in got], workspace, state,
                 f"{name}_state_init", calls)
    return f, got


def training(name: str, target: Target, folder: Path, steps: int = 2) -> tuple[Function, list[np.ndarray[Any, Any]]]:
    """Steps of a sample model's training from fresh weights; the outputs are the loss and, at the end, the state."""
    session, feeds, _, loss, step, _, (xs, ts) = session_of(MODELS[name], 4, 0)
    return of_session(name, session, {"x": (feeds[0], xs), "t": (feeds[1], ts)}, {"loss": loss, "step": step}, target, folder, steps)


def large(target: Target, folder: Path) -> tuple[Function, list[np.ndarray[Any, Any]]]:
    """What samples of operations are too small for: blocks of matrix products and sums, windows, long sorts, loops, draws."""
    rng = np.random.default_rng(5)
    value = rng.normal(size=(130, 300)).astype(np.float32)
    with sg.Graph().as_default() as graph:
        x = sg.placeholder(sg.float32, [130, 300], name="x")
        d = sg.cast(x, sg.float64)
        flat = sg.reshape(x, [-1])
        image = sg.reshape(x, [4, 25, 39, 10])
        kernel = sg.constant(rng.normal(size=(3, 3, 10, 17)).astype(np.float32))
        convolved = sg.nn.conv2d(image, kernel, strides=[1, 1, 1, 1], padding="SAME")
        normal = sg.random_normal([4099], seed=3)
        looped = sg.while_loop(lambda i, v: i < 7, lambda i, v: (i + 1, sg.sin(v) * 1.5 + v), [sg.constant(0), x])[1]
        top = sg.nn.top_k(flat, 20000)
        outputs = {"nt": sg.matmul(x, x, transpose_b=True), "tn": sg.matmul(d, d, transpose_a=True), "row": sg.matmul(x[:1], x, transpose_b=True),
                   "conv": convolved, "pool": sg.nn.max_pool(convolved, [1, 3, 3, 1], [1, 2, 2, 1], "VALID"),
                   "kernel": sg.gradients(sg.nn.conv2d(image, kernel, strides=[1, 2, 2, 1], padding="VALID"), kernel)[0],
                   "sum": sg.reduce_sum(flat), "sum64": sg.reduce_sum(d), "rows": sg.reduce_logsumexp(x, 1), "columns": sg.reduce_mean(x, 0),
                   "top": top[0], "where": top[1], "running": sg.cumsum(flat), "loop": looped, "normal": normal, "half": sg.cast(sg.exp(x), sg.float16),
                   "integers": sg.cast(x * 1e10, sg.int64) // 7, "draws": sg.random_uniform([1000], 0, 77, dtype=sg.int32, seed=8)}
        return of_session("large", sg.Session(graph=graph), {"x": (x, value)}, outputs, target, folder, 2)
