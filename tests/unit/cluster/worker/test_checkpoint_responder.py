"""What subtasks say of checkpoints becomes messages."""

from __future__ import annotations

import asyncio

from aiohttp import web

from flinknet.checkpoint.failure_reason import CheckpointFailureReason
from flinknet.checkpoint.pending_checkpoint import SubtaskReport
from flinknet.cluster.control.control_link import ControlLink
from flinknet.cluster.control.credentials import new_token
from flinknet.cluster.control.messages import (
    AcknowledgeCheckpoint,
    AwaitCheckpoint,
    DeclineCheckpoint,
    Message,
    Register,
    Registered,
    decode,
    encode,
)
from flinknet.cluster.worker.checkpoint_responder import CheckpointMessages
from tests.unit.cluster.control_plane import served_websocket
from tests.unit.cluster.running_cluster import CONFIG


async def test_what_a_subtask_says_comes_to_the_coordinator() -> None:
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
        ControlLink(address, new_token(), CONFIG) as link,
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
