"""What the commands for job files have in common."""

from __future__ import annotations

from pathlib import Path

import pytest

from flinknet.cli.arguments import cluster_config, output_redirected
from flinknet.errors import ConfigurationError


def test_what_a_job_file_prints_stays_out_of_json(capsys: pytest.CaptureFixture[str]) -> None:
    with output_redirected(as_json=True):
        print("a line of the job's")
    with output_redirected(as_json=False):
        print("another")
    assert capsys.readouterr() == ("another\n", "a line of the job's\n")


def test_flags_come_before_the_file_and_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "cluster.toml"
    file.write_text("[cluster]\nworkers = 3\nslots_per_worker = 3\n")
    monkeypatch.setenv("FLINKNET_CLUSTER_SLOTS_PER_WORKER", "4")
    cluster = cluster_config(file, None, None, "asyncio").cluster
    assert (cluster.workers, cluster.slots_per_worker, cluster.event_loop) == (3, 4, "asyncio")
    assert cluster_config(file, 5, 6, None).cluster.slots_per_worker == 6


def test_a_flag_that_cannot_be_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="workers is 0"):
        cluster_config(None, 0, None, None)
