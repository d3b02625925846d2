"""Other threads' calls about a running job: before it runs, while it does, and afterwards."""

from __future__ import annotations

import asyncio

import pytest

from flinknet.cluster import LocalCluster
from flinknet.cluster.launch.job_control import JobControl, RunsJobs
from flinknet.errors import JobError, LocalProtocolError


async def address(cluster: RunsJobs) -> str:
    assert isinstance(cluster, LocalCluster)
    return f"at {cluster.address or 'no place'}"


async def refuse(cluster: RunsJobs) -> str:
    raise JobError("no")


async def test_a_call_waits_for_the_cluster() -> None:
    control = JobControl()
    early = control.call(address)
    assert not early.done()
    control.attach(LocalCluster())
    assert await asyncio.wrap_future(early) == "at no place"
    with pytest.raises(JobError, match="no"):
        await asyncio.wrap_future(control.call(refuse))


def test_a_call_fails_when_the_job_has_ended() -> None:
    control = JobControl()
    early = control.call(address)
    control.end()
    for call in (early, control.call(address)):
        with pytest.raises(LocalProtocolError, match=f"job {control.job_id} has ended"):
            call.result()


async def test_a_call_that_the_end_of_the_job_cuts_off() -> None:
    control = JobControl()
    control.attach(LocalCluster())
    entered = asyncio.Event()

    async def wait(cluster: RunsJobs) -> None:
        entered.set()
        await asyncio.Event().wait()

    call = control.call(wait)
    await entered.wait()
    (task,) = asyncio.all_tasks() - {asyncio.current_task()}
    task.cancel()
    with pytest.raises(LocalProtocolError, match="ended meanwhile"):
        await asyncio.wrap_future(call)


def test_cancelling_before_while_and_after() -> None:
    said: list[str] = []
    early = JobControl()
    early.cancel()
    early.start(lambda: said.append("early"))
    running = JobControl()
    running.start(lambda: said.append("running"))
    assert said == ["early"]
    running.cancel()
    running.end()
    running.cancel()
    assert said == ["early", "running"]
    assert running.is_cancelled
