"""Deadlines that do not count the time in which this process could not listen.

Theory of operation. User code may hold an event loop up for longer than a deadline. Once the loop
turns again, the timer is due together with what has arrived in time, and would come first or undo
it. So a timer that comes late by more than ``LATE_S`` was held up itself: it is set again, for as
long as it came late. A timer that comes in time means what it says. One that must not come while a
peer is held up, because another component judges that, is set again while ``unless`` is true.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

__all__ = ["LATE_S", "PatientTimer", "patient_timeout"]

LATE_S = 1.0
"""By which no timer is late on a loop that turns, however busy the machine is."""


class PatientTimer:
    """Calls ``callback`` at ``when``, or later if the loop was held up; until it is cancelled."""

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
        """Call at ``when``, and not at the time before, if it has not called yet."""
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
        """Call nothing any more; idempotent."""
        self._handle.cancel()


@asynccontextmanager
async def patient_timeout(
    seconds: float | None, unless: Callable[[], bool] = lambda: False
) -> AsyncIterator[Callable[[], None]]:
    """Cancel what is inside after so many seconds in which the loop turned, but not while
    ``unless`` is true; None for never. Yields a function that makes the time begin anew.

    Raises TimeoutError, as ``asyncio.timeout`` does.
    """
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(None) as timeout:
        if seconds is None:
            yield lambda: None
            return

        def expire() -> None:
            timeout.reschedule(loop.time())

        timer = PatientTimer(loop, loop.time() + seconds, expire, unless)
        try:
            yield lambda: timer.set_again(loop.time() + seconds)
        finally:
            timer.cancel()
