"""The files of a job with checkpoints: each becomes visible with the checkpoint that it is part of.

Theory of operation. A subtask writes one file after the other, under names that readers pass over
because they begin with a dot; a rename makes one visible, and cannot be done by halves. Names say
whose a file is::

    .part-00001-of-00004-JOB-ATTEMPT-NUMBER.csv              written, or prepared
    part-00001-of-00004-JOB-ATTEMPT-NUMBER-CHECKPOINT.csv    committed, with that checkpoint

An attempt of the job that goes on from a checkpoint removes the prepared files of earlier attempts
which that has not, then the committed files of later checkpoints, whose records come again, and
commits the prepared files which that checkpoint has. What a worker that was taken for dead still
writes is left over, and never visible; the end of the job removes it.

In one directory there are files of one job, and of those that it continues. A new job does not add
to the result of another one. Nor does it remove any of that: a job that continues another one from
a checkpoint is refused if that one has committed files with later checkpoints.
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
    """The files below ``path``, as one attempt of a job sees them."""

    def __init__(
        self, path: Path, job_id: str, attempt: int, names: PartNames = PARQUET_PARTS
    ) -> None:
        self.path = path.resolve()
        self._names = names
        self._job_id = job_id
        self._attempt = attempt

    def open(self, restored: RestoredCheckpoint | None, *, may_repeat: bool) -> None:
        """Make the directory. ConfigurationError if it cannot be one, or holds what the job must
        not add to (``check_may_add``)."""
        if self.path.exists() and not self.path.is_dir():
            raise ConfigurationError(f"{self.path} is a file: choose a directory for the output")
        self.path.mkdir(parents=True, exist_ok=True)
        names = (entry.name for entry in self.path.iterdir())
        check_may_add(
            str(self.path), names, self._names, self._job_id, restored, may_repeat=may_repeat
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
            with (self._committed_as(name) if not file.exists() else file).open("rb") as opened:
                os.fsync(opened.fileno())
        self._sync()

    def publish(self, checkpoint_id: int, names: Collection[str]) -> None:
        """Commit files with a checkpoint; idempotent. JobFailedError if one is not there any
        more."""
        for name in names:
            target = self.path / self._names.with_checkpoint(name, checkpoint_id)
            try:
                self.writable(name).rename(target)
            except FileNotFoundError:
                self._committed_as(name)
        if names:
            self._sync()

    def withdraw_after(self, checkpoint_id: int, index: int) -> None:
        """Remove what a subtask of the job has committed with later checkpoints; idempotent."""
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
        """Remove what earlier attempts have prepared, but for what is kept, of the subtasks that
        are meant."""
        for entry, part in self._prepared():
            if (
                part.attempt < self._attempt
                and entry.name.removeprefix(HIDDEN) not in kept
                and is_own(part.subtask)
            ):
                entry.unlink(missing_ok=True)

    def finish(self) -> None:
        """The job has finished: remove what it has prepared in vain."""
        for entry, _ in self._prepared():
            entry.unlink(missing_ok=True)

    def close(self) -> None:
        """It holds nothing of its own."""

    def _prepared(self) -> list[tuple[Path, PreparedPart]]:
        """Return what the job has there that is not committed."""
        found = [(entry, self._names.prepared(entry.name)) for entry in self.path.iterdir()]
        return [(entry, part) for entry, part in found if part and part.job_id == self._job_id]

    def _committed_as(self, name: str) -> Path:
        """Return the committed file that was prepared under a name; JobFailedError if there is
        none."""
        for entry in self.path.iterdir():
            part = self._names.committed(entry.name)
            if part is not None and part.prepared_name == name:
                return entry
        raise JobFailedError(
            f"{self.writable(name)} is gone, which a checkpoint has as prepared: only the job "
            "itself may remove files there, and a job that went back to an older checkpoint has "
            "removed those of later ones"
        )

    def _sync(self) -> None:
        descriptor = os.open(self.path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
