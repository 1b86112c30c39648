"""From the status and error record of a run to an exception at the user's own line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

import numpy as np

from .. import source
from ..errors import CancelledError, InternalError, InvalidArgumentError
from ..ir.aval import evaluate, measured_in
from ..ir.graph import Node

OK, ERROR, NEED_WORKSPACE, CANCELLED, HOST, BAD_ARGUMENT, UNSUPPORTED_CPU = range(7)


def guard_text(node: Node, element: int, a: int, b: int, values: Mapping[str, int]) -> str:
    """The message of a failed guard from the raw words of the record."""
    if "sizes" in node.op.traits:            # the words are the two sizes
        return str(node.attr("message")).format(a=a, limit=b)
    known = not measured_in(node.aval)
    shape = tuple(evaluate(d, values) for d in node.aval.shape) if known else ()
    dtype = node.aval.dtype
    shown: Any = np.int64(a).view(np.float64) if dtype.kind == "f" else bool(a) if dtype.kind == "b" else a
    inside = shape and 0 <= element < int(np.prod(shape))
    index = ",".join(map(str, np.unravel_index(element, shape))) if inside else str(element) if shape or not known else ""
    message: str = node.attr("message", "{a}")
    return message.format(i=index, a=shown, limit=b)


def raise_status(variant: Any, status: int, error: Any, values: Mapping[str, int]) -> NoReturn:
    """Raise what the run's status means; ``error`` has check, element, a, b and iteration."""
    if status == CANCELLED:
        raise CancelledError(None, None, "The run was cancelled")
    if status == ERROR:
        node = variant.program.checks[error.check]
        text = guard_text(node, error.element, error.a, error.b, values)
        failed = InvalidArgumentError(None, node, text)
        if node.role:
            source.add_note(failed, f"in the backward pass: {node.role}")
        if node.site.scope:
            source.add_note(failed, f"in name scope {node.site.scope}")
        source.raise_at(node.site, failed)
    raise InternalError(None, None, f"the compiled program stopped with status {status}")
