"""The files of a job with checkpoints: each becomes visible with the checkpoint that it is part of.

Theory of operation. A subtask writes one file after the other, under names that readers pass over
because they begin with a dot; a rename makes one visible, and cannot be done by halves. Names say
whose a file is::

    .part-00001-of-00004-JOB-ATTEMPT-NUMBER.csv      written, or prepared
    part-00001-of-00004-JOB-ATTEMPT-NUMBER.csv       committed

An attempt of the job that goes on from a checkpoint commits the prepared files which that has, and
removes those of earlier attempts which it has not. What a worker that was taken for dead still
writes is left over, and never visible; the last commit of the job removes it.

In one directory there are files of one job, and of those that it goes on from: a new job does not
add to the result of another one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable
from pathlib import Path

from flinknet.datastream.connectors.part_names import (
    HIDDEN,
    PARQUET_PARTS,
    PartNames,
    PreparedPart,
)
from flinknet.errors import ConfigurationError, JobFailedError

__all__ = ["PartFiles"]


class PartFiles:
    """The files below ``path``, as one attempt of a job sees them."""

    def __init__(
        self, path: Path, job_id: str, attempt: int, names: PartNames = PARQUET_PARTS
    ) -> None:
        self.path = path.resolve()
        self._names = names
        self._job_id = job_id
        self._attempt = attempt

    def open(self, *, restored: bool) -> None:
        """Make the directory. ConfigurationError if it cannot be one, or if the job begins and it
        holds what no job may add to."""
        if self.path.exists() and not self.path.is_dir():
            raise ConfigurationError(f"{self.path} is a file: choose a directory for the output")
        self.path.mkdir(parents=True, exist_ok=True)
        for entry in () if restored else self.path.iterdir():
            if not entry.name.startswith(HIDDEN) and f"-{self._job_id}-" not in entry.name:
                raise ConfigurationError(
                    f"{self.path} holds {entry.name}, which this job has not written and cannot "
                    "replace, since it commits with each checkpoint: remove it or choose another "
                    "path"
                )

    def name(self, index: int, parallelism: int, number: int) -> str:
        """How a subtask's file is called when it is committed."""
        return self._names.of_checkpoint(index, parallelism, self._job_id, self._attempt, number)

    def writable(self, name: str) -> Path:
        """Where it is until then."""
        return self.path / f"{HIDDEN}{name}"

    def persist(self, names: Iterable[str]) -> None:
        """Have files survive a loss of power, committed or not."""
        for name in names:
            file = self.writable(name)
            with (file if file.exists() else self.path / name).open("rb") as opened:
                os.fsync(opened.fileno())
        self._sync()

    def publish(self, names: Collection[str]) -> None:
        """Commit files; idempotent. JobFailedError if one is not there any more."""
        for name in names:
            try:
                self.writable(name).rename(self.path / name)
            except FileNotFoundError:
                if not (self.path / name).exists():
                    raise JobFailedError(
                        f"{self.writable(name)} is gone, which a checkpoint has as prepared: only "
                        "the job itself may remove files there"
                    ) from None
        if names:
            self._sync()

    def discard(self, kept: Collection[str], is_own: Callable[[int], bool]) -> None:
        """Remove what earlier attempts have prepared, but for what is kept, of the subtasks that
        are meant."""
        for entry, part in self._prepared():
            if (
                part.attempt < self._attempt
                and entry.name.removeprefix(HIDDEN) not in kept
                and is_own(part.subtask)
            ):
                entry.unlink(missing_ok=True)

    def finish(self, names: Collection[str]) -> None:
        """The job has finished: commit its last files, and remove what is left of it."""
        self.publish(names)
        for entry, _ in self._prepared():
            entry.unlink(missing_ok=True)

    def close(self) -> None:
        """It holds nothing of its own."""

    def _prepared(self) -> list[tuple[Path, PreparedPart]]:
        """Return what the job has there that is not committed."""
        found = [(entry, self._names.prepared(entry.name)) for entry in self.path.iterdir()]
        return [(entry, part) for entry, part in found if part and part.job_id == self._job_id]

    def _sync(self) -> None:
        descriptor = os.open(self.path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
