"""Triggers: when windows fire (Flink's Trigger and its kinds).

One trigger object serves all windows of a subtask, so it must keep no memory of its own. Its memory
of a window is in ``ctx.state``, a dict that is stored and merged with the window. It can also use
states, which are views of that dict (``trigger_state.py``), and timers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from enum import Enum
from typing import Any, Self, TypeAlias

from flinknet.compatibility.subscripted import Subscripted, T, W
from flinknet.errors import ConfigurationError
from flinknet.functions import trigger_context
from flinknet.functions.durations import Duration, Time
from flinknet.functions.trigger_context import (
    MergedWindow,
    OnMergeContext,
    TriggerContext,
    TriggeredWindow,
)

__all__ = [
    "ContinuousEventTimeTrigger",
    "ContinuousProcessingTimeTrigger",
    "CountTrigger",
    "EventTimeTrigger",
    "NeverTrigger",
    "ProcessingTimeTrigger",
    "PurgingTrigger",
    "Trigger",
    "TriggerContext",
    "TriggerResult",
]


_FIRE_AT = "fire_at"
"""Key in the state of a window: the next firing time of a continuous trigger."""


class TriggerResult(Enum):
    """The decision of a trigger: whether the window fires, and whether it is emptied."""

    CONTINUE = (False, False)
    FIRE = (True, False)
    PURGE = (False, True)
    FIRE_AND_PURGE = (True, True)

    def is_fire(self) -> bool:
        """Return whether the window fires."""
        return self.value[0]

    def is_purge(self) -> bool:
        """Return whether the window is emptied."""
        return self.value[1]


class Trigger(Subscripted[T, W], ABC):
    """Base of the triggers, which decide when a window fires."""

    TriggerContext: TypeAlias = trigger_context.TriggerContext
    OnMergeContext: TypeAlias = trigger_context.OnMergeContext

    @abstractmethod
    def on_element(
        self, element: Any, timestamp: int | None, window: TriggeredWindow, ctx: TriggerContext
    ) -> TriggerResult:
        """Handle a record that was added to the window."""

    def on_event_time(
        self, time: int, window: TriggeredWindow, ctx: TriggerContext
    ) -> TriggerResult:
        """Handle an event-time timer of the window."""
        return TriggerResult.CONTINUE

    def on_processing_time(
        self, time: int, window: TriggeredWindow, ctx: TriggerContext
    ) -> TriggerResult:
        """Handle a processing-time timer of the window."""
        return TriggerResult.CONTINUE

    def can_merge(self) -> bool:
        """Return whether the trigger supports merging windows."""
        return False

    def on_merge(self, window: MergedWindow, ctx: OnMergeContext) -> None:
        """Handle a merge into ``window``.

        ``ctx.state`` holds the merged states of the windows, with numbers added up.
        """

    def clear(self, window: TriggeredWindow, ctx: TriggerContext) -> None:
        """Delete the window's timers before the window is removed."""


class EventTimeTrigger(Trigger):
    """Trigger that fires when the watermark reaches the window's end; at once for a late record."""

    @classmethod
    def create(cls) -> EventTimeTrigger:
        """Return the trigger."""
        return cls()

    def on_element(
        self, element: Any, timestamp: int | None, window: TriggeredWindow, ctx: TriggerContext
    ) -> TriggerResult:
        end = window.max_timestamp()
        if end <= ctx.get_current_watermark():
            return TriggerResult.FIRE
        ctx.register_event_time_timer(end)  # does nothing if an earlier record has registered it
        return TriggerResult.CONTINUE

    def on_event_time(
        self, time: int, window: TriggeredWindow, ctx: TriggerContext
    ) -> TriggerResult:
        return TriggerResult.FIRE if time == window.max_timestamp() else TriggerResult.CONTINUE

    def can_merge(self) -> bool:
        return True

    def on_merge(self, window: MergedWindow, ctx: OnMergeContext) -> None:
        # After the end, ``on_element`` fires for the record that caused the merge; a timer would
        # fire a second time.
        end = window.max_timestamp()
        if end > ctx.get_current_watermark():
            ctx.register_event_time_timer(end)

    def clear(self, window: TriggeredWindow, ctx: TriggerContext) -> None:
        ctx.delete_event_time_timer(window.max_timestamp())


class ProcessingTimeTrigger(Trigger):
    """Trigger that fires when processing time reaches the window's end."""

    @classmethod
    def create(cls) -> ProcessingTimeTrigger:
        """Return the trigger."""
        return cls()

    def on_element(
        self, element: Any, timestamp: int | None, window: TriggeredWindow, ctx: TriggerContext
    ) -> TriggerResult:
        ctx.register_processing_time_timer(window.max_timestamp())
        return TriggerResult.CONTINUE

    def on_processing_time(
        self, time: int, window: TriggeredWindow, ctx: TriggerContext
    ) -> TriggerResult:
        return TriggerResult.FIRE

    def can_merge(self) -> bool:
        return True

    def on_merge(self, window: MergedWindow, ctx: OnMergeContext) -> None:
        ctx.register_processing_time_timer(window.max_timestamp())

    def clear(self, window: TriggeredWindow, ctx: TriggerContext) -> None:
        ctx.delete_processing_time_timer(window.max_timestamp())


class ContinuousTrigger(Trigger):
    """Base of triggers that fire at every multiple of ``interval`` and at the window's end.

    The next firing time is stored with the window, so that not every record registers a timer. A
    merge computes it again: the first multiple that has not passed yet and lies after the window's
    start.
    """

    def __init__(self, interval: int) -> None:
        if isinstance(interval, bool) or not isinstance(interval, int) or interval < 1:
            raise ConfigurationError(
                f"a trigger's interval is {interval!r} ms: choose 1 or more, as in Time.seconds(10)"
            )
        self._interval = interval

    @classmethod
    def of(cls, interval: Time | Duration) -> Self:
        """Return a trigger with this interval."""
        return cls(interval.milliseconds_count)

    def can_merge(self) -> bool:
        return True

    def _fire_behind(
        self,
        time: int,
        window: TriggeredWindow,
        ctx: TriggerContext,
        register: Callable[[int], Any],
    ) -> None:
        """Fire at the first multiple of the interval after ``time``.

        If the window ends earlier, fire at its end.
        """
        following = time - time % self._interval + self._interval
        ctx.state[_FIRE_AT] = min(following, window.max_timestamp())
        register(ctx.state[_FIRE_AT])


class ContinuousEventTimeTrigger(ContinuousTrigger):
    """Trigger that fires at every multiple of the interval in event time, and at the window's end.

    It fires at once for a late record.
    """

    def on_element(
        self, element: Any, timestamp: int | None, window: TriggeredWindow, ctx: TriggerContext
    ) -> TriggerResult:
        end = window.max_timestamp()
        if end <= ctx.get_current_watermark():
            return TriggerResult.FIRE
        ctx.register_event_time_timer(end)
        if _FIRE_AT not in ctx.state:
            assert timestamp is not None, "event-time windows need records with timestamps"
            self._fire_behind(timestamp, window, ctx, ctx.register_event_time_timer)
        return TriggerResult.CONTINUE

    def on_event_time(
        self, time: int, window: TriggeredWindow, ctx: TriggerContext
    ) -> TriggerResult:
        if time == window.max_timestamp():
            return TriggerResult.FIRE
        if time != ctx.state.get(_FIRE_AT):
            return TriggerResult.CONTINUE
        self._fire_behind(time, window, ctx, ctx.register_event_time_timer)
        return TriggerResult.FIRE

    def on_merge(self, window: MergedWindow, ctx: OnMergeContext) -> None:
        end, watermark = window.max_timestamp(), ctx.get_current_watermark()
        if end > watermark:
            ctx.register_event_time_timer(end)
            behind = max(watermark, window.start)
            self._fire_behind(behind, window, ctx, ctx.register_event_time_timer)

    def clear(self, window: TriggeredWindow, ctx: TriggerContext) -> None:
        ctx.delete_event_time_timer(window.max_timestamp())
        if (fire_at := ctx.state.pop(_FIRE_AT, None)) is not None:
            ctx.delete_event_time_timer(fire_at)


class ContinuousProcessingTimeTrigger(ContinuousTrigger):
    """Trigger that fires at every multiple of the interval in processing time.

    It also fires at the window's end.
    """

    def on_element(
        self, element: Any, timestamp: int | None, window: TriggeredWindow, ctx: TriggerContext
    ) -> TriggerResult:
        if _FIRE_AT not in ctx.state:
            self._fire_next(window, ctx)
        return TriggerResult.CONTINUE

    def on_processing_time(
        self, time: int, window: TriggeredWindow, ctx: TriggerContext
    ) -> TriggerResult:
        if time != ctx.state.get(_FIRE_AT):
            return TriggerResult.CONTINUE
        if time < window.max_timestamp():
            self._fire_behind(time, window, ctx, ctx.register_processing_time_timer)
        return TriggerResult.FIRE

    def on_merge(self, window: MergedWindow, ctx: OnMergeContext) -> None:
        self._fire_next(window, ctx)

    def clear(self, window: TriggeredWindow, ctx: TriggerContext) -> None:
        if (fire_at := ctx.state.pop(_FIRE_AT, None)) is not None:
            ctx.delete_processing_time_timer(fire_at)

    def _fire_next(self, window: TriggeredWindow, ctx: TriggerContext) -> None:
        now = ctx.get_current_processing_time()
        self._fire_behind(now, window, ctx, ctx.register_processing_time_timer)


class CountTrigger(Trigger):
    """Trigger that fires after every ``count`` records."""

    def __init__(self, count: int) -> None:
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise ConfigurationError(f"a trigger's count is {count!r}: choose 1 or more")
        self._count = count

    @classmethod
    def of(cls, window_size: int) -> CountTrigger:
        """Return a trigger that fires after every ``window_size`` records."""
        return cls(window_size)

    def on_element(
        self, element: Any, timestamp: int | None, window: TriggeredWindow, ctx: TriggerContext
    ) -> TriggerResult:
        count = ctx.state.get("count", 0) + 1
        ctx.state["count"] = 0 if count >= self._count else count
        return TriggerResult.FIRE if count >= self._count else TriggerResult.CONTINUE

    def can_merge(self) -> bool:
        return True  # a merge adds up the counts, as all numbers in ``ctx.state``


class PurgingTrigger(Trigger):
    """Trigger that wraps another one, and empties the window each time it fires."""

    def __init__(self, nested: Trigger) -> None:
        self._nested = nested

    @classmethod
    def of(cls, nested_trigger: Trigger) -> PurgingTrigger:
        """Return a purging trigger around ``nested_trigger``."""
        return cls(nested_trigger)

    def on_element(
        self, element: Any, timestamp: int | None, window: TriggeredWindow, ctx: TriggerContext
    ) -> TriggerResult:
        return _purging(self._nested.on_element(element, timestamp, window, ctx))

    def on_event_time(
        self, time: int, window: TriggeredWindow, ctx: TriggerContext
    ) -> TriggerResult:
        return _purging(self._nested.on_event_time(time, window, ctx))

    def on_processing_time(
        self, time: int, window: TriggeredWindow, ctx: TriggerContext
    ) -> TriggerResult:
        return _purging(self._nested.on_processing_time(time, window, ctx))

    def can_merge(self) -> bool:
        return self._nested.can_merge()

    def on_merge(self, window: MergedWindow, ctx: OnMergeContext) -> None:
        self._nested.on_merge(window, ctx)

    def clear(self, window: TriggeredWindow, ctx: TriggerContext) -> None:
        self._nested.clear(window, ctx)


def _purging(result: TriggerResult) -> TriggerResult:
    return TriggerResult.FIRE_AND_PURGE if result.is_fire() else result


class NeverTrigger(Trigger):
    """Trigger that never fires."""

    def on_element(
        self, element: Any, timestamp: int | None, window: TriggeredWindow, ctx: TriggerContext
    ) -> TriggerResult:
        return TriggerResult.CONTINUE

    def can_merge(self) -> bool:
        return True
