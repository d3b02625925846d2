"""The statistics of an environment."""

from __future__ import annotations

from flinknet.net.network_environment import NetworkEnvironment
from tests.unit.metrics.samples import network


def test_refused_peers_add_up_over_the_reasons() -> None:
    assert network().peers.refused_total == 11


async def test_an_environment_shows_its_network_alone_and_within_everything() -> None:
    async with NetworkEnvironment() as environment:
        alone, everything = environment.network_statistics(), environment.statistics()
    assert everything[: len(alone)] == alone
    assert everything._fields[: len(alone)] == alone._fields
