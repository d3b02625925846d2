"""Names at a coordinator: a partition's producer is found as long as it lives."""

from __future__ import annotations

import asyncio
import socket

import pytest

from flinknet.config import TOKEN_VARIABLE, NetworkConfig
from flinknet.errors import (
    ConfigurationError,
    PartitionRequestTimeoutError,
    RemoteTransportError,
)
from flinknet.net.address import is_coordinator, with_token
from flinknet.net.coordinator_names import CoordinatorNames
from flinknet.net.network_environment import NetworkEnvironment
from tests.unit.cluster.control_plane import CONFIG, ServedCoordinator, serve_control_plane

IMPATIENT = NetworkConfig(rendezvous_timeout_ms=1.0, rendezvous_notice_ms=0.0)


@pytest.fixture(autouse=True)
def no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(TOKEN_VARIABLE, raising=False)


def address_of(served: ServedCoordinator) -> str:
    return f"http://{served.address}/#token={served.token}"


async def test_environments_find_each_other_by_names() -> None:
    """Neither side knows the other's port, and the reader comes first."""
    async with serve_control_plane(CONFIG) as served:
        directory = address_of(served)
        async with (
            NetworkEnvironment(directory=directory) as here,
            NetworkEnvironment(directory=directory) as there,
        ):

            async def read() -> list[int]:
                async with there.open_reader("numbers") as reader:
                    return [number async for number in reader]

            async def write() -> None:
                async with here.open_writer("numbers") as writer:
                    await writer.emit_many(range(100))

            numbers, _ = await asyncio.gather(read(), write())
            assert numbers == list(range(100))
        names = CoordinatorNames(directory, "embedded")
        assert await names.look_up("numbers", 1, 0.0) == [], (
            "it is taken back when the block is left"
        )


async def test_names_are_of_one_job_and_in_the_order_of_the_workers() -> None:
    async with serve_control_plane(CONFIG) as served:
        names = CoordinatorNames(address_of(served), "job")
        async with (
            names.published("a&b/ü", "two", "127.0.0.1:2"),
            names.published("a&b/ü", "one", "127.0.0.1:1"),
        ):
            assert await names.find("a&b/ü", 2, IMPATIENT) == ["127.0.0.1:1", "127.0.0.1:2"]
            with pytest.raises(ConfigurationError, match=r"2 writers of .*producers=2"):
                await names.find("a&b/ü", 1, IMPATIENT)
            other = CoordinatorNames(address_of(served), "other")
            with pytest.raises(PartitionRequestTimeoutError, match=r'0 of 1 .*the job "other"'):
                await other.find("a&b/ü", 1, IMPATIENT)


async def test_a_coordinator_that_is_started_anew_is_told_the_names_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with serve_control_plane(CONFIG) as before:
        names = CoordinatorNames(address_of(before), "job")
        published = names.published("readings", "a", "127.0.0.1:1")
        await published.__aenter__()
        assert await names.look_up("readings", 1, 0.0) == ["127.0.0.1:1"]
    waiting = asyncio.ensure_future(names.find("readings", 1, NetworkConfig()))
    async with serve_control_plane(CONFIG, before) as after:
        assert address_of(after) == address_of(before)
        assert await waiting == ["127.0.0.1:1"]
        await published.__aexit__(None, None, None)
        assert await names.look_up("readings", 1, 0.0) == []
    assert 'readers cannot find "readings" until it is back' in caplog.text


async def test_a_coordinator_with_another_token_is_not_told_names(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with serve_control_plane(CONFIG) as before:
        names = CoordinatorNames(address_of(before), "job")
        published = names.published("readings", "a", "127.0.0.1:1")
        await published.__aenter__()
    changed = ServedCoordinator(before.coordinator, before.address, "another token of some length")
    async with serve_control_plane(CONFIG, changed):
        while 'readers cannot find "readings" any more' not in caplog.text:
            await asyncio.sleep(0)
        await published.__aexit__(None, None, None)
    assert "the cluster token is missing or wrong" in caplog.text


async def test_a_token_may_stand_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serve_control_plane(CONFIG) as served:
        where = f"http://{served.address}"
        with pytest.raises(ConfigurationError, match=f"token: set {TOKEN_VARIABLE}, or give"):
            NetworkEnvironment(directory=where)
        assert with_token(where) == where
        monkeypatch.setenv(TOKEN_VARIABLE, served.token)
        assert await CoordinatorNames(where, "job").look_up("readings", 1, 0.0) == []
        assert with_token(where) == f"{where}#token={served.token}"
        assert with_token(address_of(served)) == address_of(served)


async def test_a_wrong_token_is_refused_and_not_repeated() -> None:
    async with serve_control_plane(CONFIG) as served:
        names = CoordinatorNames(f"http://{served.address}/#token=of-another-cluster", "job")
        with pytest.raises(ConfigurationError, match="token is missing or wrong") as refused:
            await names.look_up("readings", 1, 0.0)
        assert "of-another-cluster" not in str(refused.value)


@pytest.mark.parametrize(
    "address",
    ["http://127.0.0.1:8081/v1#token=t", "http://here"],
)
def test_an_invalid_coordinator_address_is_refused(address: str) -> None:
    assert is_coordinator(address)
    with pytest.raises(ConfigurationError, match="address"):
        CoordinatorNames(address, "job")
    with pytest.raises(ConfigurationError, match="needs certificates"):
        CoordinatorNames("https://127.0.0.1:8081/#token=t", "job")
    assert not is_coordinator("names/http://")


async def test_a_coordinator_that_is_not_there_is_an_error_at_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    async with NetworkEnvironment(directory=f"http://127.0.0.1:{port}/#token=t") as environment:
        with pytest.raises(RemoteTransportError, match=r"no coordinator answers .*start one"):
            async with environment.open_reader("readings"):
                pass
        with pytest.raises(RemoteTransportError, match=f"COORDINATOR_PORT={port}"):
            async with environment.open_writer("readings"):
                pass
