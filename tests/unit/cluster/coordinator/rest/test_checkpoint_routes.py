"""The history of a job's checkpoints over HTTP, in Flink's formats."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp

from flinknet.cluster.control.credentials import authorization_headers
from flinknet.cluster.control.submission import RestoreSettings, Submission
from flinknet.cluster.coordinator.jobs.job_record import JobRecord
from flinknet.config.job_checkpointing import JobCheckpointingConfig
from flinknet.graph.graph import JobGraph
from flinknet.wire.checkpoint_options import CheckpointKind
from tests.unit.cluster.control_plane import get
from tests.unit.cluster.graphs import endless_graph
from tests.unit.cluster.running_cluster import Cluster, running_cluster


async def running(
    cluster: Cluster, graph: JobGraph, restore: RestoreSettings | None = None
) -> JobRecord:
    coordinator = cluster.served.coordinator
    submission = Submission.of_graph(graph, restore)
    record = coordinator.submit(submission, await coordinator.find_restore_point(submission))
    while not record.checkpoints.is_running:
        await asyncio.sleep(0)
    return record


async def cancel(cluster: Cluster, record: JobRecord) -> None:
    cluster.served.coordinator.cancel(record)
    await cluster.served.coordinator.wait_for_end(record, 60.0)
    await cluster.served.coordinator.finish_checkpoints()


async def ask(cluster: Cluster, record: JobRecord, what: str = "") -> tuple[int, Any]:
    headers = authorization_headers(cluster.served.token)
    url = f"http://{cluster.served.address}"
    async with aiohttp.ClientSession(url, headers=headers) as session:
        return await get(session, f"/v1/jobs/{record.job_id}/checkpoints{what}")


async def test_counts_latest_and_history_tell_of_savepoints(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no directory")
    async with running_cluster() as cluster:
        client = cluster.served.client()
        coordinator = cluster.served.coordinator
        record = await running(cluster, endless_graph())
        _, empty = await ask(cluster, record)
        assert empty["latest"] == dict.fromkeys(("completed", "savepoint", "failed", "restored"))
        assert empty["summary"]["state_size"]["p99"] == 0
        place = await client.savepoint(record.job_id, str(tmp_path))
        bad = coordinator.trigger_savepoint(
            record, CheckpointKind.SAVEPOINT, str(tmp_path / "file")
        )
        await coordinator.wait_for_savepoint(bad, 60.0)
        _, told = await ask(cluster, record)
        assert told["counts"] == {
            "restored": 0,
            "total": 2,
            "in_progress": 0,
            "completed": 1,
            "failed": 1,
        }
        assert [row["id"] for row in told["history"]] == [2, 1]
        latest = told["latest"]["savepoint"]
        assert (latest["status"], latest["external_path"]) == ("COMPLETED", place)
        assert latest["checkpoint_type"] == "SAVEPOINT"
        assert (latest["className"], latest["savepointFormat"]) == ("completed", "CANONICAL")
        assert latest["num_acknowledged_subtasks"] == latest["num_subtasks"] > 0
        assert told["summary"]["state_size"]["avg"] == latest["state_size"] > 0
        assert "Not a directory" in told["latest"]["failed"]["failure_message"]
        assert "external_path" not in told["latest"]["failed"]
        assert told["latest"]["completed"] is None
        _, details = await ask(cluster, record, "/details/1")
        assert details | {"tasks": {}} == latest
        for vertex, task in details["tasks"].items():
            _, subtasks = await ask(cluster, record, f"/details/1/subtasks/{vertex}")
            assert {name: subtasks[name] for name in task} == task
            assert task["num_acknowledged_subtasks"] == len(subtasks["subtasks"]) == 2
            assert {one["status"] for one in subtasks["subtasks"]} == {"completed"}
            assert subtasks["summary"]["start_delay"]["min"] >= 0
        assert sum(task["state_size"] for task in details["tasks"].values()) == latest["state_size"]
        assert (await ask(cluster, record, "/details/1/subtasks/0"))[0] == 404
        assert (await ask(cluster, record, "/details/99/subtasks/0"))[0] == 404
        for vertex in details["tasks"]:
            _, failed = await ask(cluster, record, f"/details/2/subtasks/{vertex}")
            assert failed["status"] == "FAILED"
        assert (await ask(cluster, record, "/details/99"))[0] == 404
        assert (await ask(cluster, record, "/config"))[0] == 404
        await cancel(cluster, record)
        again = await running(cluster, endless_graph(), RestoreSettings(place))
        restored = (await ask(cluster, again))[1]["latest"]["restored"]
        assert (restored["external_path"], restored["is_savepoint"]) == (place, True)
        assert restored["id"] == 1
        await cancel(cluster, again)


async def test_a_pending_savepoint_is_in_the_history_and_the_settings_are_shown(
    tmp_path: Path,
) -> None:
    settings = JobCheckpointingConfig(60_000.0, directory=str(tmp_path))
    async with running_cluster() as cluster:
        coordinator = cluster.served.coordinator
        record = await running(cluster, replace(endless_graph(), checkpointing=settings))
        asked = coordinator.trigger_savepoint(record, CheckpointKind.SAVEPOINT_SUSPEND, "")
        _, told = await ask(cluster, record)
        if not asked.location:
            assert told["history"][0]["status"] == "IN_PROGRESS"
        assert told["history"][0]["checkpoint_type"] == "SYNC_SAVEPOINT"
        _, config = await ask(cluster, record, "/config")
        assert (config["mode"], config["interval"]) == ("exactly_once", 60_000)
        assert config["externalization"] == {"enabled": True, "delete_on_cancellation": False}
        await coordinator.wait_for_end(record, 60.0)
        assert record.state.value == "FINISHED"
        await coordinator.finish_checkpoints()
