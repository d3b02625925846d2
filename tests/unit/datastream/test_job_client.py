"""A job in a thread: its client's answers, with and without an event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest

from flinknet.cluster.control.job_result import JobProgress, JobResult
from flinknet.cluster.launch.job_control import JobControl
from flinknet.datastream.job_client import JobClient
from flinknet.errors import JobCancelledError, JobFailedError, LocalProtocolError

RESULT = JobResult("id", "job", "FINISHED", 1.0, (), (), {})


def fails() -> JobResult:
    raise JobFailedError("broken")


def test_a_result_without_an_event_loop() -> None:
    client = JobClient(lambda: RESULT, JobControl())
    assert client.is_unasked
    future = client.get_job_execution_result()
    assert (future.result(), future.exception(), future.done()) == (RESULT, None, True)
    assert not client.is_unasked
    client.join()


async def test_a_result_is_awaited() -> None:
    assert await JobClient(lambda: RESULT, JobControl()) is RESULT
    with pytest.raises(JobFailedError, match="broken"):
        await JobClient(fails, JobControl()).get_job_execution_result()


async def test_a_cancelled_waiter_leaves_the_job_running() -> None:
    go_on = threading.Event()

    def run() -> JobResult:
        go_on.wait()
        return RESULT

    client = JobClient(run, JobControl())

    async def wait() -> JobResult:
        return await client

    waiting = asyncio.ensure_future(wait())
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    go_on.set()
    assert await client is RESULT


def test_status_is_that_of_the_last_report_while_the_job_runs() -> None:
    control, go_on = JobControl(), threading.Event()

    def run() -> JobResult:
        go_on.wait()
        return RESULT

    client = JobClient(run, control)
    assert client.get_job_status().result() == "INITIALIZING"
    control.progress = JobProgress("id", "job", 0, "RUNNING", 0.1, (), (), None)
    assert client.get_job_status().result() == "RUNNING"
    assert client.get_job_id() == control.job_id
    go_on.set()
    client.join()
    assert client.get_job_status().result() == "FINISHED"


def is_cancelled() -> JobResult:
    raise asyncio.CancelledError


def is_cancelled_elsewhere() -> JobResult:
    raise JobCancelledError("by another client")


@pytest.mark.parametrize(
    ("run", "status"),
    [(fails, "FAILED"), (is_cancelled, "CANCELED"), (is_cancelled_elsewhere, "CANCELED")],
)
def test_status_is_that_of_the_end_when_the_job_has_ended(
    run: Callable[[], JobResult], status: str
) -> None:
    """The state in the last report does not matter."""
    control = JobControl()
    client = JobClient(run, control)
    control.progress = JobProgress("id", "job", 0, "RUNNING", 0.1, (), (), None)
    client.join()
    assert client.get_job_status().result() == status


def test_a_cancelled_job_ends_with_that() -> None:
    control, cancelled = JobControl(), threading.Event()

    def run() -> JobResult:
        control.start(cancelled.set)
        cancelled.wait()
        raise asyncio.CancelledError

    client = JobClient(run, control)
    client.cancel().result()
    with pytest.raises(JobCancelledError, match=control.job_id):
        client.get_job_execution_result().result()


def test_a_savepoint_of_a_job_that_has_ended_is_refused() -> None:
    control = JobControl()
    client = JobClient(lambda: RESULT, control)
    client.join()
    control.end()
    for future in (client.trigger_savepoint("here"), client.stop_with_savepoint(True, "here")):
        with pytest.raises(LocalProtocolError, match="has ended"):
            future.result()
