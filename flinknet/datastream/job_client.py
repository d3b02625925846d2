"""A job that runs while the program goes on (PyFlink's JobClient), in an event loop or without."""

from __future__ import annotations

import asyncio
import atexit
from collections.abc import Callable, Generator
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from flinknet import machine
from flinknet.errors import JobCancelledError

if TYPE_CHECKING:
    from flinknet.cluster.control.job_result import JobResult
    from flinknet.cluster.launch.job_control import JobControl
from flinknet.compatibility.pyflink_differences import PyFlinkNames

__all__ = ["CompletableFuture", "JobClient"]

T = TypeVar("T")


class CompletableFuture(PyFlinkNames, Generic[T]):
    """What will be known (PyFlink's): ``await`` it in an event loop, or call ``result()``."""

    def __init__(self, future: Future[T]) -> None:
        self._future = future

    def __await__(self) -> Generator[Any, None, T]:
        # Shielded: who waits may give up, and others may wait for the same.
        return asyncio.shield(asyncio.wrap_future(self._future)).__await__()

    def result(self) -> T:
        """Wait for it and return it, or raise its error; blocks the thread."""
        return self._future.result()

    def exception(self) -> BaseException | None:
        """Wait for it and return its error, if it has one."""
        return self._future.exception()

    def add_done_callback(self, call: Callable[[BaseException | None], None]) -> None:
        """Have ``call`` called with its error, or None, when it is known, in any thread."""
        self._future.add_done_callback(lambda future: call(future.exception()))

    def done(self) -> bool:
        """Whether it is known, or failed."""
        return self._future.done()


class JobClient(PyFlinkNames):
    """One job that ``execute_async`` has started.

    ``await`` it for its result: whoever is cancelled while waiting leaves the job running. A
    program that ends takes its jobs with it: wait for those that shall finish.
    """

    def __init__(self, run: Callable[[], JobResult], control: JobControl) -> None:
        """``run`` runs the job to its end, in a thread of its own."""
        self._control = control
        self._result: Future[JobResult] = Future()
        self.is_unasked = True
        """Nobody has asked for the result yet."""
        self._thread = machine.Thread(
            target=self._run, args=(run,), name=f"flinknet job {control.job_id}", daemon=True
        )
        atexit.register(self._end)
        self._thread.start()

    def __await__(self) -> Generator[Any, None, JobResult]:
        return self.get_job_execution_result().__await__()

    def get_job_id(self) -> str:
        """Return the job's id."""
        return self._control.job_id

    def get_job_status(self) -> CompletableFuture[str]:
        """Return how the job has ended, or how it stood when it last reported: Flink's names,
        ``"RUNNING"``."""
        status: Future[str] = Future()
        status.set_result(self._status())
        return CompletableFuture(status)

    def _status(self) -> str:
        if self._result.done():
            error = self._result.exception()
            if error is None:
                return self._result.result().state
            return "CANCELED" if isinstance(error, JobCancelledError) else "FAILED"
        progress = self._control.progress
        return "INITIALIZING" if progress is None else progress.state

    def get_job_execution_result(self) -> CompletableFuture[JobResult]:
        """Return the result that the job will have, or the JobError that it will end with."""
        self.is_unasked = False
        return CompletableFuture(self._result)

    def cancel(self) -> CompletableFuture[None]:
        """Cancel the job; what is returned is done when it has ended. Its result is a
        JobCancelledError then, unless it had one before."""
        ended: Future[None] = Future()
        self._result.add_done_callback(lambda _: ended.set_result(None))
        self._control.cancel()
        return CompletableFuture(ended)

    def trigger_savepoint(self, savepoint_directory: str | None = None) -> CompletableFuture[str]:
        """Have a savepoint written while the job goes on; gives its place, or a CheckpointError."""
        job_id = self._control.job_id
        return CompletableFuture(
            self._control.call(lambda cluster: cluster.savepoint(job_id, savepoint_directory))
        )

    def stop_with_savepoint(
        self, advance_to_end_of_event_time: bool = False, savepoint_directory: str | None = None
    ) -> CompletableFuture[str]:
        """End the job with a savepoint, of which the place is given; with
        ``advance_to_end_of_event_time`` all that is held back is emitted first."""
        job_id = self._control.job_id
        return CompletableFuture(
            self._control.call(
                lambda cluster: cluster.stop(
                    job_id, savepoint_directory, drain=advance_to_end_of_event_time
                )
            )
        )

    def join(self) -> None:
        """Wait until the job has ended and nothing of it is left; its error is not raised."""
        self._thread.join()

    def _run(self, run: Callable[[], JobResult]) -> None:
        try:
            result = run()
        except asyncio.CancelledError:
            self._result.set_exception(
                JobCancelledError(f"job {self._control.job_id} was cancelled")
            )
        except BaseException as error:
            self._result.set_exception(error)
        else:
            self._result.set_result(result)
        finally:
            atexit.unregister(self._end)

    def _end(self) -> None:
        self._control.cancel()
        self._thread.join()
