"""The signals that tell a process of a cluster to end in an orderly way.

Theory of operation. A signal counts when Python's own handler runs in this process. asyncio's
handlers instead follow the numbers read from the wake-up descriptor, which cannot be trusted. A
process that user code has forked shares that descriptor, and writes its own signals there. So
asyncio is used only to wake the event loop, and its handler does nothing.

A loop that is closed returns the signals that it handles to the system, so a signal at the end of a
process would kill it. Therefore asyncio handles another signal, and the process ignores the stop
signals once its end is decided.

In a forked process the signals get their default effect: they end it. Otherwise
``multiprocessing.Pool.terminate()`` would wait for ever for processes that do not react to SIGTERM.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any

__all__ = ["STOP_SIGNALS", "ignore_stop_signals", "is_heard", "when_told_to_stop"]

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)

_WAKES = signal.SIGURG
"""Signal that asyncio handles, so that its loop wakes up for every signal that Python handles.

The system ignores it by default, so it is harmless when a closed loop has returned it.
"""

_PYTHONS_OWN: dict[int, Any] = {
    signal.SIGTERM: signal.SIG_DFL,
    signal.SIGINT: signal.default_int_handler,
}


class _Heard:
    """A signal handler that schedules a call in the event loop."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, call: Callable[[signal.Signals], None]
    ) -> None:
        self._loop = loop
        self._call = call

    def __call__(self, number: int, frame: FrameType | None) -> None:
        # The loop may be closed already, when the process ends.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._call, signal.Signals(number))


def when_told_to_stop(call: Callable[[signal.Signals], None]) -> None:
    """Call a function in the running event loop for each stop signal."""
    loop = asyncio.get_running_loop()
    heard = _Heard(loop, call)
    loop.add_signal_handler(_WAKES, _wake_up)
    for number in STOP_SIGNALS:
        signal.signal(number, heard)
        # The system restarts interrupted calls of user code, as with asyncio's own handlers.
        signal.siginterrupt(number, False)


def ignore_stop_signals() -> None:
    """Ignore the stop signals, so that none changes the exit status of an ending process."""
    for number in STOP_SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def is_heard(number: int) -> bool:
    """Return whether this process handles the signal, and ends in an orderly way on it."""
    return number in STOP_SIGNALS and isinstance(signal.getsignal(number), _Heard)


def _wake_up() -> None:
    """Do nothing: the event loop has woken up, so that Python calls its own handler."""


def _start_clean() -> None:
    """Give the stop signals their default effect in a forked process."""
    heard = [number for number in STOP_SIGNALS if is_heard(number)]
    for number in heard:
        signal.signal(number, _PYTHONS_OWN[number])
    if heard:
        # The parent's loop would read signals of this process from the shared descriptor.
        signal.set_wakeup_fd(-1)


os.register_at_fork(after_in_child=_start_clean)
