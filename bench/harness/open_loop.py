"""Latency under an open-loop load, which does not wait for the system, with intended send times.

Theory of operation. The send time of every record is fixed before anything is sent: a number of
records in each tick of 0.2 ms, all at its beginning. Every record carries its intended time. Its
latency is the time of arrival at the consumer minus that time; both processes share the machine's
monotonic clock. A producer that is held up sends overdue records as soon as it can. These still
carry their intended times, so their latencies include the wait: no coordinated omission. The
warm-up is the beginning of the same stretch, and its records are not counted.

Without a rate, the producer sends records as fast as it can, each with the time at which it was
made. This measures the maximum rate, with the same work per record. A load is a share of it.
"""

from __future__ import annotations

from array import array
from collections.abc import AsyncIterator, Iterator, Mapping
from time import monotonic_ns
from typing import Any, NamedTuple, Protocol

from bench.harness.alarm import Alarm
from bench.harness.case import Block, Case, Tally
from bench.harness.percentiles import percentiles_us
from bench.harness.pinning import Pinning
from bench.harness.side import Round
from bench.harness.system import Contestant
from bench.harness.trial import Plan, TimedMeasurement, open_ends

__all__ = [
    "LEAD_NS",
    "TICK_NS",
    "ArrivalTimes",
    "Bursts",
    "Load",
    "StampedFeed",
    "load_parameters",
    "measure_load",
]

TICK_NS = 200_000
"""Length of a tick: short beside the relevant latencies, long beside the 25 µs CPU of a wake-up."""

BURST = 256
"""Records made at a time at the maximum rate; few beside the records of any second."""

LEAD_NS = 20_000_000
"""Time for both sides to get ready."""


class Load(NamedTuple):
    """A stretch of records with intended times, in nanoseconds of the monotonic clock.

    ``records_per_s`` is None for the maximum rate. The warm-up is from ``begin_ns`` to
    ``since_ns``.
    """

    begin_ns: int
    since_ns: int
    end_ns: int
    records_per_s: float | None

    @classmethod
    def soon(cls, records_per_s: float | None, plan: Plan) -> Load:
        """Return a load that begins as soon as both sides can be ready."""
        begin_ns = monotonic_ns() + LEAD_NS
        since_ns = begin_ns + round(plan.warm_up_s * 1e9)
        return cls(begin_ns, since_ns, since_ns + round(plan.seconds * 1e9), records_per_s)

    @property
    def length_s(self) -> float:
        """The duration for a system that keeps up."""
        return (self.end_ns - self.begin_ns + LEAD_NS) / 1e9

    def feed(self, case: Case, block: Block) -> StampedFeed:
        """Return the feed of the producer."""
        return StampedFeed(self, block)

    def weigh(self, case: Case) -> ArrivalTimes:
        """Return a weigher that records the arrival time of every record."""
        return ArrivalTimes(self.since_ns)

    def bursts(self, most: int) -> Iterator[tuple[int, int]]:
        """Yield the send time and the size of each burst, at most ``most`` records at a time.

        A system that lags by the length of the whole stretch is given up: nothing more is sent once
        there is something to measure.
        """
        if self.records_per_s is None:
            while (now_ns := monotonic_ns()) < self.end_ns:
                yield now_ns, min(BURST, most)
            return
        given_up_ns = 2 * self.end_ns - self.begin_ns
        due, measuring = 0, False
        for at_ns in range(self.begin_ns, self.end_ns, TICK_NS):
            if measuring and monotonic_ns() > given_up_ns:
                return
            sent = due
            due = int((at_ns + TICK_NS - self.begin_ns) * self.records_per_s / 1e9)
            while sent < due:
                count = min(due - sent, most)
                yield at_ns, count
                sent += count
                measuring = at_ns >= self.since_ns


class Bursts(Protocol):
    """The bursts to send, and the end of the warm-up."""

    @property
    def since_ns(self) -> int:
        """The end of the warm-up."""

    def bursts(self, most: int) -> Iterator[tuple[int, int]]:
        """Yield the send time and the size of each burst, at most ``most`` records at a time."""


class StampedFeed:
    """Yields the records of a load when they are due, and counts them.

    The records are the triples of the block with the intended time as their second value. Observes
    the lateness of the records, which is the load generator's own part of the latencies.
    """

    def __init__(self, load: Bursts, block: Block) -> None:
        self._load = load
        self._length = len(block)
        # Twice the block, so that a slice of up to one block may cross its end.
        self._rest = [(key, weight) for key, _, weight in block] * 2
        self._next = 0
        self._records = self._checksum = 0
        self._late_ns = array("q")

    def __iter__(self) -> Iterator[Block]:
        with Alarm() as alarm:
            for at_ns, count in self._load.bursts(self._length):
                alarm.block_until(at_ns)
                yield self._stamp(at_ns, count)

    async def __aiter__(self) -> AsyncIterator[Block]:
        with Alarm() as alarm:
            for at_ns, count in self._load.bursts(self._length):
                await alarm.wait_until(at_ns)
                yield self._stamp(at_ns, count)

    def _stamp(self, at_ns: int, count: int) -> Block:
        if at_ns >= self._load.since_ns:
            self._late_ns.append(monotonic_ns() - at_ns)
        first, last = self._next, self._next + count
        self._next = last % self._length
        self._records += count
        self._checksum += count * at_ns
        return [(key, at_ns, weight) for key, weight in self._rest[first:last]]

    def tally(self) -> Tally:
        """Return the count and checksum of the yielded records."""
        return Tally(self._records, self._checksum)

    def observations(self) -> Mapping[str, Any]:
        """Return the percentiles of the lateness."""
        return {"handed_out_late_us": percentiles_us(self._late_ns)}


class ArrivalTimes:
    """Records the arrival time of every record at the consumer."""

    def __init__(self, since_ns: int) -> None:
        self._since_ns = self._last_ns = since_ns
        self._latencies_ns = array("q")
        # Bound once, because it runs for every record.
        self._add = self._latencies_ns.append

    def __call__(self, record: Any) -> int:
        """Return the intended time of a record as its weight."""
        sent_ns: int = record[1]
        if sent_ns >= self._since_ns:
            self._last_ns = now_ns = monotonic_ns()
            self._add(now_ns - sent_ns)
        return sent_ns

    def observations(self) -> Mapping[str, Any]:
        """Return the results from the end of the warm-up to the last record."""
        return {
            "measured_s": (self._last_ns - self._since_ns) / 1e9,
            "measured_records": len(self._latencies_ns),
            "latency_us": percentiles_us(self._latencies_ns),
        }


def load_parameters(load_records_per_s: float, came_through_per_s: float) -> dict[str, float]:
    """Return a row's parameters of its load; ``kept`` is the share that came through in time."""
    return {
        "load_records_per_s": round(load_records_per_s, 1),
        "kept": round(came_through_per_s / load_records_per_s, 4),
    }


def measure_load(
    contestant: Contestant,
    records_per_s: float | None,
    case: Case,
    plan: Plan,
    pinning: Pinning,
) -> TimedMeasurement:
    """Run a system once: a block with every field checked, then the load.

    The CPU seconds are the measured records' share of the whole stretch. Raises BenchError if a
    side fails or does not answer.
    """
    with open_ends(contestant, case, pinning) as play:
        checks = [play(Round(None)), play(Load.soon(records_per_s, plan))]
    sent, received = checks[-1]
    observed = {**sent.observations, **received.observations}
    records = observed.pop("measured_records")
    share = records / received.tally.records
    return TimedMeasurement(
        records,
        observed.pop("measured_s"),
        sent.time.cpu * share,
        received.time.cpu * share,
        all(sent.tally == received.tally for sent, received in checks),
        latency_us=observed.pop("latency_us"),
        observations=observed,
    )
