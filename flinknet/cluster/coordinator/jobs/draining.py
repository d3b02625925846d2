"""Decides when jobs leave a draining worker, and when the worker may stop.

Theory of operation. A worker that drains receives no new subtasks. A job with checkpoints that runs
there takes a checkpoint at once, or as soon as its settings allow, and restarts from it on other
workers. If that checkpoint fails, the next one serves. The job is left alone while a part of it
starts, or while it ends with a savepoint. A job without checkpoints is left alone too, since it may
finish in the meantime. The worker may stop when no attempt occupies slots there and no sinks are
being committed. It waits at most ``drain_timeout_ms``.

No I/O and no clock.
"""

from __future__ import annotations

from collections.abc import Iterable

from flinknet.cluster.coordinator.jobs.job_record import JobRecord
from flinknet.cluster.coordinator.workers.worker_registry import WorkerRecord

__all__ = ["Draining"]


class Draining:
    """The jobs that leave draining workers."""

    def __init__(self) -> None:
        self._after: dict[str, tuple[int, int]] = {}
        """For each job: the attempt in which a checkpoint was requested, and the checkpoint's
        number."""

    def is_to_leave(self, record: JobRecord, worker: WorkerRecord) -> bool:
        """Return whether the job should restart without the worker now.

        The first call requests a checkpoint, and calls return False until that is complete.
        """
        execution, books = record.execution, record.checkpoints
        has_checkpoints = record.submission.shape.checkpointing is not None
        if not has_checkpoints or books.is_stopping or not books.is_running:
            return False
        if not (execution.all_run and execution.runs_on(worker.worker_id)):
            return False
        attempt, number = self._after.get(record.job_id, (-1, 0))
        if attempt != record.present.last_number:
            self._after[record.job_id] = record.present.last_number, books.next_id
            books.hasten()
            return False
        return books.latest is not None and books.latest.checkpoint_id >= number

    def forget(self, job_id: str) -> None:
        """Forget a job that the dispatcher has forgotten."""
        self._after.pop(job_id, None)

    def may_go(self, records: Iterable[JobRecord], worker: WorkerRecord) -> bool:
        """Return whether no job needs the worker any more."""
        is_needed = any(record.execution.is_settled_by(worker.worker_id) for record in records)
        return not (worker.occupied or is_needed)
