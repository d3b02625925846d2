"""A worker's websocket: its admission, and its end."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import aiohttp
import pytest

from flinknet.cluster.control.credentials import authorization_headers
from flinknet.cluster.control.messages import Heartbeat, Register, Registered, Run, Stop, encode
from flinknet.cluster.coordinator.coordinator import Coordinator
from flinknet.cluster.coordinator.workers.worker_connection import WorkerConnection
from flinknet.errors import ConfigurationError, CoordinatorSupersededError
from tests.unit.cluster.control_plane import CONFIG, ServedCoordinator


async def test_a_worker_id_that_is_taken_is_refused(served: ServedCoordinator) -> None:
    async with served.worker("worker-0"), served.link() as second:
        with pytest.raises(ConfigurationError, match="worker-0 is taken"):
            await second.register(Register("worker-0", 2, "127.0.0.1:2", 1))
        assert await second.receive() is None


async def test_a_worker_hears_the_pace_of_its_reports(served: ServedCoordinator) -> None:
    async with served.link() as link:
        registered = await link.register(Register("worker-0", 1, "127.0.0.1:1", 1))
    assert registered == Registered(CONFIG.heartbeat_interval_ms, CONFIG.progress_interval_ms)


class UnansweredConversation:
    """The coordinator's end of a conversation over which its answer takes time."""

    vouched: Sequence[str] | None = None

    def __init__(self, register: Register | None = None) -> None:
        register = register or Register("worker-0", 1, "127.0.0.1:1", 1)
        self.may_send, self.has_ended = asyncio.Event(), asyncio.Event()
        self.sent: list[bytes] = []
        self._said = [encode(register)]

    async def send(self, message: bytes) -> None:
        await self.may_send.wait()
        self.sent.append(message)

    async def receive(self) -> bytes | None:
        if self._said:
            return self._said.pop()
        await self.has_ended.wait()
        return None

    async def close(self) -> None:
        """Do nothing: this conversation has no socket."""

    def abort(self) -> None:
        self.has_ended.set()


async def test_a_cluster_is_ready_when_its_workers_know_that_they_are_registered() -> None:
    """If the coordinator dies as soon as it is ready, its workers know that they may look for
    another one."""
    coordinator = Coordinator(replace(CONFIG, workers=1))
    conversation = UnansweredConversation()
    serving = asyncio.create_task(WorkerConnection(coordinator, conversation).serve())
    while not coordinator.registered_workers():
        await asyncio.sleep(0)
    for _ in range(10):
        await asyncio.sleep(0)
    assert not coordinator.ready.is_set()
    conversation.may_send.set()
    await coordinator.ready.wait()
    assert conversation.sent == [
        encode(Registered(CONFIG.heartbeat_interval_ms, CONFIG.progress_interval_ms))
    ]
    conversation.has_ended.set()
    await serving
    coordinator.close("the test ends")
    await coordinator.finish_checkpoints()


async def test_a_replaced_connection_sends_nothing_more() -> None:
    """Its end is no loss of the worker, which is connected over the new one."""
    coordinator = Coordinator(replace(CONFIG, workers=1), takes_back=True)
    register = Register("worker-0", 1, "127.0.0.1:1", 1, process="the same")
    serving, conversations = [], []
    for _ in range(2):
        conversation = UnansweredConversation(register)
        conversation.may_send.set()
        conversations.append(conversation)
        connection = WorkerConnection(coordinator, conversation)
        serving.append(asyncio.create_task(connection.serve()))
        await coordinator.ready.wait()
        while not conversation.sent:
            await asyncio.sleep(0)
    await serving[0]
    assert coordinator.registered_workers() == 1
    conversations[1].has_ended.set()
    await serving[1]
    assert coordinator.registered_workers() == 0
    coordinator.close("the test ends")
    await coordinator.finish_checkpoints()


class LateConversation(UnansweredConversation):
    """A conversation whose messages on the way still arrive after it was aborted."""

    def __init__(self) -> None:
        super().__init__()
        self.may_send.set()
        self.arriving = asyncio.Queue[bytes | None]()

    async def receive(self) -> bytes | None:
        return self._said.pop() if self._said else await self.arriving.get()

    def abort(self) -> None:
        """Do nothing: what has arrived is still read."""


@pytest.mark.parametrize("cut", [False, True])
async def test_what_arrives_after_the_end_of_a_connection_is_not_looked_at(
    cut: bool, caplog: pytest.LogCaptureFixture
) -> None:
    coordinator = Coordinator(replace(CONFIG, workers=1))
    conversation = LateConversation()
    connection = WorkerConnection(coordinator, conversation)
    serving = asyncio.create_task(connection.serve())
    await coordinator.ready.wait()
    if cut:
        connection.abort()
    # A second Register would break the protocol, which is logged.
    second = encode(Register("worker-0", 1, "127.0.0.1:1", 1))
    conversation.arriving.put_nowait(second if cut else None)
    await serving
    assert "connection closed" not in caplog.text
    assert coordinator.registered_workers() == 0
    coordinator.close("the test ends")
    await coordinator.finish_checkpoints()


async def test_a_dismissed_worker_is_sent_nothing_more() -> None:
    coordinator = Coordinator(replace(CONFIG, workers=1))
    conversation = LateConversation()
    connection = WorkerConnection(coordinator, conversation)
    serving = asyncio.create_task(connection.serve())
    await coordinator.ready.wait()
    connection.dismiss("enough")
    connection.send(Run("job", 0))
    conversation.arriving.put_nowait(None)
    await serving
    assert conversation.sent[1:] == [encode(Stop("enough"))]
    coordinator.close("the test ends")
    await coordinator.finish_checkpoints()


async def test_a_superseded_coordinator_ends_the_connection_without_an_answer() -> None:
    """The worker looks for the new coordinator."""
    coordinator = Coordinator(replace(CONFIG, workers=1))
    coordinator.superseded.set_result(CoordinatorSupersededError("another one has taken over"))
    conversation = LateConversation()
    await WorkerConnection(coordinator, conversation).serve()
    assert conversation.sent == []
    assert coordinator.registered_workers() == 0
    coordinator.close("the test ends")
    await coordinator.finish_checkpoints()


@pytest.mark.parametrize(
    "frame",
    [
        b"garbage",
        "text",
        encode(Run("job", 0)),
        encode(Register("worker-9", 1, "127.0.0.1:1", 1)),
        encode(Stop("x" * CONFIG.control_message_bytes_max)),
    ],
    ids=["garbage", "text", "coordinator's message", "second Register", "too large"],
)
async def test_a_worker_that_breaks_the_protocol_is_lost_and_no_other(
    served: ServedCoordinator, frame: bytes | str
) -> None:
    async with served.worker("worker-0") as good, served.worker("worker-1"):
        async with aiohttp.ClientSession(headers=authorization_headers(served.token)) as session:
            socket = await session.ws_connect(f"http://{served.address}/api/v1/worker")
            await socket.send_bytes(encode(Register("worker-2", 1, "127.0.0.1:1", 1)))
            await socket.receive_bytes()
            if isinstance(frame, str):
                await socket.send_str(frame)
            else:
                await socket.send_bytes(frame)
            closing = await socket.receive()
            assert closing.type in (aiohttp.WSMsgType.CLOSE, aiohttp.WSMsgType.CLOSED)
        workers = served.coordinator.dispatcher.workers
        await good.send(Heartbeat())
        assert [worker.worker_id for worker in workers.registered()] == ["worker-0", "worker-1"]


async def test_the_first_message_must_be_register(served: ServedCoordinator) -> None:
    async with aiohttp.ClientSession(headers=authorization_headers(served.token)) as session:
        socket = await session.ws_connect(f"http://{served.address}/api/v1/worker")
        await socket.send_bytes(encode(Heartbeat()))
        assert (await socket.receive()).type is aiohttp.WSMsgType.CLOSE
    assert served.coordinator.dispatcher.workers.workers() == ()


async def test_workers_are_told_when_the_coordinator_closes(served: ServedCoordinator) -> None:
    """They close the connection. Until then the coordinator reads their messages."""
    async with served.worker("worker-0") as link:
        served.coordinator.close("enough")
        await link.send(Heartbeat())
        assert await link.receive() == Stop("enough")
        await link.send(Heartbeat())
        assert served.coordinator.registered_workers() == 1
    await served.coordinator.wait_for_workers()
    assert served.coordinator.registered_workers() == 0
