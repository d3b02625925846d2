"""``flinknet top``, driven by the pilot of its library, against a running job."""

from __future__ import annotations

import asyncio
import re
from itertools import cycle
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import DataTable, Static

from flinknet.cli import top_screen
from flinknet.cli.top_screen import Top
from flinknet.cluster.control.submission import Submission
from flinknet.errors import RemoteTransportError
from tests.unit.cli.commands import run_endless_job
from tests.unit.cluster.graphs import keyed_graph
from tests.unit.cluster.running_cluster import Cluster, running_cluster


def columns(top: Top) -> list[str]:
    labels = [str(column.label) for column in top.query_one(DataTable).columns.values()]
    return [label.replace("\n", " ") for label in labels]


def said(top: Top, where: str) -> str:
    return str(top.query_one(f"#{where}", Static).render())


def cell(top: Top, row: int, column: str) -> str:
    return str(top.query_one(DataTable).get_row_at(row)[columns(top).index(column)])


async def come_to(top: Top, pilot: Pilot[None], column: str) -> None:
    """Return once the table has a column."""
    while column not in columns(top):
        await pilot.pause()


async def come_to_say(top: Top, pilot: Pilot[None], where: str, text: str) -> None:
    """Return once a line contains a text."""
    while text not in said(top, where):
        await pilot.pause()


def keys(top: Top) -> dict[str, str]:
    """Return the keys that are shown, with their descriptions."""
    bindings = (active.binding for active in top.screen.active_bindings.values())
    return {each.key: each.description for each in bindings if each.show}


async def test_it_goes_from_jobs_to_operators_to_subtasks_and_back() -> None:
    async with running_cluster() as cluster:
        client = cluster.served.client()
        record = await run_endless_job(cluster)
        top = Top(client.read)
        async with top.run_test(size=(200, 30)) as pilot:
            await come_to_say(top, pilot, "head", "2 workers, 2 of 4 slots free")
            assert said(top, "verdict") == "1 job"
            assert cell(top, 0, "job") == "endless"
            assert keys(top) == {"enter": "Open", "q": "End"}
            await pilot.press("enter")
            await come_to(top, pilot, "operator")
            assert "endless: RUNNING" in said(top, "head")
            assert said(top, "verdict").split(":")[0] in {"not known yet", "healthy", "troubled"}
            assert cell(top, 0, "operator").startswith("Source")
            assert cell(top, 1, "busy").endswith("%")
            await pilot.press("down", "enter")
            await come_to(top, pilot, "subtask")
            assert said(top, "head").endswith("Map -> Sink: out")
            assert keys(top) == {"escape": "Back", "q": "End"}
            assert {cell(top, row, "worker") for row in range(2)} == {"worker-0", "worker-1"}
            await pilot.press("escape")
            await come_to(top, pilot, "operator")
            await pilot.press("escape")
            await come_to(top, pilot, "job")
            await pilot.press("q")
        await end(cluster, record)


async def test_one_job_may_be_watched_from_the_start() -> None:
    async with running_cluster() as cluster:
        client = cluster.served.client()
        record = await run_endless_job(cluster)
        top = Top(client.read, record.job_id)
        async with top.run_test(size=(200, 30)) as pilot:
            await come_to(top, pilot, "operator")
        await end(cluster, record)


async def test_the_last_answer_stays_when_the_coordinator_does_not_answer() -> None:
    answers = cycle([ANSWER, RemoteTransportError("gone")])

    async def read(path: str) -> Any:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    top = Top(read)
    async with top.run_test(size=(120, 30)) as pilot:
        await come_to_say(top, pilot, "verdict", "no jobs")
        await come_to_say(top, pilot, "verdict", "gone")
        assert re.fullmatch(r"not reached since \d\d:\d\d:\d\d: gone", said(top, "verdict"))
        assert "3 workers" in said(top, "head")
        assert top.query_one(DataTable).has_class("old")
        await come_to_say(top, pilot, "verdict", "no jobs")
        assert not top.query_one(DataTable).has_class("old")


async def test_the_user_may_quit_while_no_answer_comes_and_sees_the_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(top_screen, "PATIENCE_S", 0.0)

    async def read(path: str) -> Any:
        await asyncio.Event().wait()

    top = Top(read)
    async with top.run_test(size=(120, 30)) as pilot:
        await come_to_say(top, pilot, "verdict", "not reached: no answer for 0 s")
        monkeypatch.setattr(top_screen, "PATIENCE_S", 3600.0)
        await pilot.press("q")
    assert not top.is_running


async def test_a_job_that_is_cancelled_stays_to_be_seen() -> None:
    async with running_cluster() as cluster:
        client = cluster.served.client()
        record = await run_endless_job(cluster)
        top = Top(client.read, record.job_id)
        async with top.run_test(size=(120, 30)) as pilot:
            await come_to(top, pilot, "operator")
            await end(cluster, record)
            await come_to_say(top, pilot, "head", "endless: CANCELED")
            assert cell(top, 0, "state") == "CANCELED"
            assert said(top, "verdict") == "the job has ended"


async def test_a_failed_job_shows_its_error() -> None:
    async with running_cluster() as cluster:
        client = cluster.served.client()
        graph = keyed_graph("broken", function=lambda record: record[7])
        job_id = await client.submit(Submission.of_graph(graph))
        top = Top(client.read, job_id)
        async with top.run_test(size=(160, 30)) as pilot:
            await come_to_say(top, pilot, "head", "broken: FAILED")
            assert re.match(
                r"the job has failed: Source: .* \(1/1\): .*IndexError: tuple index out of range$",
                said(top, "verdict"),
            )


async def test_the_page_of_a_forgotten_job_links_to_all_jobs() -> None:
    async def read(path: str) -> Any:
        return ANSWER

    top = Top(read, "0815")
    async with top.run_test(size=(120, 30)) as pilot:
        await come_to_say(top, pilot, "verdict", "job 0815 is no longer known; no jobs")
        assert columns(top)[0] == "job"


async def test_an_answer_may_come_when_it_has_ended() -> None:
    async def read(path: str) -> Any:
        if answers:
            return answers.pop()
        raise RemoteTransportError("gone")

    answers = [ANSWER, ANSWER]
    top = Top(read)
    async with top.run_test(size=(120, 30)) as pilot:
        await come_to_say(top, pilot, "verdict", "no jobs")
    answers.append(ANSWER)
    await top.look()
    answers.clear()
    await top.look()
    assert not top.is_running


async def test_another_width_shows_other_columns() -> None:
    async with running_cluster() as cluster:
        client = cluster.served.client()
        record = await run_endless_job(cluster)
        top = Top(client.read, record.job_id)
        async with top.run_test(size=(70, 24)) as pilot:
            await come_to(top, pilot, "operator")
            assert "records out" not in columns(top)
            assert said(top, "note").endswith("records in, records out")
            await pilot.press("down")
            await pilot.resize_terminal(160, 24)
            await come_to(top, pilot, "records out")
            assert not top.query_one("#note").display
            assert top.query_one(DataTable).cursor_row == 1
        await end(cluster, record)


ANSWER = {
    "version": "0",
    "cluster": {"taskmanagers": 3, "slots-available": 1, "slots-total": 2},
    "jobs": [],
}


async def end(cluster: Cluster, record: Any) -> None:
    cluster.served.coordinator.cancel(record)
    await cluster.served.coordinator.wait_for_end(record, 60.0)
    await asyncio.sleep(0)
