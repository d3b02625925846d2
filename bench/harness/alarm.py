"""Waking up at a given time, to some 10 µs; Linux only.

The timers of uvloop have a resolution of 1 ms. A busy loop would take the CPU from the threads of a
system's library. This module therefore uses a timerfd of the kernel, which the event loop watches
like a socket.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import sys
from select import select
from time import monotonic_ns
from types import TracebackType
from typing import Self

from bench.errors import UnavailableError

__all__ = ["Alarm"]

CLOCK_MONOTONIC = 1
TIMER_ABSOLUTE = 1
NANOSECONDS = 1_000_000_000

TimerSpec = ctypes.c_long * 4
"""The kernel's itimerspec: seconds and nanoseconds of the interval and of the time."""


class Alarm:
    """A timer for absolute times of ``monotonic_ns``, with one waiter at a time.

    Raises UnavailableError where timerfd does not exist, and OSError if the kernel refuses one.
    """

    def __init__(self) -> None:
        if sys.platform != "linux":
            raise UnavailableError(f"open-loop load needs Linux's timerfd, this is {sys.platform}")
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._file = self._libc.timerfd_create(CLOCK_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC)
        if self._file < 0:
            raise OSError(ctypes.get_errno(), "there is no timer to be had: timerfd_create")
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiter: asyncio.Future[None] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._loop is not None:
            self._loop.remove_reader(self._file)
        os.close(self._file)

    def block_until(self, at_ns: int) -> None:
        """Block the thread until the time; return at once if it has passed."""
        if monotonic_ns() < at_ns:
            self._set(at_ns)
            select((self._file,), (), ())
            os.read(self._file, 8)

    async def wait_until(self, at_ns: int) -> None:
        """Wait until the time while the event loop goes on; return at once if it has passed."""
        if monotonic_ns() < at_ns:
            if self._loop is None:
                self._loop = asyncio.get_running_loop()
                self._loop.add_reader(self._file, self._ring)
            self._waiter = self._loop.create_future()
            self._set(at_ns)
            await self._waiter

    def _set(self, at_ns: int) -> None:
        spec = TimerSpec(0, 0, *divmod(at_ns, NANOSECONDS))
        if self._libc.timerfd_settime(self._file, TIMER_ABSOLUTE, spec, None):
            raise OSError(ctypes.get_errno(), f"no alarm can be set for {at_ns} ns")

    def _ring(self) -> None:
        os.read(self._file, 8)
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
