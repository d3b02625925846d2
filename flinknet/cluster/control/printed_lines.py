"""What the functions of one job print, on its way to the program that has submitted the job.

Theory of operation. A worker of a cluster that stays runs several jobs, and all print to one
standard output. A context variable says whose lines they are: it is set where an attempt of a job
lives, and tasks and threads of its subtasks inherit it. A thread that user code starts itself does
not, so its lines are in the cluster's output alone. Worker and coordinator keep the last lines of a
job, as many as ``cluster.output_kept_bytes`` have room for; lines have numbers, so that a reader
who was too slow is told how many it has missed. Any thread may write and read.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from contextvars import ContextVar

from flinknet import machine

__all__ = ["PRINTING", "PrintedLines", "missed"]


class PrintedLines:
    """The last lines of one job, at most so many characters."""

    def __init__(self, characters_max: int) -> None:
        self._characters_max = characters_max
        self._lock = machine.RLock()
        self._lines: deque[str] = deque()
        self._characters = 0
        self._end = 0
        """The number of the next line."""

    def append(self, lines: Sequence[str]) -> None:
        """Add lines, and forget the oldest."""
        with self._lock:
            for line in lines:
                self._lines.append(line)
                self._characters += len(line) + 1
            self._end += len(lines)
            while self._characters > self._characters_max:
                self._characters -= len(self._lines.popleft()) + 1

    def after(self, number: int) -> tuple[int, list[str]]:
        """Return the lines from that number on, and the number of the first of them, which is a
        later one if some are forgotten. A number beyond the next line's is one of a coordinator
        before this one: then all lines are new."""
        with self._lock:
            number = number if number <= self._end else 0
            start = min(max(number, self._end - len(self._lines)), self._end)
            skipped = start - (self._end - len(self._lines))
            return start, list(self._lines)[skipped:]


def missed(count: int) -> str:
    """Return the line in the place of lines that are forgotten."""
    return f"... {count} lines were printed too fast to be shown here"


PRINTING: ContextVar[PrintedLines | None] = ContextVar("printing", default=None)
"""Where the lines of the job that runs now go to, beside standard output."""
