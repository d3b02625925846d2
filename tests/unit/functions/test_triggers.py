"""Triggers, called by hand."""

from __future__ import annotations

from typing import Any

import pytest

from flinknet.errors import ConfigurationError
from flinknet.functions.durations import Time
from flinknet.functions.triggers import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    CountTrigger,
    EventTimeTrigger,
    NeverTrigger,
    ProcessingTimeTrigger,
    PurgingTrigger,
    Trigger,
    TriggerResult,
)
from flinknet.functions.windows import TimeWindow
from flinknet.state.descriptors import StateDescriptor
from flinknet.state.trigger_state import state_in

WINDOW = TimeWindow(0, 10)
CONTINUE, FIRE = TriggerResult.CONTINUE, TriggerResult.FIRE
FIRE_AND_PURGE = TriggerResult.FIRE_AND_PURGE


class Context:
    """A trigger's context, with its timers."""

    def __init__(self, watermark: int = 0) -> None:
        self.state: dict[str, Any] = {}
        self.watermark = watermark
        self.timers: set[tuple[str, int]] = set()

    def get_current_watermark(self) -> int:
        return self.watermark

    def get_current_processing_time(self) -> int:
        return 0

    def register_event_time_timer(self, time: int) -> None:
        self.timers.add(("event", time))

    def register_processing_time_timer(self, time: int) -> None:
        self.timers.add(("processing", time))

    def delete_event_time_timer(self, time: int) -> None:
        self.timers.discard(("event", time))

    def delete_processing_time_timer(self, time: int) -> None:
        self.timers.discard(("processing", time))

    def get_partitioned_state(self, state_descriptor: StateDescriptor) -> Any:
        return state_in(self.state, state_descriptor)

    def merge_partitioned_state(self, state_descriptor: StateDescriptor) -> None:
        """Do nothing: there is only one window."""


def test_event_time() -> None:
    trigger, context = EventTimeTrigger.create(), Context()
    assert trigger.on_element("x", 1, WINDOW, context) is CONTINUE
    assert context.timers == {("event", 9)}
    assert trigger.on_event_time(5, WINDOW, context) is CONTINUE
    assert trigger.on_event_time(9, WINDOW, context) is FIRE
    assert trigger.on_processing_time(9, WINDOW, context) is CONTINUE
    trigger.clear(WINDOW, context)
    assert not context.timers
    trigger.on_merge(WINDOW, context)
    assert trigger.can_merge()
    assert context.timers == {("event", 9)}
    late = Context(watermark=9)
    assert trigger.on_element("x", 1, WINDOW, late) is FIRE
    trigger.on_merge(WINDOW, late)
    assert not late.timers


def test_processing_time() -> None:
    trigger, context = ProcessingTimeTrigger.create(), Context()
    assert trigger.on_element("x", None, WINDOW, context) is CONTINUE
    assert context.timers == {("processing", 9)}
    assert trigger.on_processing_time(9, WINDOW, context) is FIRE
    assert trigger.on_event_time(9, WINDOW, context) is CONTINUE
    trigger.clear(WINDOW, context)
    assert not context.timers
    trigger.on_merge(WINDOW, context)
    assert trigger.can_merge()
    assert context.timers == {("processing", 9)}


def test_count() -> None:
    trigger, context = CountTrigger.of(2), Context()
    said = [trigger.on_element("x", None, WINDOW, context) for _ in range(5)]
    assert said == [CONTINUE, FIRE, CONTINUE, FIRE, CONTINUE]
    assert trigger.can_merge()
    trigger.on_merge(WINDOW, context)
    trigger.clear(WINDOW, context)


@pytest.mark.parametrize("count", [0, True, 1.5, "2"])
def test_a_count_is_positive(count: Any) -> None:
    with pytest.raises(ConfigurationError, match="choose 1 or more"):
        CountTrigger.of(count)


def test_purging() -> None:
    trigger, context = PurgingTrigger.of(CountTrigger.of(2)), Context()
    said = [trigger.on_element("x", None, WINDOW, context) for _ in range(2)]
    assert said == [CONTINUE, FIRE_AND_PURGE]
    by_time = PurgingTrigger.of(EventTimeTrigger())
    assert by_time.on_event_time(9, WINDOW, context) is FIRE_AND_PURGE
    assert by_time.on_processing_time(9, WINDOW, context) is CONTINUE
    assert by_time.can_merge()
    by_time.on_merge(WINDOW, context)
    assert context.timers
    by_time.clear(WINDOW, context)
    assert not context.timers


def test_never() -> None:
    assert NeverTrigger().on_element("x", 1, WINDOW, Context()) is CONTINUE
    assert NeverTrigger().can_merge()


def test_a_trigger_does_nothing_that_it_does_not_say() -> None:
    class First(Trigger):
        def on_element(self, *arguments: Any) -> TriggerResult:
            return FIRE

    assert not First().can_merge()


@pytest.mark.parametrize(
    ("result", "is_fire", "is_purge"),
    [
        (TriggerResult.CONTINUE, False, False),
        (TriggerResult.FIRE, True, False),
        (TriggerResult.PURGE, False, True),
        (TriggerResult.FIRE_AND_PURGE, True, True),
    ],
    ids=lambda value: getattr(value, "name", str(value)),
)
def test_trigger_results_of_a_window(result: TriggerResult, is_fire: bool, is_purge: bool) -> None:
    assert (result.is_fire(), result.is_purge()) == (is_fire, is_purge)


def test_continuously_by_event_time() -> None:
    window = TimeWindow(0, 25)
    trigger, context = ContinuousEventTimeTrigger.of(Time.milliseconds(10)), Context(-1)
    assert trigger.on_element("x", 3, window, context) is CONTINUE
    assert trigger.on_element("x", 14, window, context) is CONTINUE
    assert context.timers == {("event", 24), ("event", 10)}
    assert trigger.on_event_time(20, window, context) is CONTINUE
    assert trigger.on_event_time(10, window, context) is FIRE
    assert trigger.on_event_time(20, window, context) is FIRE
    assert trigger.on_event_time(24, window, context) is FIRE
    assert trigger.on_processing_time(10, window, context) is CONTINUE
    context.watermark = 24
    assert trigger.on_element("x", 14, window, context) is FIRE
    context.timers = {("event", 24)}
    trigger.clear(window, context)
    assert (context.timers, context.state) == (set(), {})


def test_continuously_by_the_clock() -> None:
    window = TimeWindow(0, 15)
    trigger, context = ContinuousProcessingTimeTrigger.of(Time.milliseconds(10)), Context()
    for _ in range(2):
        assert trigger.on_element("x", None, window, context) is CONTINUE
    assert context.timers == {("processing", 10)}
    assert trigger.on_processing_time(9, window, context) is CONTINUE
    assert trigger.on_processing_time(10, window, context) is FIRE
    assert trigger.on_processing_time(14, window, context) is FIRE
    assert trigger.on_event_time(10, window, context) is CONTINUE
    assert context.timers == {("processing", 10), ("processing", 14)}
    trigger.clear(window, context)
    trigger.clear(window, context)
    assert context.timers == {("processing", 10)}


@pytest.mark.parametrize(("watermark", "fires"), [(-1, 10), (12, 20), (22, 24)])
def test_a_merged_window_fires_at_the_next_whole_interval(watermark: int, fires: int) -> None:
    trigger, context = ContinuousEventTimeTrigger(10), Context(watermark)
    trigger.on_merge(TimeWindow(3, 25), context)
    assert context.timers == {("event", 24), ("event", fires)}
    context = Context(24)
    trigger.on_merge(TimeWindow(3, 25), context)
    assert context.timers == set()
    ContinuousProcessingTimeTrigger(10).on_merge(TimeWindow(3, 25), context)
    assert context.timers == {("processing", 10)}
    assert trigger.can_merge()


@pytest.mark.parametrize("interval", [0, True, 1.5])
def test_an_interval_is_a_number_of_milliseconds(interval: Any) -> None:
    with pytest.raises(ConfigurationError, match="choose 1 or more, as in Time.seconds"):
        ContinuousEventTimeTrigger(interval)
