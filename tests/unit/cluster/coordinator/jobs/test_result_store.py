"""Results that outlive their coordinator."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from errno import ENOSPC
from pathlib import Path

import aiohttp
import pytest

from flinknet.cluster.control.credentials import authorization_headers
from flinknet.cluster.control.messages import Deploy
from flinknet.cluster.control.submission import Submission
from flinknet.cluster.control.subtask_result import encode_result, pack_results
from flinknet.cluster.coordinator.jobs.result_store import ResultNotStoredError
from flinknet.runtime.subtask import SubtaskResult
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
        with pytest.raises(
            ResultNotStoredError, match=f"results of subtasks: {directory}/.*: No such file or dir"
        ):
            await served.coordinator.results.keep(record, record.present, {(0, 0): b"body"})


async def test_a_full_disk_is_answered_with_507_and_the_name_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(ENOSPC, os.strerror(ENOSPC))

    config = replace(CONFIG, state_directory=str(tmp_path))
    result = encode_result(SubtaskResult(1, 1, 1, 1, 1, 1, 1, {}, {}), 1024)
    async with serve_control_plane(config) as served, served.worker("worker-0") as link:
        record = served.coordinator.submit(Submission.of_graph(keyed_graph()))
        await expect(link, Deploy)
        monkeypatch.setattr(os, "fsync", full)
        path = f"/api/v1/jobs/{record.job_id}/attempts/0/results/worker-0"
        async with (
            aiohttp.ClientSession(headers=authorization_headers(served.token)) as session,
            session.put(
                f"http://{served.address}{path}", data=pack_results({(0, 0): result})
            ) as answer,
        ):
            error = (await answer.json())["error"]
        monkeypatch.undo()
        assert (answer.status, error["type"]) == (507, "ResultNotStoredError")
        assert f"{tmp_path}/jobs/{record.job_id}/results-0-0: No space left" in error["message"]
        assert "cluster.state_directory" in error["message"]
        assert record.present.results == {}, "a result that is not stored does not count"
