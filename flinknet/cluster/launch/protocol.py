"""The protocol of launchers: start the processes of a cluster, report which ended, replace, stop.

Theory of operation
-------------------
A launcher has the processes of one cluster: a coordinator and its workers. Only the launcher knows
where they run and how to find them. Process ids, containers and machines are its own business. The
cluster (``cluster.py``) requests processes from its launcher, and learns of their ends by ``Exit``
values. The cluster decides on the consequences of an end.

A coordinator is started with ``python -m flinknet.cluster.coordinator --watch-parent``. It writes
lines for the cluster to its standard output, and reads lines from its standard input. The launcher
transfers both. A worker is ``python -m flinknet.cluster.worker``. Both get the whole configuration
and the cluster's token in their environment. No process outlives the launcher's own process.

``registry.py`` has the launchers by name. ``tests/contract/test_launchers.py`` tests each of them
against this text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from flinknet.cluster.launch.process_output import OnOutput, OnPrinted
from flinknet.config import FlinknetConfig

__all__ = ["Exit", "Launcher", "MakeLauncher"]


@dataclass(frozen=True, slots=True)
class Exit:
    """The end of a process of the cluster."""

    name: str
    """``COORDINATOR``, or the name of a worker."""

    how: str
    """The end in words, with advice if available: ``"killed by signal 9 (SIGKILL)"``."""

    status: int | None
    """The exit status (``ExitStatus``); None if a signal or the loss of its machine ended it."""

    place: str
    """The place where it ran, in the launcher's terms, for messages: ``"pid 4711"``."""

    last_line: str = ""
    """The last line of its standard error, which explains an early end."""


class Launcher(Protocol):
    """Starts and ends the processes of one cluster. ``stop`` must be awaited in the end.

    A start raises JobError, which names the process and the cause, if a process cannot be started.
    A process that starts and ends at once is reported as an ``Exit``.
    """

    def check(self) -> None:
        """Raise ConfigurationError, before any start, if the cluster cannot be started there."""

    async def start_coordinator(
        self, on_news: Callable[[str], None], port: int | None = None
    ) -> None:
        """Start a coordinator, in place of an ended one if there was one.

        ``on_news`` gets each line of its standard output. The coordinator listens on ``port``, or
        on the configured port. A launcher may listen in its place and hand it the socket; then the
        launcher reports the address as the coordinator would (``listening``). If the coordinator
        has to end running workers together with the launcher, it is told of them.
        """

    async def start_workers(self, count: int, coordinator: str) -> Sequence[str]:
        """Start workers that join the coordinator at ``"host:port"``; return their names."""

    async def replace_worker(self, lost: str, coordinator: str) -> str:
        """Start a worker in place of ``lost``, and return its name, which is a new one.

        The lost worker may still run. It has ``cluster.cause_grace_ms`` to end by itself, so that
        its exit explains the loss; then it is ended. Its exit is reported in both cases.
        """

    def tell_coordinator(self, news: Mapping[str, Any]) -> None:
        """Write a line of JSON to the coordinator's standard input.

        Does nothing if the coordinator has ended.
        """

    async def next_exit(self) -> Exit:
        """Wait for the next end of a process, in their order; each end is returned once.

        Ends caused by ``stop`` and ``kill`` are not reported. Raises JobError if the launcher
        cannot observe its processes any more: the cluster is lost.
        """

    async def stop(self) -> None:
        """Stop every process and wait for its end; kill it after ``cluster.stop_timeout_ms``.

        May also be called if nothing was started, a start has failed, or all has been stopped.
        """

    def kill(self) -> None:
        """Kill every process at once; a running ``stop`` returns then."""


class MakeLauncher(Protocol):
    """Makes the launcher of one cluster: a launcher class, or a function."""

    def __call__(
        self, config: FlinknetConfig, token: str, on_output: OnOutput, on_printed: OnPrinted, /
    ) -> Launcher:
        """Make a launcher.

        ``token`` is the cluster's secret. ``on_output`` gets the process name and the line for each
        line on standard error, ``on_printed`` each line that workers print on standard output.
        """
