"""The foreign peers, and a flinknet environment that speaks to them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from flinknet import NetworkEnvironment
from tests.peers.programs import CONFIG, LANGUAGES, Language
from tests.unit.arrangements import assert_everything_returned


@pytest.fixture(params=LANGUAGES)
def language(request: pytest.FixtureRequest) -> Language:
    """Which foreign peer it is."""
    chosen: Language = request.param
    return chosen


@pytest.fixture
async def environment() -> AsyncIterator[NetworkEnvironment]:
    """Flinknet, which has everything back in the end."""
    async with NetworkEnvironment(config=CONFIG) as environment:
        yield environment
        pool = environment.network_pool
        async with asyncio.timeout(20):
            while pool.statistics().free < pool.statistics().total:
                await asyncio.sleep(0)
        assert_everything_returned(pool)
