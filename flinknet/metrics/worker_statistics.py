"""Statistics that a worker reports: one value, bounded in size.

Every object in a worker has ``statistics()``, down to each channel. With thousands of channels,
this is too much to send every few seconds. So the worker sends sums: a gate sums its channels
(``gate_totals.py``), a partition its subpartitions, a connection its readers. Single channels are
sent only on request, up to a limit, the fullest first. If statistics are still too long, whole rows
are left out and counted (``left_out``).

``pack_statistics`` and ``unpack_statistics`` transport the statistics to the coordinator. From
there a client receives them as JSON (``plain.py``) and restores the same value.
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
    """Number of sampled records of a subtask in one key group."""

    key_group: int
    """-1 for all key groups that are not listed separately."""
    records: int
    """Sampled records, each counted once for every batch that it represents."""


class SubtaskTotals(NamedTuple):
    """One subtask: its identity and state, its counters and rates, its inputs and outputs."""

    job_id: str
    job_name: str
    attempt: int
    vertex: int
    vertex_name: str
    subtask_index: int
    state: str
    """Name of its ``ExecutionState``."""
    mailbox_queue_size: int
    """Calls in the mailbox that wait for the end of a batch."""
    mailbox_latency_ms: float
    """Waiting time of such a call, as last measured."""
    io_metrics: IOMetrics
    times: TaskTimesStatistics
    gates: tuple[GateTotals, ...]
    partitions: tuple[PartitionTotals, ...]
    input_watermark: int | None = None
    """Input watermark, in milliseconds since 1970.

    The least 64-bit integer if none has arrived, and the largest after the end; None if the records
    have no timestamps.
    """
    rates: tuple[float, ...] = ()
    """Rates of the counters in ``task_catalogue.METERED``, over the last minute (``meter.py``)."""
    key_groups: tuple[KeyGroupCount, ...] = ()
    """The key groups with most sampled records of a keyed input."""
    latencies: tuple[LatencyHistogram, ...] = ()
    """Latencies of markers from sources to the operators of its chain."""
    operators: tuple[OperatorTotals, ...] = ()
    """The operators of its chain, first to last."""


class HeldUp(NamedTuple):
    """A task that blocked the event loop of a worker."""

    task: str
    """Name of the asyncio task.

    Empty if the whole process stood still, so that no thread of it could observe the cause.
    """
    seconds: float
    """Total time since the start of the worker."""
    stack: str
    """Stack at the last sample, the innermost call first."""


class WorkerStatistics(NamedTuple):
    """A worker at one moment."""

    network_pool: NetworkBufferPoolStatistics
    peers: PeerDirectoryStatistics
    reassembly: ReassemblyStatistics
    event_loop_lag_ms: float
    """Maximum lag of a timer in the last five to ten seconds."""
    connections: tuple[ConnectionTotals, ...] = ()
    subtasks: tuple[SubtaskTotals, ...] = ()
    channels: tuple[ChannelRow, ...] = ()
    """Only the requested channels."""
    left_out: int = 0
    """Number of connections, subtasks and channels left out for lack of space."""
    held_up: tuple[HeldUp, ...] = ()
    """Tasks that blocked the event loop, the longest first."""
    garbage: GarbageTotals = NO_GARBAGE
    """Activity of the garbage collector."""

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
        """Return the statistics of a worker from its parts."""
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
        """Return a copy without half of the rows: the last connections, subtasks and channels."""
        half = self._replace(
            connections=self.connections[: len(self.connections) // 2],
            subtasks=self.subtasks[: len(self.subtasks) // 2],
            channels=self.channels[: len(self.channels) // 2],
        )
        return half._replace(left_out=self.left_out + self._rows() - half._rows())

    def _rows(self) -> int:
        return len(self.connections) + len(self.subtasks) + len(self.channels)


def pack_statistics(statistics: WorkerStatistics, bytes_max: int) -> bytes:
    """Return a worker's statistics as at most ``bytes_max`` bytes, without rows that do not fit."""
    while len(body := _pack(statistics)) > bytes_max:
        smaller = statistics.halved()
        assert smaller != statistics, f"{bytes_max} bytes are too few for any statistics"
        statistics = smaller
    return body


def _pack(statistics: WorkerStatistics) -> bytes:
    # Names may hold lone surrogates, which UTF-8 cannot encode.
    body: bytes = msgpack.packb(statistics, default=row_of, unicode_errors="backslashreplace")
    return body


def unpack_statistics(body: bytes) -> WorkerStatistics:
    """Return the statistics in bytes from ``pack_statistics``; ValueError if they are invalid."""
    try:
        plain = msgpack.unpackb(body)
    except Exception as error:
        raise ValueError(f"the statistics are not msgpack: {error}") from error
    return from_plain(WorkerStatistics, plain)
