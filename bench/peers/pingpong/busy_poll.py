"""The busy-polling form of a system without its own: an event loop that never sleeps."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial

from bench.peers.pingpong.system import BUSY_POLL, Echo, Ping, PingPongSystem

__all__ = ["busy"]


def busy(system: PingPongSystem) -> PingPongSystem:
    """Return the system with both event loops kept awake from opening to closing."""
    return replace(
        system,
        variant=BUSY_POLL,
        parameters={**system.parameters, "busy_poll": "always"},
        open_echo=partial(_open_echo, system),
        open_ping=partial(_open_ping, system),
    )


@asynccontextmanager
async def _open_echo(system: PingPongSystem) -> AsyncIterator[Echo]:
    async with _awake(), system.open_echo() as end:
        yield end


@asynccontextmanager
async def _open_ping(system: PingPongSystem, address: str) -> AsyncIterator[Ping]:
    async with _awake(), system.open_ping(address) as end:
        yield end


@asynccontextmanager
async def _awake() -> AsyncIterator[None]:
    """Keep a callback scheduled, because a loop with a pending callback does not sleep."""
    loop = asyncio.get_running_loop()
    over = False

    def look_again() -> None:
        if not over:
            loop.call_soon(look_again)

    look_again()
    try:
        yield
    finally:
        over = True
