"""The signals that tell a process of a cluster to end, and leave it the time to do so in order."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable

__all__ = ["when_told_to_stop"]

_STOP = (signal.SIGTERM, signal.SIGINT)


def when_told_to_stop(call: Callable[[signal.Signals], None]) -> None:
    """Have it called, in the running event loop, for each of them that comes."""
    loop = asyncio.get_running_loop()
    for number in _STOP:
        loop.add_signal_handler(number, call, number)
