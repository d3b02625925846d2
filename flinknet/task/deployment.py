"""Deployment: which subtask runs where, and how its partitions and gates are wired.

Slot sharing (Flink's SlotSharingGroup): subtask i of every vertex of a group runs in slot i of that
group, so a slot holds a slice of the whole pipeline and pointwise edges stay within a worker. Slots
are spread round robin over the workers.

Wiring (Flink's EdgeManagerBuildUtil): every subtask of an edge's source makes one result partition
for the edge, with one subpartition for each subtask of the target that it is connected with.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from flinknet.consumer.input_channel import PartitionLocation
from flinknet.errors import InsufficientSlotsError
from flinknet.partition.exchange_mode import ExchangeMode
from flinknet.task.graph import JobEdge, JobGraph, JobVertex

__all__ = [
    "GateDescriptor",
    "ResultDescriptor",
    "SubtaskDescriptor",
    "WorkerOffer",
    "consumers_of",
    "plan_deployment",
    "plan_redeployment",
    "subtask_name",
]


@dataclass(frozen=True, slots=True)
class WorkerOffer:
    """A worker with free slots; ``address`` is that of its data plane."""

    worker_id: str
    address: str
    slots: int


@dataclass(frozen=True, slots=True)
class ResultDescriptor:
    """A result partition that a subtask produces for an edge (an index in the graph's edges)."""

    edge: int
    partition_id: str
    exchange_mode: ExchangeMode
    consumers: tuple[str, ...]
    """The worker of each subpartition's consumer, who alone may consume it."""

    @property
    def subpartitions(self) -> int:
        """How many there are."""
        return len(self.consumers)


@dataclass(frozen=True, slots=True)
class GateDescriptor:
    """The subpartitions that a subtask consumes of an edge, in the order of their producers."""

    edge: int
    locations: tuple[PartitionLocation, ...]


@dataclass(frozen=True, slots=True)
class SubtaskDescriptor:
    """Everything about one subtask that is not in the job graph."""

    job_id: str
    attempt: int
    vertex: int
    index: int
    parallelism: int
    name: str
    """For people: ``"Map (2/4)"``."""
    results: tuple[ResultDescriptor, ...]
    gates: tuple[GateDescriptor, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return asdict(self)

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> SubtaskDescriptor:
        """Inverse of ``to_dict``; KeyError, TypeError or ValueError if the fields are not its
        own."""
        results = tuple(
            ResultDescriptor(
                **{
                    **result,
                    "exchange_mode": ExchangeMode(result["exchange_mode"]),
                    "consumers": tuple(result["consumers"]),
                }
            )
            for result in fields["results"]
        )
        gates = tuple(
            GateDescriptor(
                gate["edge"], tuple(PartitionLocation(*location) for location in gate["locations"])
            )
            for gate in fields["gates"]
        )
        return cls(**{**fields, "results": results, "gates": gates})


def plan_deployment(
    graph: JobGraph, job_id: str, attempt: int, workers: Sequence[WorkerOffer]
) -> dict[str, tuple[SubtaskDescriptor, ...]]:
    """Place every subtask of the job on a worker: worker id -> its subtasks, in topological order.

    A worker that gets none is in the result with an empty tuple. Raises InsufficientSlotsError.
    """
    subtasks = {
        (vertex.id, index) for vertex in graph.vertices for index in range(vertex.parallelism)
    }
    return _wire(graph, job_id, attempt, workers, _place(graph, workers), subtasks)


def plan_redeployment(
    graph: JobGraph,
    job_id: str,
    attempt: int,
    workers: Sequence[WorkerOffer],
    subtasks: Collection[tuple[int, int]],
    others: Mapping[tuple[int, int], str],
) -> dict[str, tuple[SubtaskDescriptor, ...]]:
    """Place some subtasks of a job anew, vertex and index, that exchange records with each other
    alone, beside the ``others`` that go on, which are on these workers.

    Where a slot of the job has room for one it goes there, else into a free one. Workers that get
    none are left out. Raises InsufficientSlotsError.
    """
    by_id = {worker.worker_id: worker for worker in workers}
    groups = [vertex.slot_sharing_group for vertex in graph.vertices]
    slots = {
        (groups[vertex], index): by_id[worker_id]
        for (vertex, index), worker_id in others.items()
        if worker_id in by_id
    }
    wanted = sorted({(groups[vertex], index) for vertex, index in subtasks} - slots.keys())
    rounds = range(max((worker.slots for worker in workers), default=0))
    free = [worker for turn in rounds for worker in workers if turn < worker.slots]
    if len(wanted) > len(free):
        raise InsufficientSlotsError(
            f'job "{graph.name}" needs {len(wanted)} slots for the part of it that is restarted, '
            f"and {len(free)} are free on {len(workers)} workers"
        )
    slots.update(zip(wanted, free, strict=False))
    # Where nothing is placed nobody exchanges records with what is.
    placement = {
        group: [slots.get((group, index), workers[0]) for index in range(count)]
        for group, count in graph.slots_by_group().items()
    }
    plan = _wire(graph, job_id, attempt, workers, placement, subtasks)
    return {worker_id: placed for worker_id, placed in plan.items() if placed}


def _wire(
    graph: JobGraph,
    job_id: str,
    attempt: int,
    workers: Sequence[WorkerOffer],
    placement: dict[str, list[WorkerOffer]],
    subtasks: Collection[tuple[int, int]],
) -> dict[str, tuple[SubtaskDescriptor, ...]]:
    plan: dict[str, list[SubtaskDescriptor]] = {worker.worker_id: [] for worker in workers}
    for vertex in graph.vertices:
        for index in range(vertex.parallelism):
            if (vertex.id, index) not in subtasks:
                continue
            worker = placement[vertex.slot_sharing_group][index]
            plan[worker.worker_id].append(
                SubtaskDescriptor(
                    job_id=job_id,
                    attempt=attempt,
                    vertex=vertex.id,
                    index=index,
                    parallelism=vertex.parallelism,
                    name=subtask_name(vertex, index),
                    results=_results(graph, job_id, attempt, vertex.id, index, placement),
                    gates=_gates(graph, job_id, attempt, vertex.id, index, placement),
                )
            )
    return {worker_id: tuple(descriptors) for worker_id, descriptors in plan.items()}


def subtask_name(vertex: JobVertex, index: int) -> str:
    """What people call a subtask: ``"Map (2/4)"``."""
    return f"{vertex.name} ({index + 1}/{vertex.parallelism})"


def _place(graph: JobGraph, workers: Sequence[WorkerOffer]) -> dict[str, list[WorkerOffer]]:
    """Slot sharing group -> the worker of each of its slots."""
    rounds = range(max((worker.slots for worker in workers), default=0))
    slots = [worker for turn in rounds for worker in workers if turn < worker.slots]
    needed = graph.slots_required()
    if needed > len(slots):
        raise InsufficientSlotsError(_too_few_slots(graph, needed, workers))
    free = iter(slots)
    return {
        group: [next(free) for _ in range(count)] for group, count in graph.slots_by_group().items()
    }


def _too_few_slots(graph: JobGraph, needed: int, workers: Sequence[WorkerOffer]) -> str:
    offered = sum(worker.slots for worker in workers)
    groups = ", ".join(
        f'{count} for slot sharing group "{group}"'
        for group, count in graph.slots_by_group().items()
    )
    per_worker = -(-needed // max(1, len(workers)))
    return (
        f'job "{graph.name}" needs {needed} slots ({groups}), but the cluster has {offered} on '
        f"{len(workers)} workers: raise slots_per_worker to {per_worker}, add workers, or lower "
        "the job's parallelism"
    )


def _partition_id(job_id: str, attempt: int, edge: int, producer: int) -> str:
    return f"{job_id}/{attempt}/{edge}/{producer}"


def _results(
    graph: JobGraph,
    job_id: str,
    attempt: int,
    vertex: int,
    index: int,
    placement: dict[str, list[WorkerOffer]],
) -> tuple[ResultDescriptor, ...]:
    return tuple(
        ResultDescriptor(
            number,
            _partition_id(job_id, attempt, number, index),
            edge.exchange_mode,
            tuple(
                placement[graph.vertices[edge.target].slot_sharing_group][consumer].worker_id
                for consumer in _consumers(graph, edge, index)
            ),
        )
        for number, edge in enumerate(graph.edges)
        if edge.source == vertex
    )


def _gates(
    graph: JobGraph,
    job_id: str,
    attempt: int,
    vertex: int,
    index: int,
    placement: dict[str, list[WorkerOffer]],
) -> tuple[GateDescriptor, ...]:
    gates = []
    for number, edge in enumerate(graph.edges):
        if edge.target != vertex:
            continue
        workers = placement[graph.vertices[edge.source].slot_sharing_group]
        locations = tuple(
            PartitionLocation(
                address=workers[producer].address,
                partition_id=_partition_id(job_id, attempt, number, producer),
                subpartition=_consumers(graph, edge, producer).index(index),
            )
            for producer in range(graph.vertices[edge.source].parallelism)
            if index in _consumers(graph, edge, producer)
        )
        gates.append(GateDescriptor(number, locations))
    return tuple(gates)


def _consumers(graph: JobGraph, edge: JobEdge, producer: int) -> range:
    sources = graph.vertices[edge.source].parallelism
    targets = graph.vertices[edge.target].parallelism
    return consumers_of(producer, sources, targets, pointwise=edge.pointwise)


def consumers_of(producer: int, sources: int, targets: int, *, pointwise: bool) -> range:
    """Return the subtasks of an edge's target that read from one of so many subtasks of its source.

    Pointwise, either side's subtasks are dealt out evenly to the other's, in order: 2 -> 4 gives
    {0, 1} and {2, 3}; 4 -> 2 gives 0, 0, 1, 1.
    """
    if not pointwise:
        return range(targets)
    if sources <= targets:
        return range(-(-producer * targets // sources), -(-(producer + 1) * targets // sources))
    consumer = ((producer + 1) * targets - 1) // sources
    return range(consumer, consumer + 1)
