"""``import staticgraph.compat.v1 as tf``: the names of TF 1.15, and none that it does not have.

So far the core (graphs, sessions, variables, control flow, gradients, optimizers), ``app``, ``flags`` and ``logging``.
"""

from __future__ import annotations

import importlib
import sys
import types
from typing import Any

import staticgraph as _sg

__version__ = VERSION = "1.15.5"
_OURS = {"check"}                            # surface names that TF1 does not have
_SUBMODULES = {"nn": "staticgraph.nn", "train": "staticgraph.train", "errors": "staticgraph.errors", "linalg": "staticgraph.linalg",
               "app": "staticgraph.compat.v1.app", "flags": "staticgraph.compat.v1.flags", "logging": "staticgraph.compat.v1.logging"}


def disable_v2_behavior() -> None:
    """Nothing to do: this is version 1."""


disable_eager_execution = disable_v2_behavior


def __getattr__(name: str) -> Any:
    from ...surface.math_ops import BINARY, REDUCTIONS, UNARY
    if name in _SUBMODULES:
        value = importlib.import_module(_SUBMODULES[name])
    elif name not in _OURS and (name in _sg._RENAMED or name in {**UNARY, **BINARY, **REDUCTIONS} or _sg._HOME.get(name, "").startswith(("dtypes", "surface.", "train."))):
        value = getattr(_sg, name)
    else:
        raise AttributeError(f"module 'tensorflow' has no attribute {name!r}: TF 1.15 does not have it, or it is not available here yet")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    from ...surface.math_ops import BINARY, REDUCTIONS, UNARY
    core = {n for n, home in _sg._HOME.items() if home.startswith(("dtypes", "surface.", "train."))}
    return sorted(({*globals(), *_SUBMODULES, *_sg._RENAMED, *UNARY, *BINARY, *REDUCTIONS} | core) - _OURS)


def install_as_tensorflow() -> None:
    """From here on ``import tensorflow`` in this process means this module, also for the private paths that programs use.

    ImportError where another TensorFlow is loaded already.
    """
    this = sys.modules[__name__]
    loaded = sys.modules.get("tensorflow")
    if loaded not in (None, this):
        raise ImportError(f"tensorflow is loaded already, from {getattr(loaded, '__file__', 'elsewhere')}")
    sys.modules["tensorflow"] = this
    for name in _SUBMODULES:
        sys.modules[f"tensorflow.{name}"] = __getattr__(name)
    for path in ("compat", "compat.v1", "python", "python.framework", "python.framework.ops", "python.platform"):
        module = this if path.endswith(("v1", "ops")) else types.ModuleType(f"tensorflow.{path}")
        sys.modules[f"tensorflow.{path}"] = module
        parent, _, last = path.rpartition(".")
        setattr(sys.modules[f"tensorflow.{parent}" if parent else "tensorflow"], last, module)
