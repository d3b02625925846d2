"""Lines that jobs print, for the programs that have submitted them."""

from __future__ import annotations

from collections.abc import Sequence

from flinknet.cluster.control.printed_lines import PrintedLines

__all__ = ["PrintedStore"]


class PrintedStore:
    """The last printed lines of each job."""

    def __init__(self, characters_max: int) -> None:
        self._characters_max = characters_max
        self._jobs: dict[str, PrintedLines] = {}

    def take(self, job_id: str, lines: Sequence[str]) -> None:
        """Take lines that a worker forwards."""
        if job_id not in self._jobs:
            self._jobs[job_id] = PrintedLines(self._characters_max)
        self._jobs[job_id].append(lines)

    def after(self, job_id: str, number: int) -> tuple[int, list[str]]:
        """Return the lines from ``number`` on, and the number of the first of them."""
        printed = self._jobs.get(job_id)
        return (0, []) if printed is None else printed.after(number)

    def jobs(self) -> list[str]:
        """Return the ids of the jobs that have printed."""
        return list(self._jobs)

    def forget(self, job_id: str) -> None:
        """Drop the lines of a job that clients no longer ask for."""
        self._jobs.pop(job_id, None)
