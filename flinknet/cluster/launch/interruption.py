"""Interruption of a waiting program: Ctrl-C, a signal, or a closed output pipe."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from flinknet import machine
from flinknet.cluster.launch.job_control import JobControl
from flinknet.cluster.launch.process_output import OnPrinted
from flinknet.errors import ConfigurationError

__all__ = ["Interruption", "check_no_loop_runs", "run_interruptible"]

T = TypeVar("T")

_STOP_SIGNALS = (signal.SIGTERM, signal.SIGHUP)


def run_interruptible(
    work: Callable[[Interruption], Coroutine[Any, Any, T]], control: JobControl
) -> T:
    """Run ``work`` in a new event loop, and return its result.

    ``control``, Ctrl-C, and SIGTERM and SIGHUP cancel it; the signals do not if the program handles
    them. After its end, KeyboardInterrupt or SystemExit is raised.
    """
    interruption = Interruption()

    async def begin() -> T:
        interruption.begin_at_signals()
        control.start(interruption.cancel_threadsafe)
        return await work(interruption)

    try:
        with _plain_interrupts():
            return asyncio.run(begin())
    except asyncio.CancelledError:
        if interruption.cause is None:
            raise
        raise interruption.cause from None
    finally:
        control.end()


def check_no_loop_runs() -> None:
    """Raise ConfigurationError if waiting would block this thread's running event loop."""
    if _loop_is_running():
        raise ConfigurationError(
            "execute() waits for the job, so it cannot be called from a running event loop, as in "
            "a notebook: write `await env.execute_async(...)` there, and `await` its result"
        )


class Interruption:
    """Cancels the task that runs a job, and keeps the first cause."""

    def __init__(self) -> None:
        self.cause: BaseException | None = None
        self._loop: asyncio.AbstractEventLoop
        self._task: asyncio.Task[Any]

    def begin_at_signals(self) -> None:
        """Cancel the current task when a signal asks this process to stop."""
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self._loop = asyncio.get_running_loop()
        for number in _free_stop_signals():
            self._loop.add_signal_handler(number, self._begin, SystemExit(128 + number))

    def begin_at_broken_pipe(self, on_printed: OnPrinted) -> OnPrinted:
        """Return a version of ``on_printed`` that cancels the task on a broken pipe."""

        def print_or_begin(line: str) -> None:
            try:
                on_printed(line)
            except BrokenPipeError as error:
                if self.cause is None:  # a second cancellation would kill the processes
                    self._begin(error)

        return print_or_begin

    def cancel_threadsafe(self) -> None:
        """Cancel the task from any thread, without a cause."""
        self._loop.call_soon_threadsafe(self._task.cancel)

    def _begin(self, cause: BaseException) -> None:
        self.cause = self.cause or cause
        self._task.cancel()


@contextmanager
def _plain_interrupts() -> Iterator[None]:
    """Replace PySpark's handler of Ctrl-C in this block.

    That handler cancels all jobs of Spark, including the workers, before the flinknet job can end.
    asyncio replaces Python's default handler.
    """
    handler = signal.getsignal(signal.SIGINT)
    is_sparks = str(getattr(handler, "__module__", "")).startswith("pyspark.")
    if not is_sparks or machine.current_thread() is not machine.main_thread():
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)


def _loop_is_running() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _free_stop_signals() -> list[signal.Signals]:
    """Return the signals that may be handled.

    Only the main thread can handle signals, and handlers of the program take precedence.
    """
    if machine.current_thread() is not machine.main_thread():
        return []
    return [number for number in _STOP_SIGNALS if signal.getsignal(number) is signal.SIG_DFL]
