"""The foreign peers, and a flinknet environment that talks to them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from flinknet import NetworkConfig, NetworkEnvironment
from tests.peers.programs import CONFIG, LANGUAGES, Language
from tests.unit.arrangements import assert_everything_returned


@pytest.fixture(params=LANGUAGES)
def language(request: pytest.FixtureRequest) -> Language:
    """The language of the foreign peer."""
    chosen: Language = request.param
    return chosen


@pytest.fixture
def config() -> NetworkConfig:
    """The environment's configuration."""
    return CONFIG


@pytest.fixture
async def environment(config: NetworkConfig) -> AsyncIterator[NetworkEnvironment]:
    """Flinknet's environment; every buffer must be back at the end."""
    async with NetworkEnvironment(config=config) as environment:
        yield environment
        pool = environment.network_pool
        async with asyncio.timeout(20):
            while pool.statistics().free < pool.statistics().total:
                await asyncio.sleep(0)
        assert_everything_returned(pool)


@pytest.fixture
async def bystander(environment: NetworkEnvironment) -> AsyncIterator[None]:
    """An exchange with another environment, which spans the test and must be complete and exact."""
    numbers = list(range(1_000))
    async with NetworkEnvironment(config=environment.config) as other:

        async def read() -> list[object]:
            async with other.open_reader(environment.address, "bystander") as reader:
                return [record async for record in reader]

        async with asyncio.TaskGroup() as group:
            reading = group.create_task(read())
            async with environment.open_writer("bystander") as writer:
                await writer.emit_many(numbers)
                yield
                await writer.emit_many(numbers)
        assert await reading == numbers * 2
