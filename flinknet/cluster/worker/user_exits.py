"""Guards against user code that ends the worker process or cancels its own task.

Theory of operation. Subtasks of several jobs share the worker's process. A function that ends the
process would end them all, and users would see a lost worker instead of the faulty function. The
calls that end a process therefore *raise* in user code. The operator then names the record, the job
fails, and the worker goes on (Flink: ``cluster.intercept-user-system-exit: THROW``). ``sys.exit``
raises by itself.

``guard_process`` replaces ``os._exit`` and the functions that send a signal the worker handles.
Code counts as user code where ``RUNNING_SUBTASK`` is set. A process forked by user code may end
itself. A thread started by user code has no subtask, so an error in it would not reach the job:
``os._exit`` there ends the worker after printing a line. SIGKILL is not intercepted: a test of
recovery needs it, and its exit status is self-explanatory.

``SubtaskTask`` is the task in which a subtask runs. ``run_to_end`` restarts the event loop after
user code has stopped it, or after a task or callback of user code has called ``sys.exit``.
"""

from __future__ import annotations

import asyncio
import os
import posix
import signal
import sys
import traceback
from collections.abc import Callable, Coroutine
from typing import Any, NoReturn, TypeVar

from flinknet import machine
from flinknet.cluster.control.exit_status import ExitStatus
from flinknet.cluster.control.stop_signals import is_heard
from flinknet.runtime.running_subtask import RUNNING_SUBTASK

__all__ = ["SubtaskTask", "WorkerExit", "guard_process", "run_to_end"]

T = TypeVar("T")

_exit = os._exit
_raise_signal = signal.raise_signal


class WorkerExit(SystemExit):
    """Raised in user code that calls a function which would end the worker."""


class SubtaskTask(asyncio.Task[T]):
    """The task of a subtask, protected from cancellation by the user code that runs in it."""

    def cancel(self, msg: Any | None = None) -> bool:
        """Cancel the task; raises RuntimeError if the code that runs in it calls this."""
        if _current_task() is self:
            raise RuntimeError(
                "the code of a subtask cannot cancel its own task: raise an error to fail the job"
            )
        return super().cancel(msg)


def _current_task() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:  # no event loop runs in this thread
        return None


def guard_process() -> None:
    """Make the calls that would end this process raise WorkerExit in user code; call it once."""
    process = os.getpid()

    def leave(status: int) -> NoReturn:
        if os.getpid() == process:
            _refuse(f"os._exit({status})")
            thread = machine.current_thread()
            if thread is not machine.main_thread():
                said = f"user code ends this worker: os._exit({status}) in thread {thread.name!r}"
                print(said, file=sys.stderr, flush=True)
                status = ExitStatus.USER_CODE
        _exit(status)

    def guarded(call: Callable[..., Any], own: Callable[[], tuple[int, ...]]) -> Callable[..., Any]:
        def send(target: int, number: int) -> None:
            if target in own() and is_heard(number):
                _refuse(f"os.{call.__name__}({target}, {signal.Signals(number).name})")
            call(target, number)

        return send

    def raise_signal(number: int) -> None:
        if is_heard(number):
            _refuse(f"signal.raise_signal({signal.Signals(number).name})")
        _raise_signal(number)

    guards = {
        "_exit": leave,
        "kill": guarded(os.kill, lambda: (process, 0, -os.getpgrp())),
        "killpg": guarded(os.killpg, lambda: (0, os.getpgrp())),
    }
    for name, guard in guards.items():
        # A function that a program has imported by name is pickled as a member of posix.
        setattr(os, name, guard)
        setattr(posix, name, guard)
    signal.raise_signal = raise_signal


def _refuse(call: str) -> None:
    if RUNNING_SUBTASK.get(None) is not None:
        raise WorkerExit(
            f"{call} would end the worker, which other subtasks share: raise an error to fail the "
            "job"
        )


def run_to_end(runner: asyncio.Runner, work: Coroutine[Any, Any, T]) -> T:
    """Run ``work`` in the runner's event loop until it has ended, and return its result.

    Restarts the loop after ``loop.stop()``, and after a SystemExit or KeyboardInterrupt from
    another task or a callback, which asyncio raises out of the loop. The task that raised it ends.
    """
    loop = runner.get_loop()
    task = loop.create_task(work)
    while True:
        try:
            return loop.run_until_complete(task)
        except (SystemExit, KeyboardInterrupt, RuntimeError) as error:
            if task.done():
                raise
            if not isinstance(error, RuntimeError):
                print(
                    f"{type(error).__name__} of a task or callback that user code has made does "
                    f"not end this worker:\n{''.join(traceback.format_exception(error)).rstrip()}",
                    file=sys.stderr,
                )
