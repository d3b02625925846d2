"""Where the subtasks of a job attempt run: placed on the free slots of the workers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from flinknet.cluster.coordinator.job_execution import SubtaskKey
from flinknet.cluster.coordinator.worker_registry import WorkerRecord
from flinknet.task.deployment import (
    SubtaskDescriptor,
    WorkerOffer,
    plan_deployment,
    subtask_name,
)
from flinknet.task.graph import JobGraph

__all__ = ["Placement"]


@dataclass(frozen=True, slots=True)
class Placement:
    """Which worker runs which subtasks, by worker id; a worker without any is not in it."""

    subtasks: Mapping[str, tuple[SubtaskDescriptor, ...]]
    slots: Mapping[str, int]
    """How many slots they take: subtasks of one slot sharing group and index share one."""

    @classmethod
    def of_job(
        cls, shape: JobGraph, job_id: str, attempt: int, workers: Sequence[WorkerRecord]
    ) -> Placement:
        """Place every subtask of the job; InsufficientSlotsError if it does not fit."""
        # In order of their names, so that the same job is placed the same way each time.
        ordered = sorted(workers, key=lambda w: (len(w.worker_id), w.worker_id))
        offers = [WorkerOffer(w.worker_id, w.address, w.free_slots) for w in ordered]
        plan = plan_deployment(shape, job_id, attempt, offers)
        subtasks = {worker_id: placed for worker_id, placed in plan.items() if placed}
        groups = [vertex.slot_sharing_group for vertex in shape.vertices]
        slots = {
            worker_id: len({(groups[d.vertex], d.index) for d in placed})
            for worker_id, placed in subtasks.items()
        }
        return cls(subtasks, slots)

    @classmethod
    def of_assignment(
        cls,
        shape: JobGraph,
        job_id: str,
        attempt: int,
        assignment: Mapping[str, Sequence[SubtaskKey]],
    ) -> Placement:
        """Where the subtasks of an attempt once were: they take no slots any more, and are not
        wired."""
        subtasks = {
            worker_id: tuple(
                SubtaskDescriptor(
                    job_id,
                    attempt,
                    vertex,
                    index,
                    shape.vertices[vertex].parallelism,
                    subtask_name(shape.vertices[vertex], index),
                    results=(),
                    gates=(),
                )
                for vertex, index in placed
            )
            for worker_id, placed in assignment.items()
        }
        return cls(subtasks, {})

    def assignment(self) -> dict[str, list[SubtaskKey]]:
        """The subtasks of each worker by vertex and index."""
        return {
            worker_id: [(descriptor.vertex, descriptor.index) for descriptor in placed]
            for worker_id, placed in self.subtasks.items()
        }
