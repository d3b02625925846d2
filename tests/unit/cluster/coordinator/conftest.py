"""A served control plane, and its callers."""

from __future__ import annotations

from collections.abc import AsyncIterator

import aiohttp
import pytest

from flinknet.cluster.control.credentials import authorization_headers
from tests.unit.cluster.control_plane import CONFIG, ServedCoordinator, serve_control_plane


@pytest.fixture
async def served() -> AsyncIterator[ServedCoordinator]:
    async with serve_control_plane(CONFIG) as served:
        yield served


@pytest.fixture
async def anybody(served: ServedCoordinator) -> AsyncIterator[aiohttp.ClientSession]:
    """Yield an HTTP session without the token."""
    async with aiohttp.ClientSession(f"http://{served.address}") as session:
        yield session


@pytest.fixture
async def member(served: ServedCoordinator) -> AsyncIterator[aiohttp.ClientSession]:
    """Yield an HTTP session with the token."""
    headers = authorization_headers(served.token)
    async with aiohttp.ClientSession(f"http://{served.address}", headers=headers) as session:
        yield session
