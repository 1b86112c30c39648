"""``staticgraph info``: where this runs, and how each operation does."""

from __future__ import annotations

import platform
from typing import Any

from ..ir.opdef import OPS, Control, Decompose, Host, Loops, Matmul, NoRule, Reduce, Scalar, View, Windows


def how(op: Any) -> str:
    """How an operation runs: native, composed (of native ones), control, host, or none."""
    kinds: list[tuple[Any, str]] = [(Scalar, "native elementwise"), (Reduce, "native reduction"), (Matmul, "native matrix product"), (Windows, "native correlation"), (Loops, "native loops"),
                                    (View, "view, no code"), (Decompose, "composed"), (Control, "control"), (Host, "host"), (NoRule, "none")]
    text = next(name for kind, name in kinds if isinstance(op.lower, kind))
    return text + (", serial" if isinstance(op.lower, Loops) and op.lower.tasks is None else "")


def operation_table() -> str:
    """One line per operation."""
    from .. import ops
    del ops
    return "\n".join(f"{name:42s} {how(op):24s} {op.doc}" for name, op in sorted(OPS.items()))


def show(with_ops: bool = False) -> None:
    """Print it."""
    import llvmlite
    import numpy as np

    from .. import __version__
    from ..codegen.target import host
    from ..config import Config
    from ..runtime.cache import folder
    target = host()
    print(f"staticgraph {__version__}, Python {platform.python_version()}, NumPy {np.__version__}, llvmlite {llvmlite.__version__}")
    print(f"processor: {target.cpu}, vectors of {target.vector_bits} bits, fused multiply-add: {'yes' if target.fma else 'no'}")
    print(f"threads: {Config().thread_count}; compile cache: {folder() or 'off'}")
    if with_ops:
        print(operation_table())
