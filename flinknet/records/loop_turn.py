"""When a task lets the event loop run everything else, and how, without knowing the loop."""

from __future__ import annotations

from collections.abc import Generator
from types import coroutine

__all__ = ["LoopTurn", "yield_to_loop"]

_LARGE_RECORD_BYTES = 512
_BUFFERS_PER_TURN = 4


class LoopTurn:
    """Tells a writer when to let the loop turn: after each buffer, or after four if records are
    large.

    A buffer of small records took long enough to fill; one of large records costs less than a turn
    of the loop does.
    """

    __slots__ = ("_opened_before",)

    def __init__(self) -> None:
        self._opened_before = 0

    def is_over(self, buffers_opened: int, record_bytes: int) -> bool:
        """Whether to let the loop turn, after a record that needed a new buffer."""
        opened = buffers_opened - self._opened_before
        if record_bytes >= _LARGE_RECORD_BYTES and opened < _BUFFERS_PER_TURN:
            return False
        self._opened_before = buffers_opened
        return True


@coroutine
def yield_to_loop() -> Generator[None, None, None]:
    """Let the event loop run everything else once; any asyncio loop takes a bare yield so."""
    yield
