"""Comparing systems: every variant of each on the same cases, interleaved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from statistics import median

from bench.harness.case import Case, record_bytes
from bench.harness.family import Progress, Selection, plan_parameters
from bench.harness.interleaving import interleave
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
    """Measure every variant of the systems, case by case."""
    contestants = [Contestant(system, name) for system in systems for name in system.variants]
    plan = selection.plan
    progress.expect(len(cases) * plan.runs * len(contestants))
    rows: list[Row] = []
    for case in cases:
        trials = {
            f"{case.name}, {each}": partial(measure, each, case, plan, selection.pinning)
            for each in contestants
        }
        measurements = interleave(trials, plan.runs, progress).values()
        by_contestant = dict(zip(contestants, measurements, strict=True))
        rows += _rows(family, case, by_contestant, selection)
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
        **plan_parameters(selection),
        "record_bytes": round(size, 1),
        "block_records": len(block),
    }
    return [
        make_row(
            family,
            case.name,
            each,
            runs,
            size,
            {**common, **each.system.parameters(case), **_cpu_of_sides(runs)},
        )
        for each, runs in measurements.items()
    ]


def _cpu_of_sides(runs: Sequence[Measurement]) -> dict[str, float]:
    """Medians of the seconds that each process takes for a million records."""
    producer = median(run.producer_cpu_seconds * 1e6 / run.records for run in runs)
    consumer = median(run.consumer_cpu_seconds * 1e6 / run.records for run in runs)
    return {
        "producer_cpu_s_per_million_records": round(producer, 4),
        "consumer_cpu_s_per_million_records": round(consumer, 4),
    }
