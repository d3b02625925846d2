"""Lines that the functions of one job print, for the program that has submitted the job.

Theory of operation. A worker of a long-lived cluster runs several jobs, and all of them print to
one standard output. A context variable identifies the job of a line. It is set where an attempt of
a job runs, and the tasks and threads of its subtasks inherit it. A thread that user code starts
does not, so its lines appear only in the cluster's output. Worker and coordinator keep the last
lines of a job, up to ``cluster.output_kept_bytes``. Lines are numbered, so that a slow reader
learns how many it has missed. Any thread may write and read.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from contextvars import ContextVar

from flinknet import machine

__all__ = ["PRINTING", "PrintedLines", "missed"]


class PrintedLines:
    """The last lines of one job, limited in characters."""

    def __init__(self, characters_max: int) -> None:
        self._characters_max = characters_max
        self._lock = machine.RLock()
        self._lines: deque[str] = deque()
        self._characters = 0
        self._end = 0
        """The number of the next line."""

    def append(self, lines: Sequence[str]) -> None:
        """Add lines, and drop the oldest."""
        with self._lock:
            for line in lines:
                self._lines.append(line)
                self._characters += len(line) + 1
            self._end += len(lines)
            while self._characters > self._characters_max:
                self._characters -= len(self._lines.popleft()) + 1

    def after(self, number: int) -> tuple[int, list[str]]:
        """Return the lines from ``number`` on, and the number of the first line returned.

        The first line has a higher number if some lines have been dropped. A ``number`` beyond the
        next line refers to lines of a previous coordinator, so all lines are returned.
        """
        with self._lock:
            number = number if number <= self._end else 0
            start = min(max(number, self._end - len(self._lines)), self._end)
            skipped = start - (self._end - len(self._lines))
            return start, list(self._lines)[skipped:]


def missed(count: int) -> str:
    """Return the line that stands in for dropped lines."""
    return f"... {count} lines were printed too fast to be shown here"


PRINTING: ContextVar[PrintedLines | None] = ContextVar("printing", default=None)
"""Receives the lines of the running job, in addition to standard output."""
