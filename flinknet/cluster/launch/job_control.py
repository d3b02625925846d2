"""Control of a running job from other threads: its progress, and its end.

``run_job`` attaches the control when its cluster has started. Earlier calls wait until then, or
until the job has ended without a cluster.
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
    """The cluster that runs a job, while it does so: the job's own or a persistent one."""

    async def savepoint(self, job_id: str, directory: str | None = None) -> str: ...
    async def stop(
        self, job_id: str, directory: str | None = None, *, drain: bool = False
    ) -> str: ...


class JobControl:
    """The control of one job; any thread may call it, except the methods for its runner."""

    def __init__(self) -> None:
        self.job_id = machine.unique_id()
        """The id that the job will have."""
        self.progress: JobProgress | None = None
        """The last reported progress."""
        self._lock = machine.RLock()
        self._attached: tuple[asyncio.AbstractEventLoop, RunsJobs] | None = None
        """The event loop and the cluster that run the job; None before the cluster runs."""
        self._cancel: Callable[[], Any] | None = None
        """Cancels the job; None unless its runner runs."""
        self._is_cancelled = False
        self._has_ended = False
        self._waiting: list[Callable[[], None]] = []
        """Calls that were made before the cluster ran."""

    def cancel(self) -> None:
        """Cancel the job, or prevent its start; does nothing if it has ended."""
        with self._lock:
            self._is_cancelled = True
            if self._cancel is not None:
                self._cancel()

    @property
    def is_cancelled(self) -> bool:
        """Whether the cancellation of the job was requested."""
        return self._is_cancelled

    def call(self, method: Callable[[RunsJobs], Coroutine[Any, Any, T]]) -> Future[T]:
        """Call a method of the cluster while it runs the job.

        The future raises LocalProtocolError if the job has ended.
        """
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
        """Note that the runner has begun; ``cancel`` ends it, from any thread."""
        with self._lock:
            self._cancel = cancel
            if self._is_cancelled:
                cancel()

    def attach(self, cluster: RunsJobs) -> None:
        """Note that the cluster runs, in the current event loop."""
        with self._lock:
            self._attached = asyncio.get_running_loop(), cluster
            self._begin_waiting()

    def end(self) -> None:
        """Note that the job has ended."""
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
