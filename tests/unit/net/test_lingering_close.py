"""The end of a connection whose peer may still be sending.

The peer reads the last message, which no reset may destroy, and the end takes a bounded time.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from flinknet.config import WireLimits
from flinknet.errors import ErrorCode
from flinknet.net.network_environment import NetworkEnvironment
from flinknet.wire.handshake_messages import Hello, Opening, Verdict
from flinknet.wire.messages import CONNECTION_CHANNEL, MessageType
from tests.unit.net.stranger import NONCE, Stranger, identity_for, peers, quick, until

MORE_THAN_SOCKETS_TAKE = bytes(12 * 2**20)
VIOLATION = b"\xc1\xc1"


def environment_for(**options: Any) -> NetworkEnvironment:
    """Return an environment that refuses peers without the secret."""
    return NetworkEnvironment(config=quick(**options), secret="s")


async def be_refused(environment: NetworkEnvironment) -> Stranger:
    """Send a wrong proof, so that the environment refuses this peer."""
    stranger = await Stranger.dial(environment.address, secret=b"s")
    stranger.say(Opening(NONCE).encode())
    await stranger.expect_challenge()
    stranger.secret = b"another"
    stranger.writer.transport.pause_reading()  # type: ignore[attr-defined]
    stranger.say(Hello.encode(identity_for(environment), b"another", stranger.transcript))
    await until(lambda: peers(environment).refused_total == 1)
    return stranger


async def break_the_protocol(environment: NetworkEnvironment) -> Stranger:
    """Break the protocol, so that the environment answers with the reason."""
    stranger = await Stranger.dial(environment.address, secret=b"s")
    await stranger.introduce(identity_for(environment))
    stranger.writer.transport.pause_reading()  # type: ignore[attr-defined]
    stranger.send(VIOLATION)
    await until(lambda: peers(environment).established == 0)
    return stranger


ENDS = {"refused": be_refused, "broke the protocol": break_the_protocol}


@pytest.mark.parametrize("end", ENDS)
async def test_a_peer_that_goes_on_sending_reads_why_it_was_turned_away(end: str) -> None:
    """The peer has sent more than the sockets hold.

    If the connection were closed at once, its next write would meet a reset and it would never read
    the reason.
    """
    async with environment_for() as environment:
        stranger = await ENDS[end](environment)
        stranger.send(MORE_THAN_SOCKETS_TAKE)
        await stranger.writer.drain()
        stranger.writer.transport.resume_reading()  # type: ignore[attr-defined]
        if end == "refused":
            assert await stranger.expect_verdict() is Verdict.REFUSED
        else:
            [(kind, channel, code, _)] = await stranger.read_messages(1)
            expected = (MessageType.ERROR_RESPONSE, CONNECTION_CHANNEL, ErrorCode.PROTOCOL)
            assert (kind, channel, code) == expected
        await stranger.close()
        await until(lambda: peers(environment).turned_away == 0)


@pytest.mark.parametrize("bound", ["bytes", "time"])
@pytest.mark.parametrize("end", ENDS)
async def test_a_peer_that_does_not_close_is_cut_off(end: str, bound: str) -> None:
    by_bytes = bound == "bytes"
    wire = WireLimits(
        farewell_bytes_max=10_000 if by_bytes else 2**30,
        handshake_timeout_ms=60_000.0 if by_bytes else 200.0,
    )
    timeout_ms = 60_000.0 if by_bytes else 20.0
    async with environment_for(wire=wire, close_timeout_ms=timeout_ms) as environment:
        stranger = await ENDS[end](environment)
        assert peers(environment).turned_away == 1
        if by_bytes:
            stranger.send(bytes(10_000))
            await until(lambda: not stranger.writer.transport.get_write_buffer_size())
            assert peers(environment).turned_away == 1
            stranger.send(b"1")
        await until(lambda: peers(environment).turned_away == 0)
        await stranger.close()


async def test_a_worker_can_be_dialled_anew_while_the_old_connection_says_farewell() -> None:
    async with environment_for() as environment:
        stranger = await break_the_protocol(environment)
        assert peers(environment).turned_away == 1
        async with Stranger.meet(environment, secret=b"s") as another:
            assert another.verdict is Verdict.WELCOME
        await stranger.close()


async def test_a_violation_behind_the_goodbye_of_this_side_is_not_answered() -> None:
    """This side has sent its last message, so it cuts off a peer that does not close."""
    upset: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: upset.append(context))
    environment = environment_for(close_timeout_ms=50.0)
    await environment.__aenter__()
    stranger = await Stranger.dial(environment.address, secret=b"s")
    await stranger.introduce(identity_for(environment))
    leaving = asyncio.create_task(environment.__aexit__(None, None, None))
    [goodbye] = await stranger.read_messages(1)
    assert goodbye[0] is MessageType.CLOSE_REQUEST
    stranger.send(VIOLATION)
    assert await stranger.read_to_end() == b""
    await stranger.close()
    await leaving
    assert upset == []
