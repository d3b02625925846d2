"""What leaves a worker of all that can be seen in it: one value, bounded in size.

Theory of operation. Everything in a worker has ``statistics()``, down to each channel; with
thousands of channels that is more than anybody reads every few seconds. So what travels is summed
up where it is: a gate over its channels (``gate_totals.py``), a partition over its subpartitions, a
connection over its readers. The channels themselves go only to who asks, at most so many, those
first that hold most.
Statistics that are too long all the same leave whole rows out, and say how many (``left_out``).

``pack_statistics`` and ``unpack_statistics`` are the way to the coordinator; from there a client
gets them as JSON (``plain.py``), and makes the same value of that.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgpack

from flinknet.buffer.network_pool import NetworkBufferPoolStatistics
from flinknet.metrics.busiest_channels import ChannelRow
from flinknet.metrics.connection_totals import ConnectionTotals
from flinknet.metrics.environment_statistics import PeerDirectoryStatistics
from flinknet.metrics.environment_totals import NetworkTotals
from flinknet.metrics.garbage_totals import NO_GARBAGE, GarbageTotals
from flinknet.metrics.gate_totals import GateTotals
from flinknet.metrics.io_metrics import IOMetrics
from flinknet.metrics.latency_statistics import LatencyHistogram
from flinknet.metrics.operator_totals import OperatorTotals
from flinknet.metrics.partition_totals import PartitionTotals
from flinknet.metrics.plain import from_plain, row_of
from flinknet.metrics.task_times import TaskTimesStatistics
from flinknet.records.serialization.spanning_record import ReassemblyStatistics

__all__ = [
    "HeldUp",
    "KeyGroupCount",
    "SubtaskTotals",
    "WorkerStatistics",
    "pack_statistics",
    "unpack_statistics",
]


class KeyGroupCount(NamedTuple):
    """How much of the sample of a subtask's records is of one key group."""

    key_group: int
    """-1 for all that are not told of by themselves."""
    records: int
    """One for each batch that a record which was looked at stands for."""


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
    """Growth per second of each counter that is metered (``task_catalogue.METERED``), over the last
    minute (``meter.py``)."""
    key_groups: tuple[KeyGroupCount, ...] = ()
    """Of a keyed input, the key groups that most of a sample of its records belong to."""
    latencies: tuple[LatencyHistogram, ...] = ()
    """How long latency markers have taken from sources to the operators of its chain."""
    operators: tuple[OperatorTotals, ...] = ()
    """Of its chain, first to last."""


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
    garbage: GarbageTotals = NO_GARBAGE
    """What the garbage collector has done."""

    @classmethod
    def of(
        cls,
        network: NetworkTotals,
        subtasks: Iterable[SubtaskTotals],
        *,
        event_loop_lag_ms: float,
        channels: tuple[ChannelRow, ...] = (),
        held_up: tuple[HeldUp, ...] = (),
        garbage: GarbageTotals = NO_GARBAGE,
    ) -> WorkerStatistics:
        """Put together what was seen of a worker."""
        return cls(
            network_pool=network.network_pool,
            peers=network.peers,
            reassembly=network.reassembly,
            event_loop_lag_ms=event_loop_lag_ms,
            connections=network.connections,
            subtasks=tuple(subtasks),
            channels=channels,
            held_up=held_up,
            garbage=garbage,
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
