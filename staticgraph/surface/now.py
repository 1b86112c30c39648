"""Define-by-run tensors as operands of public functions: what such a call builds is computed at once, by the same ``build``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .shapes import TensorShape, shape_of
from .tensor import Tensor


class Now(Tensor):
    """Stands for a define-by-run tensor until ``emit`` computes. Its ``node`` is that tensor: it has a shape, a dtype and an aval too."""

    graph: Any = None                        # type: ignore[assignment]

    def __init__(self, held: Any) -> None:
        self._node, self._record, self._consumers, self._refined = held, None, [], None

    @property
    def shape(self) -> TensorShape:
        """The shape."""
        return shape_of(self._node.shape)

    name = property(lambda self: "a define-by-run tensor", doc="It has none.")            # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(self._node)


def is_now(inputs: Sequence[Any]) -> bool:
    """Whether a define-by-run tensor is among the operands."""
    return any(isinstance(i, Now) for i in inputs)


def compute(inputs: Sequence[Tensor], build: Callable[..., Any]) -> Any:
    """What ``build`` makes of the operands, computed now. MixedModesError for an operand that has no value yet."""
    from ..dynamic.tensor import compute as b
    first = next(i.node for i in inputs if isinstance(i, Now))
    return build(b, *(i.node if isinstance(i, Now) else b.value_of(i, first) for i in inputs))
