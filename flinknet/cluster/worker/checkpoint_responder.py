"""What the subtasks of an attempt say of checkpoints, as messages to the coordinator."""

from __future__ import annotations

from flinknet.checkpoint.failure_reason import CheckpointFailureReason
from flinknet.checkpoint.pending_checkpoint import SubtaskId, SubtaskReport
from flinknet.cluster.control.control_link import ControlLink
from flinknet.cluster.control.messages import (
    AcknowledgeCheckpoint,
    AwaitCheckpoint,
    DeclineCheckpoint,
)

__all__ = ["CheckpointMessages"]


class CheckpointMessages:
    """Sends them on a worker's control link."""

    def __init__(self, job_id: str, attempt: int, link: ControlLink) -> None:
        self._job_id = job_id
        self._attempt = attempt
        self._link = link

    async def acknowledge(
        self, checkpoint_id: int, subtask: SubtaskId, report: SubtaskReport
    ) -> None:
        """The subtask has written its state."""
        handle, *metrics = report
        await self._link.send(
            AcknowledgeCheckpoint(
                self._job_id, self._attempt, checkpoint_id, *subtask, handle, metrics
            )
        )

    async def decline(
        self,
        checkpoint_id: int,
        subtask: SubtaskId,
        reason: CheckpointFailureReason,
        explanation: str,
    ) -> None:
        """The subtask could not."""
        await self._link.send(
            DeclineCheckpoint(
                self._job_id, self._attempt, checkpoint_id, *subtask, reason.name, explanation
            )
        )

    async def await_checkpoint(self, subtask: SubtaskId, taken: int) -> None:
        """The subtask waits for a checkpoint behind ``taken``, and for nothing else."""
        await self._link.send(AwaitCheckpoint(self._job_id, self._attempt, *subtask, taken))
