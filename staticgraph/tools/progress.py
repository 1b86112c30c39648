"""A progress bar: rich's where it is installed, else one line that rewrites itself (or a line at the end where nobody watches)."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class _Plain:
    """One line on standard error."""

    def __init__(self, total: int, label: str) -> None:
        self.total, self.label, self.done, self.note = total, label, 0, ""
        self.live = sys.stderr.isatty()

    def step(self, note: str = "") -> None:
        """One unit done."""
        self.done += 1
        self.note = note or self.note
        if self.live:
            filled = 30 * self.done // self.total
            sys.stderr.write(f"\r{self.label} [{'#' * filled}{'.' * (30 - filled)}] {self.done}/{self.total} {self.note}   ")
            sys.stderr.flush()

    def finish(self) -> None:
        """The end."""
        if self.live:
            sys.stderr.write("\n")
        else:
            print(f"{self.label}: {self.done}/{self.total} {self.note}", file=sys.stderr)


class _Rich:
    """rich's bar."""

    def __init__(self, bar: Any, task: Any) -> None:
        self.bar, self.task = bar, task

    def step(self, note: str = "") -> None:
        """One unit done."""
        self.bar.update(self.task, advance=1, note=note)


@contextmanager
def progress(total: int, label: str) -> Iterator[Any]:
    """``with progress(100, "training") as bar: bar.step("loss 0.1")``"""
    try:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
    except ImportError:
        bar = _Plain(total, label)
        yield bar
        bar.finish()
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.fields[note]}"))
    with Progress(*columns, console=Console(stderr=True)) as rich:
        yield _Rich(rich, rich.add_task(label, total=total, note=""))
