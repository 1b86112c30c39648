"""``pad`` under TF1's name: with a constant, or with what lies on the other side of the border."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import ShapeError
from .constructs import is_tensor
from .deferred import recorded
from .funnel import convert, emit, op_scope
from .sizes import known, sizes_from
from .tensor import Tensor


@recorded
def pad(tensor: Any, paddings: Any, mode: str = "CONSTANT", name: str | None = None, constant_values: Any = 0) -> Any:
    """Room (before, after) along each axis, filled with a constant ("CONSTANT"), with the mirror image ("SYMMETRIC"), or with the mirror image
    without the border itself ("REFLECT").

    An image is of one whole axis at most: more is refused while building where the size is known, and by the run where it is not.
    """
    how = mode.upper()
    if how not in ("CONSTANT", "REFLECT", "SYMMETRIC"):
        raise ValueError(f"Unknown padding mode: {how}")
    kind = "MirrorPad" if how != "CONSTANT" else "Pad" if not is_tensor(constant_values) and constant_values == 0 else "PadV2"
    with op_scope(name, kind, tensor) as label:
        x = convert(tensor, name="tensor")
        rows = paddings if not isinstance(paddings, Tensor) else np.asarray(known(paddings.node)).tolist()
        amounts = [tuple(sizes_from(p, "paddings")) for p in rows]
        if len(amounts) != len(x.node.shape) or any(len(p) != 2 for p in amounts):
            raise ShapeError(f"paddings must have shape [{len(x.node.shape)},2] for a tensor of shape {x.shape}, got {paddings}")
        if how == "CONSTANT":
            return emit(kind, label, (x,), lambda b, n: b.pad(n, before=tuple(p[0] for p in amounts), after=tuple(p[1] for p in amounts), between=(0,) * len(amounts),
                                                              value=x.dtype.np.type(constant_values).item()))

        before, after = zip(*amounts) if amounts else ((), ())
        return emit(kind, label, (x,), lambda b, n: b.mirror_pad(n, before=before, after=after, reflect=how == "REFLECT"))
