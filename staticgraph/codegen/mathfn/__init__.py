"""Mathematical functions over the emitter: our own polynomials, for any lane count, the same bits on all targets with fma.

``Functions`` gives them to the emitter as methods. The coefficients stand in ``coefficients.py``.
"""

from __future__ import annotations

from typing import Any

from ..memory import Memory
from . import errorfn, exponential, logarithm, power, trigonometric


def _method(f: Any) -> Any:
    def call(self: Any, *operands: Any) -> Any:
        return f(self, *operands)
    call.__name__ = f.__name__
    call.__doc__ = f.__doc__
    return call


class Functions(Memory):
    """The emitter with exp, log, sin ..."""

    exp, exp2, expm1, tanh, sinh, cosh, sigmoid = (_method(getattr(exponential, n)) for n in ("exp", "exp2", "expm1", "tanh", "sinh", "cosh", "sigmoid"))
    log, log1p, log2, log10, softplus, log_sigmoid, asinh, acosh, atanh = (
        _method(getattr(logarithm, n)) for n in ("log", "log1p", "log2", "log10", "softplus", "log_sigmoid", "asinh", "acosh", "atanh"))
    sin, cos, tan, asin, acos, atan, atan2 = (_method(getattr(trigonometric, n)) for n in ("sin", "cos", "tan", "asin", "acos", "atan", "atan2"))
    erf, erfc = (_method(getattr(errorfn, n)) for n in ("erf", "erfc"))
    pow, rsqrt, cbrt = (_method(getattr(power, n)) for n in ("pow", "rsqrt", "cbrt"))
