"""A process hears that it is to end."""

from __future__ import annotations

import asyncio
import os
import signal

from flinknet.cluster.control.stop_signals import when_told_to_stop


async def test_both_signals_are_heard() -> None:
    heard: asyncio.Queue[signal.Signals] = asyncio.Queue()
    when_told_to_stop(heard.put_nowait)
    try:
        for number in (signal.SIGTERM, signal.SIGINT):
            os.kill(os.getpid(), number)
            assert await heard.get() is number
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().remove_signal_handler(number)
