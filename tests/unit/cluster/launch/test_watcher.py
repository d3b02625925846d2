"""The meaning of a process's end: the launcher starts nothing, and reports the ends of a test."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any

import pytest

from flinknet.cluster.control.exit_status import ExitStatus
from flinknet.cluster.launch.process_output import COORDINATOR
from flinknet.cluster.launch.protocol import Exit
from flinknet.cluster.launch.watcher import Watcher
from flinknet.errors import JobError, RemoteTransportError, WorkerLostError


class Ends:
    """A launcher that reports the ends which a test gives it."""

    def __init__(self) -> None:
        self.news: list[Mapping[str, Any]] = []
        """The messages to the coordinator."""
        self._ends: asyncio.Queue[Exit | Exception] = asyncio.Queue()

    def end(
        self, name: str, status: int | None, how: str = "", *, place: str = "", last_line: str = ""
    ) -> None:
        how = how or f"exited with status {status}"
        self._ends.put_nowait(Exit(name, how, status, place, last_line))

    def killed(self, name: str = COORDINATOR, *, place: str = "") -> None:
        self.end(name, None, "killed by signal 9 (SIGKILL)", place=place)

    def lose(self, error: Exception) -> None:
        self._ends.put_nowait(error)

    async def next_exit(self) -> Exit:
        end = await self._ends.get()
        if isinstance(end, Exception):
            raise end
        return end

    def tell_coordinator(self, news: Mapping[str, Any]) -> None:
        self.news.append(news)

    def check(self) -> None: ...

    async def start_coordinator(
        self, on_news: Callable[[str], None], port: int | None = None
    ) -> None: ...

    async def start_workers(self, count: int, coordinator: str) -> Sequence[str]:
        return []

    async def replace_worker(self, lost: str, coordinator: str) -> str:
        return lost

    async def stop(self) -> None: ...

    def kill(self) -> None: ...


@pytest.fixture
async def launcher() -> Ends:
    return Ends()


@pytest.fixture
async def watcher(launcher: Ends) -> AsyncIterator[Watcher]:
    watcher = Watcher(launcher, cause_grace_s=0.01)
    yield watcher
    await watcher.close()


def say(watcher: Watcher, event: str, **fields: str) -> None:
    watcher.hear(json.dumps({"event": event, **fields}))


async def until_told(launcher: Ends, count: int) -> None:
    while len(launcher.news) < count:
        await asyncio.sleep(0)


def exited(worker: str, how: str) -> dict[str, str]:
    return {"event": "worker_exited", "worker_id": worker, "how": how}


async def forever() -> None:
    await asyncio.Event().wait()


async def test_the_coordinator_says_where_it_listens_and_when_all_are_there(
    watcher: Watcher,
) -> None:
    ready = asyncio.create_task(watcher.ready())
    say(watcher, "listening", address="127.0.0.1:80")
    assert await watcher.address() == "127.0.0.1:80"
    assert not ready.done()
    say(watcher, "ready")
    await ready


async def test_the_coordinator_hears_how_a_worker_ended(watcher: Watcher, launcher: Ends) -> None:
    say(watcher, "ready")
    launcher.killed("worker-0")
    await until_told(launcher, 1)
    assert launcher.news == [exited("worker-0", "killed by signal 9 (SIGKILL)")]


OR_ITS_COORDINATOR = "or its coordinator told it to stop"


@pytest.mark.parametrize(
    ("status", "how"),
    [
        (0, f"exited with status 0, because it got SIGTERM or SIGINT, {OR_ITS_COORDINATOR}"),
        (5, "exited with status 5, because a thread of user code called os._exit()"),
        (3, "exited with status 3, because its connection to the coordinator was lost"),
        (1, "exited with status 1"),
    ],
)
async def test_the_exit_status_of_a_worker_is_reported_in_words(
    watcher: Watcher, launcher: Ends, status: int, how: str
) -> None:
    say(watcher, "ready")
    launcher.end("worker-0", status)
    await until_told(launcher, 1)
    assert launcher.news == [exited("worker-0", how)]


async def test_a_worker_that_ends_before_all_are_there_breaks_the_cluster(
    watcher: Watcher, launcher: Ends
) -> None:
    launcher.end("worker-0", 2, place="pid 11", last_line="no port")
    message = (
        r"worker-0 \(pid 11\) exited with status 2 before the cluster was ready; "
        "its last line was: no port"
    )
    with pytest.raises(WorkerLostError, match=message):
        await watcher.ready()


async def test_the_end_of_the_coordinator_ends_every_call_that_waits(
    watcher: Watcher, launcher: Ends
) -> None:
    waiting = [asyncio.create_task(watcher.unless_broken(forever())) for _ in range(2)]
    launcher.end(COORDINATOR, 1, place="pid 10")
    for call in waiting:
        with pytest.raises(JobError, match=r"coordinator \(pid 10\) exited with status 1$"):
            await call


async def test_a_launcher_that_loses_its_processes_ends_every_call(
    watcher: Watcher, launcher: Ends
) -> None:
    launcher.lose(JobError("the machines are gone"))
    with pytest.raises(JobError, match="^the machines are gone$"):
        await watcher.unless_broken(forever())


async def test_a_fault_in_the_code_of_a_launcher_ends_every_call(
    watcher: Watcher, launcher: Ends
) -> None:
    launcher.lose(ConnectionError("no answer"))
    with pytest.raises(JobError, match="no longer watched: ConnectionError: no answer$"):
        await watcher.unless_broken(forever())


async def test_the_first_break_is_kept(watcher: Watcher, launcher: Ends) -> None:
    launcher.end("worker-0", 2)
    with pytest.raises(WorkerLostError):
        await watcher.ready()
    launcher.end(COORDINATOR, 1)
    await asyncio.sleep(0)
    with pytest.raises(WorkerLostError):
        await watcher.ready()


async def test_a_call_that_loses_its_connection_waits_for_the_end_that_explains_it(
    launcher: Ends,
) -> None:
    async def call() -> None:
        raise RemoteTransportError("connection reset")

    patient = Watcher(launcher, cause_grace_s=60.0)
    waiting = asyncio.create_task(patient.unless_broken(call()))
    await asyncio.sleep(0)
    launcher.killed()
    with pytest.raises(JobError, match=r"killed by signal 9"):
        await waiting
    await patient.close()


async def test_a_coordinator_that_lives_and_does_not_answer_is_lost_all_the_same(
    watcher: Watcher,
) -> None:
    async def call() -> None:
        raise RemoteTransportError("no answer")

    for _ in range(2):
        with pytest.raises(JobError, match="the cluster is lost: no answer"):
            await watcher.unless_broken(call())


async def test_the_result_or_error_of_the_call_comes_through(watcher: Watcher) -> None:
    async def answer() -> int:
        return 7

    async def refuse() -> int:
        raise JobError("no")

    assert await watcher.unless_broken(answer()) == 7
    with pytest.raises(JobError, match="^no$"):
        await watcher.unless_broken(refuse())


async def test_ends_mean_nothing_when_the_watch_is_over(watcher: Watcher, launcher: Ends) -> None:
    say(watcher, "ready")
    await watcher.close()
    launcher.end("worker-0", 0)
    launcher.end(COORDINATOR, 0)
    await asyncio.sleep(0)
    assert launcher.news == []
    await watcher.ready()


async def test_the_cluster_hears_which_worker_is_wanted(launcher: Ends) -> None:
    wanted: list[str] = []
    watcher = Watcher(launcher, cause_grace_s=0.01, on_worker_wanted=wanted.append)
    say(watcher, "worker_wanted", worker_id="worker-1")
    assert wanted == ["worker-1"]
    await watcher.close()


@pytest.mark.parametrize("ends", ["before the coordinator", "after the next one is there", "first"])
async def test_a_worker_is_replaced_once_whichever_coordinator_wants_it(
    launcher: Ends, ends: str
) -> None:
    """The first may want it before its process has ended, and the second may be told of that
    end."""
    wanted: list[str] = []
    died: list[str] = []

    def replace(how: str) -> bool:
        died.append(how)
        return True

    watcher = Watcher(
        launcher,
        cause_grace_s=0.01,
        on_worker_wanted=wanted.append,
        on_coordinator_died=replace,
    )
    say(watcher, "ready")
    if ends == "first":
        launcher.killed("worker-1")
        await until_told(launcher, 1)
    say(watcher, "worker_wanted", worker_id="worker-1")
    if ends == "before the coordinator":
        launcher.killed("worker-1")
        await until_told(launcher, 1)
    launcher.killed()
    while not died:
        await asyncio.sleep(0)
    told = len(launcher.news)
    watcher.coordinator_replaced()
    assert len(launcher.news) == told
    if ends == "after the next one is there":
        launcher.killed("worker-1")
        await until_told(launcher, 1)
    say(watcher, "worker_wanted", worker_id="worker-1")
    assert wanted == ["worker-1"]
    await watcher.close()


async def test_a_replacement_coordinator_hears_which_workers_are_missing(
    launcher: Ends,
) -> None:
    died: list[str] = []

    def replace_once(how: str) -> bool:
        died.append(how)
        return len(died) == 1

    watcher = Watcher(launcher, cause_grace_s=0.01, on_coordinator_died=replace_once)
    say(watcher, "listening", address="127.0.0.1:80")
    say(watcher, "ready")
    launcher.end("worker-0", 1)
    await until_told(launcher, 1)
    say(watcher, "worker_wanted", worker_id="worker-0")
    launcher.killed(place="pid 10")
    launcher.end("worker-1", 1)
    await until_told(launcher, 2)
    call = asyncio.create_task(watcher.unless_broken(forever()))
    watcher.coordinator_replaced()
    assert launcher.news[2:] == [exited("worker-1", "exited with status 1")]
    assert not call.done()
    launcher.killed(place="pid 20")
    with pytest.raises(JobError, match=r"coordinator \(pid 20\) killed by signal 9"):
        await call
    assert died[0] == "the coordinator (pid 10) killed by signal 9 (SIGKILL)"
    await watcher.close()


@pytest.mark.parametrize("status", [ExitStatus.STOPPED, ExitStatus.REFUSED])
async def test_a_coordinator_that_was_stopped_or_cannot_work_is_not_replaced(
    launcher: Ends, status: int
) -> None:
    died: list[str] = []

    def replace(how: str) -> bool:
        died.append(how)
        return True

    watcher = Watcher(launcher, cause_grace_s=0.01, on_coordinator_died=replace)
    say(watcher, "ready")
    launcher.end(COORDINATOR, int(status))
    with pytest.raises(JobError, match=f"exited with status {status:d}"):
        await watcher.unless_broken(forever())
    assert died == []
    await watcher.close()
