"""``TensorShape`` and ``Dimension`` with TF1's manners, over the IR's sizes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ..ir.aval import Dim, Size, symbol


class Dimension:
    """One static size, or None where it is not known."""

    __slots__ = ("_value", "size")

    def __init__(self, value: Any) -> None:
        if isinstance(value, Dimension):
            self.size, self._value = value.size, value._value
        elif isinstance(value, Dim):
            self.size, self._value = value, None
        elif value is None:
            self.size, self._value = None, None
        else:
            number = int(value)
            if number < 0:
                raise ValueError(f"Dimension {number} must be >= 0")
            self.size, self._value = number, number

    @property
    def value(self) -> int | None:
        """The number, or None."""
        return self._value

    def __int__(self) -> int:
        if self._value is None:
            raise TypeError("a dimension that is not known has no int value")
        return self._value

    __index__ = __int__

    def __repr__(self) -> str:
        return f"Dimension({self._value!r})"

    def __str__(self) -> str:
        return "?" if self._value is None else str(self._value)

    def __eq__(self, other: Any) -> Any:
        try:
            other = Dimension(other)
        except (TypeError, ValueError):
            return NotImplemented
        return None if self._value is None or other._value is None else self._value == other._value

    def __ne__(self, other: Any) -> Any:
        same = self.__eq__(other)
        return same if same is None or same is NotImplemented else not same

    def __hash__(self) -> int:
        return hash(self._value)

    def _with(self, other: Any, f: Any) -> Dimension:
        other = Dimension(other)
        return Dimension(None if self._value is None or other._value is None else f(self._value, other._value))

    def __add__(self, other: Any) -> Dimension:
        return self._with(other, lambda x, y: x + y)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Dimension:
        return self._with(other, lambda x, y: x - y)

    def __rsub__(self, other: Any) -> Dimension:
        return Dimension(other) - self

    def __mul__(self, other: Any) -> Any:
        try:
            return self._with(other, lambda x, y: x * y)
        except TypeError:
            return NotImplemented

    __rmul__ = __mul__

    def __floordiv__(self, other: Any) -> Dimension:
        return self._with(other, lambda x, y: x // y)

    def __rfloordiv__(self, other: Any) -> Dimension:
        return Dimension(other) // self

    def __mod__(self, other: Any) -> Dimension:
        return self._with(other, lambda x, y: x % y)

    def __lt__(self, other: Any) -> Any:
        other = Dimension(other)
        return None if self._value is None or other._value is None else self._value < other._value

    def __gt__(self, other: Any) -> Any:
        other = Dimension(other)
        return None if self._value is None or other._value is None else self._value > other._value

    def is_compatible_with(self, other: Any) -> bool:
        """Equal, or not known."""
        return self.__eq__(other) is not False

    def merge_with(self, other: Any) -> Dimension:
        """The more specific of two. ValueError where they differ."""
        other = Dimension(other)
        if not self.is_compatible_with(other):
            raise ValueError(f"Dimensions {self} and {other} are not compatible")
        return self if self._value is not None else other


class TensorShape:
    """A static shape; rank and sizes may be unknown."""

    __slots__ = ("_dims",)

    def __init__(self, dims: Any = None) -> None:
        if dims is None:
            self._dims: list[Dimension] | None = None
        elif isinstance(dims, TensorShape):
            self._dims = dims._dims
        elif isinstance(dims, (list, tuple)):
            self._dims = [Dimension(d) for d in dims]
        else:
            self._dims = [Dimension(dims)] if not hasattr(dims, "__iter__") else [Dimension(d) for d in dims]

    dims = property(lambda self: self._dims, doc="Dimensions, or None where the rank is unknown.")
    ndims = property(lambda self: None if self._dims is None else len(self._dims), doc="The rank, or None.")
    rank = ndims

    def as_list(self) -> list[int | None]:
        """Sizes as ints and None. ValueError for an unknown rank."""
        if self._dims is None:
            raise ValueError("as_list() is not defined on an unknown TensorShape.")
        return [d.value for d in self._dims]

    def __len__(self) -> int:
        if self._dims is None:
            raise ValueError("Cannot take the length of shape with unknown rank.")
        return len(self._dims)

    def __bool__(self) -> bool:
        return self._dims is not None

    def __iter__(self) -> Iterator[Dimension]:
        if self._dims is None:
            raise ValueError("Cannot iterate over a shape with unknown rank.")
        return iter(self._dims)

    def __getitem__(self, key: Any) -> Any:
        if self._dims is None:
            return TensorShape(None) if isinstance(key, slice) else Dimension(None)
        return TensorShape(self._dims[key]) if isinstance(key, slice) else self._dims[key]

    def __str__(self) -> str:
        if self._dims is None:
            return "<unknown>"
        inner = ", ".join(map(str, self._dims))
        return f"({inner},)" if len(self._dims) == 1 else f"({inner})"

    def __repr__(self) -> str:
        return f"TensorShape({'None' if self._dims is None else self._dims})"

    def __eq__(self, other: Any) -> Any:
        try:
            other = TensorShape(other)
        except (TypeError, ValueError):
            return NotImplemented
        if self._dims is None or other._dims is None:
            return self._dims is None and other._dims is None
        return self.is_fully_defined() and other.is_fully_defined() and self.as_list() == other.as_list()

    def __ne__(self, other: Any) -> Any:
        same = self.__eq__(other)
        return same if same is NotImplemented else not same

    def __hash__(self) -> int:
        return hash(None if self._dims is None else tuple(d.value for d in self._dims))

    def is_fully_defined(self) -> bool:
        """Rank and all sizes are known."""
        return self._dims is not None and all(d.value is not None for d in self._dims)

    def num_elements(self) -> int | None:
        """The product of the sizes, or None."""
        if not self.is_fully_defined():
            return None
        total = 1
        for d in self:
            total *= int(d)
        return total

    def is_compatible_with(self, other: Any) -> bool:
        """Could be the same shape."""
        other = TensorShape(other)
        if self._dims is None or other._dims is None:
            return True
        return len(self) == len(other) and all(p.is_compatible_with(q) for p, q in zip(self, other))

    def assert_is_compatible_with(self, other: Any) -> None:
        """ValueError unless compatible."""
        if not self.is_compatible_with(other):
            raise ValueError(f"Shapes {self} and {TensorShape(other)} are incompatible")

    def merge_with(self, other: Any) -> TensorShape:
        """What both say together. ValueError where they differ."""
        other = TensorShape(other)
        if self._dims is None:
            return other
        if other._dims is None:
            return self
        if not self.is_compatible_with(other):
            raise ValueError(f"Shapes {self} and {other} are not compatible")
        return TensorShape([p.merge_with(q) for p, q in zip(self, other)])

    def concatenate(self, other: Any) -> TensorShape:
        """One after the other."""
        other = TensorShape(other)
        if self._dims is None or other._dims is None:
            return TensorShape(None)
        return TensorShape([*self._dims, *other._dims])

    def with_rank(self, rank: int) -> TensorShape:
        """This shape of that rank. ValueError where it has another."""
        if self._dims is None:
            return TensorShape([None] * rank)
        if len(self) != rank:
            raise ValueError(f"Shape {self} must have rank {rank}")
        return self

    def with_rank_at_least(self, rank: int) -> TensorShape:
        """This shape. ValueError where the rank is lower."""
        if self._dims is not None and len(self) < rank:
            raise ValueError(f"Shape {self} must have rank at least {rank}")
        return self


def to_sizes(shape: Any) -> tuple[Size, ...]:
    """Sizes for the IR: None and unknown dimensions become fresh symbols. ValueError for negative sizes."""
    out: list[Size] = []
    for d in (shape if isinstance(shape, (list, tuple, TensorShape)) else [shape]):
        if isinstance(d, Dim):
            out.append(d)
            continue
        dimension = Dimension(d)
        out.append(dimension.size if dimension.size is not None else symbol())
    return tuple(out)


def shape_of(sizes: Sequence[Size]) -> TensorShape:
    """The static shape of IR sizes."""
    return TensorShape([Dimension(s) for s in sizes])
