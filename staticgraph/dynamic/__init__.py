"""Define-by-run: PyTorch's manners on the same op records as the static graphs.

::

    import staticgraph.dynamic as dy
    a = dy.tensor([2.0, 3.0], requires_grad=True)
    (a * a).sum().backward()
    a.grad                                   # tensor([4., 6.])

Functions of the static mode (``sg.sin``) work on these tensors as well and compute at once. ``docs/dynamic.md`` is the table of PyTorch's names and
what differs.
"""

from __future__ import annotations

from typing import Any

from . import autograd, interop, methods, optim
from .checkpointing import checkpoint
from .creation import (
    arange,
    as_tensor,
    empty,
    empty_like,
    eye,
    from_numpy,
    full,
    full_like,
    linspace,
    ones,
    ones_like,
    zeros,
    zeros_like,
)
from .methods import call, matmul, where
from .modes import enable_grad, is_grad_enabled, no_grad, set_grad_enabled
from .random import Generator, bernoulli, dropout, initial_seed, manual_seed, rand, rand_like, randint, randn, randn_like, randperm
from .shaping import cat, stack
from .tape import AutogradError
from .tensor import Tensor, backward, grad, tensor

concat = cat

__all__ = ["AutogradError", "Generator", "Tensor", "arange", "as_tensor", "autograd", "backward", "bernoulli", "call", "cat", "checkpoint", "concat", "dropout", "empty",
           "empty_like", "enable_grad", "eye", "from_numpy", "full", "full_like", "grad", "initial_seed", "interop", "is_grad_enabled", "is_tensor", "linspace",
           "manual_seed", "matmul", "methods", "no_grad", "ones", "ones_like", "optim", "rand", "rand_like", "randint", "randn", "randn_like", "randperm",
           "set_grad_enabled", "stack", "tensor", "where", "zeros", "zeros_like"]


_DTYPES = {"float": "float32", "double": "float64", "half": "float16", "long": "int64", "int": "int32", "short": "int16", "bool": "bool_"}


def is_tensor(value: Any) -> bool:
    """Whether it is a tensor of this mode."""
    return isinstance(value, Tensor)


def __getattr__(name: str) -> Any:
    """Every op and every method is a function of this module too: ``dy.sin(a)``, ``dy.sum(a, dim=1)``.

    Where an op and a method share a name, a call that has the op's operands and attributes is the op.
    """
    from .. import dtypes
    from ..ir.opdef import OPS
    kind = getattr(dtypes, _DTYPES.get(name, name), None)
    if isinstance(kind, dtypes.DType):
        return kind
    method = getattr(Tensor, name, None) if not name.startswith("_") else None
    op = OPS.get(name)
    if op is None and not callable(method):
        raise AttributeError(f"module 'staticgraph.dynamic' has no attribute {name!r}")

    def function(*inputs: Any, **attrs: Any) -> Any:
        if method is not None and not (op is not None and _fits(op, inputs, attrs)):
            return method(inputs[0] if isinstance(inputs[0], Tensor) else as_tensor(inputs[0]), *inputs[1:], **attrs)
        return call(name, *inputs, **attrs)
    function.__name__ = name
    function.__doc__ = op.doc if op is not None else getattr(method, "__doc__", "")
    return function


def _fits(op: Any, inputs: Any, attrs: Any) -> bool:
    names, known, many = op.signature
    return (many or len(inputs) == len(names)) and not set(attrs) - set(known) and not set(known) - set(op.defaults) - set(attrs)
