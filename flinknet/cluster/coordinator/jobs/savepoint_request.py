"""A savepoint that a client has asked for, and what has become of it.

Theory of operation. A request is *in progress* until the savepoint is written or has failed; one
with which the job is to end, until the job has ended. It is written down with its job, so that
its client learns from the next coordinator what has become of it. Flink:
AsynchronousOperationResult, StopWithSavepointTerminationManager.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from flinknet.checkpoint.metadata import CheckpointDirectory
from flinknet.cluster.coordinator.jobs.serialized_throwable import failure_cause
from flinknet.wire.checkpoint_options import CheckpointKind

__all__ = ["SavepointRequest"]


@dataclass(slots=True)
class SavepointRequest:
    """One savepoint of a job."""

    request_id: str
    checkpoint_id: int
    kind: CheckpointKind
    directory: str
    """Where it was asked for; empty for the place of the job's checkpoints."""
    location: str = ""
    """Where it is, once it is written."""
    failure: str | None = None
    """Why it, or the end of the job with it, did not come about."""
    is_done: bool = False

    @property
    def stops(self) -> bool:
        """Whether the job is to end with it."""
        return self.kind.stops

    @property
    def progress(self) -> tuple[str, str, bool]:
        """Return a value that changes whenever the request has to be written down again."""
        return self.request_id, self.location, self.is_done

    def to_journal(self) -> list[Any]:
        """Return the fields that the next coordinator needs, as plain types."""
        return [
            self.request_id,
            self.checkpoint_id,
            int(self.kind),
            self.directory,
            self.location,
            self.failure,
            self.is_done,
        ]

    @classmethod
    def from_journal(cls, fields: list[Any]) -> SavepointRequest:
        """Return the request of ``to_journal``. Raises TypeError or ValueError for other fields."""
        request_id, checkpoint_id, kind, *rest = fields
        return cls(request_id, checkpoint_id, CheckpointKind(kind), *rest)

    def written(self, place: str, directory: CheckpointDirectory) -> None:
        """It is complete, in the job's directory at ``place``."""
        self.location = f"{place}/{directory}"
        self.is_done = not self.stops

    def failed(self, failure: str) -> None:
        """It will not come about; nothing if that is known, or is not true."""
        if not self.is_done:
            self.failure, self.is_done = failure, True

    def job_ended(self, *, finished: bool, how: str) -> None:
        """The job, or its present attempt, has ended."""
        if self.is_done:
            return
        if finished and self.location:
            self.is_done = True
        elif self.location:
            self.failed(
                f"a savepoint was written to {self.location}, but the job did not end: {how}"
            )
        else:
            self.failed(f"the attempt of the job ended before its savepoint was written: {how}")

    def to_dict(self) -> dict[str, Any]:
        """As Flink's REST tells of an asynchronous operation: plain JSON types."""
        if not self.is_done:
            return {"status": {"id": "IN_PROGRESS"}, "operation": None}
        operation: dict[str, Any] = {"location": self.location}
        if self.failure is not None:
            operation = {"failure-cause": failure_cause("CheckpointError", self.failure)}
        return {"status": {"id": "COMPLETED"}, "operation": operation}
