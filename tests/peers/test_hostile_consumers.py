"""A consumer that breaks the protocol loses its connection, and affects no other."""

from __future__ import annotations

import asyncio
import select
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from flinknet import NetworkConfig, NetworkEnvironment
from flinknet.config import WireLimits
from flinknet.errors import FlinknetError
from tests.peers.programs import CONFIG, consumer
from tests.peers.python import wire
from tests.peers.strangers import LOST, Stranger, connect, dial, identity

PROTOCOL, CORRUPTED = 1, 9
LIMITS = WireLimits(
    heartbeats_per_minute_max=1_000,
    unused_requests_per_minute_max=1_000,
    channels_per_connection_max=1_000,
)
CONSUMED = "p"

Break = Callable[[Stranger], None]

pytestmark = pytest.mark.usefixtures("bystander")


@pytest.fixture
def config() -> NetworkConfig:
    """A configuration in which a few heartbeats and unused requests are too many."""
    return replace(CONFIG, wire=LIMITS)


@asynccontextmanager
async def written(environment: NetworkEnvironment, *, ended: bool) -> AsyncIterator[None]:
    """Provide a partition that is being written, or finished if ``ended``.

    Errors of its writer after the loss of its consumer are ignored.
    """

    async def write() -> None:
        try:
            async with environment.open_writer(CONSUMED, buffer_timeout_ms=0.0) as writer:
                await writer.emit(1)
                if not ended:
                    await asyncio.get_running_loop().create_future()
        except FlinknetError:
            pass

    writing = asyncio.create_task(write())
    try:
        yield
    finally:
        writing.cancel()
        await asyncio.wait([writing])


def acknowledge_early(peer: Stranger) -> None:
    peer.request(CONSUMED)
    peer.expect(wire.BUFFER)
    peer.send(wire.ACKNOWLEDGE, 0)


def acknowledge_twice(peer: Stranger) -> None:
    peer.request(CONSUMED)
    while peer.expect(wire.BUFFER).fields[3] != wire.END_OF_DATA:
        pass
    peer.send(wire.ACKNOWLEDGE, 0)
    peer.send(wire.ACKNOWLEDGE, 0)


def say(*messages: tuple[Any, ...], request: bool = True) -> Break:
    """Request the partition, and send messages that break the protocol."""

    def send(peer: Stranger) -> None:
        if request:
            peer.request(CONSUMED)
        for message in messages:
            peer.send(*message)

    return send


def raw(data: bytes) -> Break:
    """Send bytes that are no message."""

    def send(peer: Stranger) -> None:
        peer.send_raw(data)

    return send


def flood_with_heartbeats(peer: Stranger) -> None:
    peer.send_together([wire.encode(wire.HEARTBEAT)] * (LIMITS.heartbeats_per_minute_max + 1))


def request_and_cancel(peer: Stranger) -> None:
    partition = wire.partition_id("never")
    for number in range(LIMITS.unused_requests_per_minute_max + 1):
        request = wire.encode(wire.REQUEST, number, partition, 0, 1)
        peer.send_together([request, wire.encode(wire.CANCEL, number)])


WHILE_WRITING: dict[str, Break] = {
    "acknowledgement that is not due": acknowledge_early,
    "credit of 0": say((wire.ADD_CREDIT, 0, 0)),
    "credit overflow": say((wire.ADD_CREDIT, 0, 65_535)),
    "initial credit overflow": say((wire.REQUEST, 1, bytes(16), 0, 65_536)),
    "credit for a channel never requested": say((wire.ADD_CREDIT, 1, 1)),
    "credit for a channel that is gone": say((wire.CANCEL, 0), (wire.ADD_CREDIT, 0, 1)),
    "cancel of a channel that is gone": say((wire.CANCEL, 0), (wire.CANCEL, 0)),
    "channel number used again": say((wire.CANCEL, 0), (wire.REQUEST, 0, bytes(16), 0, 1)),
    "the highest channel number": say((wire.REQUEST, 2**32 - 1, bytes(16), 0, 1), request=False),
    "buffer size 0": say((wire.BUFFER_SIZE, 0, 0)),
    "buffer size over the segment's": say((wire.BUFFER_SIZE, 0, 513)),
    "event credit of 0": say((wire.ADD_EVENT_CREDIT, 0, 0)),
    "event credit for what was not sent": say((wire.ADD_EVENT_CREDIT, 0, 1)),
    "resume of what is not blocked": say((wire.RESUME, 0)),
    "buffer of the consumer": say((wire.BUFFER, 0, 0, 0, 8, 0, 0, 0)),
    "announcement of the consumer": say((wire.BACKLOG, 0, 1)),
    "unknown message": raw(b"\x92\x0b\xce\x00\x00\x00\x00"),
    "body of 4 GiB": raw(
        bytes.fromhex("9800" + "ce00000000" * 3 + "08" + "ce00000000" * 3) + b"\xc6" + b"\xff" * 4
    ),
    "heartbeat flood": flood_with_heartbeats,
    "request-and-cancel churn": request_and_cancel,
}

WHEN_ENDED: dict[str, Break] = {"acknowledgement twice": acknowledge_twice}


@pytest.mark.parametrize("checksums", [0, 1])
@pytest.mark.parametrize("breach", [*WHILE_WRITING, *WHEN_ENDED])
async def test_a_violation_ends_the_connection(
    environment: NetworkEnvironment, breach: str, checksums: int
) -> None:
    def act(peer: Stranger) -> Any:
        try:
            {**WHILE_WRITING, **WHEN_ENDED}[breach](peer)
        except OSError:
            return PROTOCOL  # the connection was closed while it sent
        return peer.condemned()

    async with written(environment, ended=breach in WHEN_ENDED):
        assert await dial(environment.address, act, checksums=checksums) == PROTOCOL


async def test_a_flipped_bit_changes_nothing(environment: NetworkEnvironment) -> None:
    """A flipped bit ends the connection with CORRUPTED, or PROTOCOL if the type is invalid."""
    message = wire.encode(wire.REQUEST, 0, wire.partition_id(CONSUMED), 0, 1)
    sealed = message + b"\xce" + wire.crc32c(message).to_bytes(4, "big")
    async with written(environment, ended=False):
        for position in range(len(sealed)):
            changed = bytearray(sealed)
            changed[position] ^= 1

            def act(peer: Stranger, changed: bytes = bytes(changed)) -> Any:
                peer.socket.sendall(changed)
                return peer.condemned()

            code = await dial(environment.address, act, checksums=1)
            assert code == (PROTOCOL if position == 1 else CORRUPTED), position


@pytest.mark.parametrize("late", [wire.HEARTBEAT, wire.CLOSE, wire.ADD_CREDIT])
async def test_a_message_behind_the_close_request_closes_without_an_answer(
    environment: NetworkEnvironment, late: int
) -> None:
    def act(peer: Stranger) -> Any:
        peer.send(wire.CLOSE)
        peer.send(late, *((0, 1) if late == wire.ADD_CREDIT else ()))
        return peer.condemned()

    assert await dial(environment.address, act) == LOST


async def test_a_consumer_that_leaves_hears_the_end_of_the_stream(
    environment: NetworkEnvironment,
) -> None:
    def act(peer: Stranger) -> Any:
        peer.request(CONSUMED)
        peer.expect(wire.BUFFER)
        peer.send(wire.CANCEL, 0)
        peer.leave()

    async with written(environment, ended=False):
        await dial(environment.address, act)


@pytest.mark.parametrize("kept", [1, 5, 20])
async def test_a_stream_that_ends_in_a_message_is_closed(
    environment: NetworkEnvironment, kept: int
) -> None:
    def act(peer: Stranger) -> Any:
        peer.socket.sendall(wire.encode(wire.REQUEST, 0, bytes(16), 0, 1)[:kept])
        peer.socket.shutdown(1)
        return peer.condemned()

    await dial(environment.address, act)


@pytest.mark.parametrize(
    "said",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"flinknet\x00\x05\xff\xff",
        b"flinknet\x00\x05\x00\x02",
        bytes(12),
    ],
)
async def test_bytes_other_than_a_handshake_are_closed_without_an_answer(
    environment: NetworkEnvironment, said: bytes
) -> None:
    def run() -> bytes:
        with connect(environment.address) as peer:
            peer.socket.sendall(said)
            try:
                return peer.socket.recv(100)
            except ConnectionError:
                return b""

    assert await asyncio.to_thread(run) == b""


async def test_hundreds_of_silent_sockets_do_not_prevent_connections(
    environment: NetworkEnvironment,
) -> None:
    """Each new connection makes flinknet refuse the oldest silent one with FULL."""
    count = LIMITS.pending_handshakes_max + 40
    with ExitStack() as open_sockets:

        def open_all() -> list[Stranger]:
            return [open_sockets.enter_context(connect(environment.address)) for _ in range(count)]

        silent = await asyncio.to_thread(open_all)

        def come_until_the_oldest_goes() -> None:
            """Connect until the oldest is refused; newcomers are refused while all are recent."""
            while not select.select([silent[0].socket], [], [], 0.01)[0]:
                with connect(environment.address):
                    pass

        await asyncio.to_thread(come_until_the_oldest_goes)
        async with consumer("python", environment.address, CONSUMED) as foreigner:
            async with environment.open_writer(CONSUMED) as writer:
                await writer.emit(1)
            assert await foreigner.records() == ({0: [1]}, "complete")
        refused = await asyncio.to_thread(silent[0].socket.recv, 100)
        assert refused == b"flinknet\x00\x05\x00\x03\x92\x05\x05"


async def test_a_consumer_that_does_not_read_delays_no_other(
    environment: NetworkEnvironment,
) -> None:
    """A consumer with all possible credit that reads nothing delays no other."""

    def run() -> None:
        with connect(environment.address) as peer:
            peer.dial(identity(), b"")
            peer.request(CONSUMED, credit=65_535)

    async with written(environment, ended=False):
        await asyncio.to_thread(run)
        async with consumer("python", environment.address, "other") as foreigner:
            async with environment.open_writer("other") as writer:
                await writer.emit_many(range(5_000))
            found, end = await foreigner.records()
            assert (found[0], end) == (list(range(5_000)), "complete")
