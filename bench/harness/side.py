"""One end of a system, in its process: told round by round what to do.

Theory of operation. A side opens its end of the system, then plays rounds: it waits for the next
one, lets the system send or receive all of it, and reports. Both sides are told to begin at the
same time. A round lasts until the producer's clock says so (it looks after every block) and what
was sent has arrived; so every run takes as long, whatever the system's speed, and the systems' own
loops hold no clock. Clocks are read before the first and after the last record of a round, never in
between: seconds on the wall, and user plus system CPU seconds of the whole process.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from time import perf_counter
from typing import Any, NamedTuple

from bench.harness.case import Block, Case, Tally, Weigh, fingerprint
from bench.harness.process import Clocks, Pipe
from bench.harness.system import Contestant, Observing

__all__ = ["BlockFeed", "Opened", "Report", "Round", "consume", "produce"]


class Round(NamedTuple):
    """One stretch of records: for some seconds, or one block of which every field is checked."""

    seconds: float | None

    def weigh(self, case: Case) -> Weigh:
        """Return what both sides add up."""
        return fingerprint if self.seconds is None else case.weigh


class Opened(NamedTuple):
    """The end is open; a consumer finds the producer at this address."""

    address: str


class Report(NamedTuple):
    """What a side has done in a round, and what it has observed since it was opened."""

    tally: Tally
    time: Clocks
    observations: Mapping[str, Any]


async def produce(contestant: Contestant, case: Case, pipe: Pipe) -> None:
    """Be the producer until told to close."""
    block = case.make_block()
    async with contestant.system.open_producer(case, contestant.variant) as producer:
        pipe.send(Opened(producer.address))
        async for round_ in _rounds(pipe):
            feed = BlockFeed(block, round_.seconds)
            begun = Clocks.read()
            await producer.produce(feed)
            time = Clocks.read() - begun
            checksum = feed.blocks * sum(map(round_.weigh(case), block))
            tally = Tally(feed.blocks * len(block), checksum)
            pipe.send(Report(tally, time, _observations(producer)))


async def consume(contestant: Contestant, case: Case, pipe: Pipe) -> None:
    """Be the consumer until told to close."""
    address = await pipe.receive()
    async with contestant.system.open_consumer(case, contestant.variant, address) as consumer:
        pipe.send(Opened(address))
        async for round_ in _rounds(pipe):
            weigh = round_.weigh(case)
            begun = Clocks.read()
            tally = await consumer.consume(weigh)
            time = Clocks.read() - begun
            pipe.send(Report(tally, time, _observations(consumer)))


async def _rounds(pipe: Pipe) -> AsyncIterator[Round]:
    """Wait for each round; None ends them."""
    round_: Any
    while (round_ := await pipe.receive()) is not None:
        yield round_


def _observations(end: object) -> Mapping[str, Any]:
    return end.observations() if isinstance(end, Observing) else {}


class BlockFeed:
    """Hands out the same block until the time is over, at least once, and counts."""

    def __init__(self, block: Block, seconds: float | None) -> None:
        self.blocks = 0
        self._block = block
        self._seconds = 0.0 if seconds is None else seconds

    def __iter__(self) -> Iterator[Block]:
        end = perf_counter() + self._seconds
        while True:
            self.blocks += 1
            yield self._block
            if perf_counter() >= end:
                return
