"""A load that rises during the run, step by step, from a trickle to more than the system can carry.

Theory of operation. The load is open-loop, as every load with intended times (``open_loop.py``).
All steps have the same length, and each has a constant number of records per second, larger than in
the step before by the same factor. A record belongs to the step of its intended time, so latencies
count for that step, even if the record arrives later. The arrival rate of a step counts the records
that arrive during the step, even if they were meant for an earlier one. The warm-up is an
additional first step before the load.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping
from time import monotonic_ns
from typing import Any, NamedTuple

from bench.harness.case import Block, Case
from bench.harness.open_loop import LEAD_NS, TICK_NS, StampedFeed
from bench.harness.percentiles import percentiles_us
from bench.harness.pinning import Pinning
from bench.harness.side import Round
from bench.harness.system import Contestant
from bench.harness.trial import Plan, TimedMeasurement, open_ends

__all__ = ["STEPS", "RisingLoad", "Step", "StepTimes", "measure_rising"]

STEPS = tuple(round(1e3 * 10 ** (step / 3)) for step in range(12))
"""Records per second of each step: three per factor of ten, from a thousand to five million."""

LENGTH_SHARE = 0.5
"""Length of a step as a share of the plan's seconds: at least a thousand records."""


class Step(NamedTuple):
    """The results of a step; the latencies are in microseconds."""

    offered_per_s: int
    came_through_per_s: float
    p50: float
    p99: float


class RisingLoad(NamedTuple):
    """Steps of ``step_ns`` nanoseconds each, from ``since_ns`` of the monotonic clock on."""

    since_ns: int
    step_ns: int
    warm_up_ns: int
    steps: tuple[int, ...] = STEPS

    @classmethod
    def soon(cls, plan: Plan) -> RisingLoad:
        """Return a load that begins as soon as both sides can be ready."""
        warm_up_ns = round(plan.warm_up_s * 1e9)
        since_ns = monotonic_ns() + LEAD_NS + warm_up_ns
        return cls(since_ns, round(plan.seconds * LENGTH_SHARE * 1e9), warm_up_ns)

    @property
    def length_s(self) -> float:
        """The duration for a system that keeps up, doubled to allow for one that does not."""
        return 2 * (self.warm_up_ns + len(self.steps) * self.step_ns) / 1e9

    def feed(self, case: Case, block: Block) -> StampedFeed:
        """Return the feed of the producer."""
        return StampedFeed(self, block)

    def weigh(self, case: Case) -> StepTimes:
        """Return a weigher that records the arrival time of every record."""
        return StepTimes(self)

    def bursts(self, most: int) -> Iterator[tuple[int, int]]:
        """Yield the send time and the size of each burst, up to ``most`` records; see ``Load``."""
        begin_ns = self.since_ns - self.warm_up_ns
        yield from _constant(begin_ns, self.since_ns, self.steps[0], most)
        for number, records_per_s in enumerate(self.steps):
            begin_ns = self.since_ns + number * self.step_ns
            yield from _constant(begin_ns, begin_ns + self.step_ns, records_per_s, most)


def _constant(
    begin_ns: int, end_ns: int, records_per_s: float, most: int
) -> Iterator[tuple[int, int]]:
    due = 0
    for at_ns in range(begin_ns, end_ns, TICK_NS):
        sent = due
        due = int((min(at_ns + TICK_NS, end_ns) - begin_ns) * records_per_s / 1e9)
        while sent < due:
            count = min(due - sent, most)
            yield at_ns, count
            sent += count


class StepTimes:
    """Records the arrival time of every record at the consumer, by its step."""

    def __init__(self, load: RisingLoad) -> None:
        self._load = load
        self._since_ns = load.since_ns
        self._sent_ns = array("q")
        self._latencies_ns = array("q")

    def __call__(self, record: Any) -> int:
        """Return the intended time of a record as its weight."""
        sent_ns: int = record[1]
        if sent_ns >= self._since_ns:
            self._sent_ns.append(sent_ns)
            self._latencies_ns.append(monotonic_ns() - sent_ns)
        return sent_ns

    def steps(self) -> list[Step]:
        """Return the results of each step."""
        load, last = self._load, len(self._load.steps) - 1
        of_step: list[array[int]] = [array("q") for _ in load.steps]
        arrived = [0] * len(load.steps)
        for sent_ns, latency_ns in zip(self._sent_ns, self._latencies_ns, strict=True):
            since_ns = sent_ns - load.since_ns
            of_step[min(last, since_ns // load.step_ns)].append(latency_ns)
            step = (since_ns + latency_ns) // load.step_ns
            if step <= last:
                arrived[step] += 1
        percentiles = map(percentiles_us, of_step)
        return [
            Step(offered, count * 1e9 / load.step_ns, times["p50"], times["p99"])
            for offered, count, times in zip(load.steps, arrived, percentiles, strict=True)
        ]

    def observations(self) -> Mapping[str, Any]:
        """Return the results."""
        return {
            "measured_records": len(self._latencies_ns),
            "latency_us": percentiles_us(self._latencies_ns),
            "step_s": self._load.step_ns / 1e9,
            "steps": [step._asdict() for step in self.steps()],
        }


def measure_rising(
    contestant: Contestant, case: Case, plan: Plan, pinning: Pinning
) -> TimedMeasurement:
    """Run a system once: a block with every field checked, then the load.

    Raises BenchError if a side fails or does not answer.
    """
    with open_ends(contestant, case, pinning) as play:
        check = play(Round(None))
        load = RisingLoad.soon(plan)
        checks = [check, play(load)]
    sent, received = checks[-1]
    observed = {**sent.observations, **received.observations}
    return TimedMeasurement(
        observed.pop("measured_records"),
        len(load.steps) * load.step_ns / 1e9,
        sent.time.cpu,
        received.time.cpu,
        all(sent.tally == received.tally for sent, received in checks),
        latency_us=observed.pop("latency_us"),
        observations=observed,
    )
