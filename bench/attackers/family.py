"""The family ``attackers`` as the command line uses it."""

from __future__ import annotations

from functools import partial
from typing import Any

from bench.attackers.crowd import KINDS
from bench.attackers.good_job import (
    ATTACKERS,
    CONFIG,
    FULL_SPEED,
    PACED,
    measure_besieged,
)
from bench.harness import flinknet_system
from bench.harness.case import Case
from bench.harness.contest import Entrant
from bench.harness.flinknet_system import network_parameters
from bench.harness.overhead import ALONE, PaceFamily
from bench.harness.pinning import Pinning
from bench.harness.system import SUBJECT
from bench.harness.table import Column
from bench.harness.trial import Measurement, Plan

__all__ = ["AttackersFamily"]

MIXED = "mixed"


class AttackersFamily(PaceFamily):
    """A job alone, and with a hundred hostile clients around its cluster."""

    name = "attackers"
    summary = "what a hundred hostile clients leave to a good job, and to a worker that joins"
    burdens = (MIXED, *KINDS)
    title = "Records per second beside a hundred attackers, over those alone"
    key = (
        f"variant: what {ATTACKERS} clients do, or all of it ({MIXED}). records/s: of the good "
        "job, median of the interleaved runs; low, high: the slowest and the fastest run. "
        f"/ {ALONE}: over the median without attackers, which take processors, too. join: until a "
        "worker has asked the coordinator who is there and is connected to all, the longest of "
        "five in the last run. CPU s/M: user and system seconds of the worker that receives, per "
        "million records."
    )

    def __init__(self) -> None:
        join = Column("join", lambda row: f"{1000 * row.parameters.get('join_s', 0.0):.0f} ms")
        super().__init__((FULL_SPEED, PACED), join)

    def entrant(self, variant: str) -> Entrant:
        """Return the entrant of a variant."""
        kinds: dict[str, int] = {}
        if variant == MIXED:
            names = [*KINDS]
            for number in range(ATTACKERS):
                name = names[number % len(names)]
                kinds[name] = kinds.get(name, 0) + 1
        elif variant != ALONE:
            kinds = {variant: ATTACKERS}
        measure = partial(_measure, kinds)
        return Entrant(SUBJECT, variant, flinknet_system.version, _parameters, measure)


def _parameters(case: Case) -> dict[str, Any]:
    """Return the settings that matter for a fair comparison."""
    return {"workers": 2, "tls": True, **network_parameters(CONFIG.network)}


def _measure(kinds: dict[str, int], case: Case, plan: Plan, pinning: Pinning) -> Measurement:
    """Run once, on all CPUs."""
    return measure_besieged(kinds, case, plan)
