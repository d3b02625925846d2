"""What can be seen of a worker, read without holding it up.

Theory of operation. A reading goes from subtask to subtask, from gate to gate and from partition to
partition, and lets the event loop turn after each millisecond, or after some hundred channels, in
the middle of a gate, too (``metrics/turns.py``): with thousands of channels it takes many, in which
records would wait. So it is of a stretch of time, not of a moment: what holds between numbers of
one channel holds between their sums, what lies between gates or subtasks does not quite, and a
subtask that ends meanwhile may be in it. One reading is made after the other, so that no count of a
later one is less than before.

Each subtask has a meter from when it was first read, as long as it is there, of its counters and of
the time in which it has waited for input; every reading updates it, and somebody reads at least
every ``statistics_interval_ms``. So often each subtask is sent a mail, too, that finds out how long
it takes to come between two batches. The lag of the event loop is noted by ``watch``, which sleeps
and looks by how much too long; who holds the loop up is seen meanwhile by a thread
(``loop_watch.py``), and the collections of garbage are counted (``collection_watch.py``).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import TypeAlias

from flinknet.cluster.worker.collection_watch import CollectionWatch
from flinknet.cluster.worker.loop_watch import LoopWatch
from flinknet.config import MetricsConfig
from flinknet.metrics.busiest_channels import BusiestChannels
from flinknet.metrics.consumption import bytes_per_busy_s, times_to_consume_ms
from flinknet.metrics.gate_totals import GateTotals
from flinknet.metrics.loop_lag import LoopLag
from flinknet.metrics.meter import Meter
from flinknet.metrics.partition_totals import PartitionTotals
from flinknet.metrics.task_catalogue import METERED, counts_of
from flinknet.metrics.turns import Reading, Turns, one_by_one
from flinknet.metrics.worker_statistics import SubtaskTotals, WorkerStatistics
from flinknet.net.network_environment import NetworkEnvironment
from flinknet.net.task_clock import task_time
from flinknet.runtime.subtask import Subtask

__all__ = ["WorkerMetrics"]

SubtaskName: TypeAlias = tuple[str, int, int, int]
"""Job, attempt, vertex and index: a meter must not keep a subtask that has ended."""

WATCH_S = 0.25
"""Pause between two looks at the lag of the event loop."""


class WorkerMetrics:
    """Reads a worker's network environment and ``subtasks``, those that are there now."""

    def __init__(
        self,
        environment: NetworkEnvironment,
        subtasks: Callable[[], Iterable[Subtask]],
        config: MetricsConfig | None = None,
    ) -> None:
        self._environment = environment
        self._subtasks = subtasks
        self._config = config
        self._one_at_a_time = asyncio.Lock()
        self._meters: dict[SubtaskName, Meter] = {}
        self.clock = task_time
        """In seconds; never goes back."""
        self._lag = LoopLag(self.clock())
        self._collections = CollectionWatch()
        self._garbage_meter = Meter(self.clock(), (0.0,))
        self._loop_watch = LoopWatch(lambda: self._collections.times.seconds)

    @property
    def meters(self) -> int:
        """How many subtasks are rated."""
        return len(self._meters)

    async def watch(self) -> None:
        """Look at the lag of the event loop, and at who holds it up, until cancelled."""
        with self._collections.counting(), self._loop_watch.watching():
            while True:
                begun = self.clock()
                await asyncio.sleep(WATCH_S)
                now = self.clock()
                self._lag.note(now - begun - WATCH_S, now)

    def turns(self) -> Turns:
        """How long to go on at a time with what is done for a reading."""
        return Turns(self._config, self.clock)

    async def statistics(self, channels_max: int = 0) -> WorkerStatistics:
        """Read everything, with so many channels at most."""
        async with self._one_at_a_time:
            return await self._read(channels_max)

    async def _read(self, channels_max: int) -> WorkerStatistics:
        turns = self.turns()
        subtasks = list(self._subtasks())
        for gone in self._meters.keys() - set(map(_name, subtasks)):
            self._meters.pop(gone, None)
        busiest = BusiestChannels(channels_max) if channels_max else None
        totals = []
        for subtask in subtasks:
            subtask.measure_latency()
            now = self.clock()  # when it is counted: the loop may be held up before all is read
            read = await turns.go_through(_reading(subtask, turns, busiest))
            told, throughput = self._metered(subtask, read, now)
            totals.append(told)
            if busiest is not None:
                busiest.end_task(throughput)
        network = await turns.go_through(self._environment.network_totals(turns))
        channels = () if busiest is None else await turns.go_through(busiest.reading(turns))
        self._garbage_meter.update(self.clock(), (self._collections.times.seconds,))
        [collecting] = self._garbage_meter.per_second()
        return WorkerStatistics.of(
            network,
            totals,
            event_loop_lag_ms=self._lag.longest_ms(self.clock()),
            channels=channels,
            held_up=self._loop_watch.held_up(),
            garbage=self._collections.times.told(collecting),
        )

    def _metered(
        self, subtask: Subtask, totals: SubtaskTotals, now: float
    ) -> tuple[SubtaskTotals, float | None]:
        """The totals of a subtask with its rates, and the throughput of its inputs."""
        counts = (
            *counts_of(totals),
            totals.times.accumulated_idle_time_ms / 1000,
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

_BYTES_IN = tuple(
    METERED.index(f"Shuffle.Netty.Input.{name}") for name in ("numBytesInLocal", "numBytesInRemote")
)


def _reading(
    subtask: Subtask, turns: Turns, busiest: BusiestChannels | None
) -> Reading[SubtaskTotals]:
    """Read a subtask with all that it reads and writes, but for what is rated."""
    descriptor, statistics = subtask.descriptor, subtask.statistics()
    note = None if busiest is None else busiest.note
    gates = yield from one_by_one(GateTotals.reading(gate, turns, note) for gate in subtask.gates)
    partitions = yield from one_by_one(
        PartitionTotals.reading(partition, turns) for partition in subtask.partitions
    )
    yield
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
        gates=gates,
        partitions=partitions,
        input_watermark=statistics.input_watermark,
        key_groups=statistics.key_groups,
        latencies=statistics.latencies,
        operators=statistics.operators,
    )


def _name(subtask: Subtask) -> SubtaskName:
    descriptor = subtask.descriptor
    return descriptor.job_id, descriptor.attempt, descriptor.vertex, descriptor.index
