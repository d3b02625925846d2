"""A job from its submission to its end, at a coordinator that is run elsewhere."""

from __future__ import annotations

import asyncio

import pytest

from flinknet.cluster.control.client import CoordinatorClient
from flinknet.cluster.control.job_state import JobState
from flinknet.cluster.control.submission import Submission
from flinknet.cluster.launch.submitted_job import execute_job
from flinknet.config import ClusterConfig
from tests.unit.cluster.graphs import endless_graph
from tests.unit.cluster.running_cluster import Cluster, running_cluster


async def test_cancelling_the_call_cancels_the_job() -> None:
    async with running_cluster() as cluster:
        await _cancel_one(cluster)


async def _cancel_one(cluster: Cluster) -> None:
    served, config = cluster.served, ClusterConfig()
    client = CoordinatorClient(served.address, served.token, config)
    runs = asyncio.Event()
    submission = Submission.of_graph(endless_graph())
    call = asyncio.create_task(
        execute_job(client, submission, "0" * 32, config, lambda progress: runs.set())
    )
    await runs.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    record = served.coordinator.dispatcher.job("0" * 32)
    assert record is not None
    assert record.state is JobState.CANCELED
