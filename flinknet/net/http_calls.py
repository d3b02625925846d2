"""Calls to a coordinator over HTTP: one request and its whole answer, each on its own connection.

A command runs for a moment and sends a few requests. Importing aiohttp takes longer than that
(about 100 ms), and importing h11 does not. The calls need neither websockets nor streams. A request
has the header ``Connection: close``, and nothing follows it. Answers are not compressed, and
redirects are not followed. The transport gets the whole body at once, because a coordinator may
answer before it has read the body.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import NamedTuple
from urllib.parse import quote

import h11

from flinknet.errors import ConfigurationError, RemoteTransportError
from flinknet.net.address import split_address
from flinknet.net.coordinator_tls import CoordinatorTls
from flinknet.net.tls import TlsFiles

__all__ = ["Answer", "CallError", "HttpCalls"]

_READ_BYTES = 65_536
_SAFE_IN_PATH = "/?&=%:;,+@!$'()*~-._"
"""Characters of a path that are not quoted. A job's name comes from a user and may contain any
others."""


class CallError(RemoteTransportError):
    """A call got no answer; ``is_heard`` tells whether the coordinator may have received it."""

    def __init__(self, reason: str, *, is_heard: bool) -> None:
        super().__init__(reason)
        self.is_heard = is_heard


class Answer(NamedTuple):
    """The answer of a coordinator."""

    status: int
    content_type: str
    content: bytes


class HttpCalls:
    """Calls to the coordinator at ``address`` (``"host:port"``)."""

    def __init__(
        self, address: str, token: str, tls: TlsFiles | None, server_name: str = ""
    ) -> None:
        """``server_name`` is the name in the coordinator's certificate; by default its host."""
        self._address = address
        self._token = token
        self._tls = CoordinatorTls(address, tls, server_name)

    async def call(self, method: str, path: str, body: bytes | None = None) -> Answer:
        """Send a request and return its answer.

        Raises:
            CallError: If no answer comes.
            ConfigurationError: If TLS finds the wrong coordinator.
        """
        reader, writer = await self._connect()
        http = h11.Connection(h11.CLIENT)
        try:
            writer.writelines(self._request(http, method, path, body))
            return await _answer(http, reader)
        except (OSError, EOFError) as error:
            reason = "it closed the connection" if isinstance(error, EOFError) else str(error)
            raise CallError(reason + self._tls.hint_of_hang_up(), is_heard=True) from error
        except h11.RemoteProtocolError as error:
            raise CallError(f"its answer is not HTTP ({error})", is_heard=True) from error
        finally:
            writer.transport.abort()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        host, port = split_address(self._address)
        name = (self._tls.server_name or host) if self._tls.is_on else None
        try:
            reader, writer = await asyncio.open_connection(
                host, port, ssl=self._tls.context(), server_hostname=name
            )
        except ssl.SSLError as error:
            raise self._tls.refused(error) from error
        except OSError as error:
            raise CallError(error.strerror or str(error), is_heard=False) from error
        try:
            self._tls.check(writer.transport)
        except ConfigurationError:
            writer.transport.abort()
            raise
        return reader, writer

    def _request(
        self, http: h11.Connection, method: str, path: str, body: bytes | None
    ) -> list[bytes]:
        headers = [
            ("Host", self._address),
            ("Authorization", f"Bearer {self._token}"),
            ("Accept", "*/*"),
            ("Connection", "close"),
        ]
        if body is not None:
            headers.append(("Content-Type", "application/octet-stream"))
        if method != "GET":
            headers.append(("Content-Length", str(len(body or b""))))
        target = quote(path, safe=_SAFE_IN_PATH)
        said = http.send(h11.Request(method=method, target=target, headers=headers))
        return [said or b"", body or b""]


async def _answer(http: h11.Connection, reader: asyncio.StreamReader) -> Answer:
    """Read an answer.

    Raises:
        EOFError: If the coordinator hangs up before the end of the answer.
    """
    status, content_type, content = 0, "", bytearray()
    has_ended = False
    while True:
        try:
            event = http.next_event()
        except h11.RemoteProtocolError as error:
            # h11 reports the end of the connection in the middle of an answer like this.
            if has_ended:
                raise EOFError from error
            raise
        if event is h11.NEED_DATA:
            data = await reader.read(_READ_BYTES)
            has_ended = not data
            http.receive_data(data)
        elif isinstance(event, h11.Response):
            status = event.status_code
            kind = dict(event.headers).get(b"content-type", b"").decode("latin-1")
            content_type = kind.partition(";")[0].strip().lower()
        elif isinstance(event, h11.Data):
            content += event.data
        elif isinstance(event, h11.EndOfMessage):
            return Answer(status, content_type, bytes(content))
