"""The operator that assigns timestamps to records, with a clock that the test sets."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from flinknet.errors import ConfigurationError, JobFailedError
from flinknet.functions.durations import Duration
from flinknet.functions.watermark_strategy import WatermarkStrategy
from flinknet.operators.timestamps import AssignTimestampsOperator
from flinknet.wire.events import MAX_WATERMARK, Watermark, WatermarkStatus
from tests.unit.operators.harness import Harness, context
from tests.unit.operators.manual_time import ManualTime

ACTIVE, IDLE = WatermarkStatus(idle=False), WatermarkStatus(idle=True)
BY_VALUE = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(
    lambda value, stamp: value
)


class Assigning(Harness):
    """An open operator, its clock, and the interval of its watermarks."""

    def __init__(
        self, strategy: WatermarkStrategy, *, stamped: bool = False, interval_ms: int = 200
    ) -> None:
        self.time = ManualTime()
        super().__init__(
            AssignTimestampsOperator(strategy),
            context(processing_time=self.time, auto_watermark_interval_ms=interval_ms),
            stamped=True,
        )
        self.takes_stamped = stamped


@asynccontextmanager
async def assigning(strategy: WatermarkStrategy, **options: Any) -> AsyncIterator[Assigning]:
    harness = Assigning(strategy, **options)
    async with harness:
        yield harness
    assert harness.time.due_ms == []


async def test_records_get_timestamps_and_watermarks_come_at_intervals() -> None:
    async with assigning(BY_VALUE) as harness:
        assert await harness.process(3, 9, 5) == [(3, 3), (9, 9), (5, 5)]
        await harness.time.advance(200)
        assert harness.event_time == []
        await harness.time.advance(201)
        assert harness.event_time == [Watermark(8)]
        assert harness.context.process_context.current_watermark == 8
        await harness.time.advance(1000)
        assert harness.event_time == [Watermark(8)]
        await harness.process(4)
        await harness.time.advance(1200)
        assert harness.event_time == [Watermark(8)]
        await harness.process(11)
        await harness.time.advance(1400)
        assert harness.event_time == [Watermark(8), Watermark(10)]
        await harness.end_of_input()
        assert harness.event_time[2:] == [Watermark(MAX_WATERMARK)]


async def test_without_an_interval_only_the_end_is_said() -> None:
    async with assigning(BY_VALUE, interval_ms=0) as harness:
        await harness.process(3)
        assert harness.time.due_ms == []
        await harness.end_of_input()
        assert harness.event_time == [Watermark(MAX_WATERMARK)]


async def test_a_subtask_without_records_becomes_idle() -> None:
    strategy = BY_VALUE.with_idleness(Duration.of_seconds(1))
    async with assigning(strategy) as harness:
        await harness.process(3)
        await harness.time.advance(1400)
        assert harness.event_time == [Watermark(2), IDLE]
        await harness.process(7)
        assert harness.event_time == [Watermark(2), IDLE, ACTIVE]
        await harness.time.advance(1600)
        assert harness.event_time[3:] == [Watermark(6)]


@pytest.mark.parametrize("step_ms", [-3_600_000, 3_600_000])
async def test_watermarks_and_idleness_do_not_follow_the_clock_when_it_is_set(step_ms: int) -> None:
    strategy = BY_VALUE.with_idleness(Duration.of_seconds(1))
    async with assigning(strategy) as harness:
        await harness.process(3)
        harness.time.step_ms = step_ms
        await harness.time.advance(201)
        assert harness.event_time == [Watermark(2)]
        await harness.time.advance(1400)
        assert harness.event_time == [Watermark(2), IDLE]


async def test_a_pending_watermark_is_emitted_before_idle() -> None:
    strategy = BY_VALUE.with_idleness(Duration.of_millis(100))
    async with assigning(strategy) as harness:
        await harness.process(3)
        await harness.time.advance(201)
        assert harness.event_time == [Watermark(2), IDLE]
        await harness.end_of_input()
        assert harness.event_time[2:] == [ACTIVE, Watermark(MAX_WATERMARK)]


async def test_timestamps_that_are_there_can_be_kept_or_replaced() -> None:
    keep = WatermarkStrategy.for_monotonous_timestamps()
    async with assigning(keep, stamped=True) as harness:
        assert await harness.process((3, "a"), (4, "b")) == [(3, "a"), (4, "b")]
        with pytest.raises(JobFailedError, match="has no timestamp"):
            await harness.process((None, "c"))
    later = keep.with_timestamp_assigner(lambda value, stamp: (stamp or 0) + 10)
    async with assigning(later, stamped=True) as harness:
        assert await harness.process((3, "a")) == [(13, "a")]


async def test_earlier_watermarks_are_dropped_except_the_final_one() -> None:
    async with assigning(BY_VALUE, stamped=False) as harness:
        await harness.operator.process_event_time(Watermark(5))
        await harness.operator.process_event_time(IDLE)
        assert harness.event_time == []
        await harness.operator.process_event_time(Watermark(MAX_WATERMARK))
        await harness.end_of_input()
        assert harness.event_time == [Watermark(MAX_WATERMARK)]


@pytest.mark.parametrize("stamp", [1.5, None, "1", True, 1 << 63, -(1 << 63)])
async def test_a_timestamp_is_whole_milliseconds(stamp: Any) -> None:
    strategy = BY_VALUE.with_timestamp_assigner(lambda value, _: stamp)
    async with assigning(strategy) as harness:
        with pytest.raises(JobFailedError, match="return whole milliseconds"):
            await harness.process("record")


def test_only_a_strategy_is_one() -> None:
    with pytest.raises(ConfigurationError, match="needs a WatermarkStrategy, not int"):
        AssignTimestampsOperator(5)  # type: ignore[arg-type]


def refusing(value: Any, stamp: Any) -> Any:
    """Assign 1, except to a record that cannot be read and to one without a timestamp."""
    if value == "unreadable":
        raise ValueError("no")
    return None if value == "without" else 1


@pytest.mark.parametrize("stamped", [False, True])
@pytest.mark.parametrize("culprit", ["unreadable", "without"])
@pytest.mark.parametrize("before", [0, 2])
async def test_an_error_names_the_record(stamped: bool, culprit: str, before: int) -> None:
    """The record may be at any place of the batch."""
    values = ["good"] * before + [culprit, "other"]
    batch = [(5, value) if stamped else value for value in values]
    async with assigning(BY_VALUE.with_timestamp_assigner(refusing), stamped=stamped) as harness:
        with pytest.raises(JobFailedError, match=f"on a record of type str, '{culprit}'"):
            await harness.process(*batch)


async def test_a_record_without_a_timestamp_is_named() -> None:
    keep = WatermarkStrategy.for_monotonous_timestamps()
    async with assigning(keep, stamped=True) as harness:
        with pytest.raises(JobFailedError, match="on a record of type str, 'c'.*has no timestamp"):
            await harness.process((3, "a"), (None, "c"))
