"""``SparseTensor``: three dense tensors that belong together, fed and fetched as one."""

from __future__ import annotations

import collections
from typing import Any

import numpy as np

from .. import source
from ..dtypes import int64
from .array_ops import constant, placeholder
from .constructs import operand_nodes
from .deferred import recorded
from .funnel import convert, emit, op_scope, operands
from .shapes import TensorShape
from .sizes import known, sizes_from
from .tensor import Tensor

SparseTensorValue = collections.namedtuple("SparseTensorValue", ["indices", "values", "dense_shape"])


class SparseTensor:
    """Values at places: ``indices`` int64[n, rank], ``values`` [n], ``dense_shape`` int64[rank]."""

    def __init__(self, indices: Any, values: Any, dense_shape: Any) -> None:
        with source.hide_own_frames():
            with op_scope(None, "SparseTensor", indices, values, dense_shape):
                self.indices, self.values, self.dense_shape = convert(indices, int64, "indices"), convert(values, name="values"), convert(dense_shape, int64, "dense_shape")
            if len(self.indices.node.shape) != 2 or len(self.values.node.shape) != 1 or len(self.dense_shape.node.shape) != 1:
                raise ValueError(f"a SparseTensor needs indices of rank 2, values and dense_shape of rank 1, got {self.indices.shape}, {self.values.shape}, {self.dense_shape.shape}")

    graph = property(lambda self: self.values.graph, doc="The graph.")
    op = property(lambda self: self.values.op, doc="The operation of the values.")
    dtype = property(lambda self: self.values.dtype, doc="The type of the values.")

    @property
    def shape(self) -> TensorShape:
        """What is known of the dense shape."""
        found = known(self.dense_shape.node)
        if found is not None:
            return TensorShape([d if isinstance(d, int) else None for d in found.tolist()])
        rank = self.dense_shape.shape[0].value
        return TensorShape(None if rank is None else [None] * rank)

    def get_shape(self) -> TensorShape:
        """What is known of the dense shape."""
        return self.shape

    def eval(self, feed_dict: Any = None, session: Any = None) -> Any:
        """Its value in the default session (or ``session``)."""
        from .session import default_session_for
        return default_session_for(self.graph, session, "evaluate tensor", "eval").run(self, feed_dict)

    def _parts(self) -> tuple[Tensor, Tensor, Tensor]:
        return self.indices, self.values, self.dense_shape

    def _fetch_parts(self) -> Any:
        return list(self._parts()), lambda got: SparseTensorValue(*got)

    def _feed_parts(self, value: Any) -> dict[Tensor, Any]:
        """The dense feeds for a SparseTensorValue or an (indices, values, shape) tuple."""
        if not isinstance(value, (tuple, list)) or len(value) != 3:
            raise TypeError(f"a sparse tensor is fed a SparseTensorValue or a tuple (indices, values, shape), got {type(value).__name__}")
        return dict(zip(self._parts(), value))

    def __repr__(self) -> str:
        return f"SparseTensor(indices={self.indices}, values={self.values}, dense_shape={self.dense_shape})"


def sparse_placeholder(dtype: Any, shape: Any = None, name: str | None = None) -> SparseTensor:
    """A sparse tensor to be fed; ``shape`` may name the rank and sizes."""
    with source.hide_own_frames():
        rank = TensorShape(shape).ndims
        prefix = f"{name}/" if name else ""
        known_shape = TensorShape(shape).is_fully_defined()
        label = f"{prefix}shape" if name else None
        sizes = constant(np.array(TensorShape(shape).as_list(), np.int64), name=label or "Const") if known_shape else placeholder(int64, [rank], label)
        values = placeholder(dtype, [None], f"{prefix}values" if name else None)
        indices = placeholder(int64, [None, rank], f"{prefix}indices" if name else None)
        return SparseTensor(indices, values, sizes)


@recorded
def sparse_to_dense(sparse_indices: Any, output_shape: Any, sparse_values: Any, default_value: Any = 0, validate_indices: bool = True, name: str | None = None) -> Tensor:
    """``default_value`` everywhere but at the indices ([n, rank], [n] or one), which have the values ([n] or one)."""
    with op_scope(name, "SparseToDense", sparse_indices, sparse_values, default_value) as label:
        at = convert(sparse_indices, name="sparse_indices")
        values, default = operands("SparseToDense", (sparse_values, default_value), ("sparse_values", "default_value"))
        sizes = sizes_from(output_shape, "output_shape")

        def build(b: Any, i: Any, v: Any, d: Any) -> Any:
            if len(i.shape) < 2:
                i = b.reshape(i, shape=(1 if not i.shape else i.shape[0], 1))
            if not v.shape:
                v = b.broadcast_to(v, shape=(i.shape[0],))
            return b.scatter_nd_update(b.broadcast(d, sizes), i, v)
        result: Tensor = emit("SparseToDense", label, (at, values, default), build, more=operand_nodes(output_shape))
        return result


def sparse_tensor_to_dense(sp_input: SparseTensor, default_value: Any = 0, validate_indices: bool = True, name: str | None = None) -> Tensor:
    """The dense array of a sparse tensor."""
    with op_scope(name, "SparseToDense", sp_input.values, beside=() if default_value else ("zeros",)) as label:
        result: Tensor = sparse_to_dense(sp_input.indices, sp_input.dense_shape, sp_input.values, default_value, validate_indices, label)
        return result


def sparse_tensor_dense_matmul(sp_a: SparseTensor, b: Any, adjoint_a: bool = False, adjoint_b: bool = False, name: str | None = None) -> Tensor:
    """A sparse matrix times a dense one: each value times a row, summed by row."""
    with op_scope(name, "SparseTensorDenseMatMul", sp_a.values, b):
        dense = convert(b, sp_a.dtype, "b")
        rows = sizes_from(sp_a.dense_shape, "dense_shape")[1 if adjoint_a else 0]

        def build(bb: Any, i: Any, v: Any, m: Any) -> Any:
            m = bb.transpose(m, perm=(1, 0)) if adjoint_b else m
            n = i.shape[0]

            def column(k: int) -> Any:
                return bb.reshape(bb.slice(i, starts=(0, k), sizes=(n, 1), steps=(1, 1)), shape=(n,))
            out, inner = (column(1), column(0)) if adjoint_a else (column(0), column(1))
            parts = bb.mul(bb.gather(m, inner, axis=0), bb.reshape(v, shape=(n, 1)))
            from ..ir.aval import Aval
            return bb.scatter_add(bb.zeros(Aval((rows, m.shape[1]), v.dtype)), out, parts)
        result: Tensor = emit("SparseTensorDenseMatMul", "SparseTensorDenseMatMul", (sp_a.indices, sp_a.values, dense), build)
        return result


