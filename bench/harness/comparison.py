"""Comparison of all variants of systems on the same cases, interleaved, and a family for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from statistics import median

from bench.harness.case import Case, record_bytes
from bench.harness.family import Progress, Selection, chosen, plan_parameters, summaries
from bench.harness.interleaving import interleave
from bench.harness.pinning import Pinning
from bench.harness.row import Row, make_row
from bench.harness.system import Contestant, System
from bench.harness.trial import Measurement, Plan, measure

__all__ = ["ComparingFamily", "Run", "compare"]

Run = Callable[[Contestant, Case, Plan, Pinning], Measurement]
"""Runs a contestant on a case once."""


class ComparingFamily:
    """The name and measurement of a Family; a subclass adds how to print and draw its rows.

    ``across_cases`` and ``run`` are as for ``compare``.
    """

    name: str
    summary: str

    def __init__(
        self,
        cases: Sequence[Case],
        system: System,
        peers: Sequence[System] = (),
        *,
        across_cases: bool = False,
        run: Run = measure,
    ) -> None:
        self.cases = summaries(cases)
        self.systems = summaries(peers)
        self._cases = cases
        self._system = system
        self._peers = peers
        self._across_cases = across_cases
        self._run = run

    def run(self, selection: Selection, progress: Progress) -> list[Row]:
        """Measure every variant of flinknet and of the chosen peers, run by run."""
        return compare(
            self.name,
            chosen(self._cases, selection.cases),
            [self._system, *chosen(self._peers, selection.against)],
            selection,
            progress,
            across_cases=self._across_cases,
            run=self._run,
        )


def compare(
    family: str,
    cases: Sequence[Case],
    systems: Sequence[System],
    selection: Selection,
    progress: Progress,
    *,
    across_cases: bool = False,
    run: Run = measure,
) -> list[Row]:
    """Measure every variant of the systems, case by case, and return the rows.

    ``across_cases`` interleaves all cases, so that they can be compared with each other. ``run``
    runs a contestant once.
    """
    contestants = [Contestant(system, name) for system in systems for name in system.variants]
    progress.expect(len(cases) * selection.plan.runs * len(contestants))
    groups = [cases] if across_cases else [[case] for case in cases]
    return [
        row
        for group in groups
        for case, measurements in _measure(group, contestants, selection, progress, run).items()
        for row in _rows(family, case, measurements, selection)
    ]


def _measure(
    cases: Sequence[Case],
    contestants: Sequence[Contestant],
    selection: Selection,
    progress: Progress,
    run: Run,
) -> dict[Case, dict[Contestant, list[Measurement]]]:
    """Measure all contestants on all of the cases, interleaved."""
    plan = selection.plan
    trials = {
        f"{case.name}, {each}": partial(run, each, case, plan, selection.pinning)
        for case in cases
        for each in contestants
    }
    results = iter(interleave(trials, plan.runs, progress).values())
    return {case: {each: next(results) for each in contestants} for case in cases}


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
    """Return the median CPU seconds of each process per million records."""
    producer = median(run.producer_cpu_seconds * 1e6 / run.records for run in runs)
    consumer = median(run.consumer_cpu_seconds * 1e6 / run.records for run in runs)
    return {
        "producer_cpu_s_per_million_records": round(producer, 4),
        "consumer_cpu_s_per_million_records": round(consumer, 4),
    }
