"""The family ``adaptive`` as the command line uses it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console

from bench.adaptive.setting import (
    DEBLOAT,
    FAST,
    RECORDS,
    SETTLE_S,
    SLOW,
    SLOW_RECORD_S,
    VARIANTS,
    Setting,
    Span,
    Window,
)
from bench.adaptive.sides import consume, produce
from bench.harness.case import Tally, record_bytes
from bench.harness.family import Progress, Selection, plan_parameters
from bench.harness.figure import draw_ratios
from bench.harness.flinknet_system import network_parameters, version
from bench.harness.interleaving import interleave
from bench.harness.pinning import Pinning
from bench.harness.process import Part
from bench.harness.row import Row, median_row
from bench.harness.sides import answers, open_sides
from bench.harness.system import SUBJECT
from bench.harness.table import CPU, RATE_COLUMNS, Column, format_rate, print_table
from bench.harness.trial import Plan

__all__ = ["AdaptiveFamily", "Outcome", "make_adaptive_row", "outcome"]

CASE = "slow-and-fast"

KEY = (
    "records/s: of the fast consumer; median of the interleaved runs, on its clock; low, high: the "
    "slowest and the fastest run. slow: records/s of the slow consumer, the median. CPU s/M: user "
    "and system seconds of the three processes per million records that both consumers took."
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The rates of both consumers in the measured time, and the CPU cost."""

    fast_per_s: float
    slow_per_s: float
    cpu_s_per_million_records: float
    verified: bool


class AdaptiveFamily:
    """One writer with a slow and a fast consumer; each record goes to one of them."""

    name = "adaptive"
    summary = "what a slow consumer leaves to a fast one of the same writer"
    cases: Mapping[str, str] = {
        CASE: f"1 KiB of bytes to one with {SLOW_RECORD_S * 1000:g} ms a record and to a fast one"
    }
    systems: Mapping[str, str] = {}

    def run(self, selection: Selection, progress: Progress) -> list[Row]:
        """Measure every variant, run by run."""
        plan = selection.plan
        variants = VARIANTS if CASE in selection.cases else {}
        progress.expect(plan.runs * len(variants))
        trials = {
            variant: partial(_measure, f"{CASE}, {variant}", setting, plan, selection.pinning)
            for variant, setting in variants.items()
        }
        outcomes = interleave(trials, plan.runs, progress)
        return [
            make_adaptive_row(variant, runs, plan_parameters(selection))
            for variant, runs in outcomes.items()
        ]

    def print(self, rows: Sequence[Row], console: Console) -> None:
        """Print the throughput of both consumers, and CPU."""
        slow = Column("slow", lambda row: format_rate(row.parameters["slow_records_per_s"]))
        print_table(rows, (*RATE_COLUMNS, slow, CPU), KEY, console)

    def draw(self, rows: Sequence[Row], path: Path) -> None:
        """Draw the throughput of the fast consumer."""
        draw_ratios(rows, path)


def make_adaptive_row(
    variant: str, outcomes: Sequence[Outcome], parameters: Mapping[str, Any]
) -> Row:
    """Return the row that summarizes the runs of a variant."""
    setting = VARIANTS[variant]
    debloat = {"period_ms": DEBLOAT.period_ms, "target_ms": DEBLOAT.target_ms}
    return median_row(
        AdaptiveFamily.name,
        CASE,
        (SUBJECT, variant, version()),
        [run.fast_per_s for run in outcomes],
        [run.cpu_s_per_million_records for run in outcomes],
        record_bytes(RECORDS.make_block()),
        verified=all(run.verified for run in outcomes),
        parameters={
            **parameters,
            "slow_records_per_s": round(median(run.slow_per_s for run in outcomes), 1),
            "slow_runs": [round(run.slow_per_s, 1) for run in outcomes],
            "slow_record_s": SLOW_RECORD_S,
            "settle_s": SETTLE_S,
            "partitioner": type(setting.make_partitioner()).__name__,
            "debloat": debloat if setting.debloat else None,
            "records": RECORDS.name,
            **network_parameters(setting.config),
        },
    )


def outcome(windows: Sequence[Window], tallies: Sequence[Tally]) -> Outcome:
    """Combine the accounts of the producer, the slow and the fast consumer."""
    _, slow, fast = windows
    sent, *received = tallies
    cpu_seconds = sum(window.time.cpu for window in windows)
    return Outcome(
        fast.records / fast.time.wall,
        slow.records / slow.time.wall,
        cpu_seconds * 1e6 / max(slow.records + fast.records, 1),
        sent == Tally(*map(sum, zip(*received, strict=True))),
    )


def _measure(name: str, setting: Setting, plan: Plan, pinning: Pinning) -> Outcome:
    """Run once. Raises BenchError if a process fails or does not answer."""
    parts = (
        Part(f"{name}: the producer", partial(produce, setting), pinning.producer),
        Part(f"{name}: the slow consumer", partial(consume, setting, SLOW), pinning.consumer),
        Part(f"{name}: the fast consumer", partial(consume, setting, FAST), pinning.consumer),
    )
    span = Span(SETTLE_S + plan.warm_up_s, plan.seconds)
    with open_sides(*parts) as sides:
        producer, *consumers = sides
        (address,) = answers([producer])
        for consumer in consumers:
            consumer.tell(address)
        for side in sides:
            side.tell(span)
        windows = answers(sides, sum(span))
        producer.tell(None)
        tallies = answers(sides)
        answers(sides)
    return outcome(windows, tallies)
