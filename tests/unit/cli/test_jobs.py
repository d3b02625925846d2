"""``flinknet jobs``: running jobs, ended jobs, and none."""

from __future__ import annotations

import json

import pytest

from tests.unit.cli.commands import Terminal, run_endless_job
from tests.unit.cluster.running_cluster import running_cluster


async def test_jobs_are_listed_for_people_and_for_programs(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_cluster() as cluster:
        terminal = Terminal(cluster.served, capsys, monkeypatch)
        assert await terminal.print("jobs") == "there are no jobs\n"
        record = await run_endless_job(cluster)
        (row,) = [line for line in (await terminal.print("jobs")).splitlines() if "endless" in line]
        name, job_id, state, _, unit, tasks, running = row.split()
        assert (name, job_id, state, unit) == ("endless", record.job_id, "RUNNING", "s")
        assert (tasks, running) == ("4", "4")
        (told,) = json.loads(await terminal.print("jobs", "--json"))["jobs"]
        assert (told["jid"], told["state"]) == (record.job_id, "RUNNING")
        cluster.served.coordinator.cancel(record)
        await cluster.served.coordinator.wait_for_end(record, 60.0)
        assert "CANCELED" in await terminal.print("jobs")


async def test_a_wrong_secret_is_said_to_be_wrong(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_cluster() as cluster:
        terminal = Terminal(cluster.served, capsys, monkeypatch)
        terminal.token = "0" * 64
        status, printed, error = await terminal.type("jobs")
        assert (status, printed) == (2, "")
        assert "the cluster token is missing or wrong" in error
