"""An HTTP server with limits on its connections: aiohttp's server behind ``http_connections.py``.

aiohttp limits the size of a request head and the number of requests that wait on a connection. It
limits neither the number of connections nor the time until the first request of one. So each
connection is accepted by a protocol of this module, which forwards everything to aiohttp's protocol
and can close the connection. With TLS a connection counts from its first byte on, and the time
limit for its first request includes the handshake.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import cast

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.typedefs import Handler, Middleware

from flinknet import machine
from flinknet.cluster.control.credentials import Role, role_of
from flinknet.cluster.control.http_connections import HttpConnections
from flinknet.config import ClusterConfig
from flinknet.errors import ConfigurationError, HandshakeError
from flinknet.net.address import is_any_address, join_address, reached_at
from flinknet.net.handshake_rate_limit import HandshakeRateLimit
from flinknet.net.listening import ACCEPTS_PER_TURN, deepen_backlog
from flinknet.net.refusal_log import RefusalLog
from flinknet.net.stall_tolerant_timer import StallTolerantTimer
from flinknet.net.tls import TlsAcceptor, TlsFiles, refusal_of, tls_of

__all__ = ["HttpServer", "check_role"]

_SHUTDOWN_S = 1.0

_REASONS = {401: "unauthorized", 403: "forbidden", 408: "slow", 413: "oversized"}
"""Metric labels of the statuses that refuse a request."""

log = logging.getLogger("flinknet.http")


def _is_of_this_process(record: logging.LogRecord) -> bool:
    """Return False for aiohttp's log lines about a request that is not valid HTTP.

    Such a request is answered with 400. It is no error of this process, and strangers must not be
    able to fill the log with tracebacks.
    """
    error = record.exc_info[1] if record.exc_info else None
    return not isinstance(error, HttpProcessingError | web.RequestPayloadError)


log.addFilter(_is_of_this_process)


def check_role(headers: Mapping[str, str], token: str, needed: Role) -> None:
    """Raise 401 or 403 unless the request has the token of a sufficient role."""
    shown = role_of(headers, token)
    if shown is None:
        raise web.HTTPUnauthorized(text="the cluster token is missing or wrong")
    if shown < needed:
        how = f"a token for {needed.name}: `flinknet token {needed.name.lower()}` makes one"
        wanted = "the cluster token itself" if needed is Role.WORKER else how
        raise web.HTTPForbidden(
            text=f"the token is for {shown.name}, but this request needs {wanted}"
        )


class HttpServer:
    """A server for one application, from ``start`` to ``close``."""

    def __init__(
        self,
        application: web.Application,
        config: ClusterConfig,
        peer_was_held_up: Callable[[float], bool] = lambda within_s: False,
        refusals: RefusalLog | None = None,
    ) -> None:
        """Serve ``application`` within the limits of ``config``.

        ``peer_was_held_up`` returns whether user code has blocked the event loop of a known peer in
        the last seconds. No connection is closed in that case, since it is not known which
        connections belong to that peer. ``refusals`` counts the refused connections and requests.
        """
        self._loop = asyncio.get_running_loop()
        self._tls = tls_of(config.tls)
        self._tls_rate_limit = HandshakeRateLimit(
            self._loop, config.http_tls_handshakes_per_second_max
        )
        self._wants_certificate = config.tls.http_clients == "certificate"
        self._peer_was_held_up = peer_was_held_up
        self._request_timeout_s = config.http_request_timeout_ms / 1000
        self._connections: HttpConnections[_Connection] = HttpConnections(
            connections_max=config.http_connections_max,
            request_timeout_s=self._request_timeout_s,
        )
        self._refusals = RefusalLog() if refusals is None else refusals
        self._by_handler: dict[asyncio.Protocol, _Connection] = {}
        """The connection of each protocol of aiohttp, for the middleware."""
        self._timer: StallTolerantTimer | None = None
        # The outermost middleware sees the status of every answer, also of refusals.
        application.middlewares.insert(0, self._middleware())
        # A handler is cancelled with its connection, because its answer could not be delivered.
        self._runner = web.AppRunner(
            application,
            access_log=None,
            logger=log,
            shutdown_timeout=_SHUTDOWN_S,
            handler_cancellation=True,
        )
        self._server: asyncio.Server | None = None

    async def start(
        self,
        host: str,
        port: int,
        option: str,
        advertised: str = "",
        inherited: machine.Socket | None = None,
    ) -> str:
        """Listen, and return the address of this server for others.

        The address has the host ``advertised`` if that is given. An ``inherited`` socket listens
        already. Raises ConfigurationError if the port is taken; the error names the ``option``.
        """
        if not advertised and is_any_address(host):
            raise ConfigurationError(
                f"cluster.host is {host}, which is every address of this machine: set "
                "cluster.advertised_host to the one that other machines use"
            )
        await self._runner.setup()
        try:
            listening_socket = inherited or machine.listen(host, port)
            self._server = await self._loop.create_server(
                self._accept, sock=listening_socket, backlog=ACCEPTS_PER_TURN
            )
            deepen_backlog([listening_socket])
        except OSError as error:
            raise ConfigurationError(
                f"cannot listen on {join_address(host, port)}: {error.strerror}; "
                f"choose another {option}, or 0 for a free one"
            ) from error
        bound: int = self._server.sockets[0].getsockname()[1]
        return reached_at(advertised or host, bound)

    async def close(self) -> None:
        """Stop listening and close every connection; requests get ``_SHUTDOWN_S`` to end."""
        if self._server is not None:
            self._server.close()
        await self._runner.cleanup()
        if self._timer is not None:
            self._timer.cancel()

    # -- events of connections

    def accepted(self, connection: _Connection) -> None:
        """Handle a new connection."""
        leaving = self._connections.accept(connection, self._loop.time())
        if leaving is not None:
            self.refused(
                leaving.source, "full", "too many connections (cluster.http_connections_max)"
            )
            leaving.abort()
        if leaving is not connection:
            self._by_handler[connection.handler] = connection
        self._set_timer()

    def lost(self, connection: _Connection) -> None:
        """Handle the end of a connection."""
        self._connections.lose(connection)
        self._by_handler.pop(connection.handler, None)

    # -- inside

    def _accept(self) -> asyncio.BaseProtocol:
        assert self._runner.server is not None
        connection = _Connection(self, self._runner.server(), self._tls)
        if self._tls is None:
            return connection
        context = self._tls.https_server(wants_certificate=self._wants_certificate)
        return TlsAcceptor(
            connection, context, self._loop, self._request_timeout_s, self._tls_rate_limit
        )

    def refused(self, source: str, reason: str, text: str) -> None:
        """Count a refused connection or request; ``reason`` is a label for metrics.

        Only certificate faults are logged as warnings, because the sender does not learn the
        reason.
        """
        if reason == "tls":
            self._refusals.count(reason, source, f"{source}: {text}", self._loop.time())
        else:
            self._refusals.counts[reason] += 1
            log.debug("refused (%s): %s: %s", reason, source, text)

    def _middleware(self) -> Middleware:
        @web.middleware
        async def watched(request: web.Request, handler: Handler) -> web.StreamResponse:
            connection = self._by_handler.get(request.protocol)
            if connection is None:  # It was closed just now.
                raise web.HTTPServiceUnavailable
            self._connections.begin(connection)
            connection.is_asked, connection.has_unread = True, False
            # From CPython 3.12 on, aiohttp answers requests that came together without a turn of
            # the event loop between them: one flood would hold up everything else for seconds.
            await asyncio.sleep(0)
            try:
                response = await handler(request)
                self._count_answer(connection, response.status)
                return response
            except web.HTTPException as refused:
                self._count_answer(connection, refused.status)
                raise
            finally:
                connection.is_asked = False
                self._connections.end(connection, self._loop.time())
                self._set_timer()

        return watched

    def _count_answer(self, connection: _Connection, status: int) -> None:
        reason = _REASONS.get(status)
        if reason is not None:
            self.refused(connection.source, reason, f"answered with {status}")

    def _set_timer(self) -> None:
        deadline = self._connections.deadline
        if self._timer is None and deadline is not None:
            self._timer = StallTolerantTimer(self._loop, deadline, self._reap)

    def _reap(self) -> None:
        self._timer = None
        now = self._loop.time()
        was_held_up = self._peer_was_held_up(self._request_timeout_s)
        for connection in self._connections.overdue(now):
            # It is not known which connection belongs to a blocked peer, so all of them wait again.
            if connection.has_written() or was_held_up:
                self._connections.progress(connection, now)
            else:
                reason = connection.reason_overdue()
                if reason is not None:
                    text = f"no request within {self._request_timeout_s:g} s"
                    self.refused(connection.source, reason, text)
                self._connections.lose(connection)
                connection.abort()
        self._set_timer()


class _Connection(asyncio.Protocol):
    """One connection, which forwards everything to aiohttp's protocol."""

    def __init__(
        self, server: HttpServer, handler: web.RequestHandler, tls: TlsFiles | None
    ) -> None:
        self._server = server
        self._tls = tls
        self._transport: asyncio.Transport | None = None
        self.source = ""
        self.has_unread = False
        """Whether data has come that is not a whole request yet."""
        self.is_asked = False
        """Whether a request is being answered."""
        self._is_served = False
        """Whether aiohttp's protocol has the connection."""
        self._is_new = True
        """Whether the peer has sent nothing yet."""
        self._is_aborted = False
        """Whether this server has closed the connection, for a reason that it has counted."""
        self._ended_by_peer = False
        """Whether the peer has ended the connection, and not aiohttp."""
        self._unwritten = 0
        """Bytes of answers that the peer had not taken at the last call of ``has_written``."""
        self.handler = handler

    def abort(self) -> None:
        """Close the connection at once."""
        assert self._transport is not None
        self._is_aborted = True
        self._transport.abort()

    def reason_overdue(self) -> str | None:
        """Return the reason for closing a connection without a request; None if it is just idle."""
        if self._unwritten:
            return "unread"
        if self.has_unread:
            return "slow"
        return "silent" if self._is_new else None

    def has_written(self) -> bool:
        """Return whether the peer has received a part of an answer since the last call."""
        assert self._transport is not None
        before, self._unwritten = self._unwritten, self._transport.get_write_buffer_size()
        return 0 < self._unwritten != before

    def accepted(self, transport: asyncio.BaseTransport) -> None:
        """Register the connection; with TLS it is not encrypted yet."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is no subclass
        self.source = (transport.get_extra_info("peername") or ("an unknown peer",))[0]
        self._server.accepted(self)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio.Protocol for this and the methods below."""
        if self._transport is None:
            self.accepted(transport)
        self._transport = cast("asyncio.Transport", transport)
        if transport.is_closing():
            return
        if self._tls is not None and transport.get_extra_info("peercert"):
            try:
                self._tls.names_of_peer(transport)
            except HandshakeError as error:
                self._server.refused(self.source, "tls", str(error))
                self.abort()
                return
        self._is_served = True
        self.handler.connection_made(self._transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._server.lost(self)
        if self._is_served:
            if self.has_unread and not self._is_aborted:
                # Over TLS a peer that got the answer to invalid data may look as if it had left.
                if exc is not None or self._ended_by_peer:
                    self._server.refused(self.source, "left", "it left before the end of a request")
                else:
                    self._server.refused(self.source, "malformed", "its request is not valid HTTP")
            self.handler.connection_lost(exc)
        elif exc is not None and (reason := refusal_of(exc)) is not None:
            self._server.refused(self.source, "tls", reason)

    def data_received(self, data: bytes) -> None:
        self._is_new = False
        self.has_unread |= not self.is_asked
        self.handler.data_received(data)

    def eof_received(self) -> bool | None:
        self._ended_by_peer = True
        self.handler.eof_received()
        return None

    def pause_writing(self) -> None:
        self.handler.pause_writing()

    def resume_writing(self) -> None:
        self.handler.resume_writing()
