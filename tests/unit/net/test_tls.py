"""TLS between environments: a wrong certificate is refused, and both sides know the reason."""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import logging
import os
import socket
import ssl
import struct
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import cast

import pytest
import uvloop

from flinknet import NetworkEnvironment, PartitionLocation
from flinknet.config import NetworkConfig, WireLimits
from flinknet.errors import ConfigurationError, FlinknetError, HandshakeError
from flinknet.metrics.environment_statistics import PeerDirectoryStatistics
from flinknet.net.address import split_address
from flinknet.net.handshake_rate_limit import HandshakeRateLimit
from flinknet.net.tls import Tls, TlsAcceptor, TlsFiles, check_private
from tests.certificates import Authority
from tests.unit.net.stranger import until

QUICK = NetworkConfig(
    rendezvous_timeout_ms=200.0,
    connect_backoff_ms=10.0,
    network_memory_bytes=1 << 20,
    wire=WireLimits(handshake_timeout_ms=30_000.0),
)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "authority")


def environment(tls: Tls | None, worker_id: str = "worker-0") -> NetworkEnvironment:
    return NetworkEnvironment(worker_id=worker_id, tls=tls, config=QUICK)


def peers(of: NetworkEnvironment) -> PeerDirectoryStatistics:
    return of.statistics().peers


async def error_of(dialling: NetworkEnvironment, accepting: NetworkEnvironment) -> FlinknetError:
    """Return the error of one environment's read from another."""
    gate = dialling.create_input_gate([PartitionLocation(accepting.address, "p", 0)])
    with pytest.raises(FlinknetError) as refused:
        async for _ in dialling.create_record_reader(gate):
            pass
    return refused.value


async def exchange(producer: NetworkEnvironment, consumer: NetworkEnvironment) -> None:
    """Exchange some records."""

    async def produce() -> None:
        async with producer.open_writer("p") as writer:
            await writer.emit("record")

    async with asyncio.TaskGroup() as group:
        group.create_task(produce())
        async with consumer.open_reader(producer.address, "p") as reader:
            assert [record async for record in reader] == ["record"]


# -- admission -------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrong", ["authority", "expired", "none"])
async def test_a_dialler_without_a_right_certificate_is_refused(
    authority: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture, wrong: str
) -> None:
    """The dialler learns only that. The refusing side counts the refusal and logs the reason."""
    tls = authority.tls("worker-0")
    authority.issue_expired("worker-1")
    stranger = Authority(tmp_path / "stranger")
    stranger.issue("worker-1")
    ca = authority.files("worker-0")[2]
    other: Tls | None
    if wrong == "none":
        client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        client.minimum_version = ssl.TLSVersion.TLSv1_3
        client.check_hostname = False
        client.load_verify_locations(ca)
        other = Tls(tls.server(), client)
    elif wrong == "expired":
        other = authority.tls("worker-1")
    else:
        other = TlsFiles(*stranger.files("worker-1")[:2], ca)
    with caplog.at_level(logging.WARNING, "flinknet.net"):
        async with environment(tls) as accepting, environment(other, "worker-1") as dialling:
            error = await error_of(dialling, accepting)
            assert "does not accept this side's certificate" in str(error)
            assert peers(accepting).refused_total > 0
            assert [one.reason for one in peers(accepting).refused] == ["tls"]
            assert peers(accepting).established == peers(dialling).established == 0
    told = {
        "authority": "its certificate is not accepted: ",
        "expired": "its certificate is not accepted: certificate has expired",
        "none": "it has no certificate",
    }
    lines = [line for line in caplog.messages if line.startswith("refused (tls)")]
    assert len(lines) == 1
    assert told[wrong] in lines[0]


async def test_a_dialler_refuses_an_unknown_authority_at_once(
    authority: Authority, tmp_path: Path
) -> None:
    other = Authority(tmp_path / "other")
    async with (
        environment(authority.tls("worker-0")) as accepting,
        environment(other.tls("worker-1"), "worker-1") as dialling,
    ):
        error = await error_of(dialling, accepting)
        assert isinstance(error, HandshakeError)
        assert "its certificate is not accepted" in str(error)
        await until(lambda: not peers(accepting).pending)


async def test_a_worker_with_the_certificate_of_another_is_refused(authority: Authority) -> None:
    """Both sides are told the names, as each has a certificate of the authority."""
    async with (
        environment(authority.tls("worker-0")) as accepting,
        environment(authority.tls("worker-1"), "worker-2") as dialling,
    ):
        error = await error_of(dialling, accepting)
        assert "its certificate is for 'worker-1', but its id is 'worker-2'" in str(error)
        assert [(one.reason, one.sockets) for one in peers(accepting).refused] == [("identity", 1)]


async def test_only_pinned_certificates_are_accepted(authority: Authority) -> None:
    for name in ("worker-0", "worker-1", "worker-2"):
        authority.issue(name)
    pem = authority.files("worker-1")[0].read_text()
    pinned = hashlib.sha256(ssl.PEM_cert_to_DER_cert(pem)).hexdigest()
    picky = authority.tls("worker-0", pinned=[pinned.upper()])
    async with environment(picky) as one, environment(authority.tls("worker-1"), "worker-1") as two:
        await exchange(one, two)
        async with environment(authority.tls("worker-2"), "worker-2") as third:
            await error_of(third, one)
            assert [refused.reason for refused in peers(one).refused] == ["tls"]
            assert "is not pinned" in str(await error_of(one, third))


async def test_tls_and_a_secret_are_both_wanted_where_both_are_set(authority: Authority) -> None:
    tls, other = authority.tls("worker-0"), authority.tls("worker-1")
    async with (
        NetworkEnvironment(worker_id="worker-0", tls=tls, secret="a", config=QUICK) as accepting,
        NetworkEnvironment(worker_id="worker-1", tls=other, secret="b", config=QUICK) as dialling,
    ):
        assert "secret" in str(await error_of(dialling, accepting))


# -- peers that do not speak TLS -------------------------------------------------------------------


@pytest.mark.parametrize("secure", ["dialling", "accepting"])
async def test_tls_on_one_side_alone_is_explained(authority: Authority, secure: str) -> None:
    tls = authority.tls("worker-*")
    async with (
        environment(tls if secure == "accepting" else None, "worker-0") as accepting,
        environment(tls if secure == "dialling" else None, "worker-1") as dialling,
    ):
        error = await error_of(dialling, accepting)
        reasons = [one.reason for one in peers(accepting).refused]
        if secure == "dialling":
            assert (
                "closed the connection during the TLS handshake: does its worker use TLS?"
                in str(error)
            )
            assert reasons == ["malformed"]
        else:
            assert "closed the connection during the handshake" in str(error)
            assert "it may require TLS" in str(error)
            assert reasons == ["tls"]


async def test_peers_that_are_slow_in_tls_count_as_in_handshake(authority: Authority) -> None:
    """Silent ones make room for others, and get no message, as they could not read it."""
    config = NetworkConfig(
        network_memory_bytes=1 << 20,
        wire=WireLimits(handshake_timeout_ms=1_000.0, pending_handshakes_max=3),
    )
    tls = authority.tls("worker-*")
    async with NetworkEnvironment(worker_id="worker-0", tls=tls, config=config) as accepting:
        host, port = split_address(accepting.address)
        strangers = [await asyncio.open_connection(host, port) for _ in range(6)]
        await until(lambda: peers(accepting).refused_total >= 3)
        assert peers(accepting).pending <= 3
        async with environment(authority.tls("worker-1"), "worker-1") as good:
            await exchange(accepting, good)
        for reader, writer in strangers:
            assert await reader.read() == b""
            writer.close()
        assert {one.reason for one in peers(accepting).refused} <= {"full", "silent"}


@pytest.mark.parametrize("event_loop", ["uvloop", "asyncio"])
def test_a_peer_that_is_gone_at_once_leaves_nothing(event_loop: str, authority: Authority) -> None:
    """A load balancer does so when it checks whether the port is open, before TLS has begun."""
    said = [b"", b"\x16", b"GET / HTTP/1.1\r\n\r\n", b"x" * 8192]
    ends = [struct.pack("ii", 1, 0), struct.pack("ii", 0, 0)]  # by a reset, and by an orderly end
    faults: list[object] = []

    async def come_and_go() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: faults.append(context))
        async with environment(authority.tls("worker-0")) as accepting:
            before = asyncio.all_tasks()
            for first, linger in itertools.product(said, ends):
                with socket.create_connection(split_address(accepting.address)) as stranger:
                    stranger.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                    stranger.sendall(first)
                await asyncio.sleep(0)
            await exchange(accepting, accepting)  # all have been accepted by now
            await until(lambda: not peers(accepting).pending)
            await until(lambda: asyncio.all_tasks() <= before)

    new_loop = asyncio.new_event_loop if event_loop == "asyncio" else uvloop.new_event_loop
    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(come_and_go())
    assert not faults


# -- certificates ----------------------------------------------------------------------------------


class Counting(asyncio.Protocol):
    """A protocol behind an entrance that answers after a number of bytes."""

    def __init__(self, wanted: int) -> None:
        self._left = wanted

    def accepted(self, transport: asyncio.BaseTransport) -> None:
        """Do nothing: this protocol has no limits."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass

    def data_received(self, data: bytes) -> None:
        self._left -= len(data)
        if not self._left:
            self._transport.write(b"all")
            self._transport.close()


@pytest.mark.parametrize("event_loop", ["asyncio", "uvloop"])
def test_data_directly_behind_a_handshake_is_complete(
    event_loop: str, authority: Authority
) -> None:
    """A large request of an HTTP client does this: it exceeds the bytes that the entrance keeps
    before TLS."""
    tls = authority.tls("worker-0")
    said = bytes(1_000_000)

    async def say() -> None:
        loop = asyncio.get_running_loop()
        rate_limit = HandshakeRateLimit(loop, 1_000)

        def accept() -> TlsAcceptor:
            return TlsAcceptor(Counting(len(said)), tls.server(), loop, 5.0, rate_limit)

        async with await loop.create_server(accept, "127.0.0.1", 0) as server:
            host, port = server.sockets[0].getsockname()
            for _ in range(10):
                reader, writer = await asyncio.open_connection(host, port, ssl=tls.client())
                writer.write(said)
                assert await reader.read() == b"all"
                writer.transport.abort()

    factory = uvloop.new_event_loop if event_loop == "uvloop" else asyncio.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(asyncio.wait_for(say(), 30.0))


async def test_a_flood_of_handshakes_waits_for_its_turns(authority: Authority) -> None:
    """A good peer does not wait for peers that have left, and silent peers get no turn."""
    wire = WireLimits(handshake_timeout_ms=30_000.0, tls_handshakes_per_second_max=1)
    config = replace(QUICK, rendezvous_timeout_ms=20_000.0, wire=wire)
    hello = ssl.MemoryBIO()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    with pytest.raises(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), hello).do_handshake()
    said = hello.read()
    async with NetworkEnvironment(
        worker_id="worker-0", tls=authority.tls("worker-0"), config=config
    ) as accepting:
        rate_limit = accepting._peers._tls_rate_limit
        host, port = split_address(accepting.address)
        strangers = [await asyncio.open_connection(host, port) for _ in range(40)]
        await until(lambda: peers(accepting).pending == 40)
        assert len(rate_limit) == 0
        for _, writer in strangers:
            writer.write(said)
        assert await strangers[0][0].read(1), "the first has its turn at once"
        await until(lambda: len(rate_limit) >= 30)
        for _, writer in strangers:
            writer.transport.abort()
        await until(lambda: len(rate_limit) == peers(accepting).pending == 0)
        async with NetworkEnvironment(
            worker_id="worker-1", tls=authority.tls("worker-1"), config=config
        ) as good:
            await exchange(accepting, good)


async def test_a_renewed_certificate_is_used_without_a_restart(
    authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    """A certificate that cannot be used changes nothing and is logged."""
    authority.issue("worker-0")
    tls = authority.tls("worker-0", reload_interval_s=0.0)

    async def serial() -> int:
        async with environment(tls) as accepting:
            host, port = split_address(accepting.address)
            client = authority.tls("worker-1").client()
            _, writer = await asyncio.open_connection(host, port, ssl=client)
            shown = writer.get_extra_info("peercert")
            writer.close()
            return int(shown["serialNumber"], 16)

    first = await serial()
    assert await serial() == first
    authority.issue("worker-0")
    second = await serial()
    assert second != first
    certificate = authority.files("worker-0")[0]
    whole = certificate.read_bytes()
    certificate.write_bytes(whole[:100])
    assert await serial() == second
    assert "the new certificate cannot be loaded, and the old one stays in use" in caplog.text
    certificate.write_bytes(whole)
    assert await serial() == second


def test_files_that_cannot_be_used_are_named(authority: Authority, tmp_path: Path) -> None:
    authority.issue("worker-0")
    authority.issue("worker-1")
    certificate, key, ca = authority.files("worker-0")
    other_key = authority.files("worker-1")[1]
    garbage = tmp_path / "garbage"
    garbage.write_text("garbage")
    garbage.chmod(0o600)
    for files, named in (
        ((tmp_path / "none", key, ca), "none"),
        ((certificate, other_key, ca), "KEY_VALUES_MISMATCH"),
        ((garbage, key, ca), "garbage"),
        ((certificate, key, garbage), "the authority .*garbage"),
        ((certificate, garbage, ca), "garbage"),
    ):
        with pytest.raises(ConfigurationError, match=named):
            TlsFiles(*files)
    key.chmod(0o644)
    with pytest.raises(ConfigurationError, match=f"chmod 600 {key}"):
        TlsFiles(certificate, key, ca)
    with pytest.raises(ConfigurationError, match="cannot be read"):
        check_private(tmp_path / "none", "the key")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to a group of another")
@pytest.mark.parametrize(
    ("owner", "mode", "is_private"),
    [
        (0, 0o440, True),
        (0, 0o640, True),
        (0, 0o460, False),
        (0, 0o444, False),
        (1234, 0o440, False),
    ],
)
def test_the_group_may_read_a_secret_that_root_has_given_it(
    request: pytest.FixtureRequest, owner: int, mode: int, is_private: bool
) -> None:
    """Kubernetes with an fsGroup and systemd with LoadCredential create it with mode 0440."""
    directory = TemporaryDirectory()  # tmp_path is in a directory that only root may enter
    request.addfinalizer(directory.cleanup)
    Path(directory.name).chmod(0o755)
    secret = Path(directory.name) / "token"
    secret.write_text("secret")
    secret.chmod(mode)
    os.chown(secret, owner, 1234)
    os.seteuid(1234)
    try:
        with nullcontext() if is_private else pytest.raises(ConfigurationError, match="chmod"):
            check_private(secret, "the token")
    finally:
        os.seteuid(0)
    if owner == 0 and is_private:  # for root itself the group is another user
        with pytest.raises(ConfigurationError, match="chmod"):
            check_private(secret, "the token")


def test_contexts_that_let_anything_in_are_refused(authority: Authority) -> None:
    tls = authority.tls("worker-0")
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    old.minimum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises(ConfigurationError, match=r"server context allows versions .*TLSv1_3"):
        Tls(old, tls.client())
    open_ = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    open_.minimum_version = ssl.TLSVersion.TLSv1_3
    with pytest.raises(ConfigurationError, match=r"server context .*CERT_REQUIRED"):
        Tls(open_, tls.client())
    with pytest.raises(ConfigurationError, match="checks host names"):
        Tls(tls.server(), tls.https_client())


# -- addresses -------------------------------------------------------------------------------------


def test_other_addresses_than_loopback_need_authentication(authority: Authority) -> None:
    tls = authority.tls("worker-0")
    NetworkEnvironment(host="192.0.2.1", secret="s")
    NetworkEnvironment(host="192.0.2.1", tls=tls)
    with pytest.raises(ConfigurationError, match=r"192\.0\.2\.1.*secret.*TLS.*loopback"):
        NetworkEnvironment(host="192.0.2.1")
    with pytest.raises(
        ConfigurationError, match=r"0\.0\.0\.0 stands for every address .*advertised"
    ):
        NetworkEnvironment(host="0.0.0.0", secret="s")


@pytest.mark.parametrize(
    ("advertised", "address"),
    [
        ("127.0.0.1", "127.0.0.1:{port}"),
        ("localhost:7001", "localhost:7001"),
        ("::1", "[::1]:{port}"),
        ("[::1]:7001", "[::1]:7001"),
    ],
)
async def test_a_peer_is_told_where_others_reach_it(advertised: str, address: str) -> None:
    any_address = NetworkEnvironment(host="0.0.0.0", advertised=advertised, secret="s")
    async with any_address as one:
        port = one._server.sockets[0].getsockname()[1]  # type: ignore[union-attr]
        assert one.address == address.format(port=port)
