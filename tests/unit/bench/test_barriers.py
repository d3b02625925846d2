"""The family ``barriers``: the combined results of its runs, and its sink."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import matplotlib.image
import pytest
from rich.console import Console

from bench.barriers.family import BarriersFamily, barriers_faster, make_row, times_faster
from bench.barriers.job import VARIANTS, Checkpoint, Outcome, SlowSink, key_of, record
from bench.errors import BenchError
from bench.harness.row import Row
from flinknet.datastream import RuntimeContext
from tests.unit.operators.harness import context


def rows() -> list[Row]:
    durations = {"aligned": (900, 1100, 1000), "unaligned": (20, 30, 10)}
    return [
        make_row(
            "slow-sink",
            variant,
            VARIANTS[variant],
            [Outcome([Checkpoint(each, each // 2, each * 1024)], 9_000.0 + each) for each in took],
        )
        for variant, took in durations.items()
    ]


def test_durations_of_all_runs_count() -> None:
    aligned, unaligned = made = rows()
    assert aligned.latency_us == {"p50": 1e6, "max": 1.1e6}
    assert unaligned.parameters["in_flight_bytes"] == 20 * 1024
    assert unaligned.parameters["barriers_ms"] == 10
    assert [times_faster(made, each) for each in made] == [1.0, 50.0]
    assert times_faster([unaligned], unaligned) is None
    assert [barriers_faster(made, each) for each in made] == [1.0, 50.0]
    assert barriers_faster([unaligned], unaligned) is None


def test_the_table_and_the_figure_show_them(tmp_path: Path) -> None:
    printed = StringIO()
    BarriersFamily().print(rows(), Console(file=printed, width=120))
    assert "50.0x" in printed.getvalue()
    assert "10.0 ms" in printed.getvalue()
    BarriersFamily().draw(rows(), tmp_path / "figure.png")
    assert matplotlib.image.imread(tmp_path / "figure.png").ndim == 3


def test_the_sink_finds_a_record_that_is_missing_or_comes_again() -> None:
    sink = SlowSink()
    runtime_context: RuntimeContext = context()
    sink.open(runtime_context)
    sink.invoke((1, 0, b""))
    sink.invoke((1, 1, b""))
    for number in (1, 3):
        with pytest.raises(BenchError, match=f"record {number} of key 1 instead of 2"):
            sink.invoke((1, number, b""))
    assert key_of([*record(b"", 2_005)[:1]]) == 5
