"""A clock that a test sets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flinknet.environment.processing_time import ProcessingTimeService, ScheduledTimer
from flinknet.functions.calls import value_of

__all__ = ["ManualTime"]


class ManualTime(ProcessingTimeService):
    """Processing time that goes on when it is told to, and runs what is due then, in order."""

    def __init__(self, now_ms: int = 0) -> None:
        super().__init__(
            lambda action: None, lambda: self.now_ms + self.step_ms, lambda: self.now_ms
        )
        self.now_ms = now_ms
        self.step_ms = 0
        """By how much the clock was set; delays do not follow it."""

    def _set(self, timer: ScheduledTimer) -> None:
        """Nothing is set: ``advance`` finds what is due."""

    def cancel(self, timer: ScheduledTimer) -> None:
        timer.cancelled = True
        self._timers.discard(timer)

    @property
    def due_ms(self) -> list[int]:
        """When the timers that are set are due."""
        return sorted(timer.timestamp_ms for timer in self._timers)

    async def advance(self, now_ms: int) -> None:
        """Let it be ``now_ms``, and before that the millisecond after each timer's."""
        while due := [timer for timer in self._timers if timer.timestamp_ms < now_ms]:
            timer = min(due, key=lambda one: one.timestamp_ms)
            self._timers.remove(timer)
            self.now_ms = max(self.now_ms, timer.timestamp_ms + 1)
            callback: Callable[[int], Any] = timer.callback
            await value_of(callback(timer.timestamp_ms))
        self.now_ms = now_ms
