"""The protocol of launchers: start the processes of a cluster, report which ended, replace, stop.

Theory of operation
-------------------
A launcher has the processes of one cluster: a coordinator and its workers. It alone knows where
they run and how to find them there; a process id, a container or a machine is its own matter. The
cluster (``cluster.py``) asks its launcher for processes, and learns of their ends by ``Exit``
values. The cluster decides what an end means.

A coordinator is started with ``python -m flinknet.cluster.coordinator --watch-parent``. It writes
lines for the cluster to its standard output, and reads lines of its standard input; the launcher
carries both. A worker is ``python -m flinknet.cluster.worker``. Both get the whole configuration
and the cluster's token in their environment. No process outlives the launcher's own.

``registry.py`` has the launchers by name, and ``tests/contract/test_launchers.py`` holds each of
them to this text.
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
    """For people: ``"killed by signal 9 (SIGKILL)"``, with advice if the launcher has some."""

    status: int | None
    """The exit status (``ExitStatus``); None if a signal or the loss of its machine ended it."""

    place: str
    """Where it ran, in the launcher's terms, for messages: ``"pid 4711"``."""

    last_line: str = ""
    """The last line of its standard error, which explains an early end."""


class Launcher(Protocol):
    """Starts and ends the processes of one cluster. ``stop`` must be awaited in the end.

    A start raises JobError, which names the process and the cause, if a process cannot be started.
    One that starts and ends at once is an ``Exit``.
    """

    def check(self) -> None:
        """Raise ConfigurationError, before any start, if the cluster cannot be started there."""

    async def start_coordinator(
        self, on_news: Callable[[str], None], port: int | None = None
    ) -> None:
        """Start a coordinator, in the place of one that has ended if there was one.

        ``on_news`` gets each line of its standard output. A launcher that listens in its place, and
        hands it the socket, says where, as the coordinator would (``listening``). It listens on
        ``port``, or on the one that the configuration names. It is told of the workers that run
        already, if it has to know them to end them with the launcher."""

    async def start_workers(self, count: int, coordinator: str) -> Sequence[str]:
        """Start workers that join the coordinator at ``"host:port"``; return their names."""

    async def replace_worker(self, lost: str, coordinator: str) -> str:
        """Start a worker in the place of ``lost``, and return its name, which is a new one.

        The lost worker may still run. It has ``cluster.cause_grace_ms`` to end by itself, so that
        its exit explains the loss; then it is ended. Its exit is reported in both cases."""

    def tell_coordinator(self, news: Mapping[str, Any]) -> None:
        """Write a line of JSON to the coordinator's standard input; a coordinator that has ended
        hears nothing."""

    async def next_exit(self) -> Exit:
        """Wait for the next end of a process, in their order; each end is returned once.

        Ends that ``stop`` and ``kill`` cause are not reported. Raises JobError if the launcher can
        see its processes no more: the cluster is lost."""

    async def stop(self) -> None:
        """Stop every process and wait for its end; after ``cluster.stop_timeout_ms`` end it by
        force. Also if nothing was started, a start has failed, or all has been stopped."""

    def kill(self) -> None:
        """End every process at once; a running ``stop`` returns then."""


class MakeLauncher(Protocol):
    """Makes the launcher of one cluster: a class of launchers, or a function."""

    def __call__(
        self, config: FlinknetConfig, token: str, on_output: OnOutput, on_printed: OnPrinted, /
    ) -> Launcher:
        """``token`` is the cluster's secret. ``on_output`` hears what the processes write on
        standard error, by name and line, ``on_printed`` what workers print on standard output."""
