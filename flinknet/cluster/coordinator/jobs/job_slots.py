"""The slots of all workers, as jobs need them.

Theory of operation. An attempt occupies its slots on a worker until the worker has released it. A
caller may wait for a job if the slots of ending jobs, which end within their timeouts, would
suffice. Slots that a subtask holds longer than that are not counted, because its function may never
return.

Flink: the slot bookkeeping of the ResourceManager.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from flinknet.cluster.control.submission import Submission
from flinknet.cluster.coordinator.jobs.attempt_record import AttemptRecord
from flinknet.cluster.coordinator.jobs.job_record import JobRecord
from flinknet.cluster.coordinator.workers.worker_registry import WorkerRegistry

__all__ = ["JobSlots"]

_LOSSES_TOLD = 3
"""Number of lost workers that an error names: the latest, as a cluster may lose many over time."""


class JobSlots:
    """The slots that jobs occupy, and those that are free or will be soon."""

    def __init__(self, workers: WorkerRegistry, jobs: Mapping[str, JobRecord]) -> None:
        """``jobs`` has every job that is not forgotten, also later ones."""
        self._workers = workers
        self._jobs = jobs

    def may_fit_soon(self, submission: Submission, coming: int = 0) -> bool:
        """Return whether the job does not fit the free slots, but will soon.

        Counts the slots of jobs that are ending, and ``coming`` slots of workers that are being
        started.
        """
        returning: Counter[str] = Counter()
        for record in self._jobs.values():
            if record.execution.is_ending:
                for worker_id, number in record.execution.held_subtasks():
                    key = record.job_id, number
                    returning[worker_id] += self._workers.slots_of(worker_id, key)
        required = submission.shape.slots_required()
        return self._slots_free(Counter()) < required <= self._slots_free(returning) + coming

    def _slots_free(self, returning: Counter[str]) -> int:
        return sum(
            worker.free_slots + returning[worker.worker_id]
            for worker in self._workers.registered()
            if not worker.drains
        )

    def missing(self) -> str:
        """Return the text for an error about slots held by ended jobs and about lost workers."""
        losses = [worker.loss for worker in self._workers.workers() if worker.loss is not None]
        reasons = [
            f'worker {worker_id} holds slots of job "{record.submission.name}", which has ended, '
            "because a function of it has not returned"
            for record in self._jobs.values()
            for attempt in record.attempts
            if attempt.ended_at is not None
            for worker_id in attempt.execution.holders
        ]
        reasons += [loss.describe() for loss in losses[-_LOSSES_TOLD:]]
        before = len(losses[:-_LOSSES_TOLD]) + self._workers.forgotten
        if before:
            reasons.append(f"{before} were lost before")
        return "".join(f"; {reason}" for reason in reasons)

    def occupy(self, record: JobRecord, attempt: AttemptRecord) -> None:
        """Occupy the slots of a new attempt."""
        for worker_id, slots in attempt.placement.slots.items():
            self._workers.occupy(worker_id, (record.job_id, attempt.number), slots)

    def occupy_again(self, record: JobRecord, attempt: AttemptRecord) -> None:
        """Recount the slots of an attempt with restarted regions.

        A restarted region may share slots with regions that go on, and keeps those slots when they
        end.
        """
        if not attempt.failures:
            return
        groups = [vertex.slot_sharing_group for vertex in record.submission.shape.vertices]
        counted: set[tuple[str, str, int]] = set()
        for (worker_id, number), subtasks in attempt.execution.held_subtasks().items():
            slots = {(worker_id, groups[vertex], index) for vertex, index in subtasks} - counted
            counted |= slots
            self._workers.reoccupy(worker_id, (record.job_id, number), len(slots))
