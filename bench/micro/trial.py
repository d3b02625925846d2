"""One run of a step: a pinned process that makes and runs workloads for some time."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from statistics import median
from time import perf_counter, process_time_ns
from typing import NamedTuple

from bench.harness.pinning import Pinning
from bench.harness.process import Part, Pipe
from bench.harness.sides import answers, open_sides
from bench.micro.steps import find_workload
from bench.micro.workload import Workload

__all__ = ["Outcome", "measure", "repeat"]

REPEAT_NS = 10_000_000
"""Approximate duration of a repeat: a thousand times the cost of reading the clock."""

REPEATS_MIN = 3
OPERATIONS_FIRST = 256


class Outcome(NamedTuple):
    """CPU nanoseconds per operation of every repeat, and the number of operations per repeat."""

    nanoseconds: list[float]
    operations: int
    verified: bool
    records_per_buffer: float | None

    @property
    def median_ns(self) -> float:
        """The median of the repeats."""
        return median(self.nanoseconds)


def measure(step: str, variant: str, seconds: float, pinning: Pinning) -> Outcome:
    """Run once. Raises BenchError if the process fails or does not answer."""
    part = Part(f"{step}, {variant}", partial(_play, step, variant, seconds), pinning.producer)
    with open_sides(part) as sides:
        (outcome,) = answers(sides, seconds)
        answers(sides)
    assert isinstance(outcome, Outcome)
    return outcome


async def _play(step: str, variant: str, seconds: float, pipe: Pipe) -> None:
    pipe.send(repeat(find_workload(step, variant), seconds))


def repeat(make: Callable[[int], Workload], seconds: float) -> Outcome:
    """Make and run workloads until the time is over; making them is not counted.

    A first run determines the size of the workloads.
    """
    workload = make(OPERATIONS_FIRST)
    operations = max(round(OPERATIONS_FIRST * REPEAT_NS / _time(workload)), OPERATIONS_FIRST)
    nanoseconds: list[float] = []
    verified = workload.verify()
    end = perf_counter() + seconds
    while len(nanoseconds) < REPEATS_MIN or perf_counter() < end:
        workload = make(operations)
        nanoseconds.append(_time(workload) / workload.operations)
        verified = verified and workload.verify()
    return Outcome(nanoseconds, workload.operations, verified, workload.records_per_buffer)


def _time(workload: Workload) -> int:
    """Run a workload, and return the process's CPU time, which excludes other processes."""
    begun = process_time_ns()
    workload.run()
    return max(process_time_ns() - begun, 1)
