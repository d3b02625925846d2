"""Files of a job with checkpoints: each becomes visible with its checkpoint.

A subtask writes one file after the other, under names that begin with a dot, which readers ignore.
A rename makes a file visible, and it is atomic. The names tell which subtask and attempt wrote a
file::

    .part-00001-of-00004-JOB-ATTEMPT-NUMBER.csv              written, or prepared
    part-00001-of-00004-JOB-ATTEMPT-NUMBER-CHECKPOINT.csv    committed, with that checkpoint

An attempt that resumes from a checkpoint does three things. It removes the prepared files of
earlier attempts that are not in the checkpoint. It removes the committed files of later
checkpoints, because their records will come again. It commits the prepared files that are in the
checkpoint. A worker that was declared dead may still write files; these never become visible, and
the end of the job removes them.

A directory holds files of one job, and of the jobs that it continues. A new job does not add to the
result of another one. A job that continues another job from a checkpoint does not remove that job's
files either: it is rejected if the other job has committed files with later checkpoints.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Collection, Iterable
from pathlib import Path

from flinknet.datastream.connectors.committed_parts import WITHDRAWN, check_may_add, is_behind
from flinknet.datastream.connectors.part_names import (
    HIDDEN,
    PARQUET_PARTS,
    PartNames,
    PreparedPart,
)
from flinknet.errors import ConfigurationError, JobFailedError
from flinknet.state.state_handler import RestoredCheckpoint

__all__ = ["PartFiles"]

log = logging.getLogger("flinknet.worker")


class PartFiles:
    """The files below ``path``, as seen by one attempt of a job."""

    def __init__(
        self, path: Path, job_id: str, attempt: int, names: PartNames = PARQUET_PARTS
    ) -> None:
        self.path = path.resolve()
        self._names = names
        self._job_id = job_id
        self._attempt = attempt

    def open(self, restored: RestoredCheckpoint | None, *, may_repeat: bool) -> None:
        """Create the directory.

        Raises ConfigurationError if ``path`` is a file, or holds files that the job must not add to
        (``check_may_add``).
        """
        if self.path.exists() and not self.path.is_dir():
            raise ConfigurationError(f"{self.path} is a file: choose a directory for the output")
        self.path.mkdir(parents=True, exist_ok=True)
        names = (entry.name for entry in self.path.iterdir())
        check_may_add(
            str(self.path), names, self._names, self._job_id, restored, may_repeat=may_repeat
        )

    def name(self, index: int, parallelism: int, number: int) -> str:
        """Return the name of a subtask's file once it is committed."""
        return self._names.of_checkpoint(index, parallelism, self._job_id, self._attempt, number)

    def writable(self, name: str) -> Path:
        """Return the file's path until it is committed."""
        return self.path / f"{HIDDEN}{name}"

    def persist(self, names: Iterable[str]) -> None:
        """Flush files to disk, committed or not, so that they survive a power failure."""
        for name in names:
            file = self.writable(name)
            # The file may have been committed already, under another name.
            with (self._committed_as(name) if not file.exists() else file).open("rb") as opened:
                os.fsync(opened.fileno())
        self._sync()

    def publish(self, checkpoint_id: int, names: Collection[str]) -> None:
        """Commit files with a checkpoint; idempotent. JobFailedError if a file is missing."""
        for name in names:
            target = self.path / self._names.with_checkpoint(name, checkpoint_id)
            try:
                self.writable(name).rename(target)
            except FileNotFoundError:
                # An earlier call may have committed it.
                self._committed_as(name)
        if names:
            self._sync()

    def withdraw_after(self, checkpoint_id: int, index: int) -> None:
        """Remove the files that a subtask committed with later checkpoints; idempotent."""
        withdrawn = 0
        for entry in self.path.iterdir():
            part = self._names.committed(entry.name)
            if part is not None and is_behind(part, self._job_id, checkpoint_id, index):
                entry.unlink(missing_ok=True)
                withdrawn += 1
        if withdrawn:
            self._sync()
            log.warning(WITHDRAWN, self.path, withdrawn, index, checkpoint_id)

    def discard(self, kept: Collection[str], is_own: Callable[[int], bool]) -> None:
        """Remove files that earlier attempts prepared, except the files in ``kept``.

        Only files of subtasks for which ``is_own`` is true are removed.
        """
        for entry, part in self._prepared():
            if (
                part.attempt < self._attempt
                and entry.name.removeprefix(HIDDEN) not in kept
                and is_own(part.subtask)
            ):
                entry.unlink(missing_ok=True)

    def finish(self) -> None:
        """Remove prepared files that no checkpoint committed, when the job has finished."""
        for entry, _ in self._prepared():
            entry.unlink(missing_ok=True)

    def close(self) -> None:
        """Do nothing: the object holds no resources."""

    def _prepared(self) -> list[tuple[Path, PreparedPart]]:
        """Return the job's files that are not committed."""
        found = [(entry, self._names.prepared(entry.name)) for entry in self.path.iterdir()]
        return [(entry, part) for entry, part in found if part and part.job_id == self._job_id]

    def _committed_as(self, name: str) -> Path:
        """Return the committed file for a prepared name; JobFailedError if there is none."""
        for entry in self.path.iterdir():
            part = self._names.committed(entry.name)
            if part is not None and part.prepared_name == name:
                return entry
        raise JobFailedError(
            f"{self.writable(name)} is missing, although a checkpoint refers to it: only the job "
            "itself may remove files there, and a job that returned to an older checkpoint has "
            "removed the files of later ones"
        )

    def _sync(self) -> None:
        descriptor = os.open(self.path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
