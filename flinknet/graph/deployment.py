"""Deployment: the placement of subtasks on workers, and the wiring of partitions and gates.

Slot sharing (Flink's SlotSharingGroup): subtask i of every vertex of a group runs in slot i of that
group. So a slot holds a slice of the whole pipeline, and pointwise edges stay within a worker.
Slots are spread round robin over the workers.

Wiring (Flink's EdgeManagerBuildUtil): for each edge, every subtask of the source produces one
result partition. It has one subpartition for each subtask of the target connected to it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from flinknet.consumer.input_channel import PartitionLocation
from flinknet.errors import InsufficientSlotsError
from flinknet.graph.graph import JobGraph, JobVertex
from flinknet.partition.exchange_mode import ExchangeMode
from flinknet.texts import counted

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
    """A worker with free slots; ``address`` belongs to its data plane."""

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
    """For each subpartition, the worker of its consumer; no other worker may consume it."""

    @property
    def subpartitions(self) -> int:
        """Number of subpartitions."""
        return len(self.consumers)


class Producer(NamedTuple):
    """A result partition, by the data address of its worker and its name."""

    address: str
    partition_id: str


@dataclass(frozen=True, slots=True)
class GateDescriptor:
    """The subpartitions of an edge that a subtask consumes, one of each producer."""

    edge: int
    producers: tuple[Producer, ...]
    """Producers in order; subtasks that read the same producers share the tuple."""
    subpartition: int
    """Index of the subpartition, which is the same for all producers."""

    @property
    def locations(self) -> tuple[PartitionLocation, ...]:
        """Location of each subpartition."""
        return tuple(PartitionLocation(*one, self.subpartition) for one in self.producers)


@dataclass(frozen=True, slots=True)
class SubtaskDescriptor:
    """All data of one subtask that is not in the job graph."""

    job_id: str
    attempt: int
    vertex: int
    index: int
    parallelism: int
    name: str
    """Name for people: ``"Map (2/4)"``."""
    results: tuple[ResultDescriptor, ...]
    gates: tuple[GateDescriptor, ...]


def descriptors_to_fields(descriptors: Iterable[SubtaskDescriptor]) -> dict[str, Any]:
    """Return plain JSON types.

    Lists of producers and of consumers that several subtasks share are included once, because an
    exchange among thousands of subtasks has millions of channels.
    """
    lists: list[list[Any]] = []
    known: dict[int, int] = {}

    def shared(members: tuple[Any, ...]) -> int:
        # By identity, because a comparison of such lists would visit every channel.
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
    """Return the descriptors in such fields.

    Raises KeyError, IndexError, TypeError or ValueError if the fields are invalid.
    """
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
    """Place every subtask of the job on a worker.

    Returns the subtasks of each worker id, in topological order. A worker without subtasks has an
    empty tuple. Raises InsufficientSlotsError.
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
    """Place some subtasks of a job anew, beside the ``others``, which continue.

    ``subtasks`` and ``others`` are pairs (vertex, index); ``others`` gives the worker id of each.
    The restarted subtasks must exchange records only with each other. A subtask goes to a slot of
    the job with room for it, otherwise to a free slot. Workers without placed subtasks are left
    out. Raises InsufficientSlotsError.
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
            f'job "{graph.name}" needs {len(wanted)} slots for the restarted part, but {len(free)} '
            f"are free on {len(workers)} workers"
        )
    slots.update(zip(wanted, free, strict=False))
    # Slots of other subtasks get any worker: no placed subtask exchanges records with them.
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
    """Return the name of a subtask for people: ``"Map (2/4)"``."""
    return f"{vertex.name} ({index + 1}/{vertex.parallelism})"


def _place(graph: JobGraph, workers: Sequence[WorkerOffer]) -> dict[str, list[WorkerOffer]]:
    """Return the worker of each slot, by slot sharing group."""
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
        f'job "{graph.name}" needs {counted(needed, "slot")} ({groups}), but the cluster has '
        f"{offered} on {counted(len(workers), 'worker')}: raise slots_per_worker to {per_worker}, "
        "add workers, or lower the job's parallelism"
    )


class _EdgeWiring:
    """The connections of one edge.

    Data common to all subtasks is computed once: there may be thousands on both sides, and each may
    be connected with all of the other side.
    """

    def __init__(
        self, graph: JobGraph, number: int, attempt: str, placement: dict[str, list[WorkerOffer]]
    ) -> None:
        """``attempt`` is the prefix of partition names."""
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
        """For a pointwise edge, the producers of each consumer, which are consecutive."""
        if edge.pointwise:
            for producer, consumers in enumerate(self._reach):
                for consumer in consumers:
                    first = self._read_by.get(consumer, range(producer, producer)).start
                    self._read_by[consumer] = range(first, producer + 1)

    def result_of(self, index: int) -> ResultDescriptor:
        """Return the result partition of a subtask of the source."""
        reach = self._reach[index]
        return ResultDescriptor(
            self._number,
            self._producers[index].partition_id,
            self.edge.exchange_mode,
            self._consumers[reach.start : reach.stop],
        )

    def gate_of(self, index: int) -> GateDescriptor:
        """Return the input gate of a subtask of the target."""
        read = self._read_by.get(index, range(len(self._producers)))
        # The index is the same for all producers. On a pointwise edge, several producers of one
        # subtask have no other consumer.
        subpartition = self._reach[read.start].index(index)
        # A slice of a whole tuple is the tuple itself, so subtasks share it if they read from all.
        return GateDescriptor(self._number, self._producers[read.start : read.stop], subpartition)


def _workers_of(vertex: JobVertex, placement: dict[str, list[WorkerOffer]]) -> list[WorkerOffer]:
    return placement[vertex.slot_sharing_group][: vertex.parallelism]


def consumers_of(producer: int, sources: int, targets: int, *, pointwise: bool) -> range:
    """Return the subtasks of an edge's target that read from subtask ``producer`` of its source.

    On a pointwise edge, the subtasks of either side are assigned evenly to those of the other, in
    order: 2 -> 4 gives {0, 1} and {2, 3}; 4 -> 2 gives 0, 0, 1, 1.
    """
    if not pointwise:
        return range(targets)
    if sources <= targets:
        return range(-(-producer * targets // sources), -(-(producer + 1) * targets // sources))
    consumer = ((producer + 1) * targets - 1) // sources
    return range(consumer, consumer + 1)
