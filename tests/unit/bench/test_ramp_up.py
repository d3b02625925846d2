"""The family ``ramp-up``: segments as the kernel counts them, rows, table and figure."""

from __future__ import annotations

from collections import Counter
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
from bench.ramp_up import rising_load
from bench.ramp_up.family import CASES, LOADS, RampUpFamily, ramp_row
from bench.ramp_up.rising import RISING, rising_row
from bench.ramp_up.rising_load import STEPS, RisingLoad, Step


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


# -- a load that rises within a run ----------------------------------------------------------------

STEP_NS = 10_000_000


def test_each_step_sends_more_and_a_warm_up_comes_before() -> None:
    load = RisingLoad(1_000_000_000, STEP_NS, STEP_NS, (1_000, 5_000))
    sent: Counter[int] = Counter()
    for at_ns, count in load.bursts(3):
        assert 0 < count <= 3
        sent[(at_ns - load.since_ns) // STEP_NS] += count
    assert sent == {-1: 10, 0: 10, 1: 50}
    assert load.length_s == pytest.approx(0.06)


def test_a_step_has_what_was_to_be_sent_in_it_and_what_came_through_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    load = RisingLoad(0, STEP_NS, STEP_NS, (1_000, 2_000))
    times = load.weigh(RISING)
    for sent_ns, now_ns in (
        (-1, 5),  # of the warm-up
        (0, 3_000_000),
        (STEP_NS - 1, STEP_NS + 1_000_000),
        (STEP_NS, STEP_NS + 2_000_000),
        (2 * STEP_NS - 1, 3 * STEP_NS),
    ):
        monkeypatch.setattr(rising_load, "monotonic_ns", lambda now_ns=now_ns: now_ns)
        assert times((1, sent_ns, 0.5)) == sent_ns
    first, second = times.steps()
    assert (first.offered_per_s, first.came_through_per_s) == (1_000, 100)
    assert (first.p50, first.p99) == (1_000.001, 3_000.0)
    assert (second.offered_per_s, second.came_through_per_s) == (2_000, 200)
    assert (second.p50, second.p99) == (2_000.0, 10_000.001)
    assert times.observations()["measured_records"] == 4


def rising_rows() -> list[Row]:
    runs = []
    for number in range(3):
        steps = [Step(offered, offered - number, p50=1e3, p99=2e3)._asdict() for offered in STEPS]
        observed = {"steps": steps, "step_s": 0.5}
        runs.append(replace(run(1e5, 0.0), observations=observed))
    return [
        rising_row("ramp-up", Contestant(SYSTEM, variant), runs, {}) for variant in SYSTEM.variants
    ]


def test_a_rising_row_has_the_median_of_each_step() -> None:
    row = rising_rows()[0]
    assert (row.family, row.case, row.variant) == ("ramp-up", "rising", "adaptive")
    assert [step["came_through_per_s"] for step in row.parameters["steps"]] == [
        offered - 1 for offered in STEPS
    ]


def test_a_rising_load_has_a_table_and_panels_of_its_own(tmp_path: Path) -> None:
    family, printed = RampUpFamily(), StringIO()
    family.print(rising_rows(), Console(file=printed, width=140))
    lines = [line.split() for line in printed.getvalue().splitlines() if line.endswith("yes   ")]
    assert len(lines) == 6 * len(SYSTEM.variants)
    assert lines[0] == ["1.00", "k", "adaptive", "999", "1.00", "ms", "2.00", "ms", "yes"]
    family.draw(rising_rows(), tmp_path / "rising.png")
    family.draw([*rows_of("100"), *rising_rows()], tmp_path / "both.png")
    alone, both = (matplotlib.image.imread(tmp_path / f"{name}.png") for name in ("rising", "both"))
    assert both.shape[0] > 1.8 * alone.shape[0]
