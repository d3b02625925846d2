"""A worker's link to a coordinator of the same process, over a transport in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from flinknet.cluster.control.control_link import ControlLink
from flinknet.cluster.control.messages import Deploy, Heartbeat, Register, Registered, Stop
from flinknet.cluster.control.submission import Submission
from flinknet.cluster.control.subtask_result import encode_result
from flinknet.cluster.coordinator.coordinator import Coordinator
from flinknet.cluster.coordinator.jobs.job_store import JobStore
from flinknet.config import CheckpointingConfig
from flinknet.errors import ConfigurationError, JobError, RemoteTransportError
from flinknet.runtime.subtask import SubtaskResult
from tests.sim.cluster import MemoryTransport, Trace
from tests.unit.cluster.control_plane import CONFIG, expect
from tests.unit.cluster.graphs import keyed_graph

REGISTER = Register("worker-0", 1, "127.0.0.1:1", 2)


@pytest.fixture
async def coordinator() -> AsyncIterator[Coordinator]:
    coordinator = Coordinator(CONFIG, checkpointing=CheckpointingConfig())
    yield coordinator
    coordinator.close("the test ends")
    await coordinator.finish_checkpoints()


def link_to(coordinator: Coordinator) -> ControlLink:
    return ControlLink(MemoryTransport("worker-0", coordinator, Trace()), CONFIG)


async def test_a_worker_registers_hears_messages_and_makes_requests(
    coordinator: Coordinator,
) -> None:
    async with link_to(coordinator) as link:
        registered = await link.register(REGISTER)
        assert registered == Registered(CONFIG.heartbeat_interval_ms, CONFIG.progress_interval_ms)
        record = coordinator.submit(Submission.of_graph(keyed_graph()))
        assert await expect(link, Deploy) == Deploy(record.job_id, 0)
        deployment = await link.fetch_deployment(record.job_id, 0, "worker-0")
        assert {(one.vertex, one.index) for one in deployment.subtasks} == {(0, 0), (1, 0), (1, 1)}
        assert (deployment.restored_from, deployment.restored_finished) == ("", set())
        assert await link.fetch_committables(record.job_id, 0) == (deployment.graph, [])
        result = encode_result(SubtaskResult(1, 1, 1, 1, 1, 1, 1, {}, {}), 1024)
        assert await link.upload_results(record.job_id, 0, "worker-0", {(0, 0): result}) == {}
        assert set(record.present.results) == {(0, 0)}
        with pytest.raises(JobError, match="no request waits for answer 9"):
            await link.upload_answer("worker-0", 9, b"")
        coordinator.close("enough")
        while not isinstance(message := await link.receive(), Stop):
            assert message is not None


async def test_a_worker_that_is_refused_hears_why(coordinator: Coordinator) -> None:
    async with link_to(coordinator) as first, link_to(coordinator) as second:
        await first.register(REGISTER)
        with pytest.raises(ConfigurationError, match="worker-0 is taken"):
            await second.register(REGISTER)
        assert await second.receive() is None


async def test_a_coordinator_that_cuts_a_conversation_has_gone(coordinator: Coordinator) -> None:
    transport = MemoryTransport("worker-0", coordinator, Trace())
    async with ControlLink(transport, CONFIG) as link:
        registering = asyncio.create_task(link.register(REGISTER))
        await asyncio.sleep(0)
        [far] = transport.accepted
        far.abort()
        with pytest.raises(RemoteTransportError, match="the simulated coordinator is gone"):
            await registering
        await link.send(Heartbeat())
        assert await link.receive() is None


@pytest.mark.parametrize(
    ("state_id", "epoch", "joins"), [("s", 4, True), ("s", 6, False), ("t", 6, True)]
)
async def test_a_worker_serves_no_older_coordinator_than_before(
    tmp_path: Path, state_id: str, epoch: int, joins: bool
) -> None:
    """The worker tells it of the successor and looks for another one.

    Numbers of another directory do not compare.
    """
    (tmp_path / "epochs").mkdir()
    (tmp_path / "epochs" / "4").write_text("s")
    store = JobStore(tmp_path)
    coordinator = Coordinator(CONFIG, store=store)
    register = replace(REGISTER, state_id=state_id, epoch=epoch)
    async with link_to(coordinator) as link:
        if joins:
            registered = await link.register(register)
            assert (registered.state_id, registered.epoch) == ("s", 5)
        else:
            with pytest.raises(RemoteTransportError, match="is gone"):
                await link.register(register)
        assert coordinator.superseded.done() is not joins
    coordinator.close("the test ends")
    store.close()


async def test_a_worker_refuses_a_coordinator_that_does_not_know_better(
    coordinator: Coordinator,
) -> None:
    """A coordinator without a directory has the number 0, and none to compare."""
    async with link_to(coordinator) as link:
        with pytest.raises(RemoteTransportError, match="of epoch 0, is superseded by one of epoch"):
            await link.register(replace(REGISTER, epoch=1))
