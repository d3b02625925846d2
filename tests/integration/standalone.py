"""A cluster with processes that a test starts, stops and disconnects one by one."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from operator import attrgetter
from pathlib import Path
from types import TracebackType
from typing import Self

from flinknet.cluster.control.client import CoordinatorClient
from flinknet.cluster.control.credentials import TOKEN_VARIABLE, new_token
from flinknet.cluster.control.hash_seed import SEED_VARIABLE
from flinknet.config import FlinknetConfig
from flinknet.config.loading import options
from tests.integration.cluster_runs import LOOK_S

__all__ = ["PATIENCE_S", "Relay", "Standalone"]

ROOT = Path(__file__).parents[2]
PATIENCE_S = 60.0
"""Seconds after which a hanging test fails with a message."""


class Standalone:
    """Processes without a launcher; use with ``async with``, which kills them on exit."""

    def __init__(self, config: FlinknetConfig, logs: Path) -> None:
        self.config = config
        self.address = ""
        """Address of the last coordinator."""
        self._logs = logs
        self._token = new_token()
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._stack.aclose()

    async def coordinator(self, name: str = "coordinator", port: int = 0) -> Process:
        """Start a coordinator, and return when it listens."""
        cluster = replace(self.config.cluster, coordinator_port=port)
        process = await self._start("coordinator", name, replace(self.config, cluster=cluster))
        assert process.stdout is not None
        async with asyncio.timeout(PATIENCE_S):
            said = await process.stdout.readline()
        assert said, self.log(name)
        self.address = json.loads(said)["address"]
        return process

    async def worker(self, name: str, address: str = "", customized: Path | None = None) -> Process:
        """Start a worker of the coordinator at an address, and return when it has registered.

        ``customized`` is a directory with a ``sitecustomize`` module for the worker.
        """
        where = f"--coordinator={address or self.address}"
        path = ROOT if customized is None else f"{customized}{os.pathsep}{ROOT}"
        arguments = (where, f"--worker-id={name}")
        process = await self._start("worker", name, self.config, *arguments, path=path)
        await self.until_registered(name)
        return process

    def client(self) -> CoordinatorClient:
        """Return a client of the last coordinator."""
        return CoordinatorClient(self.address, self._token, self.config.cluster, is_there=True)

    async def registered(self) -> set[str]:
        """Return the names of the registered workers."""
        client = self.client()
        told = await client.read("/v1/taskmanagers")
        return {one["id"] for one in told["taskmanagers"]}

    async def until_registered(self, name: str, *, there: bool = True) -> None:
        """Wait until a worker is registered, or is lost."""
        async with asyncio.timeout(PATIENCE_S):
            while (name in await self.registered()) is not there:
                await asyncio.sleep(LOOK_S)

    def log(self, name: str) -> str:
        """Return the output of a process so far."""
        return (self._logs / f"{name}.log").read_text()

    async def until_said(self, name: str, text: str) -> None:
        """Wait for a text in the output of a process."""
        async with asyncio.timeout(PATIENCE_S):
            while text not in self.log(name):
                await asyncio.sleep(LOOK_S)

    async def _start(
        self,
        module: str,
        name: str,
        config: FlinknetConfig,
        *arguments: str,
        path: Path | str = ROOT,
    ) -> Process:
        configured = {
            option.variable: option.render(attrgetter(field)(config))
            for field, option in options().items()
        }
        with (self._logs / f"{name}.log").open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                f"flinknet.cluster.{module}",
                *arguments,
                env={
                    **os.environ,
                    **configured,
                    TOKEN_VARIABLE: self._token,
                    SEED_VARIABLE: str(config.cluster.hash_seed),
                    "PYTHONPATH": str(path),
                },
                stdin=DEVNULL,
                stdout=PIPE if module == "coordinator" else log,
                stderr=log,
            )
        self._stack.push_async_callback(_end, process)
        return process


async def _end(process: Process) -> None:
    with suppress(ProcessLookupError):
        process.kill()
    await process.wait()


class Relay:
    """A connection between a worker and its coordinator that can be cut in each direction.

    A cut connection stays open, but passes nothing. Use it with ``async with``.
    """

    def __init__(self, address: str) -> None:
        self._host, _, self._port = address.rpartition(":")
        self.address = ""
        """The address that the worker connects to."""
        self.to_coordinator, self.to_worker = asyncio.Event(), asyncio.Event()
        self._tasks: set[asyncio.Task[object]] = set()
        self._server: asyncio.Server

    async def __aenter__(self) -> Self:
        self.mend()
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        host, port = self._server.sockets[0].getsockname()
        self.address = f"{host}:{port}"
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    def cut(self, *directions: asyncio.Event) -> None:
        """Stop passing data in these directions, or in both."""
        for direction in directions or (self.to_coordinator, self.to_worker):
            direction.clear()

    def mend(self) -> None:
        """Pass data again, including the data that was held back."""
        self.to_coordinator.set()
        self.to_worker.set()

    def replace(self) -> None:
        """Pass data on new connections; the old ones stay cut."""
        self.to_coordinator, self.to_worker = asyncio.Event(), asyncio.Event()
        self.mend()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        outward, inward = self.to_coordinator, self.to_worker
        async with _closing(writer):
            await outward.wait()
            beyond, there = await asyncio.open_connection(self._host, int(self._port))
            async with _closing(there):
                await asyncio.gather(
                    _pass_on(reader, there, outward), _pass_on(beyond, writer, inward)
                )


@asynccontextmanager
async def _closing(writer: asyncio.StreamWriter) -> AsyncIterator[None]:
    """Close a connection on exit, and ignore its loss."""
    with suppress(OSError):
        try:
            yield
        finally:
            writer.transport.abort()
            with suppress(asyncio.CancelledError):
                await writer.wait_closed()


async def _pass_on(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, is_whole: asyncio.Event
) -> None:
    while data := await reader.read(65_536):
        await is_whole.wait()
        writer.write(data)
        await writer.drain()
    await is_whole.wait()
    writer.write_eof()
