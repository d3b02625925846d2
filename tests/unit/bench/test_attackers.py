"""The family ``attackers``: its comparisons, and that its attackers get through."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO

from rich.console import Console

from bench.attackers.family import AttackersFamily
from bench.attackers.good_job import PACED
from bench.harness.overhead import pace_ratio
from bench.harness.pinning import Pinning
from bench.harness.row import Row
from bench.harness.trial import Plan

ALONE = Row(
    family="attackers",
    case="paced",
    system="flinknet",
    variant="alone",
    version="0",
    records_per_s=2e5,
    mb_per_s=16.0,
    cpu_s_per_million_records=1.0,
    latency_us=None,
    runs=[2e5],
    verified=True,
    parameters={"join_s": 0.02},
)


def test_a_job_is_compared_with_the_same_one_alone() -> None:
    besieged = replace(ALONE, variant="mixed", records_per_s=1.8e5, parameters={"join_s": 0.5})
    rows = [ALONE, besieged]
    assert [pace_ratio(rows, each) for each in rows] == [None, 0.9]
    printed = StringIO()
    AttackersFamily().print(rows, Console(file=printed, width=110))
    [line] = [line for line in printed.getvalue().splitlines() if "500 ms" in line]
    assert "90.0%" in line


def test_all_that_is_sent_arrives_beside_attackers() -> None:
    entrant = AttackersFamily().entrant("mixed")
    measured = entrant.measure(PACED, Plan(1, 0.5, 0.2), Pinning(None, None))
    assert measured.verified
    assert measured.records > 0
    assert measured.observations["join_s"] > 0
