"""Spark's task, without Spark: it starts workers on command, and none of them outlives it."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from flinknet.cluster.control.credentials import TOKEN_VARIABLE, new_token
from flinknet.cluster.control.exit_status import ExitStatus
from flinknet.cluster.launch.local.children import HOME, START, process_variables
from flinknet.cluster.launch.spark.agent import run_agent
from flinknet.cluster.launch.spark.shipping import LIBRARIES, misfit
from flinknet.cluster.launch.spark.task_links import TaskLink, TaskLinks
from flinknet.config import ClusterConfig, FlinknetConfig
from flinknet.net.tls import Tls
from tests.certificates import an_authority
from tests.contract.cluster_processes import processes_of

SECRET = b"a secret"
CONFIG = FlinknetConfig(cluster=ClusterConfig(coordinator_wait_ms=0.0))


class Launching:
    """The launcher's side of one task, which runs in a thread."""

    def __init__(self, tls: Tls | None = None) -> None:
        self.token = new_token()
        self.links = TaskLinks(SECRET, self.take, self.hear, lambda link: None, tls)
        self.linked: asyncio.Queue[TaskLink] = asyncio.Queue()
        self.news: asyncio.Queue[Mapping[str, Any]] = asyncio.Queue()
        self.settings: dict[str, Any] = {
            "stage": 1,
            "secret": SECRET.hex(),
            "tls": None,
            "shipped": "",
            "home": HOME,
            "path": [],
            "directory": "",
            "start": START,
            "flags": [],
            "variables": process_variables(CONFIG, self.token),
            "libraries": [*LIBRARIES, "no_such_library"],
        }

    def take(self, link: TaskLink) -> bool:
        self.linked.put_nowait(link)
        return True

    def hear(self, link: TaskLink, news: Mapping[str, Any]) -> None:
        self.news.put_nowait(news)

    async def start(self, root: str = "") -> tuple[TaskLink, asyncio.Task[None]]:
        if "address" not in self.settings:
            self.settings["address"] = await self.links.listen("127.0.0.1")
        task = asyncio.create_task(asyncio.to_thread(run_agent, self.settings, 3, root))
        return await self.linked.get(), task

    async def event(self, name: str) -> Mapping[str, Any]:
        """Return the next event of that name."""
        while True:
            news = await self.news.get()
            if news["event"] == name:
                return news


@pytest.fixture
async def launching() -> AsyncIterator[Launching]:
    made = Launching()
    yield made
    await made.links.close()


def start(link: TaskLink, worker: str) -> None:
    arguments = ["--coordinator=127.0.0.1:1", f"--worker-id={worker}"]
    link.command("start", worker=worker, arguments=arguments, variables={})


async def test_the_output_and_end_of_a_worker_are_reported_and_it_is_replaced(
    launching: Launching,
) -> None:
    link, task = await launching.start()
    assert (link.stage, link.rank, link.facts["pid"]) == (1, 3, os.getpid())
    for worker in ("worker-3", "worker-3.1"):
        start(link, worker)
        assert (await launching.event("started"))["worker"] == worker
        assert "lost the coordinator" in (await launching.event("said"))["line"]
        end = await launching.event("exited")
        assert (end["worker"], end["status"]) == (worker, ExitStatus.COORDINATOR_LOST)
    link.command("end")
    await task


@pytest.mark.parametrize("is_gone", [False, True])
async def test_no_worker_outlives_its_task(launching: Launching, is_gone: bool) -> None:
    """This holds when the task is told to end, and when the launcher is gone."""
    launching.settings["start"] = "import time; print('here', flush=True); time.sleep(3600)"
    link, task = await launching.start()
    start(link, "worker-3")
    assert (await launching.event("printed"))["line"] == "here"
    assert processes_of(launching.token)
    if is_gone:
        link.abort()
        with pytest.raises(ConnectionError, match="is gone"):
            await task
    else:
        link.command("end")
        await task
    assert processes_of(launching.token) == {}


async def test_a_signal_reaches_the_worker_and_is_told(launching: Launching) -> None:
    launching.settings["start"] = "import time; print('here', flush=True); time.sleep(3600)"
    link, task = await launching.start()
    for number in (signal.SIGTERM, signal.SIGKILL):
        start(link, "worker-3")
        await launching.event("printed")
        link.command("signal", signal=number)
        assert (await launching.event("exited"))["status"] == -number
    link.command("end")
    await task


async def test_a_worker_has_the_cluster_but_nothing_of_the_python_worker(
    launching: Launching, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark's secrets of its Python workers are not for user code."""
    monkeypatch.setenv("PYTHON_WORKER_FACTORY_SECRET", "spark's")
    monkeypatch.setenv("FLINKNET_CLUSTER_WORKERS", "77")
    launching.settings["start"] = "import os; print(sorted(os.environ.items()))"
    link, task = await launching.start()
    start(link, "worker-3")
    line = (await launching.event("printed"))["line"]
    assert launching.token in line
    assert TOKEN_VARIABLE in line
    assert "'FLINKNET_CLUSTER_WORKERS', '2'" in line
    assert "spark's" not in line
    link.command("end")
    await task


async def test_it_reports_the_flinknet_that_it_has_found(
    launching: Launching, tmp_path: Path
) -> None:
    """The version in a shipped archive takes precedence; here the archive is missing."""
    link, task = await launching.start()
    found = link.facts["found"]
    assert found["missing"] == ["no_such_library"]
    assert misfit({**found, "missing": []}) == ""
    link.command("end")
    await task
    launching.settings["shipped"] = "flinknet-1"
    link, task = await launching.start(str(tmp_path))
    assert link.facts["found"]["home"] == str(tmp_path / "flinknet-1")
    assert link.facts["found"]["version"] == ""
    link.command("end")
    await task


async def test_with_tls_both_sides_show_a_certificate_of_the_clusters_authority() -> None:
    authority = an_authority()
    authority.issue("launcher", "127.0.0.1")
    authority.issue("task")
    launching = Launching(authority.tls("launcher"))
    certificate, key, ca = map(str, authority.files("task"))
    tls = {"certificate": certificate, "private_key": key, "authority": ca, "pinned": []}
    launching.settings["tls"] = {**tls, "name": "127.0.0.1"}
    link, task = await launching.start()
    link.command("end")
    await task
    for wrong in (None, {**tls, "name": "another"}, {**launching.settings["tls"], "pinned": ["0"]}):
        launching.settings["tls"] = wrong
        with pytest.raises(OSError):  # noqa: PT011 - of SSL, or of the connection
            await asyncio.to_thread(run_agent, launching.settings, 3, "")
    assert launching.linked.empty()
    await launching.links.close()


async def test_a_task_that_meets_another_than_its_launcher_says_so(launching: Launching) -> None:
    launching.settings["secret"] = b"another secret".hex()
    launching.settings["address"] = await launching.links.listen("127.0.0.1")
    with pytest.raises(ConnectionError, match="is not the launcher"):
        await asyncio.to_thread(run_agent, launching.settings, 0, "")
    assert launching.linked.empty()
