"""What can be seen of a worker, read without holding it up.

Theory of operation. A reading goes from subtask to subtask, and lets the event loop turn after each
millisecond: with hundreds of subtasks and thousands of channels it takes several, in which records
would wait. So it is of a stretch of time, not of a moment, and a subtask that ends meanwhile may be
in it. Readings side by side do not disturb each other.

Each subtask has a meter from when it was first read, as long as it is there, of its counters and of
the time in which it has waited for input; every reading updates it, and somebody reads at least
every ``statistics_interval_ms``. So often each subtask is sent a mail, too, that finds out how long
it takes to come between two batches. The lag of the event loop is noted by ``watch``, which sleeps
and looks by how much too long; who holds the loop up is seen meanwhile by a thread
(``loop_watch.py``).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import TypeAlias

from flinknet.cluster.worker.loop_watch import LoopWatch
from flinknet.metrics.consumption import bytes_per_busy_s, times_to_consume_ms
from flinknet.metrics.loop_lag import LoopLag
from flinknet.metrics.meter import Meter
from flinknet.metrics.worker_statistics import (
    METERED,
    ChannelRow,
    GateTotals,
    PartitionTotals,
    SubtaskTotals,
    TaskInput,
    WorkerStatistics,
    busiest_channels,
)
from flinknet.net.network_environment import NetworkEnvironment
from flinknet.net.task_clock import task_time
from flinknet.task.subtask import Subtask, SubtaskStatistics

__all__ = ["WorkerMetrics"]

SubtaskName: TypeAlias = tuple[str, int, int, int]
"""Job, attempt, vertex and index: a meter must not keep a subtask that has ended."""

TURN_S = 0.001
"""For how long a reading may hold the event loop before others have a turn."""

WATCH_S = 0.25
"""Pause between two looks at the lag of the event loop."""


class WorkerMetrics:
    """Reads a worker's network environment and ``subtasks``, those that are there now."""

    def __init__(
        self, environment: NetworkEnvironment, subtasks: Callable[[], Iterable[Subtask]]
    ) -> None:
        self._environment = environment
        self._subtasks = subtasks
        self._meters: dict[SubtaskName, Meter] = {}
        self.clock = task_time
        """In seconds; never goes back."""
        self._lag = LoopLag(self.clock())
        self._loop_watch = LoopWatch()

    @property
    def meters(self) -> int:
        """How many subtasks are rated."""
        return len(self._meters)

    async def watch(self) -> None:
        """Look at the lag of the event loop, and at who holds it up, until cancelled."""
        with self._loop_watch.watching():
            while True:
                begun = self.clock()
                await asyncio.sleep(WATCH_S)
                now = self.clock()
                self._lag.note(now - begun - WATCH_S, now)

    async def statistics(self, channels_max: int = 0) -> WorkerStatistics:
        """Read everything, with so many channels at most."""
        subtasks = list(self._subtasks())
        for gone in self._meters.keys() - set(map(_name, subtasks)):
            self._meters.pop(gone, None)
        totals = []
        rows: tuple[ChannelRow, ...] = ()
        turn_began = self.clock()
        for subtask in subtasks:
            subtask.measure_latency()
            statistics = subtask.statistics()
            told, throughput = self._metered(subtask, statistics)
            totals.append(told)
            if channels_max:
                inputs = TaskInput(statistics.gates, throughput)
                rows = busiest_channels(inputs.channels(), rows, channels_max)
            if self.clock() - turn_began >= TURN_S:
                await asyncio.sleep(0)
                turn_began = self.clock()
        return WorkerStatistics.of(
            self._environment.network_statistics(with_readers=False),
            totals,
            event_loop_lag_ms=self._lag.longest_ms(self.clock()),
            channels=rows,
            held_up=self._loop_watch.held_up(),
        )

    def _metered(
        self, subtask: Subtask, statistics: SubtaskStatistics
    ) -> tuple[SubtaskTotals, float | None]:
        """The totals of a subtask, and the throughput of its inputs."""
        totals, now = _totals(subtask, statistics), self.clock()
        counts = (
            *totals.counts(),
            statistics.times.accumulated_idle_time_ms / 1000,
            *(count for operator in totals.operators for count in operator.counts()),
        )
        meter = self._meters.get(_name(subtask))
        if meter is None or meter.counters != len(counts):
            # An open subtask has operators, and so more counters than before.
            meter = self._meters[_name(subtask)] = Meter(now, counts)
        meter.update(now, counts)
        grown = meter.per_second()
        rates, idle_share, of_operators = grown[:_METERED], grown[_METERED], grown[_METERED + 1 :]
        throughput = bytes_per_busy_s(sum(rates[place] for place in _BYTES_IN), idle_share)
        times = times_to_consume_ms([gate.buffered_bytes for gate in totals.gates], throughput)
        gates = tuple(
            gate._replace(time_to_consume_ms=time)
            for gate, time in zip(totals.gates, times, strict=True)
        )
        operators = tuple(
            operator.rated(*of_operators[2 * place : 2 * place + 2])
            for place, operator in enumerate(totals.operators)
        )
        return totals._replace(rates=rates, gates=gates, operators=operators), throughput


_METERED = len(METERED)

_BYTES_IN = tuple(map(METERED.index, ("bytes_in_local", "bytes_in_remote")))


def _totals(subtask: Subtask, statistics: SubtaskStatistics) -> SubtaskTotals:
    descriptor = subtask.descriptor
    return SubtaskTotals(
        job_id=descriptor.job_id,
        job_name=subtask.job_name,
        attempt=descriptor.attempt,
        vertex=descriptor.vertex,
        vertex_name=subtask.vertex_name,
        subtask_index=descriptor.index,
        state=statistics.state,
        mailbox_queue_size=statistics.mailbox.waiting,
        mailbox_latency_ms=statistics.mailbox.latency_ms,
        io_metrics=statistics.io_metrics,
        times=statistics.times,
        gates=tuple(map(GateTotals.of, statistics.gates)),
        partitions=tuple(map(PartitionTotals.of, statistics.partitions)),
        input_watermark=statistics.input_watermark,
        key_groups=statistics.key_groups,
        latencies=statistics.latencies,
        operators=statistics.operators,
    )


def _name(subtask: Subtask) -> SubtaskName:
    descriptor = subtask.descriptor
    return descriptor.job_id, descriptor.attempt, descriptor.vertex, descriptor.index
