"""What leaves a worker of all that can be seen in it: one value, bounded in size.

Theory of operation. Everything in a worker has ``statistics()``, down to each channel; with
thousands of channels that is more than anybody reads every few seconds. So what travels is summed
up where it is: a gate over its channels, a partition over its subpartitions, a connection over its
readers. The channels themselves go only to who asks, at most so many, those first that hold most.
Statistics that are too long all the same leave whole rows out, and say how many (``left_out``).

``pack_statistics`` and ``unpack_statistics`` are the way to the coordinator; from there a client
gets them as JSON (``plain.py``), and makes the same value of that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from heapq import nlargest
from itertools import chain
from operator import attrgetter
from typing import NamedTuple

import msgpack

from flinknet.buffer.local_pool import LocalBufferPoolStatistics
from flinknet.buffer.network_pool import NetworkBufferPoolStatistics
from flinknet.connection.link import ConnectionStatistics
from flinknet.consumer.debloating import BufferDebloaterStatistics
from flinknet.consumer.gate_statistics import InputGateStatistics
from flinknet.consumer.input_channel import InputChannelStatistics
from flinknet.metrics.consumption import buffered_bytes, times_to_consume_ms
from flinknet.metrics.environment_statistics import NetworkStatistics, PeerDirectoryStatistics
from flinknet.metrics.io_metrics import IOMetrics
from flinknet.metrics.latency_statistics import LatencyHistogram
from flinknet.metrics.operator_totals import OperatorTotals
from flinknet.metrics.plain import from_plain, row_of
from flinknet.metrics.task_times import TaskTimesStatistics
from flinknet.partition.result_partition import ResultPartitionStatistics
from flinknet.records.serialization.spanning_record import ReassemblyStatistics

__all__ = [
    "METERED",
    "ChannelRow",
    "ConnectionTotals",
    "GateTotals",
    "HeldUp",
    "KeyGroupCount",
    "PartitionTotals",
    "QueueRow",
    "SubtaskTotals",
    "TaskInput",
    "WorkerStatistics",
    "busiest_channels",
    "pack_statistics",
    "unpack_statistics",
]


class GateTotals(NamedTuple):
    """An input gate: its floating pool, and sums over its channels."""

    name: str
    channels: int
    finished: bool
    queued_buffers: int
    queued_bytes: int
    backlog: int
    """Buffers that wait at the producers."""
    credit_announced: int
    """Free buffers that producers know of."""
    credit_unannounced: int
    """Free buffers that they have not been told of."""
    exclusive_buffers: int
    exclusive_in_use: int
    floating_in_use: int
    """Floating buffers that hold data, of those that the pool has given out."""
    floating_pool: LocalBufferPoolStatistics
    buffers_in_local: int
    buffers_in_remote: int
    bytes_in_local: int
    bytes_in_remote: int
    debloating: BufferDebloaterStatistics | None
    buffered_bytes: int
    """On their way to the reader: here, and at the producers."""
    time_to_consume_ms: float | None = None
    """How long that will take, with what the task reads of its other gates meanwhile; None if that
    is not known."""

    @classmethod
    def of(cls, gate: InputGateStatistics) -> GateTotals:
        """Sum up the channels of a gate."""
        unannounced = sum(channel.unannounced_credit for channel in gate.channels)
        free = sum(channel.exclusive_free + channel.floating_free for channel in gate.channels)
        return cls(
            name=gate.name,
            channels=len(gate.channels),
            finished=gate.finished,
            queued_buffers=gate.queue_lengths.total,
            queued_bytes=gate.queued_bytes,
            backlog=sum(channel.backlog for channel in gate.channels),
            credit_announced=max(0, free - unannounced),
            credit_unannounced=unannounced,
            exclusive_buffers=sum(channel.exclusive_total for channel in gate.channels),
            exclusive_in_use=gate.exclusive_buffers_in_use,
            floating_in_use=gate.floating_buffers_in_use,
            floating_pool=gate.floating_pool,
            buffers_in_local=gate.buffers_in_local,
            buffers_in_remote=gate.buffers_in_remote,
            bytes_in_local=gate.bytes_in_local,
            bytes_in_remote=gate.bytes_in_remote,
            debloating=gate.debloating,
            buffered_bytes=sum(map(buffered_bytes, gate.channels)),
        )


class QueueRow(NamedTuple):
    """What one subpartition holds of its partition's buffers."""

    subpartition: int
    queued_buffers: int


LONGEST_QUEUES = 8
"""Subpartitions of a partition that are told apart: whom a writer waits for is among the first."""


class PartitionTotals(NamedTuple):
    """A result partition: its pool, sums over its subpartitions, and which of them hold most."""

    partition_id: str
    subpartitions: int
    finished: bool
    queued_buffers: int
    queued_bytes: int
    blocked: int
    """Subpartitions that wait for their consumer to resume them."""
    buffers_out: int
    bytes_out: int
    bytes_produced: int
    pool: LocalBufferPoolStatistics
    longest_queues: tuple[QueueRow, ...] = ()
    """At most ``LONGEST_QUEUES``, the longest first, and none that is empty."""

    @classmethod
    def of(cls, partition: ResultPartitionStatistics) -> PartitionTotals:
        """Sum up the subpartitions of a partition."""
        return cls(
            partition_id=partition.partition_id,
            subpartitions=len(partition.subpartitions),
            finished=partition.finished,
            queued_buffers=partition.queue_lengths.total,
            queued_bytes=partition.queued_bytes,
            blocked=sum(part.blocked for part in partition.subpartitions),
            buffers_out=partition.buffers_out,
            bytes_out=partition.bytes_out,
            bytes_produced=partition.bytes_produced,
            pool=partition.pool,
            longest_queues=_longest_queues(partition),
        )


def _longest_queues(partition: ResultPartitionStatistics) -> tuple[QueueRow, ...]:
    filled = (one for one in partition.subpartitions if one.queued_buffers)
    longest = nlargest(LONGEST_QUEUES, filled, key=attrgetter("queued_buffers"))
    return tuple(QueueRow(one.subpartition, one.queued_buffers) for one in longest)


class ConnectionTotals(NamedTuple):
    """A connection, without its readers, and sums over these."""

    connection: ConnectionStatistics
    readers: int
    credit: int
    """Buffers that the peer has free for what this side sends."""
    backlog: int

    @classmethod
    def of(cls, connection: ConnectionStatistics) -> ConnectionTotals:
        """Leave the readers of a connection out."""
        return cls(
            connection=connection._replace(readers=()),
            readers=connection.reader_count,
            credit=connection.credit,
            backlog=connection.backlog,
        )


class KeyGroupCount(NamedTuple):
    """How many of the records that were looked at are of one key group."""

    key_group: int
    """-1 for all that are not told of by themselves."""
    records: int


class SubtaskTotals(NamedTuple):
    """One subtask: who it is and how it does, what it has moved and how fast, its inputs and
    outputs."""

    job_id: str
    job_name: str
    attempt: int
    vertex: int
    vertex_name: str
    subtask_index: int
    state: str
    """Name of its ``ExecutionState``."""
    mailbox_queue_size: int
    """Calls that wait for it to come between two batches."""
    mailbox_latency_ms: float
    """How long one of them waits, as it was last measured."""
    io_metrics: IOMetrics
    times: TaskTimesStatistics
    gates: tuple[GateTotals, ...]
    partitions: tuple[PartitionTotals, ...]
    input_watermark: int | None = None
    """Event time at its inputs, in milliseconds: the least of 64 bits if none has come, the
    largest after the end; None if no record there has a timestamp."""
    rates: tuple[float, ...] = ()
    """Growth per second of each counter in ``METERED``, over the last minute (``meter.py``)."""
    key_groups: tuple[KeyGroupCount, ...] = ()
    """Of a keyed input, the key groups that most of a sample of its records belong to."""
    latencies: tuple[LatencyHistogram, ...] = ()
    """How long latency markers have taken from sources to the operators of its chain."""
    operators: tuple[OperatorTotals, ...] = ()
    """Of its chain, first to last."""

    def counts(self) -> tuple[int, ...]:
        """The present count of each counter in ``METERED``."""
        return tuple(count(self) for count in _COUNTS.values())


_COUNTS: dict[str, Callable[[SubtaskTotals], int]] = {
    "records_in": attrgetter("io_metrics.records_in"),
    "records_out": attrgetter("io_metrics.records_out"),
    "bytes_in": attrgetter("io_metrics.bytes_in"),
    "bytes_out": attrgetter("io_metrics.bytes_out"),
    "buffers_out": lambda task: sum(part.buffers_out for part in task.partitions),
    "buffers_in_local": lambda task: sum(gate.buffers_in_local for gate in task.gates),
    "buffers_in_remote": lambda task: sum(gate.buffers_in_remote for gate in task.gates),
    "bytes_in_local": lambda task: sum(gate.bytes_in_local for gate in task.gates),
    "bytes_in_remote": lambda task: sum(gate.bytes_in_remote for gate in task.gates),
}

METERED = tuple(_COUNTS)
"""The counters of a subtask that are rated too."""


class ChannelRow(NamedTuple):
    """One input channel, whose it is, and what is on its way to its reader."""

    gate: str
    channel: InputChannelStatistics
    buffered_bytes: int
    time_to_consume_ms: float | None
    """How long that will take, with what the task reads of its other channels meanwhile; None if
    that is not known."""


class TaskInput(NamedTuple):
    """The gates of one task, and how many bytes per busy second it takes from them together."""

    gates: Sequence[InputGateStatistics]
    throughput: float | None

    def channels(self) -> list[ChannelRow]:
        """All channels, with how long each will take."""
        channels = [(gate.name, channel) for gate in self.gates for channel in gate.channels]
        buffered = [buffered_bytes(channel) for _, channel in channels]
        times = times_to_consume_ms(buffered, self.throughput)
        return [
            ChannelRow(*channel, size, time)
            for channel, size, time in zip(channels, buffered, times, strict=True)
        ]


def busiest_channels(
    channels: Iterable[ChannelRow], others: Iterable[ChannelRow], channels_max: int
) -> tuple[ChannelRow, ...]:
    """The channels with most waiting for them, here and at their producers; at most so many."""
    return tuple(nlargest(channels_max, chain(others, channels), key=_waiting))


def _waiting(row: ChannelRow) -> int:
    return row.channel.queued_buffers + row.channel.backlog


class HeldUp(NamedTuple):
    """Who has kept the event loop of a worker from turning."""

    task: str
    """The name of the asyncio task; empty if the whole process stood still, so that no thread of it
    could see why."""
    seconds: float
    """In all, since the start of the worker."""
    stack: str
    """Where it was when it was last seen, the innermost call first."""


class WorkerStatistics(NamedTuple):
    """A worker at one moment."""

    network_pool: NetworkBufferPoolStatistics
    peers: PeerDirectoryStatistics
    reassembly: ReassemblyStatistics
    event_loop_lag_ms: float
    """By how much a timer was late at most, in the last five to ten seconds."""
    connections: tuple[ConnectionTotals, ...] = ()
    subtasks: tuple[SubtaskTotals, ...] = ()
    channels: tuple[ChannelRow, ...] = ()
    """Only what was asked for."""
    left_out: int = 0
    """Connections, subtasks and channels for which there was no room."""
    held_up: tuple[HeldUp, ...] = ()
    """By task, those that have held the event loop up for longest first."""

    @classmethod
    def of(
        cls,
        network: NetworkStatistics,
        subtasks: Iterable[SubtaskTotals],
        *,
        event_loop_lag_ms: float,
        channels: tuple[ChannelRow, ...] = (),
        held_up: tuple[HeldUp, ...] = (),
    ) -> WorkerStatistics:
        """Put together what was seen of a worker."""
        return cls(
            network_pool=network.network_pool,
            peers=network.peers,
            reassembly=network.reassembly,
            event_loop_lag_ms=event_loop_lag_ms,
            connections=tuple(map(ConnectionTotals.of, network.connections)),
            subtasks=tuple(subtasks),
            channels=channels,
            held_up=held_up,
        )

    def halved(self) -> WorkerStatistics:
        """Leave half of the rows out: the last connections, subtasks and channels."""
        half = self._replace(
            connections=self.connections[: len(self.connections) // 2],
            subtasks=self.subtasks[: len(self.subtasks) // 2],
            channels=self.channels[: len(self.channels) // 2],
        )
        return half._replace(left_out=self.left_out + self._rows() - half._rows())

    def _rows(self) -> int:
        return len(self.connections) + len(self.subtasks) + len(self.channels)


def pack_statistics(statistics: WorkerStatistics, bytes_max: int) -> bytes:
    """The bytes of a worker's statistics, at most so many: rows that do not fit are left out."""
    while len(body := _pack(statistics)) > bytes_max:
        smaller = statistics.halved()
        assert smaller != statistics, f"{bytes_max} bytes are too few for any statistics"
        statistics = smaller
    return body


def _pack(statistics: WorkerStatistics) -> bytes:
    body: bytes = msgpack.packb(statistics, default=row_of, unicode_errors="backslashreplace")
    return body


def unpack_statistics(body: bytes) -> WorkerStatistics:
    """Inverse of ``pack_statistics``; ValueError if the bytes are none."""
    try:
        plain = msgpack.unpackb(body)
    except Exception as error:
        raise ValueError(f"the statistics are not msgpack: {error}") from error
    return from_plain(WorkerStatistics, plain)
