"""Counts of executed lines of Python: a measure of work that does not depend on the load."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import flinknet

__all__ = ["CountedWork", "counted_work"]

_PACKAGE = str(Path(flinknet.__file__).parent)


class CountedWork:
    """Number of executed lines of flinknet; each iteration of a loop or comprehension counts."""

    def __init__(self) -> None:
        self.lines = 0


@contextmanager
def counted_work() -> Iterator[CountedWork]:
    """Count the lines that run in this thread. Compiled modules are not traced."""
    work = CountedWork()

    def count(frame: FrameType, event: str, argument: Any) -> Any:
        if event == "line":
            work.lines += 1
        return count

    def enter(frame: FrameType, event: str, argument: Any) -> Any:
        return count if frame.f_code.co_filename.startswith(_PACKAGE) else None

    before = sys.gettrace()
    sys.settrace(enter)
    try:
        yield work
    finally:
        sys.settrace(before)
