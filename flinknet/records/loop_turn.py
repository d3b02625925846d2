"""When a task lets the event loop run everything else, and how, without knowing the loop."""

from __future__ import annotations

from collections.abc import Generator
from types import coroutine

__all__ = ["LoopTurn", "yield_to_loop"]

_LARGE_RECORD_BYTES = 512
_BUFFERS_PER_TURN = 4


class LoopTurn:
    """Tells a writer or a reader when to let the loop turn: after each buffer, or after four if
    records are large.

    A buffer of small records took long enough; one of large records costs less than a turn of the
    loop does, and what a turn sends (data here, credit there) is sent in one piece.
    """

    __slots__ = ("_buffers_before",)

    def __init__(self) -> None:
        self._buffers_before = 0

    def is_over(self, buffers: int, record_bytes: float) -> bool:
        """Whether to let the loop turn, ``buffers`` having been opened or read so far; to be asked
        when there is one more, with the size of a record in it."""
        since = buffers - self._buffers_before
        if record_bytes >= _LARGE_RECORD_BYTES and since < _BUFFERS_PER_TURN:
            return False
        self._buffers_before = buffers
        return True


@coroutine
def yield_to_loop() -> Generator[None, None, None]:
    """Let the event loop run everything else once; any asyncio loop takes a bare yield so."""
    yield
