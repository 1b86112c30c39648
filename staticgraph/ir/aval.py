"""Abstract values: a shape and an element type; dimensions are ints or interned linear expressions.

A dimension unknown while building (``None``) is a ``Dim``: a sum of integer multiples of *atoms* plus a constant. An atom is
a symbol or an opaque quotient, product or maximum of expressions. Expressions are interned, so equal expressions are one
object and "the same size" is ``is``. Sizes are never negative.
"""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Union

from ..dtypes import DType
from ..errors import ShapeError

Size = Union[int, "Dim"]


class Atom:
    """A symbol (``kind == "sym"``) or an opaque operation on expressions (``div``, ``mul``, ``max``)."""

    __slots__ = ("__weakref__", "args", "kind", "name")

    def __init__(self, kind: str, args: tuple[Size, ...], name: str) -> None:
        self.kind, self.args, self.name = kind, args, name

    def __repr__(self) -> str:
        return self.name


class Dim:
    """An interned expression ``const + sum(coef * atom)``; at least one atom. Make it with ``symbol`` and arithmetic."""

    __slots__ = ("__weakref__", "const", "terms")
    terms: tuple[tuple[Atom, int], ...]
    const: int

    def __repr__(self) -> str:
        text = ""
        for atom, coef in self.terms:
            sign = "-" if coef < 0 else "+" if text else ""
            text += sign + (f"{abs(coef)}*" if abs(coef) != 1 else "") + atom.name
        if self.const:
            text += f"{self.const:+d}"
        return text

    def __add__(self, other: Size) -> Size:
        return _combine(self, 1, other, 1)

    __radd__ = __add__

    def __sub__(self, other: Size) -> Size:
        return _combine(self, 1, other, -1)

    def __rsub__(self, other: Size) -> Size:
        return _combine(other, 1, self, -1)

    def __neg__(self) -> Size:
        return _combine(self, -1, 0, 0)

    def __mul__(self, other: Size) -> Size:
        if isinstance(other, int):
            return _combine(self, other, 0, 0)
        if not isinstance(other, Dim):
            return NotImplemented
        if len(other.terms) == 1 and other.const == 0 and len(self.terms) == 1 and self.const == 0:
            (x, cx), (y, cy) = self.terms[0], other.terms[0]
            first, second = sorted((_make(((x, 1),), 0), _make(((y, 1),), 0)), key=_by_age)
            return _combine(_atom("mul", (first, second)), cx * cy, 0, 0)
        total: Size = 0
        mine: list[tuple[Atom | None, int]] = [*self.terms, (None, self.const)]
        theirs: list[tuple[Atom | None, int]] = [*other.terms, (None, other.const)]
        for p, cx in mine:
            for q, cy in theirs:
                if cx * cy == 0:
                    continue
                one = p or q
                if one is None:
                    part: Size = cx * cy
                elif p is None or q is None:
                    part = _make(((one, cx * cy),), 0)
                else:
                    part = _combine(_make(((p, 1),), 0) * _make(((q, 1),), 0), cx * cy, 0, 0)
                total = total + part
        return total

    __rmul__ = __mul__

    def __floordiv__(self, other: Size) -> Size:
        if not isinstance(other, int):
            quotient = exact_div(self, other)
            return quotient if quotient is not None else _atom("div", (self, other))
        if other == 0:
            raise ZeroDivisionError("a dimension divided by zero")
        if all(c % other == 0 for _, c in self.terms):
            return _make(tuple((a, c // other) for a, c in self.terms), self.const // other)
        return _atom("div", (self, other))

    def __rfloordiv__(self, other: Size) -> Size:
        return _atom("div", (other, self)) if other != 0 else 0

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return parse_dim, (repr(self),)


def _by_age(x: object) -> tuple[int, str]:
    """Sorts fresh symbols in the order in which they were made: n9 before n10."""
    return len(repr(x)), repr(x)


def _key(atom: Atom) -> tuple[int, int, str]:
    return (0 if atom.kind == "sym" else 1, len(atom.name), atom.name)


_dims: weakref.WeakValueDictionary[tuple[tuple[tuple[Atom, int], ...], int], Dim] = weakref.WeakValueDictionary()
_atoms: weakref.WeakValueDictionary[str, Atom] = weakref.WeakValueDictionary()
_fresh = itertools.count()


def _make(terms: tuple[tuple[Atom, int], ...], const: int) -> Size:
    terms = tuple((a, c) for a, c in terms if c)
    if not terms:
        return const
    key = (terms, const)
    found = _dims.get(key)
    if found is None:
        found = Dim.__new__(Dim)
        found.terms, found.const = key
        found = _dims.setdefault(key, found)
    return found


def _combine(x: Size, cx: int, y: Size, cy: int) -> Size:
    coefs: dict[Atom, int] = {}
    const = 0
    for value, factor in ((x, cx), (y, cy)):
        if isinstance(value, Dim):
            const += factor * value.const
            for atom, c in value.terms:
                coefs[atom] = coefs.get(atom, 0) + factor * c
        else:
            const += factor * int(value)
    return _make(tuple(sorted(coefs.items(), key=lambda t: _key(t[0]))), const)


def _atom(kind: str, args: tuple[Size, ...]) -> Size:
    name = {"div": "({}//{})", "mul": "({}*{})", "max": "max({},{})"}[kind].format(*(_operand(a) for a in args))
    atom = _atoms.get(name)
    if atom is None:
        atom = _atoms.setdefault(name, Atom(kind, args, name))
    return _make(((atom, 1),), 0)


def _operand(size: Size) -> str:
    return f"({size!r})" if isinstance(size, Dim) and (len(size.terms) > 1 or size.const or size.terms[0][1] != 1) else repr(size)


def symbol(name: str | None = None) -> Dim:
    """The symbol of that name, or a fresh one (``n0``, ``n1``, ...)."""
    if name is None:
        name = f"n{next(_fresh)}"
    atom = _atoms.get(name)
    if atom is None:
        atom = _atoms.setdefault(name, Atom("sym", (), name))
    made = _make(((atom, 1),), 0)
    assert isinstance(made, Dim)
    return made


def measured(name: str | None = None) -> Dim:
    """A fresh symbol for a size that the run itself measures (how many elements a mask selects); its name starts with ``k``."""
    return symbol(name or f"k{next(_fresh)}")


def is_measured(name: str) -> bool:
    """Whether a symbol's value is found while running, not given by the shapes of feeds."""
    return name.startswith("k")


def capacity() -> Dim:
    """A fresh symbol for room that a run makes larger where it is too small; its name starts with ``cap``."""
    return symbol(f"cap{next(_fresh)}")


def capacities_in(size: Size) -> set[str]:
    """Names of the capacities in a size."""
    return {s for s in symbols_of(size) if s.startswith("cap")}


def measured_in(value: object) -> set[str]:
    """Names of the measured symbols in a size, an aval, or a tuple of such."""
    if isinstance(value, Dim):
        return {s for s in symbols_of(value) if is_measured(s)}
    if isinstance(value, Aval):
        value = value.shape
    elif isinstance(value, TupleAval):
        value = value.elements
    return set().union(*map(measured_in, value)) if isinstance(value, tuple) else set()


class _Assumed(threading.local):
    pairs: list[tuple[Size, Size]] | None = None
    every = False                            # also pairs without a measured symbol


_assumed = _Assumed()


def assume_equal(p: Size, q: Size) -> None:
    """Called by shape rules that take two different expressions to be equal; ``assumptions`` keeps the pairs."""
    if p is q or not (isinstance(p, Dim) or isinstance(q, Dim)) or _assumed.pairs is None:
        return
    if _assumed.every or measured_in(p) or measured_in(q):
        _assumed.pairs.append((p, q))


def assume_at_most(p: Size, q: Size) -> None:
    """As ``assume_equal`` for p <= q, which is max(p, q) = q."""
    if (isinstance(p, Dim) or isinstance(q, Dim)) and _assumed.pairs is not None:
        assume_equal(maximum(p, q), q)


@contextmanager
def assumptions(every: bool = False) -> Iterator[list[tuple[Size, Size]]]:
    """Within: the pairs of sizes that shape rules take to be equal although only the run can tell.

    Without ``every`` only pairs with a measured symbol: the others can be told from the shapes of the feeds.
    """
    saved = _assumed.pairs, _assumed.every
    pairs: list[tuple[Size, Size]] = []
    _assumed.pairs, _assumed.every = pairs, every
    try:
        yield pairs
    finally:
        _assumed.pairs, _assumed.every = saved


def upper_bound(size: Size, bounds: Mapping[str, Size]) -> Size:
    """A size that ``size`` does not exceed while each symbol s in ``bounds`` stays in 0 .. bounds[s]."""
    if not isinstance(size, Dim) or not any(s in bounds for s in symbols_of(size)):
        return size
    total: Size = size.const
    for atom, coef in size.terms:
        if atom.kind == "sym":
            most = upper_bound(bounds[atom.name], bounds) if atom.name in bounds else _make(((atom, 1),), 0)
            part = most if coef > 0 or atom.name not in bounds else 0
        elif coef < 0 and any(s in bounds for a in atom.args for s in symbols_of(a)):
            part = 0
        else:
            x, y = atom.args
            most, other = upper_bound(x, bounds), upper_bound(y, bounds)
            if atom.kind == "div":               # by at least 1
                part = most if other is not y else (most // y if y != 0 else 0)
            else:
                part = most * other if atom.kind == "mul" else maximum(most, other)
        total = total + part * coef
    return maximum(total, 0)


def maximum(x: Size, y: Size) -> Size:
    """The larger of two sizes, folded where that is known."""
    gap = y - x
    if isinstance(gap, int):
        return y if gap > 0 else x
    if never_negative(gap):
        return y
    if never_negative(-gap):
        return x
    first, second = sorted((x, y), key=_by_age)
    return _atom("max", (first, second))


def never_negative(size: Size) -> bool:
    """Whether that follows from the expression alone (symbols are not negative; a difference may be)."""
    if not isinstance(size, Dim):
        return size >= 0
    return size.const >= 0 and all(c >= 0 and _atom_never_negative(a) for a, c in size.terms)


def _atom_never_negative(atom: Atom) -> bool:
    return any(map(never_negative, atom.args)) if atom.kind == "max" else all(map(never_negative, atom.args))


def exact_div(x: Size, y: Size) -> Size | None:
    """``x / y`` where that is surely an integer expression, else None."""
    if isinstance(y, int):
        if y == 0:
            return None
        if isinstance(x, int):
            return x // y if x % y == 0 else None
        if all(c % y == 0 for _, c in x.terms) and x.const % y == 0:
            return x // y
        return None
    if x is y:
        return 1
    if x == 0:
        return 0
    if isinstance(x, Dim) and len(y.terms) == 1 and y.const == 0:
        (ya, yc), total = y.terms[0], 0
        if x.const:
            return None
        result: Size = total
        for xa, xc in x.terms:
            if xc % yc:
                return None
            if xa is ya:
                result = result + xc // yc
            elif xa.kind == "mul" and any(_is_atom(a, ya) for a in xa.args):
                rest = [a for a in xa.args if not _is_atom(a, ya)] or [xa.args[0]]
                result = result + rest[0] * (xc // yc)
            else:
                return None
        return result
    if isinstance(x, Dim) and x.terms and len(x.terms) == len(y.terms):
        factor, rest_ = divmod(x.terms[0][1], y.terms[0][1])
        if rest_ == 0 and y * factor is x:
            return factor
    return None


def _is_atom(size: Size, atom: Atom) -> bool:
    return isinstance(size, Dim) and size.const == 0 and size.terms == ((atom, 1),)


def evaluate(size: Size, values: Mapping[str, int]) -> int:
    """The number ``size`` stands for where ``values`` gives each symbol's value. KeyError names a missing symbol."""
    if not isinstance(size, Dim):
        return size
    total = size.const
    for atom, coef in size.terms:
        total += coef * _evaluate_atom(atom, values)
    return total


def _evaluate_atom(atom: Atom, values: Mapping[str, int]) -> int:
    if atom.kind == "sym":
        return values[atom.name]
    x, y = (evaluate(a, values) for a in atom.args)
    if atom.kind == "div":
        return x // y if y else 0
    return x * y if atom.kind == "mul" else max(x, y)


def substitute(size: Size, values: Mapping[str, Size]) -> Size:
    """``size`` with some symbols replaced by sizes."""
    if not isinstance(size, Dim):
        return size
    total: Size = size.const
    for atom, coef in size.terms:
        if atom.kind == "sym":
            part = values.get(atom.name)
            part = _make(((atom, 1),), 0) if part is None else part
        else:
            x, y = (substitute(a, values) for a in atom.args)
            if atom.kind == "div":
                part = (x // y) if y != 0 else 0
            else:
                part = x * y if atom.kind == "mul" else maximum(x, y)
        total = total + part * coef
    return total


def symbols_of(size: Size) -> set[str]:
    """Names of the symbols in ``size``."""
    if not isinstance(size, Dim):
        return set()
    out: set[str] = set()
    for atom, _ in size.terms:
        if atom.kind == "sym":
            out.add(atom.name)
        else:
            for a in atom.args:
                out |= symbols_of(a)
    return out


def parse_dim(text: str) -> Size:
    """The size that ``repr`` printed. ShapeError if it is not one."""
    import ast
    try:
        tree = ast.parse(text.strip(), mode="eval").body
        return _from_ast(tree)
    except (SyntaxError, TypeError, KeyError) as error:
        raise ShapeError(f"not a dimension: {text!r}") from error


def _from_ast(tree: object) -> Size:
    import ast
    if isinstance(tree, ast.Constant) and isinstance(tree.value, int):
        return tree.value
    if isinstance(tree, ast.Name):
        return symbol(tree.id)
    if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.USub):
        return -_from_ast(tree.operand)
    if isinstance(tree, ast.Call) and getattr(tree.func, "id", "") == "max":
        return maximum(*(_from_ast(a) for a in tree.args))
    if isinstance(tree, ast.BinOp):
        x, y = _from_ast(tree.left), _from_ast(tree.right)
        if isinstance(tree.op, ast.Add):
            return x + y
        if isinstance(tree.op, ast.Sub):
            return x - y
        if isinstance(tree.op, ast.Mult):
            return x * y
        if isinstance(tree.op, ast.FloorDiv):
            return x // y
    raise TypeError(ast.dump(tree) if isinstance(tree, ast.AST) else str(tree))


@dataclass(frozen=True)
class Aval:
    """Shape and element type of one value. Prints as ``f32[n,784]``."""

    shape: tuple[Size, ...]
    dtype: DType

    @property
    def ndim(self) -> int:
        """The rank."""
        return len(self.shape)

    @property
    def size(self) -> Size:
        """The number of elements."""
        return product(self.shape)

    @property
    def is_static(self) -> bool:
        """All dimensions are known ints."""
        return all(isinstance(d, int) for d in self.shape)

    def with_shape(self, shape: Iterable[Size]) -> Aval:
        """The same dtype, another shape."""
        return Aval(tuple(shape), self.dtype)

    def with_dtype(self, dtype: DType) -> Aval:
        """The same shape, another dtype."""
        return Aval(self.shape, dtype)

    def substitute(self, values: Mapping[str, Size]) -> Aval:
        """With symbols replaced."""
        if self.is_static:
            return self
        return Aval(tuple(substitute(d, values) for d in self.shape), self.dtype)

    def __str__(self) -> str:
        return f"{self.dtype.short}[{','.join(map(repr, self.shape))}]"

    def __repr__(self) -> str:
        return str(self)


@dataclass(frozen=True)
class TupleAval:
    """The value of an op with several outputs; only ``get`` takes it apart."""

    elements: tuple[Aval, ...]

    def substitute(self, values: Mapping[str, Size]) -> TupleAval:
        """With symbols replaced."""
        return TupleAval(tuple(e.substitute(values) for e in self.elements))

    def __str__(self) -> str:
        return "(" + ", ".join(map(str, self.elements)) + ")"


AnyAval = Union[Aval, TupleAval]


def product(sizes: Iterable[Size]) -> Size:
    """The product of sizes (1 for none)."""
    total: Size = 1
    for s in sizes:
        if s == 0:
            return 0
        total = total * s
    return total
