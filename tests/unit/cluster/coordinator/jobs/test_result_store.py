"""Results that outlive their coordinator."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from flinknet.cluster.control.messages import Deploy
from flinknet.cluster.control.submission import Submission
from flinknet.errors import JobError
from tests.unit.cluster.control_plane import (
    CONFIG,
    expect,
    serve_control_plane,
)
from tests.unit.cluster.graphs import keyed_graph


async def test_a_result_is_kept_before_it_is_taken(tmp_path: Path) -> None:
    config = replace(CONFIG, state_directory=str(tmp_path))
    async with serve_control_plane(config) as served, served.worker("worker-0") as link:
        record = served.coordinator.submit(Submission.of_graph(keyed_graph()))
        await expect(link, Deploy)
        directory = tmp_path / "jobs" / record.job_id
        await served.coordinator.results.keep(record, record.present, {(0, 0): b"body"})
        assert (directory / "results-0-0").exists()
        served.coordinator.results.forget(record)
        assert not (directory / "results-0-0").exists()
        shutil.rmtree(directory)
        with pytest.raises(JobError, match="the coordinator cannot keep a result: "):
            await served.coordinator.results.keep(record, record.present, {(0, 0): b"body"})
