"""A peer made of a bare socket that sends exactly the bytes of a test."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, Self

from flinknet.config import NetworkConfig, WireLimits
from flinknet.metrics.environment_statistics import PeerDirectoryStatistics
from flinknet.net.network_environment import NetworkEnvironment
from flinknet.wire.handshake_messages import (
    PROOF_BYTES,
    Answer,
    Challenge,
    HandshakeKind,
    HandshakeMessage,
    Hello,
    Opening,
    Refusal,
    Verdict,
    WorkerIdentity,
    decode_handshake,
    prove,
)
from tests.unit.arrangements import assert_everything_returned
from tests.unit.connection.joined import messages

LIMITS = WireLimits()


def quick(**options: Any) -> NetworkConfig:
    """Return a small configuration with short waits.

    An environment waits ``close_timeout_ms`` for a stranger that stays. A test of this may set
    less.
    """
    return NetworkConfig(
        **{
            "segment_bytes": 1024,
            "network_memory_bytes": 1024 * 256,
            "connect_backoff_ms": 1.0,
            "connect_backoff_max_ms": 60_000.0,
            "close_timeout_ms": 2_000.0,
            **options,
        }
    )


def identity_for(environment: NetworkEnvironment, **changes: Any) -> WorkerIdentity:
    """Return an identity that the environment accepts, unless ``changes`` spoil it."""
    fields: dict[str, Any] = {
        "worker_id": "stranger",
        "address": "127.0.0.1:9",
        "job": "embedded",
        "attempt": 0,
        "segment_bytes": environment.config.segment_bytes,
        **changes,
    }
    return WorkerIdentity(**fields)


async def until(condition: Callable[[], bool]) -> None:
    """Let the loop turn until a condition holds, as a change of a counter wakes no waiter."""
    while not condition():
        await asyncio.sleep(0)


def peers(environment: NetworkEnvironment) -> PeerDirectoryStatistics:
    return environment.statistics().peers


async def assert_nothing_is_held(environment: NetworkEnvironment) -> None:
    """Wait until every buffer of the closed connections is back."""
    pool = environment.network_pool
    await until(lambda: pool.statistics().free == pool.statistics().total)
    assert_everything_returned(pool)


NONCE = bytes(range(16))
"""The nonce of every stranger, which need not be new in each handshake."""


class Stranger:
    """One socket, with the handshake done by hand.

    ``verdict``, ``identity`` and ``reason`` are those that the other side sent.
    """

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, secret: bytes = b""
    ) -> None:
        self.reader = reader
        self.writer = writer
        self.secret = secret
        self.verdict: Verdict | None = None
        self.identity: WorkerIdentity | None = None
        self.reason = ""
        self.transcript = b""
        self.hello = b""
        self._received = bytearray()

    @classmethod
    async def dial(
        cls, address: str, *, receive_buffer_bytes: int | None = None, secret: bytes = b""
    ) -> Stranger:
        """Connect and send nothing yet."""
        host, _, port = address.rpartition(":")
        bare = socket.socket()
        if receive_buffer_bytes is not None:
            bare.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        bare.setblocking(False)
        await asyncio.get_running_loop().sock_connect(bare, (host, int(port)))
        return cls(*await asyncio.open_connection(sock=bare), secret)

    @classmethod
    @asynccontextmanager
    async def meet(
        cls,
        environment: NetworkEnvironment,
        *,
        receive_buffer_bytes: int | None = None,
        secret: bytes = b"",
        **changes: Any,
    ) -> AsyncIterator[Stranger]:
        """Connect and shake hands."""
        stranger = await cls.dial(
            environment.address, receive_buffer_bytes=receive_buffer_bytes, secret=secret
        )
        try:
            await stranger.introduce(identity_for(environment, **changes))
            yield stranger
        finally:
            await stranger.close()

    def send(self, data: bytes) -> None:
        """Write; the socket takes the bytes when it can."""
        self.writer.write(data)

    def say(self, data: bytes) -> None:
        """Send a part of the handshake."""
        self.transcript += data
        self.send(data)

    async def introduce(self, identity: WorkerIdentity) -> Verdict:
        """Shake hands as the dialling side; return the verdict."""
        self.say(Opening(NONCE).encode())
        await self.expect_challenge()
        self.hello = Hello.encode(identity, self.secret, self.transcript)
        self.say(self.hello)
        return await self.expect_verdict()

    async def expect_challenge(self) -> Challenge:
        """Read the other side's challenge and check that it knows the secret."""
        challenge = await self.hear()
        assert isinstance(challenge, Challenge), challenge
        return challenge

    async def expect_verdict(self) -> Verdict:
        """Read the other side's last message of the handshake and return its verdict."""
        last = await self.hear()
        assert isinstance(last, Answer | Refusal), last
        self.verdict = last.verdict
        if isinstance(last, Answer):
            self.identity, self.reason = last.identity, last.reason
        return last.verdict

    async def hear(self) -> HandshakeMessage:
        """Read the next message of the handshake and check its proof."""
        while (found := decode_handshake(self._received, LIMITS)) is None:
            data = await self.reader.read(4096)
            assert data, "closed in the handshake"
            self._received += data
        message, size = found
        raw = bytes(self._received[:size])
        del self._received[:size]
        if isinstance(message, Challenge | Hello | Answer):
            kind = HandshakeKind[type(message).__name__.upper()]
            before = self.transcript + raw[:-PROOF_BYTES]
            assert message.proof == prove(kind, self.secret, before), "it does not know the secret"
        self.transcript += raw
        return message

    async def read_to_end(self) -> bytes:
        """Return everything up to the end of the stream, closed or reset."""
        while True:
            try:
                data = await self.reader.read(65536)
            except ConnectionError:
                break
            if not data:
                break
            self._received += data
        data, self._received = bytes(self._received), bytearray()
        return data

    async def read_messages(self, number: int) -> list[tuple[Any, ...]]:
        """Read ``number`` messages; there must be no more bytes behind them."""
        while True:
            try:
                found = messages(self._received)
            except (AssertionError, StopIteration):
                found = []
            if len(found) >= number:
                self._received.clear()
                assert len(found) == number
                return found
            data = await self.reader.read(65536)
            assert data, f"closed after {found}"
            self._received += data

    async def close(self) -> None:
        """Close the socket and drop its unwritten bytes."""
        self.writer.transport.abort()
        try:
            await self.writer.wait_closed()
        except ConnectionError:
            return


class Host:
    """A listening socket that hands out its connections."""

    def __init__(self, secret: bytes = b"") -> None:
        self.address = ""
        self._secret = secret
        self.strangers: list[Stranger] = []
        self._server: asyncio.Server | None = None
        self._arrived: asyncio.Queue[Stranger] = asyncio.Queue()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        host, port = self._server.sockets[0].getsockname()
        self.address = f"{host}:{port}"
        return self

    async def __aexit__(self, *exception: object) -> None:
        assert self._server is not None
        self._server.close()
        for stranger in self.strangers:
            await stranger.close()
        await self._server.wait_closed()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        stranger = Stranger(reader, writer, self._secret)
        self.strangers.append(stranger)
        self._arrived.put_nowait(stranger)

    async def connected(self) -> Stranger:
        """Wait for the next connection."""
        return await self._arrived.get()

    async def accept(self) -> Stranger:
        """Wait for the next connection, and read the identity of its peer."""
        stranger = await self.connected()
        opening = await stranger.hear()
        assert isinstance(opening, Opening)
        stranger.say(Challenge.encode(NONCE, stranger.secret, stranger.transcript))
        hello = await stranger.hear()
        assert isinstance(hello, Hello)
        stranger.identity = hello.identity
        return stranger

    def answer(
        self,
        stranger: Stranger,
        verdict: Verdict = Verdict.WELCOME,
        reason: str = "",
        **changes: Any,
    ) -> None:
        """Answer a hello."""
        assert stranger.identity is not None
        mine = {"worker_id": "host", "address": self.address, "checksums": False, **changes}
        identity = replace(stranger.identity, **mine)
        stranger.say(Answer.encode(verdict, identity, reason, stranger.secret, stranger.transcript))
