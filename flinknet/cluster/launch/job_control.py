"""What other threads may want of a job that runs: to know of it, to end it.

``run_job`` attaches the control when its cluster has started. What is asked before waits until
then, or until the job has ended without.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, Protocol, TypeVar

from flinknet import machine
from flinknet.cluster.control.job_result import JobProgress
from flinknet.errors import LocalProtocolError

__all__ = ["JobControl", "RunsJobs"]

T = TypeVar("T")


class RunsJobs(Protocol):
    """What runs a job, as long as it does: a cluster of its own, or one that stays."""

    async def savepoint(self, job_id: str, directory: str | None = None) -> str: ...
    async def stop(
        self, job_id: str, directory: str | None = None, *, drain: bool = False
    ) -> str: ...


class JobControl:
    """One job's. Every method may be called from any thread, but those of its runner."""

    def __init__(self) -> None:
        self.job_id = machine.unique_id()
        """That the job will have."""
        self.progress: JobProgress | None = None
        """As it was last reported."""
        self._lock = machine.RLock()
        self._attached: tuple[asyncio.AbstractEventLoop, RunsJobs] | None = None
        self._cancel: Callable[[], Any] | None = None
        self._is_cancelled = False
        self._has_ended = False
        self._waiting: list[Callable[[], None]] = []

    def cancel(self) -> None:
        """Have the job cancelled, or not begun; nothing if it has ended."""
        with self._lock:
            self._is_cancelled = True
            if self._cancel is not None:
                self._cancel()

    @property
    def is_cancelled(self) -> bool:
        """Whether somebody has asked for its cancellation."""
        return self._is_cancelled

    def call(self, method: Callable[[RunsJobs], Coroutine[Any, Any, T]]) -> Future[T]:
        """Call a method of the cluster while it runs the job; LocalProtocolError, from the future,
        if the job has ended."""
        future: Future[T] = Future()

        def begin() -> None:
            if self._has_ended or self._attached is None:
                future.set_exception(LocalProtocolError(f"job {self.job_id} has ended"))
                return
            loop, cluster = self._attached
            called = asyncio.run_coroutine_threadsafe(method(cluster), loop)
            called.add_done_callback(lambda done: _pass_on(done, future))

        with self._lock:
            if self._attached is None and not self._has_ended:
                self._waiting.append(begin)
            else:
                begin()
        return future

    def start(self, cancel: Callable[[], Any]) -> None:
        """``run_job`` begins; ``cancel`` ends it, from any thread."""
        with self._lock:
            self._cancel = cancel
            if self._is_cancelled:
                cancel()

    def attach(self, cluster: RunsJobs) -> None:
        """The cluster runs, in the current event loop."""
        with self._lock:
            self._attached = asyncio.get_running_loop(), cluster
            self._begin_waiting()

    def end(self) -> None:
        """The job has ended, somehow."""
        with self._lock:
            self._has_ended, self._cancel = True, None
            self._begin_waiting()

    def _begin_waiting(self) -> None:
        for begin in self._waiting:
            begin()
        self._waiting.clear()


def _pass_on(done: Future[T], future: Future[T]) -> None:
    if done.cancelled():
        future.set_exception(LocalProtocolError("the job has ended meanwhile"))
    elif (error := done.exception()) is not None:
        future.set_exception(error)
    else:
        future.set_result(done.result())
