"""Buffer timeouts: the comparisons, and the rows."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import matplotlib.image
import pytest
from rich.console import Console

from bench.harness.row import Row, median_row
from bench.harness.trial import TimedMeasurement
from bench.timeouts.family import TimeoutsFamily, add_latency, in_round_trips, to_long
from bench.timeouts.system import SYSTEM, config_of
from flinknet.config import ADAPTIVE


def row(system: str, variant: str, rate: float, p50_us: float | None) -> Row:
    return median_row(
        "timeouts",
        "tuple",
        (system, variant, "1"),
        [rate],
        [1.0],
        18.0,
        verified=True,
        latency_us=None if p50_us is None else dict.fromkeys(("p50", "p99", "p99.9"), p50_us),
        parameters={} if system == "sockets" else {"kept": 0.999},
    )


ROWS = [
    row("flinknet", "1 ms, credit on", 95.0, 600.0),
    row("flinknet", "100 ms, credit on", 100.0, 50_000.0),
    row("flinknet", "adaptive, credit on", 98.0, 300.0),
    row("flinknet", "100 ms, credit off", 200.0, 60_000.0),
    row("flinknet", "adaptive, credit off", 100.0, 330.0),
    row("sockets", "round trip", 10.0, 30.0),
]


def loaded(records: int, p50_us: float, verified: bool = True) -> TimedMeasurement:
    return TimedMeasurement(
        records, 1.0, 0.1, 0.1, verified, {"handed_out_late_us": {}}, {"p50": p50_us}
    )


def test_throughput_is_compared_with_the_long_timeout_of_the_same_mode() -> None:
    assert [to_long(ROWS, one) for one in ROWS] == [0.95, None, 0.98, None, 0.5, None]


def test_latency_is_counted_in_round_trips() -> None:
    trips = [in_round_trips(ROWS, one) for one in ROWS]
    assert trips == [20.0, pytest.approx(1666.7, abs=0.1), 10.0, 2000.0, 11.0, None]
    assert in_round_trips(ROWS[:-1], ROWS[0]) is None


def test_every_timeout_is_there_with_credit_and_without() -> None:
    configs = [config_of(variant) for variant in SYSTEM.variants]
    timeouts = [0.0, 1.0, 5.0, 10.0, 100.0, -1.0, ADAPTIVE]
    assert [config.buffer_timeout_ms for config in configs] == timeouts * 2
    assert [config.flow_control for config in configs] == ["credit"] * 7 + ["off"] * 7


def test_latency_joins_throughput_and_has_to_be_verified_as_well() -> None:
    first = row("flinknet", "adaptive, credit on", 1000.0, None)
    runs = [loaded(100, 30.0), loaded(90, 10.0), loaded(80, 20.0)]
    joined = add_latency(first, runs, 100.0)
    assert (joined.records_per_s, joined.latency_us) == (1000.0, {"p50": 20.0})
    assert (joined.parameters["load_records_per_s"], joined.parameters["kept"]) == (100.0, 0.9)
    assert joined.verified
    assert not add_latency(first, [*runs, loaded(100, 1.0, verified=False)], 100.0).verified


def test_the_table_shows_both_ratios() -> None:
    printed = StringIO()
    TimeoutsFamily().print(ROWS, Console(file=printed, width=110))
    lines = [line.split() for line in printed.getvalue().splitlines()]
    adaptive = next(line for line in lines if line[:3] == ["adaptive,", "credit", "on"])
    assert adaptive[3:] == ["98.0", "0.980", "99.9%", *["300", "µs"] * 3, "10", "yes"]
    trip = next(line for line in lines if line[:2] == ["round", "trip"])
    assert trip[2:] == ["10.0", *["30.0", "µs"] * 3, "yes"]


def test_the_figure_has_both_panels(tmp_path: Path) -> None:
    TimeoutsFamily().draw(ROWS, tmp_path / "timeouts.png")
    height, width, _ = matplotlib.image.imread(tmp_path / "timeouts.png").shape
    assert width > height * 2
