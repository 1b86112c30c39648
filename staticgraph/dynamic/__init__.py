"""Define-by-run: PyTorch's manners on the same op records as the static graphs.

::

    import staticgraph.dynamic as dy
    a = dy.tensor([2.0, 3.0], requires_grad=True)
    (a * a).sum().backward()
    a.grad                                   # tensor([4., 6.])

Functions of the static mode (``sg.sin``) work on these tensors as well and compute at once.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from . import methods, optim
from .checkpointing import checkpoint
from .methods import call
from .tape import AutogradError, grad_mode, is_grad_enabled
from .tensor import Tensor, grad, tensor


def no_grad() -> AbstractContextManager[None]:
    """Within: operations are not recorded (inference, updates by hand)."""
    return grad_mode(False)


def enable_grad() -> AbstractContextManager[None]:
    """Within: operations are recorded, also inside ``no_grad``."""
    return grad_mode(True)


def __getattr__(name: str) -> Any:
    """Every op is a function of this module too: ``dy.sin(a)``."""
    from ..ir.opdef import OPS
    if name in OPS:
        return lambda *inputs, **attrs: call(name, *inputs, **attrs)
    raise AttributeError(f"module 'staticgraph.dynamic' has no attribute {name!r}")


__all__ = ["AutogradError", "Tensor", "call", "checkpoint", "enable_grad", "grad", "is_grad_enabled", "methods", "no_grad", "optim", "tensor"]
