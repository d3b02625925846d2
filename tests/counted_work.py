"""How much Python code runs, counted: a measure of work that no busy machine changes."""

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
    """Lines of flinknet that have run; each turn of a loop and of a comprehension counts."""

    def __init__(self) -> None:
        self.lines = 0


@contextmanager
def counted_work() -> Iterator[CountedWork]:
    """Count the lines that run in this thread; those of compiled modules are not seen."""
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
