"""Turns: how much of a reading an event loop makes before others have their turn.

Theory of operation. What is read of a worker goes down to each channel, subpartition and reader, of
which one gate, partition or connection alone may have tens of thousands. So a reading is a
generator: it takes what there is of them in ``parts``, sums each part up, and yields after it.
Whoever drives it lets the event loop turn as soon as this turn has read as many as it may, or has
lasted for as long as it may, whatever the shape of what is read. One that has no event loop to
think of goes through it ``at_once``.

A list that is read in parts must keep its length meanwhile; what stands in a place may be replaced
by another one, of which its next part is then read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import TypeAlias, TypeVar

from flinknet.config import MetricsConfig
from flinknet.machine import perf_counter

__all__ = ["Reading", "Turns", "one_by_one"]

T = TypeVar("T")

Reading: TypeAlias = Generator[None, None, T]
"""Yields wherever others may have a turn, and returns what was read."""


def one_by_one(readings: Iterable[Reading[T]]) -> Reading[tuple[T, ...]]:
    """Several readings as one."""
    results: list[T] = []
    for reading in readings:
        results += [(yield from reading)]
    return tuple(results)


class Turns:
    """Bounds each turn of what is read with it, by ``clock``, in seconds, and by count."""

    def __init__(
        self, config: MetricsConfig | None = None, clock: Callable[[], float] = perf_counter
    ) -> None:
        config = config or MetricsConfig()
        self._channels_max = config.turn_channels
        self._longest_s = config.turn_ms / 1000
        self._clock = clock
        self.begin()

    def begin(self) -> None:
        """Another turn begins."""
        self._channels_left = self._channels_max
        self._began = self._clock()

    @property
    def is_over(self) -> bool:
        """Whether others should have a turn now."""
        return not self._channels_left or self._clock() - self._began >= self._longest_s

    def parts(self, entries: Sequence[T]) -> Iterator[Sequence[T]]:
        """Everything once, in parts that fit in what is left of a turn; yield after each."""
        first = 0
        while first < len(entries):
            part = entries[first : first + self._channels_left]
            first += len(part)
            self._channels_left -= len(part)
            yield part

    async def rest(self) -> None:
        """Let the event loop turn, and begin another turn."""
        await asyncio.sleep(0)
        self.begin()

    async def go_through(self, reading: Reading[T]) -> T:
        """Make a reading, over as many turns as it takes."""
        while True:
            try:
                next(reading)
            except StopIteration as end:
                result: T = end.value
                return result
            if self.is_over:
                await self.rest()

    def at_once(self, reading: Reading[T]) -> T:
        """Make a reading in one turn, however long that takes."""
        while True:
            try:
                next(reading)
            except StopIteration as end:
                result: T = end.value
                return result
            self.begin()
