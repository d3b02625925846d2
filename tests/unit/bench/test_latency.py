"""Latency in open loop: each system finds its maximum first, and then carries shares of it."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import PackageNotFoundError
from io import StringIO
from pathlib import Path

import matplotlib.image
import pytest
from rich.console import Console

from bench.errors import BenchError
from bench.harness.case import Case
from bench.harness.family import Selection
from bench.harness.pinning import Pinning
from bench.harness.row import Row
from bench.harness.system import Contestant
from bench.harness.trial import Plan, TimedMeasurement
from bench.latency import family as family_module
from bench.latency.cases import LOADS, MAXIMUM, SHARES
from bench.latency.family import PEERS, LatencyFamily
from bench.latency.system import SYSTEM
from bench.peers import stream

SELECTION = Selection(
    ("open-loop-10", "open-loop-80"), ("stream",), Plan(3, 1.0, 0.0), Pinning(0, 1)
)
Measure = Callable[[Contestant, float | None, Case, Plan, Pinning], TimedMeasurement]


class Log:
    """Records the runs."""

    def __init__(self) -> None:
        self.expected = 0
        self.begun: list[str] = []

    def expect(self, runs: int) -> None:
        self.expected += runs

    def begin(self, run: str) -> None:
        if ", run " in run:
            self.begun.append(run)

    def end(self) -> None: ...


def carry(
    contestant: Contestant, load: float | None, case: Case, plan: Plan, pinning: Pinning
) -> TimedMeasurement:
    """Simulate a stream that reaches 1,000 records/s and keeps half of a load, and a flinknet that
    reaches 20,000 and keeps all."""
    own = contestant.system is SYSTEM
    kept = load if own or load is None else load / 2
    rate = (20_000.0 if own else 1_000.0) if kept is None else kept
    late = {"handed_out_late_us": {"p50": 40.0}}
    percentiles = {"p50": 100.0, "p99": 1500.0, "p99.9": 2e6}
    return TimedMeasurement(round(rate), 1.0, 0.5, 0.5, True, late, percentiles)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Callable[[Measure], tuple[list[Row], Log]]:
    def run_with(measure: Measure) -> tuple[list[Row], Log]:
        monkeypatch.setattr(family_module, "measure_load", measure)
        log = Log()
        return LatencyFamily().run(SELECTION, log), log

    return run_with


def test_every_system_carries_shares_of_its_own_maximum(
    run: Callable[[Measure], tuple[list[Row], Log]],
) -> None:
    rows, log = run(carry)
    names = [f"flinknet {variant}" for variant in SYSTEM.variants] + ["stream record"]
    cases = ("maximum", "open-loop-10", "open-loop-80")
    assert [(row.case, f"{row.system} {row.variant}") for row in rows] == [
        (case, name) for case in cases for name in names
    ]
    by_name = {(row.case, row.system): row for row in rows}
    assert by_name["maximum", "flinknet"].records_per_s == 20_000
    assert by_name["maximum", "flinknet"].latency_us is None
    assert by_name["open-loop-10", "flinknet"].parameters["load_records_per_s"] == 2_000
    assert by_name["open-loop-80", "flinknet"].parameters["kept"] == 1.0
    overloaded = by_name["open-loop-80", "stream"]
    assert overloaded.parameters["load_records_per_s"] == 800
    assert overloaded.parameters["kept"] == 0.5
    assert overloaded.latency_us == {"p50": 100.0, "p99": 1500.0, "p99.9": 2e6}
    assert log.expected == len(log.begun) == 3 * 5 * 3
    assert [each.split(", ")[1] for each in log.begun[:10]] == names * 2


def test_who_has_no_maximum_gets_no_load(
    run: Callable[[Measure], tuple[list[Row], Log]],
) -> None:
    def fail(
        contestant: Contestant, load: float | None, case: Case, plan: Plan, pinning: Pinning
    ) -> TimedMeasurement:
        if contestant.system is stream.SYSTEM:
            raise BenchError("the consumer failed")
        return carry(contestant, load, case, plan, pinning)

    rows, _ = run(fail)
    (failed,) = (row for row in rows if row.system == "stream")
    assert failed.parameters == {"failed": "the consumer failed"}
    printed = StringIO()
    LatencyFamily().print(rows, Console(file=printed, width=110))
    assert "maximum: stream record: failed: the consumer failed" in printed.getvalue()


def test_what_is_not_installed_is_said(
    run: Callable[[Measure], tuple[list[Row], Log]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing() -> str:
        raise PackageNotFoundError("uvloop")

    absent = replace(stream.SYSTEM, version=missing)
    monkeypatch.setattr(family_module, "PEERS", (absent,))
    rows, _ = run(carry)
    (row,) = (row for row in rows if row.system == "stream")
    assert "uvloop is not installed" in row.parameters["not_run"]


def test_the_table_and_the_figure_show_what_was_kept(
    run: Callable[[Measure], tuple[list[Row], Log]], tmp_path: Path
) -> None:
    rows, _ = run(carry)
    printed = StringIO()
    LatencyFamily().print(rows, Console(file=printed, width=110))
    (_, _, loaded) = (
        line.split() for line in printed.getvalue().splitlines() if "stream record" in line
    )
    latencies = ["100", "µs", "1.50", "ms", "2.00", "s", "40.0", "µs"]
    assert loaded[2:] == ["400", "50.0%", *latencies, "yes"]
    LatencyFamily().draw(rows, tmp_path / "latency.png")
    height, width, _ = matplotlib.image.imread(tmp_path / "latency.png").shape
    assert width > height


def test_the_record_that_carries_a_time_is_as_large_as_with_any_time() -> None:
    block = MAXIMUM.make_block()
    assert all(type(at_ns) is int and at_ns >= 2**32 for _, at_ns, _ in block)
    for case in (MAXIMUM, *LOADS):
        sent: Case = pickle.loads(pickle.dumps(case))
        assert sent.weigh(block[0]) == block[0][1]


def test_systems_and_cases_have_the_names_of_the_contract() -> None:
    family = LatencyFamily()
    assert list(family.cases) == list(SHARES) == ["open-loop-10", "open-loop-50", "open-loop-80"]
    assert SYSTEM.variants[0] == "adaptive"
    assert {system.name for system in PEERS} == {
        "dask",
        "grpc.aio",
        "pyzmq",
        "pyzmq-asyncio",
        "stream",
        "websockets",
    }
