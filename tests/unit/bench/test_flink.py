"""Flink as a peer: its requirements on the machine, and the use of its tasks' reports."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bench.errors import BenchError, UnavailableError
from bench.peers.flink import installation
from bench.peers.flink.system import measurement_of

APART = {"source": ["producer"], "sink": ["consumer"]}
ALL_TO_ALL = {"source": ["consumer", "producer"], "sink": ["consumer", "producer"]}


def report(records: int, weight: int, fingerprint: int, **window: float) -> dict[str, Any]:
    measured = {"window_records": 100, "window_s": 2.0, "window_cpu_s": 1.0, "warm_up_s": 7.0}
    sums = {"records": records, "weight": weight, "fingerprint": fingerprint}
    return sums | measured | window


def test_a_run_is_measured_in_the_sink_and_costs_what_both_processes_cost() -> None:
    measurement = measurement_of(
        {
            "source-0": report(1000, 5, 7, window_records=90, window_cpu_s=1.5),
            "sink-0": report(1000, 5, 7, window_records=80, window_cpu_s=0.5, warm_up_s=7.5),
        },
        APART,
    )
    assert measurement.verified
    assert measurement.records_per_s == 40.0
    assert measurement.cpu_s_per_million_records == 2.0 / 80 * 1e6
    observations = {"task_managers": APART, "edge": "remote", "warm_up_s": 7.5}
    assert measurement.observations == observations


@pytest.mark.parametrize("field", ["records", "weight", "fingerprint"])
def test_every_sum_has_to_agree(field: str) -> None:
    sink = report(1000, 5, 7)
    sink[field] += 1
    assert not measurement_of({"source-0": report(1000, 5, 7), "sink-0": sink}, APART).verified


def test_both_sinks_of_a_keyed_exchange_count_together_and_their_sums_may_wrap() -> None:
    half = 1 << 63
    measurement = measurement_of(
        {
            "source-0": report(600, half - 1, 1),
            "source-1": report(400, 2, 1),
            "sink-0": report(500, 1 - half, 0, window_cpu_s=1.0),
            "sink-1": report(500, 0, 2, window_cpu_s=3.0),
        },
        ALL_TO_ALL,
    )
    assert measurement.verified
    assert measurement.records_per_s == 100.0
    assert (measurement.producer_cpu_seconds, measurement.consumer_cpu_seconds) == (1.0, 3.0)


def test_an_exchange_within_one_process_is_refused() -> None:
    together = {"source": ["producer"], "sink": ["producer"]}
    reports = {"source-0": report(1, 1, 1), "sink-0": report(1, 1, 1)}
    with pytest.raises(BenchError, match="all tasks into one TaskManager"):
        measurement_of(reports, together)


@pytest.mark.parametrize(
    ("home", "where"),
    [(None, "there is no java on PATH"), ("jdk", "there is no java in JAVA_HOME")],
)
def test_a_missing_jdk_is_named_with_what_to_install(
    home: str | None, where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    if home:
        monkeypatch.setenv("JAVA_HOME", str(tmp_path / home))
    with pytest.raises(UnavailableError, match="install a JDK") as caught:
        installation.install()
    assert str(caught.value).startswith(where)


def test_two_processes_may_install_at_a_time(tmp_path: Path) -> None:
    """The second process finds the files of the first.

    Files that cannot be moved anywhere are an error.
    """
    made, target = tmp_path / "made", tmp_path / "lib"
    for directory in (made, target):
        directory.mkdir()
        (directory / "flink.jar").write_bytes(b"jar")
    installation._put(made, target)
    assert (target / "flink.jar").read_bytes() == b"jar"
    with pytest.raises(FileNotFoundError):
        installation._put(made, tmp_path / "missing" / "lib")
    installation._put(made, tmp_path / "other")
    assert not made.exists()
