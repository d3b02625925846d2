"""What a coordinator that is started anew needs of its jobs, in a directory of a file system.

Theory of operation
-------------------
::

    lock                                held (flock) for as long as the coordinator lives
    epochs/NUMBER                       which coordinator has the directory, see ``epoch.py``
    jobs/JOB/submission                 the job as its client sent it; without its functions once
                                        it has ended
    jobs/JOB/state                      where it stands, see ``job_books.py``
    jobs/JOB/results-ATTEMPT-NUMBER     what finished subtasks uploaded together; numbered as they
                                        were written

A file is written under another name, made durable, and only then takes the place of the one before;
then the directory is made durable. So a file is there as a whole, or as it was. (A directory that
ends with a process which a loss of power ends, too, need not survive one: what a killed coordinator
has written is written.) Each is in an envelope (``checkpoint/envelope.py``): one that is torn,
damaged, foreign or newer is refused with its name, and so is its job alone.

The state is written after the submission, and removed before all else: a job without one was never
acknowledged, or is forgotten, and what is left of it goes. Of a subtask's results the last one of
the last attempt counts.

The files hold what the job's client has sent, code included: only their owner can read them.
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
"""Beyond what cluster.job_bytes_max and cluster.collect_bytes_max let in."""

log = logging.getLogger("flinknet.coordinator")


class StoredJob(NamedTuple):
    """One job, as it was written down."""

    job_id: str
    submission: bytes
    state: dict[str, Any]
    results: dict[SubtaskKey, bytes]
    """What each subtask that has finished uploaded, in the last attempt in which it did."""


class JobStore:
    """The jobs of one coordinator; ``close`` it. Whatever cannot be written is an OSError; if
    another coordinator has taken the directory over, it is CoordinatorSupersededError."""

    def __init__(self, directory: Path, *, durable: bool = True) -> None:
        """ConfigurationError if another coordinator is at work there, or it cannot be used. Unless
        it is ``durable``, a loss of power may leave anything."""
        self._jobs = directory / "jobs"
        self._durable = durable
        self._numbers: dict[str, Iterator[int]] = {}
        """For the files with results of each job."""
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
                f"another coordinator is at work in {directory} (cluster.state_directory): stop it "
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
        """Leave the directory to another coordinator."""
        os.close(self._lock)

    def load(self) -> list[StoredJob]:
        """Read every job; one that cannot be read is logged, with the file's name, and left as it
        is."""
        found = []
        for directory in sorted(self._jobs.iterdir()):
            if _JOB_ID.fullmatch(directory.name) is None:
                log.error("%s is no job's directory: it is left alone", directory)
            elif not (directory / "state").exists():
                shutil.rmtree(directory)
            else:
                try:
                    found.append(self._read_job(directory))
                except (CheckpointCorruptedError, OSError) as error:
                    log.error("job %s is not resumed: %s", directory.name, error)
        return found

    def write_job(self, job_id: str, submission: bytes, state: Mapping[str, Any]) -> None:
        """Write down a new job."""
        self.epoch.check()
        self._directory(job_id).mkdir(mode=0o700, exist_ok=True)
        if self._durable:
            _make_durable(self._jobs)
        self.write_submission(job_id, submission)
        self.write_state(job_id, state)

    def write_submission(self, job_id: str, submission: bytes) -> None:
        """Write down what the client has sent, or what is left of it."""
        self._replace(self._directory(job_id) / "submission", {"submission": submission})

    def write_state(self, job_id: str, state: Mapping[str, Any]) -> None:
        """Write down where a job stands."""
        self._replace(self._directory(job_id) / "state", dict(state))

    def write_results(self, job_id: str, attempt: int, results: Mapping[SubtaskKey, bytes]) -> None:
        """Write down what finished subtasks have uploaded; may run in any thread."""
        number = next(self._numbers.setdefault(job_id, count()))
        rows = [[*subtask, result] for subtask, result in results.items()]
        self._replace(self._directory(job_id) / f"results-{attempt}-{number}", {"results": rows})

    def remove_results(self, job_id: str) -> None:
        """Remove what the subtasks of a job have uploaded; what cannot be removed goes with the
        job."""
        self.epoch.check()
        with suppress(OSError):
            for _, path in _results(self._directory(job_id)):
                path.unlink()

    def remove(self, job_id: str) -> None:
        """Forget a job."""
        self.epoch.check()
        directory = self._directory(job_id)
        self._numbers.pop(job_id, None)
        (directory / "state").unlink(missing_ok=True)
        shutil.rmtree(directory, ignore_errors=True)

    def _read_job(self, directory: Path) -> StoredJob:
        submission = _read(directory / "submission").get("submission")
        if not isinstance(submission, bytes):
            raise CheckpointCorruptedError(f"{directory / 'submission'} holds no job")
        results: dict[SubtaskKey, bytes] = {}
        newest = -1
        for (_, number), path in sorted(_results(directory)):
            newest = max(newest, number)
            for vertex, index, result in _read(path)["results"]:
                results[vertex, index] = result
        self._numbers[directory.name] = count(newest + 1)
        return StoredJob(directory.name, submission, _read(directory / "state"), results)

    def _directory(self, job_id: str) -> Path:
        return self._jobs / job_id

    def _replace(self, path: Path, content: dict[str, Any]) -> None:
        """Write a file, or leave the one that is there."""
        unfinished = path.with_name(f".{path.name}.unfinished")
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        with os.fdopen(os.open(unfinished, flags, 0o600), "wb") as file:
            file.write(put_in_envelope(content, _BYTES_MAX, _MARK))
            file.flush()
            if self._durable:
                os.fsync(file.fileno())
        self.epoch.check()
        unfinished.replace(path)
        if self._durable:
            _make_durable(path.parent)


def _results(directory: Path) -> Iterator[tuple[tuple[int, int], Path]]:
    """Yield the files of results, by attempt and number."""
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
