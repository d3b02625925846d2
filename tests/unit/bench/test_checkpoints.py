"""The family ``checkpoints``: its comparisons, and its output."""

from __future__ import annotations

import pickle
from io import StringIO

from rich.console import Console

from bench.checkpoints.family import CheckpointsFamily
from bench.checkpoints.job import CASES, KEYS_MAX, LARGE, Counting
from bench.harness.overhead import ALONE, cpu_ratio
from bench.harness.row import Row
from bench.peers.cases import is_keyed


def row(variant: str, cpu: float, checkpoints: int) -> Row:
    return Row(
        family="checkpoints",
        case="small-state",
        system="flinknet",
        variant=variant,
        version="0",
        records_per_s=1e6,
        mb_per_s=16.0,
        cpu_s_per_million_records=cpu,
        latency_us=None,
        runs=[1e6],
        verified=True,
        parameters={"standstill_ms": 40.25, "held_ms": 4.25, "checkpoints": checkpoints},
    )


def test_a_job_with_checkpoints_is_compared_with_the_one_without() -> None:
    rows = [row(ALONE, 0.5, 0), row("checkpoints", 0.525, 4)]
    assert [cpu_ratio(rows, each) for each in rows] == [None, 1.05]
    printed = StringIO()
    CheckpointsFamily().print(rows, Console(file=printed, width=120))
    lines = [line.split() for line in printed.getvalue().splitlines() if " 1.00 M " in line]
    assert [line[-4:] for line in lines] == [
        ["0.5", "40.2", "4.2", "yes"],
        ["40.2", "4.2", "4", "yes"],
    ]


def test_all_of_its_cases_are_exchanged_by_key_and_one_has_a_million_keys() -> None:
    assert all(is_keyed(case) for case in CASES)
    assert LARGE.key is not None
    assert len(set(map(LARGE.key, LARGE.make_block()))) == KEYS_MAX
    pickle.loads(pickle.dumps((CASES, Counting())))
