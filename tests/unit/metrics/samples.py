"""Statistics of gates, partitions and subtasks with numbers that are easy to tell apart."""

from __future__ import annotations

from typing import Any

from flinknet.buffer.local_pool import LocalBufferPoolStatistics
from flinknet.buffer.network_pool import NetworkBufferPoolStatistics
from flinknet.connection.link import ConnectionStatistics
from flinknet.consumer.debloating import BufferDebloaterStatistics
from flinknet.consumer.input_channel import InputChannelStatistics, PartitionLocation
from flinknet.metrics.busiest_channels import BusiestChannels, ChannelRow
from flinknet.metrics.connection_totals import ConnectionTotals
from flinknet.metrics.environment_statistics import (
    PeerDirectoryStatistics,
    ProtocolViolations,
    RefusedPeers,
)
from flinknet.metrics.environment_totals import NetworkTotals
from flinknet.metrics.gate_totals import ChannelSums, GateTotals
from flinknet.metrics.io_metrics import IOMetrics
from flinknet.metrics.partition_totals import PartitionTotals, SubpartitionSums, longest_queues
from flinknet.metrics.task_times import TaskTimesStatistics
from flinknet.metrics.turns import Turns
from flinknet.metrics.worker_statistics import SubtaskTotals, WorkerStatistics
from flinknet.partition.subpartition import SubpartitionStatistics
from flinknet.records.serialization.spanning_record import ReassemblyStatistics

__all__ = [
    "channel",
    "channel_rows",
    "connection",
    "gate",
    "network",
    "partition",
    "pool",
    "subtask",
    "times",
    "worker",
]


def pool(owner: str = "pool", *, size: int = 8, in_use: int = 2) -> LocalBufferPoolStatistics:
    return LocalBufferPoolStatistics(
        owner=owner,
        required=1,
        maximum=size,
        size=size,
        idle=0,
        in_use=in_use,
        overdraft=0,
        available=True,
        listeners=0,
    )


def channel(number: int, kind: str = "remote", **counts: Any) -> InputChannelStatistics:
    location = PartitionLocation("127.0.0.1:7001", "numbers", number)
    return InputChannelStatistics(number, kind, location, False, **counts)


def gate(
    *channels: InputChannelStatistics,
    floating_pool: LocalBufferPoolStatistics | None = None,
    debloating: BufferDebloaterStatistics | None = None,
) -> GateTotals:
    sums = ChannelSums.of(channels)
    return GateTotals.of("gate", False, floating_pool or pool(), debloating, sums)


def channel_rows(*channels: InputChannelStatistics) -> tuple[ChannelRow, ...]:
    busiest = BusiestChannels(len(channels))
    busiest.note("gate", channels)
    turns = Turns()
    return turns.at_once(busiest.reading(turns))


def partition(*subpartitions: dict[str, Any]) -> PartitionTotals:
    idle = {
        "queued_buffers": 0,
        "queued_bytes": 0,
        "backlog": 0,
        "buffers_out": 0,
        "bytes_out": 0,
        "bytes_dropped": 0,
        "blocked": False,
        "finished": False,
        "released": False,
    }
    parts = [
        SubpartitionStatistics(**{"subpartition": number, **idle, **fields})
        for number, fields in enumerate(subpartitions)
    ]
    sums, queues = SubpartitionSums.of(parts), longest_queues((), parts)
    return PartitionTotals.of("numbers", False, pool(in_use=4), sums, queues)


def times(**fields: Any) -> TaskTimesStatistics:
    return TaskTimesStatistics(
        **{
            "name": "Map (1/2)",
            "idle_time_ms_per_second": 100.0,
            "soft_backpressured_time_ms_per_second": 200.0,
            "hard_backpressured_time_ms_per_second": 300.0,
            "max_soft_backpressured_time_ms": 20.0,
            "max_hard_backpressured_time_ms": 30.0,
            "accumulated_idle_time_ms": 1_000.0,
            "accumulated_busy_time_ms": 4_000.0,
            "accumulated_backpressured_time_ms": 5_000.0,
            "is_backpressured": True,
            **fields,
        }
    )


def subtask(index: int = 0, **fields: Any) -> SubtaskTotals:
    channels = (
        channel(0, queued_buffers=3, queued_bytes=300, buffers_in=5, bytes_in=500, backlog=7),
        channel(1, "local", queued_buffers=1, buffers_in=6, bytes_in=600),
    )
    exits: tuple[dict[str, Any], ...] = (
        {"queued_buffers": 2, "queued_bytes": 20, "buffers_out": 8, "bytes_out": 800},
        {},
    )
    return SubtaskTotals(
        **{
            "job_id": "0815",
            "job_name": "sums",
            "attempt": 0,
            "vertex": 1,
            "vertex_name": "Map",
            "subtask_index": index,
            "state": "RUNNING",
            "mailbox_queue_size": 1,
            "mailbox_latency_ms": 1.5,
            "io_metrics": IOMetrics(1, 2, 3, 4, 5, 6, 7),
            "times": times(),
            "gates": (gate(*channels),),
            "partitions": (partition(*exits),),
            "rates": (0.5, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5, 8.5),
            **fields,
        }
    )


def connection(peer: str, *credits: int) -> ConnectionTotals:
    statistics = ConnectionStatistics(
        peer=peer,
        channels=3,
        readers=(),
        readers_available=1,
        control_messages_queued=0,
        control_bytes_queued=0,
        buffers_in_flight=1,
        buffers_out=11,
        bytes_out=1_100,
        buffers_in=12,
        bytes_in=1_200,
        buffers_dropped=0,
        messages_dropped=0,
        credit_messages_out=4,
        stalled=False,
    )
    return ConnectionTotals(statistics, len(credits), sum(credits), 10 * len(credits))


def network(connections: int = 1) -> NetworkTotals:
    return NetworkTotals(
        network_pool=NetworkBufferPoolStatistics(
            total=100,
            free=60,
            required=10,
            exclusive=4,
            requested=50,
            local_pools=2,
            segment_bytes=1024,
        ),
        peers=PeerDirectoryStatistics(
            established=connections,
            pending=0,
            turned_away=0,
            admitted=1,
            accepted_total=3,
            dialled_total=2,
            lost_total=1,
            refused=(RefusedPeers("full", 5), RefusedPeers("version", 6)),
            violations=(ProtocolViolations("credit", 7),),
        ),
        connections=tuple(connection(f"worker {number}", 2, 3) for number in range(connections)),
        reassembly=ReassemblyStatistics(1, 2, 3, 4, 5, 6),
    )


def worker(subtasks: int = 1, connections: int = 1) -> WorkerStatistics:
    return WorkerStatistics.of(
        network(connections), map(subtask, range(subtasks)), event_loop_lag_ms=1.5
    )
