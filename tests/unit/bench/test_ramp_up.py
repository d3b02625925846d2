"""The family ``ramp-up``: segments as the kernel counts them, rows, table and figure."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO
from pathlib import Path

import matplotlib.image
import pytest
from rich.console import Console

from bench.harness.row import Row
from bench.harness.system import Contestant
from bench.harness.tcp_segments import segments_in, segments_sent
from bench.harness.trial import TimedMeasurement
from bench.latency.system import SYSTEM
from bench.ramp_up.family import CASES, LOADS, RampUpFamily, ramp_row


def run(records_per_s: float, segments_per_s: float) -> TimedMeasurement:
    latency = {"p50": 200.0, "p99": 900.0, "p99.9": 2_000.0}
    return TimedMeasurement(
        records=round(2 * records_per_s),
        seconds=2.0,
        producer_cpu_seconds=0.1,
        consumer_cpu_seconds=0.3,
        verified=True,
        observations={"segments_per_s": segments_per_s},
        latency_us=latency,
    )


def rows_of(case_name: str) -> list[Row]:
    [case] = [case for case in CASES if case.name == case_name]
    load = LOADS[case_name]
    runs = [run(load, segments) for segments in (400.0, 500.0, 900.0)]
    return [ramp_row(Contestant(SYSTEM, variant), case, runs) for variant in SYSTEM.variants]


def test_segments_are_read_off_the_line_of_tcp() -> None:
    text = "Ip: A OutSegs\nIp: 1 2\nTcp: InSegs OutSegs RetransSegs\nTcp: 70 80 3\nUdp: A\nUdp: 5\n"
    assert segments_in(text) == 80
    assert segments_sent() >= 0


def test_a_row_has_the_load_the_cpu_and_the_segments_of_the_median_run() -> None:
    row = rows_of("1k")[0]
    assert (row.family, row.case, row.variant) == ("ramp-up", "1k", "adaptive")
    assert row.records_per_s == 1_000
    said = row.parameters
    assert said["cpu_share"] == pytest.approx(0.2)
    assert (said["segments_per_s"], said["segments_per_record"]) == (500.0, 0.5)
    assert (said["load_records_per_s"], said["kept"]) == (1_000, 1.0)


def test_a_run_that_lost_something_is_not_verified() -> None:
    bad = replace(run(100.0, 1.0), verified=False)
    assert not ramp_row(Contestant(SYSTEM, "0"), CASES[0], [run(100.0, 1.0), bad]).verified


def test_the_table_and_the_figure_have_every_timeout(tmp_path: Path) -> None:
    rows = [*rows_of("100"), *rows_of("10k")]
    family, printed = RampUpFamily(), StringIO()
    family.print(rows, Console(file=printed, width=140))
    lines = [line.split() for line in printed.getvalue().splitlines() if line.endswith("yes   ")]
    assert len(lines) == 2 * len(SYSTEM.variants)
    assert lines[0][:3] == ["100", "adaptive", "100.0%"]
    assert "20.0%" in lines[0]
    family.draw(rows, tmp_path / "ramp.png")
    height, width, _ = matplotlib.image.imread(tmp_path / "ramp.png").shape
    assert height > 200 < width
