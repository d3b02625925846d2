"""One run in one setting: two processes, and the combination of their accounts."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from bench.harness.pinning import Pinning
from bench.harness.process import Clocks, Part
from bench.harness.sides import answers, open_sides
from bench.harness.trial import Plan
from bench.isolation.consumer import consume
from bench.isolation.producer import produce
from bench.isolation.setting import Received, Sent, Setting, Window

__all__ = ["Outcome", "measure", "outcome"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The results of the other channels in the measured time.

    ``travels_us`` has the barriers that were sent in it and have arrived, in it or soon after.
    """

    records: int
    seconds: float
    cpu_seconds: float
    barriers_sent: int
    travels_us: list[float]
    verified: bool


def measure(name: str, setting: Setting, plan: Plan, pinning: Pinning) -> Outcome:
    """Run once. Raises BenchError if a process fails or does not answer."""
    parts = (
        Part(f"{name}: the producer", partial(produce, setting), pinning.producer),
        Part(f"{name}: the consumer", partial(consume, setting), pinning.consumer),
    )
    with open_sides(*parts) as sides:
        producer, consumer = sides
        (address,) = answers([producer])
        consumer.tell(address)
        producer.tell(None)
        consumer.tell(plan.warm_up_s)
        answers([consumer], plan.warm_up_s)
        for side in sides:
            side.tell(plan.seconds)
        producer_time, window = answers(sides, plan.seconds)
        producer.tell(None)
        sent, received = answers(sides)
        answers(sides)
    return outcome(setting, producer_time, window, sent, received)


def outcome(
    setting: Setting, producer_time: Clocks, window: Window, sent: Sent, received: Received
) -> Outcome:
    """Combine the accounts of both processes."""
    in_window = [window.begin_ns <= time_ns < window.end_ns for time_ns in sent.barriers_ns]
    arrived = [
        (arrived_ns - sent_ns) / 1000
        for sent_ns, arrived_ns in received.barriers_ns
        if window.begin_ns <= sent_ns < window.end_ns and arrived_ns < window.through_ns
    ]
    all_barriers = len(sent.barriers_ns) * setting.others == len(received.barriers_ns)
    return Outcome(
        window.records,
        window.time.wall,
        producer_time.cpu + window.time.cpu,
        sum(in_window) * setting.others,
        arrived,
        sent.records == received.records and received.in_order and all_barriers,
    )
