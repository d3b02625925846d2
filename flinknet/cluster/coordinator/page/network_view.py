"""The exchange on the web page: pools, connections and channels, which Flink's page does not show.

Pools and queues come from the last reports of workers. Single channels are sent only on request.
While the page shows them, each worker is asked for the channels with the most waiting data. Views
are plain JSON types; rows are arrays, in the order of the columns next to them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter
from typing import Any

from flinknet.diagnosis.reading import TaskReading
from flinknet.diagnosis.topology import TaskKey, Topology
from flinknet.metrics.busiest_channels import ChannelRow
from flinknet.metrics.task_catalogue import CHANNEL, GATE, PARTITION
from flinknet.metrics.worker_catalogue import CONNECTION
from flinknet.metrics.worker_statistics import WorkerStatistics

__all__ = ["CHANNELS_MAX", "network_view"]

CHANNELS_MAX = 50
"""Number of channels to show per worker; the channels with the most waiting data are chosen."""

_Columns = dict[str, Callable[[Any], Any]]
"""The getter of each column of a table, by its name; of the column's metric if there is one."""

_CONNECTIONS: _Columns = {
    "peer": attrgetter("connection.peer"),
    "channels": CONNECTION["flinknet_connection_channels"].value,
    "credit": CONNECTION["flinknet_connection_credit"].value,
    "backlog": CONNECTION["flinknet_connection_backlog"].value,
    "in_flight": attrgetter("connection.buffers_in_flight"),
    "bytes_out": CONNECTION["flinknet_connection_sent_bytes_total"].value,
    "bytes_in": CONNECTION["flinknet_connection_received_bytes_total"].value,
    "buffers_out": CONNECTION["flinknet_connection_sent_buffers_total"].value,
    "buffers_in": CONNECTION["flinknet_connection_received_buffers_total"].value,
    "control_queued": attrgetter("connection.control_messages_queued"),
    "credit_messages": CONNECTION["flinknet_connection_sent_credit_messages_total"].value,
    "stalled": CONNECTION["flinknet_connection_stalled"].value,
}

_GATES: _Columns = {
    "gate": attrgetter("name"),
    "channels": GATE["flinknet_gate_channels"].value,
    "queued_buffers": GATE["flinknet_gate_queued_buffers"].value,
    "queued_bytes": attrgetter("queued_bytes"),
    "backlog": GATE["flinknet_gate_backlog"].value,
    "buffered_bytes": GATE["flinknet_gate_buffered_bytes"].value,
    "time_to_consume": attrgetter("time_to_consume_ms"),
    "credit_announced": GATE["flinknet_gate_credit_announced"].value,
    "credit_unannounced": GATE["flinknet_gate_credit_unannounced"].value,
    "credit_held": GATE["flinknet_gate_credit_held"].value,
    "channels_short": GATE["flinknet_gate_channels_short"].value,
    "exclusive_in_use": attrgetter("exclusive_in_use"),
    "exclusive_buffers": attrgetter("exclusive_buffers"),
    "floating_in_use": attrgetter("floating_in_use"),
    "floating_size": attrgetter("floating_pool.size"),
}

_PARTITIONS: _Columns = {
    "partition": attrgetter("partition_id"),
    "subpartitions": attrgetter("subpartitions"),
    "queued_buffers": PARTITION["flinknet_partition_queued_buffers"].value,
    "queued_bytes": attrgetter("queued_bytes"),
    "blocked": PARTITION["flinknet_partition_blocked_subpartitions"].value,
    "in_use": PARTITION["flinknet_partition_pool_buffers_in_use"].value,
    "size": PARTITION["flinknet_partition_pool_buffers"].value,
    "buffers_out": attrgetter("buffers_out"),
    "longest_queue": lambda one: max(
        (queue.queued_buffers for queue in one.longest_queues), default=0
    ),
}

_CHANNELS: _Columns = {
    "gate": attrgetter("gate"),
    "channel": attrgetter("channel.channel"),
    "kind": attrgetter("channel.kind"),
    "queued_buffers": CHANNEL["flinknet_channel_queued_buffers"].value,
    "queued_bytes": attrgetter("channel.queued_bytes"),
    "backlog": CHANNEL["flinknet_channel_backlog"].value,
    "buffered_bytes": CHANNEL["flinknet_channel_buffered_bytes"].value,
    "time_to_consume": attrgetter("time_to_consume_ms"),
    "credit_unannounced": attrgetter("channel.unannounced_credit"),
    "credit_held": attrgetter("channel.held_credit"),
    "exclusive_free": attrgetter("channel.exclusive_free"),
    "exclusive_total": attrgetter("channel.exclusive_total"),
    "floating_free": attrgetter("channel.floating_free"),
    "buffers_in": attrgetter("channel.buffers_in"),
    "bytes_in": CHANNEL["flinknet_channel_received_bytes_total"].value,
}


def network_view(
    topology: Topology,
    live: Mapping[TaskKey, TaskReading],
    reports: Mapping[str, WorkerStatistics],
    channels: Mapping[str, Iterable[ChannelRow]],
) -> dict[str, Any]:
    """Return the reports of workers and of the job's tasks, and the requested channels."""
    named = [(topology.task_name(task), reading.latest) for task, reading in sorted(live.items())]
    gates = [(name, gate) for name, task in named for gate in task.gates]
    partitions = [(name, one) for name, task in named for one in task.partitions]
    connections = [(worker, one) for worker in reports for one in reports[worker].connections]
    busiest = [(worker, row) for worker in channels for row in channels[worker]]
    return {
        "pools": [_pool(worker, report) for worker, report in reports.items()],
        "connections": _table("worker", _CONNECTIONS, connections),
        "gates": _table("task", _GATES, gates),
        "partitions": _table("task", _PARTITIONS, partitions),
        "channels": _table("worker", _CHANNELS, busiest),
    }


def _table(owner: str, columns: _Columns, owned: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Make a row of each object, after the name of its owner."""
    reads = list(columns.values())
    return {
        "columns": (owner, *columns),
        "rows": [[name, *(read(one) for read in reads)] for name, one in owned],
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
