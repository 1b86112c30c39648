"""All ops: importing this package fills the table ``OPS``, one file per family."""

from . import elementwise, linalg, logic, reduce, shape, state

__all__ = ["elementwise", "linalg", "logic", "reduce", "shape", "state"]
