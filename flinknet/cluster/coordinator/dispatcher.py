"""The coordinator's mind: workers, jobs and what happens between them; no I/O and no clock.

Theory of operation
-------------------
Everything that the coordinator learns comes in through a method, with ``now``; everything that it
wants workers to do goes out through ``send``; ``deadline`` says when it wants ``tick`` called. So
one small object holds the control plane's state, and tests (or a simulation) drive it without a
process.

- ``WorkerRegistry`` knows who is there; ``JobExecution`` (one per job attempt) knows how a job
  stands.
- A job is refused unless it fits the free slots, or those that are on their way back: of jobs that
  are ending, which takes no longer than their time-outs. For these the caller waits
  (``may_fit_soon``); there is no queue. The slots stay occupied on a worker until it has released
  the job.
- Messages of a job or attempt that is not known here are dropped: they are late, not wrong.
- Of an ended job only the story is kept, and that only until ``jobs_retained`` more have ended.

Flink: Dispatcher, JobMaster and the ResourceManager's slot bookkeeping, of which one machine needs
less.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable
from typing import Any

from flinknet.cluster.control.failure import FailureCause
from flinknet.cluster.control.job_state import JobState
from flinknet.cluster.control.messages import (
    Failed,
    Heartbeat,
    Message,
    Opened,
    Progress,
    Register,
    Released,
    Settled,
)
from flinknet.cluster.control.submission import Submission
from flinknet.cluster.control.subtask_result import check_collected_bytes
from flinknet.cluster.coordinator.job_execution import Commands, JobExecution, SubtaskKey
from flinknet.cluster.coordinator.job_record import JobRecord
from flinknet.cluster.coordinator.placement import Placement
from flinknet.cluster.coordinator.worker_registry import WorkerRecord, WorkerRegistry
from flinknet.config import ClusterConfig
from flinknet.errors import InsufficientSlotsError, RemoteProtocolError

__all__ = ["Dispatcher"]

Send = Callable[[str, Message], None]
"""(worker id, message); a worker that is gone is the sender's matter."""


class Dispatcher:
    """Registers workers, runs jobs on them, and knows how each of both stands."""

    def __init__(self, config: ClusterConfig, *, now: float, send: Send) -> None:
        self._config = config
        self._send = send
        self.workers = WorkerRegistry(
            now=now,
            heartbeat_interval_s=config.heartbeat_interval_ms / 1000,
            heartbeat_timeout_s=config.heartbeat_timeout_ms / 1000,
        )
        self._jobs: dict[str, JobRecord] = {}

    # -- jobs, as clients see them

    def jobs(self) -> tuple[JobRecord, ...]:
        """Every job that is not forgotten, oldest first."""
        return tuple(self._jobs.values())

    def job(self, job_id: str) -> JobRecord | None:
        """One job, or None."""
        return self._jobs.get(job_id)

    def submit(self, submission: Submission, now: float) -> JobRecord:
        """Start a job; InsufficientSlotsError if it does not fit the free slots."""
        job_id = uuid.uuid4().hex
        attempt = 0
        try:
            placement = Placement.of_job(
                submission.shape, job_id, attempt, self.workers.registered()
            )
        except InsufficientSlotsError as error:
            raise InsufficientSlotsError(f"{error}{self._slots_missing()}") from error
        execution = JobExecution(
            job_id,
            attempt,
            {
                worker_id: [(descriptor.vertex, descriptor.index) for descriptor in descriptors]
                for worker_id, descriptors in placement.subtasks.items()
            },
            cause_grace_s=self._config.cause_grace_ms / 1000,
            cancel_timeout_s=self._config.cancel_timeout_ms / 1000,
            commit_timeout_s=self._config.commit_timeout_ms / 1000 if submission.commits else None,
        )
        for worker_id, slots in placement.slots.items():
            self.workers.occupy(worker_id, job_id, slots)
        record = JobRecord(job_id, submission, placement.subtasks, execution, submitted_at=now)
        self._jobs[job_id] = record
        self._forget_oldest()
        self._carry_out(record, execution.start(), now)
        return record

    def may_fit_soon(self, submission: Submission) -> bool:
        """Whether the job does not fit the free slots, but those as well that are on their way
        back."""
        returning: Counter[str] = Counter()
        for record in self.jobs():
            if record.execution.is_ending:
                for worker_id in record.execution.holders:
                    returning[worker_id] += self.workers.slots_of(worker_id, record.job_id)
        return (
            bool(returning)
            and not self._fits(submission, Counter())
            and (self._fits(submission, returning))
        )

    def _fits(self, submission: Submission, returning: Counter[str]) -> bool:
        free = sum(
            worker.free_slots + returning[worker.worker_id] for worker in self.workers.registered()
        )
        return submission.shape.slots_required() <= free

    def _slots_missing(self) -> str:
        """What to say of slots that jobs hold which have ended, and of lost workers."""
        losses = [worker.loss for worker in self.workers.workers() if worker.loss is not None]
        reasons = [
            f'worker {worker_id} holds slots of job "{record.submission.name}", which has ended, '
            "because a function of it has not returned"
            for record in self.jobs()
            if record.ended_at is not None
            for worker_id in record.execution.holders
        ]
        reasons += [loss.describe() for loss in losses]
        return "".join(f"; {reason}" for reason in reasons)

    def cancel(self, record: JobRecord, now: float) -> None:
        """Stop a job on request; nothing happens to one that has ended or is ending."""
        self._carry_out(record, record.execution.cancel(now), now)

    def stop(self, cause: FailureCause, now: float) -> None:
        """The coordinator ends, which is the cause of all that this breaks."""
        for record in self.jobs():
            self._carry_out(record, record.execution.coordinator_stops(cause, now), now)

    def take_result(
        self, record: JobRecord, subtask: SubtaskKey, result: dict[str, Any], now: float
    ) -> None:
        """A subtask has finished with ``result``; JobError if the job collects too many bytes."""
        check_collected_bytes(
            record.collected_bytes() + len(result["collected"]), self._config.collect_bytes_max
        )
        record.note_result(subtask, result)
        self._carry_out(record, record.execution.finished(subtask, now), now)

    # -- workers, as their connections and the launcher see them

    def register(self, message: Register, now: float) -> WorkerRecord:
        """A worker joins; ConfigurationError says why it must not."""
        return self.workers.register(message, now)

    def receive(self, worker_id: str, message: Message, now: float) -> None:
        """A registered worker said something; RemoteProtocolError if it must not say that."""
        self.workers.heard(worker_id, now)
        match message:
            case Heartbeat():
                self._send(worker_id, message)
            case Progress() | Opened() | Failed() | Released() | Settled():
                record = self._jobs.get(message.job_id)
                if record is not None and record.execution.attempt == message.attempt:
                    commands = self._apply(record, worker_id, message, now)
                    self._carry_out(record, commands, now)
            case _:
                raise RemoteProtocolError(
                    f"worker {worker_id} sent {type(message).__name__}, which it must not"
                )

    def connection_closed(self, worker_id: str, now: float) -> None:
        """The control connection of a worker is gone."""
        self._lose(self.workers.connection_closed(worker_id), now)

    def worker_exited(self, worker_id: str, how: str, now: float) -> None:
        """The launcher saw the worker's process end."""
        self._lose(self.workers.exited(worker_id, how), now)

    # -- time

    @property
    def deadline(self) -> float:
        """When ``tick`` must be called at the latest."""
        deadlines = [record.execution.deadline for record in self._jobs.values()]
        return min([self.workers.next_tick, *(time for time in deadlines if time is not None)])

    def tick(self, now: float) -> None:
        """Act on what time has brought."""
        if now >= self.workers.next_tick:
            for cause in self.workers.tick(now):
                self._lose(cause, now)
        for record in self.jobs():
            self._carry_out(record, record.execution.tick(now), now)

    def _apply(
        self,
        record: JobRecord,
        worker_id: str,
        message: Progress | Opened | Failed | Released | Settled,
        now: float,
    ) -> Commands:
        execution = record.execution
        match message:
            case Progress():
                try:
                    record.note_progress(message.rows)
                except (TypeError, ValueError) as error:
                    raise RemoteProtocolError(f"malformed Progress message: {error}") from error
            case Opened():
                return execution.opened(worker_id)
            case Failed(vertex=-1):
                return execution.open_failed(worker_id, _cause_of(message), now)
            case Failed():
                subtask = (message.vertex, message.index)
                if execution.worker_of(subtask) != worker_id:
                    raise RemoteProtocolError(f"worker {worker_id} does not run subtask {subtask}")
                return execution.failed(subtask, _cause_of(message), now)
            case Released():
                self.workers.release(worker_id, record.job_id)
                return execution.released(worker_id, now)
            case Settled():
                cause = _cause_of(message) if message.cause else None
                return execution.settled(worker_id, cause, now)
        return []

    def _lose(self, cause: FailureCause | None, now: float) -> None:
        if cause is None:
            return
        for record in self.jobs():
            if cause.worker_id in record.execution.workers:
                self._carry_out(record, record.execution.worker_lost(cause, now), now)

    def _carry_out(self, record: JobRecord, commands: Commands, now: float) -> None:
        state = record.execution.state
        if record.ended_at is None and state.is_terminal:
            record.ended_at = now
            record.submission = record.submission.without_graph()
            record.committables.clear()
            if state is not JobState.FINISHED:
                record.forget_collected()
        for worker_id, message in commands:
            self._send(worker_id, message)

    def _forget_oldest(self) -> None:
        ended = [record for record in self.jobs() if record.ended_at is not None]
        for record in ended[: max(0, len(ended) - self._config.jobs_retained)]:
            del self._jobs[record.job_id]


def _cause_of(message: Failed | Settled) -> FailureCause:
    try:
        return FailureCause.from_dict(message.cause)
    except (KeyError, TypeError) as error:
        raise RemoteProtocolError(f"malformed {type(message).__name__} message: {error}") from error
