"""Contests of systems that need no processes, for tests of the harness and of ``peers``."""

from __future__ import annotations

from collections.abc import Callable

from bench.harness.case import Case
from bench.harness.contest import Absence, Entrant, run_case
from bench.harness.family import Selection
from bench.harness.pinning import Pinning
from bench.harness.row import Row
from bench.harness.trial import Measurement, Plan, TimedMeasurement
from bench.peers.cases import RECORD_CASES

TUPLE = RECORD_CASES[0]
SELECTION = Selection((), (), Plan(runs=3, seconds=1.0, warm_up_s=0.0), Pinning(0, 1))


class Log:
    """Records the runs that were begun, and counts those that ended."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.ended = 0

    def expect(self, runs: int) -> None: ...

    def begin(self, run: str) -> None:
        if ", run " in run:
            self.begun.append(run)

    def end(self) -> None:
        self.ended += 1


def version() -> str:
    return "1.0"


def measured(case: Case, plan: Plan, pinning: Pinning) -> Measurement:
    return Measurement(1000, 1.0, 0.5, 0.5, True, {"edge": "remote"})


def entrant(
    system: str,
    measure: Callable[[Case, Plan, Pinning], Measurement] = measured,
    version: Callable[[], str] = version,
) -> Entrant:
    return Entrant(system, "record", version, lambda _: {"credit": "on"}, measure)


def trips(p50: float) -> Callable[[Case, Plan, Pinning], Measurement]:
    latency_us = {"p50": p50, "p99": 2 * p50}
    return lambda case, plan, pinning: TimedMeasurement(1000, 1.0, 0.5, 0.5, True, {}, latency_us)


def contest(*entered: Entrant | Absence, log: Log | None = None) -> list[Row]:
    return run_case("peers", TUPLE, entered, SELECTION, log or Log())
