"""Why a checkpoint did not come about (Flink's CheckpointFailureReason)."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

__all__ = ["CheckpointFailure", "CheckpointFailureReason"]


class CheckpointFailureReason(Enum):
    """The names travel; the values are what users read."""

    EXPIRED = "it was still under way at its time-out"
    DECLINED = "a subtask could not take part"
    ASYNC_FAILURE = "a subtask could not write its state"
    COMPLETION_FAILURE = "its metadata could not be written"
    STORAGE_FULL = "there was no room for it"
    NOT_READY = (
        "a channel could not take part: its producer had no place yet, or had begun a later one"
    )
    SUBSUMED = "a later one came before it was complete"
    ATTEMPT_ENDED = "the job, or its present attempt, came to its end"

    @property
    def is_failure(self) -> bool:
        """Whether something has gone wrong, and it was not merely of no use any more, or too early
        while the job starts."""
        return self not in (
            CheckpointFailureReason.NOT_READY,
            CheckpointFailureReason.SUBSUMED,
            CheckpointFailureReason.ATTEMPT_ENDED,
        )

    @property
    def counts(self) -> bool:
        """Whether it says something about the job, which may not go wrong too often. A full disk
        does not: the next attempt would find it as full, so that the job came nowhere."""
        return self.is_failure and self is not CheckpointFailureReason.STORAGE_FULL


class CheckpointFailure(NamedTuple):
    """Why one checkpoint did not come about, and what is known of that."""

    reason: CheckpointFailureReason
    explanation: str
