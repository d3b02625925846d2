"""A client's request for a savepoint, and its outcome.

Theory of operation. A request is *in progress* until the savepoint is written or has failed. If the
job is to end with the savepoint, the request is in progress until the job has ended. It is
persisted with its job, so that the client can get the outcome from the next coordinator. Flink:
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
    """The requested directory; empty for the directory of the job's checkpoints."""
    location: str = ""
    """Path of the savepoint once it is written."""
    failure: str | None = None
    """Why the savepoint, or the end of the job with it, failed."""
    is_done: bool = False

    @property
    def stops(self) -> bool:
        """Whether the job is to end with it."""
        return self.kind.stops

    @property
    def progress(self) -> tuple[str, str, bool]:
        """A value that changes whenever the request must be persisted again."""
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
        """Note that the savepoint is complete, in the job's directory at ``place``."""
        self.location = f"{place}/{directory}"
        self.is_done = not self.stops

    def failed(self, failure: str) -> None:
        """Note that the savepoint has failed; do nothing if the request is done."""
        if not self.is_done:
            self.failure, self.is_done = failure, True

    def job_ended(self, *, finished: bool, how: str) -> None:
        """Note that the job, or its present attempt, has ended."""
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
        """Return the status as an asynchronous operation of Flink's REST API: plain JSON types."""
        if not self.is_done:
            return {"status": {"id": "IN_PROGRESS"}, "operation": None}
        operation: dict[str, Any] = {"location": self.location}
        if self.failure is not None:
            operation = {"failure-cause": failure_cause("CheckpointError", self.failure)}
        return {"status": {"id": "COMPLETED"}, "operation": operation}
