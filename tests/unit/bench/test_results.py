"""The README quotes what ``bench/results`` holds, and nothing else."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from bench.cli import COLUMNS_MIN
from bench.families import FAMILIES
from bench.harness.machine import describe
from bench.harness.row import Row

BENCH = Path(__file__).parents[3] / "bench"
RESULTS = sorted((BENCH / "results").glob("*.json"))


def test_there_are_results() -> None:
    assert BENCH / "results" / "exchange.json" in RESULTS


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.name)
def test_the_readme_shows_the_table_the_machine_and_the_figure(path: Path) -> None:
    document = json.loads(path.read_text())
    rows = [Row(**row) for row in document["rows"]]
    assert all(row.verified if row.runs else "not_run" in row.parameters for row in rows)
    printed = StringIO()
    FAMILIES[path.stem].print(rows, Console(file=printed, width=COLUMNS_MIN))
    readme = (BENCH / "README.md").read_text()
    for line in printed.getvalue().splitlines():
        assert line.strip() in readme
    assert describe(document["machine"]) in readme
    assert f"results/{path.stem}.png" in readme
    assert path.with_suffix(".png").exists()
