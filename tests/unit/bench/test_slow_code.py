"""The comparisons of the family ``slow-code``."""

from __future__ import annotations

from io import StringIO

from rich.console import Console

from bench.harness.overhead import pace_ratio
from bench.harness.pinning import Pinning
from bench.harness.row import Row
from bench.harness.trial import Plan
from bench.slow_code.family import SlowCodeFamily
from bench.slow_code.neighbour import PACED


def row(variant: str, records_per_s: float) -> Row:
    return Row(
        family="slow-code",
        case="paced",
        system="flinknet",
        variant=variant,
        version="0",
        records_per_s=records_per_s,
        mb_per_s=16.0,
        cpu_s_per_million_records=1.0,
        latency_us=None,
        runs=[records_per_s],
        verified=True,
        parameters={},
    )


def test_a_pipeline_is_compared_with_the_same_one_alone() -> None:
    rows = [row("alone", 2e5), row("sleeps, no threads", 1e4)]
    assert [pace_ratio(rows, each) for each in rows] == [None, 0.05]
    printed = StringIO()
    SlowCodeFamily().print(rows, Console(file=printed, width=110))
    assert [line.split()[-2] for line in printed.getvalue().splitlines() if "10.0 k" in line] == [
        "5.0%"
    ]


def test_what_is_sent_beside_slow_code_arrives() -> None:
    entrant = SlowCodeFamily().entrant("sleeps")
    measured = entrant.measure(PACED, Plan(1, 0.3, 0.1), Pinning(None, None))
    assert measured.verified
    assert measured.records > 0
