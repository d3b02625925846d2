"""What can be seen of a network environment: everything that is buffered, and who holds it."""

from __future__ import annotations

from typing import NamedTuple

from flinknet.buffer.network_pool import NetworkBufferPoolStatistics
from flinknet.connection.link import ConnectionStatistics
from flinknet.consumer.gate_statistics import InputGateStatistics
from flinknet.metrics.task_times import TaskTimesStatistics
from flinknet.partition.result_partition import ResultPartitionStatistics
from flinknet.records.serialization.spanning_record import ReassemblyStatistics

__all__ = [
    "EnvironmentStatistics",
    "NetworkStatistics",
    "PeerDirectoryStatistics",
    "ProtocolViolations",
    "RefusedPeers",
    "TopicStatistics",
]


class RefusedPeers(NamedTuple):
    """How many sockets were refused for one reason: a verdict of the handshake, or its other
    end."""

    reason: str
    sockets: int


class ProtocolViolations(NamedTuple):
    """How many connections ended because the peer did what is forbidden: its kind."""

    kind: str
    connections: int


class PeerDirectoryStatistics(NamedTuple):
    """The present state, and counts from the start of the worker."""

    established: int
    pending: int
    """Sockets that have not said who they are."""
    turned_away: int
    """Refused sockets that their peers have not closed yet."""
    admitted: int
    """Accepted sockets, in handshake or in use, of at most ``accepted_connections_max``."""
    accepted_total: int
    dialled_total: int
    lost_total: int
    refused: tuple[RefusedPeers, ...]
    violations: tuple[ProtocolViolations, ...]

    @property
    def refused_total(self) -> int:
        """Sockets refused for any reason."""
        return sum(refused.sockets for refused in self.refused)


class NetworkStatistics(NamedTuple):
    """What a worker has whatever its tasks do: memory and peers."""

    network_pool: NetworkBufferPoolStatistics
    peers: PeerDirectoryStatistics
    connections: tuple[ConnectionStatistics, ...]
    reassembly: ReassemblyStatistics


class TopicStatistics(NamedTuple):
    """What a topic has done so far, and for whom."""

    name: str
    readers: int
    records_queued: int
    joined_total: int
    left_total: int
    disconnected_total: int
    records_dropped_total: int
    """For one reader each."""


class EnvironmentStatistics(NamedTuple):
    """Everything that is buffered in a worker, and who holds it."""

    network_pool: NetworkBufferPoolStatistics
    peers: PeerDirectoryStatistics
    connections: tuple[ConnectionStatistics, ...]
    reassembly: ReassemblyStatistics
    partitions: tuple[ResultPartitionStatistics, ...]
    gates: tuple[InputGateStatistics, ...]
    task_times: tuple[TaskTimesStatistics, ...]
    """Of every task that has a partition or a gate here."""
    topics: tuple[TopicStatistics, ...] = ()
