"""Where the user wrote it: capture a site cheaply, show it, raise an error at it.

Capturing keeps code objects and instruction offsets of the innermost user frames, under a microsecond; text is made only when a site is shown.
User code is every file outside this project's two packages (tests and samples count as user code).
"""

from __future__ import annotations

import linecache
import os
import sys
from types import CodeType
from typing import Any, NoReturn

_PACKAGES = tuple(os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), name) + os.sep
                  for name in ("staticgraph", "passes"))
_DEPTH = 3                                   # frames kept per site
_own: dict[str, bool] = {}                   # file name -> is it ours


def is_own_file(name: str) -> bool:
    """True for files of this project (and for code without a file, such as generated functions)."""
    known = _own.get(name)
    if known is None:
        known = _own[name] = name.startswith(_PACKAGES) or name.startswith(("<staticgraph", "<frozen"))
    return known


class Site:
    """Up to three user frames (innermost first) and the name scope. Never part of a node's identity."""

    __slots__ = ("frames", "scope")

    def __init__(self, frames: tuple[tuple[CodeType, int], ...], scope: str = "") -> None:
        self.frames = frames
        self.scope = scope

    @property
    def filename(self) -> str:
        """File of the innermost user frame, or ``""``."""
        return self.frames[0][0].co_filename if self.frames else ""

    @property
    def line(self) -> int:
        """Line of the innermost user frame, or 0."""
        return self.span()[0]

    def span(self, frame: int = 0) -> tuple[int, int, int, int]:
        """(line, end line, column, end column) of a frame; columns are 0 where Python does not keep them."""
        if frame >= len(self.frames):
            return 0, 0, 0, 0
        code, offset = self.frames[frame]
        if hasattr(code, "co_positions"):
            from itertools import islice
            line, end, col, endcol = next(islice(code.co_positions(), offset // 2, None), (None,) * 4)
            if line is not None:
                return line, end or line, col or 0, endcol or 0
        found = code.co_firstlineno
        for start, stop, number in code.co_lines():
            if start <= offset < stop and number is not None:
                found = number
        return found, found, 0, 0

    def short(self) -> str:
        """``model.py:14``"""
        return f"{os.path.basename(self.filename)}:{self.line}" if self.frames else "?"

    def describe(self) -> str:
        """``model.py:14, in network`` and the source line, for notes of an error."""
        if not self.frames:
            return "an unknown place"
        code = self.frames[0][0]
        text = linecache.getline(code.co_filename, self.line).strip()
        return f"{self.short()}" + (f": {text}" if text else "")

    def __repr__(self) -> str:
        return f"Site({self.short()})"


UNKNOWN = Site(())


def capture(scope: str = "", depth: int = _DEPTH) -> Site:
    """The site of the nearest user frames of the running call, at most ``depth``."""
    frame = sys._getframe(1)
    frames: list[tuple[CodeType, int]] = []
    own = _own
    while frame is not None:
        code = frame.f_code
        name = code.co_filename
        known = own.get(name)
        if known is None:
            known = is_own_file(name)
        if not known:
            frames.append((code, frame.f_lasti))
            if len(frames) == depth:
                break
        frame = frame.f_back                 # type: ignore[assignment]
    return Site(tuple(frames), scope)


def add_note(error: BaseException, note: str) -> None:
    """``error.add_note`` for Python 3.10 too."""
    if hasattr(error, "add_note"):
        error.add_note(note)
    else:
        error.__notes__ = [*getattr(error, "__notes__", ()), note]           # type: ignore[attr-defined]


def raise_at(site: Site | None, error: BaseException) -> NoReturn:
    """Raise ``error`` as if the user's line had raised it: Python prints that source line and the carets.

    The frames of the site are rebuilt from one-statement modules whose positions are the site's. With
    ``SG_TRACEBACK=full`` the error is raised where it is, with the project's own frames.
    """
    if isinstance(error, Exception):
        try:
            error.site = site                # type: ignore[attr-defined]
        except AttributeError:
            pass
    if site is None or not site.frames or os.environ.get("SG_TRACEBACK") == "full":
        raise error
    frames = [(site.frames[i][0].co_filename, site.frames[i][0].co_name, site.span(i)) for i in range(len(site.frames))]
    step: Any = lambda: _throw(error)
    for filename, name, span in frames:
        step = _frame(filename, name, span, step)
    step()
    raise AssertionError("unreachable")


def _throw(error: BaseException) -> NoReturn:
    raise error


def _frame(filename: str, name: str, span: tuple[int, int, int, int], inner: Any) -> Any:
    """A function that calls ``inner`` from a frame that shows ``filename``, ``span`` and ``name``."""
    import ast
    line, end, col, endcol = span
    call = ast.Call(func=ast.Name(id="_inner", ctx=ast.Load()), args=[], keywords=[])
    tree = ast.Module(body=[ast.Expr(value=call)], type_ignores=[])
    for node in ast.walk(tree):
        if isinstance(node, (ast.expr, ast.stmt)):
            node.lineno, node.end_lineno = max(line, 1), max(end, line, 1)
            node.col_offset, node.end_col_offset = col, endcol
    code = compile(tree, filename, "exec").replace(co_name=name)
    if sys.version_info >= (3, 11):
        code = code.replace(co_qualname=name)
    return lambda: exec(code, {"_inner": inner})


class hide_own_frames:
    """Context manager at the public calls: an ``Error`` that leaves it shows the user's line last.

    Our own frames are dropped from the traceback (``SG_TRACEBACK=full`` keeps them).
    """

    __slots__ = ()

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, tb: Any) -> None:
        if error is None or os.environ.get("SG_TRACEBACK") == "full":
            return
        kept = [t for t in _chain(tb) if not is_own_file(t.tb_frame.f_code.co_filename)]
        _relink(error, kept)


def _chain(tb: Any) -> list[Any]:
    out = []
    while tb is not None:
        out.append(tb)
        tb = tb.tb_next
    return out


def _relink(error: BaseException, kept: list[Any]) -> None:
    for here, after in zip(kept, [*kept[1:], None]):
        here.tb_next = after
    # without a user frame below this call, only the frames above it will show
    error.__traceback__ = kept[0] if kept else None
