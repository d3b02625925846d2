"""Signals that tell a process to stop."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from flinknet.cluster.control.stop_signals import STOP_SIGNALS, when_told_to_stop


@pytest.fixture(autouse=True)
def own_handlers() -> Iterator[None]:
    """Restore the handlers that this process had before."""
    before = [signal.getsignal(number) for number in STOP_SIGNALS]
    yield
    for number, own in zip(STOP_SIGNALS, before, strict=True):
        signal.signal(number, own)


async def test_both_signals_are_heard() -> None:
    heard: asyncio.Queue[signal.Signals] = asyncio.Queue()
    when_told_to_stop(heard.put_nowait)
    for number in (signal.SIGTERM, signal.SIGINT):
        os.kill(os.getpid(), number)
        assert await heard.get() is number


ENDS = """
import asyncio, atexit, os, signal, sys
from flinknet.cluster.control.stop_signals import ignore_stop_signals, when_told_to_stop

def told_to_stop():
    for number in (signal.SIGTERM, signal.SIGINT):
        os.kill(os.getpid(), number)

class Late:
    def __del__(self, told_to_stop=told_to_stop):
        told_to_stop()

async def work():
    when_told_to_stop(lambda number: None)

if sys.argv[1] == "uvloop":
    import uvloop
    asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
atexit.register(told_to_stop)
late = Late()
late.itself = late
with asyncio.Runner() as runner:
    runner.run(work())
    told_to_stop()
told_to_stop()
ignore_stop_signals()
told_to_stop()
sys.exit(5)
"""


@pytest.mark.parametrize("event_loop", ["asyncio", "uvloop"])
def test_a_signal_at_the_end_of_a_process_changes_nothing(event_loop: str) -> None:
    """It may come while the loop is being closed, or while Python shuts down."""
    run = subprocess.run(
        [sys.executable, "-c", ENDS, event_loop],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (run.returncode, run.stdout, run.stderr) == (5, "", "")


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
    """The fork may come from any thread. SIGTERM ends the child, and its parent is not notified."""
    run = subprocess.run(
        # CPython 3.12 and later warn of any fork beside another thread.
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORKS, event_loop],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (run.stdout, run.stderr) == ("-15 True\nSIGINT True\n" * 2, "")


async def test_bytes_in_the_wakeup_descriptor_are_no_signal() -> None:
    """A process forked by C code writes there, as none of Python's hooks for forks is called."""
    heard: asyncio.Queue[signal.Signals] = asyncio.Queue()
    when_told_to_stop(heard.put_nowait)
    descriptor = signal.set_wakeup_fd(-1)
    signal.set_wakeup_fd(descriptor)
    os.write(descriptor, bytes([signal.SIGTERM]))
    os.kill(os.getpid(), signal.SIGINT)
    assert await heard.get() is signal.SIGINT
    assert heard.empty()
