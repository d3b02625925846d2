"""The launcher that starts the processes of a cluster as children of this one, on this machine.

``children.py`` starts and ends the children. The coordinator gets the process id of each worker,
because it ends the workers' process groups if this process is killed (``parent_watch.py``).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from flinknet.cluster.launch.local.child_process import ChildProcess
from flinknet.cluster.launch.local.children import Children
from flinknet.cluster.launch.local.preflight import check_cluster
from flinknet.cluster.launch.process_output import COORDINATOR, OnOutput, OnPrinted, print_printed
from flinknet.cluster.launch.protocol import Exit
from flinknet.config import FlinknetConfig

__all__ = ["LocalLauncher"]


class LocalLauncher:
    """A ``Launcher`` that starts all processes as children of this one."""

    def __init__(
        self,
        config: FlinknetConfig,
        token: str,
        on_output: OnOutput,
        on_printed: OnPrinted = print_printed,
    ) -> None:
        """See ``MakeLauncher``."""
        self._config = config
        self._on_printed = on_printed
        self._exits: asyncio.Queue[Exit] = asyncio.Queue()
        self._children = Children(config, token, on_output, self._exits.put_nowait)
        self._places: dict[str, tuple[int, int]] = {}
        """The number of each worker, and how many workers had that number before it."""

    def pids(self) -> dict[str, int]:
        """Return the process id of each child, by name."""
        return self._children.pids()

    def check(self) -> None:
        """Raise ConfigurationError if the cluster cannot be started on this machine."""
        check_cluster(self._config)

    async def start_coordinator(
        self, on_news: Callable[[str], None], port: int | None = None
    ) -> None:
        """Start a coordinator; ``on_news`` gets the lines that it prints."""
        await self._children.start_coordinator(on_news, port)
        for name, child in self._children.running.items():
            if name != COORDINATOR and child.is_running:
                self._tell_of_start(child)

    async def start_workers(self, count: int, coordinator: str) -> Sequence[str]:
        """Start workers side by side that join the coordinator at ``"host:port"``."""
        try:
            async with asyncio.TaskGroup() as group:
                starts = [
                    group.create_task(self._start_worker(number, 0, coordinator))
                    for number in range(count)
                ]
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None
        return [start.result() for start in starts]

    async def replace_worker(self, lost: str, coordinator: str) -> str:
        """Start a worker with a new name in place of a lost one; it takes over the ports."""
        number, generation = self._places[lost]
        child = self._children.running[lost]
        with suppress(TimeoutError):
            async with asyncio.timeout(self._config.cluster.cause_grace_ms / 1000):
                await child.wait()
        await child.stop(0.0)
        del self._children.running[lost], self._places[lost]
        return await self._start_worker(number, generation + 1, coordinator)

    def tell_coordinator(self, news: Mapping[str, Any]) -> None:
        """Write a line of JSON to the coordinator's standard input."""
        self._children.tell_coordinator(news)

    async def next_exit(self) -> Exit:
        """Wait for the next end of a child."""
        return await self._exits.get()

    async def stop(self) -> None:
        """Stop every child and wait for it; cancelling this leaves the children to ``kill``."""
        await self._children.stop()

    def kill(self) -> None:
        """Kill every child at once; a running ``stop`` returns then."""
        self._children.kill()

    async def _start_worker(self, number: int, generation: int, coordinator: str) -> str:
        cluster = self._config.cluster
        name = f"worker-{number}.{generation}" if generation else f"worker-{number}"
        self._places[name] = number, generation
        child = await self._children.start(
            name,
            "flinknet.cluster.worker",
            f"--coordinator={coordinator}",
            f"--worker-id={name}",
            f"--data-port={cluster.data_port and cluster.data_port + number}",
            f"--metrics-port={cluster.metrics_port and cluster.metrics_port + number}",
            on_printed=self._on_printed,
        )
        self._tell_of_start(child)
        return name

    def _tell_of_start(self, worker: ChildProcess) -> None:
        news = {"event": "worker_started", "worker_id": worker.name, "pid": worker.pid}
        self.tell_coordinator(news)
