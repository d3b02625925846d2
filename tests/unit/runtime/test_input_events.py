"""The events of a subtask's input."""

from __future__ import annotations

import pytest

from flinknet.errors import RemoteProtocolError
from flinknet.operators.watermark_valve import StatusWatermarkValve
from flinknet.runtime.input_events import InputEvents
from flinknet.wire.events import (
    MIN_WATERMARK,
    CheckpointBarrier,
    EndOfData,
    LatencyMarker,
    Watermark,
    WatermarkStatus,
)


def test_events_from_the_valve_wait_for_the_subtask() -> None:
    events = InputEvents(StatusWatermarkValve(2))
    assert events.watermark == MIN_WATERMARK
    assert not events.on_event(0, Watermark(5).event())
    assert events.on_event(1, Watermark(7).event())
    assert events.watermark == 5
    assert events.on_event(0, WatermarkStatus(idle=True).event())
    assert events.take() == [Watermark(5), Watermark(7)]
    assert not events.pending


def test_a_latency_marker_keeps_its_place_among_watermarks() -> None:
    events = InputEvents(StatusWatermarkValve(1))
    marker = LatencyMarker(5, "source", 0)
    assert events.on_event(0, Watermark(5).event())
    assert events.on_event(0, marker.event())
    assert events.on_event(0, Watermark(7).event())
    assert events.take() == [Watermark(5), marker, Watermark(7)]


def test_other_events_are_nothing_to_event_time() -> None:
    events = InputEvents(StatusWatermarkValve(1))
    assert not events.on_event(0, EndOfData(drain=True).event())


def test_an_event_that_blocks_is_refused() -> None:
    events = InputEvents(StatusWatermarkValve(1))
    with pytest.raises(RemoteProtocolError, match="this reader would never resume"):
        events.on_event(0, CheckpointBarrier(1, 0).event())
