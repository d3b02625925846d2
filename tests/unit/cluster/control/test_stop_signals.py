"""A process hears that it is to end."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys

import pytest

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


def test_one_that_comes_when_the_loop_is_closed_changes_nothing() -> None:
    """The process ends already, and says nothing of that."""
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
    heard: list[signal.Signals] = []

    async def listen() -> object:
        when_told_to_stop(heard.append)
        return signal.getsignal(signal.SIGTERM)

    try:
        handler = asyncio.run(listen())
        assert callable(handler)
        handler(signal.SIGTERM, None)
    finally:
        for number, own in zip((signal.SIGTERM, signal.SIGINT), before, strict=True):
            signal.signal(number, own)
    assert heard == []


FORKS = """
import asyncio, os, signal, sys, threading
from flinknet.cluster.control.stop_signals import is_heard, when_told_to_stop

def fork():
    child = os.fork()
    if not child:
        assert not is_heard(signal.SIGTERM) and signal.set_wakeup_fd(-1) == -1
        os.write(ready[1], b".")
        threading.Event().wait()
    return child

async def work():
    heard = asyncio.Queue()
    when_told_to_stop(heard.put_nowait)
    for where in ("here", "in a thread"):
        child = fork() if where == "here" else await asyncio.to_thread(fork)
        os.read(ready[0], 1)
        os.kill(child, signal.SIGTERM)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), heard.empty())
        os.kill(os.getpid(), signal.SIGINT)
        print((await heard.get()).name, heard.empty())

ready = os.pipe()
if sys.argv[1] == "uvloop":
    import uvloop
    asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
asyncio.run(work())
"""


@pytest.mark.parametrize("event_loop", ["asyncio", "uvloop"])
def test_a_forked_process_starts_clean(event_loop: str) -> None:
    """From whichever thread: SIGTERM ends it, and its parent hears nothing of that."""
    run = subprocess.run(
        # CPython 3.12 and later warn of any fork beside another thread.
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORKS, event_loop],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (run.stdout, run.stderr) == ("-15 True\nSIGINT True\n" * 2, "")


async def test_what_is_written_to_the_wakeup_descriptor_is_no_signal() -> None:
    """A process that is forked by C, where nothing of Python's is called, writes there."""
    heard: asyncio.Queue[signal.Signals] = asyncio.Queue()
    when_told_to_stop(heard.put_nowait)
    try:
        descriptor = signal.set_wakeup_fd(-1)
        signal.set_wakeup_fd(descriptor)
        os.write(descriptor, bytes([signal.SIGTERM]))
        os.kill(os.getpid(), signal.SIGINT)
        assert await heard.get() is signal.SIGINT
        assert heard.empty()
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().remove_signal_handler(number)
