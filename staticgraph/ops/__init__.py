"""All ops: importing this package fills the table ``OPS``, one file per family."""

from . import (
    activations,
    control,
    conv,
    elementwise,
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
    sort,
    state,
    windows,
)

__all__ = ["activations", "control", "conv", "elementwise", "index", "index_nd", "linalg", "logic", "losses", "nn", "norm", "pool", "random", "reduce", "scans", "shape", "sort", "state", "windows"]
