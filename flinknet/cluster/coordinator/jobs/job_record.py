"""What the coordinator keeps of one job, from its submission until it is forgotten.

Theory of operation
-------------------
A job is run in *attempts*, numbered from 0, one at a time: ``begin_attempt`` makes the next one
when the present one has ended. The last attempt answers for the job; those before it are kept for
its story, at most ``attempts_retained`` of them. After one that failed the job's restart strategy
says when the next may begin, or the job ends. Then its graph goes, which nobody needs any more.
``recovery`` (``recovery.py``) knows where the job stands in between; only this record and its
dispatcher send events to it, and no other module writes an attribute of this record.

A job of a coordinator that has ended is ``resumed`` with its last attempt. If that is lost with the
coordinator, a job with checkpoints goes on in another one in any case, as in Flink: its restart
strategy is about failures of the job. One without would begin again from its start, which the
strategy must allow. The same holds for a job that leaves a worker which was told to end.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from flinknet.checkpoint.coordinator import CheckpointCoordinator
from flinknet.checkpoint.metadata import CheckpointDirectory
from flinknet.cluster.control.failure import FailureCause
from flinknet.cluster.control.job_state import JobState
from flinknet.cluster.control.submission import Submission
from flinknet.cluster.control.wall_clock import WallClock
from flinknet.cluster.coordinator.jobs.attempt_record import AttemptRecord, RegionRestart
from flinknet.cluster.coordinator.jobs.going_back import (
    CompletedCheckpoints,
    Continuation,
    continuation,
    refusal,
)
from flinknet.cluster.coordinator.jobs.job_execution import (
    NOWHERE,
    Commands,
    JobExecution,
    SubtaskKey,
)
from flinknet.cluster.coordinator.jobs.pipelined_region import pipelined_regions
from flinknet.cluster.coordinator.jobs.placement import Placement
from flinknet.cluster.coordinator.jobs.recovery import Answer, Recovery, RecoveryState, Scope
from flinknet.cluster.coordinator.jobs.region_failover import RegionFailure
from flinknet.cluster.coordinator.jobs.restart_backoff import RestartBackoff
from flinknet.cluster.coordinator.jobs.restore_point import RestorePoint
from flinknet.cluster.coordinator.jobs.savepoint_request import SavepointRequest
from flinknet.cluster.coordinator.workers.worker_registry import WorkerRecord
from flinknet.config import ClusterConfig
from flinknet.config.job_checkpointing import JobCheckpointingConfig
from flinknet.errors import (
    CheckpointCorruptedError,
    CheckpointNotFoundError,
    LocalProtocolError,
)
from flinknet.graph.graph import CheckpointedOutput, JobGraph

__all__ = ["JobRecord"]

log = logging.getLogger("flinknet.coordinator")

_DAMAGE = {CheckpointCorruptedError.__name__, CheckpointNotFoundError.__name__}

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
        wall: WallClock | None = None,
        restored: RestorePoint | None = None,
        first_checkpoint: int = 1,
    ) -> None:
        """A job without an attempt yet: begin the first one, which continues from ``restored``.
        ``wall`` knows the time of day; the checkpoints are numbered from ``first_checkpoint``."""
        self._wall = wall or WallClock()
        self.job_id = job_id
        self.submission = submission
        self.submitted_at = submitted_at
        self.regions = pipelined_regions(submission.shape)
        """What must run together; every attempt runs all of them."""
        self.checkpoints = _checkpoint_coordinator(submission.shape, self._wall, first_checkpoint)
        """The books of its checkpoints, and of its savepoints, which every job may have."""
        self.savepoints: dict[int, SavepointRequest] = {}
        """What was asked for, by the number of the checkpoint."""
        self.start = restored or RestorePoint()
        """What an attempt continues from as long as the job has no checkpoint of its own."""
        self.latest_checkpoint = self.start
        """What the next attempt continues from."""
        self.has_stopped = False
        """That is the savepoint with which it was to end, and not one of its checkpoints."""
        self.completed = CompletedCheckpoints()
        """Which checkpoints its functions and sinks may have been told of."""
        self.doubts_checkpoints = False
        """An attempt could not be restored because a file of one was damaged: before the next one
        begins all are read."""
        self._finished_results: dict[SubtaskKey, dict[str, Any]] = {}
        self.recovery = Recovery(config.restart_slots_timeout_ms / 1000)
        """What is to begin again, and how far that is."""
        self.backoff = RestartBackoff(submission.shape.restart)
        self.state_since: dict[JobState, float] = {}
        """When it came to each state that it has been in, for the last time."""
        self._noted_state: JobState | None = None
        self._config = config
        self._attempts: list[AttemptRecord] = []
        self._least_number = 0

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
        if self.recovery.is_cancelled:
            return JobState.CANCELED
        if self.is_queued:
            return self.execution.state
        waits = self.recovery.scope is Scope.JOB or self.execution.failover.given_up
        return JobState.RESTARTING if waits else self.execution.state

    @property
    def is_queued(self) -> bool:
        """Whether its first attempt waits for slots; until then ``present`` is one that has its
        subtasks nowhere."""
        return self.recovery.state is RecoveryState.QUEUED

    @property
    def ended_at(self) -> float | None:
        """When the job has ended; None if it has not."""
        return self.recovery.ended_at

    @property
    def restored_ms(self) -> int:
        """When the present attempt began to continue from a checkpoint, in milliseconds since 1970;
        -1 if it did not."""
        present = self.present
        return self.wall_ms(present.begun_at) if present.restored_from else -1

    def wall_ms(self, at: float) -> int:
        """A time of the coordinator's clock in milliseconds since 1970."""
        return self._wall.ms(at)

    def note_state(self, now: float) -> None:
        """Remember since when the job is in its present state; call after each change."""
        state = self.state
        if state is not self._noted_state:
            self._noted_state = state
            self.state_since[state] = now

    def attempt(self, number: int) -> AttemptRecord | None:
        """One attempt, or None if it is forgotten or never was."""
        return next((one for one in reversed(self._attempts) if one.has(number)), None)

    @property
    def next_number(self) -> int:
        """The number of the next attempt, or of the next restart of regions."""
        return max(self._least_number, self.present.last_number + 1 if self._attempts else 0)

    def number_from(self, number: int) -> None:
        """Earlier numbers are taken: by the coordinator before this one, that has come no further
        than to claim the checkpoints."""
        self._least_number = number

    def queue(self, now: float) -> AttemptRecord:
        """Have the first attempt wait for slots, for as long as the submission says."""
        shape = self.submission.shape
        keys = [(one.id, index) for one in shape.vertices for index in range(one.parallelism)]
        placement = Placement.of_assignment(shape, self.job_id, -1, {NOWHERE: keys})
        self.recovery.queue(now, self.submission.wait_for_slots_ms / 1000)
        self._attempts.append(
            AttemptRecord(self._execution(-1, placement), placement, now, None, *self.start)
        )
        self.note_state(now)
        return self.present

    def begin_attempt(self, workers: Sequence[WorkerRecord], now: float) -> AttemptRecord:
        """Make the next attempt, on the free slots of these workers; its execution is not started.

        Raises InsufficientSlotsError, and LocalProtocolError if the job or the present attempt does
        not allow another one.
        """
        if self.ended_at is not None:
            raise LocalProtocolError(f"job {self.job_id} has ended")
        is_queued = self.is_queued
        if self._attempts and not (is_queued or self.execution.state.is_terminal):
            raise LocalProtocolError(f"job {self.job_id} is still at attempt {self.present.number}")
        number = self.next_number
        placement = Placement.of_job(self.submission.shape, self.job_id, number, workers)
        execution = self._execution(number, placement)
        self.recovery.begin()
        if is_queued:
            self._attempts.clear()
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
        del self._attempts[: -1 - self._config.attempts_retained]
        return self.present

    def restart_regions(self, workers: Sequence[WorkerRecord], now: float) -> Commands:
        """Have the regions that were given up begin again; InsufficientSlotsError if they do not
        fit the free slots."""
        present, failover = self.present, self.execution.failover
        regions = frozenset(failover.given_up)
        moved = frozenset(failover.subtasks_of(regions))
        states = self.execution.subtask_states()
        number = self.next_number
        placement = present.placement.redeployed(
            self.submission.shape,
            self.job_id,
            number,
            workers,
            moved,
            [key for key, state in states.items() if state.is_pending and key not in moved],
        )
        self.keep_results()
        self.recovery.begin()
        restart = RegionRestart(number, moved, now, self.latest_checkpoint)
        present.restart(restart, placement)
        self.checkpoints.restart(moved, restart.restored.finished)
        return self.execution.redeploy(regions, number, placement.assignment(number))

    def resume(
        self,
        number: int,
        placement: Placement,
        lost: FailureCause,
        *,
        begun_at: float,
        restored: RestorePoint,
    ) -> AttemptRecord:
        """Make the last attempt of a coordinator that has ended, instead of a first one; ``lost``
        says how it has, and the execution is to be resumed."""
        self.recovery.resume()
        execution = self._execution(number, placement)
        self._attempts.append(
            AttemptRecord(execution, placement, begun_at, None, *restored, lost=lost)
        )
        return self.present

    def resume_execution(self, state: JobState, cause: FailureCause | None, now: float) -> Commands:
        """Let the execution of that attempt go on from where it had come to; if it had failed, the
        next one is to begin."""
        lost = self.present.lost
        assert lost is not None, "the job is resumed"
        commands = self.execution.resume(state, cause, lost, now)
        if state.is_terminal:
            self.present.end(now if self.ended_at is None else self.ended_at)
            self._tell_savepoints()
            if self.ended_at is None:
                self.recovery.fail(now)
        return commands

    def remember_results(self, results: Mapping[SubtaskKey, dict[str, Any]]) -> None:
        """What finished subtasks have made, in this attempt or one before it."""
        self._finished_results.update(results)

    def _execution(self, number: int, placement: Placement) -> JobExecution:
        config = self._config
        return JobExecution(
            self.job_id,
            number,
            self.regions,
            placement.assignment(),
            cause_grace_s=config.cause_grace_ms / 1000,
            cancel_timeout_s=config.cancel_timeout_ms / 1000,
            commit_timeout_s=config.commit_timeout_ms / 1000 if self.submission.commits else None,
            by_region=config.failover_strategy == "region" and self._has_failover_by_region,
        )

    @property
    def _has_failover_by_region(self) -> bool:
        """Without checkpoints, what two-phase sinks have prepared is an attempt's as a whole."""
        return self.submission.shape.checkpointing is not None or not self.submission.commits

    @property
    def is_resumed(self) -> bool:
        """Whether its present attempt is one of the coordinator before this one."""
        return self.present.lost is not None

    @property
    def may_have_checkpoint(self) -> bool:
        """Whether a checkpoint is to be sought before anything begins again: the job has one, or
        the coordinator before this one may have completed one without writing it down."""
        may_have = self.is_resumed and self.submission.shape.checkpointing is not None
        return not self.has_stopped and bool(self.latest_checkpoint.directory or may_have)

    def continue_from(self, point: RestorePoint, *, is_savepoint: bool = False) -> None:
        """The job has completed a checkpoint, or the savepoint with which it is to end: the next
        attempt, if there is one, continues from that."""
        self.latest_checkpoint = point
        self.has_stopped = is_savepoint
        self.doubts_checkpoints = False
        directory = CheckpointDirectory.parse(point.directory.rpartition("/")[2])
        if directory is not None:
            self.completed.note(directory.checkpoint_id)

    def take_found(
        self, found: RestorePoint | None, failure: str | None, now: float, damage: str = ""
    ) -> None:
        """Take the answer to the search that is under way, and continue from the newest checkpoint
        that can be restored, or from the start if there is none. ``failure`` says why the search
        has failed, ``damage`` why later checkpoints cannot be used. Nothing happens if the job
        waits for no answer."""
        match self.recovery.state:
            case RecoveryState.SEEKING:
                answer = Answer(failure) if failure is not None else self._judge(found, damage)
                self.recovery.answered(answer, now)
            case RecoveryState.SEEKING_IN_VAIN:
                self.recovery.answered(Answer(failure), now)

    def _judge(self, found: RestorePoint | None, damage: str) -> Answer:
        """Decide whether what begins again may continue from there."""
        point = found or self.start
        directory = CheckpointDirectory.parse(point.directory)
        number = None if directory is None else directory.checkpoint_id
        settings, outputs = self.submission.shape.checkpointing, self._outputs_again()
        may_repeat = settings is not None and settings.allow_repeated_output
        known = self.completed
        newest = known.newest
        choice = continuation(newest, number, outputs, may_repeat=may_repeat)
        if choice is Continuation.LOST:
            return Answer(
                f"the job had completed checkpoint {newest} and cannot go on without it, nor "
                f"begins again from its start: {damage}; bring the directory back (is it "
                "mounted?) or submit the job anew"
            )
        if choice is Continuation.REFUSED:
            return Answer(refusal(newest, point.directory, outputs, damage), is_final=True)
        self.latest_checkpoint = point
        if number is None:
            return Answer()
        self.checkpoints.number_after(max(number, newest))
        if choice.goes_back:
            all_of_it = self.recovery.scope is Scope.JOB
            known.go_back(number, self.checkpoints.next_id, all_of_it=all_of_it)
            log.warning(
                'job "%s" goes on from %s, although it had completed checkpoint %d: %s%s%s',
                self.submission.name,
                point.directory,
                newest,
                choice.value,
                damage and ": ",
                damage,
            )
        else:
            known.note(number)
        return Answer()

    def _outputs_again(self) -> list[CheckpointedOutput]:
        """Return the outputs in the regions that begin again that hear of checkpoints."""
        outputs = list(self.submission.outputs)
        if self.recovery.scope is Scope.JOB:
            return outputs
        failover = self.execution.failover
        vertices = {vertex for vertex, _ in failover.subtasks_of(failover.given_up)}
        return [one for one in outputs if one.vertex in vertices]

    def attempt_ended(self, now: float, *, may_restart: bool) -> None:
        """The execution of the present attempt has come to its end: the job ends with it, unless it
        has failed and the restart strategy wants another one. ``may_restart``: whether the
        coordinator goes on."""
        self.keep_results()
        self.present.end(now)
        self._tell_savepoints()
        may_restart = may_restart and self.execution.state is JobState.FAILED
        at = self._restart_at(now) if may_restart else None
        if at is None:
            self.end(now)
        else:
            self.recovery.fail(at)

    def _restart_at(self, now: float) -> float | None:
        """Return when the attempt after the present one may begin, None for never."""
        if self.recovery.state in (RecoveryState.GIVING_UP, RecoveryState.QUEUED):
            return None
        cause, lost = self.execution.cause, self.present.lost
        is_lost = lost is not None and cause is lost
        if is_lost and self.submission.shape.checkpointing is not None:
            return now
        return self._restart_after(cause, now)

    def regions_failed(self, failure: RegionFailure, now: float) -> bool:
        """Some regions of the present attempt have failed: whether they are to begin again. The
        attempt fails as a whole if the job is about to end with a savepoint, and the job if it may
        not be restarted any more."""
        if self.checkpoints.is_stopping:
            return False
        at = self._restart_after(failure.cause, now)
        if at is None:
            self.recovery.give_up()
            return False
        failures = self.present.failures
        failures.append(failure)
        del failures[: -self._config.attempts_retained - 1]
        self.recovery.fail_regions(at)
        return True

    def _restart_after(self, cause: FailureCause | None, now: float) -> float | None:
        has_checkpoints = self.submission.shape.checkpointing is not None
        if cause is not None and cause.is_drain and has_checkpoints:
            return now
        is_damage = cause is not None and self.may_have_checkpoint and cause.error_type in _DAMAGE
        if is_damage and not self.doubts_checkpoints:
            # Had the files been read before, nothing would have begun.
            self.doubts_checkpoints = True
            return now
        if self.present.last_number == 0 and cause is not None and cause.cannot_work:
            return None
        return self.backoff.failed(now)

    @property
    def phase(self) -> tuple[object, ...]:
        """What changes when a successor of this coordinator must know more than it knew."""
        state = self.execution.state
        if state is JobState.RUNNING:
            state = JobState.DEPLOYING
        has_checkpoint = self.latest_checkpoint is not self.start
        return (
            self.present.last_number,
            state,
            self.ended_at,
            has_checkpoint,
            self.has_stopped,
            # What they are told of, the next coordinator must not go back behind in silence.
            self.completed.newest if self.submission.outputs else 0,
            # Clients ask the next coordinator what has become of these.
            *(request.progress for request in self.savepoints.values()),
        )

    def _tell_savepoints(self) -> None:
        """Say how the attempt has ended to the requests for savepoints that wait for that."""
        state, cause = self.execution.state, self.execution.cause
        how = state.value if cause is None else cause.describe()
        for request in self.savepoints.values():
            request.job_ended(finished=state is JobState.FINISHED, how=how)

    def savepoint(self, request_id: str) -> SavepointRequest | None:
        """Return the request of this id, or None."""
        of_this_id = (one for one in self.savepoints.values() if one.request_id == request_id)
        return next(of_this_id, None)

    def end(self, now: float, *, cancelled: bool = False) -> None:
        """No attempt follows the present one, which was not what ``cancelled`` the job."""
        self.recovery.end(now, cancelled=cancelled)
        self.note_state(now)
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


def _checkpoint_coordinator(
    shape: JobGraph, wall: WallClock, first_id: int
) -> CheckpointCoordinator:
    inputs: dict[int, list[int]] = {vertex.id: [] for vertex in shape.vertices}
    for edge in shape.edges:
        inputs[edge.target].append(edge.source)
    settings = shape.checkpointing
    if settings is not None:
        return CheckpointCoordinator(settings, inputs, wall_ms=wall.ms, first_id=first_id)
    defaults = JobCheckpointingConfig(interval_ms=1000.0)
    return CheckpointCoordinator(
        defaults, inputs, wall_ms=wall.ms, first_id=first_id, periodic=False
    )
