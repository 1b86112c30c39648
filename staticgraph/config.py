"""Settings: one frozen object, and the few process-wide switches read from the environment.

Environment: ``SG_VERIFY=1`` runs the verifier after each pass, ``SG_TRACEBACK=full`` shows our own frames,
``SG_CACHE=0`` and ``SG_CACHE_DIR`` rule the disk cache, ``SG_LOG=passes,timing,...`` prints named artifacts (``SG_LOG=help`` lists them),
``SG_TARGET`` overrides the processor level, ``SG_THREADS`` the default thread count.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, replace
from typing import Any

LEVELS = ("O0", "O1", "O2")

ARTIFACTS = {
    "graph": "the graph before and after all passes",
    "passes": "nodes before and after each pass, and its time",
    "rules": "every rewrite: rule, node before, node after",
    "kernels": "the kernels of each executable and what each one computes",
    "memory": "the arena: buffers, offsets, lifetimes",
    "llvm": "the LLVM text of each new kernel",
    "asm": "the machine code of each new kernel",
    "program": "the table of words the walker runs",
    "timing": "seconds spent in each stage of a compile",
    "feeds": "names and shapes of what each run is fed",
    "cache": "hits and misses of the disk cache",
}


@dataclass(frozen=True)
class Config:
    """Settings of a session, a function or an export.

    threads    worker threads of a run; None means ``SG_THREADS`` or the processors this process may use
    optimize   "O0" lowers the graph as written, "O1" cleans it up, "O2" also fuses; results are bit-equal
    fast_math  allow rewrites that change rounding or are wrong for NaN, infinities or signed zeros
    nan_check  fail a run of which a result or a variable's next value is not finite, before anything is committed, and name the op and
               line where it began (variables then need memory for both values while they are updated)
    verify     interpret the graph as written beside each run and name the pass that changed an answer, before anything is committed (slow)
    max_bytes  bytes for the temporaries of a run: values are computed a second time in the backward pass rather than kept where they would
               exceed it (ResourceExhaustedError where no plan fits)
    cache      keep compiled objects on disk between processes
    """

    threads: int | None = None
    optimize: str = "O2"
    fast_math: bool = False
    nan_check: bool = False
    verify: bool = False
    max_bytes: int | None = None
    cache: bool = True

    def __post_init__(self) -> None:
        if self.optimize not in LEVELS:
            raise ValueError(f"Config.optimize must be one of {', '.join(LEVELS)}, got {self.optimize!r}")
        if self.threads is not None and self.threads < 1:
            raise ValueError(f"Config.threads must be at least 1, got {self.threads}")
        if self.max_bytes is not None and self.max_bytes < 0:
            raise ValueError(f"Config.max_bytes must not be negative, got {self.max_bytes}")

    def with_(self, **changes: Any) -> Config:
        """A copy with some settings changed."""
        return replace(self, **changes)

    @property
    def thread_count(self) -> int:
        """The number of threads meant: ``threads``, else ``SG_THREADS``, else the processors available."""
        if self.threads is not None:
            return self.threads
        env = os.environ.get("SG_THREADS")
        if env:
            return max(1, int(env))
        if hasattr(os, "sched_getaffinity"):
            return len(os.sched_getaffinity(0))
        return os.cpu_count() or 1


def log_wants(artifact: str) -> bool:
    """Whether ``SG_LOG`` asks for ``artifact``. ``SG_LOG=help`` prints the list once; an unknown name is an error."""
    text = os.environ.get("SG_LOG")
    if not text:
        return False
    wanted = {w.strip() for w in text.split(",") if w.strip()}
    if "help" in wanted:
        _print_help()
        wanted.discard("help")
    unknown = wanted - set(ARTIFACTS)
    if unknown:
        raise ValueError(f"SG_LOG: unknown artifact {sorted(unknown)[0]!r}; known: {', '.join(ARTIFACTS)}")
    return artifact in wanted


def log(artifact: str, text: str) -> None:
    """Print ``text`` to standard error if ``SG_LOG`` asks for ``artifact``."""
    if log_wants(artifact):
        print(f"[{artifact}] {text}", file=sys.stderr)


_helped = False


def _print_help() -> None:
    global _helped
    if not _helped:
        _helped = True
        for name, what in ARTIFACTS.items():
            print(f"SG_LOG={name:8s} {what}", file=sys.stderr)
