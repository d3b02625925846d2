"""A clock that a test sets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flinknet.environment.processing_time import ProcessingTimeService, ScheduledTimer
from flinknet.functions.calls import value_of

__all__ = ["ManualTime"]


class ManualTime(ProcessingTimeService):
    """Processing time that the test advances; it runs the due timers in order."""

    def __init__(self, now_ms: int = 0) -> None:
        super().__init__(
            lambda action: None, lambda: self.now_ms + self.step_ms, lambda: self.now_ms
        )
        self.now_ms = now_ms
        self.step_ms = 0
        """The amount by which the clock was set; delays do not follow it."""

    def _set(self, timer: ScheduledTimer) -> None:
        """Set no timer: ``advance`` finds the due ones."""

    def cancel(self, timer: ScheduledTimer) -> None:
        timer.cancelled = True
        self._timers.discard(timer)

    @property
    def due_ms(self) -> list[int]:
        """When each of the set timers is due."""
        return sorted(timer.timestamp_ms for timer in self._timers)

    async def advance(self, now_ms: int) -> None:
        """Set the clock to ``now_ms``, and before that to the millisecond after each timer's."""
        while due := [timer for timer in self._timers if timer.timestamp_ms < now_ms]:
            timer = min(due, key=lambda one: one.timestamp_ms)
            self._timers.remove(timer)
            self.now_ms = max(self.now_ms, timer.timestamp_ms + 1)
            callback: Callable[[int], Any] = timer.callback
            await value_of(callback(timer.timestamp_ms))
        self.now_ms = now_ms
