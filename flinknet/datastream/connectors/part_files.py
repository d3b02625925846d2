"""The files of a job with checkpoints: each becomes visible with the checkpoint that it is part of.

Theory of operation. A subtask writes one file after the other, under names that readers pass over
because they begin with a dot; a rename makes one visible, and cannot be done by halves. Names say
whose a file is::

    .part-00001-of-00004-JOB-ATTEMPT-NUMBER.parquet      written, or prepared
    part-00001-of-00004-JOB-ATTEMPT-NUMBER.parquet       committed

An attempt of the job that goes on from a checkpoint commits the prepared files which that has, and
removes those of earlier attempts which it has not. What a worker that was taken for dead still
writes is left over, and never visible; the last commit of the job removes it.

In one directory there are files of one job, and of those that it goes on from: a new job does not
add to the result of another one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable
from pathlib import Path

from flinknet.errors import ConfigurationError, JobFailedError

__all__ = ["PartFiles"]

_PART = re.compile(r"\.part-(\d{5,})-of-\d{5,}-([0-9A-Za-z]+)-(\d+)-(\d+)\.parquet")


class PartFiles:
    """The files below ``path``, as one attempt of a job sees them."""

    def __init__(self, path: Path, job_id: str, attempt: int) -> None:
        self.path = path.resolve()
        self._job_id = job_id
        self._attempt = attempt

    def open(self, *, restored: bool) -> None:
        """Make the directory. ConfigurationError if it cannot be one, or if the job begins and it
        holds what no job may add to."""
        if self.path.exists() and not self.path.is_dir():
            raise ConfigurationError(f"{self.path} is a file: choose a directory for the output")
        self.path.mkdir(parents=True, exist_ok=True)
        for entry in () if restored else self.path.iterdir():
            if not entry.name.startswith(".") and f"-{self._job_id}-" not in entry.name:
                raise ConfigurationError(
                    f"{self.path} holds {entry.name}, which this job has not written and cannot "
                    "replace, since it commits with each checkpoint: remove it or choose another "
                    "path"
                )

    def name(self, index: int, parallelism: int, number: int) -> str:
        """How a subtask's file is called when it is committed."""
        place = f"{index:05d}-of-{parallelism:05d}"
        return f"part-{place}-{self._job_id}-{self._attempt}-{number}.parquet"

    def hidden(self, name: str) -> Path:
        """Where it is until then."""
        return self.path / f".{name}"

    def persist(self, names: Iterable[str]) -> None:
        """Have files survive a loss of power, committed or not."""
        for name in names:
            file = self.hidden(name)
            with (file if file.exists() else self.path / name).open("rb") as opened:
                os.fsync(opened.fileno())
        self._sync()

    def publish(self, names: Collection[str]) -> None:
        """Commit files; idempotent. JobFailedError if one is not there any more."""
        for name in names:
            try:
                self.hidden(name).rename(self.path / name)
            except FileNotFoundError:
                if not (self.path / name).exists():
                    raise JobFailedError(
                        f"{self.hidden(name)} is gone, which a checkpoint has as prepared: only "
                        "the job itself may remove files there"
                    ) from None
        if names:
            self._sync()

    def discard(self, kept: Collection[str], is_own: Callable[[int], bool]) -> None:
        """Remove what earlier attempts have prepared, but for what is kept, of the subtasks that
        are meant."""
        for entry in self.path.iterdir():
            found = _PART.fullmatch(entry.name)
            if (
                found is not None
                and found[2] == self._job_id
                and int(found[3]) < self._attempt
                and entry.name[1:] not in kept
                and is_own(int(found[1]))
            ):
                entry.unlink(missing_ok=True)

    def finish(self, names: Collection[str]) -> None:
        """The job has finished: commit its last files, and remove what is left of it."""
        self.publish(names)
        for entry in self.path.iterdir():
            found = _PART.fullmatch(entry.name)
            if found is not None and found[2] == self._job_id:
                entry.unlink(missing_ok=True)

    def _sync(self) -> None:
        descriptor = os.open(self.path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
