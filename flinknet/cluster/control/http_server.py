"""A process's listening socket for HTTP: aiohttp's server behind limits (``http_connections.py``).

aiohttp bounds the size of a head and how many requests wait on a connection, but neither the number
of connections nor the time that one may take before its first request is there. So each connection
is taken by a protocol of ours, which passes everything on to aiohttp's and can be cut off.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import cast

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.typedefs import Handler, Middleware

from flinknet import machine
from flinknet.cluster.control.http_connections import HttpConnections
from flinknet.config import ClusterConfig
from flinknet.errors import ConfigurationError
from flinknet.net.address import join_address
from flinknet.net.listening import ACCEPTS_PER_TURN, deepen_backlog

__all__ = ["HttpServer"]

_SHUTDOWN_S = 1.0

log = logging.getLogger("flinknet.http")


def _is_of_this_process(record: logging.LogRecord) -> bool:
    """Return False for aiohttp's lines about a request that cannot be read as HTTP.

    Such a request is answered with 400. It is no error of this process, and strangers must not fill
    the log with tracebacks.
    """
    error = record.exc_info[1] if record.exc_info else None
    return not isinstance(error, HttpProcessingError | web.RequestPayloadError)


log.addFilter(_is_of_this_process)


class HttpServer:
    """Serves one application. ``start``, and in the end ``close``."""

    def __init__(
        self,
        application: web.Application,
        config: ClusterConfig,
        peer_was_held_up: Callable[[float], bool] = lambda within_s: False,
    ) -> None:
        """``peer_was_held_up`` returns whether user code held up the event loop of a known peer in
        the last seconds. Then no connection is cut off, since a connection does not tell its
        peer."""
        self._loop = asyncio.get_running_loop()
        self._peer_was_held_up = peer_was_held_up
        self._request_timeout_s = config.http_request_timeout_ms / 1000
        self._connections: HttpConnections[_Connection] = HttpConnections(
            connections_max=config.http_connections_max,
            request_timeout_s=self._request_timeout_s,
        )
        self._by_handler: dict[asyncio.Protocol, _Connection] = {}
        self._timer: asyncio.TimerHandle | None = None
        application.middlewares.insert(0, self._middleware())
        # Nobody hears the answer of a handler whose connection is gone: it ends with it.
        self._runner = web.AppRunner(
            application,
            access_log=None,
            logger=log,
            shutdown_timeout=_SHUTDOWN_S,
            handler_cancellation=True,
        )
        self._server: asyncio.Server | None = None

    async def start(self, host: str, port: int, option: str) -> str:
        """Listen, and return where; ConfigurationError if the port is taken, which ``option``
        names."""
        await self._runner.setup()
        try:
            listening_socket = machine.listen(host, port)
            self._server = await self._loop.create_server(
                self._accept, sock=listening_socket, backlog=ACCEPTS_PER_TURN
            )
            deepen_backlog([listening_socket])
        except OSError as error:
            raise ConfigurationError(
                f"cannot listen on {join_address(host, port)}: {error.strerror}; "
                f"choose another {option}, or 0 for a free one"
            ) from error
        return join_address(*self._server.sockets[0].getsockname()[:2])

    async def close(self) -> None:
        """Stop listening and end every connection; requests get ``_SHUTDOWN_S`` to end."""
        if self._server is not None:
            self._server.close()
        await self._runner.cleanup()
        if self._timer is not None:
            self._timer.cancel()

    # -- what connections tell

    def accepted(self, connection: _Connection) -> None:
        """A connection has been made."""
        leaving = self._connections.accept(connection, self._loop.time())
        if leaving is not None:
            leaving.abort()
        if leaving is not connection:
            self._by_handler[connection.handler] = connection
        self._set_timer()

    def lost(self, connection: _Connection) -> None:
        """A connection is gone."""
        self._connections.lose(connection)
        self._by_handler.pop(connection.handler, None)

    # -- inside

    def _accept(self) -> _Connection:
        assert self._runner.server is not None
        return _Connection(self, self._runner.server())

    def _middleware(self) -> Middleware:
        @web.middleware
        async def watched(request: web.Request, handler: Handler) -> web.StreamResponse:
            connection = self._by_handler.get(request.protocol)
            if connection is None:  # it was cut off just now
                raise web.HTTPServiceUnavailable
            self._connections.begin(connection)
            try:
                return await handler(request)
            finally:
                self._connections.end(connection, self._loop.time())
                self._set_timer()

        return watched

    def _set_timer(self) -> None:
        deadline = self._connections.deadline
        if self._timer is None and deadline is not None:
            self._timer = self._loop.call_at(deadline, self._reap)

    def _reap(self) -> None:
        self._timer = None
        now = self._loop.time()
        was_held_up = self._peer_was_held_up(self._request_timeout_s)
        for connection in self._connections.overdue(now):
            if connection.has_written() or was_held_up:
                self._connections.progress(connection, now)
            else:
                self._connections.lose(connection)
                connection.abort()
        self._set_timer()


class _Connection(asyncio.Protocol):
    """One connection: passes everything on to aiohttp's protocol."""

    def __init__(self, server: HttpServer, handler: web.RequestHandler) -> None:
        self._server = server
        self._transport: asyncio.Transport
        self._is_refused = False
        self._unwritten = 0
        self.handler = handler

    def abort(self) -> None:
        """Cut the connection off."""
        self._transport.abort()

    def has_written(self) -> bool:
        """Whether the peer has fetched some of an answer since the last call."""
        before, self._unwritten = self._unwritten, self._transport.get_write_buffer_size()
        return 0 < self._unwritten != before

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio.Protocol, as for the rest."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is no subclass
        self._server.accepted(self)
        self._is_refused = transport.is_closing()
        if not self._is_refused:
            self.handler.connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._server.lost(self)
        if not self._is_refused:
            self.handler.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self.handler.data_received(data)

    def eof_received(self) -> bool | None:
        self.handler.eof_received()
        return None

    def pause_writing(self) -> None:
        self.handler.pause_writing()

    def resume_writing(self) -> None:
        self.handler.resume_writing()
