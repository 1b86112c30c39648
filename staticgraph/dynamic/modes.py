"""Whether operations are recorded: ``no_grad``, ``enable_grad`` and ``set_grad_enabled``, as context managers and as decorators."""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable
from typing import Any


class _State(threading.local):
    enabled = True


STATE = _State()


def is_grad_enabled() -> bool:
    """Whether operations are recorded now (in this thread)."""
    return STATE.enabled


class GradMode:
    """Within (or in the decorated function): record operations, or do not."""

    def __init__(self, enabled: bool) -> None:
        self.enabled = enabled
        self._saved: list[bool] = []

    def __enter__(self) -> None:
        self._saved.append(STATE.enabled)
        STATE.enabled = self.enabled

    def __exit__(self, *exc: Any) -> None:
        STATE.enabled = self._saved.pop()

    def __call__(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        if inspect.isgeneratorfunction(fn):
            return _generator(fn, self.enabled)

        @functools.wraps(fn)
        def wrapped(*args: Any, **kw: Any) -> Any:
            with GradMode(self.enabled):
                return fn(*args, **kw)
        return wrapped


def _generator(fn: Callable[..., Any], enabled: bool) -> Callable[..., Any]:
    # the mode holds while the generator's own body runs, not while its user's does
    @functools.wraps(fn)
    def wrapped(*args: Any, **kw: Any) -> Any:
        made = fn(*args, **kw)
        send: Any = None
        while True:
            try:
                with GradMode(enabled):
                    value = made.send(send)
            except StopIteration as end:
                return end.value
            try:
                send = yield value
            except BaseException as error:
                with GradMode(enabled):
                    made.throw(error)
    return wrapped


class _Fixed(GradMode):
    """A mode that also decorates without parentheses: ``@no_grad`` is ``@no_grad()``."""

    value = True

    def __new__(cls, fn: Callable[..., Any] | None = None) -> Any:
        made = super().__new__(cls)
        GradMode.__init__(made, cls.value)
        return made if fn is None else made(fn)

    def __init__(self, fn: Callable[..., Any] | None = None) -> None:
        pass


class no_grad(_Fixed):
    """Within: operations are not recorded (inference, updates by hand)."""

    value = False


class enable_grad(_Fixed):
    """Within: operations are recorded, also inside ``no_grad``."""


class set_grad_enabled(GradMode):
    """Record from now on, or do not; as a context manager, until its end; as a decorator, in that function only."""

    def __init__(self, mode: bool) -> None:
        super().__init__(bool(mode))
        self._before = STATE.enabled
        STATE.enabled = bool(mode)

    def __enter__(self) -> None:
        self._saved.append(self._before)
        STATE.enabled = self.enabled

    def __call__(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        STATE.enabled = self._before
        return super().__call__(fn)
