"""Calls over HTTP: the request, the forms of an answer, and the error without an answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
import uvloop
from aiohttp import web

from flinknet.cluster.control.http_server import HttpServer
from flinknet.config import ClusterConfig, TlsConfig
from flinknet.errors import ConfigurationError
from flinknet.net.http_calls import Answer, CallError, HttpCalls
from flinknet.net.tls import TlsFiles, tls_of
from tests.certificates import Authority

OK = b"HTTP/1.1 200 OK\r\nContent-Type: Application/JSON; charset=utf-8\r\n"
WHOLE = OK + b"Content-Length: 4\r\n\r\nbody"


class Coordinator:
    """A server that answers each request with the same bytes and closes the connection."""

    def __init__(self, answer: bytes) -> None:
        self.answer = answer
        self.heard: list[bytes] = []
        self.port = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.heard.append(await reader.read(65_536))
        writer.write(self.answer)
        writer.close()

    @asynccontextmanager
    async def served(self, tls: TlsFiles | None = None) -> AsyncIterator[None]:
        context = None if tls is None else tls.server()
        async with await asyncio.start_server(self.serve, "127.0.0.1", 0, ssl=context) as server:
            self.port = server.sockets[0].getsockname()[1]
            yield

    def calls(self, tls: TlsFiles | None = None, server_name: str = "") -> HttpCalls:
        return HttpCalls(f"127.0.0.1:{self.port}", "secret", tls, server_name)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    authority = Authority(tmp_path / "authority")
    authority.issue("coordinator", "127.0.0.1")
    return authority


@pytest.mark.parametrize(
    "answer",
    [
        WHOLE,
        WHOLE + b"and more",
        OK + b"\r\nbody",
        OK + b"Transfer-Encoding: chunked\r\n\r\n3;x=y\r\nbod\r\n1\r\ny\r\n0\r\n\r\n",
        OK.replace(b"HTTP/1.1 200 OK", b"HTTP/1.0 200") + b"\r\nbody",
    ],
    ids=["a length", "more than that", "to the end", "chunks", "an old server"],
)
async def test_an_answer_may_have_any_form_of_http(answer: bytes) -> None:
    coordinator = Coordinator(answer)
    async with coordinator.served():
        said = await coordinator.calls().call("GET", "/")
    assert said == Answer(200, "application/json", b"body")


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"", "closed the connection; .* it may require TLS"),
        (WHOLE[:-1], "closed the connection"),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n3\r\nbo", "closed the connection"),
        (OK + b"Transfer-Encoding: chunked\r\n\r\nz\r\nbo", "is not HTTP"),
        (OK + b"Content-Length: many\r\n\r\nbody", "is not HTTP"),
        (b"SSH-2.0-OpenSSH_9.6\r\n\r\n", "is not HTTP"),
        (b"x" * 200_000, "is not HTTP"),
    ],
    ids=["nothing", "a part", "half a chunk", "no chunk", "no length", "no HTTP", "no end"],
)
async def test_an_incomplete_answer_is_an_error(answer: bytes, reason: str) -> None:
    """The error says that the coordinator may have read the request."""
    coordinator = Coordinator(answer)
    async with coordinator.served():
        with pytest.raises(CallError, match=reason) as raised:
            await coordinator.calls().call("POST", "/", b"graph")
    assert raised.value.is_heard


async def test_a_path_cannot_add_to_the_request() -> None:
    """It contains names of jobs, which users choose."""
    coordinator = Coordinator(WHOLE)
    async with coordinator.served():
        await coordinator.calls().call("POST", "/jobs/a b\r\nX: y#ü?c=%20d", b"graph")
    head = coordinator.heard[0].decode().split("\r\n")
    assert head[0] == "POST /jobs/a%20b%0D%0AX:%20y%23%C3%BC?c=%20d HTTP/1.1"
    assert {"Authorization: Bearer secret", "Content-Length: 5", "Connection: close"} <= {*head}


async def test_a_large_body_may_be_refused_before_it_is_read() -> None:
    ended = asyncio.Event()
    refusal = b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n"

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(refusal)
        await writer.drain()
        with suppress(ConnectionError):
            await reader.read()  # until the client has left
        writer.close()
        ended.set()

    async with await asyncio.start_server(refuse, "127.0.0.1", 0, limit=65_536) as server:
        port = server.sockets[0].getsockname()[1]
        said = await HttpCalls(f"127.0.0.1:{port}", "secret", None).call("POST", "/", b"x" * 10**7)
        await ended.wait()
    assert said.status == 413


async def test_the_reason_of_a_failed_connection_is_the_systems(authority: Authority) -> None:
    coordinator = Coordinator(WHOLE)
    async with coordinator.served():
        pass
    for tls in (None, authority.tls("client")):
        with pytest.raises(CallError) as raised:
            await coordinator.calls(tls).call("GET", "/")
        assert str(raised.value) in (
            f"Connect call failed ('127.0.0.1', {coordinator.port})",
            "Connection refused",  # uvloop
        )
        assert not raised.value.is_heard


async def test_certificates_are_checked_anew_for_each_call(authority: Authority) -> None:
    """The host name is the one in the coordinator's certificate, or a configured one."""
    coordinator = Coordinator(WHOLE)
    tls = authority.tls("client", reload_interval_s=0.0)
    async with coordinator.served(authority.tls("coordinator")):
        assert (await coordinator.calls(tls).call("GET", "/")).status == 200
        authority.issue("client")
        assert (await coordinator.calls(tls, "coordinator").call("GET", "/")).status == 200
        with pytest.raises(ConfigurationError, match="its certificate is not accepted: .*other"):
            await coordinator.calls(tls, "other").call("GET", "/")


async def test_tls_that_one_side_alone_has_is_refused_or_hinted_at(authority: Authority) -> None:
    tls = authority.tls("client")
    coordinator = Coordinator(WHOLE)
    async with coordinator.served():
        with pytest.raises(ConfigurationError, match="was refused: it does not speak TLS"):
            await coordinator.calls(tls).call("GET", "/")
    async with coordinator.served(authority.tls("coordinator")):
        with pytest.raises(CallError, match="it may require TLS") as raised:
            await coordinator.calls().call("GET", "/")
    assert raised.value.is_heard


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_data_right_behind_a_handshake_arrives_complete(
    authority: Authority, new_loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    """The head of a request and its body are two TLS records."""
    certificate, key, trusted = map(str, authority.files("coordinator"))
    tls = TlsConfig(certificate, key, trusted)
    body = bytes(range(256))

    async def exchange() -> None:
        async def echo(request: web.Request) -> web.Response:
            return web.Response(body=await request.read())

        application = web.Application()
        application.router.add_post("/", echo)
        server = HttpServer(application, ClusterConfig(tls=tls))
        try:
            address = await server.start("127.0.0.1", 0, "port")
            for _ in range(10):
                said = await HttpCalls(address, "secret", tls_of(tls)).call("POST", "/", body)
                assert said.content == body
        finally:
            await server.close()

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(exchange())
