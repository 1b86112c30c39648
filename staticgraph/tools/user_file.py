"""``FILE:FUNCTION`` on a command line: the function, and the arguments that its file gives."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np


class CommandError(Exception):
    """The command line or the file does not say enough."""


def load(what: str) -> tuple[Any, Callable[..., Any], str]:
    """(module, function, its name) of ``FILE:FUNCTION``. The file's folder can be imported from, as for a script."""
    path, colon, name = what.rpartition(":")
    if not colon or not name:
        raise CommandError(f"give FILE:FUNCTION, such as model.py:loss, got {what!r}")
    file = Path(path)
    if not file.is_file():
        raise CommandError(f"there is no file {path!r}")
    spec = importlib.util.spec_from_file_location(f"compared_{file.stem}", file)         # a name that shadows no other module
    if spec is None or spec.loader is None:
        raise CommandError(f"{path!r} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(file.resolve().parent))
    sys.modules[module.__name__] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise CommandError(f"{path} does not run: {type(error).__name__}: {error}") from error
    fn = getattr(module, name, None)
    if not callable(fn):
        known = sorted(k for k, v in vars(module).items() if callable(v) and getattr(v, "__module__", None) == module.__name__)
        raise CommandError(f"{path} has no function {name!r}; it has {', '.join(known) or 'none'}")
    return module, fn, name


def example(module: Any, rng: np.random.Generator, weights: Any = None) -> tuple[Any, ...]:
    """The arguments: those of ``example(rng)``, else ``(init(rng), *batch(rng))``; ``weights`` take the place of ``init``."""
    if weights is None and hasattr(module, "example"):
        made = module.example(rng)
        return tuple(made) if isinstance(made, (tuple, list)) else (made,)
    if hasattr(module, "batch") and (weights is not None or hasattr(module, "init")):
        return (module.init(rng) if weights is None else weights, *module.batch(rng))
    raise CommandError("the file gives no arguments: write a function example(rng) in it that returns them, or init(rng) and batch(rng)")
