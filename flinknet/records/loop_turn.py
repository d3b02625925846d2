"""When a task lets the event loop run everything else, and how, without knowing the loop."""

from __future__ import annotations

from collections.abc import Generator
from types import coroutine

__all__ = ["LoopTurn", "yield_to_loop"]

_BUFFER_RECORDS = 64
"""A buffer costs about as much as so many records, whatever is in it."""

_TURN_RECORDS = 300
"""About 100 microseconds; a turn of the loop takes five to ten, and what it sends (data here,
credit there) is sent in one piece. That is one full buffer of small records, or about four of large
ones, or four that were flushed with next to nothing in them."""


class LoopTurn:
    """Tells a writer or a reader when to let the loop turn, by the work since the last time."""

    __slots__ = ("_work",)

    def __init__(self) -> None:
        self._work = 0

    def is_over(self, buffers: int, records: int) -> bool:
        """Whether to let the loop turn, so many more buffers and records having been written or
        read."""
        self._work += buffers * _BUFFER_RECORDS + records
        if self._work < _TURN_RECORDS:
            return False
        self._work = 0
        return True


@coroutine
def yield_to_loop() -> Generator[None, None, None]:
    """Let the event loop run everything else once; any asyncio loop takes a bare yield so."""
    yield
