"""Fixtures that open an exchange once for each kind of channel."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.contract.hosts import KINDS, Exchange, open_exchange


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def exchange(kind: str) -> AsyncIterator[Exchange]:
    async with open_exchange(kind) as opened:
        yield opened
