"""Watches the processes of a cluster: when it is ready, and who ended first.

Theory of operation
-------------------
The coordinator tells where it listens and, once the expected workers have registered, that the
cluster is *ready*. Until then the end of any process *breaks* the cluster; afterwards only that of
the coordinator does, unless it has died and another one is started in its place, which is watched
then, and is told what it cannot know: which workers there are, and which have ended and are missed.
The first break is kept, and ends every call that waits in ``unless_broken``.

The exit status of a process is known here and nowhere else. A worker's is told to the coordinator,
which makes it the cause of whatever that broke; the coordinator is told, too, which workers there
are, because it ends their process groups if this process is killed (``parent_watch.py``).
"""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol, TypeVar

from flinknet.cluster.control.exit_status import ExitStatus
from flinknet.cluster.local.child_process import describe_exit
from flinknet.errors import JobError, RemoteTransportError, WorkerLostError

__all__ = ["MemoryKills", "WatchedProcess", "Watcher"]

T = TypeVar("T")

_MEANINGS: dict[int, str] = {
    ExitStatus.STOPPED: ", because it got SIGTERM or SIGINT, or its coordinator told it to stop",
    ExitStatus.COORDINATOR_LOST: ", because its connection to the coordinator was lost",
    ExitStatus.USER_CODE: ", because a thread of user code called os._exit()",
}
"""What a worker says with its status."""


_HINT = (
    " - likely because memory ran out: the kernel has killed a process of this control group for "
    "its memory ({file}). Give it more memory, or use less: fewer workers or slots "
    "(cluster.workers, cluster.slots_per_worker), less network.network_memory_bytes, smaller state "
    'or state.backend = "rocksdb"'
)


class MemoryKills:
    """The processes of this cluster that the kernel has killed because memory ran out.

    A process that is killed for its memory ends by SIGKILL, as by hand. The control group in which
    the cluster runs counts such kills, so a count that has risen makes that the likely reason: in
    version 2 of control groups in ``memory.events``, in version 1 in ``memory.oom_control``. A
    container may see its own group at the root. A system without control groups has no count.
    """

    def __init__(self, root: Path = Path("/")) -> None:
        """``root`` is where ``/proc`` and ``/sys`` are."""
        self._files = _candidates(root)
        self._before = self._count()[0]

    def hint(self) -> str:
        """Return advice about a process that was killed by SIGKILL; empty if the count has not
        risen since the last call."""
        count, file = self._count()
        has_risen, self._before = count > self._before, max(count, self._before)
        return _HINT.format(file=file) if has_risen else ""

    def _count(self) -> tuple[int, str]:
        for file in self._files:
            with suppress(OSError, ValueError):
                for line in file.read_text().splitlines():
                    name, _, value = line.partition(" ")
                    if name == "oom_kill":
                        return int(value), f"{file}: oom_kill {value}"
        return 0, ""


def _candidates(root: Path) -> list[Path]:
    """Return the files that may have the count, the group's own first."""
    files = []
    with suppress(OSError):
        for line in (root / "proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers == "":
                mounted, name = root / "sys/fs/cgroup", "memory.events"
            elif "memory" in controllers.split(","):
                mounted, name = root / "sys/fs/cgroup/memory", "memory.oom_control"
            else:
                continue
            files += [mounted / path.lstrip("/") / name, mounted / name]
    return files


class WatchedProcess(Protocol):
    """A process that was started for the cluster, by whoever started it."""

    name: str
    last_line: str

    @property
    def pid(self) -> int: ...
    async def wait(self) -> int: ...
    async def drain(self) -> None: ...
    def tell(self, news: Mapping[str, Any]) -> None: ...


class Watcher:
    """Watches one coordinator and its workers. ``close`` must be awaited in the end."""

    def __init__(
        self,
        *,
        cause_grace_s: float,
        on_worker_wanted: Callable[[str], None] = lambda lost: None,
        on_coordinator_died: Callable[[str], bool] = lambda how: False,
        memory_kills: MemoryKills | None = None,
    ) -> None:
        """A lost connection to the coordinator waits ``cause_grace_s`` for the end that explains
        it. ``on_worker_wanted`` hears the name of each lost worker that is to be replaced;
        ``on_coordinator_died`` says whether the coordinator will be. ``memory_kills`` is of the
        control group in which the processes run."""
        self._memory_kills = memory_kills or MemoryKills()
        self._on_worker_wanted = on_worker_wanted
        self._on_coordinator_died = on_coordinator_died
        self._workers: dict[str, WatchedProcess] = {}
        """Those that run."""
        self._missed: dict[str, str] = {}
        """Those that have ended and have not been wanted back yet, and how."""
        self._replaced: set[str] = set()
        """Workers for which a replacement was asked. A coordinator may ask before the process has
        ended, and the next coordinator may ask again."""
        self._cause_grace = cause_grace_s
        self._coordinator: WatchedProcess
        self._address = ""
        self._listening = asyncio.Event()
        self._ready = asyncio.Event()
        self._broken: asyncio.Future[JobError] = asyncio.get_running_loop().create_future()
        self._watches: list[asyncio.Task[None]] = []

    def hear(self, line: str) -> None:
        """The coordinator tells its launcher something."""
        news = json.loads(line)
        if news["event"] == "listening":
            self._address = news["address"]
            self._listening.set()
        elif news["event"] == "ready":
            self._ready.set()
        elif news["event"] == "worker_wanted":
            name = news["worker_id"]
            if name not in self._replaced:
                self._replaced.add(name)
                self._missed.pop(name, None)
                self._on_worker_wanted(name)

    def watch_coordinator(self, process: WatchedProcess) -> None:
        """Watch the coordinator, or the one in its place; workers come after it."""
        self._coordinator = process
        self._listening.clear()
        for worker in self._workers.values():
            self._tell_of_start(worker)
        for name, how in self._missed.items():
            self._tell_of_end(name, how)
        self._watches.append(asyncio.create_task(self._await_end_of_coordinator(process)))

    def watch_worker(self, process: WatchedProcess) -> None:
        """Watch a worker, and tell the coordinator of it."""
        self._workers[process.name] = process
        self._tell_of_start(process)
        self._watches.append(asyncio.create_task(self._await_end_of_worker(process)))

    async def address(self) -> str:
        """``"host:port"`` of the control plane, once the coordinator listens; or what broke it."""
        await self.unless_broken(self._listening.wait())
        return self._address

    async def ready(self) -> None:
        """Return once the expected workers have registered, or raise what broke the cluster."""
        await self.unless_broken(self._ready.wait())

    async def unless_broken(self, work: Coroutine[Any, Any, T]) -> T:
        """Wait for ``work``, or raise what broke the cluster if that comes first.

        A connection to the coordinator can be lost before its end is known: then that is waited
        for, as it is the better explanation. Without it the cluster is broken all the same: a
        coordinator that hangs answers no later call.
        """
        task = asyncio.ensure_future(work)
        try:
            await asyncio.wait((task, self._broken), return_when=asyncio.FIRST_COMPLETED)
            if task.done() and isinstance(task.exception(), RemoteTransportError):
                await asyncio.wait((self._broken,), timeout=self._cause_grace)
                self.give_up(JobError(f"the cluster is lost: {task.exception()}"))
            if not self._broken.done():
                return await task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        raise self._broken.result()

    async def close(self) -> None:
        """Stop watching: whoever ends from now on was told to."""
        for watch in self._watches:
            watch.cancel()
        await asyncio.gather(*self._watches, return_exceptions=True)

    async def _await_end_of_coordinator(self, process: WatchedProcess) -> None:
        status = await process.wait()
        await process.drain()
        who = f"the coordinator (pid {process.pid}) {self._describe(status)}"
        has_died = status not in (ExitStatus.STOPPED, ExitStatus.REFUSED) and self._ready.is_set()
        if not has_died or not self._on_coordinator_died(who):
            self.give_up(JobError(f"{who}{_last_words(process)}"))

    async def _await_end_of_worker(self, process: WatchedProcess) -> None:
        status = await process.wait()
        how = self._describe(status)
        del self._workers[process.name]
        if self._ready.is_set():
            how += _MEANINGS.get(status, "")
            if process.name not in self._replaced:
                self._missed[process.name] = how
            self._tell_of_end(process.name, how)
            return
        await process.drain()
        self.give_up(
            WorkerLostError(
                f"worker {process.name} (pid {process.pid}) {how} before the cluster was "
                f"ready{_last_words(process)}"
            )
        )

    def _describe(self, status: int) -> str:
        is_killed = status == -signal.SIGKILL
        return describe_exit(status) + (self._memory_kills.hint() if is_killed else "")

    def _tell_of_start(self, worker: WatchedProcess) -> None:
        self._coordinator.tell(
            {"event": "worker_started", "worker_id": worker.name, "pid": worker.pid}
        )

    def _tell_of_end(self, name: str, how: str) -> None:
        self._coordinator.tell({"event": "worker_exited", "worker_id": name, "how": how})

    def give_up(self, error: JobError) -> None:
        """The cluster is broken, if it is not already."""
        if not self._broken.done():
            self._broken.set_result(error)


def _last_words(process: WatchedProcess) -> str:
    """The end of a message about a process that ended: all its output has been shown already."""
    return f"; its last line was: {process.last_line}" if process.last_line else ""
