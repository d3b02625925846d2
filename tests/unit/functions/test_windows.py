"""The windows to which a record is assigned."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinknet.errors import ConfigurationError
from flinknet.functions.durations import Duration, Time
from flinknet.functions.triggers import EventTimeTrigger, NeverTrigger, ProcessingTimeTrigger
from flinknet.functions.windows import (
    EventTimeSessionWindows,
    GlobalWindow,
    GlobalWindows,
    ProcessingTimeSessionWindows,
    SessionWindowTimeGapExtractor,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TimeWindow,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    span_ms,
)
from flinknet.wire.events import MAX_WATERMARK

TEN = Time.milliseconds(10)


@pytest.mark.parametrize("kind", [TumblingEventTimeWindows, TumblingProcessingTimeWindows])
@pytest.mark.parametrize(
    ("timestamp", "offset", "start"), [(0, 0, 0), (9, 0, 0), (10, 0, 10), (-1, 0, -10), (2, 3, -7)]
)
def test_tumbling_windows(kind: Any, timestamp: int, offset: int, start: int) -> None:
    windows = kind.of(TEN, Time.milliseconds(offset)).assign_windows("x", timestamp)
    assert windows == [TimeWindow(start, start + 10)]
    assert kind.of(TEN).assign_windows("x", 5) == [TimeWindow(0, 10)]


@pytest.mark.parametrize("kind", [SlidingEventTimeWindows, SlidingProcessingTimeWindows])
def test_sliding_windows(kind: Any) -> None:
    four = Time.milliseconds(4)
    assert kind.of(TEN, four).assign_windows("x", 9) == [(8, 18), (4, 14), (0, 10)]
    assert kind.of(four, TEN).assign_windows("x", 9) == [], "between two windows"
    assert kind.of(TEN, TEN, Time.milliseconds(1)).assign_windows("x", 0) == [(-9, 1)]


@given(st.integers(-1000, 1000), st.integers(1, 30), st.integers(1, 30))
def test_a_record_is_in_exactly_the_windows_that_hold_its_time(
    timestamp: int, size: int, slide: int
) -> None:
    assigner = SlidingEventTimeWindows(Time.milliseconds(size), Time.milliseconds(slide))
    expected = {
        (start, start + size)
        for start in range(-2000 // slide * slide, 2000, slide)
        if start <= timestamp < start + size
    }
    windows = assigner.assign_windows("x", timestamp)
    assert set(windows) == expected
    assert len(windows) == len(expected)


@pytest.mark.parametrize("kind", [EventTimeSessionWindows, ProcessingTimeSessionWindows])
def test_session_windows(kind: Any) -> None:
    assert kind.with_gap(TEN).assign_windows("x", 7) == [(7, 17)]
    dynamic = kind.with_dynamic_gap(len)
    assert dynamic.assign_windows("xyz", 7) == [(7, 10)]
    assert dynamic.merges

    class Length(SessionWindowTimeGapExtractor):
        def extract(self, element: Any) -> int:
            return len(element)

    assert kind.with_dynamic_gap(Length()).assign_windows("xyz", 7) == [(7, 10)]
    with pytest.raises(ConfigurationError, match="gap of a session is 0 ms"):
        dynamic.assign_windows("", 7)


def test_the_global_window_holds_everything() -> None:
    assert GlobalWindows.create().assign_windows("x", 5) == [GlobalWindow()]
    assert GlobalWindow().max_timestamp() == MAX_WATERMARK


def test_windows_speak_at_their_end_by_default() -> None:
    assert isinstance(TumblingEventTimeWindows.of(TEN).get_default_trigger(), EventTimeTrigger)
    processing = TumblingProcessingTimeWindows.of(TEN)
    assert isinstance(processing.get_default_trigger(), ProcessingTimeTrigger)
    assert isinstance(GlobalWindows.create().get_default_trigger(), NeverTrigger)


def test_windows_that_touch_are_covered_by_one() -> None:
    window = TimeWindow(0, 10)
    assert window.max_timestamp() == 9
    assert window.intersects(TimeWindow(10, 11))
    assert not window.intersects(TimeWindow(11, 12))
    assert window.cover(TimeWindow(5, 15)) == (0, 15)


def test_spans_are_whole_and_sizes_positive() -> None:
    assert span_ms("a", Duration.of_millis(3)) == span_ms("a", Time.milliseconds(3)) == 3
    assert span_ms("a", 3) == 3
    for wrong in (True, 1.5, "1"):
        with pytest.raises(ConfigurationError, match="choose a Time"):
            span_ms("a", wrong)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="the size of windows is 0 ms"):
        TumblingEventTimeWindows.of(Time.milliseconds(0))
