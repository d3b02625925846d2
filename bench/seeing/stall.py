"""The longest turn of a worker's event loop while 10,000 channels are read.

Two workers have 71 sources and 71 sinks each, connected all to all, and next to no records flow.

A task of one worker's loop only yields and returns in the next turn. The CPU time of the loop's
thread between two of its runs is the time that a record would have waited. The time of other
processes is not included.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from time import monotonic, thread_time
from typing import NamedTuple

from bench.errors import BenchError
from bench.harness.case import Case
from bench.harness.pinning import Pinning
from bench.harness.process import Clocks
from bench.harness.trial import Measurement, Plan
from bench.peers.cases import KEYBY
from flinknet.config import ClusterConfig, FlinknetConfig, NetworkConfig
from flinknet.datastream import (
    GeneratorSource,
    RateLimitedSource,
    RuntimeContext,
    SinkFunction,
    StreamExecutionEnvironment,
)
from flinknet.errors import FlinknetError

__all__ = ["CHANNELS", "CONFIG", "SETTLE_S", "WatchedTurns", "measure_stall", "watch_turns"]

PARALLELISM = 142
RECORDS_PER_S = 2 * PARALLELISM
SETTLE_S = 4.0
"""Seconds from the start of the job to the first turn that counts."""

CHANNELS = replace(
    KEYBY,
    name="channels-10k",
    summary="two workers with 10,082 channels each, next to idle: the longest turn of a loop",
)

CONFIG = FlinknetConfig(
    network=NetworkConfig(network_memory_bytes=64 * 2**20, segment_bytes=1024),
    cluster=ClusterConfig(workers=2, slots_per_worker=PARALLELISM // 2),
)
"""Small buffers, of which half of the channels have two each."""


class WatchedTurns(NamedTuple):
    """The longest turn of an event loop, in CPU time of its thread.

    ``cpu_s`` has the CPU seconds of its process in the same period.
    """

    longest_ms: float
    cpu_s: float


async def watch_turns(seconds: float) -> WatchedTurns:
    """Time the turns of this event loop for ``seconds``, after it has settled."""
    await asyncio.sleep(SETTLE_S)
    longest_s = 0.0
    begun, before = Clocks.read(), thread_time()
    end = monotonic() + seconds
    while monotonic() < end:
        await asyncio.sleep(0)
        now = thread_time()
        longest_s, before = max(longest_s, now - before), now
    return WatchedTurns(1000 * longest_s, (Clocks.read() - begun).cpu)


class Turns(SinkFunction):
    """Counts records; the first of its subtasks times the turns of its event loop."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    async def open(self, runtime_context: RuntimeContext) -> None:
        """Initialize the sink on the event loop, which it may time."""
        self._context = runtime_context
        self._records = 0
        self._watch: asyncio.Task[WatchedTurns] | None = None
        if runtime_context.index == 0:
            self._watch = asyncio.get_running_loop().create_task(watch_turns(self._seconds))

    def invoke(self, value: object) -> None:
        """Count one record."""
        self._records += 1

    def finish(self) -> None:
        """Store the results in the metrics."""
        self._context.metrics.update(records=self._records)
        if self._watch is not None and self._watch.done():
            turns = self._watch.result()
            self._context.metrics.update(longest_turn_ms=turns.longest_ms, cpu_s=turns.cpu_s)

    async def close(self) -> None:
        """Stop the timing."""
        if self._watch is not None:
            self._watch.cancel()


def measure_stall(config: FlinknetConfig, case: Case, plan: Plan, pinning: Pinning) -> Measurement:
    """Run once. Raises BenchError if the job fails or ends too early."""
    records = round((SETTLE_S + plan.seconds + 2.0) * RECORDS_PER_S)
    environment = StreamExecutionEnvironment.get_execution_environment(config)
    environment.set_parallelism(PARALLELISM)
    source = RateLimitedSource(GeneratorSource(lambda number: number, records), RECORDS_PER_S)
    keyed = environment.from_source(source).key_by(lambda number: number)
    keyed.sink_to(Turns(plan.seconds)).name("turns")
    try:
        result = environment.execute(case.name)
    except FlinknetError as error:
        raise BenchError(f"{case.name}: {error}") from error
    told = [row["metrics"]["turns"] for row in result.vertices if "turns" in row["metrics"]]
    [watched] = [one for one in told if "cpu_s" in one] or [None]
    if watched is None:
        raise BenchError(f"{case.name}: the job has ended before its turns were timed")
    return Measurement(
        records=round(plan.seconds * RECORDS_PER_S),
        seconds=plan.seconds,
        producer_cpu_seconds=0.0,
        consumer_cpu_seconds=watched["cpu_s"],
        verified=sum(one["records"] for one in told) == records,
        observations={"longest_turn_ms": watched["longest_turn_ms"]},
    )
