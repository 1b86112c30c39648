"""``tf.logging``: lines on standard error, as TF1's."""

from __future__ import annotations

import logging as _python
from typing import Any

DEBUG, INFO, WARN, ERROR, FATAL = _python.DEBUG, _python.INFO, _python.WARNING, _python.ERROR, _python.CRITICAL
_logger = _python.getLogger("tensorflow")
if not _logger.handlers:
    _handler = _python.StreamHandler()
    _handler.setFormatter(_python.Formatter("%(levelname)s:tensorflow:%(message)s"))
    _logger.addHandler(_handler)
    _logger.propagate = False
    _logger.setLevel(WARN)

debug, info, warning, error, fatal, log = _logger.debug, _logger.info, _logger.warning, _logger.error, _logger.critical, _logger.log
warn = warning
vlog = log


def set_verbosity(v: Any) -> None:
    """Show messages of this level (``tf.logging.INFO``) and above."""
    _logger.setLevel(v)


def get_verbosity() -> int:
    """The level shown."""
    return _logger.level


def log_every_n(level: int, msg: str, n: int, *args: Any) -> None:
    """Show every ``n``-th of the messages of one format."""
    count = _counts[msg] = _counts.get(msg, -1) + 1
    if count % n == 0:
        _logger.log(level, msg, *args)


_counts: dict[str, int] = {}
