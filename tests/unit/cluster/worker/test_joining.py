"""Workers that look for their coordinator; `test_worker.py` tests one that loses it."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from flinknet.cluster.control.credentials import new_token
from flinknet.cluster.control.http_transport import http_link
from flinknet.cluster.control.messages import Register
from flinknet.cluster.worker.joining import find_way, join, join_again
from flinknet.errors import ConfigurationError, RemoteTransportError
from tests.free_port import free_port
from tests.unit.cluster.control_plane import serve_control_plane
from tests.unit.cluster.running_cluster import CONFIG

REGISTER = Register("worker-0", 1, "127.0.0.1:1", 2)
PATIENT_MS = 60_000.0


async def test_a_worker_joins_a_coordinator_that_comes_later_and_says_once_that_it_waits() -> None:
    told: list[RemoteTransportError] = []
    async with serve_control_plane(CONFIG) as before:
        pass
    async with before.link() as link:
        joining = asyncio.create_task(
            join(link, REGISTER, PATIENT_MS, asyncio.Event(), told.append)
        )
        while not told:
            await asyncio.sleep(0)
        async with serve_control_plane(CONFIG, before) as served:
            assert (await joining) is not None
            assert served.coordinator.registered_workers() == 1
    assert len(told) == 1


async def test_a_worker_that_is_to_stop_waits_no_longer() -> None:
    stop = asyncio.Event()
    async with http_link(f"127.0.0.1:{free_port()}", new_token(), CONFIG) as link:
        joining = asyncio.create_task(
            join(link, REGISTER, PATIENT_MS, stop, lambda absence: stop.set())
        )
        assert await joining is None


@pytest.mark.parametrize("within_ms", [0.0, 1.0])
async def test_a_coordinator_that_does_not_come_is_given_up(within_ms: float) -> None:
    """Without a waiting time it must be there at once."""
    async with http_link(f"127.0.0.1:{free_port()}", new_token(), CONFIG) as link:
        with pytest.raises(RemoteTransportError, match="no coordinator"):
            await join(link, REGISTER, within_ms, asyncio.Event())
        assert await join_again(link, REGISTER, within_ms, asyncio.Event()) is None


async def test_a_refusal_is_final() -> None:
    async with (
        serve_control_plane(CONFIG) as served,
        served.worker("worker-0"),
        served.link() as link,
    ):
        with pytest.raises(ConfigurationError, match="worker-0 is taken"):
            await join(link, REGISTER, PATIENT_MS, asyncio.Event())


async def test_a_coordinator_whose_name_has_no_address_yet_is_waited_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A worker that listens on all addresses uses the local address of its route to the
    coordinator."""
    config = replace(CONFIG, host="0.0.0.0", coordinator_wait_ms=60_000.0)
    stop = asyncio.Event()
    assert await find_way(config, "127.0.0.1:1", stop) == "127.0.0.1"
    looking = asyncio.create_task(find_way(config, "coordinator.invalid:1", stop))
    said = ""
    while "there is no route to coordinator.invalid:1" not in said:
        await asyncio.sleep(0)
        said += capsys.readouterr().err
    assert said.startswith("waiting for the coordinator for up to 60000 ms")
    stop.set()
    assert await looking is None
    with pytest.raises(RemoteTransportError, match=r"is no route to coordinator\.invalid:1: "):
        await find_way(
            replace(config, coordinator_wait_ms=0.0), "coordinator.invalid:1", asyncio.Event()
        )
