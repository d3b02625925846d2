"""What the coordinator keeps of one job, from its submission until it is forgotten.

Theory of operation
-------------------
A job is run in *attempts*, numbered from 0, one at a time: ``begin_attempt`` makes the next one
when the present one has ended. The last attempt answers for the job; those before it are kept for
its story, at most ``attempts_retained`` of them. After one that failed the job's restart strategy
says when the next may begin (``restart_at``), or the job ends. Then its graph goes, which nobody
needs any more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flinknet.checkpoint.coordinator import CheckpointCoordinator
from flinknet.cluster.control.job_state import JobState
from flinknet.cluster.control.submission import Submission
from flinknet.cluster.coordinator.attempt_record import AttemptRecord
from flinknet.cluster.coordinator.job_execution import JobExecution, SubtaskKey
from flinknet.cluster.coordinator.pipelined_region import pipelined_regions
from flinknet.cluster.coordinator.placement import Placement
from flinknet.cluster.coordinator.restart_backoff import RestartBackoff
from flinknet.cluster.coordinator.restore_point import RestorePoint
from flinknet.cluster.coordinator.savepoint_request import SavepointRequest
from flinknet.cluster.coordinator.worker_registry import WorkerRecord
from flinknet.config import ClusterConfig
from flinknet.config.job_checkpointing import JobCheckpointingConfig
from flinknet.errors import LocalProtocolError
from flinknet.task.graph import JobGraph

__all__ = ["JobRecord"]

SAVEPOINTS_RETAINED = 100
"""Requests for savepoints of which a client may still ask what has become of them."""


class JobRecord:
    """One job. Times are the coordinator's clock, in seconds."""

    def __init__(
        self,
        job_id: str,
        submission: Submission,
        config: ClusterConfig,
        *,
        submitted_at: float,
        epoch_s: float = 0.0,
        restored: RestorePoint | None = None,
    ) -> None:
        """A job without an attempt yet: begin the first one, which continues from ``restored``.
        ``epoch_s`` is what the clock on the wall shows at 0."""
        self.job_id = job_id
        self.submission = submission
        self.submitted_at = submitted_at
        self.ended_at: float | None = None
        self.regions = pipelined_regions(submission.shape)
        """What must run together; every attempt runs all of them."""
        self.checkpoints = _checkpoint_coordinator(submission.shape, epoch_s)
        """The books of its checkpoints, and of its savepoints, which every job may have."""
        self.savepoints: dict[int, SavepointRequest] = {}
        """What was asked for, by the number of the checkpoint."""
        self.start = restored or RestorePoint()
        """What an attempt continues from as long as the job has no checkpoint of its own."""
        self.latest_checkpoint = self.start
        """What the next attempt continues from."""
        self.seeks_checkpoint = False
        """It is being read whether the files of that one, or of which before it, are good."""
        self.checkpoint_is_sought = False
        """That has been done for the next attempt."""
        self.restore_failure: str | None = None
        """Why it could not be done: what the next attempt is to fail with."""
        self._finished_results: dict[SubtaskKey, dict[str, Any]] = {}
        self.restart_at: float | None = None
        """When the next attempt may begin; None while one is there, and at the end."""
        self.waits_for_slots = False
        """It might have begun already, had there been slots."""
        self.backoff = RestartBackoff(submission.shape.restart)
        self._epoch_s = epoch_s
        self._cancelled = False
        self._config = config
        self._attempts: list[AttemptRecord] = []

    @property
    def attempts(self) -> tuple[AttemptRecord, ...]:
        """The attempts that are not forgotten, oldest first."""
        return tuple(self._attempts)

    @property
    def present(self) -> AttemptRecord:
        """The last attempt, which answers for the job."""
        return self._attempts[-1]

    @property
    def execution(self) -> JobExecution:
        """The execution of the present attempt."""
        return self.present.execution

    @property
    def state(self) -> JobState:
        """Where the job stands: its present attempt, or in between two of them."""
        if self._cancelled:
            return JobState.CANCELED
        return self.execution.state if self.restart_at is None else JobState.RESTARTING

    @property
    def restored_ms(self) -> int:
        """When the present attempt began to continue from a checkpoint, in milliseconds since 1970;
        -1 if it did not."""
        present = self.present
        return round((self._epoch_s + present.begun_at) * 1000) if present.restored_from else -1

    def attempt(self, number: int) -> AttemptRecord | None:
        """One attempt, or None if it is forgotten or never was."""
        first = self._attempts[0].number
        return self._attempts[number - first] if first <= number <= self.present.number else None

    def begin_attempt(self, workers: Sequence[WorkerRecord], now: float) -> AttemptRecord:
        """Make the next attempt, on the free slots of these workers; its execution is not started.

        Raises InsufficientSlotsError, and LocalProtocolError if the job or the present attempt does
        not allow another one.
        """
        if self.ended_at is not None:
            raise LocalProtocolError(f"job {self.job_id} has ended")
        if self._attempts and not self.execution.state.is_terminal:
            raise LocalProtocolError(f"job {self.job_id} is still at attempt {self.present.number}")
        number = self.present.number + 1 if self._attempts else 0
        placement = Placement.of_job(self.submission.shape, self.job_id, number, workers)
        config = self._config
        execution = JobExecution(
            self.job_id,
            number,
            self.regions,
            placement.assignment(),
            cause_grace_s=config.cause_grace_ms / 1000,
            cancel_timeout_s=config.cancel_timeout_ms / 1000,
            commit_timeout_s=config.commit_timeout_ms / 1000 if self.submission.commits else None,
        )
        self.restart_at, self.waits_for_slots = None, False
        self.seeks_checkpoint, self.checkpoint_is_sought = False, False
        self.restore_failure = None
        directory, finished = self.latest_checkpoint
        self._attempts.append(
            AttemptRecord(
                execution,
                placement,
                begun_at=now,
                restored_from=directory,
                restored_finished=finished,
            )
        )
        del self._attempts[: -1 - config.attempts_retained]
        return self.present

    def end(self, now: float, *, cancelled: bool = False) -> None:
        """No attempt follows the present one, which was not what ``cancelled`` the job."""
        self.restart_at = None
        self._cancelled = cancelled
        self.ended_at = now
        self.submission = self.submission.without_graph()

    def keep_results(self) -> None:
        """Remember what finished subtasks have made, in case the next attempt goes on after it."""
        if self.submission.shape.checkpointing is not None:
            for subtask, result in self.present.results.items():
                committables = self.present.committables.get(subtask, b"")
                self._finished_results[subtask] = {**result, "committables": committables}

    def result_before(self, subtask: SubtaskKey) -> dict[str, Any] | None:
        """What a subtask made that had finished in an earlier attempt; None if it is not one."""
        if subtask not in self.present.restored_finished:
            return None
        result = self._finished_results.get(subtask)
        return None if result is None else dict(result)

    def note_savepoint(self, request: SavepointRequest) -> None:
        """Remember a request, and forget the oldest that are done."""
        self.savepoints[request.checkpoint_id] = request
        done = [number for number, one in self.savepoints.items() if one.is_done]
        for number in done[: max(0, len(self.savepoints) - SAVEPOINTS_RETAINED)]:
            del self.savepoints[number]

    def status(self, now: float) -> dict[str, Any]:
        """How the job stands: the present attempt, with counters per vertex; plain JSON types."""
        ended_at = now if self.ended_at is None else self.ended_at
        return {
            **self.present.status(now),
            "job_id": self.job_id,
            "name": self.submission.name,
            "state": self.state.value,
            "seconds": ended_at - self.submitted_at,
            "vertices": self.present.vertices(self.submission.shape),
        }


def _checkpoint_coordinator(shape: JobGraph, epoch_s: float) -> CheckpointCoordinator:
    inputs: dict[int, list[int]] = {vertex.id: [] for vertex in shape.vertices}
    for edge in shape.edges:
        inputs[edge.target].append(edge.source)
    settings = shape.checkpointing
    if settings is not None:
        return CheckpointCoordinator(settings, inputs, epoch_s=epoch_s)
    defaults = JobCheckpointingConfig(interval_ms=1000.0)
    return CheckpointCoordinator(defaults, inputs, epoch_s=epoch_s, periodic=False)
