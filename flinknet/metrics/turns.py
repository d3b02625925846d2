"""Bounded reading of statistics, so that the event loop can run other tasks in between.

Statistics of a worker include each channel, subpartition and reader, and one gate, partition or
connection may have tens of thousands of these. A reading is therefore a generator. It divides its
entries into ``parts``, sums each part, and yields after it. Its driver lets the event loop run
other tasks when the present turn has read the maximum number of entries or reached the maximum
duration. A caller without an event loop completes the reading ``at_once``.

A list that is read in parts must keep its length in the meantime. An entry may be replaced by
another one; the reading then continues with the new one.
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
"""A generator that yields where other tasks may run, and returns the result."""


def one_by_one(readings: Iterable[Reading[T]]) -> Reading[tuple[T, ...]]:
    """Combine several readings into one."""
    results: list[T] = []
    for reading in readings:
        results += [(yield from reading)]
    return tuple(results)


class Turns:
    """Bounds each turn of a reading by duration, with a ``clock`` in seconds, and by count."""

    def __init__(
        self, config: MetricsConfig | None = None, clock: Callable[[], float] = perf_counter
    ) -> None:
        config = config or MetricsConfig()
        self._channels_max = config.turn_channels
        self._longest_s = config.turn_ms / 1000
        self._clock = clock
        self.begin()

    def begin(self) -> None:
        """Begin a new turn."""
        self._channels_left = self._channels_max
        self._began = self._clock()

    @property
    def is_over(self) -> bool:
        """Whether other tasks should run now."""
        return not self._channels_left or self._clock() - self._began >= self._longest_s

    def parts(self, entries: Sequence[T]) -> Iterator[Sequence[T]]:
        """Iterate over all entries, in parts that fit into the present turn.

        The caller must yield after each part.
        """
        first = 0
        while first < len(entries):
            part = entries[first : first + self._channels_left]
            first += len(part)
            self._channels_left -= len(part)
            yield part

    async def rest(self) -> None:
        """Let the event loop run other tasks, then begin a new turn."""
        await asyncio.sleep(0)
        self.begin()

    async def go_through(self, reading: Reading[T]) -> T:
        """Complete a reading over as many turns as needed."""
        while True:
            try:
                next(reading)
            except StopIteration as end:
                result: T = end.value
                return result
            if self.is_over:
                await self.rest()

    def at_once(self, reading: Reading[T]) -> T:
        """Complete a reading without a pause."""
        while True:
            try:
                next(reading)
            except StopIteration as end:
                result: T = end.value
                return result
            # Without a new turn, parts would be empty from here on.
            self.begin()
