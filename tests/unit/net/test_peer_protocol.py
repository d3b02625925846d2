"""One socket in its handshake: its ends, and messages right behind it."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

from flinknet.buffer.buffer import DataType
from flinknet.consumer.input_channel import PartitionLocation
from flinknet.net.network_environment import NetworkEnvironment
from flinknet.partition.registry import wire_partition_id
from flinknet.wire.handshake_messages import Hello, Opening
from flinknet.wire.messages import MessageType
from tests.unit.net.stranger import (
    NONCE,
    Host,
    Stranger,
    identity_for,
    peers,
    quick,
    until,
)
from tests.unit.wire.received import partition_request

M = MessageType
P = wire_partition_id("p")


def test_a_peer_that_has_closed_first_does_not_upset_a_refusal() -> None:
    """This needs asyncio's own loop.

    The refusal is answered with a reset before the stream is ended.
    """

    async def refuse() -> list[dict[str, Any]]:
        upset: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: upset.append(context))
        async with NetworkEnvironment(config=quick(), secret="another") as environment:
            stranger = await Stranger.dial(environment.address, secret=b"another")
            stranger.say(Opening(NONCE).encode())
            await stranger.expect_challenge()
            hello = Hello.encode(identity_for(environment), b"wrong", stranger.transcript)
            stranger.say(hello)
            stranger.writer.get_extra_info("socket").shutdown(socket.SHUT_RDWR)
            await until(lambda: peers(environment).refused_total == 1)
            await stranger.close()
        return upset

    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        assert runner.run(refuse()) == []


async def test_messages_right_behind_the_welcome_are_taken() -> None:
    """They arrive in one piece with it.

    The handshake is read in small pieces, and the rest must not be lost.
    """
    config = quick(close_timeout_ms=20.0)
    async with Host() as host, NetworkEnvironment(config=config) as environment:
        gate = environment.create_input_gate([PartitionLocation(host.address, "p", 0)])
        stranger = await host.accept()
        partition = environment.create_result_partition("q", subpartitions=1)
        writer = environment.create_record_writer(partition, buffer_timeout_ms=0)
        host.answer(stranger)
        stranger.send(partition_request(0, wire_partition_id("q")))
        await writer.emit(7)
        found = await stranger.read_messages(2)
        assert {message[0] for message in found} == {M.PARTITION_REQUEST, M.BUFFER_RESPONSE}
        [data] = [message for message in found if message[0] is M.BUFFER_RESPONSE]
        assert data[4:] == (DataType.DATA_BUFFER_WITH_CLEAR_END, b"\x07", 0, 0, 1)
        writer.close()
        gate.release()
