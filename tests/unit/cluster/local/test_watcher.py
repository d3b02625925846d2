"""Who ended first, and what that means: processes of which only the end is real."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from flinknet.cluster.control.exit_status import ExitStatus
from flinknet.cluster.local.watcher import MemoryKills, Watcher
from flinknet.errors import JobError, RemoteTransportError, WorkerLostError


class Process:
    """A process as a watcher sees it, started by nobody."""

    def __init__(self, name: str, pid: int) -> None:
        self.name = name
        self.last_line = ""
        self.news: list[Mapping[str, Any]] = []
        self._pid = pid
        self._status: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    @property
    def pid(self) -> int:
        return self._pid

    async def wait(self) -> int:
        return await asyncio.shield(self._status)

    async def drain(self) -> None:
        await asyncio.sleep(0)

    def tell(self, news: Mapping[str, Any]) -> None:
        self.news.append(news)

    def end(self, status: int, last_line: str = "") -> None:
        self.last_line = last_line
        self._status.set_result(status)


@pytest.fixture
async def watcher() -> AsyncIterator[Watcher]:
    watcher = Watcher(cause_grace_s=0.01)
    yield watcher
    await watcher.close()


@pytest.fixture
async def coordinator(watcher: Watcher) -> Process:
    process = Process("coordinator", 10)
    watcher.watch_coordinator(process)
    return process


@pytest.fixture
async def worker(watcher: Watcher, coordinator: Process) -> Process:
    process = Process("worker-0", 11)
    watcher.watch_worker(process)
    return process


def say(watcher: Watcher, event: str, **fields: str) -> None:
    watcher.hear(json.dumps({"event": event, **fields}))


async def forever() -> None:
    await asyncio.Event().wait()


async def until_told(process: Process, count: int) -> None:
    while len(process.news) < count:
        await asyncio.sleep(0)


async def test_the_coordinator_says_where_it_listens_and_when_all_are_there(
    watcher: Watcher, coordinator: Process
) -> None:
    ready = asyncio.create_task(watcher.ready())
    say(watcher, "listening", address="127.0.0.1:80")
    assert await watcher.address() == "127.0.0.1:80"
    assert not ready.done()
    say(watcher, "ready")
    await ready


async def test_the_coordinator_hears_of_each_worker_and_of_its_end(
    watcher: Watcher, coordinator: Process, worker: Process
) -> None:
    started = {"event": "worker_started", "worker_id": "worker-0", "pid": 11}
    assert coordinator.news == [started]
    say(watcher, "ready")
    worker.end(-9)
    await until_told(coordinator, 2)
    how = "killed by signal 9 (SIGKILL)"
    assert coordinator.news[1] == {"event": "worker_exited", "worker_id": "worker-0", "how": how}


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
async def test_what_a_worker_says_with_its_status_is_told(
    watcher: Watcher, coordinator: Process, worker: Process, status: int, how: str
) -> None:
    say(watcher, "ready")
    worker.end(status)
    await until_told(coordinator, 2)
    assert coordinator.news[1]["how"] == how


async def test_a_worker_that_ends_before_all_are_there_breaks_the_cluster(
    watcher: Watcher, worker: Process
) -> None:
    worker.end(2, "no port")
    message = (
        r"worker-0 \(pid 11\) exited with status 2 before the cluster was ready; "
        "its last line was: no port"
    )
    with pytest.raises(WorkerLostError, match=message):
        await watcher.ready()


async def test_the_end_of_the_coordinator_ends_every_call_that_waits(
    watcher: Watcher, coordinator: Process, worker: Process
) -> None:
    say(watcher, "ready")
    waiting = [asyncio.create_task(watcher.unless_broken(forever())) for _ in range(2)]
    coordinator.end(1)
    for call in waiting:
        with pytest.raises(JobError, match=r"coordinator \(pid 10\) exited with status 1$"):
            await call


async def test_the_first_break_is_kept(
    watcher: Watcher, coordinator: Process, worker: Process
) -> None:
    worker.end(2)
    with pytest.raises(WorkerLostError):
        await watcher.ready()
    coordinator.end(1)
    await asyncio.sleep(0)
    with pytest.raises(WorkerLostError):
        await watcher.ready()


async def test_a_call_that_loses_its_connection_waits_for_the_end_that_explains_it(
    watcher: Watcher, coordinator: Process
) -> None:
    async def call() -> None:
        raise RemoteTransportError("connection reset")

    patient = Watcher(cause_grace_s=60.0)
    patient.watch_coordinator(coordinator)
    waiting = asyncio.create_task(patient.unless_broken(call()))
    await asyncio.sleep(0)
    coordinator.end(-9)
    with pytest.raises(JobError, match=r"killed by signal 9"):
        await waiting
    await patient.close()


async def test_a_coordinator_that_lives_and_does_not_answer_is_lost_all_the_same(
    watcher: Watcher, coordinator: Process
) -> None:
    async def call() -> None:
        raise RemoteTransportError("no answer")

    for _ in range(2):
        with pytest.raises(JobError, match="the cluster is lost: no answer"):
            await watcher.unless_broken(call())


async def test_what_the_call_itself_raises_or_returns_comes_through(watcher: Watcher) -> None:
    async def answer() -> int:
        return 7

    async def refuse() -> int:
        raise JobError("no")

    assert await watcher.unless_broken(answer()) == 7
    with pytest.raises(JobError, match="^no$"):
        await watcher.unless_broken(refuse())


async def test_nobody_hears_of_those_that_end_when_the_watch_is_over(
    watcher: Watcher, coordinator: Process, worker: Process
) -> None:
    say(watcher, "ready")
    await watcher.close()
    worker.end(0)
    coordinator.end(0)
    await asyncio.sleep(0)
    assert len(coordinator.news) == 1
    await watcher.ready()


async def test_who_is_missed_is_told_to_whoever_replaces_workers() -> None:
    wanted: list[str] = []
    watcher = Watcher(cause_grace_s=0.01, on_worker_wanted=wanted.append)
    watcher.hear(json.dumps({"event": "worker_wanted", "worker_id": "worker-1"}))
    assert wanted == ["worker-1"]
    await watcher.close()


@pytest.mark.parametrize("ends", ["before the coordinator", "after the next one is there", "first"])
async def test_a_worker_is_replaced_once_whichever_coordinator_wants_it(ends: str) -> None:
    """The first may want it before its process has ended, and the second may hear of that end."""
    wanted: list[str] = []
    watcher = Watcher(
        cause_grace_s=0.01, on_worker_wanted=wanted.append, on_coordinator_died=lambda how: True
    )
    first, second = Process("coordinator", 10), Process("coordinator", 20)
    worker = Process("worker-1", 31)
    watcher.watch_coordinator(first)
    watcher.watch_worker(worker)
    say(watcher, "ready")
    if ends == "first":
        worker.end(-9)
        await until_told(first, 2)
    say(watcher, "worker_wanted", worker_id="worker-1")
    if ends == "before the coordinator":
        worker.end(-9)
        await until_told(first, 2)
    first.end(-9)
    watcher.watch_coordinator(second)
    if ends == "after the next one is there":
        worker.end(-9)
        await until_told(second, 2)
    else:
        assert second.news == []
    say(watcher, "worker_wanted", worker_id="worker-1")
    assert wanted == ["worker-1"]
    await watcher.close()


@pytest.mark.parametrize(("status", "is_told"), [(-9, True), (-15, False), (1, False)])
async def test_a_kill_for_memory_is_named_as_likely(
    tmp_path: Path, status: int, is_told: bool
) -> None:
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text("0::/\n")
    events = tmp_path / "sys/fs/cgroup/memory.events"
    events.parent.mkdir(parents=True)
    events.write_text("oom_kill 0\n")
    watcher = Watcher(cause_grace_s=0.01, memory_kills=MemoryKills(tmp_path))
    coordinator, worker = Process("coordinator", 10), Process("worker-0", 11)
    watcher.watch_coordinator(coordinator)
    watcher.watch_worker(worker)
    say(watcher, "ready")
    events.write_text("oom_kill 1\n")
    worker.end(status)
    await until_told(coordinator, 2)
    assert ("likely because memory ran out" in coordinator.news[1]["how"]) == is_told
    await watcher.close()


async def test_the_coordinator_in_the_place_of_one_that_died_hears_what_it_must_know() -> None:
    died: list[str] = []

    def replace_once(how: str) -> bool:
        died.append(how)
        return len(died) == 1

    watcher = Watcher(cause_grace_s=0.01, on_coordinator_died=replace_once)
    first, second = Process("coordinator", 10), Process("coordinator", 20)
    watcher.watch_coordinator(first)
    workers = [Process(f"worker-{number}", 30 + number) for number in range(3)]
    for worker in workers:
        watcher.watch_worker(worker)
    say(watcher, "listening", address="127.0.0.1:80")
    say(watcher, "ready")
    workers[0].end(1)
    await until_told(first, 4)
    say(watcher, "worker_wanted", worker_id="worker-0")
    first.end(-9)
    workers[1].end(1)
    while not died:
        await asyncio.sleep(0)
    call = asyncio.create_task(watcher.unless_broken(forever()))
    watcher.watch_coordinator(second)
    assert second.news == [
        {"event": "worker_started", "worker_id": "worker-2", "pid": 32},
        {"event": "worker_exited", "worker_id": "worker-1", "how": "exited with status 1"},
    ]
    assert not call.done()
    second.end(-9)
    with pytest.raises(JobError, match=r"coordinator \(pid 20\) killed by signal 9"):
        await call
    assert died[0] == "the coordinator (pid 10) killed by signal 9 (SIGKILL)"
    await watcher.close()


@pytest.mark.parametrize("status", [ExitStatus.STOPPED, ExitStatus.REFUSED])
async def test_one_that_was_told_to_stop_or_cannot_work_is_not_replaced(status: int) -> None:
    died: list[str] = []

    def replace(how: str) -> bool:
        died.append(how)
        return True

    watcher = Watcher(cause_grace_s=0.01, on_coordinator_died=replace)
    coordinator = Process("coordinator", 10)
    watcher.watch_coordinator(coordinator)
    say(watcher, "ready")
    coordinator.end(status)
    with pytest.raises(JobError, match=f"exited with status {status:d}"):
        await watcher.unless_broken(forever())
    assert died == []
    await watcher.close()


V1 = "12:cpu,cpuacct:/job\n9:memory:/job\n1:name=systemd:/job\n"
V2 = "0::/user.slice/job\n"
PLACES = {
    "version 2": (V2, "sys/fs/cgroup/user.slice/job/memory.events"),
    "version 2, in a container": ("0::/../job\n", "sys/fs/cgroup/memory.events"),
    "version 1": (V1, "sys/fs/cgroup/memory/job/memory.oom_control"),
    "version 1, in a container": (V1, "sys/fs/cgroup/memory/memory.oom_control"),
}


def write(file: Path, count: int) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"low 0\noom {count + 5}\noom_kill {count}\noom_group_kill 9\n")


@pytest.mark.parametrize("place", PLACES)
def test_a_count_that_has_risen_is_told_once(tmp_path: Path, place: str) -> None:
    groups, name = PLACES[place]
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text(groups)
    write(tmp_path / name, 3)
    kills = MemoryKills(tmp_path)
    assert kills.hint() == ""
    write(tmp_path / name, 4)
    hint = kills.hint()
    assert "likely because memory ran out" in hint
    assert f"{tmp_path / name}: oom_kill 4" in hint
    assert "cluster.slots_per_worker" in hint
    assert kills.hint() == ""


@pytest.mark.parametrize("groups", [None, "", "4:cpu:/job\n", V2])
def test_without_a_count_nothing_is_told(tmp_path: Path, groups: str | None) -> None:
    (tmp_path / "proc/self").mkdir(parents=True)
    if groups is not None:
        (tmp_path / "proc/self/cgroup").write_text(groups)
    assert MemoryKills(tmp_path).hint() == ""


def test_this_machine_has_a_count_or_none() -> None:
    assert MemoryKills().hint() == ""
