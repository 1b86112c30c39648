"""The other libraries of a comparison: NumPy, PyTorch, JAX and TensorFlow, each as a mode made of a translation or of the user's own function.

A library is imported when it is its turn, and what it does once per process is not counted in its first call. One that is not installed is left
out; one that cannot be imported is a row that says why.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np

from .compare_modes import Failure, Mode, Problem, failure, in_a_line, numeric, trace
from .translate import runnable, translate


@dataclass(frozen=True)
class Peer:
    """A library: ``start(threads)`` imports it and has it do what it does once, ``make`` gives its mode."""

    title: str
    start: Callable[[int], None]
    make: Callable[[Problem, Any, str], Mode]


def peer_modes(p: Problem, given: dict[str, Any]) -> list[Mode | Failure]:
    """Each library that is installed: by the user's function, else by a translation of the traced graph; False leaves one out."""
    out: list[Mode | Failure] = []
    for library, peer in PEERS.items():
        fn = given.get(library)
        if fn is False:
            continue
        loaded = library in sys.modules
        if not loaded and importlib.util.find_spec(library) is None:
            if fn is not None:
                out.append(Failure(peer.title, "peer", f"{library} is not installed", missing=True))
            continue
        start = perf_counter()
        try:
            peer.start(p.threads)
        except (Exception, SystemExit) as error:         # a library may break in any way when it is loaded: no fault of the function
            out.append(Failure(peer.title, "peer", f"not available: {in_a_line(error)}", missing=True))
            continue
        imported = perf_counter() - start
        try:
            mode = peer.make(p, fn, peer.title)
            with mode.inside():
                mode.read(mode.step())
        except Exception as error:
            out.append(failure(peer.title, "peer", error))
            continue
        mode.imported = None if loaded else imported
        out.append(mode)
    return out


def _program(p: Problem, fn: Any, library: str, convert: Callable[[Any], Any], gradients: bool = False) -> tuple[Callable[..., Any], str, int | None]:
    """(function of the flat arguments that gives the results as a tuple, its text, its number of operations): the user's, or a translation."""
    if fn is not None:
        return lambda *flat: tuple(numeric(fn(*p.pack(flat)))), "", None
    t = trace(p)
    outputs = [v.node for v in (*t.values, *(t.gradients if gradients else ()))]
    text, extra, count = translate(t.ledger.ir, [f.node for f in t.feeds], outputs, library)
    names = {k: v if callable(v) else convert(v) for k, v in extra.items()}
    return runnable(text, names, library), text, count


def _other_threads(count: int, wanted: int) -> str:
    """What a library uses that took its number, 0 for as many as it likes, before this comparison."""
    return "" if count == wanted else f"{count} thread{'s' if count > 1 else ''}" if count else "as many threads as it likes"


@contextmanager
def _environment(**wanted: str) -> Iterator[None]:
    """Variables that a library reads when it is loaded; afterwards they are as before."""
    before = {k: os.environ.get(k) for k in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for k, v in before.items():
            if v is None:
                os.environ.pop(k, None)
            else:
                os.environ[k] = v


# ---- NumPy -----------------------------------------------------------------------------------------------------------------------


def _numpy(p: Problem, fn: Any, name: str) -> Mode:
    start = perf_counter()
    run, code, count = _program(p, fn, "numpy", np.asarray, gradients=True)
    leaves, cut = p.leaves, (-len(p.moving) or None) if fn is None else None

    def step() -> Any:
        with np.errstate(all="ignore"):
            return run(*leaves)

    def read(out: Any) -> tuple[list[Any], list[Any]]:
        got = [np.asarray(v) for v in out]
        return got[:cut], got[cut:] if cut else []
    step()
    return Mode(name, "peer", step, read, perf_counter() - start, count, None,
                "the same nodes, gradients too, as straight-line NumPy" if fn is None else "your function; values only", code=code)


# ---- PyTorch ---------------------------------------------------------------------------------------------------------------------


def _start_torch(threads: int) -> None:
    import torch
    torch.ones(2, requires_grad=True).sum().backward()


@contextmanager
def _torch_threads(count: int) -> Iterator[None]:
    import torch
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _torch(p: Problem, fn: Any, name: str) -> Mode:
    import torch
    start = perf_counter()
    leaves = [torch.tensor(a, requires_grad=k in p.moving) for k, a in enumerate(p.leaves)]
    wanted = [leaves[k] for k in p.moving]
    call, code, count = _program(p, fn, "torch", torch.tensor)

    def step() -> Any:
        for t in wanted:
            t.grad = None
        out = call(*leaves)
        parts = [y.sum() if y.ndim else y for y in out if y.requires_grad]
        if parts:
            sum(parts).backward()
        return out

    def read(out: Any) -> tuple[list[Any], list[Any]]:
        return [y.detach().numpy() for y in out], [np.zeros_like(p.leaves[k]) if t.grad is None else t.grad.numpy() for k, t in zip(p.moving, wanted)]
    around = lambda: _torch_threads(p.threads)
    with around():
        step()
    note = f"{_whose(fn)}, eager; gradients by its autograd"
    return Mode(name, "peer", step, read, perf_counter() - start, None if count is None else count + bool(wanted), None, note, code=code, around=around)


def _whose(fn: Any) -> str:
    return "the same operations" if fn is None else "your function"


# ---- JAX -------------------------------------------------------------------------------------------------------------------------

_given: dict[str, int] = {}                  # the number of threads that a comparison gave to a library that takes it once and does not tell it


def _start_jax(threads: int) -> None:
    if "jax" not in sys.modules:
        _given["jax"] = threads
    with _environment(NPROC=str(threads), PJRT_NPROC=str(threads)):          # its CPU client is made at the first use
        import jax
        import jax.numpy as jnp
        jax.jit(lambda x: x + 1)(jnp.ones(2)).block_until_ready()


@contextmanager
def _jax_settings(wide: bool) -> Iterator[None]:
    """64 bits or 32, and the processor also where JAX has another device."""
    import jax
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", wide)
    try:
        with jax.default_device(jax.local_devices(backend="cpu")[0]):
            yield
    finally:
        jax.config.update("jax_enable_x64", before)


def _jax(p: Problem, fn: Any, name: str) -> Mode:
    import jax
    import jax.numpy as jnp
    wide = any(a.dtype.itemsize == 8 for a in p.leaves) or (fn is None and any(v.dtype.size == 8 for v in trace(p).values))
    around = lambda: _jax_settings(wide)
    with around():
        start = perf_counter()
        leaves = [jnp.asarray(a) for a in p.leaves]
        call, code, _ = _program(p, fn, "jax", jnp.asarray)

        def total(moving: Any, rest: Any) -> Any:
            flat = dict(zip(p.moving, moving)) | rest
            out = call(*[flat[k] for k in range(len(leaves))])
            return sum(jnp.sum(y) for y in out if jnp.issubdtype(y.dtype, jnp.floating)), out
        moving, rest = [leaves[k] for k in p.moving], {k: v for k, v in enumerate(leaves) if k not in p.moving}
        if p.moving:
            both = jax.jit(jax.value_and_grad(total, has_aux=True))
            step = lambda: jax.block_until_ready(both(moving, rest))
            read = lambda out: ([np.asarray(y) for y in out[0][1]], [np.asarray(g) for g in out[1]])
        else:
            only = jax.jit(lambda flat: total([], flat)[1])
            step = lambda: jax.block_until_ready(only(rest))
            read = lambda out: ([np.asarray(y) for y in out], [])
        step()
        first = perf_counter() - start
    note = f"{_whose(fn)}, jit(value_and_grad)"
    return Mode(name, "peer", step, read, first, 1, None, note, code=code, around=around, threads=_other_threads(_given.get("jax", 0), p.threads))


# ---- TensorFlow ------------------------------------------------------------------------------------------------------------------


@contextmanager
def _quiet() -> Iterator[None]:
    """What native code writes to standard error goes nowhere: TensorFlow tells of its build and of missing GPUs before it reads its log level.

    With TF_CPP_MIN_LOG_LEVEL=0 in the environment all of it is shown. (JAX sets 1 when it is imported.)
    """
    if os.environ.get("TF_CPP_MIN_LOG_LEVEL") == "0":
        yield
        return
    flush = sys.stderr.flush if sys.stderr is not None else lambda: None
    flush()
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        with _environment(TF_CPP_MIN_LOG_LEVEL="3"):
            yield
    finally:
        flush()
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def _start_tensorflow(threads: int) -> None:
    fresh = "tensorflow" not in sys.modules
    with _quiet():
        import tensorflow as tf
        if not hasattr(tf, "function"):
            raise ImportError("`import tensorflow` gives staticgraph here (install_as_tensorflow)" if tf.__name__.startswith("staticgraph")
                              else "this is not TensorFlow 2: it has no tf.function")
        if not tf.executing_eagerly():
            raise RuntimeError("eager execution is off in this process (disable_v2_behavior)")
        if fresh:                            # both only before its first operation
            tf.config.threading.set_intra_op_parallelism_threads(threads)
            tf.config.threading.set_inter_op_parallelism_threads(threads)
            tf.config.set_visible_devices([], "GPU")
        tf.function(lambda x: x + 1, autograph=False)(tf.ones(2))


def _tensorflow(p: Problem, fn: Any, name: str) -> Mode:
    import tensorflow as tf
    around = lambda: tf.device("/CPU:0")
    with around():
        start = perf_counter()
        leaves = [tf.constant(a) for a in p.leaves]
        # AutoGraph reads the user's source; a translation has no Python branches
        whole = fn if fn is None or hasattr(fn, "get_concrete_function") else tf.function(fn)
        call, code, _ = _program(p, whole, "tensorflow", tf.constant)

        def both(*flat: Any) -> Any:
            wanted = [flat[k] for k in p.moving]
            with tf.GradientTape(watch_accessed_variables=False) as tape:
                tape.watch(wanted)
                out = call(*flat)
                total = [tf.reduce_sum(y) for y in out if y.dtype.is_floating] if wanted else []
            gradients = tape.gradient(total, wanted, unconnected_gradients=tf.UnconnectedGradients.ZERO) if total else []
            return out, [tf.convert_to_tensor(g) for g in gradients]             # of gathered rows too
        run = tf.function(partial(both), autograph=False)                        # by the code of a plain one TensorFlow would find retracing in other comparisons
        step = lambda: run(*leaves)
        step()
        first = perf_counter() - start

    def read(out: Any) -> tuple[list[Any], list[Any]]:
        return [y.numpy() for y in out[0]], [g.numpy() for g in out[1]]
    note = f"{_whose(fn)}, tf.function with GradientTape"
    threads = _other_threads(tf.config.threading.get_intra_op_parallelism_threads(), p.threads)
    return Mode(name, "peer", step, read, first, 1, None, note, code=code, around=around, threads=threads)


PEERS = {"numpy": Peer("NumPy", lambda threads: None, _numpy), "torch": Peer("PyTorch", _start_torch, _torch), "jax": Peer("JAX, jit", _start_jax, _jax),
         "tensorflow": Peer("TensorFlow, graph", _start_tensorflow, _tensorflow)}
