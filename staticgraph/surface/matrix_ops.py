"""Matrices made of positions, diagonals, and small products under TF1's names (``sg.linalg``)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..dtypes import as_dtype, float32
from ..errors import ShapeError
from .deferred import recorded
from .funnel import convert, emit, op_scope, operands
from .sizes import sizes_from, static_int
from .tensor import Tensor


@recorded
def eye(num_rows: Any, num_columns: Any = None, batch_shape: Any = None, dtype: Any = float32, name: str | None = None) -> Tensor:
    """Ones on the diagonal, the same for each of a batch."""
    with op_scope(name, "eye"):
        (rows,) = sizes_from(num_rows, "num_rows")
        columns = rows if num_columns is None else sizes_from(num_columns, "num_columns")[0]
        lead = () if batch_shape is None else sizes_from(batch_shape, "batch_shape")
        kind = as_dtype(dtype)
        result: Tensor = emit("Eye" if rows == columns else "EyeRectangular", "diag" if rows == columns else "set_diag", (), lambda b: b.broadcast(b.eye(rows=rows, columns=columns, dtype=kind), (*lead, rows, columns)))
        return result


def _unary(public: str, tf: str, build: Callable[..., Any], doc: str, argument: str = "input", default: str = "") -> Callable[..., Any]:
    @recorded
    def f(input: Any = None, name: str | None = None, diagonal: Any = None) -> Any:
        given = diagonal if input is None else input
        with op_scope(name, default or tf, given) as label:
            return emit(tf, label, (convert(given, name=argument),), build)
    f.__name__ = f.__qualname__ = public
    f.__doc__ = doc
    return f


matrix_diag = _unary("matrix_diag", "MatrixDiag", lambda b, n: b.diag(n), "Matrices with the last axis on their diagonals.", "diagonal", "diag")
matrix_diag_part = _unary("matrix_diag_part", "MatrixDiagPart", lambda b, n: b.diag_part(n), "The diagonals of the last two axes.", default="diag_part")
trace = _unary("trace", "Trace", lambda b, n: b.sum(b.diag_part(n), axis=(-1,)), "Sums of the diagonals of the last two axes.")


def _vector(b: Any, n: Any) -> Any:
    if len(n.shape) != 1:
        raise ShapeError(f"diag needs a vector, got shape {n.shape}: matrix_diag takes batches")
    return b.diag(n)


def _square(b: Any, n: Any) -> Any:
    if len(n.shape) != 2:
        raise ShapeError(f"diag_part needs a matrix, got shape {n.shape}: matrix_diag_part takes batches")
    return b.diag_part(n)


diag = _unary("diag", "Diag", _vector, "The matrix with a vector on its diagonal.", "diagonal")
diag_part = _unary("diag_part", "DiagPart", _square, "The diagonal of a matrix.")


@recorded
def matrix_band_part(input: Any, num_lower: Any, num_upper: Any, name: str | None = None) -> Any:
    """Zeros outside a band of ``num_lower`` and ``num_upper`` diagonals (negative: all of that side)."""
    with op_scope(name, "MatrixBandPart", input) as label:
        lower, upper = static_int(num_lower, "num_lower"), static_int(num_upper, "num_upper")
        return emit("MatrixBandPart", label, (convert(input, name="input"),), lambda b, n: b.band_part(n, lower=lower, upper=upper))


@recorded
def matrix_set_diag(input: Any, diagonal: Any, name: str | None = None) -> Any:
    """The matrices with other diagonals."""
    with op_scope(name, "set_diag", input, diagonal) as label:
        def build(b: Any, n: Any, d: Any) -> Any:
            rows, columns = n.shape[-2:]
            on = b.broadcast(b.eye(rows=rows, columns=columns, dtype=as_dtype("bool")), n.shape)
            wide = b.expand_dims(d, axis=-1 if rows == d.shape[-1] else -2)
            return b.where(on, b.broadcast(wide, n.shape), n)
        return emit("MatrixSetDiag", label, operands("MatrixSetDiag", (input, diagonal), ("input", "diagonal")), build)


@recorded
def cross(a: Any, b: Any, name: str | None = None) -> Any:
    """Products of vectors of three along the last axis."""
    with op_scope(name, "Cross", a, b) as label:
        def build(bb: Any, p: Any, q: Any) -> Any:
            if p.shape[-1] != 3 or q.shape[-1] != 3:
                raise ShapeError(f"both shapes must have rank at least 1 and 3 elements along the last axis, got {p.shape} and {q.shape}")

            def part(n: Any, k: int) -> Any:
                rank = len(n.shape)
                return bb.slice(n, starts=(0,) * (rank - 1) + (k,), sizes=(*n.shape[:-1], 1), steps=(1,) * rank)
            rows = [bb.sub(bb.mul(part(p, i), part(q, j)), bb.mul(part(p, j), part(q, i))) for i, j in ((1, 2), (2, 0), (0, 1))]
            return bb.concat(*rows, axis=-1)
        return emit("Cross", label, operands("Cross", (a, b), ("a", "b")), build)
