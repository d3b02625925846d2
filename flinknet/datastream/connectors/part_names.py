"""Names of a sink's files, which tell the job and the subtask that wrote them.

::

    part-00001-of-00004-JOB-ATTEMPT.csv              of a job that commits at its end
    part-00001-of-00004-JOB-ATTEMPT-NUMBER.csv       the same, for a subtask with several files
    .part-00001-of-00004-JOB-ATTEMPT-NUMBER.csv      of a job with checkpoints, before the commit
    part-00001-of-00004-JOB-ATTEMPT-NUMBER-CHECKPOINT.csv    the same, after the commit
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

from flinknet.errors import ConfigurationError

__all__ = ["PARQUET_PARTS", "CommittedPart", "PartNames", "PreparedPart"]

HIDDEN = "."
"""First character of names that readers ignore."""


class PreparedPart(NamedTuple):
    """The content of the name of an uncommitted file."""

    subtask: int
    job_id: str
    attempt: int


class CommittedPart(NamedTuple):
    """The content of the name of a file that was committed with a checkpoint."""

    subtask: int
    job_id: str
    checkpoint_id: int
    prepared_name: str
    """The name before the commit, without the dot."""


@dataclass(frozen=True, slots=True)
class PartNames:
    """The names of one sink's files."""

    prefix: str = "part"
    suffix: str = ""

    def __post_init__(self) -> None:
        """Raise ConfigurationError if readers would ignore the files or find them elsewhere."""
        if not self.prefix or self.prefix[0] in "._" or "/" in self.prefix + self.suffix:
            raise ConfigurationError(
                f"files called {self.prefix!r}...{self.suffix!r} would not be found: choose a "
                'prefix that does not begin with "." or "_", and no "/"'
            )

    def of_job(self, index: int, parallelism: int, transaction: str, number: int = 0) -> str:
        """Return the name of a subtask's file that is committed when the job ends."""
        several = f"-{number}" if number else ""
        return f"{self._place(index, parallelism)}-{transaction}{several}{self.suffix}"

    def of_checkpoint(
        self, index: int, parallelism: int, job_id: str, attempt: int, number: int
    ) -> str:
        """Return the name of a subtask's file in a job with checkpoints.

        Until the commit, the file has this name after a dot.
        """
        return f"{self._place(index, parallelism)}-{job_id}-{attempt}-{number}{self.suffix}"

    def with_checkpoint(self, name: str, checkpoint_id: int) -> str:
        """Return the name of that file once it is committed with a checkpoint."""
        return f"{name.removesuffix(self.suffix)}-{checkpoint_id}{self.suffix}"

    def is_own(self, name: str) -> bool:
        """Return whether a sink with these names wrote the file, in any job."""
        pattern = rf"\.?{self._places()}(-[0-9A-Za-z-]+)?{re.escape(self.suffix)}(\.unfinished)?"
        return re.fullmatch(pattern, name) is not None

    def prepared(self, name: str) -> PreparedPart | None:
        """Return the content of the name of a hidden file of a job with checkpoints, or None."""
        pattern = rf"\.{self._places()}-([0-9A-Za-z]+)-(\d+)-\d+{re.escape(self.suffix)}"
        found = re.fullmatch(pattern, name)
        return found and PreparedPart(int(found[1]), found[2], int(found[3]))

    def committed(self, name: str) -> CommittedPart | None:
        """Return the content of the name of a committed file, or None."""
        pattern = rf"({self._places()}-([0-9A-Za-z]+)-\d+-\d+)-(\d+){re.escape(self.suffix)}"
        found = re.fullmatch(pattern, name)
        return found and CommittedPart(
            int(found[2]), found[3], int(found[4]), f"{found[1]}{self.suffix}"
        )

    def _place(self, index: int, parallelism: int) -> str:
        return f"{self.prefix}-{index:05d}-of-{parallelism:05d}"

    def _places(self) -> str:
        return rf"{re.escape(self.prefix)}-(\d{{5,}})-of-\d{{5,}}"


PARQUET_PARTS = PartNames(suffix=".parquet")
