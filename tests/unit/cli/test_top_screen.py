"""``flinknet top``, driven by the pilot of its library, against a running job."""

from __future__ import annotations

import asyncio
from typing import Any

from textual.pilot import Pilot
from textual.widgets import DataTable, Static

from flinknet.cli.top_screen import Top
from flinknet.errors import RemoteTransportError
from tests.unit.cli.commands import run_endless_job
from tests.unit.cluster.running_cluster import Cluster, running_cluster


def columns(top: Top) -> list[str]:
    return [str(column.label) for column in top.query_one(DataTable).columns.values()]


def said(top: Top, where: str) -> str:
    return str(top.query_one(f"#{where}", Static).render())


def cell(top: Top, row: int, column: str) -> str:
    return str(top.query_one(DataTable).get_row_at(row)[columns(top).index(column)])


async def come_to(top: Top, pilot: Pilot[None], column: str) -> None:
    """Return once the table has a column."""
    while column not in columns(top):
        await pilot.pause()


async def test_it_goes_from_jobs_to_operators_to_subtasks_and_back() -> None:
    async with running_cluster() as cluster, cluster.served.client() as client:
        record = await run_endless_job(cluster)
        top = Top(client.read)
        async with top.run_test(size=(200, 30)) as pilot:
            assert "2 workers, 2 of 4 slots free" in said(top, "head")
            assert cell(top, 0, "job") == "endless"
            await pilot.press("enter")
            await come_to(top, pilot, "operator")
            assert "endless: RUNNING" in said(top, "head")
            assert said(top, "verdict").split(":")[0] in {"healthy", "troubled"}
            assert cell(top, 0, "operator").startswith("Source")
            assert cell(top, 1, "busy").endswith("%")
            await pilot.press("down", "enter")
            await come_to(top, pilot, "subtask")
            assert {cell(top, row, "worker") for row in range(2)} == {"worker-0", "worker-1"}
            await pilot.press("escape")
            await come_to(top, pilot, "operator")
            await pilot.press("escape")
            await come_to(top, pilot, "job")
            await pilot.press("q")
        await end(cluster, record)


async def test_one_job_may_be_watched_from_the_start() -> None:
    async with running_cluster() as cluster, cluster.served.client() as client:
        record = await run_endless_job(cluster)
        top = Top(client.read, record.job_id)
        async with top.run_test(size=(200, 30)):
            assert columns(top)[0] == "operator"
        await end(cluster, record)


async def test_what_was_told_stays_when_nobody_answers() -> None:
    answers: list[Any] = [ANSWER, RemoteTransportError("gone")]

    async def read(path: str) -> Any:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    top = Top(read)
    async with top.run_test(size=(120, 30)):
        await top.ask()
        assert said(top, "verdict") == "not reached: gone"
        assert "3 workers" in said(top, "head")


ANSWER = {
    "version": "0",
    "cluster": {"taskmanagers": 3, "slots-available": 1, "slots-total": 2},
    "jobs": [],
}


async def end(cluster: Cluster, record: Any) -> None:
    cluster.served.coordinator.cancel(record)
    await cluster.served.coordinator.wait_for_end(record, 60.0)
    await asyncio.sleep(0)
