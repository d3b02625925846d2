"""A function's view of broadcast state."""

from __future__ import annotations

import pytest

from flinknet.errors import ConfigurationError
from flinknet.functions.broadcast_context import (
    BroadcastContext,
    OnTimerBroadcastContext,
    ReadOnlyBroadcastState,
)
from flinknet.functions.context import OnTimerContext, ProcessContext
from flinknet.state.descriptors import MapStateDescriptor
from flinknet.state.operator_state import BroadcastState
from flinknet.state.timer_service import TimeDomain, Timers, TimerService
from tests.unit.operators.harness import context as context_of
from tests.unit.operators.manual_time import ManualTime

RULES = MapStateDescriptor("rules")


def test_a_read_only_state_can_be_read() -> None:
    state = BroadcastState()
    state.put("a", 1)
    seen = ReadOnlyBroadcastState(state)
    assert (seen.get("a"), seen.get("b"), seen["a"]) == (1, None, 1)
    assert seen.contains("a")
    assert "b" not in seen
    assert (list(seen.items()), list(seen.keys()), list(seen.values())) == ([("a", 1)], ["a"], [1])
    assert list(seen) == ["a"]
    assert not seen.is_empty()
    assert not hasattr(seen, "put")


def test_a_context_shows_the_record_and_the_state() -> None:
    view, state = ProcessContext(), BroadcastState()
    view.current_timestamp, view.current_key, view.current_watermark = 5, "k", 3
    states = {"rules": state}
    context = BroadcastContext(view, ManualTime(7), states, read_only=True)
    assert (context.timestamp(), context.get_current_key()) == (5, "k")
    assert (context.current_watermark(), context.current_processing_time()) == (3, 7)
    assert isinstance(context.get_broadcast_state(RULES), ReadOnlyBroadcastState)
    writing = BroadcastContext(view, ManualTime(7), states, read_only=False)
    assert writing.get_broadcast_state(RULES) is state
    with pytest.raises(ConfigurationError, match='"others" is not a broadcast state'):
        context.get_broadcast_state(MapStateDescriptor("others"))


def test_timers_are_of_records_with_a_key() -> None:
    view, place = ProcessContext(), context_of(processing_time=ManualTime(7))
    timers = Timers(place.state.keyed, place.processing_time, lambda: None)
    view.timers = TimerService(timers, view)
    reading = BroadcastContext(view, ManualTime(7), {}, read_only=True)
    assert reading.timer_service() is view.timers
    with pytest.raises(ConfigurationError, match="a broadcast record has no key"):
        BroadcastContext(view, ManualTime(7), {}, read_only=False).timer_service()


def test_a_timer_sees_its_time_and_can_read() -> None:
    view = OnTimerContext()
    view.domain, view.current_timestamp = TimeDomain.PROCESSING_TIME, 5
    seen = OnTimerBroadcastContext(view, ManualTime(7), {"rules": BroadcastState()})
    assert (seen.time_domain(), seen.timestamp()) == (TimeDomain.PROCESSING_TIME, 5)
    assert isinstance(seen.get_broadcast_state(RULES), ReadOnlyBroadcastState)
