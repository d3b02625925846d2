"""Persists jobs, and restores them in the next coordinator.

Theory of operation. Only state that cannot be derived is persisted, and only when it changes
(``JobRecord.phase``): the number and progress of the last attempt, the restore point, and the end
of the job. Savepoint requests are persisted as well, since their clients ask for the outcome.
Checkpoints are recorded in their own storage, and found there. Earlier attempts and the checkpoint
history are lost. An unreadable job is logged and left unchanged, and the other jobs go on.

Times are wall-clock times, since each coordinator has a clock of its own. Flink: JobGraphStore,
JobResultStore.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from flinknet.cluster.control.failure import FailureCause
from flinknet.cluster.control.job_state import JobState
from flinknet.cluster.control.submission import Submission
from flinknet.cluster.control.subtask_result import decode_result
from flinknet.cluster.control.wall_clock import WallClock
from flinknet.cluster.coordinator.jobs.attempt_record import AttemptRecord
from flinknet.cluster.coordinator.jobs.job_execution import SubtaskKey
from flinknet.cluster.coordinator.jobs.job_record import JobRecord
from flinknet.cluster.coordinator.jobs.job_store import JobStore, StoredJob
from flinknet.cluster.coordinator.jobs.placement import Placement
from flinknet.cluster.coordinator.jobs.restore_point import RestorePoint
from flinknet.cluster.coordinator.jobs.savepoint_request import SavepointRequest
from flinknet.config import ClusterConfig
from flinknet.errors import ConfigurationError, CoordinatorSupersededError
from flinknet.metrics.io_metrics import IOMetrics

__all__ = ["JobRepository", "ResumedJob"]

log = logging.getLogger("flinknet.coordinator")


class ResumedJob(NamedTuple):
    """A job of the previous coordinator, with the state of its last attempt."""

    record: JobRecord
    state: JobState
    cause: FailureCause | None


class JobRepository:
    """The persistent jobs of a coordinator."""

    def __init__(self, store: JobStore, config: ClusterConfig, wall: WallClock) -> None:
        """``wall`` converts to the time of day."""
        self._store = store
        self._config = config
        self._wall = wall
        self._known: set[str] = set()

    def resume(self, now: float) -> list[ResumedJob]:
        """Restore the jobs of the previous coordinator, oldest first."""
        found = []
        for stored in self._store.load():
            try:
                found.append(self._resumed(stored, now))
            except (
                ArithmeticError,
                ConfigurationError,
                LookupError,
                TypeError,
                ValueError,
            ) as error:
                log.error(
                    "job %s is not resumed: its stored state is not valid: %s: %s",
                    stored.job_id,
                    type(error).__name__,
                    error,
                )
            else:
                self._known.add(stored.job_id)
        return sorted(found, key=lambda one: one.record.submitted_at)

    def save(self, record: JobRecord) -> str | None:
        """Persist the state of a job; return the reason for a failure, or None."""
        try:
            self._save(record)
        except (OSError, CoordinatorSupersededError) as error:
            log.error("cannot store the state of job %s: %s", record.job_id, error)
            return str(error)
        return None

    def forget(self, job_id: str) -> None:
        """Remove a job that clients no longer ask for."""
        self._known.discard(job_id)
        # The job belongs to the coordinator that has taken over.
        with suppress(CoordinatorSupersededError):
            self._store.remove(job_id)

    def _save(self, record: JobRecord) -> None:
        state = self._description(record)
        if record.job_id not in self._known:
            self._store.write_job(record.job_id, record.submission.to_bytes(), state)
            self._known.add(record.job_id)
            return
        self._store.write_state(record.job_id, state)
        if record.ended_at is not None:
            # The submission has lost its graph by now. Results are fetched from finished jobs only.
            self._store.write_submission(record.job_id, record.submission.to_bytes())
            if record.execution.state is not JobState.FINISHED:
                self._store.remove_results(record.job_id)

    def _description(self, record: JobRecord) -> dict[str, Any]:
        present, ended_at = record.present, record.ended_at
        cause = record.execution.cause
        return {
            "pid": os.getpid(),
            "submitted_s": self._wall.seconds(record.submitted_at),
            "ended_s": None if ended_at is None else self._wall.seconds(ended_at),
            "cancelled": record.recovery.is_cancelled,
            "restarts": record.backoff.restarts,
            "start": _packed(record.start),
            "latest": _packed(record.latest_checkpoint),
            "stopped": record.has_stopped,
            "next_checkpoint": record.checkpoints.next_id,
            "newest_completed": record.completed.newest,
            "passed_over": record.completed.passed_over,
            "savepoints": [request.to_journal() for request in record.savepoints.values()],
            "attempt": {
                "number": present.last_number,
                "state": record.execution.state.value,
                "cause": None if cause is None else cause.to_dict(),
                "begun_s": self._wall.seconds(present.begun_at),
                "restored": _packed(RestorePoint(present.restored_from, present.restored_finished)),
                "assignment": {
                    worker_id: [list(key) for key in keys]
                    for worker_id, keys in present.placement.assignment().items()
                },
                "counters": []
                if ended_at is None
                else [[*key, *counters.row()] for key, counters in present.counters.items()],
            },
        }

    def _resumed(self, stored: StoredJob, now: float) -> ResumedJob:
        state = stored.state
        has_ended = state.get("ended_s") is not None
        submission = Submission.from_bytes(stored.submission, has_ended=has_ended)

        def at(wall_s: float) -> float:
            # The clock may have been set back since, but no time of the job may lie in the future.
            return min(wall_s - self._wall.epoch_s, now)

        start, latest = _unpacked(state["start"]), _unpacked(state["latest"])
        record = JobRecord(
            stored.job_id,
            submission,
            self._config,
            submitted_at=at(state["submitted_s"]),
            wall=self._wall,
            restored=start,
            first_checkpoint=state["next_checkpoint"],
        )
        record.backoff.resume(state["restarts"], now)
        record.completed.restore(state["newest_completed"], state["passed_over"])
        for fields in state["savepoints"]:
            record.note_savepoint(SavepointRequest.from_journal(fields))
        if latest != start:
            record.continue_from(latest, is_savepoint=state["stopped"])
        last = state["attempt"]
        assignment = {
            worker_id: [(vertex, index) for vertex, index in keys]
            for worker_id, keys in last["assignment"].items()
        }
        number = last["number"]
        reached = JobState(last["state"])
        if reached is JobState.CREATED:
            attempt = record.queue(now)
        else:
            attempt = record.resume(
                number,
                Placement.of_assignment(submission.shape, stored.job_id, number, assignment),
                _loss(state["pid"], submission),
                begun_at=at(last["begun_s"]),
                restored=_unpacked(last["restored"]),
            )
        _give_results(record, attempt, reached, stored.results)
        for vertex, index, *counters in last["counters"]:
            attempt.counters[vertex, index] = IOMetrics(*counters)
        if has_ended:
            record.end(at(state["ended_s"]), cancelled=state["cancelled"])
        cause = None if last["cause"] is None else FailureCause.from_dict(last["cause"])
        return ResumedJob(record, reached, cause)


def _give_results(
    record: JobRecord,
    attempt: AttemptRecord,
    reached: JobState,
    results: Mapping[SubtaskKey, bytes],
) -> None:
    made = {subtask: decode_result(body) for subtask, body in results.items()}
    for result in made.values():
        # Used only when a result is uploaded (``Dispatcher.take_result``).
        del result["checkpoint_taken"]
    if reached is JobState.FINISHING:
        missing = attempt.execution.subtask_states().keys() - made.keys()
        if missing:
            raise LookupError(f"the results of subtasks {sorted(missing)} are missing")
    record.remember_results(made)
    if reached in (JobState.FINISHING, JobState.FINISHED):
        for subtask, result in made.items():
            attempt.note_result(subtask, dict(result))


def _loss(pid: int, submission: Submission) -> FailureCause:
    """Return the failure of an attempt that the end of the previous coordinator has interrupted."""
    why = "was lost while the job ran"
    if submission.shape.checkpointing is None:
        why += (
            ", which has no checkpoints to continue from: it restarts from its start only if its "
            "restart strategy allows that (set_restart_strategy, enable_checkpointing)"
        )
    return FailureCause.of_coordinator(pid, why)


def _packed(point: RestorePoint) -> list[Any]:
    return [point.directory, [list(subtask) for subtask in sorted(point.finished)]]


def _unpacked(packed: list[Any]) -> RestorePoint:
    directory, finished = packed
    return RestorePoint(directory, frozenset((vertex, index) for vertex, index in finished))
