"""Calls to a coordinator over HTTP: one request and its whole answer, each on its own connection.

Theory of operation. A command lives for a moment, and asks a coordinator a few things. The import
of aiohttp takes longer than that. So calls, which need no websocket and no streams, do without it.
A request ends with ``Connection: close``, and nothing follows it. An answer is of HTTP/1.1, with a
length or without, or in chunks, as a proxy may make of it. It is not compressed, and no redirect is
followed. The transport gets the whole body at once: a coordinator may answer before it has read it.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from typing import NamedTuple
from urllib.parse import quote

from flinknet.errors import ConfigurationError, HandshakeError, RemoteTransportError
from flinknet.net.address import split_address
from flinknet.net.tls import TlsFiles, refusal_of

__all__ = ["Answer", "CallError", "HttpCalls", "hint_of_hang_up"]

_STATUS = re.compile(rb"HTTP/1\.[01] (\d{3})(?: |$)")
_SAFE_IN_PATH = "/?&=%:;,+@!$'()*~-._"
"""What stands in a path as it is; a job's name, which a user writes, may have anything in it."""


class CallError(RemoteTransportError):
    """A call has no answer; ``is_heard`` says that the coordinator may have heard it."""

    def __init__(self, reason: str, *, is_heard: bool) -> None:
        super().__init__(reason)
        self.is_heard = is_heard


class Answer(NamedTuple):
    """The answer of a coordinator."""

    status: int
    content_type: str
    content: bytes


class HttpCalls:
    """Calls to the coordinator at ``address``, which is ``"host:port"``."""

    def __init__(
        self, address: str, token: str, tls: TlsFiles | None, server_name: str = ""
    ) -> None:
        """``server_name`` is the name in the coordinator's certificate; by default its host."""
        self._address = address
        self._token = token
        self._tls = tls
        self._server_name = server_name

    async def call(self, method: str, path: str, body: bytes | None = None) -> Answer:
        """Send a request, and return the answer to it.

        CallError if none comes, ConfigurationError if TLS finds that the coordinator is not the
        right one.
        """
        reader, writer = await self._connect()
        try:
            writer.write(self._head(method, path, body))
            if body is not None:
                writer.write(body)
            return await _answer(reader)
        except (OSError, EOFError) as error:
            reason = "it has hung up" if isinstance(error, EOFError) else str(error)
            raise CallError(reason + hint_of_hang_up(self._tls), is_heard=True) from error
        except (ValueError, asyncio.LimitOverrunError) as error:
            raise CallError("what it answers is no HTTP", is_heard=True) from error
        finally:
            writer.transport.abort()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        host, port = split_address(self._address)
        # Anew for each call, because certificates may have been renewed.
        context = None if self._tls is None else self._tls.https_client()
        name = None if self._tls is None else self._server_name or host
        try:
            reader, writer = await asyncio.open_connection(
                host, port, ssl=context, server_hostname=name
            )
        except ssl.SSLError as error:
            raise self._wrong(refusal_of(error) or str(error)) from error
        except OSError as error:
            raise CallError(error.strerror or str(error), is_heard=False) from error
        if self._tls is not None:
            try:
                self._tls.names_of_peer(writer.transport)
            except HandshakeError as error:
                writer.transport.abort()
                raise self._wrong(str(error)) from error
        return reader, writer

    def _head(self, method: str, path: str, body: bytes | None) -> bytes:
        lines = [
            f"{method} {quote(path, safe=_SAFE_IN_PATH)} HTTP/1.1",
            f"Host: {self._address}",
            f"Authorization: Bearer {self._token}",
            "Accept: */*",
            "Connection: close",
        ]
        if body is not None:
            lines.append("Content-Type: application/octet-stream")
        if method != "GET":
            lines.append(f"Content-Length: {len(body or b'')}")
        return "".join(f"{line}\r\n" for line in [*lines, ""]).encode()

    def _wrong(self, reason: str) -> ConfigurationError:
        return ConfigurationError(f"the coordinator at {self._address} was refused: {reason}")


def hint_of_hang_up(tls: TlsFiles | None) -> str:
    """Return what it may mean that a coordinator accepts connections and hangs up."""
    if tls is None:
        return "; if it does so each time, it may want TLS, which is not set here"
    return "; if it does so each time, it may not accept this side's certificate: its log says why"


async def _answer(reader: asyncio.StreamReader) -> Answer:
    """Read an answer; ValueError for what is none."""
    first, *lines = (await reader.readuntil(b"\r\n\r\n")).split(b"\r\n")
    status = _STATUS.match(first)
    if status is None:
        raise ValueError(f"{first!r} is no status")
    headers = {}
    for line in filter(None, lines):
        name, _, value = line.decode("latin-1").partition(":")
        headers[name.strip().lower()] = value.strip()
    if headers.get("transfer-encoding", "").lower() == "chunked":
        content = await _in_chunks(reader)
    elif "content-length" in headers:
        content = await reader.readexactly(int(headers["content-length"]))
    else:
        content = await reader.read()
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    return Answer(int(status[1]), kind, content)


async def _in_chunks(reader: asyncio.StreamReader) -> bytes:
    chunks = []
    while size := int((await reader.readuntil(b"\r\n")).partition(b";")[0], 16):
        chunks.append((await reader.readexactly(size + 2))[:-2])
    return b"".join(chunks)
