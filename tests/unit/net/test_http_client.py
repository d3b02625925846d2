"""The HTTP client over TLS: renewed certificates, and hints when a coordinator hangs up."""

from __future__ import annotations

import asyncio
from pathlib import Path

import aiohttp
import pytest

from flinknet.errors import ConfigurationError
from flinknet.net.http_client import HttpClient
from flinknet.net.tls import TlsFiles
from tests.certificates import Authority

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    authority = Authority(tmp_path / "authority")
    authority.issue("coordinator", "127.0.0.1")
    return authority


async def status_of(tls: TlsFiles | None, port: int, server_name: str = "") -> int:
    client = HttpClient(f"127.0.0.1:{port}", "secret", tls, server_name)
    client.open()
    try:
        async with client.request("GET", "/") as response:
            return int(response.status)
    finally:
        await client.close()


async def test_certificates_are_checked_anew_for_each_request(authority: Authority) -> None:
    """The host name is the one in the coordinator's certificate, or a configured one."""
    serials: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serials.append(writer.get_extra_info("peercert")["serialNumber"])
        head = await reader.readuntil(b"\r\n\r\n")
        assert b"\r\nAuthorization: Bearer secret\r\n" in head
        writer.write(ANSWER)
        writer.close()

    server = authority.tls("coordinator").server()
    tls = authority.tls("client", reload_interval_s=0.0)
    async with await asyncio.start_server(serve, "127.0.0.1", 0, ssl=server) as serving:
        port = serving.sockets[0].getsockname()[1]
        assert await status_of(tls, port) == 200
        authority.issue("client")
        assert await status_of(tls, port, "coordinator") == 200
        assert len(set(serials)) == 2
        with pytest.raises(ConfigurationError, match="its certificate is not accepted: .*other"):
            await status_of(tls, port, "other")


async def test_a_possible_cause_is_named(authority: Authority) -> None:
    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async with await asyncio.start_server(hang_up, "127.0.0.1", 0) as serving:
        port = serving.sockets[0].getsockname()[1]
        for tls, hint in (
            (None, "it may require TLS"),
            (authority.tls("client"), "may not accept this side's certificate"),
        ):
            client = HttpClient(f"127.0.0.1:{port}", "secret", tls)
            assert hint in client.hint_of_hang_up()
            with pytest.raises(aiohttp.ClientError):
                await status_of(tls, port)


async def test_the_reason_of_a_failed_connection_names_no_object_of_the_library(
    authority: Authority,
) -> None:
    """It shows neither the TLS context nor its default."""
    async with await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0) as gone:
        port = gone.sockets[0].getsockname()[1]
    for tls in (authority.tls("client"), None):
        with pytest.raises(aiohttp.ClientConnectorError) as raised:
            await status_of(tls, port)
        assert HttpClient.reason(raised.value) == f"Connect call failed ('127.0.0.1', {port})"
