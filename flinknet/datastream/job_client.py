"""A job that runs while the program continues (PyFlink's JobClient).

It works with and without a running event loop.
"""

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
    """A pending result (PyFlink's): ``await`` it in an event loop, or call ``result()``."""

    def __init__(self, future: Future[T]) -> None:
        self._future = future

    def __await__(self) -> Generator[Any, None, T]:
        # Shielded: a cancelled waiter must not cancel the future for other waiters.
        return asyncio.shield(asyncio.wrap_future(self._future)).__await__()

    def result(self) -> T:
        """Wait for the result and return it, or raise its error; blocks the thread."""
        return self._future.result()

    def exception(self) -> BaseException | None:
        """Wait for the result and return its error, or None."""
        return self._future.exception()

    def add_done_callback(self, call: Callable[[BaseException | None], None]) -> None:
        """Call ``call`` when the future is done, with its error or None; the thread may be any."""
        self._future.add_done_callback(lambda future: call(future.exception()))

    def done(self) -> bool:
        """Return whether the result, or its error, is available."""
        return self._future.done()


class JobClient(PyFlinkNames):
    """A job that ``execute_async`` has started.

    ``await`` it for its result; cancelling the await leaves the job running. A program that ends
    cancels its jobs, so it must await those that are to finish.
    """

    def __init__(self, run: Callable[[], JobResult], control: JobControl) -> None:
        """Start ``run`` in a thread of its own; it runs the job to its end."""
        self._control = control
        self._result: Future[JobResult] = Future()
        self.is_unasked = True
        """Whether the program has not requested the result yet."""
        self._thread = machine.Thread(
            target=self._run, args=(run,), name=f"flinknet job {control.job_id}", daemon=True
        )
        # A program that ends cancels its jobs.
        atexit.register(self._end)
        self._thread.start()

    def __await__(self) -> Generator[Any, None, JobResult]:
        return self.get_job_execution_result().__await__()

    def get_job_id(self) -> str:
        """Return the job's id."""
        return self._control.job_id

    def get_job_status(self) -> CompletableFuture[str]:
        """Return the job's final state, or the state that it last reported.

        States have Flink's names, such as ``"RUNNING"``.
        """
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
        """Return a future of the job's result, or of the JobError that it ends with."""
        self.is_unasked = False
        return CompletableFuture(self._result)

    def cancel(self) -> CompletableFuture[None]:
        """Cancel the job, and return a future that is done when the job has ended.

        The job's result is then a JobCancelledError, unless the job ended before.
        """
        ended: Future[None] = Future()
        self._result.add_done_callback(lambda _: ended.set_result(None))
        self._control.cancel()
        return CompletableFuture(ended)

    def trigger_savepoint(self, savepoint_directory: str | None = None) -> CompletableFuture[str]:
        """Trigger a savepoint of the running job.

        The future holds the savepoint's location, or a CheckpointError.
        """
        job_id = self._control.job_id
        return CompletableFuture(
            self._control.call(lambda cluster: cluster.savepoint(job_id, savepoint_directory))
        )

    def stop_with_savepoint(
        self, advance_to_end_of_event_time: bool = False, savepoint_directory: str | None = None
    ) -> CompletableFuture[str]:
        """Stop the job with a savepoint; the future holds its location.

        With ``advance_to_end_of_event_time``, all pending results are emitted first.
        """
        job_id = self._control.job_id
        return CompletableFuture(
            self._control.call(
                lambda cluster: cluster.stop(
                    job_id, savepoint_directory, drain=advance_to_end_of_event_time
                )
            )
        )

    def join(self) -> None:
        """Wait until the job has ended and is cleaned up; does not raise its error."""
        self._thread.join()

    def _run(self, run: Callable[[], JobResult]) -> None:
        try:
            result = run()
        except asyncio.CancelledError:
            # ``cancel`` ends ``run`` in this way.
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
