"""Watermark strategies, and their state in one subtask."""

from __future__ import annotations

from typing import Any

import pytest

from flinknet.errors import ConfigurationError
from flinknet.functions.durations import Duration, Time
from flinknet.functions.watermark_strategy import (
    TimestampAssigner,
    WatermarkGenerator,
    WatermarkStrategy,
)
from flinknet.wire.events import MIN_WATERMARK


class Second(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int | None) -> int:
        stamp: int = value[1]
        return stamp


def generator(strategy: WatermarkStrategy) -> WatermarkGenerator:
    return WatermarkGenerator(strategy, 1000)


def test_a_watermark_is_just_before_what_may_still_come() -> None:
    made = generator(WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(5)))
    assert made.watermark() == MIN_WATERMARK
    made.on_batch(20, 1000)
    assert made.watermark() == 14
    made.on_batch(10, 1000)
    assert made.watermark() == 14
    rising = generator(WatermarkStrategy.for_monotonous_timestamps())
    rising.on_batch(20, 1000)
    assert rising.watermark() == 19


def test_no_watermarks_say_nothing() -> None:
    made = generator(WatermarkStrategy.no_watermarks())
    made.on_batch(20, 1000)
    assert made.watermark() == MIN_WATERMARK
    assert not made.is_idle(10_000_000)


def test_idleness_counts_from_the_last_batch() -> None:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_idleness(Duration.of_seconds(1))
    made = generator(strategy)
    assert not made.is_idle(1999)
    assert made.is_idle(2000)
    made.on_batch(1, 2500)
    assert not made.is_idle(3499)
    assert made.is_idle(3500)


def test_a_strategy_takes_a_function_or_an_assigner() -> None:
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    assert strategy.with_timestamp_assigner(Second()).timestamp_assigner is not None
    assert strategy.with_timestamp_assigner(lambda value, stamp: value).out_of_orderness_ms == 0


async def later(value: Any, stamp: int | None) -> int:
    return 0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda it: it.for_bounded_out_of_orderness(5), "choose a Duration"),
        (lambda it: it.for_bounded_out_of_orderness(Time.seconds(5)), "choose a Duration"),
        (lambda it: it.for_bounded_out_of_orderness(Duration.of_millis(-1)), "choose 0 or more"),
        (lambda it: it.no_watermarks().with_idleness(Duration.of_millis(0)), "more than 0"),
        (lambda it: it.no_watermarks().with_timestamp_assigner(7), "needs a callable"),
        (lambda it: it.no_watermarks().with_timestamp_assigner(later), "cannot be a coroutine"),
    ],
    ids=["no duration", "a Time", "negative", "no idleness", "no assigner", "coroutine"],
)
def test_a_wrong_strategy_is_refused(make: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        make(WatermarkStrategy)
