"""The family ``ramp-up`` as the command line uses it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median

from rich.console import Console

from bench.harness.case import Case, record_bytes
from bench.harness.family import Progress, Selection, chosen, plan_parameters, summaries
from bench.harness.interleaving import interleave
from bench.harness.open_loop import load_parameters, measure_load
from bench.harness.pinning import Pinning
from bench.harness.row import Row, median_latency, median_row
from bench.harness.system import Contestant
from bench.harness.table import KEPT, Column, format_rate, latency_columns, print_table
from bench.harness.tcp_segments import segments_sent
from bench.harness.trial import Plan, TimedMeasurement
from bench.latency.cases import MAXIMUM
from bench.latency.system import SYSTEM
from bench.ramp_up.figure import draw_ramp_up
from bench.ramp_up.rising import RISING, print_rising, rising_row
from bench.ramp_up.rising_load import measure_rising

__all__ = ["RampUpFamily", "ramp_row"]

LOADS = {"100": 1e2, "1k": 1e3, "10k": 1e4, "100k": 1e5, "1M": 1e6}
"""Records per second, by the name of the case."""

CASES: tuple[Case, ...] = tuple(
    replace(MAXIMUM, name=name, summary=f"{load:,.0f} records/s, at intended times")
    for name, load in LOADS.items()
)

KEY = (
    "case: records per second that are to be sent. kept: how much of them came through. CPU: user "
    "and system time of both processes, of one processor's. segments/s: TCP segments that the "
    "machine has sent (OutSegs of /proc/net/snmp), acknowledgements and credit among them. / "
    "record: these for each record. p50, p99: from the time at which a record is to be sent to the "
    "consumer's having it. Medians of the interleaved runs."
)


class RampUpFamily:
    """One producer and one consumer under a growing load, with a line for each buffer timeout."""

    name = "ramp-up"
    summary = "CPU, packets and latency of each buffer timeout, from 100 records/s to a million"
    cases: Mapping[str, str] = summaries((*CASES, RISING))
    systems: Mapping[str, str] = {}

    def run(self, selection: Selection, progress: Progress) -> list[Row]:
        """Measure load by load; the timeouts of each load are interleaved."""
        plan, pinning = selection.plan, selection.pinning
        contestants = [Contestant(SYSTEM, variant) for variant in SYSTEM.variants]
        cases = chosen((*CASES, RISING), selection.cases)
        progress.expect(plan.runs * len(contestants) * len(cases))
        rows = []
        for case in cases:
            measure = measure_rising if case is RISING else _measure
            trials = {
                f"{case.name} records/s, {each}": partial(measure, each, case, plan, pinning)
                for each in contestants
            }
            outcomes = interleave(trials, plan.runs, progress).values()
            parameters = {**plan_parameters(selection), **SYSTEM.parameters(case)}
            for each, runs in zip(contestants, outcomes, strict=True):
                if case is RISING:
                    rows.append(rising_row(self.name, each, runs, parameters))
                else:
                    row = ramp_row(each, case, runs)
                    rows.append(replace(row, parameters={**parameters, **row.parameters}))
        return rows

    def print(self, rows: Sequence[Row], console: Console) -> None:
        """Print the costs of each timeout under each load and under the rising load."""
        rising = [row for row in rows if row.case == RISING.name]
        steady = [row for row in rows if row.case != RISING.name]
        columns = (
            KEPT,
            Column("CPU", lambda row: f"{row.parameters['cpu_share']:.1%}"),
            Column("segments/s", lambda row: format_rate(row.parameters["segments_per_s"])),
            Column("/ record", lambda row: f"{row.parameters['segments_per_record']:.3g}"),
            *latency_columns("p50", "p99"),
        )
        if steady:
            print_table(steady, columns, KEY, console, name="timeout")
        print_rising(rising, console)

    def draw(self, rows: Sequence[Row], path: Path) -> None:
        """Draw CPU, packets and latency over the load."""
        draw_ramp_up(rows, path)


def ramp_row(contestant: Contestant, case: Case, runs: Sequence[TimedMeasurement]) -> Row:
    """Return the row that summarizes the runs of a timeout under a load."""
    load = LOADS[case.name]
    segments_per_s = median(run.observations["segments_per_s"] for run in runs)
    row = median_row(
        RampUpFamily.name,
        case.name,
        (contestant.system.name, contestant.variant, contestant.system.version()),
        [run.records_per_s for run in runs],
        [run.cpu_s_per_million_records for run in runs],
        record_bytes(case.make_block()),
        verified=all(run.verified for run in runs),
        latency_us=median_latency(runs),
        parameters={
            **runs[-1].observations,
            "segments_per_s": round(segments_per_s, 1),
            "segments_per_record": segments_per_s / load,
        },
    )
    cpu_share = row.cpu_s_per_million_records * row.records_per_s / 1e6
    more = {"cpu_share": round(cpu_share, 5), **load_parameters(load, row.records_per_s)}
    return replace(row, parameters={**row.parameters, **more})


def _measure(contestant: Contestant, case: Case, plan: Plan, pinning: Pinning) -> TimedMeasurement:
    """Run once.

    The segments are those of the check and of the whole load, which is nearly all of them.
    """
    before = segments_sent()
    measured = measure_load(contestant, LOADS[case.name], case, plan, pinning)
    sent = (segments_sent() - before) / (plan.warm_up_s + plan.seconds)
    return replace(measured, observations={**measured.observations, "segments_per_s": sent})
