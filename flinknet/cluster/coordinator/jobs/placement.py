"""Placement of a job attempt's subtasks on the free slots of workers."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from flinknet.cluster.coordinator.jobs.job_execution import SubtaskKey
from flinknet.cluster.coordinator.workers.worker_registry import WorkerRecord
from flinknet.graph.deployment import (
    SubtaskDescriptor,
    WorkerOffer,
    plan_deployment,
    plan_redeployment,
    subtask_name,
)
from flinknet.graph.graph import JobGraph

__all__ = ["Placement"]


@dataclass(frozen=True, slots=True)
class Placement:
    """The subtasks of each worker, by worker id. Workers without subtasks are left out."""

    subtasks: Mapping[str, tuple[SubtaskDescriptor, ...]]
    slots: Mapping[str, int]
    """Slots taken per worker. Subtasks with the same slot sharing group and index share a slot.
    Empty after a redeployment, for which the dispatcher recounts the slots (``_occupy_again``)."""

    @classmethod
    def of_job(
        cls, shape: JobGraph, job_id: str, attempt: int, workers: Sequence[WorkerRecord]
    ) -> Placement:
        """Place every subtask of the job; raise InsufficientSlotsError if it does not fit."""
        plan = plan_deployment(shape, job_id, attempt, _offers(workers))
        subtasks = {worker_id: placed for worker_id, placed in plan.items() if placed}
        groups = [vertex.slot_sharing_group for vertex in shape.vertices]
        slots = {
            worker_id: len({(groups[d.vertex], d.index) for d in placed})
            for worker_id, placed in subtasks.items()
        }
        return cls(subtasks, slots)

    def redeployed(
        self,
        shape: JobGraph,
        job_id: str,
        number: int,
        workers: Sequence[WorkerRecord],
        moved: Collection[SubtaskKey],
        running: Collection[SubtaskKey],
    ) -> Placement:
        """Place the ``moved`` subtasks again, beside the others.

        Of the others, the ``running`` ones keep their slots. Raises InsufficientSlotsError if the
        moved subtasks do not fit.
        """
        others = {
            (one.vertex, one.index): worker_id
            for worker_id, placed in self.subtasks.items()
            for one in placed
            if (one.vertex, one.index) in running
        }
        plan = plan_redeployment(shape, job_id, number, _offers(workers), moved, others)
        stay = {
            worker_id: tuple(one for one in placed if (one.vertex, one.index) not in moved)
            for worker_id, placed in self.subtasks.items()
        }
        subtasks = {
            worker_id: stay.get(worker_id, ()) + plan.get(worker_id, ())
            for worker_id in {**stay, **plan}
        }
        return Placement({one: placed for one, placed in subtasks.items() if placed}, {})

    def deployed(self, worker_id: str, number: int) -> tuple[SubtaskDescriptor, ...]:
        """Return the subtasks that a worker must run under a number."""
        placed = self.subtasks.get(worker_id, ())
        return tuple(one for one in placed if one.attempt == number)

    @classmethod
    def of_assignment(
        cls,
        shape: JobGraph,
        job_id: str,
        attempt: int,
        assignment: Mapping[str, Sequence[SubtaskKey]],
    ) -> Placement:
        """Return the former placement of an attempt, from a persisted assignment.

        Its subtasks take no slots and are not connected.
        """
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

    def assignment(self, number: int | None = None) -> dict[str, list[SubtaskKey]]:
        """Return the subtasks of each worker by vertex and index, optionally of one number only."""
        keys = {
            worker_id: [(one.vertex, one.index) for one in placed if number in (None, one.attempt)]
            for worker_id, placed in self.subtasks.items()
        }
        return {worker_id: placed for worker_id, placed in keys.items() if placed}


def _offers(workers: Sequence[WorkerRecord]) -> list[WorkerOffer]:
    # Sorted by name, so that the same job is placed in the same way each time.
    ordered = sorted(workers, key=lambda w: (len(w.worker_id), w.worker_id))
    return [WorkerOffer(w.worker_id, w.address, w.free_slots) for w in ordered]
