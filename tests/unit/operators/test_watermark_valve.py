"""The valve: how watermarks and statuses of many channels combine."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinknet.operators.watermark_valve import StatusWatermarkValve
from flinknet.wire.events import MAX_WATERMARK, Watermark, WatermarkElement, WatermarkStatus

ACTIVE, IDLE = WatermarkStatus(idle=False), WatermarkStatus(idle=True)


class Valve:
    """A valve with a record of its output, which is checked after each call."""

    def __init__(self, channels: int, silent: Iterable[int] = ()) -> None:
        self.valve = StatusWatermarkValve(channels, tuple(silent))
        self.said: list[WatermarkElement] = []

    def watermark(self, index: int, timestamp_ms: int) -> list[WatermarkElement]:
        said = self.valve.input_watermark(index, timestamp_ms)
        return self._keep(said)

    def status(self, index: int, *, idle: bool) -> list[WatermarkElement]:
        return self._keep(self.valve.input_status(index, idle=idle))

    def _keep(self, said: list[WatermarkElement]) -> list[WatermarkElement]:
        self.valve.check_invariants()
        self.said += said
        return said


def told(*watermarks: int) -> Valve:
    """Return a valve with these watermarks of its channels."""
    valve = Valve(len(watermarks))
    for index, timestamp_ms in enumerate(watermarks):
        valve.watermark(index, timestamp_ms)
    return valve


def test_event_time_is_the_lowest_watermark() -> None:
    """R1: no watermark is emitted before every channel has one, and lower watermarks are
    ignored."""
    valve = Valve(3)
    assert valve.watermark(0, 10) == valve.watermark(1, 15) == []
    assert valve.watermark(2, 8) == [Watermark(8)]
    assert valve.watermark(2, 8) == valve.watermark(2, 7) == []
    assert valve.watermark(2, 12) == [Watermark(10)]
    assert valve.watermark(0, 9) == []
    assert valve.watermark(0, 20) == [Watermark(12)]
    assert valve.watermark(2, 100) == [Watermark(15)]
    assert valve.watermark(1, MAX_WATERMARK) == [Watermark(20)]
    assert valve.valve.watermark == 20


def test_an_idle_channel_does_not_count() -> None:
    """R2: event time advances without it, and its own watermarks are ignored."""
    valve = Valve(3)
    valve.watermark(0, 15)
    valve.watermark(1, 10)
    assert valve.said == []
    assert valve.status(2, idle=True) == [Watermark(10)]
    assert valve.watermark(2, 11) == []
    assert valve.watermark(1, 18) == [Watermark(15)]
    assert valve.watermark(0, 20) == [Watermark(18)]


def test_event_time_rises_when_the_slowest_becomes_idle() -> None:
    """R3: each time, this channel had held the others back."""
    valve = told(25, 10, 17)
    assert valve.said == [Watermark(10)]
    assert valve.status(1, idle=True) == [Watermark(17)]
    assert valve.status(2, idle=True) == [Watermark(25)]


def test_the_highest_watermark_is_said_before_all_are_idle() -> None:
    """R4: no watermark is awaited any more, and the order of the channels does not matter.

    IDLE is emitted once.
    """
    valve = told(10, 5, 3)
    assert valve.status(0, idle=True) == []
    assert valve.status(1, idle=True) == []
    assert valve.said == [Watermark(3)]
    assert valve.status(2, idle=True) == [Watermark(10), IDLE]
    assert valve.status(2, idle=True) == []


def test_a_channel_that_did_not_hold_back_ends_in_idle_alone() -> None:
    """R4: the highest watermark has been emitted already."""
    valve = told(3, 10)
    assert valve.status(0, idle=True) == [Watermark(10)]
    assert valve.status(1, idle=True) == [IDLE]


def test_an_active_channel_counts_when_it_has_caught_up() -> None:
    """R6: event time neither goes back for a channel that is behind nor waits for it."""
    valve = told(5, 20)
    valve.status(0, idle=True)
    assert valve.said[-1] == Watermark(20)
    assert valve.status(0, idle=False) == []
    assert valve.watermark(1, 25) == [Watermark(25)]
    assert valve.watermark(0, 24) == []
    assert valve.watermark(0, 26) == []
    assert valve.watermark(1, 30) == [Watermark(26)]


def test_nothing_is_said_while_no_active_channel_has_caught_up() -> None:
    """R6: without an aligned channel, event time must not seem to have ended."""
    valve = told(20, 5)
    valve.status(1, idle=True)
    valve.status(1, idle=False)
    assert valve.status(0, idle=True) == []
    assert valve.watermark(1, 10) == []
    assert valve.watermark(1, 21) == [Watermark(21)]


def test_a_channel_that_is_behind_becomes_idle_again_in_silence() -> None:
    """R7: it was not aligned, so nothing changes."""
    valve = told(20, 5)
    valve.status(1, idle=True)
    valve.status(1, idle=False)
    assert valve.status(1, idle=True) == []
    assert valve.watermark(0, 30) == [Watermark(30)]


def test_statuses_are_said_when_they_change() -> None:
    """R8: idle when the last channel becomes idle, active when the first becomes active, and at no
    other change."""
    valve = Valve(2)
    assert valve.status(0, idle=False) == valve.status(0, idle=True) == []
    assert valve.status(1, idle=True) == [IDLE]
    assert valve.status(1, idle=False) == [ACTIVE]
    assert valve.status(0, idle=False) == []
    assert valve.status(0, idle=True) == []
    assert valve.status(1, idle=True) == [IDLE]


def test_a_finished_channel_leaves_event_time_to_the_others() -> None:
    """This holds when the others are idle, too: their later records are not late because of its end
    (FLINK-38477)."""
    valve = told(10, 5)
    assert valve.status(1, idle=True) == [Watermark(10)]
    assert valve.watermark(0, MAX_WATERMARK) == [IDLE]
    assert valve.status(1, idle=False) == [ACTIVE]
    assert valve.watermark(1, 12) == [Watermark(12)]
    assert valve.watermark(1, MAX_WATERMARK) == [Watermark(MAX_WATERMARK)]


def test_the_highest_watermark_is_said_also_if_its_channel_has_finished() -> None:
    """A finished channel is treated like an idle one here."""
    for how in ("finished", "idle"):
        valve = told(20, 5)
        assert valve.said == [Watermark(5)]
        if how == "finished":
            assert valve.watermark(0, MAX_WATERMARK) == []
        else:
            assert valve.status(0, idle=True) == []
        assert valve.status(1, idle=True) == [Watermark(20), IDLE]


def test_event_time_ends_when_all_channels_have_finished() -> None:
    """Channels that were idle at their end count, too, in any order; the output is active at the
    end."""
    valve = told(10, 5, 7)
    for index in (0, 2):
        valve.watermark(index, MAX_WATERMARK)
    valve.status(1, idle=True)
    assert valve.said[-1] == IDLE
    assert valve.watermark(1, MAX_WATERMARK) == [ACTIVE, Watermark(MAX_WATERMARK)]
    assert valve.status(1, idle=False) == valve.watermark(1, MAX_WATERMARK) == []


@pytest.mark.parametrize("last", [0, 1, 2])
def test_event_time_does_not_end_before_silent_channels_have(last: int) -> None:
    valve = Valve(3, silent=[1, 2])
    assert valve.watermark(0, 4) == [Watermark(4)]
    for index in {0, 1, 2} - {last}:
        assert valve.watermark(index, MAX_WATERMARK) == []
    assert valve.watermark(last, MAX_WATERMARK) == [Watermark(MAX_WATERMARK)]


def test_event_time_rises_with_the_only_channel_that_has_caught_up() -> None:
    """It rises when the channel becomes active, and does not wait for its next watermark
    (FLINK-40475)."""
    valve = told(20, 5, 40)
    assert valve.status(1, idle=True) == [Watermark(20)]
    assert valve.status(1, idle=False) == []
    assert valve.status(2, idle=True) == valve.status(0, idle=True) == []
    assert valve.status(2, idle=False) == [Watermark(40)]


def test_silent_channels_never_hold_event_time_back() -> None:
    valve = Valve(3, silent=[1, 2])
    assert valve.watermark(0, 4) == [Watermark(4)]
    assert valve.status(0, idle=True) == [IDLE]


steps = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.one_of(st.booleans(), st.integers(0, 9), st.just(MAX_WATERMARK)),
    ),
    max_size=40,
)


@given(steps, st.sets(st.integers(1, 2)))
def test_event_time_rises_and_no_status_is_repeated(
    told_things: list[tuple[int, Any]], silent: set[int]
) -> None:
    valve = Valve(3, silent)
    told_things = [
        (index, thing)
        for index, thing in told_things
        if index not in silent or thing == MAX_WATERMARK
    ]
    for index, thing in told_things:
        if isinstance(thing, bool):
            valve.status(index, idle=thing)
        else:
            valve.watermark(index, thing)
    watermarks = [one.timestamp_ms for one in valve.said if isinstance(one, Watermark)]
    assert watermarks == sorted(set(watermarks))
    finished = {index for index, thing in told_things if thing == MAX_WATERMARK}
    assert (MAX_WATERMARK in watermarks) == (len(finished) == 3)
    statuses = [one.idle for one in valve.said if isinstance(one, WatermarkStatus)]
    assert statuses == [number % 2 == 0 for number in range(len(statuses))]


def test_an_account_that_does_not_add_up_is_found() -> None:
    valve = StatusWatermarkValve(1)
    valve._idle = True
    with pytest.raises(AssertionError, match="idle while one is active"):
        valve.check_invariants()
