"""Readings of a worker's metrics that do not hold the worker up.

Theory of operation. A reading goes through subtasks, gates and partitions. With thousands of
channels it takes many milliseconds, during which records would wait. It therefore yields to the
event loop after each millisecond or some hundred channels, even within a gate
(``metrics/turns.py``). A reading thus covers a period, not a moment. An invariant between counts of
one channel also holds for their sums. An invariant across gates or subtasks holds only roughly, and
a subtask that ends meanwhile may be included. Readings never overlap, so no count is ever lower
than in the reading before.

Each subtask gets a meter at its first reading, for its counters and its time idle. Every reading
updates the meter, at least once per ``statistics_interval_ms``. A reading also sends each subtask a
mail that measures how long a mail waits between two batches.

``watch`` measures the lag of the event loop by how much it oversleeps. Meanwhile a thread finds the
code that holds up the loop (``loop_watch.py``), and garbage collections are counted
(``collection_watch.py``).
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
"""Job, attempt, vertex and index.

Meters are keyed by name, because they must not keep a subtask alive that has ended.
"""

WATCH_S = 0.25
"""Seconds between two measurements of the event loop's lag."""


class WorkerMetrics:
    """Reads a worker's network environment and the present ``subtasks``."""

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
        """A clock in seconds that never goes back."""
        self._lag = LoopLag(self.clock())
        self._collections = CollectionWatch()
        self._garbage_meter = Meter(self.clock(), (0.0,))
        self._loop_watch = LoopWatch(lambda: self._collections.times.seconds)

    @property
    def meters(self) -> int:
        """The number of subtasks with a meter."""
        return len(self._meters)

    async def watch(self) -> None:
        """Measure the event loop's lag, and find the code that holds it up, until cancelled."""
        with self._collections.counting(), self._loop_watch.watching():
            while True:
                begun = self.clock()
                await asyncio.sleep(WATCH_S)
                now = self.clock()
                self._lag.note(now - begun - WATCH_S, now)

    def turns(self) -> Turns:
        """Return the budget for how long one reading may run before it yields."""
        return Turns(self._config, self.clock)

    async def statistics(self, channels_max: int = 0) -> WorkerStatistics:
        """Read all metrics, with at most ``channels_max`` channels in detail."""
        async with self._one_at_a_time:
            return await self._read(channels_max)

    async def _read(self, channels_max: int) -> WorkerStatistics:
        turns = self.turns()
        subtasks = list(self._subtasks())
        # The meters of subtasks that have ended go.
        for gone in self._meters.keys() - set(map(_name, subtasks)):
            self._meters.pop(gone, None)
        busiest = BusiestChannels(channels_max) if channels_max else None
        totals = []
        for subtask in subtasks:
            subtask.measure_latency()
            now = self.clock()  # the time of the counts: the loop may be held up before all is read
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
        """Return a subtask's totals with its rates, and the throughput of its inputs."""
        counts = (
            *counts_of(totals),
            totals.times.accumulated_idle_time_ms / 1000,
            *(count for operator in totals.operators for count in operator.counts()),
        )
        meter = self._meters.get(_name(subtask))
        if meter is None or meter.counters != len(counts):
            # A subtask that has opened has operators, and therefore more counters than before.
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
    """Read a subtask with its gates and partitions, without the rates."""
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
