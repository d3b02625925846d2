"""Persistent storage of a coordinator's jobs, in a directory of a file system.

Theory of operation
-------------------
::

    lock                                held (flock) for as long as the coordinator lives
    epochs/NUMBER                       the coordinator of the directory, see ``epoch.py``
    jobs/JOB/submission                 the job as its client sent it; without its functions once
                                        it has ended
    jobs/JOB/state                      its state, see ``job_repository.py``
    jobs/JOB/results-ATTEMPT-NUMBER     uploads of finished subtasks that were written together;
                                        numbered in the order of writing

A file is written under a temporary name, synced, and then renamed over the old one; after that the
directory is synced. A reader thus sees the complete new file or the old one. Syncs are left out if
the directory need not survive a loss of power; files that a killed coordinator wrote are still
complete. Each file is in an envelope (``checkpoint/envelope.py``). A file that is torn, damaged,
foreign or of a newer version is refused by name, together with its job but no other job.

The state is written after the submission, and removed before all other files. A job without a state
was never acknowledged, or has been forgotten, so its remains are removed. Of several results of a
subtask, the last one of the last attempt counts.

The files contain the data and the code of clients, so only their owner can read them.
"""

from __future__ import annotations

import fcntl
import logging
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from flinknet.checkpoint.envelope import open_envelope, put_in_envelope
from flinknet.cluster.coordinator.jobs.epoch import Epoch
from flinknet.cluster.coordinator.jobs.job_execution import SubtaskKey
from flinknet.errors import CheckpointCorruptedError, ConfigurationError

__all__ = ["JobStore", "StoredJob"]

_MARK = b"flinkjob"
_JOB_ID = re.compile(r"[0-9a-f]{32}")
_RESULTS = re.compile(r"results-([0-9]+)-([0-9]+)")
_BYTES_MAX = 1 << 32
"""More than cluster.job_bytes_max and cluster.collect_bytes_max allow."""

log = logging.getLogger("flinknet.coordinator")


class StoredJob(NamedTuple):
    """One job as it was persisted."""

    job_id: str
    submission: bytes
    state: dict[str, Any]
    results: dict[SubtaskKey, bytes]
    """Upload of each finished subtask, from the last attempt in which the subtask finished."""


class JobStore:
    """The jobs of one coordinator; must be closed with ``close``.

    Failed writes raise OSError with the name of the file. Every write raises
    CoordinatorSupersededError if another coordinator has taken the directory over.
    """

    def __init__(self, directory: Path, *, durable: bool = True) -> None:
        """Lock the directory and take its next epoch.

        Raises ConfigurationError if another coordinator uses the directory, or if it cannot be
        used. Unless ``durable``, a loss of power may leave any state.
        """
        self._jobs = directory / "jobs"
        self._durable = durable
        self._numbers: dict[str, Iterator[int]] = {}
        """Numbers for the result files of each job."""
        try:
            self._jobs.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise ConfigurationError(
                f"the coordinator cannot keep its jobs in {directory} (cluster.state_directory): "
                f"{error}"
            ) from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._lock)
            raise ConfigurationError(
                f"another coordinator uses {directory} (cluster.state_directory): stop it "
                "first, or choose another directory"
            ) from error
        try:
            self.epoch = Epoch.take(directory, durable=durable)
        except OSError as error:
            os.close(self._lock)
            raise ConfigurationError(
                f"the coordinator cannot take {directory} over (cluster.state_directory): {error}"
            ) from error

    def close(self) -> None:
        """Release the lock, so that another coordinator can use the directory."""
        os.close(self._lock)

    def load(self) -> list[StoredJob]:
        """Read every job; an unreadable one is logged with the file's name, and left unchanged."""
        found = []
        for directory in sorted(self._jobs.iterdir()):
            if _JOB_ID.fullmatch(directory.name) is None:
                log.error("%s is not the directory of a job: it is left unchanged", directory)
            # The job was never acknowledged, or has been forgotten.
            elif not (directory / "state").exists():
                shutil.rmtree(directory)
            else:
                try:
                    found.append(self._read_job(directory))
                except (CheckpointCorruptedError, OSError) as error:
                    log.error("job %s is not resumed: %s", directory.name, error)
        return found

    def write_job(self, job_id: str, submission: bytes, state: Mapping[str, Any]) -> None:
        """Persist a new job."""
        self.epoch.check()
        self._directory(job_id).mkdir(mode=0o700, exist_ok=True)
        if self._durable:
            _make_durable(self._jobs)
        self.write_submission(job_id, submission)
        self.write_state(job_id, state)

    def write_submission(self, job_id: str, submission: bytes) -> None:
        """Persist the submission of a client, or the rest of it once the job has ended."""
        self._replace(self._directory(job_id) / "submission", {"submission": submission})

    def write_state(self, job_id: str, state: Mapping[str, Any]) -> None:
        """Persist the state of a job."""
        self._replace(self._directory(job_id) / "state", dict(state))

    def write_results(self, job_id: str, attempt: int, results: Mapping[SubtaskKey, bytes]) -> None:
        """Persist the uploads of finished subtasks. May run in any thread."""
        number = next(self._numbers.setdefault(job_id, count()))
        rows = [[*subtask, result] for subtask, result in results.items()]
        self._replace(self._directory(job_id) / f"results-{attempt}-{number}", {"results": rows})

    def remove_results(self, job_id: str) -> None:
        """Remove the uploads of a job's subtasks.

        A file that cannot be removed is removed later, with the job.
        """
        self.epoch.check()
        with suppress(OSError):
            for _, path in _results(self._directory(job_id)):
                path.unlink()

    def remove(self, job_id: str) -> None:
        """Remove a job."""
        self.epoch.check()
        directory = self._directory(job_id)
        self._numbers.pop(job_id, None)
        # First, because ``load`` removes a job without a state.
        (directory / "state").unlink(missing_ok=True)
        shutil.rmtree(directory, ignore_errors=True)

    def _read_job(self, directory: Path) -> StoredJob:
        submission = _read(directory / "submission").get("submission")
        if not isinstance(submission, bytes):
            raise CheckpointCorruptedError(f"{directory / 'submission'} contains no job")
        results: dict[SubtaskKey, bytes] = {}
        newest = -1
        # In the order of attempts and writes, so that the last result of a subtask counts.
        for (_, number), path in sorted(_results(directory)):
            newest = max(newest, number)
            for vertex, index, result in _read(path)["results"]:
                results[vertex, index] = result
        self._numbers[directory.name] = count(newest + 1)
        return StoredJob(directory.name, submission, _read(directory / "state"), results)

    def _directory(self, job_id: str) -> Path:
        return self._jobs / job_id

    def _replace(self, path: Path, content: dict[str, Any]) -> None:
        """Write a file atomically: on failure the old one stays."""
        try:
            self._write(path, put_in_envelope(content, _BYTES_MAX, _MARK))
        except OSError as error:
            # Errors of writing and syncing, such as a full disk, do not name the file.
            if error.filename is not None:
                raise
            raise OSError(error.errno, error.strerror, str(path)) from error

    def _write(self, path: Path, content: bytes) -> None:
        unfinished = path.with_name(f".{path.name}.unfinished")
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        with os.fdopen(os.open(unfinished, flags, 0o600), "wb") as file:
            file.write(content)
            file.flush()
            if self._durable:
                os.fsync(file.fileno())
        # Checked directly before the rename, so that a superseded coordinator changes no file.
        self.epoch.check()
        unfinished.replace(path)
        if self._durable:
            _make_durable(path.parent)


def _results(directory: Path) -> Iterator[tuple[tuple[int, int], Path]]:
    """Yield (attempt, number) and path of each result file."""
    for path in directory.iterdir():
        found = _RESULTS.fullmatch(path.name)
        if found is not None:
            attempt, number = map(int, found.groups())
            yield (attempt, number), path


def _read(path: Path) -> dict[str, Any]:
    return open_envelope(path.read_bytes(), str(path), _MARK)


def _make_durable(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
