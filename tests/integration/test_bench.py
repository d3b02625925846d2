"""``python -m bench`` as a user runs it: real processes, one short run of each system."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import matplotlib.image


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
        assert f"{rows['flinknet', variant]['records_per_s'] / peer:.2f}x" in line

    height, width, _ = matplotlib.image.imread(tmp_path / "rows.png").shape
    assert height > 100 < width
