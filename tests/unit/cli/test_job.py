"""``flinknet job``: operators, checkpoints, and the last failure."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flinknet.cluster.control.submission import Submission
from flinknet.config.job_checkpointing import JobCheckpointingConfig
from tests.unit.cli.commands import Terminal, run_endless_job
from tests.unit.cluster.graphs import endless_graph, keyed_graph
from tests.unit.cluster.running_cluster import running_cluster


def fail(record: object) -> None:
    raise ValueError("no such record")


async def test_each_operator_of_a_running_job_is_told(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_cluster() as cluster:
        terminal = Terminal(cluster.served, capsys, monkeypatch)
        record = await run_endless_job(cluster)
        printed = await terminal.print("job", "endless")
        assert f"endless ({record.job_id}): RUNNING" in printed
        (row,) = [line for line in printed.splitlines() if "Source" in line]
        assert row.split()[-1] in ("OK", "LOW", "HIGH")
        assert "checkpoints" not in printed
        assert "failure" not in printed
        told = json.loads(await terminal.print("job", record.job_id, "--json"))
        assert told["job"]["jid"] == record.job_id
        assert {task["task"]["vertex_id"] for task in told["tasks"]} == {
            vertex["id"] for vertex in told["job"]["vertices"]
        }
        cluster.served.coordinator.cancel(record)
        await cluster.served.coordinator.wait_for_end(record, 60.0)


async def test_the_latency_of_markers_is_shown(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_cluster() as cluster:
        terminal = Terminal(cluster.served, capsys, monkeypatch)
        coordinator = cluster.served.coordinator
        graph = replace(endless_graph(), latency_interval_ms=1)
        record = coordinator.submit(Submission.of_graph(graph))
        told: list[dict[str, Any]] = []
        wanted = {("Map", 0), ("Map", 1)}
        while wanted - {(one["operator"], one["subtask"]) for one in told}:
            told = json.loads(await terminal.print("job", "endless", "--json"))["latency"]
        printed = await terminal.print("job", "endless")
        (row,) = [line for line in printed.splitlines() if line.split()[1:2] == ["Map"]]
        assert row.split()[0] == "RateLimited"
        assert int(row.split()[2].replace(",", "")) >= 2
        coordinator.cancel(record)
        await coordinator.wait_for_end(record, 60.0)


async def test_a_job_without_reports_shows_why_it_failed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_cluster() as cluster:
        terminal = Terminal(cluster.served, capsys, monkeypatch)
        coordinator = cluster.served.coordinator
        record = coordinator.submit(Submission.of_graph(keyed_graph(function=fail)))
        await coordinator.wait_for_end(record, 60.0)
        coordinator.metrics.history.forget("worker-0")
        coordinator.metrics.history.forget("worker-1")
        printed = await terminal.print("job", record.job_id)
        assert "the last failure: " in printed
        assert "ValueError: no such record" in printed
        (row,) = [line for line in printed.splitlines() if "Source" in line]
        assert row.split()[-5:] == ["-"] * 5
        status, _, error = await terminal.type("job", "counts")
        assert status == 2
        assert 'has no job "counts"; running jobs: none' in error


async def test_checkpoints_are_counted(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    settings = JobCheckpointingConfig(interval_ms=10.0, directory=str(tmp_path))
    graph = replace(endless_graph(), checkpointing=settings)
    async with running_cluster() as cluster:
        terminal = Terminal(cluster.served, capsys, monkeypatch)
        coordinator = cluster.served.coordinator
        record = coordinator.submit(Submission.of_graph(graph))
        while not record.checkpoints.history.completed:
            await asyncio.sleep(0)
        printed = await terminal.print("job", "endless")
        assert "checkpoints: " in printed
        assert "the last completed one, " in printed
        coordinator.cancel(record)
        await coordinator.wait_for_end(record, 60.0)
