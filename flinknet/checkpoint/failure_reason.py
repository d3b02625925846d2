"""Reasons for the failure of a checkpoint (Flink's CheckpointFailureReason)."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

__all__ = ["CheckpointFailure", "CheckpointFailureReason"]


class CheckpointFailureReason(Enum):
    """Why a checkpoint failed. Messages carry the name; users read the value."""

    EXPIRED = "it did not complete within its time-out"
    DECLINED = "a subtask could not take part"
    ASYNC_FAILURE = "a subtask could not write its state"
    COMPLETION_FAILURE = "its metadata could not be written"
    STORAGE_FULL = "the storage has no space left"
    NOT_READY = (
        "a channel could not take part: its producer was not located yet, or had begun a "
        "later checkpoint"
    )
    SUBSUMED = "a later checkpoint completed first"
    ATTEMPT_ENDED = "the job, or its current attempt, ended"

    @property
    def is_failure(self) -> bool:
        """Whether an error occurred.

        It is False if the checkpoint was obsolete, or too early while the job starts.
        """
        return self not in (
            CheckpointFailureReason.NOT_READY,
            CheckpointFailureReason.SUBSUMED,
            CheckpointFailureReason.ATTEMPT_ENDED,
        )

    @property
    def counts(self) -> bool:
        """Whether the failure counts towards the tolerable ones.

        A full disk does not count: the next attempt would find it full, too, and the job would make
        no progress.
        """
        return self.is_failure and self is not CheckpointFailureReason.STORAGE_FULL


class CheckpointFailure(NamedTuple):
    """The reason of a failure, with details."""

    reason: CheckpointFailureReason
    explanation: str
