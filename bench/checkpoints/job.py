"""The keyed job of ``peers``, with state or without, with checkpoints or without.

A function counts the records of each key in keyed state and passes them on. A timer in every sink
measures how late the event loop serves it. Processing a batch also makes the timer late, so the
effect of checkpoints is the difference to a run without them. The timer also measures the processor
time that the process spent meanwhile; the rest of the delay is time of other programs on the same
CPU.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from operator import itemgetter
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

from bench.errors import BenchError
from bench.exchange.cases import small_tuples
from bench.harness.case import Block, Case
from bench.harness.pinning import Pinning
from bench.harness.trial import Measurement, Plan
from bench.peers.cases import KEYBY
from bench.peers.flinknet_job import CountingSink, Stage, Variation, measure
from flinknet import FlinknetConfig
from flinknet.config import CheckpointingConfig
from flinknet.datastream import (
    CheckpointedFunction,
    KeyedProcessFunction,
    ProcessContext,
    RestartStrategies,
    RuntimeContext,
    StreamExecutionEnvironment,
    ValueStateDescriptor,
)

__all__ = ["CASES", "INTERVAL_MS", "measure_job"]

INTERVAL_MS = 1_000.0
TICK_S = 0.001
KEYS_MAX = 1_000_000


def make_large_block() -> Block:
    """Return a record of every key, in random order."""
    random = Random(7)
    keys = list(range(KEYS_MAX))
    random.shuffle(keys)
    return [(key, random.getrandbits(31), 0.5) for key in keys]


SMALL = replace(
    KEYBY,
    name="small-state",
    summary=f"records counted by {small_tuples.KEYS:,} keys",
)
LARGE = Case(
    name="large-state",
    summary=f"records counted by {KEYS_MAX:,} keys",
    make_block=make_large_block,
    weigh=itemgetter(1),
    key=itemgetter(0),
)
NONE = replace(KEYBY, name="no-state", summary="the case `keyby` of `peers` as it is")
CASES = (NONE, SMALL, LARGE)

WARM_UP_S = {LARGE.name: 8.0}
"""Warm-up until every key has been seen."""

SECONDS_LEAST = 4.0
"""Long enough for some checkpoints in every run."""


class Counting(KeyedProcessFunction):
    """Counts the records of each key."""

    def open(self, runtime_context: RuntimeContext) -> None:
        """Open the state."""
        self._count = runtime_context.get_state(ValueStateDescriptor("count"))

    def process_element(self, value: Any, ctx: ProcessContext) -> Iterable[Any]:
        """Count one record, and pass it on."""
        self._count.update((self._count.value() or 0) + 1)
        yield value


class WatchingSink(CountingSink, CheckpointedFunction):
    """Counts records and checkpoints, and measures how long its event loop stands still."""

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        self._standstill_s = self._held_s = 0.0
        self._spent_s = 0.0
        self._checkpoints = 0
        self._ticker: asyncio.TimerHandle | None = None

    async def open(  # type: ignore[override]
        self, runtime_context: RuntimeContext
    ) -> None:
        """Wait for the first record, and start the timer on the event loop."""
        super().open(runtime_context)
        self._tick_at(asyncio.get_running_loop().time() + TICK_S)

    def initialize_state(self, context: Any) -> None:
        """Restore nothing, because the sink has no state."""

    def snapshot_state(self, context: Any) -> None:
        """Count a checkpoint."""
        self._checkpoints += 1

    def _tick_at(self, due: float) -> None:
        self._ticker = asyncio.get_running_loop().call_at(due, self._tick, due)

    def _tick(self, due: float) -> None:
        now, before = asyncio.get_running_loop().time(), self._spent_s
        self._spent_s = time.process_time()
        if self.measures:
            late_s = now - due
            self._standstill_s = max(self._standstill_s, late_s)
            self._held_s = max(self._held_s, min(late_s, self._spent_s - before))
        self._tick_at(now + TICK_S)

    def finish(self) -> None:
        """Store the results in the metrics."""
        super().finish()
        self._context.metrics.update(
            standstill_ms=round(self._standstill_s * 1000, 1),
            held_ms=round(self._held_s * 1000, 1),
            checkpoints=self._checkpoints,
        )

    async def close(self) -> None:  # type: ignore[override]
        """Cancel the timers."""
        super().close()
        if self._ticker is not None:
            self._ticker.cancel()


def measure_job(checkpoints: bool, case: Case, plan: Plan, pinning: Pinning) -> Measurement:
    """Run once. Raises BenchError also if checkpoints are missing or unexpected."""
    plan = replace(
        plan,
        seconds=max(plan.seconds, SECONDS_LEAST),
        warm_up_s=WARM_UP_S.get(case.name, plan.warm_up_s),
    )
    with TemporaryDirectory(prefix="flinknet-bench-") as directory:
        variation = Variation(
            FlinknetConfig(checkpointing=CheckpointingConfig(directory=directory)),
            prepare=partial(_enable, enabled=checkpoints),
            function=None if case is NONE else Counting,
            sink=WatchingSink,
        )
        measurement = measure(case, plan, pinning, variation)
    if checkpoints != bool(measurement.observations["checkpoints"]):
        raise BenchError(f"{measurement.observations['checkpoints']} checkpoints were taken")
    return measurement


def _enable(environment: StreamExecutionEnvironment, *, enabled: bool) -> None:
    if enabled:
        environment.enable_checkpointing(INTERVAL_MS)
        # The counts of the sinks are not part of the state. After a restart, they would not match
        # the source's, so the job must fail instead.
        environment.set_restart_strategy(RestartStrategies.no_restart())
