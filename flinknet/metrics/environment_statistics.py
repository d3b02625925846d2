"""Statistics of a network environment: all buffered data, and its holders."""

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
    """Number of sockets refused for one reason.

    The reason is a verdict of the handshake, or another end of it.
    """

    reason: str
    sockets: int


class ProtocolViolations(NamedTuple):
    """Number of connections that ended by one kind of forbidden action of the peer."""

    kind: str
    connections: int


class PeerDirectoryStatistics(NamedTuple):
    """Present connections with peers, and counts since the start of the worker."""

    established: int
    pending: int
    """Sockets that have not identified themselves yet."""
    turned_away: int
    """Refused sockets that their peers have not closed yet."""
    admitted: int
    """Accepted sockets in handshake or use, at most ``accepted_connections_max``."""
    accepted_total: int
    dialled_total: int
    lost_total: int
    refused: tuple[RefusedPeers, ...]
    violations: tuple[ProtocolViolations, ...]

    @property
    def refused_total(self) -> int:
        """Number of sockets refused for any reason."""
        return sum(refused.sockets for refused in self.refused)


class NetworkStatistics(NamedTuple):
    """Memory and peers of a worker, which do not depend on its tasks."""

    network_pool: NetworkBufferPoolStatistics
    peers: PeerDirectoryStatistics
    connections: tuple[ConnectionStatistics, ...]
    reassembly: ReassemblyStatistics


class TopicStatistics(NamedTuple):
    """Activity of a topic so far, and its readers."""

    name: str
    readers: int
    records_queued: int
    joined_total: int
    left_total: int
    disconnected_total: int
    records_dropped_total: int
    """Records dropped; a record dropped for two readers counts twice."""


class EnvironmentStatistics(NamedTuple):
    """All buffered data of a worker, and its holders."""

    network_pool: NetworkBufferPoolStatistics
    peers: PeerDirectoryStatistics
    connections: tuple[ConnectionStatistics, ...]
    reassembly: ReassemblyStatistics
    partitions: tuple[ResultPartitionStatistics, ...]
    gates: tuple[InputGateStatistics, ...]
    task_times: tuple[TaskTimesStatistics, ...]
    """Times of every task that has a partition or a gate here."""
    topics: tuple[TopicStatistics, ...] = ()
