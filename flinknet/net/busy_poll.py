"""Busy polling: an event loop that polls its sockets for a while before it sleeps.

Waking a sleeping process costs more than all other work for a small record: a system call, an idle
state that the processor must leave, and cold caches and branch predictors. An event loop with a
scheduled callback does not sleep. From ``extend`` on, called at every input and output, a callback
reschedules itself until the time is over. The loop then sleeps as usual.

Before each poll the processor is offered to other programs, so that a waiting program runs before
the system takes the processor away. The idle process looks busy to other programs, however.
"""

from __future__ import annotations

import os
from asyncio import AbstractEventLoop
from collections.abc import Callable

from flinknet import machine

__all__ = ["BusyPoll"]

_NANOSECONDS_PER_MICROSECOND = 1000

offer_processor: Callable[[], None] = getattr(os, "sched_yield", lambda: None)
"""Lets another program use this processor, where the system has a call for it."""


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
        """Extend the polling after input or output, because more may follow soon."""
        self._until_ns = self._clock_ns() + self._duration_ns
        if not self._polling:
            self._polling = True
            self._loop.call_soon(self._poll)

    def _poll(self) -> None:
        self._polling = self._clock_ns() < self._until_ns
        if self._polling:
            offer_processor()
            self._loop.call_soon(self._poll)
