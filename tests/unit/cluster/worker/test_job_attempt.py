"""A worker's part in one attempt: its progress, and that it always ends with Released."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from aiohttp import web

from flinknet.checkpoint.failure_reason import CheckpointFailureReason
from flinknet.checkpoint.file_storage import FileStorage
from flinknet.checkpoint.metadata import CheckpointDirectory
from flinknet.checkpoint.pending_checkpoint import SubtaskReport
from flinknet.checkpoint.store import CheckpointStore
from flinknet.cluster.control.control_link import ControlLink
from flinknet.cluster.control.credentials import new_token
from flinknet.cluster.control.failure import CauseRank, FailureCause
from flinknet.cluster.control.http_transport import http_link
from flinknet.cluster.control.messages import (
    AcknowledgeCheckpoint,
    AwaitCheckpoint,
    Cancel,
    DeclineCheckpoint,
    Deploy,
    Failed,
    Message,
    Register,
    Registered,
    Released,
    Run,
    Stop,
    decode,
    encode,
)
from flinknet.cluster.control.submission import Submission
from flinknet.cluster.worker import job_attempt as module
from flinknet.cluster.worker.job_attempt import (
    TRANSITIONS,
    AttemptState,
    CheckpointLocations,
    CheckpointMessages,
    JobAttempt,
)
from flinknet.cluster.worker.worker import Worker
from flinknet.config import CheckpointingConfig
from flinknet.config.restart_strategy import FixedDelayRestart
from flinknet.errors import RemoteProtocolError
from flinknet.net.network_environment import NetworkEnvironment
from tests.unit.checkpoint.checkpoints import LARGE, files_below
from tests.unit.cluster.control_plane import (
    ServedCoordinator,
    expect,
    serve_control_plane,
    served_websocket,
)
from tests.unit.cluster.graphs import keyed_graph, two_pipelines
from tests.unit.cluster.running_cluster import CONFIG
from tests.unit.tables import named, shown_in


@pytest.fixture
async def served() -> AsyncIterator[ServedCoordinator]:
    async with serve_control_plane(CONFIG) as served:
        yield served


@pytest.fixture
async def environment() -> AsyncIterator[NetworkEnvironment]:
    async with NetworkEnvironment(worker_id="worker-0") as environment:
        yield environment


@pytest.fixture
async def link(
    served: ServedCoordinator, environment: NetworkEnvironment
) -> AsyncIterator[ControlLink]:
    async with served.link() as link:
        await link.register(Register("worker-0", 1, environment.address, 2))
        yield link


async def deployed(
    served: ServedCoordinator, link: ControlLink, environment: NetworkEnvironment
) -> JobAttempt:
    """Return the attempt of a submitted job; nothing of it is on this worker yet."""
    client = served.client()
    job_id = await client.submit(Submission.of_graph(keyed_graph(parallelism=1)))
    assert await expect(link, Deploy) == Deploy(job_id, 0)
    return JobAttempt(job_id, 0, environment=environment, link=link, config=CONFIG)


def state_of(attempt: JobAttempt) -> AttemptState:
    """Return the state; a call keeps a type checker from believing that it never changes."""
    return attempt.state


def is_empty(environment: NetworkEnvironment) -> bool:
    statistics = environment.statistics()
    return not statistics.partitions and not statistics.gates


def test_the_docstring_shows_the_table() -> None:
    assert shown_in(module.__doc__) == named(TRANSITIONS)


async def test_an_attempt_is_opened_run_and_released(
    served: ServedCoordinator, link: ControlLink, environment: NetworkEnvironment
) -> None:
    attempt = await deployed(served, link, environment)
    assert state_of(attempt) is AttemptState.OPENING
    with pytest.raises(RemoteProtocolError, match="Run, but its subtasks are being opened"):
        attempt.run()
    living = asyncio.create_task(attempt.live())
    await expect(link, Run)
    assert state_of(attempt) is AttemptState.OPENED
    assert attempt.progress() is not None
    attempt.run()
    assert state_of(attempt) is AttemptState.RUNNING
    with pytest.raises(RemoteProtocolError, match="Run, but its subtasks run"):
        attempt.run()
    await living
    assert state_of(attempt) is AttemptState.RELEASED
    assert attempt.progress() is None
    assert is_empty(environment)
    attempt.run()
    assert state_of(attempt) is AttemptState.RELEASED


@pytest.mark.parametrize("state", [AttemptState.OPENING, AttemptState.OPENED, AttemptState.RUNNING])
async def test_an_attempt_that_is_cancelled_lets_go_of_everything(
    served: ServedCoordinator,
    link: ControlLink,
    environment: NetworkEnvironment,
    state: AttemptState,
) -> None:
    attempt = await deployed(served, link, environment)
    living = asyncio.create_task(attempt.live())
    await asyncio.sleep(0)
    if state is not AttemptState.OPENING:
        await expect(link, Run)
    if state is AttemptState.RUNNING:
        attempt.run()
    assert state_of(attempt) is state
    living.cancel()
    with pytest.raises(asyncio.CancelledError):
        await living
    assert state_of(attempt) is AttemptState.RELEASED
    assert is_empty(environment)


@pytest.mark.parametrize("runs", [True, False])
async def test_some_subtasks_are_cancelled_and_the_others_go_on(
    served: ServedCoordinator, link: ControlLink, environment: NetworkEnvironment, runs: bool
) -> None:
    """This holds even if the cancellation comes at the same moment as the order to run."""
    graph = replace(two_pipelines(1), restart=FixedDelayRestart(1, 0.0))
    client = served.client()
    job_id = await client.submit(Submission.of_graph(graph))
    await expect(link, Deploy)
    attempt = JobAttempt(job_id, 0, environment=environment, link=link, config=CONFIG)
    living = asyncio.create_task(attempt.live())
    await expect(link, Run)
    cause = FailureCause(CauseRank.CAUSE, "worker-0", 1, "ValueError", "boom")
    await link.send(Failed(job_id, 0, 1, 0, cause.to_dict()))
    cancel = await expect(link, Cancel)
    assert cancel == Cancel(job_id, 0, [[0, 0], [1, 0]])
    assert len(environment.statistics().partitions) == 2
    attempt.run()
    if runs:
        await asyncio.sleep(0)
    attempt.cancel((vertex, index) for vertex, index in cancel.subtasks)
    assert await expect(link, Deploy) == Deploy(job_id, 1), "they are released"
    progress = attempt.progress()
    assert progress is not None
    assert [row[:2] for row in progress.rows] == [[2, 0], [3, 0]]
    (partition,) = environment.statistics().partitions
    assert partition.partition_id == f"{job_id}/0/1/0"
    assert state_of(attempt) is AttemptState.RUNNING
    living.cancel()
    with pytest.raises(asyncio.CancelledError):
        await living
    assert is_empty(environment)
    attempt.cancel([(2, 0)])
    assert state_of(attempt) is AttemptState.RELEASED, "that has been said"


async def test_an_attempt_that_cannot_be_opened_is_released(
    served: ServedCoordinator, link: ControlLink, environment: NetworkEnvironment
) -> None:
    unknown = JobAttempt("no-such-job", 0, environment=environment, link=link, config=CONFIG)
    await unknown.live()
    assert unknown.state is AttemptState.RELEASED


async def test_a_cancel_that_comes_right_behind_the_deployment_is_answered(
    environment: NetworkEnvironment,
) -> None:
    """It comes before the attempt has had a turn of the event loop."""
    said: list[Message] = []

    async def deploy_and_cancel(request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        await socket.receive()
        for message in (Registered(10_000.0, 10_000.0), Deploy("job", 0), Cancel("job", 0)):
            await socket.send_bytes(encode(message))
        while not any(isinstance(message, Released) for message in said):
            said.append(decode((await socket.receive()).data))
        await socket.send_bytes(encode(Stop("enough")))
        await socket.close()
        return socket

    async with (
        served_websocket(deploy_and_cancel) as address,
        http_link(address, new_token(), CONFIG) as link,
    ):
        registered = await link.register(Register("worker-0", 1, environment.address, 2))
        await Worker(environment, link, CONFIG).serve(registered, asyncio.Event())
    assert Released("job", 0) in said


async def test_messages_of_a_subtask_reach_the_coordinator() -> None:
    heard: asyncio.Queue[Message] = asyncio.Queue()

    async def coordinator(request: web.Request) -> web.WebSocketResponse:
        websocket = web.WebSocketResponse()
        await websocket.prepare(request)
        await websocket.receive_bytes()
        await websocket.send_bytes(encode(Registered(1000.0, 1000.0)))
        for _ in range(3):
            heard.put_nowait(decode(await websocket.receive_bytes()))
        return websocket

    report = SubtaskReport(b"handle", 1.0, 2.0, 3.0, 4.0, 5, 6, 7, finished=True, unaligned=True)
    async with (
        served_websocket(coordinator) as address,
        http_link(address, new_token(), CONFIG) as link,
    ):
        await link.register(Register("worker-0", 1, "127.0.0.1:1", 2))
        messages = CheckpointMessages("job", 2, link)
        await messages.acknowledge(7, (1, 0), report)
        await messages.decline(8, (1, 0), CheckpointFailureReason.DECLINED, "not now")
        await messages.await_checkpoint((1, 0), 8)
        acknowledged, declined, awaiting = [await heard.get() for _ in range(3)]
    assert acknowledged == AcknowledgeCheckpoint(
        "job", 2, 7, 1, 0, b"handle", [1.0, 2.0, 3.0, 4.0, 5, 6, 7, True, True, 0]
    )
    assert declined == DeclineCheckpoint("job", 2, 8, 1, 0, "DECLINED", "not now")
    assert awaiting == AwaitCheckpoint("job", 2, 1, 0, 8)


CHECKPOINTING = CheckpointingConfig()
SAVEPOINT = CheckpointDirectory(True, 3, 0)


def store(top: Path) -> CheckpointStore:
    return CheckpointStore(FileStorage(top, CHECKPOINTING), "job", CHECKPOINTING)


async def test_checkpoints_and_savepoints_go_to_their_own_places(tmp_path: Path) -> None:
    places = CheckpointLocations(store(tmp_path / "own"), CHECKPOINTING)
    places.announce(3, store(tmp_path / "saved"))
    places.announce(3, store(tmp_path / "twice"))
    await places.write_part(CheckpointDirectory(False, 2, 0), "p", [(0, LARGE)])
    await places.write_part(SAVEPOINT, "p", [(0, LARGE)])
    assert files_below(tmp_path) == [
        "own/job/checkpoint-2-attempt-0/p",
        "saved/job/savepoint-3-attempt-0/p",
    ]


async def test_a_part_waits_for_the_word(tmp_path: Path) -> None:
    places = CheckpointLocations(None, CHECKPOINTING)
    writing = asyncio.create_task(places.write_part(SAVEPOINT, "p", [(0, LARGE)]))
    given_up = asyncio.create_task(places.write_part(SAVEPOINT, "q", [(0, LARGE)]))
    await asyncio.sleep(0)
    given_up.cancel()
    await asyncio.sleep(0)
    places.announce(3, store(tmp_path))
    await writing
    assert files_below(tmp_path) == ["job/savepoint-3-attempt-0/p"]


async def test_the_end_of_a_savepoint_ends_the_waiting() -> None:
    places = CheckpointLocations(None, CHECKPOINTING)
    writing = asyncio.create_task(places.write_part(SAVEPOINT, "p", [(0, LARGE)]))
    await asyncio.sleep(0)
    places.forget(3)
    places.forget(3)
    with pytest.raises(asyncio.CancelledError):
        await writing
