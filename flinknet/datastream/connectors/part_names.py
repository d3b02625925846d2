"""How the files of a sink are called: whose they are can be read from their names.

::

    part-00001-of-00004-JOB-ATTEMPT.csv              of a job that commits at its end
    part-00001-of-00004-JOB-ATTEMPT-NUMBER.csv       the same, of a subtask with several files
    .part-00001-of-00004-JOB-ATTEMPT-NUMBER.csv      of a job with checkpoints, before the commit
    part-00001-of-00004-JOB-ATTEMPT-NUMBER-CHECKPOINT.csv    and after it: with which checkpoint
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

from flinknet.errors import ConfigurationError

__all__ = ["PARQUET_PARTS", "CommittedPart", "PartNames", "PreparedPart"]

HIDDEN = "."
"""Readers pass over names that begin with it."""


class PreparedPart(NamedTuple):
    """What the name of a file that is not committed says."""

    subtask: int
    job_id: str
    attempt: int


class CommittedPart(NamedTuple):
    """What the name of a file says that was committed with a checkpoint."""

    subtask: int
    job_id: str
    checkpoint_id: int
    prepared_name: str
    """What it was called before, without the dot."""


@dataclass(frozen=True, slots=True)
class PartNames:
    """The names of one sink's files."""

    prefix: str = "part"
    suffix: str = ""

    def __post_init__(self) -> None:
        """ConfigurationError if readers would pass over the files, or find them elsewhere."""
        if not self.prefix or self.prefix[0] in "._" or "/" in self.prefix + self.suffix:
            raise ConfigurationError(
                f"files called {self.prefix!r}...{self.suffix!r} would not be found: choose a "
                'prefix that does not begin with "." or "_", and no "/"'
            )

    def of_job(self, index: int, parallelism: int, transaction: str, number: int = 0) -> str:
        """How a subtask's file is called that is committed when the job ends."""
        several = f"-{number}" if number else ""
        return f"{self._place(index, parallelism)}-{transaction}{several}{self.suffix}"

    def of_checkpoint(
        self, index: int, parallelism: int, job_id: str, attempt: int, number: int
    ) -> str:
        """How a subtask's file of a job with checkpoints is called, behind a dot, until it is
        committed."""
        return f"{self._place(index, parallelism)}-{job_id}-{attempt}-{number}{self.suffix}"

    def with_checkpoint(self, name: str, checkpoint_id: int) -> str:
        """How that file is called once it is committed with a checkpoint."""
        return f"{name.removesuffix(self.suffix)}-{checkpoint_id}{self.suffix}"

    def is_own(self, name: str) -> bool:
        """Whether a sink like this one has written it, in whatever job."""
        pattern = rf"\.?{self._places()}(-[0-9A-Za-z-]+)?{re.escape(self.suffix)}(\.unfinished)?"
        return re.fullmatch(pattern, name) is not None

    def prepared(self, name: str) -> PreparedPart | None:
        """Return whose file of a job with checkpoints it is, if it is one that is hidden."""
        pattern = rf"\.{self._places()}-([0-9A-Za-z]+)-(\d+)-\d+{re.escape(self.suffix)}"
        found = re.fullmatch(pattern, name)
        return found and PreparedPart(int(found[1]), found[2], int(found[3]))

    def committed(self, name: str) -> CommittedPart | None:
        """Return whose file it is and with which checkpoint it was committed, if it is such one."""
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
