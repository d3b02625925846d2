"""Busy polling: an event loop that looks at its sockets again and again instead of going to sleep.

Theory of operation. To wake a process that sleeps costs more than everything else that a small
record meets on its way: the system has to be told, the processor leaves its idle state, and its
caches and branch predictors are cold. A loop that has something to call does not sleep. So from
``extend`` on, which every arrival and every departure calls, one callback keeps itself scheduled
until the time is over; then the loop sleeps as any other.

The processor is offered to other programs before every look, so that who shares it need not
wait until the system takes it away; but an idle program that does not sleep looks busy to all.
"""

from __future__ import annotations

import os
from asyncio import AbstractEventLoop
from collections.abc import Callable

from flinknet import machine

__all__ = ["BusyPoll"]

_NANOSECONDS_PER_MICROSECOND = 1000

offer_processor: Callable[[], None] = getattr(os, "sched_yield", lambda: None)
"""Lets another program run that waits for this processor, where the system has a call for it."""


class BusyPoll:
    """Keeps one event loop awake for ``duration_us`` after the last call of ``extend``."""

    __slots__ = ("_clock_ns", "_duration_ns", "_loop", "_polling", "_until_ns")

    def __init__(
        self,
        loop: AbstractEventLoop,
        duration_us: float,
        clock_ns: Callable[[], int] = machine.monotonic_ns,
    ) -> None:
        self._loop = loop
        self._duration_ns = int(duration_us * _NANOSECONDS_PER_MICROSECOND)
        self._clock_ns = clock_ns
        self._until_ns = 0
        self._polling = False

    def extend(self) -> None:
        """Something has come or gone: there may be more soon."""
        self._until_ns = self._clock_ns() + self._duration_ns
        if not self._polling:
            self._polling = True
            self._loop.call_soon(self._look)

    def _look(self) -> None:
        self._polling = self._clock_ns() < self._until_ns
        if self._polling:
            offer_processor()
            self._loop.call_soon(self._look)
