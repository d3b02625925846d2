"""The causes of failures, and how the one that the user sees is chosen.

Theory of operation
-------------------
When a worker dies, its neighbours see their connections break, and their reports can reach the
coordinator before the death itself does. When a subtask fails, its consumers are told so and fail
too. The user must see the origin of a failure, never a consequence. Every report therefore has
a *rank*:

- ``SYMPTOM``: another failure came first: a lost data connection, a failed producer, a cancelled
  consumer (every ``RemoteError`` and ``LocalTransportError``);
- ``SUSPICION``: a worker's control connection closed, and it is not known yet how its process
  ended;
- ``CAUSE``: an origin: an error raised by a subtask itself, a worker that stopped answering, or one
  with a known exit status.

The rule (applied by ``job_execution.py``): the first CAUSE wins at once. A lighter report waits
``ClusterConfig.cause_grace_ms`` for a heavier one. After that the heaviest report wins, and the
first among equals.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import IntEnum
from typing import Any

from flinknet.errors import (
    ConfigurationError,
    JobError,
    JobFailedError,
    LocalTransportError,
    RemoteError,
    WorkerDrainedError,
    WorkerLostError,
)
from flinknet.texts import printable, text_of, traceback_of

__all__ = ["CauseRank", "FailureCause"]


_COORDINATOR = ""
"""The worker id of a failure with the coordinator itself as its cause."""


class CauseRank(IntEnum):
    """How close a report is to the origin of a failure."""

    SYMPTOM = 0
    SUSPICION = 1
    CAUSE = 2


@dataclass(frozen=True, slots=True)
class FailureCause:
    """One report of a failure, made of plain values that can be sent and shown as JSON."""

    rank: CauseRank
    worker_id: str
    pid: int
    """0 if it does not matter."""
    error_type: str
    message: str
    subtask: str | None = None
    """Name for people: ``"key_by -> sum (2/4)"``; None if no particular subtask failed."""
    traceback: str = ""
    """Traceback in the worker's process; empty for a lost worker."""

    @classmethod
    def of_exception(
        cls,
        error: BaseException,
        *,
        worker_id: str,
        pid: int,
        subtask: str | None,
        text_bytes_max: int,
    ) -> FailureCause:
        """Describe an exception of this process.

        Each text is made printable, and cut to ``text_bytes_max`` bytes.
        """
        origin = _origin(error)
        return cls(
            rank=_rank(origin),
            worker_id=worker_id,
            pid=pid,
            error_type=printable(type(origin).__name__),
            message=_first_bytes(text_of(origin, text_bytes_max), text_bytes_max),
            subtask=subtask,
            traceback=_last_bytes(traceback_of(error), text_bytes_max),
        )

    @classmethod
    def of_lost_worker(
        cls, worker_id: str, pid: int, reason: str, rank: CauseRank = CauseRank.CAUSE
    ) -> FailureCause:
        """Describe a worker that ended or stopped answering; ``reason`` explains how."""
        return cls(
            rank=rank,
            worker_id=worker_id,
            pid=pid,
            error_type=WorkerLostError.__name__,
            message=reason,
        )

    @classmethod
    def of_drained_worker(cls, worker_id: str, pid: int) -> FailureCause:
        """Describe a worker that was told to end while it runs a job."""
        return cls(
            rank=CauseRank.CAUSE,
            worker_id=worker_id,
            pid=pid,
            error_type=WorkerDrainedError.__name__,
            message="it was told to end, and its subtasks continue on other workers",
        )

    @classmethod
    def of_coordinator(cls, pid: int, reason: str) -> FailureCause:
        """Describe a coordinator that ends while jobs run; ``reason`` explains why."""
        return cls(
            rank=CauseRank.CAUSE,
            worker_id=_COORDINATOR,
            pid=pid,
            error_type=JobFailedError.__name__,
            message=reason,
        )

    @property
    def cannot_work(self) -> bool:
        """Whether the program or its settings can never work, so that a restart would fail again.

        A job that has run before may have met a place that is missing only for the moment.
        """
        return self.error_type == ConfigurationError.__name__

    @property
    def is_drain(self) -> bool:
        """Whether nothing has failed, but a worker was told to end."""
        return self.error_type == WorkerDrainedError.__name__

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON types."""
        # The name of this field is part of the protocol and of the REST API.
        fields = asdict(self)
        del fields["rank"]
        return {"gravity": self.rank.name, **fields}

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> FailureCause:
        """Return the cause of ``to_dict``; raise KeyError or TypeError for other fields."""
        others = {**fields}
        return cls(CauseRank[others.pop("gravity")], **others)

    def describe(self) -> str:
        """Return one sentence for people: process, subtask and error."""
        if self.worker_id == _COORDINATOR:
            return f"the coordinator (pid {self.pid}) {self.message}"
        process = f"worker {self.worker_id}" + (f" (pid {self.pid})" if self.pid else "")
        if self.error_type == WorkerLostError.__name__:
            return f"{process} was lost: {self.message}"
        if self.is_drain:
            return f"{process} leaves: {self.message}"
        place = f'subtask "{self.subtask}" on {process}' if self.subtask else process
        if self.error_type == JobFailedError.__name__:
            return f"{place} failed: {self.message}"
        return f"{place} failed: {self.error_type}: {self.message}"

    def to_error(self, job: str, aftermath: str = "") -> JobError:
        """Return the exception for the client's ``execute`` call; ``aftermath`` is appended."""
        text = f'job "{job}" failed: {self.describe()}{aftermath}'
        if self.is_drain:
            return WorkerDrainedError(text)
        if self.error_type == WorkerLostError.__name__:
            return WorkerLostError(text)
        if self.traceback:
            text += f"\n\nTraceback in worker {self.worker_id}:\n{self.traceback.rstrip()}"
        return JobFailedError(text)


def _rank(error: BaseException) -> CauseRank:
    # Such an error says that a peer, or the connection to it, has failed.
    is_echo = isinstance(error, RemoteError | LocalTransportError)
    return CauseRank.SYMPTOM if is_echo else CauseRank.CAUSE


def _origin(error: BaseException) -> BaseException:
    """Return the heaviest leaf of an exception group (the first among equals), or the error."""
    if not isinstance(error, BaseExceptionGroup):
        return error
    return max((_origin(leaf) for leaf in error.exceptions), key=_rank)


def _first_bytes(text: str, bytes_max: int) -> str:
    data = text.encode()
    if len(data) <= bytes_max:
        return text
    return data[:bytes_max].decode(errors="ignore") + " ..."


def _last_bytes(text: str, bytes_max: int) -> str:
    data = text.encode()
    if len(data) <= bytes_max:
        return text
    return "... " + data[-bytes_max:].decode(errors="ignore")
