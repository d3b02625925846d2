"""The family ``slow-code`` as the command line uses it."""

from __future__ import annotations

from functools import partial
from typing import Any

from bench.harness import flinknet_system
from bench.harness.case import Case
from bench.harness.contest import Entrant
from bench.harness.flinknet_system import network_parameters
from bench.harness.overhead import ALONE, PaceFamily
from bench.harness.pinning import Pinning
from bench.harness.system import SUBJECT
from bench.harness.trial import Measurement, Plan
from bench.slow_code.neighbour import (
    CONFIG,
    FULL_SPEED,
    PACED,
    TAKES_S,
    Burden,
    measure_beside,
)

__all__ = ["SlowCodeFamily"]

BURDENS = {
    "sleeps": Burden(computes=False, has_thread=True),
    "computes": Burden(computes=True, has_thread=True),
    "sleeps, no threads": Burden(computes=False, has_thread=False),
    "computes, no threads": Burden(computes=True, has_thread=False),
}


class SlowCodeFamily(PaceFamily):
    """A pipeline alone in its worker, and beside one with a function that takes 40 ms a record."""

    name = "slow-code"
    summary = "what a function that takes long leaves to another pipeline in the same worker"
    burdens = tuple(BURDENS)
    title = "Records per second beside slow code, over those alone"
    key = (
        "variant: what the function of the pipeline beside does. records/s: of the pipeline that "
        "is measured, median of the interleaved runs; low, high: the slowest and the fastest run. "
        f"{ALONE}: over the median with nothing beside. CPU s/M: user and system seconds of the "
        "worker, slow code included, per million records."
    )

    def __init__(self) -> None:
        super().__init__((FULL_SPEED, PACED))

    def entrant(self, variant: str) -> Entrant:
        """Return the entrant of a variant."""
        measure = partial(_measure, BURDENS.get(variant))
        return Entrant(SUBJECT, variant, flinknet_system.version, _parameters, measure)


def _parameters(case: Case) -> dict[str, Any]:
    """Return the settings that matter for a fair comparison."""
    return {"workers": 1, "takes_ms": 1000 * TAKES_S, **network_parameters(CONFIG.network)}


def _measure(burden: Burden | None, case: Case, plan: Plan, pinning: Pinning) -> Measurement:
    """Run once, on all CPUs."""
    return measure_beside(burden, case, plan)
