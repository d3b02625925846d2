"""Starts the processes of a cluster as children of this one, and stops them.

Theory of operation
-------------------
A child gets this process's environment, and in it the cluster token, the hash seed
(``hash_seed.py``) and the whole configuration. It is a child from its start until
``stop`` has waited for it: SIGTERM, after ``stop_timeout_ms`` SIGKILL. If this process is itself
killed, ``parent_watch.py`` ends the children. What user code has started in a worker ends with the
worker, in each of these cases (``keeper.py``).

A child imports its own modules before it searches a directory of the program: a file of the user
called ``attr.py`` must not take the place of the library. So ``-P`` keeps the working directory out
of the child's ``sys.path``, and what only the program's path has goes to the end. Once a worker has
imported its modules it takes the program's path as it is, because its jobs import what the program
imports. The coordinator runs no user code and keeps its own. A worker gets those options of this
interpreter that change what a program does, as ``-O`` and ``-W``; the filters that the program has
set since come with its jobs.

The launcher does not look after what it has started: that is ``watcher.py``.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from operator import attrgetter
from pathlib import Path
from types import MappingProxyType

from flinknet.cluster.control.credentials import TOKEN_VARIABLE
from flinknet.cluster.control.hash_seed import SEED_VARIABLE
from flinknet.cluster.local.child_process import ChildProcess
from flinknet.cluster.local.process_output import COORDINATOR, OnOutput, OnPrinted, print_printed
from flinknet.compiled_modules import PURE_VARIABLE
from flinknet.config import FlinknetConfig
from flinknet.config.loading import VARIABLE_PREFIX, options

__all__ = ["Launcher", "finish_stopping"]

_START = """\
import importlib, json, sys
home, takes_path, *path = json.loads(sys.argv.pop(2))
own = sys.path if home in sys.path else [home, *sys.path]
sys.path[:] = [*own, *(place for place in path if place not in own)]
main = importlib.import_module(sys.argv.pop(1) + ".__main__").main
if takes_path:
    sys.path[:] = path
sys.exit(main())
"""
"""The program of a child. Its arguments are the package of the process, and a list in JSON: the
place of flinknet, whether the child takes the program's path, and that path."""

_HOME = str(Path(__file__).parents[3])
"""The place of the package: a directory, or an archive."""


class Launcher:
    """The child processes of one cluster. ``stop`` must be awaited in the end."""

    def __init__(
        self,
        config: FlinknetConfig,
        token: str,
        on_output: OnOutput,
        on_printed: OnPrinted = print_printed,
    ) -> None:
        """``on_output`` hears what the children say on standard error, ``on_printed`` what workers
        print on standard output."""
        self._config = config
        self._token = token
        self._on_output = on_output
        self._on_printed = on_printed
        self._state_directory: Path | None = None
        self._children: dict[str, ChildProcess] = {}
        self._places: dict[str, tuple[int, int]] = {}
        """Of each worker its number, and how many were there with that number before it."""

    def pids(self) -> dict[str, int]:
        """The process id of each child, by name."""
        return {name: child.pid for name, child in self._children.items()}

    def keep_jobs_in(self, directory: Path) -> None:
        """Have the coordinator keep its jobs there, for as long as this process lives."""
        self._state_directory = directory

    async def start_coordinator(
        self, on_event: Callable[[str], None], port: int | None = None
    ) -> ChildProcess:
        """Start a coordinator; ``on_event`` gets what it tells its launcher, line by line."""
        variables = {}
        if port is not None:
            variables[options()["cluster.coordinator_port"].variable] = str(port)
        arguments = []
        if self._state_directory is not None:
            variables[options()["cluster.state_directory"].variable] = str(self._state_directory)
            arguments.append("--remove-state")
        return await self._start(
            COORDINATOR,
            "flinknet.cluster.coordinator",
            *arguments,
            on_printed=on_event,
            variables=variables,
        )

    async def replace_coordinator(self, on_event: Callable[[str], None], port: int) -> ChildProcess:
        """Start a coordinator in the place of one that has died."""
        await self._children[COORDINATOR].stop(0.0)
        return await self.start_coordinator(on_event, port)

    async def start_worker(self, number: int, coordinator: str) -> ChildProcess:
        """Start a worker that is to join the coordinator at ``"host:port"``."""
        return await self._start_worker(number, 0, coordinator)

    async def replace_worker(self, lost: str, coordinator: str) -> ChildProcess:
        """Start a worker under another name in the place of a lost one, which has its ports.

        The lost one has ``cause_grace_ms`` to end by itself, because its exit status may explain
        the loss; then it is killed."""
        number, generation = self._places[lost]
        with suppress(TimeoutError):
            async with asyncio.timeout(self._config.cluster.cause_grace_ms / 1000):
                await self._children[lost].wait()
        await self._children[lost].stop(0.0)
        del self._children[lost], self._places[lost]
        return await self._start_worker(number, generation + 1, coordinator)

    async def _start_worker(self, number: int, generation: int, coordinator: str) -> ChildProcess:
        cluster = self._config.cluster
        name = f"worker-{number}.{generation}" if generation else f"worker-{number}"
        self._places[name] = number, generation
        return await self._start(
            name,
            "flinknet.cluster.worker",
            f"--coordinator={coordinator}",
            f"--worker-id={name}",
            f"--data-port={cluster.data_port and cluster.data_port + number}",
            f"--metrics-port={cluster.metrics_port and cluster.metrics_port + number}",
            on_printed=self._on_printed,
        )

    async def stop(self) -> None:
        """Stop every child, and wait for it; cancelling this leaves them to ``kill``."""
        timeout_s = self._config.cluster.stop_timeout_ms / 1000
        await asyncio.gather(*(child.stop(timeout_s) for child in self._children.values()))

    def kill(self) -> None:
        """End every child at once; a running ``stop`` returns then."""
        for child in self._children.values():
            child.kill()

    async def _start(
        self,
        name: str,
        module: str,
        *arguments: str,
        on_printed: Callable[[str], None],
        variables: Mapping[str, str] = MappingProxyType({}),
    ) -> ChildProcess:
        start = json.dumps([_HOME, name != COORDINATOR, *_import_path()])
        child = await ChildProcess.start(
            name,
            (
                sys.executable,
                "-P",
                *(() if name == COORDINATOR else _interpreter_flags()),
                *("-c", _START, module, start, "--watch-parent", *arguments),
            ),
            environment={**self._environment(), **variables},
            on_output=lambda line: self._on_output(name, line),
            on_printed=on_printed,
            is_kept=name != COORDINATOR,
        )
        self._children[name] = child
        return child

    def _environment(self) -> dict[str, str]:
        """This process's environment, with the token, the seed and the configuration."""
        inherited = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(VARIABLE_PREFIX) or name == PURE_VARIABLE
        }
        configured = {
            option.variable: option.render(attrgetter(name)(self._config))
            for name, option in options().items()
        }
        return {
            **inherited,
            **configured,
            TOKEN_VARIABLE: self._token,
            SEED_VARIABLE: str(self._config.cluster.hash_seed),
            "PYTHONUNBUFFERED": "1",
        }


async def finish_stopping(stopping: Coroutine[None, None, None], kill: Callable[[], None]) -> None:
    """Await ``stopping`` to its end, whatever comes.

    When this call is cancelled, ``kill`` makes it hurry; the cancellation goes on afterwards.
    """
    task = asyncio.ensure_future(stopping)
    cancelled = False
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            cancelled = True
            kill()
    if cancelled:
        raise asyncio.CancelledError


def _interpreter_flags() -> list[str]:
    """Options of this interpreter that change what a program does: -O, -OO, -b, -bb and -W."""
    repeated = ["-O"] * sys.flags.optimize + ["-b"] * sys.flags.bytes_warning
    return [*repeated, *(f"-W{option}" for option in sys.warnoptions)]


def _import_path() -> list[str]:
    """Return the import path, without entries that are no text, which Python ignores."""
    return [place for place in sys.path if isinstance(place, str)]
