"""The checks of a coordinator's certificate that both HTTP clients make."""

from __future__ import annotations

import asyncio
import hashlib
import ssl
from contextlib import suppress
from pathlib import Path

import pytest

from flinknet.errors import ConfigurationError
from flinknet.net.coordinator_tls import CoordinatorTls
from tests.certificates import Authority


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    authority = Authority(tmp_path / "authority")
    for name in ("coordinator", "client"):
        authority.issue(name, "127.0.0.1")
    return authority


def fingerprint(authority: Authority, name: str) -> str:
    pem = authority.files(name)[0].read_text()
    return hashlib.sha256(ssl.PEM_cert_to_DER_cert(pem)).hexdigest()


@pytest.mark.parametrize("pin", ["none", "its own", "another"])
async def test_a_coordinator_whose_certificate_is_not_pinned_is_refused(
    authority: Authority, pin: str
) -> None:
    pinned = {"its own": ["coordinator"], "another": ["client"]}.get(pin, [])
    pins = [fingerprint(authority, name) for name in pinned]
    tls = CoordinatorTls("host:1", authority.tls("client", pinned=pins))
    server = authority.tls("coordinator").server()
    ended = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            await reader.read()
            writer.close()
            await writer.wait_closed()
        ended.set()

    serving = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=server)
    async with serving:
        address = serving.sockets[0].getsockname()[:2]
        _, writer = await asyncio.open_connection(*address, ssl=tls.context())
        if pin == "another":
            with pytest.raises(
                ConfigurationError, match="coordinator at host:1 was refused: .* is not pinned"
            ):
                tls.check(writer.transport)
        else:
            tls.check(writer.transport)
        writer.close()
        await writer.wait_closed()
        await ended.wait()


def test_the_error_of_a_handshake_names_the_coordinator_and_the_reason() -> None:
    tls = CoordinatorTls("host:1", None)
    error = ssl.SSLError(1, "[SSL: WRONG_VERSION_NUMBER] wrong version number")
    error.reason = "WRONG_VERSION_NUMBER"
    assert str(tls.refused(error)) == (
        "the coordinator at host:1 was refused: it does not speak TLS 1.3 (WRONG_VERSION_NUMBER)"
    )
    assert str(tls.refused(OSError("gone"))) == "the coordinator at host:1 was refused: gone"


def test_a_hang_up_is_explained_by_the_missing_side(authority: Authority) -> None:
    without, secured = (CoordinatorTls("host:1", tls) for tls in (None, authority.tls("client")))
    assert (without.is_on, secured.is_on) == (False, True)
    assert without.context() is None
    assert "it may require TLS" in without.hint_of_hang_up()
    assert "may not accept this side's certificate" in secured.hint_of_hang_up()
