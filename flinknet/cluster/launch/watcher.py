"""A watcher of a cluster's processes: when the cluster is ready, and which process ended first.

Theory of operation
-------------------
The coordinator reports its address and, once the expected workers have registered, that the cluster
is *ready*. Until then, the end of any process *breaks* the cluster. After that, only the end of the
coordinator does, unless another coordinator replaces one that has died. The replacement is told
which workers have ended and are missed, because it cannot know. The first break is kept, and ends
every call that waits in ``unless_broken``.

Only the launcher knows how a process ended. The watcher passes this on to the coordinator, which
makes it the cause of the failures that follow from the end of a worker.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from flinknet.cluster.control.exit_status import ExitStatus
from flinknet.cluster.launch.process_output import COORDINATOR
from flinknet.cluster.launch.protocol import Exit, Launcher
from flinknet.errors import JobError, RemoteTransportError, WorkerLostError
from flinknet.texts import text_of

__all__ = ["Watcher"]

T = TypeVar("T")

_MEANINGS: dict[int | None, str] = {
    ExitStatus.STOPPED: ", because it got SIGTERM or SIGINT, or its coordinator told it to stop",
    ExitStatus.COORDINATOR_LOST: ", because its connection to the coordinator was lost",
    ExitStatus.USER_CODE: ", because a thread of user code called os._exit()",
}
"""The meaning of a worker's exit status."""


class Watcher:
    """Watches one coordinator and its workers. ``close`` must be awaited in the end."""

    def __init__(
        self,
        launcher: Launcher,
        *,
        cause_grace_s: float,
        on_worker_wanted: Callable[[str], None] = lambda lost: None,
        on_coordinator_died: Callable[[str], bool] = lambda how: False,
    ) -> None:
        """Start to watch the processes of ``launcher``.

        After a lost connection to the coordinator, the watcher waits ``cause_grace_s`` for the end
        that explains it. ``on_worker_wanted`` gets the name of each lost worker to replace.
        ``on_coordinator_died`` returns whether the coordinator will be replaced.
        """
        self._launcher = launcher
        self._on_worker_wanted = on_worker_wanted
        self._on_coordinator_died = on_coordinator_died
        self._missed: dict[str, str] = {}
        """Workers that have ended without a request to replace them, and how they ended."""
        self._replaced: set[str] = set()
        """Workers for which a replacement was requested.

        A coordinator may request it before the process has ended, and the next one may repeat it.
        """
        self._cause_grace = cause_grace_s
        self._address = ""
        self._listening = asyncio.Event()
        """Set when ``address`` is known."""
        self._ready = asyncio.Event()
        """Set when the expected workers have registered."""
        self._broken: asyncio.Future[JobError] = asyncio.get_running_loop().create_future()
        """The error that broke the cluster."""
        self._watch = asyncio.create_task(self._watch_exits())

    def hear(self, line: str) -> None:
        """Process a line from the coordinator to its launcher."""
        news = json.loads(line)
        if news["event"] == "listening":
            self._address = news["address"]
            self._listening.set()
        elif news["event"] == "ready":
            self._ready.set()
        elif news["event"] == "worker_wanted":
            # The replaced coordinator may have requested the same worker.
            name = news["worker_id"]
            if name not in self._replaced:
                self._replaced.add(name)
                self._missed.pop(name, None)
                self._on_worker_wanted(name)

    def coordinator_replaced(self) -> None:
        """Tell a replaced coordinator which workers are missed."""
        for name, how in self._missed.items():
            self._tell_of_end(name, how)

    async def address(self) -> str:
        """Return ``"host:port"`` of the control plane, once the coordinator listens.

        Raises the error that broke the cluster before.
        """
        await self.unless_broken(self._listening.wait())
        return self._address

    async def ready(self) -> None:
        """Wait until the expected workers have registered.

        Raises the error that broke the cluster before.
        """
        await self.unless_broken(self._ready.wait())

    async def unless_broken(self, work: Coroutine[Any, Any, T]) -> T:
        """Await ``work``, or raise the error that broke the cluster first.

        A connection to the coordinator can be lost before the coordinator's end is known. That end
        is the better explanation, so the watcher waits for it. If it does not come, the cluster
        counts as broken, too: a hanging coordinator will not answer any later call.
        """
        task = asyncio.ensure_future(work)
        try:
            await asyncio.wait((task, self._broken), return_when=asyncio.FIRST_COMPLETED)
            if task.done() and isinstance(task.exception(), RemoteTransportError):
                # The end of the coordinator explains a lost connection better.
                await asyncio.wait((self._broken,), timeout=self._cause_grace)
                self.give_up(JobError(f"the cluster is lost: {task.exception()}"))
            if not self._broken.done():
                return await task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        raise self._broken.result()

    def give_up(self, error: JobError) -> None:
        """Break the cluster, if it is not broken already."""
        if not self._broken.done():
            self._broken.set_result(error)

    async def close(self) -> None:
        """Stop watching; later ends of processes are intended."""
        self._watch.cancel()
        await asyncio.gather(self._watch, return_exceptions=True)

    async def _watch_exits(self) -> None:
        try:
            while True:
                end = await self._launcher.next_exit()
                if end.name == COORDINATOR:
                    self._coordinator_ended(end)
                else:
                    self._worker_ended(end)
        except JobError as error:
            self.give_up(error)
        except Exception as error:
            # An error of the launcher's code, or of a program's ``on_output``.
            cause = f"{type(error).__name__}: {text_of(error)}"
            self.give_up(JobError(f"the cluster's processes are no longer watched: {cause}"))

    def _coordinator_ended(self, end: Exit) -> None:
        how = f"the coordinator ({end.place}) {end.how}"
        # These exits are decisions of the coordinator, so a replacement would end the same way.
        is_final = end.status in (ExitStatus.STOPPED, ExitStatus.REFUSED, ExitStatus.SUPERSEDED)
        if is_final or not self._ready.is_set() or not self._on_coordinator_died(how):
            self.give_up(JobError(f"{how}{_last_words(end)}"))

    def _worker_ended(self, end: Exit) -> None:
        if self._ready.is_set():
            how = end.how + _MEANINGS.get(end.status, "")
            if end.name not in self._replaced:
                self._missed[end.name] = how
            self._tell_of_end(end.name, how)
            return
        self.give_up(
            WorkerLostError(
                f"worker {end.name} ({end.place}) {end.how} before the cluster was "
                f"ready{_last_words(end)}"
            )
        )

    def _tell_of_end(self, name: str, how: str) -> None:
        self._launcher.tell_coordinator({"event": "worker_exited", "worker_id": name, "how": how})


def _last_words(end: Exit) -> str:
    """Return the last line of an ended process, for the end of a message."""
    # All its output has been passed on by now.
    return f"; its last line was: {end.last_line}" if end.last_line else ""
