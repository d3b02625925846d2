"""The cooperative budget: when a task lets the event loop run everything else, and how, without
knowing the loop.

A task that never has to wait would keep the loop to itself, so a writer and a reader each spend a
budget of work between two yields (Tokio's cooperative scheduling).

A writer's work is counted where a record needs another builder, so that one that fits pays nothing
for it. To go on in a builder behind what a reader has taken is no work: there is at most one for
each channel until the loop turns. (Over a thousand channels that are flushed with every turn, a
turn after a few of them leaves one record to each buffer, and so there are as many for the next
one: with a buffer timeout of 0, 0.36 million records went through in a second in place of 14.)

With n channels the next builder may be needed after n buffers of records only: over a thousand of
them nothing else would run for 0.2 s, and the consumer have nothing to read for as long. So a
writer that chooses among channels lets the loop turn after so many records, too. It is a share of a
buffer for each channel because what is flushed then costs a buffer for each: over a thousand, with
half as many, a buffer timeout of 1 ms is kept more nearly, and a tenth less goes through.
"""

from __future__ import annotations

from collections.abc import Generator
from types import coroutine

__all__ = ["CooperativeBudget", "records_between_turns", "yield_to_loop"]

_RECORDS_MAX = 4_096
"""That fit open builders, between two turns of the loop: 0.4 ms where flinknet is compiled."""

_CHANNEL_RECORDS_MAX = 512
"""The same, for each of many channels: 50 ms with a thousand."""

_BUFFER_RECORDS = 64
"""A buffer costs about as much as so many records, whatever is in it."""

_BUDGET_RECORDS = 300
"""About 100 microseconds; a turn of the loop takes five to ten, and what it sends (data here,
credit there) is sent in one piece. That is one full buffer of small records, or about four of large
ones, or to read four that were flushed with next to nothing in them."""


class CooperativeBudget:
    """What a writer or a reader may do before it lets the loop turn."""

    __slots__ = ("_spent",)

    def __init__(self) -> None:
        self._spent = 0

    def spend(self, buffers: int, records: int) -> bool:
        """Spend so many more buffers and records; return whether that exhausts the budget, which is
        whole again then."""
        self._spent += buffers * _BUFFER_RECORDS + records
        if self._spent < _BUDGET_RECORDS:
            return False
        self._spent = 0
        return True


def records_between_turns(channels: int) -> int:
    """Return after how many records that fit their builders a writer lets the loop turn."""
    return max(_RECORDS_MAX, _CHANNEL_RECORDS_MAX * channels)


@coroutine
def yield_to_loop() -> Generator[None, None, None]:
    """Let the event loop run everything else once; any asyncio loop takes a bare yield so."""
    yield
