"""A system that can send a record back and forth."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Protocol

__all__ = ["BUSY_POLL", "Echo", "Ping", "PingPongSystem"]

BUSY_POLL = "busy-poll"
"""The variant with event loops that do not sleep while a record may arrive."""


class Echo(Protocol):
    """The end that sends every record back. It listens, and the other end connects to it."""

    @property
    def address(self) -> str:
        """The address of this end."""

    async def serve(self, ping_address: str) -> None:
        """Send records back until the other end, which is at ``ping_address``, has closed."""


class Ping(Protocol):
    """The end that measures."""

    @property
    def address(self) -> str:
        """The address of this end if the echo has to connect as well; else empty."""

    async def round_trip(self, record: Any) -> Any:
        """Send a record and return it as it comes back."""


@dataclass(frozen=True, slots=True)
class PingPongSystem:
    """A ping-pong system; each end is opened in its own process, on a uvloop event loop.

    Both functions are module-level ones, because they are pickled to processes. ``open_ping`` gets
    the echo's address.
    """

    name: str
    version: Callable[[], str]
    parameters: Mapping[str, Any]
    open_echo: Callable[[], AbstractAsyncContextManager[Echo]]
    open_ping: Callable[[str], AbstractAsyncContextManager[Ping]]
    variant: str = "record"
