"""Generated matrix products: ``gemm(target, GemmSpec(...), sink)`` gives the kernels (see ``spec`` and ``plan``)."""

from .build import gemm
from .spec import Gemm, GemmKernel, GemmSpec

__all__ = ["Gemm", "GemmKernel", "GemmSpec", "gemm"]
