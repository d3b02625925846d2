"""Why a checkpoint did not come about (Flink's CheckpointFailureReason)."""

from __future__ import annotations

from enum import Enum

__all__ = ["CheckpointFailureReason"]


class CheckpointFailureReason(Enum):
    """The names travel; the values are what users read."""

    EXPIRED = "it was still under way at its time-out"
    DECLINED = "a subtask could not take part"
    ASYNC_FAILURE = "a subtask could not write its state"
    COMPLETION_FAILURE = "its metadata could not be written"
    SUBSUMED = "a later one came before it was complete"
    ATTEMPT_ENDED = "the job, or its present attempt, came to its end"

    @property
    def counts(self) -> bool:
        """Whether it says something about the job, which may not go wrong too often."""
        return self not in (
            CheckpointFailureReason.SUBSUMED,
            CheckpointFailureReason.ATTEMPT_ENDED,
        )
