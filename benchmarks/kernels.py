"""Speed of generated kernels, one thread, as ratios measured in one run: ``python benchmarks/kernels.py [part ...] [--quick]``.

Each part is a module of ``kernel_parts`` with ``run(quick)``. A ratio above 1 means that the generated code is faster than its peer.
Peer and own code take turns, and each counts with its best time, so that a busy machine disturbs both alike.
"""

from __future__ import annotations

import importlib
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

PARTS = ("gemm", "graphs")
# the peers run on one thread, with the kernels they choose for this processor
ENVIRONMENT = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
UNSET = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")


def in_turns(functions: list[Callable[[], object]], seconds: float = 0.1) -> list[float]:
    """Best time of one call of each function; they take turns for about ``seconds`` in all, at least three times."""
    for f in functions:
        f()
    start = time.perf_counter()
    for f in functions:
        f()
    once = (time.perf_counter() - start) / len(functions)
    repeat = max(1, min(200, int(2e-4 / max(once, 1e-7))))
    rounds = max(3, int(seconds / (once * repeat * len(functions))))
    best = [float("inf")] * len(functions)
    for _ in range(min(rounds, 400)):
        for i, f in enumerate(functions):
            start = time.perf_counter()
            for _ in range(repeat):
                f()
            best[i] = min(best[i], (time.perf_counter() - start) / repeat)
    return best


def main(arguments: list[str]) -> int:
    """Run the named parts, or all."""
    for name in UNSET:
        os.environ.pop(name, None)
    os.environ.update(ENVIRONMENT)
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    quick = "--quick" in arguments
    named = [a for a in arguments if not a.startswith("-")] or list(PARTS)
    unknown = [n for n in named if n not in PARTS]
    if unknown:
        print(f"Unknown part {unknown[0]!r}; there are: {', '.join(PARTS)}.", file=sys.stderr)
        return 2
    for name in named:
        importlib.import_module(f"kernel_parts.{name}").run(quick)
    return 0


if __name__ == "__main__":
    sys.modules["kernels"] = sys.modules["__main__"]
    raise SystemExit(main(sys.argv[1:]))
