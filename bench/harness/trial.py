"""One run of one system: two processes, three rounds, one measurement.

Theory of operation. The rounds are: *check*, one block of which both sides add up a checksum over
every field; *warm-up*, not counted; *measured*. Each must end with the same count and checksum on
both sides. The processes are new for every run, so that no run profits from the one before.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from bench.harness.case import Case
from bench.harness.pinning import Pinning
from bench.harness.process import Part
from bench.harness.side import Report, Round, consume, produce
from bench.harness.sides import answers, open_sides
from bench.harness.system import Contestant

__all__ = ["FULL", "QUICK", "Measurement", "Plan", "measure"]


@dataclass(frozen=True, slots=True)
class Plan:
    """How often and how long."""

    runs: int
    seconds: float
    warm_up_s: float


FULL = Plan(runs=5, seconds=4.0, warm_up_s=0.5)
QUICK = Plan(runs=3, seconds=1.0, warm_up_s=0.2)


@dataclass(frozen=True, slots=True)
class Measurement:
    """The measured round: records that arrived, on the consumer's clock; CPU seconds of each side;
    what the sides have observed."""

    records: int
    seconds: float
    producer_cpu_seconds: float
    consumer_cpu_seconds: float
    verified: bool
    observations: Mapping[str, Any]

    @property
    def records_per_s(self) -> float:
        """Records that arrived per second."""
        return self.records / self.seconds

    @property
    def cpu_s_per_million_records(self) -> float:
        """User and system seconds of both processes."""
        return (self.producer_cpu_seconds + self.consumer_cpu_seconds) * 1e6 / self.records


def measure(contestant: Contestant, case: Case, plan: Plan, pinning: Pinning) -> Measurement:
    """Run a system once. Raises BenchError if a side fails or does not answer."""
    name = f"{case.name}, {contestant}: the"
    parts = (
        Part(f"{name} producer", partial(produce, contestant, case), pinning.producer),
        Part(f"{name} consumer", partial(consume, contestant, case), pinning.consumer),
    )
    with open_sides(*parts) as sides:
        producer, consumer = sides
        consumer.tell(answers([producer])[0].address)
        answers([consumer])
        verified = True
        sent = received = None
        for seconds in (None, plan.warm_up_s, plan.seconds):
            for side in sides:
                side.tell(Round(seconds))
            sent, received = answers(sides, seconds or 0.0)
            verified = verified and sent.tally == received.tally
        for side in sides:
            side.tell(None)
        answers(sides)
    assert isinstance(sent, Report)
    assert isinstance(received, Report)
    return Measurement(
        received.tally.records,
        received.time.wall,
        sent.time.cpu,
        received.time.cpu,
        verified,
        {**sent.observations, **received.observations},
    )
