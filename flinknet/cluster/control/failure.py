"""Why a job failed: the cause that the user sees, and how causes are ranked.

Theory of operation
-------------------
When a worker dies, its neighbours see their connections break, and their reports can reach the
coordinator before the death itself does. When a subtask fails, its consumers are told so and fail
too. The user must see the origin, never the echo. So every report has a *gravity*:

- ``SYMPTOM``: something else broke first: a lost data connection, a failed producer, a cancelled
  consumer (every ``RemoteError`` and ``LocalTransportError``);
- ``SUSPICION``: a worker's control connection closed, but nobody has said yet how its process
  ended;
- ``CAUSE``: an origin: an error raised by a subtask itself, a worker whose exit status is known or
  that stopped answering.

The rule (applied by ``job_execution.py``): the first CAUSE wins at once. A lighter report waits
``ClusterConfig.cause_grace_ms`` for a heavier one; then the heaviest, and among equals the first,
wins.
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

__all__ = ["FailureCause", "Gravity"]


_COORDINATOR = ""
"""Stands for a worker's id where the coordinator itself is the cause."""


class Gravity(IntEnum):
    """How near to the origin of a failure a report is."""

    SYMPTOM = 0
    SUSPICION = 1
    CAUSE = 2


@dataclass(frozen=True, slots=True)
class FailureCause:
    """One report of a failure, made of plain values so that it can travel and be shown as JSON."""

    gravity: Gravity
    worker_id: str
    pid: int
    """0 if it does not matter."""
    error_type: str
    message: str
    subtask: str | None = None
    """For people: ``"key_by -> sum (2/4)"``; None if no subtask in particular failed."""
    traceback: str = ""
    """Where it was raised, in the worker's process; empty for a lost worker."""

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
        """Describe an exception of this process; a text keeps at most ``text_bytes_max`` bytes, and
        is printable."""
        origin = _origin(error)
        return cls(
            gravity=_gravity(origin),
            worker_id=worker_id,
            pid=pid,
            error_type=printable(type(origin).__name__),
            message=_first_bytes(text_of(origin, text_bytes_max), text_bytes_max),
            subtask=subtask,
            traceback=_last_bytes(traceback_of(error), text_bytes_max),
        )

    @classmethod
    def of_lost_worker(
        cls, worker_id: str, pid: int, reason: str, gravity: Gravity = Gravity.CAUSE
    ) -> FailureCause:
        """Describe a worker that ended or stopped answering: ``reason`` says how."""
        return cls(
            gravity=gravity,
            worker_id=worker_id,
            pid=pid,
            error_type=WorkerLostError.__name__,
            message=reason,
        )

    @classmethod
    def of_drained_worker(cls, worker_id: str, pid: int) -> FailureCause:
        """Describe a worker that was told to end while a job runs there."""
        return cls(
            gravity=Gravity.CAUSE,
            worker_id=worker_id,
            pid=pid,
            error_type=WorkerDrainedError.__name__,
            message="it was told to end, and its subtasks go on elsewhere",
        )

    @classmethod
    def of_coordinator(cls, pid: int, reason: str) -> FailureCause:
        """Describe a coordinator that ends while jobs run: ``reason`` says why."""
        return cls(
            gravity=Gravity.CAUSE,
            worker_id=_COORDINATOR,
            pid=pid,
            error_type=JobFailedError.__name__,
            message=reason,
        )

    @property
    def cannot_work(self) -> bool:
        """Whether the program, or its settings, ask for what cannot be: so they do the next time.
        (A job that has run before may have come upon a place that is gone for a moment.)"""
        return self.error_type == ConfigurationError.__name__

    @property
    def is_drain(self) -> bool:
        """Whether nothing has failed: a worker was told to end."""
        return self.error_type == WorkerDrainedError.__name__

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return {**asdict(self), "gravity": self.gravity.name}

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> FailureCause:
        """Inverse of ``to_dict``; KeyError or TypeError if the fields are not its own."""
        return cls(**{**fields, "gravity": Gravity[fields["gravity"]]})

    def describe(self) -> str:
        """One sentence for people: who, where, what."""
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
        """The exception that ends the client's ``execute`` call; ``aftermath`` is said after it."""
        text = f'job "{job}" failed: {self.describe()}{aftermath}'
        if self.is_drain:
            return WorkerDrainedError(text)
        if self.error_type == WorkerLostError.__name__:
            return WorkerLostError(text)
        if self.traceback:
            text += f"\n\nTraceback in worker {self.worker_id}:\n{self.traceback.rstrip()}"
        return JobFailedError(text)


def _gravity(error: BaseException) -> Gravity:
    is_echo = isinstance(error, RemoteError | LocalTransportError)
    return Gravity.SYMPTOM if is_echo else Gravity.CAUSE


def _origin(error: BaseException) -> BaseException:
    """The heaviest leaf of an exception group, the first among equals; else the error itself."""
    if not isinstance(error, BaseExceptionGroup):
        return error
    return max((_origin(leaf) for leaf in error.exceptions), key=_gravity)


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
