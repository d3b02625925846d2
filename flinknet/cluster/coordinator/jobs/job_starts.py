"""Starts jobs, and restarts them or their regions, when they are due and there are slots.

Theory of operation. A submission may ask to wait for slots. Such jobs start in the order of
submission, but a job that does not wait may overtake them. A job whose attempt has failed waits for
its backoff, for the search of its newest intact checkpoint (``seek``), and for slots
(``recovery.py``). If only some regions have failed, they restart as part of the same attempt, under
a new number, once the workers have released them (``region_failover.py``).

The number of an attempt is persisted before its deployment, because a successor of the coordinator
must not assign it again.

No I/O and no clock.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from flinknet import machine
from flinknet.cluster.control.failure import FailureCause
from flinknet.cluster.coordinator.jobs.attempt_record import AttemptRecord
from flinknet.cluster.coordinator.jobs.job_execution import Commands
from flinknet.cluster.coordinator.jobs.job_persistence import JobPersistence
from flinknet.cluster.coordinator.jobs.job_record import JobRecord
from flinknet.cluster.coordinator.jobs.job_slots import JobSlots
from flinknet.cluster.coordinator.jobs.order_executor import OrderExecutor
from flinknet.cluster.coordinator.jobs.recovery import RecoveryState, Scope
from flinknet.cluster.coordinator.workers.worker_registry import WorkerRegistry
from flinknet.errors import InsufficientSlotsError

__all__ = ["JobStarts", "Seek"]

Seek = Callable[[JobRecord], None]
"""Find the newest intact checkpoint of a job."""


class JobStarts:
    """The jobs that wait for their first attempt, or for the next one."""

    def __init__(
        self,
        jobs: Mapping[str, JobRecord],
        workers: WorkerRegistry,
        slots: JobSlots,
        executor: OrderExecutor,
        persistence: JobPersistence,
        seek: Seek,
        waiting_max: int,
    ) -> None:
        """``jobs`` has every job that is not forgotten, also later ones.

        At most ``waiting_max`` jobs wait for their first slots.
        """
        self._jobs = jobs
        self._workers = workers
        self._slots = slots
        self._executor = executor
        self._persistence = persistence
        self._seek = seek
        self._waiting_max = waiting_max

    def start(self, record: JobRecord, now: float) -> None:
        """Begin the first attempt of a new job, or let the job wait for slots if it may.

        Raises InsufficientSlotsError if the job does not fit the free slots and must not wait.
        """
        wait_ms = record.submission.wait_for_slots_ms
        # A job that may wait for slots does not overtake the jobs that wait already.
        if not (wait_ms and self._waiting()):
            try:
                self.begin_attempt(record, now)
            except InsufficientSlotsError:
                if not wait_ms:
                    raise
        if not record.attempts:
            self._queue(record, now)

    def _waiting(self) -> list[JobRecord]:
        return [record for record in self._jobs.values() if record.is_queued]

    def _queue(self, record: JobRecord, now: float) -> None:
        limit = self._waiting_max
        if len(self._waiting()) >= limit:
            raise InsufficientSlotsError(
                f'job "{record.submission.name}" cannot wait for slots: {limit} jobs wait already '
                "(cluster.jobs_waiting_max)"
            )
        record.queue(now)
        self._persistence.save(record)

    def begin_attempt(self, record: JobRecord, now: float) -> AttemptRecord:
        """Start the first attempt of a job, or the next one after the present attempt has ended.

        Raises InsufficientSlotsError if it does not fit the free slots, and LocalProtocolError if
        the job or its present attempt does not allow another attempt.
        """
        try:
            attempt = record.begin_attempt(self._workers.registered(), now)
        except InsufficientSlotsError as error:
            raise InsufficientSlotsError(f"{error}{self._slots.missing()}") from error
        self._slots.occupy(record, attempt)
        commands = attempt.execution.start()
        failure = self._persistence.save(record)
        if failure is not None:
            # No worker may run an attempt under a number that a successor might assign again.
            why = f"cannot store the start of attempt {attempt.number}: {failure}"
            cause = FailureCause.of_coordinator(machine.process_id(), why)
            commands = attempt.execution.fail(cause, now)
        self._executor.carry_out(record, attempt, commands, now)
        return attempt

    @property
    def waits_to_restart(self) -> bool:
        """Whether a job, or a part of one, is between two attempts.

        Such a job needs the slots of lost workers.
        """
        return any(record.recovery.scope is not None for record in self._jobs.values())

    def deadline(self, record: JobRecord) -> float | None:
        """Return the time of the next try to start the job, or None."""
        # The release is a message of a worker, which triggers the next try itself.
        return None if self._waits_for_release(record) else record.recovery.deadline

    def restart_due(self, now: float) -> None:
        """Start or restart all jobs and regions that are due, as far as there are slots."""
        lacks_slots = False
        for record in tuple(self._jobs.values()):
            recovery = record.recovery
            if record.is_queued:
                # Queued jobs start in the order of submission. A job past its time limit is
                # tried as well, so that it fails even behind another one.
                if not lacks_slots or now >= (recovery.deadline or now):
                    self._restart_job(record, now)
                lacks_slots = lacks_slots or record.is_queued
                continue
            # A job that was taken over does not restart before a worker has registered.
            if self._workers.registered():
                recovery.get_worker(now)
            if not recovery.is_due(now) or self._waits_for_release(record):
                continue
            if recovery.state is RecoveryState.BACKING_OFF and record.may_have_checkpoint:
                # The newest intact checkpoint must be known before the restart.
                recovery.seek()
                self._seek(record)
            elif recovery.scope is Scope.JOB:
                self._restart_job(record, now)
            else:
                self._restart_regions(record, now)

    def _restart_job(self, record: JobRecord, now: float) -> None:
        failure = record.recovery.answer.failure
        try:
            attempt = self.begin_attempt(record, now)
        except InsufficientSlotsError as error:
            # A lost worker may be replaced within ``restart_slots_timeout_ms``. The first heartbeat
            # of the new worker triggers another try.
            is_overdue = record.recovery.lack_slots(now)
            if is_overdue and record.is_queued:
                self._give_up_waiting(record, error, now)
            elif is_overdue:
                record.end(now)
                self._persistence.save(record)
            return
        if failure is not None:
            # The search for a checkpoint failed, so the attempt fails with that.
            cause = FailureCause.of_coordinator(machine.process_id(), failure)
            self._executor.fail(record, attempt, cause, now)

    def _give_up_waiting(
        self, record: JobRecord, error: InsufficientSlotsError, now: float
    ) -> None:
        waited_s = record.submission.wait_for_slots_ms / 1000
        why = f"it has waited for slots for {waited_s:g} s: {error}"
        cause = FailureCause.of_coordinator(machine.process_id(), why)
        self._executor.fail(record, record.present, cause, now)

    def _restart_regions(self, record: JobRecord, now: float) -> None:
        attempt, answer = record.present, record.recovery.answer
        commands: Commands = []
        why = answer.failure
        if answer.is_final:
            record.recovery.give_up()
        elif why is None:
            try:
                commands = record.restart_regions(self._workers.registered(), now)
            except InsufficientSlotsError as error:
                if not record.recovery.lack_slots(now):
                    return
                why = f"{error}{self._slots.missing()}"
            else:
                why = self._persistence.save(record)
        if why is not None:
            cause = FailureCause.of_coordinator(machine.process_id(), why)
            commands = attempt.execution.fail(cause, now)
        self._slots.occupy_again(record, attempt)
        self._executor.carry_out(record, attempt, commands, now)

    def _waits_for_release(self, record: JobRecord) -> bool:
        """Return whether subtasks of the regions to be restarted still run."""
        is_released = record.execution.failover.is_released
        return record.recovery.scope is Scope.REGIONS and not is_released
