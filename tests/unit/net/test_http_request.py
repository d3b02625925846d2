"""Requests to a coordinator, and valid and invalid answers."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from flinknet.errors import ConfigurationError, RemoteTransportError
from flinknet.net.http_request import HttpRequest

OK = b"HTTP/1.1 200 OK\r\nServer: test\r\n\r\n"


@asynccontextmanager
async def answering(answer: bytes, requests: list[bytes] | None = None) -> AsyncIterator[int]:
    """Serve one answer to every client; yield the port."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await reader.readuntil(b"\r\n\r\n")
        if requests is not None:
            requests.append(request)
        writer.write(answer)
        writer.close()
        await writer.wait_closed()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]


def request_to(port: int, timeout_s: float = 60.0) -> HttpRequest:
    return HttpRequest(
        "127.0.0.1", port, "secret", timeout_s=timeout_s, method="GET", path="/api/v1/names"
    )


async def test_an_answer_is_read_to_its_end() -> None:
    requests: list[bytes] = []
    async with answering(OK + b'{"one": 1}', requests) as port:
        async with request_to(port) as request:
            assert await request.json() == {"one": 1}
        async with request_to(port) as request:
            await request.ended()
    assert requests[0].startswith(b"GET /api/v1/names HTTP/1.1\r\nHost: 127.0.0.1:")
    assert b"\r\nAuthorization: Bearer secret\r\n" in requests[0]


@pytest.mark.parametrize(
    ("answer", "kind", "why"),
    [
        (b"", RemoteTransportError, "has closed the connection: .*http_connections_max"),
        (b"HTTP/1.1 200 OK\r\n", RemoteTransportError, "has closed the connection"),
        (b"SSH-2.0 hello\r\n\r\n", ConfigurationError, "not a coordinator of flinknet"),
        (OK + b"<html>", ConfigurationError, "not a coordinator of flinknet"),
        (b"x" * (2 << 20), ConfigurationError, "not a coordinator of flinknet"),
        (
            b'HTTP/1.1 401 No\r\n\r\n{"error": {"type": "X", "message": "wrong token"}}',
            ConfigurationError,
            "refuses: wrong token",
        ),
        (b"HTTP/1.1 404 No\r\n\r\n<html>", ConfigurationError, "is it another version"),
        (b"HTTP/1.1 404 No\r\n\r\n[]", ConfigurationError, "is it another version"),
    ],
    ids=["nothing", "half", "ssh", "html", "endless", "refusal", "unknown", "list"],
)
async def test_an_answer_of_another_server_is_an_error(
    answer: bytes, kind: type[Exception], why: str
) -> None:
    async with answering(answer) as port:
        with pytest.raises(kind, match=why):
            async with request_to(port) as request:
                await request.json()


async def test_an_address_without_an_answer_is_an_error() -> None:
    """The kernel accepts the connection, but no process reads from it."""
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        pytest.raises(RemoteTransportError, match="has not answered within"),
    ):
        async with request_to(silent.getsockname()[1], timeout_s=0.001):
            pass
