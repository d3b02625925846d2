"""A cluster without a launcher, as on several machines.

Only this class ends a stopped worker, and starts another one in its place.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from contextlib import AsyncExitStack, suppress
from operator import attrgetter
from pathlib import Path
from types import TracebackType
from typing import Self

from flinknet.cluster.control.client import CoordinatorClient
from flinknet.cluster.control.credentials import TOKEN_VARIABLE, new_token
from flinknet.cluster.control.hash_seed import SEED_VARIABLE
from flinknet.config import FlinknetConfig
from flinknet.config.loading import options

__all__ = ["StandaloneCluster"]

ROOT = Path(__file__).parents[2]
LOOK_S = 0.01
"""Seconds between two polls."""
PATIENCE_S = 120.0
"""Seconds after which a hanging test fails with a message."""


class StandaloneCluster:
    """A coordinator, and as many workers as the configuration says.

    Use it with ``async with``. ``log`` receives the output of the processes.
    """

    def __init__(self, config: FlinknetConfig, log: Path) -> None:
        self._config = config
        self._log = log
        self._token = new_token()
        self._address = ""
        self._coordinator: Process
        self._started = 0
        self._workers: dict[str, Process] = {}
        self._killed: set[str] = set()
        """Names of killed workers, some of which may not have ended yet."""
        self._watches: set[asyncio.Task[None]] = set()
        self._stack = AsyncExitStack()
        self.client: CoordinatorClient

    async def __aenter__(self) -> Self:
        try:
            await self._start()
        except BaseException:
            await self._end()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._end()

    def workers(self) -> list[str]:
        """Return the names of the running workers."""
        return sorted(self._workers.keys() - self._killed)

    async def registered(self) -> set[str]:
        """Return the names of the workers that the coordinator has not lost."""
        told = await self.client.read("/v1/taskmanagers")
        return {one["id"] for one in told["taskmanagers"]}

    def kill(self, name: str) -> None:
        """Kill a worker with SIGKILL; a new one replaces it."""
        self._killed.add(name)
        _send(self._workers[name], signal.SIGKILL)

    async def kill_coordinator(self) -> None:
        """Kill the coordinator with SIGKILL, and start a new one at the same port."""
        _send(self._coordinator, signal.SIGKILL)
        await self._coordinator.wait()
        await self._start_coordinator()

    async def stop(self, name: str) -> Process:
        """Stop a worker with SIGSTOP, start another in its place, and return the zombie."""
        zombie = self._workers.pop(name)
        _send(zombie, signal.SIGSTOP)
        await self._start_worker()
        return zombie

    async def resume(self, name: str, zombie: Process) -> None:
        """Continue the zombie until it has registered again, and kill it.

        It is not needed, because another worker has its place.
        """
        _send(zombie, signal.SIGCONT)
        async with asyncio.timeout(PATIENCE_S):
            while name not in await self.registered():
                await asyncio.sleep(LOOK_S)
        _send(zombie, signal.SIGKILL)
        await zombie.wait()

    async def _start(self) -> None:
        await self._start_coordinator()
        assert self._coordinator.stdout is not None
        async with asyncio.timeout(PATIENCE_S):
            for _ in range(self._config.cluster.workers):
                await self._start_worker()
            ready = json.loads(await self._coordinator.stdout.readline())
        assert ready == {"event": "ready"}
        client = CoordinatorClient(self._address, self._token, self._config.cluster)
        self.client = client

    async def _start_coordinator(self) -> None:
        self._coordinator = await self._start_process("coordinator", stdout=PIPE)
        assert self._coordinator.stdout is not None
        async with asyncio.timeout(PATIENCE_S):
            said = json.loads(await self._coordinator.stdout.readline())
        self._address = said["address"]

    async def _start_worker(self) -> None:
        self._started += 1
        name = f"worker-{self._started}"
        where = f"--coordinator={self._address}"
        worker = await self._start_process("worker", where, f"--worker-id={name}")
        self._workers[name] = worker
        watch = asyncio.create_task(self._replace(name, worker))
        self._watches.add(watch)
        watch.add_done_callback(self._watches.discard)

    async def _replace(self, name: str, worker: Process) -> None:
        """Start a new worker when one has ended, for any reason."""
        await worker.wait()
        if self._workers.pop(name, None) is not None:
            await self._start_worker()

    async def _end(self) -> None:
        """End everything, the watches first, because they would replace each worker that ends."""
        for watch in self._watches:
            watch.cancel()
        await asyncio.gather(*self._watches, return_exceptions=True)
        await self._stack.aclose()

    async def _start_process(
        self, module: str, *arguments: str, stdout: int | None = None
    ) -> Process:
        with self._log.open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                f"flinknet.cluster.{module}",
                *arguments,
                env=self._environment(),
                stdin=DEVNULL,
                stdout=log if stdout is None else stdout,
                stderr=log,
            )
        self._stack.push_async_callback(_end, process)
        return process

    def _environment(self) -> dict[str, str]:
        port = self._address.rpartition(":")[2]
        configured = {
            option.variable: option.render(attrgetter(name)(self._config))
            for name, option in options().items()
        }
        return {
            **os.environ,
            **configured,
            **({options()["cluster.coordinator_port"].variable: port} if port else {}),
            TOKEN_VARIABLE: self._token,
            SEED_VARIABLE: str(self._config.cluster.hash_seed),
            "PYTHONPATH": str(ROOT),
        }


def _send(process: Process, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        process.send_signal(number)


async def _end(process: Process) -> None:
    _send(process, signal.SIGKILL)
    await process.wait()
