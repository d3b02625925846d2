"""Deadlines that do not count the time in which this process could not listen.

User code may hold an event loop up for longer than a deadline. When the loop continues, the timer
is due together with input that arrived in time, and might come first or undo it. A timer that is
late by more than ``LATE_S`` was therefore held up itself, and is set again for as long as it was
late. A timer that is on time is valid. ``unless`` delays a timer that must not fire while a peer is
held up, which another component judges.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

__all__ = ["LATE_S", "StallTolerantTimer", "stall_tolerant_timeout"]

LATE_S = 1.0
"""Delay in seconds that no timer reaches on a running loop, however busy the machine is."""


class StallTolerantTimer:
    """Calls ``callback`` at ``when``, or later if the loop was held up, unless cancelled."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        when: float,
        callback: Callable[[], object],
        unless: Callable[[], bool] = lambda: False,
    ) -> None:
        self._loop = loop
        self._when = when
        self._callback = callback
        self._unless = unless
        self._handle = loop.call_at(when, self._due)

    def set_again(self, when: float) -> None:
        """Move the call to ``when``, if it has not been made yet."""
        self._handle.cancel()
        self._when = when
        self._handle = self._loop.call_at(when, self._due)

    def _due(self) -> None:
        now = self._loop.time()
        late_s = now - self._when
        if late_s > LATE_S or self._unless():
            self._when = now + max(late_s, LATE_S)
            self._handle = self._loop.call_at(self._when, self._due)
        else:
            self._callback()

    def cancel(self) -> None:
        """Cancel the call; idempotent."""
        self._handle.cancel()


@asynccontextmanager
async def stall_tolerant_timeout(
    seconds: float | None, unless: Callable[[], bool] = lambda: False
) -> AsyncIterator[Callable[[], None]]:
    """Cancel the block after ``seconds`` in which the loop ran; None for never.

    It is not cancelled while ``unless`` returns True. Yields a function that restarts the time.

    Raises:
        TimeoutError: As ``asyncio.timeout`` does.
    """
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(None) as timeout:
        if seconds is None:
            yield lambda: None
            return

        def expire() -> None:
            timeout.reschedule(loop.time())

        timer = StallTolerantTimer(loop, loop.time() + seconds, expire, unless)
        try:
            yield lambda: timer.set_again(loop.time() + seconds)
        finally:
            timer.cancel()
