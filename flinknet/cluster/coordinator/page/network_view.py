"""The exchange as the page shows it, and as Flink's never does: pools, connections, channels.

Pools and queues are as the workers last reported them. Single channels travel only to who asks, so
each worker is asked for those where most waits, while somebody looks. Views are plain JSON types;
rows are arrays, in the order of the columns that stand beside them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from flinknet.diagnosis.reading import TaskReading
from flinknet.diagnosis.topology import TaskKey, Topology
from flinknet.metrics.busiest_channels import ChannelRow
from flinknet.metrics.connection_totals import ConnectionTotals
from flinknet.metrics.gate_totals import GateTotals
from flinknet.metrics.partition_totals import PartitionTotals
from flinknet.metrics.worker_statistics import WorkerStatistics

__all__ = ["CHANNELS_MAX", "network_view"]

CHANNELS_MAX = 50
"""Channels of a worker that are told: those where most waits."""

CONNECTION_COLUMNS = (
    "worker",
    "peer",
    "channels",
    "credit",
    "backlog",
    "in_flight",
    "bytes_out",
    "bytes_in",
    "buffers_out",
    "buffers_in",
    "control_queued",
    "credit_messages",
    "stalled",
)

GATE_COLUMNS = (
    "task",
    "gate",
    "channels",
    "queued_buffers",
    "queued_bytes",
    "backlog",
    "buffered_bytes",
    "time_to_consume",
    "credit_announced",
    "credit_unannounced",
    "credit_held",
    "channels_short",
    "exclusive_in_use",
    "exclusive_buffers",
    "floating_in_use",
    "floating_size",
)

PARTITION_COLUMNS = (
    "task",
    "partition",
    "subpartitions",
    "queued_buffers",
    "queued_bytes",
    "blocked",
    "in_use",
    "size",
    "buffers_out",
    "longest_queue",
)

CHANNEL_COLUMNS = (
    "worker",
    "gate",
    "channel",
    "kind",
    "queued_buffers",
    "queued_bytes",
    "backlog",
    "buffered_bytes",
    "time_to_consume",
    "credit_unannounced",
    "credit_held",
    "exclusive_free",
    "exclusive_total",
    "floating_free",
    "buffers_in",
    "bytes_in",
)


def network_view(
    topology: Topology,
    live: Mapping[TaskKey, TaskReading],
    reports: Mapping[str, WorkerStatistics],
    channels: Mapping[str, Iterable[ChannelRow]],
) -> dict[str, Any]:
    """What was reported of workers and of the job's tasks, and the channels asked for."""
    named = [(topology.task_name(task), reading.latest) for task, reading in sorted(live.items())]
    connections = [
        _connection(worker, one) for worker in reports for one in reports[worker].connections
    ]
    gates = [_gate(name, gate) for name, task in named for gate in task.gates]
    partitions = [_partition(name, one) for name, task in named for one in task.partitions]
    rows = [_channel(worker, row) for worker in channels for row in channels[worker]]
    return {
        "pools": [_pool(worker, report) for worker, report in reports.items()],
        "connections": {"columns": CONNECTION_COLUMNS, "rows": connections},
        "gates": {"columns": GATE_COLUMNS, "rows": gates},
        "partitions": {"columns": PARTITION_COLUMNS, "rows": partitions},
        "channels": {"columns": CHANNEL_COLUMNS, "rows": rows},
    }


def _pool(worker: str, report: WorkerStatistics) -> dict[str, Any]:
    pool = report.network_pool
    return {
        "worker": worker,
        "total": pool.total,
        "free": pool.free,
        "exclusive": pool.exclusive,
        "requested": pool.requested,
        "local_pools": pool.local_pools,
        "segment_bytes": pool.segment_bytes,
        "loop_lag_ms": report.event_loop_lag_ms,
        "left_out": report.left_out,
    }


def _connection(worker: str, totals: ConnectionTotals) -> list[Any]:
    one = totals.connection
    return [
        worker,
        one.peer,
        one.channels,
        totals.credit,
        totals.backlog,
        one.buffers_in_flight,
        one.bytes_out,
        one.bytes_in,
        one.buffers_out,
        one.buffers_in,
        one.control_messages_queued,
        one.credit_messages_out,
        one.stalled,
    ]


def _gate(task: str, gate: GateTotals) -> list[Any]:
    return [
        task,
        gate.name,
        gate.channels,
        gate.queued_buffers,
        gate.queued_bytes,
        gate.backlog,
        gate.buffered_bytes,
        gate.time_to_consume_ms,
        gate.credit_announced,
        gate.credit_unannounced,
        gate.credit_held,
        gate.channels_short,
        gate.exclusive_in_use,
        gate.exclusive_buffers,
        gate.floating_in_use,
        gate.floating_pool.size,
    ]


def _partition(task: str, partition: PartitionTotals) -> list[Any]:
    longest = partition.longest_queues[0].queued_buffers if partition.longest_queues else 0
    return [
        task,
        partition.partition_id,
        partition.subpartitions,
        partition.queued_buffers,
        partition.queued_bytes,
        partition.blocked,
        partition.pool.in_use,
        partition.pool.size,
        partition.buffers_out,
        longest,
    ]


def _channel(worker: str, row: ChannelRow) -> list[Any]:
    one = row.channel
    return [
        worker,
        row.gate,
        one.channel,
        one.kind,
        one.queued_buffers,
        one.queued_bytes,
        one.backlog,
        row.buffered_bytes,
        row.time_to_consume_ms,
        one.unannounced_credit,
        one.held_credit,
        one.exclusive_free,
        one.exclusive_total,
        one.floating_free,
        one.buffers_in,
        one.bytes_in,
    ]
