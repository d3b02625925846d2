"""A thread that finds the code which keeps an event loop from turning.

Theory of operation. Every ``PAUSE_S``, the thread checks whether the loop has run the callback of
the previous check. If so, the loop has turned, and the thread posts the next callback. If not, the
thread notes which task the loop runs and its stack (``sys._current_frames``).
``metrics/held_up_times.py`` evaluates these notes. The cost is one extra callback per pause.

The thread needs the interpreter to look. Code that keeps the interpreter for itself shows as a time
without looks.

The thread also logs a call in the thread of a subtask that takes long.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from flinknet import machine
from flinknet.environment.task_thread import longest_step
from flinknet.metrics.held_up_times import HeldUpTimes
from flinknet.metrics.worker_statistics import HeldUp
from flinknet.texts import text_of

__all__ = ["LoopWatch"]

log = logging.getLogger("flinknet.worker")

PAUSE_S = 0.1
"""Seconds between two looks; a stall shorter than twice that stays unseen."""

TOLD_AFTER_S = 10.0
"""Seconds for which one task holds up the loop until the log says so, once per stall.

Only the diagnosis reports code that is slow in the ordinary way.
"""

TOLD_AGAIN_AFTER_S = 60.0
"""Seconds between two lines of the log about long calls."""

CALLS_TOLD_MAX = 5
"""Number of logged calls of a stack, the innermost first."""


class LoopWatch:
    """Watches one event loop while ``watching``; make it in the loop's thread."""

    def __init__(self, collected_s: Callable[[], float] = lambda: 0.0) -> None:
        """``collected_s`` returns the seconds spent on garbage collection, which no task causes."""
        self._loop = asyncio.get_running_loop()
        self._loop_thread = machine.thread_id()
        self._times = HeldUpTimes(PAUSE_S, machine.monotonic(), collected_s)
        self._answered = machine.Event()
        """Set when the loop has run the last posted callback."""
        self._ended = machine.Event()

    def held_up(self) -> tuple[HeldUp, ...]:
        """Return the tasks that held up the loop, the longest first.

        Call it in the loop's thread.
        """
        return self._times.told()

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Run the thread."""
        self._ended.clear()
        thread = machine.Thread(target=self._watch, name="flinknet loop watch", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._ended.set()
            thread.join()

    def _watch(self) -> None:
        self._ask()
        turned_at = machine.monotonic()
        told = False
        self._times.look(turned_at, has_turned=True)
        steps_told_at = 0.0
        while not self._ended.wait(PAUSE_S):
            now = machine.monotonic()
            step = longest_step(now)
            if step is not None and step.seconds >= TOLD_AFTER_S and now >= steps_told_at:
                steps_told_at = now + TOLD_AGAIN_AFTER_S
                log.warning(
                    "user code of %s has been in one call for %.0f s: %s",
                    step.subtask,
                    step.seconds,
                    _stack_of(sys._current_frames().get(step.thread)),
                )
            if self._answered.is_set():
                turned_at, told = now, False
                self._times.look(now, has_turned=True)
                self._ask()
                continue
            task, stack = self._seen()
            self._times.look(now, has_turned=False, task=task, stack=stack)
            if not told and now - turned_at >= TOLD_AFTER_S:
                told = True
                log.warning(
                    "%s has blocked the event loop of this worker for %.0f s: %s",
                    task or "code outside of any task",
                    now - turned_at,
                    stack,
                )

    def _ask(self) -> None:
        self._answered.clear()
        try:
            self._loop.call_soon_threadsafe(self._answered.set)
        except RuntimeError:
            self._ended.set()  # the loop is closed

    def _seen(self) -> tuple[str, str]:
        """Return the name of the running task, and its stack."""
        task = asyncio.current_task(self._loop)
        frame = sys._current_frames().get(self._loop_thread)
        return ("" if task is None else task.get_name()), _stack_of(frame)


def _stack_of(frame: FrameType | None) -> str:
    calls: list[str] = []
    while frame is not None and len(calls) < CALLS_TOLD_MAX:
        code = frame.f_code
        file = code.co_filename.rpartition("/")[2]
        calls.append(f"{code.co_qualname} ({file}:{frame.f_lineno})")
        frame = frame.f_back
    return text_of(" < ".join(calls))
