"""The benchmarks with real processes: ``python -m bench`` as a user runs it, and each family."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from io import StringIO
from pathlib import Path

import matplotlib.image
import pytest
from rich.console import Console

from bench.barriers.job import VARIANTS
from bench.families import find_family
from bench.harness.family import Selection
from bench.harness.pinning import choose_pinning
from bench.harness.row import Row
from bench.harness.table import format_times
from bench.harness.trial import Plan

pytestmark = pytest.mark.xdist_group("cores")

BRIEF = Plan(runs=1, seconds=0.3, warm_up_s=0.1)


class Silent:
    """A progress display without output."""

    def expect(self, runs: int) -> None: ...

    def begin(self, run: str) -> None: ...

    def end(self) -> None: ...


def run_briefly(name: str, cases: str, where: Path) -> tuple[dict[tuple[str, str], Row], str]:
    """Run a family briefly; return its rows by case and variant, and its table."""
    family = type(find_family(name))()  # tests change the variants of its module
    selection = Selection(tuple(cases.split()), (), BRIEF, choose_pinning())
    rows = family.run(selection, Silent())
    assert all(row.family == name and row.verified for row in rows)
    printed = StringIO()
    family.print(rows, Console(file=printed, width=110))
    family.draw(rows, where / "figure.png")
    assert_is_figure(where / "figure.png")
    return {(row.case, row.variant): row for row in rows}, printed.getvalue()


@pytest.fixture
def only(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return a function that limits a family to some variants of its system."""

    def leave(family: str, *variants: str) -> None:
        module = import_module(f"bench.{family.replace('-', '_')}.family")
        assert set(variants) < set(module.SYSTEM.variants)
        monkeypatch.setattr(module, "SYSTEM", replace(module.SYSTEM, variants=variants))

    return leave


def assert_is_figure(path: Path) -> None:
    height, width, _ = matplotlib.image.imread(path).shape
    assert height > 100 < width


def test_run_measures_verifies_and_leaves_table_json_and_figure(tmp_path: Path) -> None:
    command = "run exchange --case tuple --against stream --runs 1 --quick --json rows.json"
    environment = {**os.environ, "PYTHONPATH": str(Path.cwd())}
    result = subprocess.run(
        [sys.executable, "-m", "bench", *command.split()],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr

    document = json.loads((tmp_path / "rows.json").read_text())
    rows = {(row["system"], row["variant"]): row for row in document["rows"]}
    assert set(rows) == {("flinknet", "record"), ("flinknet", "bulk"), ("stream", "record")}
    for row in rows.values():
        assert (row["family"], row["case"], row["verified"]) == ("exchange", "tuple", True)
        assert row["runs"] == [row["records_per_s"]]
        assert row["cpu_s_per_million_records"] > 0
    assert rows["flinknet", "record"]["parameters"]["credit"] == "on"

    peer = rows["stream", "record"]["records_per_s"]
    line = next(line for line in result.stdout.splitlines() if "stream record" in line)
    for variant in ("record", "bulk"):
        assert format_times(rows["flinknet", variant]["records_per_s"] / peer) in line

    assert_is_figure(tmp_path / "rows.png")


def test_credit_cost_compares_credit_with_none(tmp_path: Path, only: Callable[..., None]) -> None:
    only("credit-cost", *(f"bulk, credit {has}" for has in ("on", "off", "and checksums on")))
    rows, printed = run_briefly("credit-cost", "tuple", tmp_path)
    on, off, checked = rows.values()
    assert f"{on.records_per_s / off.records_per_s:.3f}" in printed
    assert f"{checked.records_per_s / on.records_per_s:.3f}" in printed


def test_broadcast_serialises_once_for_any_number_of_channels(
    tmp_path: Path, only: Callable[..., None]
) -> None:
    only("broadcast", "1 channel", "4 channels")
    rows, _ = run_briefly("broadcast", "dict", tmp_path)
    for channels, row in zip((1, 4), rows.values(), strict=True):
        assert row.parameters["serialised_per_record"] == 1
        assert row.parameters["bytes_out_per_byte_produced"] == channels
        assert row.parameters["producer_cpu_s_per_million_records"] > 0


def test_scale_carries_records_over_every_channel(tmp_path: Path) -> None:
    rows, _ = run_briefly("scale", "channels-1 channels-1000", tmp_path)
    assert len(rows) == 4
    for (case, _), row in rows.items():
        parameters = row.parameters
        assert case == f"channels-{parameters['channels']}"
        for kind in ("tasks", "timers", "sockets"):
            before, idle, carrying = parameters[kind]
            assert max(idle, carrying) - before < 10
        costed = case == "channels-1000"
        assert (parameters["bytes_per_idle_channel"] is not None) == costed
        assert (parameters["us_per_active_channel"] is not None) == costed


def test_scale_runs_200_subtasks_in_one_worker(tmp_path: Path) -> None:
    rows, _ = run_briefly("scale", "subtasks-200", tmp_path)
    assert rows["subtasks-200", "one worker"].parameters["subtasks"] == 200


def test_isolation_measures_the_others_and_their_barriers(tmp_path: Path) -> None:
    rows, _ = run_briefly("isolation", "channels-8", tmp_path)
    flowing = [
        rows["channels-8", f"credit on, {one_more}"]
        for one_more in ("without", "running", "stopped")
    ]
    assert all(row.records_per_s > 0 for row in flowing)
    assert any(row.latency_us is not None for row in flowing)
    blocked = rows["channels-8", "credit off, stopped"]
    assert blocked.records_per_s < flowing[0].records_per_s / 2
    assert blocked.latency_us is None
    for row in rows.values():
        assert row.parameters["barriers_arrived"] <= row.parameters["barriers_sent"]
        assert (row.parameters["barriers_arrived"] > 0) == (row.latency_us is not None)


def test_adaptive_measures_the_fast_consumer_beside_the_slow_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bench.adaptive.family.SETTLE_S", 1.0)
    rows, _ = run_briefly("adaptive", "slow-and-fast", tmp_path)
    in_turn, *adaptive = rows.values()
    assert [row.variant for row in rows.values()] == ["rebalance", "adaptive", "adaptive, debloat"]
    for row in adaptive:
        assert row.records_per_s > in_turn.records_per_s
        assert row.cpu_s_per_million_records > 0


def test_timeouts_measure_throughput_latency_and_the_round_trip(
    tmp_path: Path, only: Callable[..., None]
) -> None:
    variants = ("100 ms, credit on", "adaptive, credit on")
    only("timeouts", *variants)
    rows, printed = run_briefly("timeouts", "tuple", tmp_path)
    long, adaptive, trip = rows.values()
    assert (long.variant, adaptive.variant, trip.system) == (*variants, "sockets")
    highest = max(long.records_per_s, adaptive.records_per_s)
    for row in (long, adaptive):
        assert row.parameters["load_records_per_s"] == pytest.approx(highest / 10, abs=0.1)
        assert row.latency_us is not None
    assert f"{adaptive.records_per_s / long.records_per_s:.3f}" in printed


def test_latency_loads_each_peer_with_a_share_of_its_own_maximum(
    tmp_path: Path, only: Callable[..., None]
) -> None:
    only("latency", "adaptive", "100 ms")
    rows, _ = run_briefly("latency", "open-loop-50", tmp_path)
    for timeout in ("adaptive", "100 ms"):
        loaded = rows["open-loop-50", timeout]
        maximum = rows["maximum", timeout].records_per_s
        assert loaded.parameters["load_records_per_s"] == pytest.approx(maximum / 2, abs=0.1)
        assert loaded.latency_us is not None


def test_barriers_measures_checkpoints_under_backpressure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bench.barriers.family.VARIANTS", {"unaligned": VARIANTS["unaligned"]})
    monkeypatch.setattr("bench.barriers.job.SETTLE_S", 0.2)
    rows, printed = run_briefly("barriers", "slow-sink", tmp_path)
    row = rows["slow-sink", "unaligned"]
    assert row.parameters["checkpoints"] == 3
    assert row.parameters["in_flight_bytes"] > 0
    assert "unaligned" in printed


def test_checkpoints_counts_the_checkpoints_of_a_keyed_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bench.checkpoints.job.SECONDS_LEAST", 0.5)
    monkeypatch.setattr("bench.checkpoints.job.INTERVAL_MS", 100.0)
    rows, printed = run_briefly("checkpoints", "small-state", tmp_path)
    alone, burdened = rows.values()
    assert (alone.parameters["checkpoints"], burdened.parameters["checkpoints"] > 0) == (0, True)
    ratio = burdened.cpu_s_per_million_records / alone.cpu_s_per_million_records
    assert f"{ratio:.3f}" in printed
