"""Comparing systems fairly: interleaved run by run, so that a disturbance hits all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bench.harness.case import Case, record_bytes
from bench.harness.family import Progress, Selection
from bench.harness.row import Row, make_row
from bench.harness.system import Contestant, System
from bench.harness.trial import Measurement, measure

__all__ = ["compare"]


def compare(
    family: str,
    cases: Sequence[Case],
    systems: Sequence[System],
    selection: Selection,
    progress: Progress,
) -> list[Row]:
    """Measure every variant of the systems on every case: A B C A B C ..., case by case."""
    contestants = [Contestant(system, name) for system in systems for name in system.variants]
    plan = selection.plan
    progress.expect(len(cases) * plan.runs * len(contestants))
    rows: list[Row] = []
    for case in cases:
        measurements: dict[Contestant, list[Measurement]] = {each: [] for each in contestants}
        for run in range(plan.runs):
            for contestant in contestants:
                progress.begin(f"{case.name}, {contestant}, run {run + 1} of {plan.runs}")
                measured = measure(contestant, case, plan, selection.pinning)
                measurements[contestant].append(measured)
                progress.end()
        rows += _rows(family, case, measurements, selection)
    return rows


def _rows(
    family: str,
    case: Case,
    measurements: Mapping[Contestant, Sequence[Measurement]],
    selection: Selection,
) -> list[Row]:
    block = case.make_block()
    size = record_bytes(block)
    common = {
        "seconds": selection.plan.seconds,
        "warm_up_s": selection.plan.warm_up_s,
        "record_bytes": round(size, 1),
        "block_records": len(block),
        "cpus": list(selection.pinning),
    }
    return [
        make_row(family, case.name, each, runs, size, {**common, **each.system.parameters(case)})
        for each, runs in measurements.items()
    ]
