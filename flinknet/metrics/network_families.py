"""The metrics of a worker's network: Flink's of its memory, and flinknet's own.

flinknet's own follow Prometheus' conventions (``_total``, ``_bytes``, ``_seconds``), by peer, gate
and partition; channels are in none of them, because there may be thousands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol

from flinknet.buffer.network_pool import NetworkBufferPoolStatistics
from flinknet.metrics.busiest_channels import ChannelRow
from flinknet.metrics.connection_totals import ConnectionTotals
from flinknet.metrics.environment_statistics import PeerDirectoryStatistics
from flinknet.metrics.families import Family, Kind, Labels, Metric, families_of
from flinknet.metrics.garbage_families import garbage_families
from flinknet.metrics.gate_totals import GateTotals
from flinknet.metrics.latency_families import latency_families
from flinknet.metrics.operator_families import operator_families
from flinknet.metrics.partition_totals import PartitionTotals
from flinknet.metrics.task_families import task_families, task_labels
from flinknet.metrics.worker_statistics import WorkerStatistics
from flinknet.records.serialization.spanning_record import ReassemblyStatistics

__all__ = ["exchange_families", "network_families", "worker_families", "worker_labels"]


class Network(Protocol):
    """The part of a worker's or environment's statistics that every worker has."""

    @property
    def network_pool(self) -> NetworkBufferPoolStatistics: ...
    @property
    def peers(self) -> PeerDirectoryStatistics: ...
    @property
    def reassembly(self) -> ReassemblyStatistics: ...


def _memory(name: str, value: Callable[[Network], float]) -> Metric[Network]:
    return Metric(
        f"flink_taskmanager_Status_Shuffle_Netty_{name}",
        f"{name} (scope: taskmanager_Status_Shuffle_Netty)",
        value,
    )


_NETWORK: tuple[Metric[Network], ...] = (
    _memory("TotalMemorySegments", lambda one: one.network_pool.total),
    _memory("AvailableMemorySegments", lambda one: one.network_pool.free),
    _memory("UsedMemorySegments", lambda one: one.network_pool.used),
    _memory("TotalMemory", lambda one: one.network_pool.total_memory_bytes),
    _memory("AvailableMemory", lambda one: one.network_pool.available_memory_bytes),
    _memory("UsedMemory", lambda one: one.network_pool.used_memory_bytes),
    _memory("RequestedMemoryUsage", lambda one: one.network_pool.requested_memory_usage_percent),
    Metric(
        "flinknet_reassembly_records",
        "Records that are being put together from several buffers",
        lambda one: one.reassembly.records,
    ),
    Metric(
        "flinknet_reassembly_memory_bytes",
        "Memory of records that are being put together",
        lambda one: one.reassembly.memory_bytes,
    ),
    Metric(
        "flinknet_reassembly_disk_bytes",
        "What has gone to disk of records that are being put together",
        lambda one: one.reassembly.spilled_bytes,
    ),
    Metric(
        "flinknet_reassembly_spilled_records_total",
        "Records that have gone to disk while they were put together",
        lambda one: one.reassembly.records_spilled_before,
    ),
    Metric(
        "flinknet_connections",
        "Connections to other workers",
        lambda one: one.peers.established,
    ),
    Metric(
        "flinknet_connections_pending",
        "Sockets that have not said who they are",
        lambda one: one.peers.pending,
    ),
    Metric(
        "flinknet_connections_accepted_total",
        "Sockets accepted",
        lambda one: one.peers.accepted_total,
    ),
    Metric(
        "flinknet_connections_dialled_total",
        "Sockets connected to other workers",
        lambda one: one.peers.dialled_total,
    ),
    Metric(
        "flinknet_connections_lost_total",
        "Connections that ended without having been closed",
        lambda one: one.peers.lost_total,
    ),
)

_CONNECTION: tuple[Metric[ConnectionTotals], ...] = (
    Metric(
        "flinknet_connection_channels",
        "Channels that receive over a connection",
        lambda one: one.connection.channels,
    ),
    Metric(
        "flinknet_connection_readers",
        "Subpartitions that are sent over a connection",
        lambda one: one.readers,
    ),
    Metric(
        "flinknet_connection_credit",
        "Buffers that the peer has free for what is sent to it",
        lambda one: one.credit,
    ),
    Metric(
        "flinknet_connection_backlog",
        "Buffers that wait to be sent over a connection",
        lambda one: one.backlog,
    ),
    Metric(
        "flinknet_connection_sent_bytes_total",
        "Bytes handed to the socket",
        lambda one: one.connection.bytes_out,
    ),
    Metric(
        "flinknet_connection_received_bytes_total",
        "Bytes taken from the socket",
        lambda one: one.connection.bytes_in,
    ),
    Metric(
        "flinknet_connection_sent_buffers_total",
        "Buffers sent",
        lambda one: one.connection.buffers_out,
    ),
    Metric(
        "flinknet_connection_received_buffers_total",
        "Buffers received",
        lambda one: one.connection.buffers_in,
    ),
    Metric(
        "flinknet_connection_dropped_buffers_total",
        "Buffers received for channels that had been cancelled",
        lambda one: one.connection.buffers_dropped,
    ),
    Metric(
        "flinknet_connection_sent_credit_messages_total",
        "Messages that announced credit",
        lambda one: one.connection.credit_messages_out,
    ),
    Metric(
        "flinknet_connection_queued_control_bytes",
        "Control messages that the socket has not taken",
        lambda one: one.connection.control_bytes_queued,
    ),
    Metric(
        "flinknet_connection_stalled",
        "1 while nothing is read, because flow control is off and there is no buffer",
        lambda one: one.connection.stalled,
    ),
)

_GATE: tuple[Metric[GateTotals], ...] = (
    Metric("flinknet_gate_channels", "Channels of an input gate", lambda gate: gate.channels),
    Metric(
        "flinknet_gate_queued_buffers",
        "Buffers received and not read yet",
        lambda gate: gate.queued_buffers,
    ),
    Metric(
        "flinknet_gate_backlog",
        "Buffers that wait at the producers of a gate, as they have said",
        lambda gate: gate.backlog,
    ),
    Metric(
        "flinknet_gate_credit_announced",
        "Free buffers of a gate that its producers may send into",
        lambda gate: gate.credit_announced,
    ),
    Metric(
        "flinknet_gate_credit_unannounced",
        "Free buffers of a gate that its producers have not been told of",
        lambda gate: gate.credit_unannounced,
    ),
    Metric(
        "flinknet_gate_credit_held",
        "Free buffers that a gate keeps from its producers while its reader has enough to do",
        lambda gate: gate.credit_held,
    ),
    Metric(
        "flinknet_gate_channels_short",
        "Remote channels of a gate whose producer has more to send than it has credit for",
        lambda gate: gate.channels_short,
    ),
    Metric(
        "flinknet_gate_buffered_bytes",
        "Bytes on their way to the reader of a gate: received, or waiting at its producers",
        lambda gate: gate.buffered_bytes,
    ),
    Metric(
        "flinknet_gate_time_to_consume_seconds",
        "How long the task will take for them, with what it reads of its other gates meanwhile",
        lambda gate: _seconds(gate.time_to_consume_ms),
    ),
    Metric(
        "flinknet_gate_received_bytes_total",
        "Bytes read from a gate",
        lambda gate: gate.bytes_in_local + gate.bytes_in_remote,
    ),
)

_CHANNEL: tuple[Metric[ChannelRow], ...] = (
    Metric(
        "flinknet_channel_queued_buffers",
        "Buffers that a channel has received and not read yet",
        lambda row: row.channel.queued_buffers,
    ),
    Metric(
        "flinknet_channel_backlog",
        "Buffers that wait at the producer of a channel, as it has said",
        lambda row: row.channel.backlog,
    ),
    Metric(
        "flinknet_channel_buffered_bytes",
        "Bytes on their way to the reader of a channel: received, or waiting at its producer",
        lambda row: row.buffered_bytes,
    ),
    Metric(
        "flinknet_channel_time_to_consume_seconds",
        "How long the task will take for them, with what it reads of its other channels meanwhile",
        lambda row: _seconds(row.time_to_consume_ms),
    ),
    Metric(
        "flinknet_channel_received_bytes_total",
        "Bytes read from a channel",
        lambda row: row.channel.bytes_in,
    ),
)

_PARTITION: tuple[Metric[PartitionTotals], ...] = (
    Metric(
        "flinknet_partition_queued_buffers",
        "Buffers of a result partition that wait for its consumers",
        lambda partition: partition.queued_buffers,
    ),
    Metric(
        "flinknet_partition_blocked_subpartitions",
        "Subpartitions that wait until their consumer resumes them",
        lambda partition: partition.blocked,
    ),
    Metric(
        "flinknet_partition_pool_buffers",
        "Buffers that a result partition may hold",
        lambda partition: partition.pool.size,
    ),
    Metric(
        "flinknet_partition_pool_buffers_in_use",
        "Buffers that a result partition holds",
        lambda partition: partition.pool.in_use,
    ),
    Metric(
        "flinknet_partition_sent_bytes_total",
        "Bytes that consumers have taken",
        lambda partition: partition.bytes_out,
    ),
)


def network_families(
    labels: Labels, network: Network, connections: Sequence[ConnectionTotals]
) -> Iterator[Family]:
    """Memory, peers and connections of one worker."""
    yield from families_of(_NETWORK, [(labels, network)])
    yield _refused(labels, network.peers)
    by_peer = [({**labels, "peer": one.connection.peer}, one) for one in connections]
    yield from families_of(_CONNECTION, by_peer)


def exchange_families(
    gates: Sequence[tuple[Labels, GateTotals]],
    partitions: Sequence[tuple[Labels, PartitionTotals]],
) -> Iterator[Family]:
    """Gates and partitions, each with the labels of whose it is; their names are added."""
    named = [({**labels, "gate": gate.name}, gate) for labels, gate in gates]
    yield from families_of(_GATE, named)
    identified = [({**labels, "partition": part.partition_id}, part) for labels, part in partitions]
    yield from families_of(_PARTITION, identified)


def channel_families(labels: Labels, channels: Iterable[ChannelRow]) -> Iterator[Family]:
    """Single channels, each with its gate and its number in it."""
    named = [
        ({**labels, "gate": row.gate, "channel": str(row.channel.channel)}, row) for row in channels
    ]
    yield from families_of(_CHANNEL, named)


def worker_labels(worker_id: str, address: str) -> Labels:
    """The labels of a worker, as Flink's reporter has them; ``address`` is its data plane's."""
    return {"host": address.rpartition(":")[0].strip("[]"), "tm_id": worker_id}


def worker_families(labels: Labels, worker: WorkerStatistics) -> Iterator[Family]:
    """Everything that a worker of a cluster exports."""
    yield from network_families(labels, worker, worker.connections)
    yield Family(
        "flinknet_event_loop_lag_seconds",
        "By how much a timer was late at most, in the last five to ten seconds",
        Kind.GAUGE,
        [(labels, worker.event_loop_lag_ms / 1000)],
    )
    yield from garbage_families(labels, worker.garbage)
    tasks = [(task_labels(labels, task), task) for task in worker.subtasks]
    yield from task_families(tasks)
    yield from operator_families(tasks)
    yield from latency_families(labels, worker.subtasks)
    yield from exchange_families(
        [(labels, gate) for labels, task in tasks for gate in task.gates],
        [(labels, partition) for labels, task in tasks for partition in task.partitions],
    )
    yield from channel_families(labels, worker.channels)


def _seconds(time_ms: float | None) -> float | None:
    return None if time_ms is None else time_ms / 1000


def _refused(labels: Labels, peers: PeerDirectoryStatistics) -> Family:
    samples = [({**labels, "reason": one.reason}, one.sockets) for one in peers.refused]
    help = "Sockets of peers that were refused, by what they were told"
    return Family("flinknet_peers_refused_total", help, Kind.COUNTER, samples)
