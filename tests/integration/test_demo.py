"""``flinknet demo`` as a user runs it, on a small part of the flights, with real processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import matplotlib.image
import pytest

from flinknet.cli import main as cli

pytestmark = [pytest.mark.xdist_group("demo"), pytest.mark.spark, pytest.mark.timeout(180)]

LIMIT, SCALE = 5_000, 4


def run(*command: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "COLUMNS": "120", "PYTHONPATH": str(Path.cwd())}
    return subprocess.run(
        [sys.executable, *command],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("work")


@pytest.fixture(scope="module")
def demo(directory: Path) -> subprocess.CompletedProcess[str]:
    """Run one demo, with results in ``directory / "results"``."""
    size = ("--limit", str(LIMIT), "--scale", str(SCALE))
    options = ("--output", "results", "--kill", *size)
    return run("-m", "flinknet.cli", "demo", *options, cwd=directory)


def test_spark_confirms_every_pair_of_all_runs(demo: subprocess.CompletedProcess[str]) -> None:
    assert demo.returncode == 0, demo.stdout + demo.stderr
    assert demo.stdout.count("agree with Spark's groupBy") == 4


def test_a_worker_is_killed_on_the_way_and_its_job_goes_on(
    demo: subprocess.CompletedProcess[str], directory: Path
) -> None:
    killed = json.loads((directory / "results" / "result.json").read_text())["killed"]
    kill = killed["kill"]
    assert f"kill -9 {kill['pid']}: killed {kill['worker']} after" in demo.stdout
    assert f"attempt 1 continues from {kill['restored_from']}" in demo.stdout
    assert kill["restored_from"].endswith("-attempt-0")
    assert killed["verification"]["differences"] == []


def test_the_table_the_json_and_the_figure_are_left(
    demo: subprocess.CompletedProcess[str], directory: Path
) -> None:
    results = directory / "results"
    assert "records/s" in (results / "result.txt").read_text()
    assert matplotlib.image.imread(results / "result.png").ndim == 3
    stored = json.loads((results / "result.json").read_text())
    assert stored["verified"] is True
    for one in stored["runs"]:
        assert one["records"] == LIMIT * SCALE
        assert one["verification"]["records"] == LIMIT * SCALE
        assert one["verification"]["pairs"] > 100
        assert one["records_per_s"] > 0
        assert one["mb_per_s"] > 0
        assert len(one["subtasks"]) == 4
        assert len(one["channels"]) == 16
        assert sum(channel["local"] for channel in one["channels"]) == 8
        assert sum(channel["records"] for channel in one["channels"]) == LIMIT * SCALE
        latency = one["latency_us"]
        assert 0 < latency["p50_us"] <= latency["p99_us"] <= latency["p999_us"] <= latency["max_us"]
    saturation, _, open_loop = stored["runs"]
    assert open_loop["offered_records_per_s"] == pytest.approx(saturation["records_per_s"] / 2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--workers", "1"), "workers is 1: choose 2 to"),
        (("--sources", "5"), "5 sources need 5 slots"),
        (("--load", "2"), "load is 2.0: choose a share"),
        (("--scale", "0"), "scale is 0: choose 1 to"),
    ],
)
def test_invalid_options_are_refused_before_anything_starts(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    options: tuple[str, ...],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as exit_info:
        cli.main(["demo", *options])
    said = capsys.readouterr()
    assert exit_info.value.code == 2
    assert message in said.err
    assert said.out == ""
    assert list(tmp_path.iterdir()) == []


def test_a_missing_java_is_reported_in_one_sentence(tmp_path: Path) -> None:
    environment = {**os.environ, "JAVA_HOME": str(tmp_path)}
    refused = subprocess.run(
        [sys.executable, "-m", "flinknet.cli", "demo", "--output", str(tmp_path / "results")],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert refused.returncode == 2
    assert "Spark needs Java" in refused.stderr
    assert "install a Java runtime 17 or later" in refused.stderr
    assert refused.stderr.count("\n") == 1
    assert not (tmp_path / "results").exists()
