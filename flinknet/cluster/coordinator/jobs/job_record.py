"""The coordinator's record of one job, from its submission until it is forgotten.

Theory of operation
-------------------
A job runs in *attempts*, numbered from 0, one at a time. ``begin_attempt`` creates the next one
when the present one has ended. The last attempt represents the job. Earlier ones are kept for
display, at most ``attempts_retained`` of them. After a failed attempt the restart strategy decides
when the next one starts, or the job ends. ``recovery`` (``recovery.py``) has the state between two
attempts. Only this record and its dispatcher send events to it, and no other module writes an
attribute of this record.

The job of an ended coordinator is ``resumed`` with its last attempt. If that attempt was lost with
the coordinator, a job with checkpoints always gets another one, as in Flink, since a restart
strategy is about failures of the job. A job without checkpoints would start from the beginning,
which the strategy must allow. Both rules also apply to a job that leaves a draining worker.
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
"""Errors of an attempt that could not restore its checkpoint."""

SAVEPOINTS_RETAINED = 100
"""Number of savepoint requests that are kept, so that clients can ask for the outcome."""


class JobRecord:
    """One job. Times are seconds of the coordinator's clock."""

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
        """Create a job without an attempt; the first one will continue from ``restored``.

        ``wall`` converts to the time of day. Checkpoints are numbered from ``first_checkpoint``.
        """
        self._wall = wall or WallClock()
        self.job_id = job_id
        self.submission = submission
        self.submitted_at = submitted_at
        self.regions = pipelined_regions(submission.shape)
        """The groups of subtasks that must run together. Every attempt runs all of them."""
        self.checkpoints = _checkpoint_coordinator(submission.shape, self._wall, first_checkpoint)
        """The coordinator of its checkpoints and savepoints. Every job may have savepoints."""
        self.savepoints: dict[int, SavepointRequest] = {}
        """Savepoint requests, by checkpoint number."""
        self.start = restored or RestorePoint()
        """The restore point of attempts until the job has a checkpoint of its own."""
        self.latest_checkpoint = self.start
        """The restore point of the next attempt."""
        self.has_stopped = False
        """Whether ``latest_checkpoint`` is the savepoint with which the job was to end."""
        self.completed = CompletedCheckpoints()
        """The checkpoints that functions and sinks may have been notified of."""
        self.doubts_checkpoints = False
        """Whether an attempt failed to restore because a checkpoint file was damaged. All files are
        then read before the next attempt starts."""
        self._finished_results: dict[SubtaskKey, dict[str, Any]] = {}
        """Results of finished subtasks, for a later attempt that continues after them."""
        self.recovery = Recovery(config.restart_slots_timeout_ms / 1000)
        """State of the pending start or restart."""
        self.backoff = RestartBackoff(submission.shape.restart)
        self.state_since: dict[JobState, float] = {}
        """Time at which the job last entered each state."""
        self._noted_state: JobState | None = None
        self._config = config
        self._attempts: list[AttemptRecord] = []
        self._least_number = 0
        """Least number that the next attempt may have (``number_from``)."""

    @property
    def attempts(self) -> tuple[AttemptRecord, ...]:
        """The attempts that are not forgotten, oldest first."""
        return tuple(self._attempts)

    @property
    def present(self) -> AttemptRecord:
        """The last attempt, which represents the job."""
        return self._attempts[-1]

    @property
    def execution(self) -> JobExecution:
        """The execution of the present attempt."""
        return self.present.execution

    @property
    def state(self) -> JobState:
        """The state of the job: of its present attempt, or between two attempts."""
        if self.recovery.is_cancelled:
            return JobState.CANCELED
        if self.is_queued:
            return self.execution.state
        waits = self.recovery.scope is Scope.JOB or self.execution.failover.given_up
        return JobState.RESTARTING if waits else self.execution.state

    @property
    def is_queued(self) -> bool:
        """Whether the first attempt waits for slots.

        Until it starts, ``present`` is a placeholder with all subtasks NOWHERE.
        """
        return self.recovery.state is RecoveryState.QUEUED

    @property
    def ended_at(self) -> float | None:
        """Time at which the job ended; None if it has not."""
        return self.recovery.ended_at

    @property
    def restored_ms(self) -> int:
        """Time at which the present attempt restored a checkpoint, in milliseconds since 1970.

        -1 if the attempt restored none.
        """
        present = self.present
        return self.wall_ms(present.begun_at) if present.restored_from else -1

    def wall_ms(self, at: float) -> int:
        """Convert a time of the coordinator's clock to milliseconds since 1970."""
        return self._wall.ms(at)

    def note_state(self, now: float) -> None:
        """Record the time at which the job entered its present state; call after each change."""
        state = self.state
        if state is not self._noted_state:
            self._noted_state = state
            self.state_since[state] = now

    def attempt(self, number: int) -> AttemptRecord | None:
        """Return the attempt with this number, or None if it is forgotten or never existed."""
        return next((one for one in reversed(self._attempts) if one.has(number)), None)

    @property
    def next_number(self) -> int:
        """The number of the next attempt, or of the next restart of regions."""
        return max(self._least_number, self.present.last_number + 1 if self._attempts else 0)

    def number_from(self, number: int) -> None:
        """Exclude all numbers below ``number`` from use.

        The previous coordinator may have claimed the checkpoints for a number and ended before it
        started that attempt.
        """
        self._least_number = number

    def queue(self, now: float) -> AttemptRecord:
        """Let the first attempt wait for slots, for as long as the submission says."""
        shape = self.submission.shape
        keys = [(one.id, index) for one in shape.vertices for index in range(one.parallelism)]
        # The placeholder has number -1, so that the first attempt has number 0.
        placement = Placement.of_assignment(shape, self.job_id, -1, {NOWHERE: keys})
        self.recovery.queue(now, self.submission.wait_for_slots_ms / 1000)
        self._attempts.append(
            AttemptRecord(self._execution(-1, placement), placement, now, None, *self.start)
        )
        self.note_state(now)
        return self.present

    def begin_attempt(self, workers: Sequence[WorkerRecord], now: float) -> AttemptRecord:
        """Create the next attempt on free slots of these workers, without starting its execution.

        Raises InsufficientSlotsError if the job does not fit, and LocalProtocolError if the job or
        its present attempt does not allow another attempt.
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
        """Restart the regions that were given up.

        Raises InsufficientSlotsError if they do not fit the free slots.
        """
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
        """Create the last attempt of an ended coordinator, instead of a first one.

        ``lost`` describes the end of that coordinator. The execution is still to be resumed.
        """
        self.recovery.resume()
        execution = self._execution(number, placement)
        self._attempts.append(
            AttemptRecord(execution, placement, begun_at, None, *restored, lost=lost)
        )
        return self.present

    def resume_execution(self, state: JobState, cause: FailureCause | None, now: float) -> Commands:
        """Resume the execution of that attempt from its last known state.

        If the attempt had failed, the next one is scheduled.
        """
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
        """Keep the results of subtasks that finished in this attempt or in an earlier one."""
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
        """Whether regions of the job may fail alone.

        Without checkpoints, output that two-phase sinks have prepared belongs to the attempt as a
        whole.
        """
        return self.submission.shape.checkpointing is not None or not self.submission.commits

    @property
    def is_resumed(self) -> bool:
        """Whether the present attempt was started by the previous coordinator."""
        return self.present.lost is not None

    @property
    def may_have_checkpoint(self) -> bool:
        """Whether a checkpoint must be sought before a restart.

        It must if the job has one, or if the previous coordinator may have completed one without
        recording it. It need not after the savepoint with which the job was to end.
        """
        may_have = self.is_resumed and self.submission.shape.checkpointing is not None
        return not self.has_stopped and bool(self.latest_checkpoint.directory or may_have)

    def continue_from(self, point: RestorePoint, *, is_savepoint: bool = False) -> None:
        """Note a completed checkpoint, or the savepoint with which the job is to end.

        The next attempt, if there is one, continues from it.
        """
        self.latest_checkpoint = point
        self.has_stopped = is_savepoint
        self.doubts_checkpoints = False
        directory = CheckpointDirectory.parse(point.directory.rpartition("/")[2])
        if directory is not None:
            self.completed.note(directory.checkpoint_id)

    def take_found(
        self, found: RestorePoint | None, failure: str | None, now: float, damage: str = ""
    ) -> None:
        """Take the answer to the pending search, and do nothing if no search is pending.

        The job continues from the newest checkpoint that can be restored, or from its start if
        there is none. ``failure`` is the reason if the search failed, ``damage`` the reason why
        later checkpoints cannot be used.
        """
        match self.recovery.state:
            case RecoveryState.SEEKING:
                answer = Answer(failure) if failure is not None else self._judge(found, damage)
                self.recovery.answered(answer, now)
            case RecoveryState.SEEKING_IN_VAIN:
                self.recovery.answered(Answer(failure), now)

    def _judge(self, found: RestorePoint | None, damage: str) -> Answer:
        """Decide whether the pending restart may continue from the checkpoint that was found."""
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
                f"the job had completed checkpoint {newest} and cannot continue without it, and "
                f"does not restart from its start: {damage}; bring the directory back (is it "
                "mounted?) or submit the job again"
            )
        if choice is Continuation.REFUSED:
            return Answer(refusal(newest, point.directory, outputs, damage), is_final=True)
        self.latest_checkpoint = point
        if number is None:
            return Answer()
        # Checkpoint numbers are never reused (``going_back.py``).
        self.checkpoints.number_after(max(number, newest))
        if choice.goes_back:
            all_of_it = self.recovery.scope is Scope.JOB
            known.go_back(number, self.checkpoints.next_id, all_of_it=all_of_it)
            log.warning(
                'job "%s" continues from %s, although it had completed checkpoint %d: %s%s%s',
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
        """Return the outputs that hear of checkpoints, in the regions that restart."""
        outputs = list(self.submission.outputs)
        if self.recovery.scope is Scope.JOB:
            return outputs
        failover = self.execution.failover
        vertices = {vertex for vertex, _ in failover.subtasks_of(failover.given_up)}
        return [one for one in outputs if one.vertex in vertices]

    def attempt_ended(self, now: float, *, may_restart: bool) -> None:
        """Handle the end of the present attempt.

        The job ends with it, unless the attempt has failed and the restart strategy allows another
        one. ``may_restart`` is False while the coordinator shuts down.
        """
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
        """Return when the next attempt may start, or None for no restart."""
        if self.recovery.state in (RecoveryState.GIVING_UP, RecoveryState.QUEUED):
            return None
        cause, lost = self.execution.cause, self.present.lost
        is_lost = lost is not None and cause is lost
        # The restart strategy is about failures of the job, not of the coordinator (as in Flink).
        if is_lost and self.submission.shape.checkpointing is not None:
            return now
        return self._restart_after(cause, now)

    def regions_failed(self, failure: RegionFailure, now: float) -> bool:
        """Handle a failure of some regions; return whether they will restart.

        If the job is about to end with a savepoint, the attempt fails as a whole. If no restart is
        allowed, the job fails.
        """
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
        # Nothing has failed, so the restart strategy is not asked.
        if cause is not None and cause.is_drain and has_checkpoints:
            return now
        is_damage = cause is not None and self.may_have_checkpoint and cause.error_type in _DAMAGE
        if is_damage and not self.doubts_checkpoints:
            # A full read of the checkpoint's files would have found the damage before the attempt
            # started. So the restart is immediate and does not count as one of the strategy.
            self.doubts_checkpoints = True
            return now
        # A job that has never run fails again with the same program and settings.
        if self.present.last_number == 0 and cause is not None and cause.cannot_work:
            return None
        return self.backoff.failed(now)

    @property
    def phase(self) -> tuple[object, ...]:
        """A value that changes whenever the record must be persisted for a successor."""
        state = self.execution.state
        # A successor treats an attempt that runs like one that deploys: both have failed.
        if state is JobState.RUNNING:
            state = JobState.DEPLOYING
        has_checkpoint = self.latest_checkpoint is not self.start
        return (
            self.present.last_number,
            state,
            self.ended_at,
            has_checkpoint,
            self.has_stopped,
            # The next coordinator must not silently go back behind a checkpoint that outputs were
            # notified of.
            self.completed.newest if self.submission.outputs else 0,
            # Clients ask the next coordinator for the outcome of these requests.
            *(request.progress for request in self.savepoints.values()),
        )

    def _tell_savepoints(self) -> None:
        """Tell pending savepoint requests how the attempt has ended."""
        state, cause = self.execution.state, self.execution.cause
        how = state.value if cause is None else cause.describe()
        for request in self.savepoints.values():
            request.job_ended(finished=state is JobState.FINISHED, how=how)

    def savepoint(self, request_id: str) -> SavepointRequest | None:
        """Return the request of this id, or None."""
        of_this_id = (one for one in self.savepoints.values() if one.request_id == request_id)
        return next(of_this_id, None)

    def end(self, now: float, *, cancelled: bool = False) -> None:
        """End the job after its present attempt.

        ``cancelled`` means that a client ended it between two attempts.
        """
        self.recovery.end(now, cancelled=cancelled)
        self.note_state(now)
        # The job graph is not needed any more.
        self.submission = self.submission.without_graph()

    def keep_results(self) -> None:
        """Keep the results of finished subtasks, in case the next attempt continues after them."""
        if self.submission.shape.checkpointing is not None:
            for subtask, result in self.present.results.items():
                committables = self.present.committables.get(subtask, b"")
                self._finished_results[subtask] = {**result, "committables": committables}

    def result_before(self, subtask: SubtaskKey) -> dict[str, Any] | None:
        """Return the result of a subtask that had finished in an earlier attempt, or None."""
        if subtask not in self.present.restored_finished:
            return None
        result = self._finished_results.get(subtask)
        return None if result is None else dict(result)

    def note_savepoint(self, request: SavepointRequest) -> None:
        """Keep a request, and forget the oldest ones that are done."""
        self.savepoints[request.checkpoint_id] = request
        done = [number for number, one in self.savepoints.items() if one.is_done]
        for number in done[: max(0, len(self.savepoints) - SAVEPOINTS_RETAINED)]:
            del self.savepoints[number]

    def status(self, now: float) -> dict[str, Any]:
        """Return the status of the job with counters per vertex, as plain JSON types."""
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
    # For savepoints only: the interval has no effect with ``periodic=False``.
    defaults = JobCheckpointingConfig(interval_ms=1000.0)
    return CheckpointCoordinator(
        defaults, inputs, wall_ms=wall.ms, first_id=first_id, periodic=False
    )
