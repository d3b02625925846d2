"""Where an environment listens: names, IPv6, free ports and ports in use."""

from __future__ import annotations

import asyncio

import pytest

from flinknet.errors import ConfigurationError
from flinknet.net.address import join_address, split_address
from flinknet.net.network_environment import NetworkEnvironment
from tests.machine import needs_ipv6
from tests.unit.net.stranger import quick


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", pytest.param("::1", marks=needs_ipv6)])
async def test_records_pass_by_any_kind_of_host(host: str) -> None:
    """V7: names and IPv6 addresses, which stand in brackets in front of a port."""
    config = quick()
    async with (
        NetworkEnvironment(host=host, config=config) as producer,
        NetworkEnvironment(host=host, config=config) as consumer,
    ):

        async def produce() -> None:
            async with producer.open_writer("p") as writer:
                await writer.emit_many(range(1000))

        async def consume() -> list[int]:
            async with consumer.open_reader(producer.address, "p") as reader:
                return [record async for record in reader]

        taken, _ = await asyncio.gather(consume(), produce())
        assert taken == list(range(1000))
        assert split_address(producer.address)[0] == host


@pytest.mark.parametrize("host", ["127.0.0.1", "worker-1", "::1", "fe80::1"])
def test_an_address_is_split_as_it_was_joined(host: str) -> None:
    """V7."""
    assert split_address(join_address(host, 7001)) == (host, 7001)


async def test_environments_on_one_machine_choose_different_ports() -> None:
    """F15, by meaning: port 0 stands for any free port instead of one of a range."""
    config = quick()
    async with (
        NetworkEnvironment(config=config) as first,
        NetworkEnvironment(config=config) as second,
    ):
        ports = [split_address(environment.address)[1] for environment in (first, second)]
        assert ports[0] != ports[1]


async def test_a_port_that_is_taken_is_an_error_and_leaves_nothing() -> None:
    """F15."""
    config = quick()
    async with NetworkEnvironment(config=config) as first:
        port = split_address(first.address)[1]
        with pytest.raises(ConfigurationError, match=f"cannot listen on .*:{port}: .*another port"):
            async with NetworkEnvironment(port=port, config=config):
                pass
