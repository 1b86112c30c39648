"""All ops: importing this package fills the table ``OPS``, one file per family."""

from . import (
    activations,
    control,
    conv,
    elementwise,
    host,
    index,
    index_nd,
    linalg,
    logic,
    losses,
    nn,
    norm,
    pool,
    random,
    reduce,
    scans,
    shape,
    state,
    windows,
)

__all__ = ["activations", "control", "conv", "elementwise", "host", "index", "index_nd", "linalg", "logic", "losses", "nn", "norm", "pool", "random", "reduce", "scans", "shape", "state", "windows"]
