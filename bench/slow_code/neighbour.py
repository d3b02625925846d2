"""A measured pipeline, and a neighbour in the same worker that takes 40 ms a record.

The measured pipeline sends the block of ``tuple`` through an exchange within the worker, as fast as
it can or at a pace. The function of the neighbour sleeps, as a database request does, or computes.
The neighbour's source keeps it busy all the time, and no longer than the measured pipeline runs.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import NamedTuple

from bench.errors import BenchError
from bench.exchange.cases import small_tuples
from bench.harness.case import Case
from bench.harness.side import Round
from bench.harness.trial import Measurement, Plan
from bench.peers.flinknet_job import SINK, SOURCE, BlockSource, CountingSink, Stage, measurement_of
from flinknet.config import ClusterConfig, FlinknetConfig
from flinknet.datastream import GeneratorSource, RateLimitedSource, StreamExecutionEnvironment
from flinknet.errors import FlinknetError

__all__ = ["CONFIG", "FULL_SPEED", "PACED", "Burden", "measure_beside"]

CONFIG = FlinknetConfig(cluster=ClusterConfig(workers=1, slots_per_worker=2))

FULL_SPEED = replace(
    small_tuples.CASE, name="full-speed", summary="small tuples within a worker, as fast as it goes"
)
PACE = 200_000.0
PACED = replace(
    small_tuples.CASE, name="paced", summary=f"small tuples within a worker, {PACE:,.0f} a second"
)

TAKES_S = 0.04
"""Seconds that the function of the neighbour takes for a record."""


class Burden(NamedTuple):
    """The neighbour beside the measured pipeline."""

    computes: bool
    """Whether its function computes rather than sleeps."""
    has_thread: bool
    """Whether tasks have threads, as is the default."""


def sleeps(value: int) -> int:
    """Sleep, as a function that waits for a service."""
    time.sleep(TAKES_S)
    return value


def computes(value: int) -> int:
    """Compute for as long, in CPU time of the thread."""
    end = time.thread_time() + TAKES_S
    while time.thread_time() < end:
        value += 1
    return value


def measure_beside(burden: Burden | None, case: Case, plan: Plan) -> Measurement:
    """Run once. Raises BenchError if the job fails."""
    seconds = plan.warm_up_s + plan.seconds
    stage = Stage(case, Round(seconds), plan.warm_up_s, (None,), (None,))
    environment = StreamExecutionEnvironment.get_execution_environment(CONFIG).set_parallelism(1)
    source = BlockSource(stage)
    sent = environment.from_source(
        RateLimitedSource(source, PACE) if case.name == PACED.name else source, name=SOURCE
    )
    sent.rebalance().sink_to(CountingSink(stage)).name(SINK)
    if burden is not None:
        count = round(seconds / TAKES_S)
        numbers = RateLimitedSource(GeneratorSource(lambda number: number, count), 1 / TAKES_S)
        beside = environment.from_source(numbers, name="neighbour").slot_sharing_group("neighbour")
        function = computes if burden.computes else sleeps
        beside.rebalance().map(function).sink_to(lambda value: None).name("slow")
        if not burden.has_thread:
            environment.get_config().disable_task_threads()
    try:
        result = environment.execute(case.name)
    except FlinknetError as error:
        raise BenchError(f"{case.name}: {error}") from error
    return measurement_of(result)
