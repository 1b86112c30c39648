"""Operations that have a meaning but, as in TF1, no gradient: asking for it is an error and not None."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import NotDifferentiableError
from ..ir.aval import Aval
from ..ir.opdef import NoRule, OpDef, View, define
from .helpers import Sample


def _refuse(b: Any, ct: Any, y: Any, x: Any, *, operation: str, type: str) -> Any:
    raise NotDifferentiableError(f"No gradient defined for operation '{operation}' (op type: {type})")


def _vmap(b: Any, size: Any, ins: Any, dims: Any, **attrs: Any) -> Any:
    return b.no_gradient(ins[0], **attrs), dims[0]


def _infer(x: Aval, *, operation: str, type: str) -> Aval:
    return x


no_gradient = define(OpDef(
    "no_gradient", _infer, lambda x, *, operation, type: np.array(x), _refuse, NoRule("no gradient is defined for it in either direction"), _vmap,
    View(lambda v, out, **_: v), lambda rng: [Sample((rng.normal(size=(2, 3)),), {"operation": "Unique", "type": "Unique"}, grad=False)],
    traits=frozenset({"refuses"}), doc="x; a gradient through it is a LookupError that names ``operation``."))
