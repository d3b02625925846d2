"""Listening: accepts one connection per turn of the event loop, while many may wait.

asyncio uses its backlog argument for both numbers. If the process has no file descriptor left for
the first waiting connection, asyncio logs an error and pauses, as often as it would have accepted:
a thousand lines, and a thousand pauses that end together, each with as many lines again. asyncio
therefore gets a backlog of one, and the operating system a larger one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from flinknet import machine

__all__ = ["ACCEPTS_PER_TURN", "deepen_backlog"]

ACCEPTS_PER_TURN = 1
"""Backlog argument for an event loop."""

_BACKLOG = 1024
"""Connections that may wait to be accepted: the default of ``accepted_connections_max``."""


class _Listening(Protocol):
    def fileno(self) -> int: ...


def deepen_backlog(sockets: Iterable[_Listening]) -> None:
    """Raise the operating system's backlog of sockets that already listen."""
    for listening in sockets:
        with machine.open_again(listening) as same:
            same.listen(_BACKLOG)
