"""Refusals of a demo before anything starts, and its report of a wrong answer.

The integration tests run a whole demo.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from rich.console import Console

from flinknet.cli import main as cli
from flinknet.config import FlinknetConfig
from flinknet.demo import flights_job
from flinknet.demo.demo import run_demo
from flinknet.demo.flight_totals import ColumnTotals, FlightTotals
from flinknet.demo.progress import DemoProgress
from flinknet.demo.result import DemoParameters
from flinknet.demo.workload import Workload
from flinknet.errors import ConfigurationError
from tests.unit.demo.conftest import SMALL

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def refused(output: Path) -> str:
    progress = DemoProgress(Console(quiet=True))
    with pytest.raises(ConfigurationError) as raised:
        run_demo(DemoParameters(output), FlinknetConfig(), progress)
    assert progress.phases == {}, "nothing was begun"
    return str(raised.value)


def test_without_java_nothing_is_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "none"))
    assert "Spark needs Java" in refused(tmp_path / "demo")
    assert not (tmp_path / "demo").exists()


def test_a_place_that_cannot_be_used_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"21.0.1\"' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    (tmp_path / "a file").write_text("of somebody's")
    assert "a file" in refused(tmp_path / "a file")


def test_a_master_with_other_machines_is_refused(tmp_path: Path) -> None:
    options = ["--on=spark", "--master=spark://there:7077", f"--output={tmp_path / 'demo'}"]
    with pytest.raises(SystemExit) as ended:
        cli.main(["demo", *options])
    assert ended.value.code == 2
    assert not (tmp_path / "demo").exists()


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_a_wrong_aggregate_is_printed_and_is_exit_code_1(
    spark: SparkSession,
    workload: Workload,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The workers run a wrong operator; Spark finds the only pair that it gets wrong."""

    def loses_miles(rows: Iterable[Any]) -> Iterator[Any]:
        """Lose one mile on every flight from Newark to Houston."""
        for origin, dest, records, distance, *rest in rows:
            lost = records * ((origin, dest) == ("EWR", "IAH"))
            yield origin, dest, records, distance - lost, *rest

    class Wrong(FlightTotals):
        def rows(self) -> Any:
            return loses_miles(super().rows())

    class WrongColumns(ColumnTotals):
        def rows(self) -> Any:
            return loses_miles(super().rows())

    monkeypatch.setattr(flights_job, "FlightTotals", Wrong)
    monkeypatch.setattr(flights_job, "ColumnTotals", WrongColumns)
    monkeypatch.setattr(
        "flinknet.demo.demo.spark_session", lambda log_file, master: nullcontext(spark)
    )
    shutil.copytree(workload.directory.parent, tmp_path / "wrong")
    sizes = {"scale": SMALL.scale, "sources": SMALL.sources, "limit": SMALL.limit}
    options = [f"--{name}={size}" for name, size in sizes.items()]
    with pytest.raises(SystemExit) as ended:
        cli.main(["demo", f"--output={tmp_path / 'wrong'}", "--json", *options])
    assert ended.value.code == 1
    said = capsys.readouterr()
    stored = json.loads(said.out)
    assert stored["verified"] is False
    for one in stored["runs"]:
        (difference,) = one["verification"]["differences"]
        assert (difference["origin"], difference["dest"]) == ("EWR", "IAH")
        assert difference["aggregate"] == "distance"
        assert difference["flinknet"] < difference["spark"]
        assert difference["flinknet"] % SMALL.scale == difference["spark"] % SMALL.scale == 0
        assert f"{difference['spark']:,}" in said.err
    assert "An earlier demo has prepared" in said.err
