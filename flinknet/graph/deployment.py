"""Deployment: which subtask runs where, and how its partitions and gates are wired.

Slot sharing (Flink's SlotSharingGroup): subtask i of every vertex of a group runs in slot i of that
group, so a slot holds a slice of the whole pipeline and pointwise edges stay within a worker. Slots
are spread round robin over the workers.

Wiring (Flink's EdgeManagerBuildUtil): every subtask of an edge's source makes one result partition
for the edge, with one subpartition for each subtask of the target that it is connected with.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from flinknet.consumer.input_channel import PartitionLocation
from flinknet.errors import InsufficientSlotsError
from flinknet.graph.graph import JobGraph, JobVertex
from flinknet.partition.exchange_mode import ExchangeMode

__all__ = [
    "GateDescriptor",
    "Producer",
    "ResultDescriptor",
    "SubtaskDescriptor",
    "WorkerOffer",
    "consumers_of",
    "descriptors_of_fields",
    "descriptors_to_fields",
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


class Producer(NamedTuple):
    """A result partition, by the data address of its worker and its name."""

    address: str
    partition_id: str


@dataclass(frozen=True, slots=True)
class GateDescriptor:
    """The subpartitions that a subtask consumes of an edge: the same one of each producer."""

    edge: int
    producers: tuple[Producer, ...]
    """In their order. Subtasks that read from the same ones share it."""
    subpartition: int

    @property
    def locations(self) -> tuple[PartitionLocation, ...]:
        """Where each of them is."""
        return tuple(PartitionLocation(*one, self.subpartition) for one in self.producers)


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


def descriptors_to_fields(descriptors: Iterable[SubtaskDescriptor]) -> dict[str, Any]:
    """Plain JSON types. Lists of producers and of consumers that several subtasks share are in it
    once, as an exchange among thousands has millions of channels."""
    lists: list[list[Any]] = []
    known: dict[int, int] = {}

    def shared(members: tuple[Any, ...]) -> int:
        number = known.setdefault(id(members), len(lists))
        if number == len(lists):
            lists.append(list(members))
        return number

    subtasks = [
        {
            "job_id": one.job_id,
            "attempt": one.attempt,
            "vertex": one.vertex,
            "index": one.index,
            "parallelism": one.parallelism,
            "name": one.name,
            "results": [
                [result.edge, result.partition_id, result.exchange_mode, shared(result.consumers)]
                for result in one.results
            ],
            "gates": [[gate.edge, shared(gate.producers), gate.subpartition] for gate in one.gates],
        }
        for one in descriptors
    ]
    return {"lists": lists, "subtasks": subtasks}


def descriptors_of_fields(fields: dict[str, Any]) -> list[SubtaskDescriptor]:
    """Inverse of ``descriptors_to_fields``; KeyError, IndexError, TypeError or ValueError if the
    fields are not of it."""
    consumers: dict[int, tuple[str, ...]] = {}
    producers: dict[int, tuple[Producer, ...]] = {}
    descriptors = []
    for row in fields["subtasks"]:
        results = []
        for edge, partition_id, mode, number in row["results"]:
            if number not in consumers:
                consumers[number] = tuple(fields["lists"][number])
            result = ResultDescriptor(edge, partition_id, ExchangeMode(mode), consumers[number])
            results.append(result)
        gates = []
        for edge, number, subpartition in row["gates"]:
            if number not in producers:
                producers[number] = tuple(Producer(*one) for one in fields["lists"][number])
            gates.append(GateDescriptor(edge, producers[number], subpartition))
        wired = {"results": tuple(results), "gates": tuple(gates)}
        descriptors.append(SubtaskDescriptor(**{**row, **wired}))
    return descriptors


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
    edges = [
        _EdgeWiring(graph, number, f"{job_id}/{attempt}", placement)
        for number in range(len(graph.edges))
    ]
    for vertex in graph.vertices:
        results = [wiring for wiring in edges if wiring.edge.source == vertex.id]
        gates = [wiring for wiring in edges if wiring.edge.target == vertex.id]
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
                    results=tuple(wiring.result_of(index) for wiring in results),
                    gates=tuple(wiring.gate_of(index) for wiring in gates),
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


class _EdgeWiring:
    """Who reads what of one edge. What all subtasks have in common is made once, as there may be
    thousands on both sides, and all of the one may read from all of the other."""

    def __init__(
        self, graph: JobGraph, number: int, attempt: str, placement: dict[str, list[WorkerOffer]]
    ) -> None:
        """``attempt`` is what names of partitions begin with."""
        self.edge = edge = graph.edges[number]
        self._number = number
        source, target = graph.vertices[edge.source], graph.vertices[edge.target]
        self._producers = tuple(
            Producer(worker.address, f"{attempt}/{number}/{index}")
            for index, worker in enumerate(_workers_of(source, placement))
        )
        self._consumers = tuple(worker.worker_id for worker in _workers_of(target, placement))
        ends = len(self._producers), len(self._consumers)
        self._reach = [
            consumers_of(producer, *ends, pointwise=edge.pointwise) for producer in range(ends[0])
        ]
        self._read_by: dict[int, range] = {}
        """Of a pointwise edge the producers of each consumer, which follow each other."""
        if edge.pointwise:
            for producer, consumers in enumerate(self._reach):
                for consumer in consumers:
                    first = self._read_by.get(consumer, range(producer, producer)).start
                    self._read_by[consumer] = range(first, producer + 1)

    def result_of(self, index: int) -> ResultDescriptor:
        """What a subtask of the source produces."""
        reach = self._reach[index]
        return ResultDescriptor(
            self._number,
            self._producers[index].partition_id,
            self.edge.exchange_mode,
            self._consumers[reach.start : reach.stop],
        )

    def gate_of(self, index: int) -> GateDescriptor:
        """What a subtask of the target consumes."""
        read = self._read_by.get(index, range(len(self._producers)))
        # Those that follow each other have one consumer each: it is the same place in all of them.
        subpartition = self._reach[read.start].index(index)
        return GateDescriptor(self._number, self._producers[read.start : read.stop], subpartition)


def _workers_of(vertex: JobVertex, placement: dict[str, list[WorkerOffer]]) -> list[WorkerOffer]:
    return placement[vertex.slot_sharing_group][: vertex.parallelism]


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
