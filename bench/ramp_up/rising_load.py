"""A load that rises while it runs, from a trickle to more than can be carried, step by step.

Theory of operation. It is open loop, as every load with intended times (``open_loop.py``): each
step is as long as the others, and has a constant number of records per second, the same factor more
than the one before. A record belongs to the step in which it was to be sent, so what a step's
records waited is told of it, whenever they came; how many came through in the time of a step is
told of it, whenever they were to be sent. The warm-up is the first step once more, before it.
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
"""Records per second of each step: three to a factor of ten, from a thousand to five million."""

LENGTH_SHARE = 0.5
"""A step's length, of the seconds of a plan: a thousand records at least."""


class Step(NamedTuple):
    """What became of a step; the latencies are in microseconds."""

    offered_per_s: int
    came_through_per_s: float
    p50: float
    p99: float


class RisingLoad(NamedTuple):
    """Steps of so many nanoseconds each, from ``since_ns`` of the monotonic clock on."""

    since_ns: int
    step_ns: int
    warm_up_ns: int
    steps: tuple[int, ...] = STEPS

    @classmethod
    def soon(cls, plan: Plan) -> RisingLoad:
        """Begin as soon as both sides can be ready."""
        warm_up_ns = round(plan.warm_up_s * 1e9)
        since_ns = monotonic_ns() + LEAD_NS + warm_up_ns
        return cls(since_ns, round(plan.seconds * LENGTH_SHARE * 1e9), warm_up_ns)

    @property
    def length_s(self) -> float:
        """How long it takes a system that keeps up, and as long again for one that does not."""
        return 2 * (self.warm_up_ns + len(self.steps) * self.step_ns) / 1e9

    def feed(self, case: Case, block: Block) -> StampedFeed:
        """Return what the producer is to send."""
        return StampedFeed(self, block)

    def weigh(self, case: Case) -> StepTimes:
        """Return what takes the time of every record that arrives."""
        return StepTimes(self)

    def bursts(self, most: int) -> Iterator[tuple[int, int]]:
        """Return what is to be sent: when, and how many, ``most`` at a time; see ``Load``."""
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
    """Takes the time of every record as the consumer has it, by its step."""

    def __init__(self, load: RisingLoad) -> None:
        self._load = load
        self._since_ns = load.since_ns
        self._sent_ns = array("q")
        self._latencies_ns = array("q")

    def __call__(self, record: Any) -> int:
        """Weigh a record: with the time that it carries."""
        sent_ns: int = record[1]
        if sent_ns >= self._since_ns:
            self._sent_ns.append(sent_ns)
            self._latencies_ns.append(monotonic_ns() - sent_ns)
        return sent_ns

    def steps(self) -> list[Step]:
        """Return what became of each step."""
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
        """Return what was measured."""
        return {
            "measured_records": len(self._latencies_ns),
            "latency_us": percentiles_us(self._latencies_ns),
            "step_s": self._load.step_ns / 1e9,
            "steps": [step._asdict() for step in self.steps()],
        }


def measure_rising(
    contestant: Contestant, case: Case, plan: Plan, pinning: Pinning
) -> TimedMeasurement:
    """Run a system once: a block of which every field is checked, then the load.

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
