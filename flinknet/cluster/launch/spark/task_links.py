"""The launcher's ends of the connections to the tasks of its stage.

Theory of operation
-------------------
The launcher listens at the coordinator's address. A connection becomes a link when it has proved,
with the launcher's nonce, that it has the secret from the pickled task. The launcher proves the
same to the task (``agent.py``). Before that, a connection may send two lines and has ``_PROOF_S``
for all of it, including the TLS handshake. The number of such connections is limited. Beyond the
limit, one from the source with the most of them is refused, a silent one first, or else the new
one. Refusals are counted by their reason. After the proof, both sides send lines of JSON. No secret
is ever in them.
"""

from __future__ import annotations

import asyncio
import hmac
import json
from collections.abc import Callable, Mapping
from typing import Any, cast

from flinknet import machine
from flinknet.cluster.launch.spark.agent import proof
from flinknet.config import WireLimits
from flinknet.errors import ConfigurationError, HandshakeError
from flinknet.net.handshake_rate_limit import HandshakeRateLimit
from flinknet.net.pending_handshakes import PendingHandshakes
from flinknet.net.refusal_log import RefusalLog
from flinknet.net.tls import Tls, TlsAcceptor, refusal_of

__all__ = ["LINK_LABEL", "TaskLink", "TaskLinks"]

LINK_LABEL = b"flinknet spark tasks"
"""Label for deriving the secret of the links from the cluster's token."""

_LINE_BYTES_MAX = 1024 * 1024
"""Limit of a line: 64 KiB of a worker, with up to six bytes per byte in JSON, and the rest."""
_PROOF_S = 10.0
_UNPROVEN_MAX = 1024
"""Maximum number of unproven connections: as many as a cluster may have workers."""

_NOT_OURS = (
    OSError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    RecursionError,
)
"""Errors of a connection that has ended, or that does not speak the protocol of tasks."""

OnNews = Callable[["TaskLink", Mapping[str, Any]], None]


class TaskLink:
    """A connection to one task."""

    def __init__(
        self, stage: int, rank: int, facts: Mapping[str, Any], writer: asyncio.StreamWriter
    ) -> None:
        self.stage = stage
        self.rank = rank
        self.facts = facts
        """The facts that the task reports: ``host``, ``address``, ``pid``, ``found``."""
        self.lost = asyncio.Event()
        """Set when the task or the connection to it has ended."""
        self._writer = writer

    def command(self, what: str, **details: Any) -> None:
        """Send a command to the task; does nothing if the task is lost."""
        if not self._writer.is_closing():
            self._writer.write(json.dumps({"do": what, **details}).encode() + b"\n")

    def abort(self) -> None:
        """Abort the connection, which also ends the task and its worker."""
        self._writer.transport.abort()


class TaskLinks:
    """The server of all links of a cluster; ``close`` must be awaited in the end."""

    def __init__(
        self,
        secret: bytes,
        on_link: Callable[[TaskLink], bool],
        on_news: OnNews,
        on_lost: Callable[[TaskLink], None],
        tls: Tls | None = None,
        tls_handshakes_per_second_max: int = WireLimits().tls_handshakes_per_second_max,
    ) -> None:
        """Initialize the links in the event loop that serves them.

        ``on_link`` returns whether a task is expected. ``on_news`` gets the messages of a link, and
        ``on_lost`` a link that has ended.
        """
        self._loop = asyncio.get_running_loop()
        self._tls = tls
        self._turns = HandshakeRateLimit(self._loop, tls_handshakes_per_second_max)
        self.secret = secret
        self.refusals = RefusalLog()
        """Refused connections, counted by reason."""
        self._on_link = on_link
        self._on_news = on_news
        self._on_lost = on_lost
        self._server: asyncio.Server | None = None
        self._serving: set[asyncio.Task[None]] = set()
        """Tasks that serve connections."""
        self._unproven: PendingHandshakes[_Connection] = PendingHandshakes(_UNPROVEN_MAX, _PROOF_S)
        """Connections that have not proved yet that they have the secret."""

    async def listen(self, host: str, port: int = 0) -> tuple[str, int]:
        """Listen on a port, 0 for a free one, and return the address.

        Raises ConfigurationError if the port is taken.
        """
        try:
            self._server = await self._loop.create_server(self._accept, host, port)
        except OSError as error:
            raise ConfigurationError(
                f"port {port} of {host} cannot be used ({error.strerror}): stop the program that "
                "listens there, or choose another spark.tasks_port, or 0 for a free port"
            ) from error
        address = self._server.sockets[0].getsockname()
        return address[0], address[1]

    async def close(self) -> None:
        """Stop listening, and end all links."""
        if self._server is not None:
            self._server.close()
        for connection in self._unproven:
            connection.abort()
        for serving in self._serving:
            serving.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)

    def _accept(self) -> asyncio.BaseProtocol:
        connection = _Connection(self)
        if self._tls is None:
            return connection
        return TlsAcceptor(connection, self._tls.server(), self._loop, _PROOF_S, self._turns)

    # -- what connections tell

    def accepted(self, connection: _Connection) -> None:
        """Register an unproven connection, and refuse one if there are too many."""
        self._unproven.add(connection, connection.source, self._loop.time())
        leaving = self._unproven.excess(self._loop.time(), connection)
        if leaving is not None:
            self.refuse(leaving, "full", f"{_UNPROVEN_MAX} others have not sent the secret")

    def secured(self, connection: _Connection, writer: asyncio.StreamWriter) -> None:
        """Serve a connection that may transfer data, after its TLS handshake if there is TLS."""
        if self._tls is not None:
            try:
                self._tls.names_of_peer(writer.transport)
            except HandshakeError as error:
                self.refuse(connection, "tls", str(error))
                return
        serving = self._loop.create_task(self._serve(connection, writer))
        self._serving.add(serving)
        serving.add_done_callback(self._serving.discard)

    def refuse(self, connection: _Connection, reason: str, text: str) -> None:
        """Abort an unproven connection; ``reason`` is the word under which it is counted."""
        self._count(connection, reason, text)
        connection.abort()

    def lost(self, connection: _Connection, error: Exception | None) -> None:
        """Note the end of a connection."""
        if error is not None and (reason := refusal_of(error)) is not None:
            self._count(connection, "tls", reason)
        said = "silent" if connection.is_silent else "left"
        self._count(connection, said, "it has closed the connection")

    # -- inside

    def _count(self, connection: _Connection, reason: str, text: str) -> None:
        """Count the reason why a connection did not become a link, once."""
        if self._unproven.discard(connection):
            source = connection.source
            self.refusals.count(reason, source, f"{source}: {text}", self._loop.time())

    async def _serve(self, connection: _Connection, writer: asyncio.StreamWriter) -> None:
        link = None
        try:
            link = await self._prove(connection, writer)
            if link is not None and self._on_link(link):
                while line := await connection.reader.readline():
                    self._on_news(link, json.loads(line))
        except _NOT_OURS:
            if link is None and not connection.is_silent:
                self.refuse(connection, "malformed", "its message is not the greeting of a task")
        finally:
            connection.abort()
            if link is not None:
                link.lost.set()
                self._on_lost(link)

    async def _prove(
        self, connection: _Connection, writer: asyncio.StreamWriter
    ) -> TaskLink | None:
        greeting = json.loads(await connection.reader.readline())
        nonce = machine.token_hex(16)
        shown = proof(self.secret, "launcher", str(greeting["nonce"]))
        writer.write(json.dumps({"nonce": nonce, "proof": shown}).encode() + b"\n")
        facts = json.loads(await connection.reader.readline())
        expected = proof(self.secret, "task", nonce)
        if not hmac.compare_digest(str(facts.pop("proof")).encode(), expected.encode()):
            self.refuse(connection, "secret", "it does not have the secret of this cluster")
            return None
        link = TaskLink(int(greeting["stage"]), int(greeting["rank"]), facts, writer)
        self._unproven.discard(connection)
        connection.is_proven()
        return link


class _Connection(asyncio.StreamReaderProtocol):
    """One accepted connection, with its deadline for the proof."""

    def __init__(self, links: TaskLinks) -> None:
        self._links = links
        self.reader = asyncio.StreamReader(limit=_LINE_BYTES_MAX)
        super().__init__(self.reader, self._secured)
        self.source = ""
        self.is_silent = True
        """Whether the peer has sent nothing yet."""
        self._socket: asyncio.Transport | None = None
        self._deadline: asyncio.TimerHandle | None = None

    def accepted(self, transport: asyncio.BaseTransport) -> None:
        """Register the connection; with TLS, its handshake is still to come."""
        self._socket = cast(asyncio.Transport, transport)  # uvloop's transport is no subclass
        self.source = (transport.get_extra_info("peername") or ("an unknown peer",))[0]
        self._deadline = asyncio.get_running_loop().call_later(_PROOF_S, self._time_out)
        self._links.accepted(self)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Pass the transport on to the reader, unless the connection has been refused already."""
        if self._socket is None:
            self.accepted(transport)
        self._socket = cast(asyncio.Transport, transport)
        if not transport.is_closing():
            super().connection_made(transport)

    def data_received(self, data: bytes) -> None:
        self.is_silent = False
        super().data_received(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_proven()
        self._links.lost(self, exc)
        super().connection_lost(exc)

    def is_proven(self) -> None:
        """Cancel the deadline."""
        if self._deadline is not None:
            self._deadline.cancel()

    def abort(self) -> None:
        """Abort the connection."""
        if self._socket is not None:
            self._socket.abort()

    def _secured(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._links.secured(self, writer)

    def _time_out(self) -> None:
        reason = "silent" if self.is_silent else "slow"
        self._links.refuse(self, reason, f"it has not shown the secret within {_PROOF_S:g} s")
