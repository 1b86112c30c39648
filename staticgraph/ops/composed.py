"""Ops made of other ops: one ``build(b, *ins, **attrs)`` gives lowering and, where no better rule is given, all derivatives.

The derived rules run the transform over the op's own body: ``b.vjp_of(build, ...)``, ``b.jvp_of(...)`` and ``b.vmap_of(...)`` are tools that the
transforms register.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..ir.opdef import Decompose, OpDef, define


def composed(name: str, infer: Callable[..., Any], ref: Callable[..., Any], build: Callable[..., Any],
             samples: Callable[..., Any], errors: Any = (), doc: str = "", *, traits: Any = (), vjp: Any = None, jvp: Any = None,
             vmap: Any = None) -> OpDef:
    """Define an op by its composition. ``vjp``, ``jvp`` and ``vmap`` override the derived rules where a shorter or more
    accurate formula is known (softmax, for one)."""
    def derived_vjp(b: Any, ct: Any, y: Any, *xs: Any, **attrs: Any) -> Any:
        return b.vjp_of(lambda c, *vs: build(c, *vs, **attrs), xs, ct)

    def derived_jvp(b: Any, ts: Any, y: Any, *xs: Any, **attrs: Any) -> Any:
        return b.jvp_of(lambda c, *vs: build(c, *vs, **attrs), xs, ts)

    def derived_vmap(b: Any, size: Any, ins: Any, dims: Any, **attrs: Any) -> Any:
        return b.vmap_of(lambda c, *vs: build(c, *vs, **attrs), size, ins, dims)

    return define(OpDef(name, infer, ref, vjp or derived_vjp, jvp or derived_jvp, vmap or derived_vmap,
                        Decompose(build), samples, tuple(errors), frozenset(traits), doc))
