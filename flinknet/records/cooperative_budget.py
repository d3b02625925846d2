"""The cooperative budget: when a task lets the event loop run everything else, and how, without
knowing the loop.

A task that never has to wait would keep the loop to itself, so a writer and a reader each spend a
budget of work between two yields (Tokio's cooperative scheduling).

A writer's work is counted where a record does not fit the open builder, and nowhere else, so that
one that fits pays nothing for it. One that deals its records out to many channels therefore goes on
until a builder is full, or taken from, and with n channels that may be n buffers of records. Who
awaits nothing but its writers lets the loop turn now and then by itself, as a job's source does
after each batch.
"""

from __future__ import annotations

from collections.abc import Generator
from types import coroutine

__all__ = ["CooperativeBudget", "yield_to_loop"]

_BUFFER_RECORDS = 64
"""A buffer costs about as much as so many records, whatever is in it."""

_BUDGET_RECORDS = 300
"""About 100 microseconds; a turn of the loop takes five to ten, and what it sends (data here,
credit there) is sent in one piece. That is one full buffer of small records, or about four of large
ones, or four that were flushed with next to nothing in them."""


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


@coroutine
def yield_to_loop() -> Generator[None, None, None]:
    """Let the event loop run everything else once; any asyncio loop takes a bare yield so."""
    yield
