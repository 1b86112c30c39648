"""The one record of an op, and the table of all ops.

Everything the compiler and the tests know of an op stands in its ``OpDef``: shapes, meaning, derivatives, batching, lowering, samples
and refused inputs. Rules get their tools as an argument (``b`` builds nodes, ``e`` emits code), so one rule serves the static mode,
the dynamic mode and the tests.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Union


@dataclass(frozen=True)
class NotDifferentiable:
    """In place of a vjp or jvp rule: why there is none. The cotangent is None (not connected)."""

    why: str


@dataclass(frozen=True)
class NoRule:
    """In place of a rule that cannot be: asking for it raises with the reason."""

    why: str


# ---- how an op becomes machine code: one of these stands in OpDef.lower ------------------------------------------------


@dataclass(frozen=True)
class Scalar:
    """Elementwise: ``emit(e, *values, **attrs)`` maps scalars (or vectors of them) to the result."""

    emit: Callable[..., Any]


@dataclass(frozen=True)
class View:
    """Moves no data: ``view(v, out_aval, **attrs)`` gives the strided view of the input's view ``v``, or None where that is
    impossible (then the input is made contiguous first and asked again; reshape needs that)."""

    view: Callable[..., Any]


@dataclass(frozen=True)
class Reduce:
    """Reduction over the attribute ``axis`` with ``combine`` (add, mul, min, max, and, or), starting from the dtype's ``init``."""

    combine: str


@dataclass(frozen=True)
class Matmul:
    """The generated GEMM; the op's attributes are transpose_a and transpose_b."""


@dataclass(frozen=True)
class Windows:
    """Sums of products over the strided windows of an image; attributes are strides and dilations. ``weights`` False: an image and weights
    give an image; True: an image and the result's cotangent give the weights' cotangent."""

    weights: bool = False


@dataclass(frozen=True)
class Decompose:
    """Composed of other ops: ``build(b, *ins, **attrs)`` gives the result node. Costs nothing in code generation."""

    build: Callable[..., Any]


@dataclass(frozen=True)
class Loops:
    """A kernel of its own: ``emit(k, out, *ins, **attrs)`` writes loops with the kernel builder (``codegen.custom``).
    ``tasks(out, *ins, **attrs)`` says how many independent tasks it has (1 = serial)."""

    emit: Callable[..., Any]
    tasks: Callable[..., Any] | None = None
    scratch: Callable[..., Any] | None = None      # (out, *ins, **attrs) -> avals of scratch buffers, private to one run
    alias: int | None = None                       # the input whose buffer the output overwrites (scatter_add, push)


@dataclass(frozen=True)
class Control:
    """Handled by the scheduler itself through jumps of the program (cond, while_loop) or as a leaf (input, const, ...)."""

    kind: str


@dataclass(frozen=True)
class Host:
    """Runs in Python between native segments: ``call(*arrays, **attrs)`` gives the result arrays."""

    call: Callable[..., Any]


Lowering = Union[Scalar, View, Reduce, Matmul, Windows, Decompose, Loops, Control, Host, NoRule]


@dataclass(frozen=True, eq=False)
class OpDef:
    """One op. ``tests/derived.py`` has what each field is held to.

    ``ref`` takes the inputs positionally and the attributes by keyword: its signature is the op's (inputs before ``*``,
    attributes and their defaults after it). The generated surface functions read it.
    """

    name: str
    infer: Callable[..., Any]
    ref: Callable[..., Any]
    vjp: Any
    jvp: Any
    vmap: Any
    lower: Lowering
    samples: Callable[..., Iterable[Any]]
    errors: tuple[tuple[tuple[Any, ...], dict[str, Any], str], ...] = ()
    traits: frozenset[str] = field(default_factory=frozenset)
    doc: str = ""
    step: Callable[..., Any] | None = None      # effects on a variable: (b, current, *ins, **attrs) -> next value; with the trait "result" (result, next value)
    advance: Callable[..., Any] | None = None   # draws: (out_aval, **attrs) -> how far the stream's offset moves

    @cached_property
    def signature(self) -> tuple[tuple[str, ...], dict[str, Any], bool]:
        """(input names, attribute defaults (``inspect.Parameter.empty`` = required), takes any number of inputs)."""
        names: list[str] = []
        attrs: dict[str, Any] = {}
        variadic = False
        for p in inspect.signature(self.ref).parameters.values():
            if p.kind is p.KEYWORD_ONLY:
                attrs[p.name] = p.default
            elif p.kind is p.VAR_POSITIONAL:
                names.append(p.name)
                variadic = True
            elif p.kind is not p.VAR_KEYWORD:
                names.append(p.name)
        return tuple(names), attrs, variadic

    @cached_property
    def defaults(self) -> dict[str, Any]:
        """Attributes that may be left out, with their values."""
        return {k: v for k, v in self.signature[1].items() if v is not inspect.Parameter.empty}

    @property
    def is_elementwise(self) -> bool:
        """Maps elements one by one, with NumPy's broadcasting."""
        return isinstance(self.lower, Scalar)

    @property
    def is_exact(self) -> bool:
        """``ref`` gives the very bits our kernels give, so constants may be folded with it."""
        return "exact" in self.traits

    @property
    def has_effect(self) -> bool:
        """Must not be dropped, merged or reordered against other effects."""
        return "effect" in self.traits

    def __repr__(self) -> str:
        return f"<op {self.name}>"


OPS: dict[str, OpDef] = {}


def define(op: OpDef) -> OpDef:
    """Add an op to the table. ValueError where the name is taken or a rule is silently absent."""
    if op.name in OPS:
        raise ValueError(f"op {op.name!r} is defined twice")
    for rule in ("infer", "ref", "vjp", "jvp", "vmap", "lower", "samples"):
        if getattr(op, rule) is None:
            raise ValueError(f"op {op.name!r} has no {rule}: give a rule, NotDifferentiable(why) or NoRule(why)")
    OPS[op.name] = op
    return op
