"""One end of a system, in its process: pinned, and told round by round what to do.

Theory of operation. A side opens its end of the system, then plays rounds: it waits for the next
one, lets the system send or receive all of it, and reports. Both sides are told to begin at the
same time. A round lasts until the producer's clock says so (it looks after every block) and what
was sent has arrived; so every run takes as long, whatever the system's speed, and the systems' own
loops hold no clock. Clocks are read before the first and after the last record of a round, never in
between: seconds on the wall, and user plus system CPU seconds of the whole process.
"""

from __future__ import annotations

import asyncio
import signal
import traceback
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from time import perf_counter, process_time
from typing import Any, NamedTuple

import uvloop

from bench.harness.case import Block, Case, Tally, Weigh, fingerprint
from bench.harness.pinning import pin
from bench.harness.system import Contestant

__all__ = ["Assignment", "Closed", "Opened", "Report", "Round", "SideFailure", "run_side"]


@dataclass(frozen=True, slots=True)
class Assignment:
    """What a process is to be."""

    producing: bool
    contestant: Contestant
    case: Case
    cpu: int | None

    @property
    def role(self) -> str:
        """Name of the side."""
        return "producer" if self.producing else "consumer"


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
    """What a side has done in a round."""

    tally: Tally
    seconds: float
    cpu_seconds: float


class Closed(NamedTuple):
    """The end has been closed without complaint."""


class SideFailure(NamedTuple):
    """The process has failed."""

    traceback: str


def run_side(assignment: Assignment, pipe: Connection) -> None:
    """Be one side until told to close; the target of a process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's, which ends both sides
    pin(assignment.cpu)
    play = _produce if assignment.producing else _consume
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(play(assignment, pipe))
        pipe.send(Closed())
    except EOFError:
        pass  # the parent is gone
    except Exception as error:
        pipe.send(SideFailure("".join(traceback.format_exception(error))))


async def _produce(assignment: Assignment, pipe: Connection) -> None:
    case, contestant = assignment.case, assignment.contestant
    block = case.make_block()
    async with contestant.system.open_producer(case, contestant.variant) as producer:
        pipe.send(Opened(producer.address))
        async for round_ in _rounds(pipe):
            feed = _BlockFeed(block, round_.seconds)
            begun = _Clocks.read()
            await producer.produce(feed)
            ended = _Clocks.read()
            checksum = feed.blocks * sum(map(round_.weigh(case), block))
            pipe.send(_report(Tally(feed.blocks * len(block), checksum), begun, ended))


async def _consume(assignment: Assignment, pipe: Connection) -> None:
    case, contestant = assignment.case, assignment.contestant
    address = await asyncio.to_thread(pipe.recv)
    async with contestant.system.open_consumer(case, contestant.variant, address) as consumer:
        pipe.send(Opened(address))
        async for round_ in _rounds(pipe):
            weigh = round_.weigh(case)
            begun = _Clocks.read()
            tally = await consumer.consume(weigh)
            ended = _Clocks.read()
            pipe.send(_report(tally, begun, ended))


async def _rounds(pipe: Connection) -> AsyncIterator[Round]:
    """Wait for each round while the event loop goes on; None ends them."""
    round_: Any
    while (round_ := await asyncio.to_thread(pipe.recv)) is not None:
        yield round_


class _BlockFeed:
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


class _Clocks(NamedTuple):
    wall: float
    cpu: float

    @classmethod
    def read(cls) -> _Clocks:
        return cls(perf_counter(), process_time())


def _report(tally: Tally, begun: _Clocks, ended: _Clocks) -> Report:
    return Report(tally, ended.wall - begun.wall, ended.cpu - begun.cpu)
