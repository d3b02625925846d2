"""One end of a system in its process, which is told round by round what to do.

Theory of operation. A side opens its end of the system, then plays rounds: it waits for a round,
lets the system send or receive all of it, and reports. Both sides are told to begin at the same
time. The producer looks at its clock after every block. A round lasts until its time is over and
everything sent has arrived. Every run thus takes as long at any speed of the system, and the
loops of the systems contain no clock. The clocks are read only before the first and after the last
record of a round: wall time, and user plus system CPU time of the whole process.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from time import perf_counter
from typing import Any, NamedTuple, Protocol

from bench.harness.case import Block, Case, Tally, Weigh, fingerprint
from bench.harness.process import Clocks, Pipe
from bench.harness.system import Contestant, Feed, Observing

__all__ = ["BlockFeed", "CountedFeed", "Opened", "Report", "Round", "Stretch", "consume", "produce"]


class CountedFeed(Feed, Protocol):
    """Blocks with their total count and checksum."""

    def tally(self) -> Tally:
        """Return the tally that the consumer should have once all blocks are sent."""


class Stretch(Protocol):
    """A stretch that both sides play; the objects that it makes for them may be ``Observing``."""

    @property
    def length_s(self) -> float:
        """The duration for a system that keeps up."""

    def feed(self, case: Case, block: Block) -> CountedFeed:
        """Return the feed of the producer."""

    def weigh(self, case: Case) -> Weigh:
        """Return the weigher of the consumer."""


class Round(NamedTuple):
    """One stretch of records: for some seconds, or one block with every field checked."""

    seconds: float | None

    @property
    def length_s(self) -> float:
        """The seconds of the round; one block takes next to none."""
        return self.seconds or 0.0

    def feed(self, case: Case, block: Block) -> BlockFeed:
        """Return a feed that repeats the block."""
        return BlockFeed(block, self.seconds, self.weigh(case))

    def weigh(self, case: Case) -> Weigh:
        """Return the weigher of both sides."""
        return fingerprint if self.seconds is None else case.weigh


class Opened(NamedTuple):
    """Sent when an end is open; a consumer finds the producer at this address."""

    address: str


class Report(NamedTuple):
    """A side's results of a round, and its observations since it was opened."""

    tally: Tally
    time: Clocks
    observations: Mapping[str, Any]


async def produce(contestant: Contestant, case: Case, pipe: Pipe) -> None:
    """Play the producer until told to close."""
    block = case.make_block()
    async with contestant.system.open_producer(case, contestant.variant) as producer:
        pipe.send(Opened(producer.address))
        async for round_ in _rounds(pipe):
            feed = round_.feed(case, block)
            begun = Clocks.read()
            await producer.produce(feed)
            time = Clocks.read() - begun
            pipe.send(Report(feed.tally(), time, _observations(producer, feed)))


async def consume(contestant: Contestant, case: Case, pipe: Pipe) -> None:
    """Play the consumer until told to close."""
    address = await pipe.receive()
    async with contestant.system.open_consumer(case, contestant.variant, address) as consumer:
        pipe.send(Opened(address))
        async for round_ in _rounds(pipe):
            weigh = round_.weigh(case)
            begun = Clocks.read()
            tally = await consumer.consume(weigh)
            time = Clocks.read() - begun
            pipe.send(Report(tally, time, _observations(consumer, weigh)))


async def _rounds(pipe: Pipe) -> AsyncIterator[Stretch]:
    """Yield each round from the parent until it sends None."""
    round_: Any
    while (round_ := await pipe.receive()) is not None:
        yield round_


def _observations(*observers: object) -> Mapping[str, Any]:
    observed: dict[str, Any] = {}
    for observer in observers:
        if isinstance(observer, Observing):
            observed |= observer.observations()
    return observed


class BlockFeed:
    """Yields the same block until the time is over, at least once, and counts."""

    def __init__(self, block: Block, seconds: float | None, weigh: Weigh) -> None:
        self._blocks = 0
        self._block = block
        self._seconds = 0.0 if seconds is None else seconds
        # Computed now and not at the end: the checksum of a million records blocks an event loop.
        self._checksum = sum(map(weigh, block))

    def __iter__(self) -> Iterator[Block]:
        end = perf_counter() + self._seconds
        while True:
            self._blocks += 1
            yield self._block
            if perf_counter() >= end:
                return

    async def __aiter__(self) -> AsyncIterator[Block]:
        for block in self:
            yield block

    def tally(self) -> Tally:
        """Return the count and checksum of the yielded records."""
        return Tally(self._blocks * len(self._block), self._blocks * self._checksum)
