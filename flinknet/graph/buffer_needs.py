"""Network buffers that a job needs on each worker, computed from the job graph alone.

The reservations of open subtasks follow from their placement (``deployment.py``), from the pool
size of a partition (``pool_size``), and from the buffers of a gate (``gate_buffers``). So they are
known before anything starts. One computation serves the check before a run, its degraded form, and
``flinknet explain``. It assumes a worker that runs nothing else.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import reduce
from operator import add
from typing import Literal

from flinknet.config import NetworkConfig
from flinknet.consumer.buffer_manager import GateBuffers, gate_buffers
from flinknet.graph.deployment import SubtaskDescriptor, WorkerOffer, plan_deployment
from flinknet.graph.graph import JobGraph
from flinknet.net.memory_bound import ExchangeShape
from flinknet.partition.result_partition import pool_size
from flinknet.records.partitioner import Partitioner

__all__ = [
    "BufferNeed",
    "BufferOwner",
    "Verdict",
    "WorkerNeeds",
    "degraded_gate_limit",
    "gate_need",
    "job_needs",
    "partition_need",
]

_LEAST_PER_GATE = 1
"""A gate runs on one floating buffer, which its channels get in turn, by backlog."""


class Verdict(StrEnum):
    """Comparison of a need with the available buffers."""

    COMFORTABLE = "comfortable"
    FITS = "fits"
    DEGRADED = "degraded"
    TOO_SMALL = "too small"


@dataclass(frozen=True, slots=True)
class BufferNeed:
    """Numbers of network buffers; ``minimum <= required <= comfortable``."""

    minimum: int = 0
    """Buffers without which nothing can run."""
    required: int = 0
    """Buffers that the configuration reserves for exclusive use."""
    comfortable: int = 0
    """Maximum held at a time, without overdraft, for records that are not large. More memory
    changes nothing for such records."""
    overdraft: int = 0
    """Further buffers for finishing records in progress, if the worker has free ones then."""
    large: int = 0
    """Further buffers beyond ``comfortable`` for records of which only a few fit into a buffer;
    they are shared out like the rest."""

    @property
    def most(self) -> int:
        """Upper limit, which is never exceeded."""
        return self.comfortable + self.overdraft + self.large

    def __add__(self, other: BufferNeed) -> BufferNeed:
        return BufferNeed(
            self.minimum + other.minimum,
            self.required + other.required,
            self.comfortable + other.comfortable,
            self.overdraft + other.overdraft,
            self.large + other.large,
        )

    def verdict(self, buffers: int) -> Verdict:
        """Compare the need with a worker's ``buffers`` network buffers."""
        if buffers >= self.comfortable:
            return Verdict.COMFORTABLE
        if buffers >= self.required:
            return Verdict.FITS
        return Verdict.DEGRADED if buffers >= self.minimum else Verdict.TOO_SMALL


def partition_need(subpartitions: int, config: NetworkConfig) -> BufferNeed:
    """Return the need of a result partition, which cannot be degraded."""
    required, maximum = pool_size(subpartitions, config)
    return BufferNeed(
        minimum=required,
        required=required,
        comfortable=maximum,
        overdraft=config.overdraft_buffers_per_partition,
        large=config.large_record_extra_buffers,
    )


def gate_need(remote_channels: int, config: NetworkConfig) -> BufferNeed:
    """Return the need of an input gate for its remote channels.

    Local channels use the buffers of the producer.
    """
    if not remote_channels:
        return BufferNeed()
    return BufferNeed(
        minimum=_reserved(remote_channels, config, _LEAST_PER_GATE),
        required=_reserved(remote_channels, config, config.required_buffers_per_gate_max),
        comfortable=_gate_buffers(remote_channels, config, 0).target_total,
        large=config.large_record_extra_buffers,
    )


def _gate_buffers(channels: int, config: NetworkConfig, limit: int) -> GateBuffers:
    return gate_buffers(
        channels,
        config.buffers_per_channel,
        config.floating_buffers_per_gate,
        limit or None,
        flow_control=config.flow_control,
    )


def _reserved(channels: int, config: NetworkConfig, limit: int) -> int:
    need = _gate_buffers(channels, config, limit)
    return need.exclusive_per_channel * channels + need.floating_min


@dataclass(frozen=True, slots=True)
class BufferOwner:
    """A result partition or an input gate of a subtask, with its local and remote channels."""

    subtask: str
    kind: Literal["partition", "gate"]
    stream: str
    """The edge from this side: ``"HASH to Reduce"``, ``"HASH from Map"``."""
    local: int
    remote: int
    is_broadcast: bool = False
    """Whether the consumers of a partition share its buffers."""
    is_keyed: bool = False
    """Whether the writer of a partition remembers the channels of keys."""

    def need(self, config: NetworkConfig) -> BufferNeed:
        """Return the network buffers that it needs."""
        if self.kind == "partition":
            return partition_need(self.local + self.remote, config)
        return gate_need(self.remote, config)


@dataclass(frozen=True, slots=True)
class WorkerNeeds:
    """All owners of network buffers on one worker."""

    worker_id: str
    owners: tuple[BufferOwner, ...]
    peers: frozenset[str]
    """Addresses of the workers with which it exchanges data, by one connection each."""
    subtasks: int
    """Number of its subtasks that exchange data."""
    readers: int
    """Number of its subtasks with gates; each of these has one reader."""

    def need(self, config: NetworkConfig) -> BufferNeed:
        """Return the network buffers of all owners together."""
        return reduce(add, (owner.need(config) for owner in self.owners), BufferNeed())

    @property
    def shape(self) -> ExchangeShape:
        """Dimensions of the worker's data exchange."""
        partitions = [owner for owner in self.owners if owner.kind == "partition"]
        gates = [owner for owner in self.owners if owner.kind == "gate"]
        return ExchangeShape(
            connections=len(self.peers),
            partitions=len(partitions),
            subpartitions=sum(partition.local + partition.remote for partition in partitions),
            gates=len(gates),
            local_channels=sum(gate.local for gate in gates),
            remote_channels=sum(gate.remote for gate in gates),
            readers=self.readers,
            keyed_partitions=sum(partition.is_keyed for partition in partitions),
        )


def job_needs(graph: JobGraph, workers: Sequence[WorkerOffer]) -> tuple[WorkerNeeds, ...]:
    """Return the owners of network buffers on each worker, in the order of ``workers``.

    Raises InsufficientSlotsError.
    """
    plan = plan_deployment(graph, "plan", 0, workers)  # Only the placement matters, not the names.
    readers: dict[str, list[str]] = {}
    for worker in workers:
        for descriptor in plan[worker.worker_id]:
            for gate in descriptor.gates:
                for producer in gate.producers:
                    readers.setdefault(producer.partition_id, []).append(worker.address)
    return tuple(
        _worker_needs(graph, worker, plan[worker.worker_id], readers) for worker in workers
    )


def _worker_needs(
    graph: JobGraph,
    worker: WorkerOffer,
    descriptors: Sequence[SubtaskDescriptor],
    readers: dict[str, list[str]],
) -> WorkerNeeds:
    owners: list[BufferOwner] = []
    peers: set[str] = set()

    def own(
        subtask: str,
        kind: Literal["partition", "gate"],
        stream: str,
        ends: list[str],
        *,
        partitioner: Partitioner | None = None,
    ) -> None:
        local = ends.count(worker.address)
        remote = len(ends) - local
        is_broadcast = partitioner is not None and partitioner.is_broadcast
        is_keyed = partitioner is not None and _remembers_keys(partitioner)
        owners.append(BufferOwner(subtask, kind, stream, local, remote, is_broadcast, is_keyed))
        peers.update(ends)

    for descriptor in descriptors:
        for result in descriptor.results:
            edge = graph.edges[result.edge]
            stream = f"{edge.name} to {graph.vertices[edge.target].name}"
            ends = readers[result.partition_id]
            own(descriptor.name, "partition", stream, ends, partitioner=edge.partitioner())
        for gate in descriptor.gates:
            edge = graph.edges[gate.edge]
            stream = f"{edge.name} from {graph.vertices[edge.source].name}"
            ends = [producer.address for producer in gate.producers]
            own(descriptor.name, "gate", stream, ends)
    subtasks = sum(1 for one in descriptors if one.results or one.gates)
    others = frozenset(peers - {worker.address})
    with_gates = sum(1 for one in descriptors if one.gates)
    return WorkerNeeds(worker.worker_id, tuple(owners), others, subtasks, readers=with_gates)


def _remembers_keys(partitioner: Partitioner) -> bool:
    """Return whether the partitioner remembers keys; only then it overrides the method."""
    return type(partitioner).remember_at_most is not Partitioner.remember_at_most


def degraded_gate_limit(workers: Sequence[WorkerNeeds], config: NetworkConfig) -> int | None:
    """Return the largest ``required_buffers_per_gate_max`` with which every worker has enough.

    Returns None if there is none: the network memory is below the minimum.
    """
    owners = [owner for worker in workers for owner in worker.owners if owner.kind == "gate"]
    limits = range(1, 1 + max((owner.need(config).required for owner in owners), default=0))

    def required(limit: int) -> int:
        limited = replace(config, required_buffers_per_gate_max=limit)
        return max(worker.need(limited).required for worker in workers)

    # The need rises with the limit, so a binary search finds the largest one that fits.
    return bisect_right(limits, config.segments, key=required) or None
