"""``tf.app``: run a program's ``main`` after its flags are read."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from . import flags as flags


def run(main: Callable[..., Any] | None = None, argv: Sequence[str] | None = None) -> NoReturn:
    """Read the flags, call ``main(remaining arguments)`` (default: ``__main__.main``), and leave the process with its result."""
    given = list(sys.argv if argv is None else argv)
    try:
        rest = flags.FLAGS(given)
    except (flags.UnrecognizedFlagError, ValueError) as error:
        sys.stderr.write(f"FATAL Flags parsing error: {error}\n")
        sys.exit(1)
    sys.exit((main or sys.modules["__main__"].main)(rest))               # type: ignore[attr-defined]
