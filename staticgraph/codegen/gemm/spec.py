"""What a matrix product is: sizes, layouts, and the kernels that compute it.

``C[b, i, j] = sum_k A[b, i, k] * B[b, k, j]``. Sizes and strides are constants or run-time operands; either way an element of C is
one chain of fused multiply-adds over ascending k that starts from 0 (or from the C it accumulates into), so its bits depend on
K alone: not on the other sizes, the layout, packing, tiles, threads, or the target (targets without FMA round twice
per step and form a second class).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from ...dtypes import DType
from ...ir.aval import Size

SIZES = ("m", "n", "k", "batch")
STRIDES = ("lda", "ldb", "ldc", "sa", "sb", "sc")
BUFFERS = ("a", "b", "c", "workspace")
CONTIGUOUS = -1 << 62                        # in place of a stride: a number that none can be (-1 is that of a reversed batch)


@dataclass(frozen=True)
class GemmSpec:
    """One family of products.

    ``m, n, k, batch`` are ints, or None where the size is an operand. ``ta``: A is stored ``[k, m]``, else ``[m, k]``; ``tb``: B is
    stored ``[n, k]``, else ``[k, n]``; rows are ``lda``, ``ldb``, ``ldc`` elements apart and items of the batch ``sa``, ``sb``, ``sc``
    (0 broadcasts A or B). Strides left at CONTIGUOUS are those of contiguous arrays; None makes one an operand.
    ``accumulate``: C starts from what its buffer holds, else from 0.
    """

    dtype: DType
    m: int | None
    n: int | None
    k: int | None
    ta: bool = False
    tb: bool = False
    batch: int | None = 1
    lda: int | None = CONTIGUOUS
    ldb: int | None = CONTIGUOUS
    ldc: int | None = CONTIGUOUS
    sa: int | None = CONTIGUOUS
    sb: int | None = CONTIGUOUS
    sc: int | None = CONTIGUOUS
    accumulate: bool = False

    @property
    def operands(self) -> tuple[str, ...]:
        """Names of the operands of every kernel of this product, in order: four addresses, then the run-time sizes and strides."""
        return BUFFERS + tuple(s for s in SIZES + STRIDES if getattr(self, s) is None)

    def settled(self) -> GemmSpec:
        """The same product with contiguous strides filled in where they are constants.

        A stride that is contiguous and follows from a run-time size stays CONTIGUOUS: the kernel reads the size instead.
        """
        def default(name: str, *factors: int | None) -> int | None:
            value: int | None = getattr(self, name)
            if value != CONTIGUOUS or None in factors:
                return value
            out = 1
            for f in factors:
                out *= f or 0
            return out
        return replace(
            self, lda=default("lda", self.m if self.ta else self.k), ldb=default("ldb", self.k if self.tb else self.n),
            ldc=default("ldc", self.n), sa=default("sa", self.m, self.k), sb=default("sb", self.k, self.n),
            sc=default("sc", self.m, self.n))


@dataclass
class GemmKernel:
    """One kernel of a product: its text and ``tasks(m, n, k, batch)``, made of + * // only, so that sizes may be expressions."""

    text: str
    tasks: Callable[[Size, Size, Size, Size], Size]
    title: str
    emitter: Any = None


@dataclass
class Gemm:
    """The kernels of a product, to be run one after the other, all with the same ``operands``.

    ``workspace(m, n, k, batch)`` is the size in bytes of the buffer ``workspace`` (64-byte aligned; 0: none is needed), again made
    of + * // only. ``needs_c``: the operand ``c`` is read or written (with a sink only when accumulating). ``plan`` is the policy's choice, for reports.
    """

    spec: GemmSpec
    kernels: list[GemmKernel]
    workspace: Callable[[Size, Size, Size, Size], Size]
    needs_c: bool
    plan: Any = None

    @property
    def operands(self) -> tuple[str, ...]:
        """Names of the operands, see ``GemmSpec.operands``; a sink's own operands come after them."""
        return self.spec.operands
