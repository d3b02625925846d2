"""The attackers, in a separate process, so that the kernel shares the processors.

    python -m bench.attackers.crowd

The process reads one line of JSON (the fields of ``Orders``) from its input, attacks until the
input ends, and prints the number of ended attacks of each kind. An attacker reconnects at once when
its connection ends.

Outsiders know no secret and have no certificate of the authority. Insiders have both and pass the
handshake: they stand for a compromised worker of the cluster.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
import ssl
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import cache
from itertools import count
from typing import Any, NamedTuple

from flinknet.config import WireLimits
from flinknet.connection.handshake import Handshake
from flinknet.errors import FlinknetError
from flinknet.wire.codec import encode
from flinknet.wire.handshake_messages import NONCE_BYTES, Hello, Opening, WorkerIdentity
from flinknet.wire.messages import MessageType

__all__ = ["KINDS", "SECURE_KINDS", "Orders"]

READ_BYTES = 65_536
SLOW_S = 0.2
"""Seconds between two bytes of a slow attacker."""
PIECE = 500
"""Number of messages that a flood writes at once."""


class Orders(NamedTuple):
    """The targets and the kinds of the attackers."""

    workers: list[str]
    coordinator: str
    kinds: dict[str, int]
    """Number of attackers of each kind."""
    job: str
    segment_bytes: int
    secret: str
    """Secret of the data plane, hexadecimal: for insiders."""
    own: list[str] | None = None
    """Trusted certificate and private key, with TLS: for insiders."""
    foreign: list[str] | None = None
    """The same files from another authority."""


class Attacker:
    """One attacker; ``attack`` returns or raises when its connection has ended."""

    def __init__(self, orders: Orders, number: int) -> None:
        self._orders = orders
        self._number = number
        self._worker = orders.workers[number % len(orders.workers)]

    async def _connect(
        self, address: str, files: list[str] | None = None, *, reads: bool = True
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        host, _, port = address.rpartition(":")
        context = None if self._orders.own is None else _context(files)
        if reads:
            return await asyncio.open_connection(host, int(port), ssl=context)
        bare = _narrow_socket()
        await asyncio.get_running_loop().sock_connect(bare, (host, int(port)))
        name = None if context is None else host
        return await asyncio.open_connection(sock=bare, ssl=context, server_hostname=name)

    async def _connect_plain(
        self, address: str
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        host, _, port = address.rpartition(":")
        return await asyncio.open_connection(host, int(port))

    async def _say_bare(self, address: str, said: bytes) -> None:
        """Send bytes without TLS, and read to the end."""
        reader, writer = await self._connect_plain(address)
        await _say_and_hear(reader, writer, said)

    # -- outsiders at a worker

    async def silent(self) -> None:
        await self._say_bare(self._worker, b"")

    async def slow(self) -> None:
        await _say_slowly(*await self._connect_plain(self._worker), self._opening)

    async def garbage(self) -> None:
        await self._say_bare(self._worker, os.urandom(600))

    async def handshakes(self) -> None:
        """Let the other side do the costly part of the handshake, then leave."""
        reader, writer = await self._connect_plain(self._worker)
        await _leave_at_answer(reader, writer, self._opening)

    async def wrong_secret(self) -> None:
        reader, writer = await self._connect(self._worker, self._orders.own)
        opening = Opening(bytes(NONCE_BYTES)).encode()
        writer.write(opening)
        challenge = await reader.read(READ_BYTES)
        hello = Hello.encode(self._identity(), b"guessed", opening + challenge)
        await _say_and_hear(reader, writer, hello)

    async def wrong_certificate(self) -> None:
        reader, writer = await self._connect(self._worker, self._orders.foreign)
        await _say_and_hear(reader, writer, Opening(bytes(NONCE_BYTES)).encode())

    async def replayed(self) -> None:
        """Replay a message of another handshake."""
        reader, writer = await self._connect(self._worker, self._orders.own)
        opening = Opening(bytes(NONCE_BYTES)).encode()
        hello = Hello.encode(self._identity(), bytes.fromhex(self._orders.secret), opening)
        writer.write(opening)
        await reader.read(READ_BYTES)
        await _say_and_hear(reader, writer, hello)

    # -- insiders at a worker

    async def forged_credit(self) -> None:
        request = encode(MessageType.PARTITION_REQUEST, 0, os.urandom(16), 0, 2)
        await self._break_in(request + encode(MessageType.ADD_CREDIT, 0, 2**32 - 1))

    async def oversized(self) -> None:
        await self._break_in(b"\x98\x00" + b"\xce\xff\xff\xff\xff" * 60)

    async def pings(self) -> None:
        reader, writer = await self._inside()
        await _flood(reader, writer, lambda: _HEARTBEATS)

    async def requests(self) -> None:
        await self._request(cancels=False)

    async def cancels(self) -> None:
        await self._request(cancels=True)

    async def unread(self) -> None:
        """Send requests and never read, so that answers queue up at the worker."""
        await self._request(cancels=False, reads=False)

    async def _request(self, *, cancels: bool, reads: bool = True) -> None:
        reader, writer = await self._inside(reads=reads)
        numbers = count()
        await _flood(reader, writer, lambda: _requests(next(numbers), cancels), reads=reads)

    async def _break_in(self, said: bytes) -> None:
        reader, writer = await self._inside()
        await _leave_at_answer(reader, writer, said)

    async def _inside(
        self, *, reads: bool = True
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await self._connect(self._worker, self._orders.own, reads=reads)
        await _shake_hands(reader, writer, self._handshake(bytes.fromhex(self._orders.secret)))
        return reader, writer

    # -- at the coordinator

    async def http_silent(self) -> None:
        await self._say_bare(self._orders.coordinator, b"")

    async def http_garbage(self) -> None:
        await _say_and_hear(*await self._http(), os.urandom(600) + b"\r\n\r\n")

    async def http_slow_head(self) -> None:
        await _say_slowly(*await self._http(), b"GET /livez HTTP/1.1\r\n" + b"X: y\r\n" * 10_000)

    async def http_slow_body(self) -> None:
        head = b"POST /api/v1/jobs HTTP/1.1\r\nHost: a\r\nContent-Length: 99999\r\n\r\n"
        reader, writer = await self._http()
        writer.write(head)
        await _say_slowly(reader, writer, bytes(99_999))

    async def http_wrong_token(self) -> None:
        said = b"GET /v1/overview HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer guessed\r\n"
        await _say_and_hear(*await self._http(), said + b"Connection: close\r\n\r\n")

    async def http_requests(self) -> None:
        said = b"GET /livez HTTP/1.1\r\nHost: a\r\n\r\n" * 20
        await _flood(*await self._http(), lambda: said)

    async def http_handshakes(self) -> None:
        reader, writer = await self._connect_plain(self._orders.coordinator)
        await _leave_at_answer(reader, writer, self._opening)

    async def http_unread(self) -> None:
        said = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n" * 20
        await _flood(*await self._http(reads=False), lambda: said, reads=False)

    async def _http(
        self, *, reads: bool = True
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await self._connect(self._orders.coordinator, self._orders.own, reads=reads)

    # -- what they say

    @property
    def _opening(self) -> bytes:
        """The first bytes of a handshake, of TLS if the cluster has it."""
        if self._orders.own is None:
            return Opening(bytes(NONCE_BYTES)).encode()
        return _client_hello()

    def _identity(self) -> WorkerIdentity:
        name = f"worker-x{self._number}"
        return WorkerIdentity(name, "", self._orders.job, 0, self._orders.segment_bytes)

    def _handshake(self, secret: bytes) -> Handshake:
        return Handshake(
            self._identity(),
            dials=True,
            secret=secret,
            nonce=os.urandom(NONCE_BYTES),
            limits=WireLimits(),
            now=0.0,
        )


SECURE_KINDS = ("wrong_certificate", "http_handshakes")
"""The kinds that need TLS."""

KINDS: dict[str, Callable[[Attacker], Awaitable[None]]] = {
    act.__name__: act
    for act in (
        Attacker.silent,
        Attacker.slow,
        Attacker.garbage,
        Attacker.handshakes,
        Attacker.wrong_secret,
        Attacker.wrong_certificate,
        Attacker.replayed,
        Attacker.forged_credit,
        Attacker.oversized,
        Attacker.pings,
        Attacker.requests,
        Attacker.cancels,
        Attacker.unread,
        Attacker.http_silent,
        Attacker.http_slow_head,
        Attacker.http_slow_body,
        Attacker.http_garbage,
        Attacker.http_wrong_token,
        Attacker.http_requests,
        Attacker.http_handshakes,
        Attacker.http_unread,
    )
}


def _context(files: list[str] | None) -> ssl.SSLContext:
    """Return a context that trusts any server."""
    key = tuple(files or ())
    if key not in _contexts:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        if files is not None:
            context.load_cert_chain(*files)
        _contexts[key] = context
    return _contexts[key]


_contexts: dict[tuple[str, ...], ssl.SSLContext] = {}


def _narrow_socket() -> socket.socket:
    """Return a socket with a small receive buffer and small segments.

    The kernel of the other side holds little data for it, too, so that unread data queues up in the
    other process.
    """
    bare = socket.socket()
    bare.setblocking(False)
    bare.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    bare.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 536)
    return bare


@cache
def _requests(number: int, cancels: bool) -> bytes:
    """Return a piece of a flood; it is the same for all attackers."""
    said = []
    for channel in range(number * PIECE, (number + 1) * PIECE):
        said.append(encode(MessageType.PARTITION_REQUEST, channel, bytes(16), 0, 2))
        if cancels:
            said.append(encode(MessageType.CANCEL_PARTITION_REQUEST, channel))
    return b"".join(said)


_HEARTBEATS = encode(MessageType.HEARTBEAT) * PIECE


@cache
def _client_hello() -> bytes:
    """Return the first bytes of a TLS handshake; an attacker repeats them at no cost."""
    hello = ssl.MemoryBIO()
    with suppress(ssl.SSLWantReadError):
        _context(None).wrap_bio(ssl.MemoryBIO(), hello).do_handshake()
    return hello.read()


async def _shake_hands(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, handshake: Handshake
) -> None:
    try:
        writer.write(handshake.start())
        while handshake.state.is_open:
            data = await reader.read(READ_BYTES)
            if not data:
                raise ConnectionResetError
            writer.write(handshake.received(data))
        if not handshake.agreed:
            raise ConnectionResetError
    except BaseException:
        writer.transport.abort()
        raise


async def _say_and_hear(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, said: bytes
) -> None:
    """Send bytes, and read until the other side closes."""
    try:
        writer.write(said)
        while await reader.read(READ_BYTES):
            pass
    finally:
        writer.transport.abort()


async def _leave_at_answer(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, said: bytes
) -> None:
    try:
        writer.write(said)
        await reader.read(READ_BYTES)
    finally:
        writer.transport.abort()


async def _say_slowly(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, said: bytes
) -> None:
    """Send one byte at a time, until the other side closes."""
    hearing = asyncio.ensure_future(_say_and_hear(reader, writer, b""))
    try:
        for byte in said:
            if hearing.done():
                break
            writer.write(bytes([byte]))
            await asyncio.sleep(SLOW_S)
        await hearing
    finally:
        hearing.cancel()


async def _flood(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    piece: Callable[[], bytes],
    *,
    reads: bool = True,
) -> None:
    """Write as much as the socket takes, until the other side closes."""
    hearing = asyncio.ensure_future(_say_and_hear(reader, writer, b"")) if reads else None
    if not reads:
        writer.transport.pause_reading()  # type: ignore[attr-defined]
    try:
        while hearing is None or not hearing.done():
            writer.write(piece())
            await writer.drain()
            await asyncio.sleep(0)
            if writer.transport.is_closing():
                break
    finally:
        if hearing is not None:
            hearing.cancel()
        writer.transport.abort()


async def _attack(kind: str, orders: Orders, number: int, ends: Counter[str]) -> None:
    """Attack again and again."""
    attacker = Attacker(orders, number)
    while True:
        with suppress(OSError, FlinknetError, EOFError):
            await KINDS[kind](attacker)
        ends[kind] += 1
        await asyncio.sleep(0)


async def _main() -> None:
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)  # it reports each lost connection
    fields: dict[str, Any] = json.loads(await asyncio.to_thread(sys.stdin.readline))
    orders = Orders(**fields)
    ends: Counter[str] = Counter()
    kinds = [kind for kind, number in orders.kinds.items() for _ in range(number)]
    attacks = [
        asyncio.create_task(_attack(kind, orders, number, ends))
        for number, kind in enumerate(kinds)
    ]
    await asyncio.to_thread(sys.stdin.read)
    for attack in attacks:
        attack.cancel()
    print(json.dumps(ends), flush=True)
    os._exit(0)  # hundreds of sockets need no orderly close


if __name__ == "__main__":
    asyncio.run(_main())
