"""The cooperative budget: tells a task when to yield to the event loop, and yields.

A task that never has to wait would keep the loop to itself. A writer and a reader therefore each
spend a budget of work between two yields (Tokio's cooperative scheduling). The module needs no
reference to the loop.

A writer's work is counted when a record needs another builder, so a record that fits costs no
counting. Resuming a builder after a reader has taken from it is not counted as work: it happens at
most once per channel until the loop turns. If it counted, a writer over a thousand channels that
are flushed in every turn would yield after a few of them, with one record in each buffer. With a
buffer timeout of 0, that lowered throughput from 14 to 0.36 million records a second.
"""

from __future__ import annotations

from collections.abc import Generator
from types import coroutine

__all__ = ["CooperativeBudget", "records_between_turns", "yield_to_loop"]

_RECORDS_MAX = 4_096
"""Records that fit open builders, between two turns of the loop: 0.4 ms if flinknet is compiled."""

_CHANNEL_RECORDS_MAX = 512
"""The same limit per channel, for many channels: 50 ms with a thousand.

With n channels the next builder may be needed only after n buffers of records. With a thousand,
nothing else would run for 0.2 s, and the consumer would have nothing to read. A writer that chooses
among channels therefore also yields after a number of records. The number grows with the channels
because each flush afterwards costs a buffer per channel. With half as many records over a thousand
channels, a buffer timeout of 1 ms is kept more closely, and throughput is a tenth lower.
"""

_BUFFER_RECORDS = 64
"""Records that cost about as much as one buffer, independent of the buffer's content."""

_BUDGET_RECORDS = 300
"""Work between two turns: about 100 microseconds.

A turn of the loop takes 5 to 10 microseconds, and sends the data or credit of the whole interval in
one piece. The budget covers one full buffer of small records, about four buffers of large ones, or
the reading of four buffers that were flushed nearly empty.
"""


class CooperativeBudget:
    """Work that a writer or a reader may do before it yields to the loop."""

    __slots__ = ("_spent",)

    def __init__(self) -> None:
        self._spent = 0

    def spend(self, buffers: int, records: int) -> bool:
        """Spend a number of buffers and records; return whether the budget is exhausted.

        An exhausted budget is restored at once.
        """
        self._spent += buffers * _BUFFER_RECORDS + records
        if self._spent < _BUDGET_RECORDS:
            return False
        self._spent = 0
        return True


def records_between_turns(channels: int) -> int:
    """Return after how many records that fit their builders a writer yields to the loop."""
    return max(_RECORDS_MAX, _CHANNEL_RECORDS_MAX * channels)


@coroutine
def yield_to_loop() -> Generator[None, None, None]:
    """Yield to the event loop once; every asyncio loop accepts a bare yield."""
    yield
