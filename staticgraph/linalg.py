"""``sg.linalg``: linear algebra under TF1's names."""

from .surface.array_ops import matrix_transpose as matrix_transpose
from .surface.array_ops import matrix_transpose as transpose
from .surface.math_ops import matmul as matmul
from .surface.math_ops import norm as norm
from .surface.math_ops import tensordot as tensordot
from .surface.matrix_ops import cross as cross
from .surface.matrix_ops import eye as eye
from .surface.matrix_ops import matrix_band_part as band_part
from .surface.matrix_ops import matrix_diag as diag
from .surface.matrix_ops import matrix_diag_part as diag_part
from .surface.matrix_ops import matrix_set_diag as set_diag
from .surface.matrix_ops import trace as trace
from .surface.nn_ops import l2_normalize as l2_normalize

__all__ = ["band_part", "cross", "diag", "diag_part", "eye", "l2_normalize", "matmul", "matrix_transpose", "norm", "set_diag", "tensordot", "trace", "transpose"]
