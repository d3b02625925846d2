"""Exported statistics of a network environment, with sums instead of single channels."""

from __future__ import annotations

from typing import NamedTuple

from flinknet.buffer.network_pool import NetworkBufferPoolStatistics
from flinknet.metrics.connection_totals import ConnectionTotals
from flinknet.metrics.environment_statistics import PeerDirectoryStatistics, TopicStatistics
from flinknet.metrics.gate_totals import GateTotals
from flinknet.metrics.partition_totals import PartitionTotals
from flinknet.records.serialization.spanning_record import ReassemblyStatistics

__all__ = ["EnvironmentTotals", "NetworkTotals"]


class NetworkTotals(NamedTuple):
    """Memory and peers of a worker, which do not depend on its tasks."""

    network_pool: NetworkBufferPoolStatistics
    peers: PeerDirectoryStatistics
    connections: tuple[ConnectionTotals, ...]
    reassembly: ReassemblyStatistics


class EnvironmentTotals(NamedTuple):
    """The network, the partitions, the gates and the topics of a worker."""

    network: NetworkTotals
    partitions: tuple[PartitionTotals, ...]
    gates: tuple[GateTotals, ...]
    topics: tuple[TopicStatistics, ...]
