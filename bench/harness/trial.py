"""One run of one system: two processes, three rounds, one measurement.

Theory of operation. There are three rounds. *Check* sends one block, and both sides compute a
checksum over every field. *Warm-up* is not counted. *Measured* is. Each round must end with the
same count and checksum on both sides. Every run has new processes, so that no run profits from an
earlier one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

from bench.harness.case import Case
from bench.harness.pinning import Pinning
from bench.harness.process import Part
from bench.harness.side import Report, Round, Stretch, consume, produce
from bench.harness.sides import answers, open_sides
from bench.harness.system import Contestant

__all__ = [
    "FULL",
    "QUICK",
    "Measurement",
    "Plan",
    "PlayBoth",
    "Route",
    "TimedMeasurement",
    "measure",
    "open_ends",
]


@dataclass(frozen=True, slots=True)
class Plan:
    """The number and the length of runs."""

    runs: int
    seconds: float
    warm_up_s: float


FULL = Plan(runs=5, seconds=4.0, warm_up_s=0.5)
QUICK = Plan(runs=3, seconds=1.0, warm_up_s=0.2)


@dataclass(frozen=True, slots=True)
class Measurement:
    """The results of the measured round.

    Records and seconds are the consumer's; the CPU seconds are those of each side.
    """

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
        """User and system seconds of both processes per million records."""
        return (self.producer_cpu_seconds + self.consumer_cpu_seconds) * 1e6 / self.records


@dataclass(frozen=True, slots=True)
class TimedMeasurement(Measurement):
    """A measurement with the latencies of its records, in microseconds by percentile."""

    latency_us: Mapping[str, float]


PlayBoth = Callable[[Stretch], tuple[Report, Report]]
"""Plays a stretch on both ends and returns the reports of producer and consumer."""


Route = Callable[[str], AbstractContextManager[str]]
"""A detour between the ends: maps the producer's address to the one for the consumer."""


def measure(
    contestant: Contestant,
    case: Case,
    plan: Plan,
    pinning: Pinning,
    *,
    route: Route = nullcontext,
) -> Measurement:
    """Run a system once. Raises BenchError if a side fails or does not answer."""
    with open_ends(contestant, case, pinning, route=route) as play:
        reports = [play(Round(seconds)) for seconds in (None, plan.warm_up_s, plan.seconds)]
    sent, received = reports[-1]
    return Measurement(
        received.tally.records,
        received.time.wall,
        sent.time.cpu,
        received.time.cpu,
        all(sent.tally == received.tally for sent, received in reports),
        {**sent.observations, **received.observations},
    )


@contextmanager
def open_ends(
    contestant: Contestant, case: Case, pinning: Pinning, *, route: Route = nullcontext
) -> Iterator[PlayBoth]:
    """Open both ends in new processes. Raises BenchError if one fails or does not answer."""
    name = f"{case.name}, {contestant}: the"
    parts = (
        Part(f"{name} producer", partial(produce, contestant, case), pinning.producer),
        Part(f"{name} consumer", partial(consume, contestant, case), pinning.consumer),
    )
    with open_sides(*parts) as sides:
        producer, consumer = sides

        def play(stretch: Stretch) -> tuple[Report, Report]:
            for side in sides:
                side.tell(stretch)
            sent, received = answers(sides, stretch.length_s)
            return sent, received

        with route(answers([producer])[0].address) as address:
            consumer.tell(address)
            answers([consumer])
            yield play
            for side in sides:
                side.tell(None)
            answers(sides)
