"""Event time in real processes: windows equal those of a plain computation in Python."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from flinknet.cluster import run_job
from flinknet.config import FlinknetConfig, NetworkConfig
from flinknet.datastream import (
    CollectSink,
    Duration,
    GeneratorSource,
    MapFunction,
    RuntimeContext,
    SlidingEventTimeWindows,
    Source,
    StreamExecutionEnvironment,
    Time,
    TumblingEventTimeWindows,
    WatermarkStrategy,
)

CONFIG = FlinknetConfig(network=NetworkConfig(network_memory_bytes=16 << 20, segment_bytes=4096))
BOUND_MS = 50
COUNT = 20_000


def reading(number: int) -> tuple[int, int]:
    """Return key and time of a reading; times are out of order within the bound."""
    random = Random(number)
    return random.randrange(20), number + random.randrange(BOUND_MS)


def by_time(value: Any, stamp: int | None) -> int:
    time_ms: int = value[1]
    return time_ms


@pytest.mark.parametrize("parallelism", [1, 2, 3])
def test_windows_over_processes_equal_a_plain_computation(parallelism: int) -> None:
    """Records are out of order and pass exchanges by round robin and by key.

    The output shows that no record was lost, late or counted twice.
    """
    environment = StreamExecutionEnvironment().set_parallelism(parallelism)
    environment.get_config().set_auto_watermark_interval(5)
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(BOUND_MS))
    stamped = environment.from_source(
        GeneratorSource(reading, count=COUNT)
    ).assign_timestamps_and_watermarks(strategy.with_timestamp_assigner(by_time))
    keyed = stamped.rebalance().filter(lambda value: True).key_by(lambda value: value[0])
    windows = keyed.window(
        SlidingEventTimeWindows.of(Time.milliseconds(200), Time.milliseconds(100))
    )
    sums = windows.apply(lambda key, window, inputs: [(key, window.start, len(inputs))])
    sums.sink_to(CollectSink()).name("out")
    result = run_job(environment.job_graph("windows"), CONFIG)
    expected: dict[tuple[int, int], int] = {}
    for number in range(COUNT):
        key, stamp = reading(number)
        last = stamp // 100 * 100
        for start in (last, last - 100):
            expected[key, start] = expected.get((key, start), 0) + 1
    assert sorted(result.collected["out"]) == sorted((*at, n) for at, n in expected.items())


class HalfIdle(Source):
    """A source with records in subtask 0 alone.

    Both subtasks wait until the first window has fired.
    """

    parallelism = 2

    def __init__(self, directory: str) -> None:
        self._directory = directory

    async def batches(self, context: RuntimeContext) -> AsyncIterator[list[Any]]:
        if context.index == 0:
            yield [("k", stamp) for stamp in range(0, 35, 5)]
        await asyncio.to_thread(_wait, Path(self._directory) / str(context.index))


def _wait(pipe: Path) -> None:
    pipe.read_bytes()


class Tell(MapFunction):
    """A function that lets the source continue when the first window has fired."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._told = False

    async def map(self, value: Any) -> Any:
        if not self._told:
            self._told = True
            for index in "01":
                await asyncio.to_thread(Path(self._directory, index).write_bytes, b"")
        return value


def test_windows_speak_while_a_part_of_the_source_is_idle(tmp_path: Path) -> None:
    """Windows fire while one subtask of the source is idle.

    The job cannot end before event time has passed the idle subtask.
    """
    for index in "01":
        os.mkfifo(tmp_path / index)
    environment = StreamExecutionEnvironment().set_parallelism(2)
    environment.get_config().set_auto_watermark_interval(5)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_idleness(Duration.of_millis(20))
    stamped = environment.from_source(HalfIdle(str(tmp_path))).assign_timestamps_and_watermarks(
        strategy.with_timestamp_assigner(by_time)
    )
    windows = stamped.key_by(lambda value: value[0]).window(
        TumblingEventTimeWindows.of(Time.milliseconds(10))
    )
    spoken = windows.apply(lambda key, window, inputs: [(window.start, len(inputs))])
    spoken.global_().map(Tell(str(tmp_path))).set_parallelism(1).sink_to(CollectSink()).name("out")
    result = run_job(environment.job_graph("idle"), CONFIG)
    assert sorted(result.collected["out"]) == [(0, 2), (10, 2), (20, 2), (30, 1)]
