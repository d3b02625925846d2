"""Listening: one connection is accepted in a turn of the event loop, while many may wait for it.

asyncio takes the backlog that it is told for both numbers. If the process has no file left for the
first connection that waits, it logs that, and pauses, as often as it would have accepted: a
thousand lines at a time, and a thousand pauses that end together, each with as many lines. So it is
told one, and the operating system is told more.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from flinknet import machine

__all__ = ["ACCEPTS_PER_TURN", "deepen_backlog"]

ACCEPTS_PER_TURN = 1
"""What an event loop is to be told as backlog."""

_BACKLOG = 1024
"""Connections that may wait to be accepted: as many as a worker may have."""


class _Listening(Protocol):
    def fileno(self) -> int: ...


def deepen_backlog(sockets: Iterable[_Listening]) -> None:
    """Let more connections wait than are accepted in a turn; for sockets that listen already."""
    for listening in sockets:
        with machine.open_again(listening) as same:
            same.listen(_BACKLOG)
